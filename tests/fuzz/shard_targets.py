"""Targets on the files of a sharded index: the manifest, the router, other common files."""

from __future__ import annotations

import functools
import hashlib
import json
import shutil
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from tests.fuzz.index_targets import with_checksum
from tests.fuzz.mutation import json_head_mutation, json_mutation
from tests.fuzz.target import outcome, scratch, target

from segmax.errors import SegmaxError
from segmax.shards.common import common_arrays, common_bytes, read_common
from segmax.shards.making.building import build
from segmax.shards.manifest import MANIFEST_NAME, Manifest
from segmax.shards.opening import open_local, read_manifest
from segmax.shards.storage import open_storage
from segmax.storage.checked_json import checked_bytes, parse_strictly

_NUM_TERMS = 12


@functools.cache
def sample() -> Path:
    """Return a sharded index."""
    path = scratch() / "sample-sharded"
    documents = sp.random(24, _NUM_TERMS, 0.3, format="csr", random_state=0)
    build(documents, path, shards=2, num_clusters=4)
    return path


@functools.cache
def copy() -> Path:
    """Return a copy, whose manifest and common files are replaced."""
    return Path(shutil.copytree(sample(), scratch() / "sharded"))


def use(path: Path) -> None:
    """Open a sharded index and search it; only errors of segmax may come out."""
    try:
        index = open_local(path)
    except SegmaxError as error:
        assert "\n" not in str(error)
        return
    query = {term: 1.0 + term for term in range(_NUM_TERMS)}
    with index:
        outcome(lambda: index.search(query, k=5))
        outcome(lambda: index.search(query, k=5, max_shards=1))
        outcome(lambda: index.search_batch([query, {0: 1.0}], k=3))
        outcome(lambda: repr(index))


def _manifest_seeds() -> dict[str, bytes]:
    return {"sharded.json": json.dumps(parse_strictly((sample() / MANIFEST_NAME).read_bytes())).encode()}


@target(_manifest_seeds, json_mutation)
def sharded_manifest(data: bytes) -> None:
    """A manifest of whatever content, with a right checksum."""
    content = with_checksum(data)
    outcome(lambda: Manifest.from_bytes(content, "docs"))
    (copy() / MANIFEST_NAME).write_bytes(content)
    use(copy())


# --- common files: the number of the file, the length of its table, the table, the arrays as they are -----------------

_KINDS = ("lattice", "router")


def _common_seeds() -> dict[str, bytes]:
    storage = open_storage(sample())
    manifest = read_manifest(storage)
    return {
        name: bytes([number]) + _plain(read_common(storage, manifest.common[name], "docs"))
        for number, name in enumerate(_KINDS)
    }


def _plain(arrays: dict[str, Any]) -> bytes:
    """Return arrays without compression, so that changes reach what they say."""
    table = [[name, array.dtype.str, array.nbytes] for name, array in arrays.items()]
    return _join(json.dumps(table).encode(), b"".join(array.tobytes() for array in arrays.values()))


def _split(data: bytes) -> tuple[bytes, bytes]:
    size = int.from_bytes(data[:4], "little")
    return data[4 : 4 + size], data[4 + size :]


def _join(head: bytes, rest: bytes) -> bytes:
    return len(head).to_bytes(4, "little") + head + rest


def _packed(data: bytes) -> bytes | None:
    """Return the common file that a plain one stands for; None where no writer could have made it."""
    head, rest = _split(data)
    arrays = {}
    try:
        for name, kind, size in json.loads(head):
            arrays[str(name)] = np.frombuffer(rest[: int(size)], dtype=np.dtype(kind))
            rest = rest[int(size) :]
        return common_bytes(arrays)
    except (ValueError, TypeError, OverflowError, RecursionError, AttributeError, SyntaxError):
        return None


@target(
    _common_seeds,
    json_head_mutation(
        lambda data: (_split(data[1:])[0], data[:1] + _split(data[1:])[1]),
        lambda head, rest: rest[:1] + _join(head, rest[1:]),
    ),
)
def sharded_common(data: bytes) -> None:
    """The lattice or the router has any content, and the hash by which it is called."""
    content = _packed(data[1:])
    if content is None:
        return
    entries = parse_strictly((sample() / MANIFEST_NAME).read_bytes())
    hash = hashlib.sha256(content).hexdigest()
    name = _KINDS[(data[0] if data else 0) % 2]
    file = copy() / "common" / hash
    before = file.read_bytes() if file.exists() else None
    file.write_bytes(content)
    entries["common"] = {**entries["common"], name: hash}
    (copy() / MANIFEST_NAME).write_bytes(checked_bytes(entries))
    use(copy())
    if before is None:
        file.unlink()


def _raw_seeds() -> dict[str, bytes]:
    return {"common.bin": common_bytes({"row": np.array([3, 5]), "scale": np.array([0.5])})}


@target(_raw_seeds)
def common_file(data: bytes) -> None:
    """A common file of any bytes, which are also tried as one compressed array."""
    outcome(lambda: common_arrays(data, "docs"))
    table = json.dumps([["row", "|u1", 64, len(data)]]).encode()
    wrapped = b"SEGMAXCO" + (1).to_bytes(4, "little") + len(table).to_bytes(4, "little") + table + data
    outcome(lambda: common_arrays(wrapped, "docs"))
    stored = zlib.compress(data)
    table = json.dumps([["row", "|u1", len(data), len(stored)]]).encode()
    wrapped = b"SEGMAXCO" + (1).to_bytes(4, "little") + len(table).to_bytes(4, "little") + table + stored
    outcome(lambda: common_arrays(wrapped, "docs"))
