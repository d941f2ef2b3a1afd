"""Bars: upright ones in groups, lying ones with a text at their end, and those of histograms."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from segmax.drawing.axes import COLORS, INK, literal
from segmax.drawing.plot import Plot, Series

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

_LABEL_LETTERS = 70  # that fit below a plot, side by side
_LABEL_LINES = 4
_ROOM = 0.97  # share of the width that the longest bar and its text may take


def _color(series: Series, number: int) -> str:
    return series.color or COLORS[number % len(COLORS)]


def _handles(plot: Plot) -> list[Artist]:
    from matplotlib.patches import Patch

    return [Patch(color=_color(each, number), label=literal(each.label)) for number, each in enumerate(plot.series)]


def draw_bars(axes: Axes, plot: Plot) -> list[Artist]:
    """Draw upright bars, side by side at every category; return what a legend shows of each series."""
    width = 0.8 / max(1, len(plot.series))
    for number, series in enumerate(plot.series):
        shift = (number - (len(plot.series) - 1) / 2) * width
        axes.bar([x + shift for x in series.x], series.y, width * 0.92, color=_color(series, number))
    axes.set_xlim(-0.6, max(len(plot.categories) - 0.4, 1.6))
    _name_bars(axes, plot)
    return _handles(plot)


def _name_bars(axes: Axes, plot: Plot) -> None:
    """Write names below bars: wrapped at words, or at a slant where they would still meet."""
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


def draw_rows(axes: Axes, plot: Plot) -> list[Artist]:
    """Draw lying bars, category 0 at the bottom; return what a legend shows of each series."""
    for number, series in enumerate(plot.series):
        axes.barh(series.y, series.x, height=0.66, color=_color(series, number))
        if series.ends:
            axes.hlines(series.y, series.x, series.ends, color=INK, linewidth=1)
    axes.set_yticks(range(len(plot.categories)), [literal(name) for name in plot.categories])
    return _handles(plot)


def write_row_marks(figure: Figure, axes: Axes, plot: Plot) -> None:
    """Write a text behind every lying bar, and make the axis so long that all of them fit."""
    texts: list[tuple[float, Text]] = []
    for series in plot.series:
        ends = series.ends or series.x
        for x, y, end, mark in zip(series.x, series.y, ends, series.marks, strict=False):
            place = max(x, end)
            text = axes.text(place, y, f"  {literal(mark)}", va="center", fontsize=8.5, color=INK, in_layout=False)
            texts.append((place, text))
    longest = max((value for series in plot.series for value in (*series.x, *series.ends)), default=0.0)
    axes.set_xlim(0, longest or 1.0)
    figure.draw_without_rendering()  # places everything, so that extents are known
    whole = axes.get_window_extent().width * _ROOM
    room = (place * whole / max(1.0, whole - text.get_window_extent().width) for place, text in texts)
    axes.set_xlim(0, max(longest, *room, 0.0) or 1.0)


def draw_histogram(axes: Axes, plot: Plot) -> list[Artist]:
    """Draw bars that touch, each from its x to its end."""
    for number, series in enumerate(plot.series):
        widths = [end - x for x, end in zip(series.x, series.ends, strict=True)]
        color = _color(series, number)
        axes.bar(series.x, series.y, widths, align="edge", color=color, edgecolor="white", linewidth=0.6)
    return _handles(plot)
