"""What a process of a service has, and how it answers what many operations need: queries, parameters, searches."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence, Sized
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, NoReturn, TypeVar
from urllib.parse import quote

import msgspec
import numpy as np

from segmax.encoders.base import Encoder
from segmax.encoders.bm25 import BM25
from segmax.metadata.where import checked_field, narrowed, num_characters
from segmax.paper.methods import METHODS
from segmax.search.arguments import EXACT
from segmax.search.methods import SearchParams
from segmax.search.queries import Filter
from segmax.serve import messages
from segmax.serve.allowance import Allowance
from segmax.serve.answers import Marker
from segmax.serve.catalog import Catalog, Opened, Served, Source
from segmax.serve.encoding import EncoderThread, Encodes
from segmax.serve.metrics import Metrics
from segmax.serve.prefixes import Prefixes
from segmax.serve.problems import invalid, over_limit, overloaded
from segmax.serve.searching import BATCHES_ON_RAY, Admission, PlainQuery, Searcher, ended_at, too_late
from segmax.serve.settings import Settings
from segmax.serve.shown import Shown
from segmax.serve.writing import WriterThreads, Writes
from segmax.shards.sharded import ShardedIndex
from segmax.vectors.csr import Csr

_LOG = logging.getLogger("segmax.serve")
FOLLOW_SECONDS = 0.4  #: between two looks at what changed on disk
_MOST_RUNNING = 64  # requests that wait for a thread
_MOST_BATCHES = 8  # that run or wait at the same time
_CALLS_ON_RAY = 16  # threads that wait for shards, beside those for searches
_SHORT_FILTER = 64  # members that are checked in less time than a thread takes to start
_SHORT_FILTER_TEXT = 10_000  # characters of them
_SHORT_TEXT = 1000  # characters that BM25 splits into words in less time than a thread takes to start

Result = TypeVar("Result")
Gone = Callable[[], Awaitable[NoReturn]]  #: waits until the client has gone, and raises then


class Target(NamedTuple):
    """What a request is about: an index or a collection, as it was when the request came.

    All of a request uses the same source, because words have other numbers in an index that takes its place.
    """

    served: Served
    opened: Opened
    sequence: int  #: of a collection, at least

    @property
    def source(self) -> Source:
        """The index or the collection."""
        return self.opened.source

    @property
    def version(self) -> str:
        """What changes when documents do."""
        return self.opened.version(self.sequence)

    @property
    def name(self) -> str:
        """Its name."""
        return self.served.name

    @property
    def encoder(self) -> Encoder | None:
        """What turns texts into queries, in this process."""
        return self.opened.encoder


class Backends(NamedTuple):
    """What other processes do for this one; None: it does that by itself."""

    writes: Writes | None = None
    encoders: Mapping[str, Encodes] | None = None
    shown: Shown | None = None


class Service:
    """Everything that operations use. Belongs to one event loop: make it there, and close it there.

    Parameters
    ----------
    settings
        What to serve, and how.
    catalog
        What is served, open.
    backends
        What other processes do for this one.
    """

    def __init__(self, settings: Settings, catalog: Catalog, backends: Backends) -> None:
        self.settings = settings
        self.limits = settings.limits
        self.catalog = catalog
        self.metrics = Metrics()
        self.writes = backends.writes
        self.is_ready = False
        self.requests: Sized = ()  #: what the server is working on, where it says so
        self._given_encoders = dict(backends.encoders or {})
        self._encoders: dict[str, EncoderThread] = {}
        self._prefixes: dict[str, Prefixes] = {name: Prefixes() for name in catalog}
        threads = settings.num_threads
        self._pool = ThreadPoolExecutor(max(4, threads + 2), thread_name_prefix="segmax")
        self._search_pool = ThreadPoolExecutor(2, thread_name_prefix="search")  # for which nothing else has to wait
        self._group_pool = ThreadPoolExecutor(2, thread_name_prefix="groups")
        self._filter_pool = ThreadPoolExecutor(4, thread_name_prefix="filter")
        self._evaluating: set[threading.Event] = set()  # what ends each of them
        # Threads that wait for other machines: nothing that this machine can answer by itself has to wait for them.
        on_ray = any(served.is_on_ray for served in catalog.values())
        self._ray_pool = ThreadPoolExecutor(_CALLS_ON_RAY, thread_name_prefix="ray") if on_ray else None
        self._num_running = {False: 0, True: 0}  # by whether they wait for Ray
        self._num_batches = 0
        self._encoding_answer = asyncio.Lock()
        self.allowance = Allowance(self.limits.answer_bytes, self.limits.unread_bytes)
        self.admission = Admission(self.limits.wait_ms / 1e3, threads)
        self._ray_searches: list[ThreadPoolExecutor] = []
        self.searchers = {name: self._searcher(served, self._search_pool) for name, served in catalog.items()}
        #: For groups, thousands of searches each: they share the admission with others, which do not wait for them.
        self.group_searchers = {
            name: self.searchers[name] if served.is_on_ray else self._searcher(served, self._group_pool)
            for name, served in catalog.items()
        }
        #: Where searches are asked for that have their own admission.
        self.paths_on_ray = {_search_path(name) for name, served in catalog.items() if served.is_on_ray}
        self._following = asyncio.create_task(self._follow())

    def _searcher(self, served: Served, pool: ThreadPoolExecutor) -> Searcher:
        """Return what searches an index; one on Ray has its own threads, which wait, and its own admission."""
        on_batch = functools.partial(self.metrics.ran_together, served.name)
        if not served.is_on_ray:
            return Searcher(served, self.admission, pool, self.settings.num_threads, on_batch)
        pool = ThreadPoolExecutor(BATCHES_ON_RAY, thread_name_prefix=f"ray-{served.name}")
        self._ray_searches.append(pool)
        return Searcher(served, Admission(self.limits.wait_ms / 1e3, BATCHES_ON_RAY), pool, 1, on_batch)

    async def _follow(self) -> None:
        """Load tables of words, then look for what changed on disk, again and again."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._search_pool, self.catalog.warm)
        while True:
            await asyncio.sleep(FOLLOW_SECONDS)
            self.metrics.flush(self.admission.num_shed)
            try:
                await loop.run_in_executor(self._search_pool, self.catalog.follow)
            except Exception:
                _LOG.exception("looking for changes failed")

    async def close(self) -> None:
        """Stop what runs beside the requests."""
        self._following.cancel()
        for thread in self._encoders.values():
            thread.close()
        for stop in self._evaluating:
            stop.set()
        pools = self._pool, self._search_pool, self._group_pool, self._filter_pool, *self._ray_searches, self._ray_pool
        for pool in pools:
            if pool is not None:
                pool.shutdown(wait=True)
        if isinstance(self.writes, WriterThreads):
            self.writes.close()
        self.catalog.close()

    async def run(self, work: Callable[..., Result], *arguments: Any, of: Source | None = None) -> Result:
        """Do something that may take long on a thread; refuse it if too much is waiting for one.

        `of` is what it is about: an index on Ray is asked by threads of its own.
        """
        is_on_ray = isinstance(of, ShardedIndex)
        if self._num_running[is_on_ray] >= _MOST_RUNNING:
            raise overloaded(1.0)
        self._num_running[is_on_ray] += 1
        try:
            pool = self._ray_pool if is_on_ray else self._pool
            return await asyncio.get_running_loop().run_in_executor(pool, functools.partial(work, *arguments))
        finally:
            self._num_running[is_on_ray] -= 1

    async def encoded_answer(self, answer: msgspec.Struct) -> bytes:
        """Return a long answer as JSON, by a thread: one at a time, because for that moment it is there twice."""
        async with self._encoding_answer:
            return await self.run(messages.ENCODER.encode, answer)

    @contextlib.contextmanager
    def batch(self) -> Iterator[None]:
        """Count a batch of searches; refuse it if enough others are running to keep all threads busy."""
        if self._num_batches >= _MOST_BATCHES:
            raise overloaded(1.0)
        self._num_batches += 1
        try:
            yield
        finally:
            self._num_batches -= 1

    async def target(self, served: Served) -> Target:
        """Return what a request is about: a state that has whatever was acknowledged or shown before the request came.

        Raises
        ------
        ProblemError
            If nothing can be opened, or if this process cannot take over what another one has shown.
        """
        found = served.level()
        if found is None:
            found = await self.run(served.caught_up)
        return Target(served, *found)

    # --- queries -----------------------------------------------------------------------------------------------------

    async def query(
        self, target: Target, message: messages.Query, *, prefix: bool = False, deadline: float | None = None
    ) -> PlainQuery:
        """Return a query as `Index.search` takes it; texts are encoded."""
        given = (message.text is not None) + (message.terms is not None) + (message.vector is not None)
        if given != 1:
            raise invalid(expected="exactly one of text, terms and vector", got=f"{given} of them")
        if message.vector is not None:
            return self.pair(message.vector)
        if message.terms is not None:
            self.check_terms(len(message.terms))
            return message.terms
        assert message.text is not None
        rows = await self.encoded(target, [message.text], deadline)
        if prefix and target.source.terms is not None:
            add = self._prefixes[target.name].added
            rows = await self.run(add, rows, target.source, message.text, of=target.source)
        return rows.indices, rows.values

    def pair(self, vector: messages.Vector) -> tuple[list[int], list[float]]:
        """Return the terms and weights of a query."""
        self.check_terms(len(vector.indices))
        return pair_of(vector)

    def check_terms(self, count: int) -> None:
        """Raise the problem of a query with too many terms."""
        if count > self.limits.terms:
            raise over_limit("terms", self.limits.terms, count)

    async def encoded(self, target: Target, texts: Sequence[str], deadline: float | None = None) -> Csr:
        """Return the vectors of texts."""
        if len(texts) > self.limits.batch:
            raise over_limit("texts", self.limits.batch, len(texts))
        longest = max(map(len, texts), default=0)
        if longest > self.limits.text_chars:
            raise over_limit("text", self.limits.text_chars, longest, "characters")
        if not target.served.is_warm:  # its words have to be loaded
            await self.run(target.served.warm, of=target.source)
        encoder = target.encoder
        if isinstance(encoder, BM25) and len(texts) == 1 and longest <= _SHORT_TEXT:
            return encoder.query_rows(texts)
        return await self._encoding(target, encoder).encode(encoder, texts, deadline)

    def _encoding(self, target: Target, encoder: Encoder | None) -> Encodes:
        """Return what runs the encoder of an index: another process, if it is a model that this one has not loaded."""
        given = self._given_encoders.get(target.name)
        if encoder is None and given is not None:
            return given
        if target.name not in self._encoders:
            self._encoders[target.name] = EncoderThread(target.name)
        return self._encoders[target.name]

    def encoder_name(self, target: Target) -> str | None:
        """Return a short name of what encodes texts; None if nothing does."""
        encoder = target.encoder
        if encoder is None and target.name not in self._given_encoders:
            return None
        described = target.source.encoder_description if encoder is None else encoder.to_dict()
        name = str((described or {}).get("model") or (described or {}).get("encoder") or "model")
        return name.rstrip("/").rsplit("/", 1)[-1]

    def completions(self, target: Target, start: str, limit: int) -> list[tuple[int, str]]:
        """Return words that start with something."""
        return self._prefixes[target.name].completions(target.source, start, limit)

    # --- parameters --------------------------------------------------------------------------------------------------

    def params(self, message: messages.Params | None) -> SearchParams | None:
        """Return a method with its options."""
        if message is None:
            return None
        options = {
            name: value
            for name, value in msgspec.structs.asdict(message).items()
            if value is not msgspec.UNSET and name != "method"
        }
        return made_params(message.method, tuple(options.items()))

    def check_target(self, message: messages.Search | messages.BatchSearch) -> None:
        """Raise the problem of a target recall beside what it would choose."""
        for name in ("params", "max_shards"):
            if message.target_recall is not None and getattr(message, name) is not None:
                raise invalid(expected=f"{name} or target_recall", got="both")

    def chosen(self, target: Target, message: messages.Search) -> tuple[SearchParams | None, int | None]:
        """Return the method of a search and how many shards it may ask: what it says, or what its recall chooses.

        A recall chooses the method in an index, and shards where there are some. What was measured is about the k +
        offset best of all documents, so searches with a filter and for groups are exact.
        """
        max_shards = self.shards(target, message.max_shards)
        self.check_target(message)
        is_part = message.where is not None or message.group_by is not None
        if message.target_recall is None or is_part:
            return self.params(message.params), max_shards
        depth = message.k + message.offset
        if isinstance(target.source, ShardedIndex):
            return None, target.source.routing.shards_for(message.target_recall, depth)
        return target.source.params_for(depth, message.target_recall), None

    def shards(self, target: Target, max_shards: int | None) -> int | None:
        """Return how many shards a search says that it may ask; None: all."""
        if max_shards is not None and not isinstance(target.source, ShardedIndex):
            raise invalid(option="max_shards", expected="left out, because this index has no shards", got=max_shards)
        return max_shards

    def deadline(self, params: SearchParams | None, budget_ms: float | None, arrived: float) -> float | None:
        """Return when a search has to be over, by `time.perf_counter`."""
        if budget_ms is None:
            return None
        method = EXACT if params is None else params
        if "budget_ms" not in method.options():
            raise invalid(option="budget_ms", expected=f"left out with {method.method}", got=budget_ms)
        return arrived + budget_ms / 1e3

    def check_depth(self, k: int, offset: int, group_size: int = 1) -> None:
        """Raise the problem of a search for too many results."""
        if k + offset > self.limits.k:
            raise over_limit("k + offset", self.limits.k, k + offset)
        if k * group_size > self.limits.k:
            raise over_limit("k x group_size", self.limits.k, k * group_size)

    async def know(
        self, target: Target, wheres: Iterable[Filter], deadline: float | None, gone: Gone, group_by: str | None = None
    ) -> None:
        """Find out which documents filters match before the search with them takes its turn: others do not wait.

        Likewise the documents of every group, where only their JSON tells them.
        """
        source = target.source
        if isinstance(source, ShardedIndex):
            return
        for where in wheres:
            if not (_is_short(where) and source.knows(where)):
                await self.evaluate(source.count, where, deadline=deadline, gone=gone)
        if group_by is not None:
            group = narrowed(None, checked_field(group_by, "group_by"), None)  # one tells all groups
            if not source.knows(group):
                await self.evaluate(source.count, group, deadline=deadline, gone=gone)

    async def evaluate(
        self, work: Callable[..., Result], *arguments: Any, gone: Gone, deadline: float | None = None
    ) -> Result:
        """Do something that may look through all documents, on threads for which nothing else has to wait.

        It ends at the deadline, by `time.perf_counter`, where the client has gone, and where the service stops.
        """
        if len(self._evaluating) >= _MOST_RUNNING:
            raise overloaded(1.0)
        stop = threading.Event()
        ended = functools.partial(_until, stop, deadline, functools.partial(work, *arguments))
        working = asyncio.get_running_loop().run_in_executor(self._filter_pool, ended)
        leaving = asyncio.ensure_future(gone())
        self._evaluating.add(stop)
        try:
            left = None if deadline is None else max(0.0, deadline - time.perf_counter())
            either: set[asyncio.Future[Any]] = {working, leaving}
            await asyncio.wait(either, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if leaving.done():
                leaving.result()  # raises
            if not working.done():
                raise too_late()
            return working.result()
        finally:
            stop.set()
            self._evaluating.discard(stop)
            leaving.cancel()
            if not working.cancel():
                working.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody else asks

    def check_where(self, where: Mapping[str, Any] | None) -> None:
        """Raise the problem of a filter that is too large."""
        if where is not None and not _is_within(where, self.limits.terms):
            raise over_limit("where", self.limits.terms, "more", "values")

    # --- results -----------------------------------------------------------------------------------------------------

    def marker(self, target: Target, query: PlainQuery, message: messages.Search) -> Marker | None:
        """Return what marks the words of a query, if a search asks for that."""
        if message.highlight is False:
            return None
        highlight = messages.Highlight() if message.highlight is True else message.highlight
        assert isinstance(highlight, messages.Highlight)
        split = getattr(target.encoder, "occurrences", None)
        return Marker(frozenset(_words(target.source, query)), split, highlight.width)


def _search_path(name: str) -> bytes:
    return f"/v1/indexes/{quote(name, safe='')}/search".encode()


def _until(stop: threading.Event, deadline: float | None, work: Callable[[], Result]) -> Result:
    with ended_at(deadline, stop.is_set):
        return work()


def pair_of(vector: messages.Vector) -> tuple[list[int], list[float]]:
    """Return the terms and weights of a vector."""
    if len(vector.indices) != len(vector.values):
        raise invalid(
            option="vector",
            expected="as many indices as values",
            got=f"{len(vector.indices)} and {len(vector.values)}",
        )
    return vector.indices, vector.values


@functools.lru_cache(1024)
def made_params(method: str, options: tuple[tuple[str, Any], ...]) -> SearchParams:
    """Return a method with its options; the same object for the same options, which has the core's form of it ready."""
    kind = METHODS[method]
    unknown = [name for name, _ in options if name not in kind.options()]
    if unknown:
        raise invalid(
            option="params",
            expected=f"options of {method} ({', '.join(kind.options()) or 'it has none'})",
            got=", ".join(unknown),
        )
    return kind(**dict(options))


def _words(source: Source, query: PlainQuery) -> list[str]:
    """Return the words of a query, as far as the index knows them."""
    if isinstance(query, Mapping):
        return list(query)
    terms = source.terms
    if terms is None:
        return []
    return [terms[number] for number in np.asarray(query[0]).tolist() if 0 <= number < len(terms)]


def _is_short(where: Filter) -> bool:
    """Whether the event loop may check a filter by itself."""
    return _is_within(where, _SHORT_FILTER) and num_characters(where) <= _SHORT_FILTER_TEXT


def _is_within(where: object, limit: int) -> bool:
    """Whether a filter has at most some number of values, whatever holds them; stops counting there."""
    waiting, count = [where], 0
    while waiting and count + len(waiting) <= limit:
        one = waiting.pop()
        count += 1
        if isinstance(one, Mapping):
            waiting.extend(one.values())
        elif isinstance(one, list):
            waiting.extend(one)
    return not waiting
