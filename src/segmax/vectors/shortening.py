"""Queries without their lightest terms.

How heavy a term is in a query is the most that it can add to a score: its weight × the largest weight that the index
stores for it. The mass of a query is the sum of that over its terms. Searches do this in the core.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from segmax.vectors.csr import Csr
from segmax.vectors.pruning import summed_queries, usable_queries

# A share such as 0.9 is no exact binary number: without this, 9 of 10 equal terms would fall short of it.
_TOLERANCE = 1e-12


def ranks_within(indptr: NDArray[Any]) -> NDArray[np.int64]:
    """Return the number of every entry within its row.

    Examples
    --------
    >>> ranks_within(np.array([0, 2, 2, 5])).tolist()
    [0, 1, 0, 1, 2]
    """
    return np.asarray(np.arange(indptr[-1]) - np.repeat(indptr[:-1], np.diff(indptr)), dtype=np.int64)


def heaviest_terms(
    queries: Csr, ceiling: NDArray[np.float64], *, mass: float = 1.0, count: int | None = None
) -> tuple[Csr, NDArray[np.int64]]:
    """Return queries with their heaviest terms only, and how many terms each of them lost; unknown terms stay.

    Repeated terms are summed, and terms come back in ascending order. Queries that cannot be used come back as they
    are: searching reports those.

    Parameters
    ----------
    queries
        Term numbers and weights.
    ceiling
        The largest stored weight of every term.
    mass
        Keep the fewest terms that hold this share of the query's mass.
    count
        Keep at most so many; None: no limit.
    """
    if not usable_queries(queries):
        return queries, np.zeros(queries.num_rows, dtype=np.int64)
    queries = summed_queries(queries)
    row = np.repeat(np.arange(queries.num_rows), np.diff(queries.indptr))
    known = queries.indices < len(ceiling)
    most = np.zeros(len(row))
    most[known] = queries.values[known] * ceiling[queries.indices[known]]
    order = np.lexsort((~known, -most, row))
    sums = np.concatenate([np.zeros(1), np.cumsum(most[order])])
    before = sums[:-1] - np.repeat(sums[queries.indptr[:-1]], np.diff(queries.indptr))
    total = np.repeat(np.diff(sums[queries.indptr]), np.diff(queries.indptr))
    kept = np.ones(len(row), dtype=np.bool_)
    if mass < 1.0:
        kept[order] = before < (mass - _TOLERANCE) * total
    if count is not None:
        kept[order] &= ranks_within(queries.indptr) < count
    kept |= ~known
    counts = np.bincount(row[kept], minlength=queries.num_rows)
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    short = Csr(indptr, queries.indices[kept], queries.values[kept], queries.num_columns)
    return short, np.diff(queries.indptr) - counts
