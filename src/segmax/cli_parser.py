"""What all commands share: how they are parsed, and how numbers and matrices are read."""

from __future__ import annotations

import argparse
import contextlib
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import scipy.sparse as sp

from segmax.checks import parsed_float, parsed_int
from segmax.errors import ConfigError, InputError, SegmaxError
from segmax.inputs import NpzFile


class Parser(argparse.ArgumentParser):
    """Shows its texts as they are, and raises ConfigError where argparse would print its usage and exit."""

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        """Raise the message."""
        msg = f"{message}; see {self.prog} --help"
        raise ConfigError(msg)


def read_matrix(path: str) -> Any:
    """Read the sparse matrix of an .npz file."""
    NpzFile(Path(path))  # raises where there is no such file
    try:
        return sp.load_npz(path)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        msg = f"'{path}': expected an .npz file of scipy.sparse.save_npz ({error})"
        raise InputError(msg) from error


def read_number(kind: type, flag: str, text: str) -> Any:
    """Read a number of that kind, the value of a flag."""
    if kind not in (int, float):
        return kind(text)
    number = parsed_int(text) if kind is int else parsed_float(text)
    if number is None:
        expected = "a whole number" if kind is int else "a number"
        msg = f"{flag}: expected {expected}, got {text!r}"
        raise ConfigError(msg)
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
