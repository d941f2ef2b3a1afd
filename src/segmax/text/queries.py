"""Queries ready to be searched: read from a file or given in memory, each with its id, as vectors of the index."""

from __future__ import annotations

import dataclasses
import functools
import numbers
import os
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from segmax.base.errors import InputError
from segmax.io import VECTOR_FORMATS, Queries, open_vectors, read_queries
from segmax.io.frames import frame_records, is_frame, is_series, series_records
from segmax.io.queries import QUERY_NAMES
from segmax.io.read_errors import reading
from segmax.io.recognize import recognize
from segmax.io.records import VECTOR_NAMES, Record, checked_id, id_of, is_missing, no_text, text_of
from segmax.search.protocol import Searchable
from segmax.vectors.csr import Csr, is_matrix, matrix_to_csr
from segmax.vectors.queries import TermLookup
from segmax.vectors.rows import join_rows, selected_rows, to_scipy

if TYPE_CHECKING:
    pass
else:
    pass

#: Formats of vectors that `read_queries` does not read.
_MATRICES = VECTOR_FORMATS.keys() - {"jsonl", "tokens"}


@dataclasses.dataclass(frozen=True)
class EncodedQueries:
    """Queries by id, as vectors that `search_batch` takes.

    Parameters
    ----------
    ids
        An id per query; no id comes twice.
    rows
        A matrix with a row per query, as scipy's or as a CSR triple, or a list of single queries. `search_batch` takes
        all of them, and a CSR triple without loading scipy.
    texts
        The texts that the vectors were made from; None where the queries came as vectors.

    Examples
    --------
    >>> queries = EncodedQueries(["q1", "q2"], [{"red": 2}, {}])
    >>> len(queries), queries.num_terms(0), queries.num_terms(1)
    (2, 1, 0)
    """

    ids: list[str]
    rows: Any
    texts: list[str] | None = None

    def __post_init__(self) -> None:
        count = self.rows.num_rows if isinstance(self.rows, Csr) else _count(self.rows)
        if count != len(self.ids):
            raise InputError(expected="an id per query", got=f"{len(self.ids)} ids and {count} queries")
        _check_once(self.ids)

    def __len__(self) -> int:
        return len(self.ids)

    @functools.cached_property
    def vectors(self) -> Any:
        """The queries as a matrix of scipy, or as a list of single queries."""
        return to_scipy(self.rows) if isinstance(self.rows, Csr) else self.rows

    def num_terms(self, row: int) -> int:
        """Return the number of terms of a query."""
        if isinstance(self.rows, Csr):
            return int(self.rows.indptr[row + 1] - self.rows.indptr[row])
        query = self.rows[row]
        return int(query.nnz) if is_matrix(query) else len(query)

    def only(self, rows: list[int]) -> EncodedQueries:
        """Return some of the queries, in the order of `rows`."""
        texts = None if self.texts is None else _chosen(self.texts, rows)
        return EncodedQueries(_chosen(self.ids, rows), self._chosen_rows(rows), texts)

    def _chosen_rows(self, rows: list[int]) -> Any:
        if isinstance(self.rows, Csr):
            return selected_rows(self.rows, np.array(rows, dtype=np.int64))
        return self.rows[rows] if is_matrix(self.rows) else _chosen(self.rows, rows)


def _count(queries: Any) -> int:
    return int(queries.shape[0]) if is_matrix(queries) else len(queries)


def _chosen(values: Sequence[Any], rows: list[int]) -> list[Any]:
    return [values[row] for row in rows]


def _check_once(ids: list[str], where: str = "") -> None:
    """Raise InputError if an id comes twice."""
    if len(set(ids)) < len(ids):
        again = next(name for name, times in Counter(ids).items() if times > 1)
        raise InputError(where=where, expected="every query once", got=f"the id {again!r} again")


# --- files -----------------------------------------------------------------------------------------------------------


def read_encoded_queries(
    path: str | os.PathLike[str],
    index: Searchable,
    *,
    only: Container[str] | None = None,
    note: Callable[[Queries], object] = lambda _: None,
) -> EncodedQueries:
    """Read a file of queries; the encoder of the index encodes texts.

    Parameters
    ----------
    path
        What `segmax.io.read_queries` reads, or a file of vectors such as an .npz file. If both the file and the index
        name their terms, the terms are matched by word.
    index
        What the queries are for.
    only
        Encode only the queries with these ids; None: all of them.
    note
        Called with the queries as they are in the file, unless it can hold vectors only.
    """
    kind = matrix_format(path)
    if kind is not None:
        lookup = None if index.terms is None else index.terms.find
        return read_query_vectors(path, lookup, index.num_terms, format=kind)
    queries = read_queries(path)
    note(queries)
    return encode_queries_for(_wanted(queries, only), index)


def _wanted(queries: Queries, only: Container[str] | None) -> Queries:
    rows = None if only is None else [row for row, name in enumerate(queries.ids) if name in only]
    if not rows:  # with no query left the caller reports what is wrong
        return queries
    ids, texts, vectors = queries
    return Queries(
        _chosen(ids, rows),
        None if texts is None else _chosen(texts, rows),
        None if vectors is None else _chosen(vectors, rows),
    )


def matrix_format(path: str | os.PathLike[str]) -> str | None:
    """Return the format of a file of vectors that cannot hold texts; None for any other file."""
    file = Path(path)
    with reading(file):
        kind = recognize(file) if file.is_file() else None
    return kind if kind in _MATRICES else None


def read_query_vectors(
    path: str | os.PathLike[str], lookup: TermLookup = None, num_terms: int = 0, *, format: str | None = None
) -> EncodedQueries:
    """Read a file of vectors.

    Parameters
    ----------
    path
        The file.
    lookup
        Returns the column of a word in the index, None for a word that it does not have. If the file names its terms,
        its columns become those of the index; without a lookup they stay as they are.
    num_terms
        The number of columns of the index. Words that the index does not have get columns from there on, so that a
        search counts them as unknown terms.
    format
        The format of the file, if it is known.
    """
    reader = open_vectors(path, format)
    ids: list[str] = []
    parts: list[Csr] = []
    for batch in reader.batches():
        ids.extend(map(str, batch.ids))
        parts.append(batch.vectors)
    if not parts:
        raise InputError(where=f"'{path}'", expected="queries", got="none")
    _check_once(ids, f"'{path}'")
    rows = join_rows(parts, max(part.num_columns for part in parts))
    if reader.terms is not None and lookup is not None:
        columns = _columns_of(reader.terms, lookup, num_terms)
        rows = rows._replace(indices=columns[rows.indices], num_columns=int(columns.max(initial=num_terms - 1)) + 1)
    return EncodedQueries(ids, rows)


def _columns_of(words: Sequence[str], lookup: TermLookup, num_terms: int) -> NDArray[np.int64]:
    """Return the column of every word in the index; unknown words get columns behind all others."""
    assert lookup is not None
    found = [lookup(word) for word in words]
    columns = np.array([-1 if column is None else column for column in found], dtype=np.int64)
    unknown = columns < 0
    columns[unknown] = num_terms + np.arange(np.count_nonzero(unknown))
    return columns


# --- memory ----------------------------------------------------------------------------------------------------------


def encode_queries_for(queries: object, index: Searchable) -> EncodedQueries:
    """Return given queries as vectors for an index.

    Parameters
    ----------
    queries
        `EncodedQueries` or `segmax.io.Queries`; a mapping of id to text, or of id to a single query as `search` takes
        it; a DataFrame with columns "qid" (or "query_id", "id") and "query" (or "text"), as PyTerrier has them, or
        "query_toks"; a Series of texts; a matrix; or an iterable of single queries or texts, numbered from 0.
    index
        What the queries are for; its encoder encodes texts.
    """
    if isinstance(queries, EncodedQueries):
        return queries
    if isinstance(queries, Queries):
        return _of_read(queries, index)
    if is_matrix(queries):
        rows = matrix_to_csr(queries)
        return EncodedQueries(_numbers(rows.num_rows), rows)
    if is_frame(queries):
        return _of_records(frame_records(queries), index)
    if is_series(queries):
        return _of_records(series_records(queries), index)
    if isinstance(queries, Mapping):
        return _of_mapping(queries, index)
    try:
        each = list(queries)  # type: ignore[call-overload]
    except TypeError as error:
        raise InputError(expected="queries as a path, a matrix or an iterable", got=_kind(queries)) from error
    return _of_each(_numbers(len(each)), each, index)


def _kind(value: object) -> str:
    return type(value).__name__


def _of_read(queries: Queries, index: Searchable) -> EncodedQueries:
    if queries.vectors is not None:
        return EncodedQueries(queries.ids, queries.vectors)
    return _of_texts(queries.ids, queries.texts or [], index)


def _of_texts(ids: list[str], texts: list[str], index: Searchable) -> EncodedQueries:
    from segmax.encoders.base import query_rows_of  # vectors need no encoder

    return EncodedQueries(ids, query_rows_of(index.encoder, texts), texts)


def _of_each(ids: list[str], each: list[Any], index: Searchable) -> EncodedQueries:
    """Return single queries: all of them texts, or none."""
    texts = [query for query in each if isinstance(query, str)]
    if texts and len(texts) < len(each):
        other = next(query for query in each if not isinstance(query, str))
        raise InputError(
            expected="queries that are all texts, or all vectors", got=f"both ({texts[0][:40]!r} and {_kind(other)})"
        )
    return _of_texts(ids, texts, index) if texts else EncodedQueries(ids, each)


def _of_mapping(queries: Mapping[Any, Any], index: Searchable) -> EncodedQueries:
    """Return queries by id; a mapping of term to weight is a single query without an id, and refused."""
    if any(isinstance(query, numbers.Number) for query in queries.values()):
        raise InputError(
            expected="a mapping of id to text or vector", got="one query, terms with weights", hint="put it into a list"
        )
    ids = [checked_id(key, f"query {key!r}") for key in queries]
    missing = next((key for key, query in queries.items() if is_missing(query)), None)
    if missing is not None:
        raise InputError(where=f"query {missing!r}", expected="a text or a vector", got="null")
    return _of_each(ids, list(queries.values()), index)


def _of_records(records: Iterable[tuple[str, Record]], index: Searchable) -> EncodedQueries:
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
