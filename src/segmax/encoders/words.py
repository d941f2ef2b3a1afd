"""Counting the words of texts, in this process or in helper processes.

Splitting text is Python's work and holds its lock, so that threads would not help: helpers are processes of their own.
This file is what they run (`python words.py`, which imports nothing of segmax): they read texts from standard input and
write counts to standard output. They end when their input does.
"""

from __future__ import annotations

import pickle
import re
import sys
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

#: Two word characters or more, as bm25s and scikit-learn split.
_WORD = re.compile(r"(?u)\b\w\w+\b")
#: Accents that stand behind their letter, which are no word characters: Unicode's combining diacritical marks.
_MARKS = "\u0300-\u036f"
#: Letters of scripts that put no blanks between words, or long endings behind them: Han, kana, Hangul, Thai.
_UNSPACED = (
    "\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
    "\u3041-\u3096\u3099\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"
    "\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff"
    "\u0e01-\u0e3a\u0e40-\u0e4e"
)
_RUN = re.compile(f"[{_UNSPACED}]+")
_SPECIAL = re.compile(f"[{_MARKS}{_UNSPACED}]")
#: Letters with a mark that are letters of their own wherever they are written.
_OWN_LETTERS = frozenset("йўїѓќ")
#: Letters that Unicode does not take apart, as Lucene's ASCIIFoldingFilter writes them.
_PLAIN = {"ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "đ": "d", "ð": "d", "þ": "th", "ł": "l", "ħ": "h", "ı": "i"}
_FOLDED_SCRIPTS = ("LATIN ", "GREEK ", "CYRILLIC ")


class Counts(NamedTuple):
    """How often the words of some texts occur in each: a CSR matrix whose columns are `terms`."""

    terms: list[str]  # in the order in which they first occur
    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    counts: NDArray[np.int32]


class WordRules(NamedTuple):
    """How text becomes terms."""

    stopwords: Collection[str] = ()  # words that are left out, in lower case
    language: str | None = None  # a Snowball algorithm by name; None: words stay as they are
    fold_accents: bool = False  # first of all, "café" becomes "cafe"
    cjk_bigrams: bool = False  # text without blanks between words becomes pairs of characters


class _Numbers(dict[str, int]):
    """Numbers words as they are first asked for."""

    def __missing__(self, word: str) -> int:
        number = self[word] = len(self)
        return number


class WordCounter:
    """Splits texts into words, drops stop words, stems the others, and counts."""

    def __init__(self, rules: WordRules) -> None:
        self._folds = rules.fold_accents
        self._bigrams = rules.cjk_bigrams
        self._stopwords = frozenset(map(fold, rules.stopwords) if self._folds else rules.stopwords)
        self._pattern = _word_pattern(rules)
        self._stemmer: Any = None
        if rules.language is not None:
            import Stemmer

            self._stemmer = Stemmer.Stemmer(rules.language)

    def count(self, texts: Sequence[str]) -> Counts:
        """Count the words of every text."""
        numbers = _Numbers()
        flat: list[int] = []
        lengths = np.zeros(len(texts), dtype=np.int64)
        for row, text in enumerate(texts):
            before = len(flat)
            flat.extend(map(numbers.__getitem__, self._words(text.lower())))
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
        folded = fold(word) if self._folds else word
        return folded if self._stemmer is None else str(self._stemmer.stemWord(folded))

    def occurrences(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Yield where the words of a text start and end, and their terms; pairs of characters overlap."""
        for match in self._pattern.finditer(text):
            word, start = match.group(), match.start()
            if self._bigrams and _RUN.match(word):
                for at, pair in enumerate(_pairs(word)):
                    yield start + at, start + at + len(pair), self.stem(pair)
            else:
                yield start, match.end(), self.stem(word.lower())

    def _words(self, text: str) -> list[str]:
        if not text.isascii() and self._pattern is not _WORD:
            text = unicodedata.normalize("NFC", text)
            if _SPECIAL.search(text):
                return self._special_words(text)
        return _WORD.findall(text)  # the fastest pattern

    def _special_words(self, text: str) -> list[str]:
        words: list[str] = self._pattern.findall(text)
        if not self._bigrams:
            return words
        return [piece for word in words for piece in (_pairs(word) if _RUN.match(word) else (word,))]

    def _stemmed(self, words: list[str]) -> tuple[list[str], NDArray[np.int64]]:
        """Return the terms that words become, and the number of each word's term, -1 for a stop word."""
        if self._folds:
            words = [word if word.isascii() else fold(word) for word in words]
        kept = [number for number, word in enumerate(words) if word not in self._stopwords]
        stems = [words[number] for number in kept]
        if self._stemmer is not None:
            stems = self._stemmer.stemWords(stems)
        numbers = _Numbers()
        term_of = np.full(len(words), -1, dtype=np.int64)
        term_of[kept] = [numbers[stem] for stem in stems]
        return list(numbers), term_of


def _word_pattern(rules: WordRules) -> re.Pattern[str]:
    """Return what finds words in text that is not ASCII; without folding and pairs, the same words as ever."""
    if not rules.fold_accents and not rules.cjk_bigrams:
        return _WORD
    apart = _UNSPACED if rules.cjk_bigrams else ""
    letter = rf"[^\W{apart}]"
    inside = rf"(?:{letter}|[{_MARKS}])" if rules.fold_accents else letter
    word = rf"{letter}{inside}*{letter}[{_MARKS}]*" if rules.fold_accents else rf"{letter}{{2,}}"
    return re.compile(rf"[{_UNSPACED}]+|{word}" if rules.cjk_bigrams else word)


def _pairs(run: str) -> list[str]:
    """Return all neighbors of a run of characters, or the one that is alone."""
    return [run[at : at + 2] for at in range(len(run) - 1)] or [run]


class _Folding(dict[int, str]):
    """What every character becomes, found out when it first occurs."""

    def __missing__(self, code: int) -> str:
        folded = self[code] = _folded(chr(code))
        return folded


_FOLDING = _Folding()


def fold(word: str) -> str:
    """Return a word in lower case without its accents, in Latin, Greek and Cyrillic script.

    Other scripts stay as they are: there, marks make other letters or vowels.
    """
    return word if word.isascii() else unicodedata.normalize("NFC", word).translate(_FOLDING)


def _folded(letter: str) -> str:
    if "\u0300" <= letter <= "\u036f":
        return ""
    if letter in _PLAIN:
        return _PLAIN[letter]
    if letter in _OWN_LETTERS or not unicodedata.name(letter, "").startswith(_FOLDED_SCRIPTS):
        return letter
    return "".join(part for part in unicodedata.normalize("NFKD", letter) if not unicodedata.combining(part))


class WordProcess:
    """A helper process with a `WordCounter`."""

    def __init__(self, rules: WordRules) -> None:
        from segmax.base.system import start_worker  # which the worker itself does not need

        # -P: the folder of this file is no place to import from.
        self._process = start_worker([sys.executable, "-P", __file__])
        try:
            self._send(tuple(rules))
        except BaseException:
            self.close()
            raise

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
    counter = WordCounter(WordRules(*pickle.load(source)))
    while True:
        try:
            texts = pickle.load(source)
        except EOFError:
            return
        pickle.dump(tuple(counter.count(texts)), sink, protocol=pickle.HIGHEST_PROTOCOL)
        sink.flush()


if __name__ == "__main__":
    _serve(sys.stdin.buffer, sys.stdout.buffer)
