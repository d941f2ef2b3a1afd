"""Outcomes as text and pictures: tables for rich, Markdown, and SVG by matplotlib, the extra `plot`."""

from __future__ import annotations

import io
import math
import re
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from segmax.display import counted, printable
from segmax.experiments.base import Cell, Finding, Outcome, Plot, Series, Sheet
from segmax.figures import FAINT, INK, check_matplotlib, literal
from segmax.text_table import Column, tables

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console

_MARKS = {True: "✓", False: "✗", None: "?"}
_STYLES = {True: "green", False: "red", None: "yellow"}


def mark(finding: Finding) -> str:
    """Return a sign for whether a finding holds: ✓, ✗ or, where that cannot be told, ?."""
    return _MARKS[finding.holds]


def cell_text(value: Cell) -> str:
    """Return a field as tables show it: four decimals below 10, two below 1,000, none above.

    Examples
    --------
    >>> cell_text(0.39663), cell_text(45.8), cell_text(8800000), cell_text(None)
    ('0.3966', '45.80', '8,800,000', '')
    """
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, int):
        return f"{value:,}"
    if not math.isfinite(value):
        return "–"
    decimals = 4 if abs(value) < 10 else 2 if abs(value) < 1000 else 0
    return f"{value:,.{decimals}f}"


def is_numeric(sheet: Sheet, column: int) -> bool:
    """Whether a column holds numbers, and is to be set right."""
    values = [value for row in sheet.rows if (value := row[column]) is not None and value != ""]
    return bool(values) and all(not isinstance(value, str) or _starts_as_number(value) for value in values)


def _starts_as_number(text: str) -> bool:
    return text.lstrip("+-.~")[:1].isdigit() and len(text) <= 24


# --- on a terminal ----------------------------------------------------------------------------------------------------


def show(outcome: Outcome, console: Console) -> None:
    """Print tables and findings; a table that is wider than the console is wrapped or stacked."""
    from rich.text import Text

    for sheet in outcome.sheets:
        console.print(Text(f"\n{printable(sheet.title)}", style="bold"))
        for part in tables([_columns(sheet)], console.width):
            console.print(part)
        if sheet.note:
            console.print(Text(printable(sheet.note), style="dim"))
    if outcome.findings:
        console.print(Text("\nWhat the paper finds, and what is found here", style="bold"))
    for finding in outcome.findings:
        claim, evidence = printable(finding.claim), printable(finding.evidence)
        console.print(Text.assemble((mark(finding), _STYLES[finding.holds]), f" {claim} ", (evidence, "dim")))


def _columns(sheet: Sheet) -> list[Column]:
    return [
        Column(heading=name, cells=[cell_text(row[number]) for row in sheet.rows], words=not is_numeric(sheet, number))
        for number, name in enumerate(sheet.columns)
    ]


def _folded(text: str, width: int) -> str:
    """Return a text as lines of about that width; no word is broken."""
    return textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)


# --- Markdown ---------------------------------------------------------------------------------------------------------


def markdown(outcome: Outcome, about: dict[str, Any], pictures: list[str]) -> str:
    """Return an outcome as a page of Markdown.

    Parameters
    ----------
    outcome
        What was found.
    about
        What `about` told about the run.
    pictures
        The file names of the plots, in their order; fewer where they could not be drawn.
    """
    title = _escaped(f"{about['place']}: {about['title']}")
    lines = [f"# {title}", "", f"`{about['command']}`", "", _escaped(about_line(about)), ""]
    for sheet in outcome.sheets:
        lines += [f"## {_escaped(sheet.title)}", "", *_markdown_table(sheet), ""]
        if sheet.note:
            lines += [_escaped(sheet.note), ""]
    for plot, picture in zip(outcome.plots, pictures, strict=False):
        lines += [f"![{_escaped(plot.title)}]({picture})", ""]
    if outcome.findings:
        lines += ["## What the paper finds, and what is found here", ""]
        lines += [
            f"- {mark(finding)} {_escaped(finding.claim)} *{_escaped(finding.evidence)}*"
            for finding in outcome.findings
        ]
    return "\n".join(lines).rstrip() + "\n"


def about_line(about: dict[str, Any]) -> str:
    """Return a sentence on what was measured, with what, on what and when."""
    parts = [
        f"{c['name']}: {counted(c['num_docs'], 'document')}, {counted(c['num_queries'], 'query', 'queries')}"
        f"{'' if c['judged'] else ', not judged'}"
        for c in about["collections"]
    ]
    machine = about["machine"]
    parts.append(f"{machine['cpu']}, {machine['cores']} cores, {machine['simd']}")
    commit = f" at {about['commit'][:10]}{'+' if about['commit'].endswith('+') else ''}" if about["commit"] else ""
    parts.append(f"segmax {about['versions']['segmax']}{commit}")
    parts.append(f"{about['date'][:10]}, {spent(about)}")
    return "; ".join(parts) + ("; quick: not a result, but a look at one." if about["quick"] else ".")


def spent(about: dict[str, Any]) -> str:
    """Return how long a run took, and whether it went on from an earlier one."""
    resumed = f" after {counted(about['resumed_steps'], 'step')} of an earlier run" if about["resumed_steps"] else ""
    return f"{about['seconds']:,.1f} s{resumed}"


def _markdown_table(sheet: Sheet) -> list[str]:
    rule = ["---:" if is_numeric(sheet, number) else "---" for number in range(len(sheet.columns))]
    rows = [[_escaped(cell_text(value)) for value in row] for row in sheet.rows]
    return [_line([_escaped(column) for column in sheet.columns]), _line(rule), *map(_line, rows)]


def _line(fields: list[str]) -> str:
    return f"| {' | '.join(fields)} |"


def _escaped(text: str) -> str:
    r"""Return a text on one line in which nothing is a sign of Markdown.

    Examples
    --------
    >>> print(_escaped("Anytime*: k' <= k_max | 512*16"))
    Anytime\*: k' \<= k\_max \| 512\*16
    """
    return re.sub(r"([\\`*_<|\[\]])", r"\\\1", text).replace("\n", " ")


# --- SVG --------------------------------------------------------------------------------------------------------------

_COLORS = (
    *("#2f6f9f", "#de7c3c", "#5b9a68", "#b5462e", "#7a5195", "#8c8c98"),
    *("#c29a2b", "#3aa6a6", "#d1699c", "#1f3b57", "#8a6d4b", "#97b552"),
)
_POINTS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "*")
_FEW_SERIES = 5  # more of them get their legend beside the plot
_LOG_RANGE = 30  # beyond this ratio of largest to smallest x, an axis is logarithmic


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
    """Return a plot as a figure of matplotlib that no canvas has yet."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 4.4), layout="constrained", facecolor="white")
    axes = figure.subplots()
    (_bars if plot.kind == "bar" else _points)(axes, plot)
    _finish(axes, plot)
    return figure


def _points(axes: Axes, plot: Plot) -> None:
    dense = any(len(series.x) > 100 for series in plot.series)
    hidden = _hidden(plot.series) if plot.kind == "scatter" else [0] * len(plot.series)
    for number, series in enumerate(plot.series):
        color, point = _COLORS[number % len(_COLORS)], _POINTS[number % len(_POINTS)]
        many = len(series.x) > 100
        hollow = plot.kind == "scatter" and not many
        axes.plot(
            series.x,
            series.y,
            color=color,
            marker=point,
            markersize=3 if many else 6 if plot.kind == "line" else 7 + 5 * hidden[number],
            markerfacecolor="none" if hollow else color,
            markeredgecolor="none" if many else color if hollow else "white",
            markeredgewidth=1.6 if hollow else 1.0,
            alpha=0.45 if many else 1.0,
            linestyle="-" if plot.kind == "line" else "none",
            linewidth=1.6,
            zorder=2 if many or not dense else 3,
            label=literal(series.label),
        )
        _write_marks(axes, series)
    values = [x for series in plot.series for x in series.x if math.isfinite(x)]
    if plot.kind == "line" and values and min(values) > 0 and max(values) / min(values) > _LOG_RANGE:
        _log_scale(axes, sorted(set(values)))


_NEAR = 0.03  # share of an axis: closer points would hide one another


def _hidden(series: Sequence[Series]) -> list[int]:
    """Return of every series how many before it have a point where it has one: so many rings lie inside its own."""
    spans = []
    for axis in ("x", "y"):
        values = [value for one in series for value in getattr(one, axis) if math.isfinite(value)]
        spans.append(_NEAR * (max(values) - min(values)) if values else 0.0)
    few = [one if len(one.x) <= 100 else None for one in series]
    return [
        sum(before is not None and one is not None and _meet(before, one, spans) for before in few[:number])
        for number, one in enumerate(few)
    ]


def _meet(one: Series, other: Series, spans: Sequence[float]) -> bool:
    return any(
        abs(x - u) <= spans[0] and abs(y - v) <= spans[1]
        for x, y in zip(one.x, one.y, strict=True)
        for u, v in zip(other.x, other.y, strict=True)
    )


def _log_scale(axes: Axes, values: list[float]) -> None:
    """Make the axis of x logarithmic, marked at the points where these are few."""
    from matplotlib.ticker import NullFormatter, NullLocator

    axes.set_xscale("log")
    if len(values) <= 10:
        axes.set_xticks(values, [f"{value:,g}" for value in values])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_minor_formatter(NullFormatter())


def _write_marks(axes: Axes, series: Series) -> None:
    for x, y, text in zip(series.x, series.y, series.marks, strict=False):
        if text and math.isfinite(x) and math.isfinite(y):
            axes.annotate(literal(text), (x, y), xytext=(5, -9), textcoords="offset points", fontsize=7.5, color=INK)


def _bars(axes: Axes, plot: Plot) -> None:
    width = 0.8 / max(1, len(plot.series))
    for number, series in enumerate(plot.series):
        shift = (number - (len(plot.series) - 1) / 2) * width
        color = _COLORS[number % len(_COLORS)]
        places = [x + shift for x in series.x]
        axes.bar(places, series.y, width * 0.92, color=color, label=literal(series.label))
    axes.set_xlim(-0.6, max(len(plot.categories) - 0.4, 1.6))
    _name_bars(axes, plot)


_LABEL_LETTERS = 70  # that fit below a plot, side by side
_BESIDE_LETTERS = 45  # where a legend stands beside it
_LABEL_LINES = 4


def _name_bars(axes: Axes, plot: Plot) -> None:
    """Write names below bars: wrapped at words, or at a slant where they would meet all the same."""
    letters = _LABEL_LETTERS if len(plot.series) <= _FEW_SERIES else _BESIDE_LETTERS
    room = letters // max(1, len(plot.categories)) - 1
    folded = [_folded(category, max(1, room)) for category in plot.categories]
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


def _finish(axes: Axes, plot: Plot) -> None:
    axes.set_title(literal(plot.title), loc="left", fontsize=11.5, fontweight="bold", color=INK)
    axes.set_xlabel(literal(plot.x_label), color=INK, fontsize=10)
    axes.set_ylabel(literal(plot.y_label), color=INK, fontsize=10)
    axes.set_axisbelow(True)
    axes.grid(axis="y" if plot.kind == "bar" else "both", color=FAINT)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FAINT)
    axes.tick_params(length=0, labelsize=9, labelcolor=INK)
    if not any(len(series.x) for series in plot.series):
        axes.text(0.5, 0.5, "nothing to show", ha="center", va="center", color=INK, transform=axes.transAxes)
    elif len(plot.series) > _FEW_SERIES:
        axes.legend(fontsize=8.5, frameon=False, labelcolor=INK, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    elif len(plot.series) > 1:
        axes.legend(fontsize=8.5, frameon=False, labelcolor=INK)
