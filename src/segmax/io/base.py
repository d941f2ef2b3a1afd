"""What readers hand on: texts, and vectors with their ids, a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from segmax.sparse import Csr


class Document(NamedTuple):
    """A text to be indexed."""

    id: str
    title: str
    text: str

    @property
    def whole(self) -> str:
        """Title and text, as BEIR joins them."""
        return f"{self.title} {self.text}".strip()


class VectorBatch(NamedTuple):
    """Some documents, or queries, as vectors."""

    ids: list[str]
    vectors: Csr


class VectorReader(Protocol):
    """A stream of vectors.

    Where a format names terms by word, they are numbered as they come: batches widen, and `terms` is whole once the
    last batch is out.
    """

    @property
    def terms(self) -> Sequence[str] | None:
        """The word of every column; None where the format has numbers only."""

    @property
    def num_docs(self) -> int | None:
        """How many there will be, where that is known before the end."""

    def batches(self) -> Iterator[VectorBatch]:
        """Yield everything, once."""


class TextReader(Protocol):
    """A stream of texts."""

    @property
    def num_docs(self) -> int | None:
        """How many there will be, where that is known before the end."""

    def __iter__(self) -> Iterator[Document]:
        """Yield every document, from the first, every time."""
