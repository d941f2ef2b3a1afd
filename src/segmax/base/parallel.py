"""A pool of threads that works on pieces of fixed size: results come in order, for any number of threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from segmax.base.errors import ConfigError
from segmax.base.optional import core

T = TypeVar("T")
R = TypeVar("R")


def ranges(offsets: NDArray[Any], size: int, count: int | None = None) -> Iterator[tuple[int, int]]:
    """Cut entries, entry i from offsets[i] to offsets[i + 1], into ranges of at most `size`, or one entry.

    A range has at most `count` entries, too, where that is given.

    Examples
    --------
    >>> list(ranges(np.array([0, 2, 3, 9, 10]), 3))
    [(0, 2), (2, 3), (3, 4)]
    >>> list(ranges(np.array([0, 2, 3, 9, 10]), 100, count=3))
    [(0, 3), (3, 4)]
    """
    begin, last = 0, len(offsets) - 1
    while begin < last:
        end = int(np.searchsorted(offsets, int(offsets[begin]) + size, side="right")) - 1
        end = min(max(end, begin + 1), last if count is None else begin + count, last)
        yield begin, end
        begin = end


class Workers:
    """A pool of threads for the time of a build.

    Work always runs on the pool, even with one thread, so that the main thread can handle Ctrl-C: it then sets `stop`,
    which the core polls.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.stop = core.StopFlag()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="segmax")

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Apply a function to all items and yield the results in order.

        Items are taken only a little ahead of the results, so that a stream of large ones stays a stream.
        """
        waiting: deque[Future[R]] = deque()
        try:
            for item in items:
                waiting.append(self._submit(function, item))
                if len(waiting) > self.threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()

    def _submit(self, function: Callable[[T], R], item: T) -> Future[R]:
        try:
            return self._pool.submit(function, item)
        except RuntimeError as error:  # the pool starts its threads one by one, as work comes
            msg = f"the system could not start {self.threads} threads ({error})"
            raise ConfigError(msg, hint="pass a smaller number as {threads}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.stop.set()
        self._pool.shutdown(wait=True, cancel_futures=True)
