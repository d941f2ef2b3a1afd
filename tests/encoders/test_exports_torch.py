"""Where exports of models are kept, who may write them, and exports that are encoders by themselves.

Models are exported by a few lines of this file, unless what an export computes matters: real exports take seconds.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("sentence_transformers")
pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")

import segmax
from conftest import refused
from segmax.base.errors import ConfigError, IndexExistsError, InputError, SegmaxError
from segmax.cli.main import main
from segmax.encoders import LexMAE, SparseModel, UniCOIL, export_encoder, load_encoder
from segmax.encoders.choosing import agreement_of, choose_for
from segmax.encoders.exported import Description, Side, cached_place, described, files_of, find_export
from segmax.encoders.exporting import export, export_to
from segmax.encoders.model_files import EXPORT_FOLDER, EXPORT_NAME
from segmax.encoders.transformer import TransformerEncoder
from segmax.vectors.documents import Document
from segmax.vectors.rows import join_rows
from tiny_models import TEXTS, change_json, docs, rows, write_model, write_routed

DESCRIPTION = Description("SparseModel", 41, of_tokens=False, documents=Side(), queries=Side())


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of one's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def model(splade: Path, tmp_path: Path) -> Path:
    """A copy of a model."""
    return Path(shutil.copytree(splade, tmp_path / "model"))


class Named:
    """As much of an encoder as an export that is made of a description needs."""

    query_table = None

    def __init__(self, folder: Path) -> None:
        self.name = str(folder)


Named.__name__ = "SparseModel"


def exported_again(folder: Path, *, again: bool = False) -> Path:
    """Export a model in a folder, as its encoder would."""
    return export(Named(folder), again=again)  # type: ignore[arg-type]


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Exports are made of a description and no model; the folders that were written, in their order."""
    folders: list[Path] = []

    def write(encoder: TransformerEncoder, folder: Path) -> None:
        folders.append(folder)
        time.sleep(0.2)  # so that another thread would come in between
        for name in ("model.onnx", "model.int8.onnx", "tokenizer.json"):
            (folder / name).write_text(str(len(folders)))
        (folder / EXPORT_NAME).write_bytes(described(DESCRIPTION, files_of(encoder.name)))

    monkeypatch.setattr("segmax.encoders.exporting.write_export", write)
    return folders


# --- places ----------------------------------------------------------------------------------------------------------


def test_exports_go_to_the_cache(
    model: Path, cache: Path, written: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is written into the folder of a model, and an export serves until the model changes."""
    before = sorted(path for path in model.rglob("*"))
    found = exported_again(model)
    assert found.is_relative_to(cache)
    assert found == cached_place(str(model)) == find_export(str(model), "SparseModel")
    assert find_export(str(model), "LexMAE") is None
    assert sorted(path for path in model.rglob("*")) == before
    assert exported_again(model) == found
    assert len(written) == 1
    change_json(model / "config.json", something_new=1)
    assert find_export(str(model), "SparseModel") is None
    assert exported_again(model) == found
    assert exported_again(model, again=True) == found
    assert (found / "model.onnx").read_text() == "3"
    assert [path.name for path in found.parent.iterdir()] == [found.name]
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    place = cached_place(str(model))
    assert place is not None
    assert place.is_relative_to(Path.home() / ".cache")


def test_exports_beside_a_model_are_used(model: Path, written: list[Path]) -> None:
    """As older versions wrote them; a newer one in the cache comes first."""
    beside = model / EXPORT_FOLDER
    beside.mkdir()
    (beside / EXPORT_NAME).write_bytes(described(DESCRIPTION, files_of(str(model))))
    assert find_export(str(model), "SparseModel") == beside
    assert exported_again(model) == beside
    assert written == []
    assert exported_again(model, again=True) == cached_place(str(model)) == find_export(str(model), "SparseModel")
    change_json(model / "config.json", something_new=1)
    assert find_export(str(model), "SparseModel") is None


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"format": "other"}', b'{"format": "segmax-export", "version": 9}'])
def test_exports_that_cannot_be_read(model: Path, written: list[Path], content: bytes) -> None:
    """Beside a model they count as none; of the cache's own the error says what makes it again."""
    beside = model / EXPORT_FOLDER
    beside.mkdir()
    (beside / EXPORT_NAME).write_bytes(content)
    assert find_export(str(model), "SparseModel") is None
    found = exported_again(model)
    assert found == cached_place(str(model))
    (found / EXPORT_NAME).write_bytes(content)
    with refused(InputError, where=EXPORT_NAME, hint="segmax encoder export MODEL --overwrite"):
        exported_again(model)
    assert exported_again(model, again=True) == found == find_export(str(model), "SparseModel")
    (beside / EXPORT_NAME).write_bytes((found / EXPORT_NAME).read_bytes())
    change_json(beside / EXPORT_NAME, documents=None)
    shutil.rmtree(found)
    assert find_export(str(model), "SparseModel") is None


def test_users_without_a_home(
    model: Path, written: list[Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """They have no cache: models run without exports, and the error about a missing one says what to set."""

    def home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", home)
    encoder = SparseModel(model)
    assert find_export(str(model), "SparseModel") is None
    with refused(ConfigError, expected="a folder for the cache", hint="set XDG_CACHE_HOME"):
        export(encoder)
    caplog.set_level(logging.INFO, "segmax.encoders")
    choose_for(encoder, [Document("", "", "the cat")] * 512)
    assert encoder.dtype == "float32"
    assert "no int8, because" in caplog.messages[0]
    assert written == []


# --- writing ---------------------------------------------------------------------------------------------------------


def test_exports_at_the_same_time(model: Path, written: list[Path]) -> None:
    """Whoever comes second waits, and uses what the first one made."""
    found: list[Path] = []
    threads = [threading.Thread(target=lambda: found.append(exported_again(model))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [cached_place(str(model))] * 3
    assert len(written) == 1


def killed(model: Path, call: str) -> None:
    """Export a model in a process that is killed in the middle."""
    program = f"""
from pathlib import Path
import os
from segmax.encoders import exporting
class SparseModel:
    name = {str(model)!r}
def write(encoder, folder):
    (folder / "model.onnx").write_bytes(bytes(1000))
    os._exit(7)
exporting.write_export = write
exporting.{call}
"""
    assert subprocess.run([sys.executable, "-c", program]).returncode == 7


def test_what_killed_exports_leave_is_removed(model: Path, cache: Path, written: list[Path]) -> None:
    """A process that ends in the middle leaves no export; the next one removes what is left of it."""
    killed(model, "export(SparseModel())")
    assert [path.stat().st_size for path in cache.rglob("model.onnx")] == [1000]
    assert find_export(str(model), "SparseModel") is None
    found = exported_again(model)
    assert list(cache.rglob("model.onnx")) == [found / "model.onnx"]
    killed(model, "export(SparseModel(), again=True)")
    assert len(list(cache.rglob("model.onnx"))) == 2
    assert exported_again(model) == found  # it is there already
    assert list(cache.rglob("model.onnx")) == [found / "model.onnx"]


def test_what_killed_exports_leave_in_a_chosen_folder_is_removed(
    model: Path, tmp_path: Path, written: list[Path]
) -> None:
    """Beside OUT only what exports to OUT have left: the folders of others stay, whatever they are called."""
    out = tmp_path / "mine" / "out"
    killed(model, f"export_to(SparseModel(), Path({str(out)!r}), overwrite=False)")
    (left,) = out.parent.iterdir()
    others = [out.parent / name for name in (".out.settings", ".other.ab12cd34", "out.ab12cd34")]
    for folder in others:
        (folder / ("new" if folder.name != ".out.settings" else "kept")).mkdir(parents=True)
    others.append(out.parent / ".out.ab12cd34")
    others[-1].write_text("a file")
    encoder = Named(model)
    export_to(encoder, out, overwrite=False)  # type: ignore[arg-type]
    assert sorted(out.parent.iterdir()) == sorted([out, *others])
    shutil.copytree(out, left / "old")  # as if it had been killed between moving the old export and the new one
    (left / "new").mkdir()
    shutil.rmtree(out)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("segmax.encoders.exporting.write_export", lambda encoder, folder: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            export_to(encoder, out, overwrite=True)  # type: ignore[arg-type]
    assert (left / "old" / "model.onnx").exists()
    export_to(encoder, out, overwrite=True)  # type: ignore[arg-type]
    export_to(encoder, out, overwrite=True)  # type: ignore[arg-type]
    assert sorted(out.parent.iterdir()) == sorted([out, *others])


def test_an_export_that_fails_changes_nothing(
    model: Path, cache: Path, written: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was exported before is there, whole, and nothing else."""
    found = exported_again(model)
    before = {path: path.read_bytes() for path in cache.rglob("*") if path.is_file()}

    def fail(encoder: TransformerEncoder, folder: Path) -> None:
        (folder / "model.onnx").write_bytes(b"half")
        raise SegmaxError("it cannot be exported")

    monkeypatch.setattr("segmax.encoders.exporting.write_export", fail)
    with refused(SegmaxError, message="it cannot be exported"):
        exported_again(model, again=True)
    assert {path: path.read_bytes() for path in cache.rglob("*") if path.is_file()} == before
    assert find_export(str(model), "SparseModel") == found


def test_only_exports_are_overwritten(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """OUT may be an export, with --overwrite; anything else stays as it is, and is refused before a model is loaded."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    for options in ({}, {"overwrite": True}):
        with refused(IndexExistsError):
            export_encoder("no/such-model", tmp_path / "out", **options)  # type: ignore[arg-type]
    assert main(["encoder", "export", str(model), str(tmp_path / "out")]) == 2
    assert "or pass --overwrite" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["notes.txt"]


# --- exports that are encoders ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def exported(splade: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real export in a folder of its own, whose model is gone."""
    folder = tmp_path_factory.mktemp("exports")
    shutil.copytree(splade, folder / "model")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        report = export_encoder(folder / "model", folder / "out", texts=TEXTS)
    assert report.folder == folder / "out"
    assert report.agreements["float32"].minimum > 0.9999
    assert not (folder / "cache" / "segmax").exists()
    shutil.rmtree(folder / "model")
    return folder / "out"


def test_no_text_depends_on_its_neighbors(exported: Path) -> None:
    """In 8 bits, a text alone, in a batch and among others has the same vector, to the last bit."""
    encoder = SparseModel(exported, dtype="int8")
    together = rows(encoder)
    apart = join_rows([rows(encoder, [text]) for text in TEXTS], len(encoder.vocabulary))
    for first, second in zip(together[:3], apart[:3], strict=True):
        np.testing.assert_array_equal(first, second)


def test_an_export_is_an_encoder(exported: Path, splade: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is loaded, described and recorded like a model, gives its vectors, and its index opens with it again."""
    monkeypatch.setattr("segmax.encoders.choosing._NEAR_ENOUGH", 0.0)
    encoder, expected = load_encoder(exported), SparseModel(splade)
    assert isinstance(encoder, SparseModel)
    assert (encoder.dtype, encoder.backend, encoder.device) == ("float32", "onnx", "cpu")
    assert encoder.vocabulary == expected.vocabulary
    assert agreement_of(rows(expected), rows(encoder)).minimum > 0.9999
    assert agreement_of(expected.query_rows(TEXTS), encoder.query_rows(TEXTS)).minimum > 0.9999
    assert encoder.to_dict()["model"] == str(exported)
    assert encoder.fingerprint()["files"]
    with segmax.from_texts(TEXTS, encoder=exported, path=tmp_path / "index") as index:
        assert index.encoder_description is not None
        assert (index.encoder_description["dtype"], index.encoder_description["backend"]) == ("int8", "onnx")
        ids = index.search("the big cat").ids
    with segmax.open(tmp_path / "index", encoder=exported) as index:
        assert index.encoder.dtype == "int8"  # type: ignore[attr-defined]
        assert index.search("the big cat").ids == ids
    segmax.from_texts(TEXTS, encoder=SparseModel(splade, dtype="float32"), path=tmp_path / "torch").close()
    with segmax.open(tmp_path / "torch", encoder=exported) as index:  # made by torch, searched without it
        assert index.encoder.backend == "onnx"  # type: ignore[attr-defined]
        assert index.search("the big cat").ids


def test_options_that_an_export_does_not_have(exported: Path, tmp_path: Path) -> None:
    """Neither torch nor a GPU can run it, and it is of one kind."""
    with refused(ConfigError, option="backend", expected="'onnx' or 'openvino' for an exported model"):
        SparseModel(exported, backend="torch")
    with refused(ConfigError, option="device", expected="'cpu' for an exported model"):
        SparseModel(exported, device="cuda")
    with refused(ConfigError, option="dtype"):
        SparseModel(exported, dtype="float16")
    with refused(InputError, expected="an exported LexMAE", got="an exported 'SparseModel'"):
        LexMAE(exported)
    with refused(ConfigError, option="name", got="which is an export"):
        export_encoder(exported, tmp_path / "again")
    shutil.copytree(exported, tmp_path / "other")
    change_json(tmp_path / "other" / EXPORT_NAME, kind="Other")
    with refused(InputError, expected="a kind of model", got="'Other'"):
        load_encoder(tmp_path / "other")


@pytest.mark.slow
def test_an_export_needs_neither_torch_nor_a_home(exported: Path, tmp_path: Path) -> None:
    """It encodes, and its index is made and searched, without torch, transformers and a cache."""
    program = f"""
import pathlib, sys
def home(): raise RuntimeError
pathlib.Path.home = home
import segmax
for dtype in ("float32", "int8"):
    encoder = segmax.encoders.load_encoder({str(exported)!r}, dtype=dtype)
    path = {str(tmp_path)!r} + "/" + dtype
    segmax.from_texts(["the big cat", "a dog"], encoder=encoder, path=path).close()
    with segmax.open(path, encoder={str(exported)!r}) as index:
        print(index.search("cat").ids, index.encoder.dtype)
assert not {{"torch", "transformers", "sentence_transformers"}} & sys.modules.keys()
"""
    environment = {name: value for name, value in os.environ.items() if name not in ("HOME", "XDG_CACHE_HOME")}
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert out.returncode == 0, out.stderr
    assert out.stdout.splitlines() == ["['0', '1'] float32", "['0', '1'] int8"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [SparseModel, LexMAE, UniCOIL])
def test_kinds_of_exports(kind: type[TransformerEncoder], bert: Path, splade: Path, tmp_path: Path) -> None:
    """Each is loaded as what it was, and copied from the cache where it has been exported before."""
    folder = write_model(kind, bert, splade, tmp_path / "model")
    expected = kind(folder, pooling="mean")
    first = export_encoder(folder, texts=TEXTS).folder
    export_encoder(folder, tmp_path / "out", texts=TEXTS)
    assert {path.name: path.read_bytes() for path in first.iterdir()} == {
        path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()
    }
    found = load_encoder(tmp_path / "out", pooling="mean")
    assert type(found) is kind
    titled = [Document("a", "the big house", "a cat"), *docs()]
    made = [next(encoder.encode_documents([titled])) for encoder in (expected, found)]
    assert agreement_of(made[0].vectors, made[1].vectors).minimum > 0.9999
    np.testing.assert_allclose(made[0].dense["mean"], made[1].dense["mean"], atol=1e-4)
    assert agreement_of(expected.query_rows(TEXTS), found.query_rows(TEXTS)).minimum > 0.9999


@pytest.mark.slow
def test_tables_of_queries_are_exported(bert: Path, tmp_path: Path) -> None:
    """A model whose queries go through a table keeps it: index, queries and collections are those of the model."""
    model = tmp_path / "model"
    write_routed(model, bert)
    export_encoder(model, tmp_path / "out", texts=TEXTS)
    expected, found = load_encoder(model), load_encoder(tmp_path / "out")
    for first, second in zip(expected.query_rows(TEXTS)[:3], found.query_rows(TEXTS)[:3], strict=True):
        np.testing.assert_array_equal(first, second)
    with segmax.Collection.create(tmp_path / "papers", encoder=found) as papers:
        papers.add([{"id": "a", "text": "the big cat"}])
    with segmax.Collection.open(tmp_path / "papers", encoder=tmp_path / "out") as papers:
        assert papers.search("cat").ids == ["a"]
        papers.add([{"id": "b", "text": "a cat"}])
        assert papers.num_docs == 2
    with segmax.from_texts({"a": "the big cat"}, encoder=tmp_path / "out", path=tmp_path / "index") as index:
        assert index.search("cat").ids == ["a"]
    with segmax.open(tmp_path / "index", encoder=tmp_path / "out") as index:
        assert repr(index.encoder).endswith("queries by a table)")
        assert index.search("cat").ids == ["a"]
        assert index.encoder.to_dict() == json.loads(json.dumps(index.encoder_description))  # type: ignore[attr-defined]


@pytest.mark.slow
def test_the_command(model: Path, tmp_path: Path, cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It writes OUT and nothing else, and other commands take OUT."""
    (tmp_path / "docs.jsonl").write_text('{"id": "a", "text": "the big cat"}\n{"id": "b", "text": "a dog"}\n')
    out, index = str(tmp_path / "out"), str(tmp_path / "index")
    assert main(["encoder", "export", str(model), out]) == 0
    assert capsys.readouterr().out.startswith(f"{out}: exported in ")
    assert not (cache / "segmax").exists()
    assert not (model / EXPORT_FOLDER).exists()
    assert main(["index", str(tmp_path / "docs.jsonl"), index, "--encoder", out]) == 0
    assert main(["search", index, "cat", "--encoder", out, "--json"]) == 0
    assert '"id": "a"' in capsys.readouterr().out
    assert main(["encoder", "export", str(model), out, "--overwrite"]) == 0
