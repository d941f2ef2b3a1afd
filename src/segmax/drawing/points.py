"""Points and lines. No marker hides another: they are hollow, and where several meet, rings of different sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from segmax.drawing.axes import COLORS, MARKERS, literal, plain_log_ticks, ticks_at
from segmax.drawing.plot import Plot, Series

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.typing import LineStyleType as LineStyle

_LOG_RANGE = 30  # beyond this ratio of largest to smallest x, the axis of lines is logarithmic
_FEW_TICKS = 10  # so many values of x are marked each
_MANY = 100  # points of a series: more of them are small and pale, so that others are seen among them
_SIZE = 6.5  # of a marker, in points
_RING = 4.5  # so much larger is a ring around another
_NEAR = 0.02  # share of an axis: closer markers would hide one another


def draw_points(axes: Axes, plot: Plot) -> list[Artist]:
    """Draw lines or points; return what a legend shows of each series."""
    from matplotlib.lines import Line2D

    handles: list[Artist] = []
    for number, (series, rings) in enumerate(zip(plot.series, _rings(plot), strict=True)):
        color, marker = series.color or COLORS[number % len(COLORS)], MARKERS[number % len(MARKERS)]
        line: LineStyle = "-" if plot.kind == "line" else "none"
        axes.plot(series.x, series.y, color=color, linestyle=line, linewidth=1.4, zorder=2)
        _draw_ends(axes, series, color)
        if len(series.x) > _MANY:
            axes.scatter(series.x, series.y, s=9, marker=marker, color=color, linewidths=0, alpha=0.45, zorder=2)
        else:
            sizes = [_marker_size(ring) ** 2 for ring in rings]
            hollow = {"facecolors": "none", "edgecolors": color, "linewidths": 1.5}
            axes.scatter(series.x, series.y, s=sizes, marker=marker, zorder=3, **hollow)  # type: ignore[arg-type]
        label = literal(series.label)
        handles.append(Line2D([], [], linestyle=line, color=color, marker=marker, markerfacecolor="none", label=label))
    axes.margins(0.08)  # room for texts at points
    _scale(axes, plot)
    return handles


def _draw_ends(axes: Axes, series: Series, color: str) -> None:
    for x, y, end in zip(series.x, series.y, series.ends, strict=False):
        axes.plot([x, end], [y, y], color=color, linewidth=1, alpha=0.5, zorder=1)


def marker_radii(plot: Plot) -> list[tuple[float, float, float]]:
    """Return place and radius, in points, of all markers but those of series of many."""
    return [
        (x, y, _marker_size(ring) / 2)
        for series, rings in zip(plot.series, _rings(plot), strict=True)
        for x, y, ring in zip(series.x, series.y, rings, strict=True)
        if len(series.x) <= _MANY and math.isfinite(x) and math.isfinite(y)
    ]


def _marker_size(ring: int) -> float:
    return _SIZE + _RING * ring


def _rings(plot: Plot) -> list[list[int]]:
    """Return for every point how many of earlier series are at its place: so many rings fit inside its own."""
    places = [_places_on_axes(plot, one) for one in plot.series]
    reach = [_reach([place[axis] for one in places for place in one]) for axis in (0, 1)]
    before: list[tuple[float, float]] = []
    found = []
    for one in places:
        if len(one) > _MANY:
            found.append([0] * len(one))
            continue
        found.append([sum(abs(x - u) <= reach[0] and abs(y - v) <= reach[1] for u, v in before) for x, y in one])
        before += one
    return found


def _places_on_axes(plot: Plot, series: Series) -> list[tuple[float, float]]:
    """Return where points are along the axes: on a logarithmic one, by their logarithm."""
    if not _is_logarithmic(plot):
        return list(zip(series.x, series.y, strict=True))
    return [(math.log(x) if x > 0 else math.nan, y) for x, y in zip(series.x, series.y, strict=True)]


def _reach(values: Sequence[float]) -> float:
    finite = [value for value in values if math.isfinite(value)]
    return _NEAR * (max(finite) - min(finite)) if finite else 0.0


def _finite_x(plot: Plot) -> list[float]:
    return sorted({x for series in plot.series for x in series.x if math.isfinite(x)})


def _is_logarithmic(plot: Plot) -> bool:
    if plot.log_x is not None:
        return plot.log_x
    values = _finite_x(plot)
    return plot.kind == "line" and bool(values) and values[0] > 0 and values[-1] / values[0] > _LOG_RANGE


def _scale(axes: Axes, plot: Plot) -> None:
    """Make the x axis logarithmic where it is long; mark it at the points of lines where these are few."""
    if not _is_logarithmic(plot):
        return
    axes.set_xscale("log")
    values = _finite_x(plot)
    if plot.kind == "line" and len(values) <= _FEW_TICKS:
        ticks_at(axes, values)
    else:
        plain_log_ticks(axes)
