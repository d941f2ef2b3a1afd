"""Learned encoders on tiny checkpoints made here, each beside a plain computation; splade-mini where it is at hand."""

from __future__ import annotations

import itertools
import json
import lzma
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

pytest.importorskip("torch")
pytest.importorskip("sentence_transformers")

import sentence_transformers
import torch
import transformers

import segmax
from conftest import SHARED, WIKI, clusters_of, refused, wiki_reader
from segmax.base.errors import ConfigError, InputError, MissingPackageError
from segmax.cli.main import main
from segmax.encoders import BM25, LexMAE, SparseModel, UniCOIL, load_encoder
from segmax.encoders.base import Encoder
from segmax.encoders.chunks import batched
from segmax.encoders.pooling import write_dense
from segmax.encoders.transformer import TransformerEncoder
from segmax.text import encode_texts
from segmax.vectors.documents import Document, VectorBatch
from tiny_models import (
    HIDDEN,
    VOCABULARY,
    config,
    write_lexmae,
    write_tokenizer,
    write_unicoil,
)

TEXTS = (
    "the big cat sleeps",
    "dogs run",
    "",
    "a house, a tree, a cat and the dogs running in the big house with a cat",
    "cat",
    "z",
    "the the the dog dog tree runs " * 8,
)
MODEL = SHARED / "models" / "splade-mini"


def documents(texts: tuple[str, ...] = TEXTS) -> list[Document]:
    """Documents without titles."""
    return [Document(f"d{number}", "", text) for number, text in enumerate(texts)]


def all_vectors(encoder: Encoder, docs: list[Document], batch: int = 3) -> VectorBatch:
    """Everything that documents become, in one batch."""
    parts = list(encoder.encode_documents(docs[i : i + batch] for i in range(0, len(docs), batch)))
    vectors = sp.csr_matrix(sp.vstack([part.matrix() for part in parts]))
    dense = {name: np.concatenate([part.dense[name] for part in parts]) for name in parts[0].dense}
    return VectorBatch([doc_id for part in parts for doc_id in part.ids], vectors, dense)


def library_vectors(folder: Path, texts: list[str], side: str) -> np.ndarray:
    """What sentence-transformers itself gives, a text at a time."""
    model = sentence_transformers.SparseEncoder(str(folder)).float().eval()
    encode = model.encode_document if side == "document" else model.encode_query
    return np.concatenate([encode([text]).to_dense().numpy() for text in texts])


# --- SparseModel -----------------------------------------------------------------------------------------------------


def test_splade_is_that_of_the_library(splade: Path) -> None:
    """Sorted batches, our pooling and prompts give what encode_document and encode_query give text by text."""
    encoder = SparseModel(splade, batch_size=2)
    found = all_vectors(encoder, documents())
    assert found.ids == [f"d{number}" for number in range(len(TEXTS))]
    assert encoder.vocabulary == VOCABULARY
    expected = library_vectors(splade, list(TEXTS), "document")
    np.testing.assert_allclose(found.vectors.toarray(), expected, atol=1e-5)
    queries = encoder.encode_queries(TEXTS)
    np.testing.assert_allclose(queries.toarray(), library_vectors(splade, list(TEXTS), "query"), atol=1e-5)
    assert abs(queries - found.vectors).max() > 0.1  # prompts differ
    assert isinstance(encoder, Encoder)
    assert encoder.encode_queries([]).shape == (0, len(VOCABULARY))


def test_lengths_limits_and_precisions(splade: Path) -> None:
    """max_length cuts texts, top_n and min_weight drop weights, half precision stays near."""
    whole = all_vectors(SparseModel(splade), documents()).vectors
    cut = all_vectors(SparseModel(splade, max_length=4), documents(tuple(text[:100] for text in TEXTS))).vectors
    model = sentence_transformers.SparseEncoder(str(splade)).float()
    model.max_seq_length = 4
    np.testing.assert_allclose(cut.toarray(), model.encode_document(list(TEXTS)).to_dense().numpy(), atol=1e-5)
    few = all_vectors(SparseModel(splade, top_n=5, min_weight=0.5), documents()).vectors
    for row, kept in zip(whole.toarray(), few.toarray(), strict=True):
        expected = np.where(row >= max(0.5, np.sort(row)[-5]), row, 0)
        np.testing.assert_allclose(kept, expected, atol=1e-5)
    for dtype in ("bfloat16", "float16"):
        half = all_vectors(SparseModel(splade, dtype=dtype), documents()).vectors
        assert half.dtype == np.float32
        assert cosines(half, whole).min() > 0.99


@pytest.mark.parametrize("activation", ["relu", "log1p_relu"])
def test_inference_free_queries(bert: Path, tmp_path: Path, activation: str) -> None:
    """A Router sends queries through a table of weights and documents through the transformer."""
    from sentence_transformers.sparse_encoder.modules import Router, SparseStaticEmbedding, SpladePooling, Transformer

    document = Transformer(str(bert), transformer_task="fill-mask")
    weights = torch.linspace(0.1, 2, len(VOCABULARY))
    router = Router.for_query_document(
        query_modules=[SparseStaticEmbedding(document.tokenizer, weight=weights, frozen=True)],
        document_modules=[document, SpladePooling("max", activation)],
    )
    sentence_transformers.SparseEncoder(modules=[router]).save_pretrained(str(tmp_path))
    encoder = SparseModel(tmp_path, pooling="max", max_length=9)
    queries = encoder.encode_queries(["cat the cat"])
    assert {
        encoder.vocabulary[column]: weight for column, weight in zip(queries.indices, queries.data, strict=True)
    } == {word: pytest.approx(float(weights[VOCABULARY.index(word)])) for word in ("cat", "the")}
    found = all_vectors(encoder, documents())
    model = sentence_transformers.SparseEncoder(str(tmp_path)).float()
    model[0].sub_modules["document"][0].max_seq_length = 9
    np.testing.assert_allclose(
        found.vectors.toarray(), model.encode_document(list(TEXTS)).to_dense().numpy(), atol=1e-5
    )
    assert found.dense["max"].shape == (len(TEXTS), HIDDEN)


def test_csr_models(bert: Path, tmp_path: Path) -> None:
    """A sparse autoencoder's columns have no words: they are named by number."""
    from sentence_transformers.sparse_encoder.modules import SparseAutoEncoder, Transformer

    pooling = sentence_transformers.sentence_transformer.modules.Pooling(HIDDEN, pooling_mode="mean")
    parts = [Transformer(str(bert)), pooling, SparseAutoEncoder(HIDDEN, hidden_dim=50, k=6, k_aux=8)]
    sentence_transformers.SparseEncoder(modules=parts).save_pretrained(str(tmp_path))
    encoder = SparseModel(tmp_path)
    found = all_vectors(encoder, documents()).vectors
    assert encoder.vocabulary[:2] == ["[column 0]", "[column 1]"]
    assert len(encoder.vocabulary) == 50
    assert np.diff(found.indptr).max() <= 6
    np.testing.assert_allclose(found.toarray(), library_vectors(tmp_path, list(TEXTS), "document"), atol=1e-5)


def test_pooling_is_of_the_same_pass(splade: Path, tmp_path: Path) -> None:
    """CLS, mean and maximum of the last hidden states, beside the same weights, and mapped from a file."""
    encoder = SparseModel(splade, batch_size=3, pooling=("max", "cls", "mean"))
    found = all_vectors(encoder, documents())
    plain = all_vectors(SparseModel(splade), documents()).vectors
    np.testing.assert_allclose(found.vectors.toarray(), plain.toarray(), atol=1e-5)
    tokenizer = transformers.AutoTokenizer.from_pretrained(splade)
    model = transformers.BertModel.from_pretrained(splade, add_pooling_layer=False).eval()
    for number, text in enumerate(TEXTS):
        inputs = tokenizer(f"big {text}", return_tensors="pt", truncation=True, max_length=64)
        with torch.no_grad():
            hidden = model(**inputs).last_hidden_state[0].numpy()
        np.testing.assert_allclose(found.dense["cls"][number], hidden[0], atol=1e-4)
        np.testing.assert_allclose(found.dense["mean"][number], hidden.mean(axis=0), atol=1e-4)
        np.testing.assert_allclose(found.dense["max"][number], hidden.max(axis=0), atol=1e-4)
    parts = (batch.dense["max"] for batch in encoder.encode_documents([documents()]))
    mapped = write_dense(tmp_path / "dense.npy", parts, len(TEXTS))
    assert isinstance(mapped, np.memmap)
    assert mapped.dtype == np.float32
    np.testing.assert_array_equal(np.load(tmp_path / "dense.npy"), found.dense["max"])


# --- uniCOIL ---------------------------------------------------------------------------------------------------------


def unicoil_reference(folder: Path, state: dict[str, Any], text: str, query: bool) -> dict[str, float]:
    """Weights by token: one text, no padding, a loop over its tokens."""
    model = transformers.BertModel(config()).eval()
    model.load_state_dict({key.removeprefix("bert."): value for key, value in state.items() if key.startswith("bert.")})
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    inputs = tokenizer([text], return_tensors="pt", truncation=True, max_length=6 if query else 20)
    with torch.no_grad():
        hidden = model(**inputs).last_hidden_state[0].numpy()
    scores = hidden @ state["tok_proj.weight"].numpy()[0] + float(state["tok_proj.bias"][0])
    weights: dict[str, float] = {}
    for token, score in zip(tokenizer.convert_ids_to_tokens(inputs["input_ids"][0]), scores, strict=True):
        if token == "[CLS]":
            continue
        weight = max(float(score), 0.0)
        weights[token] = weights.get(token, 0.0) + weight if query else max(weights.get(token, 0.0), weight)
    return {token: weight for token, weight in weights.items() if weight > 0}


def by_token(encoder: Encoder, row: sp.csr_matrix) -> dict[str, float]:
    """A row as a mapping."""
    return {encoder.vocabulary[column]: float(weight) for column, weight in zip(row.indices, row.data, strict=True)}


@pytest.mark.parametrize("prefix", ["coil_encoder.", ""])
@pytest.mark.parametrize("file", ["pytorch_model.bin", "model.safetensors"])
def test_unicoil_is_the_plain_computation(tmp_path: Path, prefix: str, file: str) -> None:
    """The largest weight of a repeated token in documents, the sum in queries, nothing for [CLS], all layouts."""
    state = write_unicoil(tmp_path, prefix, file)
    encoder = UniCOIL(tmp_path, batch_size=3, max_length=20, query_length=6, pooling="cls")
    found = all_vectors(encoder, documents())
    queries = encoder.encode_queries(TEXTS)
    for number, text in enumerate(TEXTS):
        expected = unicoil_reference(tmp_path, state, text, query=False)
        assert by_token(encoder, found.vectors[number]) == pytest.approx(expected, abs=1e-5)
        expected = unicoil_reference(tmp_path, state, text, query=True)
        assert by_token(encoder, queries[number]) == pytest.approx(expected, abs=1e-5)
    assert any("[SEP]" in by_token(encoder, row) for row in found.vectors)
    assert found.dense["cls"].shape == (len(TEXTS), HIDDEN)
    assert type(load_encoder(tmp_path)) is UniCOIL
    assert type(load_encoder(f"unicoil:{tmp_path}", batch_size=2)) is UniCOIL


def test_texts_end_where_positions_do(tmp_path: Path) -> None:
    """A text longer than the model has positions is cut there, whatever length was asked for."""
    write_unicoil(tmp_path)
    encoder = UniCOIL(tmp_path, max_length=512)
    assert encoder.max_length == 64
    assert encoder.encode_queries(["big dog runs " * 100]).nnz > 0


def test_unicoil_reads_titles(tmp_path: Path) -> None:
    """A title stands before the text, with a space."""
    write_unicoil(tmp_path)
    encoder = UniCOIL(tmp_path)
    titled = all_vectors(encoder, [Document("a", "big dog", "runs")]).vectors
    plain = all_vectors(encoder, [Document("a", "", "big dog runs")]).vectors
    assert (titled != plain).nnz == 0


def test_other_checkpoints_are_no_unicoil(tmp_path: Path, bert: Path) -> None:
    """A checkpoint without the layer, with other layers, of another size, or without weights is refused."""
    with refused(InputError, where="^UniCOIL: '", expected="and 'tok_proj'", got="one that lacks tok_proj"):
        UniCOIL(bert)
    state = write_unicoil(tmp_path, prefix="")
    torch.save({**state, "more.weight": torch.zeros(1)}, tmp_path / "pytorch_model.bin")
    with refused(InputError, got=r"one that also has more\.weight"):
        UniCOIL(tmp_path)
    torch.save({**state, "tok_proj.weight": torch.zeros(1, 3)}, tmp_path / "pytorch_model.bin")
    with refused(InputError, expected=r"fit config\.json, with .*tok_proj\.weight of shape", got=r"\(1, 3\)"):
        UniCOIL(tmp_path)
    (tmp_path / "pytorch_model.bin").unlink()
    with refused(InputError, expected=r"model\.safetensors or pytorch_model\.bin", got="neither"):
        UniCOIL(tmp_path)


# --- LexMAE ----------------------------------------------------------------------------------------------------------


def lexmae_reference(bert: Path, text: str, max_length: int, keep_special: bool = False) -> np.ndarray:
    """Weights of one text, without padding, in numpy."""
    model = transformers.BertForMaskedLM.from_pretrained(bert).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(bert)
    inputs = tokenizer([text], return_tensors="pt", truncation=True, max_length=max_length)
    with torch.no_grad():
        logits = model(**inputs).logits[0].numpy()
    tokens = inputs["input_ids"][0].numpy()
    special = [VOCABULARY.index("[CLS]"), VOCABULARY.index("[SEP]")]
    weights = np.log(1 + np.maximum(logits, 0))
    if not keep_special:
        weights = weights[~np.isin(tokens, special)]
    return weights.max(axis=0, initial=0)


@pytest.mark.parametrize("pretrained", [False, True])
@pytest.mark.parametrize("keep_special", [False, True])
def test_lexmae_is_the_plain_computation(bert: Path, tmp_path: Path, pretrained: bool, keep_special: bool) -> None:
    """log(1 + relu) of the logits, the largest of all tokens but special ones; decoders are left aside."""
    changes = {"keep_special_tokens": True} if keep_special else {}
    write_lexmae(tmp_path, bert, pretrained=pretrained, **changes)
    encoder = load_encoder(tmp_path, batch_size=3, max_length=20, query_length=5, pooling="mean")
    assert isinstance(encoder, LexMAE)
    found = all_vectors(encoder, documents())
    queries = encoder.encode_queries(TEXTS).toarray()
    for number, text in enumerate(TEXTS):
        expected = lexmae_reference(bert, text, 20, keep_special)
        np.testing.assert_allclose(found.vectors[number].toarray()[0], expected, atol=1e-5)
        np.testing.assert_allclose(queries[number], lexmae_reference(bert, text, 5, keep_special), atol=1e-5)
    assert found.dense["mean"].shape == (len(TEXTS), HIDDEN)


def test_lexmae_with_and_without_titles(bert: Path, tmp_path: Path) -> None:
    """Titles stand before the text, with [SEP] in between, or are left out."""
    write_lexmae(tmp_path, bert)
    docs = [Document("a", "big house", "the cat sleeps"), Document("b", "", "dogs run")]
    titled = all_vectors(LexMAE(tmp_path), docs).vectors.toarray()
    np.testing.assert_allclose(titled[0], lexmae_reference(bert, "big house[SEP]the cat sleeps", 144), atol=1e-5)
    np.testing.assert_allclose(titled[1], lexmae_reference(bert, "dogs run", 144), atol=1e-5)
    plain = all_vectors(LexMAE(tmp_path, title=False), docs).vectors.toarray()
    np.testing.assert_allclose(plain[0], lexmae_reference(bert, "the cat sleeps", 144), atol=1e-5)


def test_a_model_without_a_head_is_no_lexmae(bert: Path, tmp_path: Path) -> None:
    """A checkpoint without the head of a masked language model is refused."""
    write_tokenizer(tmp_path)
    transformers.BertModel.from_pretrained(bert, add_pooling_layer=False).save_pretrained(tmp_path)
    with refused(InputError, where="^LexMAE: '", got=r"one that lacks cls\.predictions"):
        LexMAE(tmp_path)


# --- what they share -------------------------------------------------------------------------------------------------


def test_names_become_encoders(bert: Path, splade: Path, tmp_path: Path) -> None:
    """Folders are recognized by what is in them, and wrong names and options say so."""
    assert type(load_encoder(splade)) is SparseModel
    assert type(load_encoder(bert)) is SparseModel
    assert type(load_encoder(f"lexmae:{bert}")) is LexMAE
    assert type(load_encoder("bm25", k1=1.0)) is BM25
    with refused(ConfigError, expected="the folder of a model", got="nowhere', which does not exist"):
        load_encoder(tmp_path / "nowhere")
    with refused(ConfigError, where=tmp_path.name, expected="an encoder", got="a folder without one"):
        load_encoder(tmp_path)
    with refused(ConfigError, option="^k1$", expected=r"left out \(its options are device, dtype", got="1.0"):
        load_encoder(splade, k1=1.0)
    wrong: tuple[tuple[str, Any, str], ...] = (
        ("dtype", "int4", "'float32' or 'float16'"),
        ("batch_size", 0, "at least 1"),
        ("pooling", "median", "'cls' or 'mean' or 'max'"),
        ("top_n", 0, "from 1"),
        ("max_length", 0, "from 1"),
    )
    for option, value, expected in wrong:
        with refused(ConfigError, option=f"^{option}$", expected=expected, got=f"^{value!r}$"):
            SparseModel(splade, **{option: value})


def test_resumed_with_a_model(splade: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that is stopped and started again gives the ids, order, weights and dense vectors of one run."""
    monkeypatch.setattr("segmax.text.shards.batched", lambda documents: batched(documents, 5))
    docs = documents(TEXTS * 6)
    docs = [doc._replace(id=f"{number}") for number, doc in enumerate(docs)]

    def stopping() -> Iterator[Document]:
        yield from docs[:35]
        raise KeyboardInterrupt

    def encoder(dtype: str = "float32") -> SparseModel:
        return SparseModel(splade, batch_size=1, pooling="max", dtype=dtype)  # batches of one: no padding, no noise

    whole = encode_texts(encoder(), docs, tmp_path / "whole.npz")
    with pytest.raises(KeyboardInterrupt):
        encode_texts(encoder(), stopping(), tmp_path / "parts.npz", shard_seconds=0)
    with refused(ConfigError, option="^dtype$", expected="^'float32', as when", got="^'bfloat16'$"):
        encode_texts(encoder("bfloat16"), docs, tmp_path / "parts.npz")
    parts = encode_texts(encoder(), docs, tmp_path / "parts.npz")
    assert parts.num_resumed == 32
    assert parts.num_postings == whole.num_postings
    assert (tmp_path / "parts.npz").read_bytes() == (tmp_path / "whole.npz").read_bytes()
    assert parts.dense["max"].read_bytes() == whole.dense["max"].read_bytes()


@pytest.mark.parametrize("encoder", [SparseModel, UniCOIL, LexMAE])
def test_without_torch_the_message_shows_what_to_install(
    encoder: type[TransformerEncoder], bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No torch: one line with the command."""
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with refused(MissingPackageError, message="needs torch", hint=r"pip install 'segmax\[encoders\]'"):
        encoder(bert)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("config.json", b"{}"),
        ("config.json", b"[]"),
        ("config.json", b"{"),
        ("model.safetensors", b""),
        ("model.safetensors", b"abcd"),
        ("model.safetensors", b"\xff" * 8 + b"{}"),
        ("model.safetensors", b"\x02" + b"\0" * 7 + b"[]"),
        ("pytorch_model.bin", b""),
        ("pytorch_model.bin", b"no weights"),
    ],
)
@pytest.mark.parametrize("kind", ["", "sparse:", "lexmae:", "unicoil:"])
def test_damaged_files_are_named(bert: Path, tmp_path: Path, file: str, content: bytes, kind: str) -> None:
    """A file of a model that is empty, cut off or something else: an InputError that names it."""
    folder = tmp_path / "model"
    shutil.copytree(bert, folder)
    if file == "pytorch_model.bin":
        (folder / "model.safetensors").unlink()
    (folder / file).write_bytes(content)
    with refused(InputError, message=file.replace(".", r"\.")):
        load_encoder(f"{kind}{folder}")


@pytest.mark.parametrize(
    ("file", "content"), [("config.json", b"{}"), ("modules.json", b"{}"), ("tokenizer.json", b"{}")]
)
def test_errors_of_the_library_are_input_errors(splade: Path, tmp_path: Path, file: str, content: bytes) -> None:
    """Any error of sentence-transformers about a folder becomes an InputError about that folder."""
    folder = tmp_path / "model"
    shutil.copytree(splade, folder)
    (folder / file).write_bytes(content)
    where = f"^SparseModel: '{folder}'$"
    with refused(InputError, where=where, message="could not be loaded", hint="are all files of the model there"):
        load_encoder(folder)


def test_a_pickled_checkpoint_without_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To look into pytorch_model.bin takes torch: the message shows what to install."""
    write_unicoil(tmp_path)
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with refused(MissingPackageError, message=r"pytorch_model\.bin' needs torch", hint="pip install"):
        load_encoder(tmp_path)


# --- with the commands -----------------------------------------------------------------------------------------------


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with texts."""
    monkeypatch.chdir(tmp_path)
    lines = [json.dumps({"_id": f"{i}", "text": text}) + "\n" for i, text in enumerate(TEXTS * 6)]
    Path("corpus.jsonl").write_text("".join(lines))
    return tmp_path


def test_a_model_in_two_steps(splade: Path, corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Encoding and building give what index gives, options of queries included; other terms are refused."""
    model = ["--encoder", str(splade), "--top-n", "9"]
    assert main(["index", "corpus.jsonl", "one", *model]) == 0
    assert main(["encode", "corpus.jsonl", "docs.npz", *model]) == 0
    assert main(["build", "docs.npz", "two", *model, "--texts", "corpus.jsonl"]) == 0
    with segmax.open("one", encoder=splade) as one, segmax.open("two", encoder=splade) as two:
        for query in ("the big cat", "dog", "z"):
            assert one.search(query).ids == two.search(query).ids
            np.testing.assert_array_equal(one.search(query).scores, two.search(query).scores)
            assert one.search(query).texts == two.search(query).texts
        assert two.encoder.top_n == 9  # type: ignore[attr-defined]
    assert main(["encode", "corpus.jsonl", "docs.jsonl", *model]) == 0
    capsys.readouterr()
    assert main(["build", "docs.jsonl", "three", *model]) == 2
    assert "expected vectors that the encoder made" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["max", "mean", "cls"])
def test_clusters_by_a_models_embeddings(splade: Path, corpus: Path, name: str) -> None:
    """With --clustering, index makes the clusters that encode --dense and build --dense make."""
    model = ["--encoder", str(splade)]
    flags = ["--num-clusters", "3", "--dimensions", "4", "--restarts", "2"]
    assert main(["index", "corpus.jsonl", "one", *model, *flags, "--clustering", name]) == 0
    assert main(["encode", "corpus.jsonl", "docs.npz", *model, "--dense", name]) == 0
    assert main(["build", "docs.npz", "two", *flags, "--dense", f"docs.{name}.npy"]) == 0
    with segmax.open("one", encoder=splade) as one, segmax.open("two") as two:
        assert (clusters_of(one) == clusters_of(two)).all()
        assert one.num_clusters == 3
        assert one.encoder.pooling == ()  # type: ignore[attr-defined]
    assert sorted(path.name for path in corpus.iterdir()) == [
        "corpus.jsonl",
        f"docs.{name}.npy",
        "docs.npz",
        "one",
        "two",
    ]


def test_lengths_of_queries(bert: Path, corpus: Path) -> None:
    """--query-length and --tokenizer reach the models that have them."""
    write_unicoil(corpus / "unicoil")
    flags = ["--encoder", "unicoil", "--query-length", "5", "--max-length", "64", "--tokenizer", str(bert)]
    assert main(["index", "corpus.jsonl", "out", *flags]) == 0
    with segmax.open("out", encoder="unicoil:unicoil") as index:  # which has a tokenizer of its own
        assert (index.encoder.query_length, index.encoder.tokenizer) == (5, None)  # type: ignore[attr-defined]


# --- splade-mini -----------------------------------------------------------------------------------------------------


def cosines(first: sp.csr_matrix, second: sp.csr_matrix) -> np.ndarray:
    """The cosine of every pair of rows."""
    first, second = first.astype(np.float64), second.astype(np.float64)
    dots = np.asarray(first.multiply(second).sum(axis=1)).reshape(-1)
    return dots / (sp.linalg.norm(first, axis=1) * sp.linalg.norm(second, axis=1))


@pytest.mark.parametrize("count", [40, pytest.param(1000, marks=pytest.mark.slow)])
def test_splade_mini_gives_the_supplied_vectors(count: int) -> None:
    """The first passages, without titles, cut after 160 word pieces: a cosine of at least .999 with these vectors."""
    if not MODEL.is_dir():
        pytest.skip("needs splade-mini beside the project")
    supplied = wiki_reader().documents(1)[:count]
    with lzma.open(WIKI / "text-00.tsv.xz", "rt", encoding="utf-8", newline="\n") as file:
        rows = [line.rstrip("\n").split("\t") for line in itertools.islice(file, count)]
    encoder = SparseModel(MODEL, max_length=160, min_weight=0.03)
    found = all_vectors(encoder, [Document(row[0], "", row[2]) for row in rows], batch=100)
    assert found.ids == [row[0] for row in rows]
    assert cosines(found.vectors, supplied).min() >= 0.999
