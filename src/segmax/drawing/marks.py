"""Texts at points: each looks for a free place around its point."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from segmax.drawing.axes import INK, literal
from segmax.drawing.plot import Plot
from segmax.drawing.points import marker_radii

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Annotation

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


def write_marks(figure: Figure, axes: Axes, plot: Plot) -> None:
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
    """Draw a thin line to a point from a text that is far from it."""
    if math.hypot(*place) < _LED:
        return
    line = {"arrowstyle": "-", "color": INK, "linewidth": 0.4, "shrinkA": 6, "shrinkB": 4}
    axes.annotate("", (x, y), xytext=place, textcoords="offset points", arrowprops=line, in_layout=False)


def _marker_boxes(axes: Axes, plot: Plot, dpi: float) -> list[_Boxes]:
    boxes = []
    for x, y, radius in marker_radii(plot):
        half = radius * dpi / 72
        u, v = axes.transData.transform((x, y))
        boxes.append(np.array([u - half, v - half, u + half, v + half]))
    return boxes
