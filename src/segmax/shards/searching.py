"""Searches of shards as conversations: what to ask, what to make of the answers, and nobody who knows how to call.

A conversation yields calls and is sent their answers; whoever runs it, blocking or in an event loop, carries the calls.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from segmax import _core
from segmax.metadata import Where
from segmax.search.arguments import core_params, input_errors
from segmax.search.methods import SearchParams
from segmax.search.results import STATS_FIELDS
from segmax.shards.asking import Ask, Asking, Rules
from segmax.shards.asking_one import AskingOne
from segmax.shards.manifest import Manifest
from segmax.shards.router import Bounds, Prepared, Router
from segmax.shards.shard import Floors, Found
from segmax.shards.transport import Call, Missing
from segmax.vectors.csr import Csr
from segmax.vectors.documents import DocId

_FEWEST_ROUTED = 4  # shards: of fewer, bounds rule out next to none
_FEW_RESULTS = 128  # of a query that is answered without arrays
_LEAST_PACKED = 64  # queries of a batch that are worth a call of their own
_ELAPSED = STATS_FIELDS.index("elapsed_ns")

Answer = TypeVar("Answer")
#: Yields calls, is sent their answers, and returns what they add up to.
Conversation = Generator[list[Call], list[Any], Answer]


class Step(NamedTuple):
    """What a conversation wants next: calls, or nothing more, because it has its answer."""

    calls: list[Call] | None
    answer: Any


def next_step(talk: Conversation[Any], answers: list[Any] | None) -> Step:
    """Give a conversation the answers to its last calls, None at its start, and return what it wants next."""
    try:
        return Step(talk.send(answers), None)  # type: ignore[arg-type]
    except StopIteration as end:
        return Step(None, end.value)


class Request(NamedTuple):
    """What shards are asked for, one for all queries or one for each."""

    ks: Sequence[int]
    params: Sequence[SearchParams]
    wheres: Sequence[Where | None] = (None,)
    max_shards: Sequence[int | None] = (None,)
    threads: int = 1
    with_ids: bool = False


class Result(NamedTuple):
    """What shards found, by query, padded with number -1 and score 0."""

    numbers: NDArray[np.int64]
    scores: NDArray[np.float64]  #: as users see them
    counts: NDArray[np.int64]
    shards: NDArray[np.int64]
    rows: NDArray[np.int64]
    stats: NDArray[np.uint64]
    decisions: NDArray[np.int8]
    bounds: Bounds
    scales: NDArray[np.float64]
    ids: dict[int, DocId] | None


def prepared(lattice: _core.Lattice, batch: Csr, params: Sequence[SearchParams]) -> Prepared:
    """Turn queries into the integers of a lattice."""
    in_core = [core_params(one) for one in params]
    with input_errors():
        return Prepared(*lattice.prepare(batch.indptr, batch.indices, batch.values, in_core))


class ShardSearch:
    """Searches all shards of an index.

    Parameters
    ----------
    manifest
        What the index consists of.
    lattice
        What turns queries into integers.
    router
        Says which shards to ask.
    width
        How many calls about one shard can run at the same time: its replicas.
    """

    def __init__(self, manifest: Manifest, lattice: _core.Lattice, router: Router, width: int = 1) -> None:
        self._lattice = lattice
        self._router = router
        self._width = width
        self._num_docs = manifest.num_docs
        self._first_rows = np.array([shard.first_row for shard in manifest.shards], dtype=np.int64)
        self._num_clusters = np.array([shard.num_clusters for shard in manifest.shards], dtype=np.int64)
        self._lists = self._first_rows.tolist(), self._num_clusters.tolist()

    def prepare(self, batch: Csr, params: Sequence[SearchParams]) -> Prepared:
        """Turn queries into integers, once for all shards."""
        return prepared(self._lattice, batch, params)

    def search(self, batch: Csr, request: Request) -> Conversation[Result]:
        """Search for many queries: at most three rounds of calls."""
        if batch.num_rows == 1 and request.ks[0] <= _FEW_RESULTS:
            return (yield from self.search_one(batch, request))
        began = time.perf_counter_ns()
        queries = self.prepare(batch, request.params)
        asking = self.asking(queries, request)
        ids: dict[int, DocId] | None = {} if request.with_ids else None
        while asks := asking.next():
            pieces = [piece for ask in asks for piece in self._pieces(ask)]
            answers = yield [Call(piece.shard, "search", _arguments(piece, queries, request)) for piece in pieces]
            taken = [None if isinstance(answer, Missing) else answer for answer in answers]
            asking.take(pieces, taken)
            if ids is not None:
                for found in taken:
                    _collect_ids(ids, found)
        asking.finish()
        asking.stats[:, _ELAPSED] = time.perf_counter_ns() - began
        return _result(asking, queries, ids)

    def asking(self, queries: Prepared, request: Request) -> Asking:
        """Return the rounds of a search, before the first."""
        ks = np.minimum(np.array(request.ks, dtype=np.int64), max(1, self._num_docs))
        bounds = self._bounds(queries)
        rules = _rules(request, queries.num_queries, len(self._first_rows))
        is_limited = rules.max_shards < len(self._first_rows)
        promise = bounds.promise
        if is_limited.any():
            promise = np.where(is_limited[:, None], self._router.promise(queries), promise)
        width = int(ks.max(initial=0))
        ks = np.broadcast_to(ks, queries.num_queries)
        return Asking(queries, bounds, promise, ks, rules, self._first_rows, self._num_clusters, width)

    def search_one(self, batch: Csr, request: Request) -> Conversation[Result]:
        """Search for one query and few results; `search` does the same for many, and is its slow twin."""
        began = time.perf_counter_ns()
        query = self.prepare(batch, request.params)
        bounds = self._bounds(query)
        most = request.max_shards[0]
        promise = bounds.promise if most is None else self._router.promise(query)
        params = request.params[0]
        mu = getattr(params, "mu", 1.0)
        eta = getattr(params, "eta", mu)
        k = min(request.ks[0], max(1, self._num_docs))
        asking = AskingOne(query, bounds, promise, k, mu, eta, most, *self._lists)
        while asks := asking.next():
            calls = [Call(ask.shard, "search", _all_arguments(ask, query, request)) for ask in asks]
            answers = yield calls
            asking.take(asks, [None if isinstance(answer, Missing) else answer for answer in answers])
        asking.finish()
        asking.stats[_ELAPSED] = time.perf_counter_ns() - began
        return _one_result(asking, k, query, bounds, request.with_ids)

    def _bounds(self, queries: Prepared) -> Bounds:
        if self._router.num_shards >= _FEWEST_ROUTED:
            return self._router.bounds(queries)
        bounds = self._router.coarse(queries)
        if queries.num_queries < _LEAST_PACKED:
            return bounds
        # So little is known here that the largest shard would seem the best one for nearly all queries of a batch, and
        # the others would wait for it. By the median of each, all of them have work from the start.
        usual = np.maximum(np.median(bounds.promise, axis=0), 1.0)
        return bounds._replace(promise=bounds.promise / usual)

    def _pieces(self, ask: Ask) -> list[Ask]:
        """Cut what a shard is asked into as many calls as its replicas can share."""
        count = min(self._width, len(ask.queries) // _LEAST_PACKED)
        if count <= 1:
            return [ask]
        parts = np.array_split(np.arange(len(ask.queries)), count)
        floors = ask.floors
        return [
            Ask(ask.shard, ask.queries[at], None if floors is None else Floors(floors.scores[at], floors.numbers[at]))
            for at in parts
        ]


def _rules(request: Request, num_queries: int, num_shards: int) -> Rules:
    mu = np.array([getattr(one, "mu", 1.0) for one in request.params])
    # A method without eta, as Anytime, compares every bound with θ/μ.
    eta = np.array([getattr(one, "eta", getattr(one, "mu", 1.0)) for one in request.params])
    limits = [num_shards if one is None else min(one, num_shards) for one in request.max_shards]
    most = np.array(limits, dtype=np.int64)
    return Rules(*(np.broadcast_to(rule, num_queries) for rule in (mu, eta, most)))


def _all_arguments(ask: Ask, query: Prepared, request: Request) -> tuple[Any, ...]:
    each = (list(request.ks), list(request.params), ask.floors, list(request.wheres))
    return query, *each, request.threads, request.with_ids


def _one_result(asking: AskingOne, k: int, query: Prepared, bounds: Bounds, with_ids: bool) -> Result:
    best, left = asking.best, k - len(asking.best)
    numbers = np.array([[*(one.number for one in best), *[-1] * left]], dtype=np.int64)
    scores = np.array([[*(-one.minus_score for one in best), *[0.0] * left]]) * query.scales[0]
    shards = np.array([[*(one.shard for one in best), *[0] * left]], dtype=np.int64)
    rows = np.array([[*(one.row for one in best), *[0] * left]], dtype=np.int64)
    ids: dict[int, DocId] | None = {one.number: one.id for one in best if one.id is not None} if with_ids else None
    decisions = np.array([asking.decisions], dtype=np.int8)
    counts = np.array([len(best)], dtype=np.int64)
    stats = asking.stats[None, :]
    return Result(numbers, scores, counts, shards, rows, stats, decisions, bounds, query.scales, ids)


def _arguments(ask: Ask, queries: Prepared, request: Request) -> tuple[Any, ...]:
    def own(values: Sequence[Any]) -> list[Any]:
        return list(values) if len(values) == 1 else [values[query] for query in ask.queries.tolist()]

    each = (own(request.ks), own(request.params), ask.floors, own(request.wheres))
    return queries.taken(ask.queries), *each, request.threads, request.with_ids


def _collect_ids(ids: dict[int, DocId], found: Found | None) -> None:
    if found is not None and found.ids is not None:
        there = np.arange(found.numbers.shape[1]) < found.counts[:, None]
        ids.update(zip(found.numbers[there].tolist(), found.ids, strict=True))


def _result(asking: Asking, queries: Prepared, ids: dict[int, DocId] | None) -> Result:
    best = asking.best
    there = (best.scores > 0) & (np.arange(best.scores.shape[1]) < asking.ks[:, None])
    return Result(
        np.where(there, best.numbers, -1),
        np.where(there, best.scores, 0.0) * queries.scales[:, None],
        there.sum(axis=1),
        best.shards,
        best.rows,
        asking.stats,
        asking.decisions,
        asking.bounds,
        queries.scales,
        ids,
    )
