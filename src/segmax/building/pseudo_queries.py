"""Synthetic queries made from documents, shaped like those that people ask.

A learned sparse query is a few words and what the model adds to them: terms that go together with these words. So a
few words are drawn from a document, heavy and rare ones first; then terms of that document which also occur in the
documents that match the words best. Numbers of terms, their weights and how rare they are come out like those of real
queries; docs/approximation.md compares them. A document cut to its heaviest terms would be far easier to search for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from segmax.vectors.csr import Csr
from segmax.vectors.rows import ranks_within

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    from segmax.base.optional import scipy_sparse as sp

_LEAST_WORDS, _MOST_WORDS = 2, 5
_NEIGHBORS = 16  # documents from which companions of the words are taken
_TERMS_PER_ROOT = 1.75  # a document of n terms gives a query of about so many times √n: 24 for 190
_LENGTH_SPREAD = 0.25  # standard deviation of the logarithm of that


class PseudoQueries(NamedTuple):
    """Queries, and the place in the sample of the document that each was made of."""

    queries: Csr
    source: NDArray[np.int64]


def pseudo_queries(sample: Csr, rarity: NDArray[np.float64], count: int, seed: int) -> PseudoQueries:
    """Make queries from some documents of a sample.

    Parameters
    ----------
    sample
        Documents with their weights, terms ascending.
    rarity
        Per term log(documents / document frequency), in the whole collection.
    count
        How many queries; fewer where the sample has fewer documents with terms.
    seed
        The same seed gives the same queries.
    """
    rng = np.random.default_rng(seed)
    shape = (sample.num_rows, sample.num_columns)
    docs = sp.csr_matrix((sample.values.astype(np.float64), sample.indices, sample.indptr), shape=shape)
    source = rng.permutation(np.flatnonzero(np.diff(sample.indptr)))[:count]
    chosen = docs[source]
    num_terms = np.diff(chosen.indptr)
    weight = chosen.data
    worth = np.log(weight) + np.log(np.maximum(rarity[chosen.indices], 1e-6))
    num_words = rng.integers(_LEAST_WORDS, _MOST_WORDS + 1, len(source))
    words = _drawn(worth, chosen.indptr, num_words, rng)
    company = _weight_in_company(docs, chosen, words, source)
    weight = np.where(words, weight, np.sqrt(company * weight))
    with np.errstate(divide="ignore"):
        worth = np.where(words, np.inf, np.log(weight) + worth - np.log(chosen.data))
    lengths = _TERMS_PER_ROOT * np.sqrt(num_terms) * np.exp(rng.normal(0.0, _LENGTH_SPREAD, len(source)))
    kept = _drawn(worth, chosen.indptr, np.maximum(1, np.rint(lengths).astype(np.int64)), rng) & (weight > 0)
    counts = np.bincount(_rows(chosen.indptr)[kept], minlength=len(source))
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    queries = Csr(indptr, chosen.indices[kept].astype(np.int64), weight[kept], sample.num_columns)
    return PseudoQueries(queries, source)


def _rows(indptr: NDArray[Any]) -> NDArray[np.int64]:
    return np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))


def _largest(values: NDArray[np.float64], indptr: NDArray[Any], counts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Mark the `counts` largest values of every row; of equal ones the first."""
    rows = _rows(indptr)
    order = np.lexsort((-values, rows))
    marked = np.zeros(len(values), dtype=np.bool_)
    marked[order] = ranks_within(indptr) < counts[rows]
    return marked


def _drawn(
    log_chance: NDArray[np.float64], indptr: NDArray[Any], counts: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Draw entries of every row without replacement, with given log probabilities (Gumbel's trick)."""
    return _largest(log_chance + rng.gumbel(size=len(log_chance)), indptr, counts)


def _weight_in_company(
    docs: sp.csr_matrix, chosen: sp.csr_matrix, words: NDArray[np.bool_], source: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the mean weight of every entry's term in the other documents that match the words of its row best."""
    asked = chosen.copy()
    asked.data = np.where(words, chosen.data, 0.0)
    asked.eliminate_zeros()
    scores = sp.csr_matrix(asked @ docs.T)
    scores.sort_indices()
    scores.data[scores.indices == source[_rows(scores.indptr)]] = 0.0
    counts = np.full(len(source), _NEIGHBORS)
    near = _largest(scores.data, scores.indptr, counts) & (scores.data > 0)
    scores.data = near.astype(np.float64)
    scores.eliminate_zeros()
    sums = sp.csr_matrix(scores @ docs)
    sums.sort_indices()
    columns = chosen.shape[1]
    entries = _rows(chosen.indptr) * columns + chosen.indices
    found = _rows(sums.indptr) * columns + sums.indices
    at = np.minimum(np.searchsorted(found, entries), max(0, len(found) - 1))
    company = np.where(found[at] == entries, sums.data[at], 0.0) if len(found) else np.zeros(len(entries))
    return np.asarray(company / np.maximum(1, np.diff(scores.indptr))[_rows(chosen.indptr)])
