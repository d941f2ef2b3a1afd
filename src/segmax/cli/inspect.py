"""The command `segmax inspect`."""

from __future__ import annotations

import argparse
import sys

import segmax
from segmax.base.display import json_text
from segmax.base.figures import check_plot
from segmax.cli.parser import Parser, add_query_encoder, read_number
from segmax.inspection.plots import plot_report
from segmax.inspection.summary import STAND_IN_TERMS, inspect
from segmax.text.queries import read_encoded_queries

# Lines of at most 80 characters: argparse shows these texts as they are.
_INSPECT_HELP = """\
Report what is in an index: counts and options, bytes per structure, sizes of
clusters, and how tight the bounds of clusters are. That is the best score that
a cluster really has (Actual) over what MaxSBound, BoundSum and AvgSBound say,
averaged over a sample of queries and the clusters that have a score for them.
"""
_INSPECT_EXAMPLES = """\
examples:
  segmax inspect docs.segmax
  segmax inspect docs.segmax --queries queries.npz --sample 200 --plot docs.png
  segmax inspect docs.segmax --json | jq .tightness.max_bound.mean
"""


def inspect_parser() -> argparse.ArgumentParser:
    """Return the parser of `segmax inspect`."""
    parser = Parser(
        prog="segmax inspect",
        description=_INSPECT_HELP,
        epilog=_INSPECT_EXAMPLES,
    )
    parser.add_argument("index", metavar="INDEX", help="the directory of an index")
    queries = parser.add_argument_group("queries for the tightness of the bounds")
    queries.add_argument(
        "--queries",
        metavar="FILE",
        help="a file of queries, as for segmax search (default: documents of the index stand in, each cut to its "
        f"{STAND_IN_TERMS} largest weights)",
    )
    add_query_encoder(queries)
    queries.add_argument("--sample", metavar="N", default="50", help="how many to use; 0: none (default: %(default)s)")
    queries.add_argument("--seed", metavar="N", default="0", help="of the choice of these (default: %(default)s)")
    output = parser.add_argument_group("output")
    output.add_argument("--plot", metavar="OUT.png", help="draw sizes, clusters and tightness (.png, .svg or .pdf)")
    output.add_argument("--json", action="store_true", help="print the report as JSON (default: as tables)")
    return parser


def run_inspect(args: argparse.Namespace) -> None:
    """Run `segmax inspect`."""
    sample = read_number(int, "--sample", args.sample)
    seed = read_number(int, "--seed", args.seed)
    if args.plot is not None:
        check_plot(args.plot)
    with segmax.open(args.index, encoder=args.encoder) as index:
        queries = read_encoded_queries(args.queries, index).vectors if args.queries is not None else None
        report = inspect(index, queries, sample, seed)
    if args.plot is not None:
        plot_report(report, args.plot)
    if args.json:
        sys.stdout.write(json_text(report.to_dict(), indent=1) + "\n")
    else:
        from rich.console import Console

        Console(highlight=False).print(report)
