"""`segmax upgrade`: rewrite an index in today's format."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from segmax.cli.parser import CommandParser
from segmax.collection.opening import upgrade

# Lines of at most 80 characters: argparse shows these texts as they are.
_HELP = """\
Rewrite indexes that an older segmax built, so that this one can open them.
Results stay the same. Each index is replaced in one step; a failure leaves
what was there. Collections need no upgrade yet: this segmax opens all of them.
"""
_EXAMPLES = """\
  segmax upgrade docs.segmax
  segmax upgrade indexes/*.segmax
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of `segmax upgrade`."""
    made = CommandParser("upgrade", _HELP, _EXAMPLES)
    made.add_argument("index", metavar="INDEX", nargs="+", type=Path, help="the directory of an index or a collection")
    return made


def run(args: argparse.Namespace) -> None:
    """Run `segmax upgrade`."""
    for path in args.index:
        done = upgrade(path)
        sys.stdout.write(f"{path}: {'upgraded' if done else 'up to date'}\n")
