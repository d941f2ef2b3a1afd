"""A picture of an evaluation: what every method keeps against what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from segmax.base.figures import COLORS, INK, finish, literal, new_figure, plain_log_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARKERS = "os^Dv"  # for methods of the same color


class Point(NamedTuple):
    """A method in a panel."""

    label: str
    mean_ms: float
    p99_ms: float
    value: float


def plot_points(panels: Sequence[tuple[str, Sequence[Point]]], summary: str) -> Figure:
    """Draw panels by title: latency across, the measure upwards, and a line from the mean to the 99th percentile."""
    figure = new_figure(4.6 * len(panels), 4.8)
    drawn = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (title, points) in zip(drawn, panels, strict=True):
        _draw(axes, points)
        finish(axes, title, summary, grid="both")
    handles, labels = drawn[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9, labelcolor=INK)
    return figure


def _draw(axes: Axes, points: Sequence[Point]) -> None:
    for number, (label, mean_ms, p99_ms, value) in enumerate(points):
        color = COLORS[number % len(COLORS)]
        marker = _MARKERS[number // len(COLORS) % len(_MARKERS)]
        axes.plot([mean_ms, p99_ms], [value, value], color=color, linewidth=1, alpha=0.5)
        axes.plot(mean_ms, value, marker, color=color, markersize=8, label=literal(label))
    axes.set_xscale("log")
    plain_log_ticks(axes)
    axes.set_xlabel("milliseconds per query: mean, and a line to p99")
