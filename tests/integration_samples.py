"""A few texts, an encoder for them, and what runs the examples of docs/integrations.md: for tests of integrations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from segmax.vectors.documents import Document, VectorBatch

#: Two say the same, one has no word.
TEXTS = {
    "cat": "the cat sat on the mat",
    "dog": "the dog chased the cat",
    "bird": "a bird sang in the tree",
    "twin": "a bird sang in the tree",
    "empty": "",
    "größe": "eine größe über alles",
}


class WordCounts:
    """Counts words; the vocabulary grows with every batch."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    @property
    def vocabulary(self) -> list[str]:
        """The words that documents had."""
        return list(self._numbers)

    def encode_documents(self, batches: Iterable[Sequence[Document]]) -> Iterator[VectorBatch]:
        """Count the words of documents."""
        for batch in batches:
            for document in batch:
                for word in document.whole.split():
                    self._numbers.setdefault(word, len(self._numbers))
            yield VectorBatch([d.id for d in batch], self.encode_queries([d.whole for d in batch]), {})

    def encode_queries(self, batch: Sequence[str]) -> sp.csr_matrix:
        """Count the words of queries; those that no document has are left out."""
        matrix = sp.lil_matrix((len(batch), len(self._numbers)), dtype=np.float32)
        for row, text in enumerate(batch):
            for word in text.split():
                if word in self._numbers:
                    matrix[row, self._numbers[word]] += 1
        return matrix.tocsr()


def by_hand(query: str) -> list[tuple[str, float]]:
    """All of TEXTS that share a word with the query, best first, by counting."""
    asked = query.split()
    scores = {doc_id: float(sum(text.split().count(word) for word in asked)) for doc_id, text in TEXTS.items()}
    rows = list(TEXTS)
    found = [(doc_id, score) for doc_id, score in scores.items() if score > 0]
    return sorted(found, key=lambda hit: (-hit[1], rows.index(hit[0])))


def run_documented(heading: str) -> dict[str, object]:
    """Run the Python under a heading of docs/integrations.md and return its names."""
    document = (Path(__file__).resolve().parents[1] / "docs" / "integrations.md").read_text()
    section = document.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    blocks = re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL)
    assert blocks
    namespace: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, f"docs/integrations.md, {heading}", "exec"), namespace)
    return namespace
