"""How columns are stored: behind each other in one component, each array at the next multiple of 64 bytes.

`write_columns` writes them and returns the directory, which meta.json holds; directory.py reads it. docs/format.md
describes both.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segmax.storage.blocks import Append, BlockKind

#: The JSON of documents: a string each, empty where a document has none.
DOCUMENTS = BlockKind("metadata", "metadata", strings=1, block_bytes=1 << 14)
#: Where arrays start in the component of columns.
ALIGNMENT = 64
#: How many fields have columns, and how long their names are: meta.json, which holds the directory, is bounded.
MOST_FIELDS = 512
LONGEST_NAME = 128
#: How many elements all lists of a field have: rows of columns are 32 bits.
MOST_ITEMS = 2**32 - 1
#: The kinds of columns, in the order in which they are stored.
KINDS = ("null", "bool", "int", "float", "string", "list", "object", "json")
#: Those that elements of lists can have.
ITEM_KINDS = KINDS[:5]

_DENSE = 8  # a column that one row in eight has is stored with a bitmap, and a slot for every row


@dataclasses.dataclass(frozen=True)
class Numbers:
    """Numbers or truth values, one per value."""

    values: NDArray[Any]

    def entry(self) -> dict[str, Any]:
        """Return what the directory says of them."""
        return {"type": self._dtype().str}

    def arrays(self, slots: NDArray[np.uint32] | None, num_slots: int) -> Iterator[NDArray[Any]]:
        """Yield the arrays to store. `slots` has the slot of each value; None: they follow each other."""
        yield _in_slots(self.values.astype(self._dtype()), slots, num_slots)

    def _dtype(self) -> np.dtype[Any]:
        """Return the narrowest type for integers: what a search compares should be few bytes."""
        if self.values.dtype.kind != "i":
            return self.values.dtype
        least, most = int(self.values.min(initial=0)), int(self.values.max(initial=0))
        kinds = (np.dtype(f"<i{size}") for size in (1, 2, 4, 8))
        return next(kind for kind in kinds if np.iinfo(kind).min <= least and most <= np.iinfo(kind).max)


@dataclasses.dataclass(frozen=True)
class Strings:
    """Strings: a dictionary of distinct ones, ascending, and the number of each value in it."""

    text: bytes
    offsets: NDArray[np.uint64]
    codes: NDArray[np.uint32]

    def entry(self) -> dict[str, Any]:
        """Return what the directory says of them."""
        return {"type": self._dtype().str, "distinct": len(self.offsets) - 1, "bytes": len(self.text)}

    def arrays(self, slots: NDArray[np.uint32] | None, num_slots: int) -> Iterator[NDArray[Any]]:
        """Yield the arrays to store. `slots` has the slot of each value; None: they follow each other."""
        yield _in_slots(self.codes.astype(self._dtype()), slots, num_slots)
        yield self.offsets
        yield np.frombuffer(self.text, dtype=np.uint8)

    def _dtype(self) -> np.dtype[Any]:
        count = len(self.offsets) - 1
        return np.dtype("<u1" if count <= 1 << 8 else "<u2" if count <= 1 << 16 else "<u4")


@dataclasses.dataclass(frozen=True)
class Lists:
    """Lists of scalars: how long each is, and the columns of all elements."""

    lengths: NDArray[np.uint32]
    num_items: int
    items: Mapping[str, Packed]

    def entry(self) -> dict[str, Any]:
        """Return what the directory says of them."""
        return {"items": self.num_items, "columns": _entries(self.items, self.num_items)}

    def arrays(self, slots: NDArray[np.uint32] | None, num_slots: int) -> Iterator[NDArray[Any]]:
        """Yield the arrays to store. `slots` has the slot of each value; None: they follow each other."""
        offsets = np.zeros(num_slots + 1, dtype=np.uint64)
        np.cumsum(_in_slots(self.lengths, slots, num_slots), out=offsets[1:])
        yield offsets
        yield from _arrays(self.items, self.num_items)


@dataclasses.dataclass(frozen=True)
class Packed:
    """A column, ready to be stored: the rows that have a value of its kind, ascending, and their values if it has any.

    Nulls, objects, and what only its JSON can tell have none.
    """

    rows: NDArray[np.uint32]
    values: Numbers | Strings | Lists | None = None

    def entry(self, kind: str, num_rows: int) -> dict[str, Any]:
        """Return what the directory says of the column."""
        more = {} if self.values is None else self.values.entry()
        return {"kind": kind, "count": len(self.rows), "presence": self._presence(num_rows), **more}

    def arrays(self, num_rows: int) -> Iterator[NDArray[Any]]:
        """Yield the arrays to store: which rows, then the values."""
        presence = self._presence(num_rows)
        if presence == "bits":
            mask = np.zeros(num_rows, dtype=np.bool_)
            mask[self.rows] = True
            yield np.packbits(mask, bitorder="little")
        elif presence == "rows":
            yield self.rows
        if self.values is not None:
            dense = presence == "bits"
            yield from self.values.arrays(self.rows if dense else None, num_rows if dense else len(self.rows))

    def _presence(self, num_rows: int) -> str:
        if len(self.rows) == num_rows:
            return "all"
        return "bits" if _DENSE * len(self.rows) >= num_rows else "rows"


def write_columns(
    fields: Mapping[str, Mapping[str, Packed]], num_docs: int, *, unlisted: bool, append: Append
) -> dict[str, Any]:
    """Write the columns of all fields; return the directory. `unlisted` says whether there are fields without any."""
    append("metadata_column", np.zeros(0, dtype=np.uint8))  # the component is there even if no document has a field
    entries: list[dict[str, Any]] = []
    for name in sorted(fields):
        entries.append({"name": name, "columns": _entries(fields[name], num_docs)})
        for values in _arrays(fields[name], num_docs):
            raw = np.ascontiguousarray(values).view(np.uint8)
            append("metadata_column", raw)
            append("metadata_column", np.zeros(-len(raw) % ALIGNMENT, dtype=np.uint8))
    return {"fields": entries, "unlisted": unlisted}


def _entries(columns: Mapping[str, Packed], num_rows: int) -> list[dict[str, Any]]:
    return [columns[kind].entry(kind, num_rows) for kind in KINDS if kind in columns]


def _arrays(columns: Mapping[str, Packed], num_rows: int) -> Iterator[NDArray[Any]]:
    for kind in KINDS:
        if kind in columns:
            yield from columns[kind].arrays(num_rows)


def _in_slots(values: NDArray[Any], slots: NDArray[np.uint32] | None, num_slots: int) -> NDArray[Any]:
    """Return values in their slots; those between them are 0."""
    if slots is None:
        return values
    spread = np.zeros(num_slots, dtype=values.dtype)
    spread[slots] = values
    return spread
