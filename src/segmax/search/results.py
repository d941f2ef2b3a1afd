"""What a search returns."""

from __future__ import annotations

import dataclasses
import html
import operator
import textwrap
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol, SupportsIndex, overload

import numpy as np
from numpy.typing import NDArray

from segmax import _core
from segmax.base.breaks import with_breaks
from segmax.base.checks import shown
from segmax.base.display import counted, plain_number, short_number
from segmax.base.optional import need
from segmax.metadata import Scalar
from segmax.storage.texts import StoredText

DocId = int | str

_MOST_CELL = 200  # characters of a text in a table
_MOST_ROWS = 100  # of a table of many queries in a notebook; `to_pandas` has them all
_MOST_TERMS = 10  # that an explanation prints

_Columns = dict[str, Sequence[Any] | NDArray[Any]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchStats:
    """What one query cost. The fields are those of the core.

    `clusters_visited`, `_pruned` (by μ and η), `_tied` (bound equal to θ, all rows behind the k-th result),
    `_stopped` (nothing in them could follow, or the search ended before them), `_limited` (left out by a budget,
    `max_blocks` or `max_clusters`) and `_zero` (no query term) add up to the number of clusters. `segmax.ASC` visits a
    cluster by looking at one of its blocks, and counts no cluster as tied or zero.

    Examples
    --------
    >>> import scipy.sparse as sp, segmax
    >>> index = segmax.build(sp.csr_matrix([[1, 2], [3, 0]]))
    >>> index.search({0: 1.0, 7: 1.0}).stats.unknown_terms
    1
    """

    clusters_visited: int
    clusters_pruned: int
    clusters_tied: int
    clusters_stopped: int
    clusters_limited: int
    clusters_zero: int
    segments_read: int
    lines_read: int
    entries_read: int
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
        values: dict[str, Any] = dict(zip(STATS_FIELDS, row.tolist(), strict=True))
        values["budget_hit"] = bool(values["budget_hit"])
        values["swept"] = bool(values["swept"])
        return cls(**values)


#: The columns of the core's table of statistics; only the core knows their order.
STATS_FIELDS: tuple[str, ...] = tuple(_core.stats_fields())
_BUDGET_HIT = STATS_FIELDS.index("budget_hit")


class Hit(NamedTuple):
    """One result: the document's id and its score."""

    id: DocId
    score: float


class TraceEntry(NamedTuple):
    """One decision about a cluster. Bounds and θ are in the scale of the scores; nan where they were not needed."""

    cluster: int
    decision: str
    bound_sum: float
    max_bound: float
    avg_bound: float
    threshold: float


class FoundDocuments(Protocol):
    """What results look their documents up in, by row."""

    @property
    def stored(self) -> object | None:
        """Not None where texts are stored."""

    @property
    def metadata(self) -> object | None:
        """Not None where metadata are stored."""

    def id_of(self, row: int, /) -> DocId:
        """Return the id of a row."""

    def ids_of(self, rows: NDArray[np.int64], /) -> list[DocId]:
        """Return the ids of many rows."""

    def title_of(self, row: int, /) -> str:
        """Return the title of a row."""

    def text_of(self, row: int, /) -> StoredText:
        """Return the title and text of a row."""

    def metadata_of(self, row: int, /) -> dict[str, Any] | None:
        """Return the metadata of a row."""


class Hits(Sequence[Hit]):
    """The results of one query, best first: `ids`, `scores`, `rows`, `titles`, `texts`, `metadata`, `stats`.

    `trace` is there on request.

    Examples
    --------
    >>> import scipy.sparse as sp, segmax
    >>> hits = segmax.build(sp.csr_matrix([[3, 0, 2], [1, 4, 0]])).search({0: 2}, k=5)
    >>> hits.ids, hits.scores.tolist(), hits[0]
    ([0, 1], [6.0, 2.0], Hit(id=0, score=6.0))
    """

    def __init__(
        self,
        rows: NDArray[np.int64],
        scores: NDArray[np.float64],
        stats_row: NDArray[np.uint64],
        docs: FoundDocuments,
        trace: list[TraceEntry] | None = None,
        *,
        complete: bool | None = None,
    ) -> None:
        self.rows = rows
        self.scores = scores
        self.trace = trace
        self._stats_row = stats_row
        self._docs = docs
        self._complete = complete  # None: as the statistics say

    @cached_property
    def stats(self) -> SearchStats:
        """What the search cost, read from the core's table on first use."""
        return SearchStats.from_row(self._stats_row)

    @property
    def stats_row(self) -> NDArray[np.uint64]:
        """What the search cost, as the core returned it: `STATS_FIELDS` names the columns. Cheaper than `stats`."""
        return self._stats_row

    @property
    def complete(self) -> bool:
        """Whether the search ended by itself: False where a budget or a limit left something out."""
        return not self._stats_row[_BUDGET_HIT] if self._complete is None else self._complete

    @cached_property
    def ids(self) -> list[DocId]:
        """The ids, looked up on first use."""
        return self._docs.ids_of(self.rows)

    @property
    def has_texts(self) -> bool:
        """Whether the index stores the texts of documents."""
        return self._docs.stored is not None

    @cached_property
    def titles(self) -> list[str]:
        """The titles alone, if the index stores texts, looked up on first use."""
        return [self._docs.title_of(int(row)) for row in self.rows]

    @cached_property
    def texts(self) -> list[StoredText]:
        """The titles and texts, if the index stores them, looked up on first use."""
        return [self._docs.text_of(int(row)) for row in self.rows]

    @property
    def has_metadata(self) -> bool:
        """Whether the index stores metadata of documents."""
        return self._docs.metadata is not None

    @cached_property
    def metadata(self) -> list[dict[str, Any] | None]:
        """The metadata of each document, if the index stores any, looked up on first use."""
        return [self._docs.metadata_of(row) for row in with_breaks(self.rows.tolist())]

    def taken(self, places: slice | NDArray[np.int64]) -> Hits:
        """Return some of the results, by their places in the ranking, as results of the same search."""
        return Hits(
            self.rows[places], self.scores[places], self._stats_row, self._docs, self.trace, complete=self._complete
        )

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: SupportsIndex) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> list[Hit]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Hit | list[Hit]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        number = operator.index(index)
        return Hit(self._docs.id_of(int(self.rows[number])), float(self.scores[number]))

    def __iter__(self) -> Iterator[Hit]:
        return (Hit(doc_id, float(score)) for doc_id, score in zip(self.ids, self.scores, strict=True))

    def to_pandas(self) -> Any:
        """Return the results as a pandas DataFrame: rank, id, score; title, text and metadata if the index stores them.

        Raises
        ------
        MissingPackageError
            If pandas is not installed.

        Examples
        --------
        >>> index.search({"red": 2}).to_pandas()  # doctest: +SKIP
           rank id  score
        0     1  z    8.0
        1     2  x    2.0
        """
        return as_frame(self._columns())

    def _columns(self) -> _Columns:
        """Return what a table of the results shows, column by column."""
        columns: _Columns = {
            "rank": range(1, len(self) + 1),
            "id": self.ids,
            "score": self.scores,
        }
        if self.has_texts:
            columns["title"] = [stored.title for stored in self.texts]
            columns["text"] = [stored.text for stored in self.texts]
        if self.has_metadata:
            columns["metadata"] = self.metadata
        return columns

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        return _html_table(self._columns())

    def __repr__(self) -> str:
        best = f", best {self[0].id!r} at {plain_number(self[0].score)}" if len(self) else ""
        return f"Hits({len(self)}{best})"


def as_frame(columns: _Columns) -> Any:
    """Return columns as a DataFrame. pandas would take empty columns of ids and texts for numbers."""
    pd = need("pandas", "to_pandas")
    kinds = {name: object for name, values in columns.items() if isinstance(values, list) and not values}
    return pd.DataFrame(columns).astype(kinds)


def _html_table(columns: _Columns) -> str:
    """Return columns as a table in HTML. Ids and texts may hold anything, so all of it is escaped."""
    head = "".join(f"<th>{name}</th>" for name in columns)
    rows = zip(*columns.values(), strict=True)
    body = "".join(f"<tr>{''.join(map(_html_cell, row))}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _html_cell(value: object) -> str:
    """Return one cell of a table, long texts cut."""
    if isinstance(value, float):
        return f"<td>{short_number(value)}</td>"
    return f"<td>{html.escape(textwrap.shorten(str(value), _MOST_CELL, placeholder=' …'))}</td>"


class Group(NamedTuple):
    """The best documents that have one value in a field."""

    value: Scalar
    hits: Hits


class Groups(Sequence[Group]):
    """The results of one query by the value of a field, the group with the best document first.

    Examples
    --------
    >>> import scipy.sparse as sp, segmax
    >>> metadata = [{"lang": "en"}, {"lang": "de"}, {"lang": "en"}]
    >>> index = segmax.build(sp.csr_matrix([[3], [1], [2]]), metadata=metadata)
    >>> groups = index.search({0: 1}, group_by="lang", group_size=2)
    >>> [(group.value, group.hits.ids) for group in groups]
    [('en', [0, 2]), ('de', [1])]
    """

    def __init__(self, groups: Sequence[Group], *, complete: bool | None = None) -> None:
        self._groups = tuple(groups)
        self._complete = complete  # None: as the results of the groups say

    @property
    def values(self) -> list[Scalar]:
        """The value of each group."""
        return [group.value for group in self]

    @property
    def complete(self) -> bool:
        """Whether all searches ended by themselves: False where a budget or a limit left something out."""
        return all(group.hits.complete for group in self) if self._complete is None else self._complete

    def __len__(self) -> int:
        return len(self._groups)

    @overload
    def __getitem__(self, index: SupportsIndex) -> Group: ...
    @overload
    def __getitem__(self, index: slice) -> list[Group]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Group | list[Group]:
        return list(self._groups[index]) if isinstance(index, slice) else self._groups[operator.index(index)]

    def to_pandas(self) -> Any:
        """Return the results as one pandas DataFrame: `group`, the value, before the columns of `Hits.to_pandas`."""
        return as_frame(self._columns())

    def _columns(self) -> _Columns:
        each = [group.hits._columns() for group in self]
        names = list(each[0]) if each else ["rank", "id", "score"]
        values = [group.value for group in self for _ in range(len(group.hits))]
        return {"group": values, **{name: [value for one in each for value in one[name]] for name in names}}

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        return _html_table(self._columns())

    def __repr__(self) -> str:
        return f"Groups({', '.join(f'{shown(group.value)}: {len(group.hits)}' for group in self[:_MOST_TERMS])})"


class BatchStats:
    """Statistics of many queries: one array per field of `SearchStats`; an item is one query's `SearchStats`."""

    clusters_visited: NDArray[np.uint64]
    clusters_pruned: NDArray[np.uint64]
    clusters_tied: NDArray[np.uint64]
    clusters_stopped: NDArray[np.uint64]
    clusters_limited: NDArray[np.uint64]
    clusters_zero: NDArray[np.uint64]
    segments_read: NDArray[np.uint64]
    lines_read: NDArray[np.uint64]
    entries_read: NDArray[np.uint64]
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

    @property
    def table(self) -> NDArray[np.uint64]:
        """The core's table: a row per query; `STATS_FIELDS` names the columns."""
        return self._table

    def row(self, query: int) -> NDArray[np.uint64]:
        """Return one query's row of the core's table."""
        return np.asarray(self._table[query])

    def __getitem__(self, query: int) -> SearchStats:
        return SearchStats.from_row(self._table[query])


class BatchHits(Sequence[Hits]):
    """The results of many queries as arrays of shape (queries, k), padded with row -1 and score 0.

    `counts` holds the number of results in each row. An item is one query's `Hits`. If k is larger than the number of
    documents, the arrays have a column per document.

    Examples
    --------
    >>> import scipy.sparse as sp, segmax
    >>> found = segmax.build(sp.csr_matrix([[3, 0, 2], [1, 4, 0]])).search_batch([{0: 2}, {1: 1}])
    >>> found.ids, found.rows.tolist()
    ([[0, 1], [1]], [[0, 1], [1, -1]])
    """

    def __init__(
        self,
        rows: NDArray[np.int64],
        scores: NDArray[np.float64],
        counts: NDArray[np.int64],
        stats: BatchStats,
        docs: FoundDocuments,
        *,
        complete: NDArray[np.bool_] | None = None,
    ) -> None:
        self.rows = rows
        self.scores = scores
        self.counts = counts
        self.stats = stats
        self._docs = docs
        self._complete = complete  # None: as the statistics say

    @property
    def complete(self) -> NDArray[np.bool_]:
        """By query: whether its search ended by itself, not by a budget or a limit."""
        return np.asarray(self.stats.budget_hit == 0) if self._complete is None else self._complete

    @cached_property
    def ids(self) -> list[list[DocId]]:
        """The ids of every query's results, looked up on first use; not padded."""
        return [hits.ids for hits in self]

    def ids_of(self, rows: NDArray[np.int64]) -> list[DocId]:
        """Return the ids of some of the rows that were found."""
        return self._docs.ids_of(rows)

    @cached_property
    def metadata(self) -> list[list[dict[str, Any] | None]]:
        """The metadata of every query's results, looked up on first use; raise InputError if none are stored."""
        return [hits.metadata for hits in self]

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: SupportsIndex) -> Hits: ...
    @overload
    def __getitem__(self, index: slice) -> list[Hits]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Hits | list[Hits]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        number = operator.index(index)
        count = int(self.counts[number])
        stats_row = self.stats.row(number)
        complete = None if self._complete is None else bool(self._complete[number])
        return Hits(self.rows[number, :count], self.scores[number, :count], stats_row, self._docs, complete=complete)

    def narrowed(self, first: int, least: float | None) -> BatchHits:
        """Return the results of every query from a rank on, counted from 0, that have at least some score."""
        rows, scores = self.rows[:, first:].copy(), self.scores[:, first:].copy()
        counts = np.maximum(self.counts - first, 0)
        if least is not None:
            there = np.arange(rows.shape[1]) < counts[:, None]
            counts = (there & (scores >= least)).sum(axis=1)
        beyond = np.arange(rows.shape[1]) >= counts[:, None]
        rows[beyond], scores[beyond] = -1, 0.0
        return BatchHits(rows, scores, counts, self.stats, self._docs, complete=self._complete)

    def to_pandas(self) -> Any:
        """Return the results of all queries as one pandas DataFrame, a row per result.

        The columns are those of `Hits.to_pandas`, behind `query`: the number of the query, from 0. A query without
        results has no row.

        Raises
        ------
        MissingPackageError
            If pandas is not installed.

        Examples
        --------
        >>> index.search_batch([{"red": 2}, {"green": 1}]).to_pandas()  # doctest: +SKIP
           query  rank id  score
        0      0     1  z    8.0
        1      0     2  x    2.0
        2      1     1  z    1.0
        """
        return as_frame(self._columns(len(self)))

    def _columns(self, num_queries: int) -> _Columns:
        """Return what a table of the results of the first queries shows, column by column."""
        counts = self.counts[:num_queries]
        each = [hits._columns() for hits in self[:num_queries]]
        columns: _Columns = {
            "query": np.repeat(np.arange(num_queries), counts),
            "rank": _joined(each, "rank", np.int64),
            "id": [name for one in each for name in one["id"]],
            "score": _joined(each, "score", np.float64),
        }
        names = ["title", "text"] if self._docs.stored is not None else []
        names += ["metadata"] if self._docs.metadata is not None else []
        return columns | {name: [value for one in each for value in one[name]] for name in names}

    def _repr_html_(self) -> str:
        """Return a table for notebooks: the results of the first queries, and how many queries are left out."""
        num_queries = int(np.searchsorted(np.cumsum(self.counts), _MOST_ROWS, side="right"))
        num_queries = min(len(self), max(1, num_queries))
        table = _html_table(self._columns(num_queries))
        left = len(self) - num_queries
        return f"{table}<p>… and the results of {counted(left, 'more query', 'more queries')}</p>" if left else table

    def __repr__(self) -> str:
        return f"BatchHits({counted(len(self), 'query', 'queries')}, k={self.rows.shape[1]})"


def _joined(parts: Sequence[_Columns], name: str, kind: type) -> NDArray[Any]:
    """Return a column of numbers of all parts, also if there are none."""
    return np.concatenate([np.zeros(0, dtype=kind), *(np.asarray(part[name], dtype=kind) for part in parts)])


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClusterBounds:
    """The paper's bounds of every cluster for one query, and the best actual score in it.

    `max_bound` and `avg_bound` are made of segment maxima that the index stores rounded up.
    """

    bound_sum: NDArray[np.float64]
    max_bound: NDArray[np.float64]
    avg_bound: NDArray[np.float64]
    best_score: NDArray[np.float64]


class MatchedTerm(NamedTuple):
    """A term that a query and a document share, and what it adds to the score: the product of two weights.

    Both weights are those that a search works with: the query's as it is rounded, the document's as it is stored.
    """

    term: int
    word: str | None  # None where the index has no vocabulary
    query_weight: float
    document_weight: float
    contribution: float
    searched: bool = True  # False where the search left the term out (`max_terms`, `query_mass`)

    @property
    def product(self) -> str:
        """The contribution as a formula, for display."""
        weights = f"{short_number(self.query_weight)} × {short_number(self.document_weight)}"
        left_out = "" if self.searched else " (left out of the search)"
        return f"{weights} = {short_number(self.contribution)}{left_out}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Explanation:
    """Why a document was or was not returned, and what its score is made of; `str()` puts it into words.

    `matched` holds the terms that the query and the document share, the largest contribution first. The
    contributions add up to `score` exactly, in any order. Searches that drop light terms (`max_terms`, `query_mass`)
    leave out what those add: these terms have `searched` = False.

    `threshold` is θ when the decision about the document fell, `final_threshold` θ at the end.

    Examples
    --------
    >>> import scipy.sparse as sp, segmax
    >>> index = segmax.build(sp.csr_matrix([[3, 0, 2], [1, 4, 0]]), terms=["red", "green", "blue"])
    >>> print(index.explain({"red": 2, "blue": 1}, 0))
    document 0 (score 8, cluster 0) is returned at rank 1
      red   2 × 3 = 6
      blue  1 × 2 = 2
    """

    id: DocId
    score: float
    matched: tuple[MatchedTerm, ...]
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
        shown = self.matched[:_MOST_TERMS]
        names = [_printable(str(match.term) if match.word is None else match.word) for match in shown]
        width = max(map(len, names), default=0)
        lines = [f"  {name:{width}}  {match.product}" for name, match in zip(names, shown, strict=True)]
        if rest := self.matched[_MOST_TERMS:]:
            lines.append(f"  {len(rest)} more add {short_number(sum(match.contribution for match in rest))}")
        return "\n".join([self.reason, *lines])


def _printable(word: str) -> str:
    """Return a word as it is, or quoted if it has control characters."""
    return word if word.isprintable() else repr(word)
