"""Methods by name: "asc:mu=0.9" is what the command line and tables of results write for `ASC(mu=0.9)`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from segmax.base.checks import parsed_float, parsed_int
from segmax.base.errors import ConfigError
from segmax.search.methods import SearchParams

#: The class of each method, by name.
Methods = Mapping[str, type[SearchParams]]

_WORDS = {"true": True, "false": False, "none": None}


def parse(text: str, methods: Methods) -> SearchParams:
    """Return the parameters that a text such as "asc:mu=0.9,eta=1" names; see `segmax.paper.parse_method`."""
    name, _, options = text.partition(":")
    kind = _class_of(name.strip(), methods)
    values: dict[str, object] = {}
    for key, value in _pairs(text, options, kind):
        if key in values:
            raise ConfigError(where=f"{text!r}", expected="every option once", got=f"{key} again")
        values[key] = _value(value)
    return kind(**values)


def method_name(params: SearchParams) -> str:
    """Return the name of a method with its options; options that have their defaults are left out.

    Examples
    --------
    >>> from segmax import ASC
    >>> method_name(ASC(mu=0.9, max_blocks=7))
    'asc:mu=0.9,max_blocks=7'
    """
    given = []
    for field in dataclasses.fields(params):
        value = getattr(params, field.name)
        if value != field.default:
            given.append(f"{field.name}={_text(value)}")
    return f"{params.method}:{','.join(given)}" if given else params.method


def _class_of(name: str, methods: Methods) -> type[SearchParams]:
    if name not in methods:
        raise ConfigError(expected=f"a method, {', '.join(methods)}", got=f"{name!r}")
    return methods[name]


def _pairs(text: str, options: str, kind: type[SearchParams]) -> Iterator[tuple[str, str]]:
    """Yield the name and value of every option of a text."""
    for option in filter(None, options.split(",")):
        key, equals, value = (part.strip() for part in option.partition("="))
        if key not in kind.options() or not equals:
            known = ", ".join(kind.options()) or "it has none"
            raise ConfigError(
                where=f"{text!r}", expected=f"options of {kind.method} as NAME=VALUE ({known})", got=f"{option!r}"
            )
        yield key, value


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
