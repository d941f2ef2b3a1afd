"""`segmax bench` on everything it takes: generated collections, texts, vectors, an index. Tiny sizes, no timing."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import segmax
from beir_samples import write_beir
from bench_samples import in_this_process
from segmax.bench import race
from segmax.bench.engines.catalog import ENGINES
from segmax.cli.main import main

#: Fast enough for a test.
QUICK = ["--engines", "segmax", "-k", "10", "--passes", "1", "--screen", "2", "--max-queries", "12"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory, and a terminal of 80 columns."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


@pytest.fixture(autouse=True)
def one_process(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Races of deep tests are real; the others run in the process of the test."""
    if request.node.get_closest_marker("deep") is None:
        monkeypatch.setattr(race, "in_fresh_process", in_this_process)


def write_vectors(folder: Path, seed: int = 0) -> None:
    """Documents and queries as vectors with weights that are no whole numbers."""
    docs = sp.random(200, 60, 0.2, format="csr", random_state=seed, dtype=np.float32)
    sp.save_npz(folder / "docs.npz", docs)
    sp.save_npz(folder / "queries.npz", sp.random(14, 60, 0.1, format="csr", random_state=seed + 1, dtype=np.float32))


def benched(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[dict[str, Any], str]:
    """What a benchmark wrote as JSON, and what it printed."""
    assert main(["bench", *arguments, *QUICK, "--json", "out.json"]) == 0, capsys.readouterr().err
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    return json.loads(Path("out.json").read_text()), out


def exact_row(found: dict[str, Any]) -> dict[str, Any]:
    """The row of exact search."""
    return next(row for row in found["rows"] if (row["engine"], row["setting"]) == ("segmax", "exact"))


@pytest.mark.deep
def test_a_generated_collection(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exact search finds everything; the note warns; the record has machine, versions and every query."""
    found, out = benched(capsys, "--generate", "300", "--doc-terms", "30", "--query-terms", "8")
    assert exact_row(found)["recall"] == 1.0
    assert "Generated collections flatter pruning" in " ".join(out.split())
    assert re.search(r"segmax, exact +exact +1\.0000", out)
    assert found["collection"]["documents"] == 300
    assert 27 < found["collection"]["postings"] / 300 < 33
    assert found["machine"]["packages"] == {"segmax": segmax.__version__}
    assert found["date"].endswith("Z")
    (search,) = [record for record in found["records"] if record.get("setting") == "exhaustive" and "missed" in record]
    assert len(search["latency_us"]) == 12
    assert sorted(path.name for path in Path("segmax-bench").iterdir()) == []  # indexes are gone


def test_a_beir_folder(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Texts are encoded by BM25 and kept for the next time; relevance is measured."""
    pytest.importorskip("ir_measures")
    write_beir(here / "scifact", 150)
    found, out = benched(capsys, "scifact")
    assert found["collection"]["rounded"]
    assert "Weights were rounded to 8 bits" in out
    row = exact_row(found)
    assert row["recall"] == 1.0
    assert 0.2 < row["nDCG@10"] <= 1.0
    assert "MRR@10" in out
    kept = list(Path("segmax-bench/cache").rglob("documents.npz"))
    stamp = kept[0].stat().st_mtime_ns
    again, _ = benched(capsys, "scifact")
    assert exact_row(again)["nDCG@10"] == row["nDCG@10"]
    assert kept[0].stat().st_mtime_ns == stamp


def test_relevance_is_that_of_evaluate(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On the odd-numbered judged queries, an index gives the measures that `segmax.evaluate` gives for them."""
    pytest.importorskip("ir_measures")
    write_beir(here / "scifact", 150)
    segmax.from_texts("scifact", path="docs.segmax").close()
    found, _ = benched(capsys, "docs.segmax", "--queries", "scifact")
    evaluated = segmax.evaluate("docs.segmax", data="scifact", methods=["asc"], k=10)["asc"]
    for measure in ("MRR@10", "nDCG@10"):
        assert exact_row(found)[measure] == pytest.approx(evaluated.per_query[measure][:12][1::2].mean(), abs=1e-5)


@pytest.mark.deep
def test_a_model_of_torch_that_is_a_folder(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A tiny model stands in for one of the hub: a name is a folder first."""
    pytest.importorskip("torch")
    pytest.importorskip("sentence_transformers")
    from tiny_models import write_bert, write_splade

    write_beir(here / "beir" / "scifact", 40)
    write_bert(here / "bert")
    write_splade(here / "naver" / "splade-v3", here / "bert")
    found, _ = benched(capsys, "beir/scifact", "--encoder", "naver/splade-v3")
    assert found["collection"]["source"]["encoder"] == "naver/splade-v3"
    assert exact_row(found)["recall"] == 1.0
    assert not list(Path("segmax-bench").rglob("*.max.npy"))  # nothing here needs dense vectors


def test_an_ir_datasets_id(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A collection of ir_datasets, in files of its own formats, which it would download."""
    ir_datasets = pytest.importorskip("ir_datasets")
    texts = ["a copper waveguide", "noise of diodes", "copper and noise", "crystal diodes"]
    (here / "docs.tsv").write_text("".join(f"d{row}\t{text}\n" for row, text in enumerate(texts)))
    (here / "queries.tsv").write_text("q1\tcopper\nq2\tnoise\nq3\tdiodes\n")
    (here / "qrels").write_text("q1 0 d0 1\nq2 0 d1 1\nq3 0 d3 1\n")
    made = ir_datasets.create_dataset(docs_tsv="docs.tsv", queries_tsv="queries.tsv", qrels_trec="qrels")
    if "segmax-test/bench" not in ir_datasets.registry:
        ir_datasets.registry.register("segmax-test/bench", made)
    found, _ = benched(capsys, "segmax-test/bench")
    assert (found["collection"]["documents"], found["collection"]["queries"]) == (4, 3)
    assert exact_row(found)["recall"] == 1.0


def test_vectors(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Files of vectors in formats that segmax reads; ids and words join them with queries and judgments."""
    write_vectors(here)
    found, _ = benched(capsys, "docs.npz", "--queries", "queries.npz")
    assert exact_row(found)["recall"] == 1.0
    (here / "docs.jsonl").write_text(
        '{"id": "a", "vector": {"red": 2, "blue": 1}}\n{"id": "b", "vector": {"blue": 3}}\n'
    )
    (here / "queries.jsonl").write_text(
        '{"id": "1", "vector": {"blue": 1, "green": 9}}\n{"id": "2", "vector": {"red": 0.5}}\n'
    )
    (here / "qrels.tsv").write_text("1\t0\tb\t1\n2\t0\ta\t1\n")
    found, _ = benched(capsys, "docs.jsonl", "--queries", "queries.jsonl", "--qrels", "qrels.tsv")
    assert (found["collection"]["documents"], found["collection"]["postings"]) == (2, 3)
    if "nDCG@10" in exact_row(found):
        assert exact_row(found)["nDCG@10"] == 1.0


def test_vectors_of_bigann(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The format in which SPLADE vectors of MS MARCO can be downloaded, compressed, gives what .npz gives."""
    write_vectors(here)
    found, _ = benched(capsys, "docs.npz", "--queries", "queries.npz")
    for name in ("docs", "queries"):
        assert main(["convert", f"{name}.npz", f"{name}.csr.gz"]) == 0
    capsys.readouterr()
    again, _ = benched(capsys, "docs.csr.gz", "--queries", "queries.csr.gz")
    assert exact_row(again)["recall"] == 1.0
    for about in ("documents", "postings", "queries", "postings_of_queries"):
        assert again["collection"][about] == found["collection"][about]


def test_an_index(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An index is searched as it is; other engines cannot read it."""
    write_vectors(here)
    segmax.build("docs.npz", path="docs.segmax").close()
    before = {path: path.stat().st_mtime_ns for path in Path("docs.segmax").iterdir()}
    found, out = benched(capsys, "docs.segmax", "--queries", "queries.npz")
    assert exact_row(found)["recall"] == 1.0
    assert "indexes" not in out  # nothing was built
    assert before == {path: path.stat().st_mtime_ns for path in Path("docs.segmax").iterdir()}
    assert main(["bench", "docs.segmax", "--queries", "queries.npz", "--engines", "segmax", "bmp"]) == 2
    assert "segmax alone, because 'docs.segmax' is an index of segmax" in " ".join(capsys.readouterr().err.split())


def test_indexes_are_kept_on_demand(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --keep, vectors and indexes stay, and what is kept is used again."""
    write_vectors(here)
    benched(capsys, "docs.npz", "--queries", "queries.npz", "--keep")
    (folder,) = Path("segmax-bench").glob("race-docs-*")
    with segmax.open(folder / "segmax" / "index") as index:
        assert index.num_docs == 200
    benched(capsys, "docs.npz", "--queries", "queries.npz")
    assert folder.exists()  # it was kept before
    (folder / "segmax" / "build.json").write_text("{half")
    benched(capsys, "docs.npz", "--queries", "queries.npz", "--keep")


def test_what_an_interrupted_run_left_is_removed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder that nobody asked to keep goes with the next run."""
    write_vectors(here)
    benched(capsys, "docs.npz", "--queries", "queries.npz", "--keep")
    (folder,) = Path("segmax-bench").glob("race-docs-*")
    (folder / "kept").unlink()
    benched(capsys, "docs.npz", "--queries", "queries.npz")
    assert not folder.exists()


@pytest.mark.deep
def test_a_benchmark_that_is_stopped_cleans_up(here: Path) -> None:
    """Asked to stop, as by a CI job that is canceled, it removes its folder."""
    command = [sys.executable, "-m", "segmax.cli", "bench", "--generate", "20000", "--engines", "segmax"]
    process = subprocess.Popen([*command, "--max-queries", "50"], stderr=subprocess.DEVNULL)
    while not list(Path("segmax-bench").glob("race-*/task-*.json")):
        assert process.poll() is None
        time.sleep(0.05)
    (task,) = Path("segmax-bench").glob("race-*/task-*.json")
    process.terminate()
    assert process.wait(60) != 0
    assert not task.parent.exists()


@pytest.mark.deep
def test_a_plot_is_drawn(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A picture per call, with a panel for every k."""
    pytest.importorskip("matplotlib")
    benched(capsys, "--generate", "100", "-k", "1", "--plot", "race.svg")
    assert Path("race.svg").read_text().count("one core") == 2


def test_a_benchmark_without_an_engine_fails(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If no engine is installed that was asked for, the command says why, and fails."""
    monkeypatch.setitem(ENGINES, "bmp-8", ENGINES["bmp-8"]._replace(package="no-such-package"))
    arguments = ["--generate", "50", "--engines", "bmp-8", "-k", "5", "--max-queries", "4"]
    assert main(["bench", *arguments]) != 0
    shown = capsys.readouterr()
    assert "Skipped: bmp-8 (no-such-package is not installed)" in " ".join(shown.out.split())
    assert "no engine could be measured" in shown.err


WRONG = {
    "": "expected DATA, or --generate N, got neither",
    "docs.npz --generate 5": "got both",
    "--generate 0": "expected at least 1",
    "--generate 5 --encoder bm25": "expected --encoder to be left out for a generated collection",
    "--generate 5 --engines lucene": "expected --engines to be scatter-add, segmax",
    "--generate 5 --max-queries 1": "expected at least 2 queries",
    "--generate 5 --json nowhere/out.json": "expected an existing directory",
    "--generate 5 --plot out.doc": "expected a plot to end in .png",
    "docs.npz": "expected --queries to be a file of queries as vectors, got none",
    "docs.npz --queries nowhere.npz": "nowhere.npz",
    "docs.npz --queries queries.npz --encoder bm25": "expected --encoder to be left out for vectors",
    "nowhere.npz --queries queries.npz": "there is no file 'nowhere.npz'",
    "--generate 5 --doc-terms 100000": "expected --doc-terms to be at most 2000, got 100000",
    "nowhere": "there is no file or folder 'nowhere'",
    "broken.npz --queries queries.npz": "broken.npz",
    "docs.segmax": "expected --queries to be a file of queries",
    "papers --queries queries.npz": "expected an index, texts or vectors, got the collection 'papers'",
}


@pytest.mark.parametrize("arguments", WRONG)
def test_mistakes_are_explained(here: Path, capsys: pytest.CaptureFixture[str], arguments: str) -> None:
    """Each is one line, before anything is measured, and leaves no index behind."""
    write_vectors(here)
    (here / "broken.npz").write_bytes((here / "docs.npz").read_bytes()[:300])
    if arguments.startswith("docs.segmax"):
        segmax.build("docs.npz", path="docs.segmax").close()
    if arguments.startswith("papers"):
        segmax.Collection.create("papers").close()
    flags = [] if "--engines" in arguments else ["--engines", "segmax"]
    assert main(["bench", *arguments.split(), *flags]) != 0
    error = " ".join(capsys.readouterr().err.split())
    assert WRONG[arguments] in error
    assert "Traceback" not in error
    assert not list(Path().glob("segmax-bench/race-*"))
