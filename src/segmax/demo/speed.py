"""What the demo shows of an evaluation: tables of relevance and of speed, and a plot of speed."""

from __future__ import annotations

from pathlib import Path

from segmax.base.display import counted, plain_number
from segmax.base.text_table import Column
from segmax.drawing.draw import draw
from segmax.drawing.figures import save_figure
from segmax.drawing.plot import Plot, Series
from segmax.evaluation import Evaluation


def relevance_columns(found: Evaluation) -> list[Column]:
    """Return the columns of a table of relevance."""
    measures = [
        Column(heading=name, cells=[f"{method.relevance[name]:.4f}" for method in found]) for name in found.measures
    ]
    return [_names(found), *measures, _recall(found)]


def speed_columns(found: Evaluation) -> list[Column]:
    """Return the columns of a table of times, relative to the first method."""
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


def draw_speed(found: Evaluation, path: Path) -> None:
    """Draw the mean time of every method as a bar, with a line to its 99th percentile."""
    methods = list(reversed(found.methods))
    queries = counted(found.num_queries, "query", "queries")
    plot = Plot(
        title="Time per query",
        summary=f"{counted(found.num_docs, 'document')}, generated; {queries}; k = {found.k}, one thread",
        x_label="milliseconds per query: mean, and a line to p99",
        y_label="",
        kind="rows",
        categories=tuple(method.name for method in methods),
        series=(
            Series(
                label="methods",
                x=tuple(method.mean_ms for method in methods),
                y=tuple(map(float, range(len(methods)))),
                ends=tuple(max(method.p99_ms, method.mean_ms) for method in methods),
                marks=tuple(
                    f"{plain_number(method.mean_ms, 2)} ms, {method.recall_of_exact:.1%} of exact results"
                    for method in methods
                ),
            ),
        ),
    )
    save_figure(draw([plot], width=8, height=1.6 + 0.5 * len(methods)), path)
