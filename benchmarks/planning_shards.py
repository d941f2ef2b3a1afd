"""Which shards queries ask, what that finds, and what the router takes: in one process, without Ray."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

import segmax
from benchmarks import wiki
from benchmarks.quiet import quietly
from segmax.search.results import STATS_FIELDS
from segmax.shards.asking import Decision
from segmax.shards.making.building import build
from segmax.shards.opening import open_local
from segmax.shards.sharded import ShardedIndex
from segmax.shards.transport import Call

#: The set, its documents, and into how many shards it is cut.
CASES: tuple[tuple[wiki.Set, int, int], ...] = (
    ("large", 82_000, 16),
    ("large", 164_000, 16),
    ("large", 328_000, 16),
    ("large", 656_250, 2),
    ("large", 656_250, 4),
    ("large", 656_250, 8),
    ("large", 656_250, 16),
    ("large", 656_250, 32),
    ("large", 656_250, 64),
    ("wiki", 281_250, 16),
)
KS = (10, 100, 1000)
MUS = (1.0, 0.9)
RECALL_K = 10
_ELAPSED = STATS_FIELDS.index("elapsed_ns")


def measure(
    folder: Path, scratch: Path, cases: Sequence[tuple[wiki.Set, int, int]], num_queries: int, passes: int
) -> dict[str, list[dict[str, Any]]]:
    """Return records of shards asked, of the recall of a few shards, and of the router."""
    found: dict[str, list[dict[str, Any]]] = {"asked": [], "max_shards": [], "router": []}
    for name, docs, queries in _sets(folder, cases, num_queries):
        for shards in (case[2] for case in cases if case[:2] == (name, docs.shape[0])):
            about = {"set": name, "docs": docs.shape[0], "shards": shards}
            path = scratch / "planning.sharded"
            shutil.rmtree(path, ignore_errors=True)
            build(docs, path, shards=shards)
            with open_local(path) as index:
                found["asked"] += [{**about, **row} for row in _asked(index, queries)]
                found["max_shards"] += [{**about, **row} for row in _few(index, queries)]
                found["router"].append({**about, **_router(index, queries, passes)})
            shutil.rmtree(path)
            sys.stdout.write(f"{found['asked'][-6:]}\n{found['router'][-1]}\n")
            sys.stdout.flush()
    return found


def _sets(
    folder: Path, cases: Sequence[tuple[wiki.Set, int, int]], num_queries: int
) -> Iterator[tuple[str, sp.csr_matrix, sp.csr_matrix]]:
    for name in dict.fromkeys(case[0] for case in cases):
        sizes = sorted({case[1] for case in cases if case[0] == name})
        docs, queries = wiki.load_set(folder, name, max(sizes))
        for size in sizes:
            yield name, docs[:size].astype(np.float32), queries[:num_queries].astype(np.float32)


def _asked(index: ShardedIndex, queries: sp.csr_matrix) -> Iterator[dict[str, Any]]:
    """Yield which share of the shards exact searches ask, and searches with a smaller mu."""
    for k in KS:
        for mu in MUS:
            asked = _decided(index.search_batch(queries, k=k, params=segmax.ASC(mu=mu)))
            share = asked.mean(axis=1)
            yield _rounded({"k": k, "mu": mu, "share": share.mean(), "spread": share.std(), "hottest": _hottest(asked)})


def _few(index: ShardedIndex, queries: sp.csr_matrix) -> Iterator[dict[str, Any]]:
    """Yield which share of the exact results the best shards have, by their number."""
    exact = index.search_batch(queries, k=RECALL_K).rows
    count = 1
    while count < index.num_shards:
        hits = index.search_batch(queries, k=RECALL_K, max_shards=count)
        found = [
            len(np.intersect1d(one[one >= 0], two)) / max(1, (one >= 0).sum())
            for one, two in zip(exact, hits.rows, strict=True)
        ]
        yield _rounded({"asked": count, "k": RECALL_K, "recall": np.mean(found), "hottest": _hottest(_decided(hits))})
        count *= 2


def _decided(hits: Any) -> NDArray[np.bool_]:
    return np.asarray(hits.decisions == Decision.ASKED)


def _hottest(asked: NDArray[np.bool_]) -> float:
    by_shard = asked.sum(axis=0)
    return float(by_shard.max() / by_shard.mean())


def _router(index: ShardedIndex, queries: sp.csr_matrix, passes: int) -> dict[str, Any]:
    """Return the milliseconds of a search around its calls and of a call around the core, and the router's bytes."""
    transport = _Timed(index._parts.transport)
    object.__setattr__(index._parts, "transport", transport)
    rows = [queries[number] for number in range(min(200, queries.shape[0]))]

    def alone(most: int | None) -> _Times:
        return _fastest([[_around(index, transport, row, most) for row in rows] for _ in range(passes)])

    def in_batch(most: int | None) -> _Times:
        return _fastest([[_batch_around(index, transport, queries, most)] for _ in range(passes)])

    exact, few = (quietly(partial(alone, most)) for most in (None, 4))
    batch, few_batch = (quietly(partial(in_batch, most)) for most in (None, 4))
    others = max(found[1] for found in (exact, few, batch, few_batch))
    return _rounded(
        {
            "ms": exact[0].router,
            "shard_ms": exact[0].shard,
            "core_ms": exact[0].core,
            "max_shards_ms": few[0].router,
            "batch_ms": batch[0].router,
            "max_shards_batch_ms": few_batch[0].router,
            "batch_shard_ms": batch[0].shard,
            "batch_core_ms": batch[0].core,
            "asked": _decided(index.search_batch(queries, k=10)).sum(axis=1).mean(),
            "bytes": index.router.num_bytes,
            "others": others,
        }
    )


class _Times(NamedTuple):
    """Milliseconds: of a search around its calls; of a call around the core; in the core."""

    router: float
    shard: float
    core: float


def _fastest(passes: list[list[_Times]]) -> _Times:
    """Return means over queries of their fastest passes."""
    return _Times(*np.array(passes).min(axis=0).mean(axis=0).tolist())


def _around(index: ShardedIndex, transport: _Timed, row: sp.csr_matrix, max_shards: int | None) -> _Times:
    transport.reset()
    start = time.perf_counter()
    index.search(row, k=10, max_shards=max_shards)
    seconds = time.perf_counter() - start
    core = transport.core_seconds
    own = transport.seconds - core
    return _Times((seconds - transport.seconds) * 1e3, own / transport.calls * 1e3, core / transport.calls * 1e3)


def _batch_around(index: ShardedIndex, transport: _Timed, queries: sp.csr_matrix, most: int | None) -> _Times:
    """Return the same per query of a batch, and per query that a shard is asked."""
    transport.reset()
    start = time.perf_counter()
    index.search_batch(queries, k=10, max_shards=most)
    seconds = time.perf_counter() - start
    core = transport.core_seconds
    around, own = seconds - transport.seconds, transport.seconds - core
    return _Times(around / queries.shape[0] * 1e3, own / transport.queries * 1e3, core / transport.queries * 1e3)


class _Timed:
    """A transport that counts its calls, and the seconds that they take, all together and in the core."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self.num_shards: int = transport.num_shards
        self.reset()

    def reset(self) -> None:
        """Count from 0."""
        self.seconds = self.core_seconds = 0.0
        self.calls = self.queries = 0

    def ask(self, calls: Sequence[Call], **options: Any) -> Any:
        """Make calls."""
        start = time.perf_counter()
        answers = self._transport.ask(calls, **options)
        self.seconds += time.perf_counter() - start
        self.calls += len(calls)
        self.queries += sum(len(answer.counts) for answer in answers)
        self.core_seconds += sum(float(answer.stats[:, _ELAPSED].sum()) for answer in answers) / 1e9
        return answers

    def close(self) -> None:
        """Let go of the shards."""
        self._transport.close()


def _rounded(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value if isinstance(value, int) else float(f"{value:.4g}") for name, value in values.items()}
