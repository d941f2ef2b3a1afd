"""From text to results: in one line of Python, and in two commands."""

from __future__ import annotations

import gzip
import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import segmax
from segmax.cli import main
from segmax.demo import FOLDER
from segmax.io import read_queries

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
    index = segmax.build_from_texts(
        ["the copper waveguide", {"id": "x", "title": "Noise", "text": "of diodes"}, {"text": "nothing else"}]
    )
    hits = index.search("diode noise")
    assert (hits.ids, hits.texts) == (["x"], [("Noise", "of diodes")])
    assert [hits.ids for hits in index.search_batch(["copper", "nothing at all"])] == [["0"], ["2"]]
    assert len(index.search("words that nobody wrote")) == 0


def test_scores_are_bm25(corpus: Path) -> None:
    """What the index finds for text is what the vectors of the encoder say, on disk as in memory."""
    encoder = BM25(k1=0.9, b=0.4, language=None, stopwords=None)
    index = segmax.build_from_texts(corpus, encoder=encoder, path="index", config=segmax.BuildConfig(bits=16))
    with segmax.open("index") as opened:
        for text in ("microwave noise", "Noise of diodes at low temperatures", "a"):
            expected = index.search(encoder.encode_queries([text]))
            hits = opened.search(text)  # the index made its encoder from what it keeps
            assert (hits.ids, hits.scores.tolist()) == (expected.ids, expected.scores.tolist())
        assert opened.encoder.vocabulary == encoder.vocabulary


def test_vaswani_from_its_text() -> None:
    """The collection that ships gives what bm25s gives: the same best document for nearly all queries."""
    import bm25s
    import Stemmer

    queries = read_queries(FOLDER / "queries.jsonl.gz")
    index = segmax.build_from_texts(FOLDER, keep_texts=False, config=segmax.BuildConfig(bits=16, calibrate=False))
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
    with pytest.raises(segmax.InputError, match="does not know what made its vectors"):
        index.search("copper")
    index.encoder = BM25.of_vocabulary(["copper", "noise"], language=None)
    assert index.search("noise").ids == [1]


@pytest.mark.parametrize("texts", [7, {"text": "a"}, b"bytes"])
def test_wrong_texts(texts: object) -> None:
    """What no collection of texts is."""
    with pytest.raises(segmax.InputError, match="expected texts as a path"):
        segmax.build_from_texts(texts)
    with pytest.raises(segmax.InputError, match="for document 1, got int"):
        segmax.build_from_texts(["a", 7])


# --- commands --------------------------------------------------------------------------------------------------------


def test_index_and_search(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two commands from a BEIR folder to a run."""
    assert main(["index", "beir", "out", "--k1", "0.9", "--b", "0.4"]) == 0
    assert "built 'out'" in capsys.readouterr().out
    assert main(["search", "out", "beir/queries.jsonl", "-k", "2", "--tag", "mine"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    with segmax.open("out") as index:
        expected = [
            [name, "Q0", str(hit.doc_id), str(rank), f"{hit.score:.6g}", "mine"]
            for name, text in (("q1", "microwave noise"), ("q2", "copper"))
            for rank, hit in enumerate(index.search(text, k=2), start=1)
        ]
        assert index.encoder.k1 == 0.9  # type: ignore[attr-defined]
    assert lines == expected
    assert [line[2] for line in lines] == ["d3", "d1", "d1"] or [line[2] for line in lines] == ["d3", "d2", "d1"]


def test_search_shows_texts(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One query: title and text, or JSON."""
    assert main(["index", "beir", "out"]) == 0
    capsys.readouterr()
    assert main(["search", "out", "-q", "copper waveguides"]) == 0
    shown = capsys.readouterr().out
    assert "d1" in shown
    assert "A waveguide of copper carries microwaves." in shown
    assert main(["search", "out", "-q", "copper waveguides", "--json", "-k", "1"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["query"] == "copper waveguides"
    assert told["hits"][0]["title"] == "Waveguides"


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
    """Vectors are recognised; what is about texts is refused."""
    lines = [{"id": f"v{i}", "contents": "", "vector": {"copper": i + 1, "noise": 3}} for i in range(4)]
    Path("vectors.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert main(["index", "vectors.jsonl", "out"]) == 0
    with segmax.open("out") as index:
        assert index.search({"copper": 1.0}, k=1).ids == ["v3"]
    capsys.readouterr()
    assert main(["index", "vectors.jsonl", "other", "--k1", "0.9"]) == 2
    assert "--k1 is about texts, and 'vectors.jsonl' holds vectors" in capsys.readouterr().err
