"""What the demo shows of an evaluation: tables of relevance and of speed, and a picture of the latter."""

from __future__ import annotations

from pathlib import Path

from segmax.base.display import counted, plain_number
from segmax.base.figures import COLORS, INK, finish, new_figure, picture_format
from segmax.base.files import replacing
from segmax.base.text_table import Column
from segmax.evaluation import Evaluation


def relevance_columns(found: Evaluation) -> list[Column]:
    """Return a table of what methods find."""
    measures = [
        Column(heading=name, cells=[f"{method.relevance[name]:.4f}" for method in found]) for name in found.measures
    ]
    return [_names(found), *measures, _recall(found)]


def speed_columns(found: Evaluation) -> list[Column]:
    """Return a table of how long methods take, and how much faster than the first they are."""
    slowest = found.methods[0].mean_ms
    return [
        _names(found),
        _recall(found),
        Column(heading="mean ms", cells=[f"{method.mean_ms:.4f}" for method in found]),
        Column(heading="p99 ms", cells=[f"{method.p99_ms:.4f}" for method in found]),
        Column(heading="speed", cells=[f"{slowest / method.mean_ms:.1f}×" for method in found]),
        Column(heading="documents scored", cells=[f"{method.docs_scored_share:.2%}" for method in found]),
    ]


def _names(found: Evaluation) -> Column:
    return Column(heading="method", cells=[method.name for method in found], words=True)


def _recall(found: Evaluation) -> Column:
    return Column(heading="of exact", cells=[f"{method.recall_of_exact:.4f}" for method in found])


def draw(found: Evaluation, path: Path) -> None:
    """Draw the mean time of every method as a bar, with a line to its 99th percentile."""
    figure = new_figure(8, 1.6 + 0.5 * len(found))
    axes = figure.subplots()
    methods = list(reversed(found.methods))
    names, means = [method.name for method in methods], [method.mean_ms for method in methods]
    tails = [max(0.0, method.p99_ms - method.mean_ms) for method in methods]
    places = list(range(len(methods)))
    axes.barh(places, means, color=COLORS[0], height=0.6, tick_label=names)
    axes.errorbar(means, places, xerr=[[0.0] * len(tails), tails], fmt="none", ecolor=INK, elinewidth=1, capsize=3)
    for place, method in zip(places, methods, strict=True):
        label = f"  {plain_number(method.mean_ms, 2)} ms, {method.recall_of_exact:.1%} of exact results"
        axes.text(max(method.p99_ms, method.mean_ms), place, label, va="center", fontsize=9, color=INK)
    axes.set_xlim(0, max(method.p99_ms for method in methods) * 1.7)
    axes.set_xlabel("milliseconds per query: mean, and a line to p99")
    summary = f"{counted(found.num_docs, 'document')}, generated; {counted(found.num_queries, 'query', 'queries')}"
    finish(axes, "Time per query", f"{summary}; k = {found.k}, one thread", grid="x")
    with replacing(path) as file:
        figure.savefig(file, dpi=150, format=picture_format(path))
