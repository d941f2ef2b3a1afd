"""The directory of columns in meta.json, read as hostile input.

It says which arrays lie in the component of columns: one after the other, each at the next multiple of 64 bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segmax.metadata.columns import (
    BoolColumn,
    Column,
    FloatColumn,
    IntColumn,
    ListColumn,
    NullColumn,
    Presence,
    StringColumn,
)
from segmax.metadata.packing import ALIGNMENT, ITEM_KINDS, KINDS

_MOST_POSITIONS = 2**32 - 1
_TYPES = {"bool": ("|u1",), "int": ("|i1", "<i2", "<i4", "<i8"), "float": ("<f8",), "string": ("|u1", "<u2", "<u4")}
_SCALARS = {"bool": BoolColumn, "int": IntColumn, "float": FloatColumn}


def read_fields(entry: Mapping[str, Any], data: NDArray[np.uint8], num_docs: int) -> dict[str, dict[str, Column]]:
    """Return the columns of every field; raise ValueError if the directory and the data do not fit together."""
    cursor = _Cursor(data)
    found: dict[str, dict[str, Column]] = {}
    for field in _list(entry, "fields"):
        name = field["name"]
        if not isinstance(name, str) or name in found:
            raise ValueError("a field has no name of its own")
        found[name] = _read_columns(field, cursor, num_docs, KINDS)
    cursor.finish()
    return found


class _Cursor:
    """Hands out the arrays of the component in order."""

    def __init__(self, data: NDArray[np.uint8]) -> None:
        self._data = data
        self._at = 0

    def take(self, dtype: str, count: int) -> NDArray[Any]:
        """Return the next array."""
        size = np.dtype(dtype).itemsize * count
        end = self._at + size
        if end > len(self._data):
            raise ValueError("the columns are longer than their component")
        found = self._data[self._at : end].view(dtype)
        self._at = end + -size % ALIGNMENT
        return found

    def finish(self) -> None:
        """Raise ValueError unless everything was taken."""
        if self._at != len(self._data):
            raise ValueError("the columns are shorter than their component")


def _read_columns(entry: Any, cursor: _Cursor, num_rows: int, kinds: tuple[str, ...]) -> dict[str, Column]:
    found: dict[str, Column] = {}
    for column in _list(entry, "columns"):
        kind = column["kind"]
        if kind not in kinds or kind in found:
            raise ValueError("a field has a column of an impossible kind")
        found[kind] = _read_column(kind, column, cursor, num_rows)
    return found


def _read_column(kind: str, entry: Any, cursor: _Cursor, num_rows: int) -> Column:
    presence = _read_presence(entry, cursor, num_rows)
    if kind in ("object", "json"):
        return Column(kind, presence)
    if kind == "null":
        return NullColumn(kind, presence)
    if kind == "list":
        num_items = _whole(entry, "items", _MOST_POSITIONS)
        offsets = cursor.take("<u8", presence.num_slots + 1)
        return ListColumn(presence, offsets, num_items, _read_columns(entry, cursor, num_items, ITEM_KINDS))
    dtype = entry["type"]
    if dtype not in _TYPES[kind]:
        raise ValueError("a column has values of an impossible type")
    values = cursor.take(dtype, presence.num_slots)
    if kind == "string":
        distinct, size = _whole(entry, "distinct", _MOST_POSITIONS), _whole(entry, "bytes", 2**63 - 1)
        return StringColumn(presence, values, cursor.take("<u8", distinct + 1), cursor.take("|u1", size))
    return _SCALARS[kind](kind, presence, values)


def _read_presence(entry: Any, cursor: _Cursor, num_rows: int) -> Presence:
    count, presence = _whole(entry, "count", num_rows), entry["presence"]
    if presence == "bits":
        return Presence(num_rows, count, bits=cursor.take("|u1", (num_rows + 7) // 8))
    if presence == "rows" and count:
        return Presence(num_rows, count, rows=cursor.take("<u4", count))
    if presence != "all" or count != num_rows:
        raise ValueError("a column has impossible rows")
    return Presence(num_rows, count)


def _list(entry: Any, name: str) -> list[Any]:
    found = entry[name]
    if not isinstance(found, list):
        raise ValueError("no list")
    return found


def _whole(entry: Any, name: str, most: int) -> int:
    found = entry[name]
    if type(found) is not int or not 0 <= found <= most:
        raise ValueError("no whole number in range")
    return found
