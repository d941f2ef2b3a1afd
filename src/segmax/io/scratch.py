"""Scratch files of readers, and arrays that grow on disk: what writers of binary formats need."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from segmax.base.errors import WriteError

_COPY_ENTRIES = 1 << 20


@contextlib.contextmanager
def unpacking(path: Path, folder: Path | None, size: int | None = None, *, verb: str = "decompress") -> Iterator[None]:
    """Say which file needs room where, if a scratch file cannot be made or written."""
    try:
        yield
    except OSError as error:
        needs = "" if size is None else f": it needs {size:,} bytes"
        msg = f"could not {verb} '{path}' in '{folder or tempfile.gettempdir()}' ({error.strerror or error}){needs}"
        raise WriteError(msg, hint="choose another folder with {scratch=...}") from error


class GrowingArray:
    """A one-dimensional array in a file without a name beside the target."""

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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
