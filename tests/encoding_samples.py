"""Documents to encode, an encoder without torch, and what a file of vectors holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from segmax.encoders.chunks import regrouped
from segmax.io import open_vectors
from segmax.vectors.documents import Document, VectorBatch

SYLLABLES = ("ka", "to", "mi", "ru", "sen", "lo", "pa", "ni")


def documents(count: int) -> list[Document]:
    """Documents of a few words, some empty, with awkward ids."""
    rng = np.random.default_rng(11)
    made = []
    for number in range(count):
        words = ["".join(rng.choice(SYLLABLES, 3)) for _ in range(number % 9)]
        made.append(Document(f"dök\u2028{number}", f"title{number % 3}" if number % 2 else "", " ".join(words)))
    return made


class Lengths:
    """A model without torch: lengths of title and text, and dense vectors. Stops after some documents if asked to."""

    vocabulary = ("title", "text", "always")

    def __init__(self, option: int = 1, fail_after: int | None = None) -> None:
        self._option = option
        self._fail_after = fail_after
        self.num_encoded = 0

    def to_dict(self) -> dict[str, Any]:
        return {"encoder": "lengths", "option": self._option}

    def encode_documents(self, batches: Iterable[Sequence[Document]]) -> Iterator[VectorBatch]:
        for batch in regrouped(batches, 10):
            if self._fail_after is not None and self.num_encoded >= self._fail_after:
                raise KeyboardInterrupt
            rows = np.array([(len(doc.title), len(doc.text), 1) for doc in batch], dtype=np.float32)
            yield VectorBatch([doc.id for doc in batch], sp.csr_matrix(rows), {"max": rows[:, :2] + 0.5})
            self.num_encoded += len(batch)

    def encode_queries(self, batch: Sequence[str]) -> sp.csr_matrix:
        return sp.csr_matrix([(0, len(text), 2) for text in batch], dtype=np.float32)


def interrupted(docs: list[Document], after: int) -> Iterator[Document]:
    """Documents, and Ctrl-C after some of them."""
    yield from docs[:after]
    raise KeyboardInterrupt


class Stored(NamedTuple):
    """What a file holds."""

    ids: list[str]
    terms: list[str]
    vectors: sp.csr_matrix


def stored(path: Path) -> Stored:
    """Read a file of vectors."""
    reader = open_vectors(path)
    ids = [doc_id for batch in reader.batches() for doc_id in batch.ids]
    assert reader.terms is not None
    return Stored(ids, list(reader.terms), sp.csr_matrix(sp.load_npz(path)))


def assert_same(first: Path, second: Path) -> None:
    """Two files hold the same, to the last bit."""
    one, other = stored(first), stored(second)
    assert one.ids == other.ids
    assert one.terms == other.terms
    assert one.vectors.shape == other.vectors.shape
    assert (one.vectors.indptr == other.vectors.indptr).all()
    assert (one.vectors.indices == other.vectors.indices).all()
    assert (one.vectors.data == other.vectors.data).all()
