"""Checking every byte of an index."""

from __future__ import annotations

from pathlib import Path

from segmax.search.index import Index
from segmax.storage.reading import load_index
from segmax.storage.verifying import Advance, Piece, folder_bytes


def index_piece(path: Path, name: str = "", *, quick: bool = False) -> Piece:
    """Return an index as something to check; if `quick`, its description, its tables and the sizes of its files."""

    def check(advance: Advance) -> None:
        meta, arrays = load_index(path, preload=False, verify=not quick, advance=advance)
        Index(meta, arrays, path).close()

    return Piece(name, 0 if quick else folder_bytes(path), check)
