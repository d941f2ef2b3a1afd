"""What building the wiki index costs, in segmax and in its rivals: `python -m benchmarks.build --help`.

Measures time, memory and size of segmax, plain and compact, and of every rival (`benchmarks.rivals`), each in a fresh
process; then the size of each structure of the index, and the latency of both variants.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import segmax
from benchmarks import wiki
from benchmarks.rivals import RIVALS
from benchmarks.rivals import measure as measure_rival
from segmax.base.system import peak_memory
from segmax.inspection.summary import STRUCTURES, structure_of

VARIANTS = {"segmax": segmax.BuildConfig(), "segmax, compact": segmax.BuildConfig(compact=True)}
RUNS: dict[str, tuple[int, segmax.ASC | segmax.Exhaustive]] = {
    "exhaustive, k=10": (10, segmax.Exhaustive()),
    "asc, k=10": (10, segmax.ASC()),
    "exhaustive, k=1000": (1000, segmax.Exhaustive()),
    "asc, k=1000": (1000, segmax.ASC()),
}


def build_one(name: str, folder: Path) -> dict[str, Any]:
    """Build one variant from FOLDER/docs.npz on disk; return its cost and sizes."""
    docs = sp.load_npz(folder / "docs.npz")
    start, cpu = time.perf_counter(), time.process_time()
    index = segmax.build(docs, path=folder / name, overwrite=True, config=VARIANTS[name])
    seconds = time.perf_counter() - start
    structures = dict.fromkeys(STRUCTURES, 0)
    for component, size in index.sizes().items():
        structures[structure_of(component)] += size
    return {
        "name": name,
        "version": segmax.__version__,
        "convert_seconds": 0.0,
        "build_seconds": seconds,
        "cpu_seconds": time.process_time() - cpu,
        "size_bytes": index.num_bytes,
        "peak_bytes": peak_memory(),
        "bytes_per_posting": index.num_bytes / docs.nnz,
        "clusters": index.num_clusters,
        "structures": {structure: size / docs.nnz for structure, size in structures.items()},
        "cores": os.cpu_count(),
    }


def latencies(folder: Path, queries: sp.csr_matrix, passes: int) -> dict[str, dict[str, tuple[float, float]]]:
    """Return mean and p99 milliseconds by variant and run: the fastest of several passes, with variants in turn."""
    indexes = {name: segmax.open(folder / name) for name in VARIANTS}
    best: dict[str, dict[str, tuple[float, float]]] = {name: {} for name in VARIANTS}
    for _ in range(passes):
        for run, (k, params) in RUNS.items():
            for name, index in indexes.items():
                ms = index.search_batch(queries, k=k, params=params, threads=1).stats.elapsed_ns / 1e6
                now = (float(ms.mean()), float(np.percentile(ms, 99)))
                best[name][run] = min(now, best[name].get(run, now))
    return best


def in_fresh_process(name: str, folder: Path) -> dict[str, Any]:
    """Run `build_one` in a fresh process."""
    program = [sys.executable, "-m", "benchmarks.build", "--child", name, "--folder", str(folder)]
    output = subprocess.run(program, check=True, stdout=subprocess.PIPE, text=True).stdout
    row: dict[str, Any] = json.loads(output.splitlines()[-1])
    return row


def main() -> None:
    """Parse, build everything, print tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.build", description=__doc__.splitlines()[0])
    parser.add_argument("--wiki", type=Path, default=wiki.DEFAULT_FOLDER, help="the folder of the wiki vectors")
    parser.add_argument("--folder", type=Path, default=Path("build/compare"), help="where indexes are written")
    parser.add_argument("--rivals", nargs="*", default=[], choices=sorted(RIVALS), help="needs the extra `rivals`")
    parser.add_argument("--queries", type=int, default=400)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--output", type=Path, help="append results as JSON lines")
    parser.add_argument("--child", choices=VARIANTS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(build_one(args.child, args.folder)))
        return
    docs, queries, _ = wiki.load(args.wiki, 0)
    args.folder.mkdir(parents=True, exist_ok=True)
    sp.save_npz(args.folder / "docs.npz", docs, compressed=False)
    rows = [in_fresh_process(name, args.folder) for name in VARIANTS]
    rows += [measure_rival(name, docs, args.folder) for name in args.rivals]
    print("| index | version | convert s | build s | CPU s | times segmax | bytes/posting | peak GB |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for row in rows:
        print(
            f"| {row['name']} | {row['version']} | {row['convert_seconds']:.1f} | {row['build_seconds']:.1f} "
            f"| {row['cpu_seconds']:.0f} | {row['build_seconds'] / rows[0]['build_seconds']:.1f} "
            f"| {row['bytes_per_posting']:.2f} | {row['peak_bytes'] / 1e9:.2f} |"
        )
    measured = latencies(args.folder, queries[: args.queries], args.passes)
    print("\n| structure, bytes/posting | " + " | ".join(VARIANTS) + " |")
    print("| --- | --- | --- |")
    for structure in STRUCTURES:
        print(f"| {structure} | " + " | ".join(f"{row['structures'][structure]:.3f}" for row in rows[:2]) + " |")
    print("\n| mean ms (p99) | " + " | ".join(VARIANTS) + " |")
    print("| --- | --- | --- |")
    for run in RUNS:
        print(f"| {run} | " + " | ".join("{:.3f} ({:.3f})".format(*measured[name][run]) for name in VARIANTS) + " |")
    if args.output:
        args.output.parent.mkdir(parents=True, exist_ok=True)
        with args.output.open("a") as file:
            for row in rows:
                latency = measured.get(row["name"], {})
                file.write(json.dumps({**row, "latency_ms": latency, "date": time.strftime("%Y-%m-%d")}) + "\n")


if __name__ == "__main__":
    main()
