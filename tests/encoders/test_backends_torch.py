"""Models by torch, ONNX Runtime and OpenVINO against each other, and against sentence-transformers.

Tests that export a model take some seconds each: most of them are slow ones.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import logging
import lzma
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("sentence_transformers")

import torch

import segmax
from conftest import SHARED, WIKI, refused
from segmax.base.errors import ConfigError, InputError, SegmaxError
from segmax.encoders import LexMAE, SparseModel, UniCOIL
from segmax.encoders.choosing import agreement_of, choose_for
from segmax.encoders.exported import cached_place
from segmax.encoders.library_network import LibraryNetwork
from segmax.encoders.model_files import EXPORT_NAME
from segmax.encoders.network import Trim
from segmax.encoders.torch_network import MaskedLanguageNetwork
from segmax.encoders.transformer import TransformerEncoder
from segmax.encoders.word_pieces import WordPieces
from segmax.io import open_texts, read_qrels
from tiny_models import TEXTS, change_json, docs, rows, write_model

MODEL = SHARED / "models" / "splade-mini"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of one's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def place_of(model: Path) -> Path:
    """Where the cache has the export of a model."""
    place = cached_place(str(model))
    assert place is not None
    return place


@pytest.mark.parametrize("kind", [SparseModel, LexMAE, UniCOIL])
@pytest.mark.slow
def test_exported_models_agree_with_torch(
    kind: type[TransformerEncoder], bert: Path, splade: Path, tmp_path: Path
) -> None:
    """Documents, queries and pooled vectors in float32 are those of torch, on short, long and foreign texts."""
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    folder = write_model(kind, bert, splade, tmp_path / "model")
    expected = kind(folder, pooling=("cls", "mean", "max"))
    found = kind(folder, backend="onnx", pooling=("cls", "mean", "max"))
    assert (place_of(folder) / EXPORT_NAME).is_file()
    assert found.vocabulary == expected.vocabulary
    assert agreement_of(rows(expected), rows(found)).minimum > 0.9999
    queries = agreement_of(expected.query_rows(TEXTS), found.query_rows(TEXTS))
    assert queries.minimum > 0.9999
    dense = [next(encoder.encode_documents([docs()])).dense for encoder in (expected, found)]
    for name, array in dense[0].items():
        np.testing.assert_allclose(array, dense[1][name], atol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.slow
def test_openvino_agrees_with_torch(dtype: str, splade: Path, tmp_path: Path) -> None:
    """OpenVINO runs the same export."""
    pytest.importorskip("openvino")
    pytest.importorskip("onnxscript")
    shutil.copytree(splade, tmp_path / "model")
    expected = SparseModel(tmp_path / "model")
    found = SparseModel(tmp_path / "model", backend="openvino", dtype=dtype)
    least = 0.9999 if dtype == "float32" else 0.99
    assert agreement_of(rows(expected), rows(found)).minimum > least


@pytest.mark.slow
def test_an_export_needs_no_torch(splade: Path, tmp_path: Path) -> None:
    """Once a model is exported, its encoder loads neither torch nor transformers nor sentence-transformers."""
    pytest.importorskip("onnxscript")
    shutil.copytree(splade, tmp_path / "model")
    expected = SparseModel(tmp_path / "model", dtype="int8").query_rows(["the big cat"])
    program = f"""
import sys
from segmax.encoders import load_encoder
encoder = load_encoder({str(tmp_path / "model")!r}, dtype="int8")
print(encoder.query_rows(["the big cat"]).values.tolist())
assert not {{"torch", "transformers", "sentence_transformers", "scipy"}} & sys.modules.keys()
"""
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(out.stdout) == expected.values.tolist()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"version": 99}, "version 1"),
        ({"format": "other"}, "an object of the format"),
        ({"num_columns": 1 << 40}, "the description of an export"),
        ({"num_columns": 7}, "7 weights of a text"),
        ({"documents": None}, "the description of an export"),
        ({"queries": {"max_length": -1, "prompt": ""}}, "the description of an export"),
        ({"queries": {"max_length": 5, "prompt": 3}}, "the description of an export"),
    ],
)
@pytest.mark.slow
def test_damaged_exports_are_refused(change: dict[str, Any], expected: str, splade: Path, tmp_path: Path) -> None:
    """A description that claims something else is an InputError that says what was expected."""
    pytest.importorskip("onnxscript")
    folder = tmp_path / "model"
    shutil.copytree(splade, folder)
    SparseModel(folder, backend="onnx")
    change_json(place_of(folder) / EXPORT_NAME, **change)
    with refused(InputError, expected=expected):
        rows(SparseModel(folder, backend="onnx"))


@pytest.mark.parametrize("file", ["model.onnx", "tokenizer.json"])
@pytest.mark.slow
def test_damaged_files_of_exports_are_refused(file: str, splade: Path, tmp_path: Path) -> None:
    """Files of an export that are cut off or gone are InputErrors."""
    pytest.importorskip("onnxscript")
    folder = tmp_path / "model"
    shutil.copytree(splade, folder)
    SparseModel(folder, backend="onnx")
    (place_of(folder) / file).write_bytes(b"no model")
    with refused(InputError, where=place_of(folder).name, hint="segmax encoder export"):
        SparseModel(folder, backend="onnx")
    (place_of(folder) / file).unlink()
    with refused(InputError, where=file, got="no such file"):
        SparseModel(folder, backend="onnx")


def test_backends_and_number_types_that_do_not_go_together(splade: Path) -> None:
    """Each wrong pair is refused, with those that go together."""
    for options, option in (
        ({"backend": "onnx", "dtype": "float16"}, "dtype"),
        ({"backend": "torch", "dtype": "int8"}, "dtype"),
        ({"backend": "openvino", "dtype": "int8"}, "dtype"),
        ({"backend": "onnx", "device": "cuda"}, "backend"),
        ({"backend": "tensorflow"}, "backend"),
    ):
        with refused(ConfigError, option=f"^{option}$"):
            SparseModel(splade, **options)  # type: ignore[arg-type]


# --- our own network -------------------------------------------------------------------------------------------------


def test_plain_splade_runs_on_our_own_network(splade: Path) -> None:
    """What sentence-transformers saves as SPLADE is not run by it."""
    assert isinstance(SparseModel(splade)._network, MaskedLanguageNetwork)


def test_models_that_do_more_are_left_to_the_library(splade: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model whose vectors differ from the library's is run by the library, with its last layer back in place."""
    expected = rows(SparseModel(splade))
    monkeypatch.setattr("segmax.encoders.sparse_model._agree", lambda *_: False)
    encoder = SparseModel(splade)
    assert isinstance(encoder._network, LibraryNetwork)
    assert agreement_of(expected, rows(encoder)).minimum > 0.9999


def test_without_sentence_transformers(splade: Path, bert: Path) -> None:
    """With torch and transformers alone, and without the core, the same vectors come out."""
    for folder in (splade, bert):
        expected = SparseModel(folder).query_rows(TEXTS[:2])
        program = f"""
import importlib.abc, sys
class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] in ("sentence_transformers", "faiss", "Stemmer") or name == "segmax._core":
            raise ModuleNotFoundError(name)
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "sentence_transformers" else find(name, *rest)
sys.meta_path.insert(0, Absent())
from segmax.encoders import SparseModel
encoder = SparseModel({str(folder)!r})
print(encoder.query_rows({TEXTS[:2]!r}).values.tolist())
"""
        environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
        out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
        assert out.returncode == 0, out.stderr
        np.testing.assert_allclose(json.loads(out.stdout), expected.values, atol=1e-5)


def test_batches_that_do_not_fit_are_halved(splade: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device without memory for a batch gets halves of it; for a single text that is an error."""
    encoder = SparseModel(splade)
    expected = rows(encoder)
    network = encoder._network
    assert isinstance(network, MaskedLanguageNetwork)
    forward = MaskedLanguageNetwork.forward
    sizes = []

    def small(self: Any, model: Any, tokens: Any, *rest: Any, **options: Any) -> Any:
        sizes.append(len(tokens))
        if len(tokens) > limit:
            raise torch.OutOfMemoryError
        return forward(self, model, tokens, *rest, **options)

    monkeypatch.setattr(MaskedLanguageNetwork, "forward", small)
    limit = 2
    assert agreement_of(expected, rows(encoder)).minimum > 0.9999
    assert max(sizes) > 2
    limit = 0
    with refused(SegmaxError, message="not enough memory for a text of", hint="max_length"):
        rows(encoder)


def test_several_devices_give_what_one_gives(splade: Path) -> None:
    """A copy of the model per device, and rows in the order of the texts."""
    one = rows(SparseModel(splade, device="cpu", batch_size=2))
    two = rows(SparseModel(splade, device="cpu,cpu", batch_size=2))
    for first, second in zip(one[:3], two[:3], strict=True):
        np.testing.assert_array_equal(first, second)


def test_slices_of_the_head_do_not_matter(splade: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logits of all columns at once, or of a few at a time."""
    encoder = SparseModel(splade)
    expected = rows(encoder)
    monkeypatch.setattr(MaskedLanguageNetwork, "_slice", lambda self, tokens: 7)
    assert agreement_of(expected, rows(encoder)).minimum > 0.9999


@pytest.mark.parametrize("top_n", [1, 3, 1000])
def test_the_largest_weights_are_chosen_on_the_device(splade: Path, top_n: int) -> None:
    """`top_n` and `min_weight` keep what they keep of the whole vectors."""
    whole, some = rows(SparseModel(splade)), rows(SparseModel(splade, top_n=top_n, min_weight=0.1))
    for row in range(whole.num_rows):
        begin, end = whole.indptr[row : row + 2]
        expected = sorted((value for value in whole.values[begin:end] if value >= 0.1), reverse=True)[:top_n]
        begin, end = some.indptr[row : row + 2]
        np.testing.assert_allclose(sorted(some.values[begin:end], reverse=True), expected, atol=1e-6)


def test_word_pieces_are_cut(splade: Path) -> None:
    """A limit holds even where special pieces alone are more."""
    encoder = SparseModel(splade)
    for limit in (1, 2, 3, 5, None):
        pieces = WordPieces(encoder.tokenizer_json(), limit)(["the big cat sleeps", ""])
        assert [len(found) for found in pieces] == [min(limit or 99, 7), min(limit or 99, 2)]


# --- the choice ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_choice_is_by_the_users_texts(
    splade: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """With an export at hand, 8 bits are used if they are near enough; one line says what was chosen and why."""
    pytest.importorskip("onnxscript")
    caplog.set_level(logging.INFO, "segmax.encoders")
    folder = tmp_path / "model"
    shutil.copytree(splade, folder)
    few = SparseModel(folder)
    choose_for(few, docs())
    assert (few.dtype, few.backend) == ("float32", "torch")  # no export, and too few texts to make one
    SparseModel(folder, backend="onnx")
    for least, dtype in ((0.0, "int8"), (1.1, "float32")):
        monkeypatch.setattr("segmax.encoders.choosing._NEAR_ENOUGH", least)
        caplog.clear()
        encoder = SparseModel(folder)
        choose_for(encoder, docs())
        assert encoder.dtype == dtype
        assert encoder.options()["dtype"] == dtype
        assert caplog.messages[0].startswith(f"{folder}: {dtype} on cpu")
        assert "cosine to float32 at least" in caplog.messages[0]
    for chosen in ({"dtype": "float32"}, {"backend": "torch"}):
        monkeypatch.setattr("segmax.encoders.choosing._NEAR_ENOUGH", 0.0)
        encoder = SparseModel(folder, **chosen)  # type: ignore[arg-type]
        choose_for(encoder, docs())
        assert encoder.dtype == "float32"


@pytest.mark.slow
def test_an_index_records_the_choice(splade: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index of texts is encoded in 8 bits where that was chosen, and so are its queries."""
    pytest.importorskip("onnxscript")
    monkeypatch.setattr("segmax.encoders.choosing._NEAR_ENOUGH", 0.0)
    monkeypatch.setattr("segmax.text.settling.NUM_FIRST", 3)
    monkeypatch.setattr("segmax.encoders.choosing.NUM_FIRST", 3)
    folder = tmp_path / "model"
    shutil.copytree(splade, folder)
    with segmax.from_texts(TEXTS, encoder=folder, path=tmp_path / "index") as index:
        assert index.encoder_description is not None
        assert index.encoder_description["dtype"] == "int8"
        expected = index.search("the big cat").ids
    with segmax.open(tmp_path / "index", encoder=folder) as index:
        assert index.search("the big cat").ids == expected
        assert index.encoder.dtype == "int8"  # type: ignore[attr-defined]


@pytest.mark.slow
def test_queries_where_the_backend_is_missing(splade: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index that was encoded in 8 bits is searched in float32 where ONNX Runtime is not installed."""
    pytest.importorskip("onnxscript")
    folder = tmp_path / "model"
    shutil.copytree(splade, folder)
    segmax.from_texts(TEXTS, encoder=SparseModel(folder, dtype="int8"), path=tmp_path / "index").close()
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "onnxruntime" else find(name))
    with segmax.open(tmp_path / "index", encoder=folder) as index:
        assert index.encoder.dtype == "float32"  # type: ignore[attr-defined]
        assert index.search("the big cat").ids


def test_trims_are_what_they_say() -> None:
    """The defaults keep every weight above zero."""
    assert Trim() == (0.0, None)


# --- splade-mini -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "least"),
    [
        ({"dtype": "bfloat16"}, 0.999),
        ({"backend": "onnx"}, 0.9999),
        ({"backend": "openvino"}, 0.9999),
        ({"backend": "openvino", "dtype": "bfloat16"}, 0.999),
        ({"dtype": "int8"}, 0.99),
    ],
)
def test_backends_on_real_texts(options: dict[str, Any], least: float) -> None:
    """Passages, questions, and texts that are empty, one word, 10,000 words or not Latin: as near as promised."""
    pytest.importorskip("openvino")
    if not MODEL.is_dir():
        pytest.skip("needs splade-mini beside the project")
    with lzma.open(WIKI / "text-00.tsv.xz", "rt", encoding="utf-8", newline="\n") as file:
        texts = [line.rstrip("\n").split("\t")[2] for line in itertools.islice(file, 60)]
    texts += [
        "",
        "weather",
        "the cat sat on the mat " * 2000,
        "京都の寺",
        "Привет, мир",
        "قطة صغيرة",
        "what is a diode",
    ]
    expected, found = SparseModel(MODEL, dtype="float32"), SparseModel(MODEL, **options)
    assert agreement_of(rows(expected, texts), rows(found, texts)).minimum >= least
    assert agreement_of(expected.query_rows(texts[-9:]), found.query_rows(texts[-9:])).minimum >= least


@pytest.mark.slow
def test_relevance_in_8_bits() -> None:
    """nDCG@10 on NFCorpus stays within .002 of float32: on 600 documents, or on all with SEGMAX_RELEVANCE=1.

    All documents take seven minutes on two cores. Fewer documents leave fewer judgments per query, each of which counts
    for more, so the margin is wider there.
    """
    data = SHARED / "data" / "nfcorpus"
    if not MODEL.is_dir() or not data.is_dir():
        pytest.skip("needs splade-mini and NFCorpus beside the project")
    whole = bool(os.environ.get("SEGMAX_RELEVANCE"))
    documents = list(itertools.islice(open_texts(data), None if whole else 600))
    kept = {document.id for document in documents}
    qrels = {
        query: {name: grade for name, grade in grades.items() if name in kept}
        for query, grades in read_qrels(data / "qrels" / "test.tsv").items()
        if kept & grades.keys()
    }
    found = {}
    for dtype in ("float32", "int8"):
        encoder = SparseModel(MODEL, dtype=dtype, backend="onnx")
        with segmax.from_texts(documents, encoder=encoder, keep_texts=False) as index:
            run = segmax.evaluate(index, data / "queries.jsonl.gz", qrels, methods=[segmax.ASC()], passes=1)
            found[dtype] = run.methods[0].relevance["nDCG@10"]
    assert found["float32"] > 0.2
    assert abs(found["int8"] - found["float32"]) <= (0.002 if whole else 0.01), found
