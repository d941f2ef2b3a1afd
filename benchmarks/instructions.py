"""How many instructions builds and searches take, counted by callgrind: `python -m benchmarks.instructions`.

Counts hardly depend on how busy the machine is, so two commits can be compared to a percent. Every task runs a few
times, and in a second process more often, both under valgrind: the difference is what the further runs take, without
the start of Python. Documents are generated from a seed. valgrind has no AVX-512, so these are the counts for AVX2.
"""

from __future__ import annotations

import argparse
import gc
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import segmax

NUM_DOCS, NUM_TERMS, NUM_QUERIES = 8_000, 6_000, 100


def documents(count: int, terms: int, seed: int) -> sp.csr_matrix:
    """Return vectors with whole-number weights, whose terms follow a power law."""
    rng = np.random.default_rng(seed)
    shares = np.arange(1, NUM_TERMS + 1) ** -0.8
    drawn = rng.choice(NUM_TERMS, size=(count, terms), p=shares / shares.sum())
    rows = np.repeat(np.arange(count), terms)
    matrix = sp.csr_matrix((rng.integers(1, 200, drawn.size), (rows, drawn.ravel())), shape=(count, NUM_TERMS))
    matrix.data = np.minimum(matrix.data, 255)  # terms drawn twice were summed
    return matrix


def build(path: str) -> Callable[[], object]:
    """Build an index in memory."""
    docs = documents(NUM_DOCS, 60, seed=1)
    return lambda: segmax.build(docs, threads=1, num_clusters=32, progress=False)


def batch(k: int, **options: float) -> Callable[[str], Callable[[], object]]:
    """Search many queries with one call."""

    def prepared(path: str) -> Callable[[], object]:
        index = segmax.open(path, preload=True)
        queries = documents(NUM_QUERIES, 12, seed=2)
        return lambda: index.search_batch(queries, k=k, params=segmax.ASC(**options), threads=1)  # type: ignore[arg-type]

    return prepared


def single(path: str) -> Callable[[], object]:
    """Search one query per call; queries are arrays."""
    index = segmax.open(path, preload=True)
    queries = documents(NUM_QUERIES, 12, seed=2)
    pairs = [(row.indices.astype(np.int64), row.data.astype(np.float64)) for row in queries]
    return lambda: [index.search(pair).ids for pair in pairs]


TASKS: dict[str, Callable[[str], Callable[[], object]]] = {
    "build": build,
    "search_batch, k = 10": batch(10),
    "search_batch, k = 1000": batch(1000),
    "search_batch, k = 10, mu = 0.9": batch(10, mu=0.9),
    "search, one by one, k = 10": single,
}


def counted(task: str, times: int, path: str) -> int:
    """Return the instructions of a process that runs a task `times` times."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out")
        valgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}"]
        command = [
            sys.executable,
            "-m",
            "benchmarks.instructions",
            "--run",
            task,
            "--times",
            str(times),
            "--path",
            path,
        ]
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        subprocess.run([*valgrind, *command], check=True, capture_output=True, env=environment)
        found = re.search(r"^(?:summary|totals): (\d+)", out.read_text(), flags=re.MULTILINE)
    assert found is not None
    return int(found[1])


def main() -> None:
    """Print the counts, or run one task."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", choices=TASKS, help="run one task instead of counting all of them")
    parser.add_argument("--times", type=int, default=1, help="how often to run it (default: %(default)s)")
    parser.add_argument("--path", help="the index that it searches")
    args = parser.parse_args()
    if args.run:
        work = TASKS[args.run](args.path)
        gc.disable()  # its moments depend on everything that ran before
        for _ in range(args.times):
            work()
        return
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "docs.segmax"))
        segmax.build(documents(NUM_DOCS, 60, seed=1), path=path, num_clusters=32, progress=False)
        print("| task | million instructions |\n| --- | --- |")
        for task in TASKS:
            few, many = (1, 3) if task == "build" else (2, 22)
            taken = (counted(task, many, path) - counted(task, few, path)) / (many - few)
            print(f"| {task} | {taken / 1e6:,.1f} |", flush=True)


if __name__ == "__main__":
    main()
