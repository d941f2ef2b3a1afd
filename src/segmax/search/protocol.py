"""What can be searched: the methods that `evaluate`, the command line and the integrations rely on.

An `Index` is one folder. Whatever else answers the same methods with the same types can take its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

import numpy as np
from numpy.typing import NDArray

from segmax.metadata import Scalar
from segmax.search.methods import SearchParams
from segmax.search.queries import Filter
from segmax.search.results import BatchHits, Explanation, Hits
from segmax.storage.texts import StoredText
from segmax.vectors.documents import DocId

if TYPE_CHECKING:
    import scipy.sparse as sp

    from segmax.encoders.base import Encoder
    from segmax.vectors.types import Queries, Query  # loads what only annotations need


class Vocabulary(Protocol):
    """The words of columns, by number, and the numbers of words."""

    def __len__(self) -> int: ...

    def __getitem__(self, number: int, /) -> str: ...

    def __iter__(self) -> Iterator[str]: ...

    def find(self, value: str, /) -> int | None:
        """Return the number of a word, or None."""


class StoredTexts(Protocol):
    """Titles and texts of documents, by row."""

    def __len__(self) -> int: ...

    def __getitem__(self, row: int, /) -> StoredText: ...


class Searchable(Protocol):
    """Anything that can be searched as an `Index` can; `Index` documents the methods.

    Examples
    --------
    >>> def best(source: Searchable, query: "Query") -> DocId | None:
    ...     hits = source.search(query, k=1)
    ...     return hits[0].id if hits else None
    """

    @property
    def path(self) -> Path | None:
        """Where it is on disk; None if it is not a folder on this machine."""

    @property
    def num_docs(self) -> int:
        """The number of documents."""

    @property
    def num_terms(self) -> int:
        """The number of columns of the vectors."""

    @property
    def num_clusters(self) -> int:
        """The number of clusters."""

    @property
    def num_segments(self) -> int:
        """The number of segments per cluster."""

    @property
    def terms(self) -> Vocabulary | None:
        """The words of the columns; None without a vocabulary."""

    @property
    def texts(self) -> StoredTexts | None:
        """The stored titles and texts by row; None if none are stored."""

    @property
    def encoder(self) -> Encoder:
        """What turns text into queries."""

    def encoder_for(self, encoder: object) -> Encoder:
        """Return the encoder that a name, a folder or an object stands for, checked against what made the vectors."""

    def __len__(self) -> int: ...

    def search(
        self,
        query: Query,
        k: int = 10,
        params: SearchParams | None = None,
        *,
        target_recall: float | None = None,
        trace: bool = False,
        where: Filter | None = None,
        offset: int = 0,
        min_score: float | None = None,
    ) -> Hits:
        """Return the k best documents for one query."""

    def search_batch(
        self,
        queries: Queries,
        k: int = 10,
        params: SearchParams | None = None,
        *,
        target_recall: float | None = None,
        threads: int | None = None,
        where: Filter | Sequence[Filter | None] | None = None,
        offset: int = 0,
        min_score: float | None = None,
    ) -> BatchHits:
        """Search many queries."""

    def count(self, where: Filter | None = None) -> int:
        """Return how many documents a filter matches."""

    def facets(self, field: str, where: Filter | None = None, *, limit: int | None = None) -> list[tuple[Scalar, int]]:
        """Count the documents that a filter matches by their value in a field."""

    @property
    def fields(self) -> dict[str, tuple[str, ...]]:
        """The fields of the metadata, and the kinds of values in each."""

    def metadata(self, id: DocId) -> dict[str, Any] | None:
        """Return the metadata of a document."""

    def explain(
        self,
        query: Query,
        id: DocId,
        k: int = 10,
        params: SearchParams | None = None,
        *,
        where: Filter | None = None,
    ) -> Explanation:
        """Explain why a document is or is not among the k best."""

    def score(self, query: Query, ids: Iterable[DocId]) -> NDArray[np.float64]:
        """Return the score of each given document for one query."""

    def row_of(self, id: DocId) -> int:
        """Return the input row of a document."""

    def text(self, id: DocId) -> StoredText:
        """Return the title and text of a document."""

    def vector(self, id: DocId) -> sp.csr_matrix:
        """Return the stored vector of a document."""

    def vectors(self, ids: Iterable[DocId]) -> sp.csr_matrix:
        """Return the stored vectors of many documents, a row each."""


def is_searchable(value: object) -> TypeGuard[Searchable]:
    """Whether a value has the methods that search.

    `isinstance` with a runtime protocol would also read every property, and `encoder` may have to load a model.
    """
    return all(callable(getattr(value, name, None)) for name in ("search", "search_batch"))
