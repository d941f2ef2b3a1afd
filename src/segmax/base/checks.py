"""Checks of single options. Each raises an error with the option, what was expected, and what was given."""

from __future__ import annotations

import math
import numbers
import operator
import re
import sys
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from segmax.base.errors import ConfigError, InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

# int() and float() take much more than files and flags mean: "1_000", "inf", "nan", digits of other scripts.
_WHOLE = re.compile(r"[+-]?[0-9]{1,4000}")
_REAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")

_LONGEST_VALUE = 80  # characters of a value in a message


def parsed_int(text: str) -> int | None:
    """Return a whole number written in ASCII digits; None if the text is not one.

    Examples
    --------
    >>> parsed_int("-12"), parsed_int("1_000")
    (-12, None)
    """
    return int(text) if _WHOLE.fullmatch(text) is not None else None


def parsed_float(text: str) -> float | None:
    """Return a finite number written in ASCII digits; None if the text is not one.

    Examples
    --------
    >>> parsed_float("1.5e3"), parsed_float("inf"), parsed_float("1e999")
    (1500.0, None, None)
    """
    value = float(text) if _REAL.fullmatch(text) is not None else math.inf
    return value if math.isfinite(value) else None


def shown(value: object) -> str:
    """Return a value as messages show it: shortened, and safe if its repr raises.

    Examples
    --------
    >>> shown("abc"), shown(10**5000)
    ("'abc'", 'a value of type int')
    """
    try:
        text = repr(value)
    except Exception:  # numbers of more than 4,300 digits, and objects of the caller's own
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."


def is_integer(value: object) -> TypeGuard[int | np.integer[Any]]:
    """Whether something is an integer of Python or numpy, whose spans of time are integers by their class alone."""
    import numpy as np  # which help texts do without

    return isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.timedelta64))


def checked_int(name: str, value: object, least: int, most: int = 2**63 - 1) -> int:
    """Return a whole number in range as int, or raise ConfigError."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or not least <= number <= most:
        limits = f"at least {least}" if most == 2**63 - 1 else f"from {least} to {most}"
        raise ConfigError(option=name, expected=limits, got=shown(value))
    return number


def checked_number(name: str, value: object) -> float:
    """Return a real number as float, or raise ConfigError."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise ConfigError(option=name, expected="a number", got=shown(value))
    try:
        return float(value)
    except OverflowError as error:  # a whole number beyond the range of floats
        raise ConfigError(option=name, expected="a number", got=shown(value)) from error


def checked_choice(name: str, value: object, choices: Collection[str]) -> str:
    """Return one of a few words, or raise ConfigError."""
    if not isinstance(value, str) or value not in choices:
        raise ConfigError(option=name, expected=f"{' or '.join(map(repr, choices))}", got=shown(value))
    return value


def checked_bool(name: str, value: object) -> bool:
    """Return a truth value, or raise ConfigError."""
    if not isinstance(value, bool):
        raise ConfigError(option=name, expected="True or False", got=shown(value))
    return value


def checked_path(name: str, value: object) -> Path:
    """Return a valid path, or raise ConfigError."""
    try:
        path = Path(value)  # type: ignore[arg-type]
    except TypeError:
        path = None
    if path is None or "\0" in str(path):
        raise ConfigError(option=name, expected="a path, as a string or pathlib.Path", got=shown(value))
    return path


def check_listed(expected: str, values: object) -> None:
    """Raise InputError unless the values are a flat sequence or iterator.

    Iterating over a table yields the names of its columns, over a mapping its keys, over a string its letters; a set
    has no order.
    """
    problem = _not_listed(values)
    if problem is not None:
        got, hint = problem
        raise InputError(expected=expected, got=got, hint=hint)


def _not_listed(values: object) -> tuple[str, str] | None:
    """Return what the values are instead of a list, and what to do; None if they are one."""
    kind = type(values).__name__
    if hasattr(values, "columns"):
        return kind, "pass one of its columns"
    if isinstance(values, (set, frozenset)):
        return f"{kind}, which has no order", "pass a list"
    if isinstance(values, (str, bytes, bytearray, memoryview, numbers.Number)):
        return shown(values), "pass a list, even of one"
    if isinstance(values, Mapping) or not isinstance(values, Iterable):
        return kind, ""
    dimensions = getattr(values, "ndim", 1)
    return None if dimensions == 1 else (f"{kind} of {dimensions} dimensions", "")


def check_unmasked(values: object, what: str) -> None:
    """Raise InputError for an array of numpy.ma: numpy ignores its mask nearly everywhere."""
    # Not loaded, or another thread is loading it: there are no such arrays.
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)
    if masked is not None and isinstance(values, masked):
        raise InputError(
            expected=f"{what} without a mask",
            got="a masked array",
            hint="pass values.filled(0), or leave masked entries out",
        )


def checked_labels(labels: ArrayLike, num_docs: int, what: str) -> NDArray[np.int64]:
    """Return labels given by the caller as integers, one per document."""
    import numpy as np  # which help texts do without

    check_unmasked(labels, f"{what} labels")
    array = np.asarray(labels)
    if array.ndim != 1 or len(array) != num_docs:
        raise InputError(expected=f"{num_docs} {what} labels, one per document", got=f"shape {array.shape}")
    if array.dtype.kind not in "iu":
        raise InputError(expected=f"integer {what} labels", got=array.dtype)
    if len(array) and array.max() > np.iinfo(np.int64).max:
        raise InputError(expected=f"{what} labels that fit 63 bits", got=array.max())
    if (array < 0).any():
        raise InputError(expected=f"{what} labels >= 0", got=f"{array.min()} for document {int(np.argmin(array))}")
    return array.astype(np.int64)
