"""The engines on tiny data: those that are installed find what they should. No timing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from bench_samples import in_this_process
from segmax.base.errors import ConfigError
from segmax.bench import race
from segmax.bench.engines.catalog import ENGINES, chosen, family, version_of, what_is_missing
from segmax.bench.engines.engine import Answer, Engine, Setting, named_documents
from segmax.bench.material import Material
from segmax.bench.measuring import measure
from segmax.bench.race import FailedError, Plan, Race, in_fresh_process
from segmax.bench.task import screen
from segmax.bench.truth import Truth

K = 5
#: These can share a process with each other and with pytest.
PEACEFUL = [
    name for name in ENGINES if family(name) in ("scatter-add", "segmax", "sindi", "splade-index", "qdrant-edge")
]


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

    @pytest.mark.parametrize(
        "name", [pytest.param(name, marks=pytest.mark.deep if name == "scatter-add" else ()) for name in PEACEFUL]
    )
    def test_finds(self, name: str, vectors: tuple[sp.csr_matrix, sp.csr_matrix], tmp_path: Path) -> None:
        """Exact settings miss nothing; the others find most of it, and nothing that is not there."""
        engine = ENGINES[name]
        if reason := what_is_missing(engine):
            pytest.skip(reason)
        docs, queries = vectors
        truth = Truth.of(docs, queries, [K])
        cost = engine.build(docs, tmp_path)
        assert cost.version == version_of(engine.package)
        assert cost.size_bytes > 0
        searcher = engine.open(tmp_path, queries)
        numbers = range(queries.shape[0])
        for setting in engine.grid:
            ask = searcher.prepare(setting, K)
            found = [searcher.answer(ask(number)).rows for number in numbers]
            assert all(((rows >= 0) & (rows < docs.shape[0])).all() for rows in found)
            missed = int(truth.missed(K, numbers, found).sum())
            assert missed <= (0 if setting.exact else 0.8 * K * len(numbers)), setting

    @pytest.mark.deep
    def test_all_race(self, vectors: tuple[sp.csr_matrix, sp.csr_matrix], tmp_path: Path) -> None:
        """Every engine that is installed builds and searches in processes of its own; exact settings miss nothing."""
        docs, queries = vectors
        names = [name for name in ENGINES if not what_is_missing(ENGINES[name])]
        material = Material(name="tiny", docs=docs, queries=queries, num_docs=docs.shape[0])
        found = measure(material, Plan(engines=names, ks=[K], passes=1, screen=2), tmp_path / "race")
        assert "segmax" in {run.engine for run in found.runs}
        assert {run.engine for run in found.runs} == {build["engine"] for build in found.builds} == set(names)
        assert sum(int(run.missed.sum()) for run in found.runs if run.exact) == 0
        assert not (tmp_path / "race").exists()

    @pytest.mark.parametrize(
        "engines",
        [("segmax", "qdrant-edge"), pytest.param(("segmax", "bmp-8", "pisa"), marks=pytest.mark.deep)],
        ids=" ".join,
    )
    def test_queries_that_match_nothing(
        self, engines: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A query without terms, and one whose term no document has, find nothing and stop no engine."""
        if set(engines) <= {"segmax", *PEACEFUL}:
            monkeypatch.setattr(race, "in_fresh_process", in_this_process)
        docs = sp.csr_matrix(np.array([[5, 0, 0], [9, 1, 0], [0, 7, 0]], dtype=np.uint8))
        queries = sp.csr_matrix(np.array([[1, 2, 0], [0, 0, 3], [0, 0, 0], [0, 2, 4]], dtype=np.uint8))
        names = [name for name in engines if not what_is_missing(ENGINES[name])]
        material = Material(name="tiny", docs=docs, queries=queries, num_docs=3)
        found = measure(material, Plan(engines=names, ks=[2], passes=1, screen=2), tmp_path / "race")
        assert {run.engine for run in found.runs} == set(names), found.records
        assert all(run.wanted.tolist() == [2, 0, 0, 2] for run in found.runs)

    def test_fewer_results_than_k(self, tmp_path: Path) -> None:
        """What pyvsag returns beyond its results is left out, and so is the document that the build adds."""
        pytest.importorskip("pyvsag")
        docs = sp.csr_matrix(np.array([[5, 0], [9, 0], [0, 7]], dtype=np.uint8))
        engine = ENGINES["sindi-8bit"]
        engine.build(docs, tmp_path)
        searcher = engine.open(tmp_path, docs[:1])
        for setting in engine.grid:
            rows = searcher.answer(searcher.prepare(setting, 9)(0)).rows
            assert rows[:2].tolist() == [1, 0], setting
            assert set(rows.tolist()) <= {0, 1, 2}, setting

    def test_names(self) -> None:
        """The labels of an engine's settings differ; those of the paper run on all queries."""
        for engine in ENGINES.values():
            assert len({setting.label for setting in engine.grid}) == len(engine.grid)
        kept = {setting.label for setting in ENGINES["segmax"].grid if setting.always}
        assert kept >= {"exact", "exhaustive", "mu=0.9", "mu=0.7", "mu=0.5"}

    def test_documents_in_an_order(self) -> None:
        """Engines that take dictionaries get the rows in the order given."""
        docs = sp.csr_matrix(np.array([[1, 0], [0, 2]], dtype=np.uint8))
        assert list(named_documents(docs, np.array([1, 0]))) == [
            {"docno": "1", "toks": {"1": 2}},
            {"docno": "0", "toks": {"0": 1}},
        ]


class _Blind:
    """A searcher that finds one of two results, or none."""

    def prepare(self, setting: Setting, k: int) -> Callable[[int], Any]:
        return lambda number: np.arange(setting.values["found"])

    def answer(self, raw: Any) -> Answer:
        return Answer(raw)


def test_an_engine_that_finds_little_stays() -> None:
    """If no setting reaches the lowest recall, the one that finds most goes on."""
    truth = Truth.of(sp.csr_matrix(np.ones((2, 1))), sp.csr_matrix(np.ones((4, 1))), [2])
    grid = (Setting("none", {"found": 0}), Setting("half", {"found": 1}))
    engine = Engine("none", grid, ENGINES["segmax"].build, lambda folder, queries: _Blind())
    rows = screen(engine, _Blind(), truth, 2, [0, 2])
    assert [(row["recall"], row["kept"]) for row in rows] == [(0.0, False), (0.5, True)]


class TestNames:
    """What users call engines."""

    def test_families(self) -> None:
        """Indexes of one engine share a name; names with a hyphen of their own keep it."""
        names = ["scatter-add", "seismic", "seismic-guide", "bmp-8", "sindi-8bit", "sindi-prune-0.2", "splade-index"]
        families = ["scatter-add", "seismic", "seismic", "bmp", "sindi", "sindi", "splade-index"]
        assert [family(name) for name in names] == families

    def test_unknown_names_are_refused(self) -> None:
        """The error lists the names that there are."""
        with pytest.raises(ConfigError, match=r"scatter-add, segmax, seismic, bmp, pisa, sindi.*got lucene"):
            chosen(["segmax", "lucene"])


class TestRace:
    """Engines that cannot run do not stop the others."""

    def test_skipped(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """An engine without its package, a package that it also needs, or a program is skipped and recorded."""
        absent = Engine("no-such-engine", (), ENGINES["bmp-8"].build, ENGINES["bmp-8"].open)
        halved = absent._replace(package="numpy", also_needs=("no-such-package",))
        uncompiled = absent._replace(package="segmax", programs=("no-such-compiler",))
        monkeypatch.setattr(race, "ENGINES", {"absent": absent, "halved": halved, "uncompiled": uncompiled})
        notes: list[str] = []
        here = Race(Plan(engines=["absent", "halved", "uncompiled"]), notes.append)
        assert here.build_all(tmp_path) == []
        assert notes == [
            "absent: skipped: no-such-engine is not installed",
            "halved: skipped: no-such-package is not installed",
            "uncompiled: skipped: no-such-compiler is not installed",
        ]
        assert [record["type"] for record in here.records] == ["skipped"] * 3

    def test_failed(self, tmp_path: Path) -> None:
        """A process that ends with an error gives its last line, and leaves no task behind."""
        with pytest.raises(FailedError, match=r"No such file or directory: .*docs\.npz"):
            in_fresh_process(tmp_path, "build", engine="segmax")
        assert list(tmp_path.iterdir()) == []

    def test_a_failed_engine_is_recorded(self, tmp_path: Path) -> None:
        """The record says at which stage, and why."""
        notes: list[str] = []
        here = Race(Plan(engines=["segmax"], ks=[1]), notes.append)
        assert here.build_all(tmp_path) == []
        assert here.records[0]["stage"] == "build"
        assert notes[0].startswith("build segmax: failed: FileNotFoundError")
