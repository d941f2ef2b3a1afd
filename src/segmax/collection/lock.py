"""The lock of a collection: one writer at a time, in all processes together.

The lock is on the open file `writer.lock`, which stays in the folder for good: were it removed, two writers could each
lock a file of that name. The system releases the lock when its holder ends, however it ends. The content of the file
only says who holds the lock.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import socket
import sys
import weakref
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from segmax.base.display import printable
from segmax.base.errors import CollectionLockedError, WriteError
from segmax.base.files import open_or_create, read_up_to, write_at
from segmax.base.system import call_in_forks, try_lock

LOCK_NAME = "writer.lock"
_MAX_BYTES = 4096  # of what is read about the holder


class WriterLock:
    """The right to change a collection, from when this is made until `release` or the end of the process.

    It is a context manager, and keeps out other processes as well as other objects of this process. A process made by
    `fork` does not inherit it.

    Raises
    ------
    CollectionLockedError
        If somebody else has it; the message says who, and since when.
    WriteError
        If the folder cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> with WriterLock(tempfile.mkdtemp()) as lock:
    ...     print(lock.is_held)
    True
    """

    def __init__(self, folder: str | Path) -> None:
        path = Path(folder) / LOCK_NAME
        self._descriptor: int | None = _opened(path)
        if not try_lock(self._descriptor):
            holder = _holder(self._descriptor)
            self._close()
            raise CollectionLockedError(
                f"the collection '{folder}' is being written to by {holder}",
                hint="close it there first, or open it with {read_only=True} to search it",
            )
        _HELD.add(self)
        with contextlib.suppress(OSError):  # on a full disk the lock holds all the same
            _write_holder(self._descriptor)

    @property
    def is_held(self) -> bool:
        """Whether this object still has the lock. It does not after `release`, nor in a process made by `fork`."""
        return self._descriptor is not None

    def release(self) -> None:
        """Let others write."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, 0)
            self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def __del__(self) -> None:
        if getattr(self, "_descriptor", None) is not None:
            self._close()

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


_HELD: weakref.WeakSet[WriterLock] = weakref.WeakSet()


def _close_in_child() -> None:
    """Close the files of all locks in a new process, which would otherwise keep them after the end of the holder."""
    for lock in list(_HELD):
        lock._close()


call_in_forks(_close_in_child)


def _opened(path: Path) -> int:
    try:
        return open_or_create(path)
    except OSError as error:
        raise WriteError(
            f"could not open '{path}' ({error.strerror or error})",
            hint="check the folder and its permissions, or open the collection with {read_only=True} to search it",
        ) from error


def _write_holder(descriptor: int) -> None:
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    program = Path(sys.argv[0]).name if sys.argv else ""
    about = {"pid": os.getpid(), "host": socket.gethostname(), "program": program, "since": now}
    os.ftruncate(descriptor, 0)
    write_at(descriptor, [json.dumps(about).encode("ascii")], 0)


def _holder(descriptor: int) -> str:
    """Return who has the lock, in words. The file may be empty or hold anything."""
    try:
        about: Any = json.loads(read_up_to(descriptor, _MAX_BYTES))
        pid, host, program, since = (str(about[name])[:200] for name in ("pid", "host", "program", "since"))
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return "another process"
    here = " (this process)" if pid == str(os.getpid()) and host == socket.gethostname() else ""
    return printable(f"process {pid}{here} on '{host}' ('{program}') since {since}")
