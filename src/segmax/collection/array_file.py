"""Small files of arrays beside the manifest: which rows are deleted, the lattice, statistics.

    magic 8 | version u4 | arrays u4 | bytes of the file u8 | for every array: name 32, type 8, length u8 |
    the arrays, each padded to 8 bytes | CRC-32 of everything before u4 | zero u4

They are written whole and synced, and read whole into memory. Numbers are little-endian.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segmax.base.errors import NEWER_HINT, FormatError, damaged_collection
from segmax.base.files import open_regular, replacing, write_errors
from segmax.storage.component_file import crc32
from segmax.storage.meta import unreadable

MAX_ARRAYS = 64
MAX_ARRAY_FILE_BYTES = 2**34

_MAGIC = b"SEGMAXAR"
_VERSION = 1
_HEADER = struct.Struct("<8sIIQ")
_ENTRY = struct.Struct("<32s8sQ")
_FOOTER = struct.Struct("<II")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
_TYPES = {
    np.dtype(kind).str: np.dtype(kind)
    for kind in ("?", "u1", "i1", *(f"<{a}{b}" for a in "ui" for b in "248"), "<f4", "<f8")
}


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays of one dimension to a file, which is on disk when this returns.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "deleted.1.bin")
    >>> write_arrays(path, {"row": np.array([3, 5], dtype=np.uint32)})
    >>> read_arrays(path)["row"].tolist()
    [3, 5]
    """
    contents = []
    for name, array in arrays.items():
        assert _NAME.fullmatch(name), name
        assert array.ndim == 1, name
        assert array.dtype.str in _TYPES, array.dtype
        contents.append(np.ascontiguousarray(array).view(np.uint8).data)
    table = [
        _ENTRY.pack(name.encode("ascii"), array.dtype.str.encode("ascii"), len(array)) for name, array in arrays.items()
    ]
    size = _HEADER.size + sum(map(len, table)) + sum(_padded(len(content)) for content in contents) + _FOOTER.size
    assert size <= MAX_ARRAY_FILE_BYTES
    assert len(arrays) <= MAX_ARRAYS
    crc = 0
    with write_errors(path), replacing(path, path.with_name(f"{path.name}.new")) as file:
        for piece in (_HEADER.pack(_MAGIC, _VERSION, len(arrays), size), *table):
            file.write(piece)
            crc = crc32(memoryview(piece), crc)
        for content in contents:
            for view in (content, memoryview(bytes(-len(content) % 8))):
                if len(view) > 0:
                    file.write(view)
                    crc = crc32(view, crc)
        file.write(_FOOTER.pack(crc, 0))


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Read the arrays of a file, as views of one buffer.

    Raises
    ------
    FileNotFoundError
        If there is no file. Where another process writes, it may have replaced the manifest that named it.
    FormatError
        If the file is damaged.
    """
    try:
        with open_regular(path) as file:
            header = file.read(_HEADER.size)
            size = os.fstat(file.fileno()).st_size
            num_arrays = _checked_header(header, size, path)
            content = np.empty(size, dtype=np.uint8)
            file.seek(0)
            is_whole = file.readinto(content.data) == size
    except FileNotFoundError:
        raise
    except OSError as error:
        raise unreadable(path, error) from error
    crc, zero = _FOOTER.unpack_from(content.data, size - _FOOTER.size)
    if not is_whole or zero or crc32(content[: size - _FOOTER.size].data) != crc:
        raise _damaged(path, "the checksum does not match")
    return _split(content, num_arrays, path)


def _checked_header(header: bytes, size: int, path: Path) -> int:
    """Return the number of arrays, before anything is allocated."""
    if len(header) < _HEADER.size:
        raise _damaged(path, "it is too short")
    magic, version, num_arrays, own_size = _HEADER.unpack(header)
    if magic != _MAGIC:
        raise _damaged(path, "it is another file")
    if version != _VERSION:
        raise FormatError(
            where=f"'{path}'",
            expected=f"version {_VERSION} of the format, which this segmax reads",
            got=version,
            hint=NEWER_HINT,
        )
    least = _HEADER.size + _ENTRY.size * num_arrays + _FOOTER.size
    if own_size != size or size > MAX_ARRAY_FILE_BYTES or num_arrays > MAX_ARRAYS or size < least:
        raise _damaged(path, f"it has {size:,} bytes and should have {own_size:,}")
    return int(num_arrays)


def _split(content: NDArray[np.uint8], num_arrays: int, path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of a file whose checksum matches, which does not mean that we wrote it."""
    arrays: dict[str, NDArray[Any]] = {}
    at, end = _HEADER.size + _ENTRY.size * num_arrays, len(content) - _FOOTER.size
    for number in range(num_arrays):
        raw_name, raw_type, length = _ENTRY.unpack_from(content.data, _HEADER.size + _ENTRY.size * number)
        name = raw_name.rstrip(b"\x00").decode("latin-1")
        dtype = _TYPES.get(raw_type.rstrip(b"\x00").decode("latin-1"))
        if _NAME.fullmatch(name) is None or name in arrays or dtype is None or length * dtype.itemsize > end - at:
            raise _damaged(path, f"array {number} is impossible")
        array = content[at : at + length * dtype.itemsize]
        if dtype == np.bool_ and array.max(initial=0) > 1:
            raise _damaged(path, f"'{name}' has values that are neither true nor false")
        arrays[name] = array.view(dtype)
        at += _padded(array.nbytes)
    if at != end:
        raise _damaged(path, "it has more than its arrays")
    return arrays


def _padded(size: int) -> int:
    return size + -size % 8


def _damaged(path: Path, what: str) -> FormatError:
    return damaged_collection(f"'{path.name}': {what}", path.parent)
