"""What works wherever Python does. The modules of the systems have better ways where there are any."""

from __future__ import annotations

import contextlib
import dataclasses
import mmap
import os
import platform
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

__all__ = [
    "CAN_RUN_WORKERS",
    "INTERRUPT",
    "STOP_SIGNALS",
    "ReadableScratch",
    "anonymous_memory",
    "cpu_name",
    "descriptor_of_path",
    "huge_pages",
    "last_core",
    "leave_group",
    "lower_priority",
    "map_file",
    "most_open_files",
    "num_cores",
    "on_stop",
    "peak_memory",
    "read_some",
    "readable_scratch",
    "remove_unless_used",
    "replace_file",
    "stay_on_core",
    "stop_process",
    "sync_data",
    "sync_file",
    "total_memory",
    "without_interrupts",
    "write_some",
]

#: What is taken for the memory of a machine that does not tell.
_ASSUMED_MEMORY = 4 * 2**30
#: Ask a process to stop.
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
#: What Ctrl-C sends.
INTERRUPT = signal.SIGINT

# A file has one position for all threads where the system cannot read and write at a place.
_POSITION_LOCK = threading.Lock()


# --- signals and processes -------------------------------------------------------------------------------------------


@contextlib.contextmanager
def without_interrupts() -> Iterator[None]:
    """Ignore Ctrl-C for a moment, in which half of the work would be worse than all or nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals go to the main thread
        return
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler if handler is not None else signal.SIG_DFL)


@contextlib.contextmanager
def on_stop(handler: Callable[[int, Any], None]) -> Iterator[None]:
    """Call a function instead of ending the process when it is asked to stop."""
    before = {number: signal.signal(number, handler) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def lower_priority() -> None:
    """Do nothing: here a thread cannot have a priority of its own, or loses more by it than others gain."""


#: Whether a service may have several processes behind one port.
CAN_RUN_WORKERS = False


def _no_workers() -> NoReturn:
    msg = "a service of several processes needs Linux; run one, which may use all cores"
    raise OSError(msg)


def leave_group() -> None:
    """Raise: see `linux.leave_group`."""
    _no_workers()


def stop_process(pid: int) -> None:
    """Raise: see `linux.stop_process`."""
    _no_workers()


# --- the machine -----------------------------------------------------------------------------------------------------


def num_cores() -> int:
    """Return how many cores this process may use."""
    counted: Callable[[], int | None] = getattr(os, "process_cpu_count", os.cpu_count)  # the former since Python 3.13
    return counted() or 1


def cpu_name() -> str:
    """Return the name of the processor, or at least of its architecture."""
    return platform.processor() or platform.machine()


def total_memory() -> int:
    """Return an assumption, for systems that do not tell."""
    return _ASSUMED_MEMORY


def anonymous_memory() -> int:
    """Return 0, for systems that do not tell: limits on memory then count what a build takes, not what it finds."""
    return 0


def peak_memory() -> int:
    """Return 0, for systems that do not tell how much memory a process has held."""
    return 0


def last_core() -> int | None:
    """Return None: here a process cannot choose its core."""
    return None


def stay_on_core(core: int) -> None:
    """Do nothing: here a process cannot choose its core."""


def most_open_files() -> int | None:
    """Return None: here a process may have as many open files and connections as it likes."""
    return None


def huge_pages(size: int) -> mmap.mmap | None:
    """Return None: no huge pages."""
    return None


def map_file(descriptor: int, size: int) -> memoryview:
    """Map a file to be read.

    Raises
    ------
    OSError
        If the file cannot be mapped.
    """
    return memoryview(mmap.mmap(descriptor, size, access=mmap.ACCESS_READ)) if size else memoryview(b"")


# --- files -----------------------------------------------------------------------------------------------------------


def write_some(descriptor: int, pieces: Sequence[memoryview], offset: int) -> int:
    """Write the first piece to a place of a file, or part of it; return how many bytes were written."""
    with _POSITION_LOCK:
        os.lseek(descriptor, offset, os.SEEK_SET)
        return os.write(descriptor, pieces[0])


def read_some(descriptor: int, content: memoryview, offset: int) -> int:
    """Read from a place of a file into a buffer; return how many bytes came, 0 at the end."""
    with _POSITION_LOCK:
        os.lseek(descriptor, offset, os.SEEK_SET)
        found = os.read(descriptor, len(content))
    content[: len(found)] = found
    return len(found)


def sync_file(descriptor: int) -> None:
    """Make a file safe on disk."""
    os.fsync(descriptor)


def sync_data(descriptor: int) -> None:
    """Make the content of a file safe on disk."""
    os.fsync(descriptor)


def replace_file(path: Path, target: Path) -> None:
    """Rename a file, in the place of what is there."""
    path.replace(target)


def remove_unless_used(path: Path) -> None:
    """Remove a file, if it is there; where the system does not allow it because the file is in use, leave it."""
    path.unlink(missing_ok=True)


@dataclasses.dataclass(frozen=True)
class ReadableScratch:
    """A scratch file that can be opened by its path, as long as it is not closed."""

    file: IO[bytes]  #: to write to it; has to be flushed before it is read
    path: Path
    close: Callable[[], None]  #: closes the file and removes it


def readable_scratch(folder: Path | None) -> ReadableScratch:
    """Return a scratch file; the end of the process removes it, unless a crash or a kill is that end."""
    descriptor, name = tempfile.mkstemp(prefix="segmax-", dir=folder)
    file, path = os.fdopen(descriptor, "wb"), Path(name)

    def close() -> None:
        file.close()
        with contextlib.suppress(OSError):  # still open elsewhere, which not every system allows
            path.unlink(missing_ok=True)

    return ReadableScratch(file, path, close)


def descriptor_of_path(path: str) -> int | None:
    """Return None: no path stands for a descriptor."""
    return None
