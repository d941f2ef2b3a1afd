"""A store of finished steps: an interrupted experiment resumes with what it has computed."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import BinaryIO

import numpy as np

import segmax
from segmax import _core
from segmax.base.errors import ConfigError, WriteError
from segmax.base.files import open_for_update
from segmax.base.progress import ProgressOption, Stage, progress_of
from segmax.base.system import locked, sync_file
from segmax.experiments.outcome import Json


class Steps:
    """Results of steps by what they depend on: in memory and, once opened, in a file with a line of JSON each.

    A line is written and synced after every step, so that an interruption costs only the step in progress. A last line
    that a crash cut short is dropped.

    Parameters
    ----------
    path
        The file; None keeps steps in memory only.
    fresh
        Empty the file first.

    Examples
    --------
    >>> steps = Steps()
    >>> steps.get({"mu": 0.9}, lambda: [1, 2])
    [1, 2]
    >>> steps.get({"mu": 0.9}, lambda: [3, 4])
    [1, 2]
    """

    def __init__(self, path: Path | None = None, *, fresh: bool = False) -> None:
        self.path = path
        self._fresh = fresh
        self._done: dict[str, Json] = {}
        self._earlier: set[str] = set()
        self._file: BinaryIO | None = None
        self._stage: Stage | None = None
        self.num_resumed = 0  #: steps that an earlier run computed

    @contextlib.contextmanager
    def opened(self, progress: ProgressOption = None) -> Iterator[Steps]:
        """Open and lock the file, and show progress; see `segmax.build` for `progress`."""
        with contextlib.ExitStack() as stack:
            if self.path is not None:
                self._file = stack.enter_context(_locked(self.path))
                stack.callback(self._forget_file)
                if self._fresh:
                    self._file.truncate(0)
                self._read(self._file)
            shown = stack.enter_context(progress_of(progress))
            self._stage = stack.enter_context(shown.stage("measure", None, "steps"))
            yield self

    def get(self, key: Mapping[str, Json], compute: Callable[[], Json]) -> Json:
        """Return the stored result for the key, or compute and store it; always as JSON returns it."""
        name = json.dumps(key, sort_keys=True, default=_plain)
        if name in self._earlier:
            self._earlier.remove(name)
            self.num_resumed += 1
        elif name not in self._done:
            self._done[name] = json.loads(json.dumps(compute(), default=_plain))
            self._write(name)
        if self._stage is not None:
            self._stage.advance(1)
        return self._done[name]

    def _forget_file(self) -> None:
        self._file = self._stage = None

    def _read(self, file: BinaryIO) -> None:
        file.seek(0)
        end = 0
        for line in file:
            if not line.endswith(b"\n"):
                break
            end += len(line)
            with contextlib.suppress(ValueError, KeyError, TypeError):  # a damaged step is computed again
                entry = json.loads(line)
                name = json.dumps(entry["key"], sort_keys=True)
                if entry["value"] is not None:  # no step returns nothing
                    self._done[name] = entry["value"]
                    self._earlier.add(name)
        file.truncate(end)
        file.seek(end)

    def _write(self, name: str) -> None:
        if self._file is None:
            return
        line = json.dumps({"key": json.loads(name), "value": self._done[name]})
        try:
            self._file.write(line.encode() + b"\n")
            self._file.flush()
            sync_file(self._file.fileno())
        except OSError as error:
            msg = f"could not write '{self.path}' ({error.strerror or error})"
            raise WriteError(msg, hint="the steps in it can be resumed") from error


@cache
def code_digest() -> str:
    """Return a digest of this code, so that steps that other code measured are not resumed.

    It covers the Python files of segmax and the size of its extension.
    """
    return digest_of(Path(segmax.__file__).parent, Path(_core.__file__))


def digest_of(folder: Path, extension: Path) -> str:
    """Return a digest of the Python files in a folder, their names included, and of the size of an extension."""
    digest = hashlib.sha256(str(extension.stat().st_size).encode())
    for file in sorted(folder.rglob("*.py")):
        digest.update(f"\0{file.relative_to(folder).as_posix()}\0".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[BinaryIO]:
    """Open a file to read and write, locked for this process."""
    try:
        file = open_for_update(path)
    except OSError as error:
        msg = f"could not write '{path}' ({error.strerror or error})"
        raise WriteError(msg) from error
    with file, contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(file, wait=False))
        except OSError as error:
            raise ConfigError(
                where=f"'{path}'",
                expected="a file that no other process uses",
                got="one in use, because the same experiment is running already",
                hint="wait for it, or choose another {out}",
            ) from error
        yield file


def _plain(value: object) -> Json:
    """Return values of numpy as plain ones."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    msg = f"expected a JSON value, got {type(value).__name__}"
    raise TypeError(msg)
