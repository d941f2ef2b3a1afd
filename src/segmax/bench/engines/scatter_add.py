"""The plain scatter-add: the yardstick for every engine. g++ compiles it when it is first used."""

from __future__ import annotations

import ctypes
import platform
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

import segmax
from segmax.base.system import peak_memory
from segmax.bench.engines.engine import Answer, Build, Clock, Engine, Setting

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    from segmax.base.optional import scipy_sparse as sp

_SOURCE = Path(__file__).with_name("scatter_add.cpp")
#: As the core's portable code is compiled.
_FLAGS = ("-O3", "-std=c++20", "-shared", "-fPIC")
_MACHINE_FLAGS = {"x86_64": ("-march=x86-64-v2",)}


class ScatterAdd:
    """Exhaustive search with one list of (row, code) per term."""

    def __init__(self, docs: sp.csr_matrix) -> None:
        lists = docs.tocsc()
        lists.sort_indices()
        arrays = (lists.indptr.astype(np.int64), lists.indices.astype(np.uint32), lists.data.astype(np.uint8))
        self._set(docs.shape[0], *arrays)

    @classmethod
    def of_stream(cls, batches: Iterable[sp.csr_matrix], counts: NDArray[np.int64]) -> Self:
        """Make the lists of some terms from batches of documents; `counts` is 0 for the other terms."""
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        rows = np.empty(int(starts[-1]), dtype=np.uint32)
        codes = np.empty(int(starts[-1]), dtype=np.uint8)
        wanted, place, num_docs = counts > 0, starts[:-1].copy(), 0
        for batch in batches:
            chosen = wanted[batch.indices]
            ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(chosen)])[batch.indptr]
            part = sp.csr_matrix((batch.data[chosen], batch.indices[chosen], ends), shape=batch.shape).tocsc()
            lengths = np.diff(part.indptr)
            to = np.repeat(place - part.indptr[:-1], lengths) + np.arange(part.nnz)
            rows[to] = part.indices + num_docs
            codes[to] = part.data
            place += lengths
            num_docs += batch.shape[0]
        made = cls.__new__(cls)
        made._set(num_docs, starts, rows, codes)
        return made

    def _set(
        self, num_docs: int, starts: NDArray[np.int64], rows: NDArray[np.uint32], codes: NDArray[np.uint8]
    ) -> None:
        self._num_docs, self._starts, self._rows, self._codes = num_docs, starts, rows, codes
        self._folder = tempfile.TemporaryDirectory()
        library = Path(self._folder.name) / "scatter_add.so"
        flags = (*_FLAGS, *_MACHINE_FLAGS.get(platform.machine(), ()))
        subprocess.run(["g++", *flags, str(_SOURCE), "-o", str(library)], check=True)
        self._search = ctypes.CDLL(str(library)).scatter_add_search

    def search(self, queries: sp.csr_matrix, k: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the rows (-1 where there are fewer than k) and the nanoseconds of every query."""
        num_queries = queries.shape[0]
        rows = np.full((num_queries, k), -1, dtype=np.int64)
        elapsed = np.zeros(num_queries)
        arrays = (
            self._starts,
            self._rows,
            self._codes,
            ctypes.c_int64(self._num_docs),
            ctypes.c_int64(num_queries),
            queries.indptr.astype(np.int64),
            queries.indices.astype(np.int32),
            queries.data.astype(np.uint32),
            ctypes.c_int64(k),
            rows,
            elapsed,
        )
        self._search(*(a.ctypes.data_as(ctypes.c_void_p) if isinstance(a, np.ndarray) else a for a in arrays))
        return rows, elapsed


def _build(docs: sp.csr_matrix, folder: Path) -> Build:
    """Keep the vectors; the lists are made in memory when they are opened. Return the size of the lists."""
    clock = Clock()
    ScatterAdd(docs)
    seconds = clock.lap()
    sp.save_npz(folder / "docs.npz", docs, compressed=False)
    size = docs.nnz * (4 + 1) + (docs.shape[1] + 1) * 8
    return Build("scatter-add", segmax.__version__, 0.0, seconds, clock.cpu(), size, peak_memory())


class _Searcher:
    """Timed by its own clock, because the call from Python would slow it down."""

    def __init__(self, folder: Path, queries: sp.csr_matrix) -> None:
        self._plain = ScatterAdd(sp.csr_matrix(sp.load_npz(folder / "docs.npz")))
        self._queries: list[sp.csr_matrix] = list(queries)

    def prepare(self, setting: Setting, k: int) -> Callable[[int], Any]:
        """Return the search of one query."""
        return lambda number: self._plain.search(self._queries[number], k)

    def answer(self, raw: Any) -> Answer:
        """Read the rows and the clock."""
        rows, elapsed = raw
        return Answer(rows[0][rows[0] >= 0], int(elapsed[0]))


SCATTER_ADD = Engine(
    "segmax",
    (Setting("", {}, exact=True, always=True),),
    _build,
    _Searcher,
    timed_inside=True,
    programs=("g++",),
)
