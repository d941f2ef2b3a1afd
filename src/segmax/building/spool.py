"""Keeps documents while an index is built: in memory, or on disk once memory is short.

Documents are kept in slabs whose boundaries depend on the documents alone, not on the batches they came in, and all
later work goes slab by slab: the index is the same however the collection was cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segmax.base.scratch import ScratchFile
from segmax.vectors.csr import Csr
from segmax.vectors.rows import SLAB_DOCS, SLAB_POSTINGS, join_rows, narrowest, slice_rows


class Spool:
    """Rows in the order they came, in slabs.

    Parameters
    ----------
    num_columns
        Of every row.
    memory
        How many bytes of slabs may stay in memory; the rest goes to `folder`.
    folder
        Where scratch files are made.
    """

    def __init__(self, num_columns: int, memory: int, folder: Path) -> None:
        self.num_columns = num_columns
        self.num_rows = 0
        self._memory = memory
        self._folder = folder
        self._kept_bytes = 0
        self._slabs: list[Csr] = []
        self._first_rows: list[int] = [0]
        self._open: list[Csr] = []  # slices of the slab that is being filled
        self._open_rows = 0
        self._open_postings = 0

    def __len__(self) -> int:
        return len(self._slabs)

    def __iter__(self) -> Iterator[Csr]:
        return iter(self._slabs)

    @property
    def num_postings(self) -> int:
        """How many postings all closed slabs have."""
        return sum(len(slab.indices) for slab in self)

    def first_row(self, slab: int) -> int:
        """Return the row that a slab starts with."""
        return self._first_rows[slab]

    def append(self, docs: Csr) -> None:
        """Add rows, cut into slabs of at most SLAB_DOCS rows and, but for one giant row, SLAB_POSTINGS postings."""
        row = 0
        while row < docs.num_rows:
            room = SLAB_POSTINGS - self._open_postings
            fitting = int(np.searchsorted(docs.indptr, docs.indptr[row] + room, side="right")) - 1 - row
            count = min(fitting, SLAB_DOCS - self._open_rows, docs.num_rows - row)
            if count == 0 and self._open_rows == 0:
                count = 1
            if count > 0:
                self._add(slice_rows(docs, row, row + count))
                row += count
            if row < docs.num_rows or self._open_rows == SLAB_DOCS:
                self._close_slab()

    def widen(self, num_columns: int) -> None:
        """Allow more columns from now on: the vocabulary of a stream may grow."""
        self.num_columns = max(self.num_columns, num_columns)

    def finish(self) -> None:
        """Close the last slab; no rows may follow. Earlier slabs get the columns of the last one."""
        if self._open_rows:
            self._close_slab()
        dtype = self._term_dtype()
        for number, slab in enumerate(self._slabs):
            if slab.indices.dtype != dtype:
                self.replace(number, slab._replace(indices=slab.indices.astype(dtype)))
            self._slabs[number] = self._slabs[number]._replace(num_columns=self.num_columns)

    def replace(self, slab: int, docs: Csr) -> None:
        """Replace a slab by one with as many rows."""
        self._kept_bytes -= _bytes_in_memory(self._slabs[slab])
        self._slabs[slab] = self._stored(docs)

    def lengths(self) -> NDArray[np.int64]:
        """Return the number of postings of every row."""
        return np.concatenate([np.diff(slab.indptr) for slab in self] or [np.empty(0, np.int64)])

    def clear(self) -> None:
        """Release all slabs."""
        self._slabs.clear()

    def _add(self, docs: Csr) -> None:
        # A copy: the caller may fill the same buffers again for the next batch.
        self._open.append(Csr(docs.indptr, docs.indices.copy(), docs.values.copy(), docs.num_columns))
        self._open_rows += docs.num_rows
        self._open_postings += len(docs.indices)

    def _close_slab(self) -> None:
        docs = join_rows(self._open, self.num_columns)
        terms = docs.indices.astype(self._term_dtype(), copy=False)
        docs = docs._replace(indices=terms, values=narrowest(docs.values))
        self.num_rows += docs.num_rows
        self._first_rows.append(self.num_rows)
        self._slabs.append(self._stored(docs))
        self._open, self._open_rows, self._open_postings = [], 0, 0

    def _term_dtype(self) -> type[np.unsignedinteger[Any]]:
        return np.uint16 if self.num_columns <= 2**16 else np.uint32

    def _stored(self, docs: Csr) -> Csr:
        """Return the rows, on disk if there is no room in memory."""
        size = docs.indptr.nbytes + docs.indices.nbytes + docs.values.nbytes
        if self._kept_bytes + size <= self._memory:
            self._kept_bytes += size
            return docs
        arrays = (docs.indptr, docs.values, docs.indices)  # widest first: everything stays aligned
        with ScratchFile(self._folder) as file:
            for array in arrays:
                file.write(array)
            indptr, values, terms = file.mapped((array.dtype, len(array)) for array in arrays)
        return Csr(indptr, terms, values, self.num_columns)


def _bytes_in_memory(docs: Csr) -> int:
    owned = docs.indices.base is None
    return docs.indptr.nbytes + docs.indices.nbytes + docs.values.nbytes if owned else 0
