"""The methods of segmax on one core, on the wiki vectors: `python -m benchmarks.engine --help`.

Every pass runs all methods in turn, so that a busy machine slows all of them alike; a method's latency is that of its
fastest pass. Latency is measured inside the core, from query terms to sorted results.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

import segmax
from benchmarks import wiki
from segmax.bench.engines.scatter_add import ScatterAdd
from segmax.paper import Anytime, MaxScore
from segmax.search.hooks import with_hooks
from segmax.search.methods import SearchParams


class Measurement(NamedTuple):
    """One method at one k."""

    rows: NDArray[np.int64]
    elapsed_ns: NDArray[Any]
    clusters: float  # share visited
    swept: float  # share of queries finished exhaustively


METHODS: dict[str, SearchParams] = {
    "exhaustive": segmax.Exhaustive(),
    "maxscore": MaxScore(),
    "asc": segmax.ASC(),
    "asc, never swept": with_hooks(segmax.ASC(), sweep=False),
    "asc, eta=.95": segmax.ASC(eta=0.95),
    # One cluster after the other, as in the paper.
    "anytime by clusters": Anytime(),
    "asc by clusters": segmax.paper.ASC(),
    "asc, maxscore inside": segmax.paper.ASC(documents="maxscore"),
    "anytime*, mu=.9": Anytime(mu=0.9),
    "asc by clusters, mu=.9": segmax.paper.ASC(mu=0.9),
    "asc by clusters, mu=.7": segmax.paper.ASC(mu=0.7),
    "asc by clusters, mu=.5": segmax.paper.ASC(mu=0.5),
}
#: The share of clusters visited in the paper (MS MARCO; 512 clusters for anytime and exact asc, 4096 x 8 for mu < 1).
PAPER = {
    (10, "anytime by clusters"): "69.8 %",
    (10, "asc by clusters"): "49.1 %",
    (10, "anytime*, mu=.9"): "62.7 %",
    (10, "asc by clusters, mu=.9"): "8.0 %",
    (1000, "anytime by clusters"): "93.0 %",
    (1000, "asc by clusters"): "86.3 %",
    (1000, "anytime*, mu=.9"): "91.4 %",
    (1000, "asc by clusters, mu=.7"): "21.7 %",
    (1000, "asc by clusters, mu=.5"): "8.1 %",
}


def run_method(index: segmax.Index, queries: sp.csr_matrix, k: int, params: SearchParams) -> Measurement:
    """Search all queries on one thread."""
    batch = index.search_batch(queries, k=k, params=params, threads=1)
    visited = float(batch.stats.clusters_visited.mean()) / index.num_clusters
    return Measurement(batch.rows, batch.stats.elapsed_ns, visited, float(batch.stats.swept.mean()))


def run_plain(plain: ScatterAdd, queries: sp.csr_matrix, k: int) -> Measurement:
    """Search all queries with the scatter-add."""
    rows, elapsed = plain.search(queries, k)
    return Measurement(rows, elapsed, 1.0, 0.0)


def measure(runs: dict[str, Callable[[], Measurement]], passes: int) -> dict[str, Measurement]:
    """Run everything `passes` times in turn; keep the fastest run of each."""
    best: dict[str, Measurement] = {}
    for _ in range(passes):
        for name, run in runs.items():
            result = run()
            if name not in best or result.elapsed_ns.sum() < best[name].elapsed_ns.sum():
                best[name] = result
    return best


def recall(found: NDArray[np.int64], exact: NDArray[np.int64]) -> float:
    """Return the mean share of the exact results that were found."""
    shares = [np.isin(e[e >= 0], f).mean() for f, e in zip(found, exact, strict=True) if (e >= 0).any()]
    return float(np.mean(shares))


def print_table(k: int, results: dict[str, Measurement], records: list[dict[str, Any]]) -> None:
    """Print one table and store its rows."""
    exact = results["exhaustive"].rows
    floor = results["scatter-add"].elapsed_ns.mean()
    print(f"\n### k = {k}\n")
    print("| method | mean ms | median | p99 | recall | clusters | paper | times scatter-add | swept |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, result in results.items():
        ms = result.elapsed_ns / 1e6
        row = {
            "k": k,
            "method": name,
            "mean_ms": float(ms.mean()),
            "median_ms": float(np.median(ms)),
            "p99_ms": float(np.percentile(ms, 99)),
            "recall": recall(result.rows, exact),
            "clusters_visited": result.clusters,
            "speedup": float(floor / result.elapsed_ns.mean()),
            "swept": result.swept,
        }
        records.append(row)
        print(
            f"| {name} | {row['mean_ms']:.3f} | {row['median_ms']:.3f} | {row['p99_ms']:.3f} | {row['recall']:.4f} | "
            f"{result.clusters:.1%} | {PAPER.get((k, name), '')} | {row['speedup']:.2f} | {result.swept:.0%} |"
        )


def budget_runs(
    index: segmax.Index, queries: sp.csr_matrix, k: int, mean_ms: dict[str, float]
) -> dict[str, Callable[[], Measurement]]:
    """Measure anytime and asc with 25, 50 and 75 % of their own mean latency without a budget."""
    runs: dict[str, Callable[[], Measurement]] = {}
    for share in (0.25, 0.5, 0.75):
        for name, kind in (("anytime", Anytime), ("asc", segmax.paper.ASC)):
            params = kind(budget_ms=share * mean_ms[f"{name} by clusters"])
            label = f"{name}, budget {share:.0%} = {params.budget_ms:.3f} ms"
            runs[label] = partial(run_method, index, queries, k, params)
    return runs


def add_pisa(docs: sp.csr_matrix, queries: sp.csr_matrix, k: int, records: list[dict[str, Any]]) -> None:
    """Measure PISA's MaxScore through pyterrier-pisa in a fresh process (needs the `rivals` extra)."""
    program = [sys.executable, "-m", "benchmarks.pisa", "-k", str(k)]
    folder = Path("build") / "pisa"
    folder.mkdir(parents=True, exist_ok=True)
    sp.save_npz(folder / "docs.npz", docs, compressed=False)
    sp.save_npz(folder / "queries.npz", queries, compressed=False)
    output = subprocess.run([*program, str(folder)], check=True, capture_output=True, text=True).stdout
    row = json.loads(output.splitlines()[-1])
    records.append(row)
    print(f"| pisa maxscore ({row['version']}) | {row['mean_ms']:.3f} | | | | | | | |")


def main() -> None:
    """Parse, build, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engine", description=__doc__.splitlines()[0])
    parser.add_argument("--wiki", type=Path, default=wiki.DEFAULT_FOLDER, help="the folder of the wiki vectors")
    parser.add_argument(
        "--num-clusters", type=int, default=192, help="192 and 768 use the supplied labels, others k-means"
    )
    parser.add_argument("--segments", type=int, default=8)
    parser.add_argument("--queries", type=int, default=None, help="use only the first N queries")
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("-k", type=int, nargs="+", default=[10, 1000])
    parser.add_argument("--pisa", action="store_true", help="also PISA's MaxScore (pip install 'segmax[rivals]')")
    parser.add_argument("--output", type=Path, help="append results as JSON lines")
    args = parser.parse_args()
    docs, queries, labels = wiki.load(args.wiki, args.num_clusters)
    queries = queries[: args.queries]
    start = time.perf_counter()
    config = segmax.BuildConfig(num_clusters=args.num_clusters, num_segments=args.segments)
    index = segmax.build(docs, clustering=labels, config=config)
    print(f"{index}, built in {time.perf_counter() - start:.1f} s, {index.num_bytes / docs.nnz:.2f} bytes per posting")
    print(f"{queries.shape[0]} queries, {args.passes} passes, {segmax._core.simd_level()}, {platform.processor()}")
    plain = ScatterAdd(docs)
    records: list[dict[str, Any]] = []
    for k in args.k:
        runs: dict[str, Callable[[], Measurement]] = {
            "scatter-add": partial(run_plain, plain, queries, k),
        }
        for name, params in METHODS.items():
            runs[name] = partial(run_method, index, queries, k, params)
        results = measure(runs, args.passes)
        means = {
            name: float(results[name].elapsed_ns.mean()) / 1e6 for name in ("anytime by clusters", "asc by clusters")
        }
        results |= measure(budget_runs(index, queries, k, means), args.passes)
        print_table(k, results, records)
        if args.pisa:
            add_pisa(docs, queries, k, records)
    if args.output:
        with args.output.open("a") as file:
            for row in records:
                file.write(json.dumps({**row, "index": repr(index), "date": time.strftime("%Y-%m-%d")}) + "\n")


if __name__ == "__main__":
    main()
