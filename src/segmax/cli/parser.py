"""What the commands share: the parser, types of arguments, and options that several commands have."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import textwrap
from collections.abc import Iterator
from typing import Any, NoReturn

from segmax.base.checks import parsed_float, parsed_int, shown
from segmax.base.errors import ConfigError


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Shows descriptions as they are, and never breaks a line inside of an option such as --num-clusters."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)


class Parser(argparse.ArgumentParser):
    """Shows help texts as they are, and raises ConfigError where argparse would print its usage and exit."""

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=_HelpFormatter, allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        """Raise the message."""
        raise ConfigError(message, hint=f"see {self.prog} --help")


class CommandParser(Parser):
    """The parser of a command.

    Parameters
    ----------
    name
        The command.
    help
        What it does, in lines of at most 80 characters.
    examples
        At least two command lines.
    """

    def __init__(self, name: str, help: str, examples: str, **options: Any) -> None:
        super().__init__(prog=f"segmax {name}", description=help, epilog=f"examples:\n{examples}", **options)
        self.add_argument("-v", "--verbose", action="store_true", default=False, help="log each step to standard error")


# --- types of arguments ----------------------------------------------------------------------------------------------


def whole_number(text: str) -> int:
    """Read a whole number in plain digits, for `type=`: neither 1_000 nor ١."""
    number = parsed_int(text)
    if number is None:
        msg = f"expected a whole number, got {text!r}"
        raise argparse.ArgumentTypeError(msg)
    return number


def positive_number(text: str) -> int:
    """Read a whole number of at least 1."""
    number = whole_number(text)
    if number < 1:
        msg = f"expected at least 1, got {number}"
        raise argparse.ArgumentTypeError(msg)
    return number


def real_number(text: str) -> float:
    """Read a finite number in plain digits."""
    number = parsed_float(text)
    if number is None:
        msg = f"expected a number, got {text!r}"
        raise argparse.ArgumentTypeError(msg)
    return number


def read_filter(text: str) -> Any:
    """Read a filter on metadata, which is JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            option="where", expected='a filter as JSON, such as {"year": {"$gte": 2020}}', got=shown(text)
        ) from error


# --- options that several commands have ------------------------------------------------------------------------------


def add_index(parser: argparse.ArgumentParser) -> None:
    """Add INDEX."""
    parser.add_argument("index", metavar="INDEX", help="directory of the index")


def add_inputs_and_output(parser: argparse.ArgumentParser, inputs: str, output: str) -> None:
    """Add IN ... OUT."""
    parser.add_argument("paths", nargs="*", metavar="IN ... OUT", help=f"{inputs}, then {output}")


def inputs_and_output(args: argparse.Namespace, command: str) -> tuple[list[str], str]:
    """Return IN ... and OUT."""
    paths: list[str] = getattr(args, "paths", [])
    if len(paths) < 2:
        raise ConfigError(
            expected="IN [IN ...] OUT", got=" ".join(paths) or "nothing", hint=f"see segmax {command} --help"
        )
    return paths[:-1], paths[-1]


def add_query_encoder(parser: argparse._ActionsContainer) -> None:
    """Add --encoder for commands that search an index for text."""
    parser.add_argument(
        "--encoder",
        metavar="MODEL|stored",
        help="encode text with this model, a folder or a name on the Hugging Face hub; 'stored' loads the model that "
        "the index names, so use it only if you trust the index (default: BM25, if the index was built with it)",
    )


def add_max_shards(parser: argparse._ActionsContainer) -> None:
    """Add --max-shards for commands that search."""
    parser.add_argument(
        "--max-shards",
        metavar="N",
        type=positive_number,
        help="of a sharded index, ask only the N shards that promise most, so that results may be missing (default: as "
        "many as exact results take)",
    )


def add_results(parser: argparse._ActionsContainer) -> None:
    """Add -k."""
    parser.add_argument(
        "-k", metavar="N", type=whole_number, default=10, help="number of results per query (default: %(default)s)"
    )


def add_threads(parser: argparse._ActionsContainer) -> None:
    """Add --threads."""
    parser.add_argument(
        "--threads", metavar="N", type=whole_number, help="number of threads to use (default: one per core)"
    )


def add_progress(parser: argparse._ActionsContainer) -> None:
    """Add --progress and --no-progress."""
    parser.add_argument(
        "--progress",
        action=argparse.BooleanOptionalAction,
        help="show progress bars on standard error (default: if it is a terminal)",
    )


def shows_progress(choice: bool | None) -> bool:
    """Return whether to show progress bars, given the value of --progress."""
    return sys.stderr.isatty() if choice is None else choice


@contextlib.contextmanager
def if_interrupted(note: str) -> Iterator[None]:
    """Let an interruption carry a note, which `segmax.cli.main` shows."""
    try:
        yield
    except KeyboardInterrupt as interruption:
        raise KeyboardInterrupt(note) from interruption
