"""Stage 7: what all shards have in common, and the manifest, which makes an index of it all."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from segmax.search.calibration import LEAST_DOCS
from segmax.shards.common import COMMON, write_common
from segmax.shards.making.columns import string_column
from segmax.shards.making.measuring import QUESTIONS, measured, questions_of
from segmax.shards.making.plan import Built
from segmax.shards.making.shard_building import built_name
from segmax.shards.making.statistics import SCALES
from segmax.shards.making.tasks import BUILDING, Workplace
from segmax.shards.manifest import MANIFEST_NAME, Manifest, ShardEntry, Sharding
from segmax.shards.opening import read_lattice, read_router
from segmax.shards.routed import RoutingTable
from segmax.shards.router import join_maxima
from segmax.shards.searching import ShardSearch
from segmax.shards.storage import SHARDS, Storage
from segmax.storage.config import BuildConfig


def finish(
    built: Built, config: BuildConfig, sharding: Sharding, encoder: Mapping[str, Any] | None, work: Workplace
) -> Manifest:
    """Write what shards have in common, and then the manifest; remove what only the build needed.

    What an earlier index has left is removed, too.
    """
    storage = work.storage
    entries = tuple(ShardEntry(**shard["entry"]) for shard in built.shards)
    about = built.shards[0]
    manifest = Manifest(
        shards=entries,
        sharding=sharding,
        num_docs=sum(entry.num_docs for entry in entries),
        num_terms=built.num_terms,
        bits=config.bits,
        common=_common(built, sharding, work),
        config=config.to_dict(),
        encoder=encoder,
        id_kind=about["id_kind"],
        has_texts=about["has_texts"],
        has_metadata=about["has_metadata"],
    )
    manifest = dataclasses.replace(manifest, routing=_routing(built, manifest, work).to_dict())
    storage.write(MANIFEST_NAME, [manifest.to_bytes()])
    _remove_others(storage, SHARDS, {entry.hash for entry in entries})
    _remove_others(storage, COMMON, set(manifest.common.values()))
    storage.remove(BUILDING)
    return manifest


def _common(built: Built, sharding: Sharding, work: Workplace) -> dict[str, str]:
    """Write the files that all shards share, and return their hashes."""
    scales = work.load(SCALES).arrays
    lattice = {"term_scale": scales["scale"], "term_largest": scales["largest"]}
    maxima = [work.load(built_name(number)).arrays for number in built.numbers]
    common = {
        "lattice": write_common(work.storage, lattice),
        "router": write_common(work.storage, join_maxima(maxima, bounds=sharding == "clusters")),
    }
    if built.terms is not None:
        common["terms"] = write_common(work.storage, string_column("term", built.terms))
    return common


def _routing(built: Built, manifest: Manifest, work: Workplace) -> RoutingTable:
    """Return how many shards the made-up queries need; nothing for few documents, whose shards may all be asked."""
    asked = work.find(QUESTIONS)
    is_large = BuildConfig.from_dict(manifest.config).calibrate and manifest.num_docs >= LEAST_DOCS
    if asked is None or not is_large or len(manifest.shards) < 2:
        return RoutingTable()
    router = read_router(work.storage, manifest)
    search = ShardSearch(manifest, read_lattice(work.storage, manifest).to_core(), router)
    kept = [work.load(built_name(number)).arrays for number in built.numbers]
    return measured(search, router, questions_of(asked.arrays, manifest.num_terms), kept)


def _remove_others(storage: Storage, folder: str, own: set[str]) -> None:
    for name in storage.names(folder):
        if name not in own:
            storage.remove(f"{folder}/{name}")
