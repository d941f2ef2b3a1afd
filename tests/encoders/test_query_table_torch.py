"""Tables beside sentence-transformers: the same vectors, from models that it saved, and from tables that we wrote."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("sentence_transformers")

import sentence_transformers
from sentence_transformers.sparse_encoder.modules import SparseStaticEmbedding

import segmax
from segmax.encoders import QueryTable, SparseModel, load_encoder
from segmax.encoders.query_table import table_of
from segmax.vectors.documents import Document
from tiny_models import VOCABULARY, write_routed

TEXTS = ["cat the cat", "", "THE BIG Dogs, ruNNing!", "[SEP] z ☃ é [UNK]", "a b c d e f g " * 20, "houses"]


def library_queries(folder: Path) -> np.ndarray:
    """What sentence-transformers itself gives, without what is not above zero."""
    model = sentence_transformers.SparseEncoder(str(folder)).float().eval()
    found = np.concatenate([model.encode_query([text]).to_dense().detach().numpy() for text in TEXTS])
    return np.maximum(found, 0)


@pytest.mark.parametrize(
    "options",
    [{}, {"prompts": {"query": "the ", "document": "big "}}, {"prompts": {"x": "dog "}, "default_prompt_name": "x"}],
)
def test_tables_are_those_of_the_library(bert: Path, tmp_path: Path, options: dict[str, object]) -> None:
    """The vectors of queries are the library's to the last bit: prompts, truncation and unknown words included."""
    write_routed(tmp_path, bert, **options)
    table = QueryTable.load(tmp_path)
    np.testing.assert_array_equal(table.encode_queries(TEXTS).toarray(), library_queries(tmp_path))
    assert table.encode_queries(TEXTS).nnz > 0
    model = SparseModel(tmp_path)
    np.testing.assert_array_equal(model.encode_queries(TEXTS).toarray(), library_queries(tmp_path))
    np.testing.assert_array_equal(model.query_rows(TEXTS).values, table.query_rows(TEXTS).values)
    assert model.vocabulary == table.vocabulary


def test_the_largest_weights(bert: Path, tmp_path: Path) -> None:
    """max_active_dims limits queries as it does in the library; top_n and min_weight as for other models."""
    write_routed(tmp_path, bert, max_active_dims=3)
    np.testing.assert_array_equal(QueryTable.load(tmp_path).encode_queries(TEXTS).toarray(), library_queries(tmp_path))
    few = SparseModel(tmp_path, top_n=2, min_weight=1.0)
    few._table = None  # as without a table
    plain = few.encode_queries(TEXTS)
    np.testing.assert_array_equal(
        QueryTable.load(tmp_path, top_n=2, min_weight=1.0).encode_queries(TEXTS).toarray(), plain.toarray()
    )


def test_pickled_tables(bert: Path, tmp_path: Path) -> None:
    """Weights that torch pickled are read where torch is installed."""
    weights = write_routed(tmp_path, bert, safe=False)
    assert not list(tmp_path.rglob("query_0_SparseStaticEmbedding/*.safetensors"))
    np.testing.assert_array_equal(QueryTable.load(tmp_path).weights, weights.numpy())


def test_the_library_reads_our_tables(bert: Path, tmp_path: Path) -> None:
    """What `save` writes is a SparseEncoder of sentence-transformers that gives the same vectors."""
    write_routed(tmp_path / "model", bert, prompts={"query": "the "})
    table = QueryTable.load(tmp_path / "model")
    table.save(tmp_path / "table")
    expected = library_queries(tmp_path / "model")
    np.testing.assert_array_equal(library_queries(tmp_path / "table"), expected)
    np.testing.assert_array_equal(QueryTable.load(tmp_path / "table").encode_queries(TEXTS).toarray(), expected)


def test_opensearch_models(bert: Path, tmp_path: Path) -> None:
    """A masked language model beside idf.json: documents by the model, queries by the table."""
    from transformers import AutoTokenizer

    AutoTokenizer.from_pretrained(bert).save_pretrained(tmp_path)
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((bert / name).read_bytes())
    (tmp_path / "idf.json").write_text('{"cat": 2.5, "the": 0.5, "##s": 1.25}')
    module = SparseStaticEmbedding.from_json(str(tmp_path / "idf.json"), AutoTokenizer.from_pretrained(tmp_path))
    expected = module(module.preprocess(TEXTS))["sentence_embedding"].detach().numpy()
    model = load_encoder(tmp_path)
    assert isinstance(model, SparseModel)
    np.testing.assert_array_equal(model.encode_queries(TEXTS).toarray(), expected)
    np.testing.assert_array_equal(table_of(tmp_path).encode_queries(TEXTS).toarray(), expected)
    assert next(model.encode_documents([[Document("a", "", "cat")]])).vectors.num_columns == len(VOCABULARY)


def test_no_torch_to_search(bert: Path, tmp_path: Path) -> None:
    """An index that a model with a table made is searched without torch, and so is a collection, until it grows."""
    write_routed(tmp_path / "model", bert)
    encoder = SparseModel(tmp_path / "model")
    texts = {"cat": "the big cat sleeps", "dog": "dogs run", "house": "a house, a tree"}
    index = segmax.from_texts(texts, encoder=encoder, path=tmp_path / "index")
    expected = [index.search(query).ids for query in ("dogs", "cat house")]
    with segmax.Collection.create(tmp_path / "collection", encoder=encoder) as collection:
        collection.add(texts)
    program = f"""
import sys
import segmax
queries = ["dogs", "cat house"]
own = segmax.Collection.open("collection", encoder="model")
with segmax.open("index", encoder="model") as index, own as collection:
    assert [index.search(query).ids for query in queries] == {expected}
    found = [sorted(collection.search(query).ids) for query in queries]
    assert found == [sorted(ids) for ids in {expected}], found
    assert "torch" not in sys.modules and "transformers" not in sys.modules
    collection.add({{"more": "another house"}})
    assert "torch" in sys.modules
    assert collection.num_docs == 4
    before = collection.search("cat house").ids
    collection.encoder = "table"
    assert collection.search("cat house").ids == before
    try:
        collection.add({{"last": "a house"}})
    except segmax.errors.InputError as error:
        assert "a table, which encodes queries only" in str(error)
    else:
        raise AssertionError
"""
    QueryTable.load(tmp_path / "model").save(tmp_path / "table")
    result = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_models_remember_queries(splade: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Searching for the same words again runs no model; a model that the caller has loaded always runs."""
    index = segmax.from_texts(["the big cat sleeps", "dogs run"], encoder=SparseModel(splade))
    loaded = sentence_transformers.SparseEncoder(str(splade))
    calls = []
    encode = SparseModel._query_vectors
    monkeypatch.setattr(SparseModel, "_query_vectors", lambda self, texts: calls.append(texts) or encode(self, texts))
    first, again = index.search("cats sleep"), index.search("cats sleep")
    assert calls == [["cats sleep"]]
    assert first.ids == again.ids
    np.testing.assert_array_equal(first.scores, again.scores)
    np.testing.assert_array_equal(first.scores, index.search(index.encoder.encode_queries(["cats sleep"])).scores)
    calls.clear()
    index.encoder = loaded
    calls.clear()  # one text shows how many columns there are
    for _ in range(2):
        index.search("cats sleep")
    assert len(calls) == 2
