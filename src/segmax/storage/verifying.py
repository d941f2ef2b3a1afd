"""Checking what is on disk piece by piece, so that a long check shows how far it is and goes on after damage."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from segmax.base.errors import SegmaxError
from segmax.base.progress import Stage

#: Is called with the number of bytes that were checked.
Advance = Callable[[int], object]


class Piece(NamedTuple):
    """Something that can be checked by itself."""

    name: str  #: what messages call it; "" for the whole
    num_bytes: int
    check: Callable[[Advance], object]  #: raises SegmaxError or OSError if something is wrong


class Damage(NamedTuple):
    """What is wrong with a piece."""

    piece: str
    error: SegmaxError | OSError


def damage_of(pieces: Iterable[Piece], stage: Stage) -> list[Damage]:
    """Check pieces, and return what is wrong with them.

    The last piece is how the others fit together: it is left out if one of them is damaged.
    """
    found: list[Damage] = []
    *parts, whole = pieces
    for piece in parts:
        found += _damage_of_one(piece, stage)
    return found or _damage_of_one(whole, stage)


def _damage_of_one(piece: Piece, stage: Stage) -> list[Damage]:
    before = stage.done
    try:
        piece.check(stage.advance)
    except (SegmaxError, OSError) as error:
        return [Damage(piece.name, error)]
    finally:
        stage.advance(max(0, before + piece.num_bytes - stage.done))
    return []


def folder_bytes(folder: Path) -> int:
    """Return the size of the files in a folder; 0 if it cannot be read."""
    try:
        return sum(file.stat().st_size for file in folder.iterdir() if file.is_file())
    except OSError:
        return 0
