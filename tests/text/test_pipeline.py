"""From text to results: in one line of Python, and in two commands."""

from __future__ import annotations

import gzip
import io
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import segmax
from conftest import clusters_of, refused
from segmax.cli.main import main
from segmax.clustering import Dense, Pooled
from segmax.demo import FOLDER
from segmax.errors import ConfigError, InputError, SegmaxWarning
from segmax.io import Document, VectorBatch, read_queries
from segmax.text.documents import KeptTexts

pytest.importorskip("bm25s")
pytest.importorskip("Stemmer")

from segmax.encoders import BM25

TEXTS = {
    "d1": ("Waveguides", "A waveguide of copper carries microwaves."),
    "d2": ("Diodes", "Noise of diodes at low temperatures"),
    "d3": ("", "Microwave noise, measured in waveguides"),
}


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a BEIR folder."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "beir"
    folder.mkdir()
    lines = [json.dumps({"_id": name, "title": title, "text": text}) for name, (title, text) in TEXTS.items()]
    (folder / "corpus.jsonl").write_text("\n".join(lines) + "\n")
    queries = [{"_id": "q1", "text": "microwave noise"}, {"_id": "q2", "text": "copper"}]
    (folder / "queries.jsonl").write_text("".join(json.dumps(query) + "\n" for query in queries))
    return folder


def test_texts_in_one_line() -> None:
    """Strings, mappings and documents; results come back with their texts."""
    index = segmax.from_texts(
        ["the copper waveguide", {"title": "Noise", "text": "of diodes"}, {"text": "nothing else"}]
    )
    hits = index.search("diode noise")
    assert (hits.ids, hits.texts) == (["1"], [("Noise", "of diodes")])
    assert [hits.ids for hits in index.search_batch(["copper", "nothing at all"])] == [["0"], ["2"]]
    assert len(index.search("words that nobody wrote")) == 0


def test_scores_are_bm25(corpus: Path) -> None:
    """What the index finds for text is what the vectors of the encoder say, on disk as in memory."""
    encoder = BM25(k1=0.9, b=0.4, language=None, stopwords=None)
    index = segmax.from_texts(corpus, encoder=encoder, path="index", config=segmax.BuildConfig(bits=16))
    with segmax.open("index") as opened:
        for text in ("microwave noise", "Noise of diodes at low temperatures", "a"):
            expected = index.search(encoder.encode_queries([text]))
            hits = opened.search(text)  # the index made its encoder from what it keeps
            assert (hits.ids, hits.scores.tolist()) == (expected.ids, expected.scores.tolist())
        assert opened.encoder.vocabulary == encoder.vocabulary


@pytest.mark.deep
def test_vaswani_from_its_text() -> None:
    """The collection that ships gives what bm25s gives: the same best document for nearly all queries."""
    import bm25s
    import Stemmer

    queries = read_queries(FOLDER / "queries.jsonl.gz")
    index = segmax.from_texts(FOLDER, keep_texts=False, config=segmax.BuildConfig(bits=16, calibrate=False))
    assert index.texts is None
    with gzip.open(FOLDER / "corpus.jsonl.gz", "rt") as file:
        texts = [json.loads(line)["text"] for line in file]
    stemmer = Stemmer.Stemmer("english")
    retriever = bm25s.BM25()
    retriever.index(bm25s.tokenize(texts, stemmer=stemmer, show_progress=False), show_progress=False)
    tokens = bm25s.tokenize(queries.texts, stemmer=stemmer, show_progress=False)
    rows, _ = retriever.retrieve(tokens, k=1, show_progress=False)
    found = index.search_batch(list(queries.texts or []), k=1)
    assert np.mean(found.rows[:, 0] == rows[:, 0]) > 0.97


def test_an_index_that_knows_no_encoder() -> None:
    """Says so, and takes one that is assigned."""
    index = segmax.build(sp.csr_matrix([[1.0, 0.0], [0.0, 2.0]]), terms=["copper", "noise"])
    with refused(InputError, expected="an encoder", got="not know what made its vectors", hint="{encoder=.*}"):
        index.search("copper")
    index.encoder = BM25.of_vocabulary(["copper", "noise"], language=None)
    assert index.search("noise").ids == [1]


@pytest.mark.parametrize("texts", [7, {"text": "a"}, b"bytes"])
def test_wrong_texts(texts: object) -> None:
    """What no collection of texts is."""
    with refused(InputError, expected="texts as a path"):
        segmax.from_texts(texts)
    with refused(InputError, where="document 1", expected="a string, a Document or a mapping with 'text'", got="int"):
        segmax.from_texts(["a", 7])


@pytest.mark.parametrize(
    ("text", "expected", "got"),
    [
        ({"title": 5}, "a string as title", "int"),
        ({"title": ["a"]}, "a string as title", "list"),
        ({"id": 1.5}, "an id as string or whole number under ", r"1\.5"),
        ({"_id": None}, "an id as string or whole number under ", "null"),
        ({"id": True}, "an id as string or whole number under ", "True"),
    ],
)
def test_titles_are_strings_and_ids_strings_or_numbers(text: dict[str, Any], expected: str, got: str) -> None:
    """Other values are refused, with the place of the document."""
    with refused(InputError, where="^document 1$", expected=expected, got=got):
        segmax.from_texts(["a pear", {"text": "apple", **text}])
    index = segmax.from_texts([{"id": 7, "title": None, "text": "apple"}, {"id": np.int64(8), "text": "pear"}])
    assert index.search("pears").ids == ["8"]


def test_empty_texts_are_found_by_nothing() -> None:
    """An index of texts without a word answers, with nothing."""
    with pytest.warns(SegmaxWarning, match="all 2 documents are empty"):
        index = segmax.from_texts(["", "the"])
    assert index.search("apple").ids == []
    assert [hits.ids for hits in index.search_batch(["apple", ""])] == [[], []]


def test_counting_words_sends_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """BM25 sends updates while it counts words; stages follow one another, each to its end."""
    monkeypatch.setattr("segmax.encoders.bm25._PIECE_DOCS", 10)
    steps: list[segmax.typing.BuildProgress] = []
    segmax.from_texts([f"word{number % 7} again" for number in range(35)], progress=steps.append)
    counts = [step for step in steps if step.stage == "count"]
    assert [(step.done, step.total) for step in counts] == [(0, 35), (10, 35), (20, 35), (30, 35), (35, 35), (35, 35)]
    reads = [step for step in steps if step.stage == "read"]
    assert (reads[0].done, reads[0].total, reads[-1].done) == (0, 35, 35)
    order = [step.stage for step in steps]
    assert order == sorted(order, key=lambda stage: order.index(stage))


# --- clusters by embeddings ------------------------------------------------------------------------------------------


class Colors:
    """A model without torch: every word is a column, and the embedding has how often "red" and "blue" occur."""

    def __init__(self, pooling: tuple[str, ...] = ("max",)) -> None:
        self.pooling = pooling
        self.vocabulary = [f"w{number}" for number in range(50)]

    def encode_documents(self, batches: Iterable[Sequence[Document]]) -> Iterator[VectorBatch]:
        for batch in batches:
            dense = np.array([(doc.text.count("red"), doc.text.count("blue")) for doc in batch], dtype=np.float32)
            vectors = self.encode_queries([doc.whole for doc in batch])
            yield VectorBatch([doc.id for doc in batch], vectors, dict.fromkeys(self.pooling, dense))

    def encode_queries(self, batch: Sequence[str]) -> sp.csr_matrix:
        rows = [[float(word in text.split()) for word in self.vocabulary] for text in batch]
        return sp.csr_matrix(np.array(rows, dtype=np.float32))


def colored(count: int = 400) -> list[str]:
    """Texts of random words, half of them red and half blue."""
    rng = np.random.default_rng(5)
    return [
        " ".join(["red", "blue"][row % 2] for _ in range(9)) + "".join(f" w{n}" for n in rng.integers(0, 50, 6))
        for row in range(count)
    ]


@pytest.mark.parametrize("title", [True, False])
def test_clusters_by_embeddings_of_the_same_pass(tmp_path: Path, title: bool) -> None:
    """Pooled embeddings decide clusters as Dense does with the same array, and no scratch file is left."""
    config = segmax.BuildConfig(num_clusters=2, calibrate=False)
    options: dict[str, Any] = {
        "encoder": Colors(),
        "config": config,
        "clustering": Pooled("max", restarts=2),
        "title": title,
    }
    index = segmax.from_texts(colored(), path=tmp_path / "out", **options)
    color = np.arange(400) % 2
    found = clusters_of(index)
    assert (found == color).all() or (found != color).all()
    meta = json.loads((tmp_path / "out" / "meta.json").read_text())
    kinds = {"kind": "pooled", "pooling": "max", "dimensions": None, "bits": None, "restarts": 2, "iterations": 10}
    assert meta["clustering"] == kinds
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    batches = list(Colors().encode_documents([[Document(str(i), "", text) for i, text in enumerate(colored())]]))
    dense = Dense(batches[0].dense["max"], restarts=2)
    plain = segmax.build(batches[0].vectors, clustering=dense, config=config)
    assert (clusters_of(plain) == found).all()
    index.close()


def test_invalid_clusterings_are_refused() -> None:
    """BM25 has no embeddings to pool; an encoder has to pool what is asked for; other words are unknown."""
    texts = colored(4)
    no_cls = {"expected": "by 'cls'", "got": "which pools max", "hint": "make a model with pooling='cls'"}
    wrong: tuple[tuple[str | Pooled, dict[str, Any], dict[str, str]], ...] = (
        ("max", {}, {"option": "^encoder$", "expected": "a model, whose token embeddings", "got": "BM25"}),
        (
            "max",
            {"encoder": BM25()},
            {"option": "^encoder$", "expected": "by 'max'", "got": "BM25.*, which pools none"},
        ),
        ("cls", {"encoder": Colors()}, no_cls),
        (Pooled("cls"), {"encoder": Colors()}, no_cls),
        ("odd", {}, {"option": "^clustering$", "expected": "'sparse' or 'max' or 'mean' or 'cls'", "got": "'odd'"}),
    )
    for clustering, options, parts in wrong:
        with refused(ConfigError, **parts):
            segmax.from_texts(texts, clustering=clustering, **options)
    with refused(ConfigError, option="^restarts$", expected="from 1"):
        Pooled("max", restarts=0)
    with refused(ConfigError, option="^pooling$", expected="'cls' or 'mean' or 'max'", got="'sum'"):
        Pooled("sum")
    with refused(ConfigError, expected="token embeddings pooled by 'max' with every document", got="none"):
        segmax.build(sp.csr_matrix(np.eye(3)), clustering=Pooled("max"))


# --- commands --------------------------------------------------------------------------------------------------------


def test_index_and_search(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two commands from a BEIR folder to a run."""
    assert main(["index", "beir", "out", "--k1", "0.9", "--b", "0.4"]) == 0
    assert "built 'out'" in capsys.readouterr().out
    assert main(["search", "out", "beir/queries.jsonl", "-k", "2", "--tag", "mine"]) == 0
    lines: list[list[object]] = [[*line.split()] for line in capsys.readouterr().out.splitlines()]
    for line in lines:
        line[4] = float(str(line[4]))
    with segmax.open("out") as index:
        expected = [
            [name, "Q0", str(hit.id), str(rank), pytest.approx(hit.score, rel=1e-5), "mine"]
            for name, text in (("q1", "microwave noise"), ("q2", "copper"))
            for rank, hit in enumerate(index.search(text, k=2), start=1)
        ]
        assert index.encoder.k1 == 0.9  # type: ignore[attr-defined]
    assert lines == expected
    assert [line[2] for line in lines] == ["d3", "d1", "d1"]


def test_search_shows_texts(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One query: title and text, or JSON."""
    assert main(["index", "beir", "out"]) == 0
    capsys.readouterr()
    assert main(["search", "out", "-q", "copper waveguides"]) == 0
    shown = capsys.readouterr().out
    assert "d1" in shown
    assert "A waveguide of copper carries microwaves." in shown
    assert main(["search", "out", "-q", "copper waveguides", "--json", "-k", "1"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["query"] == "copper waveguides"
    assert printed["hits"][0]["title"] == "Waveguides"


def test_search_reads_lines(corpus: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without queries and without a terminal, every line of standard input is one."""
    assert main(["index", "beir", "out", "--no-texts"]) == 0
    capsys.readouterr()
    monkeypatch.setattr(sys, "stdin", io.StringIO("copper\n\nnoise\n"))
    assert main(["search", "out", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["query"] for line in lines] == ["copper", "noise"]
    assert "text" not in lines[0]["hits"][0]


def test_index_of_vectors(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Vectors are recognized; what is about texts is refused."""
    lines = [{"id": f"v{i}", "contents": "", "vector": {"copper": i + 1, "noise": 3}} for i in range(4)]
    Path("vectors.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert main(["index", "vectors.jsonl", "out"]) == 0
    with segmax.open("out") as index:
        assert index.search({"copper": 1.0}, k=1).ids == ["v3"]
    capsys.readouterr()
    assert main(["index", "vectors.jsonl", "other", "--k1", "0.9"]) == 2
    expected = "expected --k1 to be left out, because it applies to texts and 'vectors.jsonl' holds vectors"
    assert expected in capsys.readouterr().err


# --- tables and mappings in memory -----------------------------------------------------------------------------------

ANIMALS = {"z": "zebras graze", "w": "whales sing", "b": "bats hang"}


def check_animals(texts: object) -> None:
    """The animals are found under their ids."""
    index = segmax.from_texts(texts)
    assert [index.search(word).ids for word in ("zebra", "whales", "bat")] == [["z"], ["w"], ["b"]]


def test_mappings_of_texts() -> None:
    """Of id to text, or of id to a mapping with the text; one document is no collection."""
    check_animals(ANIMALS)
    check_animals({name: {"title": "", "text": text} for name, text in ANIMALS.items()})
    index = segmax.from_texts({7: {"title": "Apples", "body": "fall"}, "8": "pears"})
    assert index.search("apple").ids == ["7"]
    wrong: tuple[tuple[Any, dict[str, str]], ...] = (
        ({"id": "1", "text": "a"}, {"got": r"one document \(id, text\)", "hint": "put it into a list"}),
        ({"a": None}, {"message": "document 'a': .*null"}),
        ({"a": 5}, {"where": "document 'a'", "expected": "a string or a mapping with 'text'", "got": "int"}),
        (
            {"a": {"id": "b", "text": "c"}},
            {"where": "document 'a'", "expected": "the id that it is called by", "got": "'b'"},
        ),
        ({1.5: "a"}, {"where": r"document 1\.5", "expected": "an id as string or whole number", "got": r"1\.5"}),
        (["a", None], {"where": "document 1", "expected": "a string, a Document or a mapping", "got": "null"}),
    )
    for texts, parts in wrong:
        with refused(InputError, **parts):
            segmax.from_texts(texts)


def test_dataframes_and_series() -> None:
    """Columns under the names that files have; the index has the ids where no column has."""
    pd = pytest.importorskip("pandas")
    names, texts = list(ANIMALS), list(ANIMALS.values())
    for column in ("id", "doc_id", "_id", "docno"):
        check_animals(pd.DataFrame({column: names, "text": texts, "year": [1, 2, 3]}))
    check_animals(pd.DataFrame({"text": texts}, index=names))
    check_animals(pd.Series(texts, index=names))
    check_animals(pd.DataFrame({"id": names, "title": texts, "text": [None, float("nan"), pd.NA]}))
    frame = pd.DataFrame({"text": ["old", *texts]})
    assert segmax.from_texts(frame[frame.text != "old"]).search("bats").ids == ["3"]
    index = segmax.from_texts(pd.DataFrame({"id": [1, 2], "title": ["Apples", None], "text": ["fall", "pears"]}))
    assert index.search("apple").ids == ["1"]
    for missing in (None, float("nan"), pd.NA):
        with refused(InputError, message="row 1 of the DataFrame: .*null"):
            segmax.from_texts(pd.DataFrame({"text": ["a", missing]}))
        with refused(InputError, message="row 1 of the Series: .*null"):
            segmax.from_texts(pd.Series(["a", missing]))
        with refused(InputError, where="row 1 of the DataFrame", expected="an id", got="null"):
            segmax.from_texts(pd.DataFrame({"id": ["a", missing], "text": ["a", "b"]}))
    row = "row 0 of the DataFrame"
    twice = pd.DataFrame([["a", "b"]], columns=["text", "text"])
    for frame, where, expected, got in (
        (pd.DataFrame({"words": ["a"]}), "", r"a DataFrame with a column of texts \(text, ", "words"),
        (twice, "", "every column of the DataFrame once", "'text'"),
        (pd.DataFrame({"id": [1, 2.5], "text": ["a", "b"]}), row, "an id", r"1\.0"),
        (pd.DataFrame({"text": [1, 2]}), row, "a string as text", "int"),
    ):
        with refused(InputError, where=where, expected=expected, got=got):
            segmax.from_texts(frame)


def test_queries_by_id() -> None:
    """Mappings and tables of queries keep their ids, and are asked by their texts."""
    index = segmax.from_texts(ANIMALS)
    qrels = {"q1": {"z": 1}, "q2": {"w": 1}}
    texts = {"q1": "zebra", "q2": "whale"}

    def check(queries: object) -> None:
        found = segmax.evaluate(index, queries, qrels, methods=["exhaustive"], passes=1)
        assert found["exhaustive"].relevance["MRR@10"] == 1.0
        assert found.num_queries == 2

    check(texts)
    check(
        {name: {index.terms[int(index.encoder.encode_queries([text]).indices[0])]: 1.0} for name, text in texts.items()}
    )  # type: ignore[index]
    pd = pytest.importorskip("pandas")
    for name, text in (("qid", "query"), ("query_id", "text"), ("id", "query")):
        check(pd.DataFrame({name: list(texts), text: list(texts.values())}))
    check(pd.Series(texts))
    rows = pd.DataFrame([(q, d, grade) for q, grades in qrels.items() for d, grade in grades.items()])
    found = segmax.evaluate(index, texts, rows.set_axis(["qid", "docno", "label"], axis=1), methods=["asc"], passes=1)
    assert found["asc"].relevance["MRR@10"] == 1.0
    with refused(InputError, expected="judgments with the columns qid, docno and label", got="0, 1, 2"):
        segmax.evaluate(index, texts, rows)
    wrong: tuple[tuple[Any, dict[str, str]], ...] = (
        ({"zebra": 1.0}, {"got": "one query, terms with weights", "hint": "put it into a list"}),
        ({"q1": None}, {"where": "query 'q1'", "expected": "a text or a vector", "got": "null"}),
        ({"q1": "zebra", "q2": {"whale": 1}}, {"expected": "all texts, or all vectors", "got": "both"}),
        (pd.DataFrame({"qid": ["q1"], "query": [None]}), {"message": "row 0 of the DataFrame: .*null"}),
        (pd.DataFrame({"qid": ["q1"], "words": ["a"]}), {"expected": "a DataFrame with a column of texts"}),
    )
    for queries, parts in wrong:
        with refused(InputError, **parts):
            segmax.evaluate(index, queries, qrels)


# --- what `segmax index` reads ---------------------------------------------------------------------------------------


def found_ids(*words: str) -> list[list[object]]:
    """What is found in the index that was just built."""
    with segmax.open("out") as index:
        return [index.search(word).ids for word in words]


def test_index_of_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """CSV, a JSON array, a folder, and several files; what has no ids is numbered, which is said once."""
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("doc_id,text\nz,zebras graze\n")
    Path("b.json").write_text('[{"id": "w", "text": "whales sing"}]')
    assert main(["index", "a.csv", "b.json", "out"]) == 0
    assert found_ids("zebra", "whale") == [["z"], ["w"]]
    assert "numbered" not in capsys.readouterr().err
    Path("notes").mkdir()
    Path("notes/z.md").write_text("# Zebras\n\ngraze")
    assert main(["index", "notes", "out", "--overwrite"]) == 0
    assert found_ids("zebra") == [["z.md"]]
    Path("none.jsonl").write_text('{"text": "bats"}\n{"text": "zebras"}\n')
    capsys.readouterr()
    assert main(["index", "none.jsonl", "out", "--overwrite"]) == 0
    assert capsys.readouterr().err.count("the texts have no ids; documents are numbered from 0") == 1
    assert found_ids("zebra") == [["1"]]


def test_index_of_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Texts or vectors, compressed or not; nothing is left beside the index, and messages have its name."""
    monkeypatch.chdir(tmp_path)
    vectors = b'{"id": "z", "vector": {"zebra": 1}}\n'
    for content in (b'{"id": "z", "text": "zebras"}\n', gzip.compress(b"id,text\nz,zebras\n"), vectors):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        assert main(["index", "-", "out", "--overwrite"]) == 0
        with segmax.open("out") as index:
            assert index.search({"zebra": 1.0}).ids == ["z"]
        assert [entry.name for entry in tmp_path.iterdir()] == ["out"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"id": "z", "text": null}\n')))
    capsys.readouterr()
    assert main(["index", "-", "new"]) == 2
    assert "segmax: error: standard input, line 1: text is null" in capsys.readouterr().err


def test_unknown_input_of_index_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message has what it takes."""
    monkeypatch.chdir(tmp_path)
    Path("image.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    assert main(["index", "image.png", "out"]) == 2
    message = capsys.readouterr().err
    for name in ("a BEIR folder", "lines of JSON", "a JSON array", "CSV", "TSV", ".txt", ".md", "parquet", "CIFF"):
        assert name in message
    Path("docs.jsonl").write_text('{"id": 1, "text": "a"}\n')
    Path("vectors.jsonl").write_text('{"id": 1, "vector": {"a": 1}}\n')
    assert main(["index", "docs.jsonl", "vectors.jsonl", "out"]) == 2
    assert "got both: 'vectors.jsonl' holds vectors, and 'docs.jsonl' does not" in capsys.readouterr().err
    assert main(["index", "docs.jsonl"]) == 2
    assert "expected IN [IN ...] OUT, got docs.jsonl" in capsys.readouterr().err
    Path("docs.jsonl").write_text('{"id": 1, "text": "a"}\n{"id": 2, "text": "b"}\n{"id": "1", "text": "c"}\n')
    assert main(["index", "docs.jsonl", "out"]) == 2
    message = capsys.readouterr().err
    assert "'docs.jsonl', line 3: expected every id once, got '1' again, first at 'docs.jsonl', line 1" in message
    assert not Path("out").exists()


@pytest.mark.parametrize("value", ["1_000", "\u0661\u0660", "inf", "nan", " 5", "0x10", ""])
def test_numbers_of_flags_are_plain(corpus: Path, capsys: pytest.CaptureFixture[str], value: str) -> None:
    """What int() and float() take besides digits is a mistake."""
    for flag in ("--k1", "--num-clusters"):
        assert main(["index", "beir", "out", f"{flag}={value}"]) == 2
        assert f"{flag}: expected a" in capsys.readouterr().err
    for text in (f"top-terms={value}x", f"mass-share={value or 'x'}"):
        if value != " 5":
            assert main(["index", "beir", "out", f"--pruning={text}"]) == 2
            assert "number as in" in capsys.readouterr().err
    assert not Path("out").exists()


# --- one reading -----------------------------------------------------------------------------------------------------


class Readings:
    """Texts that count how often they are read."""

    def __init__(self, texts: list[str]) -> None:
        self.num_docs: int | None = None
        self.count = 0
        self._texts = texts

    def __iter__(self) -> Iterator[str]:
        self.count += 1
        return iter(self._texts)


@pytest.mark.parametrize("encoder", ["bm25", Colors()])
def test_texts_are_read_once(encoder: Any) -> None:
    """They are encoded and stored in one reading, whatever the encoder; generators will do."""
    texts = Readings([f"red w1 größe {row}" for row in range(40)])
    index = segmax.from_texts(texts, encoder=encoder)
    assert texts.count == 1
    again = segmax.from_texts((text for text in texts), encoder=encoder)
    for built in (index, again):
        assert [built.text(str(row)).text for row in (0, 3, 39)] == [texts._texts[row] for row in (0, 3, 39)]


def test_kept_texts_come_back_as_they_were(tmp_path: Path) -> None:
    """Titles, lone surrogates and empty texts survive the scratch file, of which nothing is left."""
    docs = [Document(str(row), "t" * row, "x\ud800\n" * row) for row in range(9)]
    with KeptTexts(docs, tmp_path) as kept:
        assert list(kept) == docs
        assert list(kept.texts()) == [(doc.title, doc.text) for doc in docs]
    assert list(tmp_path.iterdir()) == []
