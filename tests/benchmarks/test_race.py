"""The race on the wiki vectors: goals, tables, the page. No timing."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks.race_tables import Results

from bench_samples import in_this_process
from benchmarks import race, race_tables, wiki


def record(engine: str, setting: str, latency_us: list[int], missed: list[int], **other: Any) -> dict[str, Any]:
    """A record of type "search"."""
    defaults = {"k": 10, "documents": 8, "exact": False, "swept": 0.0, "wanted": 10, "core_us": latency_us}
    found = {"engine": engine, "setting": setting, "latency_us": latency_us, "missed": missed}
    return {"type": "search", **defaults, **found, **other}


def build(engine: str, seconds: float, size: int) -> dict[str, Any]:
    """A record of type "build"."""
    cost = {
        "convert_seconds": 0.0,
        "build_seconds": seconds,
        "cpu_seconds": seconds,
        "size_bytes": size,
        "peak_bytes": 1,
    }
    about = {"engine": engine, "name": engine, "version": "1", "settings": {}, "documents": 8}
    return {"type": "build", **about, **cost}


MACHINE = {"cpu": "any", "cores": 1, "simd": "portable", "python": "3", "segmax": "0"}
SETUP = {"type": "race", "date": "-", "documents": 8, "postings": 80, "queries": 4, "ks": [10], "passes": 2, **MACHINE}


class TestChoice:
    """Settings are chosen on the even-numbered queries and reported on the odd-numbered ones."""

    def test_all_indexes_of_an_engine_compete(self) -> None:
        """For each recall, one setting is chosen over the indexes of an engine, and what is always shown stays."""
        results = Results(
            [
                SETUP,
                *(
                    build(name, 1.0, 1)
                    for name in ("segmax", "sindi", "sindi-prune-0.1", "sindi-prune-0.2", "splade-index")
                ),
                record("segmax", "exact", [30] * 4, [0] * 4, exact=True),
                record("segmax", "mu=0.7", [60] * 4, [0] * 4),
                record("sindi", "exact", [90] * 4, [0] * 4, exact=True),
                record("sindi-prune-0.1", "a", [70] * 4, [0] * 4),
                record("sindi-prune-0.1", "b", [60] * 4, [1] * 4),
                record("sindi-prune-0.2", "a", [50] * 4, [0] * 4),
                record("splade-index", "", [95] * 4, [0] * 4, exact=True),
            ]
        )
        assert [(why, run.name) for why, run in race_tables.chosen_runs(results, 10)] == [
            ("exact, ≥ 0.99, ≥ 0.97, ≥ 0.95", "segmax, exact"),
            ("ASC", "segmax, mu=0.7"),
            ("exact", "sindi, exact"),
            ("≥ 0.99, ≥ 0.97, ≥ 0.95", "sindi-prune-0.2, a"),
            ("exact", "splade-index"),
        ]


class TestReport:
    """Goals, tables and the page."""

    @pytest.fixture
    def results(self) -> Results:
        """Segmax, scatter-add and two builds of Seismic on four queries."""
        return Results(
            [
                SETUP,
                build("segmax", 10.0, 1_000_000),
                build("seismic", 49.0, 9_000_000),
                build("seismic-guide", 60.0, 8_000_000),
                {"type": "failed", "engine": "pisa", "stage": "build", "reason": "no memory"},
                {"type": "skipped", "engine": "bmp-8", "reason": "bmp is not installed"},
                record("segmax", "exact", [100] * 4, [0] * 4, exact=True, swept=0.25),
                record("segmax", "exact", [51] * 4, [0] * 4, exact=True, documents=2),
                record("segmax", "mu=0.5", [50, 60] * 2, [0] * 4),
                record("scatter-add", "", [400, 399] * 2, [0] * 4, exact=True),
                record("seismic", "slow", [900] * 4, [0] * 4),
                record("seismic-guide", "fast", [400, 80] * 2, [0, 1] * 2),
            ]
        )

    def test_goals(self, results: Results) -> None:
        """Every goal was reached, missed or not measured."""
        goals = {goal.text: goal for goal in results.goals()}
        reached = {text: goal.reached for text, goal in goals.items()}
        assert reached["k=10, exact, scatter-add: ≥ 4 ×"] is False
        assert "3.99 ×" in goals["k=10, exact, scatter-add: ≥ 4 ×"].measured
        assert "25% swept" in goals["k=10, exact, scatter-add: ≥ 4 ×"].measured
        assert reached["k=10, exact, scatter-add: p99 not worse"] is True
        assert "seismic-guide, fast, recall 0.9000" in goals["k=10, exact, Seismic with recall ≥ .99: ≥ 4 ×"].measured
        assert reached["k=10, exact, Seismic with recall ≥ .99: p99 not worse"] is False
        assert "mu=0.5" in goals["k=10, recall ≥ 0.97, Seismic with that recall: ≥ 5 ×"].measured
        assert reached["k=10, exact, PISA MaxScore: ≥ 15 ×"] is None
        assert reached["k=1000, exact, Seismic with recall ≥ .99: ≥ 6 ×"] is None
        assert reached["index smaller than that of Seismic"] is True
        assert reached["build, Seismic: ≥ 5 ×"] is False
        growth = next(goal for text, goal in goals.items() if text.endswith("first passages of the set"))
        assert growth.reached is True
        assert growth.measured.startswith("0.49 ")

    def test_page(self, results: Results) -> None:
        """The page has all tables between its markers, a failed engine with its reason, and keeps the rest."""
        page = race_tables.between_markers(
            "above\n<!-- begin -->\nold\n<!-- end -->\nbelow\n", race_tables.markdown(results)
        )
        assert page.startswith("above\n<!-- begin -->\n")
        assert page.endswith("\n<!-- end -->\nbelow\n")
        assert "old" not in page
        assert "| pisa | failed to build: no memory |" in page
        assert "| bmp-8 | skipped: bmp is not installed |" in page
        assert "segmax, exact, finished 25% of these queries exhaustively" in page
        assert "| exact | segmax | exact | 1.0000 | 0.100 |" in page
        assert "| ≥ 0.99, ≥ 0.97, ≥ 0.95 | seismic-guide | fast | 0.9000 | 0.080 |" in page

    def test_what_ran(self, results: Results) -> None:
        """The text says where vectors came from, which packages ran, and which half of the queries counts."""
        text = " ".join(race_tables.setup_text(results).split())
        assert "Seismic (pyseismic-lsr 1). Documents are Wikipedia passages as vectors of splade-mini, queries" in text
        assert "queries are SPLADE-v3 vectors" in text
        assert "chosen on the even-numbered queries; all figures are of the odd-numbered ones" in text
        pisa = race_tables.setup_text(Results([SETUP, build("pisa", 1.0, 1)]))
        assert "PISA (pyterrier-pisa 1)" in " ".join(pisa.split())

    def test_page_of_the_large_set(self) -> None:
        """The large set has markers and plots of its own, and none of the goals that the wiki vectors have."""
        results = Results([{**SETUP, "set": "large"}, build("segmax", 1.0, 1)])
        first = race_tables.between_markers("above\n<!-- begin -->\nwiki\n<!-- end -->\n", "old", results.set)
        page = race_tables.between_markers(first, race_tables.markdown(results), results.set)
        assert page.startswith(
            "above\n<!-- begin -->\nwiki\n<!-- end -->\n\n## All results, large set\n\n<!-- begin large -->\n"
        )
        assert page.endswith("\n<!-- end large -->\n")
        assert "old" not in page
        assert "images/race-large-k10.png" in page
        assert [goal.text for goal in results.goals()] == [f"{race_tables.GROWTH}, first passages of the set"]


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

    def test_a_race_on_a_set(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Segmax races alone on the set, and on its first quarter and half; the page has the tables."""
        pytest.importorskip("matplotlib")
        (tmp_path / "read.py").write_text(READER)
        monkeypatch.chdir(tmp_path)
        flags = ["--engines", "segmax", "--k", "10", "--passes", "1", "--screen", "1", "--wiki", str(tmp_path)]
        monkeypatch.setattr(sys, "argv", ["race", *flags])
        monkeypatch.setattr("segmax.bench.race.in_fresh_process", in_this_process)
        race.main()
        records = map(json.loads, Path("benchmarks/results/race.jsonl").read_text().splitlines())
        assert [record["documents"] for record in records if record["type"] == "build"] == [4, 1, 2]
        # If it was also the fastest, its row is the one of these levels of recall, too.
        assert re.search(
            r"\| exact(, [≥., 0-9]+)? \| segmax \| exact \| 1\.0000 \|", Path("docs/benchmarks.md").read_text()
        )

    def test_without_the_vectors(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Whoever does not have them learns about `segmax bench`."""
        monkeypatch.setattr(sys, "argv", ["race", "--wiki", str(tmp_path / "nowhere")])
        with pytest.raises(SystemExit, match=r"(?s)expected the wiki vectors in.*run `segmax bench`"):
            race.main()
