"""Documents in, as a matrix, an iterable of matrices, a reader or files; checked rows out, a few at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from segmax.base.errors import InputError
from segmax.base.memory import MemoryLimit
from segmax.io.read_errors import no_documents
from segmax.io.vectors import open_vectors
from segmax.vectors.csr import canonical, is_matrix, matrix_to_csr
from segmax.vectors.documents import BaseVectors, VectorBatch, VectorReader, WrappedVectors
from segmax.vectors.rows import bounded_ranges, slice_rows

_MAX_COLUMNS = 2**28  # tables of a few hundred bytes per column are held in memory


class Names:
    """What a reader calls documents and terms: complete after the last batch; None where it has no names."""

    def __init__(self) -> None:
        self.ids: list[str] | None = None
        self.terms: Sequence[str] | None = None
        self.place_of: Callable[[int], str] | None = None  # where a row is in its file, for messages


class Source:
    """The documents of a build as a stream of checked rows: ascending terms, positive weights."""

    def __init__(self, reader: VectorReader, name: str, *, is_named: bool = True) -> None:
        self._reader = WrappedVectors(reader)
        self.name = name  #: what messages call the documents
        self.names = Names()
        if is_named and self._reader.has_ids:
            self.names.ids = []
        if is_named:
            self.names.place_of = self._reader.place_of

    @property
    def num_docs(self) -> int | None:
        """How many documents there are; None where only the end of the stream shows it."""
        return self._reader.num_docs

    def batches(self) -> Iterator[VectorBatch]:
        """Yield all documents, once. Readers that have to learn from all of them first do so in this call."""
        widening = self._reader.terms is not None or self._reader.loose_width
        return _checked(self._recorded(self._reader.batches()), widening=widening, paths=self._reader.paths)

    def _recorded(self, batches: Iterator[VectorBatch]) -> Iterator[VectorBatch]:
        for batch in batches:
            if self.names.ids is not None:
                self.names.ids += batch.ids
            yield batch
        self.names.terms = self._reader.terms


class _Matrices:
    """Matrices without names, as a reader."""

    terms = None

    def __init__(self, matrices: Iterable[object], num_docs: int | None) -> None:
        self._matrices = matrices
        self.num_docs = num_docs

    def batches(self) -> Iterator[VectorBatch]:
        """Yield everything, once."""
        return (VectorBatch([], matrix_to_csr(matrix)) for matrix in self._matrices)


def open_source(vectors: object, limit: MemoryLimit, scratch: Path | None = None) -> Source:
    """Return the documents as a stream of checked rows."""
    name = source_name(vectors)
    if _are_paths(vectors):
        return Source(open_vectors(vectors, memory_limit=limit, scratch=scratch), name)  # type: ignore[arg-type]
    if is_matrix(vectors):
        num_docs = int(vectors.shape[0]) if len(vectors.shape) == 2 else None  # type: ignore[attr-defined]
        return Source(_Matrices([vectors], num_docs), name, is_named=False)
    if isinstance(vectors, VectorReader):
        return Source(vectors, name)
    is_table = isinstance(vectors, Mapping) or hasattr(vectors, "columns")  # iterating over one yields names
    if isinstance(vectors, Iterable) and not is_table and not isinstance(vectors, (bytes, np.ndarray)):
        return Source(_Matrices(vectors, None), name, is_named=False)
    raise InputError(
        expected=(
            "documents as a scipy sparse matrix, a torch sparse tensor, an iterable of such "
            "batches, or paths of files of vectors"
        ),
        got=type(vectors).__name__,
    )


def _are_paths(vectors: object) -> bool:
    several = isinstance(vectors, (list, tuple)) and len(vectors) > 0
    return all(isinstance(one, (str, os.PathLike)) for one in (vectors if several else [vectors]))  # type: ignore[attr-defined]


def source_name(vectors: object) -> str:
    """Return what messages call the documents: their file, or what they came as."""
    if isinstance(vectors, (list, tuple)) and vectors and isinstance(vectors[0], (str, os.PathLike)):
        return ", ".join(source_name(path) for path in vectors[:2]) + (" and others" if len(vectors) > 2 else "")
    if isinstance(vectors, BaseVectors):
        return vectors.name
    where = vectors if isinstance(vectors, (str, os.PathLike)) else getattr(vectors, "path", None)
    return f"'{where}'" if isinstance(where, (str, os.PathLike)) else f"the given {type(vectors).__name__}"


def _checked(batches: Iterable[VectorBatch], *, widening: bool, paths: Iterable[Path]) -> Iterator[VectorBatch]:
    """Check batches of any size in slices of bounded size; if `widening`, a batch may have more columns than before.

    `paths` are the files that they come from, for messages.
    """
    row = 0
    num_columns: int | None = None
    for number, batch in enumerate(batches):
        docs = batch.vectors
        wider = widening and num_columns is not None and docs.num_columns > num_columns
        if num_columns is not None and docs.num_columns != num_columns and not wider:
            raise InputError(
                expected=f"{num_columns} columns in every batch", got=f"{docs.num_columns} in batch {number}"
            )
        num_columns = docs.num_columns
        if num_columns > _MAX_COLUMNS:
            raise InputError(
                expected=f"at most {_MAX_COLUMNS:,} columns",
                got=f"{num_columns:,}",
                hint="number only terms that occur",
            )
        for first, last in bounded_ranges(docs.indptr):
            ids = batch.ids[first:last]
            dense = {pooling: rows[first:last] for pooling, rows in batch.dense.items()}
            yield VectorBatch(ids, canonical(slice_rows(docs, first, last), row), dense)
            row += last - first
    if row == 0:
        raise no_documents(paths)
