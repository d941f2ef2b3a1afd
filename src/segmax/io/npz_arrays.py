"""The arrays of an .npz file, mapped or decompressed piece by piece; their headers are checked before they are used."""

from __future__ import annotations

import contextlib
import io
import itertools
import math
import mmap
import struct
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from segmax.base.errors import InputError

_MAX_HEADER = 1 << 14  # of an array; numpy itself believes up to 4 GiB
_SMALL_BYTES = 1 << 12  # of the arrays `format` and `shape`
_PIECE_BYTES = 1 << 22  # of strings that are read together
_LOCAL_HEADER = struct.Struct("<4s22xHH")


class Array(Protocol):
    """A one-dimensional array inside an archive, read piece by piece."""

    length: int
    left: int
    dtype: np.dtype[Any]

    def read(self, count: int) -> NDArray[Any]:
        """Return the next entries."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...


def open_array(archive: zipfile.ZipFile, path: Path, name: str) -> Array:
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
                msg = f"{name} does not have the length that its header states"
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


class Strings:
    """Strings inside an archive, in either form, read piece by piece."""

    def __init__(self, archive: zipfile.ZipFile, path: Path, name: str) -> None:
        self._stack = contextlib.ExitStack()
        self._name = name
        self._texts: Array | None = None
        if f"{name}_text.npy" in archive.namelist():
            self._texts = self._stack.enter_context(open_array(archive, path, f"{name}_text.npy"))
            self._array = self._stack.enter_context(open_array(archive, path, f"{name}_offset.npy"))
            kinds = self._texts.dtype == np.uint8 and self._array.dtype.kind in "iu" and self._array.length > 0
            self.length = self._array.length - 1
            self._start = int(self._array.read(1)[0]) if kinds else 0
        else:
            self._array = self._stack.enter_context(open_array(archive, path, f"{name}.npy"))
            kinds = self._array.dtype.kind in ("USiu" if name == "ids" else "US")
            self.length = self._array.length
        if not kinds:
            self._stack.close()
            raise InputError(where=f"'{path}'", expected=f"{name} as strings", got=self._array.dtype)

    @property
    def held_bytes(self) -> int:
        """About how much memory all of them take."""
        content = 0 if self._texts is None else self._texts.length
        return 64 * self.length + content + min(self._array.dtype.itemsize, 64) * self.length

    def read(self, count: int) -> list[str]:
        """Return the next strings."""
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


def array_header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Read the header of an array, which states its own length."""
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
    shape, dtype = array_header(file)
    if len(shape) != 1:
        msg = f"{name} has {len(shape)} dimensions instead of one"
        raise ValueError(msg)
    if dtype.itemsize > _PIECE_BYTES:
        msg = f"{name} has entries of {dtype.itemsize:,} bytes"
        raise ValueError(msg)
    return shape[0], dtype


def small_array(archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    """Read an array of a few bytes, such as the shape of a matrix."""
    with archive.open(name) as file:
        content = file.read(_SMALL_BYTES + 1)
    stream = io.BytesIO(content)
    shape, dtype = array_header(stream)
    if len(content) > _SMALL_BYTES or stream.tell() + math.prod(shape) * dtype.itemsize != len(content):
        msg = f"{name} does not have the length that its header states"
        raise ValueError(msg)
    return np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
