"""Breaks in long work in Python, so that other threads of the process get on.

A thread that waits for Python's lock gets it after five milliseconds at the earliest, unless the thread that has it
lets go for long enough: a search of a tenth of a millisecond would wait for fifty of its kind. Calls into numpy let go
too, but take the lock back before the one that waits for it has woken up.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

_SECONDS = 5e-5  # to wake up takes about as long
_EVERY = 64


def take_a_break() -> None:
    """Let another thread run, if one waits."""
    time.sleep(_SECONDS)


def with_breaks(items: Iterable[T]) -> Iterator[T]:
    """Yield what there is, with a break now and then.

    Examples
    --------
    >>> sum(with_breaks(range(1000)))
    499500
    """
    for number, item in enumerate(items):
        if number % _EVERY == _EVERY - 1:
            take_a_break()
        yield item
