"""Building a sharded index on Ray: what it takes beside the builds of its shards, and what a second worker gains."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

import segmax.ray
from benchmarks import wiki
from segmax.planning import Figures
from segmax.planning.costs import Costs

SHARDS = 8


def measure(figures: Figures, folder: Path, scratch: Path, num_docs: int) -> dict[str, Any]:
    """Build with one worker and with two."""
    docs, _ = wiki.load_set(folder, "large", num_docs)
    files = [scratch / f"part-{number}.npz" for number in range(SHARDS)]
    for file, rows in zip(files, np.array_split(np.arange(num_docs), SHARDS), strict=True):
        sp.save_npz(file, docs[rows[0] : rows[-1] + 1], compressed=False)
    one, two = (_built(files, scratch, workers) for workers in (1, 2))
    for file in files:
        file.unlink()
    alone = SHARDS * Costs(figures).build_seconds(num_docs / SHARDS, docs.nnz / num_docs)
    return {
        "docs": num_docs,
        "shards": SHARDS,
        "seconds": {"1": one["seconds"], "2": two["seconds"]},
        "shards_alone_seconds": round(alone, 2),
        "overhead": round(one["seconds"] / alone, 3),
        "efficiency": round(one["seconds"] / two["seconds"] / 2, 3),
        "scratch_share": round(max(one["peak_bytes"], two["peak_bytes"]) / one["bytes"] - 1, 3),
    }


def _built(files: list[Path], scratch: Path, workers: int) -> dict[str, Any]:
    import ray

    path = scratch / "built.sharded"
    shutil.rmtree(path, ignore_errors=True)
    ray.init(num_cpus=workers, include_dashboard=False, object_store_memory=150 * 2**20, _temp_dir=str(scratch))
    try:
        start = time.perf_counter()
        with _Size(path) as size:
            segmax.ray.build(list(map(str, files)), path, shards=SHARDS)
        seconds = round(time.perf_counter() - start, 2)
    finally:
        ray.shutdown()
    found = {"seconds": seconds, "peak_bytes": size.peak, "bytes": _bytes(path)}
    shutil.rmtree(path)
    return found


class _Size:
    """The most bytes of a folder while the context lasts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.peak = 0

    def _run(self) -> None:
        while not self._done.wait(0.2):
            self.peak = max(self.peak, _bytes(self._path))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()


def _bytes(path: Path) -> int:
    total = 0
    for file in path.rglob("*"):
        try:
            total += file.stat().st_size if file.is_file() else 0
        except FileNotFoundError:  # it was moved or deleted meanwhile
            continue
    return total
