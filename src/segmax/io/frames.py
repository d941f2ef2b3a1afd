"""Tables and mappings in memory as records: DataFrames, Series, dicts. pandas is not imported: they are recognized."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from segmax.base.errors import InputError
from segmax.io.records import (
    ID_NAMES,
    TEXT_NAMES,
    TITLE_NAMES,
    VECTOR_NAMES,
    Record,
    is_missing,
    known_name,
    shown_names,
    with_known_names,
)

_KNOWN = (*ID_NAMES, *TITLE_NAMES, *TEXT_NAMES, *VECTOR_NAMES)


def is_frame(value: object) -> bool:
    """Whether this is a DataFrame, of pandas or polars."""
    ways = ("itertuples", "iter_rows")
    return hasattr(value, "columns") and any(callable(getattr(value, way, None)) for way in ways)


def is_series(value: object) -> bool:
    """Whether this is a Series of pandas."""
    return all(hasattr(value, name) for name in ("to_frame", "dtype", "items", "index"))


def frame_records(frame: Any) -> Iterator[tuple[str, Record]]:
    """Yield the rows of a DataFrame, each with its place; where no column has ids, the index of pandas does."""
    originals = [name for name in frame.columns if isinstance(name, str)]
    names = [known_name(name) for name in originals]
    used = [name for name in _KNOWN if name in names]
    again = next((name for name in used if names.count(name) > 1), None)
    if again is not None:
        raise InputError(expected="every column of the DataFrame once", got=f"{again!r} again")
    if not set(used) - set(ID_NAMES):
        known, got = ", ".join(TEXT_NAMES[:5]), shown_names(frame.columns)
        raise InputError(expected=f"a DataFrame with a column of texts ({known})", got=got)
    columns: dict[str, Any] = {name: frame[originals[names.index(name)]] for name in used}
    if set(used).isdisjoint(ID_NAMES) and hasattr(frame, "index"):
        columns = {"id": frame.index, **columns}
    labels = frame.index if hasattr(frame, "index") else range(len(frame))
    for label, *values in zip(labels, *columns.values(), strict=True):
        yield f"row {label!r} of the DataFrame", dict(zip(columns, values, strict=True))


def series_records(series: Any) -> Iterator[tuple[str, Record]]:
    """Yield the values of a Series as texts; its index has the ids."""
    for label, value in series.items():
        yield f"row {label!r} of the Series", {"id": label, "text": value}


def mapping_records(texts: Mapping[Any, Any]) -> Iterator[tuple[str, Record]]:
    """Yield the entries of a mapping of id to text, or of id to a mapping with "text"."""
    if not set(map(str, map(known_name, texts))) - set(_KNOWN):
        raise InputError(
            expected=(
                "texts as a path, an ir_datasets id, an iterable of texts, a DataFrame or a mapping of id to text"
            ),
            got=f"one document ({shown_names(texts)})",
            hint="put it into a list",
        )
    for key, value in texts.items():
        place = f"document {key!r}"
        record = {"text": value} if isinstance(value, str) or is_missing(value) else value
        if not isinstance(record, Mapping):
            raise InputError(where=place, expected="a string or a mapping with 'text'", got=type(value).__name__)
        record = with_known_names(record, place)
        own = next((record[name] for name in ID_NAMES if name in record), key)
        if str(own) != str(key):
            raise InputError(where=place, expected="the id that it is called by", got=f"{own!r} in the mapping")
        yield place, {**{name: record[name] for name in record if name not in ID_NAMES}, "id": key}
