"""What every encoder can do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from segmax.vectors.documents import Document

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    from segmax.base.optional import scipy_sparse as sp


class EncodedBatch(NamedTuple):
    """Documents as vectors, in the order they came."""

    ids: list[str]
    vectors: sp.csr_matrix
    dense: Mapping[str, NDArray[np.float32]]  # by pooling: "cls", "mean", "max"; empty where none was asked for


@runtime_checkable
class Encoder(Protocol):
    """Makes sparse vectors of texts."""

    @property
    def vocabulary(self) -> Sequence[str]:
        """The word of every column; what learns it from the documents has it once they are encoded."""

    def encode_documents(self, batches: Iterable[Sequence[Document]]) -> Iterator[EncodedBatch]:
        """Encode documents, a batch at a time."""

    def encode_queries(self, batch: Sequence[str]) -> sp.csr_matrix:
        """Encode queries, a row each."""
