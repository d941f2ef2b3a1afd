"""Bytes in and out: compressed streams told by their content, lines with their numbers, files that appear whole."""

from __future__ import annotations

import abc
import contextlib
import gzip
import io
import itertools
import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, BinaryIO

from segmax.base.errors import IndexExistsError, InputError, SegmaxError, WriteError
from segmax.base.files import replacing
from segmax.base.optional import need

BLOCK_BYTES = 1 << 22
#: The longest line that any reader of text takes, in bytes. It is held several times while it is parsed.
MAX_LINE_BYTES = 1 << 25
_XZ_MEMORY = 1 << 27  # xz -9 needs 65 MiB; a hostile header asks for up to 4 GiB
_ZSTD_WINDOW = 1 << 27  # zstd --long=27
_ZSTD_PIECE = 1 << 9  # compressed: four bytes can stand for 128 KiB, so that at most 16 MiB come out of a piece
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


def no_documents(paths: Iterable[Path]) -> InputError:
    """Return the error about files without documents."""
    names = [f"'{path}'" for path in itertools.islice(paths, 4)]
    named = f"{', '.join([*names[:3], *(['...'] if len(names) > 3 else [])])}: " if names else ""
    return InputError(f"{named}expected at least one document, got an empty collection")


def check_distinct(sources: Sequence[Iterable[Path]]) -> None:
    """Raise if a file belongs to two sources: its documents would come twice."""
    seen: dict[tuple[int, int], Path] = {}
    for files in sources if len(sources) > 1 else ():
        here: dict[tuple[int, int], Path] = {}
        for file in files:
            with reading(file):
                status = file.stat()
            here[status.st_dev, status.st_ino] = file
        again = next((one for one in here if one in seen), None)
        if again is not None:
            other = f", also as '{seen[again]}'" if seen[again] != here[again] else ""
            msg = f"'{here[again]}' is given twice{other}, by its own name or by that of a folder; name it once"
            raise InputError(msg)
        seen.update(here)


# --- in --------------------------------------------------------------------------------------------------------------


#: What libraries and Python itself raise over damaged or hostile data, besides what the system says.
DAMAGE = (
    ArithmeticError,
    LookupError,
    RuntimeError,  # RecursionError and NotImplementedError are two
    TypeError,
    ValueError,
    struct.error,
    zipfile.BadZipFile,
)


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn what the system and the libraries raise over a file into InputError, with the name of the file."""
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
        msg = f"'{path}': could not be read ({error.strerror or one_line(error)})"
        raise InputError(msg) from error
    except (MemoryError, *DAMAGE) as error:
        msg = f"'{path}': could not be read ({one_line(error)}); copy it again, or check how it was made"
        raise InputError(msg) from error


def one_line(error: Exception) -> str:
    """Return what an exception says, on one line and not too long."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, MemoryError):
        return "it asks for more memory than there is"
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 200 else f"{text[:200]}..."


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
        # A stream that breaks off later is still recognized by its beginning: whoever reads it all will tell.
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
            data = self._begun(data)
            if not data:
                return True
        self._out = memoryview(self._decompress(data))
        if self._frame.eof:
            self._data = self._frame.unused_data
            self._frame = None
        return True

    @abc.abstractmethod
    def _begun(self, data: bytes) -> bytes:
        """Start a frame with these bytes; return those that belong to it."""

    def _wants_input(self) -> bool:
        """Whether everything that was given has been decompressed."""
        return True

    @abc.abstractmethod
    def _decompress(self, data: bytes) -> bytes:
        """Return some of what comes out."""


class _ZstdReader(_FrameReader):
    piece_bytes = _ZSTD_PIECE

    def _begun(self, data: bytes) -> bytes:
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

    def _begun(self, data: bytes) -> bytes:
        content = data.lstrip(b"\0")  # what pads a stream
        if content:
            self._frame = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)
        return content

    def _wants_input(self) -> bool:
        return bool(self._frame.needs_input)

    def _decompress(self, data: bytes) -> bytes:
        return bytes(self._frame.decompress(data, BLOCK_BYTES))


def whole_lines(path: Path) -> Iterator[bytes]:
    """Yield the content of a file in pieces that end where a line does; refuse a line that is too long."""
    rest: list[bytes] = []
    held = number = 0
    for block in read_blocks(path):
        first, cut = block.find(b"\n"), block.rfind(b"\n") + 1
        held += len(block) if cut == 0 else first
        if held > MAX_LINE_BYTES:
            msg = f"'{path}', line {number + 1}: expected lines of at most {MAX_LINE_BYTES >> 20} MiB, got a longer one"
            raise InputError(f"{msg}; split long texts into several documents")
        if cut == 0:
            rest.append(block)
            continue
        number += block.count(b"\n")
        yield b"".join([*rest, memoryview(block)[:cut]])
        rest, held = [block[cut:]], len(block) - cut
    if last := b"".join(rest):
        yield last


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    r"""Yield every line with its number, from 1: UTF-8 without byte-order mark and line end, be that \n or \r\n."""
    number = 0
    for piece in whole_lines(path):
        for line in piece.removesuffix(b"\n").split(b"\n"):
            number += 1
            yield number, _decoded(line, path, number)


def _decoded(line: bytes, path: Path, number: int) -> str:
    try:
        return line.removesuffix(b"\r").decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            where=f"'{path}', line {number}", expected="UTF-8", got=f"the byte 0x{line[error.start]:02x}"
        ) from error


# --- out -------------------------------------------------------------------------------------------------------------


def check_free(path: Path, *, overwrite: bool) -> None:
    """Raise if there is something at the path that may not be replaced, or no folder to put it in."""
    if not path.absolute().parent.is_dir():
        raise InputError(expected="an existing directory to put the file in", got=f"'{path.parent}'")
    if path.is_dir():
        msg = f"'{path}' is a directory; choose another name for the file"
        raise IndexExistsError(msg)
    if path.exists() and not overwrite:
        raise IndexExistsError(f"'{path}' exists already", hint="pass {overwrite=True} to replace it")


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
