"""From the metadata of documents to the components of an index, in one pass.

Documents are read one by one. What stays in memory of a document is a few bytes for each of its fields: the column it
lies in, as it will be stored. Strings stay as the dictionary of their distinct values, in sorted runs that are merged
at the end, so that a field with a different string for every document costs no Python object for each.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from segmax.base.errors import InputError
from segmax.metadata.dictionary import merged_strings, packed_strings
from segmax.metadata.layout import (
    DOCUMENTS,
    LONGEST_NAME,
    MOST_FIELDS,
    MOST_ITEMS,
    Lists,
    Numbers,
    Packed,
    Strings,
    write_columns,
)
from segmax.metadata.values import checked_metadata, fields_of, fits_64_bits, to_json
from segmax.storage.blocks import Append, write_blocks

_RUN = 1 << 16  # distinct strings before a run is sorted and packed


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

    Examples
    --------
    >>> components = {}
    >>> entry = pack_metadata([{"year": 2020}], 1, lambda name, array: components.setdefault(name, []).append(array))
    >>> [field["name"] for field in entry["fields"]]
    ['year']
    """
    fields = _Fields()
    found = write_blocks(DOCUMENTS, fields.documents(rows), append)
    if found != num_docs:
        raise InputError(expected=f"metadata of {num_docs} documents, one for each", got=f"{found}")
    return write_columns(fields.packed(), num_docs, unlisted=fields.unlisted, append=append)


class _Fields:
    """The columns of all fields, while documents are read."""

    def __init__(self) -> None:
        self._columns: dict[str, dict[str, _Column]] = {}
        self.unlisted = False  # whether there are fields without columns

    def documents(self, rows: Iterable[object]) -> Iterator[tuple[bytes]]:
        """Yield the JSON of every document, while its values go into columns."""
        for row, given in enumerate(rows):
            metadata = checked_metadata(given, row)
            yield (to_json(metadata, row),)
            if metadata:
                self._add(row, metadata)

    def packed(self) -> dict[str, dict[str, Packed]]:
        """Return the columns of all fields."""
        return {name: _packed(columns) for name, columns in self._columns.items()}

    def _add(self, row: int, metadata: dict[str, Any]) -> None:
        try:
            fields = fields_of(metadata)
        except InputError as error:
            raise error.at(f"metadata of document {row}") from None
        for path, value in fields.items():
            columns = self._columns.get(path)
            if columns is None:
                if len(self._columns) >= MOST_FIELDS or len(path) > LONGEST_NAME:
                    self.unlisted = True
                    continue
                columns = self._columns[path] = {}
            _add_value(columns, row, value)


class _Column:
    """Rows that have a value of one kind, and nothing more."""

    def __init__(self) -> None:
        self._rows = array("I")

    def add(self, row: int, value: Any) -> None:
        """Add a row, in ascending order."""
        self._rows.append(row)

    def packed(self) -> Packed:
        """Return the column, ready to be stored."""
        return Packed(np.frombuffer(self._rows, dtype=np.uint32), self._values())

    def _values(self) -> Numbers | Strings | Lists | None:
        return None


class _NumberColumn(_Column):
    """Numbers or truth values."""

    def __init__(self, typecode: str) -> None:
        super().__init__()
        self._numbers = array(typecode)

    def add(self, row: int, value: Any) -> None:
        """Add a row and its value."""
        self._rows.append(row)
        self._numbers.append(value)

    def _values(self) -> Numbers:
        return Numbers(np.frombuffer(self._numbers, dtype=self._numbers.typecode))


class _StringColumn(_Column):
    """Strings as numbers of a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers: dict[str, int] = {}  # of the run that is open
        self._codes = array("I")
        self._runs: list[Strings] = []

    def add(self, row: int, value: Any) -> None:
        """Add a row and its value."""
        self._rows.append(row)
        self._codes.append(self._numbers.setdefault(value, len(self._numbers)))
        if len(self._numbers) >= _RUN:
            self._close_run()

    def _close_run(self) -> None:
        self._runs.append(packed_strings(self._numbers, self._codes))
        self._numbers, self._codes = {}, array("I")

    def _values(self) -> Strings:
        if self._numbers:
            self._close_run()
        return merged_strings(self._runs)


class _ListColumn(_Column):
    """Lists of scalars: the length of each, and columns of all elements."""

    def __init__(self) -> None:
        super().__init__()
        self._lengths = array("I")
        self._num_items = 0
        self._items: dict[str, _Column] = {}

    def add(self, row: int, value: Any) -> None:
        """Add a row and its list."""
        if self._num_items + len(value) > MOST_ITEMS:
            where = f"metadata of document {row}"
            raise InputError(
                where=where, expected=f"at most {MOST_ITEMS:,} elements in the lists of a field", got="more"
            )
        self._rows.append(row)
        self._lengths.append(len(value))
        for item in value:
            _add_value(self._items, self._num_items, item)
            self._num_items += 1

    def _values(self) -> Lists:
        return Lists(np.frombuffer(self._lengths, dtype=np.uint32), self._num_items, _packed(self._items))


_COLUMNS: dict[str, Callable[[], _Column]] = {
    "bool": lambda: _NumberColumn("B"),
    "int": lambda: _NumberColumn("q"),
    "float": lambda: _NumberColumn("d"),
    "string": _StringColumn,
    "list": _ListColumn,
}
_SCALARS = {type(None): "null", bool: "bool", int: "int", float: "float", str: "string"}


def _add_value(columns: dict[str, _Column], row: int, value: Any) -> None:
    """Add a checked value to the column of its kind."""
    kind = _SCALARS.get(type(value)) or _kind_of(value)
    if kind == "int" and not fits_64_bits(value):
        kind = "json"
    column = columns.get(kind)
    if column is None:
        column = columns[kind] = _COLUMNS.get(kind, _Column)()
    column.add(row, value)


def _kind_of(value: Any) -> str:
    """Return the kind of column for a list or an object; of lists with anything but scalars only the JSON is kept."""
    if isinstance(value, dict):
        return "object"
    plain = all(type(item) in _SCALARS and (type(item) is not int or fits_64_bits(item)) for item in value)
    return "list" if plain else "json"


def _packed(columns: dict[str, _Column]) -> dict[str, Packed]:
    return {kind: column.packed() for kind, column in columns.items()}
