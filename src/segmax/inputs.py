"""Documents in, be it a matrix, an iterator of matrices or files; checked rows out, a few at a time."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from segmax.errors import InputError, SegmaxError
from segmax.memory import MemoryLimit
from segmax.sparse import Csr, canonical, is_matrix, matrix_to_csr
from segmax.spool import PART_DOCS, PART_POSTINGS, slice_rows

_MAX_COLUMNS = 2**28  # tables of a few hundred bytes per column are held in memory

#: What zipfile and numpy raise about damaged files.
_UNREADABLE = (zipfile.BadZipFile, zlib.error, KeyError, ValueError, EOFError, OSError, RuntimeError)


class Source(NamedTuple):
    """A stream of checked rows."""

    batches: Iterator[Csr]
    num_docs: int | None  # None where only the end of the stream tells


def open_source(vectors: object, limit: MemoryLimit) -> Source:
    """Return the documents as a stream of canonical rows: ascending terms, positive weights."""
    if isinstance(vectors, (str, os.PathLike)):
        return _files([vectors], limit)
    if isinstance(vectors, (list, tuple)) and vectors and all(isinstance(v, (str, os.PathLike)) for v in vectors):
        return _files(list(vectors), limit)
    if is_matrix(vectors):
        docs = matrix_to_csr(vectors)
        return Source(_checked([docs]), docs.num_rows)
    if isinstance(vectors, Iterable) and not isinstance(vectors, (bytes, np.ndarray)):
        return Source(_checked(matrix_to_csr(batch) for batch in vectors), None)
    msg = (
        "expected documents as a scipy sparse matrix, a torch sparse tensor, an iterable of such batches, or paths of "
        f".npz files, got {type(vectors).__name__}"
    )
    raise InputError(msg)


def _checked(batches: Iterable[Csr]) -> Iterator[Csr]:
    """Check batches of any size in slices of bounded size."""
    row = 0
    num_columns: int | None = None
    for number, batch in enumerate(batches):
        if num_columns is not None and batch.num_columns != num_columns:
            msg = f"expected {num_columns} columns in every batch, got {batch.num_columns} in batch {number}"
            raise InputError(msg)
        num_columns = batch.num_columns
        if num_columns > _MAX_COLUMNS:
            msg = f"expected at most {_MAX_COLUMNS:,} columns, got {num_columns:,}; number the terms that occur"
            raise InputError(msg)
        first = 0
        while first < batch.num_rows:
            fitting = int(np.searchsorted(batch.indptr, batch.indptr[first] + PART_POSTINGS, side="right")) - 1
            last = min(max(fitting, first + 1), first + PART_DOCS, batch.num_rows)
            yield canonical(slice_rows(batch, first, last), row)
            row += last - first
            first = last
    if num_columns is None or row == 0:
        msg = "expected at least one document, got an empty collection"
        raise InputError(msg)


# --- files -----------------------------------------------------------------------------------------------------------


def _files(paths: list[Any], limit: MemoryLimit) -> Source:
    files = [NpzFile(Path(path)) for path in paths]
    return Source(_checked(batch for file in files for batch in file.batches(limit)), sum(f.num_rows for f in files))


class NpzFile:
    """A CSR matrix that scipy.sparse.save_npz wrote, read in slices: compressed or not, it is never whole in memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_file():
            msg = f"there is no file '{path}'; check the path"
            raise InputError(msg)
        try:
            with zipfile.ZipFile(path) as archive:
                self._read_shape(archive)
        except InputError:
            raise
        except _UNREADABLE as error:
            raise self._wrong(f"expected an .npz file of scipy.sparse.save_npz ({error})") from error

    def _read_shape(self, archive: zipfile.ZipFile) -> None:
        for name in ("format.npy", "shape.npy", "data.npy"):
            archive.getinfo(name)
        layout = _small_array(archive, "format.npy").item()
        self.format = layout.decode() if isinstance(layout, bytes) else str(layout)
        shape = _small_array(archive, "shape.npy")
        if shape.shape != (2,) or shape.dtype.kind not in "iu":
            raise self._wrong(f"expected a matrix of two dimensions, got shape {shape.tolist()}")
        self.num_rows, self.num_columns = (int(n) for n in shape)

    def batches(self, limit: MemoryLimit) -> Iterator[Csr]:
        """Yield the rows in slices."""
        try:
            if self.format == "csr":
                yield from self._streamed()
            else:
                yield self._whole(limit)
        except SegmaxError:
            raise
        except _UNREADABLE as error:
            raise self._wrong(f"could not be read ({error})") from error

    def _whole(self, limit: MemoryLimit) -> Csr:
        """Read a matrix in another format: its rows lie scattered, so it cannot be read in slices."""
        with zipfile.ZipFile(self.path) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
        limit.require(4 * size, f"'{self.path}', which is {self.format.upper()} and read whole (CSR is read in slices)")
        return matrix_to_csr(sp.load_npz(self.path))

    def _streamed(self) -> Iterator[Csr]:
        with (
            zipfile.ZipFile(self.path) as archive,
            _ArrayStream(archive, "indptr.npy") as indptr,
            _ArrayStream(archive, "indices.npy") as indices,
            _ArrayStream(archive, "data.npy") as data,
        ):
            self._check_arrays(indptr, indices, data)
            start = int(indptr.read(1)[0])
            if start != 0:
                raise self._wrong(f"expected indptr to start at 0, got {start}")
            for first in range(0, self.num_rows, PART_DOCS):
                ends = indptr.read(min(PART_DOCS, self.num_rows - first)).astype(np.int64)
                offsets = np.concatenate([[start], ends])
                falling = np.flatnonzero(np.diff(offsets) < 0)
                if len(falling):
                    raise self._wrong(f"expected indptr to ascend, got a fall at row {first + int(falling[0])}")
                count = int(ends[-1]) - start
                if count > indices.left:
                    raise self._wrong(
                        f"expected {ends[-1]} entries up to row {first + len(ends)}, got {indices.length} in all"
                    )
                terms, weights = indices.read(count), data.read(count)
                if count and (terms.min() < 0 or terms.max() >= self.num_columns):
                    worst = terms.min() if terms.min() < 0 else terms.max()
                    raise self._wrong(f"expected column numbers from 0 to {self.num_columns - 1}, got {worst}")
                yield Csr(offsets - start, terms, weights, self.num_columns)
                start = int(ends[-1])
            if indices.left:
                raise self._wrong(f"expected {start} entries, as indptr says, got {indices.length}")

    def _check_arrays(self, indptr: _ArrayStream, indices: _ArrayStream, data: _ArrayStream) -> None:
        if indptr.length != self.num_rows + 1:
            raise self._wrong(f"expected {self.num_rows + 1} entries in indptr, got {indptr.length}")
        if indices.length != data.length:
            raise self._wrong(f"expected as many weights as terms, got {data.length} and {indices.length}")
        for name, stream, kinds in (("indptr", indptr, "iu"), ("indices", indices, "iu"), ("data", data, "buif")):
            if stream.dtype.kind not in kinds:
                wanted = "integer" if kinds == "iu" else "float or integer"
                raise self._wrong(f"expected {name} of {wanted} dtype, got {stream.dtype}")

    def _wrong(self, what: str) -> InputError:
        return InputError(f"'{self.path}': {what}")


class _ArrayStream:
    """A one-dimensional array inside an archive, read piece by piece."""

    def __init__(self, archive: zipfile.ZipFile, name: str) -> None:
        self._file: IO[bytes] = archive.open(name)
        try:
            shape, self.dtype = _header(self._file)
            if len(shape) != 1:
                msg = f"{name} has {len(shape)} dimensions instead of one"
                raise ValueError(msg)
        except BaseException:
            self._file.close()
            raise
        self.length = self.left = shape[0]

    def read(self, count: int) -> NDArray[Any]:
        """Return the next entries."""
        data = self._file.read(count * self.dtype.itemsize)
        if len(data) < count * self.dtype.itemsize:
            msg = "it ends too early"
            raise EOFError(msg)
        self.left -= count
        return np.frombuffer(data, self.dtype)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(file)
    if dtype.hasobject:
        msg = "it holds Python objects"
        raise ValueError(msg)
    return shape, dtype


def _small_array(archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    with archive.open(name) as file:
        return np.lib.format.read_array(file, allow_pickle=False)
