"""Arrays and a few plain values packed into one string of bytes: what a build keeps on the way from task to task.

magic 8 | CRC-32 of everything behind this header u4 | bytes of the table u4 | bytes in all u8 |
the table, as JSON, padded to 8 bytes | the arrays, each padded to 8 bytes
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from segmax.base.errors import FormatError
from segmax.storage.component_file import crc32
from segmax.storage.components import Arrays

_MAGIC = b"SEGMAXPK"
_HEADER = struct.Struct("<8sIIQ")


class DamagedFileError(FormatError):
    """A file that a build keeps on the way is missing or damaged: the task that made it has to be done again."""


class Packed(NamedTuple):
    """What a file of a build holds."""

    arrays: Arrays
    about: dict[str, Any]  #: plain values, as JSON gives them back


def pack(arrays: Mapping[str, NDArray[Any]], about: Mapping[str, Any]) -> list[bytes | memoryview]:
    """Return the pieces of a file.

    Examples
    --------
    >>> content = b"".join(pack({"row": np.array([3, 5])}, {"num_docs": 2}))
    >>> found = unpack(content, "example")
    >>> found.arrays["row"].tolist(), found.about
    ([3, 5], {'num_docs': 2})
    """
    entries = [[name, array.dtype.str, list(array.shape)] for name, array in arrays.items()]
    table = json.dumps({"arrays": entries, "about": dict(about)}).encode()
    table += b" " * (-len(table) % 8)
    pieces: list[bytes | memoryview] = [table]
    for array in arrays.values():
        if array.size:
            pieces += [np.ascontiguousarray(array).view(np.uint8).reshape(-1).data, bytes(-array.nbytes % 8)]
    crc = 0
    for piece in pieces:
        crc = crc32(memoryview(piece), crc) if len(piece) else crc
    size = _HEADER.size + sum(map(len, pieces))
    return [_HEADER.pack(_MAGIC, crc, len(table), size), *pieces]


def unpack(content: bytes, name: str) -> Packed:
    """Return what a file holds, its arrays as views; raise DamagedFileError unless it is whole."""
    try:
        magic, crc, table_bytes, size = _HEADER.unpack_from(content)
        whole = memoryview(content)[_HEADER.size :]
        if magic != _MAGIC or size != len(content) or crc32(whole) != crc:
            raise ValueError("the checksum does not match")
        table = json.loads(bytes(whole[:table_bytes]))
        return Packed(_split(content, _HEADER.size + table_bytes, table["arrays"]), table["about"])
    except (ValueError, KeyError, TypeError, struct.error) as error:
        msg = f"'{name}', a file of an unfinished build, is damaged ({error})"
        raise DamagedFileError(msg, hint="start the same build again") from error


def _split(content: bytes, at: int, entries: list[tuple[str, str, list[int]]]) -> Arrays:
    arrays: Arrays = {}
    for name, kind, shape in entries:
        dtype = np.dtype(kind)
        count = math.prod(shape)
        arrays[name] = np.frombuffer(content, dtype, count, at).reshape(shape) if count else np.empty(shape, dtype)
        at += -(-count * dtype.itemsize // 8) * 8
    return arrays


def packed_bytes(content: bytes) -> int:
    """Return the size of the packed file that some content starts with; raise ValueError if none does."""
    magic, _, _, size = _HEADER.unpack_from(content)
    if magic != _MAGIC:
        raise ValueError("it is another file")
    return int(size)
