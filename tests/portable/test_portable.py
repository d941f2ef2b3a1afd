"""What segmax does on macOS and on Windows, forced here: their ways are taken, and what they have not is taken away."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import inspect
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from portable.scenarios import SCENARIOS, files, locks
from segmax.base.system import linux, macos, portable, posix, windows

HERE = Path(__file__).parent
#: The modules of each system; what comes later wins.
SYSTEMS: dict[str, tuple[ModuleType, ...]] = {
    "linux": (portable, posix, linux),
    "macos": (portable, posix, macos),
    "windows": (portable, windows),
}


def door(system: str) -> dict[str, Any]:
    """What `segmax.base.system` offers on a system."""
    return {name: getattr(module, name) for module in SYSTEMS[system] for name in module.__all__}


def pretending(system: str) -> dict[str, str]:
    """The environment of a process that takes itself to be on a system."""
    path = os.pathsep.join([str(HERE / "site"), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "SEGMAX_SYSTEM": system, "PYTHONPATH": path}


@pytest.mark.parametrize(
    "scenario", [pytest.param(one, marks=() if one in (files, locks) else pytest.mark.deep) for one in SCENARIOS]
)
@pytest.mark.parametrize("system", ["macos", "windows"])
def test_what_users_do(tmp_path: Path, system: str, scenario: Callable[[Path], None]) -> None:
    """Every scenario works in a process that has only what the system has."""
    program = [sys.executable, "-W", "error", str(HERE / "scenarios.py"), scenario.__name__, str(tmp_path)]
    done = subprocess.run(program, env=pretending(system), capture_output=True, text=True, check=False)
    assert done.stdout.endswith(f"{system} done\n"), done.stderr


def test_the_pretense_is_one() -> None:
    """In such a process the names are gone, files in use are guarded, and folders cannot be opened."""
    program = """
import os, tempfile
assert not hasattr(os, "pwritev") and not hasattr(os, "fork") and not hasattr(os, "O_NOFOLLOW")
try:
    import fcntl
except ImportError:
    pass
else:
    raise AssertionError("fcntl")
folder = tempfile.mkdtemp()
with open(f"{folder}/file", "wb"):
    removes, renames = (lambda: os.unlink(f"{folder}/file")), (lambda: os.rename(folder, f"{folder}2"))
    for call in (removes, renames, lambda: os.open(folder, 0)):
        try:
            call()
        except PermissionError:
            continue
        raise AssertionError("in use")
os.unlink(f"{folder}/file")
"""
    subprocess.run([sys.executable, "-c", program], env=pretending("windows"), check=True)


@pytest.mark.parametrize("system", ["macos", "windows"])
def test_systems_offer_the_same(system: str) -> None:
    """Every name is there on every system, and is called in the same way."""
    here, there = door("linux"), door(system)
    assert set(here) == set(there)
    for name, value in here.items():
        if inspect.isfunction(value):
            parameters = inspect.signature(value).parameters
            assert list(inspect.signature(there[name]).parameters) == list(parameters), name


def test_macos_syncs_to_the_disk_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plain call would leave it in the disk's cache, and is for drives that know no other. A failure is one."""
    calls: list[object] = []
    code = 0

    def control(descriptor: int, command: int) -> int:
        calls.append(command)
        if code:
            raise OSError(code, os.strerror(code))
        return 0

    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", control)
    monkeypatch.setattr(os, "fsync", lambda descriptor: calls.append("fsync"))
    macos.sync_folder(tmp_path)
    assert calls == [51]
    code = errno.ENOTSUP
    macos.sync_folder(tmp_path)
    assert calls == [51, 51, "fsync"]
    code = errno.EIO
    with pytest.raises(OSError, match="Input/output error"):
        macos.sync_folder(tmp_path)
    assert calls == [51, 51, "fsync", 51]


class Library:
    """A stand-in for kernel32."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []
        self.busy = 0
        self.MoveFileExW = self._recorded(self.move)
        self.GlobalMemoryStatusEx = self._recorded(self.memory)
        self.GetCurrentProcess = self._recorded(lambda: 7)
        self.K32GetProcessMemoryInfo = self._recorded(self.process)

    def _recorded(self, call: Callable[..., int]) -> Any:
        class Function:
            """A function that takes attributes, as those of ctypes do."""

            argtypes: object = None
            restype: object = None

            def __call__(_, *arguments: Any) -> int:
                self.calls.append(arguments)
                return call(*arguments)

        return Function()

    def move(self, source: str, target: str, flags: int) -> int:
        """Refuse as long as somebody has the file open."""
        self.busy -= 1
        if self.busy >= 0:
            return 0
        Path(source).replace(target)
        return 1

    def memory(self, content: Any) -> int:
        """Fill MEMORYSTATUSEX if its first number is its size."""
        assert struct.unpack_from("=I", content)[0] == len(content) == 64
        struct.pack_into("=Q", content, 8, 16 * 2**30)
        return 1

    def process(self, handle: int, content: Any, size: int) -> int:
        """Fill PROCESS_MEMORY_COUNTERS_EX."""
        assert (handle, size) == (7, len(content)) == (7, 80)
        struct.pack_into("=Q", content, 72, 123)
        return 1


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    """A library that `ctypes` loads."""
    made = Library()
    monkeypatch.setattr(ctypes, "WinDLL", lambda name, use_last_error: made, raising=False)
    monkeypatch.setattr(ctypes, "get_last_error", lambda: 32, raising=False)
    monkeypatch.setattr(ctypes, "WinError", lambda code: PermissionError(errno.EACCES, f"error {code}"), raising=False)
    return made


def test_windows_replaces_a_file_on_disk(tmp_path: Path, library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rename waits for a reader that has the file open, and for the disk; at some point it gives up."""
    source, target = tmp_path / "new", tmp_path / "file"
    source.write_bytes(b"new")
    library.busy = 2
    windows.replace_file(source, target)
    assert target.read_bytes() == b"new"
    assert library.calls == [(str(source), str(target), 1 | 8)] * 3
    monkeypatch.setattr(windows, "_PATIENCE_SECONDS", 0.05)
    library.busy = 10**6
    with pytest.raises(PermissionError, match="error 32"):
        windows.replace_file(target, source)


def test_windows_tells_its_memory(library: Library) -> None:
    """The figures are taken from the structures where they are."""
    assert windows.total_memory() == 16 * 2**30
    assert windows.anonymous_memory() == 123


def test_systems_that_tell_nothing() -> None:
    """Where no library answers, there are figures all the same."""
    assert windows.total_memory() == portable.total_memory() > 0
    assert windows.anonymous_memory() == macos.anonymous_memory() == 0
    assert macos.cpu_name()
    assert portable.num_cores() >= 1


def test_workers_need_linux() -> None:
    """What only Linux does says so."""
    for call in (portable.leave_group, lambda: portable.stop_process(1)):
        with pytest.raises(OSError, match="needs Linux; run one"):
            call()
