"""When to send a request again, and after how long. Pure decisions; whoever sends does the waiting."""

from __future__ import annotations

import email.utils
import random
import time
from collections.abc import Callable

from segmax.base.errors import SegmaxError, ServiceError
from segmax.remote.calls import Failure, Repeat, Reply, Request
from segmax.remote.problems import Problem

LONG_SECONDS = 3600.0  # for work that may take much longer than a search
_FIRST_WAIT = 0.1
_LONGEST_WAIT = 8.0
_LEAST_LEFT = 0.001
#: What a service answers instead of taking a request. Not "interrupted": it took that one, and lost track of it.
_REFUSED = frozenset({"locked", "not-ready", "overloaded", "unavailable"})
#: Problems that the next attempt will have, too.
_LASTING = frozenset({"damaged", "missing-package", "not-written"})


class Attempts:
    """The attempts to get one request answered.

    Parameters
    ----------
    request
        What to send.
    place
        The address of the service, for messages.
    timeout
        Seconds that all attempts may take together.
    retries
        How often to send it again.
    has_key
        Whether a key goes with it, for messages.
    clock, draw
        The time in seconds, and a random number from 0 to 1.
    """

    def __init__(
        self,
        request: Request,
        place: str,
        *,
        timeout: float,
        retries: int,
        has_key: bool,
        clock: Callable[[], float] = time.monotonic,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._request = request
        self._place = place
        self._retries = retries
        self._has_key = has_key
        self._clock = clock
        self._draw = draw
        self._timeout = max(timeout, LONG_SECONDS) if request.is_long else timeout
        self._end = clock() + self._timeout
        self._count = 0

    @property
    def seconds_left(self) -> float:
        """How long the next attempt may take."""
        return max(_LEAST_LEFT, self._end - self._clock())

    def wait_after(self, outcome: Reply | Failure) -> float | None:
        """Return the seconds to wait before the next attempt; None if this one was answered. Raise if it is over."""
        error: SegmaxError
        if isinstance(outcome, Failure):
            error = self._lost(outcome)
            may_repeat = not outcome.was_sent or self._request.repeat is not Repeat.UNSENT
            least = 0.0
        elif 200 <= outcome.status < 300:
            return None
        else:
            problem = Problem(outcome)
            error = self._reported(problem)
            may_repeat = self._is_refusal(problem)
            least = retry_after(outcome.headers.get("retry-after", ""))
        wait = max(least, self._back_off())
        if not may_repeat or self._count >= self._retries or self._clock() + wait >= self._end:
            raise error
        self._count += 1
        return wait

    def _is_refusal(self, problem: Problem) -> bool:
        """Whether the request may be answered when it comes again, and does no harm."""
        if problem.status == 429:
            return True
        if self._request.repeat is Repeat.UNSENT:
            return problem.status == 503 and (problem.kind in _REFUSED or not problem.kind)
        return problem.status in (502, 503, 504) and problem.kind not in _LASTING

    def _back_off(self) -> float:
        """Return a wait that doubles with every attempt; random, so that clients do not come back all at once."""
        longest = min(_LONGEST_WAIT, _FIRST_WAIT * 2.0**self._count)
        return float(longest * (0.5 + 0.5 * self._draw()))

    def _lost(self, failure: Failure) -> ServiceError:
        if not failure.was_sent:
            hint = "check the address, and that the service is running"
            return ServiceError(f"'{self._place}' cannot be reached: {failure.reason}", hint=hint)
        message = f"'{self._place}' did not answer: {failure.reason}"
        return self._unknown(message) if self._request.repeat is Repeat.UNSENT else ServiceError(message)

    def _reported(self, problem: Problem) -> SegmaxError:
        """Return the error that an answer reports."""
        error = problem.error(self._request, self._place, has_key=self._has_key)
        is_unknown = problem.kind == "interrupted" or problem.status in (502, 504)  # a proxy gives these
        return self._unknown(str(error)) if is_unknown and self._request.repeat is Repeat.UNSENT else error

    def _unknown(self, message: str) -> ServiceError:
        """Return the error about a write of which nobody knows whether it was carried out."""
        return ServiceError(
            f"{message}; {self._request.what} may or may not have happened, so the request was not sent again",
            hint="look up whether it did before you repeat it",
        )


def retry_after(text: str, now: Callable[[], float] = time.time) -> float:
    """Return the seconds that a `Retry-After` header asks to wait: a number, or a date; 0 if it is neither.

    Examples
    --------
    >>> retry_after("2"), retry_after("soon")
    (2.0, 0.0)
    """
    if text.isascii() and text.strip().isdecimal():
        return float(text[:10])
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - now())
    except (ValueError, OverflowError):
        return 0.0
