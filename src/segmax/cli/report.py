"""The command `segmax report`: outcomes of experiments on one page."""

from __future__ import annotations

import argparse
from pathlib import Path

from segmax.base.display import counted
from segmax.cli.parser import Parser
from segmax.cli.show import say
from segmax.experiments.catalog import LISTED

# Lines of at most 80 characters: argparse shows these texts as they are.
_HELP = """\
Gather what segmax experiment wrote to a folder on one page of HTML: commands,
machine, tables, plots, and which findings of the paper hold. The page needs no
other file. Plots need matplotlib: pip install 'segmax[plot]'.
"""
_EXAMPLES = """\
examples:
  segmax report experiments
  segmax report results --output docs/report.html
"""


def report_parser() -> argparse.ArgumentParser:
    """Return the parser of `segmax report`."""
    parser = Parser(prog="segmax report", description=_HELP, epilog=_EXAMPLES)
    parser.add_argument("folder", metavar="DIR", help="the folder that experiments were written to")
    parser.add_argument("--output", metavar="FILE", help="the page to write (default: DIR/report.html)")
    return parser


def report(args: argparse.Namespace) -> None:
    """Run `segmax report`."""
    from segmax.experiments.outcome_files import write_text
    from segmax.experiments.report import read_entries, report_page

    folder = Path(args.folder)
    entries = read_entries(folder, tuple(LISTED))
    target = folder / "report.html" if args.output is None else Path(args.output)
    write_text(target, report_page(entries))
    say(f"{target}: {counted(len(entries), 'experiment')}")
