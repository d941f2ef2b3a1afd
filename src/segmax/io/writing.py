"""Writing files: completely or not at all, compressed by suffix, and never over an existing file by accident."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from segmax.base.errors import IndexExistsError, InputError
from segmax.base.files import replacing, write_errors
from segmax.io.compression import SUFFIXES, compressed


def check_free(path: Path, *, overwrite: bool) -> None:
    """Raise if there is something at the path that may not be replaced, or no folder to put it in."""
    if not path.absolute().parent.is_dir():
        raise InputError(expected="an existing directory to put the file in", got=f"'{path.parent}'")
    if path.is_dir():
        raise IndexExistsError(
            expected="the path of a file", got=f"the directory '{path}'", hint="choose another name for the file"
        )
    if path.exists() and not overwrite:
        raise IndexExistsError(f"'{path}' exists already", hint="pass {overwrite=True} to replace it")


def check_beside(sides: Iterable[Path], *, overwrite: bool) -> None:
    """Raise if there are files where the companions of a file belong: they would be lost, or be read as its own."""
    for side in sides:
        check_free(side, overwrite=overwrite)


def taken_for(side: Path, what: str, path: Path, *, hint: str) -> InputError:
    """Return the error about a file that a reader would take for a companion of one that is written without."""
    return InputError(
        where=f"'{path}'",
        expected=f"no file beside it that would be taken for its {what}, of which it has none",
        got=f"'{side}'",
        hint=hint,
    )


def remove_stale(sides: Iterable[Path]) -> None:
    """Remove files that lay beside a file that was replaced: they describe the old one."""
    for side in sides:
        side.unlink(missing_ok=True)


@contextlib.contextmanager
def write_whole(path: Path, *, overwrite: bool, compress: bool = True) -> Iterator[BinaryIO]:
    """Open a file that appears at `path` once it is complete and on disk, compressed if its suffix asks for it."""
    check_free(path, overwrite=overwrite)
    kind = SUFFIXES.get(path.suffix.lower()) if compress else None
    with write_errors(path), replacing(path) as file:
        if kind is None:
            yield file
        else:
            with compressed(kind, path, file) as stream:
                yield stream
