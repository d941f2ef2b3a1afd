"""From texts to an index in two commands, errors before any work is done, and completion of file names."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import segmax
from conftest import refused
from encoding_samples import documents, stored
from segmax.base.errors import ConfigError
from segmax.cli import encode
from segmax.cli.main import main
from segmax.io import open_vectors

pytest.importorskip("bm25s")
pytest.importorskip("Stemmer")

from segmax.encoders import BM25
from segmax.io import Document
from segmax.text import encode_texts

TEXTS = {
    "d1": ("Waveguides", "A waveguide of copper carries microwaves."),
    "d2": ("Diodes", "Noise of diodes at low temperatures"),
    "d3": ("", "Microwave noise, measured in waveguides"),
}
QUERIES = {"q1": "microwave noise", "q2": "copper copper"}
TOPICS = """\
<top>
<num> Number: 301
<title> microwave noise
<desc> Description:
diodes
</top>
<top>
<num> Number: 302
<title> copper
</top>
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a BEIR folder, topics, and BM25 of the documents."""
    monkeypatch.chdir(tmp_path)
    Path("beir").mkdir()
    lines = [json.dumps({"_id": name, "title": title, "text": text}) for name, (title, text) in TEXTS.items()]
    Path("beir/corpus.jsonl").write_text("\n".join(lines) + "\n")
    lines = [json.dumps({"_id": name, "text": text}) for name, text in QUERIES.items()]
    Path("beir/queries.jsonl").write_text("\n".join(lines) + "\n")
    Path("topics.txt").write_text(TOPICS)
    assert main(["encode", "beir", "docs.npz"]) == 0
    return tmp_path


def failure(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The line that a command ends with."""
    capsys.readouterr()
    assert main(list(arguments)) == 2
    return capsys.readouterr().err.removeprefix("segmax: error: ").rstrip("\n")


def vectors(path: str) -> tuple[list[str], list[dict[str, float]]]:
    """Ids, and vectors by word."""
    reader = open_vectors(path)
    ids, rows = [], []
    for batch in reader.batches():
        ids += batch.ids
        for row in range(batch.vectors.num_rows):
            span = slice(batch.vectors.indptr[row], batch.vectors.indptr[row + 1])
            rows.append((batch.vectors.indices[span], batch.vectors.values[span]))
    terms = reader.terms or []
    return ids, [{terms[i]: float(v) for i, v in zip(*row, strict=True)} for row in rows]


def write_corpus(path: Path, docs: list[Document]) -> None:
    """A BEIR file."""
    lines = [json.dumps({"_id": doc.id, "title": doc.title, "text": doc.text}) + "\n" for doc in docs]
    path.write_text("".join(lines), encoding="utf-8")


def run(*arguments: str) -> None:
    """Run the command as the command line does."""
    encode.run(encode.parser().parse_intermixed_args(list(arguments)))


# --- documents -------------------------------------------------------------------------------------------------------


def test_the_command_encodes_documents_and_queries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Options reach the encoder; the saved encoder encodes queries."""
    monkeypatch.chdir(tmp_path)
    docs = documents(40)
    write_corpus(Path("corpus.jsonl"), docs)
    run(
        "corpus.jsonl",
        "docs.npz",
        "--k1",
        "0.9",
        "--b",
        "0.4",
        "--language",
        "none",
        "--no-title",
        "--stopwords",
        "none",
    )
    printed = capsys.readouterr().out
    assert "docs.npz: 40 documents" in printed
    assert "docs.bm25: the encoder" in printed
    plain = BM25(k1=0.9, b=0.4, language=None, stopwords=None)
    untitled = [[doc._replace(title="") for doc in docs]]
    plain.fit(untitled)
    (batch,) = plain.encode_documents(untitled)
    found = stored(Path("docs.npz"))
    assert found.ids == [doc.id for doc in docs]
    assert found.terms == plain.vocabulary
    assert abs(found.vectors - batch.matrix()).max() == 0
    write_corpus(Path("queries.jsonl"), [Document("q", "", f"{plain.vocabulary[0]} {plain.vocabulary[0]}")])
    run("queries.jsonl", "queries.npz", "--queries", "--encoder", "docs.bm25")
    assert "1 query," in capsys.readouterr().out
    assert stored(Path("queries.npz")).vectors.toarray()[0, 0] == 2


def test_the_command_refuses_files_that_do_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong numbers, and options that an encoder does not have."""
    monkeypatch.chdir(tmp_path)
    write_corpus(Path("corpus.jsonl"), documents(3))
    with refused(ConfigError, message="--k1: expected a number, got 'much'", hint="see segmax encode --help"):
        run("corpus.jsonl", "docs.npz", "--k1", "much")
    unknown = {"where": "^bm25$", "option": "^batch_size$", "expected": r"left out \(its options are k1, b", "got": "3"}
    with refused(ConfigError, **unknown):
        run("corpus.jsonl", "docs.npz", "--batch-size", "3")
    with refused(ConfigError, option="^encoder$", expected="a model, whose token embeddings can be pooled", got="BM25"):
        run("corpus.jsonl", "docs.npz", "--dense", "max")
    with refused(ConfigError, expected="the folder of a model", got=r"'\./nowhere', which does not exist"):
        run("corpus.jsonl", "docs.npz", "--encoder", "./nowhere")


@pytest.mark.parametrize(
    "limit", [10, *(pytest.param(larger, marks=pytest.mark.deep) for larger in (1000, 20_000)), 60_000]
)
def test_a_file_that_may_not_grow(tmp_path: Path, limit: int) -> None:
    """With a limit on the size of files, which stands for a full disk, the command ends with one line."""
    corpus = tmp_path / "corpus.jsonl"
    lines = (json.dumps({"_id": str(i), "text": f"word{i} " * 20 + f"more{i * 7}"}) for i in range(3000))
    corpus.write_text("\n".join(lines) + "\n")
    program = (
        "import resource, signal, sys; from segmax.cli import main; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1]))); "
        "sys.exit(main(['encode', sys.argv[2], sys.argv[3]]))"
    )
    command = [sys.executable, "-c", program, str(limit), str(corpus), str(tmp_path / "docs.npz")]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 2, result.stderr
    assert result.stderr.startswith("segmax: error: could not write")
    assert result.stderr.count("\n") == 1


# --- queries ---------------------------------------------------------------------------------------------------------


def test_queries_of_a_beir_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --queries a BEIR folder gives its queries, not its corpus."""
    assert main(["encode", "beir", "queries.npz", "--queries", "--encoder", "docs.bm25"]) == 0
    assert "2 queries" in capsys.readouterr().out
    assert vectors("queries.npz") == (["q1", "q2"], [{"microwav": 1.0, "nois": 1.0}, {"copper": 2.0}])


def test_queries_of_topics(folder: Path) -> None:
    """TREC topics give their titles, not a query per line."""
    assert main(["encode", "topics.txt", "queries.npz", "--queries", "--encoder", "docs.bm25"]) == 0
    assert vectors("queries.npz") == (["301", "302"], [{"microwav": 1.0, "nois": 1.0}, {"copper": 1.0}])


def test_queries_are_resumed(folder: Path) -> None:
    """What an interrupted run has of the queries is used; other queries are refused."""

    def stopping() -> Iterator[Document]:
        yield Document("q1", "", QUERIES["q1"])
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("segmax.text.shards.batched", lambda documents: ([doc] for doc in documents))
        with pytest.raises(KeyboardInterrupt):
            encode_texts(BM25.load("docs.bm25"), stopping(), "queries.npz", queries=True, shard_seconds=0)
    assert Path("queries.npz.encoding").is_dir()
    assert main(["encode", "topics.txt", "queries.npz", "--queries", "--encoder", "docs.bm25"]) == 2
    assert main(["encode", "beir", "queries.npz", "--queries", "--encoder", "docs.bm25"]) == 0
    assert vectors("queries.npz")[0] == ["q1", "q2"]
    assert not Path("queries.npz.encoding").exists()


def test_queries_without_texts_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Files that hold vectors only are refused as queries to encode."""
    Path("vectors.jsonl").write_text('{"id": "q1", "vector": {"copper": 2}}\n')
    for name in ("vectors.jsonl", "docs.npz"):
        message = failure(capsys, "encode", name, "out.npz", "--queries", "--encoder", "docs.bm25")
        assert message.startswith(f"'{name}': expected queries with texts to encode, got vectors")


# --- errors before any work is done ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "out.odd",
            "expected a format out of npz, jsonl, seismic-jsonl, ciff, csr, seismic, parquet, tokens, got the name",
        ),
        ("out.odd", "say which with --to FORMAT"),
        ("out.npz --to odd", "argument --to: invalid choice: 'odd'"),
        (
            "out.ciff",
            "expected --scale to be one that rounds, because ciff holds whole numbers, got none; choose --scale x100",
        ),
        ("out.tsv", "because tokens holds whole numbers, got none"),
        ("out.ciff --scale /100", "because ciff holds whole numbers, got '/100'"),
        ("out.npz --scale odd", "expected --scale to be one of 'none', 'impacts'"),
        ("none/out.npz", "expected an existing directory to put the file in, got 'none'"),
        ("beir", "expected a format out of"),
        ("docs.npz", "'docs.npz' exists"),
        ("out.npz --queries", "got one that has learned from none; fit it, or load one that was saved"),
        ("out.npz --queries", "--encoder docs.bm25"),
        ("out.npz --dense max", "expected --encoder to be a model, whose token embeddings can be pooled"),
        ("out.npz --dense max --queries", "expected --dense to be left out with --queries, which encodes no documents"),
    ],
)
def test_refused_before_anything_is_encoded(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: str, message: str
) -> None:
    """An output that cannot be written is an error at once, which names flags, and nothing is created."""
    before = sorted(path.name for path in folder.rglob("*"))
    assert message in failure(capsys, "encode", "beir", *arguments.split())
    assert sorted(path.name for path in folder.rglob("*")) == before


def test_whole_numbers(folder: Path) -> None:
    """A scale that rounds makes weights whole numbers; the counts of BM25's queries are some already."""
    assert main(["encode", "beir", "scaled.ciff", "--scale", "x100"]) == 0
    assert main(["encode", "beir", "queries.tsv", "--queries", "--encoder", "docs.bm25"]) == 0
    assert Path("queries.tsv").read_text() == "q1\tmicrowav nois\nq2\tcopper copper\n"
    plain, scaled = vectors("docs.npz")[1], vectors("scaled.ciff")[1]
    for one, other in zip(plain, scaled, strict=True):
        assert other == {word: pytest.approx(100 * weight, abs=0.51) for word, weight in one.items()}


def test_another_files_encoder_is_not_replaced(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """docs.jsonl would replace docs.bm25, which belongs to docs.npz: refused, but for --overwrite."""
    before = Path("docs.bm25/bm25.json").read_text()
    message = failure(capsys, "encode", "beir", "docs.jsonl", "--k1", "0.9")
    assert message.startswith(
        "'docs.jsonl': expected no files of its name beside it, got 'docs.bm25', which may belong"
    )
    assert message.endswith("or pass --overwrite")
    assert not Path("docs.jsonl.encoding").exists()
    assert Path("docs.bm25/bm25.json").read_text() == before
    assert main(["encode", "beir", "docs.jsonl", "--k1", "0.9", "--overwrite"]) == 0
    assert BM25.load("docs.bm25").k1 == 0.9


def test_options_reach_the_encoder(folder: Path) -> None:
    """--delta and --no-title reach the encoder, in both commands that encode."""
    flags = ["--method", "bm25l", "--delta", "0.25", "--no-title"]
    assert main(["encode", "beir", "other.npz", *flags]) == 0
    assert BM25.load("other.bm25").delta == 0.25
    assert "diod" in vectors("other.npz")[1][1]
    assert vectors("other.npz")[1][0].keys() == {"waveguid", "copper", "carri", "microwav"}
    assert main(["index", "beir", "other.segmax", *flags]) == 0
    with segmax.open("other.segmax") as index:
        assert index.encoder.delta == 0.25  # type: ignore[attr-defined]
        assert index.texts is not None
        assert index.texts[0].title == "Waveguides"  # kept all the same
        untitled = segmax.from_texts([{"id": name, "text": text} for name, (_, text) in TEXTS.items()])
        assert sorted(index.terms or []) == sorted(untitled.terms or [])


# --- two steps -------------------------------------------------------------------------------------------------------


def test_two_steps_give_the_index_of_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An index of encoded vectors, with encoder and texts, answers text as that of segmax index does."""
    assert main(["index", "beir", "one.segmax"]) == 0
    assert main(["build", "docs.npz", "two.segmax", "--encoder", "docs.bm25", "--texts", "beir"]) == 0
    with segmax.open("one.segmax") as one, segmax.open("two.segmax") as two:
        for query in ("microwave noise", "copper", "nothing of it"):
            first, second = one.search(query), two.search(query)
            assert first.ids == second.ids
            assert first.texts == second.texts
            assert first.scores.tolist() == second.scores.tolist()
    capsys.readouterr()
    assert main(["search", "two.segmax", "-q", "copper"]) == 0
    assert "A waveguide of copper" in capsys.readouterr().out


def test_an_encoder_in_a_configuration_file(folder: Path) -> None:
    """Encoder and texts are options like others."""
    Path("build.toml").write_text("encoder = 'docs.bm25'\ntexts = 'beir/corpus.jsonl'\n")
    assert main(["build", "docs.npz", "out", "--config", "build.toml"]) == 0
    with segmax.open("out") as index:
        assert index.search("copper").ids == ["d1"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--encoder bm25", "expected --encoder to be the BM25 that made the vectors, a folder such as docs.bm25"),
        (
            "--encoder other.bm25",
            "expected vectors that the encoder made, with its 2 terms in their order, got 'waveguid'",
        ),
        ("--encoder ./none", "an encoder: expected the folder of a model, or a name on the hub, got './none', which"),
        (
            "--encoder docs.bm25 --top-n 3",
            "docs.bm25: expected --top-n to be left out (its options are workers), got 3",
        ),
        ("--top-n 3", "expected --top-n to be left out without a model, got 3; name the model with --encoder"),
        ("--texts fewer.jsonl", "expected 3 texts, one per document, got 2"),
        ("--texts more.jsonl", "expected 3 texts, one per document, got 4"),
        ("--texts swapped.jsonl", "'swapped.jsonl': expected the text of document 'd1' in place 0, got 'd2'"),
        ("--texts none.jsonl", "there is no file 'none.jsonl'"),
    ],
)
def test_parts_that_do_not_belong_together_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: str, message: str
) -> None:
    """Another encoder, other texts, or those in another order are refused, and no index is left."""
    lines = Path("beir/corpus.jsonl").read_text().splitlines(keepends=True)
    extra = '{"_id": "d4", "text": "more"}\n'
    for name, chosen in (("fewer", lines[:2]), ("more", [*lines, extra]), ("swapped", [lines[1], lines[0], lines[2]])):
        Path(f"{name}.jsonl").write_text("".join(chosen))
    other = BM25()
    other.fit([[Document("a", "", "entirely different")]])
    other.save("other.bm25")
    assert failure(capsys, "build", "docs.npz", "out", *arguments.split()).startswith(message)
    assert not Path("out").exists()


@pytest.mark.parametrize("command", ["index", "add", "encode"])
def test_stored_is_no_name_where_nothing_is_opened(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What makes vectors anew has no index that names a model, so nothing is asked of a hub, and nothing is written."""
    (tmp_path / "docs.jsonl").write_text('{"id": "a", "text": "one cat"}\n')
    docs, out = str(tmp_path / "docs.jsonl"), str(tmp_path / "out")
    paths = [out, docs] if command == "add" else [docs, out]
    assert main([command, *paths, "--encoder", "stored"]) == 2
    said = capsys.readouterr().err
    assert "expected --encoder to be the name or the folder of an encoder" in said
    assert "where one is opened" in said
    assert not Path(out).exists()


def test_an_encoder_needs_vectors_with_words(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Columns that are only numbers cannot be matched with the words of queries; --terms names them."""
    import scipy.sparse as sp

    sp.save_npz("plain.npz", sp.csr_matrix(np.eye(3, dtype=np.float32)))
    assert "that name their terms by word" in failure(capsys, "build", "plain.npz", "out", "--encoder", "docs.bm25")
    Path("terms.txt").write_text("copper\nnois\ndiod\n")
    assert main(["build", "plain.npz", "out", "--encoder", "docs.bm25", "--terms", "terms.txt"]) == 0
    with segmax.open("out") as index:
        assert index.search("noises").ids == [1]


# --- clusters by embeddings ------------------------------------------------------------------------------------------


def test_bm25_has_no_embeddings_to_cluster_by(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--clustering max needs a model, and excludes other ways to cluster."""
    assert main(["index", "beir", "out", "--clustering", "sparse"]) == 0
    message = failure(capsys, "index", "beir", "other", "--clustering", "max")
    assert message == (
        "expected --encoder to be a model, whose token embeddings can be pooled (cls, mean, max), got BM25"
    )
    message = failure(capsys, "index", "beir", "other", "--clustering", "max", "--dense", "dense.npy")
    assert message == "expected --dense to be left out with --clustering max (it applies to dense), got 'dense.npy'"
    message = failure(capsys, "index", "beir", "other", "--clustering", "odd")
    assert message.startswith(
        "expected --clustering to be 'sparse' or 'dense' or 'labels' or 'cls' or 'mean' or 'max', got 'odd'"
    )
    message = failure(capsys, "index", "docs.npz", "other", "--clustering", "max")
    assert message == (
        "expected --clustering to be left out, because it applies to texts and 'docs.npz' holds vectors, got 'max'"
    )
    assert not Path("other").exists()


# --- completion ------------------------------------------------------------------------------------------------------


def test_bash_completes_names_with_blanks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file name with blanks is one completion, also where its beginning is typed with a backslash."""
    assert main(["completion", "bash"]) == 0
    script = tmp_path / "completion.bash"
    script.write_text(capsys.readouterr().out)
    for name in ("my docs.npz", "my other docs.npz", "plain.npz"):
        (tmp_path / name).touch()

    def completed(word: str) -> list[str]:
        ask = f"source completion.bash; COMP_WORDS=(segmax build '{word}'); COMP_CWORD=2; _segmax; "
        result = subprocess.run(
            ["bash", "-c", ask + 'printf "%s\\n" "${COMPREPLY[@]}"'],
            capture_output=True,
            text=True,
            check=True,
            cwd=tmp_path,
        )
        return sorted(result.stdout.splitlines())

    assert completed("my") == ["my docs.npz", "my other docs.npz"]
    assert completed("my\\ o") == ["my other docs.npz"]
    assert completed("pl") == ["plain.npz"]


def test_a_note_says_that_documents_are_numbered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line on standard error, once, says that documents get numbers as ids."""
    (tmp_path / "plain.jsonl").write_text('{"text": "one cat"}\n{"text": "two dogs"}\n')
    assert main(["encode", str(tmp_path / "plain.jsonl"), str(tmp_path / "out.npz"), "--no-progress"]) == 0
    assert capsys.readouterr().err.count("documents are numbered from 0") == 1
