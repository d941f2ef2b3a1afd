"""BM25 as sparse vectors: weights on the side of documents, counts on the side of queries. Needs no model."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import queue
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from segmax.base.checks import checked_bool, checked_choice, checked_int, checked_number
from segmax.base.display import counted
from segmax.base.errors import ConfigError, FormatError, InputError, MissingPackageError, SegmaxError
from segmax.base.files import replacing, write_errors
from segmax.base.optional import need
from segmax.base.parallel import Workers
from segmax.base.scratch import ScratchFile
from segmax.base.system import num_cores
from segmax.encoders.base import EncodedBatch
from segmax.encoders.chunks import regrouped
from segmax.encoders.words import Counts, WordCounter, WordProcess, WordRules
from segmax.vectors.documents import Document

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    from segmax.base.optional import scipy_sparse as sp

FILE_NAME = "bm25.json"
_FORMAT = "segmax-bm25"
_VERSION = 1
_PIECE_DOCS = 2048
_ALONE_DOCS = 16384  # fewer than these are counted before a helper process would have started
_MOST_WORKERS = 1024  # far more than help, and few enough for a system to start
_MOST_BYTES = 1 << 32  # of a file; a hundred million terms fit
_ENGLISH = (None, "english", "porter", "lovins")  # languages of stemmers in which accents rarely matter
#: Options that descriptions of earlier versions lack, with what these did.
_EARLIER = {"fold_accents": False, "cjk_bigrams": False}
_OPTIONS = frozenset({"k1", "b", "delta", "method", "language", "stopwords"}) | _EARLIER.keys()

Floats = NDArray[np.float64]


# --- the formulas ----------------------------------------------------------------------------------------------------
# As in Kamphuis et al., "Which BM25 do you mean?" (ECIR 2020), and in bm25s. BM25L and BM25+ also give a document
# something for a word it does not have; that is the same for all documents, so it is subtracted and order stays.


def _saturation(tf: Floats, norm: Floats, k1: float) -> Floats:
    return tf / (k1 * norm + tf)


def _bm25l(tf: Floats, norm: Floats, k1: float, delta: float) -> Floats:
    count = tf / norm + delta
    return (k1 + 1) * (count / (k1 + count) - delta / (k1 + delta))


#: The part of the weight that depends on the document: of term frequency, length norm, k1 and delta.
_TERM_PARTS: Mapping[str, Callable[[Floats, Floats, float, float], Floats]] = {
    "lucene": lambda tf, norm, k1, _: _saturation(tf, norm, k1),
    "robertson": lambda tf, norm, k1, _: _saturation(tf, norm, k1),
    "atire": lambda tf, norm, k1, _: (k1 + 1) * _saturation(tf, norm, k1),
    "bm25l": _bm25l,
    "bm25+": lambda tf, norm, k1, _: (k1 + 1) * _saturation(tf, norm, k1),
}
#: The part that depends on the word: of the number of documents that have it, and of all.
_WORD_PARTS: Mapping[str, Callable[[Floats, int], Floats]] = {
    "lucene": lambda df, n: np.log(1 + (n - df + 0.5) / (df + 0.5)),
    "robertson": lambda df, n: np.log(np.maximum((n - df + 0.5) / (df + 0.5), 1)),
    "atire": lambda df, n: np.log(n / df),
    "bm25l": lambda df, n: np.log((n + 1) / (df + 0.5)),
    "bm25+": lambda df, n: np.log((n + 1) / df),
}
METHODS = tuple(_TERM_PARTS)


class BM25:
    """BM25: needs no model, works offline, and learns its vocabulary from the documents.

    Text is put into lower case, split into words of two characters or more, freed of accents and stop words, and
    stemmed. A document
    carries the BM25 weight of each of its words, a query the number of times it has each: their dot product is the BM25
    score that bm25s gives (but for a number per query that is the same for all documents, with "bm25l" and "bm25+").

    Parameters
    ----------
    k1, b, delta
        Of the formula; `delta` is for "bm25l" and "bm25+" only.
    stopwords
        A language of bm25s ("en", "german", ...), words of your own in lower case, or None.
    language
        The language of the Snowball stemmer, "english" or "german" for instance; None: no stemming.
    method
        "lucene", "robertson", "atire", "bm25l" or "bm25+".
    fold_accents
        Write letters of Latin, Greek and Cyrillic script without accents, before anything is left out or stemmed, so
        that "cafe" finds "café". None: for English and without a stemmer; in other languages accents make other words.
    cjk_bigrams
        Index Chinese, Japanese, Korean and Thai text by pairs of neighboring characters; False: a stretch without
        blanks is one word.
    workers
        The most processes that split text once there are many documents, at most 1,024 or one per core; None: one per
        core. The result does not depend on it.
    scratch
        Where word counts wait until all documents are read; None: the system's folder for temporary files.

    Examples
    --------
    >>> from segmax.vectors.documents import Document
    >>> bm25 = BM25()
    >>> docs = [Document("a", "", "The cats sleep."), Document("b", "", "Dogs chase cats, cats run.")]
    >>> batch = next(bm25.encode_documents([docs]))
    >>> batch.ids, bm25.vocabulary, batch.vectors.shape
    (['a', 'b'], ['cat', 'sleep', 'dog', 'chase', 'run'], (2, 5))
    >>> bm25.encode_queries(["cat and dog"]).toarray().tolist()
    [[1.0, 0.0, 1.0, 0.0, 0.0]]
    """

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
        scratch: str | os.PathLike[str] | None = None,
    ) -> None:
        self.k1 = _checked_at_least_zero("k1", k1)
        self.b = _checked_at_least_zero("b", b)
        if self.b > 1:
            raise ConfigError(expected="b between 0 and 1", got=f"{b!r}")
        self.delta = _checked_at_least_zero("delta", delta)
        self.method = checked_choice("method", method, METHODS)
        self.stopwords = _stop_words(stopwords)
        self.language = _checked_language(language)
        folds = self.language in _ENGLISH if fold_accents is None else fold_accents
        self.fold_accents = checked_bool("fold_accents", folds)
        self.cjk_bigrams = checked_bool("cjk_bigrams", cjk_bigrams)
        self.workers = _checked_workers(workers)
        self._scratch = Path(tempfile.gettempdir() if scratch is None else scratch)
        self._rules = WordRules(self.stopwords, self.language, self.fold_accents, self.cjk_bigrams)
        self._counter = WordCounter(self._rules)
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
        return self._counter.stem(word)

    def occurrences(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Yield where the words of a text start and end, and the term of each: what `segmax.highlight` marks."""
        return self._counter.occurrences(text)

    def __repr__(self) -> str:
        return (
            f"BM25(k1={self.k1:g}, b={self.b:g}, method={self.method!r}, language={self.language!r}, "
            f"{counted(len(self.stopwords), 'stop word')}; {counted(len(self._terms), 'term')} of "
            f"{counted(self.num_docs, 'document')})"
        )

    @property
    def vocabulary(self) -> list[str]:
        """The stem of every column, in the order in which they first occurred."""
        return list(self._terms)

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

    def describe(self) -> dict[str, Any]:
        """Return what its vectors depend on, besides the documents."""
        return {"encoder": "bm25", **self.options()}

    # --- documents and queries -------------------------------------------------------------------------------------

    def encode_documents(self, batches: Iterable[Sequence[Document]]) -> Iterator[EncodedBatch]:
        """Learn from all documents, then yield their weights; what was learned before is forgotten.

        Word counts wait in a scratch file, so that memory holds the vocabulary and a few thousand documents.
        """
        yield from self.learn_documents(batches)

    def learn_documents(
        self,
        batches: Iterable[Sequence[Document]],
        advance: Callable[[int], object] | None = None,
        *,
        scratch: Path | None = None,
    ) -> Iterator[EncodedBatch]:
        """Do what `encode_documents` does, but learn at once; the iterator that is returned has the weights.

        Parameters
        ----------
        batches
            The documents.
        advance
            Receives how many more documents are counted, again and again.
        scratch
            Where word counts wait; None: where this encoder keeps them.
        """
        self.reset()
        with ScratchFile(self._scratch if scratch is None else scratch) as file:
            lengths: list[tuple[Any, int]] = []
            for batch in self.count_documents(batches):
                self.learn(batch.vectors)
                for array in _packed(batch):
                    file.write(array)
                    lengths.append((array.dtype, len(array)))
                if advance is not None:
                    advance(len(batch.ids))
            return self._weighed(file.mapped(lengths))

    def _weighed(self, arrays: list[NDArray[Any]]) -> Iterator[EncodedBatch]:
        for first in range(0, len(arrays), 4):
            counted = _unpacked(arrays[first : first + 4], len(self._terms))
            yield counted._replace(vectors=self.weigh(counted.vectors))

    def weigh_documents(self, batches: Iterable[Sequence[Document]]) -> Iterator[EncodedBatch]:
        """Yield the weights of more documents by what was learned already; words that are new are left out."""
        self._check_learned()
        for piece in regrouped(batches, _PIECE_DOCS):
            counts = self._known(self._counter.count([doc.whole for doc in piece]))
            yield EncodedBatch([doc.id for doc in piece], self.weigh(counts), {})

    def encode_queries(self, batch: Sequence[str]) -> sp.csr_matrix:
        """Return how often each query has each word of the documents."""
        self.check_vocabulary()
        return self._known(self._counter.count(batch)).astype(np.float32)

    # --- the steps ---------------------------------------------------------------------------------------------------

    def reset(self) -> None:
        """Forget vocabulary and statistics."""
        self._terms: dict[str, int] = {}
        self._has_vocabulary = False  # given, if only an empty one
        self._num_docs = 0
        self._num_words = 0
        self._frequencies: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._word_part: Floats | None = None

    def add_terms(self, terms: Iterable[str]) -> None:
        """Give the next columns to these terms, unless they have one."""
        for term in terms:
            self._terms.setdefault(term, len(self._terms))

    def count_documents(self, batches: Iterable[Sequence[Document]]) -> Iterator[EncodedBatch]:
        """Yield counts of words instead of weights; the vocabulary grows, and columns with it."""
        for ids, counts in self._counted(regrouped(batches, _PIECE_DOCS)):
            self.add_terms(counts.terms)
            columns = np.fromiter(map(self._terms.__getitem__, counts.terms), np.int32, len(counts.terms))
            shape = (len(ids), len(self._terms))
            matrix = sp.csr_matrix((counts.counts, columns[counts.indices], counts.indptr), shape=shape)
            matrix.sort_indices()
            yield EncodedBatch(ids, matrix, {})

    def learn(self, counts: sp.csr_matrix) -> None:
        """Add documents, given as counts, to the statistics."""
        self._num_docs += counts.shape[0]
        self._num_words += int(counts.data.sum())
        grown = np.zeros(len(self._terms), dtype=np.int64)
        grown[: len(self._frequencies)] = self._frequencies
        self._frequencies = grown + np.bincount(counts.indices, minlength=len(grown))
        self._word_part = None

    def weigh(self, counts: sp.csr_matrix) -> sp.csr_matrix:
        """Return the weights of documents given as counts."""
        if self._word_part is None:
            with np.errstate(divide="ignore"):  # terms that were added and not learned: no document has them
                part = _WORD_PARTS[self.method](self._frequencies.astype(np.float64), self._num_docs)
            self._word_part = np.where(self._frequencies > 0, part, 0.0)
        lengths = np.asarray(counts.sum(axis=1), dtype=np.float64).reshape(-1)
        mean = self._num_words / self._num_docs if self._num_words else 1.0
        norm = np.repeat(1 - self.b + self.b * lengths / mean, np.diff(counts.indptr))
        term_part = _TERM_PARTS[self.method](counts.data.astype(np.float64), norm, self.k1, self.delta)
        weights = (self._word_part[counts.indices] * term_part).astype(np.float32)
        shape = (counts.shape[0], len(self._terms))
        matrix = sp.csr_matrix((weights, counts.indices.copy(), counts.indptr.copy()), shape=shape)
        matrix.eliminate_zeros()  # a word that all documents have may weigh nothing
        return matrix

    def _known(self, counts: Counts) -> sp.csr_matrix:
        """Return counts over the vocabulary; other words are left out."""
        columns = np.array([self._terms.get(term, -1) for term in counts.terms], dtype=np.int64)
        found = columns[counts.indices]
        rows = np.repeat(np.arange(len(counts.indptr) - 1), np.diff(counts.indptr))
        shape = (len(counts.indptr) - 1, len(self._terms))
        known = found >= 0
        return sp.csr_matrix((counts.counts[known], (rows[known], found[known])), shape=shape)

    def check_vocabulary(self) -> None:
        """Raise InputError if there are no words yet that queries could be counted by."""
        if not self._terms and not self._has_vocabulary:
            self._check_learned()

    def _check_learned(self) -> None:
        if self._num_docs == 0:
            raise InputError(
                "BM25 knows no documents yet",
                hint="encode documents first, or load one that was saved with {encoder='docs.bm25'}",
            )

    def _counted(self, pieces: Iterator[list[Document]]) -> Iterator[tuple[list[str], Counts]]:
        """Count words, in helper processes once it is clear that there are many documents."""
        done = 0
        for piece in pieces:
            yield [doc.id for doc in piece], self._counter.count([doc.whole for doc in piece])
            done += len(piece)
            if done >= _ALONE_DOCS and self.workers > 1:
                break
        else:
            return
        with _WordProcesses(self._rules) as processes, Workers(self.workers) as workers:
            yield from workers.map(processes.count, pieces)

    # --- keeping it --------------------------------------------------------------------------------------------------

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write parameters, vocabulary and statistics to a folder, as JSON."""
        path = Path(folder)
        content = {
            "format": _FORMAT,
            "version": _VERSION,
            "parameters": self.options(),
            "num_docs": self._num_docs,
            "num_words": self._num_words,
            "terms": list(self._terms),
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
            if content["format"] != _FORMAT or content["version"] != _VERSION:
                found = f"{str(content['format'])[:40]!r}, version {str(content['version'])[:40]}"
                msg = f"'{path}' is {found}, and this segmax reads {_FORMAT!r}, version {_VERSION}; upgrade segmax"
                raise FormatError(msg)
            bm25 = cls(**stored_options(content["parameters"]), workers=workers)
            bm25._remember(content)
        except OSError as error:
            msg = f"'{path}': cannot be read ({error.strerror or error})"
            raise InputError(msg) from error
        except (FormatError, InputError):
            raise
        except (ConfigError, MissingPackageError) as error:
            msg = f"'{path}': {error}"
            raise ConfigError(msg) from error
        except Exception as error:  # every step above may stumble over what the file holds
            msg = f"'{path}' is damaged or no BM25 of segmax ({str(error)[:200]}); encode the documents again"
            raise FormatError(msg) from error
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


def _read_json(path: Path) -> Any:
    """Read a file that is regular and not larger than any vocabulary."""
    if path.exists() and not path.is_file():
        msg = f"'{path}': expected a regular file"
        raise InputError(msg)
    if path.is_file() and path.stat().st_size > _MOST_BYTES:
        raise InputError(
            where=f"'{path}'", expected=f"at most {_MOST_BYTES >> 30} GiB", got=f"{path.stat().st_size:,} bytes"
        )
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        msg = f"there is no '{path}'; expected a folder that BM25.save wrote"
        raise InputError(msg) from error


def stored_options(options: object) -> dict[str, Any]:
    """Return options that were stored, as arguments of `BM25`; raise ValueError where there are others.

    Places and processes (`scratch`, `workers`) are for the caller to choose, never for a file.
    """
    if not isinstance(options, Mapping) or not options.keys() <= _OPTIONS:
        unknown = sorted(map(str, options.keys() - _OPTIONS)) if isinstance(options, Mapping) else [str(options)]
        msg = f"expected options of BM25 ({', '.join(sorted(_OPTIONS))}), got {unknown[0][:80]!r}"
        raise ValueError(msg)
    if not isinstance(options.get("stopwords", []), list):
        msg = f"expected stopwords to be a list of words, got {str(options['stopwords'])[:80]!r}"
        raise ValueError(msg)
    return {**_EARLIER, **options}


# --- helper processes ------------------------------------------------------------------------------------------------


class _WordProcesses:
    """Processes that count words: one is started when a piece of work finds none idle."""

    def __init__(self, rules: WordRules) -> None:
        self._rules = rules
        self._idle: queue.SimpleQueue[WordProcess] = queue.SimpleQueue()
        self._all: list[WordProcess] = []

    def count(self, piece: list[Document]) -> tuple[list[str], Counts]:
        """Count the words of some documents; called by as many threads as there may be processes."""
        process = self._take()
        try:
            return [doc.id for doc in piece], process.count([doc.whole for doc in piece])
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            msg = f"a process that counts words ended too early ({error}); BM25(workers=1) needs no such process"
            raise SegmaxError(msg) from error
        finally:
            self._idle.put(process)

    def _take(self) -> WordProcess:
        with contextlib.suppress(queue.Empty):
            return self._idle.get_nowait()
        try:
            process = WordProcess(self._rules)
        except OSError as error:
            msg = (
                f"the system could not start process {len(self._all) + 1} to count words "
                f"({error.strerror or error}); pass a smaller number as workers: BM25(workers=1) needs none"
            )
            raise ConfigError(msg) from error
        self._all.append(process)
        return process

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._all:
            process.close()


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
    """Return the words themselves, so that what is saved does not depend on a version of bm25s."""
    if stopwords is None:
        return ()
    if not isinstance(stopwords, str):
        words = tuple(stopwords) if isinstance(stopwords, Iterable) else (stopwords,)
        if not all(isinstance(word, str) for word in words):
            msg = f"expected stopwords to be words, got {words!r}"[:200]
            raise ConfigError(msg)
        return words
    tokenization = need("bm25s.tokenization", "BM25")
    try:
        return tuple(tokenization.Tokenizer(stopwords=stopwords).stopwords)
    except ValueError as error:
        raise ConfigError(
            expected="stopwords as a language of bm25s ('en', 'german', ...), words, or None", got=f"{stopwords!r}"
        ) from error


def _checked_language(language: str | None) -> str | None:
    if language is None:
        return None
    known = need("Stemmer", "BM25 with stemming", package="PyStemmer").algorithms()
    return checked_choice("language", language, known)


# --- counts in a scratch file ----------------------------------------------------------------------------------------


def _packed(batch: EncodedBatch) -> tuple[NDArray[Any], ...]:
    """Return four arrays whose bytes are together a multiple of eight, so that all of them stay aligned."""
    ids = json.dumps(batch.ids).encode()
    ids += b" " * (-len(ids) % 8)
    counts = batch.vectors
    return (
        counts.indptr.astype(np.int64),
        counts.indices.astype(np.int32),
        counts.data.astype(np.int32),
        np.frombuffer(ids, dtype=np.uint8),
    )


def _unpacked(arrays: list[NDArray[Any]], num_terms: int) -> EncodedBatch:
    indptr, indices, counts, ids = arrays
    matrix = sp.csr_matrix((counts, indices, indptr), shape=(len(indptr) - 1, num_terms))
    return EncodedBatch(json.loads(ids.tobytes()), matrix, {})
