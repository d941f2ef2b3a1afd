"""Texts: BEIR folders, lines and arrays of JSON, columns, folders of text files, and the collections of ir_datasets."""

from __future__ import annotations

import contextlib
import itertools
import os
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from segmax.base.checks import checked_choice
from segmax.base.errors import InputError
from segmax.io.columns import read_columns, read_csv
from segmax.io.irds import downloading, ir_dataset_id, load_ir_dataset
from segmax.io.json_array import read_json_array
from segmax.io.read_errors import check_distinct, no_documents, no_file, reading
from segmax.io.recognize import TEXT_FORMATS, no_texts, recognize, shards_of, unknown_folder
from segmax.io.records import (
    TEXT_NAMES,
    Place,
    Records,
    check_all_or_none,
    checked_id,
    document_of,
    find_id,
    read_json_lines,
    used_names,
)
from segmax.io.spooled import Spooled, is_stream, renamed
from segmax.io.text_folder import read_text_file, text_files
from segmax.vectors.documents import Document, TextReader

Source = str | os.PathLike[str]
_RECORDS: Mapping[str, Callable[[Path], Records]] = {
    "jsonl-text": read_json_lines,
    "json-text": read_json_array,
    "csv-text": read_csv,
    "tsv-text": read_columns,
}
_COLUMNS = ("csv-text", "tsv-text")


def open_texts(
    source: Source | Sequence[Source],
    *,
    format: str | Sequence[str | None] | None = None,
    scratch: Source | None = None,
) -> TextReader:
    r"""Open a collection of texts.

    Parameters
    ----------
    source
        A file or folder, or several, read one after the other:

        - a BEIR folder (corpus.jsonl);
        - lines of JSON ({"id", "title", "text"}, or other names that are in use), or a folder of such files;
        - a JSON array of objects, or of strings;
        - CSV or TSV with a header; TSV without one has id and text, or id, title and text; one column is text alone;
        - a .txt file: a text per line;
        - a folder of .txt and .md files: a document each, its id the path, its title the first heading of Markdown or
          else the name of the file;
        - an ir_datasets id such as "beir/nfcorpus", or "irds:beir/nfcorpus";
        - "-": standard input, or a pipe, with any of the files above.

        Files may be gzip, zstd or xz. Where no text has an id, they are numbered from 0.
    format
        One of the keys of `TEXT_FORMATS`, for all sources, or a list of them, one per source. None: what the content
        shows, or the name.
    scratch
        The folder in which standard input waits, to be read again; None: that of temporary files.

    Returns
    -------
    TextReader
        Goes through the documents, from the first, every time it is iterated.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "texts.tsv")
    >>> _ = path.write_text("d1\tHello\nd2\tGood bye\n")
    >>> [document.text for document in open_texts(path)]
    ['Hello', 'Good bye']
    """
    sources = [source] if isinstance(source, (str, os.PathLike)) else list(source)
    if not sources:
        raise InputError(expected="a file or folder of texts", got="none")
    formats = [format] * len(sources) if format is None or isinstance(format, str) else list(format)
    for one in filter(None, formats):
        checked_choice("format", one, tuple(TEXT_FORMATS))
    if len(sources) == 1 and not is_stream(sources[0]) and (name := ir_dataset_id(sources[0])) is not None:
        return _IrDatasetsTexts(name)
    return _FileTexts(sources, formats, None if scratch is None else Path(scratch))


def text_format(path: Path) -> str:
    """Return the format of a file or folder of texts."""
    kind = recognize(path)
    if kind in TEXT_FORMATS:
        return str(kind)
    raise no_texts(path, kind)


# --- files -----------------------------------------------------------------------------------------------------------

#: Where a document is, its id if it has one, and the document.
_Entries = Iterator[tuple[object, str | None, Document]]


class _FileTexts:
    """Files and folders, one after the other."""

    num_docs = None

    def __init__(self, sources: Sequence[Source], formats: Sequence[str | None], scratch: Path | None) -> None:
        self._spools: list[Spooled] = []
        self._is_checked = False
        with self._renaming():
            parts = [self._opened(*each, scratch) for each in zip(sources, formats, strict=True)]
            check_distinct([_files_of(several) for several in parts])
            self._parts = list(itertools.chain.from_iterable(parts))
            first = next(iter(self._entries()), None)
            if first is None:
                raise no_documents(file for several in parts for file in _files_of(several))
        #: Whether no document has an id, so that they are numbered.
        self.numbered = first[1] is None

    def __iter__(self) -> Iterator[Document]:
        hashes = array("q")
        with self._renaming():
            for _, document in self._located():
                hashes.append(hash(document.id))
                yield document
            if not self._is_checked:
                self._check_unique(hashes)
                self._is_checked = True

    def _opened(self, source: Source, format: str | None, scratch: Path | None) -> list[partial[_Entries]]:
        """Return what reads the files of a source."""
        if is_stream(source):
            self._spools.append(Spooled(source, scratch))
            path = self._spools[-1].path
        elif (name := ir_dataset_id(source)) is not None:
            return [partial(_dataset_entries, _IrDatasetsTexts(name))]
        else:
            path = Path(source)
        with reading(path):
            if not path.exists():
                raise no_file(path)
            return _parts_of(path, format)

    def partly_read(self) -> tuple[list[str], list[str]]:
        """Return the columns that are read and those that are ignored, of files in which some are.

        Where documents have no ids, the members of the first object of JSON count as columns, too.
        """
        used: dict[str, None] = {}
        ignored: dict[str, None] = {}
        for part in self._parts:
            if part.func is not _record_entries or (part.args[1] not in _COLUMNS and not self.numbered):
                continue
            path, kind = part.args
            record = next((record for _, record in _RECORDS[kind](path)), {})
            read = used_names(record)
            if len(read) < len(record):
                used.update(dict.fromkeys(read))
                ignored.update(dict.fromkeys(str(name) for name in record if name not in read))
        return list(used), list(ignored)

    def _entries(self) -> _Entries:
        return itertools.chain.from_iterable(part() for part in self._parts)

    def _located(self) -> Iterator[tuple[object, Document]]:
        """Yield every document, which now has an id, with its place."""
        for row, (place, name, document) in enumerate(self._entries()):
            if (name is None) is not self.numbered:
                check_all_or_none(name, place, numbered=self.numbered)
            yield place, document if name is not None else document._replace(id=self._number(place, row))

    def _number(self, place: object, row: int) -> str:
        """Return what a document without id is called: its row, or its line in a file of text."""
        by_line = len(self._parts) == 1 and self._parts[0].args[1:] == ("tsv-text",)
        return str(place.line - 1 if by_line and isinstance(place, Place) else row)

    def _check_unique(self, hashes: array[int]) -> None:
        """Raise if an id comes twice. Only where hashes coincide are the files read again, to tell the lines."""
        values = np.sort(np.frombuffer(hashes, np.int64))
        twice = set(values[1:][values[1:] == values[:-1]].tolist())
        first: dict[str, object] = {}
        for place, document in self._located() if twice else ():
            if hash(document.id) not in twice:
                continue
            if document.id in first:
                raise InputError(
                    where=place,
                    expected="every id once",
                    got=f"{document.id!r} again, first at {first[document.id]}",
                )
            first[document.id] = place

    @contextlib.contextmanager
    def _renaming(self) -> Iterator[None]:
        """Call standard input so in messages, not by the name of its scratch file."""
        try:
            yield
        except InputError as error:
            if not self._spools:
                raise
            raise renamed(error, self._spools) from error


def _parts_of(path: Path, format: str | None) -> list[partial[_Entries]]:
    """Return what reads a file or folder; `format` is None where it is to be recognized."""
    kind = format or text_format(path)
    if kind == "files":
        return [partial(_folder_entries, path)]
    if kind == "beir":
        corpus = min(path.glob("corpus.jsonl*"), default=None)
        if corpus is None:
            raise no_file(path / "corpus.jsonl")
        return [partial(_record_entries, corpus, "jsonl-text")]
    if not path.is_dir():
        return [partial(_record_entries, path, kind)]
    files = shards_of(path)
    if not files:
        raise unknown_folder(path)
    return [partial(_record_entries, file, text_format(file) if format is None else format) for file in files]


def _files_of(parts: Sequence[partial[_Entries]]) -> Iterator[Path]:
    """Yield the files that parts read."""
    for part in parts:
        if part.func is _folder_entries:
            yield from _text_files(part.args[0])
        elif part.func is _record_entries:
            yield part.args[0]


def _text_files(path: Path) -> Iterator[Path]:
    return text_files(path) if path.is_dir() else iter([path])


def _record_entries(path: Path, kind: str) -> _Entries:
    with reading(path):
        for place, record in _RECORDS[kind](path):
            name = find_id(record, place)
            yield place, name, document_of(record, name or "", place)


def _folder_entries(path: Path) -> _Entries:
    folder = path if path.is_dir() else path.parent
    for file in _text_files(path):
        with reading(file):
            document = read_text_file(file, folder)
        yield f"'{file}'", document.id, document


# --- ir_datasets -----------------------------------------------------------------------------------------------------


class _IrDatasetsTexts:
    """A collection of ir_datasets, which it downloads if need be."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._docs = load_ir_dataset(name)
        if not self._docs.has_docs():
            msg = f"the ir_datasets collection {name!r} has no documents"
            raise InputError(msg)

    @property
    def num_docs(self) -> int | None:
        """How many documents ir_datasets counts."""
        with downloading(self.name):
            count = self._docs.docs_count()
        return None if count is None else int(count)

    def __iter__(self) -> Iterator[Document]:
        with downloading(self.name):
            for doc in self._docs.docs_iter():
                yield _document(doc)


def _dataset_entries(texts: _IrDatasetsTexts) -> _Entries:
    for document in texts:
        yield f"the ir_datasets collection {texts.name!r}", document.id, document


def _document(doc: Any) -> Document:
    title = str(getattr(doc, "title", "") or "")
    plain = next((getattr(doc, name) for name in TEXT_NAMES if isinstance(getattr(doc, name, None), str)), None)
    text = plain if plain is not None else doc.default_text()
    return Document(checked_id(str(doc.doc_id), "ir_datasets"), title if plain is not None else "", text)
