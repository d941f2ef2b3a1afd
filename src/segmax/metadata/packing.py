"""From the metadata of documents to the components of an index, in one pass.

Documents are read one by one. What stays in memory of a document is a few bytes for each of its fields: the column it
lies in, as it will be stored. Strings stay as the dictionary of their distinct values, in sorted runs that are merged
at the end, so that a field of a different string for every document costs no Python object for each.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segmax.base.errors import InputError
from segmax.metadata.values import checked_metadata, fields_of, fits_64_bits, to_json
from segmax.storage.blocks import Append, BlockKind, write_blocks

#: The JSON of documents: a string each, empty where a document has none.
DOCUMENTS = BlockKind("metadata", "metadata", strings=1, block_bytes=1 << 14)
#: Where arrays start in the component of columns.
ALIGNMENT = 64

_MOST_FIELDS = 1024  # that have columns
_LONGEST_NAME = 256  # characters of a field with columns
_MOST_POSITIONS = 2**32 - 1
_RUN = 1 << 16  # distinct strings before a run is sorted and packed
_DENSE = 8  # a column that one row in eight has is stored with a bitmap, and a slot for every row


def pack_metadata(rows: Iterable[object], num_docs: int, append: Append) -> dict[str, Any]:
    """Pack the metadata of every document, in the order of rows, into components of an index.

    Parameters
    ----------
    rows
        A mapping of field to a value of JSON for each document, or None.
    num_docs
        How many there have to be.
    append
        Called with the name of a component and more of its content.

    Returns
    -------
    dict
        What meta.json has to say about them.

    Raises
    ------
    InputError
        If a value is not one of JSON, or there are more or fewer than `num_docs` documents.
    """
    builder = FieldsBuilder()
    found = write_blocks(DOCUMENTS, builder.documents(rows), append)
    if found != num_docs:
        raise InputError(expected=f"metadata of {num_docs} documents, one for each", got=f"{found}")
    return write_columns(builder.fields, num_docs, builder.unlisted, append)


class FieldsBuilder:
    """The columns of all fields, while documents are read."""

    def __init__(self) -> None:
        self.fields: dict[str, dict[str, ColumnBuilder]] = {}
        self.unlisted = False  # whether there are fields without columns

    def documents(self, rows: Iterable[object]) -> Iterator[tuple[bytes]]:
        """Yield the JSON of every document, while its values go into columns."""
        for row, given in enumerate(rows):
            metadata = checked_metadata(given, row)
            yield (to_json(metadata, row),)
            if metadata:
                self._add(row, metadata)

    def _add(self, row: int, metadata: dict[str, Any]) -> None:
        try:
            fields = fields_of(metadata)
        except InputError as error:
            raise error.at(f"metadata of document {row}") from None
        for path, value in fields.items():
            columns = self.fields.get(path)
            if columns is None:
                if len(self.fields) >= _MOST_FIELDS or len(path) > _LONGEST_NAME:
                    self.unlisted = True
                    continue
                columns = self.fields[path] = {}
            add_value(columns, row, value)


class ColumnBuilder:
    """Rows that have a value of one kind, and nothing more: nulls, objects, and what only their JSON can tell."""

    def __init__(self) -> None:
        self.rows = array("I")

    def add(self, row: int, value: Any) -> None:
        """Add a row, in ascending order."""
        self.rows.append(row)

    def pieces(self) -> tuple[dict[str, Any], Callable[[NDArray[np.int64] | None, int], Iterator[NDArray[Any]]]]:
        """Return what the directory says of the values, and a function that lays them out.

        The function gets the slot of each value, or None if they follow each other, and the number of slots.
        """
        return {}, lambda slots, num_slots: iter(())


class NumbersBuilder(ColumnBuilder):
    """Numbers or truth values."""

    def __init__(self, typecode: str) -> None:
        super().__init__()
        self.values = array(typecode)

    def add(self, row: int, value: Any) -> None:
        """Add a row and its value."""
        self.rows.append(row)
        self.values.append(value)

    def pieces(self) -> tuple[dict[str, Any], Callable[[NDArray[np.int64] | None, int], Iterator[NDArray[Any]]]]:
        """Return what the directory says of the values, and a function that lays them out."""
        values = np.frombuffer(self.values, dtype=f"<{np.dtype(self.values.typecode).str[1:]}")
        if values.dtype.kind == "i":
            values = values.astype(_narrowest(values))
        return {"type": values.dtype.str}, lambda slots, num_slots: iter((_in_slots(values, slots, num_slots),))


class StringsBuilder(ColumnBuilder):
    """Strings as numbers of a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers: dict[str, int] = {}  # of the run that is open
        self._codes = array("I")
        self._runs: list[tuple[bytes, NDArray[np.uint64], NDArray[np.uint32]]] = []  # dictionary, offsets, codes

    def add(self, row: int, value: Any) -> None:
        """Add a row and its value."""
        self.rows.append(row)
        self._codes.append(self._numbers.setdefault(value, len(self._numbers)))
        if len(self._numbers) >= _RUN:
            self._close_run()

    def _close_run(self) -> None:
        """Sort the dictionary of the open run, and keep it as bytes."""
        ordered = sorted(self._numbers)
        rank = np.empty(len(ordered), dtype=np.uint32)
        rank[[self._numbers[text] for text in ordered]] = np.arange(len(ordered), dtype=np.uint32)
        encoded = [text.encode("utf-8") for text in ordered]
        codes = rank[np.frombuffer(self._codes, dtype=np.uint32)]
        self._runs.append((b"".join(encoded), _offsets(encoded), codes))
        self._numbers, self._codes = {}, array("I")

    def pieces(self) -> tuple[dict[str, Any], Callable[[NDArray[np.int64] | None, int], Iterator[NDArray[Any]]]]:
        """Return what the directory says of the values, and a function that lays them out."""
        if self._numbers:
            self._close_run()
        text, offsets, codes = self._runs[0] if len(self._runs) == 1 else merged_runs(self._runs)
        codes = codes.astype(_narrowest_code(len(offsets) - 1))
        entry = {"type": codes.dtype.str, "distinct": len(offsets) - 1, "bytes": len(text)}

        def laid_out(slots: NDArray[np.int64] | None, num_slots: int) -> Iterator[NDArray[Any]]:
            yield _in_slots(codes, slots, num_slots)
            yield offsets
            yield np.frombuffer(text, dtype=np.uint8)

        return entry, laid_out


class ListsBuilder(ColumnBuilder):
    """Lists of scalars: the length of each, and columns of all elements."""

    def __init__(self) -> None:
        super().__init__()
        self._lengths = array("I")
        self._num_items = 0
        self._items: dict[str, ColumnBuilder] = {}

    def add(self, row: int, value: Any) -> None:
        """Add a row and its list."""
        if self._num_items + len(value) > _MOST_POSITIONS:
            raise InputError(
                where=f"metadata of document {row}",
                expected=f"at most {_MOST_POSITIONS:,} elements of lists",
                got="more",
            )
        self.rows.append(row)
        self._lengths.append(len(value))
        for item in value:
            add_value(self._items, self._num_items, item)
            self._num_items += 1

    def pieces(self) -> tuple[dict[str, Any], Callable[[NDArray[np.int64] | None, int], Iterator[NDArray[Any]]]]:
        """Return what the directory says of the values, and a function that lays them out."""
        lengths = np.frombuffer(self._lengths, dtype=np.uint32)
        entries, arrays = packed_columns(self._items, self._num_items)

        def laid_out(slots: NDArray[np.int64] | None, num_slots: int) -> Iterator[NDArray[Any]]:
            offsets = np.zeros(num_slots + 1, dtype=np.uint64)
            np.cumsum(_in_slots(lengths, slots, num_slots), out=offsets[1:])
            yield offsets
            yield from arrays

        return {"items": self._num_items, "columns": entries}, laid_out


_BUILDERS: dict[str, Callable[[], ColumnBuilder]] = {
    "null": ColumnBuilder,
    "bool": lambda: NumbersBuilder("B"),
    "int": lambda: NumbersBuilder("q"),
    "float": lambda: NumbersBuilder("d"),
    "string": StringsBuilder,
    "list": ListsBuilder,
    "object": ColumnBuilder,
    "json": ColumnBuilder,
}
#: The kinds of columns, in the order in which they are stored.
KINDS = tuple(_BUILDERS)
#: Those that elements of lists can have.
ITEM_KINDS = KINDS[:5]
_SCALARS = {type(None): "null", bool: "bool", int: "int", float: "float", str: "string"}


def add_value(columns: dict[str, ColumnBuilder], row: int, value: Any) -> None:
    """Add a checked value to the column of its kind."""
    kind = _SCALARS.get(type(value)) or _kind_of(value)
    if kind == "int" and not fits_64_bits(value):
        kind = "json"
    column = columns.get(kind)
    if column is None:
        column = columns[kind] = _BUILDERS[kind]()
    column.add(row, value)


def _kind_of(value: Any) -> str:
    """Return the kind of column for a list or an object; of lists with anything but scalars only the JSON is kept."""
    if isinstance(value, dict):
        return "object"
    plain = all(type(item) in _SCALARS and (type(item) is not int or fits_64_bits(item)) for item in value)
    return "list" if plain else "json"


# --- writing ---------------------------------------------------------------------------------------------------------


def write_columns(
    fields: dict[str, dict[str, ColumnBuilder]], num_docs: int, unlisted: bool, append: Append
) -> dict[str, Any]:
    """Write the columns of all fields behind each other, and return the directory."""
    entries: list[dict[str, Any]] = []
    append("metadata_column", np.zeros(0, dtype=np.uint8))
    for name in sorted(fields):
        columns, arrays = packed_columns(fields[name], num_docs)
        entries.append({"name": name, "columns": columns})
        for values in arrays:
            raw = np.ascontiguousarray(values).view(np.uint8)
            append("metadata_column", raw)
            append("metadata_column", np.zeros(-len(raw) % ALIGNMENT, dtype=np.uint8))
    return {"fields": entries, "unlisted": unlisted}


def packed_columns(
    columns: dict[str, ColumnBuilder], num_rows: int
) -> tuple[list[dict[str, Any]], Iterator[NDArray[Any]]]:
    """Return what the directory says of some columns, and their arrays one after the other."""
    entries: list[dict[str, Any]] = []
    layouts: list[Iterator[NDArray[Any]]] = []
    for kind in KINDS:
        if kind in columns:
            entry, arrays = _packed_column(kind, columns.pop(kind), num_rows)
            entries.append(entry)
            layouts.append(arrays)
    return entries, (values for arrays in layouts for values in arrays)


def _packed_column(kind: str, column: ColumnBuilder, num_rows: int) -> tuple[dict[str, Any], Iterator[NDArray[Any]]]:
    rows = np.frombuffer(column.rows, dtype=np.uint32)
    presence = "all" if len(rows) == num_rows else "bits" if _DENSE * len(rows) >= num_rows else "rows"
    more, laid_out = column.pieces()

    def arrays() -> Iterator[NDArray[Any]]:
        if presence == "bits":
            mask = np.zeros(num_rows, dtype=np.bool_)
            mask[rows] = True
            yield np.packbits(mask, bitorder="little")
            yield from laid_out(rows.astype(np.int64), num_rows)
        else:
            if presence == "rows":
                yield rows
            yield from laid_out(None, len(rows))

    return {"kind": kind, "count": len(rows), "presence": presence, **more}, arrays()


def _in_slots(values: NDArray[Any], slots: NDArray[np.int64] | None, num_slots: int) -> NDArray[Any]:
    """Return values in their slots; those between them are 0."""
    if slots is None:
        return values
    spread = np.zeros(num_slots, dtype=values.dtype)
    spread[slots] = values
    return spread


def _narrowest(values: NDArray[Any]) -> np.dtype[Any]:
    least, most = int(values.min(initial=0)), int(values.max(initial=0))
    kinds = (np.dtype(f"<i{size}") for size in (1, 2, 4, 8))
    return next(kind for kind in kinds if np.iinfo(kind).min <= least and most <= np.iinfo(kind).max)


def _narrowest_code(count: int) -> np.dtype[Any]:
    return np.dtype("<u1" if count <= 1 << 8 else "<u2" if count <= 1 << 16 else "<u4")


def _offsets(texts: list[bytes]) -> NDArray[np.uint64]:
    found = np.zeros(len(texts) + 1, dtype=np.uint64)
    np.cumsum(np.fromiter(map(len, texts), dtype=np.uint64, count=len(texts)), out=found[1:])
    return found


def merged_runs(
    runs: list[tuple[bytes, NDArray[np.uint64], NDArray[np.uint32]]],
) -> tuple[bytes, NDArray[np.uint64], NDArray[np.uint32]]:
    """Return one dictionary for several sorted runs, and the codes of all of them, run after run."""
    text, lengths = bytearray(), array("I")
    numbers = [np.empty(len(offsets) - 1, dtype=np.uint32) for _, offsets, _ in runs]
    last: bytes | None = None
    for entry, run, place in heapq.merge(*(_entries(run, *parts[:2]) for run, parts in enumerate(runs))):
        if entry != last:
            text += entry
            lengths.append(len(entry))
            last = entry
        numbers[run][place] = len(lengths) - 1
    offsets = np.zeros(len(lengths) + 1, dtype=np.uint64)
    np.cumsum(np.frombuffer(lengths, dtype=np.uint32), out=offsets[1:])
    return (
        bytes(text),
        offsets,
        np.concatenate([table[codes] for table, (_, _, codes) in zip(numbers, runs, strict=True)]),
    )


def _entries(run: int, text: bytes, offsets: NDArray[np.uint64]) -> Iterator[tuple[bytes, int, int]]:
    places = offsets.tolist()
    for number in range(len(places) - 1):
        yield text[places[number] : places[number + 1]], run, number
