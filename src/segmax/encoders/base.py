"""What every encoder can do, and what those that learn from the documents can do besides."""

from __future__ import annotations

import abc
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from segmax.base.errors import InputError
from segmax.base.parallel import Workers
from segmax.base.scratch import ScratchFile
from segmax.vectors.csr import Csr, matrix_to_csr
from segmax.vectors.documents import Document, VectorBatch

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    from segmax.base.optional import scipy_sparse as sp

#: Documents as encoders take them.
Batches = Iterable[Sequence[Document]]


class Encoder(abc.ABC):
    """Turns texts into sparse vectors.

    `segmax.from_texts` also takes an object of yours with `vocabulary`, `encode_documents` and `encode_queries`;
    `as_encoder` adds the rest. Derive from `LearningEncoder` if it has to learn from all documents first.

    Examples
    --------
    >>> class Letters(Encoder):
    ...     vocabulary = ("a", "b", "c")
    ...
    ...     def encode_documents(self, batches):
    ...         for batch in batches:
    ...             matrix = self.encode_queries([document.whole for document in batch])
    ...             yield VectorBatch([document.id for document in batch], matrix_to_csr(matrix))
    ...
    ...     def encode_queries(self, batch):
    ...         return sp.csr_matrix([[text.count(letter) for letter in self.vocabulary] for text in batch])
    >>> import segmax
    >>> index = segmax.from_texts(["abba", "cab"], encoder=Letters())
    >>> index.search("bb").ids
    ['0', '1']
    """

    #: The poolings of token embeddings that come with every document: some of "cls", "mean" and "max".
    pooling: tuple[str, ...] = ()
    #: Whether the weights of queries are whole numbers.
    counts_queries = False
    #: Whether documents need another encoder.
    queries_only = False

    @property
    @abc.abstractmethod
    def vocabulary(self) -> Sequence[str]:
        """The term of every column."""

    def fit(self, batches: Batches) -> None:  # noqa: B027 - most encoders learn nothing
        """Learn from documents what their vectors depend on. Models learn nothing, and read none of them."""

    @abc.abstractmethod
    def encode_documents(self, batches: Batches) -> Iterator[VectorBatch]:
        """Yield the vectors of documents, in the order they came."""

    @abc.abstractmethod
    def encode_queries(self, batch: Sequence[str]) -> sp.csr_matrix:
        """Return the vectors of queries, a row each."""

    def query_rows(self, batch: Sequence[str]) -> Csr:
        """Return the vectors of queries as a search takes them. Encoders that need no scipy for this override it."""
        return matrix_to_csr(self.encode_queries(batch))

    def check_queries(self) -> None:  # noqa: B027 - most encoders always can
        """Raise InputError if this encoder cannot encode queries yet."""

    def for_terms(self, terms: Sequence[str]) -> Encoder:
        """Return this encoder for an index with these terms; raise InputError if it did not make that index."""
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return what an index records about this encoder, as plain values: its kind and its options."""
        return {"encoder": type(self).__name__}

    def fingerprint(self) -> dict[str, Any]:
        """Return what its vectors depend on, as plain values: `to_dict`, and the files of a model."""
        return self.to_dict()


def query_rows_of(encoder: Any, texts: Sequence[str]) -> Csr:
    """Return texts as queries; encoders of ours need no scipy for that, others may."""
    if isinstance(encoder, Encoder):
        return encoder.query_rows(texts)
    return matrix_to_csr(encoder.encode_queries(texts))


def check_terms(encoder: Encoder, terms: Sequence[str]) -> None:
    """Raise InputError if terms are not the vocabulary of an encoder."""
    if list(encoder.vocabulary) != list(terms):
        raise InputError(
            where=repr(encoder),
            expected=f"an index that it made, with its vocabulary of {len(encoder.vocabulary):,} terms",
            got=f"one with another vocabulary of {len(terms):,} terms",
        )


class LearningEncoder(Encoder):
    """An encoder whose vectors depend on the whole collection.

    `fit` learns, `encode_documents` uses what was learned. Both are made of three steps, so that a collection can be
    read once, and resumed: `count_documents` makes a first form of every document, `learn` adds such documents to the
    statistics, `weigh` turns them into vectors.

    Examples
    --------
    >>> from segmax.encoders import BM25
    >>> isinstance(BM25(), LearningEncoder)
    True
    """

    #: Whether `count_documents` is faster with `PackedTexts`, in batches as large as they come.
    takes_packed = False

    @property
    @abc.abstractmethod
    def num_docs(self) -> int:
        """How many documents it has learned from."""

    @abc.abstractmethod
    def reset(self) -> None:
        """Forget vocabulary and statistics."""

    @abc.abstractmethod
    def add_terms(self, terms: Iterable[str]) -> None:
        """Give the next columns to the terms that have none yet."""

    @abc.abstractmethod
    def count_documents(self, batches: Batches) -> Iterator[VectorBatch]:
        """Yield the first form of documents; the vocabulary grows, and columns with it."""

    @abc.abstractmethod
    def learn(self, counts: Csr) -> None:
        """Add documents in their first form to the statistics."""

    @abc.abstractmethod
    def weigh(self, counts: Csr) -> Csr:
        """Return the vectors of documents in their first form."""

    @abc.abstractmethod
    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write options, vocabulary and statistics to a folder."""

    def fit(self, batches: Batches) -> None:
        """Learn from documents; forget what was learned before."""
        self.reset()
        for batch in self.count_documents(batches):
            self.learn(batch.vectors)

    def fit_encode(
        self, batches: Batches, scratch: Path, advance: Callable[[int], object] = lambda _: None
    ) -> Iterator[VectorBatch]:
        """Do what `fit` and `encode_documents` do, but read the documents once.

        All documents are read before this returns. Until then they wait in a scratch file in their first form, so that
        memory holds the vocabulary and a few thousand documents.

        Parameters
        ----------
        batches
            The documents.
        scratch
            The folder for the scratch file.
        advance
            Called with the number of documents in every batch that was read.
        """
        self.reset()
        with ScratchFile(scratch) as file:
            lengths: list[tuple[Any, int]] = []
            for batch in self.count_documents(batches):
                self.learn(batch.vectors)
                for array in _packed(batch):
                    file.write(array)
                    lengths.append((array.dtype, len(array)))
                advance(len(batch.ids))
            return self._weighed(file.mapped(lengths))

    def _weighed(self, arrays: list[NDArray[Any]]) -> Iterator[VectorBatch]:
        num_terms = len(self.vocabulary)

        def weighed(first: int) -> VectorBatch:
            indptr, indices, counts, ids = arrays[first : first + 4]
            return VectorBatch(json.loads(ids.tobytes()), self.weigh(Csr(indptr, indices, counts, num_terms)))

        with Workers(1) as ahead:  # while the caller works on a batch, the next one is made
            yield from ahead.map(weighed, range(0, len(arrays), 4))


def _packed(batch: VectorBatch) -> tuple[NDArray[Any], ...]:
    """Return four arrays whose bytes are together a multiple of eight, so that all of them stay aligned."""
    ids = json.dumps(batch.ids).encode()
    ids += b" " * (-len(ids) % 8)
    counts = batch.vectors
    return (
        counts.indptr.astype(np.int64, copy=False),
        counts.indices.astype(np.uint32, copy=False),
        counts.values.astype(np.int32, copy=False),
        np.frombuffer(ids, dtype=np.uint8),
    )


# --- encoders that are not ours --------------------------------------------------------------------------------------


@runtime_checkable
class EncodesTexts(Protocol):
    """The least that an object needs to be used as an encoder."""

    @property
    def vocabulary(self) -> Sequence[str]:
        """The term of every column."""

    def encode_documents(self, batches: Batches) -> Iterator[Any]:
        """Yield batches with `ids`, `vectors` (a sparse matrix, or a `Csr`) and perhaps `dense`, as in VectorBatch."""

    def encode_queries(self, batch: Sequence[str]) -> Any:
        """Return the vectors of queries, a row each."""


@runtime_checkable
class SplitsWords(Protocol):
    """An encoder that splits text into words by rules, as BM25 does."""

    stopwords: tuple[str, ...]
    fold_accents: bool

    def occurrences(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Yield where the words of a text start and end, and the term of each."""


class AdaptedEncoder(Encoder):
    """An object that encodes texts, with the methods that it lacks."""

    def __init__(self, encoder: EncodesTexts) -> None:
        self.adapted = encoder
        self.pooling = tuple(getattr(encoder, "pooling", ()))

    def __repr__(self) -> str:
        return repr(self.adapted)

    @property
    def vocabulary(self) -> Sequence[str]:
        """The term of every column."""
        return self.adapted.vocabulary

    def fit(self, batches: Batches) -> None:
        """Let the object learn, if it can."""
        fit: Callable[[Batches], object] | None = getattr(self.adapted, "fit", None)
        if fit is not None:
            fit(batches)

    def encode_documents(self, batches: Batches) -> Iterator[VectorBatch]:
        """Yield the vectors of documents, in the order they came."""
        for batch in self.adapted.encode_documents(batches):
            vectors = batch.vectors if isinstance(batch.vectors, Csr) else matrix_to_csr(batch.vectors)
            yield VectorBatch(list(batch.ids), vectors, getattr(batch, "dense", {}))

    def encode_queries(self, batch: Sequence[str]) -> sp.csr_matrix:
        """Return the vectors of queries, a row each."""
        vectors: sp.csr_matrix = self.adapted.encode_queries(batch)
        return vectors

    def to_dict(self) -> dict[str, Any]:
        """Return the object's own `to_dict`, or the name of its class."""
        to_dict: Callable[[], dict[str, Any]] | None = getattr(self.adapted, "to_dict", None)
        return {"encoder": type(self.adapted).__name__} if to_dict is None else dict(to_dict())
