"""Recall that is fair to ties, choice on one half of the queries, the tables. No timing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from rich.console import Console

import segmax
from segmax.bench import results
from segmax.bench.outcome import Outcome
from segmax.bench.picture import draw_race, front
from segmax.bench.results import Run, shown_runs
from segmax.bench.truth import Truth, best_rows


def record(engine: str, setting: str, latency_us: list[int], missed: list[int], **other: Any) -> dict[str, Any]:
    """A record of type "search"."""
    defaults = {"k": 10, "documents": 8, "exact": False, "swept": 0.0, "wanted": 10, "core_us": latency_us}
    found = {"engine": engine, "setting": setting, "latency_us": latency_us, "missed": missed}
    return {"type": "search", **defaults, **found, **other}


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

    def test_of_an_index(self) -> None:
        """Exhaustive search of an index gives what scores of the vectors give, ties included."""
        docs = sp.random(60, 12, 0.5, format="csr", random_state=1)
        docs.data = np.ceil(docs.data * 3)
        queries = sp.csr_matrix(np.vstack([docs[:5].toarray(), np.zeros((1, 12))]))
        with segmax.build(docs) as index:
            one, other = Truth.of_index(index, queries, [3, 100]), Truth.of(docs, queries, [3, 100])
        found = [np.arange(60)] * 6
        for k in (3, 100):
            assert one.wanted(k).tolist() == other.wanted(k).tolist()
            assert one.missed(k, range(6), found).tolist() == [0] * 6
        tied = [other._rows[row][: other._ends[row, 0]][-3:] for row in range(6)]
        assert one.missed(3, range(6), tied).tolist() == other.missed(3, range(6), tied).tolist()


class TestChoice:
    """Settings are chosen on the even-numbered queries and reported on the odd-numbered ones."""

    def test_the_reported_half_has_no_say(self) -> None:
        """What is fast and complete on odd-numbered queries alone is not chosen."""
        good = Run.of(record("a", "good", [100, 900], [0, 3]))
        tempting = Run.of(record("a", "tempting", [200, 1], [0, 0]))
        lossy = Run.of(record("a", "lossy", [1, 1], [1, 0]))
        assert results.choose([tempting, lossy, good], 0.99) is good
        assert good.reported() == (0.9, 0.9, 0.9, 0.7)
        assert results.choose([lossy], 0.99) is None

    def test_the_sample_is_even(self) -> None:
        """Settings are screened on even-numbered queries, spread over all of them."""
        assert results.sample_of_even(7, 9) == [0, 2, 4, 6]
        sample = results.sample_of_even(1000, 50)
        assert len(set(sample)) == 50
        assert all(number % 2 == 0 for number in sample)
        assert sample[-1] == 998

    def test_candidates(self) -> None:
        """The fastest setting with each recall goes on; where none has it, none does."""
        points = [(1.0, 0.9), (2.0, 0.9), (1.5, 0.8), (3.0, 0.99), (2.5, 0.95), (4.0, 0.995)]
        assert results.candidates(points, [0.8, 0.95, 0.97, 0.999]) == {0, 4, 3}

    def test_swept_on_the_reported_half(self) -> None:
        """The share of swept queries is that of the odd-numbered ones."""
        assert results.share_of_odd([True, False, True, True, True]) == 0.5
        assert results.share_of_odd([True]) == 0.0

    def test_front(self) -> None:
        """A curve joins the points that no other beats in both recall and latency."""
        points = [(0.9, 2.0), (0.8, 1.0), (0.85, 3.0), (0.95, 2.5), (0.95, 4.0)]
        assert front(points) == [(0.8, 1.0), (0.9, 2.0), (0.95, 2.5)]
        assert front([]) == []


def outcome(records: list[dict[str, Any]], **collection: Any) -> Outcome:
    """An outcome on four queries."""
    about = {"name": "some", "documents": 8, "postings": 80, "queries": 4, "rounded": False, "generated": False}
    machine = {"cpu": "any", "simd": "portable"}
    return Outcome(
        command="segmax bench",
        date="2026-01-01T00:00:00Z",
        machine=machine,
        collection={**about, **collection},
        settings={"ks": [10], "passes": 2},
        records=records,
    )


BUILD = {"convert_seconds": 0.5, "build_seconds": 1.0, "size_bytes": 2_000_000, "peak_bytes": 10**9, "version": "1"}
RECORDS = [
    {"type": "build", "engine": "segmax", **BUILD},
    {"type": "skipped", "engine": "bmp-8", "reason": "bmp is not installed"},
    {"type": "failed", "engine": "pisa", "stage": "build", "reason": "no memory"},
    {"type": "screened", "engine": "sindi", "setting": "c", "k": 10, "mean_ms": 0.1, "recall": 0.9, "kept": False},
    record("segmax", "exact", [30, 50] * 2, [0] * 4, exact=True, swept=0.25),
    record("segmax", "exhaustive", [90] * 4, [0] * 4, exact=True),
    record("segmax", "exact, never swept", [10, 40] * 2, [0] * 4, exact=True),
    record("segmax", "mu=0.7", [20, 40] * 2, [0] * 4),
    record("sindi", "exact", [90, 100] * 2, [0] * 4, exact=True),
    record("sindi", "exact, all accumulators", [99, 1] * 2, [0] * 4, exact=True),
    record("sindi-prune-0.1", "a", [70] * 4, [0] * 4),
    record("sindi-prune-0.2", "b", [60] * 4, [0, 1] * 2),
    record("splade-index", "", [95] * 4, [0] * 4, exact=True),
    record("bmp-32", "alpha=1, beta=1", [95] * 4, [3] * 4),
]


class TestTables:
    """What is shown."""

    def test_rows(self) -> None:
        """For each engine its fastest exact setting and the fastest for each recall, over all of its indexes."""
        runs = [Run.of(row) for row in RECORDS if row["type"] == "search"]
        assert [(shown.reason, shown.run.name) for shown in shown_runs(runs)] == [
            ("exact", "segmax, exact"),
            ("exact", "segmax, exhaustive"),
            ("≥ .99", "segmax, mu=0.7"),
            ("exact", "sindi, exact"),
            ("≥ .99", "sindi-prune-0.2, b"),
            ("exact", "splade-index"),
            ("most recall", "bmp-32, alpha=1, beta=1"),
        ]

    @pytest.mark.parametrize("width", [80, 60])
    def test_tables_fit(self, width: int) -> None:
        """Figures are of the odd-numbered queries; nothing is wider than the terminal."""
        console = Console(width=width, highlight=False, color_system=None)
        with console.capture() as captured:
            console.print(outcome(RECORDS, rounded=True, generated=True))
        lines = captured.get().splitlines()
        assert max(map(len, lines)) <= width
        rows = [line.split() for line in lines]
        assert any(row[:1] == ["segmax,"] and row[-4:] == ["1.0000", "0.050", "0.050", "1.00"] for row in rows)
        assert any(row[-4:] == ["0.9000", "0.060", "0.060", "1.20"] for row in rows)
        text = " ".join(captured.get().split())
        assert "some, 8 documents, 10 terms each, 4 queries" in text
        assert "all figures are of the 2 odd-numbered ones" in text
        assert "Weights were rounded to 8 bits" in text
        assert "Generated collections flatter pruning" in text
        assert "faster: 25% at k = 10." in text
        assert "Skipped: bmp-8 (bmp is not installed). Most other engines come with: pip install" in text
        assert "pisa: failed to build: no memory" in text

    def test_relevance_is_shown(self) -> None:
        """Measures of the odd-numbered queries stand beside what they cost."""
        judged = record("segmax", "exact", [30] * 4, [0] * 4, exact=True, relevance={"nDCG@10": [0, 1, 0, 0.5]})
        assert "0.7500" in str(shown_text(outcome([judged])))
        assert outcome([judged]).to_dict()["rows"][0]["nDCG@10"] == 0.75

    def test_json(self, tmp_path: Path) -> None:
        """The file has the command, the machine, the rows, and every record."""
        outcome(RECORDS).to_json(tmp_path / "out.json")
        found = json.loads((tmp_path / "out.json").read_text())
        assert (found["command"], found["machine"]["cpu"]) == ("segmax bench", "any")
        assert len(found["rows"]) == 7
        assert found["records"] == RECORDS

    def test_plot(self, tmp_path: Path) -> None:
        """A picture is drawn."""
        pytest.importorskip("matplotlib")
        found = outcome(RECORDS)
        draw_race([10], found.runs, found.screened, tmp_path / "race.png")
        assert (tmp_path / "race.png").stat().st_size > 10_000


def shown_text(found: Outcome) -> str:
    """What a terminal of 80 columns shows."""
    console = Console(width=80, highlight=False, color_system=None)
    with console.capture() as captured:
        console.print(found)
    return captured.get()
