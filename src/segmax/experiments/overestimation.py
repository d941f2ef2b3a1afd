"""Figure 3: what over-estimating the threshold costs and saves Anytime*, by number of clusters."""

from __future__ import annotations

from collections.abc import Sequence

from segmax.experiments import paper
from segmax.experiments.base import Finding, Outcome
from segmax.experiments.curves import Curve, curves_plots, curves_sheet, measure_curves, scaled_clusters, scaling_note
from segmax.experiments.experiment import Experiment
from segmax.experiments.measuring import (
    Plan,
    Row,
    about_as_good,
    clearly_more,
    kept,
    quality_note,
    recall_key,
    sentences,
    similar,
    similar_note,
)
from segmax.experiments.task import Task

_QUICK_CURVES = 2


def run(task: Task) -> Outcome:
    """Measure a curve per number of clusters."""
    collection, k = task.collection, max(task.ks)
    clusters = scaled_clusters(task, collection, paper.FIGURE_3_CLUSTERS)
    numbers = list(clusters.values())[: _QUICK_CURVES if task.quick else None]
    methods = {mu: task.anytime(mu) for mu in paper.FIGURE_3_MU}
    curves: list[Curve] = []
    records: list[Row] = []
    for number in numbers:
        plan = Plan(num_clusters=number, num_segments=1)  # Anytime* looks at cluster maxima only
        found, rows = measure_curves(task, collection, plan, k, {f"Anytime*-{number}": methods})
        curves += found
        records += rows
    note = sentences(scaling_note(clusters), quality_note(collection), paper.FIGURE_3)
    return Outcome(
        sheets=(curves_sheet(curves, collection, k, f"Figure 3: Anytime*, k = {k}, no time budget", note),),
        plots=curves_plots(curves, collection, k, "Anytime* by number of clusters"),
        findings=findings(curves, recall_key(collection, k)),
        records=records,
    )


def findings(curves: Sequence[Curve], recall: str) -> tuple[Finding, ...]:
    """Tell what of the paper's findings on Figure 3 holds; `recall` is the figure that stands for it."""
    shares = {mu: [kept(one.rows[mu][recall], one.rows[1.0][recall]) for one in curves] for mu in (0.3, 0.9)}
    little, much = (sum(shares[mu]) / len(curves) for mu in (0.3, 0.9))
    safe = {one.plan.num_clusters: one.rows[1.0]["mean_ms"] for one in curves}
    fastest, most = min(safe, key=lambda number: safe[number]), max(safe)
    fewer = [ms for number, ms in safe.items() if number < most]
    times = ", ".join(f"{number}: {ms:.3g} ms" for number, ms in safe.items())
    return (
        Finding(
            claim="Anytime* retains recall well at μ = 0.9, but loses it visibly as μ becomes small.",
            holds=_retained(much, little, recall) if any(one.rows[1.0][recall] for one in curves) else None,
            evidence=f"Of the recall at μ = 1 it keeps {much:.2%} at μ = 0.9 and {little:.2%} at μ = 0.3, on average "
            f"over the curves; {similar_note(recall)}.",
        ),
        Finding(
            claim="As the number of clusters grows, the work per cluster can offset the benefit of tighter bounds.",
            holds=clearly_more(safe[most], min(fewer)) if fewer else None,
            evidence=f"At μ = 1, by number of clusters, {times}: {fastest} clusters are the fastest.",
        ),
    )


def _retained(much: float, little: float, recall: str) -> bool | None:
    """Whether recall is kept at the large μ and lost at the small one, given as shares of that at μ = 1."""
    return about_as_good(much, 1.0, recall) if not similar(little, 1.0) else False


EXPERIMENT = Experiment(
    name="overestimation",
    place="Figure 3",
    title="recall against time of Anytime*, by μ and number of clusters",
    description="""\
Draws a curve of recall against mean time for each number of clusters, 256 to
4096, with a point for each μ = 0.3, 0.5, 0.7, 0.9 and 1. Where 4096 clusters
would leave fewer than 16 documents in each, all numbers are scaled down alike;
--clusters sets the largest, at most one per document, and the others follow.
The depth is the largest k, in the paper 1000.

Needs a collection; without judgements recall is that of exact results. Builds
an index per number of clusters, with --quick the two smallest only.""",
    run=run,
)
