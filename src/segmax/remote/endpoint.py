"""One index or collection at a service: what is known about it, and how anything is asked of it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from segmax.base.errors import ServiceError
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
_ATTEMPTS = 3  # to look terms up in one index
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
        answer = yield from self.find_terms("words", words)
        return {word: term[0] for word, term in zip(words, answer.terms, strict=True) if term is not None}

    def find_terms(self, kind: str, values: Sequence[str | int]) -> Call[Words]:
        """Look up "words" or "numbers", all of them in one index: if another one takes its place, all of them again."""

        def ask(some: list[str | int]) -> Call[list[tuple[tuple[int, str] | None, str]]]:
            answer = yield from self.asked("terms", {kind: some}, partial(Words.from_answer, count=len(some)))
            return [(term, self.info.vocabulary(answer.version)) for term in answer.terms]

        for _ in range(_ATTEMPTS):
            found = yield from self.in_pieces(values, ask)
            versions = {version for _, version in found}
            if len(versions) <= 1:
                return Words([term for term, _ in found], "".join(versions))
        raise ServiceError(f"'{self.name}' at '{self.base}' is replaced again and again", hint="try again later")

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
