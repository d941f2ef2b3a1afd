"""Encoding a collection into a file: interrupted, resumed, refused."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from conftest import refused
from encoding_samples import Lengths, assert_same, documents, interrupted, stored
from segmax.base.errors import ConfigError, FormatError, IndexExistsError, InputError, WriteError
from segmax.base.progress import BuildProgress
from segmax.encoders import BM25
from segmax.encoders.chunks import batched
from segmax.text import encode_texts
from segmax.vectors.documents import Document, VectorBatch

pytest.importorskip("bm25s")
pytest.importorskip("Stemmer")


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
    same_texts = {"where": r"docs\.npz\.encoding", "expected": "the texts that the work was started with"}
    with refused(InputError, **same_texts, got="a change between document 0 and 29", hint="remove the folder"):
        encode_texts(Lengths(), changed, target)
    swapped = [docs[1], docs[0], *docs[2:]]
    with refused(InputError, **same_texts, got="a change"):
        encode_texts(Lengths(), swapped, target)
    with refused(InputError, **same_texts, got="only 20, where 30 are encoded"):
        encode_texts(Lengths(), docs[:20], target)
    with refused(ConfigError, where=r"docs\.npz\.encoding", option="^option$", expected="^1, as when", got="^2$"):
        encode_texts(Lengths(option=2), docs, target)
    with refused(ConfigError, option="^title$", expected="^True, as when", got="^False$"):
        encode_texts(Lengths(), docs, target, title=False)
    with refused(ConfigError, option="^encoder$", expected="^'lengths', as when", got="^'bm25'$"):
        encode_texts(BM25(), docs, target)
    journal = tmp_path / "docs.npz.encoding" / "journal.json"
    journal.write_text(journal.read_text()[:-10])
    with refused(FormatError, where=r"journal\.json", expected="a journal of segmax", got="a damaged file"):
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
    with refused(FormatError, where=r"shard-000001\.npz", got="a damaged one"):
        encode_texts(Lengths(), docs, target)


def test_titles_can_be_left_out(tmp_path: Path) -> None:
    """Without titles they count for nothing."""
    encode_texts(Lengths(), documents(9), tmp_path / "docs.npz", title=False)
    assert stored(tmp_path / "docs.npz").vectors[:, 0].nnz == 0


def test_existing_files_are_not_replaced_unasked(tmp_path: Path) -> None:
    """A file that is there stays, unless overwrite is set."""
    target = tmp_path / "docs.npz"
    encode_texts(Lengths(), documents(9), target)
    with refused(IndexExistsError, hint="{overwrite=True}"):
        encode_texts(Lengths(), documents(5), target)
    encode_texts(Lengths(), documents(5), target, overwrite=True)
    assert len(stored(target).ids) == 5


@pytest.mark.parametrize("kind", ["lengths", "bm25"])
def test_files_beside_another_file_are_not_replaced(tmp_path: Path, kind: str) -> None:
    """Files of one stem share the names beside them: the second is refused, even if it was started first."""
    make = Lengths if kind == "lengths" else BM25
    beside_name = "docs.max.npy" if kind == "lengths" else "docs.bm25"
    beside = tmp_path / (beside_name if kind == "lengths" else "docs.bm25/bm25.json")
    with pytest.raises(KeyboardInterrupt):
        encode_texts(make(), interrupted(documents(5), 3), tmp_path / "docs.jsonl")
    encode_texts(make(), documents(9), tmp_path / "docs.npz")
    before = beside.read_bytes()
    for name in ("docs.jsonl", "docs.parquet"):
        with refused(IndexExistsError, where=name, got=f"{beside_name}', which may belong", hint="{overwrite=True}"):
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
    options: dict[str, Any]
    parts: dict[str, str]
    for name, options, parts in (
        ("docs.odd", {}, {"hint": "{format=.*}"}),
        ("docs.npz", {"format": "odd"}, {"got": "'odd'"}),
        ("docs.ciff", {}, {"option": "^scale$", "expected": "one that rounds, because ciff", "hint": "{scale='x100'}"}),
        ("docs.npz", {"scale": "odd"}, {"option": "^scale$", "expected": "a factor > 0", "got": "'odd'"}),
    ):
        with refused(ConfigError, **parts):
            encode_texts(Lengths(), documents(9), tmp_path / name, **options)
    with refused(InputError, expected="an existing directory"):
        encode_texts(Lengths(), documents(9), tmp_path / "none" / "docs.npz")
    assert list(tmp_path.glob("**/*.encoding")) == []


def test_progress_counts_documents(tmp_path: Path) -> None:
    """Updates count the documents that are done, those of an earlier run included."""
    docs = documents(57)
    with pytest.raises(KeyboardInterrupt):
        encode_texts(Lengths(fail_after=30), docs, tmp_path / "docs.npz")
    steps: list[BuildProgress] = []
    encode_texts(Lengths(), docs, tmp_path / "docs.npz", progress=steps.append)
    last = {step.stage: step for step in steps}
    assert [(name, step.done, step.total) for name, step in last.items()] == [("encode", 57, 57), ("write", 57, 57)]


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
            message = str(error)
        assert "No space left on device" in message
    assert room > 3
    assert_same(target, tmp_path / "whole.npz")
    assert not (tmp_path / "parts.npz.encoding").exists()


def test_killed_and_started_again(tmp_path: Path) -> None:
    """A process that is killed in the middle leaves shards, and the next one ends with what one run gives."""
    docs = documents(3000)
    program = f"""
import sys, time
sys.path[:0] = [{str(Path(__file__).parents[1])!r}]
from encoding_samples import documents
from segmax.encoders import BM25
from segmax.text import encode_texts
import segmax.encoders.bm25 as module
module._PIECE_DOCS = 100
def stuck(docs):
    for number, doc in enumerate(docs):
        if number == 1500: time.sleep(1000)
        yield doc
encode_texts(BM25(), stuck(documents(3000)), {str(tmp_path / "parts.npz")!r}, shard_seconds=0)
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
    assert 200 <= done.num_resumed <= 1500
    encode_texts(BM25(), docs, tmp_path / "whole.npz")
    assert_same(tmp_path / "parts.npz", tmp_path / "whole.npz")
