"""Queries ready to be asked: read from a file or given, each with its id, as vectors of the index."""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Container
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from segmax.errors import InputError
from segmax.index import Index
from segmax.io import VECTOR_FORMATS, Queries, format_of, open_vectors, read_queries
from segmax.sparse import Csr, is_matrix, matrix_to_csr

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    from segmax.lazy import scipy_sparse as sp

#: Formats of vectors that `read_queries` does not read.
_MATRICES = VECTOR_FORMATS.keys() - {"jsonl", "tokens"}


@dataclasses.dataclass(frozen=True)
class Questions:
    """Queries by id: `vectors` is a matrix with a row each, or a list of single queries; `search_batch` takes both."""

    ids: list[str]
    vectors: Any

    def __post_init__(self) -> None:
        count = self.vectors.shape[0] if is_matrix(self.vectors) else len(self.vectors)
        if count != len(self.ids):
            msg = f"expected an id per query, got {len(self.ids)} ids and {count} queries"
            raise InputError(msg)
        if len(set(self.ids)) < count:
            again = next(name for name, times in Counter(self.ids).items() if times > 1)
            msg = f"expected every query once, got the id {again!r} again"
            raise InputError(msg)

    def __len__(self) -> int:
        return len(self.ids)

    def only(self, rows: list[int]) -> Questions:
        """Return some of them, in this order."""
        ids = [self.ids[row] for row in rows]
        return Questions(ids, self.vectors[rows] if is_matrix(self.vectors) else [self.vectors[row] for row in rows])


def read_questions(path: str | os.PathLike[str], index: Index, *, only: Container[str] | None = None) -> Questions:
    """Read a file of queries: vectors as they are, texts by the encoder of the index.

    Parameters
    ----------
    path
        What `segmax.io.read_queries` reads, or a file of vectors, an .npz file for instance. Vectors whose file names
        their terms are matched with the vocabulary of the index by word.
    index
        What they are for.
    only
        The ids that are wanted; None: all. Encoding texts takes its time.
    """
    if is_matrix_file(path):
        return read_question_vectors(path, by_word=index.terms is not None)
    return questions_of(_wanted(read_queries(path), only), index)


def _wanted(queries: Queries, only: Container[str] | None) -> Queries:
    if only is None:
        return queries
    rows = [row for row, name in enumerate(queries.ids) if name in only]
    if not rows:  # then there is something wrong, and whoever asks has more to say about it
        return queries
    ids, texts, vectors = queries

    def some(values: list[Any] | None) -> list[Any] | None:
        return None if values is None else [values[row] for row in rows]

    return Queries([ids[row] for row in rows], some(texts), some(vectors))


def is_matrix_file(path: str | os.PathLike[str]) -> bool:
    """Whether a file holds vectors in a format that has no texts beside them."""
    return Path(path).is_file() and format_of(path) in _MATRICES


def questions_of(queries: object, index: Index) -> Questions:
    """Return queries that are given: read ones, a matrix, or an iterable of single queries or texts, from 0 on."""
    if isinstance(queries, Questions):
        return queries
    if isinstance(queries, Queries):
        if queries.vectors is not None:
            return Questions(queries.ids, queries.vectors)
        return Questions(queries.ids, index.encoder.encode_queries(queries.texts or []))
    if is_matrix(queries):
        rows = _matrix(matrix_to_csr(queries))
        return Questions(_numbers(rows.shape[0]), rows)
    try:
        each = list(queries)  # type: ignore[call-overload]
    except TypeError as error:
        msg = f"expected queries as a path, a matrix or an iterable, got {type(queries).__name__}"
        raise InputError(msg) from error
    if each and all(isinstance(query, str) for query in each):
        return Questions(_numbers(len(each)), index.encoder.encode_queries(each))
    return Questions(_numbers(len(each)), each)


def _numbers(count: int) -> list[str]:
    return [str(row) for row in range(count)]


def _matrix(rows: Csr) -> sp.csr_matrix:
    return sp.csr_matrix((rows.values, rows.indices, rows.indptr), shape=(rows.num_rows, rows.num_columns))


def read_question_vectors(path: str | os.PathLike[str], *, by_word: bool) -> Questions:
    """Read a file of vectors: by the words of their terms, where the file has words, or else by column."""
    reader = open_vectors(path)
    ids: list[str] = []
    parts: list[sp.csr_matrix] = []
    for batch in reader.batches():
        ids.extend(map(str, batch.ids))
        parts.append(_matrix(batch.vectors))
    if not parts:
        msg = f"'{path}': expected queries, got none"
        raise InputError(msg)
    width = max(part.shape[1] for part in parts)
    same = [sp.csr_matrix((part.data, part.indices, part.indptr), shape=(part.shape[0], width)) for part in parts]
    matrix = sp.csr_matrix(sp.vstack(same, format="csr"))
    terms = reader.terms
    if terms is None or not by_word:
        return Questions(ids, matrix)
    words = np.asarray(list(terms), dtype=object)
    rows = np.split(np.arange(matrix.nnz), matrix.indptr[1:-1])
    return Questions(ids, [dict(zip(words[matrix.indices[r]], matrix.data[r].tolist(), strict=True)) for r in rows])
