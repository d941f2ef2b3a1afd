"""Synthetic queries made from documents, shaped like those that people ask.

A learned sparse query is a few words and what the model adds to them: terms that go together with these words. So a
few words are drawn from a document, heavy and rare ones first; then terms of that document which also occur in the
documents that match the words best. Numbers of terms, their weights and how rare they are come out like those of real
queries; docs/approximation.md compares them. A document cut to its heaviest terms would be far easier to search for.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from segmax.vectors.csr import Csr, kept_entries
from segmax.vectors.products import row_numbers, score_batches
from segmax.vectors.rows import ranks_within, selected_rows, slice_rows

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
    docs = sample._replace(values=sample.values.astype(np.float64))
    source = rng.permutation(np.flatnonzero(np.diff(sample.indptr)))[:count]
    chosen = selected_rows(docs, source)
    num_terms = np.diff(chosen.indptr)
    weight = chosen.values
    worth = np.log(weight) + np.log(np.maximum(rarity[chosen.indices], 1e-6))
    num_words = rng.integers(_LEAST_WORDS, _MOST_WORDS + 1, len(source))
    words = _drawn(worth, chosen.indptr, num_words, rng)
    company = _weight_in_company(docs, chosen, words, source)
    weight = np.where(words, weight, np.sqrt(company * weight))
    with np.errstate(divide="ignore"):
        worth = np.where(words, np.inf, np.log(weight) + worth - np.log(chosen.values))
    lengths = _TERMS_PER_ROOT * np.sqrt(num_terms) * np.exp(rng.normal(0.0, _LENGTH_SPREAD, len(source)))
    kept = _drawn(worth, chosen.indptr, np.maximum(1, np.rint(lengths).astype(np.int64)), rng) & (weight > 0)
    counts = np.bincount(row_numbers(chosen.indptr)[kept], minlength=len(source))
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    queries = Csr(indptr, chosen.indices[kept].astype(np.int64), weight[kept], sample.num_columns)
    return PseudoQueries(queries, source)


def _largest(values: NDArray[np.float64], indptr: NDArray[Any], counts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Mark the `counts` largest values of every row; of equal ones the first."""
    rows = row_numbers(indptr)
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
    docs: Csr, chosen: Csr, words: NDArray[np.bool_], source: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the mean weight of every entry's term in the other documents that match the words of its row best."""
    sums = [np.empty(0)]
    for first, scores in score_batches(kept_entries(chosen, words), docs):
        rows = np.arange(len(scores))
        scores[rows, source[first + rows]] = 0.0  # a document is no company to itself
        row, near = _best(scores)
        entries = slice_rows(chosen, first, first + len(scores))
        company = _sums_at(entries, row, selected_rows(docs, near))
        sums.append(company / np.maximum(1, np.bincount(row, minlength=len(scores)))[row_numbers(entries.indptr)])
    return np.concatenate(sums)


def _best(scores: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows and columns of the largest scores above 0 of every row; of equal ones the first."""
    row, column = np.nonzero(scores)
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.bincount(row, minlength=len(scores)))])
    near = _largest(scores[row, column], indptr, np.full(len(scores), _NEIGHBORS))
    return row[near], column[near]


def _sums_at(entries: Csr, row: NDArray[np.int64], docs: Csr) -> NDArray[np.float64]:
    """Return for every entry the sum of its term's weights in the documents of its row."""
    terms = row_numbers(entries.indptr) * entries.num_columns + entries.indices
    given = np.repeat(row, np.diff(docs.indptr)) * entries.num_columns + docs.indices
    at = np.minimum(np.searchsorted(terms, given), max(0, len(terms) - 1))
    wanted = np.flatnonzero(terms[at] == given) if len(terms) else at
    return np.asarray(np.bincount(at[wanted], weights=docs.values[wanted], minlength=len(terms)), dtype=np.float64)
