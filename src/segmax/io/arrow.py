"""Vectors in parquet files and in folders of Hugging Face datasets; needs pyarrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segmax.base.errors import InputError
from segmax.base.vocabulary import GrowingVocabulary
from segmax.io.arrow_batches import arrow_batches, arrow_reader, few_rows, is_parquet, parquet_batches, reading_arrow
from segmax.io.arrow_limits import TooLarge
from segmax.io.arrow_schema import SparseColumns, promised_columns, pyarrow, sparse_columns
from segmax.io.arrow_values import coded, entries_of, field_of, objects, starts_of, whole_numbers
from segmax.io.read_errors import no_file
from segmax.io.rows import MAX_ROW, row_ids, wrong_columns
from segmax.io.scale import Scale
from segmax.vectors.csr import Csr
from segmax.vectors.documents import BaseVectors, VectorBatch
from segmax.vectors.rows import bounded_ranges


class ArrowVectors(BaseVectors):
    """Files of parquet or Arrow, one after the other."""

    def __init__(self, paths: Sequence[Path], scale: Scale) -> None:
        self._paths = paths
        self._scale = scale
        for path in paths:
            if not path.is_file():
                raise no_file(path)
        found = [self._described(path) for path in paths]
        self._columns = found[0][0]
        for path, (columns, _) in zip(paths, found, strict=True):
            if columns != self._columns:
                raise InputError(
                    where=f"'{path}'", expected=f"the columns of '{paths[0].name}', {self._columns}", got=columns
                )
        promised = [count for _, count in found]
        self._num_columns = None if None in promised else max(count for count in promised if count is not None)
        self._vocabulary = GrowingVocabulary()

    @property
    def has_ids(self) -> bool:
        """Whether there is a column of ids."""
        return self._columns.id is not None

    @property
    def terms(self) -> Sequence[str] | None:
        """The terms so far, where they are words; all of them after the last batch."""
        return self._vocabulary.terms if self._columns.words else None

    @property
    def num_docs(self) -> int | None:
        """How many rows all files have; not known before the end for Arrow's own formats."""
        if not all(is_parquet(path) for path in self._paths):
            return None
        return sum(self._num_rows(path) for path in self._paths)

    def _num_rows(self, path: Path) -> int:
        with reading_arrow(path):
            return int(pyarrow().parquet.read_metadata(path).num_rows)

    def batches(self) -> Iterator[VectorBatch]:
        """Yield everything, once."""
        columns = self._columns
        if not columns.words and self._num_columns is None:
            self._num_columns = self._largest_number() + 1
        fields = [name for name in (columns.terms, columns.weights) if name is not None]
        row = 0
        for path in self._paths:
            for table in self._tables(path, fields, with_ids=True):
                with reading_arrow(path):
                    ids = row_ids(row, table.num_rows) if columns.id is None else self._ids(path, table, row)
                    vectors = self._scale.apply(self._vectors(path, table, row))
                row += table.num_rows
                yield VectorBatch(ids, vectors)

    def _described(self, path: Path) -> tuple[SparseColumns, int | None]:
        """Return the sparse columns of a file, and how many columns its vectors have, where it is stated."""
        arrow = pyarrow()
        with reading_arrow(path):
            if is_parquet(path):
                schema = arrow.parquet.read_schema(path)
            else:
                with arrow.memory_map(str(path)) as file, arrow_reader(arrow, file) as reader:
                    schema = reader.schema
            return sparse_columns(schema, path), promised_columns(schema)

    def _tables(self, path: Path, fields: list[str], *, with_ids: bool = False) -> Iterator[Any]:
        """Yield the rows of a file in pieces; pyarrow believes offsets and indices, so every batch is checked first."""
        columns = self._columns
        names = fields if columns.column is None else [columns.column]
        if with_ids and columns.id is not None:
            names = [columns.id, *names]
        with reading_arrow(path):
            batches = (
                parquet_batches(path, self._leaves(names, fields)) if is_parquet(path) else arrow_batches(path, names)
            )
            for batch in batches:
                batch.validate(full=True)
                yield from self._pieces(batch)

    def _leaves(self, names: list[str], fields: list[str]) -> list[str]:
        """Return the columns as parquet names them: of a struct, only the fields that are read."""
        column = self._columns.column
        if column is None or not fields:
            return names
        return [name for name in names if name != column] + [f"{column}.{field}" for field in fields]

    def _pieces(self, batch: Any) -> Iterator[Any]:
        """Yield rows that have few enough entries to be held together."""
        for piece in few_rows(batch):
            starts = starts_of(self._term_lists(piece))
            longest = int(np.diff(starts).max())
            if longest > MAX_ROW:
                raise TooLarge(expected=f"at most {MAX_ROW:,} entries per row", got=f"{longest:,}")
            for start, end in bounded_ranges(starts):
                yield piece.slice(start, end - start)

    def _term_lists(self, table: Any) -> Any:
        """Return the terms of every row; of a map, the map itself."""
        columns = self._columns
        if columns.column is None:
            return table.column(columns.terms)
        holder = table.column(columns.column)
        return holder if columns.terms is None else field_of(holder, columns.terms)

    def _ids(self, path: Path, table: Any, row: int) -> list[str]:
        values = objects(table.column(self._columns.id))
        for place, value in enumerate(values):
            if not isinstance(value, (str, int)) or isinstance(value, bool):
                raise InputError(
                    where=f"'{path}'", expected="strings or whole numbers as ids", got=f"{value!r} in row {row + place}"
                )
        return [str(value) for value in values]

    def _parts(self, table: Any) -> tuple[Any, Any, NDArray[np.int64]]:
        """Return terms and weights of all rows, one after the other, and where rows start."""
        columns = self._columns
        if columns.terms is None:
            lists = table.column(columns.column)
            return entries_of(lists, lists.keys), entries_of(lists, lists.items), starts_of(lists)
        holder = table if columns.column is None else table.column(columns.column)
        terms, weights = (field_of(holder, name) for name in (columns.terms, columns.weights))
        starts = starts_of(terms)
        if (starts != starts_of(weights)).any():
            raise InputError(expected=f"as many {columns.weights} as {columns.terms} in every row", got="others")
        return terms.flatten(), weights.flatten(), starts

    def _vectors(self, path: Path, table: Any, row: int) -> Csr:
        try:
            terms, weights, starts = self._parts(table)
        except InputError as error:
            where = f"'{path}', rows {row} to {row + table.num_rows - 1}"
            raise error.at(where) from error
        if terms.null_count or weights.null_count:
            raise InputError(
                where=f"'{path}', rows {row} to {row + table.num_rows - 1}", expected="terms and weights", got="nulls"
            )
        values = weights.to_numpy(zero_copy_only=False)
        if self._columns.words:
            return Csr(starts, self._numbered(terms), values, len(self._vocabulary))
        found = whole_numbers(terms.to_numpy(zero_copy_only=False), path)
        assert self._num_columns is not None
        if (problem := wrong_columns(found, self._num_columns)) is not None:
            raise InputError(where=f"'{path}'", expected=problem[0], got=problem[1])
        return Csr(starts, found, values, self._num_columns)

    def _numbered(self, terms: Any) -> NDArray[np.uint32]:
        """Return the numbers of words; new ones get the next."""
        words, places = coded(terms)
        if None in words:
            raise InputError(expected="terms", got="nulls in a dictionary")
        return self._vocabulary.add(words)[places]

    def _largest_number(self) -> int:
        """Look through the terms once: the number of columns is stated nowhere."""
        terms = self._columns.terms
        largest = -1
        for path in self._paths:
            for table in self._tables(path, [] if terms is None else [terms]):
                lists = self._term_lists(table)
                flat = lists.flatten() if terms is not None else entries_of(lists, lists.keys)
                found = whole_numbers(flat.drop_null().to_numpy(zero_copy_only=False), path)
                largest = max(largest, int(found.max()) if len(found) else -1)
        return largest
