"""`segmax compact`: write a collection as one part."""

from __future__ import annotations

import argparse
import time

import segmax
from segmax.base.display import counted
from segmax.cli.parser import CommandParser
from segmax.cli.show import say

# Lines of at most 80 characters: argparse shows these texts as they are.
_HELP = """\
Write all documents of a collection as one part, clustered anew, and forget the
deleted ones. Searches become a little faster, and files smaller. Other
processes can go on searching meanwhile.
"""
_EXAMPLES = """\
  segmax compact papers
  segmax compact papers --no-progress && segmax inspect papers
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of `segmax compact`."""
    made = CommandParser("compact", _HELP, _EXAMPLES)
    made.add_argument("collection", metavar="COLLECTION", help="the directory of the collection")
    made.add_argument("--no-progress", action="store_true", help="show no progress")
    return made


def run(args: argparse.Namespace) -> None:
    """Run `segmax compact`."""
    start = time.perf_counter()
    with segmax.Collection.open(args.collection) as collection:
        collection.compact(progress=not args.no_progress)
        stats = collection.stats()
    seconds = time.perf_counter() - start
    size = f"{stats.part_bytes / 1e6:,.1f} MB"
    say(f"{args.collection}: {counted(stats.num_docs, 'document')} in {size}, compacted in {seconds:.1f} s")
