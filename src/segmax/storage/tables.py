"""Document ids and vocabulary: tables of numbers or text beside the engine, searched by dictionary on first use."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segmax.base.checks import check_listed, is_integer, shown
from segmax.base.errors import InputError, UnknownIdError, damaged
from segmax.storage.components import Arrays
from segmax.storage.texts import StoredText, TextList, Texts


def text_arrays(prefix: str, values: list[str]) -> Arrays:
    """Pack strings as UTF-8 bytes and offsets."""
    try:
        encoded = [value.encode("utf-8") for value in values]
    except UnicodeEncodeError as error:
        raise InputError(expected="strings that UTF-8 can hold", got=f"{error.object!r}") from error
    offsets = np.zeros(len(encoded) + 1, dtype=np.uint64)
    np.cumsum([len(text) for text in encoded], out=offsets[1:])
    return {f"{prefix}_offset": offsets, f"{prefix}_text": np.frombuffer(b"".join(encoded), dtype=np.uint8)}


class TextTable:
    """Strings by number, decoded on demand, and numbers by string."""

    def __init__(
        self, offsets: NDArray[np.uint64], text: NDArray[np.uint8], length: int, path: Path | None = None
    ) -> None:
        ascending = len(offsets) == length + 1 and offsets[0] == 0 and bool((offsets[1:] >= offsets[:-1]).all())
        if not ascending or int(offsets[-1]) != len(text):
            raise damaged("a table of strings has the wrong length", path)
        self._path = path
        self._offsets = offsets
        self._text = text
        self._numbers: dict[str, int] | None = None

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, number: int) -> str:
        start, stop = int(self._offsets[number]), int(self._offsets[number + 1])
        try:
            return self._text[start:stop].tobytes().decode("utf-8")
        except UnicodeDecodeError as error:
            raise damaged("an id or a term is not UTF-8", self._path) from error

    def __iter__(self) -> Iterator[str]:
        return (self[number] for number in range(len(self)))

    def find(self, value: str) -> int | None:
        """Return the number of a string, or None."""
        if self._numbers is None:
            self._numbers = {self[i]: i for i in range(len(self))}
        return self._numbers.get(value)


class DocIds:
    """What the user calls the documents: row numbers, integers or strings."""

    def __init__(
        self,
        num_docs: int,
        numbers: NDArray[np.int64] | None = None,
        texts: TextTable | None = None,
        stored: Texts | TextList | None = None,
        metadata: Sequence[dict[str, Any] | None] | None = None,
    ) -> None:
        self._num_docs = num_docs
        self._numbers = numbers
        self._texts = texts
        self.stored = stored  # what the documents say, where the index keeps it
        self.metadata = metadata  # what they are described by, where the index keeps that
        self._rows: dict[int, int] | None = None

    @classmethod
    def from_arrays(
        cls,
        arrays: Mapping[str, NDArray[Any]],
        num_docs: int,
        path: Path | None = None,
        metadata: Sequence[dict[str, Any] | None] | None = None,
    ) -> DocIds:
        """Read the tables of an index; `path` is where it is, for messages. Its metadata have been read before."""
        stored = Texts(arrays, num_docs, path) if "text_data" in arrays else None
        if "id_number" in arrays:
            if len(arrays["id_number"]) != num_docs:
                raise damaged("id_number has the wrong length", path)
            return cls(num_docs, numbers=arrays["id_number"], stored=stored, metadata=metadata)
        if "id_text" in arrays:
            names = TextTable(arrays["id_offset"], arrays["id_text"], num_docs, path)
            return cls(num_docs, texts=names, stored=stored, metadata=metadata)
        return cls(num_docs, stored=stored, metadata=metadata)

    def title_of(self, row: int) -> str:
        """Return the title of a row."""
        return self.text_of(row).title

    def text_of(self, row: int) -> StoredText:
        """Return the title and text of a row; raise InputError if the index keeps none."""
        if self.stored is None:
            raise InputError(
                "the index keeps no texts",
                hint="build it with {texts=...}, or look them up by id where you have them",
            )
        return self.stored[row]

    def metadata_of(self, row: int) -> dict[str, Any] | None:
        """Return the metadata of a row; raise InputError if the index keeps none."""
        if self.metadata is None:
            raise no_metadata()
        return self.metadata[row]

    def id_of(self, row: int) -> int | str:
        """Return the id of a row."""
        if self._numbers is not None:
            return int(self._numbers[row])
        if self._texts is not None:
            return self._texts[row]
        return int(row)

    def ids_of(self, rows: NDArray[np.int64]) -> list[int | str]:
        """Return the ids of many rows."""
        if self._texts is not None:
            return [self._texts[row] for row in rows.tolist()]
        found: list[int | str] = (rows if self._numbers is None else self._numbers[rows]).tolist()
        return found

    def row_of(self, doc_id: int | str) -> int:
        """Return the row of an id; raise UnknownIdError if there is none."""
        row = self._find(doc_id)
        if row is None:
            raise self._unknown(doc_id)
        return row

    def _unknown(self, doc_id: object) -> Exception:
        """Return the error about an id that no document has."""
        kinds = "strings" if self._texts is not None else "integers"
        if not (isinstance(doc_id, str) or is_integer(doc_id)):
            return InputError(expected="an id", got=type(doc_id).__name__, hint=f"the ids of this index are {kinds}")
        other = isinstance(doc_id, str) != (self._texts is not None)
        hint = f"the ids of this index are {kinds}" if other else ""
        return UnknownIdError(f"no document has the id {shown(doc_id)}", hint=hint)

    def _find(self, doc_id: int | str) -> int | None:
        if self._texts is not None:
            return self._texts.find(doc_id) if isinstance(doc_id, str) else None
        try:
            number = operator.index(doc_id)  # type: ignore[arg-type]
        except TypeError:
            return None
        if isinstance(doc_id, bool):
            return None
        if self._numbers is None:
            return number if 0 <= number < self._num_docs else None
        if self._rows is None:
            self._rows = {int(value): row for row, value in enumerate(self._numbers)}
        return self._rows.get(number)


def no_metadata() -> InputError:
    """Return the error about an index that keeps no metadata."""
    return InputError("the index keeps no metadata", hint="build it with {metadata=...}")


def check_ids(ids: object) -> None:
    """Raise InputError for what cannot be ids in an order."""
    check_listed("ids as a list or another iterable, one per document", ids)


def listed_ids(ids: Iterable[Any]) -> list[Any]:
    """Return external ids as a list; refuse what has no order, or is something else when it is iterated."""
    if isinstance(ids, list):
        return ids
    check_ids(ids)
    # Of times, tolist would make numbers.
    return ids.tolist() if isinstance(ids, np.ndarray) and ids.dtype.kind in "iuU" else list(ids)


def id_arrays(ids: Iterable[Any] | None, num_docs: int, place_of: Callable[[int], str] | None = None) -> Arrays:
    """Check external ids (all integers or all strings, none empty or twice) and pack them for storage.

    `place_of` says where a document is, for messages.
    """
    if ids is None:
        return {}
    values = listed_ids(ids)
    if len(values) != num_docs:
        raise InputError(expected=f"{num_docs} ids, one per document", got=len(values))
    _check_unique(values, "id", "document", place_of)
    if "" in values:
        raise InputError(expected="ids that are not empty", got=f"'' at document {values.index('')}")
    if all(isinstance(value, str) for value in values):
        return text_arrays("id", values)
    if all(map(is_integer, values)):
        try:
            return {"id_number": np.array(values, dtype=np.int64)}
        except OverflowError as error:
            largest = shown(max(values, key=abs))
            raise InputError(
                expected="integer ids that fit 64 bits", got=largest, hint="pass larger ones as strings"
            ) from error
    raise InputError(
        option="ids",
        expected="all strings or all integers",
        got=f"{', '.join(sorted({type(v).__name__ for v in values}))}",
    )


def check_terms(terms: object) -> None:
    """Raise InputError for what cannot be a vocabulary."""
    if not isinstance(terms, Mapping):
        check_listed("terms as a list, a string per column, or a mapping of term to column", terms)


def term_arrays(terms: Iterable[str] | Mapping[str, int] | None, num_terms: int) -> Arrays:
    """Check the vocabulary (a string per column, none twice) and pack it for storage."""
    if terms is None:
        return {}
    check_terms(terms)
    values = _by_column(terms, num_terms) if isinstance(terms, Mapping) else list(terms)
    if len(values) != num_terms:
        raise InputError(expected=f"{num_terms} terms, one per column of the vectors", got=len(values))
    for number, value in enumerate(values):
        if not isinstance(value, str):
            raise InputError(option="terms", expected="strings", got=f"{type(value).__name__} at column {number}")
    _check_unique(values, "term", "column")
    return text_arrays("term", values)


def _by_column(columns: Mapping[str, int], num_terms: int) -> list[str]:
    """Return the terms of a mapping of term to column, as vectorizers have it, in the order of columns."""
    terms: dict[int, str] = {}
    for term, column in columns.items():
        whole = is_integer(column)
        if not whole or not 0 <= column < num_terms or column in terms:
            got = f"{shown(column)} again, for {shown(term)}" if whole and column in terms else shown(column)
            raise InputError(
                expected=f"terms to map each term to a column of its own, from 0 to {num_terms - 1}", got=got
            )
        terms[int(column)] = term
    if len(terms) != num_terms:
        raise InputError(expected=f"{num_terms} terms, one per column of the vectors", got=len(terms))
    return [terms[column] for column in range(num_terms)]


def _check_unique(values: list[Any], what: str, where: str, place_of: Callable[[int], str] | None = None) -> None:
    try:
        hashes = np.fromiter(map(hash, values), dtype=np.int64, count=len(values))
    except TypeError:
        number, value = next((n, v) for n, v in enumerate(values) if not isinstance(v, Hashable))
        raise InputError(
            expected=f"{what}s to be strings or integers", got=f"{type(value).__name__} at {where} {number}"
        ) from None
    hashes.sort()
    if not (hashes[1:] == hashes[:-1]).any():
        return  # a dictionary of millions of ids would take more memory than the ids
    seen: dict[Any, int] = {}
    for number, value in enumerate(values):
        first = seen.setdefault(value, number)
        if first != number and place_of is not None:
            raise InputError(
                where=place_of(number),
                expected=f"every {what} once",
                got=f"{value!r} again, first at {place_of(first)}",
            )
        if first != number:
            raise InputError(expected=f"every {what} once", got=f"{value!r} at {where} {first} and again at {number}")
