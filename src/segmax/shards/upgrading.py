"""Rewriting what an older segmax wrote, whatever it is: an index, a collection, or a sharded index."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from segmax.base.checks import checked_path
from segmax.base.own_folders import Kind
from segmax.collection.manifest import read_manifest as read_collection
from segmax.search.upgrading import upgrade as upgrade_index
from segmax.shards.opening import read_manifest
from segmax.shards.storage import SHARDS, open_storage
from segmax.shards.verifying import kind_of
from segmax.storage.meta import FORMAT_VERSION, OLDEST_UPGRADABLE_VERSION, read_meta


class Upgrade(NamedTuple):
    """What was found at a path."""

    kind: Kind
    version: int  #: of the format of the index as it was found; today's for what needs no upgrade

    @property
    def is_due(self) -> bool:
        """Whether an older segmax wrote it."""
        return self.version < FORMAT_VERSION


def upgrade(path: str | os.PathLike[str], *, dry_run: bool = False) -> Upgrade:
    """Rewrite what is at a path in the format of this segmax, if an older one wrote it.

    Parameters
    ----------
    path
        The directory. It is replaced in one step: a failure or an interruption leaves what was there, and the next
        call starts over.
    dry_run
        Only look.

    Raises
    ------
    IndexNotFoundError
        If there is nothing at the path.
    FormatError
        If something else is there, something damaged, or a version that is too old or too new.
    WriteError
        If it cannot be written.

    Examples
    --------
    >>> import segmax, tempfile
    >>> path = tempfile.mkdtemp() + "/docs.segmax"
    >>> segmax.from_texts({"d1": "a copper waveguide"}, path=path).close()
    >>> upgrade(path).is_due
    False
    """
    folder = checked_path("path", path)
    kind = kind_of(folder)
    if kind != "index":
        for part in _parts(folder, kind):
            read_meta(part)
        return Upgrade(kind, FORMAT_VERSION)
    version = int(read_meta(folder, OLDEST_UPGRADABLE_VERSION)["version"])
    if not dry_run:
        upgrade_index(folder)
    return Upgrade(kind, version)


def _parts(folder: Path, kind: Kind) -> list[Path]:
    """Return the indexes that make up a collection or a sharded index.

    Both came with version 4 of the format, which is read as it is: none has to be rewritten. Compacting a collection
    writes its documents in today's format.
    """
    if kind == "collection":
        return [folder / part.name for part in read_collection(folder).parts]
    return [folder / SHARDS / shard.hash for shard in read_manifest(open_storage(folder)).shards]
