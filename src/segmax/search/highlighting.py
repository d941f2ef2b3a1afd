"""Highlighting: the words of a document that a query asked for, and the passage that has most of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator

_WORD = re.compile(r"\w+")
_SENTENCE_GAP = 12  # characters by which a passage may start earlier, to start with a word


def highlight(
    text: str,
    words: Collection[str],
    *,
    normal: Callable[[str], str] | None = None,
    split: Callable[[str], Iterable[tuple[int, int, str]]] | None = None,
    marks: tuple[str, str] = ("**", "**"),
    width: int | None = None,
) -> str:
    """Return a text with the words marked that are among `words`.

    Parameters
    ----------
    text
        What to show.
    words
        What was asked for, in the form of the vocabulary: lower case, perhaps stemmed.
    normal
        Turns a word of the text, in lower case, into that form; by default it is left as it is.
    split
        Instead: finds the words of the text, as (start, end, form), as `BM25.occurrences` does. Words may overlap, as
        the pairs of characters do that Chinese and Japanese text is indexed by.
    marks
        What to put before and after a marked word.
    width
        Show about so many characters: those around the most of the words. None: everything.

    Examples
    --------
    >>> highlight("Clusters of documents", {"document"}, normal=lambda word: word.removesuffix("s"))
    'Clusters of **documents**'
    """
    found = passages(text, words, normal=normal, split=split, width=width)
    return "".join(f"{marks[0]}{piece}{marks[1]}" if is_marked else piece for piece, is_marked in found)


def passages(
    text: str,
    words: Collection[str],
    *,
    normal: Callable[[str], str] | None = None,
    split: Callable[[str], Iterable[tuple[int, int, str]]] | None = None,
    width: int | None = None,
) -> list[tuple[str, bool]]:
    """Return what `highlight` returns as pieces, and whether each is one of the words.

    Examples
    --------
    >>> passages("Clusters of documents", {"documents"})
    [('Clusters of ', False), ('documents', True)]
    """
    occurrences = _words(text, normal) if split is None else split(text)
    found = [(start, end, form) for start, end, form in occurrences if form in words]
    first, last = (0, len(text)) if width is None or len(text) <= width else _window(text, found, width)
    pieces, at = [("…" if first > 0 else "", False)], first
    for start, end in _merged((start, end) for start, end, _ in found if first <= start and end <= last):
        pieces += [(text[at:start], False), (text[start:end], True)]
        at = end
    pieces += [(text[at:last], False), ("…" if last < len(text) else "", False)]
    return [(piece, is_marked) for piece, is_marked in pieces if piece]


def _words(text: str, normal: Callable[[str], str] | None) -> Iterator[tuple[int, int, str]]:
    for match in _WORD.finditer(text):
        word = match.group().lower()
        yield match.start(), match.end(), word if normal is None else normal(word)


def _merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return stretches of text in order, those that overlap as one."""
    merged: list[tuple[int, int]] = []
    for start, end in spans:
        if merged and start < merged[-1][1]:
            start = merged.pop()[0]
        merged.append((start, end))
    return merged


def _window(text: str, found: list[tuple[int, int, str]], width: int) -> tuple[int, int]:
    """Return the start and end of a stretch of whole words with as many different marked words as can be."""
    best, most = 0, 0
    counts: dict[str, int] = {}
    first = 0
    for start, end, form in found:
        counts[form] = counts.get(form, 0) + 1
        while first < len(found) and end - found[first][0] > width and found[first][0] < start:
            gone = found[first][2]
            counts[gone] -= 1
            if not counts[gone]:
                del counts[gone]
            first += 1
        if len(counts) > most:
            best, most = found[first][0], len(counts)
    begin = max(0, min(best - _SENTENCE_GAP, len(text) - width))
    while begin > 0 and text[begin - 1].isalnum():
        begin -= 1
    end = min(len(text), begin + width)
    while end < len(text) and end > begin + 1 and text[end - 1].isalnum() and text[end].isalnum():
        end -= 1
    return begin, end
