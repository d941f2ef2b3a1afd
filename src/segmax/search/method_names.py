"""Ways to search by name: what the command line and tables of results write for `SearchParams`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from segmax.base.checks import parsed_float, parsed_int
from segmax.base.errors import ConfigError
from segmax.search.methods import ASC, Anytime, BestFirst, Exhaustive, MaxScore, SearchParams

METHODS: Mapping[str, type[SearchParams]] = {
    kind.method: kind for kind in (ASC, BestFirst, Anytime, MaxScore, Exhaustive)
}
_WORDS = {"true": True, "false": False, "none": None}


def method_class(name: str) -> type[SearchParams]:
    """Return the class of a method, or raise ConfigError."""
    if name not in METHODS:
        raise ConfigError(expected=f"a method, {', '.join(METHODS)}", got=f"{name!r}")
    return METHODS[name]


def parse_method(text: str) -> SearchParams:
    """Return the parameters that a text names.

    Parameters
    ----------
    text
        A method, alone or with options of its class: "asc", "asc:mu=0.9,eta=1", "anytime:budget_ms=10".

    Examples
    --------
    >>> parse_method("anytime:mu=0.7").mu
    0.7
    """
    name, _, options = text.partition(":")
    kind = method_class(name.strip())
    values: dict[str, object] = {}
    for option in filter(None, options.split(",")):
        key, equals, value = (part.strip() for part in option.partition("="))
        if key not in kind.options() or not equals:
            known = ", ".join(kind.options()) or "it has none"
            raise ConfigError(
                where=f"{text!r}", expected=f"options of {kind.method} as NAME=VALUE ({known})", got=f"{option!r}"
            )
        if key in values:
            raise ConfigError(where=f"{text!r}", expected="every option once", got=f"{key} again")
        values[key] = _value(value)
    return kind(**values)  # type: ignore[arg-type]  # the class checks them


def method_name(params: SearchParams) -> str:
    """Return the text for parameters; options that have their defaults are left out.

    Examples
    --------
    >>> method_name(ASC(mu=0.9, sweep=False))
    'asc:mu=0.9,sweep=false'
    """
    given = []
    for field in dataclasses.fields(params):
        value = getattr(params, field.name)
        if value != field.default:
            given.append(f"{field.name}={_text(value)}")
    return f"{params.method}:{','.join(given)}" if given else params.method


def _value(text: str) -> object:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    whole = parsed_int(text)
    number = parsed_float(text) if whole is None else whole
    return text if number is None else number


def _text(value: object) -> str:
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    return str(value).lower() if isinstance(value, bool) else str(value)
