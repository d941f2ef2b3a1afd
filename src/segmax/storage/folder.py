"""The folder of an index: which files in it are ours, which of those are current, and whether a build may write."""

from __future__ import annotations

from pathlib import Path

from segmax.base.errors import FormatError, IndexExistsError, IndexNotFoundError
from segmax.base.system import remove_unless_used
from segmax.storage.components import COMPONENTS
from segmax.storage.meta import (
    COMPONENT_NAME,
    META_NAME,
    OLDEST_UPGRADABLE_VERSION,
    claims_to_be_an_index,
    read_meta,
)

#: What meta.json is called until it is whole.
NEW_META_NAME = f"{META_NAME}.new"
#: Components of version 3 that there are no more.
_FORMER = ("segment_sum", "span_max")


def next_generation(path: Path, *, overwrite: bool) -> int:
    """Return the number for the files of a new index at the path.

    Raises
    ------
    IndexNotFoundError
        If the folder around the path does not exist.
    IndexExistsError
        If something is at the path, unless it is an index and `overwrite` is True, or what an interrupted build left.
    """
    if not path.exists():
        if not path.parent.is_dir():
            raise IndexNotFoundError(
                expected="an existing directory to put the index in", got=f"'{path.parent}'", hint="create it first"
            )
        return 1
    leftovers = path.is_dir() and not (path / META_NAME).exists()
    if leftovers and all(_is_own_file(entry.name) for entry in path.iterdir()):
        return 1  # an empty directory, or what an interrupted build left
    if not overwrite:
        raise IndexExistsError(
            f"'{path}' exists", hint="choose another path, or pass {overwrite=True} to replace an index"
        )
    if not path.is_dir() or leftovers or not _holds_an_index(path):
        raise IndexExistsError(
            f"'{path}' exists and is not a segmax index",
            hint="{overwrite=True} does not replace it; choose another path",
        )
    generations = [int(match[2]) for entry in path.iterdir() if (match := COMPONENT_NAME.fullmatch(entry.name))]
    return max(generations, default=0) + 1


def _holds_an_index(path: Path) -> bool:
    """Whether the directory is ours: it has a meta.json of ours, or component files beside a damaged one."""
    return claims_to_be_an_index(path) or any(_is_own_file(entry.name) for entry in path.iterdir())


def _is_own_file(name: str) -> bool:
    match = COMPONENT_NAME.fullmatch(name)
    return name == NEW_META_NAME or (match is not None and (match[1] in COMPONENTS or match[1] in _FORMER))


def remove_old_files(path: Path) -> None:
    """Remove the files of ours that the current meta.json does not name."""
    current = _current_files(path)
    for entry in path.iterdir():
        if _is_own_file(entry.name) and entry.name not in current:
            remove_unless_used(entry)


def _current_files(path: Path) -> set[str]:
    """Return the files that the current meta.json names; all files where it cannot be read."""
    try:
        return {entry["file"] for entry in read_meta(path, OLDEST_UPGRADABLE_VERSION)["files"].values()}
    except IndexNotFoundError:
        return set()
    except FormatError:
        return {entry.name for entry in path.iterdir()} if (path / META_NAME).exists() else set()
