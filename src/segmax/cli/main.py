"""How a command starts and how it ends."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import segmax
from segmax.base.errors import ConfigError, SegmaxError, SegmaxWarning
from segmax.cli.commands import COMMANDS, Command
from segmax.cli.log_lines import in_one_line, log_lines
from segmax.cli.parser import Parser
from segmax.cli.spelling import Spelling

_ERROR_CODE = 2
_INTERRUPTED_CODE = 130  # 128 + SIGINT, as shells do

_EXAMPLES = """\
index or build?
  index  takes texts, which it encodes, or files of vectors, and needs no more
  build  takes vectors only, also with ids, terms or texts in other files, or
         with a configuration file
With a model that takes long, use encode, which can be resumed, and then build.

examples:
  segmax index corpus.jsonl docs.segmax
  segmax search docs.segmax microwave noise
  segmax search docs.segmax queries.jsonl -k 100 > docs.run
  segmax inspect docs.segmax --plot docs.png

Run segmax COMMAND --help for the options of a command.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Parameters
    ----------
    argv
        The arguments. None takes those of this process.

    Returns
    -------
    int
        The exit code: 0 for success; 2 for an error, which is one line on standard error; 130 for an interruption; 1 if
        the reader of standard output went away, or if something that the command checks is wrong.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        with _warnings_in_one_line():
            code = _run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (SegmaxError, OSError) as error:
        return _fail(str(error))
    except KeyboardInterrupt as interruption:
        return _interrupted(interruption)
    return code


def _run(arguments: list[str]) -> int:
    command = COMMANDS.get(arguments[0]) if arguments else None
    if command is not None:
        return _run_command(command, arguments[1:])
    if sorted(arguments) in (["--verbose", "--version"], ["--version", "-v"]):
        from segmax.cli.version import installation

        sys.stdout.write(installation())
        return 0
    _main_parser().parse_args(arguments)  # shows help or the version, or raises
    raise ConfigError(expected="a command first", got=repr(arguments[0]), hint="see segmax --help")


def _run_command(command: Command, arguments: list[str]) -> int:
    module = command.load()
    inner = getattr(module, "SUBCOMMANDS", {}).get(arguments[0] if arguments else None)
    if inner is not None:
        return _run_command(inner, arguments[1:])
    parser = module.parser()
    spelling = Spelling(parser, getattr(module, "NAMES", {}))
    try:
        args = parser.parse_intermixed_args(arguments)
        with log_lines(spelling) if args.verbose else contextlib.nullcontext():
            return module.run(args) or 0
    except SegmaxError as error:
        return _fail(error.text(spelling))


def _main_parser() -> argparse.ArgumentParser:
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name:{width}}  {command.summary}" for name, command in COMMANDS.items())
    parser = Parser(
        prog="segmax",
        usage="segmax COMMAND [options]",
        description=f"Fast top-k retrieval over sparse vectors, with guarantees.\n\ncommands:\n{commands}",
        epilog=_EXAMPLES,
    )
    parser.add_argument("command", metavar="COMMAND", choices=COMMANDS, help="one of the commands above")
    parser.add_argument("--version", action="version", version=f"segmax {segmax.__version__}", help="show the version")
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="with --version, show what to include in a bug report"
    )
    return parser


# --- what goes to standard error -------------------------------------------------------------------------------------


def _fail(message: str) -> int:
    sys.stderr.write(f"segmax: error: {in_one_line(message)}\n")
    return _ERROR_CODE


def _interrupted(interruption: KeyboardInterrupt) -> int:
    """Say so, with the note of `segmax.cli.parser.if_interrupted`."""
    after_echo = "\n" if sys.stderr.isatty() else ""  # a terminal shows ^C
    message = "; ".join(["interrupted", *map(str, interruption.args)])
    sys.stderr.write(f"{after_echo}segmax: {in_one_line(message)}\n")
    return _INTERRUPTED_CODE


@contextlib.contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    """Show warnings the way errors are shown, without a line of source code."""
    with warnings.catch_warnings():
        warnings.showwarning = partial(_show_warning, warnings.showwarning)
        warnings.simplefilter("always", SegmaxWarning)  # a command warns again, whatever ran before it
        yield


def _show_warning(before: Callable[..., None], message: Warning | str, category: type[Warning], *where: Any) -> None:
    if issubclass(category, UserWarning):
        sys.stderr.write(f"segmax: warning: {in_one_line(message)}\n")
    else:
        before(message, category, *where)
