"""What other systems have not, and stand-ins for what only they have."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
import shutil
import signal
import struct
import sys
import tempfile
import threading
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

#: What macOS has not, by module.
NOT_ON_MACOS: dict[types.ModuleType, str] = {
    os: "sched_getaffinity sched_setaffinity fdatasync preadv pwritev posix_fallocate posix_fadvise O_TMPFILE",
    signal: "sigtimedwait sigwaitinfo",
    mmap: "MADV_HUGEPAGE",
}
#: What Windows has not, by module; beside fcntl as a whole.
NOT_ON_WINDOWS: dict[types.ModuleType, str] = {
    os: f"{NOT_ON_MACOS[os]} fork register_at_fork sysconf setpriority PRIO_PROCESS pread pwrite setpgid "
    "mkfifo O_NOFOLLOW O_NONBLOCK O_NOCTTY O_CLOEXEC O_DIRECTORY statvfs",
    signal: f"{NOT_ON_MACOS[signal]} SIGCHLD pthread_sigmask sigpending",
    mmap: f"{NOT_ON_MACOS[mmap]} MAP_PRIVATE MAP_SHARED MAP_ANONYMOUS PROT_READ",
}
_FULL_SYNC = 51  # F_FULLFSYNC
_NO_MODULE: Any = None
# Between the question whether a file is in use and its removal, nobody opens it.
_GUARD = threading.RLock()


def start(system: str) -> None:
    """Take away what a system has not, and add what it has."""
    hidden = NOT_ON_MACOS if system == "macos" else NOT_ON_WINDOWS
    for module, names in hidden.items():
        for name in names.split():
            if hasattr(module, name):
                delattr(module, name)
    tempfile._O_TMPFILE_WORKS = False  # type: ignore[attr-defined]
    if system == "macos":
        add_full_sync()
    else:
        sys.modules["fcntl"] = _NO_MODULE
        sys.modules["msvcrt"] = lock_module()
        guard_files()
        temporary: Any = tempfile
        temporary.TemporaryFile = tempfile.NamedTemporaryFile  # as there, where every file has a name


def add_full_sync() -> None:
    """Add F_FULLFSYNC to fcntl."""
    real: Any = fcntl.fcntl

    def call(descriptor: Any, command: int, *rest: Any) -> Any:
        return os.fsync(descriptor) if command == _FULL_SYNC else real(descriptor, command, *rest)

    fcntl.F_FULLFSYNC = _FULL_SYNC  # type: ignore[attr-defined]
    fcntl.fcntl = call


# --- Windows ---------------------------------------------------------------------------------------------------------


def lock_module() -> types.ModuleType:
    """Return a stand-in for msvcrt. Like there, a lock belongs to one opening of a file, and is on a range of bytes."""
    made: Any = types.ModuleType("msvcrt")
    made.LK_UNLCK, made.LK_LOCK, made.LK_NBLCK = 0, 1, 2
    control, command, write, none = fcntl.fcntl, fcntl.F_OFD_SETLK, fcntl.F_WRLCK, fcntl.F_UNLCK

    def locking(descriptor: int, mode: int, count: int) -> None:
        place = os.lseek(descriptor, 0, os.SEEK_CUR)
        kind = none if mode == made.LK_UNLCK else write
        try:
            control(descriptor, command, struct.pack("hh4xqqi4x", kind, os.SEEK_SET, place, count, 0))
        except OSError as error:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES)) from error

    made.locking = locking
    return made


def in_use(path: Path) -> bool:
    """Whether this process has a file open or mapped, or one in a folder."""
    if path.is_symlink() or not path.exists():
        return False
    real = path.resolve()
    return any(real == used or (real in used.parents and path.is_dir()) for used in used_files())


def used_files() -> Iterator[Path]:
    """Yield the paths of all files that this process has open or mapped."""
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # that of the listing itself
            yield descriptor.readlink()
    for line in Path("/proc/self/maps").read_text("utf-8", "surrogateescape").splitlines():
        place = line.split(None, 5)[5:]
        if place and place[0].startswith("/"):
            yield Path(place[0])


def guard_files() -> None:
    """Let calls fail that fail on Windows: opening a folder; replacing, renaming or removing what is in use."""
    shutil._use_fd_functions = False  # type: ignore[attr-defined]
    real_open = os.open

    def guarded_open(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        if not isinstance(path, int) and Path(path).is_dir():
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(path))
        with _GUARD:
            return real_open(path, flags, *rest, **more)

    os.open = guarded_open
    for name in ("unlink", "remove", "rename", "replace"):
        setattr(os, name, guarded(getattr(os, name)))


def guarded(call: Callable[..., None]) -> Callable[..., None]:
    """Return a function that refuses paths in use."""

    def refusing(*paths: Any, **more: Any) -> None:
        with _GUARD:
            for path in paths:
                if isinstance(path, (str, Path)) and in_use(Path(path)):
                    raise PermissionError(errno.EACCES, "it is in use", os.fspath(path))
            call(*paths, **more)

    return refusing
