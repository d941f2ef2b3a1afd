"""A picture of an evaluation: what every method keeps against what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from segmax.drawing.draw import draw
from segmax.drawing.plot import Plot, Series

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Point(NamedTuple):
    """A method in a panel."""

    label: str
    mean_ms: float
    p99_ms: float
    value: float


def plot_points(panels: Sequence[tuple[str, Sequence[Point]]], summary: str) -> Figure:
    """Draw panels by title: latency across, the measure upwards, and a line from the mean to the 99th percentile."""
    plots = [
        Plot(
            title=title,
            summary=summary,
            x_label="milliseconds per query: mean, and a line to p99",
            y_label="",
            kind="scatter",
            log_x=True,
            series=tuple(
                Series(label=point.label, x=(point.mean_ms,), ends=(point.p99_ms,), y=(point.value,))
                for point in points
            ),
        )
        for title, points in panels
    ]
    return draw(plots, width=4.6 * len(plots), height=4.4)
