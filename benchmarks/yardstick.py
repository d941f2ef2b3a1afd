"""The plain scatter-add: the yardstick for every engine."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

_SOURCE = Path(__file__).with_name("scatter_add.cpp")


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
        flags = ["-O3", "-std=c++20", "-march=x86-64-v2", "-shared", "-fPIC"]
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
