"""`segmax report`: the results of experiments on one page."""

from __future__ import annotations

import argparse
from pathlib import Path

from segmax.base.display import counted
from segmax.cli.parser import CommandParser
from segmax.cli.show import say
from segmax.experiments.catalog import LISTED

# Lines of at most 80 characters: argparse shows these texts as they are.
_HELP = """\
Collect what segmax experiment wrote to a folder into one HTML page: commands,
machine, tables, plots, and which findings of the paper hold. The page is
self-contained. Plots need matplotlib: pip install 'segmax[plot]'.
"""
_EXAMPLES = """\
  segmax report experiments
  segmax report results --output docs/report.html
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of `segmax report`."""
    made = CommandParser("report", _HELP, _EXAMPLES)
    made.add_argument("folder", metavar="DIR", help="the folder with the results")
    made.add_argument("--output", metavar="FILE", help="the page to write (default: DIR/report.html)")
    return made


def run(args: argparse.Namespace) -> None:
    """Run `segmax report`."""
    from segmax.experiments.outcome_files import write_text
    from segmax.experiments.report import read_entries, report_page

    folder = Path(args.folder)
    entries = read_entries(folder, tuple(LISTED))
    target = folder / "report.html" if args.output is None else Path(args.output)
    write_text(target, report_page(entries))
    say(f"{target}: {counted(len(entries), 'experiment')}")
