"""Actors and nodes die at random while threads search: no wrong answer, no hang, and soon everything serves again.

CI runs about a minute of it; `make soak` kills 50 times, which the variable SEGMAX_KILLS says.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from ray_helpers import all_up, eventually

import segmax
import segmax.ray
from conftest import topic_docs
from segmax.errors import ShardsUnavailableError
from segmax.shards.making.building import build

pytest.importorskip("ray.cluster_utils", exc_type=ImportError)
pytestmark = pytest.mark.slow
pytest_plugins = ["ray_cluster"]

KILLS = int(os.environ.get("SEGMAX_KILLS", "10"))
DEADLINE_S = 4.0
SERVES_AGAIN_S = 30.0
NUM_SHARDS = 4
K = 100


class Killer:
    """Kills a process of an actor, or everything on a node."""

    def __init__(self, cluster: Any, index: Any, rng: random.Random) -> None:
        self._cluster = cluster
        self._index = index
        self._rng = rng
        self.killed: Counter[str] = Counter()

    def strike(self) -> None:
        """Kill once."""
        if self._rng.random() < 0.3 and self._cluster.nodes:
            self._cluster.kill(self._rng.choice(self._cluster.nodes))
            self.killed["nodes"] += 1
            return
        replicas = [each for shard in self._index.status().shards for each in shard.replicas if each.state == "up"]
        sent = self._rng.choice([signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._rng.choice(replicas).pid, sent)
        self.killed["actors"] += 1


def all_alive(index: Any) -> bool:
    """Whether every replica serves, and its process is there: deaths are noticed with a delay."""
    replicas = [each for shard in index.status().shards for each in shard.replicas]
    return all_up(index) and all(Path(f"/proc/{each.pid}").exists() for each in replicas)


@contextlib.contextmanager
def searching(search: Callable[[], str], threads: int = 2) -> Iterator[Counter[str]]:
    """Search all the time on several threads, and count what `search` returns."""
    stop, counts = threading.Event(), Counter[str]()

    def run() -> None:
        while not stop.is_set():
            counts[search()] += 1
            time.sleep(0.005)  # two processors for a whole cluster

    with ThreadPoolExecutor(threads) as pool:
        running = [pool.submit(run) for _ in range(threads)]
        try:
            yield counts
        finally:
            stop.set()
    for each in running:
        each.result()


def storm(cluster: Any, index: Any, seed: int) -> list[float]:
    """Kill at random, one or two at once; return how long each time took until every replica served again."""
    rng = random.Random(seed)
    killer, seconds = Killer(cluster, index, rng), []
    while (left := KILLS - killer.killed.total()) > 0:
        began = time.monotonic()
        for _ in range(min(left, rng.choice([1, 1, 2]))):
            killer.strike()
            time.sleep(rng.uniform(0.0, 0.5))
        cluster.restore()
        eventually(lambda: all_alive(index), SERVES_AGAIN_S - (time.monotonic() - began))
        seconds.append(time.monotonic() - began)
        time.sleep(rng.uniform(0.0, 1.0))
    print(f"\nkilled {dict(killer.killed)}; served again within {max(seconds):.1f} s")  # noqa: T201
    return seconds


class Searcher:
    """Makes random searches, and compares what comes with one index over everything."""

    def __init__(self, index: Any, docs: Any, whole: Any) -> None:
        self._index = index
        self._queries = [docs[row] for row in range(0, docs.shape[0], 100)]
        self._expected = [whole.search(query, K) for query in self._queries]

    def __call__(self) -> str:
        """Search once; return what came of it."""
        rng = random.Random()
        at = rng.randrange(len(self._queries) - 3)
        search = rng.choice([self._one, self._one_async, self._batch])
        partial = rng.random() < 0.5
        began = time.monotonic()
        try:
            found = search(slice(at, at + 3), allow_partial=partial, deadline_s=DEADLINE_S)
        except ShardsUnavailableError:
            assert not partial
            return "refused"
        finally:
            assert time.monotonic() - began < DEADLINE_S + 1
        return self._checked(found, at, partial)

    def _one(self, at: slice, **options: Any) -> list[tuple[Any, Any]]:
        hits = self._index.search(self._queries[at.start], K, **options)
        return [(hits, hits.routing)]

    def _one_async(self, at: slice, **options: Any) -> list[tuple[Any, Any]]:
        hits = asyncio.run(self._index.search_async(self._queries[at.start], K, **options))
        return [(hits, hits.routing)]

    def _batch(self, at: slice, **options: Any) -> list[tuple[Any, Any]]:
        hits = self._index.search_batch(sp.vstack(self._queries[at]), K, **options)
        return [(one, hits.routing(query)) for query, one in enumerate(hits)]

    def _checked(self, found: list[tuple[Any, Any]], at: int, partial: bool) -> str:
        whole = True
        for query, (hits, routing) in enumerate(found):
            expected = self._expected[at + query]
            if routing.missing:
                assert partial
                assert not hits.complete
                assert 0 < routing.missing_share <= 1
                whole = False
            else:
                assert hits.complete
                assert np.array_equal(hits.rows, expected.rows)
                assert np.array_equal(hits.scores, expected.scores)
        return "whole" if whole else "partial"


def test_searches_in_a_storm(cluster: Any, tmp_path: Path) -> None:
    """Every answer is right and whole, or refused, or marked as partial; all of them in time."""
    docs = topic_docs(np.random.default_rng(4), 6000)[0]
    build(docs, tmp_path / "index", shards=NUM_SHARDS)
    with segmax.ray.open(tmp_path / "index", replicas=2) as index:
        with searching(Searcher(index, docs, segmax.build(docs))) as counts:
            seconds = storm(cluster, index, seed=5)
        print(dict(counts))  # noqa: T201
        assert max(seconds) < SERVES_AGAIN_S
        assert counts["whole"] > 10 * (counts["refused"] + counts["partial"])
        assert sum(shard.retries for shard in index.status().shards) > 0
