"""An index of several shards, wherever they are: it answers what an `Index` does, in at most three rounds of calls."""

from __future__ import annotations

import asyncio
import dataclasses
import operator
import time
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, overload

import numpy as np
from numpy.typing import NDArray

from segmax.base.checks import check_listed, checked_bool, checked_int, checked_number, shown
from segmax.base.display import counted, printable
from segmax.base.errors import ConfigError, IndexClosedError, InputError, SegmaxError, UnknownIdError
from segmax.collection.state import checked_ids
from segmax.metadata import Scalar, Where
from segmax.metadata.facets import Counts
from segmax.metadata.values import MISSING, find
from segmax.metadata.where import checked_field
from segmax.search.arguments import EXACT, MOST_RESULTS, checked_k, core_params, num_threads, per_query
from segmax.search.calibration import checked_target
from segmax.search.methods import ASC, SearchParams
from segmax.search.queries import Filter, FilterParser, Wanted, best, grouped
from segmax.search.results import BatchStats, Explanation, Groups, Hits
from segmax.shards.explaining import explained
from segmax.shards.found import RoutedBatchHits, RoutedHits, Routing, ShardedDocs, ShardExplanation
from segmax.shards.manifest import Manifest, ShardEntry
from segmax.shards.routed import RoutingTable
from segmax.shards.router import Router
from segmax.shards.searching import Answer, Conversation, Request, ShardSearch, next_step
from segmax.shards.shard import LatticeArrays
from segmax.shards.transport import Call, Transport
from segmax.storage.config import BuildConfig
from segmax.storage.tables import TextTable, no_metadata
from segmax.storage.texts import StoredText
from segmax.vectors.csr import Csr, is_matrix
from segmax.vectors.documents import DocId
from segmax.vectors.pruning import prune_queries, prune_query
from segmax.vectors.queries import query_arrays, query_batch, query_list, row_arrays
from segmax.vectors.rows import join_rows, no_rows, selected_rows, to_scipy

if TYPE_CHECKING:
    import scipy.sparse as sp

    from segmax.encoders.base import Encoder
    from segmax.vectors.types import Queries, Query
else:
    from segmax.base.optional import scipy_sparse as sp

_MOST_IDS = 128  # results whose ids come with them; more are looked up when somebody asks


@dataclasses.dataclass(frozen=True)
class Parts:
    """What an open sharded index is made of."""

    manifest: Manifest
    lattice: LatticeArrays
    terms: TextTable | None
    router: Router
    transport: Transport
    address: str  #: where it is, for people
    path: Path | None


class ShardedIndex:
    """An index that lies in several shards: on the nodes of a Ray cluster (`segmax.ray.open`) or all in this process.

    It has the methods of an `Index`, and returns the same results in the same order. `search` and `search_batch` also
    take:

    - `max_shards`: ask only so many shards, those that promise most. The results may lack documents; `hits.complete`
      and `hits.routing` say so.
    - `deadline_s`: how long the search may take.
    - `allow_partial`: return what there is if shards give no answer. `hits.routing.missing_share` is the share of
      documents that was not searched. Otherwise that raises ShardsUnavailableError.
    """

    def __init__(self, parts: Parts, *, deadline_s: float | None = None, allow_partial: bool = False) -> None:
        self._parts = parts
        self._deadline_s = deadline_s
        self._allow_partial = allow_partial
        width = getattr(parts.transport, "replicas", 1)
        self._search = ShardSearch(parts.manifest, parts.lattice.to_core(), parts.router, width)
        self._lookup = None if parts.terms is None else parts.terms.find
        self._filters = FilterParser()
        self._encoder: Encoder | None = None
        self._is_closed = False
        shards = parts.manifest.shards
        self._num_docs_of = np.array([shard.num_docs for shard in shards], dtype=np.int64)
        self.config = BuildConfig.from_dict(parts.manifest.config)
        self.routing = RoutingTable.from_dict(parts.manifest.routing, len(shards))

    # --- what it is --------------------------------------------------------------------------------------------------

    @property
    def path(self) -> Path | None:
        """Where the index is on disk; None at an address of fsspec."""
        return self._parts.path

    @property
    def num_docs(self) -> int:
        """The number of documents."""
        return self._parts.manifest.num_docs

    @property
    def num_terms(self) -> int:
        """The number of columns of the vectors."""
        return self._parts.manifest.num_terms

    @property
    def num_shards(self) -> int:
        """The number of shards."""
        return len(self._parts.manifest.shards)

    @property
    def num_clusters(self) -> int:
        """The number of clusters of all shards."""
        return sum(shard.num_clusters for shard in self.shards)

    @property
    def num_segments(self) -> int:
        """The number of segments per cluster."""
        return self.config.num_segments

    @property
    def num_postings(self) -> int:
        """The number of stored weights."""
        return self._parts.manifest.num_postings

    @property
    def bits(self) -> int:
        """Bits per stored weight."""
        return self._parts.manifest.bits

    @property
    def num_bytes(self) -> int:
        """The size of all shards."""
        return self._parts.manifest.num_bytes

    @property
    def shards(self) -> tuple[ShardEntry, ...]:
        """What every shard has."""
        return self._parts.manifest.shards

    @property
    def router(self) -> Router:
        """What decides which shards a query asks."""
        return self._parts.router

    @property
    def id_kind(self) -> type[int | str] | None:
        """What its ids are, `int` or `str`; None if there is no document."""
        kinds: dict[str, type[int | str]] = {"int": int, "str": str}
        return kinds[self._parts.manifest.id_kind] if self.num_docs else None

    def sizes(self) -> dict[str, int]:
        """Return the size of each component in bytes, in all shards together."""
        found: dict[str, int] = {}
        for sizes in self._of_all("sizes"):
            for name, size in sizes.items():
                found[name] = found.get(name, 0) + size
        return found

    def cluster_sizes(self) -> NDArray[np.uint32]:
        """Return the number of documents in each cluster, shard by shard."""
        return np.concatenate([np.zeros(0, np.uint32), *self._of_all("cluster_sizes")])

    def __len__(self) -> int:
        return self.num_docs

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}('{printable(self._parts.address)}': {counted(self.num_docs, 'document')}, "
            f"{counted(self.num_postings, 'posting')}, {counted(self.num_shards, 'shard')} by "
            f"{self._parts.manifest.sharding}, {self.bits} bits)"
        )

    # --- words and texts ---------------------------------------------------------------------------------------------

    @property
    def terms(self) -> TextTable | None:
        """The words of the columns by number; None if the index has no vocabulary."""
        return self._parts.terms

    @property
    def encoder(self) -> Encoder:
        """What turns text into queries: the encoder assigned here or passed on opening, otherwise stored BM25."""
        if self._encoder is None:
            self._encoder = self.encoder_for(None)
        return self._encoder

    @encoder.setter
    def encoder(self, encoder: object) -> None:
        self._encoder = None if encoder is None else self.encoder_for(encoder)

    def encoder_for(self, encoder: object) -> Encoder:
        """Return the encoder that a name, a folder or an object stands for, checked against what made the vectors."""
        from segmax.encoders.stored import encoder_for_index  # needs heavy or optional packages

        where = f"'{self._parts.address}'"
        return encoder_for_index(encoder, self._parts.manifest.encoder, self._parts.terms, where)

    @property
    def encoder_description(self) -> dict[str, Any] | None:
        """What the index records about the encoder that made its vectors; None if it records nothing."""
        found = self._parts.manifest.encoder
        return None if found is None else dict(found)

    @property
    def texts(self) -> TextsByRow | None:
        """The stored titles and texts by row; None if none are stored."""
        return TextsByRow(self) if self._parts.manifest.has_texts else None

    # --- searching ---------------------------------------------------------------------------------------------------

    @overload
    def search(
        self,
        query: Query,
        k: int = ...,
        params: SearchParams | None = ...,
        *,
        target_recall: float | None = ...,
        trace: bool = ...,
        where: Filter | None = ...,
        offset: int = ...,
        min_score: float | None = ...,
        max_shards: int | None = ...,
        deadline_s: float | None = ...,
        allow_partial: bool | None = ...,
    ) -> RoutedHits: ...

    @overload
    def search(
        self,
        query: Query,
        k: int = ...,
        params: SearchParams | None = ...,
        *,
        target_recall: float | None = ...,
        where: Filter | None = ...,
        offset: int = ...,
        min_score: float | None = ...,
        group_by: str,
        group_size: int = ...,
        max_shards: int | None = ...,
        deadline_s: float | None = ...,
        allow_partial: bool | None = ...,
    ) -> Groups: ...

    def search(
        self,
        query: Query,
        k: int = 10,
        params: SearchParams | None = None,
        *,
        target_recall: float | None = None,
        trace: bool = False,
        where: Filter | None = None,
        offset: int = 0,
        min_score: float | None = None,
        group_by: str | None = None,
        group_size: int = 1,
        max_shards: int | None = None,
        deadline_s: float | None = None,
        allow_partial: bool | None = None,
    ) -> Hits | Groups:
        """Return the k best documents for one query: score descending, then input row ascending.

        Parameters
        ----------
        query, k, params, where, offset, min_score, group_by, group_size
            As for `Index.search`. Limits such as `max_blocks` hold for each shard; of `max_clusters` each has an equal
            share.
        target_recall
            Instead of params: ask as few shards as were found to give this share of the exact results on average. That
            was measured for ten results of all documents: with another k + offset, a filter or groups, search is exact.
        trace
            Not for shards: decisions are about the clusters of one index. `explain` is about one document.
        max_shards
            Ask at most so many shards, those that promise most.
        deadline_s, allow_partial
            Instead of those that the index was opened with. Shards in this process always answer, at whatever time.

        Raises
        ------
        ShardsUnavailableError
            If shards gave no answer in time, and partial answers are not allowed.

        Examples
        --------
        >>> import scipy.sparse as sp, tempfile
        >>> from segmax.shards import build, open_local
        >>> path = f"{tempfile.mkdtemp()}/docs.sharded"
        >>> manifest = build(sp.csr_matrix([[3, 0, 2], [1, 4, 0], [0, 2, 2]]), path, shards=2, sharding="rows")
        >>> open_local(path).search({0: 2.0, 2: 1.0}, k=2).ids
        [0, 1]
        """
        if trace:
            raise ConfigError(option="trace", expected="False for a sharded index", got="True", hint="use explain")
        parsed = None if where is None else self._filters(where)
        wanted = Wanted.checked(parsed, offset, min_score, group_by, group_size)
        limits = self._limits(max_shards, target_recall, params, deadline_s, allow_partial)
        batch = self._one(query)
        k = checked_k(k)
        if wanted.group_by is not None:
            return self._groups(batch, k, params, wanted, limits)

        def search(k: int, where: Where | None, params: SearchParams | None) -> Hits:
            return self._run(self._searching_one(batch, k, params, where, limits), limits)

        return search(k, None, params) if wanted == Wanted() else best(search, k, wanted, params)

    async def search_async(
        self,
        query: Query,
        k: int = 10,
        params: SearchParams | None = None,
        *,
        target_recall: float | None = None,
        where: Filter | None = None,
        offset: int = 0,
        min_score: float | None = None,
        group_by: str | None = None,
        group_size: int = 1,
        max_shards: int | None = None,
        deadline_s: float | None = None,
        allow_partial: bool | None = None,
    ) -> Hits | Groups:
        """Do what `search` does, without blocking the event loop. Ids come with the results if k is at most 128."""
        wanted = Wanted.checked(
            None if where is None else self._filters(where), offset, min_score, group_by, group_size
        )
        limits = self._limits(max_shards, target_recall, params, deadline_s, allow_partial)
        depth = min(checked_k(k) + wanted.offset, MOST_RESULTS)
        batch = await asyncio.to_thread(self._one, query)
        if wanted.group_by is not None:
            return await asyncio.to_thread(self._groups, batch, k, params, wanted, limits)
        talk = self._searching_one(batch, depth, params, wanted.where, limits)
        hits = await self._run_async(talk, limits)
        return best(lambda *_: hits, k, wanted, params)

    def _groups(self, batch: Csr, k: int, params: SearchParams | None, wanted: Wanted, limits: _Limits) -> Groups:
        """Return the best documents of the k best groups: as many searches as that takes."""

        def search(k: int, where: Where | None, params: SearchParams | None) -> Hits:
            return self._run(self._searching_one(batch, k, params, where, limits), limits)

        return grouped(search, self._values, k, wanted, params)

    def search_batch(
        self,
        queries: Queries,
        k: int | Sequence[int] = 10,
        params: SearchParams | Sequence[SearchParams] | None = None,
        *,
        target_recall: float | None = None,
        threads: int | None = None,
        where: Filter | Sequence[Filter | None] | None = None,
        offset: int = 0,
        min_score: float | None = None,
        max_shards: int | None = None,
        deadline_s: float | None = None,
        allow_partial: bool | None = None,
    ) -> RoutedBatchHits:
        """Search many queries: arrays of shape (queries, k), padded with row -1 and score 0.

        Parameters are those of `Index.search_batch` and of `search`. `threads` is how many queries every shard answers
        at the same time; None: one, because shards work at the same time already.
        """
        limits = self._limits(max_shards, target_recall, params, deadline_s, allow_partial)
        wanted = Wanted.checked(None, offset, min_score)
        talk = self._searching_batch(self._batch(queries), k, params, where, wanted, limits, threads)
        found = self._run(talk, limits)
        return found if wanted == Wanted() else found.narrowed(wanted.offset, wanted.min_score)

    async def search_batch_async(
        self,
        queries: Queries,
        k: int | Sequence[int] = 10,
        params: SearchParams | Sequence[SearchParams] | None = None,
        *,
        target_recall: float | None = None,
        threads: int | None = None,
        where: Filter | Sequence[Filter | None] | None = None,
        offset: int = 0,
        min_score: float | None = None,
        max_shards: int | None = None,
        deadline_s: float | None = None,
        allow_partial: bool | None = None,
    ) -> RoutedBatchHits:
        """Do what `search_batch` does, without blocking the event loop."""
        limits = self._limits(max_shards, target_recall, params, deadline_s, allow_partial)
        wanted = Wanted.checked(None, offset, min_score)
        batch = await asyncio.to_thread(self._batch, queries)
        talk = self._searching_batch(batch, k, params, where, wanted, limits, threads)
        found = await self._run_async(talk, limits)
        return found if wanted == Wanted() else found.narrowed(wanted.offset, wanted.min_score)

    def _limits(
        self,
        max_shards: int | None,
        target_recall: float | None,
        params: object,
        deadline_s: float | None,
        allow_partial: bool | None,
    ) -> _Limits:
        """Check what limits a search."""
        if max_shards is not None:
            checked_int("max_shards", max_shards, 1)
        if target_recall is not None:
            if params is not None or max_shards is not None:
                raise ConfigError(expected="params, max_shards or target_recall", got="several of them")
            checked_target(target_recall)
        seconds = self._deadline_s if deadline_s is None else checked_number("deadline_s", deadline_s)
        if seconds is not None and not seconds > 0:
            raise ConfigError(option="deadline_s", expected="greater than 0", got=seconds)
        deadline = None if seconds is None else time.monotonic() + seconds
        partial = self._allow_partial if allow_partial is None else checked_bool("allow_partial", allow_partial)
        return _Limits(max_shards, target_recall, deadline, partial)

    def _max_shards(self, limits: _Limits, k: int, where: Where | None) -> int | None:
        """Return how many shards a search for k results may ask; None: all, so that nothing chooses among them."""
        most = limits.max_shards
        if limits.target_recall is not None and where is None:
            most = self.routing.shards_for(limits.target_recall, k)
        return None if most is None or most >= self.num_shards else most

    def _share_of(self, params: SearchParams | None) -> SearchParams:
        """Return a method for each shard: of a limit of clusters, its share."""
        core_params(params)  # raises for what is no method
        if isinstance(params, ASC) and params.max_clusters is not None:
            return dataclasses.replace(params, max_clusters=-(-params.max_clusters // self.num_shards))
        return EXACT if params is None else params

    def _searching_one(
        self, batch: Csr, k: int, params: SearchParams | None, where: Where | None, limits: _Limits
    ) -> Conversation[RoutedHits]:
        """Search for one query."""
        wheres, most = [self._checked_where(where)], [self._max_shards(limits, k, where)]
        request = Request([k], [self._share_of(params)], wheres, most, 1, k <= _MOST_IDS)
        found = yield from self._search.search(batch, request)
        count = int(found.counts[0])
        at = 0, slice(0, count)
        docs = self._docs(found.numbers[at], found.shards[at], found.rows[at], found.ids)
        routing = Routing.of(found.decisions[0], self._num_docs_of)
        return RoutedHits(found.numbers[at], found.scores[at], found.stats[0], docs, routing)

    def _searching_batch(
        self,
        batch: Csr,
        k: int | Sequence[int],
        params: SearchParams | Sequence[SearchParams] | None,
        where: Filter | Sequence[Filter | None] | None,
        wanted: Wanted,
        limits: _Limits,
        threads: int | None,
    ) -> Conversation[RoutedBatchHits]:
        """Search for many queries."""
        ks = [min(depth + wanted.offset, MOST_RESULTS) for depth in per_query("k", k, checked_k, batch.num_rows)]
        chosen = per_query("params", params, self._share_of, batch.num_rows)
        wheres = per_query("where", where, lambda one: None if one is None else self._filters(one), batch.num_rows)
        wheres = [self._checked_where(one) for one in wheres]
        places = range(max(len(ks), len(wheres)) if batch.num_rows else 0)
        most = [self._max_shards(limits, ks[at % len(ks)], wheres[at % len(wheres)]) for at in places]
        count = 1 if threads is None else num_threads(threads)
        found = yield from self._search.search(batch, Request(ks, chosen, wheres, most, count))
        docs = self._docs(found.numbers, found.shards, found.rows, None)
        stats = BatchStats(found.stats)
        return RoutedBatchHits(
            found.numbers, found.scores, found.counts, stats, docs, found.decisions, self._num_docs_of
        )

    def _checked_where(self, where: Where | None) -> Where | None:
        if where is not None and not self._parts.manifest.has_metadata:
            raise no_metadata()
        return where

    # --- single documents --------------------------------------------------------------------------------------------

    def explain(
        self,
        query: Query,
        id: DocId,
        k: int = 10,
        params: SearchParams | None = None,
        *,
        where: Filter | None = None,
        max_shards: int | None = None,
    ) -> ShardExplanation:
        """Explain why a document is or is not among the k best: which shard it is in, and whether that was asked.

        Parameters are those of `Index.explain` and of `search`.
        """
        shard, row = self._places_of([id])[0]
        params = self._share_of(params)
        parsed = self._checked_where(None if where is None else self._filters(where))
        batch, k = self._one(query), checked_k(k)
        limits = self._limits(max_shards, None, params, None, False)
        request = Request([k], [params], [parsed], [self._max_shards(limits, k, parsed)])
        found = self._run(self._search.search(batch, request), limits)
        call = Call(shard, "explain", (batch.indices, batch.values, row, k, params, parsed))
        own: Explanation = self._ask([call])[0]
        return explained(own, shard, self._number(shard, row), k, found, params, self._parts.terms)

    def row_of(self, id: DocId) -> int:
        """Return the input row of a document; raise UnknownIdError if no document has this id."""
        return self._number(*self._places_of([id])[0])

    def id_of(self, row: int) -> DocId:
        """Return the id of the document in an input row; raise UnknownIdError if there is no such row."""
        place = self._place_of_number(row)
        if place is None:
            raise UnknownIdError(f"no document is in row {row} of {self.num_docs:,}")
        found: DocId = self._ask([Call(place[0], "ids", (np.array([place[1]]),))])[0][0]
        return found

    def text(self, id: DocId) -> StoredText:
        """Return the title and text of a document; raise InputError if the index stores none."""
        found: StoredText = self._of_place("texts", self._places_of([id])[0])
        return found

    def metadata(self, id: DocId) -> dict[str, Any] | None:
        """Return the metadata of a document; raise InputError if the index stores none."""
        found: dict[str, Any] | None = self._of_place("metadata", self._places_of([id])[0])
        return found

    def vector(self, id: DocId) -> sp.csr_matrix:
        """Return a document as the index stores it: a CSR row of weights after coding."""
        return self.vectors([id])

    def vectors(self, ids: Iterable[DocId]) -> sp.csr_matrix:
        """Return many documents as the index stores them, a CSR row each."""
        return to_scipy(self._vector_rows(ids))

    def _vector_rows(self, ids: Iterable[DocId]) -> Csr:
        """Return what `vectors` returns, without scipy."""
        check_listed("several ids", ids)
        places = self._places_of(list(ids))
        if not places:
            return no_rows(self.num_terms)
        shards, ats, answers = self._by_shard(places, "vectors")
        assert len(shards) == len(ats)
        return selected_rows(join_rows(answers, self.num_terms), np.argsort(np.concatenate(ats)))

    def score(self, query: Query, ids: Iterable[DocId]) -> NDArray[np.float64]:
        """Return the score of each given document for one query; 0 where they share no term."""
        check_listed("several ids", ids)
        batch = self._one(query)
        places = self._places_of(list(ids))
        scores = np.zeros(len(places))
        _, ats, answers = self._by_shard(places, "scores", batch.indices, batch.values)
        for at, found in zip(ats, answers, strict=True):
            scores[at] = found
        return scores

    def frequencies(self, terms: Iterable[int]) -> NDArray[np.int64]:
        """Return how many documents have each of some terms, which are given by number."""
        numbers = np.array(list(terms), dtype=np.int64)
        return sum(self._of_all("frequencies", numbers), np.zeros(len(numbers), np.int64))

    def __contains__(self, id: object) -> bool:
        try:
            self._places_of([id])
        except (UnknownIdError, InputError):
            return False
        return True

    # --- metadata ----------------------------------------------------------------------------------------------------

    @cached_property
    def fields(self) -> dict[str, tuple[str, ...]]:
        """The fields of the metadata, and the kinds of values in each; empty if the index stores none."""
        if not self._parts.manifest.has_metadata:
            return {}
        found: dict[str, dict[str, None]] = {}
        for fields in self._of_all("fields"):
            for name, kinds in fields.items():
                found.setdefault(name, {}).update(dict.fromkeys(kinds))
        return {name: tuple(found[name]) for name in sorted(found)}

    def count(self, where: Filter | None = None) -> int:
        """Return how many documents a filter matches; without one, how many there are."""
        if where is None:
            return self.num_docs
        return sum(self._of_all("count", self._checked_where(self._filters(where))))

    def facets(self, field: str, where: Filter | None = None, *, limit: int | None = None) -> list[tuple[Scalar, int]]:
        """Count the documents that a filter matches by their value in a field, the most frequent value first."""
        field = checked_field(field)
        most = None if limit is None else checked_int("limit", limit, 1)
        if not self._parts.manifest.has_metadata:
            raise no_metadata()
        counts = Counts()
        for facets in self._of_all("facets", field, None if where is None else self._filters(where)):
            for value, count in facets:
                counts.add(value, count)
        return counts.largest(most)

    # --- keeping -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of the shards. Closing twice is fine."""
        if not self._is_closed:
            self._is_closed = True
            self._parts.transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        raise SegmaxError("a sharded index cannot be pickled", hint="pickle its address, and open that again")

    # --- inside ------------------------------------------------------------------------------------------------------

    def _ask(self, calls: Sequence[Call], limits: _Limits | None = None) -> list[Any]:
        """Make calls; an index that is closed makes none."""
        if self._is_closed:
            raise IndexClosedError("the index is closed", hint="open it again")
        if limits is None:
            limits = self._limits(None, None, None, None, False)
        return self._parts.transport.ask(calls, deadline=limits.deadline, allow_partial=limits.allow_partial)

    def _of_all(self, method: str, *args: Any) -> list[Any]:
        """Call a method of every shard."""
        return self._ask([Call(shard, method, args) for shard in range(self.num_shards)])

    def _run(self, talk: Conversation[Answer], limits: _Limits) -> Answer:
        """Carry the calls of a conversation until it ends."""
        step = next_step(talk, None)
        while step.calls is not None:
            step = next_step(talk, self._ask(step.calls, limits))
        return step.answer  # type: ignore[no-any-return]

    async def _run_async(self, talk: Conversation[Answer], limits: _Limits) -> Answer:
        """Do the same in an event loop; what is computed between calls is computed in a thread."""
        ask = self._parts.transport.ask_async
        step = await asyncio.to_thread(next_step, talk, None)
        while step.calls is not None:
            if self._is_closed:
                raise IndexClosedError("the index is closed", hint="open it again")
            answers = await ask(step.calls, deadline=limits.deadline, allow_partial=limits.allow_partial)
            step = await asyncio.to_thread(next_step, talk, answers)
        return step.answer  # type: ignore[no-any-return]

    def _docs(
        self,
        numbers: NDArray[np.int64],
        shards: NDArray[np.int64],
        rows: NDArray[np.int64],
        ids: dict[int, DocId] | None,
    ) -> ShardedDocs:
        manifest = self._parts.manifest

        def look_up(calls: Sequence[tuple[int, str, NDArray[np.int64]]]) -> list[Any]:
            return self._ask([Call(shard, method, (rows,)) for shard, method, rows in calls])

        has = {"has_texts": manifest.has_texts, "has_metadata": manifest.has_metadata}
        return ShardedDocs(look_up, numbers, shards, rows, ids=ids, **has)

    def _places_of(self, ids: Sequence[object]) -> list[tuple[int, int]]:
        """Return shard and row of every id; raise UnknownIdError at the first that is not there."""
        checked = checked_ids(ids, self.id_kind)
        places: list[tuple[int, int] | None] = [None] * len(checked)
        if checked:
            for shard, rows in enumerate(self._of_all("find", checked)):
                for at in np.flatnonzero(rows >= 0).tolist():
                    places[at] = shard, int(rows[at])
        for id, place in zip(checked, places, strict=True):
            if place is None:
                raise UnknownIdError(f"no document has the id {shown(id)}")
        return [place for place in places if place is not None]

    def _place_of_number(self, number: int) -> tuple[int, int] | None:
        if 0 <= number < self.num_docs:
            for shard, rows in enumerate(self._of_all("rows_of_numbers", np.array([number], dtype=np.int64))):
                if rows[0] >= 0:
                    return shard, int(rows[0])
        return None

    def _number(self, shard: int, row: int) -> int:
        return int(self._ask([Call(shard, "numbers", (np.array([row]),))])[0][0])

    def _of_place(self, method: str, place: tuple[int, int]) -> Any:
        return self._ask([Call(place[0], method, (np.array([place[1]]),))])[0][0]

    def _by_shard(
        self, places: Sequence[tuple[int, int]], method: str, *args: Any
    ) -> tuple[list[int], list[NDArray[np.int64]], list[Any]]:
        """Return the shards that have some documents, their places in the list, and what a method says of them."""
        shards = np.array([shard for shard, _ in places], dtype=np.int64)
        rows = np.array([row for _, row in places], dtype=np.int64)
        own = np.unique(shards).tolist()
        ats = [np.flatnonzero(shards == shard) for shard in own]
        return own, ats, self._ask([Call(n, method, (*args, rows[at])) for n, at in zip(own, ats, strict=True)])

    def _values(self, field: str, hits: Hits) -> list[Any]:
        """Return the value of a field in each of some results."""
        found = (find(metadata, field) for metadata in hits.metadata)
        return [None if value is MISSING else value for value in found]

    def _one(self, query: object) -> Csr:
        """Return one query as a batch, pruned as the index was built to."""
        if isinstance(query, str):
            encoded = self._encoded([str(query)])
            is_csr = isinstance(encoded, Csr)
            found = row_arrays(encoded) if is_csr else query_arrays(encoded, self._lookup, self.num_terms)  # type: ignore[arg-type]
        else:
            found = query_arrays(query, self._lookup, self.num_terms)
        terms, weights = prune_query(self.config.pruning, *found)
        return Csr(np.array([0, len(terms)], dtype=np.int64), terms, weights, self.num_terms)

    def _batch(self, queries: object) -> Csr:
        """Return the terms and weights of many queries, pruned as the index was built to."""
        if not isinstance(queries, Csr) and not is_matrix(queries):
            queries = query_list(queries)
            if queries and all(isinstance(query, str) for query in queries):
                queries = self._encoded([str(query) for query in queries])  # numpy's strings, too
        return prune_queries(self.config.pruning, query_batch(queries, self._lookup, self.num_terms))

    def _encoded(self, texts: list[str]) -> object:
        from segmax.encoders import Encoder  # loaded with the encoder

        encoder = self.encoder
        return encoder.query_rows(texts) if isinstance(encoder, Encoder) else encoder.encode_queries(texts)


class _Limits(NamedTuple):
    """What limits a search: shards, time, and whether all of them have to answer."""

    max_shards: int | None
    target_recall: float | None
    deadline: float | None
    allow_partial: bool


class TextsByRow:
    """Titles and texts by input row, fetched one by one."""

    def __init__(self, index: ShardedIndex) -> None:
        self._index = index

    def __len__(self) -> int:
        return self._index.num_docs

    def __getitem__(self, row: int) -> StoredText:
        place = self._index._place_of_number(operator.index(row))
        if place is None:
            msg = f"no document is in row {row}"
            raise IndexError(msg)
        found: StoredText = self._index._of_place("texts", place)
        return found
