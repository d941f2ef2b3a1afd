"""How search grows with the number of documents: `python -m benchmarks.growth --help`.

Real documents are prefixes of one fixed shuffle of Wikipedia passages, so every size is a fair sample of the same kind.
There are 656,250 of them; larger sizes are generated from them (`--generate`), and generated collections flatter every
engine: they repeat what their sources have. Latencies are times in the core on one thread, the fastest of several
passes per query; the methods take turns pass by pass. Targets are tuned, and budgets (`--budgets`: shares of the mean
latency of exact search) measured, on one half of the queries; every table shows the other half.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

import segmax
from benchmarks import wiki
from benchmarks.generated import Generator
from segmax import Index
from segmax.search.methods import SearchParams
from segmax.search.opening import open_index
from segmax.search.results import BatchHits

SIZES = (82_000, 164_000, 328_000, 656_250)
KS = (10, 100, 1000)
TARGETS = (0.95, 0.99)
MUS = (0.9, 0.7, 0.5)
BUDGETS = (0.25, 0.5, 0.75)


class Latency(NamedTuple):
    """What a method took, and what it found."""

    mean: float
    p99: float
    recall: float


def methods_for(index: segmax.Index, chosen: sp.csr_matrix, k: int) -> dict[str, SearchParams]:
    """Return the methods to measure on an index, targets tuned on queries that are not shown."""
    targets = {f"target {target}": index.tune(chosen, k, target_recall=target).params for target in TARGETS}
    for name, params in targets.items():
        sys.stdout.write(f"k = {k}, {name}: {params}\n")
    mus = {f"mu = {mu}": segmax.ASC(mu=mu) for mu in MUS}
    return {"exact": segmax.ASC(), **targets, **mus, "exhaustive": segmax.Exhaustive()}


def measure(
    index: segmax.Index, queries: Any, k: int, methods: dict[str, SearchParams], passes: int, exact: Any
) -> dict[str, Latency]:
    """Search all queries a few times with every method, pass by pass."""
    fastest: dict[str, NDArray[Any]] = {}
    last: dict[str, BatchHits] = {}
    for _ in range(passes):
        for name, params in methods.items():
            hits = index.search_batch(queries, k=k, params=params, threads=1)
            took = hits.stats.elapsed_ns / 1e6
            fastest[name] = np.minimum(fastest[name], took) if name in fastest else took
            last[name] = hits
    return {name: _latency(fastest[name], hits, exact) for name, hits in last.items()}


def _latency(fastest: NDArray[Any], hits: BatchHits, exact: Any) -> Latency:
    found = [
        len(np.intersect1d(one[one >= 0], two)) / max(1, int((one >= 0).sum()))
        for one, two in zip(exact, hits.rows, strict=True)
    ]
    return Latency(float(fastest.mean()), float(np.quantile(fastest, 0.99)), float(np.mean(found)))


def exponent(sizes: list[int], values: list[float]) -> float:
    """Return by which power of the size a value grows, from the first to the last."""
    return math.log(values[-1] / values[0]) / math.log(sizes[-1] / sizes[0])


def indexes(sizes: list[int], generated: list[int], docs: sp.csr_matrix, queries: sp.csr_matrix) -> Iterator[Index]:
    """Build the indexes one after the other, real documents first; each is gone when the next is asked for."""
    for size in sizes:
        yield segmax.build(docs[:size].astype(np.float32), threads=2, calibrate=False)
    if not generated:
        return
    generator = Generator.fit(docs, queries=queries)
    mean_terms = docs.nnz / docs.shape[0]
    for size in generated:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "generated.segmax"
            segmax.build(generator.batches(size, mean_terms), path=path, threads=2, calibrate=False).close()
            with open_index(path, preload=True) as index:
                yield index


def grow(found: Iterator[Index], labels: list[str], queries: sp.csr_matrix, passes: int) -> Index:
    """Print a table per k, and return the last index."""
    chosen, shown = queries[::2], queries[1::2]
    figures: dict[int, dict[str, list[Latency]]] = {k: {} for k in KS}
    sizes = []
    for label, index in zip(labels, found, strict=True):
        sizes.append(index.num_docs)
        per_posting = sum(index.sizes().values()) / index.num_postings
        sys.stdout.write(f"{label} documents: {per_posting:.2f} bytes per posting\n")
        for k in KS:
            exact = index.search_batch(shown, k=k, params=segmax.Exhaustive()).rows
            for name, latency in measure(index, shown, k, methods_for(index, chosen, k), passes, exact).items():
                figures[k].setdefault(name, []).append(latency)
    for k in KS:
        sys.stdout.write(f"\n| k = {k}: mean ms (p99), recall | {' | '.join(labels)} | exponent |\n")
        sys.stdout.write(f"|{' --- |' * (len(labels) + 2)}\n")
        for name, rows in figures[k].items():
            cells = [f"{row.mean:.3f} ({row.p99:.2f}), {row.recall:.4f}" for row in rows]
            growth = exponent(sizes, [row.mean for row in rows]) if len(sizes) > 1 else math.nan
            sys.stdout.write(f"| {name} | {' | '.join(cells)} | {growth:.2f} |\n")
    return index


def budgets(index: segmax.Index, queries: sp.csr_matrix, passes: int) -> None:
    """Print what budgets keep, chosen on one half of the queries and shown on the other."""
    chosen, shown = queries[::2], queries[1::2]
    k = 10
    known = index.search_batch(chosen, k=k, params=segmax.Exhaustive()).rows
    mean = measure(index, chosen, k, {"exact": segmax.ASC()}, passes, known)["exact"].mean
    exact = index.search_batch(shown, k=k, params=segmax.Exhaustive()).rows
    sys.stdout.write(
        f"\nexact: {mean:.3f} ms\n| budget | ms | mean | p99 | recall |\n| --- | --- | --- | --- | --- |\n"
    )
    methods: dict[str, SearchParams] = {str(share): segmax.ASC(budget_ms=share * mean) for share in BUDGETS}
    for share, row in zip(BUDGETS, measure(index, shown, k, methods, passes, exact).values(), strict=True):
        sys.stdout.write(f"| {share:.0%} | {share * mean:.3f} | {row.mean:.3f} | {row.p99:.3f} | {row.recall:.3f} |\n")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__.splitlines()[0])
    parser.add_argument("--wiki", type=Path, default=wiki.DEFAULT_FOLDER, help="the folder of the wiki vectors")
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES, help="numbers of real documents")
    parser.add_argument("--generate", type=int, nargs="+", default=[], help="numbers of generated documents")
    parser.add_argument("--queries", type=int, default=600, help="how many queries")
    parser.add_argument("--passes", type=int, default=5, help="the fastest of so many passes counts")
    parser.add_argument(
        "--budgets", action="store_true", help="also measure budgets, on the largest size; not with --generate"
    )
    args = parser.parse_args()
    sizes, generated = sorted(args.sizes), sorted(args.generate)
    if args.budgets and generated:
        parser.error("expected --budgets without --generate, got both: pass one of them")
    docs, queries = wiki.load_set(args.wiki, "large", None if generated else max(sizes))
    queries = queries[: args.queries].astype(np.float32)
    labels = [f"{size:,}" for size in sizes] + [f"{size:,} generated" for size in generated]
    largest = grow(indexes(sizes, generated, docs, queries), labels, queries, args.passes)
    if args.budgets:
        budgets(largest, queries, args.passes)


if __name__ == "__main__":
    main()
