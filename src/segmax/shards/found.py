"""The results of a sharded search: which shards they come from, and their ids, texts and metadata on request."""

from __future__ import annotations

import dataclasses
import itertools
import operator
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple, SupportsIndex, overload

import numpy as np
from numpy.typing import NDArray

from segmax.search.results import BatchHits, BatchStats, Explanation, FoundDocuments, Hits
from segmax.shards.asking import Decision
from segmax.storage.texts import StoredText
from segmax.vectors.documents import DocId

_MOST_LOOKED_UP = 256  # texts at a time: results may have more than fit into memory
#: Calls a method of shards: (shard, method, rows) each, and answers in the same order.
LookUp = Callable[[Sequence[tuple[int, str, NDArray[np.int64]]]], list[Any]]


class Routing(NamedTuple):
    """Which shards a search asked, and why not the others.

    Parameters
    ----------
    asked
        The shards that were asked.
    ruled_out
        Those whose bounds say that they have nothing to add.
    left_out
        Those that `max_shards` left out, although they might have had something.
    missing
        Those that gave no answer, where partial answers are allowed.
    missing_share
        The share of all documents that are in shards that gave no answer.
    """

    asked: tuple[int, ...]
    ruled_out: tuple[int, ...]
    left_out: tuple[int, ...]
    missing: tuple[int, ...]
    missing_share: float

    @property
    def approximate(self) -> bool:
        """Whether a better document may be in a shard that was not asked or gave no answer."""
        return bool(self.left_out or self.missing)

    @classmethod
    def of(cls, decisions: NDArray[np.int8], num_docs: NDArray[np.int64]) -> Routing:
        """Return what was decided about the shards for one query."""
        places: list[list[int]] = [[] for _ in Decision]
        for shard, decision in enumerate(decisions.tolist()):
            places[decision].append(shard)
        _, asked, ruled_out, left_out, missing = map(tuple, places)
        lost = int(num_docs[places[Decision.MISSING]].sum()) / max(1, int(num_docs.sum())) if missing else 0.0
        return cls(asked, ruled_out, left_out, missing, lost)


class RoutedHits(Hits):
    """The results of one query from several shards: `Hits`, and `routing`."""

    def __init__(
        self,
        rows: NDArray[np.int64],
        scores: NDArray[np.float64],
        stats_row: NDArray[np.uint64],
        docs: FoundDocuments,
        routing: Routing,
    ) -> None:
        super().__init__(rows, scores, stats_row, docs)
        self.routing = routing

    def taken(self, places: slice | NDArray[np.int64]) -> RoutedHits:
        """Return some of the results, by their places in the ranking, as results of the same search."""
        return RoutedHits(self.rows[places], self.scores[places], self._stats_row, self._docs, self.routing)


class RoutedBatchHits(BatchHits):
    """The results of many queries from several shards: `BatchHits`, and what was decided about the shards."""

    def __init__(
        self,
        rows: NDArray[np.int64],
        scores: NDArray[np.float64],
        counts: NDArray[np.int64],
        stats: BatchStats,
        docs: FoundDocuments,
        decisions: NDArray[np.int8],
        num_docs: NDArray[np.int64],
    ) -> None:
        super().__init__(rows, scores, counts, stats, docs)
        self.decisions = decisions  #: by query and shard, a `Decision`
        self._num_docs = num_docs

    @overload
    def __getitem__(self, index: SupportsIndex) -> RoutedHits: ...
    @overload
    def __getitem__(self, index: slice) -> list[Hits]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> RoutedHits | list[Hits]:
        if isinstance(index, slice):
            return super().__getitem__(index)
        number = operator.index(index)
        found = super().__getitem__(number)
        return RoutedHits(found.rows, found.scores, found.stats_row, self._docs, self.routing(number))

    def routing(self, query: int) -> Routing:
        """Return which shards a query asked, and why not the others."""
        return Routing.of(self.decisions[query], self._num_docs)

    @property
    def is_whole(self) -> bool:
        """Whether every shard that was asked gave an answer."""
        return not (self.decisions == Decision.MISSING).any()

    @property
    def shards_asked(self) -> NDArray[np.int64]:
        """By query: how many shards were asked."""
        return np.asarray((self.decisions == Decision.ASKED).sum(axis=1))

    def narrowed(self, first: int, least: float | None) -> RoutedBatchHits:
        """Return the results of every query from a rank on, counted from 0, that have at least some score."""
        found = super().narrowed(first, least)
        return RoutedBatchHits(
            found.rows, found.scores, found.counts, self.stats, self._docs, self.decisions, self._num_docs
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardExplanation(Explanation):
    """An explanation that also says which shard the document is in, and what was decided about that shard.

    `cluster`, the bounds and the decision about them are those of a search of the shard alone.
    """

    shard: int
    shard_decision: str  #: "asked", "ruled out", "left out" or "missing"
    shard_max_bound: float
    shard_avg_bound: float


class ShardedDocs:
    """The documents of results by number, looked up in their shards on first use, many at a time."""

    def __init__(
        self,
        look_up: LookUp,
        numbers: NDArray[np.int64],
        shards: NDArray[np.int64],
        rows: NDArray[np.int64],
        *,
        has_texts: bool,
        has_metadata: bool,
        ids: dict[int, DocId] | None = None,
    ) -> None:
        self._look_up = look_up
        self._arrays = (numbers, shards, rows)
        self._ids = ids
        self._texts: dict[int, StoredText] = {}
        self._metadata: dict[int, dict[str, Any] | None] = {}
        self._has_texts, self._has_metadata = has_texts, has_metadata

    @property
    def stored(self) -> object | None:
        """Not None where texts are stored."""
        return self if self._has_texts else None

    @property
    def metadata(self) -> object | None:
        """Not None where metadata are stored."""
        return self if self._has_metadata else None

    @cached_property
    def _places(self) -> dict[int, tuple[int, int]]:
        numbers, shards, rows = (array.reshape(-1) for array in self._arrays)
        there = numbers >= 0
        places = zip(shards[there].tolist(), rows[there].tolist(), strict=True)
        return dict(zip(numbers[there].tolist(), places, strict=True))

    def _read(self, method: str, numbers: Iterable[int]) -> dict[int, Any]:
        """Return something of documents, by number: a call per shard."""
        by_shard: dict[int, list[tuple[int, int]]] = {}
        for number in numbers:
            shard, row = self._places[number]
            by_shard.setdefault(shard, []).append((number, row))
        calls = [(shard, method, np.array([row for _, row in own])) for shard, own in by_shard.items()]
        found: dict[int, Any] = {}
        for own, answers in zip(by_shard.values(), self._look_up(calls), strict=True):
            found.update(zip((number for number, _ in own), answers, strict=True))
        return found

    def _kept(self, method: str, kept: dict[int, Any], number: int) -> Any:
        """Return something long of a document; if it has to be looked up, then that of some others with it."""
        if number not in kept:
            after = itertools.dropwhile(lambda other: other != number, self._places)
            missing = (other for other in itertools.chain(after, self._places) if other not in kept)
            kept |= self._read(method, dict.fromkeys(itertools.islice(missing, _MOST_LOOKED_UP)))
        return kept[number]

    def id_of(self, row: int) -> DocId:
        """Return the id of a result."""
        if self._ids is None:
            self._ids = self._read("ids", self._places)
        return self._ids[row]

    def ids_of(self, rows: NDArray[np.int64]) -> list[DocId]:
        """Return the ids of many results."""
        return [self.id_of(row) for row in rows.tolist()]

    def title_of(self, row: int) -> str:
        """Return the title of a result."""
        return self.text_of(row).title

    def text_of(self, row: int) -> StoredText:
        """Return the title and text of a result."""
        found: StoredText = self._kept("texts", self._texts, row)
        return found

    def metadata_of(self, row: int) -> dict[str, Any] | None:
        """Return the metadata of a result."""
        found: dict[str, Any] | None = self._kept("metadata", self._metadata, row)
        return found
