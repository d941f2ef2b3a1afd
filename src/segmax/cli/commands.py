"""Which commands there are. Each has a module of its own, which is loaded when the command runs."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Command(NamedTuple):
    """A command: its module, the functions there that return its parser and run it, and what it does."""

    module: str
    parser_name: str
    function_name: str
    help: str

    def parser(self) -> argparse.ArgumentParser:
        """Return its parser."""
        made: argparse.ArgumentParser = self._load(self.parser_name)()
        return made

    def run(self, args: argparse.Namespace) -> None:
        """Run it."""
        self._load(self.function_name)(args)

    def _load(self, name: str) -> Callable[..., Any]:
        loaded: Callable[..., Any] = getattr(importlib.import_module(self.module), name)
        return loaded


def _command(name: str, help: str, function_name: str | None = None, module: str | None = None) -> Command:
    return Command(f"segmax.cli.{module or name}", f"{name}_parser", function_name or name, help)


COMMANDS: Mapping[str, Command] = {
    "build": _command("build", "build an index from files of sparse vectors"),
    "completion": _command("completion", "print a completion script for a shell"),
    "convert": _command("convert", "convert vectors from one format to another"),
    "encode": _command("encode", "encode texts into vectors; resumes after an interruption"),
    "evaluate": _command("evaluate", "compare methods: relevance, recall, latency, significance", "run_evaluate"),
    "experiment": _command("experiment", "measure one of the paper's results on a collection"),
    "index": _command("index", "build an index from texts or vectors in one go"),
    "inspect": _command("inspect", "report what is in an index and how tight its bounds are", "run_inspect"),
    "report": _command("report", "gather experiments on one page of HTML"),
    "search": _command("search", "search an index for words, or for a file of queries"),
    "tune": _command("tune", "measure approximate settings on queries, store the result", module="search"),
}
