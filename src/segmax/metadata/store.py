"""The metadata of the documents of an index: what was given, by row, and which rows a filter keeps."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from segmax.base.checks import checked_int
from segmax.base.errors import InputError, SegmaxError, damaged
from segmax.metadata.columns import Column, Mask
from segmax.metadata.directory import read_fields
from segmax.metadata.evaluating import matching_rows
from segmax.metadata.facets import Members, counted_values, members_of, values_of
from segmax.metadata.layout import DOCUMENTS
from segmax.metadata.packing import pack_metadata
from segmax.metadata.values import Scalar, from_json
from segmax.metadata.where import Test, Where, checked_field, parse_where
from segmax.storage.blocks import Append, Blocks

#: The components that metadata lie in.
METADATA_COMPONENTS = ("metadata_offset", "metadata_first_row", "metadata_data", "metadata_column")

_MOST_MEMBERS = 4  # fields whose values only JSON tells, and are kept by row


class Metadata(Sequence[dict[str, Any] | None]):
    """What documents are described by: a JSON object each, or None. Share it between threads freely.

    Parameters
    ----------
    arrays
        The components of an index.
    entry
        What meta.json says of them.
    num_docs
        The number of documents.
    path
        Where the index is, for messages.

    Raises
    ------
    FormatError
        If they do not fit together.

    Examples
    --------
    >>> metadata = Metadata.from_rows([{"year": 2019}, {"year": 2024, "lang": "de"}, None])
    >>> metadata[1]
    {'year': 2024, 'lang': 'de'}
    >>> metadata.rows({"year": {"$gte": 2020}}).tolist()
    [False, True, False]
    """

    def __init__(
        self, arrays: Mapping[str, NDArray[Any]], entry: object, num_docs: int, path: Path | None = None
    ) -> None:
        self._arrays = {name: arrays[name] for name in METADATA_COMPONENTS}
        self._entry = entry
        self._path = path
        self._num_docs = num_docs
        self._members: dict[str, Members] = {}  # replaced, never changed: threads share it
        self.documents = Blocks(DOCUMENTS, arrays, num_docs, path)
        with self._damage():
            self._fields, self.unlisted = _opened(entry, arrays["metadata_column"], num_docs)

    @classmethod
    def from_rows(cls, rows: Iterable[Mapping[str, Any] | None]) -> Self:
        """Return the metadata of documents in memory.

        Raises
        ------
        InputError
            If a value is not one of JSON.
        """
        listed = rows if isinstance(rows, Sequence) else list(rows)
        return cls.packed(lambda append: pack_metadata(listed, len(listed), append), len(listed))

    @classmethod
    def packed(cls, pack: Callable[[Append], dict[str, Any]], num_docs: int) -> Self:
        """Return the metadata that a function writes, in memory. It gets a function that adds to a component."""
        pieces: dict[str, list[NDArray[Any]]] = {}
        entry = pack(lambda name, array: pieces.setdefault(name, []).append(array))
        return cls({name: np.concatenate(arrays) for name, arrays in pieces.items()}, entry, num_docs)

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, NDArray[Any]], entry: object, num_docs: int, path: Path | None = None
    ) -> Self:
        """Open the components of an index."""
        return cls(arrays, entry, num_docs, path)

    def write(self, append: Append) -> dict[str, Any]:
        """Write the components as they are, and return what meta.json has to say of them."""
        for name, array in self._arrays.items():
            append(name, array)
        return dict(self._entry)  # type: ignore[call-overload, no-any-return]

    # --- documents ---------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._num_docs

    def __getitem__(self, row: Any) -> Any:
        if isinstance(row, slice):
            return [self[one] for one in range(*row.indices(len(self)))]
        (text,) = self.documents[operator.index(row)]
        return self._read(text)

    def _several(self, rows: NDArray[np.int64]) -> Iterator[dict[str, Any] | None]:
        """Yield the metadata of some rows."""
        return (self._read(text) for (text,) in self.documents.several(rows))

    def _read(self, text: bytes) -> dict[str, Any] | None:
        try:
            return from_json(text)
        except (ValueError, RecursionError) as error:
            raise self.documents.damaged() from error

    @property
    def fields(self) -> dict[str, tuple[str, ...]]:
        """The fields that documents have, and the kinds of values in each.

        Examples
        --------
        >>> Metadata.from_rows([{"year": 2019}, {"year": None}, {"tags": ["a"]}]).fields
        {'tags': ('list',), 'year': ('null', 'int')}
        """
        return {name: tuple(columns) for name, columns in self._fields.items()}

    # --- filters -----------------------------------------------------------------------------------------------------

    def rows(self, where: Mapping[str, Any] | Where) -> Mask:
        """Return by row whether a filter matches.

        Raises
        ------
        InputError
            If the filter is not well-formed.
        """
        root = parse_where(where).root
        with self._damage():
            if not isinstance(root, Test) or not root.is_of_scalar:
                return matching_rows(root, self._num_docs, self.columns, self._several)
            columns = self.columns(root.field)
            if columns is None:
                return self._members_of(root.field, None).having(root.operand, self._num_docs)
            decided = {kind: column for kind, column in columns.items() if column.kind != "json"}
            found = matching_rows(root, self._num_docs, lambda _: decided, self._several)
            for column in columns.values():
                if column.kind == "json":
                    found |= self._members_of(root.field, column).having(root.operand, self._num_docs)
            return found

    def _members_of(self, field: str, column: Column | None) -> Members:
        """Return the documents of every value of a field, of all documents or of those in a column.

        Their JSON is read once for all filters and groups.
        """
        found = self._members.get(field)
        if found is None:
            rows = np.arange(self._num_docs) if column is None else np.flatnonzero(column.presence.mask())
            found = members_of(field, rows, self._several(rows))
            others = [(name, old) for name, old in self._members.items() if name != field]
            self._members = dict([*others[1 - _MOST_MEMBERS :], (field, found)])
        return found

    def columns(self, field: str) -> Mapping[str, Column] | None:
        """Return the columns of a field, checked; None where only the JSON of documents tells which of them have it."""
        found = self._fields.get(field)
        if found is None:
            return None if self.unlisted else {}
        with self._damage():
            for column in found.values():
                column.check()
        return found

    # --- values ------------------------------------------------------------------------------------------------------

    def facet(self, field: str, rows: Mask | None = None, limit: int | None = None) -> list[tuple[Scalar, int]]:
        """Count the documents by the value of a field: the most frequent values first, equal counts by value.

        A document with a list counts once for each distinct element. Nulls are counted, documents without the field
        and objects are not.

        Parameters
        ----------
        field
            The field.
        rows
            By row: whether to count it; None counts all.
        limit
            How many values to return; None returns all.

        Examples
        --------
        >>> Metadata.from_rows([{"lang": "en"}, {"lang": "de"}, {"lang": "en"}, {}]).facet("lang")
        [('en', 2), ('de', 1)]
        """
        most = None if limit is None else checked_int("limit", limit, 1)
        field = checked_field(field)
        with self._damage():
            return counted_values(self.columns(field), field, self._checked_rows(rows), self, most)

    def values(self, field: str, rows: NDArray[np.int64] | Sequence[int]) -> list[Any]:
        """Return the value of a field in each of some rows; None where it is missing or null.

        Examples
        --------
        >>> Metadata.from_rows([{"lang": "en"}, {}]).values("lang", [1, 0])
        [None, 'en']
        """
        wanted = np.asarray(rows, dtype=np.int64)
        with self._damage():
            return values_of(self.columns(field), field, wanted, self)

    def _checked_rows(self, rows: Mask | None) -> Mask:
        if rows is None:
            return np.ones(self._num_docs, dtype=np.bool_)
        if rows.dtype != np.bool_ or rows.shape != (self._num_docs,):
            raise InputError(
                option="rows",
                expected=f"{self._num_docs:,} booleans, one per document",
                got=f"{rows.dtype}{rows.shape}",
            )
        return rows

    @contextlib.contextmanager
    def _damage(self) -> Iterator[None]:
        """Turn whatever the content of columns causes into FormatError."""
        try:
            yield
        except SegmaxError:
            raise
        except (ArithmeticError, LookupError, MemoryError, RecursionError, TypeError, ValueError) as error:
            raise damaged(f"its columns of metadata cannot be read ({error})", self._path) from error


def _opened(entry: Any, data: NDArray[Any], num_docs: int) -> tuple[dict[str, dict[str, Column]], bool]:
    unlisted = entry["unlisted"]
    if type(unlisted) is not bool:
        raise ValueError("no truth value")
    return read_fields(entry, data, num_docs), unlisted
