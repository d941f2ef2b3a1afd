"""The verdicts of a report as a table: `python -m benchmarks.findings experiments docs/findings.md`.

Reads what `segmax experiment` wrote to a folder, and replaces what is between the markers of the page.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from benchmarks.race_report import between_markers
from segmax.experiments import EXPERIMENTS
from segmax.experiments.render import MARKS, escaped, mark
from segmax.experiments.report import read_entries

_HEAD = "| paper | finding | here |\n| --- | --- | --- |\n"


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.findings", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="the folder that experiments were written to")
    parser.add_argument("page", type=Path, help="the page to write to, docs/findings.md")
    args = parser.parse_args()
    entries = read_entries(args.folder, tuple(EXPERIMENTS))
    told = ((each.about["place"], one.claim, mark(one)) for each in entries for one in each.outcome.findings)
    args.page.write_text(between_markers(args.page.read_text(), verdict_table(told)))


def verdict_table(told: Iterable[tuple[str, str, str]]) -> str:
    r"""Return a line per claim of a place in the paper, with how often it got each mark.

    Examples
    --------
    >>> print(verdict_table([("Table 4", "a*", "✓"), ("Table 4", "a*", "≈"), ("Table 4", "b", "✓")]))
    | paper | finding | here |
    | --- | --- | --- |
    | Table 4 | a\* | 1 ✓ 1 ≈ |
    | Table 4 | b | ✓ |
    """
    counts: dict[tuple[str, str], Counter[str]] = {}
    for place, claim, sign in told:
        counts.setdefault((place, claim), Counter())[sign] += 1
    lines = (f"| {place} | {escaped(claim)} | {_signs(signs)} |" for (place, claim), signs in counts.items())
    return _HEAD + "\n".join(lines)


def _signs(signs: Counter[str]) -> str:
    if signs.total() == 1:
        return next(iter(signs))
    return " ".join(f"{signs[sign]} {sign}" for sign in MARKS.values() if signs[sign])


if __name__ == "__main__":
    main()
