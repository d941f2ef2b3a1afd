"""gzip, zstd and xz: recognized by their first bytes, decompressed in bounded memory."""

from __future__ import annotations

import abc
import gzip
import io
import lzma
import zlib
from pathlib import Path
from typing import Any, BinaryIO

from segmax.base.optional import need

BLOCK_BYTES = 1 << 22  # read at once
_XZ_MEMORY = 1 << 27  # xz -9 needs 65 MiB; a hostile header asks for up to 4 GiB
_ZSTD_WINDOW = 1 << 27  # zstd --long=27
_ZSTD_PIECE = 1 << 9  # compressed: four bytes can expand to 128 KiB, so that at most 16 MiB come out of a piece
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zXZ\x00": "xz"}
#: The suffixes of compressed files.
SUFFIXES = {".gz": "gzip", ".zst": "zstd", ".xz": "xz"}


def compression_of(head: bytes) -> str | None:
    """Return how a file is compressed that starts like this; None if it is not.

    Examples
    --------
    >>> import gzip
    >>> compression_of(gzip.compress(b"text")), compression_of(b"text")
    ('gzip', None)
    """
    return next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), None)


def decompressed(kind: str, path: Path, file: BinaryIO) -> Any:
    """Return a stream of what a compressed file holds."""
    if kind == "gzip":
        return gzip.GzipFile(fileobj=file, mode="rb")
    reader = _XzReader if kind == "xz" else _ZstdReader
    return io.BufferedReader(reader(path, file), BLOCK_BYTES)


def _zstandard(path: Path) -> Any:
    return need("zstandard", f"the compressed file '{path}'", "zstd")


class _FrameReader(io.RawIOBase):
    """A compressed file of one or more frames, read piece by piece; a stream that breaks off raises EOFError."""

    piece_bytes = BLOCK_BYTES

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path = path
        self._file = file
        self._frame: Any = None
        self._data = b""
        self._out = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        while len(self._out) == 0 and self._fill():
            pass
        count = min(len(target), len(self._out))
        target[:count] = self._out[:count]
        self._out = self._out[count:]
        return count

    def _fill(self) -> bool:
        """Decompress some more; False at the end."""
        data = self._data
        if not data and (self._frame is None or self._wants_input()):
            data = self._file.read(self.piece_bytes)
            if not data:
                if self._frame is not None:
                    raise EOFError
                return False
        self._data = b""
        if self._frame is None:
            data = self._begin(data)
            if not data:
                return True
        self._out = memoryview(self._decompress(data))
        if self._frame.eof:
            self._data = self._frame.unused_data
            self._frame = None
        return True

    @abc.abstractmethod
    def _begin(self, data: bytes) -> bytes:
        """Start a frame with these bytes; return those that belong to it."""

    def _wants_input(self) -> bool:
        """Whether everything that was given has been decompressed."""
        return True

    @abc.abstractmethod
    def _decompress(self, data: bytes) -> bytes:
        """Return some of what comes out."""


class _ZstdReader(_FrameReader):
    piece_bytes = _ZSTD_PIECE

    def _begin(self, data: bytes) -> bytes:
        self._library = _zstandard(self._path)
        self._frame = self._library.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).decompressobj()
        return data

    def _decompress(self, data: bytes) -> bytes:
        try:
            return bytes(self._frame.decompress(data))
        except self._library.ZstdError as error:
            raise zlib.error(str(error)) from error  # as the other libraries have it


class _XzReader(_FrameReader):
    """xz as `lzma.LZMAFile` reads it, in bounded memory whatever dictionary its header asks for."""

    def _begin(self, data: bytes) -> bytes:
        content = data.lstrip(b"\0")  # what pads a stream
        if content:
            self._frame = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)
        return content

    def _wants_input(self) -> bool:
        return bool(self._frame.needs_input)

    def _decompress(self, data: bytes) -> bytes:
        return bytes(self._frame.decompress(data, BLOCK_BYTES))


def compressed(kind: str, path: Path, file: BinaryIO) -> Any:
    """Return a stream that writes to a file what it is given, compressed."""
    if kind == "gzip":
        return gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0)
    if kind == "xz":
        return lzma.LZMAFile(file, "wb", preset=2)
    return _zstandard(path).ZstdCompressor(level=3, write_checksum=True).stream_writer(file, closefd=False)
