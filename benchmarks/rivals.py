"""What it costs to build the index of a rival, and how it searches: `python -m benchmarks.rivals --help`.

Every rival is built in a fresh process, so that memory and threads do not mix. Times are of the wall clock; the time of
all cores stands beside them, because it says more on a busy machine. Never a test: it informs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

K = 10
HEAP_FACTORS = (0.7, 0.8, 0.9)
#: What pyterrier-pisa keeps of the inverted lists after they are compressed; no search reads it.
PISA_LEFTOVERS = frozenset({"inv.docs", "inv.freqs", "inv.sizes", "fwd.documents", "fwd.terms"})

#: Results of all queries: the row numbers found for each.
Found = list[list[int]]


class Build(NamedTuple):
    """What building one index cost."""

    name: str
    version: str
    convert_seconds: float  # from CSR to what the rival takes
    build_seconds: float  # from there to a searchable index on disk
    cpu_seconds: float  # both, summed over all cores
    size_bytes: int  # on disk
    peak_bytes: int  # of the process, loaded vectors included


class Clock:
    """Wall time since the last lap, and the time of all cores since the start."""

    def __init__(self) -> None:
        self._cpu = time.process_time()
        self._last = time.perf_counter()

    def lap(self) -> float:
        """Return the seconds since the last lap."""
        last, self._last = self._last, time.perf_counter()
        return self._last - last

    def cpu(self) -> float:
        """Return the seconds all cores have worked since the start."""
        return time.process_time() - self._cpu


def peak_bytes() -> int:
    """Return the most memory this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def size_of(path: Path, leave_out: frozenset[str] = frozenset()) -> int:
    """Return the size of a file, or of the files in a folder."""
    files = path.iterdir() if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.name not in leave_out)


def build_seismic(docs: sp.csr_matrix, folder: Path) -> Build:
    """Build a Seismic index with default settings (all cores) at FOLDER/seismic.index.seismic."""
    from seismic import SeismicDataset, SeismicIndex

    clock = Clock()
    dataset = SeismicDataset(dim=docs.shape[1])
    names = [str(row) for row in range(docs.shape[0])]
    terms, weights = docs.indices.astype(np.int64), docs.data.astype(np.float32)
    dataset.add_documents_by_id(names, terms, weights, docs.indptr.astype(np.int64))
    del names, terms, weights
    convert = clock.lap()
    SeismicIndex.build_from_dataset(dataset).save(str(folder / "seismic"))
    size = size_of(folder / "seismic.index.seismic")
    return Build("seismic", version("pyseismic-lsr"), convert, clock.lap(), clock.cpu(), size, peak_bytes())


def build_pisa(docs: sp.csr_matrix, folder: Path) -> Build:
    """Build a PISA index at FOLDER/index: pyterrier-pisa inverts in Python, PISA compresses and bounds."""
    from pyterrier_pisa import PisaIndex

    from benchmarks.pisa import documents

    path = folder / "index"
    shutil.rmtree(path, ignore_errors=True)
    clock = Clock()
    index = PisaIndex(str(path), stemmer="none")
    index.toks_indexer(scale=1.0).index(documents(docs))
    convert = clock.lap()
    index.quantized(toks_scale=1.0)
    size = size_of(path, PISA_LEFTOVERS)
    return Build("pisa", version("pyterrier-pisa"), convert, clock.lap(), clock.cpu(), size, peak_bytes())


def build_bmp(docs: sp.csr_matrix, folder: Path) -> Build:
    """Build a BMP index with the block size its manual shows (32, no range compression) at FOLDER/index.bmp."""
    from bmp import Indexer

    from benchmarks.pisa import documents

    clock = Clock()
    indexer = Indexer(str(folder / "index.bmp"), bsize=32, compress_range=False)
    for doc in documents(docs):
        indexer.add_document(doc["docno"], doc["toks"])
    convert = clock.lap()
    indexer.finish()
    size = size_of(folder / "index.bmp")
    return Build("bmp", version("bmp"), convert, clock.lap(), clock.cpu(), size, peak_bytes())


def fastest(search: Callable[[], Any], queries: int) -> tuple[float, Any]:
    """Return the mean milliseconds per query of the fastest of three passes, and what was found."""
    best = float("inf")
    for _ in range(3):
        clock = Clock()
        found = search()
        best = min(best, clock.lap())
    return best * 1000 / queries, found


def search_seismic(queries: sp.csr_matrix, folder: Path) -> Iterator[tuple[str, float, Found]]:
    """Yield settings, mean milliseconds on one thread and results."""
    from seismic import SeismicIndex, get_seismic_string

    index = SeismicIndex.load(str(folder / "seismic.index.seismic"))
    text = get_seismic_string()
    names = np.array([str(row) for row in range(queries.shape[0])], dtype=text)
    terms = [row.indices.astype(str).astype(text) for row in queries]
    weights = [row.data.astype(np.float32) for row in queries]
    for factor in HEAP_FACTORS:
        search = partial(index.batch_search, names, terms, weights, K, query_cut=10, heap_factor=factor, num_threads=1)
        ms, hits = fastest(search, len(names))
        found = {int(rows[0][0]): [int(hit[2]) for hit in rows] for rows in hits if rows}
        yield f"query_cut=10, heap_factor={factor}", ms, [found.get(row, []) for row in range(len(names))]


def search_bmp(queries: sp.csr_matrix, folder: Path) -> Iterator[tuple[str, float, Found]]:
    """Yield settings, mean milliseconds on one thread and results; BMP rounds query weights to at most 32 levels."""
    from bmp import Searcher

    searcher = Searcher(str(folder / "index.bmp"))
    rows = [dict(zip(map(str, row.indices), map(int, row.data), strict=True)) for row in queries]
    ms, hits = fastest(lambda: [searcher.search(row, k=K, alpha=1.0, beta=1.0)[0] for row in rows], len(rows))
    yield "alpha=1, beta=1", ms, [[int(name) for name in names] for names in hits]


class Rival(NamedTuple):
    """How to build an index and how to search it (benchmarks.pisa searches that of PISA)."""

    build: Callable[[sp.csr_matrix, Path], Build]
    search: Callable[[sp.csr_matrix, Path], Iterator[tuple[str, float, Found]]] | None = None


RIVALS = {
    "seismic": Rival(build_seismic, search_seismic),
    "pisa": Rival(build_pisa),
    "bmp": Rival(build_bmp, search_bmp),
}


class Exact:
    """Exact scores, to judge what a rival found."""

    def __init__(self, docs: sp.csr_matrix) -> None:
        self._columns = sp.csc_matrix(docs)

    def scores(self, query: sp.csr_matrix) -> NDArray[np.float64]:
        """Return the score of every document."""
        weights = query.data.astype(np.float64)
        return np.asarray(self._columns[:, query.indices].astype(np.float64) @ weights)

    def recall(self, queries: sp.csr_matrix, found: list[Found]) -> list[float]:
        """Return for each list of results the mean share of the best K it has; of equal scores any will do."""
        shares = np.zeros((queries.shape[0], len(found)))
        for row in range(queries.shape[0]):
            scores = self.scores(queries[row])
            least = max(np.partition(scores, -K)[-K], np.nextafter(0.0, 1.0))
            best = min(K, int(np.count_nonzero(scores >= least)))
            for i, results in enumerate(found):
                right = int(np.count_nonzero(scores[results[row]] >= least))
                shares[row, i] = min(right, best) / best if best else 1.0
        return [float(share) for share in shares.mean(axis=0)]


def judge(rival: Rival, docs: sp.csr_matrix, queries: sp.csr_matrix, folder: Path) -> list[dict[str, Any]]:
    """Search all queries; return latency and recall for each setting."""
    runs = list(rival.search(queries, folder)) if rival.search else []
    recalls = Exact(docs).recall(queries, [found for _, _, found in runs]) if runs else []
    return [
        {"settings": settings, "k": K, "mean_ms": ms, "recall": recall}
        for (settings, ms, _), recall in zip(runs, recalls, strict=True)
    ]


def measure(name: str, docs: sp.csr_matrix, folder: Path, queries: sp.csr_matrix | None = None) -> dict[str, Any]:
    """Build one rival in a fresh process (needs the `rivals` extra) and return what it printed."""
    folder.mkdir(parents=True, exist_ok=True)
    sp.save_npz(folder / "docs.npz", docs, compressed=False)
    program = [sys.executable, "-m", "benchmarks.rivals", name, str(folder)]
    if queries is not None:
        sp.save_npz(folder / "queries.npz", queries, compressed=False)
        program += ["--queries", str(queries.shape[0])]
    output = subprocess.run(program, check=True, stdout=subprocess.PIPE, text=True).stdout
    row: dict[str, Any] = json.loads(output.splitlines()[-1])
    return row


@contextlib.contextmanager
def stdout_to_stderr() -> Iterator[None]:
    """Send what compiled code prints elsewhere, so that one JSON line is all there is."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def main() -> None:
    """Build one rival on FOLDER/docs.npz and print one JSON line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rivals", description=__doc__.splitlines()[0])
    parser.add_argument("rival", choices=RIVALS)
    parser.add_argument("folder", type=Path, help="has docs.npz; the index is written beside it")
    parser.add_argument("--queries", type=int, default=0, help="also search so many of queries.npz")
    args = parser.parse_args()
    rival = RIVALS[args.rival]
    docs = sp.csr_matrix(sp.load_npz(args.folder / "docs.npz"))
    with stdout_to_stderr():
        build = rival.build(docs, args.folder)
        row = {**build._asdict(), "bytes_per_posting": build.size_bytes / docs.nnz, "cores": os.cpu_count()}
        if args.queries:
            queries = sp.csr_matrix(sp.load_npz(args.folder / "queries.npz"))[: args.queries]
            row["search"] = judge(rival, docs, queries, args.folder)
    print(json.dumps(row))


if __name__ == "__main__":
    main()
