"""Arguments of searches, checked: k, threads, params, and what the core finds wrong with a query."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from segmax import _core
from segmax.base.checks import checked_int
from segmax.base.errors import ConfigError, InputError, SegmaxError
from segmax.search.methods import ASC, SearchParams

Checked = TypeVar("Checked")

#: What searches when nothing else is asked for.
EXACT = ASC()
#: More results than an index can hold.
MOST_RESULTS = 2**32
_LEAST_BUDGET_MS = 0.001
_MOST_THREADS = 1024  # far more than help, and few enough for a system to start
#: How the core words what is wrong with a query.
_PROBLEM = re.compile(r"expected (?P<expected>.*?), got (?P<got>.*?)(?:; (?P<hint>.*))?")


def checked_k(k: object, name: str = "k") -> int:
    """Return k; values beyond any number of documents are cut, because they ask for all of them."""
    is_whole = isinstance(k, (int, np.integer)) and not isinstance(k, bool)
    return checked_int(name, min(int(k), MOST_RESULTS) if is_whole else k, 1)  # type: ignore[call-overload]


def per_query(name: str, given: Any, check: Callable[[Any], Checked], num_queries: int) -> list[Checked]:
    """Return what all queries share, or one for each of them, checked."""
    if isinstance(given, (str, bytes)) or not isinstance(given, (Sequence, np.ndarray)):
        return [check(given)]
    found = [check(one) for one in given]
    if len(found) != num_queries:
        raise ConfigError(option=name, expected=f"one, or one for each of {num_queries:,} queries", got=len(found))
    return found


def num_threads(threads: int | None) -> int:
    """Return how many threads to use; None means one per core."""
    cores = os.cpu_count() or 1
    count = cores if threads is None else checked_int("threads", threads, 1)
    if count > max(_MOST_THREADS, cores):
        raise ConfigError(
            expected=f"at most {max(_MOST_THREADS, cores)} threads", got=count, hint="more than cores do not help"
        )
    return count


def core_params(params: SearchParams | None) -> _core.SearchParams:
    """Return parameters in the core's form; None is exact search."""
    if params is None:
        return EXACT.to_core()
    if isinstance(params, SearchParams):
        return params.to_core()
    raise ConfigError(option="params", expected="a method such as ASC or Exhaustive", got=type(params).__name__)


def within(params: SearchParams | None, deadline: float | None) -> SearchParams | None:
    """Return a method that may take as long as there is time until a deadline, by `time.perf_counter`."""
    if deadline is None:
        return params
    left = max(_LEAST_BUDGET_MS, (deadline - time.perf_counter()) * 1e3)
    return dataclasses.replace(params or EXACT, budget_ms=left)  # type: ignore[call-arg]  # only for methods that have one


@contextlib.contextmanager
def input_errors() -> Iterator[None]:
    """Turn the core's errors about queries into InputError."""
    try:
        yield
    except MemoryError as error:
        hint = "ask for fewer of them ({k}), or for fewer queries at a time"
        raise InputError("the results do not fit into memory", hint=hint) from error
    except ValueError as error:
        raise input_error(error) from error


def input_error(error: ValueError) -> Exception:
    """Return an error of the core as InputError; those of segmax stay what they are."""
    if isinstance(error, SegmaxError):
        return error
    found = _PROBLEM.fullmatch(str(error))
    return InputError(str(error)) if found is None else InputError(**found.groupdict(""))
