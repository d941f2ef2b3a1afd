"""The encoder of a service: texts go there, vectors come back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from segmax.base.errors import InputError
from segmax.encoders.base import Batches, Encoder
from segmax.remote.found import RemoteVocabulary
from segmax.vectors.csr import Csr
from segmax.vectors.documents import VectorBatch
from segmax.vectors.rows import to_scipy

if TYPE_CHECKING:
    import scipy.sparse as sp


class RemoteEncoder(Encoder):
    """Encodes queries at a service, with the encoder that the service uses itself.

    Parameters
    ----------
    encode
        Sends texts to the service.
    terms
        The words of the columns; None if terms are numbers only.
    name
        What the service calls its encoder.
    """

    def __init__(self, encode: Callable[[Sequence[str]], Csr], terms: RemoteVocabulary | None, name: str) -> None:
        self._encode = encode
        self._terms = terms
        self._name = name

    def __repr__(self) -> str:
        return f"RemoteEncoder({self._name!r})"

    @property
    def vocabulary(self) -> Sequence[str]:
        """The term of every column, fetched when it is used."""
        return () if self._terms is None else self._terms

    def encode_documents(self, batches: Batches) -> Iterator[VectorBatch]:
        """Refuse: a service encodes documents itself, when they are added to a collection."""
        raise InputError(
            expected="queries: a service encodes documents when they are added to a collection", got="documents"
        )

    def encode_queries(self, batch: Sequence[str]) -> sp.csr_matrix:
        """Return the vectors of queries, a row each."""
        return to_scipy(self._encode(batch))

    def query_rows(self, batch: Sequence[str]) -> Csr:
        """Return what `encode_queries` returns, without scipy."""
        return self._encode(batch)

    def to_dict(self) -> dict[str, Any]:
        """Return what the service calls its encoder."""
        return {"encoder": self._name}
