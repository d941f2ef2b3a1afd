"""Figure 3: what over-estimating the threshold costs and saves in Anytime*, by number of clusters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from segmax.experiments import printed
from segmax.experiments.catalog import LISTED
from segmax.experiments.curves import Curve, curves_plots, curves_sheet, measure_curves, scaled_clusters, scaling_note
from segmax.experiments.experiment import Experiment
from segmax.experiments.measuring import PER_QUERY, Plan, Row, quality_note, recall_key, sentences
from segmax.experiments.outcome import Finding, Outcome
from segmax.experiments.task import Task
from segmax.experiments.verdicts import Compared, compared, every, finding, is_as_good, is_larger, is_more, unknown

_QUICK_CURVES = 2


def run(task: Task) -> Outcome:
    """Measure a curve per number of clusters."""
    collection, k = task.collection, max(task.ks)
    clusters = scaled_clusters(task, collection, printed.FIGURE_3_CLUSTERS)
    numbers = list(clusters.values())[: _QUICK_CURVES if task.quick else None]
    methods = {mu: task.anytime(mu) for mu in printed.FIGURE_3_MU}
    curves: list[Curve] = []
    records: list[Row] = []
    for number in numbers:
        plan = Plan(num_clusters=number, num_segments=1)  # Anytime* uses cluster maxima only
        found, rows = measure_curves(task, collection, plan, k, {f"Anytime*-{number}": methods})
        curves += found
        records += rows
    note = sentences(scaling_note(clusters), quality_note(collection), printed.FIGURE_3)
    return Outcome(
        sheets=(curves_sheet(curves, collection, k, f"Figure 3: Anytime*, k = {k}, no time budget", note),),
        plots=curves_plots(curves, collection, k, "Anytime* by number of clusters"),
        findings=findings(curves, recall_key(collection, k)),
        records=records,
    )


def findings(curves: Sequence[Curve], recall: str) -> tuple[Finding, ...]:
    """Return which of the paper's findings on Figure 3 hold; `recall` is the figure that measures it."""
    much, little = (_against_safe(curves, mu, recall) for mu in (0.9, 0.3))
    safe = {one.plan.num_clusters: one.rows[1.0]["mean_ms"] for one in curves}
    most = max(safe)
    fewer = {number: ms for number, ms in safe.items() if number < most}
    fastest = min(safe, key=lambda number: safe[number])
    times = ", ".join(f"{number}: {ms:.3g} ms" for number, ms in safe.items())
    return (
        finding(
            "Anytime* retains recall well at μ = 0.9, but loses it visibly as μ becomes small.",
            every(is_as_good(much, recall), is_more(_turned(little))),
            f"Of the recall at μ = 1 it keeps {1 + much.share:.2%} at μ = 0.9 and {1 + little.share:.2%} at μ = 0.3, "
            "on average over the curves.",
        ),
        finding(
            "As the number of clusters grows, the work per cluster can offset the benefit of tighter bounds.",
            is_larger(safe[most], min(fewer.values()), "times") if fewer else unknown("there is one curve only"),
            f"At μ = 1, by number of clusters, {times}: {fastest} clusters are the fastest.",
        ),
    )


def _against_safe(curves: Sequence[Curve], mu: float, recall: str) -> Compared:
    """Compare the recall of every query at a μ with that at μ = 1, means over the curves."""
    means = [np.mean([one.rows[each][PER_QUERY][recall] for one in curves], axis=0) for each in (mu, 1.0)]
    return compared(*means)


def _turned(found: Compared) -> Compared:
    return found._replace(first=found.second, second=found.first)


EXPERIMENT = Experiment(
    **LISTED["overestimation"]._asdict(),
    description="""\
Draws a curve of recall against mean time for each number of clusters, 256 to
4096, with a point for each μ = 0.3, 0.5, 0.7, 0.9 and 1. Where 4096 clusters
would leave fewer than 16 documents in each, all numbers are scaled down alike;
--num-clusters sets the largest (at most one per document), the others follow.
The depth is the largest k, in the paper 1000.

Needs a collection; without judgments, recall is the recall of exact results.
Builds an index per number of clusters; with --quick only the two smallest.""",
    run=run,
)
