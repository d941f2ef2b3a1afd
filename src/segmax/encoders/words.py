"""Counting the words of texts, in this process or in helper processes.

Splitting text is Python's work and holds its lock, so that threads would not help: helpers are processes of their own.
This file is what they run (`python words.py`, which imports nothing of segmax): they read texts from standard input and
write counts to standard output. They end when their input does.
"""

from __future__ import annotations

import pickle
import re
import signal
import subprocess
import sys
from collections.abc import Collection, Sequence
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

#: Two word characters or more, as bm25s and scikit-learn split.
_WORD = re.compile(r"(?u)\b\w\w+\b")


class Counts(NamedTuple):
    """How often the words of some texts occur in each: a CSR matrix whose columns are `terms`."""

    terms: list[str]  # in the order in which they first occur
    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    counts: NDArray[np.int32]


class _Numbers(dict[str, int]):
    """Numbers words as they are first asked for."""

    def __missing__(self, word: str) -> int:
        number = self[word] = len(self)
        return number


class WordCounter:
    """Splits texts into words, drops stop words, stems the others, and counts.

    Parameters
    ----------
    stopwords
        Words that are left out, in lower case.
    language
        A Snowball algorithm by name; None: words stay as they are.
    """

    def __init__(self, stopwords: Collection[str], language: str | None) -> None:
        self._stopwords = frozenset(stopwords)
        self._stemmer: Any = None
        if language is not None:
            import Stemmer

            self._stemmer = Stemmer.Stemmer(language)

    def count(self, texts: Sequence[str]) -> Counts:
        """Count the words of every text."""
        numbers = _Numbers()
        flat: list[int] = []
        lengths = np.zeros(len(texts), dtype=np.int64)
        for row, text in enumerate(texts):
            before = len(flat)
            flat.extend(map(numbers.__getitem__, _WORD.findall(text.lower())))
            lengths[row] = len(flat) - before
        terms, term_of = self._stemmed(list(numbers))
        columns = term_of[np.array(flat, dtype=np.int64)]
        rows = np.repeat(np.arange(len(texts)), lengths)[columns >= 0]
        width = max(len(terms), 1)
        cells, counts = np.unique(rows * width + columns[columns >= 0], return_counts=True)
        indptr = np.zeros(len(texts) + 1, dtype=np.int64)
        np.cumsum(np.bincount(cells // width, minlength=len(texts)), out=indptr[1:])
        return Counts(terms, indptr, (cells % width).astype(np.int32), counts.astype(np.int32))

    def stem(self, word: str) -> str:
        """Return the term that a word in lower case becomes."""
        return word if self._stemmer is None else str(self._stemmer.stemWord(word))

    def _stemmed(self, words: list[str]) -> tuple[list[str], NDArray[np.int64]]:
        """Return the terms that words become, and the number of each word's term, -1 for a stop word."""
        kept = [number for number, word in enumerate(words) if word not in self._stopwords]
        stems = [words[number] for number in kept]
        if self._stemmer is not None:
            stems = self._stemmer.stemWords(stems)
        numbers = _Numbers()
        term_of = np.full(len(words), -1, dtype=np.int64)
        term_of[kept] = [numbers[stem] for stem in stems]
        return list(numbers), term_of


class WordProcess:
    """A helper process with a `WordCounter`."""

    def __init__(self, stopwords: Collection[str], language: str | None) -> None:
        # -P: the folder of this file is no place to import from.
        self._process = subprocess.Popen(
            [sys.executable, "-P", __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._send((list(stopwords), language))

    def count(self, texts: Sequence[str]) -> Counts:
        """Count the words of every text, over there."""
        self._send(list(texts))
        assert self._process.stdout is not None
        return Counts(*pickle.load(self._process.stdout))

    def _send(self, what: object) -> None:
        assert self._process.stdin is not None
        pickle.dump(what, self._process.stdin, protocol=pickle.HIGHEST_PROTOCOL)
        self._process.stdin.flush()

    def close(self) -> None:
        """Let it end."""
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:  # it ended before us
                continue
        self._process.wait()


def _serve(source: BinaryIO, sink: BinaryIO) -> None:
    """Answer until there are no more texts."""
    counter = WordCounter(*pickle.load(source))
    while True:
        try:
            texts = pickle.load(source)
        except EOFError:
            return
        pickle.dump(tuple(counter.count(texts)), sink, protocol=pickle.HIGHEST_PROTOCOL)
        sink.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever started this
    _serve(sys.stdin.buffer, sys.stdout.buffer)
