"""Stage 1 for vectors: every file is read, checked and pruned on its own, into pieces and statistics of terms."""

from __future__ import annotations

import abc
import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from segmax.base.errors import ConfigError, InputError
from segmax.base.memory import MemoryLimit
from segmax.base.vocabulary import GrowingVocabulary
from segmax.building.inputs import Source
from segmax.io.joined import json_lines_of
from segmax.io.vectors import open_vectors
from segmax.shards.making.columns import column_strings, metadata_column, selected_columns, string_column, vector_arrays
from segmax.shards.making.packed import Packed
from segmax.shards.making.pieces import Piece, PieceWriter, numbered_pieces
from segmax.shards.making.statistics import GrowingStatistics, merged_statistics
from segmax.shards.making.tasks import Task, Workplace, in_unit
from segmax.shards.making.unique import IdHashes, unit_is_whole, unit_name, unit_of
from segmax.storage.components import Arrays
from segmax.storage.tables import id_arrays, term_arrays
from segmax.text.fields import Fields
from segmax.vectors.csr import Csr, canonical
from segmax.vectors.documents import BaseVectors
from segmax.vectors.pruning import Step, prune_rows
from segmax.vectors.quantize import TermStatistics
from segmax.vectors.rows import bounded_ranges, narrowest, slice_rows


class VectorStream(NamedTuple):
    """Vectors on their way into pieces."""

    documents: Iterator[tuple[Csr, Arrays]]  #: checked vectors, and their columns
    has_ids: bool
    terms: Callable[[], Sequence[str] | None]  #: called after the last document: the word of every term, if any
    is_loose: bool  #: whether others may have more terms


class KeepVectors(Task):
    """Reads a unit of vectors, and writes them as pieces and statistics."""

    unit: str
    pruning: tuple[Step, ...]

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
    def stream(self, work: Workplace) -> VectorStream:
        """Return the vectors."""

    def make(self, work: Workplace) -> Mapping[str, Any]:
        """Write the pieces, the hashes of ids, and then the statistics."""
        with in_unit(self.where):
            stream = self.stream(work)
            arrays, kept = self._keep(stream.documents, work)
        terms = stream.terms()
        if terms is not None:
            arrays.update(string_column("term", terms))
        about = {
            **kept,
            "unit": self.unit,
            "where": self.where,
            "has_ids": stream.has_ids,
            "has_terms": terms is not None,
            "is_loose": stream.is_loose,
        }
        work.keep(self.output, arrays, about)
        return about

    def _keep(self, documents: Iterator[tuple[Csr, Arrays]], work: Workplace) -> tuple[Arrays, dict[str, Any]]:
        """Write the pieces; return the statistics and what is known of the documents."""
        writer = PieceWriter(work, f"pieces/{self.unit}")
        statistics = GrowingStatistics()
        hashes = IdHashes()
        num_docs = num_columns = 0
        for docs, columns in documents:
            hashes.add(columns)
            docs = prune_rows(self.pruning, docs)
            docs = docs._replace(values=narrowest(docs.values))
            statistics.add(docs)
            num_docs += docs.num_rows
            num_columns = max(num_columns, docs.num_columns)
            writer.add({**vector_arrays(docs), **columns}, docs.num_rows)
        writer.flush()
        hashes.keep(self.unit, work)
        return statistics.arrays(), {"pieces": writer.entries, "num_docs": num_docs, "num_columns": num_columns}


@dataclasses.dataclass(frozen=True)
class ReadVectors(KeepVectors):
    """Reads one file of vectors."""

    unit: str
    path: str
    pruning: tuple[Step, ...] = ()
    fields: Fields | None = None  #: what else of lines of JSON to keep as metadata

    @property
    def where(self) -> str:
        """What messages call the file."""
        return f"'{self.path}'"

    def stream(self, work: Workplace) -> VectorStream:
        """Open the file."""
        limit = MemoryLimit(work.memory_limit)
        reader = open_vectors(self.path, memory_limit=limit, scratch=work.scratch_folder())
        return VectorStream(self._documents(reader), reader.has_ids, lambda: reader.terms, reader.loose_width)

    def _documents(self, reader: BaseVectors) -> Iterator[tuple[Csr, Arrays]]:
        lines = None if self.fields is None else json_lines_of(reader)
        if lines is None and self.fields is not None:
            raise ConfigError(
                where=self.where,
                option="metadata",
                expected="None, because only lines of JSON have other members beside their vectors",
                got="names of them",
            )
        row = 0
        for batch in () if reader.num_docs == 0 else Source(reader, self.where).batches():
            columns = string_column("id", batch.ids) if reader.has_ids else {}
            if lines is not None and self.fields is not None:
                records = map(json.loads, islice(lines, batch.vectors.num_rows))
                described = [self.fields.of_record(record, row + at) for at, record in enumerate(records)]
                columns.update(metadata_column(described))
            yield batch.vectors, columns
            row += batch.vectors.num_rows


@dataclasses.dataclass(frozen=True)
class GivenVectors(KeepVectors):
    """Reads a matrix in memory."""

    docs: Csr
    ids: Sequence[Any] | None
    terms: Sequence[str] | None
    name: str
    pruning: tuple[Step, ...] = ()
    unit: str = unit_of(0)

    @property
    def where(self) -> str:
        """What messages call the matrix."""
        return self.name

    def stream(self, work: Workplace) -> VectorStream:
        """Check the ids and the terms."""
        term_arrays(self.terms, self.docs.num_columns)
        ids = id_arrays(self.ids, self.docs.num_rows)
        return VectorStream(self._documents(ids), self.ids is not None, lambda: self.terms, is_loose=False)

    def _documents(self, ids: Arrays) -> Iterator[tuple[Csr, Arrays]]:
        for first, last in bounded_ranges(self.docs.indptr):
            rows = np.arange(first, last)
            yield canonical(slice_rows(self.docs, first, last), first), selected_columns(ids, rows)


class VectorCollection:
    """All files of vectors together: their pieces, terms and statistics."""

    def __init__(self, units: Sequence[Mapping[str, Any]], work: Workplace) -> None:
        self._units = units
        self._work = work
        self._is_named = units[0]["has_terms"]
        for unit in units:
            if unit["has_terms"] != self._is_named:
                raise InputError(expected="files that all name their terms, or none that does", got="both")
        self.num_terms = self._width()
        self.terms: list[str] | None = None
        if self._is_named:
            self._number_terms()
        # As in a build of one index: where some files have no ids, rows are the ids.
        ids = "given" if all(unit["has_ids"] for unit in units) else "rows"
        terms_of = _numbers_name if self._is_named else None
        self.pieces: list[Piece] = numbered_pieces(units, ids, terms_of)

    def _width(self) -> int:
        """Return the number of columns; raise InputError if files differ that must not."""
        units = [unit for unit in self._units if unit["num_docs"]]
        first = units[0]["num_columns"]
        if not self._is_named and not any(unit["is_loose"] for unit in units):
            for unit in units:
                if unit["num_columns"] != first:
                    where, got = unit["where"], unit["num_columns"]
                    raise InputError(where=where, expected=f"{first} columns, as in those before", got=got)
        return int(max(unit["num_columns"] for unit in units))

    def _number_terms(self) -> None:
        """Give terms numbers over all files, in the order in which they first occur."""
        vocabulary = GrowingVocabulary()
        for unit in self._units:
            own = column_strings(self._work.load(unit_name(unit["unit"])).arrays, "term")
            self._work.keep(_numbers_name(unit["unit"]), {"number": vocabulary.add(own)}, {})
        self.terms = vocabulary.terms
        self.num_terms = len(vocabulary)

    def statistics(self) -> TermStatistics:
        """Return the statistics of everything."""
        return merged_statistics((self._statistics(unit["unit"]) for unit in self._units), self.num_terms)

    def _statistics(self, unit: str) -> tuple[Arrays, np.ndarray[Any, np.dtype[np.uint32]] | None]:
        arrays = self._work.load(unit_name(unit)).arrays
        return arrays, self._work.load(_numbers_name(unit)).arrays["number"] if self._is_named else None


def _numbers_name(unit: str) -> str:
    return f"numbers/{unit}"
