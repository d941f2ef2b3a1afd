"""Stage 2 for BM25: words are counted piece by piece, their statistics merged, and documents weighed by these.

Words get numbers in the order in which they first occur in all documents, as in `segmax.from_texts`, and statistics are
sums of whole numbers: vocabulary and weights are the same as if one process had read everything.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segmax.base.vocabulary import GrowingVocabulary
from segmax.encoders.bm25 import BM25
from segmax.shards.making.columns import column_strings, string_column, vector_arrays, vectors_of
from segmax.shards.making.packed import Packed
from segmax.shards.making.pieces import Piece
from segmax.shards.making.statistics import GrowingStatistics, merged_statistics
from segmax.shards.making.tasks import Task, Workplace
from segmax.shards.making.text_files import whole_texts
from segmax.vectors.csr import Csr
from segmax.vectors.pruning import Step, prune_rows
from segmax.vectors.quantize import TermStatistics
from segmax.vectors.rows import narrowest, sorted_rows

_VOCABULARY = "vocabulary"
_FREQUENCIES = "frequencies"


class MergedBM25(BM25):
    """BM25 that weighs documents by statistics which were learned elsewhere.

    Parameters
    ----------
    options
        Of BM25.
    frequencies
        By word, how many documents have it.
    num_docs, num_words
        Of the whole collection.
    """

    def __init__(
        self, options: Mapping[str, Any], frequencies: NDArray[np.int64], num_docs: int, num_words: int
    ) -> None:
        super().__init__(**options, workers=1)
        self._frequencies = frequencies
        self._num_docs = num_docs
        self._num_words = num_words

    def weigh(self, counts: Csr) -> Csr:
        """Return the weights of documents given as counts."""
        return super().weigh(counts)._replace(num_columns=len(self._frequencies))


@dataclasses.dataclass(frozen=True)
class CountWords(Task):
    """Counts the words of a piece."""

    piece: Piece
    options: Mapping[str, Any]  #: of BM25
    title: bool  #: whether titles count

    @property
    def output(self) -> str:
        """The file that says that the task is done."""
        return _words_name(self.piece.number)

    def holds(self, found: Packed, work: Workplace) -> bool:
        """Whether the counts are there."""
        return work.find(_counts_name(self.piece.number)) is not None

    def make(self, work: Workplace) -> Mapping[str, Any]:
        """Write the counts, and the words that occur."""
        texts = [document.whole for document in whole_texts(work.load(self.piece.documents).arrays, title=self.title)]
        counts = BM25(**self.options, workers=1).count(texts)
        docs = Csr(counts.indptr, counts.indices, counts.counts, max(1, len(counts.terms)))
        work.keep(_counts_name(self.piece.number), vector_arrays(docs), {})
        frequency = np.bincount(counts.indices, minlength=len(counts.terms))
        about = {"num_docs": len(texts), "num_words": int(counts.counts.sum(dtype=np.int64))}
        work.keep(self.output, {**string_column("term", counts.terms), "frequency": frequency}, about)
        return about


@dataclasses.dataclass(frozen=True)
class MergeWords(Task):
    """Numbers the words of all pieces, and adds up their statistics."""

    num_pieces: int

    @property
    def output(self) -> str:
        """The file that says that the task is done."""
        return _FREQUENCIES

    def holds(self, found: Packed, work: Workplace) -> bool:
        """Whether the numbers of all pieces are there."""
        names = [_VOCABULARY, *map(_numbers_name, range(self.num_pieces))]
        return all(work.find(name) is not None for name in names)

    def make(self, work: Workplace) -> Mapping[str, Any]:
        """Write the vocabulary, the number of every word of a piece, and how many documents have each word."""
        known = GrowingVocabulary()
        frequency = np.zeros(0, dtype=np.int64)
        num_docs = num_words = 0
        for piece in range(self.num_pieces):
            words = work.load(_words_name(piece))
            numbers = known.add(column_strings(words.arrays, "term"))
            work.keep(_numbers_name(piece), {"number": numbers}, {})
            grown = np.zeros(len(known), dtype=np.int64)
            grown[: len(frequency)] = frequency
            grown[numbers] += words.arrays["frequency"]
            frequency = grown
            num_docs += words.about["num_docs"]
            num_words += words.about["num_words"]
        work.keep(_VOCABULARY, string_column("term", known.terms), {})
        about = {"num_docs": num_docs, "num_words": num_words, "num_terms": len(known)}
        work.keep(self.output, {"frequency": frequency}, about)
        return about


@dataclasses.dataclass(frozen=True)
class Weigh(Task):
    """Turns the counts of a piece into weights."""

    piece: Piece
    options: Mapping[str, Any]
    pruning: tuple[Step, ...]

    @property
    def output(self) -> str:
        """The file that says that the task is done."""
        return statistics_name(self.piece.number)

    def holds(self, found: Packed, work: Workplace) -> bool:
        """Whether the vectors are there."""
        return work.find(self.piece.vectors) is not None

    def make(self, work: Workplace) -> Mapping[str, Any]:
        """Write the vectors, and their statistics."""
        learned = work.load(_FREQUENCIES)
        frequency, about = learned.arrays["frequency"], learned.about
        bm25 = MergedBM25(self.options, frequency, about["num_docs"], about["num_words"])
        counts = vectors_of(work.load(_counts_name(self.piece.number)).arrays, len(frequency))
        numbers = work.load(_numbers_name(self.piece.number)).arrays["number"]
        counts = sorted_rows(counts._replace(indices=numbers[counts.indices]))
        keep_encoded(self.piece, bm25.weigh(counts), self.pruning, work)
        return {}


def keep_encoded(piece: Piece, docs: Csr, pruning: tuple[Step, ...], work: Workplace) -> None:
    """Write the vectors of a piece, which were checked, and then their statistics."""
    docs = prune_rows(pruning, docs)
    docs = docs._replace(values=narrowest(docs.values))
    statistics = GrowingStatistics()
    statistics.add(docs)
    work.keep(piece.vectors, vector_arrays(docs), {})
    work.keep(statistics_name(piece.number), statistics.arrays(), {})


class EncodedCollection:
    """All texts of a build, once they are vectors."""

    def __init__(self, pieces: Sequence[Piece], terms: Sequence[str], work: Workplace) -> None:
        self.pieces = pieces
        self.terms = terms
        self.num_terms = len(terms)
        self._work = work

    def statistics(self) -> TermStatistics:
        """Return the statistics of all weights."""
        files = (self._work.load(statistics_name(piece.number)).arrays for piece in self.pieces)
        return merged_statistics(((arrays, None) for arrays in files), self.num_terms)


def vocabulary(work: Workplace) -> list[str]:
    """Return the words of all documents, in the order of their numbers."""
    return column_strings(work.load(_VOCABULARY).arrays, "term")


def statistics_name(piece: int) -> str:
    """Return the file with the statistics of a piece's weights."""
    return f"statistics/{piece:06}"


def encoded_name(piece: int) -> str:
    """Return the file with the vectors of a piece of texts."""
    return f"vectors/{piece:06}"


def _words_name(piece: int) -> str:
    return f"words/{piece:06}"


def _counts_name(piece: int) -> str:
    return f"counts/{piece:06}"


def _numbers_name(piece: int) -> str:
    return f"numbers/{piece:06}"
