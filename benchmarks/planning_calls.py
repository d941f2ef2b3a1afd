"""What a call of a shard takes on Ray: latency, processor time on both sides, and how that grows with calls at once.

The shards are real but small, so that a call is much longer than its search. Time in the core is taken out.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

import segmax.ray
from benchmarks import wiki
from benchmarks.quiet import own_seconds, quietly
from segmax.ray.pool import ActorOptions
from segmax.search.arguments import EXACT
from segmax.search.results import STATS_FIELDS
from segmax.shards.making.building import build
from segmax.shards.searching import Request
from segmax.shards.transport import Call
from segmax.vectors.csr import matrix_to_csr

#: How many shards are called at once, as a round of a search does.
FANS = (1, 2, 4, 8)
SECONDS = 1.5  # per figure and run
RUNS = 3  # one after the other: a virtual machine is faster at some times than at others
DOCS = 82_000
QUERIES = 200
KS = (10, 1000)
_ELAPSED = STATS_FIELDS.index("elapsed_ns")


def start_ray(scratch: Path) -> Any:
    """Start Ray on this machine; it must be in a network namespace of its own."""
    import ray

    ray.init(num_cpus=max(FANS), include_dashboard=False, object_store_memory=150 * 2**20, _temp_dir=str(scratch))
    return ray


def measure(folder: Path, scratch: Path) -> dict[str, Any]:
    """Start Ray, measure, and stop it."""
    docs, queries = wiki.load_set(folder, "large", DOCS)
    path = scratch / "calls.sharded"
    build(docs.astype(np.float32), path, shards=max(FANS))
    queries = queries[:QUERIES].astype(np.float32)
    ray = start_ray(scratch)
    try:
        with segmax.ray.open(path) as index:
            time.sleep(2)  # Ray starts processes in advance, which takes a while
            idle = _idle()
            runs = [_run(ray, index, queries, idle) for _ in range(RUNS)]
            return {
                "ray": ray.__version__,
                "threads": ActorOptions().threads,
                **_merged(runs),
                "actor_memory": _memory(index),
            }
    finally:
        ray.shutdown()
        shutil.rmtree(path)


def _run(ray: Any, index: segmax.ray.RayIndex, queries: sp.csr_matrix, idle: float) -> dict[str, Any]:
    """Measure everything once."""
    return {
        "empty": _empty(ray),
        "answer": {str(k): {str(fan): _asked(index, queries, k, fan, idle) for fan in FANS} for k in KS},
        "rested": {str(turns): _asked(index, queries, 10, 1, idle, turns) for turns in FANS},
        "router": {"docs": DOCS, "shards": max(FANS), **_routed(index, queries)},
    }


def _merged(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the medians of several runs, and in `runs` all values of what varies from run to run."""
    merged: dict[str, Any] = {}
    for name, first in runs[0].items():
        if isinstance(first, dict):
            merged[name] = _merged([run[name] for run in runs])
        else:
            merged[name] = type(first)(np.median([run[name] for run in runs]))
    if "caller_ms" in merged:
        merged["runs"] = {name: [run[name] for run in runs] for name in ("caller_ms", "actor_ms") if name in merged}
    return merged


# --- calls -----------------------------------------------------------------------------------------------------------


def _empty(ray: Any) -> dict[str, float]:
    """Call a plain actor that does nothing: the least that Ray can take."""

    class Empty:
        def call(self) -> None:
            """Return nothing."""

    actor = ray.remote(Empty).remote()
    ray.get(actor.call.remote())
    found, others = quietly(lambda: _repeated(lambda: ray.get(actor.call.remote())))
    sent = []
    for _ in range(500):
        start = time.perf_counter()
        reference = actor.call.remote()
        sent.append((time.perf_counter() - start) * 1e3)
        ray.get(reference)
    ray.kill(actor)
    caller = found.here / len(found.took) * 1e3
    return _rounded({**_quantiles(found.took), "caller_ms": caller, "send_ms": np.median(sent), "others": others})


def _asked(
    index: segmax.ray.RayIndex, queries: sp.csr_matrix, k: int, fan: int, idle: float, turns: int = max(FANS)
) -> dict[str, float]:
    """Ask some shards at once for a query, then others for the next, until it is the turn of the first again."""
    rounds = cycle(list(_rounds(index, queries, k, fan, turns)))
    core: list[float] = []

    def ask() -> None:
        answers = index._parts.transport.ask(next(rounds))
        core.append(sum(float(answer.stats[:, _ELAPSED].sum()) for answer in answers) / 1e6)

    def step() -> tuple[_Repeated, float]:
        core.clear()
        return _repeated(ask), float(np.mean(core)) / fan

    ask()
    (found, core_ms), others = quietly(step)
    calls = len(found.took) * fan
    there = (found.there - idle * sum(found.took) / 1e3) / calls * 1e3 - core_ms
    quantiles = _quantiles(found.took)
    rest = quantiles["mean_ms"] * turns / fan
    own = {"caller_ms": found.here / calls * 1e3, "actor_ms": there, "core_ms": core_ms, "rest_ms": rest}
    return _rounded({**quantiles, **own, "others": others})


def _rounds(index: segmax.ray.RayIndex, queries: sp.csr_matrix, k: int, fan: int, turns: int) -> Iterator[list[Call]]:
    """Yield the calls of a round for every query: what its first call asks, of several shards.

    Shards take turns, as they do in searches: a process that has rested for some milliseconds takes longer.
    """
    for number in range(queries.shape[0]):
        talk = index._search.search(matrix_to_csr(queries[number]), Request([k], [EXACT], [None], [None], 1, k <= 128))
        first = next(talk)[0]
        shards = [(number * fan + place) % turns for place in range(fan)]
        yield [Call(shard, first.method, first.args) for shard in shards]


# --- around calls ----------------------------------------------------------------------------------------------------


def _routed(index: segmax.ray.RayIndex, queries: sp.csr_matrix) -> dict[str, float]:
    """Return what single searches take around their calls, with caches as they are when other processes ran."""
    transport = index._parts.transport
    waited: list[float] = []

    class Timed:
        num_shards = transport.num_shards

        def ask(self, calls: Any, **options: Any) -> Any:
            """Make calls."""
            start = time.perf_counter()
            answers = transport.ask(calls, **options)
            waited.append(time.perf_counter() - start)
            return answers

    def step(most: int | None) -> float:
        waited.clear()
        start = time.perf_counter()
        for number in range(queries.shape[0]):
            index.search(queries[number], k=10, max_shards=most)
        return (time.perf_counter() - start - sum(waited)) / queries.shape[0] * 1e3

    object.__setattr__(index._parts, "transport", Timed())
    try:
        found = {name: quietly(lambda most=most: step(most)) for name, most in (("ms", None), ("max_shards_ms", 4))}  # type: ignore[misc]
    finally:
        object.__setattr__(index._parts, "transport", transport)
    return _rounded({**{name: ms for name, (ms, _) in found.items()}, "others": max(o for _, o in found.values())})


def _memory(index: segmax.ray.RayIndex) -> int:
    """Return the bytes that an actor holds beside the files of its shard, which all processes share."""
    found = []
    for shard in index.status().shards:
        for line in Path(f"/proc/{shard.replicas[0].pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                found.append(int(line.split()[1]) * 1024)
    return int(np.median(found))


# --- repeating -------------------------------------------------------------------------------------------------------


class _Repeated(NamedTuple):
    """Milliseconds of every step; processor seconds of this process, all threads together, and of Ray's processes."""

    took: list[float]
    here: float
    there: float


def _repeated(step: Callable[[], Any]) -> _Repeated:
    took = []
    here, everything, end = time.process_time(), own_seconds(), time.perf_counter() + SECONDS
    while (start := time.perf_counter()) < end:
        step()
        took.append((time.perf_counter() - start) * 1e3)
    here = time.process_time() - here
    return _Repeated(took, here, own_seconds() - everything - here)


def _idle() -> float:
    """Return the processor seconds that Ray's processes use per second while nobody calls."""
    start, before = time.perf_counter(), own_seconds()
    time.sleep(5)
    return (own_seconds() - before) / (time.perf_counter() - start)


def _quantiles(took: list[float]) -> dict[str, float]:
    names = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99}
    return {"mean_ms": float(np.mean(took)), **{name: float(np.quantile(took, q)) for name, q in names.items()}}


def _rounded(figures: dict[str, Any]) -> dict[str, float]:
    return {name: float(f"{value:.4g}") for name, value in figures.items()}
