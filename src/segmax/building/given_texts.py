"""The texts of `build(texts=...)` in the order of rows: lists as they are, mappings and tables by id."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from segmax.base.checks import check_listed, shown
from segmax.base.errors import InputError
from segmax.io.frames import frame_records, is_frame, is_series
from segmax.io.records import ID_NAMES, document_of, known_name
from segmax.vectors.documents import Document


def check_texts(texts: object) -> None:
    """Raise InputError unless this can hold a text per document."""
    if not isinstance(texts, Mapping) and not is_frame(texts):
        check_listed("texts as a list or another iterable, one per document, a mapping of id to text or a table", texts)


def texts_by_row(texts: Any, ids: Sequence[Any] | None, num_docs: int) -> Iterable[object]:
    """Return a text per row.

    Parameters
    ----------
    texts
        A mapping of id to text, or a DataFrame with a column of ids: texts are found by id. A DataFrame without one, a
        Series or another iterable: texts are in the order of rows.
    ids
        The id of every row; None: its number.
    num_docs
        How many rows there are.

    Examples
    --------
    >>> list(texts_by_row({"a": "one", "b": "two"}, ["b", "a"], 2))
    ['two', 'one']
    """
    if isinstance(texts, MatchedTexts):
        return texts.matched(ids)
    if isinstance(texts, Mapping):
        return _found_by_id(texts, ids, num_docs)
    if is_frame(texts):
        return _of_frame(texts, ids, num_docs)
    if is_series(texts):
        check_order(texts, ids, "texts")
    return texts  # type: ignore[no-any-return]


class MatchedTexts:
    """Texts with ids that have to be those of the rows, in the same order.

    Parameters
    ----------
    documents
        The texts.
    name
        What messages call them, such as their file.
    """

    def __init__(self, documents: Iterable[Document], name: str) -> None:
        self._documents = documents
        self._name = name

    def __iter__(self) -> Iterator[Document]:
        return iter(self._documents)

    def matched(self, ids: Sequence[Any] | None) -> Iterator[Document]:
        """Yield the texts; raise InputError at one whose id is not that of its row."""
        for row, document in enumerate(self._documents):
            if ids is not None and row < len(ids) and document.id != str(ids[row]):
                raise InputError(
                    where=f"'{self._name}'",
                    expected=f"the text of document {str(ids[row])!r} in place {row}",
                    got=f"{document.id!r}",
                    hint="give the texts that the vectors were made of, in the same order",
                )
            yield document


def _found_by_id(texts: Mapping[Any, object], ids: Sequence[Any] | None, num_docs: int) -> list[object]:
    names = range(num_docs) if ids is None else ids
    missing = next((name for name in names if name not in texts), None)
    if missing is not None:
        hint = "pass {ids=...}, without which documents are called by their row numbers" if ids is None else ""
        raise InputError(expected="a text for every document", got=f"none for the id {shown(missing)}", hint=hint)
    if len(texts) > num_docs:
        known = set(names)
        extra = next(name for name in texts if name not in known)
        raise InputError(
            expected=f"{num_docs} texts, one per document",
            got=f"{len(texts)}; no document has the id {shown(extra)}",
        )
    return [texts[name] for name in names]


def _of_frame(frame: Any, ids: Sequence[Any] | None, num_docs: int) -> Iterable[object]:
    names = [known_name(name) for name in frame.columns]  # as `frame_records` calls them, whatever their case
    column = next((name for name in ID_NAMES if name in names), None)
    if column is None:
        check_order(frame, ids, "texts")
        return (document for _, document in _documents(frame, "id"))
    found: dict[Any, Document] = {}
    for name, document in _documents(frame, column):
        if name in found:
            raise InputError(
                expected=f"every id once in column {column!r} of the DataFrame", got=f"{shown(name)} again"
            )
        found[name] = document
    return _found_by_id(found, ids, num_docs)


def _documents(frame: Any, column: str) -> Iterator[tuple[Any, Document]]:
    """Yield the documents of a DataFrame, each with the id as it stands there."""
    for place, record in frame_records(frame):
        name = record.get(column)
        yield name, document_of(record, str(name), place)


def check_order(table: Any, ids: Sequence[Any] | None, what: str) -> None:
    """Raise InputError if the index of a table of texts or metadata has the ids in another order."""
    labels = getattr(table, "index", None)
    if ids is None or labels is None or type(labels).__name__ == "RangeIndex" or len(labels) != len(ids):
        return
    named = list(labels)
    if named != list(ids) and set(named) == set(ids):
        kind = type(table).__name__
        raise InputError(
            expected=f"{what} in the order of ids",
            got=f"a {kind} whose index has the ids in another order",
            hint=f"pass {what}.reindex(ids)",
        )
