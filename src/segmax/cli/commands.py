"""The table of commands.

To add a command, write a module with `parser()` and `run(args)`, and add a line to `_TABLE`. A module is loaded only
when its command runs. If an option has another name in Python than on the command line, the module also has `NAMES`,
which `segmax.cli.spelling` explains.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Mapping
from typing import NamedTuple, Protocol, cast


class CommandModule(Protocol):
    """What the module of a command has."""

    def parser(self) -> argparse.ArgumentParser:
        """Return the parser of the command's arguments."""

    def run(self, args: argparse.Namespace) -> int | None:
        """Run the command; return the exit code, if it is not 0."""


class Command(NamedTuple):
    """The name of a command, its module, and its line in `segmax --help`."""

    name: str
    module: str
    summary: str

    def load(self) -> CommandModule:
        """Import the module."""
        return cast("CommandModule", importlib.import_module(self.module))


_TABLE = (
    Command("index", "segmax.cli.index", "build an index in one step, from texts or from vectors"),
    Command("search", "segmax.cli.search", "search an index for words or for a file of queries"),
    Command("serve", "segmax.cli.serve", "serve indexes over HTTP, with a page to search them"),
    Command("add", "segmax.cli.add", "add documents to a collection, which can change"),
    Command("delete", "segmax.cli.delete", "delete documents of a collection, by id or by metadata"),
    Command("compact", "segmax.cli.compact", "write a collection as one part"),
    Command("tune", "segmax.cli.tune", "calibrate an index for --target-recall on your queries"),
    Command("evaluate", "segmax.cli.evaluate", "compare search methods by relevance and latency"),
    Command("bench", "segmax.cli.bench", "compare speed, size and recall with other engines on any data"),
    Command("inspect", "segmax.cli.inspect", "show what an index contains and how tight its bounds are"),
    Command("plan", "segmax.cli.plan", "plan a cluster: machines, memory, disk, build hours and money"),
    Command("encode", "segmax.cli.encode", "encode texts into a file of vectors"),
    Command("encoder", "segmax.cli.encoder", "prepare a model: a table that encodes queries without it"),
    Command("build", "segmax.cli.build", "build an index from vectors, such as encode writes"),
    Command("convert", "segmax.cli.convert", "convert vectors to another file format"),
    Command("verify", "segmax.cli.verify", "check every byte of indexes and collections"),
    Command("upgrade", "segmax.cli.upgrade", "rewrite indexes of an older segmax in today's format"),
    Command("experiment", "segmax.cli.experiment", "reproduce a result of the paper on your data"),
    Command("report", "segmax.cli.report", "collect experiment results into one HTML page"),
    Command("completion", "segmax.cli.completion", "print a shell completion script"),
)
COMMANDS: Mapping[str, Command] = {command.name: command for command in _TABLE}
