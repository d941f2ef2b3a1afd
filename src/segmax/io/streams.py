"""Bytes in and out: compressed streams told by their content, lines with their numbers, files that appear whole."""

from __future__ import annotations

import contextlib
import gzip
import io
import lzma
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO

from segmax.errors import IndexExistsError, InputError, SegmaxError, WriteError
from segmax.files import replacing

BLOCK_BYTES = 1 << 22
_ZSTD_PIECE = 1 << 16  # compressed: what comes out of so little is not much
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zXZ\x00": "xz"}
#: The endings of file names that stand for a compression.
SUFFIXES = {".gz": "gzip", ".zst": "zstd", ".xz": "xz"}


def base_name(path: Path) -> str:
    """Return the lower-case name of a file without the ending of its compression."""
    return (path.stem if path.suffix.lower() in SUFFIXES else path.name).lower()


def no_file(path: Path) -> InputError:
    """Return the error about a file that is not there."""
    return InputError(f"there is no file '{path}'; check the path")


def is_empty(path: Path, expected: str) -> InputError:
    """Return the error about a file with nothing in it."""
    return InputError(f"'{path}' is empty: expected {expected}; check how it was made")


# --- in --------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn what the system and the libraries say about a file into InputError, with the name of the file."""
    try:
        yield
    except SegmaxError:
        raise
    except EOFError as error:
        msg = f"'{path}' is cut short: its compressed stream ends before the end mark; copy it again"
        raise InputError(msg) from error
    except (zlib.error, gzip.BadGzipFile, lzma.LZMAError) as error:
        msg = f"'{path}' is damaged: its compressed stream cannot be read ({error}); copy it again"
        raise InputError(msg) from error
    except OSError as error:
        msg = f"'{path}': could not be read ({error.strerror or error})"
        raise InputError(msg) from error


def read_blocks(path: Path, size: int = BLOCK_BYTES) -> Iterator[bytes]:
    """Yield the content of a file in pieces, decompressed if it is gzip, zstd or xz."""
    with reading(path), open_stream(path) as stream:
        while block := stream.read(size):
            yield block


@contextlib.contextmanager
def open_stream(path: Path) -> Iterator[IO[bytes]]:
    """Open a file, decompressed if it is gzip, zstd or xz, whatever its name."""
    if not path.is_file():
        raise no_file(path)
    with path.open("rb") as file:
        head = file.read(8)
        file.seek(0)
        kind = next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), None)
        if kind is None:
            yield file
        else:
            with _decompressed(kind, path, file) as stream:
                yield stream


def read_head(path: Path, size: int) -> bytes:
    """Return the first bytes of a file, decompressed; fewer where it is shorter or damaged further on."""
    with reading(path), open_stream(path) as stream:
        pieces, left = [], size
        # A stream that breaks off later is still recognised by its beginning: whoever reads it all will tell.
        with contextlib.suppress(EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError):
            while left > 0 and (piece := stream.read(min(left, 1 << 14))):
                pieces.append(piece)
                left -= len(piece)
        return b"".join(pieces)


def is_compressed(path: Path) -> bool:
    """Whether the file is gzip, zstd or xz."""
    with reading(path), path.open("rb") as file:
        head = file.read(8)
    return any(head.startswith(magic) for magic in _MAGIC)


def _decompressed(kind: str, path: Path, file: BinaryIO) -> Any:
    if kind == "gzip":
        return gzip.GzipFile(fileobj=file, mode="rb")
    if kind == "xz":
        return lzma.LZMAFile(file)
    return io.BufferedReader(_ZstdReader(path, file), BLOCK_BYTES)


def _zstandard(path: Path) -> Any:
    try:
        import zstandard
    except ImportError as error:
        msg = f"'{path}' is compressed by zstd: pip install 'segmax[zstd]'"
        raise InputError(msg) from error
    return zstandard


class _ZstdReader(io.RawIOBase):
    """A zstd file of one or more frames, read piece by piece; a stream that breaks off raises EOFError."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._library = _zstandard(path)
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
        data = self._data or self._file.read(_ZSTD_PIECE)
        self._data = b""
        if not data:
            if self._frame is not None:
                raise EOFError
            return False
        if self._frame is None:
            self._frame = self._library.ZstdDecompressor().decompressobj()
        try:
            self._out = memoryview(self._frame.decompress(data))
        except self._library.ZstdError as error:
            msg = f"'{self._path}' is damaged: its compressed stream cannot be read ({error}); copy it again"
            raise InputError(msg) from error
        if self._frame.eof:
            self._data = self._frame.unused_data
            self._frame = None
        return True


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    r"""Yield every line with its number, from 1: UTF-8 without byte-order mark and line end, be that \n or \r\n."""
    number = 0
    rest = b""
    for block in read_blocks(path):
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            number += 1
            yield number, _decoded(line, path, number)
    if rest:
        yield number + 1, _decoded(rest, path, number + 1)


def _decoded(line: bytes, path: Path, number: int) -> str:
    try:
        return line.removesuffix(b"\r").decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        msg = f"'{path}', line {number}: expected UTF-8, got the byte 0x{line[error.start]:02x}"
        raise InputError(msg) from error


# --- out -------------------------------------------------------------------------------------------------------------


def check_free(path: Path, *, overwrite: bool) -> None:
    """Raise if there is something at the path that may not be replaced, or no folder to put it in."""
    if not path.absolute().parent.is_dir():
        msg = f"expected an existing directory to put the file in, got '{path.parent}'"
        raise InputError(msg)
    if path.is_dir():
        msg = f"'{path}' is a directory; choose another name for the file"
        raise IndexExistsError(msg)
    if path.exists() and not overwrite:
        msg = f"'{path}' exists already; pass overwrite=True to replace it"
        raise IndexExistsError(msg)


def check_beside(sides: Iterable[Path], *, overwrite: bool) -> None:
    """Raise if there is something where the files beside another belong: it would be lost, or be taken for theirs."""
    for side in sides:
        check_free(side, overwrite=overwrite)


def remove_stale(sides: Iterable[Path]) -> None:
    """Remove files that lay beside a file that was replaced: what they say is about the old one."""
    for side in sides:
        side.unlink(missing_ok=True)


@contextlib.contextmanager
def write_whole(path: Path, *, overwrite: bool, compress: bool = True) -> Iterator[BinaryIO]:
    """Open a file that appears at `path` once it is whole and on disk, or never; compressed if its name says so."""
    check_free(path, overwrite=overwrite)
    kind = SUFFIXES.get(path.suffix.lower()) if compress else None
    try:
        with replacing(path) as file:
            if kind is None:
                yield file
            else:
                with _compressed(kind, path, file) as stream:
                    yield stream
    except SegmaxError:
        raise
    except OSError as error:
        msg = f"could not write '{path}' ({error.strerror or error}): nothing was changed"
        raise WriteError(msg) from error


def _compressed(kind: str, path: Path, file: BinaryIO) -> Any:
    if kind == "gzip":
        return gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0)
    if kind == "xz":
        return lzma.LZMAFile(file, "wb", preset=2)
    return _zstandard(path).ZstdCompressor(level=3, write_checksum=True).stream_writer(file, closefd=False)
