"""`segmax verify`: check every byte of indexes and collections."""

from __future__ import annotations

import argparse

from segmax.base.display import counted, size_text
from segmax.base.errors import SegmaxError
from segmax.cli.parser import CommandParser, add_progress, shows_progress
from segmax.cli.show import say
from segmax.ray.address import is_ray_address, parse_ray_address
from segmax.shards.verifying import Checked, check
from segmax.storage.verifying import Damage

# Lines of at most 80 characters: argparse shows these texts as they are.
_HELP = """\
Check every byte of indexes, collections and sharded indexes: checksums, sizes,
and whether everything fits together. Nothing is written, and others may go on
searching and writing. The exit code is 1 if something is damaged or missing;
all that is damaged is listed.
"""
_EXAMPLES = """\
  segmax verify docs.segmax
  segmax verify papers docs.segmax docs.sharded --no-progress
  segmax verify backups/* --quick || echo "a backup is damaged"
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of `segmax verify`."""
    made = CommandParser("verify", _HELP, _EXAMPLES)
    made.add_argument(
        "path", metavar="PATH", nargs="+", help="the directory of an index, a collection or a sharded index"
    )
    made.add_argument(
        "--quick",
        action="store_true",
        help="check descriptions, tables, and the sizes of all other files, not every byte",
    )
    add_progress(made)
    return made


def run(args: argparse.Namespace) -> int:
    """Run `segmax verify`."""
    return max(_verified(path, args.quick, shows_progress(args.progress)) for path in args.path)


def _verified(path: str, quick: bool, progress: bool) -> int:
    """Check one path, and print the outcome; return the exit code."""
    try:
        folder = parse_ray_address(path).path if is_ray_address(path) else path
        checked = check(folder, quick=quick, progress=progress)
    except (SegmaxError, OSError) as error:  # a folder that may not be read, a name that is too long
        say(f"{path}: {error}")
        return 1
    say(*_lines(path, checked, quick))
    return int(bool(checked.damage))


def _lines(path: str, checked: Checked, quick: bool) -> list[str]:
    if len(checked.damage) == 1 and not checked.damage[0].piece:
        return [f"{path}: {checked.damage[0].error}"]
    if checked.damage:
        first = f"{path}: {checked.kind}, {counted(len(checked.damage), 'problem')}"
        return [first, *(f"  {damage.piece}: {_reason(damage)}" for damage in checked.damage)]
    how = "sizes and tables are right" if quick else "every byte is right"
    return [f"{path}: {checked.kind}, {size_text(checked.num_bytes)}, {how}"]


def _reason(damage: Damage) -> str:
    return str(damage.error).removeprefix(f"{damage.piece}: ")
