"""The one door to what only Linux, or only POSIX, offers: locks, signals, /proc, huge pages, flags of files.

Nothing else in segmax imports `fcntl` or `signal`, or reads /proc and /sys: a port to another system starts here.
Standard library only, because everything imports it.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import platform
import re
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

#: Flags of `os.open`. None follows a link to write, waits for a pipe, or is inherited by a program that is started.
CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
UPDATE_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
READ_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
#: The same for what only segmax puts there, where a link is not ours.
OWN_READ_FLAGS = READ_FLAGS | os.O_NOFOLLOW
OWN_FOLDER_FLAGS = FOLDER_FLAGS | os.O_NOFOLLOW

_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/([0-9]+)")
_HUGE_PAGE = 2 * 2**20


# --- locks and signals -----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def locked(file: IO[bytes] | int, *, wait: bool = True) -> Iterator[None]:
    """Hold the lock of an open file or folder, which one process at a time can have.

    Parameters
    ----------
    file
        A file, or the descriptor of a file or folder.
    wait
        Wait for a process that holds the lock, rather than raise.

    Raises
    ------
    BlockingIOError
        If another process holds the lock and `wait` is False.
    """
    fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)


def try_lock(file: IO[bytes] | int) -> bool:
    """Take the lock of an open file for as long as it is open; return False if another open file has it.

    The lock belongs to this opening of the file, so it also keeps out other objects of the same process. The system
    releases it when the file is closed, also by the end of the process.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


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


def call_in_forks(function: Callable[[], None]) -> None:
    """Call a function at the start of every process that is made from this one by `fork`."""
    os.register_at_fork(after_in_child=function)


def start_worker(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a program that reads and writes pipes, and that Ctrl-C does not reach: it is for this process to end it."""
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0)


#: Ask a process to stop.
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_WATCHED_SIGNALS = frozenset({*STOP_SIGNALS, signal.SIGCHLD})


@contextlib.contextmanager
def on_stop(handler: Callable[[int, Any], None]) -> Iterator[None]:
    """Call a function instead of ending the process when it is asked to stop."""
    before = {number: signal.signal(number, handler) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


@contextlib.contextmanager
def watched_children() -> Iterator[Callable[[float], bool]]:
    """Hold back signals, and return a function that waits for one, at most some seconds: False if asked to stop.

    It returns True if a child ended, or if nothing happened.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED_SIGNALS)

    def goes_on(seconds: float) -> bool:
        found = signal.sigtimedwait(_WATCHED_SIGNALS, seconds)
        return found is None or found.si_signo == signal.SIGCHLD

    try:
        yield goes_on
    finally:
        while signal.sigtimedwait(_WATCHED_SIGNALS, 0) is not None:
            pass  # asked again to stop, which it just did
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _WATCHED_SIGNALS)


def stop_is_pending() -> bool:
    """Whether this process was asked to stop while signals are held back."""
    return not signal.sigpending().isdisjoint(STOP_SIGNALS)


def fork(run: Callable[[], int]) -> int:
    """Run a function in a copy of this process, which ends with the code that it returns; return the copy's number.

    This process must have no other threads. Ctrl-C does not reach the copy: it is for this process to end it.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.setpgid(0, 0)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _WATCHED_SIGNALS)
        code = run()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


def stop_process(pid: int, *, by_force: bool = False) -> None:
    """Ask a process to stop, or end it."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL if by_force else signal.SIGTERM)


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
        return min(total, int(_CGROUP_LIMIT.read_text()))
    except (OSError, ValueError):  # no cgroup, or no limit ("max")
        return total


def anonymous_memory() -> int:
    """Return the anonymous resident memory of this process in bytes: what it holds that no file backs."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    msg = "this system does not report the anonymous memory of a process"
    raise OSError(msg)


def huge_pages(size: int) -> mmap.mmap | None:
    """Return zeroed memory in huge pages; None where the system has none, or where they do not pay."""
    if size < 2 * _HUGE_PAGE or not hasattr(mmap, "MADV_HUGEPAGE"):
        return None
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # a kernel built without them
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


def map_file(descriptor: int, size: int) -> memoryview:
    """Map a file to be read. The map needs no descriptor: an index has thirty files, and a process few descriptors.

    Raises
    ------
    OSError
        If the file cannot be mapped.
    """
    if size == 0:
        return memoryview(b"")
    if sys.version_info >= (3, 13):
        return memoryview(mmap.mmap(descriptor, size, access=mmap.ACCESS_READ, trackfd=False))
    import ctypes  # before 3.13, `mmap` keeps a descriptor of its own

    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    number = ctypes.c_int
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, number, number, number, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    address = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
    if address is None or address == ctypes.c_void_p(-1).value:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    kind: Any = type("Mapped", (ctypes.c_ubyte * size,), {})  # a class of its own, which weak references can refer to
    mapped = kind.from_address(address)
    weakref.finalize(mapped, libc.munmap, address, size).atexit = False
    return memoryview(mapped).cast("B").toreadonly()


# --- descriptors -----------------------------------------------------------------------------------------------------


def path_of_descriptor(descriptor: int) -> Path:
    """Return a path that opens the file of a descriptor in this process, even if the file has no name."""
    return Path(f"/proc/self/fd/{descriptor}")


def descriptor_of_path(path: str) -> int | None:
    """Return the descriptor that a path stands for, as in a shell's <(command); None for other paths.

    Examples
    --------
    >>> descriptor_of_path("/dev/fd/63"), descriptor_of_path("/tmp/fd/63")
    (63, None)
    """
    found = _DESCRIPTOR.fullmatch(path)
    return None if found is None else int(found[1])
