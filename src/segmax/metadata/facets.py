"""Values of a field: counted over documents, and looked up by row."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from segmax.base.breaks import with_breaks
from segmax.metadata.columns import Column, ListColumn, Mask, NullColumn, ScalarColumn
from segmax.metadata.values import MISSING, Scalar, find, value_key


class Documents(Protocol):
    """The metadata of documents by row."""

    def __getitem__(self, row: int, /) -> dict[str, Any] | None: ...


class Counts:
    """How many documents have each value; equal values of other types count together, with the first one's type."""

    def __init__(self) -> None:
        self._values: dict[tuple[int, Any], Scalar] = {}
        self._counts: dict[tuple[int, Any], int] = {}

    def add(self, value: Scalar, count: int = 1) -> None:
        """Count documents that have a value."""
        key = value_key(value)
        self._values.setdefault(key, value)
        self._counts[key] = self._counts.get(key, 0) + count

    def largest(self, limit: int | None) -> list[tuple[Scalar, int]]:
        """Return the values and their counts, the largest count first."""
        ordered = sorted(self._counts, key=lambda key: (-self._counts[key], key))
        return [(self._values[key], self._counts[key]) for key in ordered[:limit]]


def counted_values(
    columns: Mapping[str, Column] | None, field: str, rows: Mask, documents: Documents, limit: int | None
) -> list[tuple[Scalar, int]]:
    """Return the values of a field over some rows, and how many documents have each."""
    counts = Counts()
    if columns is None:
        _count_one_by_one(np.flatnonzero(rows), field, documents, counts)
        return counts.largest(limit)
    for column in columns.values():
        slots = column.presence.gathered(rows)
        if isinstance(column, ScalarColumn):
            values, numbers = column.counts(slots)
            for value, number in zip(values, numbers.tolist(), strict=True):
                counts.add(value, number)
        elif isinstance(column, NullColumn):
            if number := int(slots.sum()):
                counts.add(None, number)
        elif isinstance(column, ListColumn):
            _count_items(column, rows, counts)
        elif column.kind == "json":
            _count_one_by_one(np.flatnonzero(rows & column.presence.mask()), field, documents, counts)
    return counts.largest(limit)


def _count_one_by_one(rows: NDArray[np.int64], field: str, documents: Documents, counts: Counts) -> None:
    for row in with_breaks(rows.tolist()):
        for value in scalars_of(find(documents[row], field)):
            counts.add(value)


def _count_items(column: ListColumn, rows: Mask, counts: Counts) -> None:
    """Count every distinct element of a list once."""
    owners = column.row_of_items()
    wanted = rows[owners]
    numbers: dict[tuple[int, Any], int] = {}
    values: list[Scalar] = []
    pairs: list[NDArray[np.int64]] = []  # of a row and the number of a value
    for items in column.items.values():
        slots = items.presence.gathered(wanted)
        found, number_of = _numbered(items, slots)
        table = np.array([numbers.setdefault(value_key(value), len(numbers)) for value in found], dtype=np.int64)
        values.extend(found)
        places = items.presence.row_of_slots()[slots]
        pairs.append(np.stack([owners[places], table[number_of]]))
    by_number: dict[int, Scalar] = {}
    for value in values:
        by_number.setdefault(numbers[value_key(value)], value)
    if not by_number:
        return
    joined = np.concatenate(pairs, axis=1)
    keys = np.sort(joined[0] * len(numbers) + joined[1], kind="stable")  # np.unique takes a hundred times as long
    unique = keys[np.append(True, keys[1:] != keys[:-1])]
    for number, count in enumerate(np.bincount(unique % len(numbers), minlength=len(numbers)).tolist()):
        if count:
            counts.add(by_number[number], count)


def _numbered(items: Column, slots: Mask) -> tuple[list[Scalar], NDArray[np.int64]]:
    """Return the distinct values of some slots, and the number of each slot's value."""
    if isinstance(items, ScalarColumn):
        return items.numbered(slots)
    count = int(slots.sum())
    return [None] if count else [], np.zeros(count, dtype=np.int64)


def scalars_of(value: Any) -> Iterable[Scalar]:
    """Return the distinct scalars that a value counts as: itself, or the elements of a list in their order."""
    items = value if isinstance(value, list) else [] if value is MISSING else [value]
    found: dict[tuple[int, Any], Scalar] = {}
    for item in items:
        if not isinstance(item, (list, dict)):
            found.setdefault(value_key(item), item)
    return found.values()


class Members(NamedTuple):
    """The documents of every value of a field that JSON alone tells: a row and a digest for each of their scalars."""

    rows: NDArray[np.uint32]
    digests: NDArray[np.uint64]  #: two numbers each

    def having(self, value: Scalar, num_docs: int) -> Mask:
        """Return by row whether a document has a value, by itself or in a list."""
        found = np.zeros(num_docs, dtype=np.bool_)
        found[self.rows[(self.digests == np.frombuffer(_digest(value), dtype=np.uint64)).all(axis=1)]] = True
        return found


def members_of(field: str, rows: NDArray[np.int64], documents: Iterable[dict[str, Any] | None]) -> Members:
    """Return which documents, of these rows, have which values of a field, from one look at each."""
    found, digests = array("I"), bytearray()
    for row, metadata in zip(rows.tolist(), with_breaks(documents), strict=True):
        for value in scalars_of(find(metadata, field)):
            found.append(row)
            digests += _digest(value)
    return Members(np.array(found, dtype=np.uint32), np.frombuffer(digests, dtype=np.uint64).reshape(-1, 2))


def _digest(value: Scalar) -> bytes:
    """Return 16 bytes that are the same for equal values only."""
    kind, key = value_key(value)
    if isinstance(key, float) and key.is_integer():
        key = int(key)
    text = hex(key) if isinstance(key, int) else str(key)  # an integer may be too long for decimal digits
    return hashlib.blake2b(f"{kind} {text}".encode("utf-8", "surrogatepass"), digest_size=16).digest()


def values_of(
    columns: Mapping[str, Column] | None, field: str, rows: NDArray[np.int64], documents: Documents
) -> list[Any]:
    """Return the value of a field in each of some rows; None where it is missing."""
    found: list[Any] = [None] * len(rows)
    if columns is None:
        _look_up(range(len(rows)), field, rows, documents, found)
        return found
    for column in columns.values():
        places, slots = column.presence.slots_of(rows)
        if isinstance(column, ScalarColumn):
            for place, value in zip(places.tolist(), column.at(slots), strict=True):
                found[place] = value
        elif not isinstance(column, NullColumn):
            _look_up(places.tolist(), field, rows, documents, found)
    return found


def _look_up(
    places: Iterable[int], field: str, rows: NDArray[np.int64], documents: Documents, found: list[Any]
) -> None:
    for place in with_breaks(places):
        value = find(documents[int(rows[place])], field)
        found[place] = None if value is MISSING else value
