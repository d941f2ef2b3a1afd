"""What the library logs, as lines on standard error."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Iterator

from segmax.base.display import printable

_ALL = "segmax"
#: Options in what encoders log: "faster: dtype 'int8'; leave batch_size out".
_OPTION = re.compile(r"(?<= )(dtype|batch_size)(?: ('\w+')|(?= out\b))")


def in_one_line(message: object) -> str:
    """Return a message in one line without control characters."""
    return printable(" ".join(str(message).splitlines()))


def _spelled(spelling: Callable[[str, str], str], found: re.Match[str]) -> str:
    """Return an option as the command spells it; one that it does not have stays as it is."""
    name, value = found[1], found[2] or ""
    typed = spelling(name, value)
    return typed if typed.startswith("--") else found[0]


@contextlib.contextmanager
def log_lines(spelling: Callable[[str, str], str], name: str = _ALL) -> Iterator[None]:
    """Show what a logger of the library says while a command runs; each line once, whoever else shows it.

    Parameters
    ----------
    spelling
        How the command spells the options that lines are about: a `Spelling`.
    name
        The logger.
    """
    import logging  # which takes 3 ms to load

    class Formatter(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            line = in_one_line(super().format(record))
            if record.name == "segmax.encoders":
                line = _OPTION.sub(lambda found: _spelled(spelling, found), line)
            return f"segmax: {line}"

    shown = any(not isinstance(handler, logging.NullHandler) for handler in logging.getLogger(_ALL).handlers)
    if name != _ALL and shown:
        yield
        return
    logger = logging.getLogger(name)

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            sys.stderr.write(f"{self.format(record)}\n")  # as it is now: bars that are drawn make room for lines

    handler = Handler()
    handler.setFormatter(Formatter())
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
