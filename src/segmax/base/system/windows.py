"""What Windows has in its own way: locks of ranges, and files that cannot be replaced or removed while in use."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import importlib
import os
import socket
import stat
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from segmax.base.system import portable

__all__ = [
    "EVENT_LOOP",
    "anonymous_memory",
    "call_in_forks",
    "claim_port",
    "locked",
    "locked_folder",
    "open_new",
    "open_to_read",
    "open_to_update",
    "remove_files",
    "remove_unless_used",
    "replace_file",
    "sync_folder",
    "total_memory",
    "try_lock",
]

_FLAGS = getattr(os, "O_BINARY", 0) | getattr(os, "O_NOINHERIT", 0)
_PERMISSIONS = 0o666
# The byte that is locked. Others cannot even read it, so it lies behind all content; Windows does not mind.
_LOCKED_BYTE = 0x7FFF_0000
_LOOK_SECONDS = 0.02  # between two tries
_PATIENCE_SECONDS = 2.0  # for a reader to close what it has open for a moment
_MOUNT_POINT = 0xA000_0003  # the tag of a junction, which leads to another folder like a link
_REPLACE_EXISTING, _WRITE_THROUGH = 1, 8  # flags of MoveFileExW

#: The event loop of the service, as uvicorn calls it; there is no uvloop for Windows.
EVENT_LOOP = "asyncio"


def _library(name: str) -> Any | None:
    """Return a library of Windows; None on another system, where a test takes the ways of this one."""
    load = getattr(ctypes, "WinDLL", None)
    return None if load is None else load(name, use_last_error=True)


# --- locks and processes ---------------------------------------------------------------------------------------------


@contextlib.contextmanager
def locked(file: IO[bytes] | int, *, wait: bool = True) -> Iterator[None]:
    """Hold the lock of an open file, which one process at a time can have; see `posix.locked`."""
    while not try_lock(file):
        if not wait:
            raise BlockingIOError(errno.EAGAIN, "another process holds the lock")
        time.sleep(_LOOK_SECONDS)
    try:
        yield
    finally:
        _lock(file, "LK_UNLCK")


def try_lock(file: IO[bytes] | int) -> bool:
    """Take the lock of an open file for as long as it is open; return False if another open file has it."""
    try:
        _lock(file, "LK_NBLCK")
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EDEADLK):
            return False
        raise
    return True


def _lock(file: IO[bytes] | int, mode: str) -> None:
    """Lock or unlock one byte. The call takes the file's position as the place, so it is put back behind it."""
    msvcrt: Any = importlib.import_module("msvcrt")
    descriptor = file if isinstance(file, int) else file.fileno()
    position = os.lseek(descriptor, 0, os.SEEK_CUR)
    try:
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(descriptor, getattr(msvcrt, mode), 1)
    finally:
        os.lseek(descriptor, position, os.SEEK_SET)


@contextlib.contextmanager
def locked_folder(path: Path) -> Iterator[None]:
    """Hold the lock of a folder, which one process at a time can have; wait for it.

    Folders cannot be opened here, so it is the lock of a file beside the folder, which is there as long.
    """
    folder = path.resolve()
    lock = folder.with_name(f".{folder.name}.lock")
    descriptor = _opened_lock(lock)
    try:
        yield
    finally:
        try:
            is_removed = _removed(lock)  # never on Windows, as it is open
        finally:
            os.close(descriptor)
        if not is_removed:
            _removed(lock)  # unless somebody else waits for it


def _removed(path: Path) -> bool:
    try:
        path.unlink()
    except OSError:
        return False
    return True


def _opened_lock(path: Path) -> int:
    """Open a file and wait for its lock. Whoever has it may remove the file, and then it is another one's turn."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            descriptor = open_to_update(path, create=True)
        except PermissionError:  # while the file is being removed; or for good
            if time.monotonic() > deadline:
                raise
        else:
            deadline = time.monotonic() + _PATIENCE_SECONDS
            if _is_taken(descriptor, path):
                return descriptor
            os.close(descriptor)
        time.sleep(_LOOK_SECONDS)


def _is_taken(descriptor: int, path: Path) -> bool:
    """Whether the lock is ours now, and is that of the file at the path."""
    try:
        return try_lock(descriptor) and os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def call_in_forks(function: Callable[[], None]) -> None:
    """Do nothing: there are no forks."""


def claim_port(sock: socket.socket) -> None:
    """Before a socket is bound: let nobody else take the port, which Windows would otherwise allow."""
    option = getattr(socket, "SO_EXCLUSIVEADDRUSE", None)
    if option is not None:
        sock.setsockopt(socket.SOL_SOCKET, option, 1)


# --- the machine -----------------------------------------------------------------------------------------------------


def total_memory() -> int:
    """Return the memory of this machine in bytes."""
    library = _library("kernel32")
    content = ctypes.create_string_buffer(struct.pack("=2I7Q", 64, *[0] * 8), 64)  # MEMORYSTATUSEX, its size first
    if library is None or not library.GlobalMemoryStatusEx(content):
        return portable.total_memory()
    found: int = struct.unpack("=2I7Q", content.raw)[2]
    return found


def anonymous_memory() -> int:
    """Return the memory that only this process has, in bytes."""
    library = _library("kernel32")
    if library is None:
        return portable.anonymous_memory()
    content = ctypes.create_string_buffer(80)  # PROCESS_MEMORY_COUNTERS_EX: PrivateUsage is the last
    library.GetCurrentProcess.restype = ctypes.c_void_p
    library.K32GetProcessMemoryInfo.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32]
    if not library.K32GetProcessMemoryInfo(library.GetCurrentProcess(), content, len(content)):
        return portable.anonymous_memory()
    found: int = struct.unpack("=2I9Q", content.raw)[-1]
    return found


# --- files -----------------------------------------------------------------------------------------------------------


def open_new(path: Path) -> int:
    """Create a file where there is nothing, not even a link that leads nowhere, and open it to be written."""
    _refuse_link(path, FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fspath(path)))
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, _PERMISSIONS)


def open_to_update(path: Path, *, create: bool) -> int:
    """Open a file to be read and written; a link is refused."""
    _refuse_link(path)
    with _folders_named(path):
        return os.open(path, os.O_RDWR | (os.O_CREAT if create else 0) | _FLAGS, _PERMISSIONS)


def open_to_read(path: Path, *, follow: bool) -> int:
    """Open a file to be read; a link is refused unless links are followed."""
    if not follow:
        _refuse_link(path)
    with _folders_named(path):
        return os.open(path, os.O_RDONLY | _FLAGS)


def _is_link(path: Path) -> bool:
    """Whether a path leads to another one, as a link or as a junction."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISLNK(found.st_mode) or getattr(found, "st_reparse_tag", 0) == _MOUNT_POINT


def _refuse_link(path: Path, error: OSError | None = None) -> None:
    """Raise for a link. Unlike O_NOFOLLOW this leaves a moment in which one could be put there."""
    if _is_link(path):
        raise error or OSError(errno.ELOOP, "it is a symbolic link", os.fspath(path))


@contextlib.contextmanager
def _folders_named(path: Path) -> Iterator[None]:
    """Say of a folder that it is one: Windows says that access was denied."""
    try:
        yield
    except PermissionError:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path)) from None
        raise


def sync_folder(folder: Path) -> None:
    """Do nothing: folders cannot be synced here. `replace_file` waits for the disk by itself."""


def replace_file(path: Path, target: Path) -> None:
    """Rename a file, in the place of what is there; wait for readers that have it open for a moment, and for the disk.

    Raises
    ------
    PermissionError
        If the file stays open.
    """
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            _replace(path, target)
        except PermissionError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_LOOK_SECONDS)
        else:
            return


def _replace(path: Path, target: Path) -> None:
    library = _library("kernel32")
    if library is None:
        path.replace(target)
        return
    library.MoveFileExW.argtypes = [ctypes.c_wchar_p, ctypes.c_wchar_p, ctypes.c_uint32]
    if not library.MoveFileExW(os.fspath(path), os.fspath(target), _REPLACE_EXISTING | _WRITE_THROUGH):
        error: OSError = getattr(ctypes, "WinError")(getattr(ctypes, "get_last_error")())  # noqa: B009
        raise error


def remove_unless_used(path: Path) -> None:
    """Remove a file, if it is there; leave one that is in use, for the next time."""
    with contextlib.suppress(PermissionError):
        path.unlink(missing_ok=True)


def remove_files(folder: Path, is_ours: Callable[[str], bool]) -> None:
    """Remove files from a folder, by name; a folder that is a link is refused."""
    _refuse_link(folder)
    with os.scandir(folder) as found:
        paths = [Path(entry.path) for entry in found if entry.is_file(follow_symlinks=False) and is_ours(entry.name)]
    for path in paths:
        path.unlink()
