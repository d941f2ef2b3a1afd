"""Matrices as scipy.sparse.save_npz writes them, with ids and terms beside them if wanted.

A file may hold, besides scipy's arrays, `ids` and `terms`: arrays of strings (ids may be integers), or the same packed
as UTF-8 text and offsets, `ids_text` and `ids_offset`, `terms_text` and `terms_offset`; scipy.sparse.load_npz ignores
them.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import lzma
import math
import mmap
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from segmax.base.errors import InputError, SegmaxError
from segmax.base.memory import MemoryLimit
from segmax.io.scale import Scale
from segmax.io.scratch import GrowingArray
from segmax.io.streams import DAMAGE, no_file, one_line, write_whole
from segmax.vectors.csr import Csr, canonical, matrix_to_csr
from segmax.vectors.documents import VectorBatch, VectorReader, has_ids
from segmax.vectors.rows import PART_DOCS, PART_POSTINGS, narrowest

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    from segmax.base.optional import scipy_sparse as sp

#: What zipfile and numpy raise about damaged files.
_UNREADABLE = (zlib.error, lzma.LZMAError, EOFError, OSError, MemoryError, *DAMAGE)
_SCIPY_MEMBERS = frozenset(
    f"{name}.npy" for name in ("row", "col", "data", "indices", "indptr", "offsets", "shape", "format")
)
_MAX_HEADER = 1 << 14  # of an array; numpy itself believes up to 4 GiB
_SMALL_BYTES = 1 << 12  # of the arrays `format` and `shape`
_PIECE_BYTES = 1 << 22  # of strings that are read together
MAX_ROW = 1 << 24  # entries of one row, which is held in memory
_LOCAL_HEADER = struct.Struct("<4s22xHH")


# --- in --------------------------------------------------------------------------------------------------------------


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
            raise self._wrong(f"expected an .npz file of scipy.sparse.save_npz ({one_line(error)})") from error

    def _read_shape(self, archive: zipfile.ZipFile) -> None:
        for name in ("format.npy", "shape.npy", "data.npy"):
            archive.getinfo(name)
        layout = _small_array(archive, "format.npy").item()
        self.format = layout.decode() if isinstance(layout, bytes) else str(layout)
        shape = _small_array(archive, "shape.npy")
        if shape.shape != (2,) or shape.dtype.kind not in "iu":
            raise self._wrong(f"expected a matrix of two dimensions, got shape {shape.tolist()}")
        self.num_rows, self.num_columns = (int(n) for n in shape)
        if min(self.num_rows, self.num_columns) < 0:
            raise self._wrong(f"expected a matrix of a size >= 0, got shape {shape.tolist()}")

    def _read_terms(self, archive: zipfile.ZipFile, names: set[str]) -> list[str] | None:
        if names.isdisjoint(("terms.npy", "terms_text.npy")):
            return None
        with _Strings(archive, self.path, "terms") as strings:
            self._check_count("terms", strings.length, self.num_columns, "column")
            self._limit.require(strings.held_bytes, f"the terms of '{self.path}'")
            return strings.read(self.num_columns)

    def batches(self) -> Iterator[Csr]:
        """Yield the rows in slices."""
        with self._told():
            if self.format == "csr":
                yield from self._streamed()
            else:
                yield self._whole()

    @contextlib.contextmanager
    def open_ids(self) -> Iterator[Callable[[int], list[str]]]:
        """Return a function that gives the ids of the next so many rows."""
        with self._told(), zipfile.ZipFile(self.path) as archive, _Strings(archive, self.path, "ids") as strings:
            self._check_count("ids", strings.length, self.num_rows, "row")
            yield strings.read

    def _check_count(self, what: str, found: int, expected: int, each: str) -> None:
        if found != expected:
            raise self._wrong(f"expected {expected} {what}, one per {each}, got {found}")

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except SegmaxError:
            raise
        except _UNREADABLE as error:
            raise self._wrong(f"could not be read ({one_line(error)})") from error

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
            shape, dtype = _header(member)
            if member.tell() + math.prod(shape) * dtype.itemsize > entry.file_size:
                raise self._wrong(f"{entry.filename} is shorter than its header says")

    def _streamed(self) -> Iterator[Csr]:
        with (
            zipfile.ZipFile(self.path) as archive,
            _open_array(archive, self.path, "indptr.npy") as indptr,
            _open_array(archive, self.path, "indices.npy") as indices,
            _open_array(archive, self.path, "data.npy") as data,
        ):
            self._check_arrays(indptr, indices, data)
            start = int(indptr.read(1)[0])
            if start != 0:
                raise self._wrong(f"expected indptr to start at 0, got {start}")
            for first in range(0, self.num_rows, PART_DOCS):
                ends = indptr.read(min(PART_DOCS, self.num_rows - first)).astype(np.int64)
                offsets = np.concatenate([[start], ends])
                self._check_offsets(offsets, first, indices)
                for a, b in bounded_rows(offsets):
                    yield self._rows(offsets[a : b + 1], indices, data)
                start = int(ends[-1])
            if indices.left:
                raise self._wrong(f"expected {start} entries, as indptr says, got {indices.length}")

    def _check_offsets(self, offsets: NDArray[np.int64], first: int, indices: _Array) -> None:
        counts = np.diff(offsets)
        falling = np.flatnonzero(counts < 0)
        if len(falling):
            raise self._wrong(f"expected indptr to ascend, got a fall at row {first + int(falling[0])}")
        if int(offsets[-1]) - int(offsets[0]) > indices.left:
            rows = first + len(counts)
            raise self._wrong(f"expected {offsets[-1]} entries up to row {rows}, got {indices.length} in all")
        if counts.max() > MAX_ROW:
            row = first + int(np.argmax(counts))
            raise self._wrong(f"expected at most {MAX_ROW:,} entries in a row, got {counts.max():,} in row {row}")

    def _rows(self, offsets: NDArray[np.int64], indices: _Array, data: _Array) -> Csr:
        count = int(offsets[-1] - offsets[0])
        terms, weights = indices.read(count), data.read(count)
        if count and (terms.min() < 0 or terms.max() >= self.num_columns):
            worst = terms.min() if terms.min() < 0 else terms.max()
            raise self._wrong(f"expected column numbers from 0 to {self.num_columns - 1}, got {worst}")
        return Csr(offsets - offsets[0], terms, weights, self.num_columns)

    def _check_arrays(self, indptr: _Array, indices: _Array, data: _Array) -> None:
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


class NpzVectors:
    """A file of scipy.sparse.save_npz as a stream of vectors; without ids in it, row numbers stand in."""

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
                ids = numbers(row, vectors.num_rows) if next_ids is None else next_ids(vectors.num_rows)
                row += vectors.num_rows
                yield VectorBatch(ids, self._scale.apply(vectors))


def numbers(first: int, count: int) -> list[str]:
    """Return row numbers as ids."""
    return [str(row) for row in range(first, first + count)]


def bounded_rows(offsets: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield the first and last of rows that have few enough entries to be held together; one row has any number."""
    first, count = 0, len(offsets) - 1
    while first < count:
        fitting = int(np.searchsorted(offsets, offsets[first] + PART_POSTINGS, side="right")) - 1
        last = min(max(fitting, first + 1), count)
        yield first, last
        first = last


class _Array(Protocol):
    """A one-dimensional array inside an archive, read piece by piece."""

    length: int
    left: int
    dtype: np.dtype[Any]

    def read(self, count: int) -> NDArray[Any]:
        """Return the next entries."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...


def _open_array(archive: zipfile.ZipFile, path: Path, name: str) -> _Array:
    """Open an array: mapped where it lies as it is, else decompressed piece by piece."""
    if archive.getinfo(name).compress_type == zipfile.ZIP_STORED:
        return _MappedArray(archive, path, name)
    return _ArrayStream(archive, name)


class _ArrayStream:
    """An array that is decompressed."""

    def __init__(self, archive: zipfile.ZipFile, name: str) -> None:
        self._file: IO[bytes] = archive.open(name)
        try:
            self.length, self.dtype = _flat_header(self._file, name)
        except BaseException:
            self._file.close()
            raise
        self.left = self.length

    def read(self, count: int) -> NDArray[Any]:
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


class _MappedArray:
    """An array that lies in the file as it is. Its checksum is compared when the last entry has been read."""

    def __init__(self, archive: zipfile.ZipFile, path: Path, name: str) -> None:
        entry = archive.getinfo(name)
        with archive.open(name) as member:  # checks the local header
            self.length, self.dtype = _flat_header(member, name)
            header_bytes = member.tell()
        self.left = self.length
        self._name = name
        self._expected = entry.CRC
        with path.open("rb") as file:
            file.seek(entry.header_offset)
            magic, name_bytes, extra_bytes = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
            first = entry.header_offset + _LOCAL_HEADER.size + name_bytes + extra_bytes
            end = first + entry.file_size
            if magic != b"PK\x03\x04" or entry.file_size != header_bytes + self.length * self.dtype.itemsize:
                msg = f"{name} has another length than it says"
                raise ValueError(msg)
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if end > len(content):
            msg = "it ends too early"
            raise EOFError(msg)
        self._bytes = memoryview(content)[first:end]
        self._crc = zlib.crc32(self._bytes[:header_bytes])
        self._at = header_bytes

    def read(self, count: int) -> NDArray[Any]:
        end = self._at + count * self.dtype.itemsize
        if end > len(self._bytes):
            msg = "it ends too early"
            raise EOFError(msg)
        piece = self._bytes[self._at : end]
        self._crc = zlib.crc32(piece, self._crc)
        self._at = end
        self.left -= count
        if self.left == 0 and self._crc != self._expected:
            msg = f"bad checksum of {self._name}"
            raise ValueError(msg)
        return np.require(np.frombuffer(piece, self.dtype), requirements="A")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._bytes = memoryview(b"")


class _Strings:
    """Strings inside an archive, in either form, read piece by piece."""

    def __init__(self, archive: zipfile.ZipFile, path: Path, name: str) -> None:
        self._stack = contextlib.ExitStack()
        self._name = name
        self._texts: _Array | None = None
        if f"{name}_text.npy" in archive.namelist():
            self._texts = self._stack.enter_context(_open_array(archive, path, f"{name}_text.npy"))
            self._array = self._stack.enter_context(_open_array(archive, path, f"{name}_offset.npy"))
            kinds = self._texts.dtype == np.uint8 and self._array.dtype.kind in "iu" and self._array.length > 0
            self.length = self._array.length - 1
            self._start = int(self._array.read(1)[0]) if kinds else 0
        else:
            self._array = self._stack.enter_context(_open_array(archive, path, f"{name}.npy"))
            kinds = self._array.dtype.kind in ("USiu" if name == "ids" else "US")
            self.length = self._array.length
        if not kinds:
            msg = f"expected {name} as strings, got {self._array.dtype}"
            raise ValueError(msg)

    @property
    def held_bytes(self) -> int:
        """About how much memory all of them take."""
        content = 0 if self._texts is None else self._texts.length
        return 64 * self.length + content + min(self._array.dtype.itemsize, 64) * self.length

    def read(self, count: int) -> list[str]:
        found: list[str] = []
        most = max(1, _PIECE_BYTES // max(1, self._array.dtype.itemsize))
        while len(found) < count:
            found += self._piece(min(most, count - len(found)))
        return found

    def _piece(self, count: int) -> list[str]:
        values = self._array.read(count)
        if self._texts is None:
            return [v.decode() if isinstance(v, bytes) else str(v) for v in values.tolist()]
        ends = values.astype(np.int64)
        offsets = np.concatenate([[self._start], ends]) - self._start
        if (np.diff(offsets) < 0).any() or offsets[-1] > self._texts.left:
            msg = f"{self._name}_offset does not ascend to the length of {self._name}_text"
            raise ValueError(msg)
        text = self._texts.read(int(offsets[-1])).tobytes()
        self._start = int(ends[-1]) if count else self._start
        return [text[a:b].decode("utf-8") for a, b in itertools.pairwise(offsets.tolist())]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Read the header of an array, which says itself how long it is."""
    start = file.read(10)
    version = np.lib.format.read_magic(io.BytesIO(start))
    if version > (1, 0):
        start += file.read(2)
    length = int.from_bytes(start[8:], "little")
    if length > _MAX_HEADER:
        msg = f"an array has a header of {length} bytes"
        raise ValueError(msg)
    content = io.BytesIO(start[8:] + file.read(length))
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(content)
    if dtype.hasobject:
        msg = "it holds Python objects"
        raise ValueError(msg)
    return shape, dtype


def _flat_header(file: IO[bytes], name: str) -> tuple[int, np.dtype[Any]]:
    shape, dtype = _header(file)
    if len(shape) != 1:
        msg = f"{name} has {len(shape)} dimensions instead of one"
        raise ValueError(msg)
    if dtype.itemsize > _PIECE_BYTES:
        msg = f"{name} has entries of {dtype.itemsize:,} bytes"
        raise ValueError(msg)
    return shape[0], dtype


def _small_array(archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    with archive.open(name) as file:
        content = file.read(_SMALL_BYTES + 1)
    stream = io.BytesIO(content)
    shape, dtype = _header(stream)
    if len(content) > _SMALL_BYTES or stream.tell() + math.prod(shape) * dtype.itemsize != len(content):
        msg = f"{name} has another length than it says"
        raise ValueError(msg)
    return np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)


# --- out -------------------------------------------------------------------------------------------------------------


def write_npz(path: Path, reader: VectorReader, batches: Iterator[VectorBatch], *, overwrite: bool) -> None:
    """Write a CSR matrix, uncompressed so that it can be mapped, with ids and terms where there are some."""
    with contextlib.ExitStack() as stack, write_whole(path, overwrite=overwrite, compress=False) as file:

        def growing(dtype: str) -> GrowingArray:
            return stack.enter_context(GrowingArray(dtype, path.absolute().parent))

        indptr, indices, values = growing("<i8"), growing("<i4"), growing("<f8")
        texts, offsets = growing("u1"), growing("<i8")
        start, first_row, num_columns = np.zeros(1, np.int64), 0, 0
        dtype: np.dtype[Any] = np.dtype(np.uint8)
        indptr.append(start)
        offsets.append(start)
        for ids, vectors, _ in batches:
            docs = canonical(vectors, first_row)
            first_row += docs.num_rows
            num_columns = max(num_columns, docs.num_columns)
            indptr.append(docs.indptr[1:] + indices.length)
            indices.append(docs.indices)
            values.append(docs.values)
            dtype = np.result_type(dtype, narrowest(docs.values).dtype)
            if has_ids(reader):
                encoded = encoded_texts(ids)
                offsets.append(texts.length + np.cumsum([len(text) for text in encoded]))
                texts.append(np.frombuffer(b"".join(encoded), np.uint8))
        terms = reader.terms
        num_columns = max(num_columns, len(terms) if terms is not None else 0)
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            narrow = np.dtype("<i4" if indices.length < 2**31 else "<i8")
            _write_member(archive, "indices", indices, indices.dtype)
            _write_member(archive, "indptr", indptr, narrow)
            _write_small(archive, "format", np.array(b"csr"))
            _write_small(archive, "shape", np.array([first_row, num_columns], np.int64))
            _write_member(archive, "data", values, dtype)
            if has_ids(reader):
                _write_member(archive, "ids_offset", offsets, offsets.dtype)
                _write_member(archive, "ids_text", texts, texts.dtype)
            if terms is not None:
                encoded = encoded_texts(list(terms))
                places = np.concatenate([start, np.cumsum([len(text) for text in encoded])]).astype(np.int64)
                _write_small(archive, "terms_offset", places)
                _write_small(archive, "terms_text", np.frombuffer(b"".join(encoded), np.uint8))


def encoded_texts(values: list[str]) -> list[bytes]:
    """Return strings as UTF-8."""
    try:
        return [value.encode("utf-8") for value in values]
    except UnicodeEncodeError as error:
        raise InputError(expected="strings that UTF-8 can hold", got=f"{error.object!r}") from error


@contextlib.contextmanager
def _member(archive: zipfile.ZipFile, name: str) -> Iterator[BinaryIO]:
    # Without a date of its own: the same vectors give the same file.
    with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
        yield member  # type: ignore[misc]


def _write_member(archive: zipfile.ZipFile, name: str, array: GrowingArray, dtype: np.dtype[Any]) -> None:
    header = {"descr": dtype.str, "fortran_order": False, "shape": (array.length,)}
    with _member(archive, name) as member:
        np.lib.format.write_array_header_1_0(member, header)
        for block in array.blocks():
            member.write(block.astype(dtype, copy=False).data)


def _write_small(archive: zipfile.ZipFile, name: str, array: NDArray[Any]) -> None:
    with _member(archive, name) as member:
        np.lib.format.write_array(member, array, allow_pickle=False)
