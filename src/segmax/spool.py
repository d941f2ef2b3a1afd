"""Where documents wait while an index is built: in memory, or on disk once memory is short.

Documents are kept in parts whose boundaries depend on the documents alone, not on the batches they came in, and all
later work goes part by part: the index is the same however the collection was cut.
"""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from segmax.errors import WriteError
from segmax.sparse import Csr

PART_DOCS = 16384
PART_POSTINGS = 1 << 20
_WRITE_BYTES = 1 << 24


class ScratchFile:
    """A file without a name: whatever ends the process, nothing is left behind."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            self._file: BinaryIO = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115
        except OSError as error:
            raise self._error(error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, array: NDArray[Any]) -> None:
        """Append an array."""
        view = np.ascontiguousarray(array).view(np.uint8).data if array.size else memoryview(b"")
        try:
            while len(view) > 0:
                view = view[self._file.write(view[:_WRITE_BYTES]) :]
        except OSError as error:
            raise self._error(error) from error

    def mapped(self, dtypes_and_lengths: Iterable[tuple[DTypeLike, int]]) -> list[NDArray[Any]]:
        """Return the arrays written to the file, mapped; they outlive the file object."""
        wanted = list(dtypes_and_lengths)
        total = sum(np.dtype(dtype).itemsize * length for dtype, length in wanted)
        if total == 0:
            return [np.empty(0, dtype) for dtype, _ in wanted]
        content = mmap.mmap(self._file.fileno(), total, access=mmap.ACCESS_READ)
        arrays: list[NDArray[Any]] = []
        offset = 0
        for dtype, length in wanted:
            arrays.append(np.frombuffer(content, dtype, length, offset))
            offset += arrays[-1].nbytes
        return arrays

    def _error(self, error: OSError) -> WriteError:
        return WriteError(
            f"could not keep documents in '{self._folder}' while building ({error.strerror}): nothing was changed; "
            "make room, or choose another folder with scratch=..."
        )


class Spool:
    """Rows in the order they came, in parts.

    Parameters
    ----------
    num_columns
        Of every row.
    memory
        How many bytes of parts may stay in memory; the rest goes to `folder`.
    folder
        Where scratch files are made.
    """

    def __init__(self, num_columns: int, memory: int, folder: Path) -> None:
        self.num_columns = num_columns
        self.num_rows = 0
        self._memory = memory
        self._folder = folder
        self._kept_bytes = 0
        self._parts: list[Csr] = []
        self._first_rows: list[int] = [0]
        self._open: list[Csr] = []  # slices of the part that is being filled
        self._open_rows = 0
        self._open_postings = 0

    def __len__(self) -> int:
        return len(self._parts)

    def __iter__(self) -> Iterator[Csr]:
        return iter(self._parts)

    @property
    def num_postings(self) -> int:
        """How many postings all closed parts have."""
        return sum(len(part.indices) for part in self)

    def first_row(self, part: int) -> int:
        """Return the row that a part starts with."""
        return self._first_rows[part]

    def append(self, docs: Csr) -> None:
        """Add rows, cut into parts of at most PART_DOCS rows and, but for one giant row, PART_POSTINGS postings."""
        row = 0
        while row < docs.num_rows:
            room = PART_POSTINGS - self._open_postings
            fitting = int(np.searchsorted(docs.indptr, docs.indptr[row] + room, side="right")) - 1 - row
            count = min(fitting, PART_DOCS - self._open_rows, docs.num_rows - row)
            if count == 0 and self._open_rows == 0:
                count = 1
            if count > 0:
                self._add(slice_rows(docs, row, row + count))
                row += count
            if row < docs.num_rows or self._open_rows == PART_DOCS:
                self._close_part()

    def widen(self, num_columns: int) -> None:
        """Have more columns from now on: the vocabulary of a stream may grow with it."""
        self.num_columns = max(self.num_columns, num_columns)

    def finish(self) -> None:
        """Close the last part; no rows may follow. Parts from before the spool was widened become like the last one."""
        if self._open_rows:
            self._close_part()
        dtype = self._term_dtype()
        for number, part in enumerate(self._parts):
            if part.indices.dtype != dtype:
                self.replace(number, part._replace(indices=part.indices.astype(dtype)))
            self._parts[number] = self._parts[number]._replace(num_columns=self.num_columns)

    def replace(self, part: int, docs: Csr) -> None:
        """Put other content in the place of a part with as many rows."""
        self._kept_bytes -= _bytes_in_memory(self._parts[part])
        self._parts[part] = self._stored(docs)

    def lengths(self) -> NDArray[np.int64]:
        """Return the number of postings of every row."""
        return np.concatenate([np.diff(part.indptr) for part in self] or [np.empty(0, np.int64)])

    def clear(self) -> None:
        """Let go of everything."""
        self._parts.clear()

    def _add(self, docs: Csr) -> None:
        # A copy: the caller may fill the same buffers again for the next batch.
        self._open.append(Csr(docs.indptr, docs.indices.copy(), docs.values.copy(), docs.num_columns))
        self._open_rows += docs.num_rows
        self._open_postings += len(docs.indices)

    def _close_part(self) -> None:
        docs = join_rows(self._open, self.num_columns)
        terms = docs.indices.astype(self._term_dtype(), copy=False)
        docs = docs._replace(indices=terms, values=narrowest(docs.values))
        self.num_rows += docs.num_rows
        self._first_rows.append(self.num_rows)
        self._parts.append(self._stored(docs))
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


def slice_rows(docs: Csr, first: int, last: int) -> Csr:
    """Return the rows from `first` to before `last`, as views."""
    indptr = docs.indptr[first : last + 1]
    begin, end = int(indptr[0]), int(indptr[-1])
    return Csr(indptr - begin, docs.indices[begin:end], docs.values[begin:end], docs.num_columns)


def join_rows(parts: list[Csr], num_columns: int) -> Csr:
    """Return the rows of all parts, one after the other, as a copy."""
    counts = np.concatenate([np.diff(part.indptr) for part in parts])
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    indices = np.concatenate([part.indices for part in parts])
    values = np.concatenate([part.values for part in parts])
    return Csr(indptr, indices, values, num_columns)


def narrowest(values: NDArray[Any]) -> NDArray[Any]:
    """Return non-negative weights in the smallest dtype that holds every one of them exactly."""
    if len(values) == 0:
        return values.astype(np.uint8)
    if values.dtype == np.float16:
        values = values.astype(np.float32)
    if values.dtype.kind in "ui" or bool((values == np.floor(values)).all()):
        largest = values.max()
        if largest <= 2**16 - 1:
            return values.astype(np.uint8 if largest <= 255 else np.uint16, copy=False)
    if values.dtype.kind == "f":
        with np.errstate(over="ignore", under="ignore"):
            single = values.astype(np.float32)
        return single if bool((single == values).all()) else values
    return values
