"""What a fuzz target is, and what all of them share.

A target is a function of bytes. Whatever the bytes are, it returns, having met only errors that segmax documents; any
other exception, a crash, a hang, too much memory or a write outside of its scratch folder is a finding.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from segmax.errors import SegmaxError

#: Inputs that are kept, by target: seeds, and whatever was found.
CORPUS = Path(__file__).resolve().parent / "corpus"

Run = Callable[[bytes], None]
Seeds = Callable[[], dict[str, bytes]]
Mutate = Callable[[bytes, int], bytes]  #: of an input and a random seed


class Target(NamedTuple):
    """A target.

    Parameters
    ----------
    name
        What it is called; its corpus is the folder of this name.
    run
        The function under test.
    seeds
        Makes valid inputs, by file name.
    mutate
        Changes an input in a way that its format survives; None: any bytes will do.
    """

    name: str
    run: Run
    seeds: Seeds
    mutate: Mutate | None = None


#: All targets in Python by name; those in C++ are programs, see `native.py`.
TARGETS: dict[str, Target] = {}


def target(seeds: Seeds, mutate: Mutate | None = None) -> Callable[[Run], Run]:
    """Make a function a target of its own name."""

    def add(run: Run) -> Run:
        TARGETS[run.__name__] = Target(run.__name__, run, seeds, mutate)
        return run

    return add


def outcome(call: Callable[[], Any]) -> str | None:
    """Return what is wrong in the words of segmax; None if nothing is. Anything but a SegmaxError comes through."""
    try:
        call()
    except SegmaxError as error:
        return str(error)
    return None


# --- a folder to write to, and nowhere else --------------------------------------------------------------------------


@functools.cache
def scratch() -> Path:
    """Return a folder of this process, in memory where that can be; it is removed at the end."""
    memory = Path("/dev/shm")
    where = memory if memory.is_dir() and os.access(memory, os.W_OK) else None
    path = Path(tempfile.mkdtemp(prefix="segmax-fuzz-", dir=where)).resolve()
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def folder(name: str) -> Path:
    """Return an empty folder below `scratch`."""
    path = scratch() / name
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def written(name: str, data: bytes) -> Path:
    """Return a file below `scratch` with this content."""
    path = scratch() / name
    path.write_bytes(data)
    return path


class OutsideError(BaseException):
    """Something was about to be changed outside of the scratch folder, or a program to be started."""


_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
#: By event: the arguments that are paths which it changes.
_CHANGES = {
    "os.chmod": (0,), "os.link": (1,), "os.mkdir": (0,), "os.remove": (0,), "os.rename": (0, 1), "os.rmdir": (0,),
    "os.symlink": (1,), "os.truncate": (0,), "shutil.rmtree": (0,),
}  # fmt: skip
_NEVER = ("os.exec", "os.fork", "os.posix_spawn", "os.system", "socket.connect", "subprocess.Popen")
_guarded = False


@contextlib.contextmanager
def inside_scratch() -> Iterator[None]:
    """Raise OutsideError for whatever Python code does meanwhile to files elsewhere, to programs or to the network."""
    global _guarded  # an audit hook cannot be removed, so it is told when to look
    before, tempfile.tempdir = tempfile.tempdir, str(scratch())  # where code under test has its own
    _add_hook()
    _guarded = True
    try:
        yield
    finally:
        _guarded = False
        tempfile.tempdir = before


@functools.cache
def _add_hook() -> None:
    root = str(scratch())

    def is_inside(path: object) -> bool:
        if isinstance(path, int):  # a descriptor that is open already
            return True
        place = os.path.abspath(os.fsdecode(path))  # type: ignore[arg-type]  # noqa: PTH100
        return place in (os.devnull, root) or place.startswith((root + os.sep, "/proc/self/fd/"))

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if not _guarded:
            return
        if event == "open":
            path, _, flags = arguments
            if flags & _WRITING and not is_inside(path):
                raise OutsideError(event, path)
        elif event in _NEVER:
            raise OutsideError(event, *arguments)
        elif event in _CHANGES:
            # Paths that are relative to an open folder come with its descriptor, and start where that is.
            for number in _CHANGES[event]:
                relative = arguments[-1] not in (-1, None) and isinstance(arguments[-1], int)
                if not relative and not is_inside(arguments[number]):
                    raise OutsideError(event, arguments[number])

    sys.addaudithook(hook)
