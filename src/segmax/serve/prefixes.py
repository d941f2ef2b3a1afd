"""Words that start with what somebody has typed so far."""

from __future__ import annotations

import bisect
import itertools
import re
import threading
import unicodedata
from collections.abc import Iterable, Sequence

import numpy as np

from segmax.base.breaks import with_breaks
from segmax.search.protocol import Vocabulary
from segmax.serve.catalog import Source
from segmax.vectors.csr import Csr

_LAST_WORD = re.compile(r"\w+\Z")
_LEAST_CHARS = 2  # of a start: one letter fits too many words to mean anything
_MOST_WORDS = 32  # that a start stands for
_MOST_CANDIDATES = 10_000  # from which these are chosen
_MOST_TERMS = 2_000_000  # of a vocabulary: more would take too much memory
_BLOCK = 512  # words; a block has up to four times as many
_TOGETHER = 1 << 12  # words that are looked at in about a millisecond
_WEIGHT = 0.4  # of a word that might be meant, where those that were typed have 1


class SortedWords:
    """Words in alphabetical order, in blocks: a new one moves no more than a block. Another thread gets on meanwhile.

    Examples
    --------
    >>> words = SortedWords(["wave", "noise", "waveguide"])
    >>> words.add(["waves", "copper"])
    >>> len(words), words.starting("wave", 10)
    (5, ['wave', 'waveguide', 'waves'])
    """

    def __init__(self, words: Sequence[str] = ()) -> None:
        self._length = len(words)
        # Every some hundredth word is where a block starts; then blocks are sorted one by one.
        self._firsts = firsts = sorted(set(words[::_BLOCK]))
        self._blocks: list[list[str]] = [[] for _ in firsts]
        for start in with_breaks(range(0, len(words), _TOGETHER), 1):
            for word in words[start : start + _TOGETHER]:
                self._blocks[max(0, bisect.bisect_right(firsts, word) - 1)].append(word)
        for block in with_breaks(self._blocks):
            block.sort()
        self._firsts = [block[0] for block in self._blocks]

    def __len__(self) -> int:
        return self._length

    def _place(self, word: str) -> int:
        """Return the number of the block that a word belongs to."""
        return max(0, bisect.bisect_right(self._firsts, word) - 1)

    def add(self, words: Iterable[str]) -> None:
        """Add new words."""
        for word in with_breaks(words):
            if not self._blocks:
                self._blocks, self._firsts = [[]], [word]
            place = self._place(word)
            block = self._blocks[place]
            bisect.insort(block, word)
            self._firsts[place] = block[0]
            self._length += 1
            if len(block) > 4 * _BLOCK:
                self._blocks[place : place + 1] = block[: 2 * _BLOCK], block[2 * _BLOCK :]
                self._firsts.insert(place + 1, block[2 * _BLOCK])

    def starting(self, start: str, limit: int) -> list[str]:
        """Return the first words that start with something."""
        found: list[str] = []
        for place in range(self._place(start), len(self._blocks)):
            block = self._blocks[place]
            first = bisect.bisect_left(block, start)
            last = bisect.bisect_left(block, start + "\U0010ffff", lo=first)
            found += block[first:last]
            if last < len(block) or len(found) >= limit:
                break
        return found[:limit]


class Prefixes:
    """The words of a vocabulary in alphabetical order; those that are new join them.

    Examples
    --------
    >>> import segmax
    >>> index = segmax.from_texts(["a wave", "waves and noise", "a waveguide"])
    >>> Prefixes().completions(index, "wav", 10)
    [(0, 'wave'), (2, 'waveguid')]
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._words = SortedWords()
        self._vocabulary: Vocabulary | None = None  # that they are of

    def completions(self, source: Source, start: str, limit: int) -> list[tuple[int, str]]:
        """Return the numbers and words that start with something, the most frequent first."""
        vocabulary = source.terms
        if vocabulary is None:
            return []
        words = self._starting(vocabulary, start)
        found = [(number, word) for word in words if (number := vocabulary.find(word)) is not None]
        counts = source.frequencies([number for number, _ in found])
        order = np.argsort(-counts, kind="stable")[:limit]
        return [found[place] for place in order.tolist() if counts[place] > 0]

    def _starting(self, vocabulary: Vocabulary, start: str) -> list[str]:
        """Return the words of a vocabulary as it is now that start with something."""
        with self._lock:
            count = len(vocabulary) if len(vocabulary) <= _MOST_TERMS else 0
            if vocabulary is not self._vocabulary or len(self._words) > count:
                self._words = SortedWords(_first_words(vocabulary, count))
                self._vocabulary = vocabulary
            self._words.add(vocabulary[number] for number in range(len(self._words), count))
            return self._words.starting(start, _MOST_CANDIDATES)

    def added(self, rows: Csr, source: Source, text: str) -> Csr:
        """Return the vector of a text with the words added that start with the last one of it."""
        typed = _LAST_WORD.search(text)
        if typed is None or len(typed[0]) < _LEAST_CHARS:
            return rows
        starts = {typed[0].lower(), _folded(typed[0].lower())}
        found = {number for start in starts for number, _ in self.completions(source, start, _MOST_WORDS)}
        more = np.array(sorted(found - set(rows.indices.tolist())), dtype=np.int64)
        weight = _WEIGHT * float(rows.values.max(initial=0.0) or 1.0)
        indices = np.concatenate([rows.indices.astype(np.int64), more])
        values = np.concatenate([rows.values.astype(np.float64), np.full(len(more), weight)])
        return Csr(
            np.array([0, len(indices)]), indices, values, max(rows.num_columns, int(indices.max(initial=-1)) + 1)
        )


def _first_words(vocabulary: Vocabulary, count: int) -> list[str]:
    """Return so many words of a vocabulary, which may grow meanwhile."""
    words, found = iter(vocabulary), list[str]()
    for start in with_breaks(range(0, count, _TOGETHER), 1):
        found += itertools.islice(words, min(_TOGETHER, count - start))
    return found


def _folded(word: str) -> str:
    """Return a word without accents."""
    return "".join(char for char in unicodedata.normalize("NFKD", word) if not unicodedata.combining(char))
