"""A store of finished steps: what an interrupted experiment has computed is not computed again."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
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
from segmax.base.system import locked
from segmax.experiments.outcome import Json


class Steps:
    """Results of steps by what they depend on, in memory and, once opened, in a file of a line of JSON each.

    A line is written and synced after every step, so that an interruption costs the step under way. A last line that a
    crash cut short is dropped.

    Parameters
    ----------
    path
        The file; None keeps steps in memory only.
    fresh
        Forget what the file holds.

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
        self.num_computed = 0  #: steps that this run has computed
        self.num_resumed = 0  #: steps that an earlier run had computed

    @contextlib.contextmanager
    def opened(self, progress: ProgressOption = None) -> Iterator[Steps]:
        """Hold the file open, for nobody else to write, and show how many steps are done; see `segmax.build`."""
        with contextlib.ExitStack() as stack:
            if self.path is not None:
                self._file = stack.enter_context(_locked(self.path))
                stack.callback(self._forget_file)
                if self._fresh:
                    self._file.truncate(0)
                self._read(self._file)
            told = stack.enter_context(progress_of(progress))
            self._stage = stack.enter_context(told.stage("measure", None, "steps"))
            yield self

    def get(self, key: Mapping[str, Json], compute: Callable[[], Json]) -> Json:
        """Return what is kept for the key, or compute and keep it; always as JSON gives it back."""
        name = json.dumps(key, sort_keys=True, default=_plain)
        if name in self._earlier:
            self._earlier.remove(name)
            self.num_resumed += 1
        elif name not in self._done:
            self._done[name] = json.loads(json.dumps(compute(), default=_plain))
            self._write(name)
            self.num_computed += 1
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
            with contextlib.suppress(ValueError, KeyError, TypeError):  # a damaged line is computed again
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
            os.fsync(self._file.fileno())
        except OSError as error:
            msg = f"could not write '{self.path}' ({error.strerror or error}); what it holds can be resumed"
            raise WriteError(msg) from error


@cache
def code_digest() -> str:
    """Return what tells this code from other code of the same version: steps that other code has measured are not its.

    It is made of the Python files of segmax and of the size of its extension, which has no text to compare.
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
    """Open a file to be read and written, for this process alone."""
    try:
        file = open_for_update(path)
    except OSError as error:
        msg = f"could not write '{path}' ({error.strerror or error})"
        raise WriteError(msg) from error
    with file, contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(file, wait=False))
        except OSError as error:
            msg = f"'{path}' is in use: the same experiment runs already; wait for it, or choose another --out"
            raise ConfigError(msg) from error
        yield file


def _plain(value: object) -> Json:
    """Return what numpy computed as JSON has it."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    msg = f"expected what JSON can hold, got {type(value).__name__}"
    raise TypeError(msg)
