"""What all plots share: matplotlib, which is the extra `plot`, the paper they are drawn on, and how axes look."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from segmax.base.errors import ConfigError
from segmax.base.optional import need

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#33373d"
FAINT = "#e3e5e8"
#: Colors for lines and points, told apart by people who see few colors too (Okabe and Ito).
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#000000")


def check_matplotlib() -> None:
    """Raise MissingPackageError if matplotlib is not installed."""
    need("matplotlib.figure", "a plot", "plot")


def check_plot(path: str | os.PathLike[str]) -> None:
    """Raise what drawing to this path would raise about matplotlib and the path, before the work is done."""
    check_matplotlib()
    where = Path(path)
    if where.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ConfigError(expected="a plot to end in .png, .svg or .pdf", got=f"'{where}'")
    if not where.absolute().parent.is_dir():
        raise ConfigError(
            expected="an existing directory to put the plot in", got=f"'{where.parent}'", hint="create it first"
        )


def picture_format(path: str | os.PathLike[str]) -> str:
    """Return the format that the suffix of a path stands for, as matplotlib calls it."""
    return Path(path).suffix.lower().removeprefix(".")


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of so many inches, drawn without a display."""
    check_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.08)
    figure = Figure(figsize=(width, height), layout=layout, facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def literal(text: str) -> str:
    """Return text that matplotlib does not take for mathematics."""
    return text.replace("$", r"\$")


def finish(axes: Axes, title: str, summary: str, grid: str) -> None:
    """Give axes their title, a line below it, and faint lines along one direction, "x" or "y", or along "both"."""
    axes.set_title(title, loc="left", fontsize=11.5, fontweight="bold", color=INK, pad=24 if summary else 8)
    axes.text(0, 1.03, summary, transform=axes.transAxes, fontsize=9.5, color=INK, va="bottom")
    axes.set_axisbelow(True)
    axes.grid(axis="x" if grid == "x" else "y" if grid == "y" else "both", color=FAINT)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(FAINT)
    axes.tick_params(length=0, labelsize=9, labelcolor=INK)
    axes.xaxis.label.set(color=INK, size=9.5)
    axes.yaxis.label.set(color=INK, size=9.5)


def plain_log_ticks(axes: Axes) -> None:
    """Mark a logarithmic x axis with a few plain numbers: 0.2, 0.5, 1 and so on."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.xaxis.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 5.0), numticks=12))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
