"""Targets on the files of a collection: the log, the manifest, files of arrays."""

from __future__ import annotations

import contextlib
import functools
import json
import shutil
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from tests.fuzz.index_targets import METADATA, TEXTS, with_checksum
from tests.fuzz.mutation import json_head_mutation, json_mutation
from tests.fuzz.target import folder, outcome, scratch, target

import segmax
from segmax.collection.array_file import read_arrays, write_arrays
from segmax.collection.changes import CHANGE, from_pieces
from segmax.collection.collection import Collection
from segmax.collection.log import Log
from segmax.collection.log_format import (
    FILE_BYTES,
    MAX_PIECES,
    MAX_RECORD_BYTES,
    RECORD_BYTES,
    new_file_header,
    pack_file_header,
    pack_record,
)
from segmax.collection.manifest import read_manifest
from segmax.errors import SegmaxError
from segmax.storage.checked_json import parse_strictly

_CRC = struct.Struct("<I")


def _documents(start: int = 0) -> list[dict[str, Any]]:
    return [{"id": f"d{start + at}", "text": text, "metadata": METADATA[at]} for at, text in enumerate(TEXTS)]


@functools.cache
def sample() -> Path:
    """Return a collection with a part, deleted documents, and a log."""
    path = scratch() / "sample-collection"
    with Collection.create(path, encoder="bm25") as collection:
        collection.add(_documents())
        collection.delete(["d3"])
        collection._open_store.flush({"threads": 1})
        collection.delete(["d4"])
        collection._open_store.flush({"threads": 1})
        collection.add([{"id": "last", "text": "a copper diode"}])
        collection.delete(["d1"])
    return path


def use(collection: Any) -> None:
    """Do what a reader does; only errors of segmax may come out."""
    for call in (
        lambda: collection.search("copper noise", k=30).texts,
        lambda: collection.search("copper", where={"year": {"$gte": 3}}).metadata,
        lambda: collection.search((np.arange(6), np.ones(6)), k=5).ids,
        lambda: list(collection.ids()),
        lambda: collection.get("d5"),
        lambda: collection.facets("tags"),
        lambda: repr(collection),
    ):
        outcome(call)


def tried(path: Path, data: bytes) -> None:
    """Open a collection to read and to verify, which have to agree; after some inputs also to write.

    A log may speak of so many columns that there is no memory for them, as whoever adds documents may: MemoryError.
    """
    with contextlib.suppress(MemoryError):
        try:
            with segmax.open(path) as collection:
                use(collection)
            opened = True
        except SegmaxError as error:
            assert "\n" not in str(error)
            opened = False
        assert opened or outcome(lambda: segmax.verify(path)) is not None
        if zlib.crc32(data) % 4 == 0:  # merges take most of the time
            outcome(lambda: _change(path))


def _change(path: Path) -> None:
    with Collection.open(path) as collection:
        outcome(lambda: collection.add([{"id": "new", "text": "copper"}]))
        outcome(lambda: collection.delete(["d5"]))
        outcome(lambda: collection.compact())


def copy_of_sample() -> Path:
    """Return a copy to damage."""
    path = scratch() / "collection"
    shutil.rmtree(path, ignore_errors=True)
    return Path(shutil.copytree(sample(), path))


# --- the log ---------------------------------------------------------------------------------------------------------


def with_crcs(data: bytes) -> bytes:
    """Return a log whose records have right CRCs, wherever something looks like a record."""
    content = bytearray(data)
    if len(content) < FILE_BYTES:
        return data
    content[:8] = b"SEGMAXLG"
    content[FILE_BYTES - 4 : FILE_BYTES] = _CRC.pack(zlib.crc32(content[: FILE_BYTES - 4]))
    seed = zlib.crc32(content[32:40])  # the salt
    at = FILE_BYTES
    while at + RECORD_BYTES <= len(content):
        content[at : at + 4] = b"SXRC"
        (length,) = struct.unpack_from("<Q", content, at + 24)
        if length > min(MAX_RECORD_BYTES, len(content) - at - RECORD_BYTES):
            break
        body = content[at + RECORD_BYTES : at + RECORD_BYTES + length]
        content[at + 32 : at + 36] = _CRC.pack(zlib.crc32(body, seed))
        header = content[at : at + RECORD_BYTES - 4]
        content[at + RECORD_BYTES - 4 : at + RECORD_BYTES] = _CRC.pack(zlib.crc32(header, seed))
        at += RECORD_BYTES + length
    return bytes(content)


@functools.cache
def _logged() -> dict[str, Path]:
    """Return collections that are a manifest and a log: of words and of vectors."""
    words, vectors = scratch() / "log-words", scratch() / "log-vectors"
    with Collection.create(words, encoder="bm25") as collection:
        collection.add(_documents()[:3])
        collection.delete(["d1"])
    with Collection.create(vectors) as collection:
        collection.add(sp.csr_matrix(np.eye(3, 5) * 1.5), ids=[1, 2, 7])
        collection.delete([2])
    return {"words": words, "vectors": vectors}


def _log_seeds() -> dict[str, bytes]:
    return {
        f"{name}.log": bytes([number]) + (path / "log.1").read_bytes()
        for number, (name, path) in enumerate(sorted(_logged().items()))
    }


def _try_log(kind: int, data: bytes) -> None:
    source = [path for _, path in sorted(_logged().items())][kind % 2]
    path = folder("logged")
    for file in source.iterdir():
        if file.is_file():
            (path / file.name).write_bytes(file.read_bytes())
    (path / "log.1").write_bytes(data)
    if outcome(lambda: _read_log(path)) is not None:
        assert outcome(lambda: segmax.verify(path)) is not None
        return
    tried(path, data)


def _read_log(path: Path) -> None:
    with Log.open(path, 1, read_only=True) as log:
        for record in log.records():
            from_pieces(record.pieces)


@target(_log_seeds)
def collection_log(data: bytes) -> None:
    """A log of any bytes. The first one says whether it is that of words or of vectors."""
    _try_log(data[0] if data else 0, data[1:])


@target(_log_seeds)
def collection_records(data: bytes) -> None:
    """The same with right CRCs: what records say is looked at."""
    _try_log(data[0] if data else 0, with_crcs(data[1:]))


# --- changes: a byte (of words or of vectors), what a record says about its arrays as JSON, the arrays ---------------


def _split(data: bytes) -> tuple[bytes, bytes]:
    size = int.from_bytes(data[1:5], "little")
    return data[5 : 5 + size], data[:1] + data[5 + size :]


def _join(head: bytes, rest: bytes) -> bytes:
    return rest[:1] + len(head).to_bytes(4, "little") + head + rest[1:]


def _change_seeds() -> dict[str, bytes]:
    found = {}
    for number, (name, path) in enumerate(sorted(_logged().items())):
        with Log.open(path, 1, read_only=True) as log:
            for record in log.records():
                head, *arrays = map(bytes, record.pieces)
                rest = b"".join(len(array).to_bytes(4, "little") + array for array in arrays)
                found[f"{name}-{record.sequence}"] = _join(head, bytes([number]) + rest)
    return found


@target(_change_seeds, json_head_mutation(_split, _join))
def collection_changes(data: bytes) -> None:
    """One record of a log, of which every piece may be anything, behind a good one."""
    head, rest = _split(data)
    pieces, left = [head], rest[1:]
    while left:
        size = int.from_bytes(left[:4], "little")
        pieces.append(left[4 : 4 + size])
        left = left[4 + size :]
    aligned = [memoryview(bytearray(piece)) for piece in pieces[:MAX_PIECES]]
    if outcome(lambda: from_pieces(aligned)) is None:
        header = new_file_header(1, 1)
        record = pack_record(CHANGE, pieces[:MAX_PIECES], sequence=1, synced=0, seed=header.seed)
        _try_log(rest[0] if rest else 0, pack_file_header(header) + b"".join(map(bytes, record)))


# --- the manifest ----------------------------------------------------------------------------------------------------


def _manifest_seeds() -> dict[str, bytes]:
    whole = parse_strictly((sample() / "manifest.json").read_bytes())
    fresh = parse_strictly((_logged()["vectors"] / "manifest.json").read_bytes())
    return {"manifest.json": json.dumps(whole).encode(), "fresh.json": json.dumps(fresh).encode()}


@target(_manifest_seeds, json_mutation)
def collection_manifest(data: bytes) -> None:
    """A manifest of whatever content, with a right checksum."""
    path = copy_of_sample()
    (path / "manifest.json").write_bytes(with_checksum(data))
    outcome(lambda: read_manifest(path))
    tried(path, data)


# --- files of arrays -------------------------------------------------------------------------------------------------


def _kinds() -> list[Path]:
    return sorted(path for path in sample().iterdir() if path.name.startswith(("deleted.", "lattice.", "statistics.")))


def _array_file_seeds() -> dict[str, bytes]:
    found = {path.name: bytes([number]) + path.read_bytes() for number, path in enumerate(_kinds())}
    path = scratch() / "arrays.bin"
    write_arrays(path, {"row": np.array([3, 5], np.uint32), "kept": np.array([True, False])})
    return {**found, "arrays.bin": b"\xff" + path.read_bytes()}


def with_size_and_crc(data: bytes) -> bytes:
    """Return a file of arrays whose size and checksum are right."""
    if len(data) < 32:
        return data
    content = b"SEGMAXAR" + data[8:16] + struct.pack("<Q", len(data)) + data[24:-8]
    return content + struct.pack("<II", zlib.crc32(content), 0)


@target(_array_file_seeds)
def collection_arrays(data: bytes) -> None:
    """A file of arrays, as it is and with a right checksum; the first byte says whose place it takes."""
    number, content = (data[0], data[1:]) if data else (0, b"")
    fixed = with_size_and_crc(content)
    for one in (content, fixed):
        path = scratch() / "one.bin"
        path.write_bytes(one)
        outcome(lambda path=path: read_arrays(path))  # type: ignore[misc]
    if number < 128:
        path = copy_of_sample()
        (path / _kinds()[number % len(_kinds())].name).write_bytes(fixed)
        tried(path, data)
