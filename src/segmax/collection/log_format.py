"""The bytes of a log: the header of a file, the header of a record, and the pieces in the body of a record.

    file     magic 8 | version u4 | zero u4 | number u8 | first sequence u8 | salt 8 | zero u4 | CRC-32 of these u4
    record   magic 4 | kind u1 | zero u1 | pieces u2 | sequence u8 | synced u8 | length of the body u8 |
             CRC-32 of the body u4 | CRC-32 of these u4
    body     the length of every piece u8 | the pieces, each padded to 8 bytes

Numbers are little-endian. The CRCs of a record start from the salt of its file, which is random: neither an old record
in a recycled block of the disk nor a document that looks like a record is taken for one.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

VERSION = 1
#: What the body of a record may take.
MAX_RECORD_BYTES = 2**30
MAX_PIECES = 255

FILE_MAGIC = b"SEGMAXLG"
RECORD_MAGIC = b"SXRC"
_FILE = struct.Struct("<8sIIQQ8sI")
_RECORD = struct.Struct("<4sBBHQQQI")
_CRC = struct.Struct("<I")
FILE_BYTES = _FILE.size + _CRC.size
RECORD_BYTES = _RECORD.size + _CRC.size

Buffer = bytes | bytearray | memoryview | NDArray[Any]


class FileHeader(NamedTuple):
    """What a file of a log says about itself."""

    version: int
    number: int
    first_sequence: int
    salt: bytes

    @property
    def seed(self) -> int:
        """What the CRCs of records start from."""
        return zlib.crc32(self.salt)


class RecordHeader(NamedTuple):
    """What a record says about itself."""

    kind: int
    num_pieces: int
    sequence: int
    synced: int
    length: int
    crc: int


# --- files -----------------------------------------------------------------------------------------------------------


def new_file_header(number: int, first_sequence: int) -> FileHeader:
    """Return the header of a new file."""
    return FileHeader(VERSION, number, first_sequence, os.urandom(8))


def pack_file_header(header: FileHeader) -> bytes:
    """Return the bytes that start a file."""
    data = _FILE.pack(FILE_MAGIC, header.version, 0, header.number, header.first_sequence, header.salt, 0)
    return data + _CRC.pack(zlib.crc32(data))


def unpack_file_header(data: bytes | bytearray) -> FileHeader | None:
    """Return the header of a file; None if its bytes are no header."""
    magic, version, zero, number, first_sequence, salt, other_zero = _FILE.unpack_from(data)
    (crc,) = _CRC.unpack_from(data, _FILE.size)
    if magic != FILE_MAGIC or crc != zlib.crc32(data[: _FILE.size]) or zero or other_zero:
        return None
    return FileHeader(version, number, first_sequence, salt)


# --- records ---------------------------------------------------------------------------------------------------------


def pack_record(
    kind: int, pieces: Sequence[Buffer], *, sequence: int, synced: int, seed: int
) -> list[bytes | memoryview]:
    """Return the bytes of a record, as buffers to be written one after the other."""
    views = [_as_bytes(piece) for piece in pieces]
    body: list[bytes | memoryview] = [struct.pack(f"<{len(views)}Q", *(len(view) for view in views))]
    for view in views:
        body += [view, bytes(-len(view) % 8)]
    crc = seed
    for buffer in body:
        crc = zlib.crc32(buffer, crc)
    length = sum(len(buffer) for buffer in body)
    header = _RECORD.pack(RECORD_MAGIC, kind, 0, len(views), sequence, synced, length, crc)
    return [header + _CRC.pack(zlib.crc32(header, seed)), *body]


def _as_bytes(piece: Buffer) -> memoryview:
    view = piece.data if isinstance(piece, np.ndarray) else memoryview(piece)
    return view.cast("B") if view.nbytes else memoryview(b"")


def body_bytes(pieces: Sequence[Buffer]) -> int:
    """Return how long the body of a record with these pieces is."""
    sizes = [piece.nbytes if isinstance(piece, (np.ndarray, memoryview)) else len(piece) for piece in pieces]
    return sum(8 + size + -size % 8 for size in sizes)


def unpack_record_header(data: bytearray | memoryview, seed: int) -> RecordHeader | None:
    """Return the header of a record; None if its bytes are no header of a record of this file."""
    magic, kind, zero, num_pieces, sequence, synced, length, crc = _RECORD.unpack_from(data)
    (own_crc,) = _CRC.unpack_from(data, _RECORD.size)
    if magic != RECORD_MAGIC or own_crc != zlib.crc32(data[: _RECORD.size], seed) or zero:
        return None
    return RecordHeader(kind, num_pieces, sequence, synced, length, crc)


def unpack_body(body: memoryview, num_pieces: int) -> list[memoryview] | None:
    """Return the pieces of a body; None if their lengths do not add up to it."""
    if num_pieces > MAX_PIECES or 8 * num_pieces > len(body):
        return None
    at = 8 * num_pieces
    pieces = []
    for length in struct.unpack_from(f"<{num_pieces}Q", body):
        pieces.append(body[at : at + length])
        at += length + -length % 8
    return pieces if at == len(body) else None
