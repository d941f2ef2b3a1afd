"""Counting the words of many texts in the core, which lets other threads work; `words.py` says what words are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from segmax.base.vocabulary import GrowingVocabulary
from segmax.encoders.characters import characters
from segmax.encoders.words import WordRules, WordSplitter
from segmax.vectors.csr import Csr

if TYPE_CHECKING:
    from segmax import _core
else:
    from segmax.base.optional import core as _core

_UNKNOWN = -2  # as `_core.WordColumns` marks a word that it does not know


class Counts(NamedTuple):
    """How often the words of some texts occur in each: a CSR matrix whose columns are `terms`."""

    terms: list[str]  # in the order in which they first occur
    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    counts: NDArray[np.int32]


class TextCounter:
    """Counts the words that a `WordSplitter` finds. Threads may share it."""

    def __init__(self, rules: WordRules) -> None:
        self._words = WordSplitter(rules)
        self._pairs = rules.cjk_bigrams

    def count(self, texts: Sequence[str]) -> Counts:
        """Count the words of every text; they get numbers of their own."""
        counts = self.split(_core.Texts(list(texts)), texts.__getitem__)
        terms = GrowingVocabulary()
        columns = self._columns(counts.words(np.arange(counts.num_words, dtype=np.uint32)), terms)
        return Counts(terms.terms, *counts.by_column(columns))

    def split(self, texts: _core.Texts, text: Callable[[int], str]) -> _core.WordCounts:
        """Split texts and count their words as they are; `text` returns one of them, for Python to split."""
        table = None
        hard = texts.hard(None)
        if len(hard):
            table = characters(pairs=self._pairs)
            hard = texts.hard(table)
        lines = [" ".join(self._words.split(text(row))) for row in hard.tolist()]
        return texts.count(table, hard, "\n".join(lines).encode())

    def place(self, counts: _core.WordCounts, known: _core.WordColumns, terms: GrowingVocabulary) -> Csr:
        """Return counts by term; new terms are added to the vocabulary, and what became of new words to `known`."""
        columns = known.find(counts)
        new = np.flatnonzero(columns == _UNKNOWN).astype(np.uint32)
        if len(new):
            columns[new] = self._columns(counts.words(new), terms)
            known.add(counts, new, columns[new])
        return Csr(*counts.by_column(columns), len(terms))

    def _columns(self, words: list[str], terms: GrowingVocabulary) -> NDArray[np.int32]:
        """Return the column of every word's term, -1 for a stop word; new terms get the next columns."""
        kept, stems = self._words.stems(words)
        columns = np.full(len(words), -1, dtype=np.int32)
        columns[kept] = terms.add(stems)
        return columns
