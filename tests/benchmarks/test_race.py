"""The pure parts of the race: recall that is fair to ties, choice on one half of the queries, goals. No timing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from benchmarks.race_tables import Results, Run
from benchmarks.truth import Truth, best_rows

from benchmarks import race_tables


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


class TestTruth:
    """Recall against exact float scores."""

    def test_of_equal_scores_any_will_do(self) -> None:
        """All rows that tie with the k-th best are right, for every k."""
        rows, ends = best_rows(np.array([1.0, 3.0, 2.0, 2.0, 0.0, 2.0]), [1, 2, 10])
        assert rows.tolist() == [1, 2, 3, 5, 0]
        assert ends == [1, 4, 5]

    def test_rounding_makes_no_difference(self) -> None:
        """Scores that differ only by the order of a float sum are equal."""
        _, ends = best_rows(np.array([0.1 + 0.2 + 0.3, 0.3 + 0.2 + 0.1]), [1])
        assert ends == [2]

    @pytest.fixture
    def truth(self) -> Truth:
        """One query whose scores are 3, 2, 2, 1 and 0, and one without any."""
        docs = sp.csr_matrix(np.array([[3.0], [2.0], [2.0], [1.0], [0.0]]))
        return Truth.of(docs, sp.csr_matrix(np.array([[1.0], [0.0]])), [2, 5])

    def test_missed(self, truth: Truth) -> None:
        """Either of the tied rows counts, a repeated row once, a document without a score never."""
        assert truth.wanted(2).tolist() == [2, 0]
        assert truth.wanted(5).tolist() == [4, 0]
        for found, missed in (([0, 1], 0), ([0, 2], 0), ([0, 3], 1), ([0, 0], 1), ([1, 2], 0), ([], 2)):
            assert truth.missed(2, [0], [np.array(found, dtype=int)]).tolist() == [missed], found
        assert truth.missed(5, [0, 1], [np.array([0, 1, 2, 4]), np.array([3])]).tolist() == [1, 0]

    def test_saved_and_loaded(self, truth: Truth, tmp_path: Path) -> None:
        """A truth survives its file."""
        truth.save(tmp_path / "truth.npz")
        again = Truth.load(tmp_path / "truth.npz")
        assert again.missed(2, [0, 1], [np.array([0, 3]), np.array([0])]).tolist() == [1, 0]


class TestChoice:
    """Settings are chosen on the even-numbered queries and reported on the odd-numbered ones."""

    def test_the_reported_half_has_no_say(self) -> None:
        """What is fast and complete on odd-numbered queries alone is not chosen."""
        good = Run.of(record("a", "good", [100, 900], [0, 3]))
        tempting = Run.of(record("a", "tempting", [200, 1], [0, 0]))
        lossy = Run.of(record("a", "lossy", [1, 1], [1, 0]))
        assert race_tables.choose([tempting, lossy, good], 0.99) is good
        assert good.reported() == (0.9, 0.9, 0.9, 0.7)
        assert race_tables.choose([lossy], 0.99) is None

    def test_the_sample_is_even(self) -> None:
        """Settings are screened on even-numbered queries, spread over all of them."""
        assert race_tables.sample_of_even(7, 9) == [0, 2, 4, 6]
        sample = race_tables.sample_of_even(1000, 50)
        assert len(set(sample)) == 50
        assert all(number % 2 == 0 for number in sample)
        assert sample[-1] == 998

    def test_candidates(self) -> None:
        """The fastest setting with each recall goes on; where none has it, none does."""
        points = [(1.0, 0.9), (2.0, 0.9), (1.5, 0.8), (3.0, 0.99), (2.5, 0.95), (4.0, 0.995)]
        assert race_tables.candidates(points, [0.8, 0.95, 0.97, 0.999]) == {0, 4, 3}

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

    def test_families(self) -> None:
        """Indexes of one engine share a name; names with a hyphen of their own keep it."""
        names = ["scatter-add", "seismic", "seismic-guide", "bmp-8", "sindi-8bit", "sindi-prune-0.2", "splade-index"]
        families = ["scatter", "seismic", "seismic", "bmp", "sindi", "sindi", "splade-index"]
        assert [race_tables.family(name) for name in names] == families

    def test_swept_on_the_reported_half(self) -> None:
        """The share of swept queries is that of the odd-numbered ones."""
        assert race_tables.share_of_odd([True, False, True, True, True]) == 0.5
        assert race_tables.share_of_odd([True]) == 0.0

    def test_front(self) -> None:
        """A curve joins the points that no other beats in both recall and latency."""
        points = [(0.9, 2.0), (0.8, 1.0), (0.85, 3.0), (0.95, 2.5), (0.95, 4.0)]
        assert race_tables.front(points) == [(0.8, 1.0), (0.9, 2.0), (0.95, 2.5)]
        assert race_tables.front([]) == []


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

    def test_plot(self, results: Results, tmp_path: Path) -> None:
        """A picture is drawn."""
        pytest.importorskip("matplotlib")
        race_tables.plot(results, 10, tmp_path / "race.png")
        assert (tmp_path / "race.png").stat().st_size > 10_000
