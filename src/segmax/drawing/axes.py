"""How axes look: colors, titles, legends, ticks, and the lines across them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from segmax.drawing.plot import Plot

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#33373d"
_FAINT = "#e3e5e8"
#: Colors that people who see few of them can tell apart, too (Okabe and Ito).
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#000000")
#: Shapes of points: more than colors, so that series of the same color differ.
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "*")
_GRID = {"bar": "y", "rows": "x", "histogram": "y"}


def literal(text: str) -> str:
    """Return text that matplotlib does not take for mathematics."""
    return text.replace("$", r"\$")


def finish(axes: Axes, plot: Plot) -> None:
    """Give axes their title, the line below it, labels and a faint grid; say so where there is nothing to see."""
    pad = 24 if plot.summary else 8
    axes.set_title(literal(plot.title), loc="left", fontsize=11.5, fontweight="bold", color=INK, pad=pad)
    axes.set_xlabel(literal(plot.x_label), color=INK, fontsize=9.5)
    axes.set_ylabel(literal(plot.y_label), color=INK, fontsize=9.5)
    if plot.summary:
        place = axes.transAxes
        axes.text(0, 1.03, literal(plot.summary), transform=place, fontsize=9.5, color=INK, va="bottom")
    axes.set_axisbelow(True)
    axes.grid(axis=_GRID.get(plot.kind, "both"), color=_FAINT)  # type: ignore[arg-type]
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(_FAINT)
    axes.tick_params(which="both", length=0, labelsize=9, labelcolor=INK)
    if plot.x_range is not None:
        axes.set_xlim(plot.x_range)
    if plot.whole:
        _whole_ticks(axes)
    if not any(len(series.x) for series in plot.series):
        axes.set_yticks([])
        axes.text(0.5, 0.5, literal(plot.empty), ha="center", va="center", color=INK, transform=axes.transAxes)


def draw_lines_across(axes: Axes, plot: Plot) -> None:
    """Draw dashed lines across a plot: levels, with their names beside it, and its center."""
    if plot.center is not None:
        axes.axvline(plot.center, color=INK, linewidth=1.2, linestyle=(0, (4, 3)))
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


def legend_below(figure: Figure, handles: Sequence[Artist], columns: int) -> None:
    """Name series below all panels of a figure, where they cover no point."""
    figure.legend(
        handles=list(handles), loc="outside lower left", ncols=columns, fontsize=8.5, frameon=False, labelcolor=INK
    )


def legend_inside(axes: Axes, handles: Sequence[Artist]) -> None:
    """Name series in the lower right corner, which lying bars leave free: the longest are at the top."""
    axes.legend(handles=list(handles), loc="lower right", fontsize=8.5, frameon=False, labelcolor=INK)


def plain_log_ticks(axes: Axes) -> None:
    """Mark a logarithmic x axis with a few plain numbers: 0.2, 0.5, 1 and so on."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.xaxis.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 5.0), numticks=12))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def ticks_at(axes: Axes, values: Sequence[float]) -> None:
    """Mark the x axis at these values only."""
    from matplotlib.ticker import NullFormatter, NullLocator

    axes.set_xticks(values, [f"{value:,g}" for value in values])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())


def _whole_ticks(axes: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=7, min_n_ticks=1))
