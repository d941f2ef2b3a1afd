"""A collection that lives, beside qdrant-edge: `python -m benchmarks.live --help`.

Both engines get the same documents in batches of 1,000, each with one integer in its metadata, and answer the same
queries, one at a time through their Python APIs, on one thread that stays on one core. Passes alternate between the
engines, so that a busy machine slows both alike. A query's latency is its fastest pass; the other half of the queries
warms up. Queries and filters are converted beforehand. So are the documents for qdrant-edge, whose API takes an object
per document; segmax takes the CSR batch as it is, and its conversion counts.

*Durable* is not the same in both. With `durability="batch"`, `Collection.add` returns after an fdatasync of the log:
the batch survives a power loss. qdrant-edge's `update` writes to a memory-mapped log and syncs nothing (strace shows
neither msync nor fsync before `flush`): the batch survives a killed process, but no power loss.

A filter's mean has the first use of its expression in it: every expression is new, and answers 200 queries. Several
expressions that keep as many documents answer the same queries; the fastest answer to each counts, as if expressions
were passes.

segmax must agree with exhaustive search in every state, document by document, and its best scores with scipy's. The
recall of qdrant-edge is against the same scores; any of several equal ones will do.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import math
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

import segmax
from benchmarks import wiki
from segmax.base.system import cpu_name

RESULTS = Path(__file__).parent / "results" / "live.jsonl"
BATCH = 1000
BUCKETS = 10_000
SHARES = (0.5, 0.1, 0.01, 0.001)
FILTER_GOALS = (6.0, 6.0, 10.0, 6.0)
FILTER_QUERIES = 200
CRASH_DOCS = 100_000
LIVE_RATE = 5000

Ask = Callable[[int], Any]
#: The buckets from one number to before another.
Range = tuple[int, int]


class Batch(NamedTuple):
    """Documents that are added together."""

    first: int  # the id of the first one; the others follow
    docs: sp.csr_matrix
    buckets: list[int]

    @property
    def ids(self) -> list[int]:
        """The ids of all of them."""
        return list(range(self.first, self.first + len(self.buckets)))


class Engine(Protocol):
    """What is measured of an engine."""

    name: str

    def ready(self, batch: Batch) -> Any:
        """Return a batch in the form that the engine takes."""
        ...

    def add(self, batch: Any) -> None:
        """Add what `ready` returned."""
        ...

    def settle(self) -> None:
        """Bring the index in order, until nothing is left to do."""
        ...

    def pause(self) -> None:
        """Let no merge start."""
        ...

    def resume(self) -> None:
        """Let merges go on."""
        ...

    def delete(self, ids: list[int]) -> None:
        """Delete documents."""
        ...

    def asks(self, k: int, buckets: Range | None = None) -> Ask:
        """Return a function that answers the query of a number; only the function is timed."""
        ...

    def found(self, answer: Any) -> tuple[list[int], list[float]]:
        """Return the ids and scores of an answer."""
        ...

    def num_docs(self) -> int:
        """Return the number of living documents."""
        ...

    def close(self) -> None:
        """Let go of the files."""
        ...


# --- segmax ----------------------------------------------------------------------------------------------------------


class Segmax:
    """`segmax.Collection`, with a sync per batch."""

    name = "segmax"

    def __init__(self, path: Path, queries: sp.csr_matrix, *, new: bool) -> None:
        create = segmax.Collection.create
        self.collection = create(path, durability="batch") if new else segmax.Collection.open(path)
        self._queries = [(row.indices.astype(np.int64), row.data.astype(np.float64)) for row in queries]

    def ready(self, batch: Batch) -> Any:
        """Return the matrix, and what comes beside it."""
        return batch.docs, batch.ids, [{"bucket": bucket} for bucket in batch.buckets]

    def add(self, batch: Any) -> None:
        """Add and sync."""
        docs, ids, metadata = batch
        self.collection.add(docs, ids=ids, metadata=metadata)

    def settle(self) -> None:
        """Wait for all merges."""
        self.collection.settle()

    def pause(self) -> None:
        """Let no merge start."""
        self.collection.pause_merges()

    def resume(self) -> None:
        """Let merges go on."""
        self.collection.resume_merges()

    def delete(self, ids: list[int]) -> None:
        """Delete documents."""
        self.collection.delete(ids)

    def asks(self, k: int, buckets: Range | None = None, params: Any = None) -> Ask:
        """Return the search of one query, exact unless parameters say otherwise."""
        search, queries = self.collection.search, self._queries
        if buckets is None:
            return lambda number: search(queries[number], k, params)
        where = {"bucket": {"$gte": buckets[0], "$lt": buckets[1]}}
        return lambda number: search(queries[number], k, params, where=where)

    def found(self, answer: Any) -> tuple[list[int], list[float]]:
        """Return the ids and scores of an answer."""
        return answer.ids, answer.scores.tolist()

    def num_docs(self) -> int:
        """Return the number of living documents."""
        return self.collection.num_docs

    def close(self) -> None:
        """Let go of the files."""
        self.collection.close()


# --- qdrant-edge -----------------------------------------------------------------------------------------------------


class Qdrant:
    """`qdrant_edge.EdgeShard` with its log, an index of the field, and one thread for searches."""

    name = "qdrant-edge"

    def __init__(self, path: Path, queries: sp.csr_matrix, *, new: bool) -> None:
        import qdrant_edge

        self._edge = edge = cast("Any", qdrant_edge)
        if new:
            config = edge.EdgeConfig(
                sparse_vectors={"v": edge.EdgeSparseVectorParams()}, max_search_threads=1, wal_enabled=True
            )
            self._shard = edge.EdgeShard.create(str(path), config)
            integers = edge.IntegerIndexParams(lookup=True, range=True)
            self._shard.update(edge.UpdateOperation.create_field_index("bucket", integers))
        else:
            self._shard = edge.EdgeShard.load(str(path))
        self._queries = [
            edge.Query.Nearest(edge.SparseVector(row.indices.tolist(), row.data.astype(float).tolist()), using="v")
            for row in queries
        ]

    def ready(self, batch: Batch) -> Any:
        """Return an upsert of points."""
        edge = self._edge
        ends, terms, weights = batch.docs.indptr.tolist(), batch.docs.indices.tolist(), batch.docs.data.tolist()
        points = [
            edge.Point(
                id,
                {"v": edge.SparseVector(terms[ends[at] : ends[at + 1]], weights[ends[at] : ends[at + 1]])},
                {"bucket": bucket},
            )
            for at, (id, bucket) in enumerate(zip(batch.ids, batch.buckets, strict=True))
        ]
        return edge.UpdateOperation.upsert_points(points)

    def add(self, batch: Any) -> None:
        """Upsert, into the log as well."""
        self._shard.update(batch)

    def settle(self) -> None:
        """Flush and optimize."""
        self._shard.flush()
        self._shard.optimize()
        self._shard.flush()

    def pause(self) -> None:
        """Nothing to do: it optimizes when it is asked to."""

    def resume(self) -> None:
        """Nothing to do."""

    def delete(self, ids: list[int]) -> None:
        """Delete points."""
        self._shard.update(self._edge.UpdateOperation.delete_points(ids))

    def asks(self, k: int, buckets: Range | None = None) -> Ask:
        """Return the search of one query."""
        edge, search = self._edge, self._shard.search
        kept = None
        if buckets is not None:
            field = edge.FieldCondition(key="bucket", range=edge.RangeFloat(gte=buckets[0], lt=buckets[1]))
            kept = edge.Filter(must=[field])
        requests = [edge.SearchRequest(query=query, limit=k, filter=kept) for query in self._queries]
        return lambda number: search(requests[number])

    def found(self, answer: Any) -> tuple[list[int], list[float]]:
        """Return the ids and scores of an answer."""
        return [point.id for point in answer], [point.score for point in answer]

    def num_docs(self) -> int:
        """Return the number of living documents."""
        return int(self._shard.count(self._edge.CountRequest(exact=True)))

    def close(self) -> None:
        """Let go of the files."""
        self._shard.close()


ENGINES: dict[str, Any] = {"segmax": Segmax, "qdrant-edge": Qdrant}


# --- measuring -------------------------------------------------------------------------------------------------------


class Data(NamedTuple):
    """Documents and queries; the buckets of documents are their metadata."""

    docs: sp.csr_matrix
    buckets: NDArray[np.int64]
    queries: sp.csr_matrix

    def batches(self, first: int, last: int, first_id: int | None = None) -> Iterator[Batch]:
        """Yield rows in batches; ids are rows unless they start elsewhere."""
        shift = 0 if first_id is None else first_id - first
        for start in range(first, last, BATCH):
            end = min(start + BATCH, last)
            yield Batch(start + shift, self.docs[start:end], self.buckets[start:end].tolist())


class Latency(NamedTuple):
    """Milliseconds."""

    mean: float
    p99: float

    @classmethod
    def of(cls, nanoseconds: NDArray[Any]) -> Latency:
        """Summarize times."""
        return cls(float(nanoseconds.mean()) / 1e6, float(np.quantile(nanoseconds, 0.99)) / 1e6)


@contextlib.contextmanager
def on_core(core: int | None) -> Iterator[None]:
    """Keep this thread on one core, and the collector of garbage out of the way."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, before if core is None else {core})
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        os.sched_setaffinity(0, before)


def timed(ask: Ask, numbers: Sequence[int]) -> NDArray[np.int64]:
    """Return how long each query takes, in nanoseconds."""
    took = np.zeros(len(numbers), dtype=np.int64)
    for at, number in enumerate(numbers):
        start = time.perf_counter_ns()
        ask(number)
        took[at] = time.perf_counter_ns() - start
    return took


def latencies(asks: Sequence[Ask], num_queries: int, passes: int, core: int | None) -> list[Latency]:
    """Return the latencies of several engines: half of the queries warm up, the fastest pass of the others counts."""
    fastest: list[NDArray[np.int64] | None] = [None] * len(asks)
    with on_core(core):
        for _ in range(passes):
            for at, ask in enumerate(asks):
                timed(ask, range(0, num_queries, 2))
                took = timed(ask, range(1, num_queries, 2))
                known = fastest[at]
                fastest[at] = took if known is None else np.minimum(known, took)
    return [Latency.of(took) for took in fastest if took is not None]


class Filtered(NamedTuple):
    """A filter that keeps a share, in milliseconds."""

    mean: float
    first: float


def expressions(share: float, count: int) -> list[Range]:
    """Return several ranges of buckets that keep a share, spread out.

    Examples
    --------
    >>> expressions(0.5, 2)
    [(0, 5000), (5000, 10000)]
    """
    width = round(share * BUCKETS)
    starts = np.linspace(0, BUCKETS - width, count).astype(int).tolist()
    return [(start, start + width) for start in starts]


def filtered(engines: Sequence[Engine], share: float, num_queries: int, count: int, core: int | None) -> list[Filtered]:
    """Return the latencies of filters. Every expression is new, and its first use is in the mean."""
    runs: list[list[NDArray[np.int64]]] = [[] for _ in engines]
    with on_core(core):
        for buckets in expressions(share, count):
            for engine, own in zip(engines, runs, strict=True):
                timed(engine.asks(10), range(0, min(100, num_queries), 2))
                own.append(timed(engine.asks(10, buckets), [2 * n % num_queries for n in range(FILTER_QUERIES)]))
    fastest = [np.minimum.reduce(own) for own in runs]
    return [Filtered(float(took.mean()) / 1e6, float(took[0]) / 1e6) for took in fastest]


class Ingest(NamedTuple):
    """How documents came in."""

    per_second: float
    median_ms: float
    p99_ms: float
    seconds: float
    settle_seconds: float

    @property
    def settled_seconds(self) -> float:
        """Until the last document was in and everything was in order."""
        return self.seconds + self.settle_seconds


def ingest(engine: Engine, batches: Iterator[Batch], *, settle: bool = True) -> Ingest:
    """Add batches one after the other; what turns them into the engine's form is not counted."""
    took, count = [], 0
    for batch in batches:
        given = engine.ready(batch)
        start = time.perf_counter()
        engine.add(given)
        took.append(time.perf_counter() - start)
        count += len(batch.buckets)
    start = time.perf_counter()
    if settle:
        engine.settle()
    settled = time.perf_counter() - start
    seconds = sum(took)
    ms = 1e3 * np.array(took)
    return Ingest(count / seconds, float(np.median(ms)), float(np.quantile(ms, 0.99)), seconds, settled)


def disk_bytes(path: Path) -> int:
    """Return what a folder takes on disk."""
    return sum(file.stat().st_blocks * 512 for file in path.rglob("*") if file.is_file())


class Live(NamedTuple):
    """Latencies of searches while documents come, in milliseconds."""

    quiet_p99: float
    live_p99: float
    added_per_second: float


def live(engine: Engine, batches: Iterator[Batch], num_queries: int, seconds: float, core: int | None) -> Live:
    """Search without a break: first in a quiet collection, then while another thread adds at a fixed rate."""
    given = [engine.ready(batch) for batch in batches]
    ask = engine.asks(10)
    stop = threading.Event()
    added: list[float] = []

    def write() -> None:
        start = time.monotonic()
        for number, one in enumerate(given):
            if stop.wait(max(0.0, start + number * BATCH / LIVE_RATE - time.monotonic())):
                break
            engine.add(one)
            added.append(time.monotonic() - start)

    with on_core(core):
        timed(ask, range(num_queries))
        quiet = _searched_for(ask, num_queries, seconds / 2)
    writer = threading.Thread(target=write)
    writer.start()
    with on_core(core):
        busy = _searched_for(ask, num_queries, seconds)
        stop.set()
    writer.join()
    rate = (len(added) - 1) * BATCH / added[-1] if len(added) > 1 else math.nan
    return Live(window_p99(quiet), window_p99(busy), rate)


def window_p99(took: NDArray[np.int64]) -> float:
    """Return the median of the p99 of every second, in milliseconds: a stall of the machine spoils one second only.

    Examples
    --------
    >>> window_p99(np.full(3000, 1_000_000))
    1.0
    """
    seconds = np.cumsum(took) // 1_000_000_000
    windows = [took[seconds == second] for second in range(int(seconds[-1]) + 1)]
    return float(np.median([np.quantile(window, 0.99) for window in windows if len(window)])) / 1e6


def _searched_for(ask: Ask, num_queries: int, seconds: float) -> NDArray[np.int64]:
    took: list[int] = []
    end = time.perf_counter_ns() + int(1e9 * seconds)
    while (start := time.perf_counter_ns()) < end:
        ask(len(took) % num_queries)
        took.append(time.perf_counter_ns() - start)
    return np.array(took, dtype=np.int64)


# --- crashing --------------------------------------------------------------------------------------------------------


def log_until_killed(name: str, path: Path, data: Data, count: int) -> None:
    """Add documents without a merge, say so, and wait for the end."""
    engine: Engine = ENGINES[name](path, data.queries, new=True)
    engine.pause()
    ingest(engine, data.batches(0, count), settle=False)
    sys.stdout.write("logged\n")
    sys.stdout.flush()
    time.sleep(3600)


def reopened(name: str, path: Path, data: Data, count: int, options: Sequence[str]) -> float:
    """Kill a process that has logged documents; return how long it takes until they can be searched again."""
    command = [sys.executable, "-m", "benchmarks.live", "--until-killed", name, "--work", str(path), *options]
    writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    assert writer.stdout.readline() == "logged\n", "the writer failed"
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    start = time.perf_counter()
    engine: Engine = ENGINES[name](path, data.queries[:2], new=False)
    engine.asks(10)(0)
    seconds = time.perf_counter() - start
    assert engine.num_docs() == count, f"{name} has {engine.num_docs():,} of {count:,} documents"
    engine.close()
    return seconds


# --- checking --------------------------------------------------------------------------------------------------------


class Checker:
    """Exact scores by scipy, of the documents that are there."""

    def __init__(self, data: Data, numbers: Sequence[int]) -> None:
        columns = data.docs.tocsc()
        self._numbers = numbers
        self._buckets = data.buckets
        self._scores = {
            number: (columns @ data.queries[number].T.astype(np.float64)).toarray()[:, 0] for number in numbers
        }

    def recall(
        self, engine: Engine, k: int, buckets: Range | None = None, alive: NDArray[np.bool_] | None = None
    ) -> float:
        """Return the share of the true results that an engine finds; for segmax, check that it finds all."""
        kept = np.ones(len(self._buckets), dtype=bool) if alive is None else alive.copy()
        if buckets is not None:
            kept &= (self._buckets >= buckets[0]) & (self._buckets < buckets[1])
        right = wanted = 0
        for number in self._numbers:
            own = np.where(kept, self._scores[number], 0.0)
            best = -np.sort(-own[own > 0])[:k]
            ids, scores = engine.found(engine.asks(k, buckets)(number))
            reached = [own[id] >= best[-1] and own[id] > 0 for id in ids]
            right += min(sum(reached), len(best))
            wanted += len(best)
            if isinstance(engine, Segmax):
                slow = engine.found(engine.asks(k, buckets, segmax.Exhaustive())(number))
                assert (ids, scores) == slow, "differs from exhaustive search"
                assert np.allclose(scores, best, rtol=1e-6), "differs from scipy"
        return right / max(1, wanted)


# --- all of it -------------------------------------------------------------------------------------------------------


class Row(NamedTuple):
    """A line of the table."""

    what: str
    unit: str
    segmax: float
    qdrant: float
    goal: str = ""
    value: float = math.nan  # what the goal is about
    reached: bool | None = None

    def to_markdown(self) -> str:
        """Return a line of the table."""
        cells = [self.what, f"{_shown(self.segmax)} {self.unit}", f"{_shown(self.qdrant)} {self.unit}"]
        verdict = "" if self.reached is None else "reached" if self.reached else "missed"
        return f"| {' | '.join([*cells, _shown(self.value), self.goal, verdict])} |"


def _shown(value: float) -> str:
    if math.isnan(value):
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def faster(what: str, unit: str, ours: float, theirs: float, goal: float = math.nan) -> Row:
    """Return a row about times: how many times faster we are.

    Examples
    --------
    >>> faster("k = 10", "ms", 0.25, 2.0, 8).reached
    True
    """
    if math.isnan(goal):
        return Row(what, unit, ours, theirs, "", theirs / ours)
    return Row(what, unit, ours, theirs, f"≥ {goal:g}×", theirs / ours, theirs / ours >= goal)


def at_most(what: str, unit: str, ours: float, theirs: float, value: float, limit: float, goal: str) -> Row:
    """Return a row about something that must not be larger than a limit."""
    return Row(what, unit, ours, theirs, goal, value, value <= limit)


class Run:
    """One run of everything; rows are printed as they come."""

    def __init__(self, args: argparse.Namespace, data: Data, folder: Path) -> None:
        self.args = args
        self.data = data
        self.folder = folder
        self.rows: list[Row] = []
        self.recalls: dict[str, float] = {}
        self.num_queries = data.queries.shape[0]
        self.engines: list[Engine] = [
            ENGINES[name](folder / name, data.queries, new=True) for name in ("segmax", "qdrant-edge")
        ]
        self.checker = Checker(data, range(1, 2 * args.checks, 2))
        self.num_docs = data.docs.shape[0]
        self.main_docs = self.num_docs * 10 // 11

    def everything(self) -> None:
        """Measure in the order of a collection's life."""
        self._put(Row("", "", math.nan, math.nan))
        self.ingest()
        self.quiet()
        self.grown()
        self.live()
        self.halved()
        for engine in self.engines:
            engine.close()
        self.crashed()

    def _put(self, *rows: Row) -> None:
        for row in rows:
            if not row.what:
                sys.stdout.write("| | segmax | qdrant-edge | | goal | |\n| --- | --- | --- | --- | --- | --- |\n")
                continue
            sys.stdout.write(row.to_markdown() + "\n")
            sys.stdout.flush()
            self.rows.append(row)

    def _searched(self, what: str, k: int, goal: float = math.nan) -> None:
        """Add rows about latencies."""
        asks = [engine.asks(k) for engine in self.engines]
        ours, theirs = latencies(asks, self.num_queries, self.args.passes, self.args.core)
        self._put(faster(what, "ms", ours.mean, theirs.mean, goal))
        self._put(faster(f"{what}, p99", "ms", ours.p99, theirs.p99))

    def _checked(self, what: str, k: int, alive: NDArray[np.bool_], buckets: Range | None = None) -> None:
        for engine in self.engines:
            self.recalls[f"{what}, {engine.name}"] = self.checker.recall(engine, k, buckets, alive)

    def ingest(self) -> None:
        """Add the first ten of eleven documents."""
        ours, theirs = (ingest(engine, self.data.batches(0, self.main_docs)) for engine in self.engines)
        ratio = ours.per_second / theirs.per_second
        self._put(
            Row(
                "ingest", "documents/s", ours.per_second, theirs.per_second, "≥ 3× or 38,700", ratio,
                ratio >= 3 or ours.per_second >= 38_700,
            ),
            at_most("add, median", "ms", ours.median_ms, theirs.median_ms, ours.median_ms, 20, "< 20 ms"),
            faster("add, p99", "ms", ours.p99_ms, theirs.p99_ms),
            at_most(
                "until settled", "s", ours.settled_seconds, theirs.settled_seconds, ours.settled_seconds,
                theirs.settled_seconds, "no later",
            ),
        )  # fmt: skip
        own, other = (disk_bytes(self.folder / engine.name) / 1e6 for engine in self.engines)
        self._put(at_most("disk", "MB", own, other, own / other, 0.5, "≤ ½"))

    def _first(self, count: int) -> NDArray[np.bool_]:
        return np.arange(self.num_docs) < count

    def quiet(self) -> None:
        """Search after settling, with and without filters."""
        alive = self._first(self.main_docs)
        self._checked("settled", 10, alive)
        self._checked("settled, k = 1000", 1000, alive)
        self._searched("settled, k = 10", 10, 8)
        self._searched("settled, k = 1000", 1000)
        for share, goal in zip(SHARES, FILTER_GOALS, strict=True):
            what = f"filter that keeps {100 * share:g} %"
            count = max(2, self.args.passes)
            ours, theirs = filtered(self.engines, share, self.num_queries, count, self.args.core)
            self._put(faster(what, "ms", ours.mean, theirs.mean, goal))
            self._put(faster(f"{what}, first use", "ms", ours.first, theirs.first))
            self._checked(what, 10, alive, (1234, 1234 + round(share * BUCKETS)))

    def grown(self) -> None:
        """Search right after the other documents were added, without a merge."""
        for engine in self.engines:
            engine.pause()
            ingest(engine, self.data.batches(self.main_docs, self.num_docs), settle=False)
        self._checked("10 % added", 10, self._first(self.num_docs))
        self._searched("right after adding 10 %, k = 10", 10, 4)
        for engine in self.engines:
            engine.resume()
            engine.settle()

    def live(self) -> None:
        """Search while copies of documents come."""
        found = []
        for engine in self.engines:
            count = min(self.num_docs, int(1.1 * LIVE_RATE * self.args.seconds) // BATCH * BATCH)
            batches = self.data.batches(0, count, first_id=self.num_docs)
            found.append(live(engine, batches, self.num_queries, self.args.seconds, self.args.core))
            engine.settle()
            engine.delete(list(range(self.num_docs, self.num_docs + count)))
            engine.settle()
        ours, theirs = found
        self._put(
            faster("quiet, p99", "ms", ours.quiet_p99, theirs.quiet_p99),
            at_most(
                "p99 while documents come", "ms", ours.live_p99, theirs.live_p99, ours.live_p99 / ours.quiet_p99, 3,
                "≤ 3× quiet",
            ),
            Row("added meanwhile", "documents/s", ours.added_per_second, theirs.added_per_second),
        )  # fmt: skip

    def halved(self) -> None:
        """Search after every second document was deleted."""
        alive = np.arange(self.num_docs) % 2 == 1
        for engine in self.engines:
            engine.pause()
            engine.delete(list(range(0, self.num_docs, 2)))
        self._checked("half deleted", 10, alive)
        self._searched("right after deleting half, k = 10", 10, 8)
        for engine in self.engines:
            engine.resume()
            engine.settle()
        self._checked("half deleted, settled", 10, alive)
        self._searched("half deleted, settled, k = 10", 10, 8)

    def crashed(self) -> None:
        """Reopen after a kill."""
        count = min(CRASH_DOCS, self.num_docs)
        options = ["--wiki", str(self.args.wiki), "--documents", str(count)]
        ours, theirs = (
            reopened(engine.name, self.folder / f"crash-{engine.name}", self.data, count, options)
            for engine in self.engines
        )
        self._put(at_most(f"reopening with {count:,} logged", "s", ours, theirs, ours, 2, "≤ 2 s"))


def about(args: argparse.Namespace, data: Data) -> dict[str, Any]:
    """Return what a result has to say about its run."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "documents": data.docs.shape[0],
        "queries": data.queries.shape[0],
        "passes": args.passes,
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "segmax": segmax.__version__,
        "qdrant-edge": version("qdrant-edge-py"),
    }


def load(args: argparse.Namespace) -> Data:
    """Read documents and queries."""
    docs, queries = wiki.load_set(args.wiki, "wiki", args.documents)
    buckets = np.random.default_rng(15).integers(0, BUCKETS, docs.shape[0])
    return Data(docs, buckets, queries[: args.queries])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.live", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--wiki", type=Path, default=wiki.DEFAULT_FOLDER, help="the folder of the wiki vectors")
    parser.add_argument("--documents", type=int, help="how many documents; all by default")
    parser.add_argument("--queries", type=int, default=600, help="how many queries; half of them warm up")
    parser.add_argument("--passes", type=int, default=5, help="the fastest of so many passes counts")
    parser.add_argument("--checks", type=int, default=5, help="how many queries are compared with exact scores")
    parser.add_argument("--seconds", type=float, default=10, help="how long searches go on while documents come")
    parser.add_argument("--core", type=int, help="the core that searches run on; any by default")
    parser.add_argument("--work", type=Path, help="a folder on the disk to measure; a temporary one by default")
    parser.add_argument("--output", type=Path, default=RESULTS, help="JSON lines are appended here")
    parser.add_argument("--until-killed", choices=sorted(ENGINES), help=argparse.SUPPRESS)
    args = parser.parse_args()
    data = load(args)
    if args.until_killed:
        log_until_killed(args.until_killed, args.work, data, data.docs.shape[0])
        return
    folder = Path(tempfile.mkdtemp(prefix="live-", dir=args.work))
    try:
        run = Run(args, data, folder)
        run.everything()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for what, recall in run.recalls.items():
        sys.stdout.write(f"recall, {what}: {recall:.4f}\n")
    args.output.parent.mkdir(exist_ok=True)
    with args.output.open("a") as lines:
        lines.write(json.dumps({"type": "live", **about(args, data), "recall": run.recalls}) + "\n")
        for row in run.rows:
            known = {name: value for name, value in row._asdict().items() if value == value}
            lines.write(json.dumps({"type": "row", **known}) + "\n")


if __name__ == "__main__":
    main()
