"""Readers that wrap others: several files as one stream, and the place of every row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from segmax.base.errors import InputError
from segmax.base.vocabulary import GrowingVocabulary
from segmax.io.rows import row_ids
from segmax.io.streams import read_lines
from segmax.vectors.csr import Csr
from segmax.vectors.documents import BaseVectors, VectorBatch, VectorReader, WrappedVectors

#: The formats that have a vector per line.
BY_LINE = frozenset({"jsonl", "tokens"})


class LocatedVectors(WrappedVectors):
    """The reader of some files, which refuses empty ids and knows where every row is."""

    def __init__(
        self, reader: BaseVectors, files: Sequence[tuple[Path, str]], num_rows: Callable[[Path, str], int]
    ) -> None:
        super().__init__(reader)
        self._files = files
        self._num_rows = num_rows

    @property
    def paths(self) -> list[Path]:
        """The files, in the order in which they are read."""
        return [path for path, _ in self._files]

    def batches(self) -> Iterator[VectorBatch]:
        """Yield everything, once."""
        row = 0
        for batch in self._reader.batches():
            if "" in batch.ids:
                raise InputError(
                    where=f"{self.place_of(row + batch.ids.index(''))}", expected="an id", got="an empty string"
                )
            row += len(batch.ids)
            yield batch

    def json_lines(self) -> Iterator[str] | None:
        """Return the lines of the vectors, to be read beside them; None where the files are not lines of JSON."""
        if any(kind != "jsonl" for _, kind in self._files):
            return None
        return (line for path, _ in self._files for _, line in read_lines(path) if line.strip())

    def place_of(self, row: int) -> str:
        """Return where a row is, for messages: the files are read again up to there."""
        for path, kind in self._files:
            if kind in BY_LINE:
                count = 0
                for number, line in read_lines(path):
                    count += bool(line.strip())
                    if count > row:
                        return f"'{path}', line {number}"
            else:
                count = self._num_rows(path, kind)
                if row < count:
                    return f"'{path}', row {row}"
            row -= count
        return f"row {row}"


def json_lines_of(reader: VectorReader) -> Iterator[str] | None:
    """Return the lines of JSON that a reader reads, a line per vector; None where it reads something else."""
    inner: object = reader
    while isinstance(inner, WrappedVectors) and not isinstance(inner, LocatedVectors):
        inner = inner.wrapped
    return inner.json_lines() if isinstance(inner, LocatedVectors) else None


class JoinedVectors(BaseVectors):
    """Several readers, one after the other. Where terms are words, columns are numbered across all of them.

    Where they are numbers, and the readers only know the largest that they have, batches widen to the largest so far.
    """

    def __init__(self, readers: Sequence[BaseVectors]) -> None:
        self._readers = readers
        self._named = readers[0].terms is not None
        if any((reader.terms is not None) != self._named for reader in readers):
            raise InputError(expected="files that all name their terms, or none that does", got="both")
        self._vocabulary = GrowingVocabulary()

    @property
    def loose_width(self) -> bool:
        """Whether batches may have more columns than those before."""
        return any(reader.loose_width for reader in self._readers)

    @property
    def has_ids(self) -> bool:
        """Whether all of them have ids."""
        return all(reader.has_ids for reader in self._readers)

    @property
    def terms(self) -> Sequence[str] | None:
        """The terms so far."""
        return self._vocabulary.terms if self._named else None

    @property
    def num_docs(self) -> int | None:
        """How many all of them have, where each knows."""
        counts = [reader.num_docs for reader in self._readers]
        return None if None in counts else sum(count for count in counts if count is not None)

    def batches(self) -> Iterator[VectorBatch]:
        """Yield everything, once."""
        row = width = 0
        for reader in self._readers:
            here = np.zeros(0, np.uint32)
            for ids, vectors, _ in reader.batches():
                if reader.terms is not None:
                    here = np.concatenate([here, self._vocabulary.add(reader.terms[len(here) : vectors.num_columns])])
                    vectors = Csr(vectors.indptr, here[vectors.indices], vectors.values, len(self._vocabulary))
                elif self.loose_width:
                    width = max(width, vectors.num_columns)
                    vectors = vectors._replace(num_columns=width)
                if not self.has_ids:  # the numbers of a file are not those of all
                    ids = row_ids(row, len(ids))
                row += len(ids)
                yield VectorBatch(ids, vectors)
