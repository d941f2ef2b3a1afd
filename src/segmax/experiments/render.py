"""Outcomes as text: tables for rich, and Markdown."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from segmax.base.display import counted, printable
from segmax.base.text_table import Column, tables
from segmax.experiments.outcome import Cell, Finding, Outcome, Sheet, Verdict

if TYPE_CHECKING:
    from rich.console import Console

#: A sign for every verdict.
MARKS: Mapping[Verdict, str] = {"holds": "✓", "fails": "✗", "tie": "≈", "unknown": "?"}
_STYLES: Mapping[Verdict, str] = {"holds": "green", "fails": "red", "tie": "yellow", "unknown": "yellow"}


def mark(finding: Finding) -> str:
    """Return the sign of a verdict: ✓, ✗, ≈ for a tie, or ? where the data do not decide."""
    return MARKS[finding.verdict]


def column_texts(sheet: Sheet, column: int) -> list[str]:
    """Return the fields of a column as tables show them: all numbers with as many decimals.

    There are four decimals if no value is above 1, as for measures of relevance; otherwise as many as show three digits
    of the smallest value, at most three. Texts, such as values that the paper prints, stay unchanged.

    Examples
    --------
    >>> sheet = Sheet(title="", columns=("MRR", "ms"), rows=((0.3966, 0.0918), (1.0, 13.79), (None, "6.0")))
    >>> column_texts(sheet, 0), column_texts(sheet, 1)
    (['0.3966', '1.0000', ''], ['0.092', '13.790', '6.0'])
    """
    values = [row[column] for row in sheet.rows]
    decimals = _decimals([value for value in values if isinstance(value, float) and math.isfinite(value)])
    return [_text(value, decimals) for value in values]


def _decimals(values: Sequence[float]) -> int:
    sizes = [abs(value) for value in values if value]
    if not sizes or max(sizes) <= 1:
        return _SHARE_DECIMALS
    digits = _DIGITS - 1 - math.floor(math.log10(min(sizes)))
    return min(max(digits, 0), _MOST_DECIMALS)


_SHARE_DECIMALS = 4
_DIGITS = 3
_MOST_DECIMALS = 3


def _text(value: Cell, decimals: int) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, int):
        return f"{value:,}"
    if not math.isfinite(value):
        return "–"
    return f"{round(value, decimals) + 0.0:,.{decimals}f}"  # + 0.0: a zero has no sign


def is_numeric(sheet: Sheet, column: int) -> bool:
    """Whether a column holds numbers, which are aligned to the right."""
    values = [value for row in sheet.rows if (value := row[column]) is not None and value != ""]
    return bool(values) and all(not isinstance(value, str) or _starts_as_number(value) for value in values)


def _starts_as_number(text: str) -> bool:
    return text.lstrip("+-.~")[:1].isdigit() and len(text) <= 24


# --- on a terminal ----------------------------------------------------------------------------------------------------


def show(outcome: Outcome, console: Console) -> None:
    """Print tables and findings; a table wider than the console is wrapped or stacked."""
    from rich.text import Text

    for sheet in outcome.sheets:
        console.print(Text(f"\n{printable(sheet.title)}", style="bold"))
        for part in tables([_columns(sheet)], console.width):
            console.print(part)
        if sheet.note:
            console.print(Text(printable(sheet.note), style="dim"))
    if outcome.findings:
        console.print(Text("\nThe paper's findings, and whether they hold here", style="bold"))
    for finding in outcome.findings:
        claim, evidence = printable(finding.claim), printable(f"{finding.evidence} [{finding.rule}]")
        console.print(Text.assemble((mark(finding), _STYLES[finding.verdict]), f" {claim} ", (evidence, "dim")))


def _columns(sheet: Sheet) -> list[Column]:
    return [
        Column(heading=name, cells=column_texts(sheet, number), words=not is_numeric(sheet, number))
        for number, name in enumerate(sheet.columns)
    ]


def markdown(outcome: Outcome, about: dict[str, Any], pictures: list[str]) -> str:
    """Return an outcome as a Markdown page.

    Parameters
    ----------
    outcome
        What the experiment found.
    about
        What `segmax.experiments.about.about` returned.
    pictures
        The file names of the plots, in their order; none if they could not be drawn.
    """
    title = escaped(f"{about['place']}: {about['title']}")
    lines = [f"# {title}", "", f"`{about['command']}`", "", escaped(about_line(about)), ""]
    for sheet in outcome.sheets:
        lines += [f"## {escaped(sheet.title)}", "", *_markdown_table(sheet), ""]
        if sheet.note:
            lines += [escaped(sheet.note), ""]
    for plot, picture in zip(outcome.plots, pictures, strict=False):
        lines += [f"![{escaped(plot.title)}]({picture})", ""]
    if outcome.findings:
        lines += ["## The paper's findings, and whether they hold here", ""]
        lines += [
            f"- {mark(finding)} {escaped(finding.claim)} *{escaped(f'{finding.evidence} [{finding.rule}]')}*"
            for finding in outcome.findings
        ]
    return "\n".join(lines).rstrip() + "\n"


def about_line(about: dict[str, Any]) -> str:
    """Return a sentence on what was measured, where and when."""
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
    return "; ".join(parts) + ("; quick: a preview, not a result." if about["quick"] else ".")


def spent(about: dict[str, Any]) -> str:
    """Return how long a run took, and whether it resumed an earlier one."""
    resumed = f" after {counted(about['resumed_steps'], 'step')} of an earlier run" if about["resumed_steps"] else ""
    return f"{about['seconds']:,.1f} s{resumed}"


def _markdown_table(sheet: Sheet) -> list[str]:
    rule = ["---:" if is_numeric(sheet, number) else "---" for number in range(len(sheet.columns))]
    columns = [[escaped(text) for text in column_texts(sheet, number)] for number in range(len(sheet.columns))]
    rows = [list(row) for row in zip(*columns, strict=True)]
    return [_line([escaped(column) for column in sheet.columns]), _line(rule), *map(_line, rows)]


def _line(fields: list[str]) -> str:
    return f"| {' | '.join(fields)} |"


def escaped(text: str) -> str:
    r"""Return a text on one line with all signs of Markdown escaped.

    Examples
    --------
    >>> print(escaped("Anytime*: k' <= k_max | 512*16"))
    Anytime\*: k' \<= k\_max \| 512\*16
    """
    return re.sub(r"([\\`*_<|\[\]])", r"\\\1", text).replace("\n", " ")
