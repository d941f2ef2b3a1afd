"""Options of searches as messages: methods, filters, limits."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from typing import Any, NamedTuple

from segmax.base.checks import checked_int
from segmax.base.errors import ConfigError
from segmax.metadata import parse_where
from segmax.search.arguments import core_params
from segmax.search.calibration import Calibration
from segmax.search.methods import SearchParams
from segmax.search.tuning import Targets

#: Options of methods that the API has.
_OPTIONS = frozenset(
    ("mu", "eta", "max_blocks", "max_clusters", "bound_mass", "max_terms", "query_mass", "dropped", "budget_ms")
)
#: The largest number of the API.
MOST = 2**31


class Method(NamedTuple):
    """A search method as the API has it: its message, and the budget, which belongs to the whole request."""

    message: dict[str, Any] | None
    budget_ms: float | None


def method_of(params: SearchParams | None) -> Method:
    """Return a method with the options that do not have their defaults.

    Examples
    --------
    >>> from segmax.search.methods import ASC
    >>> method_of(ASC(mu=0.9, budget_ms=5))
    Method(message={'method': 'asc', 'mu': 0.9}, budget_ms=5.0)
    """
    core_params(params)  # raises if it is no method
    if params is None:
        return Method(None, None)
    message: dict[str, Any] = {"method": params.method}
    for field in dataclasses.fields(params):
        value = getattr(params, field.name)
        if value == field.default:
            continue
        if field.name not in _OPTIONS:
            raise ConfigError(option=field.name, expected=f"{field.default!r} over a service", got=repr(value))
        message[field.name] = min(value, MOST) if isinstance(value, int) else value
    budget = message.pop("budget_ms", None)
    return Method(message, None if budget is None else float(budget))


def without_budget(params: SearchParams | None, who: str) -> dict[str, Any] | None:
    """Return the message of a method for a request that has no budget."""
    message, budget_ms = method_of(params)
    if budget_ms is not None:
        raise ConfigError(option="budget_ms", expected=f"None for {who} over a service", got=budget_ms)
    return message


def check_target(k: int, params: object, target_recall: float | None) -> None:
    """Raise ConfigError for a target that is invalid, or given beside a method."""
    if target_recall is not None:
        Targets(Calibration(())).params(k, params, target_recall)


def filter_of(where: object) -> dict[str, Any] | None:
    """Return a filter in its canonical form; raise InputError if it is invalid."""
    if where is None:
        return None
    found: dict[str, Any] = json.loads(parse_where(where).key)  # type: ignore[arg-type]
    return found


def least_score(score: float | None) -> float | None:
    """Return a least score as JSON can hold it: no score is beyond the largest number."""
    if score is None or score == -math.inf:
        return None
    return min(score, sys.float_info.max)


def shards_of(max_shards: int | None) -> int | None:
    """Return how many shards to ask; raise ConfigError for what is no number of shards."""
    return None if max_shards is None else min(checked_int("max_shards", max_shards, 1), MOST)


def given(**options: Any) -> dict[str, Any]:
    """Return the options that are not None."""
    return {name: value for name, value in options.items() if value is not None}
