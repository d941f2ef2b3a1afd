"""Targets on the files of an index: meta.json, component files, the tables beside the engine, metadata, filters."""

from __future__ import annotations

import copy
import functools
import json
import shutil
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from tests.fuzz.mutation import json_head_mutation, json_mutation
from tests.fuzz.target import outcome, scratch, target

import segmax
from segmax.errors import FormatError, SegmaxError
from segmax.metadata.store import METADATA_COMPONENTS, Metadata
from segmax.metadata.where import parse_where
from segmax.paper import MaxScore
from segmax.search.index import Index
from segmax.storage.checked_json import checked_bytes, parse_strictly
from segmax.storage.component_file import FOOTER_BYTES, footer
from segmax.storage.components import COMPONENTS
from segmax.storage.reading import load_index

TEXTS = ["copper wire", "silver wire", "noise in diodes", "noise of tubes", "a copper tube", "", "wires of tubes"]
METADATA: list[dict[str, Any] | None] = [
    {"year": 1960, "tags": ["a", "b"], "who": "x"},
    {"year": 1961.5, "tags": [], "who": "y", "deep": {"x": 2**70}},
    {"year": None, "tags": [1, None, True], "who": "x", "good": True},
    None,
    {"year": -5, "good": False, "who": "z"},
    {},
    {"year": "1960", "tags": ["b"]},
]


@functools.cache
def sample() -> Path:
    """Return an index with texts, words and metadata."""
    path = scratch() / "sample-index"
    documents = [{"id": f"d{at}", "text": text} for at, text in enumerate(TEXTS)]
    segmax.from_texts(documents, path=path, metadata=METADATA, num_clusters=3, num_segments=2).close()
    return path


@functools.cache
def loaded() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return its meta.json and arrays."""
    return load_index(sample(), preload=True, verify=True)


def use(index: Any) -> None:
    """Do what a reader does with an index; only errors of segmax may come out."""
    numbers = (np.arange(index.num_terms + 1)[:40], np.ones(min(40, index.num_terms + 1)))
    for call in (
        lambda: index.search(numbers, k=3),
        lambda: index.search(numbers, k=3, params=segmax.Exhaustive()),
        lambda: index.search(numbers, k=3, params=MaxScore()),
        lambda: index.search("copper noise", k=9).texts,
        lambda: index.search("wire", k=9, where={"year": {"$gte": 1960}}).metadata,
        lambda: index.search("wire", k=9).ids,
        lambda: index.facets("tags"),
        lambda: index.search("wire", k=2, group_by="who"),
        lambda: index.vector(index.id_of(0)),
        lambda: index.explain("copper", "d0"),
        lambda: repr(index) + str(index.calibration) + str(index.fields),
        lambda: json.dumps(segmax.inspect(index, sample=2).to_dict()),
    ):
        outcome(call)


def _meta_seeds() -> dict[str, bytes]:
    whole = parse_strictly((sample() / "meta.json").read_bytes())
    return {"meta.json": json.dumps(whole).encode()}


def with_checksum(data: bytes) -> bytes:
    """Return JSON with the right checksum, so that what it says is looked at; other bytes as they are."""
    try:
        said = json.loads(data)
        return checked_bytes(said) if isinstance(said, dict) else data
    except (ValueError, RecursionError):
        return data


@target(_meta_seeds, json_mutation)
def index_meta(data: bytes) -> None:
    """meta.json of whatever content, with a right checksum: what `segmax.open` refuses, `segmax.verify` refuses."""
    path = scratch() / "index"
    if not path.exists():
        shutil.copytree(sample(), path)
    (path / "meta.json").write_bytes(with_checksum(data))
    try:
        index = segmax.open(path)
    except SegmaxError as error:
        assert "\n" not in str(error)
        assert outcome(lambda: segmax.verify(path)) is not None
        return
    with index:
        use(index)
    segmax.verify(path)


def _file_seeds() -> dict[str, bytes]:
    files = parse_strictly((sample() / "meta.json").read_bytes())["files"]
    return {name: (sample() / files[name]["file"]).read_bytes() for name in ("position_row", "id_text", "term_scale")}


@target(_file_seeds)
def component_file(data: bytes) -> None:
    """The file of a component: refused, unless every byte is as it was."""
    path = scratch() / "files"
    if not path.exists():
        shutil.copytree(sample(), path)
    entry = parse_strictly((path / "meta.json").read_bytes())["files"]["position_row"]
    (path / entry["file"]).write_bytes(data)
    said = outcome(lambda: segmax.open(path).close())
    assert (said is None) == (data == (sample() / entry["file"]).read_bytes())
    # The same with the right footer and checksum: now the content is looked at.
    content = data[: max(0, len(data) - FOOTER_BYTES)]
    crc = zlib.crc32(content)
    (path / entry["file"]).write_bytes(content + footer(len(content), crc))
    meta = parse_strictly((sample() / "meta.json").read_bytes())
    meta["files"]["position_row"] |= {"bytes": len(content), "crc32": f"{crc:08x}"}
    (path / "meta.json").write_bytes(checked_bytes(meta))
    said = outcome(lambda: use(segmax.open(path)))
    assert said is None or outcome(lambda: segmax.verify(path)) is not None
    (path / "meta.json").write_bytes((sample() / "meta.json").read_bytes())


# --- arrays ----------------------------------------------------------------------------------------------------------

_NAMES = tuple(COMPONENTS)


def _array_seeds() -> dict[str, bytes]:
    _, arrays = loaded()
    return {name: bytes([_NAMES.index(name)]) + array.tobytes() for name, array in arrays.items()}


@target(_array_seeds)
def index_arrays(data: bytes) -> None:
    """One array of an index has any bytes: refused, or searched without harm. The first byte says which."""
    name = _NAMES[(data[0] if data else 0) % len(_NAMES)]
    meta, arrays = loaded()
    dtype = COMPONENTS[name].dtype(meta["code_bytes"])
    content = data[1 : 1 + (len(data) - 1) // dtype.itemsize * dtype.itemsize] if len(data) > 1 else b""
    # As in a file, with readable bytes behind it.
    padded = np.frombuffer(content + bytes(FOOTER_BYTES), dtype=np.uint8)[: len(content)]
    try:
        index = Index(copy.deepcopy(meta), {**arrays, name: padded.view(dtype)}, None)
    except FormatError as error:
        assert "\n" not in str(error)
        return
    use(index)


# --- metadata --------------------------------------------------------------------------------------------------------


def _split(data: bytes) -> tuple[bytes, bytes]:
    size = int.from_bytes(data[:4], "little")
    return data[4 : 4 + size], data[4 + size :]


def _join(head: bytes, rest: bytes) -> bytes:
    return struct.pack("<I", len(head)) + head + rest


FILTERS: list[dict[str, Any]] = [
    {"year": {"$gte": 1960}},
    {"tags": "b"},
    {"who": {"$in": ["x", "z"]}, "good": {"$exists": True}},
    {"$or": [{"year": None}, {"deep": {"$exists": False}}]},
    {"$not": {"who": {"$prefix": "y"}}},
]


def _metadata_seeds() -> dict[str, bytes]:
    meta, arrays = loaded()
    return {"columns": _join(json.dumps(meta["metadata"]).encode(), arrays["metadata_column"].tobytes())}


@target(_metadata_seeds, json_head_mutation(_split, _join))
def metadata_columns(data: bytes) -> None:
    """The directory of columns, as JSON, and the columns."""
    head, content = _split(data)
    try:
        entry = json.loads(head)
    except (ValueError, RecursionError):
        return
    _, arrays = loaded()
    own = {name: arrays[name] for name in METADATA_COMPONENTS}
    own["metadata_column"] = np.frombuffer(content, dtype=np.uint8)
    try:
        metadata = Metadata(own, entry, len(TEXTS))
    except SegmaxError:
        return
    for where in FILTERS:
        outcome(lambda where=where: metadata.rows(where))  # type: ignore[misc]
    for field in list(metadata.fields)[:9]:
        outcome(lambda field=field: metadata.facet(field))  # type: ignore[misc]
        outcome(lambda field=field: metadata.values(field, [0, 3]))  # type: ignore[misc]


def _filter_seeds() -> dict[str, bytes]:
    return {f"{number}.json": json.dumps(where).encode() for number, where in enumerate(FILTERS)}


@target(_filter_seeds, json_mutation)
def filters(data: bytes) -> None:
    """A filter in JSON: refused, or the same rows by columns and by the JSON of every document."""
    try:
        where = json.loads(data)
    except (ValueError, RecursionError):
        return
    try:
        parsed = parse_where(where)
    except SegmaxError:
        return
    metadata = _described()
    found = metadata.rows(parsed).tolist()
    singles = [bool(Metadata.from_rows([row]).rows(parsed)[0]) for row in METADATA]
    assert found == singles


@functools.cache
def _described() -> Metadata:
    return Metadata.from_rows(METADATA)
