"""A collection from a stranger: whatever its files say, no crash, and an error that names the place."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import segmax
from segmax.collection.collection import Collection
from segmax.collection.manifest import manifest_bytes, read_manifest
from segmax.storage.components import COMPONENTS
from segmax.storage.reading import load_index
from segmax.storage.writing import save_index


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A collection with a part and a log, words counted and documents described."""
    where = tmp_path / "docs"
    with Collection.create(where, encoder="bm25") as collection:
        texts = ["copper wire", "silver wire", "noise in diodes", "noise of tubes", "copper tubes"] * 4
        collection.add([{"id": f"d{at}", "text": text, "metadata": {"n": at}} for at, text in enumerate(texts)])
        collection.delete(["d3"])
        collection._open_store.flush({"threads": 1})
        collection.delete(["d4"])
        collection._open_store.flush({"threads": 1})
        collection.add([{"id": "last", "text": "a copper diode"}])
        collection.delete(["d9"])
    return where


def tried(path: Path) -> None:
    """Use everything; only errors of ours may come."""
    with contextlib.suppress(segmax.SegmaxError), segmax.open(path) as collection:
        hits = collection.search("copper noise", k=30)
        assert (len(hits.ids), len(hits.texts)) == (len(hits), len(hits))
        collection.search("copper", where={"n": {"$gte": 3}})
        list(collection.ids())  # type: ignore[union-attr]
        collection.get("d5")  # type: ignore[union-attr]
    with contextlib.suppress(segmax.SegmaxError), Collection.open(path) as collection:
        collection.add([{"id": "new", "text": "copper"}])
        collection.delete(["d7"])
        collection.compact()


def wrong(array: Any, rng: np.random.Generator) -> Iterator[Any]:
    """Yield arrays of the same type that are not what they should be."""
    yield array[:-1]
    yield np.concatenate([array, array[-1:]])
    yield array[::-1].copy()
    for value in (0, 1, np.iinfo(array.dtype).max):
        yield np.full_like(array, value)
    yield rng.integers(0, 256, array.nbytes, dtype=np.uint8).view(array.dtype)


@pytest.mark.parametrize("name", [name for name, part in COMPONENTS.items() if part.group in ("part", "counts")])
def test_components_of_parts(path: Path, name: str) -> None:
    """Right checksums around wrong tables."""
    (part,) = path.glob("part.*")
    meta, arrays = load_index(part, preload=True, verify=True)
    meta = {key: value for key, value in meta.items() if key != "files"}
    for other in wrong(np.array(arrays[name]), np.random.default_rng(0)):
        save_index(part, {**arrays, name: other}, meta, overwrite=True, check=lambda *_: None)
        tried(path)


def test_a_part_of_another_collection(path: Path, tmp_path: Path) -> None:
    """A part whose codes are larger than the collection's largest is refused."""
    other = tmp_path / "other"
    with Collection.create(other) as collection:
        collection.add(sp.csr_matrix(np.full((21, 40), 200.0)))
        collection._open_store.flush({"threads": 1})
    (part,) = path.glob("part.*")
    (foreign,) = other.glob("part.*")
    for file in part.iterdir():
        file.unlink()
    for file in foreign.iterdir():
        (part / file.name).write_bytes(file.read_bytes())
    with pytest.raises(segmax.SegmaxError):
        segmax.open(path).search("copper")
    tried(path)


@pytest.mark.parametrize("pattern", ["part.*", "deleted.*", "lattice.*", "statistics.*", "log.*", "manifest.json"])
def test_missing_files(path: Path, pattern: str) -> None:
    """Each is named."""
    for file in path.glob(pattern):
        if file.is_dir():
            (file / "meta.json").unlink()
        else:
            file.unlink()
    with pytest.raises(segmax.SegmaxError):
        segmax.Collection.open(path)


def test_entries_of_the_manifest(path: Path, tmp_path: Path) -> None:
    """Whatever a manifest says, with a right checksum."""
    good = read_manifest(path)
    assert good.parts
    odd: dict[str, list[Any]] = {
        "extra": [{}, {"lattice": {}}, {"lattice": {"kind": "x"}, "id_kind": 3}, {"durability": "often"}],
        "next_number": [0, 2**62],
        "encoder": [None, {"encoder": "SparseModel", "model": "/etc"}],
        "config": [{}, {"num_segments": -1}],
        "calibration": [(1, 2)],
        "schema": [{"fields": 3}],
    }
    for name, values in odd.items():
        for number, value in enumerate(values):
            copy = tmp_path / f"{name}{number}"
            shutil.copytree(path, copy)
            (copy / "manifest.json").write_bytes(manifest_bytes(dataclasses.replace(good, **{name: value})))
            tried(copy)
