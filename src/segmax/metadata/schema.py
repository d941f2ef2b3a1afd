"""Declared fields: which type of value each has to have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

from segmax.base.checks import checked_bool, shown
from segmax.base.errors import ConfigError, InputError
from segmax.metadata.values import MISSING, checked_metadata, fields_of, find


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_SCALAR_TYPES: Mapping[str, Callable[[object], bool]] = {
    "int": _is_int,
    "float": lambda value: isinstance(value, float),
    "number": _is_number,
    "string": lambda value: isinstance(value, str),
    "bool": lambda value: isinstance(value, bool),
}
_TYPES: Mapping[str, Callable[[object], bool]] = {
    **_SCALAR_TYPES,
    "list": lambda value: isinstance(value, list),
    **{
        f"list[{name}]": lambda value, holds=holds: isinstance(value, list) and all(map(holds, value))  # type: ignore[misc]
        for name, holds in _SCALAR_TYPES.items()
    },
    "object": lambda value: isinstance(value, dict),
    "any": lambda value: True,
}


class Schema:
    """Declared types of fields. A field may be missing or null unless it is required.

    Parameters
    ----------
    fields
        The type of each field, by path: "int", "float", "number" (either), "string", "bool", "list", "list[string]" (or
        of another of these), "object" or "any".
    required
        Fields that every document has to have, with a value other than null.
    extra
        Whether documents may have other fields, too.

    Examples
    --------
    >>> schema = Schema({"year": "int", "tags": "list[string]"}, required=["year"])
    >>> schema.check([{"year": 2020, "tags": ["a"]}])
    >>> try:
    ...     schema.check([{"year": "2020"}])
    ... except InputError as error:
    ...     print(error)
    metadata of document 0, field 'year': expected int, got '2020'
    """

    def __init__(self, fields: Mapping[str, str], *, required: Iterable[str] = (), extra: bool = True) -> None:
        if not isinstance(fields, Mapping):
            raise ConfigError(option="fields", expected="a mapping of field to type", got=shown(fields))
        for name, kind in fields.items():
            if not isinstance(name, str):
                raise ConfigError(
                    option="fields", expected="a mapping of field to type", got=f"{shown(name)} as a field"
                )
            _check_type(name, kind)
        self.fields: Mapping[str, str] = dict(fields)
        self.required: tuple[str, ...] = tuple(required)
        if unknown := [name for name in self.required if name not in self.fields]:
            raise ConfigError(option="required", expected="fields that have a type", got=shown(unknown[0]))
        self.extra = checked_bool("extra", extra)

    def check(self, rows: Iterable[Mapping[str, Any] | None]) -> None:
        """Raise InputError at the first document that does not have the declared types."""
        for row, given in enumerate(rows):
            self.check_one(checked_metadata(given, row), row)

    def check_one(self, metadata: dict[str, Any] | None, row: int) -> None:
        """Raise InputError unless checked metadata have the declared types; `row` is for the message."""
        where = f"metadata of document {row}"
        for name in self.required:
            if find(metadata, name) in (MISSING, None):
                raise InputError(where=where, expected=f"the field {name!r}", got="none")
        for name, kind in self.fields.items():
            value = find(metadata, name)
            if value is not MISSING and value is not None and not _TYPES[kind](value):
                raise InputError(where=f"{where}, field {name!r}", expected=kind, got=shown(value))
        if not self.extra and metadata:
            self._check_extra(metadata, where)

    def _check_extra(self, metadata: dict[str, Any], where: str) -> None:
        for path in fields_of(metadata):
            around = any(name.startswith(f"{path}.") for name in self.fields)
            inside = any(
                path.startswith(f"{name}.") and kind in ("object", "any") for name, kind in self.fields.items()
            )
            if path not in self.fields and not around and not inside:
                raise InputError(where=where, expected=f"declared fields ({', '.join(self.fields)})", got=shown(path))

    def to_dict(self) -> dict[str, Any]:
        """Return what `from_dict` takes, as JSON can hold it."""
        return {"fields": dict(self.fields), "required": list(self.required), "extra": self.extra}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the schema that `to_dict` described."""
        return cls(values["fields"], required=values["required"], extra=values["extra"])

    def __eq__(self, other: object) -> bool:
        return self.to_dict() == other.to_dict() if isinstance(other, Schema) else NotImplemented

    def __hash__(self) -> int:
        return hash((frozenset(self.fields.items()), self.required, self.extra))

    def __repr__(self) -> str:
        return f"Schema({dict(self.fields)!r}, required={list(self.required)!r}, extra={self.extra})"


def _check_type(name: str, kind: object) -> None:
    if isinstance(kind, str) and kind in _TYPES:
        return
    import difflib  # for this message alone

    meant = difflib.get_close_matches(str(kind), _TYPES, n=1)
    hint = f"did you mean '{meant[0]}'?" if meant else ""
    raise ConfigError(
        option="fields", expected=f"types ({', '.join(_TYPES)})", got=f"{shown(kind)} for {shown(name)}", hint=hint
    )
