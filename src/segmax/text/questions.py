"""Queries ready to be asked: read from a file or given, each with its id, as vectors of the index."""

from __future__ import annotations

import dataclasses
import numbers
import os
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from segmax.base.errors import InputError
from segmax.io import VECTOR_FORMATS, Queries, open_vectors, read_queries
from segmax.io.frames import frame_records, is_frame, is_series, series_records
from segmax.io.queries import QUERY_NAMES
from segmax.io.read_errors import reading
from segmax.io.recognize import recognize
from segmax.io.records import VECTOR_NAMES, Record, checked_id, id_of, is_missing, no_text, text_of
from segmax.search.index import Index
from segmax.vectors.csr import Csr, is_matrix, matrix_to_csr

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    from segmax.base.optional import scipy_sparse as sp

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
            raise InputError(expected="an id per query", got=f"{len(self.ids)} ids and {count} queries")
        _check_once(self.ids)

    def __len__(self) -> int:
        return len(self.ids)

    def only(self, rows: list[int]) -> Questions:
        """Return some of them, in this order."""
        ids = [self.ids[row] for row in rows]
        return Questions(ids, self.vectors[rows] if is_matrix(self.vectors) else [self.vectors[row] for row in rows])


def _check_once(ids: list[str], where: str = "") -> None:
    """Raise if an id comes twice; `where` starts the message."""
    if len(set(ids)) < len(ids):
        again = next(name for name, times in Counter(ids).items() if times > 1)
        msg = f"{where}expected every query once, got the id {again!r} again"
        raise InputError(msg)


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
    file = Path(path)
    with reading(file):
        return file.is_file() and recognize(file) in _MATRICES


def questions_of(queries: object, index: Index) -> Questions:
    """Return queries that are given.

    Parameters
    ----------
    queries
        Read ones (`Questions`, `segmax.io.Queries`); a mapping of id to text, or of id to a single query as `search`
        takes it; a DataFrame with columns "qid" (or "query_id", "id") and "query" (or "text"), as PyTerrier has them,
        or "query_toks"; a Series of texts; a matrix; or an iterable of single queries or texts, numbered from 0.
    index
        What they are for: it encodes texts.
    """
    if isinstance(queries, Questions):
        return queries
    if isinstance(queries, Queries):
        return _of_texts(queries.ids, queries.texts or [], index) if queries.vectors is None else _of_vectors(queries)
    if is_matrix(queries):
        rows = _matrix(matrix_to_csr(queries))
        return Questions(_numbers(rows.shape[0]), rows)
    if is_frame(queries) or is_series(queries):
        return _of_records(frame_records(queries) if is_frame(queries) else series_records(queries), index)
    if isinstance(queries, Mapping):
        return _of_mapping(queries, index)
    try:
        each = list(queries)  # type: ignore[call-overload]
    except TypeError as error:
        raise InputError(expected="queries as a path, a matrix or an iterable", got=_kind(queries)) from error
    return _of_each(_numbers(len(each)), each, index)


def _kind(value: object) -> str:
    return type(value).__name__


def _of_vectors(queries: Queries) -> Questions:
    return Questions(queries.ids, queries.vectors)


def _of_texts(ids: list[str], texts: list[str], index: Index) -> Questions:
    return Questions(ids, index.encoder.encode_queries(texts))


def _of_each(ids: list[str], each: list[Any], index: Index) -> Questions:
    """Return single queries: all of them texts, or none."""
    texts = [query for query in each if isinstance(query, str)]
    if texts and len(texts) < len(each):
        other = next(query for query in each if not isinstance(query, str))
        raise InputError(
            expected="queries that are all texts, or all vectors", got=f"both ({texts[0][:40]!r} and {_kind(other)})"
        )
    return _of_texts(ids, texts, index) if texts else Questions(ids, each)


def _of_mapping(queries: Mapping[Any, Any], index: Index) -> Questions:
    """Return queries by id; a mapping of term to weight is one query, which has none."""
    if any(isinstance(query, numbers.Number) for query in queries.values()):
        raise InputError(
            expected="a mapping of id to text or vector", got="one query, terms with weights", hint="put it into a list"
        )
    ids = [checked_id(key, f"query {key!r}") for key in queries]
    missing = next((key for key, query in queries.items() if is_missing(query)), None)
    if missing is not None:
        raise InputError(where=f"query {missing!r}", expected="a text or a vector", got="null")
    return _of_each(ids, list(queries.values()), index)


def _of_records(records: Iterable[tuple[str, Record]], index: Index) -> Questions:
    """Return the queries of a table: by their vectors where it has such a column, else by their texts."""
    ids: list[str] = []
    each: list[Any] = []
    for place, record in records:
        ids.append(id_of(record, place))
        vector = next((record[name] for name in VECTOR_NAMES if name in record), None)
        query = vector if isinstance(vector, Mapping) else text_of(record, QUERY_NAMES, place)
        if query is None:
            raise no_text(record, QUERY_NAMES, place)
        each.append(query)
    return _of_each(ids, each, index)


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
        raise InputError(where=f"'{path}'", expected="queries", got="none")
    _check_once(ids, f"'{path}': ")
    width = max(part.shape[1] for part in parts)
    same = [sp.csr_matrix((part.data, part.indices, part.indptr), shape=(part.shape[0], width)) for part in parts]
    matrix = sp.csr_matrix(sp.vstack(same, format="csr"))
    terms = reader.terms
    if terms is None or not by_word:
        return Questions(ids, matrix)
    words = np.asarray(list(terms), dtype=object)
    rows = np.split(np.arange(matrix.nnz), matrix.indptr[1:-1])
    return Questions(ids, [dict(zip(words[matrix.indices[r]], matrix.data[r].tolist(), strict=True)) for r in rows])
