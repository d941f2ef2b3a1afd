"""All experiments of a folder on one page of HTML, with styles and pictures inside."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from segmax.base.display import size_text
from segmax.base.errors import InputError
from segmax.drawing.draw import svg
from segmax.drawing.figures import check_matplotlib
from segmax.drawing.plot import Plot
from segmax.evaluation.significance import LEVEL
from segmax.experiments.outcome import Outcome, Sheet, Verdict
from segmax.experiments.outcome_files import read_outcome
from segmax.experiments.printed import TITLE
from segmax.experiments.render import MARKS, about_line, column_texts, is_numeric, mark
from segmax.experiments.verdicts import SIMILAR, TIE

_CLASSES: Mapping[Verdict, str] = {"holds": "yes", "fails": "no", "tie": "tie", "unknown": "open"}
_WORDS: Mapping[Verdict, str] = {
    "holds": "holds here",
    "fails": "does not hold here",
    "tie": "a tie: too close to call",
    "unknown": "the data do not decide",
}

_STYLE = """
:root { --ink: #24282d; --dim: #626870; --line: #dfe2e6; --back: #fff; --box: #f6f7f9; --link: #2f6f9f;
  --yes: #2e7d4f; --no: #b5462e; --tie: #9a7514; --open: #626870; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --dim: #a2a8b0; --line: #3a3f46; --back: #1b1e22;
  --box: #25292e; --link: #7fb2d6; --yes: #6fc08f; --no: #e58a70; --tie: #d9b451; --open: #a2a8b0; } }
* { box-sizing: border-box; }
html { overflow-x: clip; }
body { margin: 0 auto; max-width: 66rem; padding: 2rem 1.25rem 4rem; color: var(--ink); background: var(--back);
  font: 16px/1.55 system-ui, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .5rem; }
h2 { font-size: 1.3rem; margin: 3rem 0 .25rem; padding-top: 1rem; border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.75rem 0 .5rem; }
a { color: var(--link); }
p, .note, .dim { max-width: 50rem; }
.dim, .note { color: var(--dim); font-size: .875rem; }
code { background: var(--box); padding: .1rem .35rem; border-radius: 4px; font-size: .875rem; overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
/* Wide tables leave the column of text and use the width of the page. */
.wide.page { margin: 0 calc(50% - 50vw + 1.25rem); }
.wide.page table { margin: 0 auto; min-width: min(63.5rem, 100%); }
nav table { min-width: 52rem; }
table { border-collapse: collapse; font-size: .875rem; }
th, td { padding: .3rem .9rem .3rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); }
th { color: var(--dim); font-weight: 600; vertical-align: bottom; }
th:last-child, td:last-child { padding-right: 0; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
td.number { white-space: nowrap; }
ul.findings { list-style: none; padding: 0; max-width: 54rem; }
ul.findings li { padding-left: 1.6rem; text-indent: -1.6rem; margin: .4rem 0; }
.mark { display: inline-block; width: 1.6rem; text-indent: 0; font-weight: 700; }
.yes { color: var(--yes); } .no { color: var(--no); } .tie { color: var(--tie); } .open { color: var(--open); }
figure { margin: 1.25rem 0; padding: .5rem; background: #fff; border: 1px solid var(--line); border-radius: 6px;
  max-width: 46rem; }
figure svg { display: block; width: 100%; height: auto; }
"""


class Entry(NamedTuple):
    """What is known about the run of an experiment, and what it found."""

    about: dict[str, Any]
    outcome: Outcome


def read_entries(folder: Path, order: Sequence[str]) -> list[Entry]:
    """Read all outcomes in a folder.

    Parameters
    ----------
    folder
        Where `segmax experiment` wrote.
    order
        Names in the order of the page; others follow.

    Raises
    ------
    InputError
        If there is no such folder, or no outcome in it, or a damaged one.
    """
    if not folder.is_dir():
        raise InputError(
            where=f"'{folder}'",
            expected="a folder",
            got="none",
            hint="give the folder that segmax experiment wrote to ({out})",
        )
    read = (read_outcome(path) for path in sorted(folder.glob("*.json")))
    entries = [Entry(*found) for found in read if found is not None]
    if not entries:
        raise InputError(
            where=f"'{folder}'",
            expected="the outcome of an experiment",
            got="none",
            hint="run one first: segmax experiment NAME, with this folder as {out}",
        )
    place = {name: number for number, name in enumerate(order)}
    return sorted(entries, key=lambda entry: place.get(entry.about["name"], len(place)))


def report_page(entries: Sequence[Entry]) -> str:
    """Return a page of HTML with tables, plots and findings of all entries, in their order.

    Raises
    ------
    ConfigError
        If matplotlib, which draws the plots, is not installed.
    """
    check_matplotlib()
    parts = [_contents(entries), _machines(entries), *(_section(entry) for entry in entries)]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>segmax: the paper's results, measured here</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body>\n</html>\n"
    )


# --- the top ----------------------------------------------------------------------------------------------------------


_INTRODUCTION = f"""\
<h1>The paper's results, measured here</h1>
<p>Tables and figures of “{TITLE}”, recomputed by segmax. <span class="yes">✓</span> is a finding of the paper that
holds here, <span class="no">✗</span> one that does not, <span class="tie">≈</span> one that is too close to call, and
<span class="open">?</span> one that these data do not decide.</p>
<p class="dim">Every finding ends with the rule that decides. Values that every query has are compared by two-sided
paired t-tests: a difference counts from {SIMILAR:.0%} on and with p &lt; {LEVEL:g}, by Holm's correction where a
finding has several. Times within {TIE:.0%} of each other are a tie. What must never happen is refuted by one
exception.</p>"""


def _contents(entries: Sequence[Entry]) -> str:
    rows = "\n".join(_contents_row(entry) for entry in entries)
    return (
        f'{_INTRODUCTION}\n<nav class="wide"><table><thead><tr><th>paper</th><th>experiment</th>'
        "<th>what is measured</th><th>on</th><th>run</th><th>findings</th></tr></thead>"
        f"<tbody>\n{rows}\n</tbody></table></nav>"
    )


def _contents_row(entry: Entry) -> str:
    about = entry.about
    counts = {verdict: sum(f.verdict == verdict for f in entry.outcome.findings) for verdict in MARKS}
    marks = " ".join(
        f'<span class="{_CLASSES[verdict]}">{count}&nbsp;{MARKS[verdict]}</span>'
        for verdict, count in counts.items()
        if count
    )
    on = "; ".join(f"{c['name']}, {c['num_queries']:,} queries" for c in about["collections"]) or "the example itself"
    fields = (
        escape(about["place"]),
        f'<a href="#{escape(about["name"])}">{escape(about["name"])}</a>',
        escape(about["title"]),
        escape(on),
        "quick" if about["quick"] else "full",
        marks,
    )
    return f"<tr>{''.join(f'<td>{field}</td>' for field in fields)}</tr>"


def _machines(entries: Sequence[Entry]) -> str:
    """Return what the experiments ran on, once for every machine and version."""
    lines = []
    for entry in entries:
        machine, versions = entry.about["machine"], entry.about["versions"]
        commit = entry.about["commit"]
        line = (
            f"{machine['cpu']}, {machine['cores']} cores, {size_text(machine['memory_bytes'])} of memory, "
            f"{machine['simd']}, {machine['system']}; "
            + ", ".join(f"{name} {number}" for name, number in versions.items())
            + (f"; commit {commit}" if commit else "")
        )
        if line not in lines:
            lines.append(line)
    return "<h3>Machine and versions</h3>\n" + "\n".join(f'<p class="dim">{escape(line)}</p>' for line in lines)


# --- an experiment ----------------------------------------------------------------------------------------------------


def _section(entry: Entry) -> str:
    about, outcome = entry.about, entry.outcome
    name = escape(about["name"])
    parts = [
        f'<section id="{name}">\n<h2>{escape(about["place"])}: {escape(about["title"])}</h2>',
        f"<p><code>{escape(about['command'])}</code></p>",
        f'<p class="dim">{escape(about_line(about))}</p>',
        _findings(outcome),
        *(_table(sheet) for sheet in outcome.sheets),
        *(_figure(plot, f"{about['name']}-{number}") for number, plot in enumerate(outcome.plots, start=1)),
        "</section>",
    ]
    return "\n".join(part for part in parts if part)


def _findings(outcome: Outcome) -> str:
    items = [
        f'<li><span class="mark {_CLASSES[finding.verdict]}" title="{_WORDS[finding.verdict]}">{mark(finding)}</span>'
        f'{escape(finding.claim)} <span class="dim">{escape(finding.evidence)} [{escape(finding.rule)}]</span></li>'
        for finding in outcome.findings
    ]
    return f'<ul class="findings">\n{chr(10).join(items)}\n</ul>' if items else ""


_LETTERS = 110  # that fit into the column of text; a wider table leaves it
_FIELD_LETTERS = 30  # longer texts in a field are wrapped
_GAP_LETTERS = 2


def _is_wide(headings: Sequence[str], columns: Sequence[Sequence[str]]) -> bool:
    """Whether a table is wider than the column of text even with its headings wrapped."""
    words = [max(map(len, heading.split()), default=0) for heading in headings]
    fields = [max((min(len(text), _FIELD_LETTERS) for text in texts), default=0) for texts in columns]
    return sum(max(pair) + _GAP_LETTERS for pair in zip(words, fields, strict=True)) > _LETTERS


def _table(sheet: Sheet) -> str:
    numbers = range(len(sheet.columns))
    numeric = [is_numeric(sheet, number) for number in numbers]
    kinds = [' class="number"' if each else "" for each in numeric]

    def line(tag: str, fields: Sequence[str]) -> str:
        cells = (f"<{tag}{kind}>{escape(text)}</{tag}>" for kind, text in zip(kinds, fields, strict=True))
        return f"<tr>{''.join(cells)}</tr>"

    columns = [column_texts(sheet, number) for number in numbers]
    aligned = [_aligned(texts) if each else texts for texts, each in zip(columns, numeric, strict=True)]
    rows = "\n".join(line("td", row) for row in zip(*aligned, strict=True))
    note = f'\n<p class="note">{escape(sheet.note)}</p>' if sheet.note else ""
    head = line("th", sheet.columns)
    page = " page" if _is_wide(sheet.columns, columns) else ""
    return (
        f'<h3>{escape(sheet.title)}</h3>\n<div class="wide{page}"><table><thead>{head}</thead><tbody>\n{rows}\n'
        f"</tbody></table></div>{note}"
    )


_DIGIT, _POINT = "\N{FIGURE SPACE}", "\N{PUNCTUATION SPACE}"


def _aligned(texts: Sequence[str]) -> list[str]:
    """Return numbers padded with spaces, so that decimal points line up although the paper's digits vary.

    Examples
    --------
    >>> [text.replace(_DIGIT, "_").replace(_POINT, ",") for text in _aligned(["116", "29.0", "8.10", "1.5x", ""])]
    ['116,__', '29.0_', '8.10', '1.5x', '']
    """
    digits = [len(text.partition(".")[2]) if _NUMBER.fullmatch(text) else None for text in texts]
    most = max((count for count in digits if count is not None), default=0)
    return [
        text if count is None else text + (_POINT if most and not count else "") + _DIGIT * (most - count)
        for text, count in zip(texts, digits, strict=True)
    ]


_NUMBER = re.compile(r"[-+]?[\d,]+(\.\d+)?")


def _figure(plot: Plot, name: str) -> str:
    """Return a picture without what only a separate file needs, and with ids that no other picture has."""
    drawn = svg(plot, name)
    text = re.sub(r"<metadata>.*?</metadata>", "", drawn[drawn.index("<svg") :], flags=re.DOTALL).strip()
    text = re.sub(r'\bid="', f'id="{escape(name)}-', text)
    text = re.sub(r'(url\(|href=")#', rf"\g<1>#{escape(name)}-", text)
    return f'<figure role="img" aria-label="{escape(plot.title)}">{text}</figure>'
