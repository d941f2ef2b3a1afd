"""The plain scatter-add that every engine here is measured against."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

_SOURCE = Path(__file__).with_name("scatter_add.cpp")


class ScatterAdd:
    """Exhaustive search by one list of (row, code) per term."""

    def __init__(self, docs: sp.csr_matrix) -> None:
        lists = docs.tocsc()
        lists.sort_indices()
        self._starts = lists.indptr.astype(np.int64)
        self._rows = lists.indices.astype(np.uint32)
        self._codes = lists.data.astype(np.uint8)
        self._num_docs = docs.shape[0]
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
