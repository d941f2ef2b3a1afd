"""`segmax tune`: calibrate an index on queries."""

from __future__ import annotations

import argparse
import json
import sys

import segmax
from segmax.cli.parser import CommandParser, add_index, add_query_encoder, add_results, add_threads, real_number
from segmax.cli.show import say

# Lines of at most 80 characters: argparse shows these texts as they are.
_HELP = """\
Calibrate an index on your queries: measure how much of the exact results
approximate settings find and what they cost, and store that with the index.
segmax search --target-recall then chooses its settings by it. Without this it
relies on synthetic queries that were made from documents at build time.
"""
_EXAMPLES = """\
  segmax tune docs.segmax queries.npz
  segmax tune docs.segmax queries.npz -k 1000 --target-recall 0.95 --json
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of `segmax tune`."""
    made = CommandParser("tune", _HELP, _EXAMPLES)
    add_index(made)
    made.add_argument("queries", metavar="QUERIES", help="a file of queries, as for segmax search")
    add_results(made)
    add_threads(made)
    add_query_encoder(made)
    made.add_argument(
        "--target-recall",
        metavar="X",
        type=real_number,
        default=0.99,
        help="report the settings for this recall (default: %(default)s)",
    )
    made.add_argument("--json", action="store_true", help="print all measurements as JSON")
    return made


def run(args: argparse.Namespace) -> None:
    """Run `segmax tune`."""
    from segmax.collection.opening import is_collection
    from segmax.text.queries import read_encoded_queries

    open_it = segmax.Collection.open if is_collection(args.index) else segmax.open  # what is measured is stored
    with open_it(args.index, encoder=args.encoder) as index:
        queries = read_encoded_queries(args.queries, index).rows
        expectation = index.tune(queries, args.k, args.target_recall, threads=args.threads)
        if args.json:
            measured = next(m for m in index.calibration.measured if m.k == args.k)
            sys.stdout.write(json.dumps(measured.to_dict(), indent=1) + "\n")
        else:
            say(str(expectation))
