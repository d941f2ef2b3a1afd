"""Members of records that become metadata: which ones, and of which type."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from segmax.base.checks import parsed_float, parsed_int, shown
from segmax.base.errors import ConfigError, InputError
from segmax.io.records import is_missing, known_name, used_names
from segmax.metadata.values import checked_metadata
from segmax.vectors.documents import Document, RecordDocument

#: All members but those that make the document.
ALL = "all"
_TYPES = ("string", "int", "float", "bool")


class Fields:
    """The members of records to keep as metadata.

    Parameters
    ----------
    names
        "all", or names of members. "year:int" also says a type ("int", "float", "bool", "string"), which the strings of
        CSV files are turned into.

    Examples
    --------
    >>> Fields(["year:int", "lang"]).of_record({"id": "d1", "year": "2020", "lang": "en", "isbn": "..."}, 0)
    {'year': 2020, 'lang': 'en'}
    >>> Fields("all").of_record({"id": "d1", "text": "copper", "year": 2020}, 0)
    {'year': 2020}
    """

    def __init__(self, names: str | Sequence[str]) -> None:
        self._types = None if names == ALL else dict(_name_and_type(name) for name in names)

    def __contains__(self, name: str) -> bool:
        return self._types is None or name in self._types

    def of_document(self, document: Document, row: int) -> dict[str, Any] | None:
        """Return the metadata of a document; None if it was not read from a record."""
        return self.of_record(document.record, row) if isinstance(document, RecordDocument) else None

    def of_record(self, record: Mapping[str, Any], row: int) -> dict[str, Any]:
        """Return the chosen members of a record that are not missing."""
        if self._types is None:
            used = used_names(record)
            chosen = {name: value for name, value in record.items() if name not in used and not is_missing(value)}
        else:
            chosen = {
                name: _converted(record[name], kind, f"metadata of document {row}, field {name!r}")
                for name, kind in self._types.items()
                if not is_missing(record.get(name)) and not (kind and record[name] == "")
            }
        return checked_metadata(chosen, row) or {}

    def of_frame(self, frame: Any) -> Iterator[dict[str, Any]]:
        """Yield the metadata of the rows of a DataFrame."""
        names = [name for name in frame.columns if isinstance(name, str)]
        known = [known_name(name) for name in names]
        for row, values in enumerate(zip(*(frame[name] for name in names), strict=True)):
            yield self.of_record(dict(zip(known, values, strict=True)), row)


def chosen_fields(metadata: object) -> Fields | None:
    """Return the fields that are meant by "all" or by a list of names; None for anything else."""
    if isinstance(metadata, str):
        if metadata != ALL:
            raise ConfigError(option="metadata", expected="'all', a list of fields, or metadata", got=shown(metadata))
        return Fields(ALL)
    if isinstance(metadata, (list, tuple)) and metadata and all(isinstance(name, str) for name in metadata):
        return Fields(metadata)
    return None


def _name_and_type(text: str) -> tuple[str, str | None]:
    name, colon, kind = text.rpartition(":")
    if not colon:
        return text, None
    if kind not in _TYPES:
        raise ConfigError(option="metadata", expected=f"a type after the colon ({', '.join(_TYPES)})", got=shown(text))
    return name, kind


def _converted(given: Any, kind: str | None, where: str) -> Any:
    """Return a value of a type; what is no string has to be of it already, but that a whole number may be a float."""
    value = given.item() if isinstance(given, np.generic) else given
    if isinstance(value, int) and isinstance(given, (np.datetime64, np.timedelta64)):
        value = given  # whose item is a whole number for some units
    found = value
    if kind is not None and isinstance(value, str):
        found = _PARSED[kind](value.strip()) if kind != "string" else value
    elif kind is not None and not _IS_OF[kind](value):
        found = None
    if found is None:
        raise InputError(where=where, expected=str(kind), got=shown(given))
    return float(found) if kind == "float" else found


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_PARSED: Mapping[str, Callable[[str], Any]] = {
    "int": parsed_int,
    "float": parsed_float,
    "bool": lambda text: {"true": True, "false": False}.get(text.lower()),
}
_IS_OF: Mapping[str, Callable[[Any], bool]] = {
    "string": lambda value: False,
    "int": lambda value: _is_number(value) and isinstance(value, int),
    "float": _is_number,
    "bool": lambda value: isinstance(value, bool),
}
