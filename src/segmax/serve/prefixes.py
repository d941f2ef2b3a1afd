"""Words that start with what somebody has typed so far."""

from __future__ import annotations

import bisect
import re
import threading
import unicodedata

import numpy as np

from segmax.search.protocol import Vocabulary
from segmax.serve.catalog import Source
from segmax.vectors.csr import Csr

_LAST_WORD = re.compile(r"\w+\Z")
_LEAST_CHARS = 2  # of a start: one letter fits too many words to mean anything
_MOST_WORDS = 32  # that a start stands for
_MOST_CANDIDATES = 10_000  # from which these are chosen
_MOST_TERMS = 2_000_000  # of a vocabulary: more would take too much memory
_WEIGHT = 0.4  # of a word that might be meant, where those that were typed have 1


class Prefixes:
    """The words of a vocabulary in alphabetical order; sorted again when the vocabulary has grown.

    Examples
    --------
    >>> import segmax
    >>> index = segmax.from_texts(["a wave", "waves and noise", "a waveguide"])
    >>> Prefixes().completions(index, "wav", 10)
    [(0, 'wave'), (2, 'waveguid')]
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._words: list[str] = []
        self._vocabulary: Vocabulary | None = None  # that they are of

    def completions(self, source: Source, start: str, limit: int) -> list[tuple[int, str]]:
        """Return the numbers and words that start with something, the most frequent first."""
        vocabulary = source.terms
        if vocabulary is None:
            return []
        words = self._sorted(vocabulary)
        first = bisect.bisect_left(words, start)
        last = min(bisect.bisect_left(words, start + "\U0010ffff", lo=first), first + _MOST_CANDIDATES)
        found = [(number, word) for word in words[first:last] if (number := vocabulary.find(word)) is not None]
        counts = source.frequencies([number for number, _ in found])
        order = np.argsort(-counts, kind="stable")[:limit]
        return [found[place] for place in order.tolist() if counts[place] > 0]

    def _sorted(self, vocabulary: Vocabulary) -> list[str]:
        with self._lock:
            is_other = vocabulary is not self._vocabulary or len(self._words) != len(vocabulary)
            if is_other:
                self._words = sorted(vocabulary) if len(vocabulary) <= _MOST_TERMS else []
                self._vocabulary = vocabulary
            return self._words

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


def _folded(word: str) -> str:
    """Return a word without accents."""
    return "".join(char for char in unicodedata.normalize("NFKD", word) if not unicodedata.combining(char))
