"""The folder of unfinished work: what is not ours stays, and what it holds is read as hostile input."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import refused
from encoding_samples import Lengths, documents, interrupted
from segmax.base.errors import FormatError, IndexExistsError, SegmaxError, SegmaxWarning
from segmax.encoders import BM25
from segmax.encoders.chunks import batched
from segmax.text import encode_texts

pytest.importorskip("bm25s")
pytest.importorskip("Stemmer")


def test_folders_of_others_are_left_alone(tmp_path: Path) -> None:
    """A folder, file or link in the place of unfinished work that is not ours: an error, and nothing is touched."""
    target = tmp_path / "docs.npz"
    place = tmp_path / "docs.npz.encoding"
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.txt").write_text("years of work")

    def left_alone() -> None:
        with refused(IndexExistsError, where=r"docs\.npz\.encoding'", got="something that segmax did not make"):
            encode_texts(Lengths(), documents(9), target, overwrite=True)
        assert not target.exists()

    shutil.copytree(precious, place)
    left_alone()
    (place / "journal.json").write_text('{"format": "a diary", "version": 1}')
    left_alone()
    for content in ("{}", "[]", "null", '"segmax"', "5", '{"shards": []}'):
        (place / "journal.json").write_text(content)
        left_alone()
    assert sorted(path.name for path in place.iterdir()) == ["journal.json", "thesis.txt"]
    shutil.rmtree(place)
    place.mkdir()
    left_alone()
    place.rmdir()
    place.write_text("a file")
    left_alone()
    place.unlink()
    place.symlink_to(precious)
    left_alone()
    place.unlink()
    place.symlink_to(tmp_path / "nowhere")
    left_alone()
    assert (precious / "thesis.txt").read_text() == "years of work"


def test_only_files_of_the_journal_are_deleted(tmp_path: Path) -> None:
    """Foreign files beside the shards stay, links lead nowhere, and a link to the folder is not followed."""
    docs = documents(57)
    target = tmp_path / "docs.npz"
    with pytest.raises(KeyboardInterrupt):
        encode_texts(Lengths(fail_after=30), docs, target, shard_seconds=0)
    place = tmp_path / "docs.npz.encoding"
    outside = tmp_path / "outside.npz"
    outside.write_text("mine")
    (place / "notes.txt").write_text("mine")
    (place / "shard-000099.npz").symlink_to(outside)
    (place / "shard-000098.npz").mkdir()
    (place / "shard-000077.npz").write_text("mine")
    (place / "journal.json.new").write_text("half")
    with pytest.warns(SegmaxWarning, match=r"docs\.npz\.encoding' stays: .* left 'notes\.txt' and 3 more; move"):
        encode_texts(Lengths(), docs, target)
    assert outside.read_text() == (place / "shard-000077.npz").read_text() == "mine"
    left = ["notes.txt", "shard-000077.npz", "shard-000098.npz", "shard-000099.npz"]
    assert sorted(path.name for path in place.iterdir()) == left


def test_files_of_others_are_not_overwritten(tmp_path: Path) -> None:
    """A file that has the name of a shard to come stops the work, and stays."""
    docs = documents(57)
    target = tmp_path / "docs.npz"
    with pytest.raises(KeyboardInterrupt):
        encode_texts(Lengths(fail_after=30), docs, target, shard_seconds=0)
    foreign = tmp_path / "docs.npz.encoding" / "shard-000004.npz"
    foreign.write_text("mine")
    with refused(IndexExistsError, where=r"shard-000004\.npz", got="a file that segmax did not write"):
        encode_texts(Lengths(), docs, target, shard_seconds=0)
    assert foreign.read_text() == "mine"
    foreign.unlink()
    assert encode_texts(Lengths(), docs, target).num_docs == 57


def test_hostile_journals(tmp_path: Path) -> None:
    """Entries that lead elsewhere, and values of every wrong type: an error of ours that names the folder."""
    docs = documents(57)
    target = tmp_path / "docs.npz"
    with pytest.raises(KeyboardInterrupt):
        encode_texts(Lengths(fail_after=30), docs, target, shard_seconds=0)
    journal = tmp_path / "docs.npz.encoding" / "journal.json"
    content = json.loads(journal.read_text())
    wrong = (None, True, -1, 1e308, 10**30, "", "x", [], [1], [[]], {}, {"a": 1}, "../../../etc/passwd")
    for key, value in [(key, value) for key in ("format", "version", "job", "shards") for value in wrong]:
        if (key, value) == ("shards", []):
            continue  # nothing is done yet
        journal.write_text(json.dumps({**content, key: value}))
        with refused(SegmaxError, where=r"docs\.npz\.encoding"):
            encode_texts(Lengths(), docs, target)
    for key, value in [(key, value) for key in content["shards"][0] for value in wrong]:
        shards = [{**content["shards"][0], key: value}, *content["shards"][1:]]
        journal.write_text(json.dumps({**content, "shards": shards}))
        with refused(SegmaxError, where=r"docs\.npz\.encoding"):
            encode_texts(Lengths(), docs, target)
    for raw in (b"", b"\xff", b"[" * 100_000):
        journal.write_bytes(raw)
        with refused(FormatError, where=r"docs\.npz\.encoding", expected="a journal of segmax"):
            encode_texts(Lengths(), docs, target)


def changed_arrays(arrays: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every array of a shard gone, shorter, longer, reversed, of another shape, dtype or value."""
    for name, array in arrays.items():
        others = {key: value for key, value in arrays.items() if key != name}
        yield f"no {name}", others
        if not len(array):
            yield f"longer {name}", {**others, name: np.zeros(1, array.dtype)}
            continue
        changes = {
            "shorter": array[:-1],
            "empty": array[:0],
            "longer": np.concatenate([array, array[-1:]]),
            "2-D": array.reshape(1, -1),
            "scalar": array.reshape(-1)[0],
            "text": array.astype("U8"),
            "complex": array.astype(complex),
            "swapped bytes": array.astype(array.dtype.newbyteorder()),
        }
        if array.dtype.kind in "iu":
            changes |= {"float": array.astype(float), "lowered": array.astype(np.int64) - 5}
        if name == "indices":
            changes |= {"raised": array + 10**6}
        if name in ("indptr", "id_offset"):
            changes |= {
                "reversed": array[::-1].copy(),
                "too large": np.append(array[:-1], np.array(10**9, array.dtype)),
            }
        if name == "data":
            changes |= {"nan": array * np.nan, "negative": -array.astype(float), "infinite": array * np.inf}
        for what, change in changes.items():
            if change.dtype != array.dtype or change.shape != array.shape or not np.array_equal(change, array):
                yield f"{what} {name}", {**others, name: change}


@pytest.mark.parametrize("kind", ["lengths", "bm25"])
def test_damaged_shards_leave_everything_as_it_is(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shard that is not what the journal wrote is an error that names it; output, journal and shards stay."""
    monkeypatch.setattr("segmax.encoders.bm25._PIECE_DOCS", 10)
    monkeypatch.setattr("segmax.text.shards.batched", lambda documents: batched(documents, 10))
    make = Lengths if kind == "lengths" else BM25
    docs = documents(57)
    target = tmp_path / "docs.npz"
    encode_texts(make(), docs, target)
    before = target.read_bytes()
    with pytest.raises(KeyboardInterrupt):
        encode_texts(make(), interrupted(docs, 30), target, shard_seconds=0, overwrite=True)
    folder = tmp_path / "docs.npz.encoding"
    shard = folder / "shard-000001.npz"
    good = shard.read_bytes()
    with np.load(shard) as opened:
        arrays = dict(opened)
    listed = sorted(path.name for path in folder.iterdir())
    for what, changed in changed_arrays(arrays):
        np.savez(shard, **changed)
        with refused(
            FormatError, where=r"shard-000001\.npz", got=r"^a damaged one \(.*\)$", hint="remove its folder"
        ) as caught:
            encode_texts(make(), docs, target, overwrite=True)
        assert "\n" not in str(caught.value), what
        assert target.read_bytes() == before, what
        assert sorted(path.name for path in folder.iterdir()) == listed, what
    np.savez_compressed(shard, **arrays)
    with refused(FormatError, got="it is compressed"):
        encode_texts(make(), docs, target, overwrite=True)
    shard.unlink()
    os.mkfifo(shard)
    with refused(FormatError, where=r"shard-000001\.npz", got="not a regular file but a pipe"):
        encode_texts(make(), docs, target, overwrite=True)
    shard.unlink()
    with refused(FormatError, where=r"shard-000001\.npz", got="No such file"):
        encode_texts(make(), docs, target, overwrite=True)
    shard.write_bytes(good)
    assert encode_texts(make(), docs, target, overwrite=True).num_resumed == 30


def test_shards_of_other_work_do_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shard in the place of another, and dense vectors of another width."""
    monkeypatch.setattr("segmax.encoders.bm25._PIECE_DOCS", 10)
    monkeypatch.setattr("segmax.text.shards.batched", lambda documents: batched(documents, 10))
    folder = tmp_path / "docs.npz.encoding"
    shard = folder / "shard-000001.npz"
    with pytest.raises(KeyboardInterrupt):
        encode_texts(BM25(), interrupted(documents(57), 30), tmp_path / "docs.npz", shard_seconds=0)
    shutil.copy(folder / "shard-000002.npz", shard)
    with refused(FormatError, where=r"shard-00000[12]\.npz", got="a damaged one"):
        encode_texts(BM25(), documents(57), tmp_path / "docs.npz")
    shutil.rmtree(folder)
    with pytest.raises(KeyboardInterrupt):
        encode_texts(Lengths(fail_after=30), documents(57), tmp_path / "docs.npz", shard_seconds=0)
    with np.load(shard) as opened:
        arrays = dict(opened)
    np.savez(shard, **{**arrays, "dense_max": arrays["dense_max"][:, :1]})
    with refused(FormatError, where=r"shard-000001\.npz", got="expected 10 dense vectors of float32"):
        encode_texts(Lengths(), documents(57), tmp_path / "docs.npz")
