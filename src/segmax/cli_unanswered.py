"""Why a query found nothing: it is empty, has stop words only, or no word that a document has."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, NamedTuple

from segmax.display import counted, printable

if TYPE_CHECKING:
    from segmax.encoders.base import Encoder

_WORD = re.compile(r"\w+")
_MOST_WORDS = 5  # that a sentence names


class Reason(NamedTuple):
    """Why there are no results: a sentence about one query, and a few words for a list of many."""

    sentence: str
    short: str


def why_nothing(query: str | None, num_terms: int, encoder: Encoder | None, *, limited: bool = False) -> Reason:
    """Return why a query found nothing.

    Parameters
    ----------
    query
        The text; None for a query that is a vector.
    num_terms
        How many terms of the index the query has.
    encoder
        What encoded the text.
    limited
        Whether a limit ended the search early.
    """
    if limited:
        return Reason("a limit ended the search before it found a document", "stopped by a limit")
    if num_terms:
        return Reason("no document has any of its terms", "without a document that matches")
    if query is None:
        return Reason("the query has no terms", "empty")
    if not query.strip():
        return Reason("the query is empty", "empty")
    words = _WORD.findall(query.lower())
    if not words:
        return Reason("the query has no words", "without words")
    stopwords = getattr(encoder, "stopwords", None)
    if stopwords is None:  # a model, which knows every word
        return Reason("the encoder gives none of its words a weight", "without terms")
    return _about_words(words, frozenset(stopwords))


def _about_words(words: list[str], stopwords: Collection[str]) -> Reason:
    """Return what is wrong with words, of which an encoder drops stop words and those of one character."""
    rare = [word for word in words if word not in stopwords]
    known = [word for word in rare if len(word) > 1]
    if known:
        return Reason(f"no document has any of its words ({_some(known)})", "with only unknown words")
    if rare:
        told = f"the query has only stop words and single characters ({_some(words)}), which are left out"
        return Reason(told, "with only single characters")
    return Reason(f"the query has only stop words ({_some(words)}), which are left out", "with only stop words")


def _some(words: Iterable[str]) -> str:
    named = list(dict.fromkeys(map(printable, words)))
    return ", ".join(named[:_MOST_WORDS]) + (", …" if len(named) > _MOST_WORDS else "")


def summary(reasons: list[Reason], num_queries: int) -> str:
    """Return a sentence about the queries of a file that found nothing.

    Examples
    --------
    >>> summary([why_nothing("", 0, None), why_nothing("  ", 0, None)], 9)
    '2 of 9 queries found nothing: 2 empty'
    """
    counts = Counter(reason.short for reason in reasons)
    told = ", ".join(f"{count:,} {short}" for short, count in counts.most_common())
    return f"{len(reasons):,} of {counted(num_queries, 'query', 'queries')} found nothing: {told}"
