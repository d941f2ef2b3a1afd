"""Logs of release 0.2.0, logs that cannot be read, and documents that would make such logs."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import segmax
from conftest import refused
from segmax.cli.main import main
from segmax.collection import changes, lattice
from segmax.collection.collection import Collection
from segmax.errors import FormatError, InputError, SegmaxWarning
from segmax.vectors.rows import narrowest


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the collection is."""
    return tmp_path / "docs"


def left_by_a_crash(collection: Collection) -> None:
    """End a collection without what `close` does."""
    collection._finalizer.detach()
    assert collection._maintainer is not None
    collection._maintainer.stop()
    store = collection._open_store
    assert store._log is not None
    assert store._lock is not None
    store._log.close()
    store._lock.release()


@pytest.mark.parametrize("count", [65_535, 65_536, 70_000])
def test_a_word_may_occur_often(path: Path, count: int) -> None:
    """A document with a count of more than 16 bits is found after a crash."""
    collection = Collection.create(path, encoder="bm25")
    collection.add([{"id": "often", "text": "copper " * count}, {"id": "once", "text": "copper wire"}])
    expected = collection.search("copper wire")
    left_by_a_crash(collection)
    with Collection.open(path) as again:
        found = again.search("copper wire")
        assert (found.ids, found.scores.tolist()) == (expected.ids, expected.scores.tolist())
        assert again._current().views[0].part.counts.values.max() == count  # type: ignore[union-attr]


def test_a_log_of_version_0_2_0_opens(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has signed numbers where a word occurs 65,536 times or more."""

    def as_then(values: np.ndarray) -> np.ndarray:
        return values.astype(np.int32) if values.max(initial=0) > 65_535 else narrowest(values)

    collection = Collection.create(path, encoder="bm25")
    with monkeypatch.context() as patch:
        patch.setattr(changes, "narrowest", as_then)
        collection.add([{"id": "often", "text": "copper " * 65_536}, {"id": "once", "text": "copper wire"}])
    expected = collection.search("copper").scores.tolist()
    left_by_a_crash(collection)
    (log,) = path.glob("log.*")
    assert b'"values", "<i4"' in log.read_bytes()
    segmax.verify(path)
    for read_only in (True, False):
        with Collection.open(path, read_only=read_only) as again:
            assert again.search("copper").scores.tolist() == expected


def test_a_batch_of_no_documents_changes_nothing(path: Path) -> None:
    """It is not logged. Release 0.2.0 did log it, with ids of any kind, and opens a collection with other ids."""
    collection = Collection.create(path)
    collection.add(sp.csr_matrix([[1.0]]), ids=[1])
    assert collection.add(sp.csr_matrix((0, 3)), ids=[]) == 0
    assert collection.sequence == 1
    names = {"id_offset": np.zeros(1, np.uint64), "id_text": np.zeros(0, np.uint8)}
    nothing = changes.deletion(np.zeros(0, np.int64))._replace(ids=names)
    log = collection._open_store._log
    assert log is not None
    log.append(changes.CHANGE, changes.to_pieces(nothing))
    log.append(changes.CHANGE, changes.to_pieces(nothing))
    left_by_a_crash(collection)
    for read_only in (True, False):
        with Collection.open(path, read_only=read_only) as again:
            assert (list(again.ids()), again.sequence) == ([1], 3)


def test_weights_that_version_0_2_0_cut_are_the_largest_there_are(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It took 70,000 of an unsigned type and searched for 4,464; the log has 70,000, and it opens."""
    collection = Collection.create(path)
    with monkeypatch.context() as patch:
        patch.setattr(lattice, "are_codes", lambda values: values.dtype.kind == "u")
        collection.add(sp.csr_matrix(np.array([[70_000, 3]], np.uint32)))
        assert collection.vector(0).toarray().tolist() == [[4_464, 3]]
    left_by_a_crash(collection)
    with Collection.open(path) as again:
        assert again.vector(0).toarray().tolist() == [[65_535, 3]]
    assert "weights up to 70,000, which are stored as 65,535" in caplog.text


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.uint64, np.float32, np.float64])
@pytest.mark.parametrize("weight", [65_535, 65_536, 70_000, 2**31 - 1])
def test_whole_weights_beyond_16_bits_are_refused_in_every_type(path: Path, dtype: type, weight: int) -> None:
    """None becomes another number; 65,535 is kept, and among fractions all of them are."""
    with Collection.create(path) as collection:
        given = sp.csr_matrix(np.array([[weight, 3]], dtype=dtype))
        if weight == 65_535:
            collection.add(given)
            assert collection.vector(0).toarray().tolist() == [[65_535, 3]]
            return
        with refused(InputError, expected="weights up to 65,535"):
            collection.add(given)
        assert len(collection) == 0
        collection.add(sp.csr_matrix([[weight * 0.75 + 0.1, weight]]))
        collection.add(given)
        expected = collection.search({0: 1.0}).scores.tolist()
        left_by_a_crash(collection)
        with Collection.open(path) as again:
            assert again.search({0: 1.0}).ids == [1, 0]
            assert again.search({0: 1.0}).scores.tolist() == expected


def test_what_could_not_be_read_again_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If segmax itself makes a record that it does not read, nothing is acknowledged, and writing goes on."""
    collection = Collection.create(path, encoder="bm25")
    with monkeypatch.context() as patch:
        patch.delitem(changes._TYPES, "<u4")
        with refused(InputError, expected="can be read again", got="type '<u4'"):
            collection.add({"a": "copper"})
    assert len(collection) == 0
    collection.add({"b": "copper wire"})
    left_by_a_crash(collection)
    with Collection.open(path) as again:
        assert again.search("copper").ids == ["b"]


@pytest.fixture
def unreadable(path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A collection whose last but one record this segmax cannot read, as if a newer one had written it."""
    with Collection.create(path, encoder="bm25") as collection:
        collection.pause_merges()
        collection.add({"a": "copper"})
        collection.add({"b": "copper " * 65_536})
        collection.add({"c": "wire"})
        left_by_a_crash(collection)
    read = changes._unpacked

    def as_older(pieces: list[memoryview]) -> object:
        if b'"values", "<u4"' in bytes(pieces[0]):
            raise ValueError("numbers of the type '<u4'")
        return read(pieces)

    monkeypatch.setattr(changes, "_unpacked", as_older)
    return path


def test_a_log_that_cannot_be_read_names_the_way_out(unreadable: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file, the record and its offset; cut there, a copy opens with what was acknowledged before."""
    with refused(FormatError, where="log.1', record 2 at offset ", hint="update segmax.*docs/durability.md"):
        Collection.open(unreadable)
    assert main(["verify", str(unreadable)]) == 1
    said = capsys.readouterr().out
    place = re.search(r"'([^']+)', record 2 at offset ([0-9,]+)", said)
    assert place is not None, said
    assert "docs/durability.md" in said
    os.truncate(place[1], int(place[2].replace(",", "")))
    with Collection.open(unreadable) as again:
        assert list(again.ids()) == ["a"]


def test_a_reader_does_not_go_on_behind_what_it_cannot_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It fails again instead of leaving out a change; once it can read it, it has everything."""
    with Collection.create(path, encoder="bm25") as collection:
        collection.add({"a": "copper"})
        with Collection.open(path, read_only=True) as reader:
            collection.add({"b": "copper " * 65_536})
            with monkeypatch.context() as patch:
                patch.delitem(changes._TYPES, "<u4")
                for _ in range(2):
                    with pytest.raises(FormatError):
                        reader.refresh()
            collection.add({"c": "copper"})
            reader.refresh()
            assert list(reader.ids()) == ["a", "b", "c"]


def test_weights_further_apart_than_floats_reach_are_stored(path: Path) -> None:
    """The larger one becomes the largest code, with a warning of segmax and none of numpy."""
    collection = Collection.create(path)
    collection.add(sp.csr_matrix([[5e-324, 1e-310]]))
    collection._open_store.flush({"threads": 1})
    with pytest.warns(SegmaxWarning, match="weights up to 1e.300 are stored"):
        collection.add(sp.csr_matrix([[1e300, 0.0]]))
    expected = collection.vector(1).toarray().tolist()
    left_by_a_crash(collection)
    with pytest.warns(SegmaxWarning):
        again = Collection.open(path)
    with again:
        assert again.vector(1).toarray().tolist() == expected
        assert again.search({0: 1e300}).ids == [1, 0]
