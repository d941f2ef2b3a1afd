"""The engines of the race on tiny data: those that are installed find what they should. No timing."""

from __future__ import annotations

import argparse
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from benchmarks.race import Race
from benchmarks.racers import RACERS, Racer, installed
from benchmarks.rivals import documents
from benchmarks.truth import Truth

from benchmarks import race, wiki

K = 5


@pytest.fixture
def vectors(rng: np.random.Generator) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """300 documents with weights of 8 bits, and 8 queries that all of them match."""
    docs = sp.random(300, 40, density=0.4, format="csr", rng=rng)
    docs.data = rng.integers(3, 192, docs.nnz).astype(np.uint8)
    queries = sp.random(8, 40, density=0.4, format="csr", rng=rng)
    queries.data = rng.integers(1, 181, queries.nnz).astype(np.uint8)
    return sp.csr_matrix(docs), sp.csr_matrix(queries)


@pytest.mark.filterwarnings("ignore")  # packages of others warn as they like
class TestEngines:
    """Every engine builds, opens and answers."""

    @pytest.mark.parametrize("name", ["segmax", *(n for n in RACERS if n.startswith(("sindi", "splade-index")))])
    def test_finds(self, name: str, vectors: tuple[sp.csr_matrix, sp.csr_matrix], tmp_path: Path) -> None:
        """Exact settings miss nothing; the others find most of it, and nothing that is not there."""
        racer = RACERS[name]
        try:
            version = installed(racer)
        except PackageNotFoundError as error:
            pytest.skip(f"needs {error.name}")
        docs, queries = vectors
        truth = Truth.of(docs, queries, [K])
        cost = racer.build(docs, tmp_path)
        assert cost.version == version
        assert cost.size_bytes > 0
        searcher = racer.open(tmp_path, queries)
        numbers = range(queries.shape[0])
        for setting in racer.grid:
            ask = searcher.prepare(setting, K)
            found = [searcher.answer(ask(number)).rows for number in numbers]
            assert all(((rows >= 0) & (rows < docs.shape[0])).all() for rows in found)
            missed = int(truth.missed(K, numbers, found).sum())
            assert missed <= (0 if setting.exact else 0.8 * K * len(numbers)), setting

    def test_fewer_results_than_k(self, tmp_path: Path) -> None:
        """What pyvsag returns beyond its results is left out, and so is the document that the build adds."""
        pytest.importorskip("pyvsag")
        docs = sp.csr_matrix(np.array([[5, 0], [9, 0], [0, 7]], dtype=np.uint8))
        racer = RACERS["sindi-8bit"]
        racer.build(docs, tmp_path)
        searcher = racer.open(tmp_path, docs[:1])
        for setting in racer.grid:
            rows = searcher.answer(searcher.prepare(setting, 9)(0)).rows
            assert rows[:2].tolist() == [1, 0], setting
            assert set(rows.tolist()) <= {0, 1, 2}, setting

    def test_names(self) -> None:
        """The labels of an engine's settings differ; those of the paper run on all queries."""
        for racer in RACERS.values():
            assert len({setting.label for setting in racer.grid}) == len(racer.grid)
        kept = {setting.label for setting in RACERS["segmax"].grid if setting.always}
        assert kept >= {"exact", "exhaustive", "mu=0.9", "mu=0.7", "mu=0.5"}


class TestMissing:
    """Engines that are not installed."""

    def test_skipped(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """An engine without its package is skipped, which is said and recorded; what it also needs counts as well."""
        absent = Racer("no-such-engine", (), RACERS["bmp-8"].build, RACERS["bmp-8"].open)
        halved = Racer("numpy", (), absent.build, absent.open, also_needs=("no-such-compiler",))
        monkeypatch.setattr(race, "RACERS", {"absent": absent, "halved": halved})
        here = Race(argparse.Namespace(engines=["absent", "halved"], reuse=False))
        assert here.build_all(tmp_path) == []
        assert "build absent: skipped: no-such-engine is not installed (`make race` in" in capsys.readouterr().err
        assert [record["type"] for record in here.records] == ["skipped", "skipped"]
        assert here.records[1]["reason"] == "no-such-compiler is not installed"


READER = """
import numpy as np, scipy.sparse as sp
def documents(folder): return sp.csr_matrix(np.eye(4))
def large(count=None): return sp.csr_matrix(np.ones((6, 4)))[:count]
def queries(path): return sp.csr_matrix(np.eye(2, 4)), ["a", "b"]
"""


class TestSets:
    """The sets of documents."""

    def test_load_set(self, tmp_path: Path) -> None:
        """Either set, all of it or its first documents, with the same queries."""
        (tmp_path / "read.py").write_text(READER)
        for name, count, rows, nnz in (
            ("wiki", None, 4, 4),
            ("wiki", 3, 3, 3),
            ("large", None, 6, 24),
            ("large", 2, 2, 8),
        ):
            docs, queries = wiki.load_set(tmp_path, name, count)
            assert (docs.shape[0], docs.nnz, queries.shape[0]) == (rows, nnz, 2)

    def test_documents_in_an_order(self) -> None:
        """Engines that take dictionaries get the rows in the order given."""
        docs = sp.csr_matrix(np.array([[1, 0], [0, 2]], dtype=np.uint8))
        assert list(documents(docs, np.array([1, 0]))) == [
            {"docno": "1", "toks": {"1": 2}},
            {"docno": "0", "toks": {"0": 1}},
        ]
