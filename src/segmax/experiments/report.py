"""All experiments of a folder on one page of HTML that needs nothing else: styles and pictures are in it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from segmax.errors import InputError
from segmax.experiments.base import Outcome, Plot, Sheet
from segmax.experiments.output import read_outcome
from segmax.experiments.render import about_line, cell_text, is_numeric, mark, svg
from segmax.figures import check_matplotlib
from segmax.report import size_text

_CLASSES = {True: "yes", False: "no", None: "open"}
_WORDS = {True: "holds here", False: "does not hold here", None: "cannot be told here"}

_STYLE = """
:root { --ink: #24282d; --dim: #626870; --line: #dfe2e6; --back: #fff; --box: #f6f7f9; --link: #2f6f9f;
  --yes: #2e7d4f; --no: #b5462e; --open: #9a7514; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --dim: #a2a8b0; --line: #3a3f46; --back: #1b1e22;
  --box: #25292e; --link: #7fb2d6; --yes: #6fc08f; --no: #e58a70; --open: #d9b451; } }
* { box-sizing: border-box; }
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
table { border-collapse: collapse; font-size: .875rem; }
th, td { padding: .3rem .9rem .3rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); }
th { color: var(--dim); font-weight: 600; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
ul.findings { list-style: none; padding: 0; max-width: 54rem; }
ul.findings li { padding-left: 1.6rem; text-indent: -1.6rem; margin: .4rem 0; }
.mark { display: inline-block; width: 1.6rem; text-indent: 0; font-weight: 700; }
.yes { color: var(--yes); } .no { color: var(--no); } .open { color: var(--open); }
figure { margin: 1.25rem 0; padding: .5rem; background: #fff; border: 1px solid var(--line); border-radius: 6px;
  max-width: 46rem; }
figure svg { display: block; width: 100%; height: auto; }
"""


class Entry(NamedTuple):
    """An experiment that was run: what is known about the run, and what it found."""

    about: dict[str, Any]
    outcome: Outcome


def read_entries(folder: Path, order: Sequence[str]) -> list[Entry]:
    """Read all outcomes in a folder.

    Parameters
    ----------
    folder
        Where `segmax experiment` wrote.
    order
        Names in the order in which they are wanted; others follow.

    Raises
    ------
    InputError
        If there is no such folder, or no outcome in it, or a damaged one.
    """
    if not folder.is_dir():
        msg = f"there is no folder '{folder}'; give the one that segmax experiment wrote to (--out)"
        raise InputError(msg)
    read = (read_outcome(path) for path in sorted(folder.glob("*.json")))
    entries = [Entry(*found) for found in read if found is not None]
    if not entries:
        msg = f"'{folder}' holds no outcome of an experiment; run some first: segmax experiment NAME --out {folder}"
        raise InputError(msg)
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


def _contents(entries: Sequence[Entry]) -> str:
    rows = []
    for entry in entries:
        counts = [sum(f.holds is holds for f in entry.outcome.findings) for holds in (True, False, None)]
        told = " ".join(
            f'<span class="{name}">{count} {sign}</span>'
            for count, name, sign in zip(counts, _CLASSES.values(), "✓✗?", strict=True)
            if count
        )
        about = entry.about
        rows.append(
            f'<tr><td>{escape(about["place"])}</td><td><a href="#{escape(about["name"])}">{escape(about["name"])}</a>'
            f"</td><td>{escape(about['title'])}</td><td>{told}</td></tr>"
        )
    return (
        "<h1>The paper's results, measured here</h1>\n"
        "<p>Tables and figures of “Approximate Cluster-Based Sparse Document Retrieval with Segmented Maximum Term "
        "Weights”, recomputed by segmax. ✓ is a finding of the paper that holds here, ✗ one that does not, and ? one "
        "that these data cannot tell.</p>\n"
        '<nav class="wide"><table><thead><tr><th>paper</th><th>experiment</th><th>what is measured</th>'
        f"<th>findings</th></tr></thead><tbody>\n{chr(10).join(rows)}\n</tbody></table></nav>"
    )


def _machines(entries: Sequence[Entry]) -> str:
    """Say what all of it ran on, once for every machine and version."""
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
        f'<li><span class="mark {_CLASSES[finding.holds]}" title="{_WORDS[finding.holds]}">{mark(finding)}</span>'
        f'{escape(finding.claim)} <span class="dim">{escape(finding.evidence)}</span></li>'
        for finding in outcome.findings
    ]
    return f'<ul class="findings">\n{chr(10).join(items)}\n</ul>' if items else ""


def _table(sheet: Sheet) -> str:
    kinds = [' class="number"' if is_numeric(sheet, number) else "" for number in range(len(sheet.columns))]

    def line(tag: str, fields: Sequence[str]) -> str:
        cells = (f"<{tag}{kind}>{escape(text)}</{tag}>" for kind, text in zip(kinds, fields, strict=True))
        return f"<tr>{''.join(cells)}</tr>"

    rows = "\n".join(line("td", [cell_text(value) for value in row]) for row in sheet.rows)
    note = f'\n<p class="note">{escape(sheet.note)}</p>' if sheet.note else ""
    head = line("th", sheet.columns)
    return (
        f'<h3>{escape(sheet.title)}</h3>\n<div class="wide"><table><thead>{head}</thead><tbody>\n{rows}\n'
        f"</tbody></table></div>{note}"
    )


def _figure(plot: Plot, name: str) -> str:
    """Return a picture without what only a file of its own needs, and with ids that no other picture has."""
    drawn = svg(plot, name)
    text = re.sub(r"<metadata>.*?</metadata>", "", drawn[drawn.index("<svg") :], flags=re.DOTALL).strip()
    text = re.sub(r'\bid="', f'id="{escape(name)}-', text)
    text = re.sub(r'(url\(|href=")#', rf"\g<1>#{escape(name)}-", text)
    return f'<figure role="img" aria-label="{escape(plot.title)}">{text}</figure>'
