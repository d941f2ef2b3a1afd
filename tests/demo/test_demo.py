"""The demo: relevance on the small collection, speed on a large one, and a command that works."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest
from rich.console import Console

import segmax
from segmax.cli.main import main as command_line
from segmax.demo import __main__ as demo
from segmax.demo.speed import speed_columns


@pytest.fixture
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory, and a collection that is not that large."""
    for package in ("bm25s", "ir_measures", "rich"):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "LARGE_DOCS", 3000)
    monkeypatch.setattr(demo, "LARGE_QUERIES", 20)
    monkeypatch.setattr(sys, "argv", ["demo"])
    return tmp_path


@pytest.mark.deep
@pytest.mark.parametrize("columns", [80, 60])
def test_the_demo_shows_relevance_and_speed(
    quick: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    """Relevance and speed, each in a table that fits; safe methods agree with exhaustive search; it runs twice."""
    monkeypatch.setenv("COLUMNS", str(columns))
    demo.main()
    demo.main()
    shown = capsys.readouterr().out
    lines = shown[: len(shown) // 2].splitlines()
    assert max(len(line) for line in lines if "vaswani.segmax" not in line) <= columns  # a command is not to be wrapped
    relevance, speed = (line for line in lines if line.startswith("asc  "))
    assert relevance.split()[-1] == speed.split()[1] == "1.0000"
    assert any(re.match(r"method +MRR@10 +nDCG@10 +Recall@10 +of exact", line) for line in lines)
    assert any("mean ms" in line and "speed" in line for line in lines)
    assert "3,000 generated documents" in shown
    assert "flatter" in shown


def test_the_large_collection_is_large() -> None:
    """Below 100,000 documents pruning would not pay."""
    assert demo.LARGE_DOCS >= 100_000


@pytest.mark.deep
def test_pruning_pays_on_the_large_collection(quick: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every method but exhaustive search scores few of the documents, already on a fifth of that collection."""
    found: list[segmax.typing.Evaluation] = []
    monkeypatch.setattr(demo, "LARGE_DOCS", 40_000)
    monkeypatch.setattr(demo, "speed_columns", lambda outcome: found.append(outcome) or speed_columns(outcome))
    demo.race(Console(), 10, quick / "speed.png")
    shares = {method.name: method.docs_scored_share for method in found[0]}
    assert shares.keys() == demo.METHODS.keys()
    assert shares.pop("exhaustive") == 1
    assert max(shares.values()) < 0.1
    assert shares["asc, μ = 0.7"] <= shares["asc"]


@pytest.mark.deep
def test_the_last_lines_are_commands_that_work(quick: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The printed command searches the demo's index, the last one serves it, and others find the collection."""
    demo.main()
    *_, search, _, _, _, serve = capsys.readouterr().out.strip().splitlines()
    words = shlex.split(serve)
    assert words[words.index("serve") + 1 :] == ["segmax-demo/vaswani.segmax"]
    words = shlex.split(search)
    assert command_line(words[words.index("search") :]) == 0
    assert "microwave" in capsys.readouterr().out
    assert command_line(["search", "segmax-demo/vaswani.segmax", "segmax-demo/vaswani", "-k", "1"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 93
    with segmax.open("segmax-demo/vaswani.segmax") as index:
        assert index.num_docs == 11_429


@pytest.mark.deep
def test_a_picture_is_saved_beside_it(quick: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The picture is a PNG of a fair size."""
    pytest.importorskip("matplotlib")
    demo.main()
    assert "picture: segmax-demo/speed.png" in capsys.readouterr().out
    assert Path("segmax-demo/speed.png").read_bytes().startswith(b"\x89PNG\r\n")


@pytest.mark.deep
def test_a_link_in_place_of_the_picture_is_replaced(quick: Path, tmp_path: Path) -> None:
    """What it leads to is left alone."""
    pytest.importorskip("matplotlib")
    precious = tmp_path / "precious.txt"
    precious.write_text("precious")
    Path("segmax-demo").mkdir()
    Path("segmax-demo/speed.png").symlink_to(precious)
    demo.main()
    assert precious.read_text() == "precious"
    assert not Path("segmax-demo/speed.png").is_symlink()
    assert Path("segmax-demo/speed.png").read_bytes().startswith(b"\x89PNG\r\n")


@pytest.mark.deep
def test_without_matplotlib_there_is_no_picture(
    quick: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The demo prints the reason and continues."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    demo.main()
    shown = capsys.readouterr().out
    assert "no picture: " in shown
    assert "try it yourself" in shown
    assert "http://127.0.0.1:8080" in shown


def test_a_file_in_place_of_the_folder_is_refused(quick: Path) -> None:
    """A file in the place of the folder is one line, no traceback, and stays."""
    Path("segmax-demo").write_text("mine")
    with pytest.raises(SystemExit, match=r"segmax\.demo: error: "):
        demo.main()
    assert Path("segmax-demo").read_text() == "mine"
