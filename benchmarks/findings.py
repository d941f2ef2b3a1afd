"""The verdicts of experiments as a table: `python -m benchmarks.findings experiments docs/findings.md`.

Reads what `segmax experiment` wrote to a folder, and replaces the table between the markers of the page. With `--keep`
the outcomes are also stored for `make report`, without the raw figures, which no page shows.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.race_tables import between_markers
from segmax.experiments.catalog import LISTED
from segmax.experiments.outcome_files import write_outcome
from segmax.experiments.render import MARKS, escaped, mark
from segmax.experiments.report import Entry, read_entries

_HEAD = "| paper | finding | here |\n| --- | --- | --- |\n"


def main(argv: Sequence[str] | None = None) -> None:
    """Write the table, and keep the outcomes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.findings", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="the folder that experiments were written to")
    parser.add_argument("page", type=Path, help="the page to write to, docs/findings.md")
    parser.add_argument("--keep", metavar="DIR", type=Path, help="store the outcomes: benchmarks/results/experiments")
    args = parser.parse_args(argv)
    entries = read_entries(args.folder, tuple(LISTED))
    args.page.write_text(between_markers(args.page.read_text(), verdict_table(entries)))
    if args.keep is not None:
        args.keep.mkdir(parents=True, exist_ok=True)
        for about, outcome in entries:
            short = dataclasses.replace(outcome, records=[])
            write_outcome(args.keep / f"{about['name']}.json", about, short, indent=None)


def verdict_table(entries: Iterable[Entry]) -> str:
    """Return a line per claim of a place in the paper, with its mark, or with how often it got each."""
    marked = ((entry.about["place"], one.claim, mark(one)) for entry in entries for one in entry.outcome.findings)
    return _table(marked)


def _table(marked: Iterable[tuple[str, str, str]]) -> str:
    r"""Return the table of places, claims and marks.

    Examples
    --------
    >>> print(_table([("Table 4", "a*", "✓"), ("Table 4", "a*", "≈"), ("Table 4", "b", "✓")]))
    | paper | finding | here |
    | --- | --- | --- |
    | Table 4 | a\* | 1 ✓ 1 ≈ |
    | Table 4 | b | ✓ |
    """
    counts: dict[tuple[str, str], Counter[str]] = {}
    for place, claim, sign in marked:
        counts.setdefault((place, claim), Counter())[sign] += 1
    lines = (f"| {place} | {escaped(claim)} | {_signs(signs)} |" for (place, claim), signs in counts.items())
    return _HEAD + "\n".join(lines)


def _signs(signs: Counter[str]) -> str:
    if signs.total() == 1:
        return next(iter(signs))
    return " ".join(f"{signs[sign]} {sign}" for sign in MARKS.values() if signs[sign])


if __name__ == "__main__":
    main()
