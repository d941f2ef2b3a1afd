"""Three small corpora and their answers, computed by plain loops: nothing of segmax but the form of one encoder.

Weights are whole numbers, so that scores are exact and many are equal.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from metadata import twin
from segmax.encoders.base import Batches, Encoder
from segmax.vectors.csr import matrix_to_csr
from segmax.vectors.documents import VectorBatch

WORDS = (
    *("copper", "noise", "tube", "diode", "wave", "guide", "filter", "phase", "crystal", "antenna", "valve", "relay"),
    *("magnet", "circuit", "signal", "voltage", "plasma", "laser", "mirror", "prism", "orbit", "radar", "silicon"),
    "quartz",
)
#: The weights of terms, by number, and with words for those that no document has.
Query = Mapping[int | str, float]
Ranking = list[tuple[Any, float]]


class Counts(Encoder):
    """Counts the words of a text, and nothing else."""

    vocabulary = WORDS

    def encode_documents(self, batches: Batches) -> Iterator[VectorBatch]:
        """Count title and text together."""
        for batch in batches:
            rows = self.encode_queries([document.whole for document in batch])
            yield VectorBatch([document.id for document in batch], matrix_to_csr(rows))

    def encode_queries(self, batch: Sequence[str]) -> sp.csr_matrix:
        """Count every word."""
        return sp.csr_matrix(np.array([counted(text) for text in batch]).reshape(len(batch), len(WORDS)))


def counted(text: str) -> list[float]:
    """How often a text has each word."""
    found = Counter(text.split())
    return [float(found[word]) for word in WORDS]


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Documents by row, the first inserted first, with what every search of them has to return."""

    name: str
    weights: list[list[float]]  #: by row, by term
    ids: list[Any]
    words: tuple[str, ...] | None = None
    titles: list[str] | None = None
    texts: list[str] | None = None
    metadata: list[dict[str, Any] | None] | None = None
    encoder: str | None = None  #: "counts" or "bm25"

    @cached_property
    def matrix(self) -> sp.csr_matrix:
        """The documents, a row each."""
        return sp.csr_matrix(np.array(self.weights))

    @property
    def num_docs(self) -> int:
        """The number of documents."""
        return len(self.ids)

    def record(self, row: int) -> dict[str, Any]:
        """A document as users write it, to be added to a collection."""
        found: dict[str, Any] = {"id": self.ids[row]}
        if self.texts is None or self.titles is None:
            return {**found, "vector": {t: weight for t, weight in enumerate(self.weights[row]) if weight}}
        found |= {"title": self.titles[row], "text": self.texts[row]}
        return found if self.metadata is None else {**found, "metadata": self.metadata[row]}

    # --- answers -----------------------------------------------------------------------------------------------------

    def score(self, row: int, query: Query) -> float:
        """The sum of products over the terms that are known."""
        own = self.weights[row]
        return sum(weight * own[t] for t, weight in query.items() if isinstance(t, int) and t < len(own))

    def matches(self, row: int, where: dict[str, Any] | None) -> bool:
        """Whether a filter matches a document."""
        return where is None or twin.matches(where, None if self.metadata is None else self.metadata[row])

    def ranked(self, query: Query, where: dict[str, Any] | None = None, least: float | None = None) -> list[int]:
        """All rows that a search may return: the highest score first, then the first row."""
        scores = {row: self.score(row, query) for row in range(self.num_docs) if self.matches(row, where)}
        kept = [row for row, score in scores.items() if score > 0 and (least is None or score >= least)]
        return sorted(kept, key=lambda row: (-scores[row], row))

    def best(
        self,
        query: Query,
        k: int = 10,
        *,
        where: dict[str, Any] | None = None,
        offset: int = 0,
        min_score: float | None = None,
    ) -> Ranking:
        """Ids and scores of what a search returns."""
        rows = self.ranked(query, where, min_score)[offset : offset + k]
        return [(self.ids[row], self.score(row, query)) for row in rows]

    def groups(
        self,
        query: Query,
        field: str,
        k: int = 10,
        size: int = 1,
        *,
        where: dict[str, Any] | None = None,
        offset: int = 0,
        min_score: float | None = None,
    ) -> list[tuple[Any, Ranking]]:
        """Values and results of what a search with groups returns."""
        assert self.metadata is not None
        found: dict[str, tuple[Any, Ranking]] = {}
        for row in self.ranked(query, where, min_score):
            value = dict(twin.paths(self.metadata[row] or {})).get(field)
            for one in dict.fromkeys(value) if isinstance(value, list) else [value]:
                if one is not None and not isinstance(one, (list, dict)):
                    group = found.setdefault(twin.named(one), (one, []))[1]
                    group.append((self.ids[row], self.score(row, query)))
        return [(value, group[:size]) for value, group in list(found.values())[offset : offset + k]]

    def count(self, where: dict[str, Any] | None) -> int:
        """How many documents a filter matches."""
        return sum(self.matches(row, where) for row in range(self.num_docs))

    def facets(self, field: str, where: dict[str, Any] | None = None) -> list[tuple[str, int]]:
        """The names of values, and how many of the documents that a filter matches have them, in their order."""
        assert self.metadata is not None
        own = [self.metadata[row] for row in range(self.num_docs) if self.matches(row, where)]
        return twin.ordered(twin.facet(own, field))

    def matched(self, row: int, query: Query) -> dict[int, float]:
        """What each term that a query and a document share adds to the score."""
        own = self.weights[row]
        return {t: weight * own[t] for t, weight in query.items() if isinstance(t, int) and t < len(own) and own[t]}


# --- the corpora -----------------------------------------------------------------------------------------------------

NUM_DOCS = 60


def _metadata(row: int) -> dict[str, Any]:
    """Fields of every type; some are missing in some documents, and one is null in some."""
    found: dict[str, Any] = {"year": 1950 + row % 12, "lang": ["en", "de", "fr", "en"][row % 4]}
    if row % 3:
        found["tags"] = list(WORDS[row % 3 : row % 5 + 2])
    if row % 5:
        found["author"] = {"name": f"A{row % 7}", "age": 20 + row % 30}
    if row % 7 == 2:
        found["more"] = {"note": None}  # beside an id, null means that there is no such field
    elif row % 7 == 3:
        found["more"] = {"note": "seen"}
    return found | {"price": row % 9 / 4, "sold": row % 2 == 0}


def _docs() -> Corpus:
    """Texts whose words are counted, with metadata and ids that are strings, some of them odd."""
    rng = np.random.default_rng(11)
    share = 1 / np.arange(2, len(WORDS) + 2)
    words = [list(rng.choice(WORDS, size, p=share / share.sum())) for size in rng.integers(1, 9, NUM_DOCS)]
    words[4], words[9] = [], ["copper"] * 9
    words[21] = words[33] = words[0]  # the same scores
    texts, titles = [" ".join(map(str, own)) for own in words], [f"On {WORDS[row % 5]}" for row in range(NUM_DOCS)]
    titles[4] = ""
    ids = [f"d{row}" for row in range(NUM_DOCS)]
    ids[5], ids[12], ids[27], ids[40] = "a b/c?d", "ü", "0", "d 40%"
    return Corpus(
        name="docs",
        weights=[counted(f"{title} {text}") for title, text in zip(titles, texts, strict=True)],
        ids=ids,
        words=WORDS,
        titles=titles,
        texts=texts,
        metadata=[_metadata(row) for row in range(NUM_DOCS)],
        encoder="counts",
    )


def _numbers() -> Corpus:
    """Vectors of up to 255, and ids that are numbers: 0 is not in row 0, some are negative. Nothing else is stored."""
    rng = np.random.default_rng(12)
    weights = rng.integers(1, 256, (NUM_DOCS, 20)) * (rng.random((NUM_DOCS, 20)) < 0.3)
    weights[10:20, :4] = [7, 0, 3, 0]  # ties
    weights[:, 19] = 0
    weights[30, 19] = 255
    ids = (rng.permutation(NUM_DOCS) * 5 - 20).tolist()
    assert 0 in ids[1:]
    return Corpus("numbers", weights.astype(float).tolist(), ids)


K1 = 1.5  # of BM25, as segmax.encoders.BM25 has it; all texts have one length, so b has no effect


def _papers() -> Corpus:
    """Texts of eight words each, under BM25 by its formula."""
    rng = np.random.default_rng(13)
    words = [[str(word) for word in rng.choice(WORDS[:18], 8)] for _ in range(40)]
    counts = np.array([counted(" ".join(own)) for own in words])
    document_counts = (counts > 0).sum(axis=0)
    rarity = [math.log(1 + (len(words) - df + 0.5) / (df + 0.5)) for df in document_counts.tolist()]
    weights = [[r * tf / (K1 + tf) for r, tf in zip(rarity, own, strict=True)] for own in counts.tolist()]
    return Corpus(
        name="papers",
        weights=weights,
        ids=[f"p{row}" for row in range(len(words))],
        words=WORDS,
        titles=[""] * len(words),
        texts=[" ".join(own) for own in words],
        metadata=[{"n": row % 4} for row in range(len(words))],
        encoder="bm25",
    )


CORPORA = {made.name: made for made in (_docs(), _numbers(), _papers())}
