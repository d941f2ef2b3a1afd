"""Files of arrays that all shards share, compressed and named by the hash of their content.

magic 8 | version u4 | bytes of the table u4 | the table, as JSON: [name, type, entries, bytes as stored] |
the arrays, each as a zlib stream of codes alone, without repetitions: a stored byte stands for at most eight
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from segmax.base.errors import NEWER_HINT, FormatError, damaged

COMMON = "common"

_MAGIC = b"SEGMAXCO"
_VERSION = 1
_HEADER = struct.Struct("<8sII")
_MAX_TABLE_BYTES = 1 << 16
_MAX_RATIO = 8  # a code has at least one bit
_TYPES = ("|u1", "<u2", "<u4", "<u8", "<i8", "<f8")


class Files(Protocol):
    """Where files are kept, by name."""

    def read(self, name: str) -> bytes:
        """Return the content of a file."""

    def write(self, name: str, pieces: list[bytes | memoryview]) -> None:
        """Write a file."""


def write_common(files: Files, arrays: Mapping[str, NDArray[Any]]) -> str:
    """Write arrays of one dimension as a file, and return its hash.

    The same arrays give the same file, whoever writes them.
    """
    data = common_bytes(arrays)
    name = hashlib.sha256(data).hexdigest()
    files.write(f"{COMMON}/{name}", [data])
    return name


def read_common(files: Files, hash: str, where: object) -> dict[str, NDArray[Any]]:
    """Return the arrays of a common file; `where` is the place of the index, for messages.

    Raises
    ------
    FormatError
        If it is missing or damaged.
    """
    try:
        data = files.read(f"{COMMON}/{hash}")
    except FileNotFoundError as error:
        raise damaged(f"the common file '{hash[:16]}…' is missing", where) from error
    if hashlib.sha256(data).hexdigest() != hash:
        raise damaged(f"the common file '{hash[:16]}…' does not have the hash that it is called by", where)
    return common_arrays(data, where)


def common_bytes(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return the content of a common file.

    Examples
    --------
    >>> common_arrays(common_bytes({"row": np.array([3, 5])}))["row"].tolist()
    [3, 5]
    """
    stored = [_compressed(np.ascontiguousarray(array).view(np.uint8).data) for array in arrays.values()]
    entries = [
        [name, array.dtype.str, len(array), len(data)]
        for (name, array), data in zip(arrays.items(), stored, strict=True)
    ]
    table = json.dumps(entries).encode("ascii")
    return b"".join([_HEADER.pack(_MAGIC, _VERSION, len(table)), table, *stored])


def common_arrays(data: bytes, where: object = None) -> dict[str, NDArray[Any]]:
    """Return the arrays of a common file, which anybody may have made."""
    try:
        return _parsed(data)
    except (ValueError, TypeError, RecursionError, struct.error, zlib.error) as error:
        raise damaged(f"a common file is impossible ({error})"[:200], where) from error


def _parsed(data: bytes) -> dict[str, NDArray[Any]]:
    magic, version, table_bytes = _HEADER.unpack_from(data)
    if magic != _MAGIC:
        raise ValueError("it is another file")
    if version != _VERSION:
        raise FormatError(expected=f"version {_VERSION} of a common file", got=version, hint=NEWER_HINT)
    if table_bytes > _MAX_TABLE_BYTES:
        raise ValueError("its table is too long")
    at = _HEADER.size + table_bytes
    arrays = {}
    for name, kind, count, stored in json.loads(data[_HEADER.size : at]):
        if not isinstance(name, str) or kind not in _TYPES or type(count) is not int or type(stored) is not int:
            raise ValueError("its table is damaged")
        size = count * np.dtype(kind).itemsize
        if count < 0 or stored < 0 or size > _MAX_RATIO * stored or at + stored > len(data):
            raise ValueError("its table is damaged")
        arrays[name] = np.frombuffer(_decompressed(data[at : at + stored], size), dtype=kind)
        at += stored
    if at != len(data):
        raise ValueError("it has more than its arrays")
    return arrays


def _compressed(data: memoryview) -> bytes:
    """Return a zlib stream that looks for no repetitions: codes have none, and that takes a fifth of the time."""
    stream = zlib.compressobj(strategy=zlib.Z_HUFFMAN_ONLY)
    return stream.compress(data) + stream.flush()


def _decompressed(data: bytes, size: int) -> bytes:
    """Return what a stream holds, which has to be so many bytes: a short one may claim to be huge."""
    stream = zlib.decompressobj()
    found = stream.decompress(data, size + 1) if size else stream.decompress(data, 1)
    if len(found) != size or not stream.eof or stream.unused_data:
        raise ValueError("an array is damaged")
    return found
