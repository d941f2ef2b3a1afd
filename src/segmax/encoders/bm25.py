"""BM25 as sparse vectors: weights on the side of documents, counts on the side of queries. Needs no model."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from segmax.base.checks import checked_bool, checked_choice, checked_int, checked_number
from segmax.base.display import counted
from segmax.base.errors import NEWER_HINT, ConfigError, FormatError, InputError, MissingPackageError
from segmax.base.files import replacing, write_errors
from segmax.base.optional import need
from segmax.base.parallel import Workers
from segmax.base.system import num_cores
from segmax.base.vocabulary import GrowingVocabulary
from segmax.encoders.base import Batches, LearningEncoder
from segmax.encoders.bm25_weights import METHODS, TERM_FACTORS, WORD_FACTORS, Floats
from segmax.encoders.chunks import regrouped
from segmax.encoders.counting import Counts, TextCounter
from segmax.encoders.stop_words import stop_word_lists
from segmax.encoders.words import WordRules, WordSplitter
from segmax.vectors.csr import Csr, kept_entries
from segmax.vectors.documents import Document, VectorBatch
from segmax.vectors.packed_texts import PackedTexts
from segmax.vectors.rows import sorted_rows, to_scipy

if TYPE_CHECKING:
    import scipy.sparse as sp

    from segmax import _core
else:
    from segmax.base.optional import core as _core
    from segmax.base.optional import scipy_sparse as sp

FILE_NAME = "bm25.json"
_FORMAT = "segmax-bm25"
#: The version of the file.
BM25_VERSION = 1
_PIECE_DOCS = 2048
_ALONE_DOCS = 16384  # of a collection, before threads read ahead
_MOST_WORKERS = 1024  # far more than help, and few enough for a system to start
_MOST_BYTES = 1 << 32  # of a file; a hundred million terms fit
_ENGLISH = (None, "english", "porter", "lovins")  # languages of stemmers in which accents rarely matter
#: Options that descriptions of earlier versions lack, with what these did.
_EARLIER = {"fold_accents": False, "cjk_bigrams": False}
_OPTIONS = frozenset({"k1", "b", "delta", "method", "language", "stopwords"}) | _EARLIER.keys()


class BM25(LearningEncoder):
    """BM25: needs no model, works offline, and learns its vocabulary from the documents.

    Text becomes lower case and is split into words of two characters or more; accents and stop words are removed, and
    words are stemmed. A document has the BM25 weight of each of its words, a query the number of times it has each:
    their dot product is the BM25 score that bm25s gives (with "bm25l" and "bm25+" up to a constant per query).

    `fit` learns vocabulary and statistics from documents; `encode_documents` uses them and leaves out words that are
    new.

    Parameters
    ----------
    k1, b, delta
        Parameters of the formula; only "bm25l" uses `delta`.
    stopwords
        The words to leave out: those of a language, by name or code ("english" or "en", "english_plus", "chinese",
        "danish", "dutch", "french", "german", "italian", "korean", "norwegian", "portuguese", "russian", "spanish",
        "swedish", "turkish"), words of your own in lower case, or None.
    language
        The language of the Snowball stemmer, such as "english" or "german"; None: no stemming.
    method
        "lucene", "robertson", "atire", "bm25l" or "bm25+".
    fold_accents
        Remove accents from letters of Latin, Greek and Cyrillic script first, so that "cafe" finds "café". None: for
        English and without a stemmer; in other languages words differ by accents alone.
    cjk_bigrams
        Index Chinese, Japanese, Korean and Thai text by pairs of neighboring characters; False: text between two
        blanks is one word.
    workers
        The most threads that split text, at most 1,024 or one per core; None: one per core. The result does not depend
        on it.

    Examples
    --------
    >>> from segmax.vectors.documents import Document
    >>> bm25 = BM25()
    >>> docs = [Document("a", "", "The cats sleep."), Document("b", "", "Dogs chase cats, cats run.")]
    >>> bm25.fit([docs])
    >>> batch = next(bm25.encode_documents([docs]))
    >>> batch.ids, bm25.vocabulary, batch.matrix().shape
    (['a', 'b'], ['cat', 'sleep', 'dog', 'chase', 'run'], (2, 5))
    >>> bm25.encode_queries(["cat and dog"]).toarray().tolist()
    [[1.0, 0.0, 1.0, 0.0, 0.0]]
    """

    counts_queries = True
    takes_packed = True

    def __init__(
        self,
        k1: float = 1.5,
        b: float = 0.75,
        *,
        delta: float = 0.5,
        stopwords: str | Iterable[str] | None = "en",
        language: str | None = "english",
        method: str = "lucene",
        fold_accents: bool | None = None,
        cjk_bigrams: bool = True,
        workers: int | None = None,
    ) -> None:
        self.k1 = _checked_at_least_zero("k1", k1)
        self.b = _checked_at_least_zero("b", b)
        if self.b > 1:
            raise ConfigError(option="b", expected="between 0 and 1", got=f"{b!r}")
        self.delta = _checked_at_least_zero("delta", delta)
        self.method = checked_choice("method", method, METHODS)
        self.stopwords = _stop_words(stopwords)
        self.language = _checked_language(language)
        folds = self.language in _ENGLISH if fold_accents is None else fold_accents
        self.fold_accents = checked_bool("fold_accents", folds)
        self.cjk_bigrams = checked_bool("cjk_bigrams", cjk_bigrams)
        self.workers = _checked_workers(workers)
        rules = WordRules(self.stopwords, self.language, self.fold_accents, self.cjk_bigrams)
        self._words = WordSplitter(rules)
        self._counter = TextCounter(rules)
        self.reset()

    @classmethod
    def of_vocabulary(cls, terms: Iterable[str], **options: Any) -> Self:
        """Return one that encodes queries over a known vocabulary, such as that of an index."""
        bm25 = cls(**options)
        bm25.add_terms(terms)
        bm25._has_vocabulary = True
        return bm25

    def stem(self, word: str) -> str:
        """Return the term that a word in lower case becomes."""
        return self._words.stem(word)

    def occurrences(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Yield where the words of a text start and end, and the term of each: what `segmax.highlight` marks."""
        return self._words.occurrences(text)

    def __repr__(self) -> str:
        return (
            f"BM25(k1={self.k1:g}, b={self.b:g}, method={self.method!r}, language={self.language!r}, "
            f"{counted(len(self.stopwords), 'stop word')}; {counted(len(self._terms), 'term')} of "
            f"{counted(self.num_docs, 'document')})"
        )

    @property
    def vocabulary(self) -> list[str]:
        """The stem of every column, in the order in which they first occurred."""
        return list(self._terms.terms)

    @property
    def num_docs(self) -> int:
        """How many documents the statistics are of."""
        return self._num_docs

    def options(self) -> dict[str, Any]:
        """Return the options that its vectors depend on."""
        return {
            "k1": self.k1,
            "b": self.b,
            "delta": self.delta,
            "method": self.method,
            "language": self.language,
            "stopwords": list(self.stopwords),
            "fold_accents": self.fold_accents,
            "cjk_bigrams": self.cjk_bigrams,
        }

    def to_dict(self) -> dict[str, Any]:
        """Return what an index records about it, as plain values."""
        return {"encoder": "bm25", **self.options()}

    def for_terms(self, terms: Sequence[str]) -> BM25:
        """Return BM25 with the same options that encodes queries over these terms."""
        return self if self.vocabulary == list(terms) else BM25.of_vocabulary(terms, **self.options())

    # --- documents and queries -------------------------------------------------------------------------------------

    def encode_documents(self, batches: Batches) -> Iterator[VectorBatch]:
        """Yield the weights of documents by what `fit` has learned; words that are new are left out.

        Raises
        ------
        InputError
            It has learned from no documents yet.
        """
        self._check_fitted()
        for piece in regrouped(batches, _PIECE_DOCS):
            counts = self._known(self._counter.count([doc.whole for doc in piece]))
            yield VectorBatch([doc.id for doc in piece], self.weigh(counts))

    def encode_queries(self, batch: Sequence[str]) -> sp.csr_matrix:
        """Return how often each query has each word of the documents."""
        return to_scipy(self.query_rows(batch))

    def query_rows(self, batch: Sequence[str]) -> Csr:
        """Return what `encode_queries` returns, without scipy."""
        self.check_queries()
        counts = self._known(self._counter.count(batch))
        return counts._replace(values=counts.values.astype(np.float32))

    # --- the steps ---------------------------------------------------------------------------------------------------

    def reset(self) -> None:
        """Forget vocabulary and statistics."""
        self._terms = GrowingVocabulary()
        self._has_vocabulary = False  # given, if only an empty one
        self._num_docs = 0
        self._num_words = 0
        self._frequencies: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._word_factor: Floats | None = None

    def add_terms(self, terms: Iterable[str]) -> None:
        """Give the next columns to the terms that have none yet."""
        self._terms.add(terms)

    def count_documents(self, batches: Batches) -> Iterator[VectorBatch]:
        """Yield counts of words instead of weights; the vocabulary grows, and columns with it."""
        known = _core.WordColumns()
        for ids, counts in self._split(_pieces(batches)):
            yield VectorBatch(ids, self._counter.place(counts, known, self._terms))

    def count(self, texts: Sequence[str]) -> Counts:
        """Return how often each text has each of its words, which get numbers of their own."""
        return self._counter.count(texts)

    def learn(self, counts: Csr) -> None:
        """Add documents, given as counts, to the statistics."""
        self._num_docs += counts.num_rows
        self._num_words += int(counts.values.sum())
        grown = np.zeros(len(self._terms), dtype=np.int64)
        grown[: len(self._frequencies)] = self._frequencies
        self._frequencies = grown + np.bincount(counts.indices, minlength=len(grown))
        self._word_factor = None

    def weigh(self, counts: Csr) -> Csr:
        """Return the weights of documents given as counts."""
        if self._word_factor is None:
            with np.errstate(divide="ignore"):  # terms that were added and not learned: no document has them
                factor = WORD_FACTORS[self.method](self._frequencies.astype(np.float64), self._num_docs)
            self._word_factor = np.where(self._frequencies > 0, factor, 0.0)
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts.values, dtype=np.int64)])
        lengths = np.diff(before[counts.indptr]).astype(np.float64)
        mean = self._num_words / self._num_docs if self._num_words else 1.0
        norm = np.repeat(1 - self.b + self.b * lengths / mean, np.diff(counts.indptr))
        term_factor = TERM_FACTORS[self.method](counts.values.astype(np.float64), norm, self.k1, self.delta)
        weights = (self._word_factor[counts.indices] * term_factor).astype(np.float32)
        weighed = Csr(counts.indptr, counts.indices, weights, len(self._terms))
        return kept_entries(weighed, weights != 0)  # a word that all documents have may weigh nothing

    def _known(self, counts: Counts) -> Csr:
        """Return counts over the vocabulary; other words are left out."""
        numbers = map(self._terms.get, counts.terms)
        columns = np.array([-1 if number is None else number for number in numbers], dtype=np.int64)
        found = columns[counts.indices]
        known = kept_entries(Csr(counts.indptr, found, counts.counts, len(self._terms)), found >= 0)
        return sorted_rows(known)

    def check_queries(self) -> None:
        """Raise InputError if there is no vocabulary yet by which words of queries could be counted."""
        if not len(self._terms) and not self._has_vocabulary:
            self._check_fitted()

    def _check_fitted(self) -> None:
        if self._num_docs == 0:
            raise InputError(
                expected="a BM25 that has learned from documents",
                got="one that has learned from none",
                hint="fit it, or load one that was saved with {encoder='docs.bm25'}",
            )

    def _split(self, pieces: Iterator[Sequence[Document]]) -> Iterator[tuple[list[str], _core.WordCounts]]:
        """Count words, in threads once it is clear that there are many documents."""
        done = 0
        for piece in pieces:
            yield self._split_one(piece)
            done += len(piece)
            if done >= _ALONE_DOCS and self.workers > 1:
                break
        else:
            return
        with Workers(self.workers) as workers:
            yield from workers.map(self._split_one, pieces)

    def _split_one(self, piece: Sequence[Document]) -> tuple[list[str], _core.WordCounts]:
        if isinstance(piece, PackedTexts):
            ids, texts = piece.ids, piece.texts()
        else:
            ids = [doc.id for doc in piece]
            texts = _core.Texts([part for doc in piece for part in (doc.title, doc.text)], 2)
        return ids, self._counter.split(texts, lambda row: piece[row].whole)

    # --- keeping it --------------------------------------------------------------------------------------------------

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write parameters, vocabulary and statistics to a folder, as JSON."""
        path = Path(folder)
        content = {
            "format": _FORMAT,
            "version": BM25_VERSION,
            "parameters": self.options(),
            "num_docs": self._num_docs,
            "num_words": self._num_words,
            "terms": self._terms.terms,
            "document_frequencies": self._frequencies.tolist(),
        }
        with write_errors(path / FILE_NAME):
            path.mkdir(parents=True, exist_ok=True)
            with replacing(path / FILE_NAME) as file:
                file.write(json.dumps(content).encode("utf-8"))

    @classmethod
    def load(cls, folder: str | os.PathLike[str], *, workers: int | None = None) -> Self:
        """Read what `save` wrote.

        Raises
        ------
        InputError
            There is no such file, or it cannot be read.
        FormatError
            It is damaged, or of another version.
        """
        path = Path(folder) / FILE_NAME
        try:
            content = _read_json(path)
            if content["format"] != _FORMAT or content["version"] != BM25_VERSION:
                found = f"{str(content['format'])[:40]!r}, version {str(content['version'])[:40]}"
                raise FormatError(
                    where=f"'{path}'", expected=f"{_FORMAT!r}, version {BM25_VERSION}", got=found, hint=NEWER_HINT
                )
            bm25 = cls(**stored_options(content["parameters"]), workers=workers)
            bm25._remember(content)
        except OSError as error:
            raise InputError(f"could not be read ({error.strerror or error})", where=f"'{path}'") from error
        except (FormatError, InputError):
            raise
        except (ConfigError, MissingPackageError) as error:
            raise error.at(f"'{path}'") from error
        except Exception as error:  # every step above may stumble over what the file holds
            raise FormatError(
                where=f"'{path}'",
                expected="a BM25 of segmax",
                got=f"a damaged file, or another one ({str(error)[:200]})",
                hint="encode the documents again",
            ) from error
        return bm25

    def _remember(self, content: Mapping[str, Any]) -> None:
        """Take over what was learned, or raise ValueError or ConfigError."""
        terms, frequencies = content["terms"], content["document_frequencies"]
        if not isinstance(terms, list) or not all(isinstance(term, str) for term in terms):
            raise ValueError("expected terms to be a list of words")
        if not isinstance(frequencies, list) or not all(type(count) is int for count in frequencies):
            raise ValueError("expected document_frequencies to be a list of whole numbers")
        self.add_terms(terms)
        if not len(self._terms) == len(terms) == len(frequencies):
            raise ValueError("terms and frequencies differ in number, or a term is there twice")
        self._num_docs = checked_int("num_docs", content["num_docs"], 0)
        self._num_words = checked_int("num_words", content["num_words"], 0)
        if not all(0 <= count <= self._num_docs for count in frequencies):
            raise ValueError("a document frequency is above the number of documents")
        self._frequencies = np.array(frequencies, dtype=np.int64)


def _pieces(batches: Batches) -> Iterator[Sequence[Document]]:
    """Yield documents in pieces that are counted at once: those that are packed as they are."""
    for is_packed, several in itertools.groupby(batches, key=lambda batch: isinstance(batch, PackedTexts)):
        if is_packed:
            yield from several
        else:
            yield from regrouped(several, _PIECE_DOCS)


def _read_json(path: Path) -> Any:
    """Read a file that is regular and not larger than any vocabulary."""
    if path.exists() and not path.is_file():
        raise InputError(where=f"'{path}'", expected="a regular file", got="something else")
    if path.is_file() and path.stat().st_size > _MOST_BYTES:
        raise InputError(
            where=f"'{path}'", expected=f"at most {_MOST_BYTES >> 30} GiB", got=f"{path.stat().st_size:,} bytes"
        )
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(where=f"'{path}'", expected="a file that BM25.save wrote", got="no file") from error


def stored_options(options: object) -> dict[str, Any]:
    """Return options that were stored, as arguments of `BM25`; raise ValueError where there are others.

    How many threads there are (`workers`) is for the caller to choose, never for a file.
    """
    if not isinstance(options, Mapping) or not options.keys() <= _OPTIONS:
        unknown = sorted(map(str, options.keys() - _OPTIONS)) if isinstance(options, Mapping) else [str(options)]
        msg = f"expected options of BM25 ({', '.join(sorted(_OPTIONS))}), got {unknown[0][:80]!r}"
        raise ValueError(msg)
    if not isinstance(options.get("stopwords", []), list):
        msg = f"expected stopwords to be a list of words, got {str(options['stopwords'])[:80]!r}"
        raise ValueError(msg)
    return {**_EARLIER, **options}


# --- options ---------------------------------------------------------------------------------------------------------


def _checked_workers(workers: int | None) -> int:
    cores = num_cores()
    return cores if workers is None else checked_int("workers", workers, 1, max(_MOST_WORKERS, cores))


def _checked_at_least_zero(name: str, value: object) -> float:
    number = checked_number(name, value)
    if not 0 <= number < float("inf"):
        raise ConfigError(option=name, expected="at least 0", got=f"{value!r}")
    return number


def _stop_words(stopwords: str | Iterable[str] | None) -> tuple[str, ...]:
    """Return the words themselves, so that what is saved depends on no list of a later version."""
    if stopwords is None:
        return ()
    if not isinstance(stopwords, str):
        words = tuple(stopwords) if isinstance(stopwords, Iterable) else (stopwords,)
        if not all(isinstance(word, str) for word in words):
            raise ConfigError(option="stopwords", expected="words", got=f"{words!r}"[:160])
        return words
    lists = stop_word_lists()
    if stopwords not in lists:
        expected = f"a language ({', '.join(lists)}), a list of words, or None"
        raise ConfigError(option="stopwords", expected=expected, got=f"{stopwords!r}")
    return lists[stopwords]


def _checked_language(language: str | None) -> str | None:
    if language is None:
        return None
    known = need("Stemmer", "BM25 with stemming", package="PyStemmer").algorithms()
    return checked_choice("language", language, known)
