"""Scratch files: what does not fit into memory waits here."""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from segmax.base.errors import WriteError

_WRITE_BYTES = 1 << 24


class ScratchFile:
    """A file without a name: whatever ends the process, nothing is left behind."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            self._file: BinaryIO = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115
        except OSError as error:
            raise self._error(error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, array: NDArray[Any]) -> None:
        """Append an array."""
        view = np.ascontiguousarray(array).view(np.uint8).data if array.size else memoryview(b"")
        try:
            while len(view) > 0:
                view = view[self._file.write(view[:_WRITE_BYTES]) :]
        except OSError as error:
            raise self._error(error) from error

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

    def _error(self, error: OSError) -> WriteError:
        return WriteError(
            f"could not keep documents in '{self._folder}' while building ({error.strerror}): nothing was changed",
            hint="make room, or choose another folder with {scratch=...}",
        )
