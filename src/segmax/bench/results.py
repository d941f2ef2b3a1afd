"""What was measured: settings chosen on the even-numbered queries, and their figures on the odd-numbered ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from segmax.bench.engines.catalog import family
from segmax.bench.engines.own import NEVER_SWEPT

Record = dict[str, Any]
Clock = Literal["call", "core"]

#: The recalls for which the fastest setting of every engine is shown, highest first.
FLOORS = (0.99, 0.95)


def sample_of_even(num_queries: int, count: int) -> list[int]:
    """Return `count` even numbers of queries, evenly spaced; all even ones if there are fewer.

    Examples
    --------
    >>> sample_of_even(100, 3), sample_of_even(5, 10)
    ([0, 48, 98], [0, 2, 4])
    """
    even = range(0, num_queries, 2)
    if len(even) <= count:
        return list(even)
    return [even[place] for place in np.linspace(0, len(even) - 1, count).round().astype(int)]


def share_of_odd(flags: Sequence[bool]) -> float:
    """Return for which share of the odd-numbered queries something is true; 0 if there are none."""
    return float(np.mean(flags[1::2])) if len(flags) > 1 else 0.0


def mean_recall(missed: NDArray[Any], wanted: NDArray[Any] | int) -> float:
    """Return the mean share of the right results that were found; 1 for a query without any."""
    return float(np.mean(1.0 - missed / np.maximum(wanted, 1))) if len(missed) else 1.0


def candidates(points: Sequence[tuple[float, float]], targets: Iterable[float]) -> set[int]:
    """Return, for each recall, the number of the fastest of these (latency, recall) that reaches it."""
    enough = [[i for i, (_, recall) in enumerate(points) if recall >= target] for target in targets]
    return {min(numbers, key=lambda i: points[i]) for numbers in enough if numbers}


class Figures(NamedTuple):
    """A setting on some queries, in milliseconds."""

    mean: float
    median: float
    p99: float
    recall: float


@dataclasses.dataclass(frozen=True)
class Run:
    """One setting of one engine at one k, on all queries."""

    engine: str
    setting: str
    k: int
    documents: int
    exact: bool
    swept: float
    latency_ms: NDArray[np.float64]
    core_ms: NDArray[np.float64]  # empty if the engine has no clock of its own
    missed: NDArray[np.int64]
    wanted: NDArray[np.int64]
    relevance: Mapping[str, NDArray[np.float64]] = dataclasses.field(default_factory=dict)  # by measure; may be empty

    @classmethod
    def of(cls, record: Record) -> Run:
        """Read a record of type "search"."""
        missed = np.array(record["missed"])
        return cls(
            **{field: record[field] for field in ("engine", "setting", "k", "documents", "exact", "swept")},
            latency_ms=np.array(record["latency_us"]) / 1000,
            core_ms=np.array(record["core_us"]) / 1000,
            missed=missed,
            wanted=np.broadcast_to(np.array(record["wanted"]), missed.shape),
            relevance={name: np.array(values) for name, values in record.get("relevance", {}).items()},
        )

    def on(self, first: int, clock: Clock = "call") -> Figures:
        """Return the figures on every second query from `first`: 0 to choose settings, 1 to report them."""
        ms = (self.latency_ms if clock == "call" else self.core_ms)[first::2]
        if not len(ms):
            return Figures(np.nan, np.nan, np.nan, 1.0)
        recall = mean_recall(self.missed[first::2], self.wanted[first::2])
        return Figures(float(ms.mean()), float(np.median(ms)), float(np.percentile(ms, 99)), recall)

    def chosen_on(self, clock: Clock = "call") -> Figures:
        """Return the figures on the even-numbered queries, for choices."""
        return self.on(0, clock)

    def reported(self, clock: Clock = "call") -> Figures:
        """Return the figures on the odd-numbered queries, for tables, plots and goals."""
        return self.on(1, clock)

    def reported_relevance(self) -> dict[str, float]:
        """Return the mean of every measure of relevance on the odd-numbered queries."""
        return {name: float(values[1::2].mean()) for name, values in self.relevance.items()}

    @property
    def name(self) -> str:
        """Engine and setting."""
        return f"{self.engine}, {self.setting}" if self.setting else self.engine


def choose(runs: Iterable[Run], least_recall: float) -> Run | None:
    """Return the fastest run with at least this recall, both on the even-numbered queries."""
    enough = [run for run in runs if run.chosen_on().recall >= least_recall]
    return min(enough, key=lambda run: run.chosen_on().mean, default=None)


class Shown(NamedTuple):
    """A run in a table, and why it is there."""

    run: Run
    reason: str


def shown_runs(runs: Sequence[Run], floors: Sequence[float] = FLOORS) -> list[Shown]:
    """Return, for each engine, its fastest exact setting and the fastest setting for each recall.

    segmax shows exhaustive search, too. All of them are chosen on the even-numbered queries, over all indexes of an
    engine; an engine without an exact setting shows its best recall if it reaches none of these.
    """
    rows: list[Shown] = []
    for name in dict.fromkeys(family(run.engine) for run in runs):
        rows += _shown_of_family([run for run in runs if family(run.engine) == name], floors)
    return rows


def _shown_of_family(runs: Sequence[Run], floors: Sequence[float]) -> list[Shown]:
    reasons: dict[str, list[str]] = {}
    runs = [run for run in runs if run.setting != NEVER_SWEPT]
    exact = [run for run in runs if run.exact]
    always = [run for run in exact if run.engine == "segmax" and run.setting in ("exact", "exhaustive")]
    for run in always or [run for run in [choose(exact, 0.0)] if run]:
        reasons.setdefault(run.name, []).append("exact")
    for floor in floors if len(exact) < len(runs) else ():
        if best := choose(runs, floor):
            reasons.setdefault(best.name, []).append(f"≥ {f'{floor:g}'.lstrip('0')}")
    if not reasons and runs:
        best = max(runs, key=lambda run: run.chosen_on().recall)
        reasons[best.name] = ["most recall"]
    # What is fastest for a higher recall, and shown for it, is so for a lower one as well.
    return [Shown(run, reasons[run.name][0]) for run in runs if run.name in reasons]
