"""`segmax compact`: write a collection as one part."""

from __future__ import annotations

import argparse
import time

import segmax
from segmax.base.display import counted
from segmax.cli.parser import CommandParser, add_progress, shows_progress
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
    add_progress(made)
    return made


def run(args: argparse.Namespace) -> None:
    """Run `segmax compact`."""
    start = time.perf_counter()
    with segmax.Collection.open(args.collection) as collection:
        collection.compact(progress=shows_progress(args.progress))
        stats = collection.stats()
    seconds = time.perf_counter() - start
    size = f"{stats.part_bytes / 1e6:,.1f} MB"
    say(f"{args.collection}: {counted(stats.num_docs, 'document')} in {size}, compacted in {seconds:.1f} s")
