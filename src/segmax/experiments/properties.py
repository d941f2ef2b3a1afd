"""Table 1: the paper's four propositions, checked on an index of the user's collection."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segmax.building.clustering import Labels
from segmax.drawing.plot import Plot, Series
from segmax.experiments.catalog import LISTED
from segmax.experiments.clusters_of import clusters_of
from segmax.experiments.collections import Collection
from segmax.experiments.experiment import Experiment
from segmax.experiments.outcome import Cell, Finding, Outcome, Sheet
from segmax.experiments.task import Task
from segmax.experiments.verdicts import Ruling, counted, finding, unknown
from segmax.paper.methods import ASC, ClusterParams
from segmax.search.index import Index
from segmax.search.methods import Exhaustive
from segmax.search.results import ClusterBounds

_MUS = (0.3, 0.5, 0.7, 0.9)
_TRACED_MUS = (0.3, 0.5, 0.7)
_QUICK_MUS = (0.5, 0.9)
_QUICK_TRACED_MUS = (0.5,)
_ETAS = (0.9, 1.0)
_SEEDS = 5
_QUICK_SEEDS = 2
_MOST_QUERIES = 500
_MOST_TRACED = 100
_QUICK_QUERIES = 10
_ROUNDING = 1e-9
_NORMAL_95 = 1.96

_DESCRIPTION = """\
Checks the paper's propositions on an index of your collection, query by query
and cluster by cluster:
1  BoundSum >= MaxSBound >= best score; MaxSBound >= AvgSBound
2  a cluster kept although MaxSBound <= θ/μ has a small gap to AvgSBound
3  the mean of the best k' scores is at least μ times that of exact search
4  every pruned cluster had AvgSBound <= θ/η; and what share of the exact scores
   is kept with η = 1, on average over several random segmentations
Propositions 2 and 4, as printed, claim more than is true; the exceptions are
counted, too. Needs queries but no judgments. -k sets the number of results
(only the first value counts), --seeds that of segmentations (default: 5).
"""


def run(task: Task) -> Outcome:
    """Check the four propositions."""
    collection = task.collection
    _, num_clusters = task.clusters(collection)
    job = _Job(task, collection, num_clusters)
    first = job.bounds()
    decisions = job.decisions()
    ratios = [job.ratios(seed) for seed in job.seeds]
    kept = _Kept(ratios, job.mus)
    return Outcome(
        sheets=(
            _summary(first, decisions, kept),
            _checks(first, decisions, kept),
            kept.sheet(),
        ),
        plots=(kept.plot(),),
        findings=(_first(first), *_second(decisions), kept.third(), *_fourth(decisions, kept)),
        records=[first, *decisions, *({key: r[key] for key in r if key != "asc"} for r in ratios), *kept.records()],
    )


class _Job:
    """What is checked: queries, and indexes that differ only in their segments."""

    def __init__(self, task: Task, collection: Collection, num_clusters: int) -> None:
        self._task = task
        self._collection = collection
        self._shape = {"num_clusters": num_clusters, "k": task.ks[0]}
        self._k = task.ks[0]
        self.mus = _QUICK_MUS if task.quick else _MUS
        self.traced_mus = _QUICK_TRACED_MUS if task.quick else _TRACED_MUS
        count = _QUICK_SEEDS if task.quick else _SEEDS
        self.seeds = task.seeds if len(task.seeds) > 1 else tuple(range(task.seeds[0], task.seeds[0] + count))
        self._queries = collection.single_queries(_QUICK_QUERIES if task.quick else _MOST_QUERIES)
        self._traced = self._queries[:_MOST_TRACED]
        self._first = cache(partial(task.build, collection, num_clusters=num_clusters, seed=self.seeds[0]))

    def _index(self, seed: int) -> Index:
        if seed == self.seeds[0]:
            return self._first()
        first = self._first()
        clusters = Labels(clusters_of(first))
        return self._task.build(self._collection, num_clusters=first.num_clusters, seed=seed, clustering=clusters)

    def _step(self, key: dict[str, Any], compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        key = {**self._shape, **key}
        return {**key, **self._task.step(key, compute)}

    def bounds(self) -> dict[str, Any]:
        """Check Proposition 1."""
        return self._step({"step": "bounds"}, lambda: check_bounds(self._first(), self._queries))

    def decisions(self) -> list[dict[str, Any]]:
        """Check Proposition 2, and the true part of Proposition 4, for every decision about a cluster."""
        methods = [self._task.asc(mu, eta) for mu in self.traced_mus for eta in _ETAS]
        key = {"step": "decisions", "methods": [[params.mu, params.eta] for params in methods]}
        found = self._step(key, lambda: {"each": check_decisions(self._first(), self._traced, methods, self._k)})
        return [{**self._shape, **each} for each in found["each"]]

    def ratios(self, seed: int) -> dict[str, Any]:
        """Return the ratios of scores that Proposition 3 bounds, and what ASC keeps with η = 1."""
        methods = {mu: (self._task.anytime(mu), self._task.asc(mu), self._task.asc(mu, mu)) for mu in self.mus}
        key = {"step": "ratios", "seed": seed, "mus": list(self.mus)}
        return self._step(key, lambda: score_ratios(self._index(seed), self._queries, methods, self._k))


# --- checks -----------------------------------------------------------------------------------------------------------


def check_bounds(index: Index, queries: list[Any]) -> dict[str, Any]:
    """Count where BoundSum >= MaxSBound >= best score and MaxSBound >= AvgSBound hold, and where they do not."""
    checks = violations = 0
    worst = np.zeros(3)
    means: list[list[float]] = []
    for query in queries:
        bounds = index.cluster_bounds(query)
        reached = bounds.bound_sum > 0
        if not reached.any():
            continue
        total, largest = bounds.bound_sum[reached], bounds.max_bound[reached]
        best, average = bounds.best_score[reached], bounds.avg_bound[reached]
        ratios = np.array([largest / total, best / largest, average / largest])
        checks += ratios.size
        violations += int((ratios > 1 + _ROUNDING).sum())
        worst = np.maximum(worst, ratios.max(axis=1))
        means.append([float((best / total).mean()), float(ratios[1].mean())])
    by_sum, by_max = np.mean(means, axis=0).tolist() if means else (None, None)
    return {
        "checks": checks,
        "violations": violations,
        "worst_ratios": worst.tolist(),
        "actual_over_bound_sum": by_sum,
        "actual_over_max_bound": by_max,
    }


def check_decisions(index: Index, queries: list[Any], methods: Sequence[ASC], k: int) -> list[dict[str, Any]]:
    """Check every decision of every method about a cluster against Propositions 2 and 4.

    `kept` counts clusters visited although MaxSBound <= θ/μ, `kept_wrong` those of them whose gap is too large.
    `pruned` counts clusters not visited, `pruned_wrong` those of them whose bounds did not allow that, and
    `pruned_small_gap` those that Proposition 2 as printed would have kept.
    """
    number = {int(label): at for at, label in enumerate(index._labels.tolist())}
    found = [_Decisions(params) for params in methods]
    for query in queries:
        bounds = index.cluster_bounds(query)
        for decisions in found:
            hits = index.search(query, k=k, params=decisions.params, trace=True)
            # Clusters that are not in the trace fell to the stop rule, at the final threshold.
            end = float(hits.scores[-1]) if len(hits) == min(k, index.num_docs) else 0.0
            threshold = np.full(index.num_clusters, end)
            visited = np.zeros(index.num_clusters, dtype=bool)
            for entry in hits.trace or ():
                threshold[number[entry.cluster]] = entry.threshold
                visited[number[entry.cluster]] = entry.decision == "visited"
            decisions.add(bounds, visited, threshold)
    return [decisions.to_dict() for decisions in found]


class _Decisions:
    """Counts of decisions of one method."""

    def __init__(self, params: ASC) -> None:
        self.params = params
        self._counts = dict.fromkeys(("kept", "kept_wrong", "pruned", "pruned_wrong", "pruned_small_gap"), 0)
        self._worst_average = 0.0

    def add(self, bounds: ClusterBounds, visited: NDArray[np.bool_], threshold: NDArray[np.float64]) -> None:
        """Count the clusters of a query."""
        mu, eta = self.params.mu, self.params.eta
        gap = bounds.max_bound - bounds.avg_bound
        over = threshold * (1 + _ROUNDING)
        kept = visited & (threshold > 0) & (bounds.max_bound <= threshold / mu)
        pruned = ~visited & (bounds.bound_sum > 0)
        not_allowed = (bounds.avg_bound > over / eta) | (bounds.max_bound > over / mu)
        for name, which in (
            ("kept", kept),
            ("kept_wrong", kept & (gap > (1 / mu - 1 / eta) * over)),
            ("pruned", pruned),
            ("pruned_wrong", pruned & not_allowed),
            ("pruned_small_gap", pruned & (gap <= (1 / mu - 1 / eta) * threshold)),
        ):
            self._counts[name] += int(which.sum())
        compared = pruned & (threshold > 0)
        if compared.any():
            shares = eta * bounds.avg_bound[compared] / threshold[compared]
            self._worst_average = max(self._worst_average, float(shares.max()))

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as plain values."""
        counts = {"mu": self.params.mu, "eta": self.params.eta, **self._counts}
        return {**counts, "worst_avg_over_threshold": self._worst_average}


def score_ratios(
    index: Index, queries: list[Any], methods: Mapping[float, tuple[ClusterParams, ...]], k: int
) -> dict[str, Any]:
    """Return the worst ratio of mean top-k' scores to exact ones by μ, and the ratio at k of every query for ASC.

    The methods of a μ are Anytime*, ASC with η = 1 and ASC with η = μ.
    """
    answers = index.search_batch(queries, k=k, params=Exhaustive())
    finding = np.flatnonzero(answers.counts)
    asked = [queries[row] for row in finding.tolist()]
    exact = np.cumsum(answers.scores[finding], axis=1)
    worst: dict[str, float | None] = {}
    checks = violations = 0
    asc: dict[str, list[float]] = {}
    for mu, several in methods.items():
        lowest = 1.0
        for place, params in enumerate(several):
            if not asked:
                continue
            found = np.cumsum(index.search_batch(asked, k=k, params=params).scores, axis=1) / exact
            checks += found.size
            violations += int((found < mu - _ROUNDING).sum())
            lowest = min(lowest, float(found.min()))
            if place == 1:
                asc[f"{mu:g}"] = found[:, -1].tolist()
        worst[f"{mu:g}"] = lowest if asked else None
    return {"checks": checks, "violations": violations, "worst": worst, "asc": asc}


# --- what is kept -----------------------------------------------------------------------------------------------------


class _Kept:
    """The share of the exact scores that searches keep, over all seeds."""

    def __init__(self, ratios: list[dict[str, Any]], mus: tuple[float, ...]) -> None:
        self._ratios = ratios
        self._mus = mus
        self.num_seeds = len(ratios)
        self.checks = sum(r["checks"] for r in ratios)
        self.violations = sum(r["violations"] for r in ratios)

    def worst(self, mu: float) -> float | None:
        """Return the worst ratio over all methods, queries, k' and seeds."""
        values = [r["worst"][f"{mu:g}"] for r in self._ratios if r["worst"][f"{mu:g}"] is not None]
        return min(values) if values else None

    def mean(self, mu: float) -> tuple[float, float, float] | None:
        """Return the mean ratio of ASC with η = 1 and the ends of its 95 % interval; None without queries."""
        per_seed = [r["asc"].get(f"{mu:g}", []) for r in self._ratios]
        if not per_seed[0]:
            return None
        per_query = np.mean(per_seed, axis=0)  # queries are independent, seeds of one query are not
        mean = float(per_query.mean())
        half = _NORMAL_95 * float(per_query.std(ddof=1)) / len(per_query) ** 0.5 if len(per_query) > 1 else 0.0
        return mean, mean - half, min(1.0, mean + half)

    def records(self) -> list[dict[str, Any]]:
        found = []
        for mu in self._mus:
            mean = self.mean(mu)
            low, high = (None, None) if mean is None else mean[1:]
            first = None if mean is None else mean[0]
            found.append({"mu": mu, "eta": 1.0, "mean": first, "low": low, "high": high, "worst": self.worst(mu)})
        return found

    def sheet(self) -> Sheet:
        rows: list[tuple[Cell, ...]] = []
        for record in self.records():
            interval = "" if record["mean"] is None else f"{record['low']:.5f} to {record['high']:.5f}"
            rows.append((f"{record['mu']:g}", record["mean"], interval, record["worst"]))
        return Sheet(
            title="What is kept of the exact scores",
            columns=("μ", "mean of ASC, η = 1", "95 % interval", "worst of all methods"),
            rows=tuple(rows),
            note=f"The mean score of the results over that of exact search: the mean over queries and {self.num_seeds} "
            "random segmentations, its interval over queries, and the worst of any query, k' <= k and segmentation by "
            "Anytime*, ASC with η = 1 and ASC with η = μ, for which Proposition 3 promises at least μ.",
        )

    def plot(self) -> Plot:
        known = [record for record in self.records() if record["mean"] is not None]
        x = tuple(float(record["mu"]) for record in known)
        return Plot(
            title="What is kept of the exact scores",
            x_label="μ",
            y_label="score over exact score",
            series=(
                Series(label="ASC, η = 1: mean", x=x, y=tuple(record["mean"] for record in known)),
                Series(label="worst of all methods", x=x, y=tuple(record["worst"] for record in known)),
                Series(label="promised: μ", x=x, y=x),
            ),
        )

    def third(self) -> Finding:
        claim = "Proposition 3: the mean score of the best k' results is at least μ times that of exact search."
        if not self.checks:
            return finding(claim, _never(0, 0), "No query finds a document.")
        listed = ", ".join(f"{self.worst(mu):.3f} for μ = {mu:g}" for mu in self._mus)
        return finding(
            claim,
            _never(self.checks, self.violations),
            f"{self.violations:,} of {self.checks:,} checks fail; the worst ratios are {listed}.",
        )


# --- tables and findings ----------------------------------------------------------------------------------------------


def _total(decisions: list[dict[str, Any]], name: str) -> int:
    return sum(int(record[name]) for record in decisions)


def _verdict(checks: int, violations: int) -> str:
    return "not checked" if not checks else "holds" if not violations else f"fails in {violations:,} checks"


def _summary(first: dict[str, Any], decisions: list[dict[str, Any]], kept: _Kept) -> Sheet:
    loose, tight = first["actual_over_bound_sum"], first["actual_over_max_bound"]
    tightness = "" if loose is None else f": Actual/bound {loose:.3f} and {tight:.3f}"
    rows: tuple[tuple[Cell, ...], ...] = (
        ("cluster bound", "loose", "tighter", 1, _verdict(first["checks"], first["violations"]) + tightness),
        (
            "adaptive to bound quality",
            "no",
            "yes",
            2,
            _verdict(_total(decisions, "kept"), _total(decisions, "kept_wrong")) + ", for clusters that are kept",
        ),
        ("μ-approximate safeness", "yes", "yes", 3, _verdict(kept.checks, kept.violations)),
        (
            "η-approximate, probabilistic safeness",
            "no",
            "yes",
            4,
            _verdict(_total(decisions, "pruned"), _total(decisions, "pruned_wrong")) + ", for clusters that are pruned",
        ),
    )
    columns = ("property", "Anytime* (paper)", "ASC (paper)", "proposition", "here")
    return Sheet(title="Properties of ASC and Anytime* (Table 1)", columns=columns, rows=rows)


def _checks(first: dict[str, Any], decisions: list[dict[str, Any]], kept: _Kept) -> Sheet:
    names = ("MaxSBound/BoundSum", "best score/MaxSBound", "AvgSBound/MaxSBound")
    largest = ", ".join(f"{name} {ratio:.4f}" for name, ratio in zip(names, first["worst_ratios"], strict=True))
    average = max((record["worst_avg_over_threshold"] for record in decisions), default=0.0)
    small = _total(decisions, "pruned_small_gap")
    pruned = _total(decisions, "pruned")
    rows: tuple[tuple[Cell, ...], ...] = (
        ("1: bounds are in order", first["checks"], first["violations"], largest),
        (
            "2: kept although MaxSBound <= θ/μ: gap < (1/μ - 1/η) θ",
            _total(decisions, "kept"),
            _total(decisions, "kept_wrong"),
            "",
        ),
        ("2 as printed: a gap <= (1/μ - 1/η) θ is never pruned", pruned, small, ""),
        ("3: mean top-k' score >= μ × exact", kept.checks, kept.violations, ""),
        (
            "4: pruned only if AvgSBound <= θ/η and MaxSBound <= θ/μ",
            pruned,
            _total(decisions, "pruned_wrong"),
            f"η AvgSBound/θ {average:.4f}",
        ),
    )
    return Sheet(
        title="Checks",
        columns=("what", "checks", "violations", "largest ratios"),
        rows=rows,
        note="Proposition 2 holds for clusters that are kept; its converse, as printed, fails on the paper's own "
        "example (Figure 4, cluster 1). docs/guarantees.md explains what holds and why.",
    )


def _never(checks: int, violations: int) -> Ruling:
    """Return the ruling on what must never happen."""
    rule = f"a single exception refutes it, beyond rounding ({_ROUNDING:g})"
    return counted(violations == 0, rule) if checks else unknown("there is nothing to check")


def _first(first: dict[str, Any]) -> Finding:
    return finding(
        "Proposition 1: BoundSum >= MaxSBound >= best score, so segments make the bound tighter.",
        _never(first["checks"], first["violations"]),
        f"{first['violations']:,} of {first['checks']:,} checks fail.",
    )


def _second(decisions: list[dict[str, Any]]) -> tuple[Finding, ...]:
    kept, wrong = _total(decisions, "kept"), _total(decisions, "kept_wrong")
    pruned, small = _total(decisions, "pruned"), _total(decisions, "pruned_small_gap")
    return (
        finding(
            "Proposition 2, as far as it is true: a cluster kept although MaxSBound <= θ/μ has "
            "MaxSBound - AvgSBound < (1/μ - 1/η) θ.",
            _never(kept, wrong),
            f"{wrong:,} of {kept:,} such clusters have a larger gap.",
        ),
        finding(
            "Proposition 2 as printed: no cluster with MaxSBound - AvgSBound <= (1/μ - 1/η) θ is pruned.",
            _never(pruned, small),
            f"{small:,} of {pruned:,} pruned clusters have such a gap: those whose bounds are far below θ.",
        ),
    )


def _fourth(decisions: list[dict[str, Any]], kept: _Kept) -> tuple[Finding, ...]:
    pruned, wrong = _total(decisions, "pruned"), _total(decisions, "pruned_wrong")
    means = [record for record in kept.records() if record["mean"] is not None]
    below = [record for record in means if record["mean"] < 1.0 - _ROUNDING]
    listed = ", ".join(f"{r['mean']:.5f} ({r['low']:.5f} to {r['high']:.5f}) at μ = {r['mu']:g}" for r in means)
    return (
        finding(
            "Proposition 4, what holds of it: every pruned cluster had AvgSBound <= θ/η.",
            _never(pruned, wrong),
            f"{wrong:,} of {pruned:,} pruned clusters had a larger one.",
        ),
        finding(
            "Proposition 4 as printed: with η = 1 the expected mean score is that of exact search.",
            # No search finds more than the exact one, so the mean is below 1 as soon as one query loses something.
            _never(len(means), len(below)),
            f"The mean ratio over {kept.num_seeds} segmentations (and its 95 % interval over queries) is {listed}; no "
            "ratio can exceed 1, so a mean below 1 is a loss."
            if means
            else "No query counts.",
        ),
    )


EXPERIMENT = Experiment(
    **LISTED["properties"]._asdict(),
    description=_DESCRIPTION,
    run=run,
)
