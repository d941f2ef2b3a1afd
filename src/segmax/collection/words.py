"""BM25 in a collection: words are counted when a document comes, and how rare they are is found when a query does.

A document keeps its counts and its length. Its weights are the part of BM25 that depends on the document alone, by the
mean length of documents when it came; compacting a collection makes them anew by today's mean. The other part, how rare
a word is, multiplies the weights of a query, by statistics of the documents that are alive at that moment.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from segmax.collection.changes import Change
from segmax.collection.lattice import Lattice
from segmax.collection.state import State, View
from segmax.encoders.bm25 import BM25
from segmax.encoders.bm25_weights import TERM_FACTORS, WORD_FACTORS
from segmax.vectors.csr import Csr
from segmax.vectors.rows import selected_rows

_LEVELS = 2**8 - 1  # of a code


class WordWeights:
    """Weights of words by BM25, for the documents and the queries of a collection."""

    def __init__(self, bm25: BM25) -> None:
        self.bm25 = bm25

    def first_lattice(self) -> Lattice:
        """Return the lattice of weights by BM25, which have a largest value, so that nothing depends on documents."""
        largest = self.bm25.k1 + 1.0 if self.bm25.method in ("atire", "bm25l", "bm25+") else 1.0
        return Lattice(kind="real", step=largest / _LEVELS, provisional=False, top=_LEVELS)

    def weigh(self, change: Change) -> Csr:
        """Return the weights of documents that come as counts; those that keep their weights have them."""
        made = self.weights(change.vectors, change.mean_length)
        return (
            made if change.kept is None else made._replace(values=np.where(change.kept > 0, change.kept, made.values))
        )

    def weights(self, counts: Csr, mean_length: float) -> Csr:
        """Return the part of BM25 that depends on the document, from counts of words."""
        lengths = lengths_of(counts)
        mean = mean_length if mean_length > 0 else 1.0
        norm = np.repeat(1 - self.bm25.b + self.bm25.b * lengths / mean, np.diff(counts.indptr))
        factor = TERM_FACTORS[self.bm25.method](counts.values.astype(np.float64), norm, self.bm25.k1, self.bm25.delta)
        return counts._replace(values=factor)

    def rarity(self, state: State, terms: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the part of BM25 that depends on the word, by the living documents; 0 for a word that none has."""
        frequencies = sum((_frequencies(view, terms) for view in state.views), np.zeros(len(terms), np.int64))
        with np.errstate(divide="ignore"):
            factor = WORD_FACTORS[self.bm25.method](frequencies.astype(np.float64), state.num_docs)
        return np.where(frequencies > 0, factor, 0.0)


def lengths_of(counts: Csr) -> NDArray[np.float64]:
    """Return the number of words of every document."""
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts.values, dtype=np.int64)])
    return np.diff(before[counts.indptr]).astype(np.float64)


def num_words(state: State) -> int:
    """Return the number of words of all living documents."""
    return sum(_living(view).num_words for view in state.views)


class _Living(NamedTuple):
    """What a view has of words, by its living documents."""

    num_words: int
    dead: NDArray[np.int64]  #: by term: how many dead documents have it


def _living(view: View) -> _Living:
    """Return the statistics of a view, made once."""
    found: _Living | None = view.__dict__.get("_living")
    if found is None:
        counts = view.part.counts
        assert counts is not None
        if view.alive is None:
            found = _Living(int(counts.values.sum()), np.zeros(0, np.int64))
        else:
            dead = selected_rows(counts, np.flatnonzero(~view.alive))
            total = int(counts.values.sum()) - int(dead.values.sum())
            found = _Living(total, np.bincount(dead.indices, minlength=counts.num_columns))
        view.__dict__["_living"] = found
    return found


def _frequencies(view: View, terms: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many living documents of a view have each term."""
    found = view.part.engine.frequencies(terms)
    dead = _living(view).dead
    if len(dead):
        known = terms < len(dead)
        found[known] -= dead[terms[known]]
    return found
