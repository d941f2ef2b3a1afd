"""What only Linux offers: /proc, huge pages, priorities of threads."""

from __future__ import annotations

import contextlib
import mmap
import os
import platform
import signal
import tempfile
import threading
from pathlib import Path

from segmax.base.system.portable import ReadableScratch
from segmax.base.system.posix import opened_folder

__all__ = [
    "CAN_RUN_WORKERS",
    "anonymous_memory",
    "cpu_name",
    "huge_pages",
    "last_core",
    "leave_group",
    "lower_priority",
    "num_cores",
    "peak_memory",
    "readable_scratch",
    "stay_on_core",
    "stop_process",
    "sync_data",
    "sync_folder",
    "total_memory",
]

_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
_HUGE_PAGE = 2 * 2**20

#: Whether a service may have several processes behind one port.
CAN_RUN_WORKERS = True


# --- processes -------------------------------------------------------------------------------------------------------


def leave_group() -> None:
    """Put this process into a group of its own, which Ctrl-C does not reach: it is for its parent to end it."""
    os.setpgid(0, 0)


def stop_process(pid: int) -> None:
    """Ask a process to stop."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)


def lower_priority() -> None:
    """Let the calling thread, and the threads that it starts, run only where no other wants to."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)


# --- the machine -----------------------------------------------------------------------------------------------------


def num_cores() -> int:
    """Return how many cores this process may use.

    Examples
    --------
    >>> num_cores() >= 1
    True
    """
    return len(os.sched_getaffinity(0))


def cpu_name() -> str:
    """Return the name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def total_memory() -> int:
    """Return the memory of this machine, or of the container that limits this process, in bytes."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(total, int(_CGROUP_LIMIT.read_text(encoding="ascii")))
    except (OSError, ValueError):  # no cgroup, or no limit ("max")
        return total


def anonymous_memory() -> int:
    """Return the anonymous resident memory of this process in bytes: what it holds that no file backs."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    msg = "this system does not report the anonymous memory of a process"
    raise OSError(msg)


def peak_memory() -> int:
    """Return the most memory that this process has held, in bytes.

    `getrusage` would include what the process that started it held.
    """
    lines = Path("/proc/self/status").read_text(encoding="utf-8", errors="replace").splitlines()
    held = (int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    return next(held, 0)


def last_core() -> int | None:
    """Return a core that this process may use."""
    return max(os.sched_getaffinity(0))


def stay_on_core(core: int) -> None:
    """Run on one core from now on."""
    os.sched_setaffinity(0, {core})


def huge_pages(size: int) -> mmap.mmap | None:
    """Return zeroed memory in huge pages; None where the system has none, or where they do not pay."""
    if size < 2 * _HUGE_PAGE or not hasattr(mmap, "MADV_HUGEPAGE"):
        return None
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # a kernel built without them
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


# --- files -----------------------------------------------------------------------------------------------------------


def sync_data(descriptor: int) -> None:
    """Make the content of a file safe on disk; times need not be."""
    os.fdatasync(descriptor)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder safe on disk."""
    with opened_folder(folder) as descriptor:
        os.fsync(descriptor)


def readable_scratch(folder: Path | None) -> ReadableScratch:
    """Return a scratch file that nothing names, so that nothing is left of it, whatever ends the process."""
    file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
    return ReadableScratch(file, Path(f"/proc/self/fd/{file.fileno()}"), file.close)
