"""Why a query found nothing."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from segmax.base.checks import shown
from segmax.base.display import counted, printable

if TYPE_CHECKING:
    from segmax.encoders.base import Encoder, SplitsWords
    from segmax.search.protocol import Searchable

_LETTER = re.compile(r"[^\W_]")
_MOST_WORDS = 5  # in a sentence


class Reason(NamedTuple):
    """Why a query found nothing: as a sentence, and in a few words for a summary of many queries."""

    sentence: str
    short: str


def why_nothing(
    query: str | None,
    num_terms: int,
    encoder: Encoder | None,
    *,
    limited: bool = False,
    narrowed: bool = False,
    unmatched: Reason | None = None,
) -> Reason:
    """Return why a query found nothing.

    Parameters
    ----------
    query
        The text; None for a query that is a vector.
    num_terms
        How many of the query's terms the index has.
    encoder
        The encoder of the text.
    limited
        Whether a limit ended the search early.
    narrowed
        Whether the search was for some documents only: by a filter, an offset or a least score.
    unmatched
        Why the filter matches nothing at all, if `why_unmatched` knows.
    """
    if limited:
        return Reason("a limit ended the search before it found a document", "stopped by a limit")
    if num_terms and unmatched is not None:
        return unmatched
    if num_terms and narrowed:
        what = "no document with its terms is left by --where, --offset and --min-score"
        return Reason(what, "that match none of the documents asked for")
    if num_terms:
        return Reason("no document matches any of its terms", "that match no document")
    if query is None:
        return Reason("the query has no terms", "empty")
    if not query.strip():
        return Reason("the query is empty", "empty")
    from segmax.encoders.base import SplitsWords

    if isinstance(encoder, SplitsWords):
        return _about_words(query, encoder)
    if _LETTER.search(query) is None:
        return _NO_WORDS
    return Reason("the encoder gives no weight to any of its words", "without terms")


def why_unmatched(index: Searchable, where: Mapping[str, Any] | None) -> Reason | None:
    """Return why a filter matches no document, if that is because none has a field that it tests."""
    if where is None or index.count(where):
        return None
    import difflib  # for this message alone

    from segmax.metadata import parse_where

    fields = index.fields
    missing = [
        name
        for name in sorted(parse_where(where).fields)
        if name not in fields and not index.count({name: {"$exists": True}})  # there are fields without columns
    ]
    if not missing:
        return None
    close = [match for name in missing[:_MOST_WORDS] for match in difflib.get_close_matches(name, fields, n=1)]
    hint = f"; did you mean {_some(map(shown, close))}?" if close else ""
    what = "the field" if len(missing) == 1 else "any of the fields"
    return Reason(f"no document has {what} {_some(map(shown, missing))} of --where{hint}", "filtered by unknown fields")


_NO_WORDS = Reason("the query has no words", "without words")


def _about_words(query: str, encoder: SplitsWords) -> Reason:
    """Return why BM25 finds none of the words of a query in its vocabulary."""
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
    named = _some([*stop_words.values(), *single])
    return Reason(f"the query has only {kinds} ({named}), which are ignored", f"with only {kinds}")


def _stop_words(words: Iterable[str], encoder: SplitsWords) -> Iterator[tuple[str, str]]:
    """Yield the stop words, each as it is shown: "thé" is ignored because it is "the" without its accent."""
    from segmax.encoders.words import fold

    read = fold if encoder.fold_accents else str
    stop_words = frozenset(map(read, encoder.stopwords))
    for word in words:
        if (plain := read(word)) in stop_words:
            yield word, word if word == plain else f"{word} read as '{plain}'"


def _not_in_documents(words: list[str]) -> Reason:
    """Return why words are not found; words of a single character are Chinese or the like."""
    if max(map(len, words)) > 1:
        return Reason(f"no document contains any of its words ({_some(words)})", "with only unknown words")
    problem = (
        f"the query has only single characters ({_some(words)}) of a script that is indexed by pairs of characters"
    )
    return Reason(f"{problem}; search for two or more in a row", "with only single characters")


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
    listed = ", ".join(f"{count:,} {short}" for short, count in counts.most_common())
    return f"{len(reasons):,} of {counted(num_queries, 'query', 'queries')} found nothing: {listed}"
