"""`segmax encoder`: what is done to an encoder itself, by commands of their own."""

from __future__ import annotations

import argparse

from segmax.base.errors import ConfigError
from segmax.cli.commands import Command
from segmax.cli.parser import CommandParser

#: By name. To add one, write a module with `parser()` and `run(args)`, as for any command, and add a line.
SUBCOMMANDS = {
    command.name: command
    for command in (
        Command("export", "segmax.cli.encoder_export", "export a model, to run it in 8 bits on a CPU"),
        Command("table", "segmax.cli.encoder_table", "make a table that encodes queries without the model"),
    )
}

# Lines of at most 80 characters: argparse shows these texts as they are.
_HELP = """\
Prepare a model for searching.

{list}

Run segmax encoder NAME --help for the options of one.
"""
_EXAMPLES = """\
  segmax encoder export naver/splade-v3 --texts corpus.jsonl
  segmax encoder table naver/splade-v3 my-table --texts corpus.jsonl
  segmax search docs.segmax microwave noise --encoder my-table
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of `segmax encoder` without a name."""
    width = max(map(len, SUBCOMMANDS))
    listed = "\n".join(f"  {name:{width}}  {command.summary}" for name, command in SUBCOMMANDS.items())
    made = CommandParser("encoder", _HELP.format(list=listed), _EXAMPLES, usage="segmax encoder NAME [options]")
    made.add_argument("name", metavar="NAME", nargs="?", help="one of the names above")
    return made


def run(args: argparse.Namespace) -> None:
    """Raise ConfigError: only what `SUBCOMMANDS` names can be run."""
    raise ConfigError(
        expected=f"segmax encoder {'|'.join(SUBCOMMANDS)}",
        got=args.name or "no name",
        hint="see segmax encoder --help",
    )
