"""Scratch files: what does not fit into memory waits here. They have no name, so that nothing is left behind."""

from __future__ import annotations

import contextlib
import mmap
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from segmax.base.errors import SegmaxError, WriteError

_WRITE_BYTES = 1 << 24
_COPY_ENTRIES = 1 << 20


@contextlib.contextmanager
def scratch_errors(what: str, folder: Path | None, size: int | None = None) -> Iterator[None]:
    """Turn an OSError inside the context into WriteError: a folder has no room for scratch files, for instance.

    Parameters
    ----------
    what
        What could not be done there.
    folder
        The folder; None: that of temporary files.
    size
        How many bytes it takes, where that is known.
    """
    try:
        yield
    except SegmaxError:
        raise
    except OSError as error:
        needs = "" if size is None else f": it needs {size:,} bytes"
        msg = f"could not {what} in '{folder or tempfile.gettempdir()}' ({error.strerror or error}){needs}"
        raise WriteError(msg, hint="make room, or choose another folder with {scratch=...}") from error


class ScratchFile:
    """A file of arrays."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with self._errors():
            self._file: BinaryIO = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, array: NDArray[Any]) -> None:
        """Append an array."""
        view = np.ascontiguousarray(array).view(np.uint8).data if array.size else memoryview(b"")
        with self._errors():
            while len(view) > 0:
                view = view[self._file.write(view[:_WRITE_BYTES]) :]

    def mapped(self, dtypes_and_lengths: Iterable[tuple[DTypeLike, int]]) -> list[NDArray[Any]]:
        """Return the arrays written to the file, mapped; they outlive the file object."""
        wanted = list(dtypes_and_lengths)
        total = sum(np.dtype(dtype).itemsize * length for dtype, length in wanted)
        if total == 0:
            return [np.empty(0, dtype) for dtype, _ in wanted]
        content = mmap.mmap(self._file.fileno(), total, access=mmap.ACCESS_READ)
        arrays: list[NDArray[Any]] = []
        offset = 0
        for dtype, length in wanted:
            arrays.append(np.frombuffer(content, dtype, length, offset))
            offset += arrays[-1].nbytes
        return arrays

    def _errors(self) -> contextlib.AbstractContextManager[None]:
        return scratch_errors("keep documents", self._folder)


class GrowingArray:
    """A one-dimensional array in a scratch file, for formats that state its length before its content."""

    def __init__(self, dtype: DTypeLike, folder: Path) -> None:
        self.dtype = np.dtype(dtype)
        self.length = 0
        self._file: BinaryIO = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115

    def append(self, values: NDArray[Any]) -> None:
        """Add values at the end."""
        self._file.write(np.ascontiguousarray(values, self.dtype).data)
        self.length += len(values)

    def blocks(self) -> Iterator[NDArray[Any]]:
        """Yield everything, from the beginning."""
        self._file.seek(0)
        left = self.length
        while left > 0:
            count = min(left, _COPY_ENTRIES)
            yield np.frombuffer(self._file.read(count * self.dtype.itemsize), self.dtype)
            left -= count

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
