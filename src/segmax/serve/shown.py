"""What the processes of a service have shown, in memory that they share, so that none of them answers with less."""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
import threading
import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path

from segmax.base.system import locked, open_to_update

_NUMBERS = struct.Struct("<2q")


class Shown:
    """Two numbers for every name that is served: what is open there, and how many writes of it have been seen.

    A worker that opens what took the place of an index, and a writer that acknowledges a write, raise them before they
    answer. A process whose own numbers differ looks at the disk before it answers.

    Parameters
    ----------
    names
        All that is served, in the same order in every process.
    path
        A file for the numbers.

    Examples
    --------
    >>> import tempfile
    >>> shown = Shown(["papers"], Path(tempfile.mkdtemp(), "shown"))
    >>> with shown.locked():
    ...     shown.raise_to("papers", 5, 7)
    >>> shown.get("papers")
    (5, 7)
    """

    def __init__(self, names: Iterable[str], path: Path) -> None:
        self._offsets = {name: number * _NUMBERS.size for number, name in enumerate(names)}
        self._file = open_to_update(path, create=True)
        weakref.finalize(self, os.close, self._file)
        size = max(1, len(self._offsets)) * _NUMBERS.size
        os.truncate(self._file, size)  # to what it has already, unless this process is the first
        self._memory = mmap.mmap(self._file, size)
        self._lock = threading.Lock()

    def get(self, name: str) -> tuple[int, int]:
        """Return the mark of what was opened last, 0 if nothing was, and the number of the last write that was seen."""
        mark, sequence = _NUMBERS.unpack_from(self._memory, self._offsets[name])
        return mark, sequence

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Let no other thread or process raise anything."""
        with self._lock, locked(self._file):
            yield

    def raise_to(self, name: str, mark: int, sequence: int) -> None:
        """Say what is open under a name now, and how many writes of it may be seen; never fewer of the same."""
        before, least = self.get(name)
        if mark != before or sequence > least:
            _NUMBERS.pack_into(self._memory, self._offsets[name], mark, sequence)
