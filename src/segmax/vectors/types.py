"""Types of queries, documents and texts as users pass them; `segmax.typing` exports them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from segmax.vectors.documents import DocId

__all__ = [
    "DocId",
    "Documents",
    "Frame",
    "Queries",
    "Query",
    "SparseMatrix",
    "Tensor",
    "Term",
    "TermWeights",
    "Texts",
    "Weight",
]


class SparseMatrix(Protocol):
    """A scipy sparse matrix or array in any format, by what segmax uses of it; annotations need no scipy.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> row: SparseMatrix = sp.csr_matrix([[0.0, 1.5]])
    """

    @property
    def format(self) -> str:
        """How the matrix is stored."""

    @property
    def nnz(self) -> int:
        """The number of stored entries."""

    def tocsr(self) -> Any:
        """Return the matrix as CSR."""


class Tensor(Protocol):
    """A torch tensor, sparse or dense, by what segmax uses of it; annotations need no torch.

    Examples
    --------
    >>> import torch  # doctest: +SKIP
    >>> row: Tensor = torch.tensor([[0.0, 1.5]]).to_sparse()  # doctest: +SKIP
    """

    @property
    def layout(self) -> Any:
        """How the tensor is stored."""

    def detach(self) -> Any:
        """Return the tensor without its history."""

    def dim(self) -> int:
        """Return the number of dimensions."""


class Frame(Protocol):
    """A pandas DataFrame or Series, by what segmax uses of it; annotations need no pandas.

    Examples
    --------
    >>> import pandas as pd  # doctest: +SKIP
    >>> frame: Frame = pd.DataFrame({"id": ["d1"], "text": ["a copper waveguide"]})  # doctest: +SKIP
    """

    @property
    def index(self) -> Any:
        """The labels of the rows."""

    @property
    def values(self) -> Any:
        """The cells."""


#: A column of the vectors: its number, or its word where the index has a vocabulary.
Term: TypeAlias = int | str

#: How much a term counts: a real number >= 0.
Weight: TypeAlias = float | np.floating[Any] | np.integer[Any]

#: A vector as a mapping of term to weight. Keys of a `Mapping` are invariant, so each kind is named.
TermWeights: TypeAlias = Mapping[int, Weight] | Mapping[str, Weight] | Mapping[Term, Weight]

_Indices: TypeAlias = Sequence[int] | NDArray[np.integer[Any]]
_Values: TypeAlias = Sequence[float] | NDArray[np.floating[Any]] | NDArray[np.integer[Any]]

#: One query: a text, a row, a mapping of term to weight, or (indices, values).
Query: TypeAlias = str | SparseMatrix | Tensor | TermWeights | tuple[_Indices, _Values]

#: Many queries: a matrix with a query per row, or an iterable of single ones.
Queries: TypeAlias = SparseMatrix | Tensor | Iterable[Query]

#: Vectors of documents: a matrix, an iterator of matrices, or the path of a file, or several, that hold them.
Documents: TypeAlias = (
    SparseMatrix | Tensor | Iterable[SparseMatrix | Tensor] | str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
)

_Text: TypeAlias = str | Mapping[str, Any] | tuple[str, str, str]

#: Texts of documents: a path or an ir_datasets id, or several; strings, records or objects of `segmax.io.Document`; a
#: mapping of id to text; a DataFrame or a Series.
Texts: TypeAlias = str | os.PathLike[str] | Iterable[_Text] | Mapping[str, _Text] | Mapping[int, _Text] | Frame
