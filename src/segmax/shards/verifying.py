"""Checking every byte of what is on disk, whatever it is: an index, a collection, or a sharded index."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from segmax.base.checks import checked_path
from segmax.base.errors import ConfigError, IndexNotFoundError, SegmaxError, damaged
from segmax.base.own_folders import Kind
from segmax.base.progress import ProgressOption, Stage, progress_of
from segmax.collection.opening import is_collection
from segmax.search.verifying import index_piece
from segmax.shards.addresses import is_address
from segmax.shards.common import read_common
from segmax.shards.manifest import MANIFEST_NAME, Manifest
from segmax.shards.opening import ShardOpening, open_described, read_manifest
from segmax.shards.storage import SHARDS, Storage, open_storage
from segmax.storage.verifying import Advance, Damage, Piece, damage_of, folder_bytes


class Checked(NamedTuple):
    """What a check found."""

    kind: Kind
    num_bytes: int  #: of its files
    damage: list[Damage]  #: none if all is well


def verify(path: str | os.PathLike[str]) -> None:
    """Check every byte of an index, a collection or a sharded index; raise FormatError if one is wrong.

    Nothing is written. A collection may be written to meanwhile.

    Parameters
    ----------
    path
        The directory.

    Raises
    ------
    IndexNotFoundError
        If there is nothing at the path.
    FormatError
        If something else is there, something of another version, or something damaged: the error names the first
        damage. `segmax verify` on the command line lists all of it.

    Examples
    --------
    >>> import segmax, tempfile
    >>> path = f"{tempfile.mkdtemp()}/docs.segmax"
    >>> _ = segmax.from_texts({"d1": "a copper waveguide"}, path=path)
    >>> segmax.verify(path)
    """
    for damage in check(path).damage:
        raise damage.error


def check(path: str | os.PathLike[str], *, quick: bool = False, progress: ProgressOption = None) -> Checked:
    """Check what is at a path, all of it, and return what is wrong.

    Parameters
    ----------
    path
        The directory of an index, a collection, or a sharded index.
    quick
        Check descriptions, tables, and the sizes of all other files, instead of every byte.
    progress
        As for `segmax.build`.

    Examples
    --------
    >>> import segmax, tempfile
    >>> path = f"{tempfile.mkdtemp()}/docs.segmax"
    >>> _ = segmax.from_texts({"d1": "a copper waveguide"}, path=path)
    >>> checked = check(path)
    >>> checked.kind, checked.damage
    ('index', [])
    """
    if isinstance(path, str) and is_address(path):
        raise ConfigError(option="path", expected="a folder of this machine", got=f"'{path}'", hint="copy it there")
    folder = checked_path("path", path).absolute()
    kind = kind_of(folder)
    try:
        size, find = _CHECKS[kind](folder, quick)
        with progress_of(progress) as shown, shown.stage("verify", size, "bytes") as stage:
            return Checked(kind, size, find(stage))
    except IndexNotFoundError:
        raise
    except (SegmaxError, OSError) as error:  # of what says which files there are
        return Checked(kind, 0, [Damage("", error)])


def kind_of(folder: Path) -> Kind:
    """Return what a folder is by the files that are there, be they damaged; an index where there is none of ours."""
    if is_collection(folder):
        return "collection"
    return "sharded index" if (folder / MANIFEST_NAME).is_file() else "index"


_Find = Callable[[Stage], list[Damage]]


def _of_index(folder: Path, quick: bool) -> tuple[int, _Find]:
    return folder_bytes(folder), partial(damage_of, [index_piece(folder, quick=quick)])


def _of_collection(folder: Path, quick: bool) -> tuple[int, _Find]:
    from segmax.collection.verifying import collection_bytes, collection_damage  # which load what builds parts

    return collection_bytes(folder), partial(collection_damage, folder, quick=quick)


def _of_sharded(folder: Path, quick: bool) -> tuple[int, _Find]:
    storage = open_storage(folder)
    manifest = read_manifest(storage)
    common = [
        Piece(f"common/{name}", 0, partial(_check_common, storage, hash)) for name, hash in manifest.common.items()
    ]
    shards = [
        Piece(
            f"shard {number}", 0 if quick else entry.num_bytes, partial(_check_shard, storage, manifest, number, quick)
        )
        for number, entry in enumerate(manifest.shards)
    ]
    size = sum(folder_bytes(folder / SHARDS / entry.hash) for entry in manifest.shards)
    whole = Piece("", 0, partial(_check_described, folder))
    return size, partial(damage_of, [*common, *shards, whole])


_CHECKS: dict[Kind, Callable[[Path, bool], tuple[int, _Find]]] = {
    "index": _of_index,
    "collection": _of_collection,
    "sharded index": _of_sharded,
}


def _check_common(storage: Storage, hash: str, advance: Advance) -> None:
    read_common(storage, hash, storage.address)


def _check_shard(storage: Storage, manifest: Manifest, number: int, quick: bool, advance: Advance) -> None:
    try:
        ShardOpening(storage, number, manifest, verify=not quick)()
    except IndexNotFoundError as error:
        raise damaged(f"shard {number} is missing", storage.address) from error


def _check_described(folder: Path, advance: Advance) -> None:
    open_described(folder).close()
