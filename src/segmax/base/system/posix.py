"""What Linux and macOS share: locks of files, forks, flags that follow no links, folders by descriptor."""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import re
import resource
import socket
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

__all__ = [
    "EVENT_LOOP",
    "call_in_forks",
    "claim_port",
    "descriptor_of_path",
    "locked",
    "locked_folder",
    "map_file",
    "most_open_files",
    "open_new",
    "open_to_read",
    "open_to_update",
    "read_some",
    "remove_files",
    "try_lock",
    "write_some",
]

# None follows a link to write, waits for a pipe, or is inherited by a program that is started.
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_UPDATE = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC

_PERMISSIONS = 0o666  # less what the umask takes away
_MOST_PIECES = 512  # that a system call gets; Linux and macOS take 1,024
_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/([0-9]+)")

#: The event loop of the service, as uvicorn calls it.
EVENT_LOOP = "uvloop"


# --- locks and processes ---------------------------------------------------------------------------------------------


@contextlib.contextmanager
def locked(file: IO[bytes] | int, *, wait: bool = True) -> Iterator[None]:
    """Hold the lock of an open file, which one process at a time can have.

    Parameters
    ----------
    file
        A file, or its descriptor.
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


@contextlib.contextmanager
def locked_folder(path: Path) -> Iterator[None]:
    """Hold the lock of a folder, which one process at a time can have; wait for it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with locked(descriptor):
            yield
    finally:
        os.close(descriptor)


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


def call_in_forks(function: Callable[[], None]) -> None:
    """Call a function at the start of every process that is made from this one by `fork`."""
    os.register_at_fork(after_in_child=function)


def claim_port(sock: socket.socket) -> None:
    """Before a socket is bound: take a port that was in use a moment ago, though never one that is."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)


def most_open_files() -> int | None:
    """Return how many files and connections this process may have open, after allowing it as many as it may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):  # macOS has a limit below its hard one
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    found = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if found == resource.RLIM_INFINITY else found


# --- files -----------------------------------------------------------------------------------------------------------


def open_new(path: Path) -> int:
    """Create a file where there is nothing, not even a link that leads nowhere, and open it to be written."""
    return os.open(path, _CREATE, _PERMISSIONS)


def open_to_update(path: Path, *, create: bool) -> int:
    """Open a file to be read and written; a link is refused."""
    return os.open(path, _UPDATE | os.O_CREAT if create else _UPDATE, _PERMISSIONS)


def open_to_read(path: Path, *, follow: bool) -> int:
    """Open whatever is at a path, without waiting for it; a link is refused unless links are followed."""
    return os.open(path, _READ if follow else _READ | os.O_NOFOLLOW)


def write_some(descriptor: int, pieces: Sequence[memoryview], offset: int) -> int:
    """Write pieces one after the other to a place of a file, or part of them; return how many bytes were written."""
    return os.pwritev(descriptor, pieces[:_MOST_PIECES], offset)


def read_some(descriptor: int, content: memoryview, offset: int) -> int:
    """Read from a place of a file into a buffer; return how many bytes came, 0 at the end."""
    return os.preadv(descriptor, [content], offset)


@contextlib.contextmanager
def opened_folder(path: Path) -> Iterator[int]:
    """Open a folder, and return its descriptor."""
    descriptor = os.open(path, _FOLDER)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def remove_files(folder: Path, is_ours: Callable[[str], bool]) -> None:
    """Remove files from a folder, by name. By descriptor: a link that replaces the folder now is not followed."""
    descriptor = os.open(folder, _FOLDER | os.O_NOFOLLOW)
    try:
        with os.scandir(descriptor) as found:
            names = [entry.name for entry in found if entry.is_file(follow_symlinks=False)]
        for name in filter(is_ours, names):
            os.unlink(name, dir_fd=descriptor)
    finally:
        os.close(descriptor)


def descriptor_of_path(path: str) -> int | None:
    """Return the descriptor that a path stands for, as in a shell's <(command); None for other paths.

    Examples
    --------
    >>> descriptor_of_path("/dev/fd/63"), descriptor_of_path("/tmp/fd/63")
    (63, None)
    """
    found = _DESCRIPTOR.fullmatch(path)
    return None if found is None else int(found[1])


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
