"""What words are: text to lower case, split, without stop words and accents, stemmed.

The core splits and counts faster (`counting.py`) and gives the same; this is what it has to agree with.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

#: Two word characters or more, as bm25s and scikit-learn split.
_WORD = re.compile(r"(?u)\b\w\w+\b")
#: Accents that stand behind their letter, which are no word characters: Unicode's combining diacritical marks.
MARKS = "\u0300-\u036f"
#: Letters of scripts that put no blanks between words, or long endings behind them: Han, kana, Hangul, Thai.
UNSPACED = (
    "\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
    "\u3041-\u3096\u3099\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"
    "\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff"
    "\u0e01-\u0e3a\u0e40-\u0e4e"
)
_RUN = re.compile(f"[{UNSPACED}]+")
_SPECIAL = re.compile(f"[{MARKS}{UNSPACED}]")
#: Letters with a mark that are letters of their own wherever they are written.
_OWN_LETTERS = frozenset("йўїѓќ")
#: Letters that Unicode does not take apart, as Lucene's ASCIIFoldingFilter writes them.
_PLAIN = {"ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "đ": "d", "ð": "d", "þ": "th", "ł": "l", "ħ": "h", "ı": "i"}
_FOLDED_SCRIPTS = ("LATIN ", "GREEK ", "CYRILLIC ")


class WordRules(NamedTuple):
    """How text becomes terms."""

    stopwords: Collection[str] = ()  # words that are left out, in lower case
    language: str | None = None  # a Snowball algorithm by name; None: words stay as they are
    fold_accents: bool = False  # first of all, "café" becomes "cafe"
    cjk_bigrams: bool = False  # text without blanks between words becomes pairs of characters


class WordSplitter:
    """Splits texts into words, drops stop words, and stems the others."""

    def __init__(self, rules: WordRules) -> None:
        self._folds = rules.fold_accents
        self._bigrams = rules.cjk_bigrams
        self._stopwords = frozenset(map(fold, rules.stopwords) if self._folds else rules.stopwords)
        self._pattern = _word_pattern(rules)
        self._stemmer: Any = None
        if rules.language is not None:
            import Stemmer

            self._stemmer = Stemmer.Stemmer(rules.language)

    def split(self, text: str) -> list[str]:
        """Return the words of a text in lower case, stop words among them."""
        return self._words(text.lower())

    def stems(self, words: list[str]) -> tuple[list[int], list[str]]:
        """Return which of these words, in lower case, are no stop words, and what they become."""
        if self._folds:
            words = [word if word.isascii() else fold(word) for word in words]
        kept = [number for number, word in enumerate(words) if word not in self._stopwords]
        stems = [words[number] for number in kept]
        return kept, stems if self._stemmer is None else list(self._stemmer.stemWords(stems))

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


def _word_pattern(rules: WordRules) -> re.Pattern[str]:
    """Return what finds words in text that is not ASCII; without folding and pairs, the same words as ever."""
    if not rules.fold_accents and not rules.cjk_bigrams:
        return _WORD
    apart = UNSPACED if rules.cjk_bigrams else ""
    letter = rf"[^\W{apart}]"
    inside = rf"(?:{letter}|[{MARKS}])" if rules.fold_accents else letter
    word = rf"{letter}{inside}*{letter}[{MARKS}]*" if rules.fold_accents else rf"{letter}{{2,}}"
    return re.compile(rf"[{UNSPACED}]+|{word}" if rules.cjk_bigrams else word)


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
