"""One index or collection at a service: what is known about it, and how anything is asked of it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from segmax.remote.address import index_path
from segmax.remote.answers import FoundDocument, Info, Words, documents
from segmax.remote.calls import Call, Request, record, to_json, understood
from segmax.remote.found import Source
from segmax.remote.problems import AnswerTooLargeError
from segmax.remote.queries import Message

T = TypeVar("T")
V = TypeVar("V")

#: What is known about an index is asked for again after so many seconds.
FRESH_SECONDS = 1.0
_MOST_LISTED = 1000  # ids or words of a request


class Limits(NamedTuple):
    """What requests may ask for, as the service says."""

    batch: int = 256
    batch_results: int = 100_000
    k: int = 1000
    body_bytes: int = 1 << 20

    @classmethod
    def from_answer(cls, answer: Any) -> Limits:
        """Read the limits of `Indexes`."""
        said = record(answer)
        return cls(**{name: max(1, int(said[name])) for name in cls._fields if name in said})


class Endpoint:
    """One index or collection at a service: what is known about it, and how to ask for more.

    Parameters
    ----------
    base
        The address of the service, for messages.
    info, limits
        What the service says about the index, and about requests.
    """

    def __init__(self, base: str, info: Info, limits: Limits) -> None:
        self.base = base
        self.name = info.name
        self.limits = limits
        self.info = info  #: as it was when it was last asked for
        self._asked = time.monotonic()
        self.source: Source | None = None  #: what results look documents up in; None: nothing can be looked up later

    @property
    def is_fresh(self) -> bool:
        """Whether what is known about the index is new enough."""
        return time.monotonic() - self._asked < FRESH_SECONDS

    def forget(self) -> None:
        """Ask for what is known about the index again when it is next used."""
        self._asked = -math.inf

    def path(self, *parts: str) -> str:
        """Return the path of something that can be asked of the index."""
        return index_path(self.name, *parts)

    def asked(self, part: str, message: Message, parse: Callable[[Any], T]) -> Call[T]:
        """Ask, and return what the answer says."""
        answer = yield Request(path=self.path(part), body=to_json(message))
        return understood(parse, answer, self.base)

    # --- what it is --------------------------------------------------------------------------------------------------

    def fetch_info(self) -> Call[Info]:
        """Return what the service says about the index now."""
        asked = time.monotonic()
        answer = yield Request(method="GET", path=self.path())
        self.info, self._asked = understood(Info.from_answer, answer, self.base), asked
        return self.info

    def find_words(self, words: Sequence[str]) -> Call[dict[str, int]]:
        """Return the numbers of those words that the index has."""
        found = yield from self._find("words", words)
        return {word: term[0] for word, term in zip(words, found, strict=True) if term is not None}

    def find_numbers(self, numbers: Sequence[int]) -> Call[list[str | None]]:
        """Return the words of numbers."""
        found = yield from self._find("numbers", numbers)
        return [None if term is None else term[1] for term in found]

    def _find(self, by: str, wanted: Sequence[Any]) -> Call[list[tuple[int, str] | None]]:
        """Return terms by word or by number."""

        def ask(some: list[Any]) -> Call[list[tuple[int, str] | None]]:
            return self.asked("terms", {by: some}, lambda answer: Words.from_answer(answer, len(some)).terms)

        return (yield from self.in_pieces(wanted, ask))

    # --- many at a time ----------------------------------------------------------------------------------------------

    def look_up(self, by: str, wanted: Sequence[Any], fields: Sequence[str]) -> Call[list[FoundDocument]]:
        """Return some fields of documents, by "ids" or by "rows"."""

        def ask(some: list[Any]) -> Call[list[FoundDocument]]:
            message = {by: some, "fields": list(fields)}
            return self.asked("documents/get", message, partial(documents, count=len(some)))

        return (yield from self.in_pieces(wanted, ask))

    def cut(self, values: list[V]) -> Iterator[list[V]]:
        """Yield values in lists that requests may have."""
        size = self._most_listed
        return (values[first : first + size] for first in range(0, len(values), size))

    @property
    def _most_listed(self) -> int:
        return min(self.limits.batch, _MOST_LISTED)

    def in_pieces(self, values: Sequence[V], ask: Callable[[list[V]], Call[list[T]]]) -> Call[list[T]]:
        """Return what a call returns for many values, asked for as many at a time as requests and answers may have."""
        found: list[T] = []
        size = self._most_listed
        while len(found) < len(values):
            some = list(values[len(found) : len(found) + size])
            try:
                found += yield from ask(some)
            except AnswerTooLargeError:
                if len(some) == 1:
                    raise
                size = (len(some) + 1) // 2
        return found
