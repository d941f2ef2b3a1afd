"""Searches of many requests: collected, admitted by how long they would wait, and run together.

The event loop only collects. A few cheap searches run there and then, because handing them to a thread would take
longer than they do. Others run as one batch on a thread that holds no lock of Python's, while the loop goes on reading
requests. Searches of shards on other machines mostly wait, so several batches of these are under way at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from segmax.base.breaks import checked_by
from segmax.base.errors import ShardsUnavailableError
from segmax.search.arguments import EXACT, within
from segmax.search.methods import SearchParams
from segmax.search.results import Groups, Hits
from segmax.serve.catalog import Served, Source
from segmax.serve.problems import RETRY_SOON, ProblemError, overloaded
from segmax.shards.sharded import ShardedIndex

#: A query as `Index.search` takes it: terms and weights, or a mapping of words to weights.
PlainQuery = tuple[Any, Any] | Mapping[str, float]
#: What became of a search, and how many seconds it took.
Answer = tuple[Hits | Groups | BaseException, float]

_MOST_BATCHED = 64  # searches of one batch: more would make the first of them wait for the last
_INLINE_SECONDS = 0.001  # of work that the event loop may do by itself between two looks at its sockets
_FIRST_COST = 0.0004  # of a search, before anything is known
_LEAST_COST = 1e-6
_COST_SHARE = 0.1  # of the last search in the running mean
_WAIT_COSTS = 8  # searches of the same kind that one may always wait for, however long they take
_ALWAYS_WAITING = 16  # searches per thread that may always wait: what an ordinary pool of connections sends
BATCHES_ON_RAY = 4  #: batches of searches of an index on Ray that are under way at the same time


class Kind(NamedTuple):
    """What the time of a search depends on most: searches of one kind take about as long."""

    term_bits: int  #: of the number of terms in the query
    k_bits: int
    method: str
    is_filtered: bool
    is_grouped: bool


class Grouping(NamedTuple):
    """What only searches for groups say to the index."""

    group_by: str | None
    group_size: int
    offset: int
    min_score: float | None


@dataclasses.dataclass(eq=False, slots=True)
class Job:
    """A search that waits for its turn."""

    source: Source  #: what was served when the request came, and what its words were looked up in
    query: PlainQuery
    k: int  #: with the offset
    params: SearchParams | None
    where: Mapping[str, Any] | None
    deadline: float | None  #: by `time.perf_counter`
    future: asyncio.Future[Any]
    cost: float
    kind: Kind
    is_behind: bool  #: others were waiting or running when it came
    max_shards: int | None = None
    grouping: Grouping | None = None

    def fits(self, other: Job) -> bool:
        """Whether both can be searched in one batch: the index was not replaced between them, for instance."""
        is_like = self.source is other.source and self.max_shards == other.max_shards
        return is_like and self.grouping is None and other.grouping is None

    def is_late(self) -> bool:
        """Whether its time was over before its turn came, because of others. One that is alone finds what it can."""
        return self.is_behind and self.deadline is not None and time.perf_counter() > self.deadline

    def params_now(self) -> SearchParams | None:
        """Return the parameters, with what is left of the time until the deadline as budget."""
        return within(self.params, self.deadline)


def too_late() -> ProblemError:
    """Return the problem of a filter that was not evaluated in time."""
    detail = "to find the documents that match the filter takes longer than budget_ms: simplify it, or wait longer"
    return ProblemError(503, "overloaded", detail, headers=RETRY_SOON)


@contextlib.contextmanager
def ended_at(deadline: float | None, is_over: Callable[[], bool] = bool) -> Iterator[None]:
    """End long work of this thread in Python with a problem, once a deadline has passed, or nobody wants it."""

    def check() -> None:
        if is_over() or (deadline is not None and time.perf_counter() > deadline):
            raise too_late()

    with checked_by(check):
        yield


class Admission:
    """How much work is waiting in this process, and whether more is taken on."""

    def __init__(self, wait_seconds: float, threads: int) -> None:
        self._limit = wait_seconds
        self._threads = threads
        self._num_coming = 0  # searches that were read, and will be taken when the event loop comes round
        self._busy_since: float | None = None  # what comes meanwhile waits in its socket
        self._loop = asyncio.get_running_loop()
        self.num_shed = 0  #: requests that were refused, whatever for
        self.backlog = 0.0  #: seconds of work that is waiting or running
        self.num_waiting = 0  #: searches that are waiting or running
        self.usual_cost = _FIRST_COST  #: of a search of which nothing more is known

    def learn(self, seconds: float) -> None:
        """Take the time of a search into account: by its logarithm, so that a few slow ones are not the usual ones."""
        self.usual_cost *= (max(seconds, _LEAST_COST) / self.usual_cost) ** _COST_SHARE

    def take(self, cost: float, deadline: float | None, now: float, ahead: float = 0.0) -> None:
        """Add work to what is waiting; raise the problem of an overload if it would have to wait too long.

        `ahead` is how many seconds of work have their turn before it: other work goes on beside it.
        """
        wait = self.backlog / self._threads
        is_too_long = wait > max(self._limit, _WAIT_COSTS * cost) and self._is_long
        is_too_late = deadline is not None and ahead > 0 and now + ahead / self._threads > deadline
        if is_too_long or is_too_late:
            raise overloaded(wait)
        self.backlog += cost
        self.num_waiting += 1

    def is_full(self) -> bool:
        """Whether the next search would be refused, unless it is of a kind that takes longer than most."""
        count = self.num_waiting + self._num_coming
        if count < _ALWAYS_WAITING * self._threads:
            return False
        mean = self.backlog / self.num_waiting if self.num_waiting else self.usual_cost
        lag = 0.0 if self._busy_since is None else time.perf_counter() - self._busy_since
        return lag + count * mean / self._threads > max(self._limit, _WAIT_COSTS * mean)

    def note_coming(self) -> None:
        """Count a search that was read: the event loop reads all that have come before it takes the first."""
        if not self._num_coming:
            self._loop.call_soon(self._forget_coming)
        self._num_coming += 1

    def _forget_coming(self) -> None:
        self._num_coming = 0
        self.note_busy()

    def note_busy(self) -> None:
        """Note that the event loop works until it comes round again: so long, what comes waits in its socket."""
        self._busy_since = since = time.perf_counter()
        self._loop.call_soon(self._came_round, since)

    def _came_round(self, since: float) -> None:
        if since == self._busy_since:
            self._busy_since = None

    @property
    def _is_long(self) -> bool:
        """Whether more are waiting than always may."""
        return self.num_waiting >= _ALWAYS_WAITING * self._threads

    def give_back(self, cost: float) -> None:
        """Take work that is done off what is waiting."""
        self.num_waiting -= 1
        self.backlog = max(0.0, self.backlog - cost) if self.num_waiting else 0.0


class Searcher:
    """Searches one index or collection for many requests.

    Parameters
    ----------
    served
        What is searched.
    admission
        What decides whether more searches are taken on.
    pool
        Threads for batches.
    threads
        Threads of the core that work on a batch.
    on_batch
        Called for every batch.
    """

    def __init__(
        self,
        served: Served,
        admission: Admission,
        pool: ThreadPoolExecutor,
        threads: int,
        on_batch: Callable[[], None],
    ) -> None:
        self._served = served
        self._admission = admission
        self._pool = pool
        self._threads = threads
        self._on_batch = on_batch
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Job] = deque()
        self._unfinished: set[Job] = set()  # that are waiting or running
        self._is_scheduled = False
        self._num_running = 0  # batches on threads
        self._most_running = BATCHES_ON_RAY if served.is_on_ray else 1
        self._costs: dict[Kind, float] = {}
        self._source: Source | None = None  # that they are about

    def at_once(self, source: Source, query: PlainQuery, k: int, params: SearchParams | None) -> Hits | None:
        """Search here and now, if that takes next to no time and nothing else is going on; otherwise return None."""
        if self._served.is_on_ray:
            return None
        self._learn_about(source)
        kind = _kind_of(num_terms(query), k, params)
        cost = self._costs.get(kind)
        if cost is None or cost > _INLINE_SECONDS or self._admission.num_waiting or not self._is_known(query):
            return None
        start = time.perf_counter()
        hits = source.search(query, k, params)
        self._learn(kind, time.perf_counter() - start)
        self._on_batch()
        return hits

    def are_quick(
        self, source: Source, sizes: Sequence[int], depths: Sequence[int], params: Sequence[SearchParams | None]
    ) -> bool:
        """Whether some searches without filters are expected to take next to no time, all of them together.

        `sizes` are numbers of terms.
        """
        self._learn_about(source)
        if self._served.is_on_ray or self._admission.num_waiting or not self._served.is_warm:
            return False
        return self._expected(map(_kind_of, sizes, depths, params)) <= _INLINE_SECONDS

    def learn(
        self, sizes: Sequence[int], depths: Sequence[int], params: Sequence[SearchParams | None], seconds: float
    ) -> None:
        """Take the time of searches that were run elsewhere into account, if they differ in their sizes at most."""
        kinds = list(map(_kind_of, sizes, depths, params))
        if len({kind._replace(term_bits=0) for kind in kinds}) == 1:
            for kind, part in dict(zip(kinds, _parts_of(seconds, kinds), strict=True)).items():
                self._learn(kind, part)

    def submit(
        self,
        source: Source,
        query: PlainQuery,
        k: int,
        params: SearchParams | None,
        where: Mapping[str, Any] | None,
        deadline: float | None,
        max_shards: int | None = None,
        grouping: Grouping | None = None,
    ) -> asyncio.Future[Any]:
        """Return the future results of a search; raise the problem of an overload if it would wait too long.

        They are `Hits`, or `Groups` with a grouping, to which the offset belongs then.
        """
        self._learn_about(source)
        depth = k if grouping is None else (k + grouping.offset) * grouping.group_size
        kind = _kind_of(num_terms(query), depth, params, where is not None, grouping is not None)
        cost = self._costs.get(kind, self._admission.usual_cost)
        is_behind = bool(self._unfinished)
        ahead = 0.0 if deadline is None else sum(job.cost for job in self._unfinished)
        self._admission.take(cost, deadline, time.perf_counter(), ahead)
        future: asyncio.Future[Any] = self._loop.create_future()
        how = source, query, k, params, where, deadline
        job = Job(*how, future, cost, kind, is_behind, max_shards, grouping)
        self._waiting.append(job)
        self._unfinished.add(job)
        self._schedule()
        return future

    def _learn_about(self, source: Source) -> None:
        """Forget what searches took in an index whose place another one has taken."""
        if source is not self._source:
            self._source = source
            self._costs.clear()

    def _schedule(self) -> None:
        """Run what is waiting when the event loop has read what has come, if another batch may run."""
        if self._waiting and not self._is_scheduled and self._num_running < self._most_running:
            self._is_scheduled = True
            self._loop.call_soon(self._drain)

    def _drain(self) -> None:
        """Run what is waiting: here, if that takes next to no time, and otherwise on a thread."""
        self._is_scheduled = False
        is_on_ray = self._served.is_on_ray
        jobs: list[Job] = []
        others: list[Job] = []  # that wait for another batch
        seconds = 0.0
        while self._waiting and len(jobs) < _MOST_BATCHED:
            if jobs and not self._waiting[0].fits(jobs[0]):
                others.append(self._waiting.popleft())
                continue
            is_enough = seconds + self._waiting[0].cost > _INLINE_SECONDS if jobs else False
            if is_enough and self._threads == 1 and not is_on_ray:
                break  # one thread gains nothing from larger batches, and sockets have to be looked at
            job = self._waiting.popleft()
            if job.is_late() and not job.future.done():
                job.future.set_exception(overloaded(0.0))
            if job.future.done():  # or whoever asked has gone
                self._give_back(job)
            else:
                seconds += job.cost
                jobs.append(job)
        self._waiting.extendleft(reversed(others))
        if not jobs:
            return
        self._on_batch()
        is_cheap = not is_on_ray and self._expected(job.kind for job in jobs) <= _INLINE_SECONDS
        if is_cheap and (len(jobs) == 1 or self._threads == 1) and all(self._is_plain(job) for job in jobs):
            self._admission.note_busy()
            self._finish(jobs, _searched_one_by_one(jobs))
        else:
            self._num_running += 1
            self._loop.run_in_executor(self._pool, self._run, jobs)
        self._schedule()

    def _is_plain(self, job: Job) -> bool:
        """Whether nothing has to be looked up for a search that might take long."""
        return job.where is None and job.grouping is None and self._is_known(job.query)

    def _is_known(self, query: PlainQuery) -> bool:
        """Whether the words of a query can be looked up without loading a table."""
        return self._served.is_warm or not isinstance(query, Mapping)

    def _run(self, jobs: list[Job]) -> None:
        try:
            answers = _searched(jobs, self._threads)
        except BaseException as error:
            answers = [(error, 0.0)] * len(jobs)
        self._loop.call_soon_threadsafe(self._ran, jobs, answers)

    def _ran(self, jobs: list[Job], answers: list[Answer]) -> None:
        self._num_running -= 1
        self._finish(jobs, answers)
        if self._waiting and not self._is_scheduled:
            self._drain()

    def _expected(self, kinds: Iterable[Kind]) -> float:
        """Return how many seconds searches take by what is known now; no end of them if it is not about one."""
        return sum(self._costs.get(kind, math.inf) for kind in kinds)

    def _learn(self, kind: Kind, seconds: float) -> None:
        """Take the time of a search into account for the next ones of its kind."""
        before = self._costs.get(kind, seconds)
        self._costs[kind] = before + _COST_SHARE * (seconds - before)
        self._admission.learn(seconds)

    def _give_back(self, job: Job) -> None:
        """Take a search that is done off what is waiting."""
        self._unfinished.discard(job)
        self._admission.give_back(job.cost)

    def _finish(self, jobs: list[Job], answers: list[Answer]) -> None:
        for job, (answer, seconds) in zip(jobs, answers, strict=True):
            self._give_back(job)
            if isinstance(answer, BaseException):
                if not job.future.done():
                    job.future.set_exception(answer)
                continue
            if job.source is self._source:
                self._learn(job.kind, seconds)
            if not job.future.done():
                job.future.set_result(answer)


def num_terms(query: PlainQuery) -> int:
    """Return how many terms a query has."""
    return len(query if isinstance(query, Mapping) else query[0])


def _kind_of(
    size: int, k: int, params: SearchParams | None, is_filtered: bool = False, is_grouped: bool = False
) -> Kind:
    return Kind(size.bit_length(), k.bit_length(), (params or EXACT).method, is_filtered, is_grouped)


def _parts_of(seconds: float, kinds: Sequence[Kind]) -> list[float]:
    """Return what each of some searches has of the time of all: about as much as it has terms."""
    sizes = [1 << kind.term_bits for kind in kinds]
    total = sum(sizes)
    return [seconds * size / total for size in sizes]


def _limits(job: Job) -> dict[str, Any]:
    """Return what only searches of sharded indexes have."""
    return {} if job.max_shards is None else {"max_shards": job.max_shards}


def _searched_one_by_one(jobs: list[Job]) -> list[Answer]:
    """Return the results of every search, or what is wrong with it, and how long it took."""
    answers: list[Answer] = []
    for job in jobs:
        start = time.perf_counter()
        answer: Hits | Groups | BaseException
        try:
            answer = _searched_one(job)
        except Exception as error:
            answer = error
        answers.append((answer, time.perf_counter() - start))
    return answers


def _searched_one(job: Job) -> Hits | Groups:
    more = _limits(job) if job.grouping is None else _limits(job) | job.grouping._asdict()
    # At its deadline, a search for groups ends by itself, with what it has found.
    with ended_at(job.deadline if job.grouping is None else None, job.future.done):
        found: Hits | Groups = job.source.search(job.query, job.k, job.params_now(), where=job.where, **more)
    if isinstance(job.source, ShardedIndex):
        for hits in [group.hits for group in found] if isinstance(found, Groups) else [found]:
            _ = hits.ids  # here, because shards may have to be asked for them
    return found


def _searched(jobs: list[Job], threads: int) -> list[Answer]:
    """Do the same for all of them at once; a search that fails must not take the others with it."""
    if len(jobs) == 1:
        return _searched_one_by_one(jobs)
    start = time.perf_counter()
    source, wheres = jobs[0].source, [job.where for job in jobs]
    try:
        found = source.search_batch(
            [job.query for job in jobs],
            [job.k for job in jobs],
            [job.params_now() or EXACT for job in jobs],
            threads=threads,
            where=None if all(where is None for where in wheres) else wheres,
            **_limits(jobs[0]),
        )
        if isinstance(source, ShardedIndex):
            found.ids_of(found.rows[found.rows >= 0])  # here, and for all of them with one round of calls
    except ShardsUnavailableError as error:
        return [(error, 0.0)] * len(jobs)  # which took until the deadline, and would again
    except Exception:
        return _searched_one_by_one(jobs)
    seconds = (time.perf_counter() - start) * min(threads, len(jobs))
    return [*zip(found, _parts_of(seconds, [job.kind for job in jobs]), strict=True)]
