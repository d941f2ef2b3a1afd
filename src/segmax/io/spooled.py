"""Standard input and pipes: read once into a scratch file, because texts are gone through several times."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from segmax.errors import InputError
from segmax.io.scratch import unpacking
from segmax.io.streams import BLOCK_BYTES, reading

#: What stands for standard input.
STANDARD_INPUT = "-"


def is_stream(source: str | os.PathLike[str]) -> bool:
    """Whether a source can be read only once: "-", a named pipe, a shell's <(command)."""
    if os.fspath(source) == STANDARD_INPUT:
        return True
    path = Path(source)
    with reading(path):
        return path.exists() and not path.is_dir() and not stat.S_ISREG(path.stat().st_mode)


class Spooled:
    """A stream in a scratch file that nothing names, so that nothing is left of it, whatever ends the process."""

    def __init__(self, source: str | os.PathLike[str], scratch: Path | None = None) -> None:
        self.name = "standard input" if os.fspath(source) == STANDARD_INPUT else f"'{os.fspath(source)}'"
        with unpacking(Path(source), scratch, verb="keep"):
            self._file: IO[bytes] = tempfile.TemporaryFile(dir=scratch)  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        #: The path of the scratch file, as long as this lives.
        self.path = Path(f"/proc/self/fd/{self._file.fileno()}")
        with reading(Path(source)):
            self._copy(source, scratch)

    def _copy(self, source: str | os.PathLike[str], scratch: Path | None) -> None:
        if os.fspath(source) != STANDARD_INPUT:
            with Path(source).open("rb") as stream:
                self._fill(stream, source, scratch)
        elif sys.stdin is None or sys.stdin.closed:
            raise InputError("standard input is closed; name a file, or pipe something in")
        else:
            self._fill(sys.stdin.buffer, source, scratch)

    def _fill(self, stream: IO[bytes], source: str | os.PathLike[str], scratch: Path | None) -> None:
        while block := stream.read(BLOCK_BYTES):
            with unpacking(Path(source), scratch, verb="keep"):
                self._file.write(block)
        with unpacking(Path(source), scratch, verb="keep"):
            self._file.flush()


def renamed(error: InputError, spools: Iterable[Spooled]) -> InputError:
    """Return an error that calls streams by their names, not by those of their scratch files."""
    told = str(error)
    for spooled in spools:
        told = told.replace(f"'{spooled.path}'", spooled.name)
    return InputError(told)
