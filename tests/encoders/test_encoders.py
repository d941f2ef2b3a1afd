"""Encoding a collection into a file: interrupted, resumed, refused; and the command that does it."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp

from conftest import refused
from segmax.base.errors import (
    ConfigError,
    FormatError,
    IndexExistsError,
    InputError,
    SegmaxError,
    SegmaxWarning,
    WriteError,
)
from segmax.base.progress import BuildProgress
from segmax.cli import encode
from segmax.encoders import BM25
from segmax.encoders.chunks import batched, regrouped
from segmax.encoders.pooling import write_dense
from segmax.io import open_vectors
from segmax.text import encode_texts
from segmax.vectors.documents import Document, VectorBatch

pytest.importorskip("bm25s")
pytest.importorskip("Stemmer")

SYLLABLES = ("ka", "to", "mi", "ru", "sen", "lo", "pa", "ni")


def documents(count: int) -> list[Document]:
    """Documents of a few words, some empty, with awkward ids."""
    rng = np.random.default_rng(11)
    made = []
    for number in range(count):
        words = ["".join(rng.choice(SYLLABLES, 3)) for _ in range(number % 9)]
        made.append(Document(f"dök\u2028{number}", f"title{number % 3}" if number % 2 else "", " ".join(words)))
    return made


class Lengths:
    """A model without torch: lengths of title and text, and dense vectors. Stops after some documents if asked to."""

    vocabulary = ("title", "text", "always")

    def __init__(self, option: int = 1, fail_after: int | None = None) -> None:
        self._option = option
        self._fail_after = fail_after
        self.num_encoded = 0

    def to_dict(self) -> dict[str, Any]:
        return {"encoder": "lengths", "option": self._option}

    def encode_documents(self, batches: Iterable[Sequence[Document]]) -> Iterator[VectorBatch]:
        for batch in regrouped(batches, 10):
            if self._fail_after is not None and self.num_encoded >= self._fail_after:
                raise KeyboardInterrupt
            rows = np.array([(len(doc.title), len(doc.text), 1) for doc in batch], dtype=np.float32)
            yield VectorBatch([doc.id for doc in batch], sp.csr_matrix(rows), {"max": rows[:, :2] + 0.5})
            self.num_encoded += len(batch)

    def encode_queries(self, batch: Sequence[str]) -> sp.csr_matrix:
        return sp.csr_matrix([(0, len(text), 2) for text in batch], dtype=np.float32)


class Stored(NamedTuple):
    """What a file holds."""

    ids: list[str]
    terms: list[str]
    vectors: sp.csr_matrix


def stored(path: Path) -> Stored:
    """Read a file of vectors."""
    reader = open_vectors(path)
    ids = [doc_id for batch in reader.batches() for doc_id in batch.ids]
    assert reader.terms is not None
    return Stored(ids, list(reader.terms), sp.csr_matrix(sp.load_npz(path)))


def interrupted(docs: list[Document], after: int) -> Iterator[Document]:
    """Documents, and Ctrl-C after some of them."""
    yield from docs[:after]
    raise KeyboardInterrupt


def assert_same(first: Path, second: Path) -> None:
    """Two files hold the same, to the last bit."""
    one, other = stored(first), stored(second)
    assert one.ids == other.ids
    assert one.terms == other.terms
    assert one.vectors.shape == other.vectors.shape
    assert (one.vectors.indptr == other.vectors.indptr).all()
    assert (one.vectors.indices == other.vectors.indices).all()
    assert (one.vectors.data == other.vectors.data).all()


def test_a_file_holds_the_vectors_of_the_encoder(tmp_path: Path) -> None:
    """Ids, order, terms, weights and dense vectors of a collection, and nothing else is left."""
    docs = documents(57)
    done = encode_texts(Lengths(), docs, tmp_path / "docs.npz")
    found = stored(tmp_path / "docs.npz")
    assert found.ids == [doc.id for doc in docs]
    assert found.terms == ["title", "text", "always"]
    expected = np.array([(len(doc.title), len(doc.text), 1) for doc in docs])
    np.testing.assert_array_equal(found.vectors.toarray(), expected)
    assert (done.num_docs, done.num_resumed, done.encoder) == (57, 0, None)
    assert done.num_postings >= found.vectors.nnz
    dense = np.load(done.dense["max"], mmap_mode="r")
    assert dense.dtype == np.float32
    np.testing.assert_array_equal(dense, expected[:, :2] + 0.5)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["docs.max.npy", "docs.npz"]


def test_bm25_through_shards_is_bm25(tmp_path: Path) -> None:
    """Counts in shards, weighed at the end, are what encode_documents gives; the encoder is saved for queries."""
    docs = documents(300)
    encoder = BM25()
    done = encode_texts(encoder, docs, tmp_path / "docs.npz", shard_seconds=0)
    found = stored(tmp_path / "docs.npz")
    plain = BM25()
    plain.fit([docs])
    weights = sp.vstack([batch.matrix() for batch in plain.encode_documents([docs])])
    assert found.ids == [doc.id for doc in docs]
    assert found.terms == plain.vocabulary == encoder.vocabulary
    assert abs(found.vectors - weights).max() == 0
    assert done.encoder == tmp_path / "docs.bm25"
    loaded = BM25.load(done.encoder)
    queries = [Document("q0", "", "kakaka tototo"), Document("q1", "", "")]
    encode_texts(loaded, queries, tmp_path / "queries.npz", queries=True)
    np.testing.assert_array_equal(
        stored(tmp_path / "queries.npz").vectors.toarray(), plain.encode_queries(["kakaka tototo", ""]).toarray()
    )


@pytest.mark.parametrize("kind", ["lengths", "bm25"])
@pytest.mark.parametrize("stops", [(25,), (0, 10, 11, 40), (57,)])
def test_resumed_is_as_if_never_interrupted(
    tmp_path: Path, kind: str, stops: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often it stops, ids, order, counts and weights are those of one run; what is done is not done again."""
    monkeypatch.setattr("segmax.encoders.bm25._PIECE_DOCS", 10)
    monkeypatch.setattr("segmax.text.shards.batched", lambda documents: batched(documents, 10))
    docs = documents(57)
    make = Lengths if kind == "lengths" else BM25
    encode_texts(make(), docs, tmp_path / "whole.npz")
    for stop in stops:
        with pytest.raises(KeyboardInterrupt):
            encode_texts(make(), interrupted(docs, stop), tmp_path / "parts.npz", shard_seconds=0)
        assert not (tmp_path / "parts.npz").exists()
    encoder = make()
    done = encode_texts(encoder, docs, tmp_path / "parts.npz")
    assert done.num_resumed == max(stops) // 10 * 10
    if isinstance(encoder, Lengths):
        assert encoder.num_encoded == 57 - done.num_resumed
        assert (tmp_path / "parts.max.npy").read_bytes() == (tmp_path / "whole.max.npy").read_bytes()
    else:
        assert (tmp_path / "parts.bm25" / "bm25.json").read_text() == (
            tmp_path / "whole.bm25" / "bm25.json"
        ).read_text()
    assert_same(tmp_path / "parts.npz", tmp_path / "whole.npz")
    assert not (tmp_path / "parts.npz.encoding").exists()


def test_encoded_documents_survive_an_interruption(tmp_path: Path) -> None:
    """Whole batches that are in no shard yet are written when an encoder is interrupted."""
    docs = documents(57)
    with pytest.raises(KeyboardInterrupt):
        encode_texts(Lengths(fail_after=30), docs, tmp_path / "docs.npz")
    encoder = Lengths()
    assert encode_texts(encoder, docs, tmp_path / "docs.npz").num_resumed == 30
    assert encoder.num_encoded == 27


def test_other_texts_and_options_are_refused(tmp_path: Path) -> None:
    """A text that changed, fewer texts, another option or another way of reading them: nothing is mixed."""
    docs = documents(57)
    target = tmp_path / "docs.npz"
    with pytest.raises(KeyboardInterrupt):
        encode_texts(Lengths(fail_after=30), docs, target)
    changed = [*docs[:12], docs[12]._replace(text="another"), *docs[13:]]
    with pytest.raises(InputError, match=r"texts have changed since .* between document 0 and 29"):
        encode_texts(Lengths(), changed, target)
    swapped = [docs[1], docs[0], *docs[2:]]
    with pytest.raises(InputError, match="texts have changed"):
        encode_texts(Lengths(), swapped, target)
    with pytest.raises(InputError, match="at least 30, got 20"):
        encode_texts(Lengths(), docs[:20], target)
    with pytest.raises(ConfigError, match="started with option = 1, now it is 2"):
        encode_texts(Lengths(option=2), docs, target)
    with pytest.raises(ConfigError, match="started with title = True, now it is False"):
        encode_texts(Lengths(), docs, target, title=False)
    with pytest.raises(ConfigError, match="started with encoder = 'lengths', now it is 'bm25'"):
        encode_texts(BM25(), docs, target)
    journal = tmp_path / "docs.npz.encoding" / "journal.json"
    journal.write_text(journal.read_text()[:-10])
    with pytest.raises(FormatError, match="is damaged"):
        encode_texts(Lengths(), docs, target)


def test_half_written_shards_do_not_count(tmp_path: Path) -> None:
    """A shard that is not in the journal is written again; a damaged shard is refused."""
    docs = documents(57)
    target = tmp_path / "docs.npz"
    with pytest.raises(KeyboardInterrupt):
        encode_texts(Lengths(fail_after=30), docs, target, shard_seconds=0)
    folder = tmp_path / "docs.npz.encoding"
    (folder / "shard-000003.npz").write_bytes(b"half")
    (folder / "shard-000004.npz.new").write_bytes(b"half")
    with pytest.raises(KeyboardInterrupt):
        encode_texts(Lengths(fail_after=20), docs, target, shard_seconds=0)
    (folder / "shard-000001.npz").write_bytes(b"half")
    with pytest.raises(FormatError, match=r"shard-000001\.npz"):
        encode_texts(Lengths(), docs, target)


def test_titles_can_be_left_out(tmp_path: Path) -> None:
    """Without titles they count for nothing."""
    encode_texts(Lengths(), documents(9), tmp_path / "docs.npz", title=False)
    assert stored(tmp_path / "docs.npz").vectors[:, 0].nnz == 0


def test_existing_files_are_not_replaced_unasked(tmp_path: Path) -> None:
    """A file that is there stays, unless overwrite is set."""
    target = tmp_path / "docs.npz"
    encode_texts(Lengths(), documents(9), target)
    with pytest.raises(IndexExistsError, match="exists"):
        encode_texts(Lengths(), documents(5), target)
    encode_texts(Lengths(), documents(5), target, overwrite=True)
    assert len(stored(target).ids) == 5


@pytest.mark.parametrize("kind", ["lengths", "bm25"])
def test_files_beside_another_file_are_not_replaced(tmp_path: Path, kind: str) -> None:
    """Files of one stem share the names beside them: the second is refused, even if it was started first."""
    make = Lengths if kind == "lengths" else BM25
    beside = tmp_path / ("docs.max.npy" if kind == "lengths" else "docs.bm25/bm25.json")
    with pytest.raises(KeyboardInterrupt):
        encode_texts(make(), interrupted(documents(5), 3), tmp_path / "docs.jsonl")
    encode_texts(make(), documents(9), tmp_path / "docs.npz")
    before = beside.read_bytes()
    for name in ("docs.jsonl", "docs.parquet"):
        with pytest.raises(IndexExistsError, match=r"exists, perhaps of another file than .*overwrite=True"):
            encode_texts(make(), documents(5), tmp_path / name)
        assert not (tmp_path / name).exists()
    assert beside.read_bytes() == before
    encode_texts(make(), documents(5), tmp_path / "docs.jsonl", overwrite=True)
    assert beside.read_bytes() != before


def test_killed_between_a_file_and_those_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the file is there, what lies beside it is its own: the same call again ends the work."""
    target = tmp_path / "docs.npz"

    def killed(self: BM25, folder: Path) -> None:
        Path(folder).mkdir()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(BM25, "save", killed)
        with pytest.raises(KeyboardInterrupt):
            encode_texts(BM25(), documents(9), target)
    assert target.exists()
    assert encode_texts(BM25(), documents(9), target).num_resumed == 9
    assert BM25.load(tmp_path / "docs.bm25").num_docs == 9
    assert not (tmp_path / "docs.npz.encoding").exists()


def test_weights_are_scaled_and_formats_checked(tmp_path: Path) -> None:
    """A scale is applied while the file is written; invalid formats are refused before anything is encoded."""
    encode_texts(Lengths(), documents(9), tmp_path / "plain.npz")
    encode_texts(Lengths(), documents(9), tmp_path / "scaled.npz", scale=0.5)
    plain, scaled = stored(tmp_path / "plain.npz"), stored(tmp_path / "scaled.npz")
    assert abs(plain.vectors * 0.5 - scaled.vectors).max() == 0
    encode_texts(Lengths(), documents(9), tmp_path / "whole.ciff", scale="impacts")  # these are whole numbers
    for name, options, message in (
        ("docs.odd", {}, "say which with format="),
        ("docs.npz", {"format": "odd"}, "got format 'odd'"),
        ("docs.ciff", {}, "ciff holds whole numbers"),
        ("docs.npz", {"scale": "odd"}, "expected scale to be"),
    ):
        with pytest.raises(ConfigError, match=message):
            encode_texts(Lengths(), documents(9), tmp_path / name, **options)  # type: ignore[arg-type]
    with refused(InputError, expected="an existing directory"):
        encode_texts(Lengths(), documents(9), tmp_path / "none" / "docs.npz")
    assert list(tmp_path.glob("**/*.encoding")) == []


def test_progress_counts_documents(tmp_path: Path) -> None:
    """Updates count the documents that are done, those of an earlier run included."""
    docs = documents(57)
    with pytest.raises(KeyboardInterrupt):
        encode_texts(Lengths(fail_after=30), docs, tmp_path / "docs.npz")
    told: list[BuildProgress] = []
    encode_texts(Lengths(), docs, tmp_path / "docs.npz", progress=told.append)
    last = {step.stage: step for step in told}
    assert [(name, step.done, step.total) for name, step in last.items()] == [("encode", 57, 57), ("write", 57, 57)]


def test_dense_files_have_the_promised_number_of_rows(tmp_path: Path) -> None:
    """Too few rows or too many: an error, and no file."""
    rows = np.ones((4, 3), dtype=np.float32)
    for count in (3, 5):
        with pytest.raises(InputError, match=f"expected {count} dense vectors"):
            write_dense(tmp_path / "dense.npy", [rows], count)
    assert list(tmp_path.iterdir()) == []


def test_pieces_do_not_depend_on_batches() -> None:
    """Pieces end by number of documents, or of characters."""
    docs = documents(23)
    for size in (1, 4, 100):
        pieces = list(regrouped([docs[i : i + size] for i in range(0, 23, size)], 5))
        assert [len(piece) for piece in pieces] == [5, 5, 5, 5, 3]
        assert [doc for piece in pieces for doc in piece] == docs
    long = [Document("x", "", "a" * 10)] * 6
    assert [len(piece) for piece in regrouped([long], 5, max_characters=25)] == [3, 3]


# --- the folder of unfinished work -----------------------------------------------------------------------------------


def test_folders_of_others_are_left_alone(tmp_path: Path) -> None:
    """A folder, file or link in the place of unfinished work that is not ours: an error, and nothing is touched."""
    target = tmp_path / "docs.npz"
    place = tmp_path / "docs.npz.encoding"
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.txt").write_text("years of work")

    def refused() -> None:
        with pytest.raises(IndexExistsError, match=r"docs\.npz\.encoding', which exists already and is not its own"):
            encode_texts(Lengths(), documents(9), target, overwrite=True)
        assert not target.exists()

    shutil.copytree(precious, place)
    refused()
    (place / "journal.json").write_text('{"format": "a diary", "version": 1}')
    refused()
    for content in ("{}", "[]", "null", '"segmax"', "5", '{"shards": []}'):
        (place / "journal.json").write_text(content)
        refused()
    assert sorted(path.name for path in place.iterdir()) == ["journal.json", "thesis.txt"]
    shutil.rmtree(place)
    place.mkdir()
    refused()
    place.rmdir()
    place.write_text("a file")
    refused()
    place.unlink()
    place.symlink_to(precious)
    refused()
    place.unlink()
    place.symlink_to(tmp_path / "nowhere")
    refused()
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
    with pytest.raises(IndexExistsError, match=r"shard-000004\.npz' is in the way, and segmax did not write it"):
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
        with pytest.raises(SegmaxError, match=r"docs\.npz\.encoding"):
            encode_texts(Lengths(), docs, target)
    for key, value in [(key, value) for key in content["shards"][0] for value in wrong]:
        shards = [{**content["shards"][0], key: value}, *content["shards"][1:]]
        journal.write_text(json.dumps({**content, "shards": shards}))
        with pytest.raises(SegmaxError, match=r"docs\.npz\.encoding"):
            encode_texts(Lengths(), docs, target)
    for raw in (b"", b"\xff", b"[" * 100_000):
        journal.write_bytes(raw)
        with pytest.raises(FormatError, match=r"docs\.npz\.encoding"):
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
        with pytest.raises(
            FormatError, match=r"shard-000001\.npz' is damaged \(.*\); remove '.*' to start over"
        ) as told:
            encode_texts(make(), docs, target, overwrite=True)
        assert "\n" not in str(told.value), what
        assert target.read_bytes() == before, what
        assert sorted(path.name for path in folder.iterdir()) == listed, what
    np.savez_compressed(shard, **arrays)
    with pytest.raises(FormatError, match="it is compressed"):
        encode_texts(make(), docs, target, overwrite=True)
    shard.unlink()
    os.mkfifo(shard)
    with pytest.raises(FormatError, match=r"shard-000001\.npz' is damaged \(not a regular file but a pipe\)"):
        encode_texts(make(), docs, target, overwrite=True)
    shard.unlink()
    with pytest.raises(FormatError, match=r"shard-000001\.npz' is damaged \(No such file"):
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
    with pytest.raises(FormatError, match=r"shard-00000[12]\.npz' is damaged"):
        encode_texts(BM25(), documents(57), tmp_path / "docs.npz")
    shutil.rmtree(folder)
    with pytest.raises(KeyboardInterrupt):
        encode_texts(Lengths(fail_after=30), documents(57), tmp_path / "docs.npz", shard_seconds=0)
    with np.load(shard) as opened:
        arrays = dict(opened)
    np.savez(shard, **{**arrays, "dense_max": arrays["dense_max"][:, :1]})
    with pytest.raises(FormatError, match=r"shard-000001\.npz' is damaged \(expected 10 dense vectors of float32"):
        encode_texts(Lengths(), documents(57), tmp_path / "docs.npz")


def test_weights_that_no_file_holds_stop_at_once(tmp_path: Path) -> None:
    """An encoder that gives a negative weight: an error that names the document, before anything is kept."""

    class Negative(Lengths):
        def encode_documents(self, batches: Iterable[Sequence[Document]]) -> Iterator[VectorBatch]:
            for batch in super().encode_documents(batches):
                yield batch._replace(vectors=-batch.vectors)

    with refused(InputError, expected="finite weights >= 0", got=r"-\d.* in document 0, term \d"):
        encode_texts(Negative(), documents(20), tmp_path / "docs.npz")
    assert not list(tmp_path.rglob("*.npz"))


@pytest.mark.parametrize("kind", ["lengths", "bm25"])
def test_a_full_disk_at_every_write(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever write finds no room, it is a WriteError, and the next run resumes as if nothing had happened."""
    monkeypatch.setattr("segmax.encoders.bm25._PIECE_DOCS", 10)
    monkeypatch.setattr("segmax.text.shards.batched", lambda documents: batched(documents, 10))
    make = Lengths if kind == "lengths" else BM25
    docs = documents(57)
    encode_texts(make(), docs, tmp_path / "whole.npz")
    full = threading.local()
    full.left = 10**9
    sync = os.fsync

    def counted(descriptor: int) -> None:
        full.left -= 1
        if full.left < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", counted)
    target = tmp_path / "parts.npz"
    for room in range(40):
        full.left = room
        try:
            encode_texts(make(), docs, target, shard_seconds=0, overwrite=True)
            break
        except WriteError as error:
            told = str(error)
        assert "No space left on device" in told
    assert room > 3
    assert_same(target, tmp_path / "whole.npz")
    assert not (tmp_path / "parts.npz.encoding").exists()


def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    """With a limit on the size of files, which stands for a full disk, the command ends with one line."""
    corpus = tmp_path / "corpus.jsonl"
    lines = (json.dumps({"_id": str(i), "text": f"word{i} " * 20 + f"more{i * 7}"}) for i in range(3000))
    corpus.write_text("\n".join(lines) + "\n")
    program = (
        "import resource, signal, sys; from segmax.cli import main; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1]))); "
        "sys.exit(main(['encode', sys.argv[2], sys.argv[3]]))"
    )
    for limit in (10, 1000, 20_000, 60_000):
        command = [sys.executable, "-c", program, str(limit), str(corpus), str(tmp_path / "docs.npz")]
        result = subprocess.run(command, capture_output=True, text=True)
        assert result.returncode == 2, result.stderr
        assert result.stderr.startswith("segmax: error: could not write")
        assert result.stderr.count("\n") == 1


def test_dense_vectors_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No memory map, which would kill the process; the file that was there stays."""
    rows = np.ones((4, 3), dtype=np.float32)
    write_dense(tmp_path / "dense.npy", [rows], 4)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
        with pytest.raises(WriteError, match=r"could not write .*dense\.npy"):
            write_dense(tmp_path / "dense.npy", [rows * 2] * 100, 400)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    np.testing.assert_array_equal(np.load(tmp_path / "dense.npy"), rows)
    assert [path.name for path in tmp_path.iterdir()] == ["dense.npy"]


# --- the command -----------------------------------------------------------------------------------------------------


def write_corpus(path: Path, docs: list[Document]) -> None:
    """A BEIR file."""
    lines = [json.dumps({"_id": doc.id, "title": doc.title, "text": doc.text}) + "\n" for doc in docs]
    path.write_text("".join(lines), encoding="utf-8")


def run(*arguments: str) -> None:
    """Run the command as the command line does."""
    encode.run(encode.parser().parse_intermixed_args(list(arguments)))


def test_the_command_encodes_documents_and_queries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Options reach the encoder; the saved encoder encodes queries."""
    monkeypatch.chdir(tmp_path)
    docs = documents(40)
    write_corpus(Path("corpus.jsonl"), docs)
    run(
        "corpus.jsonl",
        "docs.npz",
        "--k1",
        "0.9",
        "--b",
        "0.4",
        "--language",
        "none",
        "--no-title",
        "--stopwords",
        "none",
    )
    printed = capsys.readouterr().out
    assert "docs.npz: 40 documents" in printed
    assert "docs.bm25: the encoder" in printed
    plain = BM25(k1=0.9, b=0.4, language=None, stopwords=None)
    untitled = [[doc._replace(title="") for doc in docs]]
    plain.fit(untitled)
    (batch,) = plain.encode_documents(untitled)
    found = stored(Path("docs.npz"))
    assert found.ids == [doc.id for doc in docs]
    assert found.terms == plain.vocabulary
    assert abs(found.vectors - batch.matrix()).max() == 0
    write_corpus(Path("queries.jsonl"), [Document("q", "", f"{plain.vocabulary[0]} {plain.vocabulary[0]}")])
    run("queries.jsonl", "queries.npz", "--queries", "--encoder", "docs.bm25")
    assert "1 query," in capsys.readouterr().out
    assert stored(Path("queries.npz")).vectors.toarray()[0, 0] == 2


def test_the_command_refuses_files_that_do_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong numbers, and options that an encoder does not have."""
    monkeypatch.chdir(tmp_path)
    write_corpus(Path("corpus.jsonl"), documents(3))
    with pytest.raises(ConfigError, match="--k1: expected a number, got 'much'"):
        run("corpus.jsonl", "docs.npz", "--k1", "much")
    with pytest.raises(ConfigError, match="bm25 has no option 'batch_size'; it has k1, b"):
        run("corpus.jsonl", "docs.npz", "--batch-size", "3")
    with pytest.raises(ConfigError, match="BM25 has no token embeddings to pool"):
        run("corpus.jsonl", "docs.npz", "--dense", "max")
    with pytest.raises(ConfigError, match="there is no folder"):
        run("corpus.jsonl", "docs.npz", "--encoder", "./nowhere")


def test_killed_and_started_again(tmp_path: Path) -> None:
    """A process that is killed in the middle leaves shards, and the next one ends with what one run gives."""
    docs = documents(3000)
    program = f"""
import sys, time
sys.path[:0] = [{str(Path(__file__).parent)!r}, {str(Path(__file__).parents[1])!r}]
from test_encoders import documents
from segmax.encoders import BM25
from segmax.text import encode_texts
import segmax.encoders.bm25 as module
module._PIECE_DOCS = 100
def slowly(docs):
    for number, doc in enumerate(docs):
        if number % 100 == 0: time.sleep(0.02)
        yield doc
encode_texts(BM25(), slowly(documents(3000)), {str(tmp_path / "parts.npz")!r}, shard_seconds=0)
"""
    process = subprocess.Popen([sys.executable, "-c", program], env=os.environ)
    deadline = time.monotonic() + 60
    while not (tmp_path / "parts.npz.encoding" / "shard-000002.npz").exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = encode_texts(BM25(), docs, tmp_path / "parts.npz")
    assert done.num_docs == 3000
    assert done.num_resumed >= 200
    encode_texts(BM25(), docs, tmp_path / "whole.npz")
    assert_same(tmp_path / "parts.npz", tmp_path / "whole.npz")
