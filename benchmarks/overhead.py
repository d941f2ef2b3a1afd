"""What the Python side of a search costs, and how batches scale with threads: `python -m benchmarks.overhead`.

On a tiny index the core has next to nothing to do: the overhead is the wall time of a call minus the time that the core
measures itself. The fastest of several rounds counts, because other programs can only add time.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import segmax
from benchmarks import wiki

CALLS = 200  # short rounds, so that some are undisturbed


def per_call_us(call: Callable[[], object], rounds: int) -> float:
    """Return the microseconds per call in the fastest round."""
    fastest = float("inf")
    for _ in range(rounds):
        start = time.perf_counter_ns()
        for _ in range(CALLS):
            call()
        fastest = min(fastest, (time.perf_counter_ns() - start) / CALLS / 1e3)
    return fastest


def overheads(rounds: int) -> None:
    """Print the overhead of every form of a query."""
    docs = sp.csr_matrix(sp.random(200, 30522, density=0.001, random_state=1))
    index = segmax.build(docs)
    terms = np.unique(docs.indices)[:24].astype(np.int64)
    weights = np.linspace(0.1, 2.0, len(terms))
    row = sp.csr_matrix((weights, terms, [0, len(terms)]), shape=(1, docs.shape[1]))
    forms: dict[str, object] = {
        "(int64 array, float64 array)": (terms, weights),
        "(int32 array, float32 array)": (terms.astype(np.int32), weights.astype(np.float32)),
        "CSR row": row,
        "mapping": dict(zip(terms.tolist(), weights.tolist(), strict=True)),
    }
    inside = np.percentile([index.search((terms, weights)).stats.elapsed_ns for _ in range(10 * CALLS)], 10) / 1e3
    print(f"one query of {len(terms)} terms, k = 10; in the core: {inside:.1f} µs\n")
    print("| query | µs per call | overhead, µs |\n| --- | --- | --- |")
    for name, query in forms.items():
        taken = per_call_us(lambda query=query: index.search(query, k=10), rounds)  # type: ignore[misc]
        print(f"| {name} | {taken:.1f} | {taken - inside:.1f} |")
    for options, name in (({"target_recall": 0.99}, "target_recall"), ({"params": segmax.ASC(mu=0.9)}, "params")):
        taken = per_call_us(lambda options=options: index.search((terms, weights), **options), rounds)  # type: ignore[misc]
        print(f"| arrays, with {name} | {taken:.1f} | {taken - inside:.1f} |")
    taken = per_call_us(lambda: index.search((terms, weights), k=10).ids, rounds)
    print(f"| arrays, and ids looked up | {taken:.1f} | {taken - inside:.1f} |")


def scaling(folder: Path, rounds: int) -> None:
    """Print queries per second of a batch by threads, on the wiki vectors."""
    docs, queries, labels = wiki.load(folder, 192)
    index = segmax.build(docs, clustering=labels, config=segmax.BuildConfig(calibrate=False), progress=False)
    print("\n| k | threads | queries/s | times one thread |\n| --- | --- | --- | --- |")
    for k in (10, 1000):
        alone = 0.0
        for threads in (1, 2):
            fastest = float("inf")
            for _ in range(rounds):
                start = time.perf_counter()
                index.search_batch(queries, k=k, threads=threads)
                fastest = min(fastest, time.perf_counter() - start)
            rate = queries.shape[0] / fastest
            alone = alone or rate
            print(f"| {k} | {threads} | {rate:,.0f} | {rate / alone:.2f} |")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overhead", description=__doc__.splitlines()[0])
    parser.add_argument("--wiki", type=Path, default=wiki.DEFAULT_FOLDER, help="the folder of the wiki vectors")
    parser.add_argument("--rounds", type=int, default=150)
    parser.add_argument("--no-scaling", action="store_true", help="skip batches")
    args = parser.parse_args()
    overheads(args.rounds)
    if not args.no_scaling:
        scaling(args.wiki, min(args.rounds, 3))


if __name__ == "__main__":
    main()
