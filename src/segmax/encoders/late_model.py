"""A model whose queries need no inference: it is loaded once there are documents to encode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from segmax.encoders.base import Batches, Encoder
from segmax.encoders.model_files import is_export
from segmax.encoders.query_table import QueryTable
from segmax.encoders.sparse_model import SparseModel
from segmax.vectors.csr import Csr
from segmax.vectors.documents import VectorBatch

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    from segmax.base.optional import scipy_sparse as sp

#: The options of a `SparseModel` that an index records, with their defaults, but for the backend.
_DEFAULTS: Mapping[str, Any] = {
    "dtype": "float32",
    "top_n": None,
    "min_weight": 0.0,
    "pooling": [],
    "max_length": None,
}


class LateSparseModel(Encoder):
    """What a `SparseModel` does, with its table for queries; torch is imported for the first documents.

    Parameters
    ----------
    name
        A folder, or a name on the hub.
    table
        The query side of that model.
    options
        Of `SparseModel`, checked when it is loaded.
    """

    def __init__(self, name: str, table: QueryTable, options: Mapping[str, Any]) -> None:
        self.name = name
        self.table = table
        self._options = dict(options)
        self._model: SparseModel | None = None

    def __repr__(self) -> str:
        return f"SparseModel({self.name!r}, queries by a table)"

    @property
    def model(self) -> SparseModel:
        """The model itself, loaded when it is first used."""
        if self._model is None:
            self._model = SparseModel(self.name, **self._options)
        return self._model

    @property
    def top_n(self) -> int | None:
        """How many of a text's largest weights stay; None: all."""
        return self.table.top_n

    @property
    def min_weight(self) -> float:
        """The smallest weight that stays."""
        return self.table.min_weight

    @property
    def vocabulary(self) -> list[str]:
        """The token of every column."""
        return self.table.vocabulary

    def encode_documents(self, batches: Batches) -> Iterator[VectorBatch]:
        """Yield the vectors of documents, in the order they came."""
        return self.model.encode_documents(batches)

    def encode_queries(self, batch: Sequence[str]) -> sp.csr_matrix:
        """Return the vectors of queries, a row each."""
        return self.table.encode_queries(batch)

    def query_rows(self, batch: Sequence[str]) -> Csr:
        """Return what `encode_queries` returns, without scipy."""
        return self.table.query_rows(batch)

    def for_terms(self, terms: Sequence[str]) -> Encoder:
        """Return this encoder; raise InputError if the terms are not its vocabulary."""
        self.table.for_terms(terms)
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return what an index records about it, as plain values: what `SparseModel` does."""
        name = str(Path(self.name).absolute()) if Path(self.name).is_dir() else self.name
        defaults = {**_DEFAULTS, "backend": "onnx" if is_export(Path(self.name)) else "torch"}
        options = {option: self._options.get(option, default) for option, default in defaults.items()}
        return {"encoder": "SparseModel", "model": name, **options}

    def fingerprint(self) -> dict[str, Any]:
        """Return what its vectors depend on, as plain values."""
        return self.model.fingerprint()
