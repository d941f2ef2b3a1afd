"""Checking every byte of a collection."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from segmax.base.errors import IndexNotFoundError, damaged_collection
from segmax.base.progress import Progress, Stage
from segmax.collection.array_file import read_arrays
from segmax.collection.changes import CHANGE, from_pieces
from segmax.collection.collection import Collection
from segmax.collection.log import Log
from segmax.collection.manifest import Manifest, read_manifest
from segmax.storage.reading import load_index
from segmax.storage.verifying import Advance, Damage, Piece, damage_of, folder_bytes

_RETRIES = 20  # where a writer goes on meanwhile, and merges parts away


def collection_damage(path: Path, stage: Stage, *, quick: bool = False) -> list[Damage]:
    """Check the manifest, every byte of every part, and the log; return what is wrong with them.

    Parameters
    ----------
    path
        The folder. A writer may go on meanwhile.
    stage
        Gets the bytes that were checked.
    quick
        Of parts, check only descriptions, tables and the sizes of files.

    Raises
    ------
    FormatError
        If the manifest is damaged: nothing else can be found then.
    """
    for _ in range(_RETRIES):
        manifest = read_manifest(path)
        found = damage_of(_pieces(path, manifest, quick=quick), stage)
        if not found or read_manifest(path).generation == manifest.generation:
            break
    return found


def collection_bytes(path: Path) -> int:
    """Return the size of the files of a collection."""
    return folder_bytes(path) + sum(folder_bytes(path / part.name) for part in read_manifest(path).parts)


def verify_collection(path: Path) -> None:
    """Check every byte; raise the first error that there is."""
    with Progress().stage("verify", None, "bytes") as stage:
        for damage in collection_damage(path, stage):
            raise damage.error


def _pieces(path: Path, manifest: Manifest, *, quick: bool) -> list[Piece]:
    parts = [
        Piece(part.name, 0 if quick else part.num_bytes, partial(_check_part, path, part.name, quick))
        for part in manifest.parts
    ]
    files = [manifest.lattice, manifest.statistics, *(part.deleted for part in manifest.parts)]
    arrays = [Piece(name, 0, partial(_check_file, path, name)) for name in files if name is not None]
    return [
        *parts,
        *arrays,
        Piece("log", 0, partial(_check_log, path, manifest)),
        Piece("", 0, partial(_check_whole, path)),
    ]


def _check_part(path: Path, name: str, quick: bool, advance: Advance) -> None:
    try:
        load_index(path / name, preload=False, verify=not quick, advance=advance)
    except IndexNotFoundError as error:
        raise damaged_collection(f"'{name}' is missing", path) from error


def _check_file(path: Path, name: str, advance: Advance) -> None:
    try:
        read_arrays(path / name)
    except FileNotFoundError as error:
        raise damaged_collection(f"'{name}' is missing", path) from error


def _check_log(path: Path, manifest: Manifest, advance: Advance) -> None:
    try:
        log = Log.open(path, manifest.first_log, applied=manifest.applied, read_only=True)
    except FileNotFoundError as error:
        raise damaged_collection("its log is missing", path) from error
    try:
        for record in log.records():
            if record.kind == CHANGE:
                from_pieces(record.pieces, log.place)
    finally:
        log.close()


def _check_whole(path: Path, advance: Advance) -> None:
    """Open it: lattice, words, living documents, and what fits together."""
    Collection.open(path, read_only=True).close()
