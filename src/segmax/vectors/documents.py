"""What readers hand on: texts, and vectors with their ids, a batch at a time."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from segmax.vectors.csr import Csr
from segmax.vectors.rows import to_scipy

if TYPE_CHECKING:
    import scipy.sparse as sp

#: How token embeddings become one dense vector: the first token, the mean of all tokens, the maximum per dimension.
POOLINGS = ("cls", "mean", "max")

#: What a document is called: the id that it was given, or its row.
DocId = int | str


class Document(NamedTuple):
    """A text to be indexed.

    Examples
    --------
    >>> Document(id="d1", title="Waveguides", text="A copper waveguide.").whole
    'Waveguides A copper waveguide.'
    """

    id: str
    title: str
    text: str

    @property
    def whole(self) -> str:
        """Title and text, as BEIR joins them."""
        return f"{self.title} {self.text}".strip()


class RecordDocument(Document):
    """A document that was made of a record, with the record: its other members can become metadata."""

    record: Mapping[str, Any]

    def _replace(self, **changes: Any) -> RecordDocument:
        """Return a copy with other values, and the same record."""
        made = super()._replace(**changes)
        made.record = self.record
        return made


class VectorBatch(NamedTuple):
    """Some documents, or queries, as vectors.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from segmax.vectors.csr import matrix_to_csr
    >>> batch = VectorBatch(["d1"], matrix_to_csr(sp.csr_matrix([[0, 2]])))
    >>> batch.ids, batch.vectors.num_columns
    (['d1'], 2)
    """

    ids: list[str]
    vectors: Csr  # a row per id
    dense: Mapping[str, NDArray[np.float32]] = MappingProxyType({})  # pooled token embeddings, by pooling

    def matrix(self) -> sp.csr_matrix:
        """Return the vectors as a scipy matrix."""
        return to_scipy(self.vectors)


@runtime_checkable
class VectorReader(Protocol):
    """A stream of vectors.

    Where a format names terms by word, they are numbered as they come: batches widen, and `terms` is whole once the
    last batch is out.

    Examples
    --------
    >>> import tempfile
    >>> from segmax.io import open_vectors
    >>> path = Path(tempfile.mkdtemp(), "docs.jsonl")
    >>> _ = path.write_text('{"id": "d1", "vector": {"copper": 2}}')
    >>> reader = open_vectors(path)
    >>> [batch.ids for batch in reader.batches()], list(reader.terms)
    ([['d1']], ['copper'])
    """

    @property
    def terms(self) -> Sequence[str] | None:
        """The word of every column; None where the format has numbers only."""

    @property
    def num_docs(self) -> int | None:
        """How many there will be, where that is known before the end."""

    def batches(self) -> Iterator[VectorBatch]:
        """Yield everything, once."""


class BaseVectors(abc.ABC):
    """The base class of our own readers: a `VectorReader` that also knows where its rows come from.

    The defaults fit a stream with ids of its own, in no file.
    """

    @property
    def has_ids(self) -> bool:
        """Whether ids are more than row numbers."""
        return True

    @property
    def loose_width(self) -> bool:
        """Whether batches may have more columns than those before."""
        return False

    @property
    def paths(self) -> Sequence[Path]:
        """The files, in the order in which they are read; none where that is not known."""
        return ()

    @property
    def name(self) -> str:
        """What messages call it: its files, quoted."""
        names = [f"'{path}'" for path in self.paths[:2]]
        more = [" and others"] if len(self.paths) > 2 else []
        return ", ".join(names) + "".join(more) if names else f"the given {type(self).__name__}"

    def place_of(self, row: int) -> str:
        """Return where a row is, for messages."""
        return f"row {row}"

    @property
    @abc.abstractmethod
    def terms(self) -> Sequence[str] | None:
        """The terms so far; None where the format has numbers only."""

    @property
    @abc.abstractmethod
    def num_docs(self) -> int | None:
        """How many there are, where that is known before the end."""

    @abc.abstractmethod
    def batches(self) -> Iterator[VectorBatch]:
        """Yield everything, once."""


def as_vectors(reader: VectorReader) -> BaseVectors:
    """Return a reader as one that has everything that `BaseVectors` has."""
    return reader if isinstance(reader, BaseVectors) else WrappedVectors(reader)


class WrappedVectors(BaseVectors):
    """A reader of vectors in front of another one: what it does not change is as the other has it.

    What a reader of the caller's own does not have is as `BaseVectors` has it.
    """

    def __init__(self, reader: VectorReader) -> None:
        self._reader = reader

    @property
    def wrapped(self) -> VectorReader:
        """The reader behind this one."""
        return self._reader

    @property
    def has_ids(self) -> bool:
        """Whether ids are more than row numbers."""
        return bool(getattr(self._reader, "has_ids", super().has_ids))

    @property
    def loose_width(self) -> bool:
        """Whether batches may have more columns than those before."""
        return bool(getattr(self._reader, "loose_width", super().loose_width))

    @property
    def terms(self) -> Sequence[str] | None:
        """The terms so far."""
        return self._reader.terms

    @property
    def num_docs(self) -> int | None:
        """How many there are, where that is known before the end."""
        return self._reader.num_docs

    @property
    def paths(self) -> Sequence[Path]:
        """The files, in the order in which they are read; none where that is not known."""
        return getattr(self._reader, "paths", super().paths)

    def batches(self) -> Iterator[VectorBatch]:
        """Yield everything, once."""
        return self._reader.batches()

    def place_of(self, row: int) -> str:
        """Return where a row is, for messages."""
        place: Callable[[int], str] = getattr(self._reader, "place_of", super().place_of)
        return place(row)


@runtime_checkable
class TextReader(Protocol):
    """A stream of texts.

    Examples
    --------
    >>> import tempfile
    >>> from segmax.io import open_texts
    >>> path = Path(tempfile.mkdtemp(), "docs.jsonl")
    >>> _ = path.write_text('{"id": "d1", "text": "copper"}')
    >>> [document.text for document in open_texts(path)]
    ['copper']
    """

    @property
    def num_docs(self) -> int | None:
        """How many there will be, where that is known before the end."""

    def __iter__(self) -> Iterator[Document]:
        """Yield every document, from the first, every time."""
