"""Thrift's compact encoding, which parquet has its footer and the headers of pages in, read as hostile input."""

from __future__ import annotations

from typing import Any

#: The fields of a struct by their number.
Struct = dict[int, Any]


class List(list[Any]):
    """A list, and the type of its elements as the file declares it."""

    __slots__ = ("kind",)

    def __init__(self, kind: int) -> None:
        super().__init__()
        self.kind = kind


def read_struct(data: memoryview, at: int) -> tuple[Struct, int]:
    """Return the fields of a struct by their number, and where it ends.

    Raises
    ------
    ValueError, IndexError, RecursionError
        If it is none.
    """
    found: Struct = {}
    field = 0
    while (head := data[at]) != 0:
        at += 1
        if head >> 4:
            field += head >> 4
        else:
            field, at = _whole(data, at)
        if field in found:
            raise ValueError("a struct has a field twice")
        kind = head & 15
        found[field], at = (kind == 1, at) if kind in (1, 2) else _value(data, at, kind)
    return found, at + 1


def _value(data: memoryview, at: int, kind: int) -> tuple[Any, int]:
    """Return a value, and where it ends; of a number with a fraction only that."""
    if kind in (1, 2, 3):  # truth values in lists take a byte
        return data[at], at + 1
    if kind in (4, 5, 6):
        return _whole(data, at)
    if kind == 7:
        return None, at + 8
    if kind == 8:
        size, at = read_varint(data, at)
        return bytes(data[at : at + size]), at + size
    if kind in (9, 10):
        return _list(data, at)
    if kind == 12:
        return read_struct(data, at)
    raise ValueError("a field has an unknown type")


def _list(data: memoryview, at: int) -> tuple[List, int]:
    count, kind = data[at] >> 4, data[at] & 15
    at += 1
    if count == 15:
        count, at = read_varint(data, at)
    if count > len(data) - at:  # each takes a byte at least
        raise ValueError("a list is longer than the file")
    values = List(kind)
    for _ in range(count):
        value, at = _value(data, at, kind)
        values.append(value)
    return values, at


def read_varint(data: memoryview, at: int) -> tuple[int, int]:
    """Return a number without a sign, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        value |= (data[at] & 127) << shift
        at += 1
        if data[at - 1] < 128:
            return value, at
    raise ValueError("a number has too many bytes")


def _whole(data: memoryview, at: int) -> tuple[int, int]:
    """Return a number with a sign, in zigzag encoding."""
    value, at = read_varint(data, at)
    return (value >> 1) ^ -(value & 1), at
