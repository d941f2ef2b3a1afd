"""Documents in, be it a matrix, an iterator of matrices, a reader or files; checked rows out, a few at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from segmax.base.errors import InputError
from segmax.base.memory import MemoryLimit
from segmax.io.npz import NpzFile as NpzFile  # for those who only read its matrix
from segmax.io.streams import no_documents
from segmax.io.vectors import open_vectors
from segmax.vectors.csr import Csr, canonical, is_matrix, matrix_to_csr
from segmax.vectors.documents import VectorReader, has_ids
from segmax.vectors.rows import PART_DOCS, PART_POSTINGS, slice_rows

_MAX_COLUMNS = 2**28  # tables of a few hundred bytes per column are held in memory


class Names:
    """What a reader calls documents and terms: whole once the last batch is out; None where it has no names."""

    def __init__(self) -> None:
        self.ids: list[str] | None = None
        self.terms: Sequence[str] | None = None
        self.place_of: Callable[[int], str] | None = None  # where a row is in its file, for messages


class Source(NamedTuple):
    """A stream of checked rows."""

    batches: Iterator[Csr]
    num_docs: int | None  # None where only the end of the stream tells
    names: Names


def open_source(vectors: object, limit: MemoryLimit, scratch: Path | None = None) -> Source:
    """Return the documents as a stream of canonical rows: ascending terms, positive weights."""
    if isinstance(vectors, (str, os.PathLike)):
        return _of_reader(open_vectors(vectors, memory_limit=limit, scratch=scratch))
    if isinstance(vectors, (list, tuple)) and vectors and all(isinstance(v, (str, os.PathLike)) for v in vectors):
        return _of_reader(open_vectors(vectors, memory_limit=limit, scratch=scratch))
    if callable(getattr(vectors, "batches", None)) and hasattr(vectors, "terms"):
        reader: Any = vectors
        return _of_reader(reader)
    if is_matrix(vectors):
        docs = matrix_to_csr(vectors)
        return Source(_checked([docs]), docs.num_rows, Names())
    is_table = isinstance(vectors, Mapping) or hasattr(vectors, "columns")  # iterating over one yields names
    if isinstance(vectors, Iterable) and not is_table and not isinstance(vectors, (bytes, np.ndarray)):
        return Source(_checked(matrix_to_csr(batch) for batch in vectors), None, Names())
    raise InputError(
        expected=(
            "documents as a scipy sparse matrix, a torch sparse tensor, an iterable of such "
            "batches, or paths of files of vectors"
        ),
        got=type(vectors).__name__,
    )


def source_name(vectors: object) -> str:
    """Return what messages call the documents: their file, or what they came as."""
    if isinstance(vectors, (list, tuple)) and vectors and isinstance(vectors[0], (str, os.PathLike)):
        return ", ".join(source_name(path) for path in vectors[:2]) + (" and others" if len(vectors) > 2 else "")
    where = vectors if isinstance(vectors, (str, os.PathLike)) else getattr(vectors, "path", None)
    return f"'{where}'" if isinstance(where, (str, os.PathLike)) else f"the given {type(vectors).__name__}"


def _of_reader(reader: VectorReader) -> Source:
    names = Names()
    if has_ids(reader):
        names.ids = []
    names.place_of = getattr(reader, "place_of", None)

    def batches() -> Iterator[Csr]:
        for ids, vectors in reader.batches():
            if names.ids is not None:
                names.ids += ids
            yield vectors
        names.terms = reader.terms

    widening = reader.terms is not None or bool(getattr(reader, "loose_width", False))
    checked = _checked(batches(), widening=widening, paths=getattr(reader, "paths", ()))
    return Source(checked, reader.num_docs, names)


def _checked(batches: Iterable[Csr], *, widening: bool = False, paths: Iterable[Path] = ()) -> Iterator[Csr]:
    """Check batches of any size in slices of bounded size; if `widening`, a batch may have more columns than before.

    `paths` are the files that they come from, for messages.
    """
    row = 0
    num_columns: int | None = None
    for number, batch in enumerate(batches):
        wider = widening and num_columns is not None and batch.num_columns > num_columns
        if num_columns is not None and batch.num_columns != num_columns and not wider:
            raise InputError(
                expected=f"{num_columns} columns in every batch", got=f"{batch.num_columns} in batch {number}"
            )
        num_columns = batch.num_columns
        if num_columns > _MAX_COLUMNS:
            raise InputError(
                expected=f"at most {_MAX_COLUMNS:,} columns", got=f"{num_columns:,}", hint="number the terms that occur"
            )
        first = 0
        while first < batch.num_rows:
            fitting = int(np.searchsorted(batch.indptr, batch.indptr[first] + PART_POSTINGS, side="right")) - 1
            last = min(max(fitting, first + 1), first + PART_DOCS, batch.num_rows)
            yield canonical(slice_rows(batch, first, last), row)
            row += last - first
            first = last
    if num_columns is None or row == 0:
        raise no_documents(paths)
