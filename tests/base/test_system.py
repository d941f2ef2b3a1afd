"""What differs between systems: it works here, and only `base/system/` asks for it. tests/portable has the others."""

from __future__ import annotations

import ast
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import segmax
from segmax.base import system
from segmax.base.memory import fast_bytes

SOURCE = Path(segmax.__file__).parent
MODULES = {"fcntl", "msvcrt", "signal", "resource", "pwd", "grp", "termios", "tty"}
DOOR = SOURCE / "base" / "system"
FUNCTIONS = {
    *("sched_getaffinity", "madvise", "MADV_HUGEPAGE", "sysconf", "fork", "setpgid", "preexec_fn", "process_group"),
    *("O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_DIRECTORY", "O_TMPFILE", "O_BINARY"),
    *("pread", "preadv", "pwrite", "pwritev", "fsync", "fdatasync", "dir_fd", "register_at_fork", "waitpid", "WNOHANG"),
    *("setpriority", "posix_fallocate", "posix_fadvise", "mkfifo", "statvfs", "SO_REUSEADDR", "SO_REUSEPORT"),
}


def uses(tree: ast.AST) -> Iterator[str]:
    """Yield the names in a module that only Linux, or only POSIX, has."""
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                yield from MODULES & {alias.name.split(".")[0] for alias in node.names}
            case ast.ImportFrom(module=str(name)):
                yield from MODULES & {name.split(".")[0]}
            case ast.Attribute(attr=name) | ast.keyword(arg=str(name)) if name in FUNCTIONS:
                yield name
            case ast.Constant(value=str(text)) if text.startswith(("/proc", "/sys")):
                yield text


def test_one_door() -> None:
    """No other module asks the system for what only Linux has."""
    found = {
        f"{file.relative_to(SOURCE)}: {use}"
        for file in SOURCE.rglob("*.py")
        for use in uses(ast.parse(file.read_text()))
        if file.parent != DOOR
    }
    assert found == set()


def test_the_door_is_found() -> None:
    """The check above can fail: it sees every use in the module that is allowed to have them."""
    found = {use for file in DOOR.glob("*.py") for use in uses(ast.parse(file.read_text()))}
    assert found >= {"fcntl", "signal", "sched_getaffinity", "madvise", "O_NOFOLLOW", "/proc/cpuinfo", "sysconf"}
    assert found >= {"fsync", "pwritev", "dir_fd", "setpgid", "SO_REUSEADDR"}


def test_one_process_at_a_time_holds_a_lock(tmp_path: Path) -> None:
    """A lock that is held is refused to others, and free again afterwards."""
    path = tmp_path / "file"
    path.touch()
    with path.open("rb") as first, path.open("rb") as second:
        with system.locked(first), pytest.raises(BlockingIOError), system.locked(second, wait=False):
            pass
        with system.locked(second, wait=False):
            pass


def test_one_writer_at_a_time_has_a_folder(tmp_path: Path) -> None:
    """The second waits until the first is done."""
    events: list[str] = []
    begins = threading.Event()

    def write() -> None:
        begins.set()
        with system.locked_folder(tmp_path):
            events.append("second")

    with system.locked_folder(tmp_path):
        thread = threading.Thread(target=write)
        thread.start()
        assert begins.wait(60)
        thread.join(0.2)
        events.append("first")
    thread.join()
    assert events == ["first", "second"]


def test_interrupts_wait() -> None:
    """Ctrl-C is ignored inside, and raises again outside."""
    with system.without_interrupts():
        os.kill(os.getpid(), signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_threads_leave_signals_alone() -> None:
    """Python allows handlers to be set in the main thread only."""
    errors: list[BaseException] = []

    def work() -> None:
        try:
            with system.without_interrupts():
                pass
        except ValueError as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert errors == []


def test_the_machine() -> None:
    """What the machine reports is plausible."""
    assert 1 <= system.num_cores() <= (os.cpu_count() or 1)
    assert system.cpu_name()
    assert 2**20 < system.anonymous_memory() < system.total_memory()


@pytest.mark.parametrize("size", [0, 1, 5 * 2**20 + 3])
def test_fast_bytes_are_zeroed(size: int) -> None:
    """Small or in huge pages: zeros, and writable."""
    memory = fast_bytes(size)
    assert memory.shape == (size,)
    assert not np.any(memory)
    memory[:] = 1


def test_a_scratch_file_has_a_path(tmp_path: Path) -> None:
    """It can be opened again as long as it is open, although nothing in the folder names it."""
    kept = system.readable_scratch(tmp_path)
    kept.file.write(b"text")
    kept.file.flush()
    assert kept.path.read_bytes() == b"text"
    assert system.descriptor_of_path(str(kept.path)) == kept.file.fileno()
    assert list(tmp_path.iterdir()) == []
    kept.close()
