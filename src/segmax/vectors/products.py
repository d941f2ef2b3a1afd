"""Products of sparse rows without scipy, for samples of a collection. Sums are taken in the order of terms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segmax.vectors.csr import Csr, kept_entries
from segmax.vectors.rows import selected_rows, slice_rows, stable_order

_QUERY_BATCH = 128


def row_numbers(indptr: NDArray[Any]) -> NDArray[np.int64]:
    """Return the row of every entry.

    Examples
    --------
    >>> row_numbers(np.array([0, 2, 2, 3])).tolist()
    [0, 0, 2]
    """
    return np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))


def transposed(docs: Csr) -> Csr:
    """Return the columns as rows, in which row numbers ascend.

    Examples
    --------
    >>> docs = Csr(np.array([0, 2, 3]), np.array([0, 1, 0]), np.array([5.0, 6.0, 7.0]), 2)
    >>> columns = transposed(docs)
    >>> columns.indptr.tolist(), columns.indices.tolist(), columns.values.tolist()
    ([0, 2, 3], [0, 1, 0], [5.0, 7.0, 6.0])
    """
    order = stable_order(docs.indices)
    lengths = np.bincount(docs.indices, minlength=docs.num_columns)
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    return Csr(indptr, row_numbers(docs.indptr)[order], docs.values[order], docs.num_rows)


def score_batches(queries: Csr, docs: Csr) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """Yield the scores of all documents for some queries at a time, with the number of the first of these.

    Parameters
    ----------
    queries
        What is searched for.
    docs
        A sample that is small enough for a score of each of its documents, times a batch of queries, in memory.
    """
    asked = np.zeros(docs.num_columns, dtype=np.bool_)
    asked[queries.indices] = True
    postings = transposed(kept_entries(docs, asked[docs.indices]))
    for first in range(0, queries.num_rows, _QUERY_BATCH):
        some = slice_rows(queries, first, min(first + _QUERY_BATCH, queries.num_rows))
        matches = selected_rows(postings, some.indices.astype(np.int64))
        lengths = np.diff(matches.indptr)
        weights = np.repeat(some.values, lengths) * matches.values
        cells = np.repeat(row_numbers(some.indptr), lengths) * docs.num_rows + matches.indices
        scores: NDArray[Any] = np.bincount(cells, weights=weights, minlength=some.num_rows * docs.num_rows)
        yield first, scores.reshape(some.num_rows, docs.num_rows)
