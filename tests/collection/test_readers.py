"""What readers of a collection take over, and what they may not do; ids that are none."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import segmax
from conftest import random_docs, refused
from segmax.cli.main import main
from segmax.collection.collection import Collection
from segmax.collection.store import Store
from segmax.errors import ConfigError, InputError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the collection is."""
    return tmp_path / "docs"


@pytest.mark.parametrize("durability", ["batch", "commit", "none"])
def test_a_commit_makes_no_reader_load_everything(path: Path, durability: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It follows the log, and sees what was committed; after a flush, it loads."""
    loads = []
    load = Store._load
    monkeypatch.setattr(Store, "_load", lambda self, prepare: (loads.append(self), load(self, prepare))[1])
    with Collection.create(path, encoder="bm25", durability=durability) as collection:
        collection.pause_merges()
        collection.add({"a": "copper"})
        collection.commit()
        with Collection.open(path, read_only=True) as reader:
            loads.clear()
            for name in "bcd":
                collection.add({name: "copper"})
                collection.commit()
                reader.refresh()
                assert list(reader.ids()) == list(collection.ids())
            assert loads == []
            collection._open_store.flush({"threads": 1})
            reader.refresh()
            assert (list(reader.ids()), loads) == (["a", "b", "c", "d"], [reader._open_store])


def test_a_reader_takes_over_what_was_measured(path: Path) -> None:
    """A calibration is in the manifest, and no reason to load documents."""
    with Collection.create(path) as collection, Collection.open(path, read_only=True) as reader:
        docs = random_docs(np.random.default_rng(0), 300, 40)
        collection.add(docs)
        collection.tune(docs[:30], k=5)
        reader.refresh()
        assert reader.calibration.to_list() == collection.calibration.to_list() != []


def test_tuning_needs_a_collection_that_is_open_for_writing(path: Path) -> None:
    """What a reader measured would be lost; `segmax tune` opens it for writing, and stores it."""
    docs = random_docs(np.random.default_rng(0), 300, 40)
    with Collection.create(path) as collection:
        collection.add(docs)
    with segmax.open(path) as reader:
        with refused(ConfigError, option="read_only", hint="segmax.Collection.open"):
            reader.tune(docs[:30], k=5)
        assert reader.calibration.to_list() == []
    queries = path.parent / "queries.npz"
    sp.save_npz(queries, docs[:30])
    assert main(["tune", str(path), str(queries), "-k", "5"]) == 0
    with segmax.open(path) as reader:
        assert [measured["k"] for measured in reader.calibration.to_list()] == [5]


def is_mapped(array: Any) -> bool:
    """Whether an array lies in a mapped file: what it is a view of is no array then."""
    while isinstance(array, np.ndarray) and array.base is not None:
        array = array.base
    return not isinstance(array.obj if isinstance(array, memoryview) else array, np.ndarray)


def mapped(collection: Any) -> list[bool]:
    """Whether each part on disk is mapped."""
    views = collection._current().views
    return [is_mapped(view.part.engine.arrays["position_row"]) for view in views if view.part.name]


def test_preload_reads_the_parts_of_every_state(path: Path) -> None:
    """Those that were there, those that come, and those of a pickled copy: their files may be cut meanwhile."""
    docs = random_docs(np.random.default_rng(0), 60, 20)
    with Collection.create(path) as collection:
        collection.pause_merges()
        collection.add(docs[:20])
        collection._open_store.flush({"threads": 1})
        with segmax.open(path) as plain, segmax.open(path, preload=True) as reader:
            for first in (20, 40):
                collection.add(docs[first : first + 20])
                collection._open_store.flush({"threads": 1})
                plain.refresh()  # type: ignore[union-attr]
                reader.refresh()  # type: ignore[union-attr]
                with pickle.loads(pickle.dumps(reader)) as copy:
                    assert mapped(copy) == [False] * len(mapped(plain))
                assert set(mapped(plain)) == {True}
                assert mapped(reader) == [False] * len(mapped(plain))
            assert reader.search({0: 1.0, 3: 2.0}).ids == plain.search({0: 1.0, 3: 2.0}).ids
    with Collection.open(path, preload=True) as writer:
        writer.add(docs[:5], ids=range(100, 105))
        writer.compact()
        assert mapped(writer) == [False]
    with refused(ConfigError, option="preload"):
        Collection.open(path, preload=1)  # type: ignore[arg-type]


#: Most of these yield small integers, letters or names of columns when they are iterated, and none is a list of ids.
NO_IDS = [
    b"\x01\x02",
    bytearray(b"\x01\x02"),
    memoryview(b"\x01\x02"),
    {1: "a", 2: "b"},
    1.5,
    np.array(1),
    True,
    [True],
    np.timedelta64(1, "s"),
    np.array([1, 2], "m8[s]"),
]


@pytest.mark.parametrize("ids", NO_IDS, ids=lambda ids: type(ids).__name__)
def test_what_is_no_id_deletes_nothing(path: Path, ids: Any) -> None:
    """Bytes are no list of ids, nor is a mapping; the same holds wherever several ids are given."""
    with Collection.create(path) as collection:
        collection.add(sp.csr_matrix([[1.0]] * 3))
        for call in (
            collection.delete,
            collection.get,
            collection.vectors,
            lambda ids: collection.score({0: 1.0}, ids),
        ):
            with pytest.raises(InputError):
                call(ids)
        for one in (collection.text, collection.metadata, collection.row_of, collection.vector):
            with pytest.raises(InputError):
                one(ids)
        with pytest.raises(InputError):
            collection.update([{"id": ids, "metadata": {}}])
        assert len(collection) == 3


@pytest.mark.parametrize("ids", [1, np.int64(1), [1], (1,), {1}, {1: "a"}.keys(), np.array([1]), range(1, 2)], ids=repr)
def test_ids_to_delete_come_as_one_or_as_several(path: Path, ids: Any) -> None:
    """In any order, because it does not matter here."""
    with Collection.create(path) as collection:
        collection.add(sp.csr_matrix([[1.0]] * 3))
        assert collection.delete(ids) == 1
        assert list(collection.ids()) == [0, 2]
