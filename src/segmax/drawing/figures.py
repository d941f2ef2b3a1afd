"""Figures: whether matplotlib is there, where a picture may go, and how it gets there."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

from segmax.base.errors import ConfigError
from segmax.base.files import replacing, write_errors
from segmax.base.optional import need

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SUFFIXES = (".png", ".svg", ".pdf")
_DPI = 150


def check_matplotlib() -> None:
    """Raise MissingPackageError if matplotlib is not installed."""
    need("matplotlib.figure", "a plot", "plot")


def check_plot(path: str | os.PathLike[str]) -> None:
    """Raise what drawing to this path would raise about matplotlib and the path, before the work is done.

    Raises
    ------
    MissingPackageError
        If matplotlib is not installed.
    ConfigError
        If the suffix is unknown, or the directory does not exist.
    """
    check_matplotlib()
    where = Path(path)
    if where.suffix.lower() not in _SUFFIXES:
        raise ConfigError(expected="a plot to end in .png, .svg or .pdf", got=f"'{where}'")
    if not where.absolute().parent.is_dir():
        raise ConfigError(
            expected="an existing directory to put the plot in", got=f"'{where.parent}'", hint="create it first"
        )


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


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure as a picture, whole or not at all; the suffix of the path is its format.

    Raises
    ------
    ConfigError
        If `check_plot` refuses the path.
    WriteError
        If the file cannot be written.
    """
    check_plot(path)
    with write_errors(Path(path)), replacing(Path(path)) as file:
        figure.savefig(file, dpi=_DPI, format=Path(path).suffix.lower().removeprefix("."))


def svg_text(figure: Figure, name: str) -> str:
    """Return a figure as SVG, with nothing in it that changes from run to run.

    Parameters
    ----------
    figure
        What to write.
    name
        Keeps the ids inside apart from those of other pictures on a page; the same name gives the same text.
    """
    import matplotlib as mpl

    out = io.BytesIO()
    # Texts stay texts, shown in fonts of the reader's.
    with mpl.rc_context({"svg.hashsalt": name, "svg.fonttype": "none", "font.family": "sans-serif"}):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return out.getvalue().decode("utf-8")
