"""Standard input, pipes and sockets: read once into a scratch file, because files are read several times."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO

from segmax.base.errors import InputError, SegmaxError
from segmax.base.scratch import scratch_errors
from segmax.base.system import descriptor_of_path, readable_scratch
from segmax.io.compression import BLOCK_BYTES
from segmax.io.read_errors import reading
from segmax.vectors.documents import BaseVectors, VectorBatch, WrappedVectors

#: What stands for standard input.
STANDARD_INPUT = "-"


def is_stream(source: str | os.PathLike[str]) -> bool:
    """Whether a source can be read only once: "-", a named pipe, a socket, a shell's <(command).

    Raises
    ------
    InputError
        If it is a device: /dev/zero has no end.
    """
    if os.fspath(source) == STANDARD_INPUT:
        return True
    path = Path(source)
    with reading(path):
        if not path.exists():
            return False
        mode = path.stat().st_mode
        _check_no_device(mode, f"'{path}'", is_terminal=False)
        return not stat.S_ISDIR(mode) and not stat.S_ISREG(mode)


def _check_no_device(mode: int, name: str, *, is_terminal: bool) -> None:
    if stat.S_ISBLK(mode) or (stat.S_ISCHR(mode) and not is_terminal):
        raise InputError(where=name, expected="a file, a folder or a pipe", got="a device")


class Spooled:
    """A stream in a scratch file, which lives as long as this object."""

    def __init__(self, source: str | os.PathLike[str], scratch: Path | None = None) -> None:
        self.name = "standard input" if os.fspath(source) == STANDARD_INPUT else f"'{os.fspath(source)}'"
        self._scratch = scratch
        with self._scratch_errors():
            kept = readable_scratch(scratch)
        weakref.finalize(self, kept.close)
        self._file = kept.file
        #: The path of the scratch file, as long as this lives.
        self.path = kept.path
        with reading(Path(source)):
            self._copy(source)

    def _copy(self, source: str | os.PathLike[str]) -> None:
        if os.fspath(source) != STANDARD_INPUT:
            with _opened(source) as stream:
                self._fill(stream)
        elif sys.stdin is None or sys.stdin.closed:
            raise InputError("standard input is closed", hint="name a file, or pipe something in")
        else:
            _check_standard_input(self.name)
            self._fill(sys.stdin.buffer)

    def _fill(self, stream: IO[bytes]) -> None:
        while block := stream.read(BLOCK_BYTES):
            with self._scratch_errors():
                self._file.write(block)
        with self._scratch_errors():
            self._file.flush()

    def _scratch_errors(self) -> contextlib.AbstractContextManager[None]:
        return scratch_errors(f"keep {self.name}", self._scratch)


def _opened(source: str | os.PathLike[str]) -> IO[bytes]:
    """Open a stream. A socket has no path that could be opened, only the number of a descriptor."""
    name = "/dev/fd/0" if os.fspath(source) == "/dev/stdin" else os.fspath(source)
    if (descriptor := descriptor_of_path(name)) is not None and Path(name).is_socket():
        return os.fdopen(os.dup(descriptor), "rb")
    return Path(source).open("rb")


def _check_standard_input(name: str) -> None:
    """Refuse a device that is no terminal; tests and notebooks put objects there that are no files."""
    with contextlib.suppress(OSError, AttributeError):
        mode = os.fstat(sys.stdin.fileno()).st_mode
        _check_no_device(mode, name, is_terminal=sys.stdin.isatty())


def _with_names(text: str, spools: Iterable[Spooled]) -> str:
    for spooled in spools:
        text = text.replace(f"'{spooled.path}'", spooled.name)
    return text


@contextlib.contextmanager
def in_file(source: str | os.PathLike[str], scratch: Path | None = None) -> Iterator[Path]:
    """Give the path of a file with what the source holds: itself, or a scratch file; errors name the source."""
    if not is_stream(source):
        yield Path(source)
        return
    spooled = Spooled(source, scratch)
    with renaming([spooled]):
        yield spooled.path


@contextlib.contextmanager
def renaming(spools: Iterable[Spooled]) -> Iterator[None]:
    """Call streams by their names in errors, not by those of their scratch files."""
    try:
        yield
    except SegmaxError as error:
        if not (named := list(spools)):
            raise
        raise error.edited(lambda text: _with_names(text, named)) from error


class SpooledVectors(WrappedVectors):
    """A reader of scratch files, which live as long as it does; its errors name the streams."""

    def __init__(self, reader: BaseVectors, spools: Sequence[Spooled]) -> None:
        super().__init__(reader)
        self._spools = spools

    @property
    def num_docs(self) -> int | None:
        """How many there are, where the reader knows."""
        with renaming(self._spools):
            return super().num_docs

    @property
    def paths(self) -> Sequence[Path]:
        """None: the names of scratch files mean nothing to anybody."""
        return ()

    @property
    def name(self) -> str:
        """The names of the streams."""
        return ", ".join(spooled.name for spooled in self._spools)

    def place_of(self, row: int) -> str:
        """Return where a row is, for messages."""
        return _with_names(super().place_of(row), self._spools)

    def batches(self) -> Iterator[VectorBatch]:
        """Yield everything, once."""
        with renaming(self._spools):
            yield from self._reader.batches()


def opened_in_files(
    sources: Sequence[str | os.PathLike[str]], scratch: Path | None, opened: Callable[[list[Path]], BaseVectors]
) -> BaseVectors:
    """Return what opens files, given streams as scratch files."""
    spools = {source: Spooled(source, scratch) for source in dict.fromkeys(sources) if is_stream(source)}
    paths = [spools[source].path if source in spools else Path(source) for source in sources]
    if not spools:
        return opened(paths)
    kept = list(spools.values())
    with renaming(kept):
        return SpooledVectors(opened(paths), kept)
