"""The manifest of a sharded index: which shards and common files belong to it, and what was measured about them.

It is written last, by a rename, and read as hostile input: a checksum covers it, every entry has the right type and
range, and files are named by the hash of their content, so that no name leads out of the folder.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, Literal

from segmax.base.errors import NEWER_HINT, FormatError, damaged_entry
from segmax.storage.checked_json import Entry, checked_bytes, checksum_matches, of_type, parse_strictly, whole
from segmax.storage.config import BuildConfig

MANIFEST_NAME = "sharded.json"
MANIFEST_VERSION = 1
MAX_MANIFEST_BYTES = 64 * 2**20
MAX_SHARDS = 100_000

_FORMAT = "segmax-sharded"
_HASH = re.compile(r"[0-9a-f]{64}")
_MOST = 2**63 - 1

Sharding = Literal["clusters", "rows"]
SHARDINGS = ("clusters", "rows")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardEntry:
    """What the manifest says about a shard.

    Parameters
    ----------
    hash
        The hash of its content, which is the name of its folder.
    num_docs, num_postings, num_bytes, num_clusters
        How large it is.
    first_row
        The smallest row of its documents in the whole collection.
    """

    hash: str
    num_docs: int
    num_postings: int
    num_bytes: int
    num_clusters: int
    first_row: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Manifest:
    """A sharded index as a whole.

    Parameters
    ----------
    shards
        The shards, in order.
    sharding
        What documents were given to shards by: "clusters" or "rows".
    num_docs, num_terms
        Of the whole collection.
    bits
        Bits per stored weight.
    common
        By name, the hashes of the files that all shards share: "lattice", "router" and, with a vocabulary, "terms".
    config
        The options of the build.
    encoder
        What made the vectors; None if unknown.
    id_kind
        What ids are: "int" or "str".
    has_texts, has_metadata
        What is stored with documents.
    routing
        What was measured about asking some of the shards only.

    Examples
    --------
    >>> entry = ShardEntry(hash="0" * 64, num_docs=1, num_postings=1, num_bytes=9, num_clusters=1, first_row=0)
    >>> manifest = Manifest(shards=(entry,), num_docs=1, num_terms=3, common={"lattice": "1" * 64, "router": "2" * 64})
    >>> Manifest.from_bytes(manifest.to_bytes(), "docs") == manifest
    True
    """

    shards: tuple[ShardEntry, ...]
    sharding: Sharding = "clusters"
    num_docs: int
    num_terms: int
    bits: int = 8
    common: Mapping[str, str]
    config: Mapping[str, Any] = dataclasses.field(default_factory=lambda: BuildConfig().to_dict())
    encoder: Mapping[str, Any] | None = None
    id_kind: Literal["int", "str"] = "int"
    has_texts: bool = False
    has_metadata: bool = False
    routing: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def num_postings(self) -> int:
        """The number of stored weights."""
        return sum(shard.num_postings for shard in self.shards)

    @property
    def num_bytes(self) -> int:
        """The size of all shards."""
        return sum(shard.num_bytes for shard in self.shards)

    def to_bytes(self) -> bytes:
        """Return the manifest as a file."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        values |= {"shards": [dataclasses.asdict(shard) for shard in self.shards], "common": dict(self.common)}
        values |= {"config": dict(self.config), "routing": dict(self.routing)}
        return checked_bytes({"format": _FORMAT, "version": MANIFEST_VERSION, **values})

    @classmethod
    def from_bytes(cls, data: bytes, where: object) -> Manifest:
        """Read a manifest; `where` is the place of the index, for messages.

        Raises
        ------
        FormatError
            If it is damaged, or of a version that this segmax does not read.
        """
        entries = _parsed(data, where)
        for name, entry in _ENTRIES.items():
            _check(entries, name, entry, where)
        shards = tuple(_shard(entry, where) for entry in entries["shards"])
        for name, hash in entries["common"].items():
            if name not in _COMMON or not _is_hash(hash):
                raise damaged_entry(MANIFEST_NAME, "common files by their hashes", f"{name!r}"[:80], where)
        if not {"lattice", "router"} <= entries["common"].keys():
            raise damaged_entry(MANIFEST_NAME, "a lattice and a router", "none", where)
        if sum(shard.num_docs for shard in shards) != entries["num_docs"]:
            raise damaged_entry(MANIFEST_NAME, "shards of all documents", f"{entries['num_docs']:,} documents", where)
        if len({shard.hash for shard in shards}) != len(shards):
            raise damaged_entry(MANIFEST_NAME, "every shard once", "one of them twice", where)
        if any(shard.first_row >= max(1, entries["num_docs"]) for shard in shards):
            raise damaged_entry(MANIFEST_NAME, "first rows of documents", "one behind the last document", where)
        try:
            BuildConfig.from_dict(entries["config"])
        except (ValueError, TypeError, KeyError) as error:
            raise damaged_entry(MANIFEST_NAME, "options of a build", f"{error}"[:200], where) from error
        names = {field.name for field in dataclasses.fields(cls)}
        return cls(**{**{name: entries[name] for name in names}, "shards": shards})


def _parsed(data: bytes, where: object) -> dict[str, Any]:
    if len(data) > MAX_MANIFEST_BYTES:
        raise damaged_entry(MANIFEST_NAME, f"at most {MAX_MANIFEST_BYTES:,} bytes", f"{len(data):,}", where)
    try:
        entries = parse_strictly(data)
        if not isinstance(entries, dict):
            raise ValueError("it is no object")
    except (ValueError, RecursionError) as error:
        raise damaged_entry(MANIFEST_NAME, "a manifest in JSON", f"{error}"[:200], where) from error
    if entries.get("format") != _FORMAT:
        raise damaged_entry(MANIFEST_NAME, f"the format {_FORMAT!r}", f"{entries.get('format')!r}"[:80], where)
    version = entries.get("version")
    if type(version) is int and version > MANIFEST_VERSION:
        raise FormatError(
            where=f"'{where}'",
            expected=f"version {MANIFEST_VERSION} of the format, which this segmax reads",
            got=version,
            hint=NEWER_HINT,
        )
    if not checksum_matches(data):
        raise damaged_entry(MANIFEST_NAME, "the checksum of its content", "another one", where)
    return entries


def _is_hash(value: object) -> bool:
    return isinstance(value, str) and _HASH.fullmatch(value) is not None


def _check(entries: Mapping[str, Any], name: str, entry: Entry, where: object) -> None:
    if name not in entries or not entry.holds(entries[name]):
        got = f"{entries[name]!r}"[:80] if name in entries else "nothing"
        raise damaged_entry(f"{MANIFEST_NAME}, '{name}'", entry.expected, got, where)


def _shard(entry: object, where: object) -> ShardEntry:
    if not isinstance(entry, dict) or entry.keys() != _SHARD_ENTRIES.keys():
        raise damaged_entry(MANIFEST_NAME, f"shards with {', '.join(_SHARD_ENTRIES)}", f"{entry!r}"[:80], where)
    for name, check in _SHARD_ENTRIES.items():
        _check(entry, name, check, where)
    return ShardEntry(**entry)


def _one_of(*values: object) -> Entry:
    # By type, too: 1 is no True.
    return Entry(f"one of {values}", lambda value: any(type(value) is type(one) and value == one for one in values))


_COMMON = ("lattice", "router", "terms")
_SHARD_ENTRIES = {
    "hash": Entry("a hash", _is_hash),
    **{name: whole(0, _MOST) for name in ("num_docs", "num_postings", "num_bytes", "num_clusters", "first_row")},
}
_ENTRIES = {
    "version": whole(1, MANIFEST_VERSION),
    "shards": Entry(
        f"a list of 1 to {MAX_SHARDS:,} shards", lambda value: isinstance(value, list) and 0 < len(value) <= MAX_SHARDS
    ),
    "sharding": _one_of(*SHARDINGS),
    "num_docs": whole(0, _MOST),
    "num_terms": whole(0, 2**32 - 1),
    "bits": _one_of(8, 16),
    "common": of_type(dict, "an object"),
    "config": of_type(dict, "an object"),
    "encoder": Entry("an object or null", lambda value: value is None or isinstance(value, dict)),
    "id_kind": _one_of("int", "str"),
    "has_texts": of_type(bool, "true or false"),
    "has_metadata": of_type(bool, "true or false"),
    "routing": of_type(dict, "an object"),
}
