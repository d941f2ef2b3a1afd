"""What can be added to a collection, as batches: matrices, files, readers, texts, tables and records."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np

from segmax.base.checks import check_listed
from segmax.base.errors import InputError
from segmax.base.memory import MemoryLimit
from segmax.base.vocabulary import GrowingVocabulary
from segmax.building.inputs import open_source
from segmax.io import Document, TextReader
from segmax.io.documents import open_documents
from segmax.io.frames import is_frame, is_series
from segmax.io.records import ID_NAMES, VECTOR_NAMES, document_of, is_missing, with_known_names
from segmax.storage.tables import listed_ids
from segmax.text.documents import read_documents
from segmax.vectors.csr import Csr, canonical, is_matrix, matrix_to_csr
from segmax.vectors.documents import BaseVectors, VectorReader
from segmax.vectors.queries import query_arrays

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
    """What belongs to the documents besides what they say, given beside them: one each, or None."""

    ids: Iterable[Any] | None = None
    texts: Iterable[Any] | None = None
    metadata: Iterable[Any] | None = None

    def checked(self) -> dict[str, Iterator[Any]]:
        """Return iterators over what was given; raise InputError for what has no order."""
        for name, values in self._asdict().items():
            if values is not None:
                check_listed(f"{name} as a list or another iterable, one per document", values)
        given = {
            "ids": None if self.ids is None else listed_ids(self.ids),
            "texts": self.texts,
            "metadata": self.metadata,
        }
        return {name: iter(values) for name, values in given.items() if values is not None}


def given_batches(documents: object, columns: Columns) -> Iterator[Given]:
    """Yield documents in batches. What is in memory, a matrix or a list, is one batch; streams are cut."""
    beside = columns.checked()
    row = 0
    for batch in _batches(documents):
        yield _joined(batch, beside, row)
        row += batch.num_docs
    for name, values in beside.items():
        if next(values, beside) is not beside:
            raise InputError(expected=f"{row} {name}, one per document", got="more")


def _joined(batch: Given, beside: Mapping[str, Iterator[Any]], row: int) -> Given:
    """Return a batch with its share of what was given beside the documents."""
    found: dict[str, Any] = {}
    for name, values in beside.items():
        found[name] = list(islice(values, batch.num_docs))
        if len(found[name]) != batch.num_docs:
            raise InputError(expected=f"one of {name} per document", got=f"{row + len(found[name])}, then no more")
        if name != "texts" and getattr(batch, name) is not None:
            raise InputError(expected=f"{name} once", got=f"{name} of the documents, and {name} beside them")
    if "texts" in found:
        if batch.vectors is None:
            raise InputError(expected="texts once", got="texts as documents, and texts beside them")
        names = ["-"] * batch.num_docs
        found["texts"] = [
            _text(text, name, f"document {row + at}")
            for at, (text, name) in enumerate(zip(found["texts"], names, strict=True))
        ]
    return batch._replace(**found)


def _text(text: Any, name: str, place: str) -> Document:
    if isinstance(text, Document):
        return text
    if isinstance(text, tuple) and len(text) == 2:
        text = {"title": text[0], "text": text[1]}
    return document_of(text if isinstance(text, Mapping) else {"text": text}, name, place)


def _batches(documents: object) -> Iterator[Given]:
    if is_matrix(documents):
        yield _of_matrix(documents)
    elif isinstance(documents, (str, os.PathLike)) or _are_paths(documents):
        yield from _of_files(documents)
    elif isinstance(documents, VectorReader):
        yield from _of_vectors(documents)
    elif (
        isinstance(documents, TextReader)
        or is_frame(documents)
        or is_series(documents)
        or isinstance(documents, Mapping)
    ):
        yield from _of_texts(documents)
    else:
        check_listed("documents as a matrix, files, texts or records", documents)
        yield from _of_iterable(documents)  # type: ignore[arg-type]


def _are_paths(documents: object) -> bool:
    return (
        isinstance(documents, (list, tuple)) and bool(documents) and all(isinstance(d, os.PathLike) for d in documents)
    )


def _of_matrix(matrix: object) -> Given:
    return Given(None, canonical(matrix_to_csr(matrix), 0), None, None, None)


def _of_files(files: Any) -> Iterator[Given]:
    reader = open_documents(files)
    yield from _of_vectors(reader) if isinstance(reader, VectorReader) else _of_texts(reader)


def _of_vectors(reader: VectorReader) -> Iterator[Given]:
    source = open_source(reader, MemoryLimit(None))
    has_ids = not isinstance(reader, BaseVectors) or reader.has_ids
    for batch in source.batches():
        words = reader.terms
        yield Given(list(batch.ids) if has_ids and batch.ids else None, batch.vectors, words, None, None)


def _of_texts(texts: object) -> Iterator[Given]:
    reader = read_documents(texts, scratch=_no_scratch())
    if isinstance(texts, (list, Mapping)) or is_frame(texts) or is_series(texts):
        yield _of_documents(list(reader))
        return
    documents = iter(reader)
    while batch := list(islice(documents, STREAM_DOCS)):
        yield _of_documents(batch)


def _no_scratch() -> Any:
    import tempfile  # for texts alone
    from pathlib import Path

    return Path(tempfile.gettempdir())


def _of_documents(documents: list[Document]) -> Given:
    return Given([document.id for document in documents], None, None, documents, None)


def _of_iterable(documents: Iterable[Any]) -> Iterator[Given]:
    """Yield batches of an iterable: of matrices, each a batch, or of texts and records."""
    items = iter(documents)
    first = next(items, None)
    if first is None:
        return
    everything = chain([first], items)
    if is_matrix(first):
        for matrix in everything:
            if not is_matrix(matrix):
                raise InputError(expected="matrices only", got=f"also {type(matrix).__name__}")
            yield _of_matrix(matrix)
        return
    if isinstance(documents, (list, tuple)):
        yield _of_records(list(everything), 0)
        return
    row = 0
    while batch := list(islice(everything, STREAM_DOCS)):
        yield _of_records(batch, row)
        row += len(batch)


def _of_records(records: list[Any], row: int) -> Given:
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
        metadata.append(record.get(_METADATA))
        has_text = vectors[-1] is None or any(not is_missing(record.get(name)) for name in ("text", "title"))
        documents.append(document_of(record, "-", place) if has_text else None)
    return Given(
        _all_or_none("ids", ids, row),
        *_vectors(_all_or_none("vectors", vectors, row)),
        _all_or_none("texts", documents, row),
        metadata if any(one is not None for one in metadata) else None,
    )


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


def _vectors(given: list[Any] | None) -> tuple[Csr | None, Sequence[str] | None]:
    """Return single vectors as one matrix, and the words of its columns if terms are named by word."""
    if given is None:
        return None, None
    words = GrowingVocabulary()
    named = any(isinstance(one, Mapping) and any(isinstance(term, str) for term in one) for one in given)
    rows = [query_arrays(one, words.number if named else None, 0) for one in given]
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum([len(terms) for terms, _ in rows], dtype=np.int64)])
    terms = np.concatenate([terms for terms, _ in rows])
    weights = np.concatenate([weights for _, weights in rows])
    width = len(words) if named else int(terms.max(initial=-1)) + 1
    return canonical(Csr(indptr, terms, weights, width), 0), list(words.terms) if named else None
