"""A sharded index holds what one index over everything holds."""

from __future__ import annotations

import itertools
import pickle
import tempfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import segmax
from conftest import examples, refused
from segmax.pruning import DocThreshold, MaxPostings, TopTerms
from segmax.shards.making import text_files
from segmax.shards.making.building import build
from segmax.shards.opening import open_local
from sharded_samples import (
    check_same_documents,
    random_matrix,
    small_pieces,
    write_json_vectors,
    write_matrices,
    write_texts,
)

KINDS = ["floats", "small integers", "large integers", "ties"]
SHARDINGS = ["clusters", "rows"]


@pytest.fixture(autouse=True)
def _several_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    small_pieces(monkeypatch)
    monkeypatch.setattr(text_files, "_BATCH_DOCS", 32)


@pytest.mark.parametrize(
    ("sharding", "bits"),
    [
        ("clusters", 8),
        ("rows", 16),
        pytest.param("clusters", 16, marks=pytest.mark.deep),
        pytest.param("rows", 8, marks=pytest.mark.deep),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_vectors_of_several_files(tmp_path: Path, kind: str, sharding: str, bits: int) -> None:
    """Codes are those of one index, whatever the weights; without ids, rows over all files are the ids."""
    files = write_matrices(tmp_path, kind)
    made = build(files, tmp_path / "index", shards=3, sharding=sharding, bits=bits)
    check_same_documents(tmp_path / "index", made, segmax.build(files, bits=bits))


@pytest.mark.parametrize("sharding", SHARDINGS)
def test_vectors_with_words_ids_and_metadata(tmp_path: Path, sharding: str) -> None:
    """Terms get numbers over all files, as in one index; other members of lines become metadata."""
    files = write_json_vectors(tmp_path)
    made = build(files, tmp_path / "index", shards=4, sharding=sharding, metadata=["year"])
    years = [{"year": 2000 + row % 7} for size in (90, 60, 110) for row in range(size)]
    check_same_documents(tmp_path / "index", made, segmax.build(files, metadata=years))


@pytest.mark.parametrize("sharding", SHARDINGS)
@pytest.mark.parametrize("ids", [None, "strings", "integers"])
def test_a_matrix_in_memory(tmp_path: Path, ids: str | None, sharding: str) -> None:
    """A matrix may have string ids, integer ids or none, and terms."""
    docs = random_matrix(150, "floats")
    names = {"strings": [f"doc {row}" for row in range(150)], "integers": list(range(1000, 1150))}
    given = None if ids is None else names[ids]
    terms = [f"term {number}" for number in range(docs.shape[1])]
    made = build(docs, tmp_path / "index", shards=2, sharding=sharding, ids=given, terms=terms)
    check_same_documents(tmp_path / "index", made, segmax.build(docs, ids=given, terms=terms))


@pytest.mark.parametrize("sharding", SHARDINGS)
@pytest.mark.parametrize("keep_texts", [True, False])
def test_texts_by_bm25(tmp_path: Path, sharding: str, keep_texts: bool) -> None:
    """BM25 learns from all files together: vocabulary and weights are those of one index."""
    write_texts(tmp_path / "texts")
    options = {"encoder": "bm25", "metadata": ["year", "tags"], "keep_texts": keep_texts}
    made = build(tmp_path / "texts", tmp_path / "index", shards=3, sharding=sharding, **options)
    check_same_documents(tmp_path / "index", made, segmax.from_texts(tmp_path / "texts", **options))


@pytest.mark.parametrize("sharding", SHARDINGS)
def test_questions_find_the_same_texts(tmp_path: Path, sharding: str) -> None:
    """Questions in words find the same ids with the same scores, in the same order, as in one index."""
    write_texts(tmp_path / "texts")
    build(tmp_path / "texts", tmp_path / "index", shards=4, sharding=sharding, encoder="bm25")
    whole = segmax.from_texts(tmp_path / "texts")
    with open_local(tmp_path / "index") as many:
        for words in (["word1"], ["word2", "word3"], ["word1", "word7", "größe"], ["word250"], ["unknown"]):
            for k in (1, 10, 300):
                expected, found = whole.search(" ".join(words), k=k), many.search(" ".join(words), k=k)
                assert found.ids == expected.ids
                assert np.array_equal(found.scores, expected.scores)


@pytest.mark.parametrize("title", [True, False])
def test_texts_without_ids_are_called_by_their_rows(tmp_path: Path, title: bool) -> None:
    """Texts of several files are numbered over all of them; titles count or do not."""
    write_texts(tmp_path / "texts", ids=False)
    made = build(tmp_path / "texts", tmp_path / "index", shards=3, encoder="bm25", title=title)
    check_same_documents(tmp_path / "index", made, segmax.from_texts(tmp_path / "texts", title=title))


def test_lines_of_text_are_called_by_their_lines(tmp_path: Path) -> None:
    """A single file of text numbers its lines, empty ones among them, as `from_texts` does."""
    path = tmp_path / "lines.txt"
    path.write_text("a copper waveguide\n\ndiodes and noise\ncopper noise\n")
    made = build(path, tmp_path / "index", shards=2, sharding="rows", encoder="bm25")
    check_same_documents(tmp_path / "index", made, segmax.from_texts(path))


def test_documents_are_pruned_one_by_one(tmp_path: Path) -> None:
    """Steps that look at one document are applied while files are read; others are refused."""
    files = write_matrices(tmp_path)
    steps = (DocThreshold(threshold=0.3), TopTerms(count=6))
    made = build(files, tmp_path / "index", shards=3, pruning=steps)
    check_same_documents(tmp_path / "index", made, segmax.build(files, pruning=steps))
    with refused(segmax.errors.ConfigError, option="pruning", got="MaxPostings"):
        build(files, tmp_path / "other", shards=3, pruning=MaxPostings(count=5))
    assert not (tmp_path / "other").exists()


@pytest.mark.deep
@pytest.mark.parametrize("sharding", SHARDINGS)
def test_the_index_does_not_depend_on_threads_memory_or_pieces(
    tmp_path: Path, sharding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same documents and seed give the same bytes; another seed gives others."""
    files = write_matrices(tmp_path, sizes=(400, 500))
    made = build(files, tmp_path / "one", shards=3, sharding=sharding, threads=1)
    again = build(files, tmp_path / "two", shards=3, sharding=sharding, threads=2, memory_limit="2GiB")
    small_pieces(monkeypatch, 10_000)
    large = build(files, tmp_path / "three", shards=3, sharding=sharding)
    assert made.shards == again.shards == large.shards
    assert build(files, tmp_path / "four", shards=3, sharding=sharding, seed=1).shards != made.shards


@pytest.mark.parametrize("sharding", SHARDINGS)
@pytest.mark.parametrize("num_docs", [1, 2, 5])
def test_fewer_documents_than_shards(tmp_path: Path, num_docs: int, sharding: str) -> None:
    """Shards without documents are left out."""
    docs = random_matrix(num_docs, "floats")
    made = build(docs, tmp_path / "index", shards=8, sharding=sharding)
    assert 1 <= len(made.shards) <= num_docs
    check_same_documents(tmp_path / "index", made, segmax.build(docs))


@pytest.mark.parametrize("sharding", SHARDINGS)
def test_a_single_shard(tmp_path: Path, sharding: str) -> None:
    """One shard has everything."""
    docs = random_matrix(60, "floats")
    made = build(docs, tmp_path / "index", shards=1, sharding=sharding)
    check_same_documents(tmp_path / "index", made, segmax.build(docs))


@pytest.mark.parametrize("sharding", SHARDINGS)
def test_documents_without_terms(tmp_path: Path, sharding: str) -> None:
    """A collection of empty documents is built, with the warning that one index gives."""
    docs = sp.csr_matrix((6, 4), dtype=np.float32)
    with pytest.warns(segmax.errors.SegmaxWarning, match="all 6 documents are empty"):
        made = build(docs, tmp_path / "index", shards=2, sharding=sharding)
    with pytest.warns(segmax.errors.SegmaxWarning):
        check_same_documents(tmp_path / "index", made, segmax.build(docs))


def test_a_file_without_documents_among_others(tmp_path: Path) -> None:
    """A matrix of no rows adds nothing; alone it is an error."""
    files = write_matrices(tmp_path, sizes=(20, 30))
    sp.save_npz(tmp_path / "none.npz", sp.csr_matrix((0, 120), dtype=np.float32))
    made = build([files[0], tmp_path / "none.npz", files[1]], tmp_path / "index", shards=2)
    check_same_documents(tmp_path / "index", made, segmax.build(files))
    with refused(segmax.errors.InputError, expected="at least one document"):
        build(tmp_path / "none.npz", tmp_path / "other", shards=2)


def test_a_matrix_without_rows(tmp_path: Path) -> None:
    """It is refused as `segmax.build` refuses it, and nothing is left at the path."""
    for name, value in (("overwrite", 1), ("threads", 0)):
        with refused(segmax.errors.ConfigError, option=name):
            build(random_matrix(3, "floats"), tmp_path / "index", shards=2, **{name: value})
    with refused(segmax.errors.InputError, expected="at least one document", got="an empty collection"):
        build(sp.csr_matrix((0, 5)), tmp_path / "index", shards=2)
    assert not (tmp_path / "index").exists()


@pytest.mark.deep
@pytest.mark.parametrize("given", ["folder", "encoder"])
def test_a_model_of_torch_is_loaded_where_it_encodes(tmp_path: Path, given: str) -> None:
    """What travels to a task is how to load a model; vectors are those of one index, up to rounding."""
    pytest.importorskip("sentence_transformers")
    from segmax.encoders import SparseModel
    from segmax.shards.making.encoding import Recipe
    from segmax.shards.making.text_encoding import TextEncoding
    from tiny_models import write_bert, write_splade

    write_bert(tmp_path / "bert")
    write_splade(tmp_path / "model", tmp_path / "bert")
    encoder = str(tmp_path / "model") if given == "folder" else SparseModel(tmp_path / "model", top_n=9)
    sent = TextEncoding.of_options({"encoder": encoder}).encoder
    assert isinstance(pickle.loads(pickle.dumps(sent)), Recipe)
    write_texts(tmp_path / "texts", (30, 40))
    build(tmp_path / "texts", tmp_path / "index", shards=2, encoder=encoder)
    whole = segmax.from_texts(tmp_path / "texts", encoder=encoder)
    with open_local(tmp_path / "index") as many:
        ids = [f"{file}/{row}" for file, size in ((0, 30), (1, 40)) for row in range(size)]
        assert abs(many.vectors(ids) - whole.vectors(ids)).max() < 0.05
        assert many.num_terms == whole.num_terms


def test_a_model_encodes_piece_by_piece(tmp_path: Path) -> None:
    """An encoder that learns nothing makes the vectors that it makes for one index."""

    class Letters:
        vocabulary = tuple("abcdefghijklmnopqrstuvwxyz0123456789")

        def encode_documents(self, batches):
            for batch in batches:
                yield segmax.io.VectorBatch([one.id for one in batch], self.encode_queries([d.whole for d in batch]))

        def encode_queries(self, texts):
            return sp.csr_matrix([[text.count(letter) / 7 for letter in self.vocabulary] for text in texts])

    write_texts(tmp_path / "texts")
    made = build(tmp_path / "texts", tmp_path / "index", shards=2, encoder=Letters())
    check_same_documents(tmp_path / "index", made, segmax.from_texts(tmp_path / "texts", encoder=Letters()))


@settings(max_examples=examples(5), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_small_collection(tmp_path: Path, data: st.DataObject) -> None:
    """However documents, shards and files are cut, shards hold what one index holds, and find the same."""
    num_docs = data.draw(st.integers(1, 40), "documents")
    kind = data.draw(st.sampled_from(KINDS), "weights")
    docs = random_matrix(num_docs, kind, data.draw(st.integers(0, 5), "seed"), num_terms=20)
    if not docs.nnz:
        docs[0, 0] = 1
    cuts = (
        sorted(data.draw(st.lists(st.integers(1, num_docs - 1), unique=True, max_size=3), "cuts"))
        if num_docs > 1
        else []
    )
    options = {
        "num_segments": data.draw(st.sampled_from([1, 2, 8]), "segments"),
        "bits": data.draw(st.sampled_from([8, 16]), "bits"),
        "seed": data.draw(st.integers(0, 3), "seed of the build"),
    }
    with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
        files = []
        for first, last in itertools.pairwise([0, *cuts, num_docs]):
            files.append(f"{folder}/{first}.npz")
            sp.save_npz(files[-1], docs[first:last])
        path = Path(folder, "index")
        sharding = data.draw(st.sampled_from(SHARDINGS), "sharding")
        made = build(
            files, path, shards=data.draw(st.integers(1, 6), "shards"), sharding=sharding, threads=1, **options
        )
        whole = segmax.build(docs, threads=1, **options)
        check_same_documents(path, made, whole)
        with open_local(path) as many:
            found, expected = many.search_batch(docs, k=7), whole.search_batch(docs, k=7)
            assert np.array_equal(found.rows, expected.rows)
            assert np.array_equal(found.scores, expected.scores)
