"""Filters evaluated the slow way: a where mapping on a document's own dictionary, operator by operator."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

ABSENT = object()


def matches(where: dict[str, Any], document: dict[str, Any] | None) -> bool:
    """Whether a document passes a filter."""
    return all(_part(key, value, document or {}) for key, value in where.items())


def _part(key: str, value: Any, document: dict[str, Any]) -> bool:
    if key == "$and":
        return all(matches(one, document) for one in value)
    if key == "$or":
        return any(matches(one, document) for one in value)
    if key == "$not":
        return not matches(value, document)
    return _field(value, dict(paths(document)).get(key, ABSENT))


def paths(document: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every field, those of nested objects by their path."""
    for key, value in document.items():
        yield prefix + key, value
        if isinstance(value, dict):
            yield from paths(value, prefix + key + ".")


def _field(condition: Any, value: Any) -> bool:
    if not isinstance(condition, dict):
        condition = {"$eq": condition}
    return all(_operator(name, operand, value) for name, operand in condition.items())


def _operator(name: str, operand: Any, value: Any) -> bool:
    if name == "$exists":
        return operand == (value is not ABSENT)
    if name == "$ne":
        return not _operator("$eq", operand, value)
    if name == "$nin":
        return not _operator("$in", operand, value)
    if name == "$not":
        return not _field(operand, value)
    if value is ABSENT:
        return False
    if name == "$contains":
        return isinstance(value, list) and plain(operand) in map(plain, value)
    return any(_holds(name, operand, one) for one in [value, *(value if isinstance(value, list) else [])])


def _holds(name: str, operand: Any, value: Any) -> bool:
    if name == "$eq":
        return plain(value) == plain(operand)
    if name == "$in":
        return plain(value) in map(plain, operand)
    left, right = plain(value), plain(operand)
    if left[0] != right[0] or left[0] not in ("number", "string"):
        return False
    if name == "$prefix":
        return left[0] == "string" and left[1][: len(right[1])] == right[1]
    return {"$gt": left > right, "$gte": left >= right, "$lt": left < right, "$lte": left <= right}[name]


def plain(value: Any) -> tuple[Any, ...]:
    """A value with the name of its type, so that numbers compare exactly and True is not 1."""
    if value is None:
        return ("null",)
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, str):
        return ("string", [ord(letter) for letter in value])
    if isinstance(value, list):
        return ("list", [plain(one) for one in value])
    if isinstance(value, dict):
        return ("object", sorted((key, plain(one)) for key, one in value.items()))
    return ("number", Fraction(value))


def facet(documents: list[dict[str, Any] | None], field: str) -> Counter[str]:
    """How many documents have each value, by a name of the value."""
    found: Counter[str] = Counter()
    for document in documents:
        value = dict(paths(document or {})).get(field, ABSENT)
        items = value if isinstance(value, list) else [] if value is ABSENT else [value]
        found.update({named(item) for item in items if not isinstance(item, (list, dict))})
    return found


def ordered(counts: Counter[str]) -> list[tuple[str, int]]:
    """The most frequent first, then by value: null, booleans, numbers, strings."""

    def place(name: str) -> tuple[Any, ...]:
        if name[0] == '"':
            return 3, json.loads(name)
        return (["null", "false", "true"].index(name),) if name.isalpha() else (2.5, Fraction(name))

    return sorted(counts.items(), key=lambda item: (-item[1], place(item[0])))


def named(value: Any) -> str:
    """A name for a scalar, the same for equal ones."""
    return json.dumps(value) if isinstance(value, (str, bool)) or value is None else str(Fraction(value))
