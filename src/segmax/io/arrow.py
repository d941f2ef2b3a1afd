"""Parquet files and folders of Hugging Face datasets with sparse columns; needs pyarrow.

A sparse column is one of: a map of term to weight; a struct of `indices` and `values`, or of `tokens` and `weights`; or
two columns with such names. Ids are a column named like those of JSON records. Whether a file is parquet, an Arrow file
or an Arrow stream is told by its first bytes.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import re
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from segmax.base.errors import InputError
from segmax.base.optional import need
from segmax.base.vocabulary import GrowingVocabulary
from segmax.io.arrow_limits import TooLarge, check_messages
from segmax.io.jsonl import names_of
from segmax.io.npz import MAX_ROW, bounded_rows, numbers
from segmax.io.parquet_pages import rows_at_once
from segmax.io.records import ID_NAMES
from segmax.io.scale import Scale
from segmax.io.streams import no_file, reading, write_whole
from segmax.vectors.csr import Csr, canonical
from segmax.vectors.documents import VectorBatch, VectorReader, has_ids

_NUMBER_NAMES = ("indices", "index")
_WORD_NAMES = ("tokens", "terms", "words")
_WEIGHT_NAMES = ("values", "weights", "scores")
_BATCH_ROWS = 1 << 11  # pyarrow holds several times what it hands out
_BUFFER_BYTES = 1 << 20  # of a column of parquet; without it, columns of a row group are read whole
_MAX_MESSAGE = 1 << 28  # of a schema
_NUM_COLUMNS = b"num_columns"
_PARQUET = b"PAR1"
_ARROW_FILE = b"ARROW1"
_ARROW_STREAM = b"\xff\xff\xff\xff"
_SPLIT = re.compile(r"(?P<split>.+?)-\d+-of-\d+|(?P<known>train|test|validation|valid|val|dev)(?:[-_.\d].*)?")


def _pyarrow() -> Any:
    for module in ("pyarrow.ipc", "pyarrow.parquet"):
        need(module, "a parquet file or a folder of the datasets library", "arrow")
    return need("pyarrow", "a parquet file or a folder of the datasets library", "arrow")


class _Columns(NamedTuple):
    """Where ids, terms and weights are."""

    id: str | None
    column: str | None  # of a map or a struct; None: two columns
    terms: str | None  # None: a map
    weights: str | None
    words: bool


# --- in --------------------------------------------------------------------------------------------------------------


def dataset_files(folder: Path) -> list[Path]:
    """Return the files of a dataset folder, or of its only split, in order; none if it is no such folder."""
    if (folder / "dataset_dict.json").is_file():
        splits = _named_in(folder / "dataset_dict.json", "splits")
        if len(splits) != 1:
            msg = f"'{folder}' holds the splits {', '.join(splits)}; choose one, as in '{folder / splits[0]}'"
            raise InputError(msg)
        return dataset_files(folder / splits[0])
    if (folder / "state.json").is_file():
        return [folder / name for name in _named_in(folder / "state.json", "_data_files", "filename")]
    files = sorted([*folder.glob("*.parquet"), *folder.glob("data/*.parquet")])
    splits = sorted({split for file in files if (split := _split_of(file)) is not None})
    if len(splits) > 1:
        some = next(file for file in files if _split_of(file) == splits[0])
        msg = (
            f"'{folder}' holds the splits {', '.join(splits)}; name the files of one, as in "
            f"'{some.parent / splits[0]}*.parquet'"
        )
        raise InputError(msg)
    return files


def _named_in(path: Path, key: str, member: str | None = None) -> list[str]:
    """Return the names in one of the small files that datasets writes."""
    try:
        with reading(path):
            content = path.read_bytes()
        entries = json.loads(content)[key]
        names = [entry if member is None else entry[member] for entry in entries]
        if not names or not all(isinstance(name, str) and _is_plain_name(name) for name in names):
            raise ValueError("expected names of files beside it")
    except InputError:
        raise
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        msg = f"'{path}': expected what datasets writes, names under {key!r} ({error}); save the dataset again"
        raise InputError(msg) from error
    return names


def _is_plain_name(name: str) -> bool:
    """Whether this names something in the folder itself, not above it or elsewhere."""
    return name not in ("", ".", "..") and Path(name).name == name


def _split_of(file: Path) -> str | None:
    """Return the split that the name of a file says: train-00000-of-00002.parquet; None if it says none."""
    found = _SPLIT.fullmatch(file.stem)
    return None if found is None else found["split"] or found["known"]


def is_arrow(head: bytes, name: str) -> bool:
    """Whether a file that starts like this is parquet or Arrow's; four bytes FF also start numbers of others."""
    if head.startswith((_PARQUET, _ARROW_FILE)) or name.endswith((".parquet", ".arrow", ".feather")):
        return True
    return head.startswith(_ARROW_STREAM) and _starts_stream(head) and not name.endswith((".csr", ".bin"))


def _starts_stream(head: bytes) -> bool:
    """Whether a first message can follow: its length, a multiple of 8, and an offset into it."""
    if len(head) < 12:
        return False
    length, root = struct.unpack("<iI", head[4:12])
    return bool(0 < length < _MAX_MESSAGE and length % 8 == 0 and root < length)


def _is_parquet(path: Path) -> bool:
    with reading(path), path.open("rb") as file:
        return file.read(len(_PARQUET)) == _PARQUET


class ArrowVectors:
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
        if not all(_is_parquet(path) for path in self._paths):
            return None
        return sum(self._num_rows(path) for path in self._paths)

    def _num_rows(self, path: Path) -> int:
        with _reading_arrow(path):
            return int(_pyarrow().parquet.read_metadata(path).num_rows)

    def batches(self) -> Iterator[VectorBatch]:
        """Yield everything, once."""
        columns = self._columns
        if not columns.words and self._num_columns is None:
            self._num_columns = self._largest_number() + 1
        fields = [name for name in (columns.terms, columns.weights) if name is not None]
        row = 0
        for path in self._paths:
            for table in self._tables(path, fields, with_ids=True):
                with _reading_arrow(path):
                    ids = numbers(row, table.num_rows) if columns.id is None else self._ids(path, table, row)
                    vectors = self._scale.apply(self._vectors(path, table, row))
                row += table.num_rows
                yield VectorBatch(ids, vectors)

    def _described(self, path: Path) -> tuple[_Columns, int | None]:
        """Return the sparse columns of a file, and how many columns its vectors have where it says so."""
        arrow = _pyarrow()
        with _reading_arrow(path):
            if _is_parquet(path):
                schema = arrow.parquet.read_schema(path)
            else:
                with arrow.memory_map(str(path)) as file, _arrow_reader(arrow, file) as reader:
                    schema = reader.schema
            return _columns(schema, path), _promised_columns(schema)

    def _tables(self, path: Path, fields: list[str], *, with_ids: bool = False) -> Iterator[Any]:
        """Yield the rows of a file in pieces; pyarrow believes offsets and indices, so every batch is checked first."""
        columns = self._columns
        names = fields if columns.column is None else [columns.column]
        if with_ids and columns.id is not None:
            names = [columns.id, *names]
        with _reading_arrow(path):
            batches = (
                _parquet_batches(path, self._leaves(names, fields)) if _is_parquet(path) else _batches(path, names)
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
        for first in range(0, batch.num_rows, _BATCH_ROWS):
            piece = batch.slice(first, _BATCH_ROWS)
            starts = _starts(self._term_lists(piece))
            longest = int(np.diff(starts).max())
            if longest > MAX_ROW:
                msg = f"expected at most {MAX_ROW:,} entries per row, got {longest:,}"
                raise TooLarge(msg)
            for start, end in bounded_rows(starts):
                yield piece.slice(start, end - start)

    def _term_lists(self, table: Any) -> Any:
        """Return the terms of every row; of a map, the map itself."""
        columns = self._columns
        if columns.column is None:
            return table.column(columns.terms)
        holder = table.column(columns.column)
        return holder if columns.terms is None else _field(holder, columns.terms)

    def _ids(self, path: Path, table: Any, row: int) -> list[str]:
        values = _objects(table.column(self._columns.id))
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
            return _entries(lists, lists.keys), _entries(lists, lists.items), _starts(lists)
        holder = table if columns.column is None else table.column(columns.column)
        terms, weights = (_field(holder, name) for name in (columns.terms, columns.weights))
        starts = _starts(terms)
        if (starts != _starts(weights)).any():
            msg = f"expected as many {columns.weights} as {columns.terms} in every row"
            raise InputError(msg)
        return terms.flatten(), weights.flatten(), starts

    def _vectors(self, path: Path, table: Any, row: int) -> Csr:
        try:
            terms, weights, starts = self._parts(table)
        except InputError as error:
            msg = f"'{path}', rows {row} to {row + table.num_rows - 1}: {error}"
            raise InputError(msg) from error
        if terms.null_count or weights.null_count:
            raise InputError(
                where=f"'{path}', rows {row} to {row + table.num_rows - 1}", expected="terms and weights", got="nulls"
            )
        values = weights.to_numpy(zero_copy_only=False)
        if self._columns.words:
            return Csr(starts, self._numbered(terms), values, len(self._vocabulary))
        found = _whole_numbers(terms.to_numpy(zero_copy_only=False), path)
        assert self._num_columns is not None
        if len(found) and (found.min() < 0 or found.max() >= self._num_columns):
            worst = found.min() if found.min() < 0 else found.max()
            raise InputError(where=f"'{path}'", expected=f"column numbers from 0 to {self._num_columns - 1}", got=worst)
        return Csr(starts, found, values, self._num_columns)

    def _numbered(self, terms: Any) -> NDArray[np.uint32]:
        """Return the numbers of words; new ones get the next."""
        words, places = _coded(terms)
        if None in words:
            raise InputError(expected="terms", got="nulls in a dictionary")
        return self._vocabulary.add(words)[places]

    def _largest_number(self) -> int:
        """Look through the terms once: nothing else says how many columns there are."""
        terms = self._columns.terms
        largest = -1
        for path in self._paths:
            for table in self._tables(path, [] if terms is None else [terms]):
                lists = self._term_lists(table)
                flat = lists.flatten() if terms is not None else _entries(lists, lists.keys)
                found = _whole_numbers(flat.drop_null().to_numpy(zero_copy_only=False), path)
                largest = max(largest, int(found.max()) if len(found) else -1)
        return largest


@contextlib.contextmanager
def _reading_arrow(path: Path) -> Iterator[None]:
    """Turn what pyarrow says about a file into InputError."""
    with reading(path):
        try:
            yield
        except TooLarge as error:
            msg = f"'{path}': {error}"
            raise InputError(msg) from error
        except _pyarrow().ArrowException as error:
            if isinstance(error, (OSError, MemoryError)):
                raise
            raise ValueError(str(error)) from error  # some of them are no other exception


def _whole_numbers(found: NDArray[Any], path: Path) -> NDArray[np.int64]:
    """Return column numbers, which some write as floats."""
    if found.dtype.kind == "f":
        bad = (found != np.floor(found)) | (np.abs(found) >= 2**53)
        if bad.any():
            raise InputError(
                where=f"'{path}'", expected="whole numbers as column numbers", got=f"{found[np.argmax(bad)]}"
            )
    return found.astype(np.int64)


def _arrow_reader(arrow: Any, file: Any) -> Any:
    """Open an Arrow file: datasets writes streams, others files."""
    head = file.read(6)
    file.seek(0)
    return arrow.ipc.open_file(file) if head == b"ARROW1" else arrow.ipc.open_stream(file)


def _batches(path: Path, names: list[str]) -> Iterator[Any]:
    """Yield the record batches of an Arrow file or stream."""
    arrow = _pyarrow()
    with arrow.memory_map(str(path)) as file:
        check_messages(arrow, file)
    with arrow.memory_map(str(path)) as file, _arrow_reader(arrow, file) as reader:
        if hasattr(reader, "num_record_batches"):
            batches = (reader.get_batch(number) for number in range(reader.num_record_batches))
        else:
            batches = iter(reader)
        for batch in batches:
            yield batch.select(names)


def _parquet_batches(path: Path, names: list[str]) -> Iterator[Any]:
    """Yield the rows of a parquet file, fewer at a time where they are long."""
    content = _mapped(path)
    with _pyarrow().parquet.ParquetFile(path, pre_buffer=False, buffer_size=_BUFFER_BYTES) as file:
        for number in range(file.num_row_groups):
            rows = _rows_at_once(content, file.metadata, number, names)
            yield from file.iter_batches(rows, row_groups=[number], columns=names, use_threads=False)


def _rows_at_once(content: memoryview, metadata: Any, number: int, names: list[str]) -> int:
    """Return how many rows of a row group can be read together."""
    group, rows = metadata.row_group(number), _BATCH_ROWS
    prefixes = tuple(f"{name}." for name in names)
    for leaf in range(metadata.num_columns):
        column = metadata.schema.column(leaf)
        if f"{column.path}.".startswith(prefixes):
            rows = min(rows, rows_at_once(content, group.column(leaf), column, _BATCH_ROWS))
    return rows


def _mapped(path: Path) -> memoryview:
    """Map a file, which is not empty."""
    with path.open("rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _coded(values: Any) -> tuple[list[Any], NDArray[np.int64]]:
    """Return the different values that are used, and which of them each is; -1 for null."""
    coded = values.dictionary_encode()
    places = coded.indices.cast("int64").fill_null(-1).to_numpy(zero_copy_only=False)
    is_used = np.zeros(len(coded.dictionary) + 1, bool)
    is_used[places] = True
    used = np.flatnonzero(is_used[:-1])
    renumbered = np.full(len(is_used), -1, np.int64)
    renumbered[used] = np.arange(len(used))
    return coded.dictionary.take(_pyarrow().array(used)).to_pylist(), renumbered[places]


def _objects(values: Any) -> list[Any]:
    """Return values as objects of Python; one that comes often in a dictionary is made once."""
    types = _pyarrow().types
    if types.is_integer(values.type) or types.is_string(values.type) or types.is_large_string(values.type):
        return list(values.to_pylist())
    different, places = _coded(values)
    return [different[place] if place >= 0 else None for place in places.tolist()]


def _field(holder: Any, name: str | None) -> Any:
    """Return a column of a table, or of a struct, null where the struct is."""
    if not hasattr(holder, "type"):
        return holder.column(name)
    return holder.flatten()[holder.type.get_field_index(name)]


def _entries(lists: Any, children: Any) -> Any:
    """Return the keys or items of a map's rows, one after the other, without those of null rows."""
    offsets = lists.offsets.to_numpy(zero_copy_only=False)
    found = children[offsets[0] : offsets[-1]]
    if lists.null_count == 0:
        return found
    present = lists.is_valid().to_numpy(zero_copy_only=False)
    return found.filter(_pyarrow().array(np.repeat(present, np.diff(offsets))))


def _starts(lists: Any) -> NDArray[np.int64]:
    """Return where rows start among the entries of all of them; a null row is empty, whatever its offsets say."""
    counts = np.diff(lists.offsets.to_numpy(zero_copy_only=False)).astype(np.int64)
    counts[lists.is_null().to_numpy(zero_copy_only=False)] = 0
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])


def _promised_columns(schema: Any) -> int | None:
    value = (schema.metadata or {}).get(_NUM_COLUMNS)
    return int(value) if value is not None and value.isdigit() else None


def _columns(schema: Any, path: Path) -> _Columns:
    """Find the sparse columns."""
    types = _pyarrow().types
    doc_id = next((name for name in ID_NAMES if name in schema.names), None)

    def is_list(kind: Any) -> bool:
        return bool(types.is_list(kind) or types.is_large_list(kind))

    def is_word(kind: Any) -> bool:
        kind = kind.value_type if types.is_dictionary(kind) else kind
        return bool(types.is_string(kind) or types.is_large_string(kind))

    def checked(terms: Any, weights: Any) -> bool:
        """Return whether terms are words; refuse what are neither words nor numbers."""
        numeric = [types.is_integer(kind) or types.is_floating(kind) for kind in (terms, weights)]
        if not numeric[1] or not (numeric[0] or is_word(terms)):
            raise InputError(
                where=f"'{path}'",
                expected="terms as words or whole numbers, and weights as numbers",
                got=f"{terms}, {weights}",
            )
        return is_word(terms)

    def pair(fields: dict[str, Any]) -> tuple[str, str, bool] | None:
        weights = next((n for n in _WEIGHT_NAMES if n in fields and is_list(fields[n])), None)
        for name in (*_NUMBER_NAMES, *_WORD_NAMES):
            if weights is None or name not in fields or not is_list(fields[name]):
                continue
            return name, weights, checked(fields[name].value_type, fields[weights].value_type)
        return None

    for field in schema:
        if types.is_map(field.type):
            return _Columns(doc_id, field.name, None, None, checked(field.type.key_type, field.type.item_type))
        if types.is_struct(field.type) and (found := pair({f.name: f.type for f in field.type})) is not None:
            return _Columns(doc_id, field.name, *found)
    if (found := pair({field.name: field.type for field in schema})) is not None:
        return _Columns(doc_id, None, *found)
    raise InputError(
        where=f"'{path}'",
        expected=(
            "sparse columns (a map of term to weight, or lists 'indices' and 'values', or 'tokens' and 'weights')"
        ),
        got=f"{', '.join(f'{f.name}: {f.type}' for f in schema)[:300]}",
    )


# --- out -------------------------------------------------------------------------------------------------------------


def write_parquet(path: Path, reader: VectorReader, batches: Iterator[VectorBatch], *, overwrite: bool) -> None:
    """Write a parquet file: id, then tokens and weights, or indices and values where terms have no words."""
    arrow = _pyarrow()
    words = reader.terms is not None
    names = ("tokens", "weights") if words else ("indices", "values")
    kinds = (arrow.string() if words else arrow.int32(), arrow.float64())
    fields = [arrow.field("id", arrow.string())] if has_ids(reader) else []
    fields += [arrow.field(name, arrow.list_(kind)) for name, kind in zip(names, kinds, strict=True)]
    num_rows = 0
    with write_whole(path, overwrite=overwrite, compress=False) as file:
        writer: Any = None
        try:
            for ids, given, _ in batches:
                vectors = canonical(given, num_rows)
                num_rows += vectors.num_rows
                if writer is None:
                    metadata = None if words else {_NUM_COLUMNS: str(vectors.num_columns).encode()}
                    schema = arrow.schema(fields, metadata=metadata)
                    writer = arrow.parquet.ParquetWriter(file, schema, compression="zstd")
                terms = arrow.array(vectors.indices.astype(np.int64 if words else np.int32))
                if words:
                    terms = arrow.array(names_of(reader, 0, vectors.num_columns), arrow.string()).take(terms)
                offsets = arrow.array(vectors.indptr.astype(np.int32))
                weights = arrow.array(vectors.values.astype(np.float64))
                lists = [arrow.ListArray.from_arrays(offsets, entries) for entries in (terms, weights)]
                columns = [arrow.array(ids, arrow.string()), *lists] if has_ids(reader) else lists
                writer.write_batch(arrow.record_batch(columns, schema=writer.schema))
        finally:
            if writer is not None:
                writer.close()
