"""Stage 1 for texts: every file is read on its own, into pieces of ids, texts and metadata."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from segmax.base.errors import InputError
from segmax.io.irds import ir_dataset_id
from segmax.io.recognize import Recognizer, known_format, shards_of
from segmax.io.texts import open_texts
from segmax.shards.making.columns import column_strings, metadata_column, string_column
from segmax.shards.making.packed import Packed
from segmax.shards.making.pieces import PieceWriter
from segmax.shards.making.tasks import Task, Workplace, in_unit
from segmax.shards.making.unique import IdHashes, unit_is_whole, unit_name
from segmax.storage.components import Arrays
from segmax.text.fields import Fields
from segmax.vectors.documents import Document

_BATCH_DOCS = 1024


def text_units(sources: Sequence[str]) -> list[str]:
    """Return the files to read, each by a task of its own; folders of lines of JSON are as many as they have files."""
    units: list[str] = []
    recognizer = Recognizer()
    for source in sources:
        path = Path(source)
        if ir_dataset_id(source) is None and path.is_dir() and known_format(path, recognizer) == "jsonl-text":
            units += [str(file.absolute()) for file in shards_of(path)]
        else:
            units.append(source if ir_dataset_id(source) is not None else str(path.absolute()))
    return units


class TextStream(NamedTuple):
    """Texts on their way into pieces."""

    documents: Iterable[Document]
    is_numbered: bool  #: whether they have no ids of their own


class KeepTexts(Task):
    """Reads a unit of texts, and writes them as pieces."""

    unit: str
    fields: Fields | None  #: what to keep as metadata

    @property
    @abc.abstractmethod
    def where(self) -> str:
        """What messages call the unit."""

    @property
    def output(self) -> str:
        """The file that says that the task is done."""
        return unit_name(self.unit)

    def holds(self, found: Packed, work: Workplace) -> bool:
        """Whether all pieces are there."""
        return unit_is_whole(self.unit, found.about["pieces"], work)

    @abc.abstractmethod
    def stream(self, work: Workplace) -> TextStream:
        """Return the texts."""

    def make(self, work: Workplace) -> Mapping[str, Any]:
        """Write the pieces, and the hashes of ids."""
        writer = PieceWriter(work, f"pieces/{self.unit}")
        hashes = IdHashes()
        with in_unit(self.where):
            stream = self.stream(work)
            for arrays, count in text_columns(stream.documents, self.fields):
                writer.add(arrays, count)
                hashes.add(arrays)
        writer.flush()
        hashes.keep(self.unit, work)
        about = {
            "unit": self.unit,
            "where": self.where,
            "pieces": writer.entries,
            "num_docs": sum(entry["num_docs"] for entry in writer.entries),
            "is_numbered": stream.is_numbered,
        }
        work.keep(self.output, {}, about)
        return about


@dataclasses.dataclass(frozen=True)
class ReadTexts(KeepTexts):
    """Reads one file of texts, or one folder of text files."""

    unit: str
    path: str
    fields: Fields | None

    @property
    def where(self) -> str:
        """What messages call the file."""
        return f"'{self.path}'"

    def stream(self, work: Workplace) -> TextStream:
        """Open the file."""
        reader = open_texts(self.path, scratch=work.scratch_folder())
        return TextStream(reader, bool(getattr(reader, "numbered", False)))


def text_columns(documents: Iterable[Document], fields: Fields | None) -> Iterator[tuple[Arrays, int]]:
    """Yield documents as columns, a few at a time, with their number."""
    row = 0
    stream = iter(documents)
    while batch := list(islice(stream, _BATCH_DOCS)):
        columns = {
            **string_column("id", [document.id for document in batch]),
            **string_column("title", [document.title for document in batch]),
            **string_column("body", [document.text for document in batch]),
        }
        if fields is not None:
            described = [fields.of_document(document, row + at) for at, document in enumerate(batch)]
            columns.update(metadata_column(described))
        yield columns, len(batch)
        row += len(batch)


def whole_texts(columns: Arrays, *, title: bool) -> list[Document]:
    """Return the documents of a piece as an encoder takes them, with their titles or without."""
    bodies = column_strings(columns, "body")
    titles = column_strings(columns, "title") if title else [""] * len(bodies)
    return [Document("", *one) for one in zip(titles, bodies, strict=True)]


def naming_of(units: Sequence[Mapping[str, Any]]) -> str:
    """Return what documents are called by, as in `Piece`; raise InputError if only some have ids."""
    units = [unit for unit in units if unit["num_docs"]]
    for unit in units:
        if unit["is_numbered"] != units[0]["is_numbered"]:
            raise InputError(
                where=unit["where"],
                expected="ids, as in those before" if unit["is_numbered"] else "no ids, as in those before",
                got="none" if unit["is_numbered"] else "some",
                hint="give ids to all, or to none",
            )
    return "names" if len(units) > 1 and units[0]["is_numbered"] else "given"
