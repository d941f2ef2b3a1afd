"""A note about how an encoder would be faster, where encoding takes over a minute."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from time import perf_counter

_LOG = logging.getLogger("segmax.encoders")
_LONG = 60.0  # seconds
_SAMPLE = 8  # documents that the speed is measured on, before the others
_FEW = 64  # documents take no minute, and would make the sample costly


class Pace:
    """Says once that encoding takes over a minute, and how to be faster.

    Parameters
    ----------
    name
        What the encoder is called.
    faster
        Returns what would make it faster, as the end of a sentence; None: nothing is known to.
    """

    def __init__(self, name: str, faster: Callable[[], str | None]) -> None:
        self._name = name
        self._faster = faster
        self._seconds = 0.0
        self._is_measured = False
        self._is_said = False
        self.num_docs: int | None = None  #: how many documents there are, where that is known

    def measure(self, count: int, encode: Callable[[int], object]) -> None:
        """Measure the speed on a few documents, once; say how long all will take if that is over a minute.

        Parameters
        ----------
        count
            How many documents are at hand: the least that there are.
        encode
            Encodes so many of them.
        """
        num_docs = max(count, self.num_docs or 0)
        if self._is_measured or num_docs < _FEW or self._faster() is None:
            return
        self._is_measured = True
        size = min(_SAMPLE, count)
        start = perf_counter()
        encode(size)
        seconds = (perf_counter() - start) / size * num_docs
        if seconds > _LONG:
            first = "the first " if self.num_docs is None else ""
            self._say(f"{first}{num_docs:,} documents take about {seconds / 60:,.0f} min")

    @contextlib.contextmanager
    def timed(self) -> Iterator[None]:
        """Count the time that documents take; say so where it becomes a minute without having been foreseen."""
        start = perf_counter()
        yield
        self._seconds += perf_counter() - start
        if self._seconds > _LONG:
            self._say("documents have taken a minute so far")

    def _say(self, what: str) -> None:
        if self._is_said:
            return
        self._is_said = True
        faster = self._faster()
        if faster is not None:
            _LOG.info("%s: %s; faster: %s", self._name, what, faster)
