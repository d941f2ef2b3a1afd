"""The metadata of `build(metadata=...)` in the order of rows: lists as they are, mappings and tables by id."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from segmax.base.checks import check_listed, shown
from segmax.base.errors import InputError
from segmax.building.given_texts import check_order
from segmax.io.frames import is_frame
from segmax.io.records import ID_NAMES, is_missing, known_name


def check_metadata(metadata: object) -> None:
    """Raise InputError unless this can hold the metadata of every document."""
    if not isinstance(metadata, Mapping) and not is_frame(metadata):
        check_listed(
            "metadata as a list or another iterable of mappings, one per document, a mapping of id to metadata, "
            "or a table",
            metadata,
        )


def metadata_by_row(metadata: Any, ids: Sequence[Any] | None, num_docs: int) -> Iterable[object]:
    """Return the metadata of each row.

    Parameters
    ----------
    metadata
        A mapping of id to metadata, or a DataFrame with a column of ids: found by id, None for documents that they do
        not name. A DataFrame without one, or another iterable: in the order of rows.
    ids
        The id of every row; None: its number.
    num_docs
        How many rows there are.

    Examples
    --------
    >>> list(metadata_by_row({"a": {"year": 2020}}, ["b", "a"], 2))
    [None, {'year': 2020}]
    """
    if isinstance(metadata, MatchedMetadata):
        return metadata.matched(ids)
    if isinstance(metadata, Mapping):
        return _found_by_id(metadata, ids, num_docs)
    if is_frame(metadata):
        return _of_frame(metadata, ids, num_docs)
    return metadata  # type: ignore[no-any-return]


class MatchedMetadata:
    """Records in the order of rows. Where they have ids, these have to be those of the rows; the rest is metadata.

    Parameters
    ----------
    records
        Read once.
    name
        What messages call them, such as their file.
    """

    def __init__(self, records: Iterable[Mapping[str, Any]], name: str) -> None:
        self._records = records
        self._name = name

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return iter(self._records)

    def matched(self, ids: Sequence[Any] | None) -> Iterator[dict[str, Any]]:
        """Yield the metadata; raise InputError at a record whose id is not that of its row."""
        for row, record in enumerate(self._records):
            named = next((name for name in ID_NAMES if name in record), None)
            wanted = row if ids is None else ids[row] if row < len(ids) else None
            if named is not None and wanted is not None and str(record[named]) != str(wanted):
                raise InputError(
                    where=f"'{self._name}'",
                    expected=f"the metadata of document {str(wanted)!r} in place {row}",
                    got=shown(record[named]),
                    hint="give metadata in the order of the vectors",
                )
            yield {name: value for name, value in record.items() if name != named}


def _found_by_id(metadata: Mapping[Any, object], ids: Sequence[Any] | None, num_docs: int) -> list[object]:
    names = range(num_docs) if ids is None else ids
    known = set(names)
    extra = next((name for name in metadata if name not in known), None)
    if extra is not None:
        hint = "pass {ids=...}, without which documents are called by their row numbers" if ids is None else ""
        raise InputError(option="metadata", expected="those of ids in the index", got=shown(extra), hint=hint)
    return [metadata.get(name) for name in names]


def _of_frame(frame: Any, ids: Sequence[Any] | None, num_docs: int) -> Iterable[object]:
    columns = list(frame.columns)
    other = next((name for name in columns if not isinstance(name, str)), None)
    if other is not None:
        raise InputError(option="metadata", expected="a DataFrame with strings as names of columns", got=shown(other))
    named = next((name for wanted in ID_NAMES for name in columns if known_name(name) == wanted), None)
    if named is None:
        check_order(frame, ids, "metadata")
        return _records(frame, columns)
    found: dict[Any, object] = {}
    fields = [name for name in columns if name != named]
    for name, record in zip(frame[named], _records(frame, fields), strict=True):
        if name in found:
            raise InputError(expected=f"every id once in column {named!r} of the DataFrame", got=f"{shown(name)} again")
        found[name] = record
    return _found_by_id(found, ids, num_docs)


def _records(frame: Any, columns: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a DataFrame without what is missing in them."""
    if not columns:
        yield from ({} for _ in range(len(frame)))
        return
    for values in zip(*(frame[name] for name in columns), strict=True):
        yield {name: value for name, value in zip(columns, values, strict=True) if not is_missing(value)}
