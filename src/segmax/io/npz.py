"""Matrices as scipy.sparse.save_npz writes them, with ids and terms beside them if wanted.

A file may hold, besides scipy's arrays, `ids` and `terms`: arrays of strings (ids may be integers), or the same packed
as UTF-8 text and offsets, `ids_text` and `ids_offset`, `terms_text` and `terms_offset`; scipy.sparse.load_npz ignores
them.
"""

from __future__ import annotations

import contextlib
import lzma
import math
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from segmax.base.errors import InputError, SegmaxError
from segmax.base.memory import MemoryLimit
from segmax.io.read_errors import DAMAGE, no_file, one_line
from segmax.io.scale import Scale
from segmax.vectors.csr import Csr, matrix_to_csr
from segmax.vectors.documents import BaseVectors, VectorBatch
from segmax.vectors.rows import SLAB_DOCS, bounded_ranges

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    from segmax.base.optional import scipy_sparse as sp
from segmax.io.npz_arrays import Array, Strings, array_header, open_array, small_array
from segmax.io.rows import row_ids, wrong_columns, wrong_offsets

#: What zipfile and numpy raise about damaged files.
_UNREADABLE = (zlib.error, lzma.LZMAError, EOFError, OSError, MemoryError, *DAMAGE)
_SCIPY_MEMBERS = frozenset(
    f"{name}.npy" for name in ("row", "col", "data", "indices", "indptr", "offsets", "shape", "format")
)


class NpzFile:
    """A CSR matrix in a file, read in slices: mapped or, if compressed, streamed, it is never whole in memory."""

    def __init__(self, path: Path, limit: MemoryLimit | None = None) -> None:
        self.path = path
        self._limit = limit or MemoryLimit(None)
        try:
            if not path.is_file():
                raise no_file(path)
            with zipfile.ZipFile(path) as archive:
                self._read_shape(archive)
                names = set(archive.namelist())
                self.has_ids = not names.isdisjoint(("ids.npy", "ids_text.npy"))
                self.terms = self._read_terms(archive, names)
        except SegmaxError:
            raise
        except _UNREADABLE as error:
            got = f"something else ({one_line(error)})"
            raise self._wrong("an .npz file of scipy.sparse.save_npz", got) from error

    def _read_shape(self, archive: zipfile.ZipFile) -> None:
        for name in ("format.npy", "shape.npy", "data.npy"):
            archive.getinfo(name)
        layout = small_array(archive, "format.npy").item()
        self.format = layout.decode() if isinstance(layout, bytes) else str(layout)
        shape = small_array(archive, "shape.npy")
        if shape.shape != (2,) or shape.dtype.kind not in "iu":
            raise self._wrong("a matrix of two dimensions", f"shape {shape.tolist()}")
        self.num_rows, self.num_columns = (int(n) for n in shape)
        if min(self.num_rows, self.num_columns) < 0:
            raise self._wrong("a matrix of a size >= 0", f"shape {shape.tolist()}")

    def _read_terms(self, archive: zipfile.ZipFile, names: set[str]) -> list[str] | None:
        if names.isdisjoint(("terms.npy", "terms_text.npy")):
            return None
        with Strings(archive, self.path, "terms") as strings:
            self._check_count("terms", strings.length, self.num_columns, "column")
            self._limit.require(strings.held_bytes, f"the terms of '{self.path}'")
            return strings.read(self.num_columns)

    def batches(self) -> Iterator[Csr]:
        """Yield the rows in slices."""
        with self._errors():
            if self.format == "csr":
                yield from self._streamed()
            else:
                yield self._whole()

    @contextlib.contextmanager
    def open_ids(self) -> Iterator[Callable[[int], list[str]]]:
        """Return a function that gives the ids of the next so many rows."""
        with self._errors(), zipfile.ZipFile(self.path) as archive, Strings(archive, self.path, "ids") as strings:
            self._check_count("ids", strings.length, self.num_rows, "row")
            yield strings.read

    def _check_count(self, what: str, found: int, expected: int, each: str) -> None:
        if found != expected:
            raise self._wrong(f"{expected} {what}, one per {each}", found)

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except SegmaxError:
            raise
        except _UNREADABLE as error:
            raise InputError(f"could not be read ({one_line(error)})", where=f"'{self.path}'") from error

    def _whole(self) -> Csr:
        """Read a matrix in another format: its rows lie scattered, so it cannot be read in slices."""
        with zipfile.ZipFile(self.path) as archive:
            entries = [entry for entry in archive.infolist() if entry.filename in _SCIPY_MEMBERS]
            for entry in entries:
                self._check_size(archive, entry)
        size = sum(entry.file_size for entry in entries) + 8 * self.num_rows
        layout = self.format.upper()[:8]
        self._limit.require(4 * size, f"'{self.path}', which is {layout} and read whole (CSR is read in slices)")
        return matrix_to_csr(sp.load_npz(self.path))

    def _check_size(self, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> None:
        """Refuse an array whose header promises more than there is: numpy makes room for it first."""
        with archive.open(entry) as member:
            shape, dtype = array_header(member)
            if member.tell() + math.prod(shape) * dtype.itemsize > entry.file_size:
                raise self._wrong(f"{entry.filename} as long as its header states", "fewer bytes")

    def _streamed(self) -> Iterator[Csr]:
        with (
            zipfile.ZipFile(self.path) as archive,
            open_array(archive, self.path, "indptr.npy") as indptr,
            open_array(archive, self.path, "indices.npy") as indices,
            open_array(archive, self.path, "data.npy") as data,
        ):
            self._check_arrays(indptr, indices, data)
            start = int(indptr.read(1)[0])
            if start != 0:
                raise self._wrong("indptr to start at 0", start)
            for first in range(0, self.num_rows, SLAB_DOCS):
                ends = indptr.read(min(SLAB_DOCS, self.num_rows - first)).astype(np.int64)
                offsets = np.concatenate([[start], ends])
                self._check_offsets(offsets, first, indices)
                for a, b in bounded_ranges(offsets):
                    yield self._rows(offsets[a : b + 1], indices, data)
                start = int(ends[-1])
            if indices.left:
                raise self._wrong(f"{start} entries, as indptr states", indices.length)

    def _check_offsets(self, offsets: NDArray[np.int64], first: int, indices: Array) -> None:
        if int(offsets[-1]) - int(offsets[0]) > indices.left:
            rows = first + len(offsets) - 1
            raise self._wrong(f"{offsets[-1]} entries up to row {rows}", f"{indices.length} in all")
        if (problem := wrong_offsets(offsets, first)) is not None:
            raise self._wrong(*problem)

    def _rows(self, offsets: NDArray[np.int64], indices: Array, data: Array) -> Csr:
        count = int(offsets[-1] - offsets[0])
        terms, weights = indices.read(count), data.read(count)
        if (problem := wrong_columns(terms, self.num_columns)) is not None:
            raise self._wrong(*problem)
        return Csr(offsets - offsets[0], terms, weights, self.num_columns)

    def _check_arrays(self, indptr: Array, indices: Array, data: Array) -> None:
        if indptr.length != self.num_rows + 1:
            raise self._wrong(f"{self.num_rows + 1} entries in indptr", indptr.length)
        if indices.length != data.length:
            raise self._wrong("as many weights as terms", f"{data.length} and {indices.length}")
        for name, stream, kinds in (("indptr", indptr, "iu"), ("indices", indices, "iu"), ("data", data, "buif")):
            if stream.dtype.kind not in kinds:
                wanted = "integer" if kinds == "iu" else "float or integer"
                raise self._wrong(f"{name} of {wanted} dtype", stream.dtype)

    def _wrong(self, expected: str, got: object) -> InputError:
        return InputError(where=f"'{self.path}'", expected=expected, got=got)


class NpzVectors(BaseVectors):
    """A file of scipy.sparse.save_npz as a stream of vectors; without ids in it, rows are numbered."""

    def __init__(self, path: Path, scale: Scale, limit: MemoryLimit) -> None:
        self._file = NpzFile(path, limit)
        self._scale = scale

    @property
    def has_ids(self) -> bool:
        """Whether the file names its rows."""
        return self._file.has_ids

    @property
    def terms(self) -> Sequence[str] | None:
        """The terms, if the file has them."""
        return self._file.terms

    @property
    def num_docs(self) -> int:
        """How many rows the matrix has."""
        return self._file.num_rows

    def batches(self) -> Iterator[VectorBatch]:
        """Yield everything, once."""
        row = 0
        with contextlib.ExitStack() as stack:
            next_ids = stack.enter_context(self._file.open_ids()) if self.has_ids else None
            for vectors in self._file.batches():
                ids = row_ids(row, vectors.num_rows) if next_ids is None else next_ids(vectors.num_rows)
                row += vectors.num_rows
                yield VectorBatch(ids, self._scale.apply(vectors))
