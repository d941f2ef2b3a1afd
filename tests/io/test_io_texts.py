"""Texts, queries, judgments and runs in the formats that people have them in."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import sys
import threading
import types
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import refused
from segmax.errors import ConfigError, InputError
from segmax.io import (
    Document,
    format_of,
    open_texts,
    open_vectors,
    read_qrels,
    read_queries,
    read_run,
    write_qrels,
    write_run,
)

# --- texts -----------------------------------------------------------------------------------------------------------


def test_beir_folders(tmp_path: Path) -> None:
    """corpus.jsonl, queries.jsonl and qrels, plain or compressed; texts can be gone through twice."""
    corpus = [
        {"_id": "d1", "title": "T", "text": "one"},
        {"_id": "d2", "text": "zwei ü"},
        {"_id": "d3", "title": "", "text": ""},
    ]
    (tmp_path / "corpus.jsonl.gz").write_bytes(gzip.compress("".join(json.dumps(d) + "\r\n" for d in corpus).encode()))
    (tmp_path / "queries.jsonl").write_text('{"_id": "q1", "text": "what?"}\n')
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t2\n")
    assert format_of(tmp_path) == "beir"
    texts = open_texts(tmp_path)
    expected = [Document("d1", "T", "one"), Document("d2", "", "zwei ü"), Document("d3", "", "")]
    assert list(texts) == list(texts) == expected
    assert expected[0].whole == "T one"
    assert read_queries(tmp_path) == (["q1"], ["what?"], None)
    assert read_qrels(tmp_path) == {"q1": {"d1": 2}}
    with refused(InputError, where="qrels'", option="split", expected="one of test", got="'train'"):
        read_qrels(tmp_path, split="train")
    with refused(InputError, message=r"there is no file '.*test\.tsv'"):
        read_qrels(tmp_path / "qrels")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("d1\tone\nd2\ttwo\n", [("d1", "", "one"), ("d2", "", "two")]),
        ("d1\tTitle\tone\r\nd2\t\ttwo", [("d1", "Title", "one"), ("d2", "", "two")]),
        ("id\ttext\ttitle\n1\tone\tT\n", [("1", "T", "one")]),
        ("\ufeffpid\tpassage\n7\tseven\n\n", [("7", "", "seven")]),
    ],
)
def test_columns(tmp_path: Path, lines: str, expected: list[tuple[str, str, str]]) -> None:
    """Two columns, three, a header, Windows line ends, a byte-order mark."""
    (tmp_path / "texts.tsv").write_bytes(lines.encode())
    assert list(open_texts(tmp_path / "texts.tsv")) == expected
    (tmp_path / "texts.tsv.xz").write_bytes(lzma.compress(lines.encode()))
    assert list(open_texts(tmp_path / "texts.tsv.xz")) == expected


def test_lines_of_text(tmp_path: Path) -> None:
    """A file of lines has their numbers as ids."""
    (tmp_path / "texts.txt").write_text("first line\nsecond: line\n")
    assert list(open_texts(tmp_path / "texts.txt")) == [("0", "", "first line"), ("1", "", "second: line")]


def test_lines_of_json(tmp_path: Path) -> None:
    """Under the names that others use, in one file or a folder of several."""
    (tmp_path / "a.jsonl").write_text('{"id": 1, "contents": "one"}\n{"docno": "2", "body": "two", "headline": "H"}\n')
    (tmp_path / "b.jsonl").write_text('{"doc_id": "3", "title": "only a title"}\n')
    expected = [("1", "", "one"), ("2", "H", "two"), ("3", "only a title", "")]
    assert list(open_texts(tmp_path / "a.jsonl")) == expected[:2]
    assert list(open_texts(tmp_path)) == expected


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ('{"id": 1, "text": "a"', {"expected": "JSON", "got": r"something else \(Expecting ',' delimiter"}),
        ('["id"]', {"expected": "an object", "got": "list"}),
        ('{"text": "a"}', {"expected": "an id as string or whole number under"}),
        ('{"id": 1.5, "text": "a"}', {"expected": "an id as string or whole number under", "got": r"1\.5"}),
        ('{"id": 1, "text": ["a"]}', {"expected": "a string as text", "got": "list"}),
        ('{"id": 1, "words": "a"}', {"expected": "a text under", "got": "id, words"}),
        ('{"id": 1, "text": "\udcff"}', {"expected": "UTF-8", "got": "the byte 0xff"}),
    ],
)
def test_wrong_lines(tmp_path: Path, line: str, parts: dict[str, str]) -> None:
    """The message has the file, the line and what is wrong."""
    content = '{"id": 0, "text": "fine"}\n' + line + "\n"
    (tmp_path / "texts.jsonl").write_bytes(content.encode("utf-8", "surrogateescape"))
    with refused(InputError, where=r"texts\.jsonl', line 2", **parts):
        list(open_texts(tmp_path / "texts.jsonl"))


def test_form_feeds_are_blanks(tmp_path: Path) -> None:
    """They come in texts of old, and are no reason to refuse them."""
    (tmp_path / "texts.tsv").write_text("d1\tone\x0c page\nd2\ttwo\n")
    assert [document.text for document in open_texts(tmp_path / "texts.tsv")] == ["one\x0c page", "two"]


def test_columns_that_differ(tmp_path: Path) -> None:
    """As many columns in every line as in the first."""
    (tmp_path / "texts.tsv").write_text("d1\tone\nd2\ta\ttwo\n")
    with refused(InputError, where=r"texts\.tsv', line 2", expected="2 columns, as in the first line", got="3"):
        list(open_texts(tmp_path / "texts.tsv"))


def test_sources_without_texts_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors, files that are not there, and names that may be of ir_datasets when that is not installed."""
    (tmp_path / "docs.jsonl").write_text('{"id": 1, "vector": {"a": 1}}\n')
    with refused(InputError, expected="texts", got="jsonl vectors"):
        open_texts(tmp_path / "docs.jsonl")
    with refused(InputError, message="there is no file"):
        open_texts(tmp_path / "none.tsv")
    monkeypatch.setitem(sys.modules, "ir_datasets", None)
    with refused(InputError, hint=r"if it is an ir_datasets id, run: pip install 'segmax\[ir-datasets\]'"):
        open_texts("beir/nothing")


def test_ir_datasets(tmp_path: Path) -> None:
    """Collections by their id, against the real package; one that it does not know."""
    ir_datasets = pytest.importorskip("ir_datasets")
    (tmp_path / "docs.tsv").write_text("d1\tone\nd2\ttwo\n")
    (tmp_path / "queries.tsv").write_text("q1\twhat\n")
    made = ir_datasets.create_dataset(docs_tsv=str(tmp_path / "docs.tsv"), queries_tsv=str(tmp_path / "queries.tsv"))
    if "segmax-test/small" not in ir_datasets.registry:
        ir_datasets.registry.register("segmax-test/small", made)
    texts = open_texts("segmax-test/small")
    assert list(texts) == [("d1", "", "one"), ("d2", "", "two")]
    assert texts.num_docs in (None, 2)
    assert read_queries("segmax-test/small") == (["q1"], ["what"], None)
    for name in ("segmax-test/none", "segmax-test/v1.1", "irds:none"):
        for function in (open_texts, read_queries, read_qrels):
            with refused(InputError, message="ir_datasets does not know such an id"):
                function(name)
    assert list(open_texts("irds:segmax-test/small")) == list(texts)
    assert read_queries("irds:segmax-test/small").ids == ["q1"]


class Offline:
    """A dataset of ir_datasets without a network."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __getattr__(self, name: str) -> Any:
        if name.startswith("has_"):
            return lambda: True

        def failing() -> Any:
            raise self.error

        return failing


@pytest.mark.parametrize("name", ["argsme/1.0", "irds:mmarco/es/dev/v1.1", "vaswani"])
def test_ir_datasets_without_a_network(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Whatever is asked for, and whoever complains, the message names the collection and says what to do."""
    urllib3_error = type("MaxRetryError", (Exception,), {"__module__": "urllib3.exceptions"})
    for error in (ConnectionError("no route to host"), RuntimeError("All download sources failed"), urllib3_error("x")):
        module = types.ModuleType("ir_datasets")
        module.load = lambda _, error=error: Offline(error)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "ir_datasets", module)
        for read in (
            lambda: list(open_texts(name)),
            lambda: read_queries(name),
            lambda: read_qrels(name),
            lambda: open_texts(name).num_docs,
        ):
            with refused(
                InputError,
                where=f"collection '{name.removeprefix('irds:')}'",
                message=rf"could not be fetched \({error}\)",
                hint="check the network, or put its files",
            ):
                read()
    module.load = lambda _: Offline(ZeroDivisionError("a bug"))  # type: ignore[attr-defined]
    with pytest.raises(ZeroDivisionError, match="a bug"):
        read_queries(name)


def test_ir_datasets_without_a_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package asks for the user's home while it is imported; the error says what to set where there is none."""

    def home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    (tmp_path / "ir_datasets.py").write_text("from pathlib import Path\nPath.home()\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "ir_datasets", raising=False)
    monkeypatch.setattr(Path, "home", home)
    for read in (open_texts, read_queries, read_qrels):
        with refused(InputError, where="collection 'vaswani'", expected="a home for ir_datasets", hint="set HOME"):
            read("irds:vaswani")


def test_collections_of_ir_datasets_that_lack_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some have no documents, queries or judgments of their own; the error names the collection and the part."""
    module = types.ModuleType("ir_datasets")
    lacking = types.SimpleNamespace(has_docs=lambda: False, has_queries=lambda: False, has_qrels=lambda: False)
    module.load = lambda _: lacking  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ir_datasets", module)
    for read, what in ((open_texts, "documents"), (read_queries, "queries"), (read_qrels, "judgments")):
        with refused(InputError, where="the ir_datasets collection 'vaswani'", expected=f"^{what}$", got="none"):
            read("vaswani")


def test_paths_and_ids_are_distinguished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that are not there are not looked for in ir_datasets; what is there is a file, whatever its name."""
    monkeypatch.chdir(tmp_path)
    for name in ("none.tsv", "some/none.jsonl.gz", "./none", "/none", "topics.301-450", "qrels.trec8"):
        for function in (open_texts, read_queries, read_qrels):
            with refused(InputError, message="there is no file '.*'", hint="check the path"):
                function(name)
    (tmp_path / "vaswani").write_text("1\t2\t1\n")
    assert read_qrels("vaswani") == {"1": {"2": 1}}


def test_judged_sets(shared: Path) -> None:
    """The collections beside the project, with their queries and judgments."""
    sizes = {"nfcorpus": (3633, 323, 12334), "arguana": (8674, 1406, 1406), "vaswani": (11429, 93, 2083)}
    for name, counts in sizes.items():
        folder = shared / "data" / name
        qrels = read_qrels(folder)
        assert sum(1 for _ in open_texts(folder)) == counts[0]
        assert len(qrels) == counts[1]
        assert sum(map(len, qrels.values())) == counts[2]
        assert set(qrels) <= set(read_queries(folder).ids)
    assert len(read_qrels(shared / "data" / "nq" / "qrels.tsv")) == 2655


# --- queries ---------------------------------------------------------------------------------------------------------


def test_repeated_words_become_vectors(tmp_path: Path) -> None:
    """Anserini's tabs and PISA's colons; recognized by how words are repeated, or as the caller says."""
    (tmp_path / "anserini.tsv").write_text("q1\tcat cat cat ##s ##s\nq2\tdog dog dog\n")
    expected = [{"cat": 3.0, "##s": 2.0}, {"dog": 3.0}]
    assert read_queries(tmp_path / "anserini.tsv") == (["q1", "q2"], None, expected)
    (tmp_path / "pisa.txt").write_text("q1:cat cat cat ##s ##s\r\nq2: dog dog dog\r\n")
    assert read_queries(tmp_path / "pisa.txt") == (["q1", "q2"], None, expected)
    (tmp_path / "once.tsv").write_text("q1\tthe cat the dog\n")
    assert read_queries(tmp_path / "once.tsv").texts == ["the cat the dog"]
    assert read_queries(tmp_path / "once.tsv", kind="tokens").vectors == [{"the": 2.0, "cat": 1.0, "dog": 1.0}]
    assert read_queries(tmp_path / "anserini.tsv", kind="text").texts == ["cat cat cat ##s ##s", "dog dog dog"]
    (tmp_path / "words.txt").write_text("301: international organized crime\n")
    assert read_queries(tmp_path / "words.txt") == (["301"], ["international organized crime"], None)
    with refused(ConfigError, option="kind", expected="'text', 'tokens' or None"):
        read_queries(tmp_path / "once.tsv", kind="vector")


def test_published_query_vectors(shared: Path) -> None:
    """NFCorpus's SPLADE-v3 queries, a weight per repetition."""
    queries = read_queries(shared / "data" / "nfcorpus" / "splade-v3" / "queries.tsv.gz")
    assert len(queries.ids) == 323
    assert queries.vectors is not None
    with gzip.open(shared / "data" / "nfcorpus" / "splade-v3" / "queries.tsv.gz", "rt") as file:
        for name, vector, line in zip(queries.ids, queries.vectors, file, strict=True):
            words = line.split()
            assert name == words[0]
            assert vector == Counter(words[1:])


def test_queries_of_json(tmp_path: Path) -> None:
    """Texts, vectors, or both."""
    path = tmp_path / "queries.jsonl"
    path.write_text('{"qid": 1, "query": "a b"}\n{"qid": 2, "query": "c"}\n')
    assert read_queries(path) == (["1", "2"], ["a b", "c"], None)
    path.write_text('{"id": 1, "content": "a b", "vector": {"a": 1.5}}\n')
    assert read_queries(path) == (["1"], ["a b"], [{"a": 1.5}])
    path.write_text('{"id": 1, "contents": "", "vector": {"a": 1}}\n')
    assert read_queries(path) == (["1"], None, [{"a": 1.0}])
    path.write_text('{"id": 1, "text": ""}\n')
    assert read_queries(path) == (["1"], [""], None)
    path.write_text('{"id": 1, "text": "a", "vector": {"a": 1}}\n{"id": 2, "vector": {"a": 1}}\n')
    assert read_queries(path) == (["1", "2"], None, [{"a": 1.0}, {"a": 1.0}])
    for first, second in (('"text": "a"', '"vector": {"a": 1}'), ('"vector": {"a": 1}', '"text": "a"')):
        path.write_text(f'{{"id": 1, {first}}}\n{{"id": 2, {second}}}\n')
        with refused(InputError, where="queries", expected="a text in every line, or a vector", hint="make two files"):
            read_queries(path)
    for line, parts in (
        ('{"id": 1, "vector": {"a": "x"}}', {"expected": "a finite number as the weight of 'a'", "got": "str"}),
        ('{"id": 1}', {"expected": "a text or a vector", "got": "id"}),
    ):
        path.write_text(line)
        with refused(InputError, where=r"queries\.jsonl', line 1", **parts):
            read_queries(path)


CLASSIC = """
<top>
<num> Number: 301
<title> International Organized Crime

<desc> Description:
Identify organizations that participate in
international criminal activity.

<narr> Narrative:
A relevant document &amp; so on.
</top>
<top>
<num>302</num>
<title>Poliomyelitis and
 Post-Polio</title>
<desc>Is it under control?</desc>
<narr>n</narr>
</top>
"""
XML = """<?xml version="1.0"?>
<topics task="x">
  <topic number="1" type="faceted">
    <query>coronavirus origin</query>
    <description>what is the origin</description>
    <narrative>n &lt; m</narrative>
  </topic>
  <topic number="2"><title>b</title><desc>d</desc></topic>
</topics>
"""


def test_trec_topics(tmp_path: Path) -> None:
    """Classic topics, whose tags are closed or not, and XML; title, description or narrative."""
    path = tmp_path / "topics.txt"
    path.write_text(CLASSIC)
    titles = ["International Organized Crime", "Poliomyelitis and Post-Polio"]
    assert read_queries(path) == (["301", "302"], titles, None)
    assert read_queries(path, field="desc").texts == [
        "Identify organizations that participate in international criminal activity.",
        "Is it under control?",
    ]
    assert read_queries(path, field="narr").texts == ["A relevant document & so on.", "n"]
    path.write_bytes(XML.replace("\n", "\r\n").encode())
    assert read_queries(path) == (["1", "2"], ["coronavirus origin", "b"], None)
    assert read_queries(path, field="desc").texts == ["what is the origin", "d"]
    with refused(InputError, where=r"topics\.txt', line 8", expected="a topic with a narr"):
        read_queries(path, field="narr")
    path.write_text("<top>\n<num>1</num>\n<title> a < b and <3 c </title>\n</top>\n")
    assert read_queries(path).texts == ["a < b and <3 c"]
    with refused(ConfigError, option="field", expected="'title', 'desc' or 'narr'"):
        read_queries(path, field="text")


def test_queries_come_once(tmp_path: Path) -> None:
    """An id that comes twice is an error; so is a line without one, and a file that is not there."""
    (tmp_path / "queries.tsv").write_text("q1\ta\nq1\tb\n")
    with refused(InputError, expected="every query once", got="the id 'q1' again"):
        read_queries(tmp_path / "queries.tsv")
    with refused(InputError, message="there is no file"):
        read_queries(tmp_path / "none.tsv")
    with refused(InputError, message=r"there is no file '.*queries\.jsonl'"):
        read_queries(tmp_path)
    (tmp_path / "queries.tsv").write_text("\n")
    with refused(InputError, where=r"queries\.tsv'", expected="queries", got="an empty file"):
        read_queries(tmp_path / "queries.tsv")


# --- judgments and runs ---------------------------------------------------------------------------------------------

QRELS = {"q1": {"d1": 2, "d2": 0}, "ü": {"d-3": 1}}


@pytest.mark.parametrize("name", ["qrels.tsv", "qrels.tsv.gz", "qrels.txt", "qrels.xz"])
def test_qrels_round_trip(tmp_path: Path, name: str) -> None:
    """BEIR's way and TREC's, plain and compressed."""
    write_qrels(tmp_path / name, QRELS)
    assert read_qrels(tmp_path / name) == QRELS
    with pytest.raises(FileExistsError):
        write_qrels(tmp_path / name, QRELS)


def test_qrels_of_others(tmp_path: Path) -> None:
    """With blanks or tabs, with a header or without, with Windows line ends."""
    path = tmp_path / "qrels"
    for content in ("q1 0 d1 2\nq1 0 d2 0\nü 0 d-3 1\n", "q1\t0\td1\t2\r\nq1\tQ0\td2\t0\r\nü\t0\td-3\t1\r\n",
                    "q1\td1\t2\nq1\td2\t0\nü\td-3\t1",
                    "query\tdocument\tgrade\nq1\td1\t2\nq1\td2\t0\nü\td-3\t1\n",
                    "\nqid iteration docid Relevance\nq1 0 d1 2.0\nq1 0 d2 0\nq1 0 d1 2\nü 0 d-3 1\n"):  # fmt: skip
        path.write_bytes(content.encode())
        assert read_qrels(path) == QRELS
    for content, parts in (
        ("q1 0 d1 2\nq1 0 d2\tx y z\n", {"where": "line 2", "expected": "query, 0, document, grade"}),
        (
            "q1 0 d1 2\nq1 0 d2 high\n",
            {"where": "line 2", "expected": "a whole number as grade", "got": "'q1 0 d2 high'"},
        ),
        ("q1 d1 high\nq1 d2 1\n", {"where": "line 1", "expected": "a whole number as grade", "got": "'q1 d1 high'"}),
        ("q1 d1 0.5\n", {"where": "line 1", "expected": "a whole number as grade"}),
        ("q1 d1 nan\n", {"where": "line 1", "expected": "a whole number as grade"}),
        (
            "q1 d1 1\nq1 d1 0\n",
            {"where": "line 2", "expected": "the grade 1 that a line before gives this document", "got": "'q1 d1 0'"},
        ),
    ):
        path.write_text(content)
        with refused(InputError, **parts):
            read_qrels(path)
    with refused(InputError, expected="names without blanks in this format", got="'d 1'"):
        write_qrels(tmp_path / "other", {"q": {"d 1": 1}})


RUN = {"q1": {"d2": 3.25, "d1": 0.1}, "q2": {"d9": 1e-7}}


def test_runs(tmp_path: Path) -> None:
    """TREC's six columns come back as they were; MS MARCO's three keep the order; Seismic's four are read."""
    write_run(tmp_path / "run.trec.gz", RUN, tag="mine")
    assert read_run(tmp_path / "run.trec.gz") == RUN
    assert gzip.decompress((tmp_path / "run.trec.gz").read_bytes()).decode().splitlines()[0] == "q1 Q0 d2 1 3.25 mine"
    write_run(tmp_path / "run.tsv", RUN, format="msmarco")
    assert (tmp_path / "run.tsv").read_text() == "q1\td2\t1\nq1\td1\t2\nq2\td9\t1\n"
    ranked = {query: list(docs) for query, docs in read_run(tmp_path / "run.tsv").items()}
    assert ranked == {"q1": ["d2", "d1"], "q2": ["d9"]}
    (tmp_path / "seismic.tsv").write_text("q1\td2\t1\t3.25\nq1\td1\t2\t0.1\nq2\td9\t1\t1e-7\n")
    assert read_run(tmp_path / "seismic.tsv") == RUN


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("q1 Q0 d1 1 2.0\n", {"where": "line 1", "expected": "query, Q0, document, rank, score, tag"}),
        ("q1 Q0 d1 1 high tag\n", {"where": "line 1", "expected": "a score"}),
        ("q1 Q0 d1 1 nan tag\n", {"where": "line 1", "expected": "a score"}),
        ("q1\td1\t1\tNaN\n", {"where": "line 1", "expected": "a score"}),
        (
            "q1\td1\t0.5\n",
            {"where": "line 1", "expected": r"a whole number from 1 on as rank \(scores come in six columns\)"},
        ),
        ("q1 Q0 d1 1 2 t\nq1 Q0 d1 2 1 t\n", {"where": "line 2", "expected": "every document of a query once"}),
        ("q1\td1\t0\n", {"where": "line 1", "expected": "a whole number from 1 on as rank"}),
    ],
)
def test_invalid_runs_are_refused(tmp_path: Path, content: str, parts: dict[str, str]) -> None:
    """The message has the line."""
    (tmp_path / "run").write_text(content)
    with refused(InputError, **parts):
        read_run(tmp_path / "run")


def test_invalid_runs_are_not_written(tmp_path: Path) -> None:
    """Blanks in names, formats that do not exist; nothing is left."""
    with refused(InputError, expected="names without blanks"):
        write_run(tmp_path / "run", {"q 1": {"d": 1.0}})
    with refused(ConfigError, option="format", expected="'trec' or 'msmarco'"):
        write_run(tmp_path / "run", RUN, format="xml")
    assert list(tmp_path.iterdir()) == []


def test_runs_are_what_ir_measures_reads(tmp_path: Path) -> None:
    """Judgments and runs that are written are read alike by ir_measures."""
    ir_measures: Any = pytest.importorskip("ir_measures")
    write_qrels(tmp_path / "qrels", QRELS)
    write_run(tmp_path / "run", RUN)
    qrels = {(q.query_id, q.doc_id): q.relevance for q in ir_measures.read_trec_qrels(str(tmp_path / "qrels"))}
    run = {(r.query_id, r.doc_id): r.score for r in ir_measures.read_trec_run(str(tmp_path / "run"))}
    assert qrels == {(q, d): g for q, docs in QRELS.items() for d, g in docs.items()}
    assert run == {(q, d): s for q, docs in RUN.items() for d, s in docs.items()}


# --- texts of new users ----------------------------------------------------------------------------------------------


def test_csv(tmp_path: Path) -> None:
    """Under a header, quoted or not, separated by commas or semicolons, over several lines, with other columns."""
    expected = [("1", 'A "b"', "first\n\nsecond"), ("2", "", "third")]
    for mark, name in ((",", "docs.csv"), (";", "docs.csv"), ("\t", "docs.tsv"), (",", "export")):
        header, first, second = (
            ["_id", "Title", "Text", "year"],
            ["1", '"A ""b"""', '"first\n\nsecond"', "7"],
            ["2", "", "third", ""],
        )
        (tmp_path / name).write_text("\r\n".join(mark.join(row) for row in (header, first, second)))
        assert list(open_texts(tmp_path / name)) == expected, (mark, name)
    long = "x" * 300_000
    (tmp_path / "docs.csv.gz").write_bytes(gzip.compress(f'text\n"{long}"\nshort\n'.encode()))
    reader = open_texts(tmp_path / "docs.csv.gz")
    assert list(reader) == [("0", "", long), ("1", "", "short")]
    (tmp_path / "docs.tsv").write_text('id\ttext\n1\t"To be" he said\n2\t"quoted"\n')
    assert [document.text for document in open_texts(tmp_path / "docs.tsv")] == ['"To be" he said', "quoted"]


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (
            "a,b\n1,2\n",
            {
                "where": r"docs\.csv', line 1",
                "expected": r"a header with a column of texts \(text, .*\)",
                "got": "'a,b'",
            },
        ),
        (
            "id,text\n1,a,b\n",
            {"where": r"docs\.csv', line 2", "expected": "2 columns, as in the first line", "got": "3"},
        ),
        ("id,text,id\n1,a,b\n", {"where": r"docs\.csv', line 1", "expected": "every column once", "got": "'id' again"}),
        (
            'id,text\n1,a\n2,"b\n3,c\n',
            {"where": r"docs\.csv', line 3", "expected": "columns, quoted as CSV has it", "got": "something else"},
        ),
        (
            'id,text\n1,"a" b\n',
            {"where": r"docs\.csv', line 2", "expected": "columns, quoted as CSV has it", "got": "something else"},
        ),
        (
            "id,text\n1,a\n1,b\n",
            {
                "where": r"docs\.csv', line 3",
                "expected": "every id once",
                "got": r"'1' again, first at '.*docs\.csv', line 2",
            },
        ),
    ],
)
def test_wrong_csv(tmp_path: Path, content: str, parts: dict[str, str]) -> None:
    """The message has the file and the line."""
    (tmp_path / "docs.csv").write_text(content)
    with refused(InputError, **parts):
        list(open_texts(tmp_path / "docs.csv"))


def test_json_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of objects or of strings, on one line or many, read in blocks of any size."""
    from segmax.io import json_array

    records = [{"id": f"d{i}", "title": "T", "text": 'é😀 ] , [ \\ " ' * (i % 5)} for i in range(200)]
    expected = [(record["id"], "T", record["text"]) for record in records]
    for indent in (None, 1):
        (tmp_path / "docs.json").write_text(json.dumps(records, indent=indent, ensure_ascii=False))
        for size in (1, 7, 1 << 16):
            monkeypatch.setattr(json_array, "_BLOCK_BYTES", size)
            assert list(open_texts(tmp_path / "docs.json")) == expected
    (tmp_path / "export").write_text('["one", "two"]')
    assert list(open_texts(tmp_path / "export")) == [("0", "", "one"), ("1", "", "two")]
    (tmp_path / "docs.json").write_text("[ ]")
    with refused(InputError, where=r"docs\.json'", expected="at least one document"):
        open_texts(tmp_path / "docs.json")


@pytest.mark.parametrize(
    ("content", "line", "parts"),
    [
        (
            '[{"id": 1, "text": "a"},\n{"id": 2 "text": "b"}]',
            2,
            {"expected": "JSON", "got": "Expecting ',' delimiter"},
        ),
        (
            '[{"id": 1, "text": "a"}\n{"id": 2}]',
            2,
            {"expected": "',' or ']' behind an element", "got": r"'\{\"id\": 2\}\]'"},
        ),
        ('[{"id": 1, "text": "a"}, 7]', 1, {"expected": "an object or a string as element", "got": r"'7\]'"}),
        (
            '[{"id": 1, "text": "a"}',
            1,
            {"expected": "',' or ']' behind an element", "got": "the end of the file"},
        ),
        ('[{"id": 1, "text": "a"}] []', 1, {"expected": "nothing behind the array"}),
        ('[{"id": 1, "text": "a"},\n\n {"id": 2, "text": null}]', 3, {"message": "text is null, expected a string"}),
        ('[{"id": 1, "text": "a"},\n {"text": "b"}]', 2, {"expected": "an id as string or whole number"}),
    ],
)
def test_wrong_json_arrays(tmp_path: Path, content: str, line: int, parts: dict[str, str]) -> None:
    """The error has the file and the line."""
    (tmp_path / "docs.json").write_text(content)
    with refused(InputError, where=rf"docs\.json', line {line}$", **parts):
        list(open_texts(tmp_path / "docs.json"))


def test_a_mistake_in_a_long_array_is_found_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not after everything behind it has been read for an end."""
    from segmax.io import streams

    (tmp_path / "docs.json").write_text('[{"id": 1, "text" "a"},\n' + '{"id": 2, "text": "b"},\n' * 300_000)
    read = 0
    inner = streams.read_blocks

    def counted(path: Path, size: int) -> Iterator[bytes]:
        nonlocal read
        for block in inner(path, size):
            read += len(block)
            yield block

    monkeypatch.setattr("segmax.io.json_array.read_blocks", counted)
    with refused(InputError, where=r"docs\.json', line 1", expected="JSON", got="Expecting ':' delimiter"):
        list(open_texts(tmp_path / "docs.json"))
    assert read < 1 << 20


def test_folders_of_text_files(tmp_path: Path) -> None:
    """A document per file, called by its path; the first heading of Markdown is its title, or else the file's name."""
    (tmp_path / "sub" / ".git").mkdir(parents=True)
    (tmp_path / "a.md").write_text("\ufeff# The title #\n\nSome text.\n\n## More\n")
    (tmp_path / "sub" / "b.txt").write_text("# no heading\nin plain text\n")
    (tmp_path / "sub" / "c.md").write_text("No heading.\n\n# Later\n")
    (tmp_path / "sub" / "d.txt.gz").write_bytes(gzip.compress(b"compressed"))
    (tmp_path / "sub" / ".git" / "hidden.txt").write_text("hidden")
    (tmp_path / "sub" / "image.png").write_bytes(b"\x89PNG")
    (tmp_path / "sub" / "loop").symlink_to(tmp_path)
    expected = [
        ("a.md", "The title", "Some text.\n\n## More"),
        ("sub/b.txt", "b", "# no heading\nin plain text"),
        ("sub/c.md", "c", "No heading.\n\n# Later"),
        ("sub/d.txt.gz", "d", "compressed"),
    ]
    assert list(open_texts(tmp_path)) == expected
    assert list(open_texts(tmp_path / "a.md")) == expected[:1]
    (tmp_path / "sub" / "e.txt").write_bytes(b"one\ntwo \xff\n")
    with refused(InputError, where=r"e\.txt', line 2", expected="UTF-8", got="the byte 0xff"):
        list(open_texts(tmp_path))
    (tmp_path / "none").mkdir()
    with refused(InputError, where="none'", expected=r"a folder with corpus\.jsonl \(BEIR\), .*\.md files"):
        open_texts(tmp_path / "none")


def test_documents_without_ids_are_numbered(tmp_path: Path) -> None:
    """All of them, or none: over several files, too."""
    (tmp_path / "a.jsonl").write_text('{"text": "one"}\n\n{"text": "two"}\n')
    (tmp_path / "b.jsonl").write_text('{"text": "three"}\n')
    reader = open_texts(tmp_path / "a.jsonl")
    assert reader.numbered is True  # type: ignore[attr-defined]
    assert [document.id for document in reader] == ["0", "1"]
    assert [document.id for document in open_texts([tmp_path / "a.jsonl", tmp_path / "b.jsonl"])] == ["0", "1", "2"]
    (tmp_path / "b.jsonl").write_text('{"text": "three", "id": "x"}\n')
    with refused(InputError, where=r"b\.jsonl', line 1", expected="no id, as in those before", got="'x'"):
        list(open_texts([tmp_path / "a.jsonl", tmp_path / "b.jsonl"]))
    with refused(InputError, where=r"a\.jsonl', line 1", expected="an id", got="none"):
        list(open_texts([tmp_path / "b.jsonl", tmp_path / "a.jsonl"]))
    assert open_texts(tmp_path / "b.jsonl").numbered is False  # type: ignore[attr-defined]


def test_several_files_of_any_kind(tmp_path: Path) -> None:
    """One after the other; the error about a repeated id names both places."""
    (tmp_path / "a.jsonl").write_text('{"id": "d1", "text": "one"}\n')
    (tmp_path / "b.csv").write_text("id,text\nd2,two\n")
    (tmp_path / "c.tsv").write_text("d3\tthree\nd1\tfour\n")
    reader = open_texts([tmp_path / "a.jsonl", tmp_path / "b.csv"])
    assert [document.id for document in reader] == ["d1", "d2"]
    again = open_texts([tmp_path / name for name in ("a.jsonl", "b.csv", "c.tsv")])
    with refused(
        InputError,
        where=r"c\.tsv', line 2",
        expected="every id once",
        got=r"'d1' again, first at '.*a\.jsonl', line 1",
    ):
        list(again)
    with refused(InputError, expected="a file or folder of texts", got="none"):
        open_texts([])


def test_null_is_reported(tmp_path: Path) -> None:
    """From a text that is not there; a title may be null."""
    path = tmp_path / "docs.jsonl"
    path.write_text('{"id": 1, "title": null, "text": "fine"}\n{"id": 2, "text": null}\n')
    with refused(
        InputError, where=r"docs\.jsonl', line 2", message="text is null, expected a string", hint='write "" for'
    ):
        list(open_texts(path))
    path.write_text('{"id": null, "text": "a"}\n')
    with refused(InputError, where=r"docs\.jsonl', line 1", expected="an id", got="null"):
        list(open_texts(path))
    path.write_text('{"id": 1, "query": null}\n')
    with refused(InputError, where=r"docs\.jsonl', line 1", message="query is null"):
        read_queries(path)
    path.write_text('{"id": 1, "text": "half \\ud83d"}\n')
    with refused(InputError, where=r"docs\.jsonl', line 1", expected="text that UTF-8 can hold"):
        list(open_texts(path))


def test_pipes_are_read(tmp_path: Path) -> None:
    """Once, into a scratch file, so that they can be gone through again; messages have their names."""
    for content, is_right in (('{"id": "d1", "text": "one"}\n', True), ('{"id": "d1"}\n', False)):
        pipe = tmp_path / "pipe"
        pipe.unlink(missing_ok=True)
        os.mkfifo(pipe)
        writer = threading.Thread(target=pipe.write_text, args=(content,))
        writer.start()
        if is_right:
            reader = open_texts(pipe, scratch=tmp_path)
            assert list(reader) == list(reader) == [("d1", "", "one")]
            assert [entry.name for entry in tmp_path.iterdir()] == ["pipe"]
        else:
            with refused(InputError, where="pipe', line 1", expected="a text under"):
                list(open_texts(pipe))
        writer.join()


def test_files_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the file, whoever asks for it."""
    path = tmp_path / "docs.jsonl"
    path.write_text('{"id": "d1", "text": "one"}\n')

    def deny(self: Path, *_: object, **__: object) -> Any:
        raise PermissionError(13, "Permission denied", str(self))

    readers = (open_texts, open_vectors, read_queries, read_qrels, read_run, format_of)
    for name in ("open", "stat"):
        with monkeypatch.context() as patch:
            patch.setattr(Path, name, deny)
            for read in readers:
                with refused(InputError, where=r"docs\.jsonl'", message=r"could not be read \(Permission denied\)"):
                    read(path)
    for read in readers:
        with refused(InputError, where="xxx"):
            read(tmp_path / ("x" * 300))  # longer than a name may be


@pytest.mark.parametrize("score", ["inf", "-inf", "nan", "1_000", "\u0661", "1e999", "0x10", "", "1,5"])
def test_scores_and_grades_are_plain_numbers(tmp_path: Path, score: str) -> None:
    """What float() and int() take besides is a mistake in a file."""
    path = tmp_path / "file"
    for content, read in (
        (f"q1 Q0 d1 1 {score or '-'} tag\n", read_run),
        (f"q1\td1\t1\t{score}\n", read_run),
        (f"q1\td1\t{score}\n", read_run),
        (f"q1 0 d1 {score or '-'}\n", read_qrels),
        (f"q1\td1\t{score}\nq1\td2\t{score}\n", read_qrels),
    ):
        path.write_text(content)
        with refused(InputError, where="file', line 1", expected="a score|a whole number|query, "):
            read(path)


@pytest.mark.parametrize(
    ("vector", "parts"),
    [
        ('{"a": NaN}', {"expected": "numbers", "got": "NaN"}),
        ('{"a": -Infinity}', {"expected": "numbers", "got": "-Infinity"}),
        ('{"a": 1e999}', {"expected": "a finite number as the weight of 'a'", "got": "inf"}),
        (f'{{"a": 1{"0" * 400}}}', {"expected": "a finite number as the weight of 'a'", "got": "a number too large"}),
        ('{"a": true}', {"expected": "a finite number as the weight of 'a'", "got": "bool"}),
        ('{"a": "3"}', {"expected": "a finite number as the weight of 'a'", "got": "str"}),
        ('{"a": 1, "b": 2, "a": 3}', {"expected": "every member of an object once", "got": "'a' again"}),
        ('{"a": 1}, "vector": {"b": 1}', {"expected": "every member of an object once", "got": "'vector' again"}),
    ],
)
def test_weights_of_queries_are_plain_numbers(tmp_path: Path, vector: str, parts: dict[str, str]) -> None:
    """And every term comes once, as in documents."""
    path = tmp_path / "queries.jsonl"
    path.write_text(f'{{"id": 1, "vector": {{"a": 1}}}}\n{{"id": 2, "vector": {vector}}}\n')
    with refused(InputError, where=r"queries\.jsonl', line 2", **parts):
        read_queries(path)
