"""How search grows with real documents: `python -m benchmarks.growth --help`.

Documents are prefixes of one fixed shuffle of Wikipedia passages, so every size is a fair sample of the same kind.
Generated collections repeat what their sources have and flatter every engine; growth is measured here. Latencies are
times in the core on one thread, the fastest of several passes per query. With `--budgets`, budgets are shares of the
mean latency of exact search, measured on the other half of the queries.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

import segmax
from benchmarks import wiki
from segmax.search.methods import SearchParams

SIZES = (82_000, 164_000, 328_000, 656_250)
KS = (10, 100, 1000)
METHODS: dict[str, SearchParams] = {
    "exact": segmax.ASC(),
    "mu=.9": segmax.ASC(mu=0.9),
    "mu=.7": segmax.ASC(mu=0.7),
    "mu=.5": segmax.ASC(mu=0.5),
    "exhaustive": segmax.Exhaustive(),
}
BUDGETS = (0.25, 0.5, 0.75)


class Latency(NamedTuple):
    """What a method took, and what it found."""

    mean: float
    p99: float
    recall: float
    swept: float


def measure(index: segmax.Index, queries: Any, k: int, params: SearchParams, passes: int, exact: Any) -> Latency:
    """Search all queries a few times."""
    fastest: NDArray[Any] | None = None
    for _ in range(passes):
        hits = index.search_batch(queries, k=k, params=params, threads=1)
        took = hits.stats.elapsed_ns / 1e6
        fastest = took if fastest is None else np.minimum(fastest, took)
    assert fastest is not None
    found = [
        len(np.intersect1d(one[one >= 0], two)) / max(1, int((one >= 0).sum()))
        for one, two in zip(exact, hits.rows, strict=True)
    ]
    return Latency(
        float(fastest.mean()), float(np.quantile(fastest, 0.99)), float(np.mean(found)), float(hits.stats.swept.mean())
    )


def exponent(sizes: list[int], values: list[float]) -> float:
    """Return by which power of the size a value grows, from the first to the last."""
    return math.log(values[-1] / values[0]) / math.log(sizes[-1] / sizes[0])


def grow(docs: sp.csr_matrix, queries: sp.csr_matrix, sizes: list[int], passes: int) -> segmax.Index:
    """Print a table per k, and return the largest index."""
    found: dict[tuple[int, str], list[Latency]] = {}
    for size in sizes:
        index = segmax.build(docs[:size], threads=2, calibrate=False)
        per_posting = sum(index.sizes().values()) / index.num_postings
        sys.stdout.write(f"{size:,} documents: {per_posting:.2f} bytes per posting\n")
        for k in KS:
            exact = index.search_batch(queries, k=k, params=segmax.Exhaustive()).rows
            for name, params in METHODS.items():
                found.setdefault((k, name), []).append(measure(index, queries, k, params, passes, exact))
    for k in KS:
        sys.stdout.write(f"\n| k = {k} | {' | '.join(f'{size:,}' for size in sizes)} | exponent | recall | swept |\n")
        sys.stdout.write(f"|{' --- |' * (len(sizes) + 4)}\n")
        for name in METHODS:
            rows = found[k, name]
            cells = [f"{row.mean:.3f} ({row.p99:.2f})" for row in rows]
            growth = exponent(sizes, [row.mean for row in rows]) if len(sizes) > 1 else math.nan
            last = rows[-1]
            sys.stdout.write(
                f"| {name} | {' | '.join(cells)} | {growth:.2f} | {last.recall:.4f} | {last.swept:.2f} |\n"
            )
    return index


def budgets(index: segmax.Index, queries: sp.csr_matrix, passes: int) -> None:
    """Print what budgets keep, chosen on one half of the queries and shown on the other."""
    chosen, shown = queries[::2], queries[1::2]
    k = 10
    known = index.search_batch(chosen, k=k, params=segmax.Exhaustive()).rows
    mean = measure(index, chosen, k, segmax.ASC(), passes, known).mean
    exact = index.search_batch(shown, k=k, params=segmax.Exhaustive()).rows
    sys.stdout.write(
        f"\nexact: {mean:.3f} ms\n| budget | ms | mean | p99 | recall |\n| --- | --- | --- | --- | --- |\n"
    )
    for share in BUDGETS:
        row = measure(index, shown, k, segmax.ASC(budget_ms=share * mean), passes, exact)
        sys.stdout.write(f"| {share:.0%} | {share * mean:.3f} | {row.mean:.3f} | {row.p99:.3f} | {row.recall:.3f} |\n")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__.splitlines()[0])
    parser.add_argument("--wiki", type=Path, default=wiki.DEFAULT_FOLDER, help="the folder of the wiki vectors")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of documents")
    parser.add_argument("--queries", type=int, default=600, help="how many queries")
    parser.add_argument("--passes", type=int, default=5, help="the fastest of so many passes counts")
    parser.add_argument("--budgets", action="store_true", help="also measure budgets, on the largest size")
    args = parser.parse_args()
    docs, queries = wiki.load_set(args.wiki, "large", max(args.sizes))
    docs, queries = docs.astype(np.float32), queries[: args.queries].astype(np.float32)
    largest = grow(docs, queries, sorted(args.sizes), args.passes)
    if args.budgets:
        budgets(largest, queries, args.passes)


if __name__ == "__main__":
    main()
