"""Collections on the command line."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

import segmax
from conftest import refused
from segmax.cli.main import main
from segmax.collection.manifest import read_manifest, write_manifest
from segmax.errors import FormatError, InputError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with texts and vectors."""
    monkeypatch.chdir(tmp_path)
    Path("docs.csv").write_text("id,text,year,note\na,copper,2019,x\nb,copper tubes,2021,y\n")
    lines = [{"id": name, "text": "noise", "metadata": {"year": 1950}, "lang": "en"} for name in "cd"]
    Path("docs.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    Path("vectors.jsonl").write_text('{"id": "v", "vector": {"x": 1.5}, "metadata": {"year": 1951}}\n')
    return tmp_path


def test_metadata(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What lines have as metadata is kept; other members and columns where they are asked for."""
    assert main(["add", "papers", "docs.csv", "--metadata", "year:int"]) == 0
    assert "columns read: id, text, year; columns ignored: note" in capsys.readouterr().err
    assert main(["add", "papers", "docs.jsonl"]) == 0
    assert main(["add", "papers", "docs.jsonl", "--metadata", "all", "--upsert"]) == 0
    with segmax.open("papers") as papers:
        assert [papers.metadata(name) for name in "abcd"] == [
            {"year": 2019},
            {"year": 2021},
            {"year": 1950, "lang": "en"},
            {"year": 1950, "lang": "en"},
        ]
    capsys.readouterr()
    assert main(["search", "papers", "copper", "--where", '{"year": {"$gte": 2020}}', "--json"]) == 0
    assert [hit["id"] for hit in json.loads(capsys.readouterr().out)["hits"]] == ["b"]


def test_bars_are_for_terminals(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Into files and pipes, commands about collections draw none, unless that is asked for."""
    pytest.importorskip("rich")
    commands = [["add", "papers", "docs.jsonl", "--upsert"], ["compact", "papers"], ["verify", "papers"]]
    for command in commands:
        assert main(command) == 0
        assert capfd.readouterr().err == ""
        assert main([*command, "--no-progress"]) == 0
        assert capfd.readouterr().err == ""
        assert main([*command, "--progress"]) == 0
        assert "\u2501" in capfd.readouterr().err


def test_documents_that_are_there_already(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The error names the option of the shell there, and the method in Python."""
    assert main(["add", "papers", "docs.csv"]) == 0
    assert main(["add", "papers", "docs.csv"]) == 2
    assert capsys.readouterr().err.endswith("got 'a'; use --upsert to replace documents\n")
    with (
        segmax.Collection.open("papers") as papers,
        pytest.raises(InputError, match=r"got 'a'; use upsert to replace documents$"),
    ):
        papers.add([{"id": "a", "text": "copper"}])


def test_vectors(folder: Path) -> None:
    """They need no encoder, and bring their metadata."""
    assert main(["add", "vectors", "vectors.jsonl"]) == 0
    with segmax.open("vectors") as vectors:
        assert (vectors.metadata("v"), vectors.search({"x": 1}).ids) == ({"year": 1951}, ["v"])


@pytest.mark.parametrize("source", ["missing.jsonl", "broken.jsonl"])
def test_a_collection_without_documents_is_not_left_behind(folder: Path, source: str) -> None:
    """Whether the file is missing or wrong."""
    Path("broken.jsonl").write_text('{"id": "a", "text": "copper"}\n{"id": "b", "text": 5}\n')
    assert main(["add", "papers", source]) == 2
    assert not Path("papers").exists()


def test_another_encoder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Than that of the collection is refused, whether it is a name or an option."""
    assert main(["add", "papers", "docs.csv"]) == 0
    segmax.encoders.BM25(k1=3.0).save("other.bm25")
    capsys.readouterr()
    assert main(["add", "papers", "docs.jsonl", "--encoder", "other.bm25"]) == 2
    assert "k1" in capsys.readouterr().err
    assert main(["add", "papers", "docs.jsonl", "--k1", "3"]) == 2
    assert main(["add", "papers", "docs.jsonl", "--vectors"]) == 2
    with segmax.open("papers") as papers:
        assert len(papers) == 2


def test_the_same_encoder(folder: Path) -> None:
    """Is accepted: a command that creates a collection can be repeated with other files."""
    options = ["--encoder", "bm25", "--k1", "3"]
    assert main(["add", "papers", "docs.csv", *options]) == 0
    assert main(["add", "papers", "docs.jsonl", *options]) == 0
    assert main(["add", "papers", "docs.jsonl", "--upsert", "--encoder", "bm25"]) == 0
    assert main(["add", "vectors", "vectors.jsonl", "--vectors"]) == 0
    assert main(["add", "vectors", "vectors.jsonl", "--vectors", "--upsert"]) == 0


def test_bm25_for_a_collection_with_another_encoder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Or with none: named by the user it is refused, and as the default it is no choice at all."""
    model = {"encoder": "SparseModel", "model": "somebody/splade"}
    for name in ("vectors", "model"):
        assert main(["add", name, "vectors.jsonl"]) == 0
    manifest = read_manifest(Path("model").absolute())
    write_manifest(Path("model").absolute(), dataclasses.replace(manifest, encoder=model))
    for name, expected in (("vectors", "the collection has no encoder"), ("model", "'SparseModel'")):
        capsys.readouterr()
        assert main(["add", name, "vectors.jsonl", "--upsert", "--encoder", "bm25"]) == 2
        assert expected in capsys.readouterr().err
        assert main(["add", name, "vectors.jsonl", "--upsert"]) == 0


@pytest.mark.parametrize("kind", ["index", "collection"])
@pytest.mark.parametrize(
    "command", ["convert {} out.npz", "build {} out", "index {} out", "encode {} out", "add new {}"]
)
def test_an_index_or_a_collection_in_the_place_of_documents(
    folder: Path, capsys: pytest.CaptureFixture[str], command: str, kind: str
) -> None:
    """Is named as what it is."""
    assert main(["index" if kind == "index" else "add", *["docs.csv", "ours"][:: 1 if kind == "index" else -1]]) == 0
    assert main(command.format("ours").split()) == 2
    assert f"'ours': expected files of texts or vectors, got a segmax {kind}" in capsys.readouterr().err


def test_upgrading_a_collection(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One that can be opened is up to date, and one of a newer segmax is not."""
    assert main(["add", "papers", "docs.csv"]) == 0
    capsys.readouterr()
    assert main(["upgrade", "papers"]) == 0
    assert capsys.readouterr().out == "papers: collection, up to date\n"
    manifest = Path("papers/manifest.json")
    manifest.write_text(manifest.read_text().replace('"version": 1', '"version": 2'))
    assert main(["upgrade", "papers"]) == 1
    assert "pip install -U segmax" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["add ours docs.jsonl", "compact ours", "delete ours a"])
def test_an_index_in_the_place_of_a_collection(folder: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    """Says how to make one of it."""
    assert main(["index", "docs.csv", "ours"]) == 0
    assert main(command.split()) == 2
    assert "segmax.Collection.from_index" in capsys.readouterr().err


def test_a_collection_in_the_place_of_an_index(folder: Path) -> None:
    """Says how to open it."""
    segmax.Collection.create("papers").close()
    with refused(FormatError, expected="a segmax index", got="a collection", hint="segmax.Collection.open"):
        segmax.Collection.from_index("papers", "other")
