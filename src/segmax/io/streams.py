"""Reading bytes and lines of files, which are decompressed on the way. The length of lines is limited."""

from __future__ import annotations

import contextlib
import gzip
import lzma
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from segmax.base.errors import InputError
from segmax.io.compression import BLOCK_BYTES, SUFFIXES, compression_of, decompressed
from segmax.io.read_errors import no_file, reading

#: The longest line that any reader of text takes, in bytes. It is held several times while it is parsed.
MAX_LINE_BYTES = 1 << 25


def base_name(path: Path) -> str:
    """Return the lower-case name of a file without the ending of its compression."""
    return (path.stem if path.suffix.lower() in SUFFIXES else path.name).lower()


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
        kind = compression_of(head)
        if kind is None:
            yield file
        else:
            with decompressed(kind, path, file) as stream:
                yield stream


def read_head(path: Path, size: int) -> bytes:
    """Return the first bytes of a file, decompressed; fewer where it is shorter or damaged further on."""
    with reading(path), open_stream(path) as stream:
        pieces, left = [], size
        # A truncated stream is still recognized by its beginning; reading all of it raises the error.
        with contextlib.suppress(EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError):
            while left > 0 and (piece := stream.read(min(left, 1 << 14))):
                pieces.append(piece)
                left -= len(piece)
        return b"".join(pieces)


def is_compressed(path: Path) -> bool:
    """Whether the file is gzip, zstd or xz."""
    with reading(path), path.open("rb") as file:
        return compression_of(file.read(8)) is not None


def whole_lines(path: Path) -> Iterator[bytes]:
    """Yield the content of a file in pieces that end where a line does; refuse a line that is too long."""
    rest: list[bytes] = []
    held = number = 0
    for block in read_blocks(path):
        first, cut = block.find(b"\n"), block.rfind(b"\n") + 1
        held += len(block) if cut == 0 else first
        if held > MAX_LINE_BYTES:
            raise InputError(
                where=f"'{path}', line {number + 1}",
                expected=f"lines of at most {MAX_LINE_BYTES >> 20} MiB",
                got="a longer one",
                hint="split long texts into several documents",
            )
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
    before = 0
    for piece in whole_lines(path):
        yield from lines_of(piece, path, before)
        before += piece.count(b"\n")


def lines_of(piece: bytes, path: Path, before: int) -> Iterator[tuple[int, str]]:
    """Yield the lines of a piece of a file likewise; `before` is the number of lines before it."""
    for number, line in enumerate(piece.removesuffix(b"\n").split(b"\n"), start=before + 1):
        yield number, _decoded(line, path, number)


def _decoded(line: bytes, path: Path, number: int) -> str:
    try:
        return line.removesuffix(b"\r").decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            where=f"'{path}', line {number}", expected="UTF-8", got=f"the byte 0x{line[error.start]:02x}"
        ) from error
