"""What building the index of a rival costs: `python -m benchmarks.rivals --help`. `benchmarks.race` searches them.

Every rival is built in a fresh process, so that memory and threads do not mix. Times are wall-clock times, with the
time of all cores beside them, which says more on a busy machine.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

#: Files that pyterrier-pisa keeps after it has compressed the inverted lists; no search reads them.
PISA_LEFTOVERS = frozenset({"inv.docs", "inv.freqs", "inv.sizes", "fwd.documents", "fwd.terms"})


class Build(NamedTuple):
    """The cost of building one index."""

    name: str
    version: str
    convert_seconds: float  # from CSR to the input of the rival
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
    """Return the most memory this process has held; `ru_maxrss` would include what its parent held at the start."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 1024


def size_of(path: Path, leave_out: frozenset[str] = frozenset()) -> int:
    """Return the size of a file, or of the files in a folder."""
    files = path.iterdir() if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.name not in leave_out)


def documents(docs: sp.csr_matrix, order: NDArray[np.integer[Any]] | None = None) -> Iterator[dict[str, Any]]:
    """Yield what PISA and BMP take: {'docno': row, 'toks': {term: weight}}, by row or in the order given."""
    for row in range(docs.shape[0]) if order is None else order.tolist():
        part = slice(docs.indptr[row], docs.indptr[row + 1])
        toks = dict(zip(map(str, docs.indices[part].tolist()), docs.data[part].tolist(), strict=True))
        yield {"docno": str(row), "toks": toks}


def build_seismic(docs: sp.csr_matrix, folder: Path, **settings: float) -> Build:
    """Build a Seismic index at FOLDER/seismic.index.seismic, on all cores, with default settings except those given."""
    from seismic import SeismicDataset, SeismicIndex

    clock = Clock()
    dataset = SeismicDataset(dim=docs.shape[1])
    names = [str(row) for row in range(docs.shape[0])]
    terms, weights = docs.indices.astype(np.int64), docs.data.astype(np.float32)
    dataset.add_documents_by_id(names, terms, weights, docs.indptr.astype(np.int64))
    del names, terms, weights
    convert = clock.lap()
    SeismicIndex.build_from_dataset(dataset, **settings).save(str(folder / "seismic"))
    size = size_of(folder / "seismic.index.seismic")
    return Build("seismic", version("pyseismic-lsr"), convert, clock.lap(), clock.cpu(), size, peak_bytes())


def build_pisa(docs: sp.csr_matrix, folder: Path) -> Build:
    """Build a PISA index at FOLDER/index: pyterrier-pisa inverts in Python, PISA compresses and bounds."""
    from pyterrier_pisa import PisaIndex

    path = folder / "index"
    shutil.rmtree(path, ignore_errors=True)
    clock = Clock()
    index = PisaIndex(str(path), stemmer="none")
    index.toks_indexer(scale=1.0).index(documents(docs))
    convert = clock.lap()
    index.quantized(toks_scale=1.0)
    size = size_of(path, PISA_LEFTOVERS)
    return Build("pisa", version("pyterrier-pisa"), convert, clock.lap(), clock.cpu(), size, peak_bytes())


def build_bmp(
    docs: sp.csr_matrix, folder: Path, block_size: int = 32, order: NDArray[np.integer[Any]] | None = None
) -> Build:
    """Build a BMP index at FOLDER/index.bmp; its manual shows block size 32 without range compression."""
    from bmp import Indexer

    clock = Clock()
    indexer = Indexer(str(folder / "index.bmp"), bsize=block_size, compress_range=False)
    for doc in documents(docs, order):
        indexer.add_document(doc["docno"], doc["toks"])
    convert = clock.lap()
    indexer.finish()
    size = size_of(folder / "index.bmp")
    return Build("bmp", version("bmp"), convert, clock.lap(), clock.cpu(), size, peak_bytes())


def build_sindi(docs: sp.csr_matrix, folder: Path, **settings: Any) -> Build:
    """Build a SINDI index of VSAG at FOLDER/index.sindi; FOLDER/index.json has what opening it takes."""
    import pyvsag

    clock = Clock()
    starts, terms, weights = docs.indptr.astype(np.uint32), docs.indices.astype(np.uint32), docs.data.astype(np.float32)
    rows, num_terms = np.arange(docs.shape[0], dtype=np.int64), docs.shape[1] + 2
    if docs.dtype == np.uint8:
        # `use_quantization` maps the smallest weight to 0 and the largest to 255. One more document, row -1, has these
        # weights in two terms that no query has; so our 8-bit weights stay as they are, and the search is exact.
        starts = np.append(starts, np.uint32(docs.nnz + 2))
        terms = np.append(terms, np.array([num_terms - 2, num_terms - 1], np.uint32))
        weights = np.append(weights, np.array([0, 255], np.float32))
        rows = np.append(rows, -1)
    # Windows as large as its 16-bit document numbers allow: fewer, longer lists.
    chosen = {"term_id_limit": num_terms, "window_size": 60_000, **settings}
    parameters = {"dtype": "sparse", "metric_type": "ip", "dim": num_terms, "index_param": chosen}
    convert = clock.lap()
    index = pyvsag.Index("sindi", json.dumps(parameters))
    index.build(starts, terms, weights, rows)
    index.save(str(folder / "index.sindi"))
    (folder / "index.json").write_text(json.dumps({"num_docs": docs.shape[0], "parameters": parameters}))
    size = size_of(folder / "index.sindi")
    return Build("sindi", version("pyvsag"), convert, clock.lap(), clock.cpu(), size, peak_bytes())


class _Encoded:
    """What splade-index takes for a model, with vectors that are there already."""

    def __init__(self, docs: sp.csr_matrix) -> None:
        import torch

        starts, terms = (torch.from_numpy(part.astype(np.int64)) for part in (docs.indptr, docs.indices))
        self._docs = torch.sparse_csr_tensor(starts, terms, torch.from_numpy(docs.data.astype(np.float32)), docs.shape)
        self._vocabulary = {str(term): term for term in range(docs.shape[1])}
        self.tokenizer = self

    def get_vocab(self) -> dict[str, int]:
        """Return the number of every term."""
        return self._vocabulary

    def encode_document(self, documents: list[str], **_: Any) -> Any:
        """Return the vectors, whatever the texts."""
        return self._docs


def build_splade_index(docs: sp.csr_matrix, folder: Path) -> Build:
    """Build an index of splade-index at FOLDER/index, with its numba backend."""
    from splade_index import SPLADE

    clock = Clock()
    model = _Encoded(docs)
    convert = clock.lap()
    index = SPLADE(backend="numba")
    index.index(model, [""] * docs.shape[0], show_progress=False, compile_numba_code=False)
    index.save(folder / "index")
    size = size_of(folder / "index")
    return Build("splade-index", version("splade-index"), convert, clock.lap(), clock.cpu(), size, peak_bytes())


RIVALS: dict[str, Callable[[sp.csr_matrix, Path], Build]] = {
    "seismic": build_seismic,
    "pisa": build_pisa,
    "bmp": build_bmp,
    "sindi": build_sindi,
    "splade-index": build_splade_index,
}


def measure(name: str, docs: sp.csr_matrix, folder: Path) -> dict[str, Any]:
    """Build one rival in a fresh process (needs the `rivals` extra) and return what it printed."""
    folder.mkdir(parents=True, exist_ok=True)
    sp.save_npz(folder / "docs.npz", docs, compressed=False)
    program = [sys.executable, "-m", "benchmarks.rivals", name, str(folder)]
    output = subprocess.run(program, check=True, stdout=subprocess.PIPE, text=True).stdout
    row: dict[str, Any] = json.loads(output.splitlines()[-1])
    return row


@contextlib.contextmanager
def stdout_to_stderr() -> Iterator[None]:
    """Redirect what compiled code prints, so that the output is one JSON line."""
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
    parser.add_argument("folder", type=Path, help="the folder of docs.npz; the index is written there, too")
    args = parser.parse_args()
    docs = sp.csr_matrix(sp.load_npz(args.folder / "docs.npz"))
    with stdout_to_stderr():
        build = RIVALS[args.rival](docs, args.folder)
    print(json.dumps({**build._asdict(), "bytes_per_posting": build.size_bytes / docs.nnz, "cores": os.cpu_count()}))


if __name__ == "__main__":
    main()
