"""Texts as documents: from files or from memory, read once even where they are also stored."""

from __future__ import annotations

import itertools
import marshal
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from segmax.base.errors import InputError
from segmax.base.scratch import ScratchFile
from segmax.io import Document, TextReader, open_texts
from segmax.io.frames import frame_records, is_frame, is_series, mapping_records, series_records
from segmax.io.records import check_all_or_none, checked_id, document_of, find_id, is_missing, with_known_names
from segmax.text.fields import Fields
from segmax.vectors.packed_texts import PackedRows, PackedTexts, batches_of


def read_documents(texts: object, scratch: Path) -> TextReader:
    """Return texts as documents, from a file or from memory; see `segmax.from_texts` for what texts may be."""
    if isinstance(texts, (str, os.PathLike)):
        return open_texts(texts, scratch=scratch)
    if is_frame(texts):
        return GivenTexts(partial(frame_records, texts), len(texts))  # type: ignore[arg-type]
    if is_series(texts):
        return GivenTexts(partial(series_records, texts), len(texts))  # type: ignore[arg-type]
    if isinstance(texts, Mapping):
        return GivenTexts(partial(mapping_records, texts), len(texts))
    if isinstance(texts, Iterable) and not isinstance(texts, bytes):
        return GivenTexts(partial(_each, texts), num_documents(texts))
    raise InputError(
        expected="texts as a path, an ir_datasets id, an iterable of texts, a DataFrame or a mapping of id to text",
        got=type(texts).__name__,
    )


def num_documents(texts: Iterable[object]) -> int | None:
    """Return how many texts there are, where that is known before the end."""
    if isinstance(texts, TextReader):
        return texts.num_docs
    return len(texts) if isinstance(texts, Sized) else None


class GivenTexts:
    """Texts in memory as documents; where none has an id, they are numbered from 0."""

    def __init__(self, records: Callable[[], Iterator[tuple[object, Any]]], num_docs: int | None) -> None:
        self._records = records
        self.num_docs = num_docs

    def __iter__(self) -> Iterator[Document]:
        numbered: bool | None = None
        for row, (place, given) in enumerate(self._records()):
            is_document = isinstance(given, Document)
            record = given if is_document else with_known_names(given, place)
            name = checked_id(given.id, place) if is_document else find_id(record, place)
            numbered = name is None if numbered is None else numbered
            check_all_or_none(name, place, numbered=numbered)
            yield given if is_document else document_of(record, str(row) if name is None else name, place)


def _each(texts: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the texts of an iterable, each with its place."""
    for row, text in enumerate(texts):
        place = f"document {row}"
        if isinstance(text, str):
            yield place, {"text": text}
        elif isinstance(text, (Document, Mapping)):
            yield place, text
        else:
            got = "null" if is_missing(text) else type(text).__name__
            raise InputError(where=place, expected="a string, a Document or a mapping with 'text'", got=got)


class PeekedTexts:
    """Documents whose first few are known before they are read.

    Parameters
    ----------
    documents
        Read once.
    count
        How many to read ahead.

    Examples
    --------
    >>> texts = PeekedTexts([Document("a", "", "cats"), Document("b", "", "dogs")], 1)
    >>> texts.first[0].id, [document.id for document in texts], texts.num_docs
    ('a', ['a', 'b'], 2)
    """

    def __init__(self, documents: Iterable[Document], count: int) -> None:
        self.num_docs = num_documents(documents)
        self.first: list[Document] = []
        self._rest = iter(documents)
        self._failure: Exception | None = None
        try:
            self.first += itertools.islice(self._rest, count)
        except Exception as error:  # raised where it belongs, behind what was read before it
            self._failure = error

    def __iter__(self) -> Iterator[Document]:
        """Yield all documents, once."""
        yield from self.first
        if self._failure is not None:
            raise self._failure
        yield from self._rest


class KeptTexts:
    """Documents that go to a scratch file as they are read, so that they can be stored without a second reading.

    Parameters
    ----------
    documents
        Read once.
    folder
        Where to put the scratch file.
    texts
        Whether to keep titles and texts.
    fields
        What to keep as metadata; None: nothing.

    Examples
    --------
    >>> with KeptTexts([Document("a", "Cats", "They sleep.")], Path(".")) as kept:
    ...     [document.id for document in kept], list(kept.texts())
    (['a'], [('Cats', 'They sleep.')])
    """

    def __init__(
        self, documents: Iterable[Document], folder: Path, *, texts: bool = True, fields: Fields | None = None
    ) -> None:
        self._documents = documents
        self._texts = texts
        self._fields = fields
        self.num_docs = num_documents(documents)
        self._file = ScratchFile(folder)
        self._arrays: list[tuple[Any, int]] = []  # in the file, four for every batch

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.__exit__()

    def __iter__(self) -> Iterator[Document]:
        """Yield the documents, once."""
        return itertools.chain.from_iterable(self.batches())

    def batches(self) -> Iterator[Sequence[Document]]:
        """Yield the documents many at a time, once."""
        row = 0
        # Packed documents have forgotten the record that they were made of.
        for batch in batches_of(self._documents if self._fields is None else iter(self._documents)):
            self._keep(batch, row)
            yield batch
            row += len(batch)

    def _keep(self, batch: Sequence[Document], first_row: int) -> None:
        packed, metadata = PackedTexts.of_documents([]), []
        if self._texts:
            packed = batch if isinstance(batch, PackedTexts) else PackedTexts.of_documents(batch)
        if self._fields is not None:
            metadata = [self._fields.of_document(doc, row) for row, doc in enumerate(batch, start=first_row)]
        content = (np.frombuffer(marshal.dumps(metadata), dtype=np.uint8), packed.content)
        padding = np.zeros(-sum(map(len, content)) % packed.lengths.itemsize, dtype=np.uint8)  # all stays aligned
        for array in (packed.lengths, *content, padding):
            self._file.write(array)
            self._arrays.append((array.dtype, len(array)))

    def texts(self) -> PackedRows:
        """Return title and text of every document that was read, as they are asked for."""
        return PackedRows(PackedTexts([], lengths, content) for lengths, _, content in self._kept())

    def metadata(self) -> Iterator[dict[str, Any] | None]:
        """Yield the metadata of every document that was read."""
        for _, metadata, _ in self._kept():
            yield from marshal.loads(metadata.data)

    def _kept(self) -> Iterator[tuple[NDArray[Any], ...]]:
        arrays = self._file.mapped(self._arrays)
        for first in range(0, len(arrays), 4):
            yield tuple(arrays[first : first + 3])
