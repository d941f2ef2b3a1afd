"""Documents of one file, folder or dataset, each with its place and, if it has one, its id."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from segmax.io.columns import read_columns, read_csv
from segmax.io.irds import IrDatasetsTexts
from segmax.io.json_array import read_json_array
from segmax.io.read_errors import reading
from segmax.io.records import Records, document_of, find_id, read_json_lines
from segmax.io.text_folder import read_text_file, text_files
from segmax.vectors.documents import Document

RECORDS: Mapping[str, Callable[[Path], Records]] = {
    "jsonl-text": read_json_lines,
    "json-text": read_json_array,
    "csv-text": read_csv,
    "tsv-text": read_columns,
}
COLUMN_FORMATS = ("csv-text", "tsv-text")
#: Where a document is, its id if it has one, and the document.
Entries = Iterator[tuple[object, str | None, Document]]


def files_of(parts: Sequence[partial[Entries]]) -> Iterator[Path]:
    """Yield the files that parts read."""
    for part in parts:
        if part.func is folder_entries:
            yield from _text_files(part.args[0])
        elif part.func is record_entries:
            yield part.args[0]


def _text_files(path: Path) -> Iterator[Path]:
    return text_files(path) if path.is_dir() else iter([path])


def record_entries(path: Path, kind: str) -> Entries:
    """Yield the documents of a file of records."""
    with reading(path):
        for place, record in RECORDS[kind](path):
            name = find_id(record, place)
            yield place, name, document_of(record, name or "", place)


def folder_entries(path: Path) -> Entries:
    """Yield a document per file of a folder, or the one of a file."""
    folder = path if path.is_dir() else path.parent
    for file in _text_files(path):
        with reading(file):
            document = read_text_file(file, folder)
        yield f"'{file}'", document.id, document


def dataset_entries(texts: IrDatasetsTexts) -> Entries:
    """Yield the documents of a collection of ir_datasets."""
    for document in texts:
        yield f"the ir_datasets collection {texts.name!r}", document.id, document
