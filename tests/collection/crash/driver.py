"""Runs scripted histories in processes whose file calls go through the shim.

A server is started once, with the shim in front of libc. It imports everything, and makes a process for every run by
`fork`, which takes milliseconds. The process says on a pipe which steps are acknowledged.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import signal
import subprocess
import sys
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

#: What the shim does, as in shim.c.
NOTHING, KILL, KILL_HALF, FAIL, FAIL_HALF = range(5)

_HERE = Path(__file__).resolve().parent


class Run(NamedTuple):
    """What came of a run."""

    status: int  #: 0, or the negative number of the signal that ended it
    acks: tuple[str, ...]
    calls: int  #: how many calls the shim counted; 0 if the run was killed
    error: str


def build_shim(folder: Path) -> Path:
    """Compile the shim."""
    path = folder / "shim.so"
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-O1", "-o", str(path), str(_HERE / "shim.c"), "-ldl", "-pthread"], check=True
    )
    return path


class Server:
    """The server, seen from the tests."""

    def __init__(self, shim: Path) -> None:
        path = os.pathsep.join([str(_HERE.parent), *sys.path])  # segmax is found where this process found it
        self._process = subprocess.Popen(
            [sys.executable, "-m", "crash.driver"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "LD_PRELOAD": str(shim), "PYTHONPATH": path},
        )

    def run(
        self,
        subject: str,
        folder: Path,
        *,
        action: int = NOTHING,
        first: int = 0,
        last: int = 0,
        code: int = 0,
        trace: Path | None = None,
        method: str = "run",
        **options: Any,
    ) -> Run:
        """Run a history in an empty folder. `action` happens to the calls from `first` to `last`."""
        command = {
            "subject": subject,
            "method": method,
            "folder": str(folder),
            "shim": [action, first, last or first, code],
            "trace": None if trace is None else str(trace),
            "options": options,
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        self._process.stdin.flush()
        status, acks, calls, error = json.loads(self._process.stdout.readline())
        return Run(status, tuple(acks), calls, error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()  # its input ends, and so does it


# --- the server ------------------------------------------------------------------------------------------------------


def _serve() -> None:
    for line in sys.stdin.buffer:
        command = json.loads(line)
        module, name = command["subject"].split(":")
        subject = getattr(importlib.import_module(module), name)
        print(json.dumps(_forked(subject, command)), flush=True)  # noqa: T201


def _forked(subject: Any, command: dict[str, Any]) -> tuple[int, list[str], int, str]:
    """Run a history in a process of its own, and return what came of it."""
    acks, says = os.pipe()
    report, reports = os.pipe()
    child = os.fork()
    if child == 0:
        _run(subject, command, says, reports)
    os.close(says)
    os.close(reports)
    with os.fdopen(acks, "rb") as said, os.fdopen(report, "rb") as reported:
        acknowledged = said.read().decode().split()
        calls, _, error = reported.read().decode().partition(" ")
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status, acknowledged, int(calls or 0), error


def _run(subject: Any, command: dict[str, Any], acks: int, reports: int) -> None:
    status, error = 1, ""
    shim = ctypes.CDLL(None)
    try:
        signal.alarm(60)  # a run that hangs is a failure, too
        trace = command["trace"]
        trace_file = -1 if trace is None else os.open(trace, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        action, first, last, code = command["shim"]
        made = subject(**command["options"])
        shim.shim_arm(
            os.fsencode(command["folder"]), trace_file, acks, action, ctypes.c_long(first), ctypes.c_long(last), code
        )
        getattr(made, command["method"])(Path(command["folder"]), lambda step: os.write(acks, f"{step}\n".encode()))
        status = 0
    except BaseException:
        error = traceback.format_exc()
    finally:
        os.write(reports, f"{shim.shim_calls()} {error}".encode())
        os._exit(status)


if __name__ == "__main__":
    _serve()
