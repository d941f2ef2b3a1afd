"""A component file: the content of one component, then a footer of 64 bytes. docs/format.md describes the bytes."""

from __future__ import annotations

import errno
import os
import struct
import zlib
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segmax.base.errors import damaged
from segmax.base.files import create, open_regular
from segmax.base.memory import fast_bytes
from segmax.base.system import map_file, sync_file
from segmax.storage.meta import FORMAT_VERSION, unreadable

FOOTER_BYTES = 64  # also what SIMD loads may read past the end of an array
_MAGIC = b"SEGMAX\x00\x01"
_FOOTER = struct.Struct("<8sIIQ")
_PIECE_BYTES = 1 << 22


def footer(length: int, crc: int, version: int = FORMAT_VERSION) -> bytes:
    """Return the footer of a file of a version of the format whose content has this length and this CRC-32."""
    return _FOOTER.pack(_MAGIC, version, crc, length).ljust(FOOTER_BYTES, b"\x00")


def crc32(content: memoryview, crc: int = 0) -> int:
    """Return the CRC-32 of some content, or of what `crc` is the CRC-32 of and that content behind it."""
    view = content.cast("B")
    for start in range(0, len(view), _PIECE_BYTES):
        crc = zlib.crc32(view[start : start + _PIECE_BYTES], crc)
    return crc


class ComponentWriter:
    """Writes one component file piece by piece, the footer last.

    It uses write(2) rather than mapped memory: a full disk is then an error here, not a signal later.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = create(path)
        self._length = 0
        self._crc = 0

    def append(self, array: NDArray[Any]) -> None:
        """Add to the content."""
        if array.nbytes == 0:
            return
        assert self._descriptor is not None
        view = np.ascontiguousarray(array).view(np.uint8).data
        for start in range(0, len(view), _PIECE_BYTES):  # a piece is still in the cache when it is written
            piece = view[start : start + _PIECE_BYTES]
            self._crc = zlib.crc32(piece, self._crc)
            _write_all(self._descriptor, piece)
        self._length += len(view)

    def finish(self) -> dict[str, Any]:
        """Write the footer, sync the file, and return its entry in meta.json."""
        assert self._descriptor is not None
        _write_all(self._descriptor, memoryview(footer(self._length, self._crc)))
        sync_file(self._descriptor)
        self.close()
        return {"file": self._path.name, "bytes": self._length, "crc32": f"{self._crc:08x}"}

    def close(self) -> None:
        """Close the file, finished or not."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _write_all(descriptor: int, view: memoryview) -> None:
    while len(view) > 0:
        view = view[os.write(descriptor, view) :]


def open_component(path: Path, length: int, crc: int, *, version: int, preload: bool) -> memoryview:
    """Return the content of a file, mapped or read. Its footer is checked, and stays readable behind the content."""
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size != length + FOOTER_BYTES:
                what = f"'{path.name}' has {size} bytes and should have {length + FOOTER_BYTES}"
                raise damaged(what, path.parent)
            whole = _read(file, size) if preload else map_file(file.fileno(), size)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise unreadable(path, error) from error
    if whole[length:] != footer(length, crc, version):
        raise damaged(f"the footer of '{path.name}' does not match", path.parent)
    return whole[:length]


def _read(file: BufferedReader, size: int) -> memoryview:
    whole = fast_bytes(size).data
    if file.readinto(whole) != size:
        raise OSError(errno.EIO, "it became shorter while it was read")
    return whole
