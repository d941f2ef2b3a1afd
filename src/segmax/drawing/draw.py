"""Plots as figures of matplotlib, one or several side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from segmax.drawing.axes import INK, draw_lines_across, finish, legend_below, legend_inside, literal
from segmax.drawing.bars import draw_bars, draw_histogram, draw_rows, write_row_marks
from segmax.drawing.figures import new_figure, svg_text
from segmax.drawing.marks import write_marks
from segmax.drawing.plot import Plot, PlotKind
from segmax.drawing.points import draw_points

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DRAW: Mapping[PlotKind, Callable[[Axes, Plot], list[Artist]]] = {
    "line": draw_points,
    "scatter": draw_points,
    "bar": draw_bars,
    "rows": draw_rows,
    "histogram": draw_histogram,
}
_WIDTH, _HEIGHT = 7.2, 4.2  # inches of a plot
_LEGEND_LINE = 0.19
_LETTERS_PER_INCH = 14.4  # of a legend
_HANDLE_LETTERS = 8  # that the sign before a label takes


def draw(
    plots: Sequence[Plot],
    *,
    width: float = _WIDTH,
    height: float = _HEIGHT,
    title: str = "",
    ratios: Sequence[float] | None = None,
) -> Figure:
    """Draw plots side by side.

    Parameters
    ----------
    plots
        What to draw. Series of the first are named below the figure, where there are several.
    width, height
        Inches of the figure, without its legend.
    title
        A line above all plots.
    ratios
        How wide the plots are, relative to one another; by default alike.

    Raises
    ------
    MissingPackageError
        If matplotlib is not installed.

    Examples
    --------
    >>> from segmax.drawing.plot import Series
    >>> series = Series(label="asc", x=(0.1, 0.2), y=(0.9, 1.0))
    >>> figure = draw([Plot(title="Recall by time", x_label="ms", y_label="recall", series=(series,))])
    >>> [axes.get_xlabel() for axes in figure.axes]
    ['ms']
    """
    columns = _legend_columns(plots[0], width)
    figure = new_figure(width, height + _LEGEND_LINE * _legend_lines(plots[0], columns))
    panels = figure.subplots(1, len(plots), squeeze=False, width_ratios=ratios)[0]
    handles = [_draw_panel(axes, plot) for axes, plot in zip(panels, plots, strict=True)]
    if _legend_lines(plots[0], columns):
        legend_below(figure, handles[0], columns)
    if title:
        figure.suptitle(literal(title), color=INK, fontsize=13, fontweight="bold", x=0.01, ha="left")
    for axes, plot in zip(panels, plots, strict=True):
        if plot.kind in ("line", "scatter"):
            write_marks(figure, axes, plot)
        elif plot.kind == "rows":
            write_row_marks(figure, axes, plot)
    return figure


def svg(plot: Plot, name: str) -> str:
    """Return a plot as SVG; the name keeps its ids apart from those of other pictures on a page."""
    return svg_text(draw([plot]), name)


def _draw_panel(axes: Axes, plot: Plot) -> list[Artist]:
    handles = _DRAW[plot.kind](axes, plot)
    draw_lines_across(axes, plot)
    finish(axes, plot)
    if plot.kind == "rows" and len(handles) > 1:
        legend_inside(axes, handles[::-1])
    return handles


def _legend_columns(plot: Plot, width: float) -> int:
    widest = max((len(series.label) for series in plot.series), default=0) + _HANDLE_LETTERS
    return max(1, min(len(plot.series), int(width * _LETTERS_PER_INCH) // widest))


def _legend_lines(plot: Plot, columns: int) -> int:
    """Return how many lines the legend below takes: none for a single series, or where the plot has it inside."""
    if plot.kind in ("rows", "histogram") or len(plot.series) < 2:
        return 0
    return math.ceil(len(plot.series) / columns)
