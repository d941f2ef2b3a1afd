"""Why a query found nothing: what the rules of its encoder made of its words."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from segmax.base.display import counted, printable

if TYPE_CHECKING:
    from segmax.encoders.base import Encoder
    from segmax.encoders.bm25 import BM25

_LETTER = re.compile(r"[^\W_]")
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
        return Reason("no document has a weight for any of its terms", "without a document that matches")
    if query is None:
        return Reason("the query has no terms", "empty")
    if not query.strip():
        return Reason("the query is empty", "empty")
    from segmax.encoders.bm25 import BM25

    if isinstance(encoder, BM25):
        return _about_words(query, encoder)
    if _LETTER.search(query) is None:
        return _NO_WORDS
    return Reason("the encoder gives none of its words a weight", "without terms")  # a model, which knows every word


_NO_WORDS = Reason("the query has no words", "without words")


def _about_words(query: str, encoder: BM25) -> Reason:
    """Return what BM25 made of the words of a query, none of which is in the vocabulary."""
    text = unicodedata.normalize("NFC", query.lower())
    spans = [(start, end) for start, end, _ in encoder.occurrences(text)]
    words = [text[start:end] for start, end in spans]
    stop_words = dict(_stop_words(words, encoder))
    if kept := [word for word in words if word not in stop_words]:
        return _not_in_documents(kept)
    inside = {at for start, end in spans for at in range(start, end)}
    single = [match.group() for match in _LETTER.finditer(text) if match.start() not in inside]
    if not single and not words:
        return _NO_WORDS
    kinds = " and ".join(["stop words"] * bool(words) + ["single characters"] * bool(single))
    shown = _some([*stop_words.values(), *single])
    return Reason(f"the query has only {kinds} ({shown}), which are left out", f"with only {kinds}")


def _stop_words(words: Iterable[str], encoder: BM25) -> Iterator[tuple[str, str]]:
    """Yield the words that are left out, each with how to show it: without its accents, "thé" is "the"."""
    from segmax.encoders.words import fold

    read = fold if encoder.fold_accents else str
    stop_words = frozenset(map(read, encoder.stopwords))
    for word in words:
        if (plain := read(word)) in stop_words:
            yield word, word if word == plain else f"{word} read as '{plain}'"


def _not_in_documents(words: list[str]) -> Reason:
    """Return why words that are looked up are not found; one of a single character is Chinese or the like."""
    if max(map(len, words)) > 1:
        return Reason(f"no document has any of its words ({_some(words)})", "with only unknown words")
    told = f"the query has only single characters ({_some(words)}) of a script that is indexed by pairs of characters"
    return Reason(f"{told}; search for two or more in a row", "with only single characters")


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
