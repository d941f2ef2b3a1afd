"""A picture of an evaluation: what every method keeps against what it costs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from segmax.figures import COLORS, INK, check_plot, finish, literal, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from segmax.evaluation.outcome import Evaluation


def plot_evaluation(evaluation: Evaluation, path: str | os.PathLike[str] | None = None) -> Figure:
    """Draw a panel per measure, each with a point per method: latency across, the measure upwards.

    The line from a point leads to the 99th percentile of its latency.
    """
    if path is not None:
        check_plot(path)
    measures = (*evaluation.measures, "recall_of_exact")
    figure = new_figure(4.6 * len(measures), 4.8)
    panels = figure.subplots(1, len(measures), squeeze=False)[0]
    for axes, measure in zip(panels, measures, strict=True):
        _draw(axes, evaluation, measure)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9, labelcolor=INK)
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


def _draw(axes: Axes, evaluation: Evaluation, measure: str) -> None:
    for number, method in enumerate(evaluation.methods):
        value = float(method.per_query[measure].mean())
        color = COLORS[number % len(COLORS)]
        axes.plot([method.mean_ms, method.p99_ms], [value, value], color=color, linewidth=1, alpha=0.5)
        marker = "os^Dv"[number // len(COLORS) % 5]
        axes.plot(method.mean_ms, value, marker, color=color, markersize=8, label=literal(method.name))
    axes.set_xscale("log")
    axes.set_xlabel("milliseconds per query: mean, and a line to p99")
    title = "Recall of exhaustive search" if measure == "recall_of_exact" else measure
    finish(axes, title, f"{evaluation.num_queries:,} queries, k = {evaluation.k}", grid="both")
