"""Opening a sharded index: what all shards share, and the shards themselves, here or on another machine."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from segmax.base.errors import FormatError, IndexNotFoundError, damaged
from segmax.shards.common import read_common
from segmax.shards.manifest import MANIFEST_NAME, MAX_MANIFEST_BYTES, Manifest
from segmax.shards.router import Router, open_router
from segmax.shards.shard import LatticeArrays, Shard
from segmax.shards.sharded import Parts, ShardedIndex
from segmax.shards.storage import Storage, open_storage
from segmax.shards.transport import LocalTransport, Transport
from segmax.storage.tables import TextTable

Kind = TypeVar("Kind", bound=ShardedIndex)


def read_manifest(storage: Storage) -> Manifest:
    """Read the manifest of a sharded index.

    Raises
    ------
    IndexNotFoundError
        If there is none.
    FormatError
        If it is damaged, or of a newer version.
    """
    try:
        if storage.size(MANIFEST_NAME) > MAX_MANIFEST_BYTES:
            raise damaged(f"{MANIFEST_NAME} is too large", storage.address)
        data = storage.read(MANIFEST_NAME)
    except FileNotFoundError as error:
        raise IndexNotFoundError(
            expected=f"a sharded index at '{storage.address}'",
            got=f"no {MANIFEST_NAME} there",
            hint="build one with segmax.ray.build; a build that was interrupted goes on when it is called again",
        ) from error
    return Manifest.from_bytes(data, storage.address)


def read_lattice(storage: Storage, manifest: Manifest) -> LatticeArrays:
    """Read the scale and the largest code of every term."""
    arrays = read_common(storage, manifest.common["lattice"], storage.address)
    scale, largest = arrays.get("term_scale"), arrays.get("term_largest")
    if scale is None or largest is None or not len(scale) == len(largest) == manifest.num_terms:
        raise damaged("its lattice has other terms", storage.address)
    try:
        lattice = LatticeArrays(scale.astype(np.float64, copy=False), largest.astype(np.uint32, copy=False))
        lattice.to_core()
    except ValueError as error:
        raise damaged(f"its lattice is impossible ({error})", storage.address) from error
    return lattice


def read_router(storage: Storage, manifest: Manifest) -> Router:
    """Read what decides which shards a query asks."""
    arrays = read_common(storage, manifest.common["router"], storage.address)
    return open_router(arrays, manifest.shards, manifest.num_terms, storage.address)


def read_terms(storage: Storage, manifest: Manifest) -> TextTable | None:
    """Read the words of the terms, where there are any."""
    if "terms" not in manifest.common:
        return None
    arrays = read_common(storage, manifest.common["terms"], storage.address)
    if "term_offset" not in arrays or "term_text" not in arrays:
        raise damaged("its vocabulary lacks a part", storage.address)
    return TextTable(arrays["term_offset"].astype(np.uint64, copy=False), arrays["term_text"], manifest.num_terms)


@dataclasses.dataclass(frozen=True)
class ShardOpening:
    """Opens one shard, on whatever machine it is called; it can be pickled.

    Parameters
    ----------
    storage
        Where the index is.
    number
        Which shard.
    manifest
        What the index consists of.
    cache
        The folder of a machine for copies of shards; None: shards in a plain folder are used where they lie.
    verify
        Check every byte before the shard is used.
    preload
        Read the shard into memory.
    """

    storage: Storage
    number: int
    manifest: Manifest
    cache: str | None = None
    verify: bool = True
    preload: bool = False

    def __call__(self) -> Shard:
        """Open it."""
        entry = self.manifest.shards[self.number]
        lattice = read_lattice(self.storage, self.manifest)
        try:
            folder = self.storage.fetch_shard(entry.hash, self.cache, verify=self.verify)
            shard = Shard.open(folder, lattice, verify=self.verify, preload=self.preload)
            if (shard.num_docs, shard.num_clusters, shard.first_row) != (
                entry.num_docs,
                entry.num_clusters,
                entry.first_row,
            ):
                raise damaged(f"{MANIFEST_NAME} describes another shard", folder)
        except FormatError as error:
            raise FormatError(f"shard {self.number}: {error}") from error
        return shard


def open_with(
    storage: Storage,
    make_transport: Callable[[Manifest], Transport],
    kind: type[Kind],
    encoder: object = None,
    **options: Any,
) -> Kind:
    """Open a sharded index whose shards are reached by a transport, which is made of the manifest."""
    manifest = read_manifest(storage)
    lattice, router = read_lattice(storage, manifest), read_router(storage, manifest)
    terms = read_terms(storage, manifest)
    transport = make_transport(manifest)
    index = kind(Parts(manifest, lattice, terms, router, transport, storage.address, storage.folder), **options)
    if encoder is not None:
        index.encoder = encoder
    return index


def open_described(path: str | os.PathLike[str]) -> ShardedIndex:
    """Open a sharded index without its shards: it says what it is, and answers no search."""

    def transport(manifest: Manifest) -> Transport:
        return LocalTransport(())

    return open_with(open_storage(path), transport, ShardedIndex)


def open_local(
    path: str | os.PathLike[str], *, encoder: object = None, cache: str | None = None, verify: bool = False
) -> ShardedIndex:
    """Open a sharded index with all shards in this process.

    Searches here have no deadline: `deadline_s` is for shards on other machines, which may give no answer.

    Parameters
    ----------
    path
        The folder that `segmax.ray.build` or `segmax.shards.build` wrote, or an address of fsspec.
    encoder
        As for `segmax.open`.
    cache
        The folder for copies of shards; needed where the index is at an address.
    verify
        Check every byte of every shard.

    Raises
    ------
    IndexNotFoundError
        If there is no sharded index.
    FormatError
        If it is damaged, or of a newer version.
    """
    storage = open_storage(path)

    def transport(manifest: Manifest) -> Transport:
        numbers = range(len(manifest.shards))
        return LocalTransport([ShardOpening(storage, number, manifest, cache, verify)() for number in numbers])

    return open_with(storage, transport, ShardedIndex, encoder)
