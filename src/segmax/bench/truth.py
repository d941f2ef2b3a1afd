"""Exact results by float scores of the raw vectors, and recall against them that treats ties fairly."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from segmax.search.methods import Exhaustive
from segmax.search.protocol import Searchable

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    from segmax.base.optional import scipy_sparse as sp

#: Scores that differ by a smaller share count as equal, because floats are summed in different orders.
TOLERANCE = 1e-9
#: How many results beyond the k-th may tie with it in an index whose vectors are not at hand.
_TIES = 1000


def best_rows(scores: NDArray[np.float64], ks: Sequence[int]) -> tuple[NDArray[np.int64], list[int]]:
    """Return the rows that are right, best first, and how many of them are right for each k.

    A row is right if its score is above 0 and at least the k-th best, so any of several equal scores counts.
    """
    largest = min(max(ks), len(scores))
    rows = np.flatnonzero(scores >= _least(np.partition(scores, -largest)[-largest]))
    rows = rows[np.argsort(-scores[rows], kind="stable")]
    ordered = scores[rows]
    return rows, [int(np.count_nonzero(ordered >= _least(ordered[k - 1]))) if k < len(rows) else len(rows) for k in ks]


def _least(score: float) -> float:
    return max(score * (1 - TOLERANCE), float(np.nextafter(0.0, 1.0)))


class Truth:
    """The right rows of all queries for several k."""

    def __init__(self, num_docs: int, ks: Sequence[int], rows: list[NDArray[Any]], ends: NDArray[Any]) -> None:
        self.num_docs = num_docs
        self.ks = tuple(ks)
        self._rows = rows
        self._ends = ends  # (queries, ks): how many of a query's first rows are right

    @classmethod
    def of(cls, docs: sp.csr_matrix, queries: sp.csr_matrix, ks: Sequence[int]) -> Self:
        """Score every document for every query."""
        columns = sp.csc_matrix(docs)
        found = []
        for query in queries:
            lists = columns[:, query.indices].astype(np.float64)
            found.append(best_rows(np.asarray(lists @ query.data.astype(np.float64)), ks))
        rows = [right.astype(np.int32) for right, _ in found]
        return cls(docs.shape[0], ks, rows, np.array([ends for _, ends in found]).reshape(-1, len(ks)))

    @classmethod
    def of_index(cls, index: Searchable, queries: sp.csr_matrix, ks: Sequence[int]) -> Self:
        """Search an index exhaustively, for results that tie with the last ones as well."""
        depth = min(index.num_docs, max(ks) + _TIES)
        found = []
        for query in queries:
            hits = index.search(query, depth, Exhaustive())
            ends = [int(np.count_nonzero(hits.scores >= hits.scores[min(k, len(hits)) - 1])) for k in ks if len(hits)]
            found.append((hits.rows.astype(np.int32), ends or [0] * len(ks)))
        return cls(
            index.num_docs, ks, [rows for rows, _ in found], np.array([e for _, e in found]).reshape(-1, len(ks))
        )

    def wanted(self, k: int) -> NDArray[np.int64]:
        """Return how many results each query should have: k, or fewer if fewer documents have a score."""
        ends: NDArray[np.int64] = self._ends[:, self.ks.index(k)]
        return np.minimum(ends, k)

    def missed(self, k: int, numbers: Sequence[int], found: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
        """Return how many of the right results were not found, for the queries of these numbers."""
        column, wanted = self.ks.index(k), self.wanted(k)
        right = np.zeros(self.num_docs, dtype=bool)
        result = np.zeros(len(numbers), dtype=np.int64)
        for i, (number, rows) in enumerate(zip(numbers, found, strict=True)):
            best = self._rows[number][: self._ends[number, column]]
            right[best] = True
            hits = int(np.count_nonzero(right[np.unique(rows)]))
            right[best] = False
            result[i] = wanted[number] - min(hits, wanted[number])
        return result

    def save(self, path: Path) -> None:
        """Write to an .npz file."""
        starts = np.cumsum([0] + [len(rows) for rows in self._rows])
        np.savez(
            path, num_docs=self.num_docs, ks=self.ks, starts=starts, rows=np.concatenate(self._rows), ends=self._ends
        )

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote."""
        with np.load(path) as file:
            rows = np.split(file["rows"], file["starts"][1:-1])
            return cls(int(file["num_docs"]), [int(k) for k in file["ks"]], rows, file["ends"])
