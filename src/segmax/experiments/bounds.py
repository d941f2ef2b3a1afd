"""Figures 2 and 5: how close the bounds of clusters are to the best scores in them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segmax.base.optional import need
from segmax.drawing.plot import Plot, Series
from segmax.evaluation.significance import LEVEL
from segmax.experiments import printed, verdicts
from segmax.experiments.catalog import LISTED
from segmax.experiments.experiment import Experiment
from segmax.experiments.measuring import PER_QUERY
from segmax.experiments.outcome import Cell, Finding, Outcome, Sheet, Verdict
from segmax.experiments.task import Task
from segmax.experiments.verdicts import Ruling, finding, is_more, p_text, unknown
from segmax.search.index import Index

#: Numbers of clusters are the fine number over these: the paper's 256 to 4,096.
_DIVISORS = (16, 8, 4, 2, 1)
_QUICK_DIVISORS = (4, 2, 1)
_MOST_QUERIES = 500
_QUICK_QUERIES = 20
_MOST_POINTS = 1000
_BINS = 10
_LEAST_POINTS = 3

_FIGURE_2 = (
    "Figure 2 of the paper shows the ratios for MS MARCO without values; its text says that they grow with the number "
    f"of clusters. For {printed.FINE_CLUSTERS:,} clusters of {printed.NUM_SEGMENTS} random segments its Table 3 prints "
    f"Actual/MaxSBound = {printed.TABLE_3_RATIOS['random'][0]}."
)

_DESCRIPTION = """\
Measures how tight the bounds of clusters are: the best score of a query in a
cluster (Actual) over BoundSum, which Anytime Ranking uses, and over MaxSBound,
which ASC uses, for several numbers of clusters (Figure 2). For the largest
number it also measures, cluster by cluster, whether AvgSBound/MaxSBound
predicts how tight MaxSBound is (Figure 5). Needs queries but no judgments; uses
up to 500 queries. --num-clusters sets the largest number of clusters.
"""


def run(task: Task) -> Outcome:
    """Measure tightness for several numbers of clusters, and cluster by cluster for the last."""
    collection = task.collection
    _, fine = task.clusters(collection)
    divisors = _QUICK_DIVISORS if task.quick else _DIVISORS
    counts = sorted({max(1, fine // divisor) for divisor in divisors})
    queries = collection.single_queries(_QUICK_QUERIES if task.quick else _MOST_QUERIES)
    records = []
    for num_clusters in counts:
        for seed in task.seeds:
            index = cache(partial(task.build, collection, num_clusters=num_clusters, seed=seed))
            key = {"step": "tightness", "num_clusters": num_clusters, "seed": seed}
            found = task.step(key, lambda index=index: tightness(index(), queries))  # type: ignore[misc]
            records.append({"collection": collection.name, **key, **found})
    queries_of = {count: _per_query([r for r in records if r["num_clusters"] == count]) for count in counts}
    means = {count: _mean_ratios([r for r in records if r["num_clusters"] == count]) for count in counts}
    last = [record for record in records if record["num_clusters"] == counts[-1]]
    points = _Points(last)
    return Outcome(
        sheets=(_ratio_sheet(means), points.sheet()),
        plots=(_ratio_plot(means), points.plot()),
        findings=(*_ratio_findings(queries_of), points.finding()),
        records=[{key: value for key, value in record.items() if key != PER_QUERY} for record in records],
    )


def tightness(index: Index, queries: list[Any]) -> dict[str, Any]:
    """Return the mean ratios of an index, and those of every cluster that some query reaches.

    As in the paper, a mean is the mean over queries of each query's mean over the clusters where it has a score.
    """
    per_query: list[tuple[float, float, float]] = []
    sums = np.zeros((3, index.num_clusters))
    pairs: list[NDArray[np.float64]] = []
    for query in queries:
        bounds = index.cluster_bounds(query)
        reached = bounds.best_score > 0
        if not reached.any():
            continue
        actual, largest = bounds.best_score[reached], bounds.max_bound[reached]
        by_sum, by_max = actual / bounds.bound_sum[reached], actual / largest
        average = bounds.avg_bound[reached] / largest
        per_query.append((float(by_sum.mean()), float(by_max.mean()), float(average.mean())))
        pairs.append(np.array([average, by_max]))
        sums[:, reached] += (np.ones_like(actual), *pairs[-1])
    count, average_sum, actual_sum = sums[:, sums[0] > 0]
    queries_table = np.array(per_query).reshape(-1, 3)
    ratios = queries_table.mean(axis=0).tolist() if per_query else [None, None]
    return {
        "num_queries": len(per_query),
        PER_QUERY: queries_table[:, :2].T.tolist(),
        "actual_over_bound_sum": ratios[0],
        "actual_over_max_bound": ratios[1],
        "pair_correlation": _correlation(*np.concatenate(pairs, axis=1))[0] if pairs else None,
        "query_correlation": _correlation(queries_table[:, 2], queries_table[:, 1])[0],
        "cluster_avg_over_max": (average_sum / count).round(6).tolist(),
        "cluster_actual_over_max": (actual_sum / count).round(6).tolist(),
    }


# --- Figure 2 ---------------------------------------------------------------------------------------------------------

_Ratios = tuple[float | None, float | None]


def _mean_ratios(records: list[dict[str, Any]]) -> _Ratios:
    """Return the means over seeds; None if no query reaches a document."""
    pairs = [(r["actual_over_bound_sum"], r["actual_over_max_bound"]) for r in records if r["num_queries"]]
    if not pairs:
        return None, None
    first, second = np.mean(pairs, axis=0).tolist()
    return first, second


def _ratio_sheet(means: dict[int, _Ratios]) -> Sheet:
    rows: tuple[tuple[Cell, ...], ...] = tuple((count, *ratios) for count, ratios in means.items())
    columns = ("clusters", "Actual/BoundSum", "Actual/MaxSBound")
    return Sheet(title="Tightness by number of clusters (Figure 2)", columns=columns, rows=rows, note=_FIGURE_2)


def _ratio_plot(means: dict[int, _Ratios]) -> Plot:
    known = {count: ratios for count, ratios in means.items() if None not in ratios}
    return Plot(
        title="How close bounds come to the best score",
        x_label="clusters",
        y_label="Actual / bound",
        series=tuple(
            Series(
                label=label,
                x=tuple(float(count) for count in known),
                y=tuple(float(ratios[place] or 0.0) for ratios in known.values()),
            )
            for place, label in enumerate(("Actual/BoundSum", "Actual/MaxSBound"))
        ),
    )


#: Actual/BoundSum and Actual/MaxSBound, a value per query each.
_Values = tuple[NDArray[np.float64], NDArray[np.float64]]


def _per_query(records: list[dict[str, Any]]) -> _Values:
    """Return the ratios of every query, as means over seeds; all seeds have the same queries."""
    by_sum, by_max = np.mean([record[PER_QUERY] for record in records], axis=0).reshape(2, -1)
    return by_sum, by_max


def _ratio_findings(values: Mapping[int, _Values]) -> tuple[Finding, ...]:
    grows = "The bound of a cluster becomes tighter as the number of clusters grows."
    tighter = "MaxSBound of 8 segments is tighter than BoundSum for every number of clusters."
    counts = list(values)
    if not len(values[counts[0]][0]):
        why = unknown("no query shares a term with a document")
        return tuple(finding(claim, why, "There is nothing to compare.") for claim in (grows, tighter))
    means = {count: tuple(float(each.mean()) for each in both) for count, both in values.items()}
    listed = ", ".join(f"{by_sum:.3f} and {by_max:.3f} with {count:,}" for count, (by_sum, by_max) in means.items())
    steps = [verdicts.compared(values[b][0], values[a][0]) for a, b in itertools.pairwise(counts)]
    return (
        finding(
            grows,
            is_more(*steps) if steps else unknown("there is one number of clusters only"),
            f"Actual/BoundSum goes from {means[counts[0]][0]:.3f} with {counts[0]:,} to {means[counts[-1]][0]:.3f} "
            f"with {counts[-1]:,} clusters.",
        ),
        finding(
            tighter,
            is_more(*(verdicts.compared(by_max, by_sum) for by_sum, by_max in values.values())),
            f"Actual/BoundSum and Actual/MaxSBound are {listed} clusters.",
        ),
    )


# --- Figure 5 ---------------------------------------------------------------------------------------------------------


class _Points:
    """A point per cluster: AvgSBound/MaxSBound and Actual/MaxSBound, each a mean over queries."""

    def __init__(self, records: list[dict[str, Any]]) -> None:
        self._num_clusters = records[0]["num_clusters"]
        self._x = np.concatenate([np.asarray(r["cluster_avg_over_max"], dtype=np.float64) for r in records])
        self._y = np.concatenate([np.asarray(r["cluster_actual_over_max"], dtype=np.float64) for r in records])
        self._correlation, self._p_value = _correlation(self._x, self._y)
        self._others = (
            f"{_rounded(_mean(records, 'query_correlation'))} over queries, each with its means over clusters, and "
            f"{_rounded(_mean(records, 'pair_correlation'))} over single pairs of query and cluster"
        )

    def _binned(self) -> list[tuple[float, float, float, int, float]]:
        """Return both ends, mean x, number of clusters and mean y of every bin with clusters; bins are equally wide."""
        if not len(self._x):
            return []
        edges = np.linspace(self._x.min(), self._x.max(), _BINS + 1)
        place = np.clip(np.searchsorted(edges, self._x, side="right") - 1, 0, _BINS - 1)
        found = []
        for number in np.unique(place).tolist():
            inside = place == number
            x, y = float(self._x[inside].mean()), float(self._y[inside].mean())
            found.append((float(edges[number]), float(edges[number + 1]), x, int(inside.sum()), y))
        return found

    def sheet(self) -> Sheet:
        rows = tuple((f"{low:.3f} to {high:.3f}", count, y) for low, high, _, count, y in self._binned())
        return Sheet(
            title=f"Tightness by AvgSBound/MaxSBound, {self._num_clusters:,} clusters (Figure 5)",
            columns=("AvgSBound/MaxSBound", "clusters", "mean Actual/MaxSBound"),
            rows=rows,
            note=f"The correlation is {_rounded(self._correlation)} over clusters, each with its means over queries, "
            f"{self._others}. Figure 5 of the paper prints no values, nor what its points are; its text says that the "
            "bound is tighter where AvgSBound is closer to MaxSBound.",
        )

    def plot(self) -> Plot:
        step = max(1, -(-len(self._x) // _MOST_POINTS))
        binned = self._binned()
        return Plot(
            title="Does AvgSBound/MaxSBound predict how tight MaxSBound is?",
            x_label="AvgSBound / MaxSBound",
            y_label="Actual / MaxSBound",
            kind="scatter",
            series=(
                Series(label="clusters", x=tuple(self._x[::step].tolist()), y=tuple(self._y[::step].tolist())),
                Series(label="means of bins", x=tuple(b[2] for b in binned), y=tuple(b[4] for b in binned)),
            ),
        )

    def finding(self) -> Finding:
        claim = "Where AvgSBound is closer to MaxSBound, MaxSBound is tighter: the two ratios are correlated."
        if self._correlation is None:
            return finding(claim, unknown("a correlation needs clusters that differ"), "There are too few of them.")
        verdict: Verdict = "tie" if self._p_value >= LEVEL else "holds" if self._correlation > 0 else "fails"
        rule = f"a correlation with p ≥ {LEVEL:g} is a tie; here {p_text(self._p_value)} over {len(self._x):,} clusters"
        evidence = f"The correlation is {self._correlation:.3f} over clusters, {self._others}."
        return finding(claim, Ruling(verdict, rule), evidence)


def _mean(records: list[dict[str, Any]], name: str) -> float | None:
    known = [record[name] for record in records if record[name] is not None]
    return float(np.mean(known)) if known else None


def _rounded(correlation: float | None) -> str:
    return "unknown" if correlation is None else f"{correlation:.3f}"


def _correlation(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[float | None, float]:
    """Return Pearson's r and its p-value; None where r is not defined."""
    if len(x) < _LEAST_POINTS or np.ptp(x) < 1e-9 or np.ptp(y) < 1e-9:
        return None, 1.0
    found = need("scipy.stats", "a correlation", "evaluate").pearsonr(x, y)
    return float(found.statistic), float(found.pvalue)


EXPERIMENT = Experiment(
    **LISTED["bounds"]._asdict(),
    description=_DESCRIPTION,
    run=run,
)
