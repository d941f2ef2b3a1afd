"""What the library logs, as lines on standard error."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from segmax.base.display import printable

_ALL = "segmax"


def in_one_line(message: object) -> str:
    """Return a message in one line without control characters."""
    return printable(" ".join(str(message).splitlines()))


@contextlib.contextmanager
def log_lines(name: str = _ALL) -> Iterator[None]:
    """Show what a logger of the library says while a command runs; each line once, whoever else shows it."""
    import logging  # which takes 3 ms to load

    class Formatter(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            return f"segmax: {in_one_line(super().format(record))}"

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
