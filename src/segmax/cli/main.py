"""The command line: how a command starts and how it ends."""

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
from segmax.base.display import printable
from segmax.base.errors import SegmaxError, SegmaxWarning
from segmax.cli.commands import COMMANDS
from segmax.cli.parser import Parser

_ERROR_CODE = 2
_INTERRUPTED_CODE = 130  # 128 + SIGINT, as shells do


def _main_parser() -> argparse.ArgumentParser:
    commands = "\n".join(f"  {name:10} {command.help}" for name, command in COMMANDS.items())
    parser = Parser(
        prog="segmax",
        usage="segmax COMMAND ...",
        description=f"Fast top-k retrieval over learned sparse vectors, with guarantees.\n\ncommands:\n{commands}",
        epilog="examples:\n  segmax index corpus.jsonl docs.segmax\n  segmax search docs.segmax microwave noise\n"
        "  segmax search docs.segmax queries.jsonl -k 100 > docs.run\n  segmax inspect docs.segmax --plot docs.png\n\n"
        "segmax COMMAND --help explains a command.",
    )
    parser.add_argument("command", metavar="COMMAND", choices=COMMANDS, help=" or ".join(COMMANDS))
    parser.add_argument("--version", action="version", version=f"segmax {segmax.__version__}")
    return parser


# --- running ---------------------------------------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Parameters
    ----------
    argv
        The arguments; None: those of this process.

    Returns
    -------
    int
        The exit code: 0; 2 for an error, which is one line on standard error; or 130 for an interruption.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        with _warnings_in_a_line():
            _run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever reads has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (SegmaxError, OSError) as error:
        sys.stderr.write(f"segmax: error: {_in_a_line(error)}\n")
        return _ERROR_CODE
    except KeyboardInterrupt:
        told = "interrupted, no part of an index is left" if arguments[:1] in (["build"], ["index"]) else "interrupted"
        sys.stderr.write(f"segmax: {told}\n")
        return _INTERRUPTED_CODE
    return 0


def _in_a_line(message: object) -> str:
    """Return a message in one line, in the words of the command line, safe to show."""
    text = " ".join(str(message).splitlines())
    for python, flag in (("overwrite=True", "--overwrite"), ("segmax.build(..., path=...)", "segmax build")):
        text = text.replace(python, flag)
    return printable(text)


@contextlib.contextmanager
def _warnings_in_a_line() -> Iterator[None]:
    """Show warnings as errors are shown: without the place in the source, and without control characters."""
    with warnings.catch_warnings():
        warnings.showwarning = partial(_show_warning, warnings.showwarning)
        warnings.simplefilter("always", SegmaxWarning)  # a command warns again, whatever ran before it
        yield


def _show_warning(before: Callable[..., None], message: Warning | str, category: type[Warning], *where: Any) -> None:
    if issubclass(category, UserWarning):
        sys.stderr.write(f"segmax: warning: {_in_a_line(message)}\n")
    else:
        before(message, category, *where)


def _run(arguments: list[str]) -> None:
    if not arguments or arguments[0] not in COMMANDS:
        _main_parser().parse_args(arguments)  # shows help or the version, or raises
        return
    command = COMMANDS[arguments[0]]
    command.run(command.parser().parse_intermixed_args(arguments[1:]))
