"""What can be added to a collection, as batches: matrices, files, readers, texts, tables and records."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np

from segmax.base.checks import check_listed, shown
from segmax.base.errors import ConfigError, InputError
from segmax.base.memory import MemoryLimit
from segmax.base.vocabulary import GrowingVocabulary
from segmax.building.given_metadata import metadata_by_row
from segmax.building.inputs import open_source
from segmax.io import Document, TextReader
from segmax.io.documents import open_documents
from segmax.io.frames import frame_records, is_frame, is_series
from segmax.io.joined import json_lines_of
from segmax.io.records import ID_NAMES, VECTOR_NAMES, document_of, is_missing, known_name, with_known_names
from segmax.storage.tables import listed_ids
from segmax.text.documents import read_documents
from segmax.text.fields import Fields, chosen_fields
from segmax.vectors.csr import Csr, canonical, is_matrix, matrix_to_csr
from segmax.vectors.documents import BaseVectors, RecordDocument, VectorReader
from segmax.vectors.queries import query_arrays
from segmax.vectors.rows import join_rows

#: How many documents of a stream make a batch.
STREAM_DOCS = 1024
_METADATA = "metadata"


class Given(NamedTuple):
    """Documents of one batch, as they were given."""

    ids: list[Any] | None
    vectors: Csr | None  #: None: they are to be encoded
    words: Sequence[str] | None  #: by column of the vectors; None: columns are numbers of terms
    texts: list[Document] | None
    metadata: list[Any] | None

    @property
    def num_docs(self) -> int:
        """How many there are."""
        return self.vectors.num_rows if self.vectors is not None else len(self.texts or ())


class Columns(NamedTuple):
    """What belongs to the documents besides what they say, given beside them: one each, or None.

    Metadata may also be found by id (a mapping or a table), or be members of the documents ("all", or their names).
    """

    ids: Iterable[Any] | None = None
    texts: Iterable[Any] | None = None
    metadata: Any = None

    @property
    def by_id(self) -> Any:
        """Metadata that are found by id; None: there are none."""
        is_table = isinstance(self.metadata, Mapping) or is_frame(self.metadata)
        return self.metadata if is_table else None

    def iterators(self, fields: Fields | None) -> dict[str, Iterator[Any]]:
        """Return iterators over what comes one per document; raise InputError for what has no order."""
        metadata = None if fields is not None or self.by_id is not None else self.metadata
        given = {"ids": self.ids, "texts": self.texts, "metadata": metadata}
        for name, values in given.items():
            if values is not None:
                check_listed(f"{name} as a list or another iterable, one per document", values)
        if self.ids is not None:
            given["ids"] = listed_ids(self.ids)
        return {name: iter(values) for name, values in given.items() if values is not None}


def given_batches(documents: object, columns: Columns) -> Iterator[Given]:
    """Yield documents in batches. What is in memory, a matrix or a list, is one batch; streams are cut.

    One batch is checked against what is given beside it before it is yielded.
    """
    fields = chosen_fields(columns.metadata)
    found = _batches(documents, fields)
    beside = columns.iterators(fields)
    row = 0
    for batch in found:
        whole = _joined(batch, beside, row)
        row += batch.num_docs
        if isinstance(found, list):
            _check_used_up(beside, row)
        if columns.by_id is not None:
            if not isinstance(found, list):
                raise InputError(expected="metadata in the order of a stream of documents", got="metadata by id")
            whole = _with_metadata_by_id(whole, columns.by_id)
        yield whole
    _check_used_up(beside, row)


def _check_used_up(beside: Mapping[str, Iterator[Any]], num_docs: int) -> None:
    for name, values in beside.items():
        if next(values, beside) is not beside:
            raise InputError(expected=f"{num_docs} {name}, one per document", got="more")


def _with_metadata_by_id(batch: Given, metadata: Any) -> Given:
    """Return a batch with metadata from a mapping of id to metadata, or from a table."""
    if batch.metadata is not None:
        raise _twice("metadata")
    if batch.ids is None and isinstance(metadata, Mapping):
        raise InputError(expected="documents with ids, to find metadata by id", got="none")
    return batch._replace(metadata=list(metadata_by_row(metadata, batch.ids, batch.num_docs)))


def _twice(name: str) -> InputError:
    return InputError(expected=f"{name} once", got=f"{name} of the documents, and {name} beside them")


def _joined(batch: Given, beside: Mapping[str, Iterator[Any]], row: int) -> Given:
    """Return a batch with its share of what was given beside the documents."""
    found: dict[str, Any] = {}
    for name, values in beside.items():
        found[name] = list(islice(values, batch.num_docs))
        if len(found[name]) != batch.num_docs:
            raise InputError(expected=f"one of {name} per document", got=f"{row + len(found[name])}, then no more")
        if name != "texts" and getattr(batch, name) is not None:
            raise _twice(name)
    if "texts" in found:
        if batch.vectors is None:
            raise InputError(expected="texts once", got="texts as documents, and texts beside them")
        found["texts"] = [_text(text, "-", f"document {row + at}") for at, text in enumerate(found["texts"])]
    return batch._replace(**found)


def _text(text: Any, name: str, place: str) -> Document:
    if isinstance(text, Document):
        return text
    if isinstance(text, tuple) and len(text) == 2:
        text = {"title": text[0], "text": text[1]}
    return document_of(text if isinstance(text, Mapping) else {"text": text}, name, place)


def _batches(documents: object, fields: Fields | None) -> list[Given] | Iterator[Given]:
    """Return the batches of documents: in a list what is in memory and is added whole."""
    if is_matrix(documents):
        return [_of_matrix(documents)]
    if isinstance(documents, (str, os.PathLike)) or _are_paths(documents):
        reader = open_documents(documents)  # type: ignore[arg-type]
        return _batches(reader, fields)
    if isinstance(documents, VectorReader):
        return _of_vectors(documents, fields)
    if isinstance(documents, TextReader):
        return _of_texts(documents, fields)
    if is_frame(documents):
        return [_of_frame(documents, fields)]
    if isinstance(documents, Mapping) or is_series(documents):
        is_empty = isinstance(documents, Mapping) and not documents
        return [] if is_empty else [_of_documents(list(read_documents(documents, scratch=_no_scratch())), fields, 0)]
    check_listed("documents as a matrix, files, texts or records", documents)
    return _of_iterable(documents, fields)  # type: ignore[arg-type]


def _are_paths(documents: object) -> bool:
    return (
        isinstance(documents, (list, tuple)) and bool(documents) and all(isinstance(d, os.PathLike) for d in documents)
    )


def _of_matrix(matrix: object) -> Given:
    return Given(None, canonical(matrix_to_csr(matrix), 0), None, None, None)


def _of_vectors(reader: VectorReader, fields: Fields | None) -> Iterator[Given]:
    source = open_source(reader, MemoryLimit(None))
    has_ids = not isinstance(reader, BaseVectors) or reader.has_ids
    lines = json_lines_of(reader)
    if lines is None and fields is not None:
        raise ConfigError(
            option="metadata", expected="given beside these vectors, which have no other members", got="names of them"
        )
    row = 0
    for batch in source.batches():
        count = batch.vectors.num_rows
        metadata = None
        if lines is not None:
            metadata = _any([_of_line(line, fields, row + at) for at, line in enumerate(islice(lines, count))])
        ids = list(batch.ids) if has_ids and batch.ids else None
        yield Given(ids, batch.vectors, reader.terms, None, metadata)
        row += count


def _of_line(line: str, fields: Fields | None, row: int) -> Any:
    """Return the metadata that a line of JSON has beside its vector."""
    if fields is None and f'"{_METADATA}"' not in line:
        return None
    place = f"document {row}"
    return _described(with_known_names(json.loads(line), place), fields, row)


def _of_texts(reader: TextReader, fields: Fields | None) -> Iterator[Given]:
    documents = iter(reader)
    row = 0
    while batch := list(islice(documents, STREAM_DOCS)):
        yield _of_documents(batch, fields, row)
        row += len(batch)


def _no_scratch() -> Any:
    import tempfile  # for texts alone
    from pathlib import Path

    return Path(tempfile.gettempdir())


def _of_documents(documents: list[Document], fields: Fields | None, row: int) -> Given:
    metadata = [
        _described(document.record, fields, at) if isinstance(document, RecordDocument) else None
        for at, document in enumerate(documents, start=row)
    ]
    return Given([document.id for document in documents], None, None, documents, _any(metadata))


def _of_frame(frame: Any, fields: Fields | None) -> Given:
    """Return a table as a batch: of vectors where it has a column of them, or else of texts."""
    names = [name for name in frame.columns if isinstance(name, str)]
    known = [known_name(name) for name in names]
    rows = [dict(zip(known, values, strict=True)) for values in zip(*(frame[name] for name in names), strict=True)]
    if not set(VECTOR_NAMES).isdisjoint(known):
        records = [{**row, **record} for row, (_, record) in zip(rows, frame_records(frame), strict=True)]
        return _of_records(records, fields, 0)
    batch = _of_documents(list(read_documents(frame, scratch=_no_scratch())), None, 0)
    return batch._replace(metadata=_any([_described(record, fields, at) for at, record in enumerate(rows)]))


def _of_iterable(documents: Iterable[Any], fields: Fields | None) -> list[Given] | Iterator[Given]:
    """Return batches of an iterable: of matrices, or of texts and records."""
    items = iter(documents)
    nothing = object()
    first = next(items, nothing)
    if first is nothing:
        return []
    everything = chain([first], items)
    is_whole = isinstance(documents, (list, tuple))
    if is_matrix(first):
        matrices = map(_checked_matrix, everything)
        return [_of_matrices(list(matrices))] if is_whole else map(_of_matrix, matrices)
    return [_of_records(list(everything), fields, 0)] if is_whole else _of_stream(everything, fields)


def _checked_matrix(matrix: object) -> object:
    if not is_matrix(matrix):
        raise InputError(expected="matrices only", got=f"also {type(matrix).__name__}")
    return matrix


def _of_matrices(matrices: list[object]) -> Given:
    rows = [canonical(matrix_to_csr(matrix), 0) for matrix in matrices]
    return Given(None, join_rows(rows, max(row.num_columns for row in rows)), None, None, None)


def _of_stream(records: Iterator[Any], fields: Fields | None) -> Iterator[Given]:
    row = 0
    while batch := list(islice(records, STREAM_DOCS)):
        yield _of_records(batch, fields, row)
        row += len(batch)


def _of_records(records: list[Any], fields: Fields | None, row: int) -> Given:
    """Return texts and records as a batch: all of them have a vector, or none has."""
    ids: list[Any] = []
    documents: list[Document | None] = []
    vectors: list[Any] = []
    metadata: list[Any] = []
    for at, item in enumerate(records, start=row):
        place = f"document {at}"
        record = _record(item, place)
        ids.append(next((record[name] for name in ID_NAMES if not is_missing(record.get(name))), None))
        vectors.append(next((record[name] for name in VECTOR_NAMES if record.get(name) is not None), None))
        metadata.append(_described(record, fields, at))
        has_text = vectors[-1] is None or any(not is_missing(record.get(name)) for name in ("text", "title"))
        documents.append(document_of(record, "-", place) if has_text else None)
    return Given(
        _all_or_none("ids", ids, row),
        *_vectors(_all_or_none("vectors", vectors, row), row),
        _all_or_none("texts", documents, row),
        _any(metadata),
    )


def _described(record: Mapping[str, Any], fields: Fields | None, row: int) -> Any:
    """Return the metadata of a record: its member "metadata", and the members that were asked for."""
    own = record.get(_METADATA)
    if is_missing(own) or own == "":
        own = None
    elif isinstance(own, str) and own.lstrip().startswith("{"):  # in a file of columns
        own = _parsed(own)
    if fields is None:
        if own is not None and not isinstance(own, Mapping):
            raise InputError(
                where=f"document {row}",
                expected="a mapping of field to value as metadata",
                got=shown(own),
                hint="rename this member, or choose which members are metadata with {metadata=...}",
            )
        return own
    left_out = {*VECTOR_NAMES, _METADATA} if own is None or isinstance(own, Mapping) else set(VECTOR_NAMES)
    others = {name: value for name, value in record.items() if name not in left_out}
    chosen = fields.of_record(others, row)
    return {**own, **chosen} if isinstance(own, Mapping) else chosen


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _any(values: list[Any]) -> list[Any] | None:
    """Return values, or None where all of them are."""
    return values if any(value is not None for value in values) else None


def _record(item: Any, place: str) -> Mapping[str, Any]:
    if isinstance(item, str):
        return {"text": item}
    if isinstance(item, Document):
        return item._asdict()
    if isinstance(item, Mapping):
        return with_known_names(dict(item), place)
    got = "null" if is_missing(item) else type(item).__name__
    raise InputError(where=place, expected="a string, or a record with a text or a vector", got=got)


def _all_or_none(what: str, values: list[Any], row: int) -> list[Any] | None:
    missing = [value is None for value in values]
    if all(missing):
        return None
    if any(missing):
        raise InputError(
            where=f"document {row + missing.index(True)}",
            expected=f"{what} for all documents of a batch, or for none",
            got="none here",
        )
    return values


def _vectors(given: list[Any] | None, row: int) -> tuple[Csr | None, Sequence[str] | None]:
    """Return single vectors as one matrix, and the words of its columns if terms are named by word."""
    if given is None:
        return None, None
    words = GrowingVocabulary()
    named = any(isinstance(one, Mapping) and any(isinstance(term, str) for term in one) for one in given)
    if named:
        _check_named(given, row)
    rows = [query_arrays(one, words.number if named else None, 0) for one in given]
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum([len(terms) for terms, _ in rows], dtype=np.int64)])
    terms = np.concatenate([terms for terms, _ in rows])
    weights = np.concatenate([weights for _, weights in rows])
    width = len(words) if named else int(terms.max(initial=-1)) + 1
    return canonical(Csr(indptr, terms, weights, width), 0), list(words.terms) if named else None


def _check_named(vectors: list[Any], row: int) -> None:
    """Raise InputError if some terms of a batch are numbers where others are words."""
    for at, vector in enumerate(vectors, start=row):
        if not isinstance(vector, Mapping) or not all(isinstance(term, str) for term in vector):
            raise InputError(
                where=f"document {at}", expected="terms that are all words, or all numbers", got="words and numbers"
            )
