"""Columns of metadata: what the values of one field of one kind look like as arrays, and how they answer tests.

A field has a column for every kind of value that documents have in it. A column covers some rows: all of them, those
in a bitmap, or those in a list. Its *slots* are the places of its values: a slot per row of the collection where there
is a bitmap, otherwise a slot per value. A column of lists has another set of columns for the elements of all lists.

Arrays are read as they lie in the file. Nothing in them can lead outside of them, and what a column needs to be true
of its arrays is checked when it is first used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segmax.metadata.values import Scalar
from segmax.metadata.where import Test

Mask = NDArray[np.bool_]
#: Gets the rows that only their JSON can tell about.
Unsure = Callable[[NDArray[np.int64]], None]

_FEW = 16  # values that are compared one after the other


class Presence:
    """The rows that a column has a value for, and their slots."""

    def __init__(
        self, num_rows: int, count: int, bits: NDArray[np.uint8] | None = None, rows: NDArray[np.uint32] | None = None
    ) -> None:
        self.num_rows = num_rows
        self.count = count
        self.num_slots = num_rows if bits is not None else count
        self._bits = bits
        self._rows = rows

    def check(self) -> None:
        """Raise ValueError unless the bitmap or the list of rows is what it should be."""
        if self._bits is not None:
            found = np.unpackbits(self._bits, bitorder="little")
            _need(int(found.sum()) == self.count and not found[self.num_rows :].any())
        elif self._rows is not None and self.count:
            _need(bool((self._rows[1:] > self._rows[:-1]).all()) and int(self._rows[-1]) < self.num_rows)

    def mask(self) -> Mask:
        """Return by row whether it has a value."""
        if self._bits is not None:
            return np.unpackbits(self._bits, count=self.num_rows, bitorder="little").view(np.bool_)
        if self._rows is None:
            return np.ones(self.num_rows, dtype=np.bool_)
        found = np.zeros(self.num_rows, dtype=np.bool_)
        found[self._rows] = True
        return found

    def rows(self) -> NDArray[np.int64]:
        """Return the rows that have a value, ascending."""
        return np.flatnonzero(self.mask())

    def row_of_slots(self) -> NDArray[np.int64]:
        """Return the row of each slot; with a bitmap, also of slots without a value."""
        return np.arange(self.num_rows) if self._rows is None else self._rows.astype(np.int64)

    def spread(self, hits: Mask) -> Mask:
        """Return by row what is given by slot; False where there is no value."""
        if self._bits is not None:
            return np.logical_and(hits, self.mask(), out=hits)
        if self._rows is None:
            return hits
        found = np.zeros(self.num_rows, dtype=np.bool_)
        found[self._rows[hits]] = True
        return found

    def gathered(self, rows: Mask) -> Mask:
        """Return by slot what is given by row; False where there is no value."""
        if self._bits is not None:
            return rows & self.mask()
        return rows if self._rows is None else rows[self._rows]

    def slots_of(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return which of some rows have a value, and their slots."""
        if self._bits is not None:
            places = np.flatnonzero(self._bits[rows >> 3] >> (rows & 7).astype(np.uint8) & 1)
            return places, rows[places]
        if self._rows is None:
            return np.arange(len(rows)), rows
        slots = np.searchsorted(self._rows, rows)
        places = np.flatnonzero(self._rows[np.minimum(slots, self.count - 1)] == rows)
        return places, slots[places]


class Column:
    """The rows that have values of one kind. Objects, nulls, and what only their JSON can tell have nothing more."""

    def __init__(self, kind: str, presence: Presence) -> None:
        self.kind = kind
        self.presence = presence
        self._is_checked = False

    def check(self) -> None:
        """Raise ValueError unless the arrays are what they should be; once is enough."""
        if not self._is_checked:
            self.presence.check()
            self._check_values()
            self._is_checked = True

    def _check_values(self) -> None:
        """Raise ValueError unless the values are what they should be."""

    def test(self, test: Test, unsure: Unsure) -> Mask | None:
        """Return by row whether a test holds for sure; None for nowhere."""
        if test.operator == "exists":
            return self.presence.mask()
        rows = self._candidates(test)
        if rows is not None and len(rows):
            unsure(rows)
        return None

    def _candidates(self, test: Test) -> NDArray[np.int64] | None:
        """Return the rows whose JSON has to be looked at."""
        if self.kind == "object" and not (test.operator == "eq" and isinstance(test.operand, dict)):
            return None
        return self.presence.rows()


class NullColumn(Column):
    """Rows whose value is null."""

    def test(self, test: Test, unsure: Unsure) -> Mask | None:
        """Return by row whether a test holds; None for nowhere."""
        is_met = test.operator == "exists" or any(value is None for value in equal_values(test))
        return self.presence.mask() if is_met else None


class ScalarColumn(Column):
    """Values of one kind, one for each slot."""

    def __init__(self, kind: str, presence: Presence, values: NDArray[Any]) -> None:
        super().__init__(kind, presence)
        self.values = values

    def test(self, test: Test, unsure: Unsure) -> Mask | None:
        """Return by row whether a test holds; None for nowhere."""
        if test.operator == "exists":
            return self.presence.mask()
        hits = self._hits(test)
        return None if hits is None else self.presence.spread(hits)

    def _hits(self, test: Test) -> Mask | None:
        """Return by slot whether a test holds; None for nowhere."""
        raise NotImplementedError

    def numbered(self, slots: Mask) -> tuple[list[Scalar], NDArray[np.int64]]:
        """Return the distinct values of some slots, and by slot which of them it has."""
        values, numbers = np.unique(self.values[slots], return_inverse=True)
        return self._named(values), numbers.astype(np.int64)

    def counts(self, slots: Mask) -> tuple[list[Scalar], NDArray[np.int64]]:
        """Return the distinct values of some slots, and how often each is there."""
        values = np.sort(self.values[slots])  # np.unique takes ten times as long
        starts = np.flatnonzero(np.append(True, values[1:] != values[:-1])[: len(values)])
        return self._named(values[starts]), np.diff(starts, append=len(values))

    def at(self, slots: NDArray[np.int64]) -> list[Scalar]:
        """Return the values of some slots."""
        return self._named(self.values[slots])

    def _counted(self, numbers: NDArray[Any], first: int) -> tuple[list[Scalar], NDArray[np.int64]]:
        """Return the distinct values among small numbers, counted from the first one, and how often each is there."""
        counts = np.bincount(numbers, minlength=1)
        there = np.flatnonzero(counts)
        return self._named(there + first), counts[there].astype(np.int64)

    def _named(self, values: NDArray[Any]) -> list[Scalar]:
        """Return stored values as JSON has them."""
        found: list[Scalar] = values.tolist()
        return found


class BoolColumn(ScalarColumn):
    """Truth values, a byte each."""

    def _hits(self, test: Test) -> Mask | None:
        wanted = {value for value in equal_values(test) if isinstance(value, bool)}
        if len(wanted) == 2:
            return np.ones(len(self.values), dtype=np.bool_)
        return (self.values != 0) == wanted.pop() if wanted else None

    def _check_values(self) -> None:
        _need(int(self.values.max(initial=0)) <= 1)

    def _named(self, values: NDArray[Any]) -> list[Scalar]:
        return [value != 0 for value in values.tolist()]


class IntColumn(ScalarColumn):
    """Integers, in as few bytes as hold them all."""

    def _hits(self, test: Test) -> Mask | None:
        numbers = [value for value in compared_values(test) if is_number(value)]
        if test.operator in ("eq", "in"):
            whole = sorted({int(value) for value in numbers if value == math.floor(value)})
            return among(self.values, whole)
        if not numbers:
            return None
        (number,) = numbers
        if test.operator in ("gt", "gte"):
            return between(self.values, math.floor(number) + 1 if test.operator == "gt" else math.ceil(number), None)
        return between(self.values, None, math.ceil(number) - 1 if test.operator == "lt" else math.floor(number))

    def counts(self, slots: Mask) -> tuple[list[Scalar], NDArray[np.int64]]:
        """Return the distinct values of some slots, and how often each is there."""
        values = self.values[slots]
        least, most = int(values.min(initial=0)), int(values.max(initial=0))
        if most - least > max(1 << 16, len(values)):
            return super().counts(slots)
        return self._counted(values.astype(np.int64) - least, least)


class FloatColumn(ScalarColumn):
    """Floats of 64 bits."""

    def _hits(self, test: Test) -> Mask | None:
        numbers = [value for value in compared_values(test) if is_number(value)]
        if test.operator in ("eq", "in"):
            floats = sorted({near for number in numbers if (near := _nearest(number)) == number})
            return among(self.values, floats)
        if not numbers:
            return None
        # Where no float equals the number, the nearest one is on either side of it.
        (number,) = numbers
        near = _nearest(number)
        if test.operator in ("gt", "gte"):
            inclusive = near > number or (near == number and test.operator == "gte")
            return self.values >= near if inclusive else self.values > near
        inclusive = near < number or (near == number and test.operator == "lte")
        return self.values <= near if inclusive else self.values < near

    def _check_values(self) -> None:
        _need(bool(np.isfinite(self.values).all()))


class StringColumn(ScalarColumn):
    """Strings as numbers of a dictionary: the distinct values in the order of their code points."""

    def __init__(
        self, presence: Presence, codes: NDArray[Any], offsets: NDArray[np.uint64], text: NDArray[np.uint8]
    ) -> None:
        super().__init__("string", presence, codes)
        self.offsets = offsets
        self.text = text

    @property
    def num_distinct(self) -> int:
        """The number of entries of the dictionary."""
        return len(self.offsets) - 1

    def _check_values(self) -> None:
        _need(self.offsets[0] == 0 and int(self.offsets[-1]) == len(self.text))
        _need(bool((self.offsets[1:] >= self.offsets[:-1]).all()))
        _need(int(self.values.max(initial=0)) < max(1, self.num_distinct))

    def entry(self, number: int) -> bytes:
        """Return an entry of the dictionary, as UTF-8."""
        return self.text[int(self.offsets[number]) : int(self.offsets[number + 1])].tobytes()

    def _first(self, holds: Callable[[bytes], bool]) -> int:
        """Return the number of the first entry from which on something holds."""
        low, high = 0, self.num_distinct
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if holds(self.entry(middle)) else (middle + 1, high)
        return low

    def _hits(self, test: Test) -> Mask | None:
        texts = [_utf8(value) for value in compared_values(test) if isinstance(value, str)]
        if test.operator in ("eq", "in"):
            numbers = [number for text in sorted(texts) if (number := self._number(text)) is not None]
            return among(self.values, numbers)
        if not texts:
            return None
        (text,) = texts
        if test.operator == "prefix":
            first = self._first(lambda entry: entry >= text)
            return self._between(first, self._first(lambda entry: entry[: len(text)] > text))
        equal = test.operator in ("gte", "lt")  # the border lies before equal entries
        border = self._first(lambda entry: entry >= text if equal else entry > text)
        return self._between(border, None) if test.operator in ("gt", "gte") else self._between(0, border)

    def _number(self, text: bytes) -> int | None:
        number = self._first(lambda entry: entry >= text)
        return number if number < self.num_distinct and self.entry(number) == text else None

    def _between(self, first: int, end: int | None) -> Mask | None:
        return between(self.values, first, self.num_distinct - 1 if end is None else end - 1)

    def numbered(self, slots: Mask) -> tuple[list[Scalar], NDArray[np.int64]]:
        """Return the distinct values of some slots, and by slot which of them it has."""
        codes = self.values[slots]
        there = np.zeros(self.num_distinct, dtype=np.bool_)
        there[codes] = True
        return self._named(np.flatnonzero(there)), (np.cumsum(there) - 1)[codes]

    def counts(self, slots: Mask) -> tuple[list[Scalar], NDArray[np.int64]]:
        """Return the distinct values of some slots, and how often each is there."""
        return self._counted(self.values[slots], 0)

    def _named(self, values: NDArray[Any]) -> list[Scalar]:
        return [self.entry(code).decode("utf-8") for code in values.tolist()]


class ListColumn(Column):
    """Lists of scalars: where the elements of each lie, and columns of all elements."""

    def __init__(
        self, presence: Presence, offsets: NDArray[np.uint64], num_items: int, items: Mapping[str, Column]
    ) -> None:
        super().__init__("list", presence)
        self.offsets = offsets
        self.num_items = num_items
        self.items = items

    def _check_values(self) -> None:
        _need(self.offsets[0] == 0 and int(self.offsets[-1]) == self.num_items)
        _need(bool((self.offsets[1:] >= self.offsets[:-1]).all()))
        for items in self.items.values():
            items.check()

    def test(self, test: Test, unsure: Unsure) -> Mask | None:
        """Return by row whether a test holds; None for nowhere."""
        if test.operator == "exists":
            return self.presence.mask()
        if test.operator == "eq" and isinstance(test.operand, (list, dict)):
            return super().test(test, unsure)
        inner = Test(test.field, "eq", test.operand) if test.operator == "contains" else test
        hits = tested(self.items, self.num_items, inner, unsure)
        before = np.zeros(self.num_items + 1, dtype=np.int64)  # how many elements before each match
        np.cumsum(hits, out=before[1:])
        return self.presence.spread(before[self.offsets[1:]] > before[self.offsets[:-1]])

    def _candidates(self, test: Test) -> NDArray[np.int64] | None:
        """Return the rows of lists that have as many elements as the one to compare with."""
        if not isinstance(test.operand, list):
            return None
        fits = np.diff(self.offsets) == len(test.operand)
        return np.flatnonzero(self.presence.spread(fits))

    def row_of_items(self) -> NDArray[np.int64]:
        """Return the row of the list that each element is in."""
        lengths = (self.offsets[1:] - self.offsets[:-1]).astype(np.int64)
        return np.repeat(self.presence.row_of_slots(), lengths)


def tested(columns: Mapping[str, Column], num_rows: int, test: Test, unsure: Unsure) -> Mask:
    """Return by row whether a test holds for sure for the field that has these columns."""
    found: Mask | None = None
    for column in columns.values():
        hits = column.test(test, unsure)
        if hits is not None:
            found = hits if found is None else np.logical_or(found, hits, out=found)
    return np.zeros(num_rows, dtype=np.bool_) if found is None else found


# --- comparing -------------------------------------------------------------------------------------------------------


def equal_values(test: Test) -> tuple[Any, ...]:
    """Return the values that a test for equality compares with."""
    if test.operator == "in":
        return tuple(test.operand)
    return (test.operand,) if test.operator == "eq" else ()


def compared_values(test: Test) -> tuple[Any, ...]:
    """Return the values that any test of a scalar compares with."""
    if test.operator in ("gt", "gte", "lt", "lte", "prefix"):
        return (test.operand,)
    return equal_values(test)


def is_number(value: object) -> bool:
    """Whether this is a number of JSON, which a boolean is not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _nearest(number: float) -> float:
    """Return the nearest float, infinity for what is beyond them."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")  # in no dictionary, and still in order


def between(values: NDArray[Any], least: int | None, most: int | None) -> Mask | None:
    """Return which integers of an array are in a closed interval; None for none of them."""
    limits = np.iinfo(values.dtype)
    low = limits.min if least is None else max(least, limits.min)
    high = limits.max if most is None else min(most, limits.max)
    if low > high:
        return None
    if low == high:
        return values == low  # type: ignore[no-any-return]
    if low == limits.min:
        return np.ones(len(values), dtype=np.bool_) if high == limits.max else values <= high
    if high == limits.max:
        return values >= low
    return (values >= low) & (values <= high)


def among(values: NDArray[Any], wanted: Sequence[float]) -> Mask | None:
    """Return which numbers of an array are among some others; None for none of them."""
    if values.dtype.kind in "iu":
        limits = np.iinfo(values.dtype)
        wanted = [number for number in wanted if limits.min <= number <= limits.max]
    if not wanted:
        return None
    if len(wanted) > _FEW:
        return np.isin(values, np.array(wanted, dtype=values.dtype))
    found: Mask = values == wanted[0]
    for number in wanted[1:]:
        found |= values == number
    return found


def _need(condition: bool) -> None:
    if not condition:
        raise ValueError("a column of metadata has impossible values")
