"""What a search returns."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from segmax.display import counted, plain_number
from segmax.tables import DocIds
from segmax.textstore import StoredText

DocId = int | str


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchStats:
    """What one query cost. The fields are those of the core, in its order.

    `clusters_visited`, `_pruned` (by μ and η), `_tied` (bound equal to θ, all rows behind the k-th result),
    `_stopped` (the search ended before them), `_limited` (left out by the budget, max_clusters or max_blocks) and
    `_zero` (no query term) add up to the number of clusters.
    """

    clusters_visited: int
    clusters_pruned: int
    clusters_tied: int
    clusters_stopped: int
    clusters_limited: int
    clusters_zero: int
    segments_read: int
    blocks_scored: int
    docs_scored: int
    postings_read: int
    unknown_terms: int
    dropped_terms: int
    budget_hit: bool
    swept: bool
    elapsed_ns: int

    @classmethod
    def from_row(cls, row: NDArray[np.uint64]) -> SearchStats:
        """Read one row of the core's table."""
        values: dict[str, Any] = {
            field.name: value for field, value in zip(dataclasses.fields(cls), row.tolist(), strict=True)
        }
        values["budget_hit"] = bool(values["budget_hit"])
        values["swept"] = bool(values["swept"])
        return cls(**values)


STATS_FIELDS: tuple[str, ...] = tuple(field.name for field in dataclasses.fields(SearchStats))


class Hit(NamedTuple):
    """One result."""

    doc_id: DocId
    score: float


class TraceEntry(NamedTuple):
    """One decision about a cluster. Bounds and θ are in the scale of the scores; nan where they were not needed."""

    cluster: int
    decision: str
    bound_sum: float
    max_bound: float
    avg_bound: float
    threshold: float


class Hits(Sequence[Hit]):
    """The results of one query, best first: `ids`, `scores`, `rows`, `texts`, `stats`, and `trace` if asked for."""

    def __init__(
        self,
        rows: NDArray[np.int64],
        scores: NDArray[np.float64],
        stats_row: NDArray[np.uint64],
        docs: DocIds,
        trace: list[TraceEntry] | None = None,
    ) -> None:
        self.rows = rows
        self.scores = scores
        self.trace = trace
        self._stats_row = stats_row
        self._docs = docs

    @cached_property
    def stats(self) -> SearchStats:
        """What the search cost, read from the core's table on first use."""
        return SearchStats.from_row(self._stats_row)

    @cached_property
    def ids(self) -> list[DocId]:
        """The ids, looked up on first use."""
        return [self._docs.id_of(int(row)) for row in self.rows]

    @property
    def has_texts(self) -> bool:
        """Whether the index keeps the texts of documents."""
        return self._docs.stored is not None

    @cached_property
    def texts(self) -> list[StoredText]:
        """The titles and texts, where the index keeps them, looked up on first use."""
        return [self._docs.text_of(int(row)) for row in self.rows]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return Hit(self._docs.id_of(int(self.rows[index])), float(self.scores[index]))

    def __iter__(self) -> Iterator[Hit]:
        return (Hit(doc_id, float(score)) for doc_id, score in zip(self.ids, self.scores, strict=True))

    def __repr__(self) -> str:
        best = f", best {self[0].doc_id!r} at {plain_number(self[0].score)}" if len(self) else ""
        return f"Hits({len(self)}{best})"


class BatchStats:
    """Statistics of many queries: one array per field of `SearchStats`; an item is one query's `SearchStats`."""

    clusters_visited: NDArray[np.uint64]
    clusters_pruned: NDArray[np.uint64]
    clusters_tied: NDArray[np.uint64]
    clusters_stopped: NDArray[np.uint64]
    clusters_limited: NDArray[np.uint64]
    clusters_zero: NDArray[np.uint64]
    segments_read: NDArray[np.uint64]
    blocks_scored: NDArray[np.uint64]
    docs_scored: NDArray[np.uint64]
    postings_read: NDArray[np.uint64]
    unknown_terms: NDArray[np.uint64]
    dropped_terms: NDArray[np.uint64]
    budget_hit: NDArray[np.uint64]
    swept: NDArray[np.uint64]
    elapsed_ns: NDArray[np.uint64]

    def __init__(self, table: NDArray[np.uint64]) -> None:
        self._table = table
        for column, name in enumerate(STATS_FIELDS):
            setattr(self, name, table[:, column])

    def __len__(self) -> int:
        return len(self._table)

    def row(self, query: int) -> NDArray[np.uint64]:
        """Return one query's row of the core's table."""
        return np.asarray(self._table[query])

    def __getitem__(self, query: int) -> SearchStats:
        return SearchStats.from_row(self._table[query])


class BatchHits(Sequence[Hits]):
    """The results of many queries as arrays of shape (queries, k), padded with row -1 and score 0.

    `counts` tells how many of each row are results. An item is one query's `Hits`.
    """

    def __init__(
        self,
        rows: NDArray[np.int64],
        scores: NDArray[np.float64],
        counts: NDArray[np.int64],
        stats: BatchStats,
        docs: DocIds,
    ) -> None:
        self.rows = rows
        self.scores = scores
        self.counts = counts
        self.stats = stats
        self._docs = docs

    @cached_property
    def ids(self) -> list[list[DocId]]:
        """The ids of every query's results, looked up on first use; not padded."""
        return [hits.ids for hits in self]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        count = int(self.counts[index])
        stats_row = self.stats.row(index)
        return Hits(self.rows[index, :count], self.scores[index, :count], stats_row, self._docs)

    def __repr__(self) -> str:
        return f"BatchHits({counted(len(self), 'query', 'queries')}, k={self.rows.shape[1]})"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClusterBounds:
    """The paper's bounds of every cluster for one query, and the best score that is really there."""

    bound_sum: NDArray[np.float64]
    max_bound: NDArray[np.float64]
    avg_bound: NDArray[np.float64]
    best_score: NDArray[np.float64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Explanation:
    """Why a document was or was not returned; `str()` says it in a sentence.

    `threshold` is θ when the decision about the document fell, `final_threshold` θ at the end.
    """

    doc_id: DocId
    score: float
    rank: int | None
    cluster: int
    bound_sum: float
    max_bound: float
    avg_bound: float
    decision: str
    threshold: float
    final_threshold: float
    reason: str

    def __str__(self) -> str:
        return self.reason
