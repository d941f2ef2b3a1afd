"""Plots as SVG, by matplotlib, the extra `plot`. Nothing in them hides anything else.

Markers are hollow, and where several meet they are rings of different sizes. Legends stand below the plot. Texts at
points look for a free place around them.
"""

from __future__ import annotations

import io
import itertools
import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from segmax.base.figures import FAINT, INK, check_matplotlib, literal
from segmax.experiments.outcome import Plot, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.text import Annotation
    from matplotlib.typing import LineStyleType as LineStyle

_COLORS = (
    *("#2f6f9f", "#de7c3c", "#5b9a68", "#b5462e", "#7a5195", "#8c8c98"),
    *("#c29a2b", "#3aa6a6", "#d1699c", "#1f3b57", "#8a6d4b", "#97b552"),
)
_POINTS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "*")
_LOG_RANGE = 30  # beyond this ratio of largest to smallest x, an axis is logarithmic
_MANY = 100  # points of a series: more of them are small and pale, so that others are seen among them
_SIZE = 6.5  # of a marker, in points
_RING = 4.5  # so much larger is a ring around another
_NEAR = 0.02  # share of an axis: closer markers would hide one another


def svg(plot: Plot, name: str) -> str:
    """Draw a plot as SVG.

    Parameters
    ----------
    plot
        What to draw.
    name
        Keeps the ids inside apart from those of other pictures on a page; the same name gives the same text.
    """
    check_matplotlib()
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    with mpl.rc_context({"svg.hashsalt": name, "svg.fonttype": "none", "font.family": "sans-serif"}):
        figure = drawn(plot)
        FigureCanvasSVG(figure)
        out = io.BytesIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return out.getvalue().decode("utf-8")


def drawn(plot: Plot) -> Figure:
    """Return a plot as a figure of matplotlib."""
    from matplotlib.figure import Figure

    columns = _legend_columns(plot)
    lines = math.ceil(len(plot.series) / columns) if len(plot.series) > 1 else 0
    figure = Figure(figsize=(7.2, 4.2 + 0.19 * lines), layout="constrained", facecolor="white")
    axes = figure.subplots()
    handles = (_bars if plot.kind == "bar" else _points)(axes, plot)
    _levels(axes, plot)
    _finish(axes, plot)
    if len(handles) > 1:
        figure.legend(
            handles=handles, loc="outside lower left", ncols=columns, fontsize=8.5, frameon=False, labelcolor=INK
        )
    if plot.kind != "bar":
        _write_marks(figure, axes, plot)
    return figure


_LEGEND_LETTERS = 104  # that fit below a plot, side by side
_HANDLE_LETTERS = 8  # that the sign before a label takes


def _legend_columns(plot: Plot) -> int:
    widest = max((len(series.label) for series in plot.series), default=0) + _HANDLE_LETTERS
    return max(1, min(len(plot.series), _LEGEND_LETTERS // widest))


# --- points and lines -------------------------------------------------------------------------------------------------


def _points(axes: Axes, plot: Plot) -> list[Line2D]:
    from matplotlib.lines import Line2D

    handles = []
    for number, (series, rings) in enumerate(zip(plot.series, _rings(plot), strict=True)):
        color, point = _COLORS[number % len(_COLORS)], _POINTS[number % len(_POINTS)]
        line: LineStyle = "-" if plot.kind == "line" else "none"
        axes.plot(series.x, series.y, color=color, linestyle=line, linewidth=1.4, zorder=2)
        if len(series.x) > _MANY:
            axes.scatter(series.x, series.y, s=9, marker=point, color=color, linewidths=0, alpha=0.45, zorder=2)
        else:
            sizes = [(_SIZE + _RING * ring) ** 2 for ring in rings]
            axes.scatter(
                series.x, series.y, s=sizes, marker=point, facecolors="none", edgecolors=color, linewidths=1.5, zorder=3
            )
        label = literal(series.label)
        handles.append(Line2D([], [], linestyle=line, color=color, marker=point, markerfacecolor="none", label=label))
    _scale(axes, plot)
    return handles


def _rings(plot: Plot) -> list[list[int]]:
    """Return of every point how many of earlier series lie where it lies: so many rings fit inside its own."""
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
    """Return where points lie along the axes: on a logarithmic one, by their logarithm."""
    if not _is_logarithmic(plot):
        return list(zip(series.x, series.y, strict=True))
    return [(math.log(x) if x > 0 else math.nan, y) for x, y in zip(series.x, series.y, strict=True)]


def _reach(values: Sequence[float]) -> float:
    finite = [value for value in values if math.isfinite(value)]
    return _NEAR * (max(finite) - min(finite)) if finite else 0.0


def _finite_x(plot: Plot) -> list[float]:
    return sorted({x for series in plot.series for x in series.x if math.isfinite(x)})


def _is_logarithmic(plot: Plot) -> bool:
    values = _finite_x(plot)
    return plot.kind == "line" and bool(values) and values[0] > 0 and values[-1] / values[0] > _LOG_RANGE


def _scale(axes: Axes, plot: Plot) -> None:
    """Make the axis of x logarithmic where it is long, marked at the points where these are few."""
    from matplotlib.ticker import NullFormatter, NullLocator

    if not _is_logarithmic(plot):
        return
    axes.set_xscale("log")
    values = _finite_x(plot)
    if len(values) <= 10:
        axes.set_xticks(values, [f"{value:,g}" for value in values])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_minor_formatter(NullFormatter())


# --- texts at points --------------------------------------------------------------------------------------------------

_ANGLES = (-60, -90, -120, 60, 90, 120, 0, 180, -30, 30, 150, -150)
_DISTANCES = (9, 14, 20, 28, 38, 50)  # in points
_FAR = (*range(62, 200, 12), *range(200, 800, 24))  # for texts that find no place that near
_LED = 14  # from this distance on, a line leads from a text to its point
#: Places around a point, the nearest first.
_PLACES = np.array(
    [
        (distance * math.cos(math.radians(angle)), distance * math.sin(math.radians(angle)))
        for distance, angle in (*itertools.product(_DISTANCES, _ANGLES), *itertools.product(_FAR, range(0, 360, 10)))
    ]
)
_Boxes = NDArray[np.float64]  # left, bottom, right and top, in pixels


def _write_marks(figure: Figure, axes: Axes, plot: Plot) -> None:
    """Write the text of every point at the nearest free place; where the plot is full, where it covers least."""
    wanted = [
        (x, y, text)
        for series in plot.series
        for x, y, text in zip(series.x, series.y, series.marks, strict=False)
        if text and math.isfinite(x) and math.isfinite(y)
    ]
    if not wanted:
        return
    figure.draw_without_rendering()  # places everything, so that extents are known
    taken = _marker_boxes(axes, plot, figure.dpi)
    inside = np.array(axes.get_window_extent().extents)
    for x, y, text in wanted:
        note = _annotated(axes, x, y, text)
        at_point = note.get_window_extent().padded(1.5).extents
        boxes = at_point + np.tile(_PLACES, 2) * figure.dpi / 72
        number = _best_place(boxes, inside, np.array(taken).reshape(-1, 4))
        right, up = _PLACES[number].tolist()
        note.set_position((right, up))
        taken.append(boxes[number])
        _lead(axes, x, y, (right, up))


def _best_place(boxes: _Boxes, inside: _Boxes, taken: _Boxes) -> int:
    """Return the number of the first box that is free, or covers least; the first of all if none is inside the plot."""
    fits = (boxes[:, :2] >= inside[:2]).all(axis=1) & (boxes[:, 2:] <= inside[2:]).all(axis=1)
    low = np.maximum(boxes[:, None, :2], taken[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], taken[None, :, 2:])
    covered = np.maximum(high - low, 0).prod(axis=2).sum(axis=1)
    return int(np.where(fits, covered, np.inf).argmin())


def _annotated(axes: Axes, x: float, y: float, text: str) -> Annotation:
    return axes.annotate(
        literal(text),
        (x, y),
        xytext=(0, 0),
        textcoords="offset points",
        ha="center",
        va="center",
        fontsize=7.5,
        color=INK,
        in_layout=False,
    )


def _lead(axes: Axes, x: float, y: float, place: tuple[float, float]) -> None:
    """Draw a thin line from a text that stands far off to its point."""
    if math.hypot(*place) < _LED:
        return
    line = {"arrowstyle": "-", "color": INK, "linewidth": 0.4, "shrinkA": 6, "shrinkB": 4}
    axes.annotate("", (x, y), xytext=place, textcoords="offset points", arrowprops=line, in_layout=False)


def _marker_boxes(axes: Axes, plot: Plot, dpi: float) -> list[_Boxes]:
    boxes = []
    for series, rings in zip(plot.series, _rings(plot), strict=True):
        for x, y, ring in zip(series.x, series.y, rings, strict=True):
            if len(series.x) <= _MANY and math.isfinite(x) and math.isfinite(y):
                half = (_SIZE + _RING * ring) / 2 * dpi / 72
                u, v = axes.transData.transform((x, y))
                boxes.append(np.array([u - half, v - half, u + half, v + half]))
    return boxes


# --- bars -------------------------------------------------------------------------------------------------------------


def _bars(axes: Axes, plot: Plot) -> list[Line2D]:
    from matplotlib.lines import Line2D

    width = 0.8 / max(1, len(plot.series))
    handles = []
    for number, series in enumerate(plot.series):
        shift = (number - (len(plot.series) - 1) / 2) * width
        color = _COLORS[number % len(_COLORS)]
        axes.bar([x + shift for x in series.x], series.y, width * 0.92, color=color)
        label = literal(series.label)
        handles.append(Line2D([], [], linestyle="none", color=color, marker="s", markersize=8, label=label))
    axes.set_xlim(-0.6, max(len(plot.categories) - 0.4, 1.6))
    _name_bars(axes, plot)
    return handles


_LABEL_LETTERS = 70  # that fit below a plot, side by side
_LABEL_LINES = 4


def _name_bars(axes: Axes, plot: Plot) -> None:
    """Write names below bars: wrapped at words, or at a slant where they would meet all the same."""
    room = _LABEL_LETTERS // max(1, len(plot.categories)) - 1
    folded = [textwrap.fill(name, max(1, room), break_long_words=False) for name in plot.categories]
    fits = all(
        len(text.splitlines()) <= _LABEL_LINES and max(map(len, text.splitlines()), default=0) <= room
        for text in folded
    )
    places = range(len(plot.categories))
    if fits:
        axes.set_xticks(places, [literal(text) for text in folded])
    else:
        names = [literal(category) for category in plot.categories]
        axes.set_xticks(places, names, rotation=35, ha="right", rotation_mode="anchor")


# --- all --------------------------------------------------------------------------------------------------------------


def _levels(axes: Axes, plot: Plot) -> None:
    """Draw lines across the plot, with their names beside it."""
    for label, value in plot.levels.items():
        axes.axhline(value, color=INK, linestyle="--", linewidth=1.0, zorder=4)
        axes.annotate(
            literal(label),
            (1.0, value),
            xycoords=("axes fraction", "data"),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8.5,
            color=INK,
            annotation_clip=False,
        )


def _finish(axes: Axes, plot: Plot) -> None:
    axes.set_title(literal(plot.title), loc="left", fontsize=11.5, fontweight="bold", color=INK)
    axes.set_xlabel(literal(plot.x_label), color=INK, fontsize=10)
    axes.set_ylabel(literal(plot.y_label), color=INK, fontsize=10)
    axes.set_axisbelow(True)
    axes.grid(axis="y" if plot.kind == "bar" else "both", color=FAINT)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FAINT)
    axes.tick_params(length=0, labelsize=9, labelcolor=INK)
    if plot.kind != "bar":
        axes.margins(0.08)  # room for texts at points
    if not any(len(series.x) for series in plot.series):
        axes.text(0.5, 0.5, "nothing to show", ha="center", va="center", color=INK, transform=axes.transAxes)
