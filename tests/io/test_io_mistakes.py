"""What people hand in by mistake: nothing is dropped silently, and every message says where to look."""

from __future__ import annotations

import io
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import segmax
from conftest import refused
from segmax.cli.main import main
from segmax.errors import ConfigError, InputError
from segmax.io import (
    VectorBatch,
    format_of,
    open_texts,
    open_vectors,
    read_qrels,
    read_queries,
    read_run,
    write_vectors,
)
from segmax.text.pipeline import from_vectors
from segmax.vectors.csr import Csr

# --- folders ---------------------------------------------------------------------------------------------------------


def folder(path: Path, **files: str) -> Path:
    """A folder with files; the names have _ for the dot and __ for the slash."""
    for name, content in files.items():
        file = path / name.replace("__", "/").replace("_", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    return path


ZEBRA = '{"id": "z", "text": "zebras"}\n'


@pytest.mark.parametrize(
    ("files", "parts"),
    [
        (
            {"a_txt": "cats", "z_jsonl": ZEBRA},
            {"got": r"\.txt or \.md files \('a\.txt'\) and \.jsonl or \.json files \('z\.js"},
        ),
        ({"a_txt": "cats", "sub__z_jsonl": ZEBRA}, {"got": r"and \.jsonl or \.json files \('sub/z\.jsonl'\)"}),
        ({"a_txt": "cats", "z_csv": "id,text\n1,x\n"}, {"got": r"and \.csv or \.tsv files \('z\.csv'\)"}),
        (
            {"b_jsonl": ZEBRA, "z_tsv": "1\tx\n"},
            {
                "expected": r"as in .*/\*\.tsv",
                "got": r".* and \.csv or \.tsv files \('z\.tsv'\)",
                "hint": "name the files",
            },
        ),
        ({"a_md": "cats", "z_json": f"[{ZEBRA}]"}, {"got": r"and \.jsonl or \.json files"}),
        ({"a_md": "cats", "z_json": '[{"id": "z", "text": '}, {"got": r"and \.jsonl or \.json files"}),
        ({"a_md": "cats", "z_parquet": "PAR1"}, {"got": r"and \.parquet files"}),
        (
            {"b_jsonl": ZEBRA, "sub__c_jsonl": ZEBRA},
            {"expected": r"\.jsonl files in the folder itself", "got": r"also '.*c\.jsonl"},
        ),
    ],
)
def test_mixed_folders(tmp_path: Path, files: dict[str, str], parts: dict[str, str]) -> None:
    """Which documents are meant is not clear; naming the files decides."""
    with refused(InputError, **parts):
        open_texts(folder(tmp_path, **files))


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"docs_jsonl": ZEBRA, "queries_tsv": "1\tx\n"}, r".*, as in .*/\*\.jsonl$"),
        ({"a-queries_jsonl": ZEBRA, "docs_jsonl": ZEBRA, "qrels__test_tsv": "1\tx\n"}, r".*, as in .*/docs\.jsonl$"),
        ({"docs_jsonl_gz": ZEBRA, "topics_test_tsv": "1\tx\n"}, r".*, as in .*/\*\.jsonl\.gz$"),
        ({"queries_jsonl": ZEBRA, "judgments_tsv": "1\tx\n"}, "documents in files of one kind$"),
        ({"docs_jsonl": ZEBRA, "queries_jsonl": ZEBRA}, r"documents alone, as in .*/docs\.jsonl$"),
        ({"docs_jsonl": ZEBRA, "My-Topics2019_jsonl": ZEBRA}, r"documents alone, as in .*/docs\.jsonl$"),
        ({"docs_parquet": "PAR1", "queries_parquet": "PAR1"}, r"documents alone, as in .*/docs\.parquet$"),
        ({"data__docs_parquet": "PAR1", "data__run1_parquet": "PAR1"}, r"documents alone, as in .*/docs\.parquet$"),
    ],
)
def test_queries_and_judgments_are_not_suggested_as_documents(
    tmp_path: Path, files: dict[str, str], expected: str
) -> None:
    """The error about a folder with several kinds of files, or queries beside documents, gives an example, or none."""
    with refused(InputError, expected=expected):
        open_texts(folder(tmp_path / "given", **files))


@pytest.mark.parametrize("name", ["jquery-docs", "subtopics", "prunes"])
def test_files_are_called_queries_by_whole_words(tmp_path: Path, name: str) -> None:
    """A name that has the letters of such a word within another one is that of documents."""
    both = folder(tmp_path, docs_jsonl=ZEBRA, **{f"{name}_jsonl": ZEBRA.replace('"z"', '"y"')})
    assert sorted(document.id for document in open_texts(both)) == ["y", "z"]


def test_one_kind_of_files_can_be_chosen(tmp_path: Path) -> None:
    """By name, or by format."""
    mixed = folder(tmp_path / "mixed", a_txt="cats", b_md="dogs", z_jsonl=ZEBRA)
    assert [document.id for document in open_texts(mixed, format="files")] == ["a.txt", "b.md"]
    assert [document.id for document in open_texts(mixed, format="jsonl-text")] == ["z"]
    assert [document.id for document in open_texts([mixed / "z.jsonl"])] == ["z"]
    with refused(ConfigError, option="format", expected="'beir' or"):
        open_texts(mixed, format="npz")
    with refused(InputError, message=r"there is no file '.*corpus\.jsonl'"):
        open_texts(mixed, format="beir")


@pytest.mark.parametrize("content", ['{\n "created": "2020"\n}\n', '{"tags": ["x"]}', "[]", "[1, 2]", "{}"])
def test_json_that_describes_a_folder(tmp_path: Path, content: str) -> None:
    """A .json file without documents does not keep texts from being read; nor does a README beside data."""
    notes = folder(tmp_path / "notes", a_txt="cats", b_md="dogs", meta_json=content)
    assert [document.id for document in open_texts(notes)] == ["a.txt", "b.md"]
    data = folder(tmp_path / "data", README_md="# About", LICENSE_txt="MIT", z_jsonl=ZEBRA)
    assert [document.id for document in open_texts(data)] == ["z"]
    assert format_of(folder(tmp_path / "only", README_md="# About")) == "files"


def test_a_file_is_given_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """Also by way of a folder or a link; vectors as well."""
    monkeypatch.chdir(tmp_path)
    folder(Path("notes"), a_md="cats", sub__b_md="dogs")
    folder(Path(), v_jsonl='{"id": "a", "vector": {"x": 1}}\n')
    Path("link.jsonl").symlink_to("v.jsonl")
    for sources, message in (
        (["notes", "notes/sub"], "'notes/sub/b.md' twice"),
        (["notes/a.md", "./notes/../notes/a.md"], "'notes/../notes/a.md' twice, also as 'notes/a.md'"),
        (["v.jsonl", "link.jsonl"], "'link.jsonl' twice, also as 'v.jsonl'"),
    ):
        assert main(["index", *sources, "out"]) == 2
        assert message in capsys.readouterr().err
    assert [document.id for document in open_texts(["notes/a.md", "notes/sub"])] == ["a.md", "b.md"]


@pytest.mark.parametrize("name", ["score", "Judgment", "judgement", "JUDGEMENTS", "relevance"])
def test_headers_of_judgments(tmp_path: Path, name: str) -> None:
    """A first line that names columns is no judgment, in either spelling of the word."""
    (tmp_path / "qrels.tsv").write_text(f"query-id\tcorpus-id\t{name}\nq1\td1\t2\n")
    assert read_qrels(tmp_path / "qrels.tsv") == {"q1": {"d1": 2}}


# --- columns ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        (
            '1\t"Cats are nice\n2\tdogs bark\n3\tbirds fly"\n4\tfish',
            ['"Cats are nice', "dogs bark", 'birds fly"', "fish"],
        ),
        ('1\t"Cats\n2\tdogs\n', ['"Cats', "dogs"]),
        ('1\t"Cats\n2\t"dogs\n3\t"fish', ['"Cats', '"dogs', '"fish']),
        ('1\t"a ""b"\n2\tc', ['a "b', "c"]),
        ('1\t"a\tb"\n2\tc', ["a\tb", "c"]),
        ('1\t"a\n\nb"\n2\t"c"', ["a\n\nb", "c"]),
        ('1\t"a\n""x""\ty"\n', None),
    ],
)
def test_quotes_in_tsv_swallow_no_rows(tmp_path: Path, content: str, texts: list[str] | None) -> None:
    """A quoted field ends on its line, or has no tab in those that follow; else the quote is a part of the text."""
    (tmp_path / "docs.tsv").write_text(f"id\ttext\n{content}")
    if texts is None:
        assert [document.text for document in open_texts(tmp_path / "docs.tsv")] == ['"a', 'y"']
    else:
        assert [document.text for document in open_texts(tmp_path / "docs.tsv")] == texts


def test_csv_keeps_fields_of_several_lines(tmp_path: Path) -> None:
    """Commas inside, too."""
    (tmp_path / "docs.csv").write_text('id,text\n1,"Cats\n2,dogs"\n3,fish\n')
    assert [document.text for document in open_texts(tmp_path / "docs.csv")] == ["Cats\n2,dogs", "fish"]


def test_names_in_any_case(tmp_path: Path) -> None:
    """One rule for CSV, lines and arrays of JSON, DataFrames and mappings."""
    pandas = pytest.importorskip("pandas")
    record = {"ID": "x", "Title": "T", "TEXT": "cats"}
    (tmp_path / "a.jsonl").write_text(json.dumps(record))
    (tmp_path / "a.json").write_text(json.dumps([record]))
    (tmp_path / "a.csv").write_text("ID,Title,TEXT\nx,T,cats\n")
    for name in ("a.jsonl", "a.json", "a.csv"):
        assert list(open_texts(tmp_path / name)) == [("x", "T", "cats")], name
    for texts in ([record], {"x": {"Text": "cats"}}, pandas.DataFrame([record])):
        assert segmax.from_texts(texts).search("cats").ids == ["x"]
    (tmp_path / "q.jsonl").write_text('{"QID": "q", "Query": "cats"}\n')
    assert read_queries(tmp_path / "q.jsonl") == (["q"], ["cats"], None)
    (tmp_path / "a.jsonl").write_text('{"id": 1, "text": "a", "Text": "b"}\n')
    with refused(InputError, where="line 1", expected="every name once, in whatever case", got="'text' again"):
        open_texts(tmp_path / "a.jsonl")


def test_ignored_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """The shell says what is read and what is not, once; further members of JSON matter where there are no ids."""
    monkeypatch.chdir(tmp_path)
    for content, name, message in (
        ("Doc Id,Headline,Content\n1,H,cats\n", "a.csv", "columns read: headline, content; columns ignored: Doc Id\n"),
        ("question,answer\nwho,me\n", "a.csv", "columns read: question; columns ignored: answer\n"),
        ('{"Doc Id": 1, "text": "cats"}\n', "a.jsonl", "columns read: text; columns ignored: Doc Id\n"),
        ('{"id": 1, "text": "cats", "url": "u"}\n', "a.jsonl", None),
        ("id,text\n1,cats\n", "a.csv", None),
        ("1\tcats\n", "a.tsv", None),
    ):
        Path(name).write_text(content)
        assert main(["index", name, "out", "--overwrite"]) == 0
        said = capsys.readouterr().err
        assert said.count("ignored") == (message is not None)
        assert message is None or message in said


# --- ids -------------------------------------------------------------------------------------------------------------


def vectors_of(ids: list[str]) -> VectorBatch:
    """A term each."""
    count = len(ids)
    values = np.ones(count, np.float32)
    return VectorBatch(ids, Csr(np.arange(count + 1), np.zeros(count, np.uint32), values, 1))


@pytest.mark.parametrize("name", ["v.jsonl", "v.jsonl.gz", "v.tsv", "v.npz", "v.csr", "v.bin", "v.ciff", "v.parquet"])
def test_ids_that_come_twice_name_the_file(tmp_path: Path, name: str) -> None:
    """And the line, where there are lines; over several files, and with an encoder, too."""
    write_vectors(tmp_path / name, [vectors_of(["a", "b", "a"])], "tokens" if name == "v.tsv" else None, terms=["w"])
    source: Any = open_vectors(tmp_path / name, "tokens") if name == "v.tsv" else tmp_path / name
    at = ("line 3", "line 1") if ".jsonl" in name or name == "v.tsv" else ("row 2", "row 0")
    with refused(
        InputError,
        where=f"{name}', {at[0]}",
        expected="every id once",
        got=f"'a' again, first at '.*{name}', {at[1]}",
    ):
        segmax.build(source)
    if name != "v.tsv":
        write_vectors(tmp_path / f"x{name}", [vectors_of(["a"])], terms=["w"])
        with refused(InputError, where=rf"{name}', {at[1]}", got=rf"'a' again, first at '.*x{name}', {at[1]}"):
            segmax.build([tmp_path / f"x{name}", tmp_path / name])


def test_queries_that_come_twice_name_the_file(tmp_path: Path) -> None:
    """Vectors and texts."""
    from segmax.text.queries import read_query_vectors

    write_vectors(tmp_path / "q.npz", [vectors_of(["a", "a"])])
    with refused(InputError, message=r"q\.npz': expected every query once, got the id 'a' again"):
        read_query_vectors(tmp_path / "q.npz")
    (tmp_path / "q.jsonl").write_text('{"id": 1, "text": "a"}\n\n{"id": "1", "text": "b"}\n')
    with refused(InputError, where=r"q\.jsonl', line 3", expected="every query once", got="the id '1' again, first at"):
        read_queries(tmp_path / "q.jsonl")


@pytest.mark.parametrize(("name", "content"), [("a.json", "[]"), ("a.csv", "id,text\n"), ("a.tsv", "id\ttext\n")])
def test_no_documents(tmp_path: Path, name: str, content: str) -> None:
    """The message names the file."""
    (tmp_path / name).write_text(content)
    with refused(InputError, where=rf"{name}'", expected="at least one document", got="an empty collection"):
        segmax.from_texts(tmp_path / name)


def test_no_vectors(tmp_path: Path) -> None:
    """The message names the file."""
    sp.save_npz(tmp_path / "a.npz", sp.csr_matrix((0, 5)))
    with refused(InputError, where=r"a\.npz'", expected="at least one document", got="an empty collection"):
        segmax.build(tmp_path / "a.npz")


def test_ids_are_not_empty(tmp_path: Path) -> None:
    """Wherever they are read."""
    for name, content in (
        ("a.jsonl", '{"id": "", "text": "a"}\n'),
        ("a.json", '[{"id": "", "text": "a"}]'),
        ("a.csv", "id,text\n,a\n"),
        ("a.tsv", "\ta\n"),
    ):
        (tmp_path / name).write_text(content)
        with refused(InputError, where=rf"{name}', line \d", expected="an id", got="''"):
            list(open_texts(tmp_path / name))
        if name != "a.tsv":
            with refused(InputError, expected="an id"):
                read_queries(tmp_path / name)
    (tmp_path / "v.jsonl").write_text('{"id": "a", "vector": {"x": 1}}\n{"id": "", "vector": {"x": 1}}\n')
    with refused(InputError, where=r"v\.jsonl', line 2", expected="an id", got="an empty string"):
        segmax.build(tmp_path / "v.jsonl")
    for texts in ([{"id": "", "text": "a"}], {"": "a"}, [segmax.io.Document("", "", "a")]):
        with refused(InputError, expected="an id", got="''"):
            segmax.from_texts(texts)
    with refused(InputError, expected="ids that are not empty", got="'' at document 1"):
        segmax.build(sp.csr_matrix(np.ones((2, 2))), ids=["a", ""])
    (tmp_path / "run").write_text("q1\tQ0\t\t1\t2.5\ttag\n")
    (tmp_path / "qrels").write_text("q1\t0\t\t1\n")
    for read, name in ((read_run, "run"), (read_qrels, "qrels")):
        with refused(InputError, where=rf"{name}', line 1", expected="ids that are not empty"):
            read(tmp_path / name)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("texts", "parts"),
    [
        (
            [{"id": "7", "text": "cat"}, {"text": "dog"}],
            {"expected": "an id", "got": "none", "hint": "give ids to all, or to"},
        ),
        ([{"id": "7", "text": "cat"}, "dog"], {"expected": "an id", "got": "none"}),
        ([segmax.io.Document("7", "", "cat"), "dog"], {"expected": "an id", "got": "none"}),
        (["cat", {"id": "7", "text": "dog"}], {"expected": "no id, as in those before", "got": "'7'"}),
    ],
)
def test_mixed_ids_in_memory(texts: list[Any], parts: dict[str, str]) -> None:
    """As in files."""
    with refused(InputError, where="document 1", **parts):
        segmax.from_texts(texts)


def test_queries_without_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """They are numbered, which the shell says; all of them, or none."""
    monkeypatch.chdir(tmp_path)
    Path("q.jsonl").write_text('{"query": "cats"}\n{"query": "dogs"}\n')
    assert read_queries("q.jsonl") == (["0", "1"], ["cats", "dogs"], None)
    assert read_queries("q.jsonl").numbered
    Path("q.json").write_text('["cats",\n "dogs"]')
    assert read_queries("q.json") == (["0", "1"], ["cats", "dogs"], None)
    segmax.from_texts(["cats", "dogs"], path="out").close()
    assert main(["search", "out", "q.jsonl"]) == 0
    assert capsys.readouterr().err.count("the queries have no ids; they are numbered from 0") == 1
    Path("q.jsonl").write_text('{"query": "cats", "id": "q"}\n{"query": "dogs"}\n')
    with refused(
        InputError, where=r"q\.jsonl', line 2", expected="an id", got="none", hint="give ids to all, or to none"
    ):
        read_queries("q.jsonl")


# --- what a file is --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", ['{\n  "id": 1,\n  "text": "cat"\n}\n', '{"id": 1,\n "vector": {"a": 1}}'])
def test_indented_objects(tmp_path: Path, content: str) -> None:
    """The message says that an object goes on in the next line."""
    (tmp_path / "a.json").write_text(content)
    for read in (open_texts, open_vectors, read_queries):
        with refused(InputError, where=r"a\.json', line 1", expected="a whole JSON object on the line", got="the begi"):
            read(tmp_path / "a.json")  # type: ignore[operator]


@pytest.mark.parametrize(
    ("content", "options", "found"),
    [
        ("cats and dogs\nbirds", [], 2),
        ("cats, dogs\nand, sometimes, birds\n", [], 2),
        ("One text: about cats; dogs, too.", [], 1),
        ("text,label\ncats,1\ndogs,2\n", [], 2),
        ('label;text\n1;"cats; dogs"\n2;birds\n', [], 2),
        ("Text, images and more\nare what cats like\n", [], 2),
        ("name,comment\ncats,nice\n", ["--from", "tsv-text"], 2),
        ("text\ncats\ndogs\n", ["--from", "csv-text"], 2),
        ("name,comment\ncats,nice\n", [], "got 'name,comment'; to read it as text, use --from tsv-text"),
        ("text\ncats\ndogs\n", [], "got 'text'; to read it as text, use --from tsv-text"),
        ("<DOC>\n<DOCNO>1</DOCNO>\n", [], "got '<DOC>'"),
        ("x,y\n1,2\n", ["--from", "csv-text"], "standard input, line 1: expected a header with a column of texts"),
        ("cats", ["--from", "pdf"], "argument --from: invalid choice: 'pdf'"),
    ],
)
def test_standard_input(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Any,
    content: str,
    options: list[str],
    found: int | str,
) -> None:
    """Lines of text and CSV are recognized by content where that is possible, or by --from."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content.encode())))
    code = main(["index", "-", "out", *options])
    message = capsys.readouterr()
    if isinstance(found, str):
        assert code == 2
        assert found in message.err
        assert len(message.err) < 320
    else:
        assert code == 0, message.err
        with segmax.open("out") as index:
            assert index.num_docs == found
            assert index.search("cats").texts[0].text


def test_an_id_that_comes_twice_in_a_pipe(tmp_path: Path) -> None:
    """The error names the pipe and the lines, not the scratch file that the pipe was copied to."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    lines = '{"id": "a", "vector": {"cat": 1}}\n{"id": "b", "vector": {"cat": 1}}\n{"id": "a", "vector": {"dog": 1}}\n'
    for build in (segmax.build, from_vectors):
        writer = threading.Thread(target=pipe.write_text, args=(lines,))
        writer.start()
        with refused(InputError, where="pipe', line 3", got="'a' again, first at .*pipe', line 1"):
            build(pipe)
        writer.join()
