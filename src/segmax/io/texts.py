"""Texts: BEIR folders, lines and arrays of JSON, columns, folders of text files, and the collections of ir_datasets."""

from __future__ import annotations

import itertools
import os
from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from segmax.base.checks import checked_choice
from segmax.base.errors import InputError
from segmax.io.irds import IrDatasetsTexts, ir_dataset_id
from segmax.io.read_errors import check_distinct, no_documents, no_file, reading
from segmax.io.recognize import TEXT_FORMATS, Recognizer, no_texts, shards_of, unknown_folder
from segmax.io.records import (
    Place,
    check_all_or_none,
    used_names,
)
from segmax.io.spooled import Spooled, is_stream, renaming
from segmax.io.text_entries import (
    COLUMN_FORMATS,
    RECORDS,
    Entries,
    PackedLines,
    dataset_entries,
    files_of,
    folder_entries,
    packed_lines,
    record_entries,
)
from segmax.vectors.documents import Document, TextReader
from segmax.vectors.packed_texts import PackedTexts, batches_of

Source = str | os.PathLike[str]


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
        return IrDatasetsTexts(name)
    return FileTexts(sources, formats, None if scratch is None else Path(scratch))


def _text_format(path: Path, recognizer: Recognizer) -> str:
    """Return the format of a file or folder of texts."""
    kind = recognizer.recognize(path)
    if kind in TEXT_FORMATS:
        return str(kind)
    raise no_texts(path, kind)


class FileTexts:
    """Files and folders, one after the other."""

    num_docs = None

    def __init__(
        self,
        sources: Sequence[Source],
        formats: Sequence[str | None],
        scratch: Path | None,
        spools: Iterable[Spooled] = (),
        recognizer: Recognizer | None = None,
    ) -> None:
        self._spools = list(spools)
        self._recognizer = recognizer or Recognizer()
        self._is_checked = False
        with renaming(self._spools):
            parts = [self._opened(*each, scratch) for each in zip(sources, formats, strict=True)]
            check_distinct([files_of(several) for several in parts])
            self._parts = list(itertools.chain.from_iterable(parts))
            first = next(iter(self._entries()), None)
            if first is None:
                raise no_documents(file for several in parts for file in files_of(several))
        #: Whether no document has an id, so that they are numbered.
        self.numbered = first[1] is None

    def __iter__(self) -> Iterator[Document]:
        return itertools.chain.from_iterable(self._checked([document] for _, document in self._located()))

    def batches(self) -> Iterator[Sequence[Document]]:
        """Yield the documents many at a time; those of lines of JSON are packed."""
        return self._checked(self._batches())

    def _checked(self, batches: Iterable[Sequence[Document]]) -> Iterator[Sequence[Document]]:
        """Yield documents; raise InputError at the end if an id was there twice."""
        hashes = array("q")
        with renaming(self._spools):
            for batch in batches:
                ids = batch.ids if isinstance(batch, PackedTexts) else (document.id for document in batch)
                hashes.extend(map(hash, ids))
                yield batch
            if not self._is_checked:
                self._check_unique(hashes)
                self._is_checked = True

    def _opened(self, source: Source, format: str | None, scratch: Path | None) -> list[partial[Entries]]:
        """Return what reads the files of a source."""
        if is_stream(source):
            self._spools.append(Spooled(source, scratch))
            path = self._spools[-1].path
        elif (name := ir_dataset_id(source)) is not None:
            return [partial(dataset_entries, IrDatasetsTexts(name))]
        else:
            path = Path(source)
        with reading(path):
            if not path.exists():
                raise no_file(path)
            return _parts_of(path, format, self._recognizer)

    def partly_read(self) -> tuple[list[str], list[str]]:
        """Return the columns that are read and those that are ignored, of files in which some are.

        Where documents have no ids, the members of the first object of JSON count as columns, too.
        """
        used: dict[str, None] = {}
        ignored: dict[str, None] = {}
        for part in self._parts:
            if part.func is not record_entries or (part.args[1] not in COLUMN_FORMATS and not self.numbered):
                continue
            path, kind = part.args
            record = next((record for _, record in RECORDS[kind](path)), {})
            read = used_names(record)
            if len(read) < len(record):
                used.update(dict.fromkeys(read))
                ignored.update(dict.fromkeys(str(name) for name in record if name not in read))
        return list(used), list(ignored)

    def _entries(self) -> Entries:
        return itertools.chain.from_iterable(part() for part in self._parts)

    def _batches(self) -> Iterator[Sequence[Document]]:
        row = 0
        for part in self._parts:
            several = packed_lines(part.args[0]) if part.args[1:] == ("jsonl-text",) else [PackedLines(None, part)]
            for lines in several:
                for batch in self._named(lines, row):
                    yield batch
                    row += len(batch)

    def _named(self, lines: PackedLines, row: int) -> Iterator[Sequence[Document]]:
        """Yield documents, which now have ids, in batches; `row` is the first of them."""
        packed = lines.texts
        if packed is not None and bool(packed.ids) is not self.numbered:
            if self.numbered:
                packed.ids = [str(number) for number in range(row, row + len(packed.lengths) // 2)]
            yield packed
        else:
            yield from batches_of(document for _, document in self._located(lines.entries(), row))

    def _located(self, entries: Entries | None = None, first: int = 0) -> Iterator[tuple[object, Document]]:
        """Yield documents, by default all, which now have ids, with their places; `first` is the row of the first."""
        for row, (place, name, document) in enumerate(self._entries() if entries is None else entries, start=first):
            if (name is None) is not self.numbered:
                check_all_or_none(name, place, numbered=self.numbered)
            yield place, document if name is not None else document._replace(id=self._number(place, row))

    def _number(self, place: object, row: int) -> str:
        """Return what a document without id is called: its row, or its line in a file of text."""
        by_line = len(self._parts) == 1 and self._parts[0].args[1:] == ("tsv-text",)
        return str(place.line - 1 if by_line and isinstance(place, Place) else row)

    def _check_unique(self, hashes: array[int]) -> None:
        """Raise if an id occurs twice. Files are read again, to find the lines, only if hashes coincide."""
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


def _parts_of(path: Path, format: str | None, recognizer: Recognizer) -> list[partial[Entries]]:
    """Return what reads a file or folder; `format` is None where it is to be recognized."""
    kind = format or _text_format(path, recognizer)
    if kind == "files":
        return [partial(folder_entries, path)]
    if kind == "beir":
        corpus = min(path.glob("corpus.jsonl*"), default=None)
        if corpus is None:
            raise no_file(path / "corpus.jsonl")
        return [partial(record_entries, corpus, "jsonl-text")]
    if not path.is_dir():
        return [partial(record_entries, path, kind)]
    files = shards_of(path)
    if not files:
        raise unknown_folder(path)
    return [partial(record_entries, file, format or _text_format(file, recognizer)) for file in files]
