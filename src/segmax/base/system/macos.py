"""What macOS has in its own way. Other systems with POSIX take it, too: what they have not falls back."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

from segmax.base.system import portable
from segmax.base.system.posix import opened_folder

__all__ = [
    "anonymous_memory",
    "cpu_name",
    "read_some",
    "sync_data",
    "sync_file",
    "sync_folder",
    "total_memory",
    "write_some",
]

_UNKNOWN_CALL = (errno.ENOTSUP, errno.ENOTTY, errno.EINVAL)  # what a network drive may answer
_MOST_BYTES = 1 << 30  # of one system call; macOS refuses 2 GiB and more


# --- the machine -----------------------------------------------------------------------------------------------------


def cpu_name() -> str:
    """Return the name of the processor."""
    try:
        found = subprocess.run(
            ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return portable.cpu_name()
    return found.stdout.strip() or portable.cpu_name()


def total_memory() -> int:
    """Return the memory of this machine in bytes."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return portable.total_memory()


def anonymous_memory() -> int:
    """Return the memory that this process holds and no file backs, in bytes: what macOS calls its footprint."""
    content = ctypes.create_string_buffer(1024)
    try:
        call = ctypes.CDLL("/usr/lib/libproc.dylib").proc_pid_rusage
    except OSError:
        return portable.anonymous_memory()
    # struct rusage_info_v0: a UUID, then numbers of 64 bits, of which ri_phys_footprint is the eighth.
    if call(os.getpid(), 0, content) != 0:
        return portable.anonymous_memory()
    found: int = struct.unpack_from("=16s8Q", content)[8]
    return found


# --- files -----------------------------------------------------------------------------------------------------------


def write_some(descriptor: int, pieces: Sequence[memoryview], offset: int) -> int:
    """Write the first piece to a place of a file, or part of it; return how many bytes were written."""
    return os.pwrite(descriptor, pieces[0][:_MOST_BYTES], offset)


def read_some(descriptor: int, content: memoryview, offset: int) -> int:
    """Read from a place of a file into a buffer; return how many bytes came, 0 at the end."""
    found = os.pread(descriptor, min(len(content), _MOST_BYTES), offset)
    content[: len(found)] = found
    return len(found)


def sync_file(descriptor: int) -> None:
    """Make a file safe on disk. On macOS, `fsync` hands it to the disk, which may keep it in a cache for a while."""
    command = getattr(fcntl, "F_FULLFSYNC", None)
    if command is not None:
        try:
            fcntl.fcntl(descriptor, command)
        except OSError as error:
            if error.errno not in _UNKNOWN_CALL:
                raise  # nobody knows what is on disk now, and a second sync might pretend that all is well
        else:
            return
    os.fsync(descriptor)


def sync_data(descriptor: int) -> None:
    """Make the content of a file safe on disk."""
    sync_file(descriptor)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder safe on disk."""
    with opened_folder(folder) as descriptor:
        sync_file(descriptor)
