"""JSON values of documents: checked, found by path, compared.

A path names a field. Keys of nested objects are joined by dots: "author.name" is "name" in the object "author". A key
with a dot is the same as nesting, so no document may have both {"a.b": 1} and {"a": {"b": 2}}.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from segmax.base.checks import shown
from segmax.base.errors import InputError

#: A value of JSON. Objects and lists hold more of them.
JSON = None | bool | int | float | str | list[Any] | dict[str, Any]
Scalar = None | bool | int | float | str

#: Objects and lists inside each other.
DEEPEST = 64
_MOST_BITS = 14_000  # of an integer; Python reads no number of more than 4,300 digits from a text
_MOST_BYTES = 1 << 24  # of a document's metadata
_INT64 = range(-(2**63), 2**63)
_EXPECTED = "values of JSON: strings, numbers, booleans, None, lists and mappings"
_PLAIN = frozenset({str, bool, type(None)})
_ENCODE = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode


class Missing:
    """The type of `MISSING`: what a path finds where a document does not have it."""


MISSING: Final = Missing()


def fits_64_bits(value: int) -> bool:
    """Whether an integer fits a column of integers."""
    return value in _INT64


# --- checking --------------------------------------------------------------------------------------------------------


def checked_metadata(given: object, row: int) -> dict[str, Any] | None:
    """Return the metadata of a document with plain Python values; raise InputError for what JSON cannot hold."""
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise InputError(
            where=f"metadata of document {row}", expected="a mapping of field to value, or None", got=shown(given)
        )
    try:
        return _checked_object(given, "", 1)
    except InputError as error:
        field = f", field {error.where!r}" if error.where else ""
        raise error.at(f"metadata of document {row}{field}") from None


def checked_value(given: object, path: str = "", depth: int = 0) -> Any:
    """Return a value of JSON with plain Python values; raise InputError that says where in it something is wrong."""
    kind = type(given)
    if kind in _PLAIN:
        return given
    if kind is int:
        return _checked_int(given, path)  # type: ignore[arg-type]
    if kind is float:
        return _checked_float(given, path)  # type: ignore[arg-type]
    if isinstance(given, Mapping):
        return _checked_object(given, path, depth + 1)
    if isinstance(given, (list, tuple)):
        _check_depth(depth + 1, path)
        return [checked_value(value, path, depth + 1) for value in given]
    return _converted(given, path, depth)


def _checked_object(given: Mapping[Any, Any], path: str, depth: int) -> dict[str, Any]:
    _check_depth(depth, path)
    found: dict[str, Any] = {}
    for key, value in given.items():
        if not isinstance(key, str):
            raise InputError(where=path, expected="strings as keys", got=shown(key))
        name = str.__str__(key)  # of an enumeration: its value
        if type(value) in _PLAIN:
            found[name] = value
        else:
            found[name] = checked_value(value, f"{path}.{name}" if path else name, depth)
    return found


def _check_depth(depth: int, path: str) -> None:
    if depth > DEEPEST:
        raise InputError(where=path[:DEEPEST], expected=f"at most {DEEPEST} levels of nesting", got="more")


def _checked_int(value: int, path: str) -> int:
    if value.bit_length() > _MOST_BITS:
        raise InputError(where=path, expected=f"integers of at most {_MOST_BITS:,} bits", got=f"{value.bit_length():,}")
    return value


def _checked_float(value: float, path: str) -> float:
    if not math.isfinite(value):
        raise InputError(
            where=path, expected="finite numbers", got=f"{value}", hint="leave the field out, or pass None"
        )
    return value


def _converted(given: object, path: str, depth: int) -> Any:
    """Return what a scalar or an array of numpy, or a subclass of a plain type, stands for."""
    if isinstance(given, str):
        return str.__str__(given)
    if isinstance(given, int):
        return _checked_int(int(given), path)
    if isinstance(given, float):
        return _checked_float(float(given), path)
    is_number = isinstance(given, (np.bool_, np.integer, np.floating)) and isinstance(given.item(), (bool, int, float))
    if is_number and not isinstance(given, np.timedelta64):  # an integer by its class, and for some units by its item
        return checked_value(given.item(), path, depth)  # type: ignore[attr-defined]
    if isinstance(given, np.ndarray) and (given.ndim or type(given) is np.ndarray):  # a masked value is none
        return checked_value(list(given) if given.ndim else given[()], path, depth)
    hint = "pass value.isoformat(), which sorts by time, too" if hasattr(given, "isoformat") else ""
    raise InputError(where=path, expected=_EXPECTED, got=f"{shown(given)} ({type(given).__name__})", hint=hint)


# --- text ------------------------------------------------------------------------------------------------------------


def to_json(metadata: dict[str, Any] | None, row: int) -> bytes:
    """Return checked metadata as it is stored; nothing at all for None."""
    if metadata is None:
        return b""
    try:
        text = _ENCODE(metadata).encode("utf-8")
    except UnicodeEncodeError as error:
        got = f"{error.object[error.start : error.end]!r}"
        raise InputError(
            where=f"metadata of document {row}", expected="strings that UTF-8 can hold", got=got
        ) from error
    if len(text) > _MOST_BYTES:
        raise InputError(
            where=f"metadata of document {row}", expected=f"at most {_MOST_BYTES:,} bytes of JSON", got=f"{len(text):,}"
        )
    return text


def from_json(text: bytes) -> dict[str, Any] | None:
    """Return metadata from its stored form; raise ValueError or RecursionError for anything else."""
    if not text:
        return None
    found = json.loads(text.decode("utf-8"), parse_constant=_no_number)
    if type(found) is not dict:
        raise ValueError("no object")
    return found


def _no_number(text: str) -> None:
    msg = f"{text} is no number"
    raise ValueError(msg)


# --- fields ----------------------------------------------------------------------------------------------------------


def fields_of(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return the values of all fields by path, objects included.

    Examples
    --------
    >>> fields_of({"year": 2020, "author": {"name": "Ada"}})
    {'year': 2020, 'author': {'name': 'Ada'}, 'author.name': 'Ada'}
    """
    found: dict[str, Any] = {}
    _collect(metadata, "", found)
    return found


def _collect(metadata: dict[str, Any], prefix: str, found: dict[str, Any]) -> None:
    for key, value in metadata.items():
        path = prefix + key
        if path in found:
            raise InputError(
                expected="every field once",
                got=f"{shown(path)} both nested and as a key with a dot",
                hint="a dot in a key is the same as nesting",
            )
        found[path] = value
        if type(value) is dict:
            _collect(value, path + ".", found)


def find(metadata: dict[str, Any] | None, path: str) -> Any:
    """Return the value at a path, or MISSING.

    Examples
    --------
    >>> find({"author": {"name": "Ada"}}, "author.name")
    'Ada'
    """
    if metadata is None:
        return MISSING
    if path in metadata:
        return metadata[path]
    if "." not in path:
        return MISSING
    for key, rest in _ways(metadata, path):
        inner = metadata.get(key)
        if type(inner) is dict:
            found = find(inner, rest)
            if found is not MISSING:
                return found
    return MISSING


def _ways(metadata: dict[str, Any], path: str) -> Iterator[tuple[str, str]]:
    """Yield the keys that a path may lead through, each with the rest of it."""
    if path.count(".") <= len(metadata):  # whichever are fewer: a path of many dots is long
        dot = path.find(".")
        while dot >= 0:
            yield path[:dot], path[dot + 1 :]
            dot = path.find(".", dot + 1)
    else:
        for key in metadata:
            if path.startswith(key) and path.startswith(".", len(key)):
                yield key, path[len(key) + 1 :]


# --- comparing -------------------------------------------------------------------------------------------------------


def value_key(value: Scalar) -> tuple[int, Any]:
    """Return a key by which scalars are equal as JSON: 1 and 1.0 are, True and 1 are not. It also orders them."""
    if value is None:
        return 0, 0
    if isinstance(value, bool):
        return 1, value
    return (3, value) if isinstance(value, str) else (2, value)


def same(left: Any, right: Any) -> bool:
    """Whether two values are equal as JSON."""
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(value, right[key]) for key, value in left.items())
    if isinstance(left, (list, dict)) or isinstance(right, (list, dict)):
        return False
    return value_key(left) == value_key(right)
