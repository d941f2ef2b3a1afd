"""Tables of query weights: read from every layout without torch, as hostile input, and written whole."""

from __future__ import annotations

import fnmatch
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

pytest.importorskip("tokenizers")

import segmax
from conftest import refused
from segmax.base.errors import ConfigError, IndexExistsError, InputError, MissingPackageError, WriteError
from segmax.encoders import QueryTable, load_encoder
from segmax.encoders.late_model import LateSparseModel
from segmax.encoders.query_table import table_of
from segmax.vectors.documents import Document
from table_samples import (
    ROUTER,
    STATIC,
    WEIGHTS,
    WORDS,
    safetensors,
    tokenizer,
    write_modules,
    write_opensearch,
    write_router,
    write_static,
    write_tokenizer,
)


def by_word(table: QueryTable, text: str) -> dict[str, float]:
    """The vector of a query by token."""
    rows = table.query_rows([text])
    assert rows.indptr.tolist() == [0, len(rows.indices)]
    return {WORDS[column]: float(weight) for column, weight in zip(rows.indices, rows.values, strict=True)}


def write_single(folder: Path) -> None:
    """A model whose only module is a table."""
    write_modules(folder, STATIC)
    write_static(folder)


def write_own(folder: Path) -> None:
    """What segmax writes."""
    QueryTable(tokenizer(), WEIGHTS, max_length=64).save(folder)


def write_text(folder: Path) -> None:
    """OpenSearch's other file."""
    write_opensearch(folder, "query_token_weights.txt")


LAYOUTS: tuple[Callable[[Path], object], ...] = (write_router, write_single, write_opensearch, write_text, write_own)


# --- reading ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("write", LAYOUTS)
def test_every_layout(tmp_path: Path, write: Callable[[Path], object]) -> None:
    """Each distinct token gives its weight once; weights not above zero, and special tokens around texts, give none."""
    write(tmp_path / "model")
    table = QueryTable.load(tmp_path / "model")
    assert by_word(table, "The BIG cats of the house, the cat") == {
        "the": 0.25, "big": 1.5, "cat": 3, "##s": 0.125, "house": 4, "[UNK]": 0.5,
    }  # fmt: skip
    assert table.vocabulary == WORDS
    assert by_word(table, "") == {}
    np.testing.assert_array_equal(np.maximum(table.weights, 0), np.maximum(WEIGHTS, 0))


def test_batches_are_rows(tmp_path: Path) -> None:
    """A batch gives the rows that its texts give alone, also where the tokenizer uses threads; no text, no row."""
    write_router(tmp_path)
    table = QueryTable.load(tmp_path)
    texts = ["cat", "", "dogs \ud800 house", "ça", "the big dog " * 9] * 5
    matrix = table.encode_queries(texts)
    assert matrix.shape == (25, len(WORDS))
    for number, text in enumerate(texts):
        alone = table.encode_queries([text])
        np.testing.assert_array_equal(matrix[number].toarray(), alone.toarray())
    assert table.encode_queries([]).shape == (0, len(WORDS))
    assert matrix.dtype == np.float32


def test_prompts_lengths_and_limits(tmp_path: Path) -> None:
    """A prompt, the length of the tokenizer, which of its ends is cut, and the number of weights are the model's."""
    config = {"prompts": {"query": "big ", "document": "dog "}, "max_active_dims": 2}
    home = write_router(tmp_path / "a", config=config)
    write_tokenizer(home, model_max_length=3)
    assert by_word(QueryTable.load(tmp_path / "a"), "the cat house") == {"big": 1.5, "cat": 3}
    write_tokenizer(home, model_max_length=3, truncation_side="left")
    assert by_word(QueryTable.load(tmp_path / "a"), "the cat house") == {"cat": 3, "house": 4}
    write_router(tmp_path / "b", config={"prompts": {"q": "big "}, "default_prompt_name": "q"})
    table = QueryTable.load(tmp_path / "b", top_n=2, min_weight=1.5)
    assert by_word(table, "the cat") == {"big": 1.5, "cat": 3}
    assert by_word(table, "house dog") == {"dog": 2.75, "house": 4}
    assert table.to_dict() == {
        "encoder": "QueryTable", "model": str(tmp_path / "b"), "top_n": 2, "min_weight": 1.5,
    }  # fmt: skip


@pytest.mark.parametrize(("dtype", "kind"), [("F64", "<f8"), ("F16", "<f2"), ("BF16", None)])
def test_weights_of_other_precisions(tmp_path: Path, dtype: str, kind: str | None) -> None:
    """Doubles and both kinds of half precision become floats."""
    home = write_router(tmp_path)
    stored = WEIGHTS.astype(kind) if kind else (WEIGHTS.view(np.uint32) >> 16).astype(np.uint16)
    (home / "model.safetensors").write_bytes(safetensors({"weight": stored}, dtype))
    np.testing.assert_array_equal(QueryTable.load(tmp_path).weights, WEIGHTS)  # all of which they hold exactly


@pytest.mark.parametrize(
    ("mappings", "structure"),
    [
        ({"('query', 'text')": "fast", "(None, None)": "slow"}, {"query": [""], "fast": ["q"], "slow": [""]}),
        ({"('query', None)": "fast"}, {"query": [""], "fast": ["q"]}),
        ({"(None, None)": "fast", "oops(": "slow"}, {"query": [""], "fast": ["q"], "slow": [""]}),
        ({}, {"text": ["q"], "document": [""]}),
    ],
)
def test_routes(tmp_path: Path, mappings: dict[str, str], structure: dict[str, list[str]]) -> None:
    """The route of queries is found as the Router finds it."""
    write_router(tmp_path)
    config = json.loads((tmp_path / "router_config.json").read_text())
    config |= {"structure": structure, "parameters": {"route_mappings": mappings}}
    (tmp_path / "router_config.json").write_text(json.dumps(config))
    assert table_of(tmp_path) is not None


@pytest.mark.parametrize(
    "change",
    [
        {"structure": {"document": ["q"]}},
        {"structure": {"query": ["q", ""], "document": [""]}},
        {"structure": {"query": [""], "document": [""]}},
        {"structure": {"query": "q"}},
        {"structure": []},
        {"types": {"q": "evil.SparseStaticEmbedding"}},
        {"types": {"../q": STATIC}, "structure": {"query": ["../q"]}},
        {"types": {"/q": STATIC}, "structure": {"query": ["/q"]}},
        {"types": None},
    ],
)
def test_other_models_have_no_table(tmp_path: Path, change: dict[str, Any]) -> None:
    """More modules, other classes and paths that lead elsewhere: no table."""
    write_router(tmp_path / "model")
    path = tmp_path / "model" / "router_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    assert table_of(tmp_path / "model") is None
    with refused(InputError, expected="a table of query weights", hint="make one"):
        QueryTable.load(tmp_path / "model")


def test_tables_from_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a model on the hub, only the small files and those of the table are downloaded, and then checked."""
    hub = pytest.importorskip("huggingface_hub")
    home = write_router(tmp_path / "snapshot")
    asked: list[Any] = []

    def download(name: str, *, cache_dir: str | None, allow_patterns: list[str]) -> str:
        asked.append((name, cache_dir, allow_patterns))
        return str(tmp_path / "snapshot")

    monkeypatch.setattr(hub, "snapshot_download", download)
    monkeypatch.setattr("segmax.encoders.query_table.find_model", lambda name, who: False)
    monkeypatch.delenv("SENTENCE_TRANSFORMERS_HOME", raising=False)
    table = QueryTable.load("some/model")
    assert by_word(table, "cat") == {"cat": 3}
    assert table.to_dict()["model"] == "some/model"
    ((name, cache, patterns),) = asked
    assert (name, cache) == ("some/model", None)
    wanted = ["modules.json", "router_config.json", "query_0_SparseStaticEmbedding/model.safetensors", "idf.json"]
    assert all(any(fnmatch.fnmatch(file, pattern) for pattern in patterns) for file in wanted)
    assert not any(fnmatch.fnmatch("model.safetensors", pattern) for pattern in patterns)
    (home / "config.json").write_text("[]")
    with refused(InputError, where=r"config\.json'$"):
        QueryTable.load("some/model")


# --- searching -------------------------------------------------------------------------------------------------------


def write_index(path: Path) -> None:
    """An index of documents that a model might have made."""
    docs = sp.csr_matrix(np.eye(len(WORDS), dtype=np.float32)[[6, 7, 9]] * 2)
    segmax.build(docs, ids=["cat", "dog", "house"], terms=WORDS).save(path)


@pytest.mark.parametrize("write", LAYOUTS)
def test_searching_imports_no_torch(tmp_path: Path, write: Callable[[Path], object]) -> None:
    """An index opened with a table answers text, and no process ever sees torch, transformers or scipy."""
    write(tmp_path / "model")
    write_index(tmp_path / "index")
    program = """
import sys
import segmax
index = segmax.open("index", encoder="model")
hits = index.search("a big cat in the house")
print(hits.ids, hits.scores.tolist())
heavy = {"torch", "transformers", "sentence_transformers", "safetensors", "scipy"}
print(sorted(heavy & {name.partition(".")[0] for name in sys.modules}))
"""
    result = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.stdout.splitlines() == ["['house', 'cat'] [8.0, 6.0]", "[]"], result.stderr


def test_a_table_must_fit_the_index(tmp_path: Path) -> None:
    """Other terms, or the same in another order, are refused."""
    write_own(tmp_path / "table")
    index = segmax.build(sp.csr_matrix(np.eye(len(WORDS))), terms=[*WORDS[1:], WORDS[0]])
    with refused(InputError, expected=r"its vocabulary of 11 terms", got="another vocabulary of 11 terms"):
        index.encoder = tmp_path / "table"


def test_documents_need_the_model(tmp_path: Path) -> None:
    """A table encodes no documents, and says what does."""
    folder = tmp_path / "table"
    write_own(folder)
    encoder = load_encoder(folder, top_n=3)
    assert isinstance(encoder, QueryTable)
    with refused(InputError, expected="a model, to encode documents", got="a table", hint="the model"):
        segmax.from_texts(["a cat"], encoder=encoder)
    with refused(ConfigError, option="^device$", expected=r"its options are top_n, min_weight"):
        load_encoder(folder, device="cpu")


def test_an_index_names_its_table(tmp_path: Path) -> None:
    """An index that records a table is searched with it once the caller names the folder."""
    write_own(tmp_path / "table")
    table = QueryTable.load(tmp_path / "table", top_n=1)
    docs = sp.csr_matrix(np.eye(len(WORDS), dtype=np.float32))
    segmax.build(docs, terms=WORDS, encoder=table.to_dict(), path=tmp_path / "index")
    with segmax.open(tmp_path / "index") as index, refused(InputError, got="the folder"):
        index.search("cat")
    with segmax.open(tmp_path / "index", encoder=tmp_path / "table") as index:
        assert index.search("cat house").rows.tolist() == [9]


@pytest.mark.deep
def test_the_model_waits_for_documents(tmp_path: Path) -> None:
    """A model with a table describes itself as a SparseModel; only documents need torch."""
    write_router(tmp_path / "model")
    write_index(tmp_path / "index")
    with segmax.open(tmp_path / "index", encoder=f"sparse:{tmp_path / 'model'}") as index:
        encoder = index.encoder
        assert isinstance(encoder, LateSparseModel)
        assert encoder.to_dict()["encoder"] == "SparseModel"
        assert index.search("dogs").ids == ["dog"]
        with pytest.raises((InputError, MissingPackageError)):  # there are no weights for them
            list(encoder.encode_documents([[Document("a", "", "cat")]]))


# --- hostile files ---------------------------------------------------------------------------------------------------


def tensor(weights: np.ndarray, **changes: Any) -> bytes:
    """A file of one tensor whose header says something else."""
    content = safetensors({"weight": weights})
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    header["weight"] |= changes
    told = json.dumps(header).encode()
    return len(told).to_bytes(8, "little") + told + content[8 + length :]


BAD_WEIGHTS = {
    "empty": b"",
    "short": b"\x04" + b"\0" * 7 + b"{}",
    "no JSON": b"\x02" + b"\0" * 7 + b"[[",
    "a long header": b"\xff" * 8 + b"{}",
    "cut off": safetensors({"weight": WEIGHTS})[:-4],
    "another name": safetensors({"other": WEIGHTS}),
    "two tensors": safetensors({"weight": WEIGHTS, "more": WEIGHTS}),
    "a matrix": safetensors({"weight": WEIGHTS[:, None]}),
    "no weights": safetensors({"weight": WEIGHTS[:0]}),
    "whole numbers": safetensors({"weight": WEIGHTS.astype(np.int32)}, "I32"),
    "NaN": safetensors({"weight": np.where(WEIGHTS > 3, np.nan, WEIGHTS)}, "F64"),
    "infinite": safetensors({"weight": WEIGHTS.astype(np.float64) * 1e300}, "F64"),
    "a huge shape": tensor(WEIGHTS, shape=[1 << 60]),
    "a negative shape": tensor(WEIGHTS, shape=[-1]),
    "offsets outside": tensor(WEIGHTS, data_offsets=[1 << 40, (1 << 40) + 44]),
    "offsets before": tensor(WEIGHTS, data_offsets=[-200, -156]),
    "no offsets": tensor(WEIGHTS, data_offsets=None),
}


@pytest.mark.parametrize("content", BAD_WEIGHTS.values(), ids=BAD_WEIGHTS)
def test_damaged_weights(tmp_path: Path, content: bytes) -> None:
    """A weights file that is not what it says: an error that names it."""
    home = write_router(tmp_path)
    (home / "model.safetensors").write_bytes(content)
    with refused(InputError, where=r"model\.safetensors'$"):
        QueryTable.load(tmp_path)


BAD_TOKENS = {
    "no JSON": ("idf.json", "{"),
    "a list": ("idf.json", "[1]"),
    "nothing": ("idf.json", "{}"),
    "a word": ("idf.json", '{"cat": "much"}'),
    "a truth": ("idf.json", '{"cat": true}'),
    "NaN": ("idf.json", '{"cat": NaN}'),
    "a huge number": ("idf.json", '{"cat": 1' + "0" * 400 + "}"),
    "other tokens": ("idf.json", '{"zebra": 1.5}'),
    "deep": ("idf.json", "[" * 100_000),
    "one column": ("query_token_weights.txt", "cat\n"),
    "no number": ("query_token_weights.txt", "cat\tmuch\n"),
    "an infinite one": ("query_token_weights.txt", "cat\tinf\n"),
}


@pytest.mark.parametrize(("file", "content"), BAD_TOKENS.values(), ids=BAD_TOKENS)
def test_damaged_weights_by_token(tmp_path: Path, file: str, content: str) -> None:
    """The same for OpenSearch's files."""
    write_tokenizer(tmp_path)
    (tmp_path / file).write_text(content)
    with refused(InputError, where=f"{file}'$".replace(".", r"\.")):
        QueryTable.load(tmp_path)


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[", b"\xff\xfe", b'{"version": "1.0", "model": {"type": "WordPiece"}}']
)
def test_damaged_tokenizers(tmp_path: Path, content: bytes) -> None:
    """tokenizer.json that is none: an error that names it."""
    home = write_router(tmp_path)
    (home / "tokenizer.json").write_bytes(content)
    with refused(InputError, where=r"tokenizer\.json'$", hint="copy or download it again"):
        QueryTable.load(tmp_path)


@pytest.mark.parametrize("content", ["{}", '{"format": "segmax-query-table", "version": 2}', "[]", "x"])
def test_tables_of_other_versions(tmp_path: Path, content: str) -> None:
    """query_table.json of another format or version is refused."""
    write_own(tmp_path / "table")
    (tmp_path / "table" / "query_table.json").write_text(content)
    with refused(InputError, where=r"query_table\.json'$"):
        load_encoder(tmp_path / "table")


def test_pipes_are_not_read(tmp_path: Path) -> None:
    """A pipe in place of a file would be read for ever."""
    home = write_router(tmp_path)
    (home / "model.safetensors").unlink()
    os.mkfifo(home / "model.safetensors")
    with refused(InputError, expected="a regular file"):
        QueryTable.load(tmp_path)


def test_pickled_weights_need_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights that torch pickled take torch to read, and the message says so."""
    home = write_router(tmp_path)
    (home / "model.safetensors").rename(home / "pytorch_model.bin")
    monkeypatch.setitem(sys.modules, "torch", None)
    with refused(MissingPackageError, message=r"pytorch_model\.bin' needs torch", hint="pip install"):
        QueryTable.load(tmp_path)


def test_without_tokenizers_the_message_shows_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No tokenizers: one line with the command."""
    write_router(tmp_path)
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with refused(MissingPackageError, message="needs tokenizers", hint=r"pip install 'segmax\[queries\]'"):
        QueryTable.load(tmp_path)


# --- writing ---------------------------------------------------------------------------------------------------------


def test_tables_are_replaced_only_if_asked(tmp_path: Path) -> None:
    """A table is written once, then overwritten if asked; anything else at the path stays, and so do other files."""
    first, second = QueryTable(tokenizer(), WEIGHTS), QueryTable(tokenizer(), WEIGHTS * 2, prompt="big ", max_length=5)
    first.save(tmp_path / "table", about={"made": "by hand"})
    assert json.loads((tmp_path / "table" / "query_table.json").read_text()) == {
        "format": "segmax-query-table", "version": 1, "num_terms": 11, "made": "by hand",
    }  # fmt: skip
    with refused(IndexExistsError, message="exists", hint="overwrite"):
        second.save(tmp_path / "table")
    second.save(tmp_path / "table", overwrite=True)
    read = QueryTable.load(tmp_path / "table")
    assert (read.prompt, read.max_length) == ("big ", 5)
    np.testing.assert_array_equal(read.weights, second.weights)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("dear")
    with refused(IndexExistsError, expected="a table that segmax wrote"):
        second.save(tmp_path / "mine", overwrite=True)
    (tmp_path / "link").symlink_to(tmp_path / "table")
    with refused(IndexExistsError, expected="a table that segmax wrote"):
        second.save(tmp_path / "link", overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "mine", "table"]


def test_a_failed_write_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a file cannot be written, the table that was there is there, and nothing else."""
    QueryTable(tokenizer(), WEIGHTS).save(tmp_path / "table")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("segmax.encoders.table_writing._safetensors", full)
    with refused(WriteError, message="No space left"):
        QueryTable(tokenizer(), WEIGHTS * 2).save(tmp_path / "table", overwrite=True)
    np.testing.assert_array_equal(QueryTable.load(tmp_path / "table").weights, WEIGHTS)
    assert [path.name for path in tmp_path.iterdir()] == ["table"]


@pytest.mark.parametrize("weights", [[], [[1.0]], [np.nan] * 11])
def test_invalid_weights(weights: Any) -> None:
    """A table takes one finite weight per token."""
    with refused(InputError, expected="a finite weight per token"):
        QueryTable(tokenizer(), weights)


def test_tokens_without_a_weight(tmp_path: Path) -> None:
    """Tokens behind the table count for nothing, and name no column."""
    table = QueryTable(tokenizer(), WEIGHTS[:7])
    assert by_word(table, "cat dog") == {"cat": 3}
    assert table.vocabulary == WORDS[:7]
    write_modules(tmp_path, ROUTER)
    assert table_of(tmp_path) is None
