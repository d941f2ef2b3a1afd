"""What commands print: no control characters, tables that fit, plain numbers, and reasons for empty results."""

from __future__ import annotations

import gzip
import io
import json
import re
import sys
import time
import types
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import segmax
from conftest import random_docs, topic_docs
from segmax.base.display import counted, duration, json_text, plain_number, printable
from segmax.base.text_table import Column, tables
from segmax.cli.main import main
from segmax.cli.show import answer
from segmax.encoders import BM25
from segmax.evaluation import evaluate

#: Clear the screen, write to the clipboard (OSC 52), C1 controls, reordered text, a lone CR, a form feed, a surrogate.
HOSTILE = "x\x1b[2J\x1b]52;c;aGk=\x07\x9b31m\x90\u202egnp.exe\u2066\u200f\ry\x0c\x7f\u2028\ufeff"
MARKUP = "[bold]kept[/bold] [/] :smile:"
OBEYED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


def harmless(text: str) -> bool:
    """Whether a terminal shows all of a text."""
    return OBEYED.search(text) is None


class Terminal(io.StringIO):
    """A standard stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with an index of three texts, one of them hostile, at docs.segmax."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    texts = [
        {"_id": f"id{HOSTILE}", "title": f"vitamin {HOSTILE}", "text": f"vitamin D {HOSTILE} {MARKUP} and sunlight"},
        {"_id": "b", "title": "", "text": "vitamin C in oranges"},
        {"_id": "c", "title": "", "text": "noise of microwave tubes"},
    ]
    Path("corpus.jsonl").write_text("".join(json.dumps(text) + "\n" for text in texts))
    segmax.from_texts("corpus.jsonl", path="docs.segmax").close()
    return tmp_path


# --- control characters ----------------------------------------------------------------------------------------------


def test_control_characters_are_escaped() -> None:
    """Controls, separators, direction marks and surrogates are escaped; letters, emoji and joiners stay."""
    for code in (*range(0x20), *range(0x7F, 0xA0), 0x202E, 0x2066, 0x2028, 0x200F, 0xFEFF, 0xD800):
        assert harmless(printable(f"a{chr(code)}b"))
        assert "\n" not in printable(chr(code))
    assert printable("a\x1bb\r\n\u202e") == "a\\x1bb\\r\\n\\u202e"
    kept = "naïve 日本語 👩\u200d💻 می\u200cخواهم [bold]x[/]"
    assert printable(kept) == kept


def test_json_is_safe_and_intact() -> None:
    """JSON escapes what a terminal obeys, also C1 controls, and gives back the same."""
    value = {HOSTILE: [f"é{HOSTILE}", 1.5, None, "\ud800"]}
    for indent in (None, 1):
        text = json_text(value, indent)
        assert harmless(text)
        assert json.loads(text) == value
    assert "é" in json_text("é")


@pytest.mark.parametrize("words", [["vitamin", "D"], ["-q", "vitamin D"]])
def test_search_shows_no_control_characters(folder: Path, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    """Ids, titles and texts are escaped, and markup of rich in them is text."""
    assert main(["search", "docs.segmax", *words]) == 0
    shown = capsys.readouterr().out
    assert harmless(shown)
    assert "\\x1b[2J" in shown
    assert " ".join(MARKUP.split()) in " ".join(shown.split())


def test_search_as_json_is_safe_and_intact(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line of JSON holds the id as it is, escaped as JSON does it."""
    assert main(["search", "docs.segmax", "-q", f"sunlight {HOSTILE}", "--json"]) == 0
    shown = capsys.readouterr().out
    assert harmless(shown)
    assert json.loads(shown)["hits"][0]["id"] == f"id{HOSTILE}"
    assert json.loads(shown)["query"] == f"sunlight {HOSTILE}"


def test_a_run_is_escaped_on_a_terminal_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Into a file or pipe a TREC run goes as it is."""
    name = "id\x1b[2J\x9b\u202e"
    Path("odd.jsonl").write_text(json.dumps({"_id": name, "text": "vitamin"}) + "\n")
    Path("queries.jsonl").write_text(json.dumps({"_id": "q", "text": "vitamin"}) + "\n")
    segmax.from_texts("odd.jsonl", path="odd.segmax").close()
    for stream in (io.StringIO(), Terminal()):
        monkeypatch.setattr(sys, "stdout", stream)
        assert main(["search", "odd.segmax", "queries.jsonl"]) == 0
        written = stream.getvalue()
        assert (name in written) != harmless(written)
        assert harmless(written) == stream.isatty()


@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect", HOSTILE],
        ["search", HOSTILE, "word"],
        ["search", "docs.segmax", f"{''.join(HOSTILE.split())}.jsonl"],  # with a blank, it would be words
        ["search", "docs.segmax", "word", "--method", HOSTILE],
        ["search", "docs.segmax", "word", "-k", HOSTILE],
        ["index", f"{HOSTILE}.jsonl", "out"],
        ["index", "corpus.jsonl", f"none{HOSTILE}/out"],
        ["index", "corpus.jsonl", "out", "--encoder", f"model/{HOSTILE}"],
        ["build", HOSTILE, "out"],
        ["build", "--config", HOSTILE],
        ["convert", HOSTILE, "out.npz"],
        ["encode", HOSTILE, "out.npz"],
        ["evaluate", "docs.segmax", "--data", HOSTILE],
        ["evaluate", "docs.segmax", "--queries", "q.jsonl", "--methods", HOSTILE],
        ["experiment", HOSTILE],
        ["experiment", "bounds", "--data", HOSTILE],
        ["report", HOSTILE],
        [HOSTILE],
    ],
)
def test_errors_show_no_control_characters(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    """An error names a file or value with its control characters escaped, in one line."""
    assert main([part.replace("\n", "") for part in arguments]) == 2
    shown = capsys.readouterr().err
    assert harmless(shown)
    assert shown.count("\n") == 1


def test_warnings_are_one_safe_line(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A warning of the library is shown as an error is."""

    def warning(*_: object) -> None:
        warnings.warn(f"odd\n{HOSTILE}", stacklevel=2)

    monkeypatch.setattr("segmax.cli.completion.run", warning)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert main(["completion", "bash"]) == 0
    shown = capsys.readouterr().err
    assert shown.startswith("segmax: warning: odd x")
    assert harmless(shown)
    assert shown.count("\n") == 1


def test_summaries_show_no_control_characters(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Commands that write say where, escaped; so do reports of indexes."""
    name = "out\x1b[2J\x9b\u202e"
    assert main(["encode", "corpus.jsonl", f"{name}.npz"]) == 0
    assert main(["build", f"{name}.npz", name]) == 0
    assert main(["index", "corpus.jsonl", f"{name}2"]) == 0
    assert main(["inspect", name]) == 0
    assert main(["inspect", name, "--json"]) == 0
    assert main(["convert", f"{name}.npz", f"{name}.jsonl"]) == 0
    assert main(["build", "--dense", name, "--print-config"]) == 0
    shown = capsys.readouterr()
    assert harmless(shown.out)
    assert "\\x1b[2J" in shown.out


def test_names_of_methods_are_shown_as_they_are(rng: np.random.Generator) -> None:
    """Names of methods may look like markup, or hold control characters."""
    docs, _ = topic_docs(rng, 40)
    named = {"[red]plain[/red]": segmax.Exhaustive(), HOSTILE: segmax.ASC()}
    found = evaluate(segmax.build(docs), docs[:4], methods=named, passes=1)
    assert "[red]plain[/red]" in str(found)
    assert harmless(str(found))


def test_a_summary_escapes_names_of_components(folder: Path) -> None:
    """Names of components are neither markup nor control sequences."""
    import dataclasses

    with segmax.open("docs.segmax") as index:
        report = segmax.inspect(index)
    sizes = {**report.sizes, f"[red]{HOSTILE}": 7}
    odd = dataclasses.replace(report, sizes=sizes, clustering={"kind": "sparse", "[b]odd": HOSTILE}, path=HOSTILE)
    shown = rendered(odd, 80)
    assert harmless(shown)
    assert "[red]x" in shown
    assert "[b]odd" in shown


def rendered(what: object, width: int) -> str:
    """What rich prints."""
    from rich.console import Console

    file = io.StringIO()
    Console(file=file, width=width, highlight=False).print(what)
    return file.getvalue()


# --- words or a file -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ["vitamin D"],
        ["vitamin", "D"],
        ["vitamin"],
        ["HIV/AIDS or vitamin deficiency"],
        ["vitamin", "and/or", "minerals"],
        ["vitamin v1.1"],
        ["vitamin " * 400],
        ["vitamin?"],
        ["vitamin/vitamins"],
        ["AC/vitamin"],
        ["vitamin/"],
        ["~vitamin"],
        ["how do I read vitamin.json"],
        ["how", "do", "I", "read", "vitamin.json"],
        ["/etc/vitamin or vitamin.csv"],
        ["-q", "vitamin"],
        ["-q", "vitamin.jsonl"],
    ],
)
def test_words_are_a_query(folder: Path, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    """What is no file and does not look like one is searched for, quoted or not."""
    assert main(["search", "docs.segmax", *words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["query"] == " ".join(word for word in words if word != "-q")
    assert {hit["id"] for hit in found["hits"]} == {f"id{HOSTILE}", "b"}


def test_options_may_stand_among_words(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As they may among files."""
    assert main(["search", "-k", "1", "docs.segmax", "vitamin", "--json", "C"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["query"], len(found["hits"])) == ("vitamin C", 1)


@pytest.mark.parametrize("name", ["queries.jsonl", "vitamin", "my queries"])
def test_a_file_that_exists_is_a_file(folder: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """Whatever its name; -q searches for the name."""
    Path(name).write_text('{"_id": "q1", "text": "oranges"}\n')
    assert main(["search", "docs.segmax", name]) == 0
    assert capsys.readouterr().out.startswith("q1 Q0 b 1 ")
    assert main(["search", "docs.segmax", "-q", name]) == 0
    assert "Q0" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["none.jsonl"],
            "'none.jsonl': expected a file of queries, got no such file; to search for this text, put -q before it",
        ),
        (
            ["my;queries.npz"],
            "'my;queries.npz': expected a file of queries, got no such file; to search for this text, put -q before it",
        ),
        (["none.tsv.gz"], "'none.tsv.gz': expected a file of queries, got no such file"),
        (["./none"], "'./none': expected a file of queries, got no such file"),
        (["../none"], "'../none': expected a file of queries, got no such file"),
        (["~/none"], "'~/none': expected a file of queries, got no such file"),
        (["/none/at-all"], "'/none/at-all': expected a file of queries, got no such file"),
        (["none/queries.tsv"], "'none/queries.tsv': expected a file of queries, got no such file"),
        (
            ["docs.segmax/none"],
            "'docs.segmax/none': expected a file of queries, got no such file; to search for this text, put -q",
        ),
        (
            ["./docs.segmax"],
            "'./docs.segmax': expected a file of queries, got a folder without queries.jsonl; to search for",
        ),
        (
            ["docs.segmax/"],
            "'docs.segmax/': expected a file of queries, got a folder without queries.jsonl; to search for",
        ),
        (["corpus.jsonl", "none.jsonl"], "expected words or one file of queries, got 2 arguments, of which"),
        (["none.jsonl", "nothing.jsonl"], "expected words or one file of queries, got 2 arguments, of which"),
        (["words", "corpus.jsonl"], "expected words or one file of queries, got 2 arguments, of which 'corpus.jsonl'"),
        (["vitamin", "-q", "vitamin"], "expected a file of queries or -q, got both: 'vitamin' and 'vitamin'"),
    ],
)
def test_a_path_must_exist(folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    """A mistyped file name is an error, not a query."""
    assert main(["search", "docs.segmax", *words]) == 2
    assert capsys.readouterr().err.startswith(f"segmax: error: {message}")


@pytest.mark.parametrize("holds_queries", [False, True])
@pytest.mark.parametrize("query", ["", " "])
def test_no_text_is_an_empty_query(
    folder: Path, capsys: pytest.CaptureFixture[str], query: str, holds_queries: bool
) -> None:
    """It is not the current folder, even where that holds queries."""
    if holds_queries:
        Path("queries.jsonl").write_text('{"_id": "q1", "text": "oranges"}\n')
    assert main(["search", "docs.segmax", query]) == 0
    assert "nothing found: the query is empty; " in capsys.readouterr().out


@pytest.mark.parametrize("name", ["vitamin", "oranges", "."])
def test_a_folder_without_queries_is_a_word(folder: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """A folder is read if it holds queries, plain or compressed; otherwise its name is searched for."""
    Path(name).mkdir(exist_ok=True)
    Path(name, "notes.txt").write_text("no queries")
    assert main(["search", "docs.segmax", name, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["query"] == name
    assert bool(found["hits"]) == (name != ".")
    Path(name, "queries.jsonl.gz").write_bytes(gzip.compress(b'{"_id": "q1", "text": "oranges"}\n'))
    assert main(["search", "docs.segmax", name]) == 0
    assert capsys.readouterr().out.startswith("q1 Q0 b 1 ")


def test_ids_of_ir_datasets_are_read(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An id with a slash is read if ir_datasets knows it; with `irds:`, it must be one."""
    module = types.ModuleType("ir_datasets")
    query = types.SimpleNamespace(query_id="q1", text="oranges")
    known = types.SimpleNamespace(has_queries=lambda: True, queries_iter=lambda: iter([query]))
    module.load = {"beir/vitamin/test": known}.__getitem__  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ir_datasets", module)
    for name in ("beir/vitamin/test", "irds:beir/vitamin/test"):
        assert main(["search", "docs.segmax", name]) == 0
        assert capsys.readouterr().out.startswith("q1 Q0 b 1 ")
    assert main(["search", "docs.segmax", "beir/vitamin/train", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["query"] == "beir/vitamin/train"
    assert main(["search", "docs.segmax", "irds:beir/vitamin/train"]) == 2
    assert "ir_datasets does not know such an id" in capsys.readouterr().err


# --- nothing found, times, counts, numbers ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("", "the query is empty"),
        (" \t ", "the query is empty"),
        ("?!", "the query has no words"),
        ("the of and", "the query has only stop words (the, of, and), which are ignored"),
        ("the x", "the query has only stop words and single characters (the, x), which are ignored"),
        ("zebra the unicorn", "no document contains any of its words (zebra, unicorn)"),
        ("thé", "the query has only stop words (thé read as 'the'), which are ignored"),
        ("THE\u0301 and", "the query has only stop words (thé read as 'the', and), which are ignored"),
        ("thé X", "the query has only stop words and single characters (thé read as 'the', x), which are ignored"),
        ("C++", "the query has only single characters (c), which are ignored"),
        ("C++ 5 é", "the query has only single characters (c, 5, é), which are ignored"),
        ("_", "the query has no words"),
        ("_ ?", "the query has no words"),
        ("the _", "the query has only stop words (the), which are ignored"),
        ("naïveté", "no document contains any of its words (naïveté)"),
        ("東京都", "no document contains any of its words (東京, 京都)"),
        (
            "the 猫, 犬",
            "the query has only single characters (猫, 犬) of a script that is indexed by pairs of characters; "
            "search for two or more in a row",
        ),
        ("猫 zebra", "no document contains any of its words (猫, zebra)"),
    ],
)
def test_nothing_found_has_a_reason(folder: Path, capsys: pytest.CaptureFixture[str], query: str, reason: str) -> None:
    """The line about the results says why there are none; JSON says the same."""
    assert main(["search", "docs.segmax", "-q", query]) == 0
    assert f"nothing found: {reason}; " in " ".join(capsys.readouterr().out.split())
    assert main(["search", "docs.segmax", "-q", query, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["reason"] == reason


@pytest.mark.parametrize(
    ("options", "query", "reason"),
    [
        ({"fold_accents": False}, "thé", "no document contains any of its words (thé)"),
        (
            {"stopwords": ["thé"]},
            "the thé",
            "the query has only stop words (the, thé read as 'the'), which are ignored",
        ),
        ({"stopwords": None}, "the", "no document contains any of its words (the)"),
        ({"cjk_bigrams": False}, "猫", "the query has only single characters (猫), which are ignored"),
        ({"cjk_bigrams": False}, "東京都", "no document contains any of its words (東京都)"),
        ({"method": "atire"}, "vitamin", "no document matches any of its terms"),
    ],
)
def test_reasons_follow_the_options_of_the_encoder(options: dict[str, Any], query: str, reason: str) -> None:
    """What is folded, left out or paired is what the encoder folds, leaves out or pairs."""
    bm25 = BM25(**options)
    with segmax.from_texts(["vitamin sun", "vitamin oranges"], encoder=bm25) as index:
        assert answer(index, query, {"k": 1}).reason == reason


def test_a_stop_word_with_an_accent_is_no_unknown_word(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The index holds the very word, which became a stop word there, too."""
    Path("tea.jsonl").write_text('{"_id": "a", "text": "Le thé vert"}\n')
    segmax.from_texts("tea.jsonl", path="tea.segmax").close()
    assert main(["search", "tea.segmax", "-q", "thé"]) == 0
    assert "nothing found: the query has only stop words (thé read as 'the')" in capsys.readouterr().out


def test_json_has_reasons_only_where_nothing_is_found(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """For texts and vectors of a file alike."""
    Path("q.jsonl").write_text("".join(json.dumps({"_id": t, "text": t}) + "\n" for t in ("oranges", "the", "zebra")))
    assert main(["search", "docs.segmax", "q.jsonl", "--json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line.get("reason") for line in found] == [
        None,
        "the query has only stop words (the), which are ignored",
        "no document contains any of its words (zebra)",
    ]
    sp.save_npz("q.npz", sp.csr_matrix((1, 4)))
    assert main(["search", "docs.segmax", "q.npz", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["reason"] == "the query has no terms"


def test_queries_that_find_nothing_are_counted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """For a file of queries, a line on standard error says how many and why."""
    texts = ["oranges", "!", "the", "zebra", "unicorn"]
    Path("q.jsonl").write_text("".join(json.dumps({"_id": f"q{i}", "text": t}) + "\n" for i, t in enumerate(texts)))
    assert main(["search", "docs.segmax", "q.jsonl"]) == 0
    shown = capsys.readouterr()
    assert {line.split()[0] for line in shown.out.splitlines()} == {"q0"}
    assert shown.err == (
        "segmax: 4 of 5 queries found nothing: 2 with only unknown words, 1 without words, 1 with only stop words\n"
    )
    sp.save_npz("q.npz", sp.csr_matrix((3, 4)))
    assert main(["search", "docs.segmax", "q.npz"]) == 0
    assert capsys.readouterr().err == "segmax: 3 of 3 queries found nothing: 3 empty\n"


class SlowEncoder:
    """Takes a second of a clock to encode, and counts its calls."""

    stopwords = ()
    vocabulary = ("vitamin", "rare")

    def __init__(self, clock: list[float]) -> None:
        self.clock = clock
        self.calls = 0

    def encode_queries(self, batch: list[str]) -> sp.csr_matrix:
        """Encode, after a while."""
        self.clock[0] += 1.0
        self.calls += 1
        return sp.csr_matrix([[1.0, 0.0]] * len(batch))


def test_encoding_and_search_are_timed_separately(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The query is encoded once, and that time is not that of the search; nor is the time to load the encoder."""
    segmax.build(sp.csr_matrix([[1.0, 0.0], [0.0, 1.0]]), terms=["vitamin", "rare"], path="v.segmax").close()
    clock, answers = [100.0], []
    encoder = SlowEncoder(clock)

    def loaded(_: object) -> SlowEncoder:
        clock[0] += 0.25
        return encoder

    def kept(*args: Any) -> Any:
        answers.append(answer(*args))
        return answers[-1]

    monkeypatch.setattr(segmax.Index, "encoder", property(loaded))
    monkeypatch.setattr("segmax.cli.search.answer", kept)
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    assert main(["search", "v.segmax", "vitamin"]) == 0
    searched = duration(answers[0].hits.stats.elapsed_ns / 1e9)  # by a clock of the core
    line = capsys.readouterr().out.splitlines()[-1]
    assert line == f"1 document; loaded in 250 ms, encoded in 1.0 s, searched in {searched}"
    assert encoder.calls == 1


def test_counts_are_singular_and_plural() -> None:
    """One document, no documents, a thousand queries."""
    assert counted(1, "document") == "1 document"
    assert counted(0, "document") == "0 documents"
    assert counted(1000, "query", "queries") == "1,000 queries"


def test_one_document_is_singular(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Commands print "1 document"."""
    Path("one.jsonl").write_text('{"_id": "a", "text": "vitamin"}\n')
    assert main(["index", "one.jsonl", "one.segmax"]) == 0
    assert main(["search", "one.segmax", "vitamin"]) == 0
    Path("q.jsonl").write_text('{"_id": "q", "text": "vitamin"}\n')
    assert main(["evaluate", "one.segmax", "--queries", "q.jsonl"]) == 0
    assert main(["inspect", "one.segmax"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"\b1 (documents|queries|postings|clusters)\b", shown) is None
    assert shown.count("1 document") >= 3


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (11552.34, "11,552"),
        (1155.234, "1,155"),
        (115.5234, "115.5"),
        (12.3, "12.30"),
        (9.99996, "10.00"),
        (0.00012346, "0.0001235"),
        (1e-7, "0.0000001000"),
        (1e20, "100,000,000,000,000,000,000"),
        (0.0, "0"),
        (-2.5, "-2.500"),
    ],
)
def test_numbers_are_plain(value: float, text: str) -> None:
    """No exponents, four significant digits."""
    assert plain_number(value) == text


def test_large_scores_are_plain(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A score of five digits is shown with all of them."""
    Path("heavy.jsonl").write_text('{"id": "a", "contents": "", "vector": {"vitamin": 11552.0}}\n')
    assert main(["build", "heavy.jsonl", "heavy.segmax"]) == 0
    with segmax.open("heavy.segmax") as index:
        assert "at 11,552" in repr(index.search({"vitamin": 1.0}))


def test_durations() -> None:
    """Milliseconds below a second, seconds above."""
    assert (duration(0.00003), duration(0.25), duration(13.21)) == ("0.030 ms", "250 ms", "13.2 s")


# --- interactive search ----------------------------------------------------------------------------------------------


def test_an_empty_line_does_not_quit(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a terminal, only the end of input ends the search."""
    typed = iter(["", "oranges", "  ", "microwave"])

    def line(_: str) -> str:
        try:
            return next(typed)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr("builtins.input", line)
    assert main(["search", "docs.segmax"]) == 0
    shown = capsys.readouterr().out
    assert "vitamin C in oranges" in shown
    assert "noise of microwave tubes" in shown
    assert "Ctrl-D" in shown


# --- tables that fit -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [200, 80, 60, 40, 30])
def test_tables_fit_and_nothing_is_cut(width: int) -> None:
    """However narrow, a table is stacked or wrapped, and every figure is there in one piece."""
    names = ["exhaustive", "asc:eta=0.95,max_blocks=1000", "日本語の方法"]
    figures = {f"measure {i}": [f"{i}{row}.1234" for row in range(3)] for i in range(9)}
    columns = [Column(heading="method", cells=names, words=True)]
    columns += [Column(heading=heading, cells=cells) for heading, cells in figures.items()]
    lines = "".join(rendered(table, width) for table in tables([columns[:5], columns[5:]], width)).splitlines()
    assert max(map(len, lines)) <= width
    assert not any("…" in line for line in lines)
    words = {word for line in lines for word in line.split()}
    assert {cell for cells in figures.values() for cell in cells} <= words


@pytest.mark.deep
@pytest.mark.parametrize("columns", [80, 60])
def test_output_fits_the_terminal(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    rng: np.random.Generator,
    columns: int,
) -> None:
    """Commands print no line that is wider, and cut none."""
    from rich.cells import cell_len

    monkeypatch.setenv("COLUMNS", str(columns))
    beir = Path("beir")
    beir.mkdir()
    words = [f"word{i}" for i in range(60)]
    docs = [" ".join(rng.choice(words, 12)) for _ in range(200)]
    (beir / "corpus.jsonl").write_text(
        "".join(json.dumps({"_id": f"d{i}", "title": f"title of {t}", "text": t}) + "\n" for i, t in enumerate(docs))
    )
    (beir / "queries.jsonl").write_text(
        "".join(json.dumps({"_id": f"q{i}", "text": " ".join(rng.choice(words, 3))}) + "\n" for i in range(8))
    )
    (beir / "qrels.tsv").write_text(
        "query-id\tcorpus-id\tscore\n" + "".join(f"q{i}\td{j}\t1\n" for i in range(8) for j in range(i, i + 9))
    )
    long = "sequential:mu=0.3,eta=0.4,documents=maxscore"
    for command in (
        ["index", "beir", "b.segmax", "--num-clusters", "9"],
        ["tune", "b.segmax", "beir", "-k", "10"],
        ["encode", "beir", "v.npz"],
        ["convert", "v.npz", "v.jsonl"],
        ["build", "v.npz", "v.segmax"],
        ["search", "b.segmax", "word1 word2"],
        ["inspect", "b.segmax"],
        ["evaluate", "b.segmax", "--data", "beir", "--passes", "1"],
        ["evaluate", "b.segmax", "--data", "beir", "--passes", "1", "-k", "1000", "--methods", "exhaustive", long],
        ["experiment", "baselines", "--data", "beir", "--quick"],
        ["experiment", "example"],
        ["experiment", "bounds", "--data", "beir", "--quick"],
    ):
        assert main(command) == 0
        shown = capsys.readouterr().out
        assert max(cell_len(line) for line in shown.splitlines()) <= columns, (command, shown)
        if command[0] != "search":  # which cuts passages out of texts
            assert "…" not in shown


@pytest.mark.parametrize("columns", [80, 60, 30])
def test_long_titles_are_indented(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    """Only ranks, which stand in the first columns, and the last line start at the left."""
    monkeypatch.setenv("COLUMNS", str(columns))
    title = "vitamin " + " ".join(f"word{number}" for number in range(20)) + " " + "long" * 30
    Path("long.jsonl").write_text(
        "".join(json.dumps({"_id": f"d{i}", "title": title, "text": "vitamin sun"}) + "\n" for i in range(3))
    )
    segmax.from_texts("long.jsonl", path="long.segmax").close()
    assert main(["search", "long.segmax", "vitamin"]) == 0
    shown = capsys.readouterr().out
    lines = shown[: shown.index("3 documents")].splitlines()
    assert [line[:5] for line in lines if line[:5].strip()] == ["  1  ", "  2  ", "  3  "]
    assert max(map(len, lines)) <= columns
    assert "".join(shown.split()).count("".join(title.split())) == 3


def test_t_tests_are_shown_where_something_differs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Methods that give the same for every query have no line, and no table if that is so for all."""
    docs = random_docs(np.random.default_rng(3), 400, 40)
    sp.save_npz("docs.npz", docs)
    sp.save_npz("queries.npz", docs[:20])
    Path("qrels.txt").write_text("".join(f"{i} 0 {j} 1\n" for i in range(20) for j in range(i, i + 5)))
    assert main(["build", "docs.npz", "v.segmax", "--num-clusters", "20"]) == 0
    capsys.readouterr()
    asked = ["evaluate", "v.segmax", "--queries", "queries.npz", "--qrels", "qrels.txt", "--passes", "1", "--methods"]
    assert main([*asked, "exhaustive", "asc", "maxscore"]) == 0
    shown = capsys.readouterr().out
    assert "No t-tests" in shown
    assert "corrected p" not in shown
    assert main([*asked, "exhaustive", "asc", "anytime:max_clusters=1"]) == 0
    tests = capsys.readouterr().out.partition("paired t-tests against exhaustive")[2]
    assert re.search(r"^anytime:max_clusters=1 +\S+@10", tests, re.MULTILINE)
    assert re.search(r"^asc ", tests, re.MULTILINE) is None
    assert "the same as exhaustive for every query: asc" in tests


@pytest.mark.parametrize("columns", [80, 60])
def test_progress_bars_fit(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    """Bars are shortened, not their figures, on a narrow terminal."""
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main(["index", "corpus.jsonl", "out", "--progress"]) == 0
    shown = capfd.readouterr().err
    assert re.search(r"3/3 +documents", shown)
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= columns
