"""Figure 6: ASC by μ, number of clusters and number of segments."""

from __future__ import annotations

from collections.abc import Sequence

from segmax.experiments import printed
from segmax.experiments.catalog import LISTED
from segmax.experiments.curves import Curve, curves_plots, curves_sheet, measure_curves, scaled_clusters, scaling_note
from segmax.experiments.experiment import Experiment
from segmax.experiments.measuring import Plan, Row, compared, kept, quality_note, recall_key, sentences
from segmax.experiments.outcome import Finding, Outcome
from segmax.experiments.task import Task
from segmax.experiments.verdicts import finding, is_larger, is_more, unknown
from segmax.search.methods import SearchParams

#: Clusters and segments of the curves: the paper's 512*16 and 4096*8, and ours in between.
_SHAPES = ((512, 16), (512, 8), (1024, 8), (2048, 8), (4096, 16), (4096, 8))
_QUICK_SHAPES = ((512, 16), (4096, 8))


def run(task: Task) -> Outcome:
    """Measure a curve per shape, and one of Anytime* for comparison."""
    collection, k = task.collection, max(task.ks)
    shapes = _QUICK_SHAPES if task.quick else _SHAPES
    clusters = scaled_clusters(task, collection, [number for number, _ in shapes])
    curves: list[Curve] = []
    records: list[Row] = []
    for number, segments in shapes:
        if number not in clusters:  # in a small collection, other shapes have as many clusters
            continue
        plan = Plan(num_clusters=clusters[number], num_segments=segments)
        wanted: dict[str, dict[float, SearchParams]] = {
            f"ASC-{plan.shape}": {mu: task.asc(mu) for mu in printed.FIGURE_6_MU}
        }
        if not curves:
            wanted[f"Anytime*-{plan.num_clusters}"] = {mu: task.anytime(mu) for mu in printed.FIGURE_6_MU}
        found, rows = measure_curves(task, collection, plan, k, wanted)
        curves += found
        records += rows
    beside = curves.pop(1)
    note = sentences(
        scaling_note(clusters),
        "Anytime* is shown for comparison; the paper draws it in Figure 3.",
        quality_note(collection),
        printed.FIGURE_6,
    )
    return Outcome(
        sheets=(curves_sheet((*curves, beside), collection, k, f"Figure 6: ASC, η = 1, k = {k}", note),),
        plots=curves_plots((*curves, beside), collection, k, "ASC by clusters*segments"),
        findings=findings(curves, beside, recall_key(collection, k)),
        records=records,
    )


def findings(curves: Sequence[Curve], anytime: Curve, recall: str) -> tuple[Finding, ...]:
    """Return which of the paper's findings on Figure 6 hold.

    Parameters
    ----------
    curves
        The curves of ASC, by ascending number of clusters.
    anytime
        The curve of Anytime* on as many clusters as the first has.
    recall
        The figure that measures recall.
    """
    few, many = curves[0], curves[-1]
    alike = unknown("there is one number of clusters only")
    differ = few.plan.num_clusters < many.plan.num_clusters
    spans = {one.label: one.times[-1] / one.times[0] for one in (few, many)}
    losses = {one.label: 1 - kept(one.recalls(recall)[0], one.recalls(recall)[-1]) for one in (*curves, anytime)}
    least = min(few.rows)
    worst = max(curves, key=lambda one: losses[one.label])
    return (
        finding(
            "Curves of more clusters have a longer span: their latency depends more on μ.",
            is_larger(spans[many.label], spans[few.label], "spans") if differ else alike,
            f"From μ = 1 to μ = {least:g} {many.label} becomes {spans[many.label]:.2f} times as fast, "
            f"{few.label} {spans[few.label]:.2f} times.",
        ),
        finding(
            "For safe pruning (μ = 1) fewer clusters, 512 in the paper, are the better choice.",
            is_larger(many.times[-1], few.times[-1], "times") if differ else alike,
            f"At μ = 1 {few.label} takes {few.times[-1]:.3g} ms, {many.label} {many.times[-1]:.3g} ms.",
        ),
        finding(
            "At small μ many clusters, 4096 in the paper, give the better latency.",
            is_larger(few.times[0], many.times[0], "times") if differ else alike,
            f"At μ = {least:g} {many.label} takes {many.times[0]:.3g} ms, {few.label} {few.times[0]:.3g} ms.",
        ),
        finding(
            "With η = 1 the recall of ASC falls slowly as μ falls, where that of Anytime* falls fast.",
            is_more(compared(worst.rows[least], anytime.rows[least], recall)),
            f"From μ = 1 to μ = {least:g} ASC loses at most {losses[worst.label]:.2%} of its recall ({worst.label}), "
            f"{anytime.label} {losses[anytime.label]:.2%}.",
        ),
    )


EXPERIMENT = Experiment(
    **LISTED["parameters"]._asdict(),
    description="""\
Draws a curve of recall against mean time for several numbers of clusters and
segments, "512*16" being 512 clusters of 16 segments, with a point for each
μ = 0.4, 0.5, 0.6, 0.7 and 1; η is 1. A curve of Anytime* on the fewest clusters
shows what the same μ does without the average bound. Where 4096 clusters would
leave fewer than 16 documents in each, all numbers are scaled down alike;
--num-clusters sets the largest (at most one per document), the others follow.
The depth is the largest k, in the paper 1000.

Needs a collection; without judgments, recall is the recall of exact results.
Builds six indexes, with --quick two.""",
    run=run,
)
