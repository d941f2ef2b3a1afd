"""Commands with ray://PATH, and what is said about a sharded index where another kind is expected.

The shards are opened in this process; tests/ray has commands on a cluster.
"""

from __future__ import annotations

import dataclasses
import io
import json
from pathlib import Path
from typing import Any

import pytest
import scipy.sparse as sp
from rich.console import Console

import segmax
from conftest import refused
from segmax.cli.main import main
from segmax.errors import ConfigError, FormatError
from segmax.ray import address
from segmax.shards.making.building import build
from segmax.shards.opening import open_described, open_local
from segmax.shards.routed import RoutingTable
from sharded_samples import write_matrices, write_texts

NUM_SHARDS = 4


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(text: str, *, encoder: object = None) -> Any:
        return open_local(address.parse_ray_address(text).path, encoder=encoder)

    monkeypatch.setattr(address, "open_address", opened)


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sharded index of texts, and beside it the same as one index."""
    folder = tmp_path_factory.mktemp("texts")
    files = write_texts(folder / "files")
    build(files, folder / "docs.sharded", shards=NUM_SHARDS, encoder="bm25", num_clusters=16)
    segmax.from_texts(folder / "files", path=folder / "docs.segmax").close()
    return folder


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sharded index of vectors, beside it the same as one index, and queries."""
    folder = tmp_path_factory.mktemp("vectors")
    files = write_matrices(folder / "files", sizes=(300,))
    build(files, folder / "docs.sharded", shards=NUM_SHARDS, num_clusters=16)
    docs = sp.load_npz(files[0])
    segmax.build(docs, path=folder / "docs.segmax").close()
    sp.save_npz(folder / "queries.npz", docs[40:60])
    return folder


def output(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> str:
    """Run a command, and return what it prints; on standard error if it fails."""
    assert main(list(map(str, arguments))) == code
    printed = capsys.readouterr()
    return printed.err if code else printed.out


def found(text: str) -> list[Any]:
    """The results in lines of JSON, without their times."""
    return [[(hit["id"], hit["score"]) for hit in json.loads(line)["hits"]] for line in text.splitlines()]


def test_search_finds_the_same_in_shards(texts: Path, vectors: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """For words and for a file of queries."""
    for folder, query in ((texts, "word1"), (vectors, vectors / "queries.npz")):
        one = output(capsys, "search", folder / "docs.segmax", query, "--json")
        many = output(capsys, "search", f"ray://{folder}/docs.sharded?replicas=1", query, "--json")
        assert found(many) == found(one)
        assert found(many)[0]


def test_relative_paths_work(texts: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """What follows ray:// may be relative to where the command runs."""
    monkeypatch.chdir(texts)
    assert "document" in output(capsys, "search", "ray://docs.sharded", "word1")


def test_search_asks_few_shards(vectors: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--max-shards 1 finds documents of one shard per query."""
    where = f"ray://{vectors}/docs.sharded", vectors / "queries.npz", "--json", "-k", 300
    few, all = (found(output(capsys, "search", *where, *more)) for more in (["--max-shards", 1], []))
    assert all != few
    for some, every in zip(few, all, strict=True):
        assert set(some) <= set(every)


def test_evaluate_compares_few_shards_with_all(vectors: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The methods ask few shards, and the exhaustive search that they are compared with asks all."""
    where = f"ray://{vectors}/docs.sharded", "--queries", vectors / "queries.npz", "--json", "--passes", 1, "-k", 50
    few, all = (
        json.loads(output(capsys, "evaluate", *where, "--methods", "asc", "exhaustive", *more))["methods"]
        for more in (["--max-shards", 1], [])
    )
    assert [method["recall_of_exact"] for method in all] == [1.0, 1.0]
    assert 0.2 < few[0]["recall_of_exact"] == few[1]["recall_of_exact"] < 1


@pytest.mark.parametrize("command", ["search", "evaluate"])
def test_an_index_without_shards_refuses_max_shards(
    vectors: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a message that names the option."""
    queries = [vectors / "queries.npz"] if command == "search" else ["--queries", vectors / "queries.npz"]
    said = output(capsys, command, vectors / "docs.segmax", *queries, "--max-shards", 2, code=2)
    assert "expected --max-shards to be left out for an index without shards, got 2" in said


def test_inspect_shows_shards_without_opening_them(
    vectors: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It reads the description alone."""
    monkeypatch.setattr(address, "open_address", None)
    where = f"ray://{vectors}/docs.sharded"
    shown = output(capsys, "inspect", where)
    assert f"{NUM_SHARDS} shards by clusters" in shown
    told = json.loads(output(capsys, "inspect", where, "--json"))
    assert sum(shard["num_docs"] for shard in told["shards"]) == told["num_docs"] == 300
    assert segmax.inspect(open_described(vectors / "docs.sharded")).to_dict() == told
    assert "expected --plot to be left out" in output(capsys, "inspect", where, "--plot", "x.png", code=2)
    assert "expected --queries to be left out" in output(capsys, "inspect", where, "--queries", "x.npz", code=2)


def test_inspect_shows_the_measured_recall(vectors: Path) -> None:
    """By how many shards a search asks."""
    summary = segmax.inspect(open_described(vectors / "docs.sharded"))
    routing = RoutingTable((0.5, 0.7, 0.9, 1.0), 0.8, 0.7, 100, "given queries")
    console = Console(width=100, file=io.StringIO(), record=True)
    console.print(dataclasses.replace(summary, routing=routing))
    shown = console.export_text()
    assert "asks 80% of the shards" in shown
    rows = [line.split() for line in shown.splitlines() if line.strip()]
    assert rows[-4:] == [["max_shards", "recall@10"], ["1", "0.500"], ["2", "0.700"], ["4", "1.000"]]


# --- where another kind is expected ----------------------------------------------------------------------------------


def test_a_sharded_index_is_no_index(vectors: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`segmax.open` and commands that get its folder say what opens it."""
    folder = vectors / "docs.sharded"
    with refused(FormatError, got="a sharded index", hint="segmax.ray.open"):
        segmax.open(folder)
    for command in (["search", folder, "word"], ["inspect", folder], ["evaluate", folder, "--queries", "q.npz"]):
        assert "ray://PATH" in output(capsys, *command, code=2)


def test_a_sharded_index_is_no_collection(vectors: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Documents cannot be added to it, and nothing of it is changed."""
    folder = vectors / "docs.sharded"
    before = sorted(folder.rglob("*"))
    with refused(FormatError, got="a sharded index, which does not change"):
        segmax.Collection.open(folder)
    said = output(capsys, "add", folder, vectors / "files" / "vectors-0.npz", code=2)
    assert "a sharded index, which does not change" in said
    assert sorted(folder.rglob("*")) == before


def test_evaluate_checks_max_shards(vectors: Path) -> None:
    """In Python, too."""
    with refused(ConfigError, option="max_shards", expected="at least 1"):
        segmax.evaluate(open_local(vectors / "docs.sharded"), [{1: 1.0}], max_shards=0)
