"""The command line: which commands there are, and how one ends. Each has a module of its own."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TextIO

import segmax
from segmax.cli_build import build, build_parser
from segmax.cli_completion import completion, completion_parser
from segmax.cli_convert import convert, convert_parser
from segmax.cli_encode import encode, encode_parser
from segmax.cli_evaluate import evaluate_parser, run_evaluate
from segmax.cli_experiment import experiment, experiment_parser
from segmax.cli_index import index, index_parser
from segmax.cli_inspect import inspect, inspect_parser
from segmax.cli_parser import Parser
from segmax.cli_report import report, report_parser
from segmax.cli_search import search, search_parser, tune, tune_parser
from segmax.errors import SegmaxError, SegmaxWarning

_ERROR_CODE = 2
_INTERRUPTED_CODE = 130  # 128 + SIGINT, as shells do

_Command = tuple[Callable[[], argparse.ArgumentParser], Callable[[argparse.Namespace], None], str]
COMMANDS: Mapping[str, _Command] = {
    "build": (build_parser, build, "build an index from files of sparse vectors"),
    "completion": (completion_parser, lambda args: completion(args, _parsers()), "let a shell complete all this"),
    "convert": (convert_parser, convert, "convert vectors from one format to another"),
    "encode": (encode_parser, encode, "encode texts into vectors, to be resumed if interrupted"),
    "evaluate": (evaluate_parser, run_evaluate, "compare methods: relevance, recall, latency, significance"),
    "experiment": (experiment_parser, experiment, "measure one of the paper's results on a collection"),
    "index": (index_parser, index, "make an index of texts or vectors in one go"),
    "inspect": (inspect_parser, inspect, "report what is in an index and how tight its bounds are"),
    "report": (report_parser, report, "gather experiments on one page of HTML"),
    "search": (search_parser, search, "search an index for text, or for a file of queries"),
    "tune": (tune_parser, tune, "measure approximate settings on queries, store the result"),
}


def _parsers() -> dict[str, Callable[[], argparse.ArgumentParser]]:
    return {name: parser for name, (parser, _, _) in COMMANDS.items()}


def _main_parser() -> argparse.ArgumentParser:
    commands = "\n".join(f"  {name:10} {text}" for name, (_, _, text) in COMMANDS.items())
    parser = Parser(
        prog="segmax",
        usage="segmax COMMAND ...",
        description=f"Fast top-k retrieval over learned sparse vectors, with guarantees.\n\ncommands:\n{commands}",
        epilog="examples:\n  segmax index corpus.jsonl docs.segmax\n  segmax search docs.segmax\n"
        "  segmax search docs.segmax queries.jsonl -k 100 > docs.run\n  segmax inspect docs.segmax --plot docs.png\n\n"
        "segmax COMMAND --help tells more.",
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
        The exit code: 0, 2 for an error, which is told in one line on standard error, or 130 for an interruption.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        with _plain_warnings():
            _run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever reads has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (SegmaxError, OSError) as error:
        sys.stderr.write(f"segmax: error: {_spoken(error)}\n")
        return _ERROR_CODE
    except KeyboardInterrupt:
        told = "interrupted, no part of an index is left" if arguments[:1] in (["build"], ["index"]) else "interrupted"
        sys.stderr.write(f"segmax: {told}\n")
        return _INTERRUPTED_CODE
    return 0


@contextlib.contextmanager
def _plain_warnings() -> Iterator[None]:
    """Show warnings of segmax in one line on standard error, without the line of code they come from."""
    with warnings.catch_warnings():
        shown = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, SegmaxWarning):
                sys.stderr.write(f"segmax: warning: {' '.join(str(message).splitlines())}\n")
            else:
                shown(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        warnings.simplefilter("always", SegmaxWarning)
        yield


def _spoken(error: Exception) -> str:
    """Return the message in one line, in the words of the command line."""
    message = " ".join(str(error).splitlines())
    for python, flag in (("overwrite=True", "--overwrite"), ("segmax.build(..., path=...)", "segmax build")):
        message = message.replace(python, flag)
    return message


def _run(arguments: list[str]) -> None:
    if not arguments or arguments[0] not in COMMANDS:
        _main_parser().parse_args(arguments)  # helps, tells the version, or raises
        return
    parser, command, _ = COMMANDS[arguments[0]]
    command(parser().parse_intermixed_args(arguments[1:]))


if __name__ == "__main__":
    sys.exit(main())
