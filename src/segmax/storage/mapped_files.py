"""Whether the files of an open index are as long as they were: reading a map beyond its file ends the process."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from segmax.base.errors import FormatError, damaged
from segmax.storage.component_file import FOOTER_BYTES
from segmax.storage.meta import OLDEST_UPGRADABLE_VERSION, read_meta


class MappedFile(NamedTuple):
    """A file as it was when it was mapped."""

    path: Path
    size: int
    identity: tuple[int, int]  #: of the file, which another one of this name does not have


def mapped_files(folder: Path) -> list[MappedFile]:
    """Return the files that an index which was just opened has mapped.

    Raises
    ------
    SegmaxError
        If the index is no longer there.
    """
    found = []
    for entry in read_meta(folder, OLDEST_UPGRADABLE_VERSION)["files"].values():
        path = folder / entry["file"]
        try:
            status = path.stat()
        except OSError:
            continue  # an index that takes its place removes it; the map stays
        found.append(MappedFile(path, int(entry["bytes"]) + FOOTER_BYTES, (status.st_dev, status.st_ino)))
    return found


def shortened(files: Iterable[MappedFile]) -> FormatError | None:
    """Return the error about the first file that has lost its end; None if all are whole, or were replaced."""
    for path, size, identity in files:
        try:
            status = path.stat()
        except OSError:
            continue
        if (status.st_dev, status.st_ino) == identity and status.st_size < size:
            return damaged(f"'{path.name}' has {status.st_size} bytes and should have {size}", path.parent)
    return None
