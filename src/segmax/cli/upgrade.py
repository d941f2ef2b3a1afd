"""`segmax upgrade`: rewrite what an older segmax wrote in today's format."""

from __future__ import annotations

import argparse

from segmax.base.errors import SegmaxError
from segmax.cli.parser import CommandParser
from segmax.cli.show import say
from segmax.ray.address import is_ray_address, parse_ray_address
from segmax.shards.upgrading import upgrade
from segmax.storage.meta import FORMAT_VERSION

# Lines of at most 80 characters: argparse shows these texts as they are.
_HELP = """\
Rewrite indexes that an older segmax built in the format of this one, which
opens or searches them faster. Results stay the same. Each index is replaced
in one step: a failure or an interruption leaves what was there, and the same
command goes on with the rest. Collections and sharded indexes need no upgrade
yet: this segmax reads all of them, and says so. The exit code is 1 if
something could not be upgraded.
"""
_EXAMPLES = """\
  segmax upgrade docs.segmax
  segmax upgrade indexes/*.segmax --dry-run
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of `segmax upgrade`."""
    made = CommandParser("upgrade", _HELP, _EXAMPLES)
    made.add_argument(
        "path", metavar="PATH", nargs="+", help="the directory of an index, a collection or a sharded index"
    )
    made.add_argument("--dry-run", action="store_true", help="only show what would be upgraded")
    return made


def run(args: argparse.Namespace) -> int:
    """Run `segmax upgrade`."""
    return max(_upgraded(path, args.dry_run) for path in args.path)


def _upgraded(path: str, dry_run: bool) -> int:
    """Upgrade one path, and print the outcome; return the exit code."""
    try:
        found = upgrade(parse_ray_address(path).path if is_ray_address(path) else path, dry_run=dry_run)
    except (SegmaxError, OSError) as error:  # a folder that may not be read, a name that is too long
        say(f"{path}: {error}")
        return 1
    if not found.is_due:
        say(f"{path}: {found.kind}, up to date")
    else:
        how = "would be upgraded" if dry_run else "upgraded"
        say(f"{path}: {found.kind}, {how} from format {found.version} to {FORMAT_VERSION}")
    return 0
