"""Breaks in long work in Python, so that other threads of the process get on, and the work can be ended.

A thread that waits for Python's lock gets it after five milliseconds at the earliest, unless the thread that has it
lets go for long enough: a search of a tenth of a millisecond would wait for fifty of its kind. Calls into numpy let go
too, but take the lock back before the one that waits for it has woken up.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")

_SECONDS = 5e-5  # to wake up takes about as long
_LONGEST = 1e-3  # seconds between two breaks, if items take long
_CHECK: ContextVar[Callable[[], None] | None] = ContextVar("check", default=None)


def take_a_break() -> None:
    """Let another thread run, if one waits; raise what `checked_by` was given to end the work."""
    if (check := _CHECK.get()) is not None:
        check()
    time.sleep(_SECONDS)


@contextlib.contextmanager
def checked_by(check: Callable[[], None]) -> Iterator[None]:
    """Call a function at every break of this thread's work in here; what it raises ends the work.

    Examples
    --------
    >>> def check() -> None:
    ...     raise TimeoutError
    >>> try:
    ...     with checked_by(check):
    ...         print(sum(with_breaks(range(1000))))
    ... except TimeoutError:
    ...     print("ended")
    ended
    """
    token = _CHECK.set(check)
    try:
        yield
    finally:
        _CHECK.reset(token)


def with_breaks(items: Iterable[T], every: int = 64) -> Iterator[T]:
    """Yield what there is, with a break now and then: after some items, and after a millisecond.

    Examples
    --------
    >>> sum(with_breaks(range(1000)))
    499500
    """
    last = time.perf_counter()
    for number, item in enumerate(items):
        if number % every == every - 1 or time.perf_counter() - last > _LONGEST:
            take_a_break()
            last = time.perf_counter()
        yield item
