"""What all commands share: how they are parsed, and how numbers are read."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

from segmax.base.checks import parsed_float, parsed_int
from segmax.base.errors import ConfigError, SegmaxError


class Parser(argparse.ArgumentParser):
    """Shows its texts as they are, and raises ConfigError where argparse would print its usage and exit."""

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        """Raise the message."""
        msg = f"{message}; see {self.prog} --help"
        raise ConfigError(msg)


def add_query_encoder(parser: argparse._ActionsContainer) -> None:
    """Add --encoder for commands that search an index for text."""
    parser.add_argument(
        "--encoder",
        metavar="MODEL|stored",
        help="what encodes text: the name or folder of a model, or 'stored' for the model that the index names, if you "
        "trust the index (default: BM25, if the index was made with it)",
    )


def read_number(kind: type, flag: str, text: str) -> Any:
    """Read a number of that kind, the value of a flag, written in plain digits: no 1_000 and no ١."""
    if kind not in (int, float):
        return kind(text)
    number = parsed_int(text) if kind is int else parsed_float(text)
    if number is None:
        expected = "a whole number" if kind is int else "a number"
        raise ConfigError(where=flag, expected=f"{expected}", got=f"{text!r}")
    return number


@contextlib.contextmanager
def in_words_of_the_shell(flags: Iterable[tuple[str, str]]) -> Iterator[None]:
    """Let messages name flags instead of the arguments of functions: what stands first becomes what stands second."""
    try:
        yield
    except SegmaxError as error:
        told = str(error)
        for python, flag in flags:
            told = told.replace(python, flag)
        if told == str(error):
            raise
        raise type(error)(told) from error
