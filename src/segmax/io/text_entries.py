"""Documents of one file, folder or dataset, each with its place and, if it has one, its id."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from segmax import _core
from segmax.base.parallel import Workers
from segmax.io.columns import read_columns, read_csv
from segmax.io.irds import IrDatasetsTexts
from segmax.io.json_array import read_json_array
from segmax.io.read_errors import reading
from segmax.io.records import Records, document_of, find_id, json_records, read_json_lines
from segmax.io.streams import lines_of, whole_lines
from segmax.io.text_folder import read_text_file, text_files
from segmax.vectors.documents import Document
from segmax.vectors.packed_texts import PackedTexts

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
        yield from _entries(RECORDS[kind](path))


def _entries(records: Records) -> Entries:
    for place, record in records:
        name = find_id(record, place)
        yield place, name, document_of(record, name or "", place)


class PackedLines(NamedTuple):
    """The texts of some lines of JSON, and their ids, if they have any; or the lines themselves, if one is odd."""

    texts: PackedTexts | None
    entries: Callable[[], Entries]


def packed_lines(path: Path) -> Iterator[PackedLines]:
    """Yield the documents of a file of JSON lines, thousands at a time."""
    before = 0
    with reading(path), Workers(1) as worker:
        for piece, found in worker.map(_packed_piece, whole_lines(path)):
            entries = partial(_piece_entries, piece, path, before)
            yield PackedLines(None if found is None else PackedTexts(*found), entries)
            before += piece.count(b"\n")


def _packed_piece(piece: bytes) -> tuple[bytes, Any]:
    return piece, _core.read_json_texts(piece)


def _piece_entries(piece: bytes, path: Path, before: int) -> Entries:
    with reading(path):
        yield from _entries(json_records(lines_of(piece, path, before), path))


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
