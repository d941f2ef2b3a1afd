"""Metadata and filters on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import segmax
from segmax.cli.main import main


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with texts that have years and languages."""
    monkeypatch.chdir(tmp_path)
    rows = [
        "id,text,year,lang,note",
        "a,copper copper,2019,en,x",
        "b,copper tubes,2021,de,y",
        "c,copper noise of diodes,2024,en,z",
    ]
    Path("docs.csv").write_text("\n".join(rows) + "\n")
    return tmp_path


def found(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, list[object]]:
    """Search, and return the ids and metadata of the results."""
    capsys.readouterr()
    assert main(["search", "docs.segmax", "--json", *arguments]) == 0
    line = json.loads(capsys.readouterr().out)
    return {"ids": [hit["id"] for hit in line["hits"]], "metadata": [hit["metadata"] for hit in line["hits"]]}


def test_filters_and_pages(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fields are kept, and searches narrowed by them."""
    assert main(["index", "docs.csv", "docs.segmax", "--metadata", "year:int, lang"]) == 0
    assert "columns read: id, text, year, lang; columns ignored: note" in capsys.readouterr().err
    everything = found(capsys, "copper")
    assert everything["ids"] == ["a", "b", "c"]
    assert everything["metadata"][1] == {"year": 2021, "lang": "de"}
    assert found(capsys, "copper", "--where", '{"year": {"$gte": 2020}}')["ids"] == ["b", "c"]
    assert found(capsys, "copper", "--where", '{"lang": "en"}', "--offset", "1")["ids"] == ["c"]
    assert found(capsys, "copper", "--min-score", "1000")["ids"] == []
    Path("queries.tsv").write_text("q1\tcopper\nq2\ttubes\n")
    assert main(["search", "docs.segmax", "queries.tsv", "--where", '{"lang": "en"}']) == 0
    output = capsys.readouterr()
    assert [line.split()[:3:2] for line in output.out.splitlines()] == [["q1", "a"], ["q1", "c"]]
    assert "1 of 2 queries found nothing: 1 that match none of the documents asked for" in output.err


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ('{"yaer": 2021}', "no document has the field 'yaer' of --where; did you mean 'year'?"),
        ('{"zzzzz": {"$exists": true}}', "no document has the field 'zzzzz' of --where"),
        ('{"$or": [{"q": 1}, {"lagn": "en"}]}', "no document has any of the fields 'lagn', 'q' of --where"),
        ('{"year": 1}', "no document with its terms is left by --where, --offset and --min-score"),
        ('{"wide.%s": 1}' % ("x" * 200), "no document with its terms is left by --where"),
        ('{"\\u001b[2J": 1}', r"no document has the field '\x1b[2J' of --where"),
    ],
)
def test_a_field_that_no_document_has_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], where: str, reason: str
) -> None:
    """A misspelled field finds nothing, and the reason says so, whatever asks: a text or a file of queries."""
    metadata = [{"year": 2021, "lang": "en"}, {"wide": {"x" * 200: 2}}]
    index = str(tmp_path / "docs.segmax")
    segmax.from_texts(["copper", "tubes"], metadata=metadata).save(index)
    assert main(["search", index, "copper", "--where", where, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["reason"].startswith(reason)
    (tmp_path / "queries.tsv").write_text("q1\tcopper\nq2\tcopper\n")
    assert main(["search", index, str(tmp_path / "queries.tsv"), "--where", where]) == 0
    short = "filtered by unknown fields" if "has" in reason else "that match none of the documents asked for"
    assert f"2 of 2 queries found nothing: 2 {short}" in capsys.readouterr().err


def test_results_for_people(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Show metadata, count ranks from the offset, and say why there is nothing."""
    assert main(["index", "docs.csv", "docs.segmax", "--metadata", "all"]) == 0
    assert "ignored" not in capsys.readouterr().err
    assert main(["search", "docs.segmax", "copper", "--offset", "2"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("  3  c")
    assert '{"year": "2024", "lang": "en", "note": "z"}' in shown
    assert main(["search", "docs.segmax", "tubes", "--where", '{"lang": "en"}']) == 0
    assert "nothing found: no document with its terms is left by --where" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["search", "docs.segmax", "copper", "--where", "{year"], "expected --where to be a filter as JSON"),
        (
            ["search", "docs.segmax", "copper", "--where", '{"a": {"$gtt": 1}}'],
            "where['a']['$gtt']: expected an operator",
        ),
        (["search", "docs.segmax", "copper", "--where", "[]"], "where: expected a mapping"),
        (["search", "docs.segmax", "copper", "--offset", "-1"], "expected --offset to be from 0"),
        (["index", "docs.csv", "other.segmax", "--metadata", "year:date"], "expected --metadata to be a type after"),
        (["index", "docs.csv", "other.segmax", "--metadata", "lang:int"], "field 'lang': expected int, got 'en'"),
    ],
)
def test_what_is_refused(folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    """In one line, with the flag."""
    assert main(["index", "docs.csv", "docs.segmax", "--metadata", "year:int"]) == 0
    capsys.readouterr()
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def test_filters_need_metadata(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message says how to get them; an index of vectors takes none."""
    assert main(["index", "docs.csv", "docs.segmax"]) == 0
    assert main(["search", "docs.segmax", "copper", "--where", '{"year": 1}']) == 2
    assert "keeps no metadata" in capsys.readouterr().err
    assert main(["encode", "docs.csv", "docs.npz"]) == 0
    assert main(["index", "docs.npz", "other.segmax", "--metadata", "all"]) == 2
    assert "expected --metadata to be left out" in capsys.readouterr().err


def test_metadata_beside_vectors(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file of objects in the order of the vectors; ids in it have to be theirs."""
    assert main(["encode", "docs.csv", "docs.npz"]) == 0
    records = [{"id": name, "n": number} for number, name in enumerate("abc")]
    Path("metadata.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    build = ["build", "docs.npz", "docs.segmax", "--encoder", "docs.bm25", "--metadata"]
    assert main([*build, "metadata.jsonl"]) == 0
    assert found(capsys, "copper", "--where", '{"n": {"$lt": 2}}') == {
        "ids": ["a", "b"],
        "metadata": [{"n": 0}, {"n": 1}],
    }
    Path("other.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records[::-1]))
    assert main([*build, "other.jsonl", "--overwrite"]) == 2
    assert "'other.jsonl': expected the metadata of document 'a' in place 0, got 'c'" in capsys.readouterr().err
    assert main([*build, "nowhere.jsonl", "--overwrite"]) == 2
    assert "nowhere.jsonl" in capsys.readouterr().err
