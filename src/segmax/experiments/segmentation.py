"""Table 3: random segments beside segments of similar documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np

from segmax.drawing.plot import Plot, Series
from segmax.evaluation import TTest
from segmax.experiments import printed
from segmax.experiments.catalog import LISTED
from segmax.experiments.collections import Collection
from segmax.experiments.curves import MARKED_BY_MU
from segmax.experiments.experiment import Experiment
from segmax.experiments.measuring import (
    CLUSTERS_VISITED,
    PER_QUERY,
    VISITED,
    Plan,
    Row,
    cells,
    compared,
    heading,
    headings,
    measure,
    quality_keys,
    quality_note,
    recall_key,
    sentences,
    visited,
)
from segmax.experiments.outcome import Cell, Finding, Outcome, Sheet
from segmax.experiments.rows import clusters_note, plans
from segmax.experiments.task import Task
from segmax.experiments.tested import no_degradation, t_tests, tested_sheets
from segmax.experiments.verdicts import finding, is_as_good, is_more, unknown
from segmax.search.index import Index
from segmax.storage.config import Segmentation

_KINDS = {"kmeans": "k-means", "random": "random"}
#: Below this μ the kinds of segments differ in the paper.
_SMALL_MU = 0.5
#: The most queries whose bounds are measured.
_MOST_QUERIES = 500


def run(task: Task) -> Outcome:
    """Measure both halves of Table 3."""
    collection, k = task.collection, max(task.ks)
    made = plans(task, collection)
    methods = {f"{mu:g}": task.asc(mu) for mu in printed.TABLE_3}
    found: dict[str, dict[float, Row]] = {}
    ratios: dict[str, Row] = {}
    records: list[Row] = []
    look = partial(bound_ratios, queries=collection.single_queries(_MOST_QUERIES))
    kinds: tuple[Segmentation, ...] = ("kmeans", "random")
    for kind in kinds:
        plan = Plan(num_clusters=made.fine.num_clusters, num_segments=printed.NUM_SEGMENTS, segmentation=kind)
        measured = measure(task, collection, plan, {k: methods}, look)
        records += measured.records
        found[kind] = {mu: measured.rows[k][f"{mu:g}"] for mu in printed.TABLE_3}
        ratios[kind] = measured.figures
    note = sentences(clusters_note(made), quality_note(collection))
    recall = recall_key(collection, k)
    tests = _tests(found)
    return Outcome(
        sheets=(
            _relevance(collection, k, found, made.fine.shape, note),
            _ratios(ratios),
            *tested_sheets(f"t-tests, k = {k}", tests, {}),
        ),
        plots=(_plot(found, recall),),
        findings=(*findings(found, ratios, recall), no_degradation(f"k = {k}, random segments", tests)),
        records=records,
    )


def _tests(found: Mapping[str, Mapping[float, Row]]) -> list[TTest]:
    """Test ASC with random segments against exact search, and against k-means segments at the same μ."""
    named = {f"{_KINDS[kind]}, μ={mu:g}": row for kind, rows in found.items() for mu, row in rows.items()}
    approximate = [mu for mu in found["random"] if mu < 1]
    others = [(f"random, μ={mu:g}", other) for mu in approximate for other in ("random, μ=1", f"k-means, μ={mu:g}")]
    return t_tests(named, others)


def bound_ratios(index: Index, queries: Iterable[Any]) -> Row:
    """Return how tight segment bounds are, and how far the largest bound of a cluster is from the mean bound.

    Returns
    -------
    dict
        "tightness" is the mean of Actual/MaxSBound, "gap" that of (MaxSBound − AvgSBound)/Actual, "gap of means"
        1/mean(Actual/MaxSBound) − 1/mean(Actual/AvgSBound). All means are over queries of each query's mean over the
        clusters where it has a score; "per_query" has the first two of every query.
    """
    per_query = []
    for query in queries:
        bounds = index.cluster_bounds(query)
        scored = bounds.best_score > 0
        if scored.any():
            actual, largest, average = bounds.best_score[scored], bounds.max_bound[scored], bounds.avg_bound[scored]
            ratios = actual / largest, actual / average, (largest - average) / actual
            per_query.append([float(ratio.mean()) for ratio in ratios])
    if not per_query:  # no query reaches a document, so no bound is too high
        return {"tightness": 1.0, "gap": 0.0, "gap of means": 0.0, PER_QUERY: {"tightness": [], "gap": []}}
    by_max, by_average, gap = np.mean(per_query, axis=0).tolist()
    values = {"tightness": [each[0] for each in per_query], "gap": [each[2] for each in per_query]}
    return {"tightness": by_max, "gap": gap, "gap of means": 1 / by_max - 1 / by_average, PER_QUERY: values}


def _relevance(
    collection: Collection, k: int, found: Mapping[str, Mapping[float, Row]], shape: str, note: str
) -> Sheet:
    keys = (VISITED, *quality_keys(collection, k), "mean_ms")
    known = ("paper MRR@10", "paper Recall@1000", "paper MRT ms")
    columns = [f"{name} {column}" for name in _KINDS.values() for column in (*headings(keys), *known)]
    rows: list[tuple[Cell, ...]] = []
    for mu, values in printed.TABLE_3.items():
        row: list[Cell] = [f"{mu:g}, 1"]
        for kind in _KINDS:
            theirs: printed.Relevance = getattr(values, kind)
            row += [*cells(found[kind][mu], keys), theirs.quality, theirs.recall, printed.three_digits(theirs.ms)]
        rows.append(tuple(row))
    return Sheet(
        title=f"Table 3: ASC-{shape} with k-means and with random segments, k = {k}",
        columns=("μ, η", *columns),
        rows=tuple(rows),
        note=note,
    )


def _ratios(ratios: Mapping[str, Row]) -> Sheet:
    return Sheet(
        title="Table 3, lower half: average ratios",
        columns=(
            "segments",
            "Actual/MaxSBound",
            "paper Actual/MaxSBound",
            "(MaxSBound−AvgSBound)/Actual",
            "of means",
            "paper (MaxSBound−AvgSBound)/Actual",
        ),
        rows=tuple(
            (
                name,
                ratios[kind]["tightness"],
                printed.three_digits(printed.TABLE_3_RATIOS[kind].tightness),
                ratios[kind]["gap"],
                ratios[kind]["gap of means"],
                printed.three_digits(printed.TABLE_3_RATIOS[kind].gap),
            )
            for kind, name in reversed(_KINDS.items())
        ),
        note=f"All means are over queries (at most {_MOST_QUERIES}) of the means over their clusters with a score. The "
        "paper's source works its second ratio out as 1/mean(Actual/MaxSBound) − 1/mean(Actual/AvgSBound): the column "
        "'of means'. The finding on the gap is tested on the column before it, which queries have one by one.",
    )


def _plot(found: Mapping[str, Mapping[float, Row]], recall: str) -> Plot:
    return Plot(
        title="ASC by kind of segments",
        x_label=f"mean time, ms; {MARKED_BY_MU}",
        y_label=heading(recall),
        series=tuple(
            Series(
                label=f"{name} segments",
                x=tuple(found[kind][mu]["mean_ms"] for mu in sorted(found[kind])),
                y=tuple(found[kind][mu][recall] for mu in sorted(found[kind])),
                marks=tuple(f"{mu:g}" for mu in sorted(found[kind])),
            )
            for kind, name in _KINDS.items()
        ),
    )


def findings(found: Mapping[str, Mapping[float, Row]], ratios: Mapping[str, Row], recall: str) -> tuple[Finding, ...]:
    """Return which of the paper's findings on Table 3 hold.

    Parameters
    ----------
    found
        Figures by kind of segments, "kmeans" and "random", and μ.
    ratios
        What `bound_ratios` returned, by kind.
    recall
        The figure that measures recall.
    """
    random, kmeans = found["random"], found["kmeans"]
    least = min(random)
    shares = {kind: visited(rows[least]) for kind, rows in found.items()}
    hardly = compared(random[least], random[1.0], recall)
    bounds = ratios["random"], ratios["kmeans"]
    return (
        *(_keeps_more(mu, random[mu], kmeans[mu], recall) for mu in random if mu <= _SMALL_MU),
        finding(
            "With random segments and η = 1, recall hardly falls even at the smallest μ (by 0.9 % at 0.3).",
            is_as_good(hardly, recall),
            f"At μ = {least:g} {heading(recall)} is {hardly.first:.4f}, at μ = 1 {hardly.second:.4f}.",
        ),
        finding(
            "At small μ random segments prune fewer clusters than k-means segments.",
            is_more(compared(random[least], kmeans[least], CLUSTERS_VISITED)),
            f"At μ = {least:g} {shares['random']:.1f} % of clusters are visited with random segments, "
            f"{shares['kmeans']:.1f} % with k-means segments.",
        ),
        _by_ratio("The bounds of random segments are slightly tighter.", "tightness", "Actual/MaxSBound", bounds),
        _by_ratio(
            "Between MaxSBound and AvgSBound random segments have a much smaller gap.",
            "gap",
            "(MaxSBound−AvgSBound)/Actual",
            bounds,
            smaller=True,
        ),
    )


def _keeps_more(mu: float, random: Row, kmeans: Row, recall: str) -> Finding:
    theirs = printed.TABLE_3[mu]
    both = compared(random, kmeans, recall)
    return finding(
        f"At small μ random segments keep more recall than k-means segments (at μ = {mu:g} {theirs.random.recall:.4f} "
        f"and {theirs.kmeans.recall:.4f}).",
        is_more(both),
        f"{heading(recall)} at μ = {mu:g} is {both.first:.4f} with random, {both.second:.4f} with k-means segments.",
    )


def _by_ratio(claim: str, key: str, name: str, bounds: tuple[Row, Row], *, smaller: bool = False) -> Finding:
    """Return whether random segments have the larger mean ratio, or the smaller one."""
    if not bounds[0][PER_QUERY][key]:
        return finding(claim, unknown("no query reaches a document"), "There is nothing to compare.")
    larger, other = reversed(bounds) if smaller else bounds
    return finding(
        claim,
        is_more(compared(larger, other, key)),
        f"{name} is {bounds[0][key]:.3f}, and {bounds[1][key]:.3f} with k-means segments.",
    )


EXPERIMENT = Experiment(
    **LISTED["segmentation"]._asdict(),
    description="""\
Builds the same clusters with two kinds of segments, at random and by k-means,
and searches both with ASC, η = 1 and μ = 0.3 to 1. A second table compares how
tight segment bounds are (Actual/MaxSBound; Actual is the best score in the
cluster) and how far the largest bound of a cluster is from the mean bound: that
gap decides what a small μ may prune. The depth is the largest k, in the paper
1000; --num-clusters sets the number of clusters.

Needs a collection; without judgments, recall is the recall of exact results.""",
    run=run,
)
