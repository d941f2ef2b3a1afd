"""What one shard takes, against its documents: bytes, seconds to build, milliseconds to search.

Documents are prefixes of one fixed shuffle of Wikipedia passages, so every size is a fair sample of the same kind.
Everything runs on one thread. A query's time is its fastest pass, in the core; how much slower other passes are is
kept apart, as noise.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

import segmax
from benchmarks import wiki
from benchmarks.generated import Generator
from benchmarks.quiet import quietly
from benchmarks.scale import Watch
from segmax.base.system import anonymous_memory
from segmax.search.opening import open_index

SIZES = (41_000, 82_000, 164_000, 328_000, 656_250)
#: Generated documents: more than there are real ones.
GENERATED = (2_000_000, 4_000_000)
KS = (10, 100, 1000)
#: Documents for what the number of terms does, and the weights below which terms are dropped.
TERMS_DOCS = 164_000
THRESHOLDS = (3, 8, 20, 35)
#: Quantiles of how much slower than its fastest pass a search is.
NOISE = (0.5, 0.9, 0.95, 0.99, 0.999)


def measure(folder: Path, scratch: Path, sizes: list[int], num_queries: int, passes: int) -> list[dict[str, Any]]:
    """Return a record per size of the large set, and per number of terms at one size of the wiki set."""
    docs, queries = wiki.load_set(folder, "large", max(sizes))
    docs = docs.astype(np.float32)
    queries = queries[:num_queries].astype(np.float32)
    whole = segmax.build(docs, threads=2, calibrate=False)
    floors = {k: _thresholds(whole, queries, k) for k in KS}
    whole.close()
    found = [_one("large", docs[:size], queries, scratch, passes, floors) for size in sorted(sizes)]
    del docs
    found += [_one("wiki", cut.astype(np.float32), queries, scratch, passes, {}) for cut in _cut_to_thresholds(folder)]
    return found


def measure_generated(folder: Path, scratch: Path, sizes: list[int], num_queries: int, passes: int) -> list[Any]:
    """Return a record per size of generated documents: more than there are real ones.

    Generated documents are searched faster than real ones. The first size is that of the real set, so that the ratio
    is known.
    """
    docs, queries = wiki.load_set(folder, "large")
    queries = queries[:num_queries].astype(np.float32)
    generator = Generator.fit(docs)
    mean_terms = docs.nnz / docs.shape[0]
    del docs
    return [
        _one("generated", generator.batches(size, mean_terms), queries, scratch, passes, {})
        for size in (max(SIZES), *sorted(sizes))
    ]


def _cut_to_thresholds(folder: Path) -> list[sp.csr_matrix]:
    docs = wiki.load_set(folder, "wiki")[0]
    docs = docs[np.random.default_rng(2026).permutation(docs.shape[0])[:TERMS_DOCS]]
    cut = []
    for threshold in THRESHOLDS:
        kept = docs.copy()
        kept.data[kept.data < threshold] = 0
        kept.eliminate_zeros()
        cut.append(kept)
    return cut


def _thresholds(index: segmax.Index, queries: sp.csr_matrix, k: int) -> NDArray[np.float64]:
    """Return the k-th best score of every query; 0 where there are fewer."""
    scores = index.search_batch(queries, k=k).scores
    return np.nan_to_num(scores[:, k - 1].astype(np.float64))


def _one(
    name: str,
    docs: sp.csr_matrix | Iterable[sp.csr_matrix],
    queries: sp.csr_matrix,
    scratch: Path,
    passes: int,
    floors: dict[int, Any],
) -> dict[str, Any]:
    """Build an index, real documents twice, and search it."""
    path = scratch / "growth.segmax"
    seconds, memory = [], []
    for _ in range(2 if sp.issparse(docs) else 1):
        before, stream = anonymous_memory(), _Timed(docs)
        start = time.process_time()
        with Watch(scratch) as watch:
            # A stream takes long: all cores build it. Processor time is what counts, whoever spends it.
            threads = 1 if sp.issparse(docs) else None
            segmax.build(
                docs if sp.issparse(docs) else stream, path=path, overwrite=True, threads=threads, calibrate=False
            ).close()
        seconds.append(round(time.process_time() - start - stream.seconds, 3))
        memory.append(watch.peak_memory - before)
    with open_index(path, preload=True) as index:
        record: dict[str, Any] = {
            "set": name,
            "docs": index.num_docs,
            "postings": index.num_postings,
            "bytes": sum(file.stat().st_size for file in path.iterdir()),
            "build_seconds": seconds,
            "build_memory": max(memory),
            "search": {str(k): _searched(index, queries, k, passes, floors.get(k)) for k in KS},
        }
    times = " ".join(f"k={k}: {r['mean_ms']:.4f}" for k, r in record["search"].items())
    sys.stdout.write(
        f"{name} {record['docs']:,} docs, {record['postings'] / record['docs']:.0f} terms: "
        f"{record['bytes'] / record['postings']:.2f} B, {seconds} s, {times}\n"
    )
    sys.stdout.flush()
    return record


class _Timed:
    """A stream, and the processor seconds that making it takes."""

    def __init__(self, batches: Any) -> None:
        self._batches = batches
        self.seconds = 0.0

    def __iter__(self) -> Iterator[Any]:
        batches = iter(self._batches)
        while True:
            start = time.thread_time()
            batch = next(batches, None)
            self.seconds += time.thread_time() - start
            if batch is None:
                return
            yield batch


def _searched(
    index: segmax.Index, queries: sp.csr_matrix, k: int, passes: int, floors: NDArray[np.float64] | None
) -> dict[str, Any]:
    """Return the times of exact searches; and with the final threshold of the whole set known, if it is given."""
    index.search_batch(queries, k=k, threads=1)

    def several() -> NDArray[np.float64]:
        return np.array([index.search_batch(queries, k=k, threads=1).stats.elapsed_ns / 1e6 for _ in range(passes)])

    took, others = quietly(several)
    fastest = took.min(axis=0)
    ratios = (took / fastest).ravel()
    record: dict[str, Any] = {
        "mean_ms": _rounded(fastest.mean()),
        "p50_ms": _rounded(np.quantile(fastest, 0.5)),
        "p99_ms": _rounded(np.quantile(fastest, 0.99)),
        "passes_ms": [_rounded(each) for each in sorted(took.mean(axis=1))],
        "log_spread": _rounded(np.log(fastest).std()),
        "noise": {str(q): _rounded(np.quantile(ratios, q)) for q in NOISE},
        "others": _rounded(others),
    }
    if floors is not None:
        record["floored_ms"] = _rounded(_floored(index, queries, k, passes, floors))
    return record


def _floored(index: segmax.Index, queries: sp.csr_matrix, k: int, passes: int, floors: NDArray[np.float64]) -> float:
    """Return the mean time where only results of at least the final threshold are of interest."""
    engine, plain = index._engine, segmax.ASC().to_core()
    params = [engine.restricted(plain, floor=(float(floor), -1)) for floor in floors]
    from segmax.vectors.csr import matrix_to_csr

    batch = matrix_to_csr(queries)
    took = [engine.search_batch(batch, [k] * len(params), params, 1).stats.elapsed_ns / 1e6 for _ in range(passes)]
    return float(np.array(took).min(axis=0).mean())


def _rounded(value: Any) -> float:
    return float(f"{float(value):.4g}")
