"""What searches return: types, tables for notebooks and for pandas."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import segmax
from conftest import refused
from segmax.errors import MissingPackageError

ROOT = Path(__file__).resolve().parents[2]

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def index() -> segmax.Index:
    """Two documents whose ids, titles and texts are not to be trusted."""
    return segmax.build(
        sp.csr_matrix([[1, 0], [3, 2]]),
        ids=[HOSTILE, "b\"'&"],
        terms=["red", "green"],
        texts=[("one", "a text"), (f"<b>{HOSTILE}", f"{HOSTILE} & more " + "word " * 500)],
    )


# --- types -----------------------------------------------------------------------------------------------------------

PROGRAM = """
from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp

import segmax
from segmax.typing import DocId, Documents, Queries, Query

docs: Documents = sp.csr_matrix([[1, 0], [3, 2]])
index = segmax.build(docs)
hits = index.search({0: 1.0})
reveal_type(hits[0])  # Hit
reveal_type(hits[0].score)  # float
reveal_type(hits[0].id)  # int | str
reveal_type(hits[:2])  # list[Hit]
reveal_type([hit.score for hit in hits])  # list[float]
reveal_type(hits.ids)  # list[int | str]
batch = index.search_batch(sp.csr_matrix([[1, 0]]))
reveal_type(batch[0])  # Hits
reveal_type(batch[0][0].score)  # float
reveal_type(batch[:1])  # list[Hits]
reveal_type(index.explain({0: 1}, 0).matched[0].contribution)  # float

query: Query
for query in (
    "some text",
    {0: 1.0},
    {"red": 2},
    {0: np.float32(1)},
    ([0, 1], [1.0, 2.0]),
    (np.array([0]), np.array([1.5])),
    sp.csr_matrix([[1, 0]]),
    sp.csr_array([[1, 0]]),
):
    index.search(query)


def texts() -> Iterator[str]:
    yield "some text"


many: Queries = texts()
many = ["one", "two"]
many = [{0: 1.0}, {1: 2.0}]
index.search_batch(many)
name: DocId = "a"
segmax.from_texts(texts())
segmax.from_texts([{"id": "a", "text": "one"}, {"text": "two"}])
segmax.from_texts({"a": "one"})
segmax.from_texts("corpus.jsonl", encoder="bm25", num_clusters=4)
segmax.from_texts(3)  # wrong
index.search(1.5)  # wrong
index.search_batch(3)  # wrong
"""


@pytest.mark.deep
def test_types_are_what_a_checker_sees(tmp_path: Path) -> None:
    """Results are typed, not Any; every form of a query fits the published aliases, and what is none does not."""
    pytest.importorskip("mypy")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), str(program)]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    revealed = re.findall(r"program\.py:(\d+): note: Revealed type is \"(.+)\"", found)
    lines = PROGRAM.splitlines()
    expected = {number: line.split("  # ")[1] for number, line in enumerate(lines, 1) if "reveal_type" in line}
    shown = {int(number): _short(kind) for number, kind in revealed}
    assert shown == expected
    wrong = {number for number, line in enumerate(lines, 1) if "# wrong" in line}
    assert {int(number) for number in re.findall(r"program\.py:(\d+): error", found)} == wrong, found


def _short(kind: str) -> str:
    """Return a type without modules; mypy spells a named tuple out."""
    plain = re.sub(r"(builtins|segmax\.search\.results)\.", "", kind)
    return re.sub(r"tuple\[[^\[\]]*fallback=(\w+)\]", r"\1", plain)


def test_items_of_results(index: segmax.Index) -> None:
    """By number from either end, by numpy's numbers, by slice; nothing else, and nothing outside."""
    hits = index.search({"red": 1})
    assert hits[0] == hits[-2] == hits[np.int64(0)] == hits[:1][0] == ("b\"'&", 3.0)
    batch = index.search_batch([{"red": 1}])
    assert list(batch[-1]) == list(batch[np.int64(0)]) == list(hits)
    for wrong in (2, -3):
        with pytest.raises(IndexError):
            hits[wrong]
    for something in ("0", 0.0, None):
        with pytest.raises(TypeError):
            hits[something]  # type: ignore[call-overload]
        with pytest.raises(TypeError):
            batch[something]  # type: ignore[call-overload]


# --- tables ----------------------------------------------------------------------------------------------------------


class Cells(HTMLParser):
    """Collects the tags of a page and the text of its cells."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.rows: list[list[str]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert attrs == []
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        self.rows[-1][-1] += data


def test_a_notebook_shows_a_table_in_which_nothing_runs(index: segmax.Index) -> None:
    """Ids, titles and texts are shown as they are, and are never part of the page."""
    cells = Cells(index.search({"red": 1})._repr_html_())
    assert cells.tags == {"table", "thead", "tbody", "tr", "th", "td"}
    assert cells.rows[0] == ["rank", "id", "score", "title", "text"]
    assert cells.rows[1][:4] == ["1", "b\"'&", "3", f"<b>{HOSTILE}"]
    assert cells.rows[1][4].startswith(f"{HOSTILE} & more word")
    assert len(cells.rows[1][4]) <= 200
    assert cells.rows[2] == ["2", HOSTILE, "1", "one", "a text"]
    without = segmax.build(sp.csr_matrix([[1, 0], [3, 2]])).search({0: 1})
    assert Cells(without._repr_html_()).rows == [["rank", "id", "score"], ["1", "1", "3"], ["2", "0", "1"]]
    assert Cells(index.search({})._repr_html_()).rows == [["rank", "id", "score", "title", "text"]]


def test_results_as_a_data_frame(index: segmax.Index) -> None:
    """A row per result, with the texts where the index keeps them; the numbers are those of the results."""
    pandas = pytest.importorskip("pandas")
    hits = index.search({"red": 1})
    table = hits.to_pandas()
    assert isinstance(table, pandas.DataFrame)
    assert list(table.columns) == ["rank", "id", "score", "title", "text"]
    assert table["id"].tolist() == hits.ids
    assert table["score"].tolist() == hits.scores.tolist()
    assert table["rank"].tolist() == [1, 2]
    assert table["text"].tolist() == [stored.text for stored in hits.texts]


@pytest.mark.parametrize("batch", [False, True])
def test_an_empty_data_frame_has_the_same_kinds_of_columns(index: segmax.Index, batch: bool) -> None:
    """Ids and texts are no floats there, so that frames can be joined and compared."""
    pandas = pytest.importorskip("pandas")
    found = index.search_batch([{"red": 1}]) if batch else index.search({"red": 1})
    for nothing in [index.search_batch([{}, {}]), index.search_batch([])] if batch else [index.search({})]:
        table, empty = found.to_pandas(), nothing.to_pandas()
        assert len(empty) == 0
        assert list(empty.columns) == list(table.columns)
        for name in ("id", "title", "text"):
            assert not pandas.api.types.is_numeric_dtype(empty[name].dtype), name
        for name in {*table.columns} - {"id", "title", "text"}:
            assert empty[name].dtype == table[name].dtype, name
        assert pandas.concat([empty, table])["id"].tolist() == table["id"].tolist()


def test_results_of_many_queries_as_a_data_frame(index: segmax.Index) -> None:
    """The frames of all queries below one another, by the number of the query; one that finds nothing has no rows."""
    pandas = pytest.importorskip("pandas")
    found = index.search_batch([{"red": 1}, {}, {"green": 1}])
    table = found.to_pandas()
    assert list(table.columns) == ["query", "rank", "id", "score", "title", "text"]
    assert table["query"].tolist() == [0, 0, 2]
    for number, part in table.groupby("query"):
        expected = found[number].to_pandas()
        pandas.testing.assert_frame_equal(part.drop(columns="query").reset_index(drop=True), expected)
    without = segmax.build(sp.csr_matrix([[1, 0], [3, 2]])).search_batch([{0: 1}]).to_pandas()
    assert list(without.columns) == ["query", "rank", "id", "score"]


def test_a_notebook_shows_many_queries(index: segmax.Index) -> None:
    """A table like that of one query, with the number of the query; long ones end, and say so."""
    found = index.search_batch([{"red": 1}, {}, {"green": 1}])
    cells = Cells(found._repr_html_())
    assert cells.tags == {"table", "thead", "tbody", "tr", "th", "td"}
    assert cells.rows[0] == ["query", "rank", "id", "score", "title", "text"]
    assert [row[:3] for row in cells.rows[1:]] == [["0", "1", "b\"'&"], ["0", "2", HOSTILE], ["2", "1", "b\"'&"]]
    assert Cells(index.search_batch([])._repr_html_()).rows == [cells.rows[0]]
    page = index.search_batch([{"red": 1}] * 1000)._repr_html_()
    assert page.count("<tr>") == 101
    assert page.endswith("<p>… and the results of 950 more queries</p>")


def test_pandas_may_be_missing(index: segmax.Index, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the message says what to install."""
    monkeypatch.setitem(sys.modules, "pandas", None)
    with refused(MissingPackageError, message="to_pandas needs pandas", hint="pip install pandas"):
        index.search({"red": 1}).to_pandas()
