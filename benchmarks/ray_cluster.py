"""What Ray adds, and what it gains: `.ci/loopback .venv/bin/python -m benchmarks.ray_cluster --help`.

One run on one machine: an empty actor call beside a search of one shard, batches on two replicas and on two shards
beside one process of one thread, and a build on one worker and on two. Passes of what is compared take turns, and the
fastest of each counts: the machine may be busy with something else.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import segmax
import segmax.ray
import segmax.shards
from benchmarks import wiki
from segmax.base.optional import need

PASSES = 15
CALLS = 400


class Nothing:
    """An actor whose only method does nothing."""

    def call(self) -> None:
        """Return at once."""


def seconds(*works: Callable[[], object], passes: int = PASSES) -> list[float]:
    """Return the shortest time of each, in turns."""
    shortest = [float("inf")] * len(works)
    for _ in range(passes):
        for number, work in enumerate(works):
            start = time.perf_counter()
            work()
            shortest[number] = min(shortest[number], time.perf_counter() - start)
    return shortest


def latencies(calls: list[Callable[[int], object]]) -> list[dict[str, float]]:
    """Return the milliseconds of single calls, which take turns: median, smallest and p95."""
    taken = np.empty((len(calls), CALLS))
    for number in range(-CALLS // 4, CALLS):
        for which, call in enumerate(calls):
            start = time.perf_counter()
            call(number)
            if number >= 0:
                taken[which, number] = (time.perf_counter() - start) * 1e3
    names = {"median": 0.5, "least": 0.0, "p95": 0.95}
    return [{name: float(np.quantile(one, share)) for name, share in names.items()} for one in taken]


def one_query(ray: Any, index: Any, one: segmax.Index, queries: Any) -> dict[str, Any]:
    """Measure a search of one shard beside an empty call, and beside the same search here."""
    nothing = ray.remote(num_cpus=0.01)(Nothing).remote()
    rows = [queries[number % queries.shape[0]] for number in range(-CALLS // 4, CALLS)]
    empty, there, here = latencies(
        [
            lambda _: ray.get(nothing.call.remote()),
            lambda number: index.search(rows[number], k=10),
            lambda number: one.search(rows[number], k=10),
        ]
    )
    added = {name: (there[name] - here[name]) / empty[name] for name in ("median", "least")}
    return {"empty call": empty, "search": there, "search here": here, "added / empty call": added}


def batches(path: Path, one: segmax.Index, queries: Any, **options: Any) -> dict[str, Any]:
    """Measure a batch of 1,000 queries beside one process of one thread."""
    batch = queries[:1000]
    with segmax.ray.open(path, **options) as index:
        exact = one.search_batch(batch, k=10, threads=1)
        assert np.array_equal(exact.rows, index.search_batch(batch, k=10).rows)
        works = (lambda: index.search_batch(batch, k=10), lambda: one.search_batch(batch, k=10, threads=1))
        there, here = seconds(*works)
    return {"ms": there * 1e3, "one thread, ms": here * 1e3, "speedup": here / there}


def main() -> int:
    """Measure everything, and print it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wiki", type=Path, default=wiki.DEFAULT_FOLDER, help="the folder of the vectors")
    parser.add_argument("--documents", type=int, default=100_000, help="of the build that is timed")
    parser.add_argument("--no-build", action="store_true", help="time no build")
    args = parser.parse_args()
    ray: Any = need("ray", "this benchmark", "ray")
    documents, queries = wiki.load_set(args.wiki, "wiki")
    queries = queries[1::2]
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        one = segmax.build(documents)
        for shards in (1, 2):
            segmax.shards.build(documents, root / f"shards-{shards}", shards=shards)
        ray.init(num_cpus=2, include_dashboard=False, object_store_memory=300 << 20, logging_level="ERROR")
        with segmax.ray.open(root / "shards-1") as index:
            results["one query, one shard"] = one_query(ray, index, one, queries)
        results["batch, one shard"] = batches(root / "shards-1", one, queries)
        results["batch, two replicas"] = batches(root / "shards-1", one, queries, replicas=2)
        results["batch, two shards"] = batches(root / "shards-2", one, queries)
        ray.shutdown()
        if not args.no_build:
            results["build"] = builds(ray, documents[: args.documents], root)
    print(json.dumps(results, indent=1))
    return 0


def builds(ray: Any, documents: Any, root: Path) -> dict[str, Any]:
    """Measure a build of eight shards from four files, on one worker and on two."""
    files = []
    for number, rows in enumerate(np.array_split(np.arange(documents.shape[0]), 4)):
        files.append(root / f"documents-{number}.npz")
        sp.save_npz(files[-1], documents[rows])
    taken: dict[int, float] = {}
    for workers in (1, 2, 1, 2):
        ray.init(num_cpus=workers, include_dashboard=False, object_store_memory=300 << 20, logging_level="ERROR")
        start = time.perf_counter()
        segmax.ray.build(files, root / "built", shards=8, num_cpus=1)
        taken[workers] = min(taken.get(workers, float("inf")), time.perf_counter() - start)
        ray.shutdown()
        shutil.rmtree(root / "built")
    return {"one worker, s": taken[1], "two workers, s": taken[2], "speedup": taken[1] / taken[2]}


if __name__ == "__main__":
    sys.exit(main())
