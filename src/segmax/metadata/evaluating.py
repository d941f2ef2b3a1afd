"""Which rows a filter matches: by columns as far as these tell, and by one look at the JSON of each row left open."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from segmax.base.breaks import with_breaks
from segmax.metadata.columns import Column, Mask, tested
from segmax.metadata.values import MISSING, fields_of, find
from segmax.metadata.where import AllOf, AnyOf, LongList, Node, Not, Test, fields_in, matches

_MOST_DOTS = 8
_FEW_TESTS = 8  #: up to so many go through a list element by element

#: The columns of a field; None where only the JSON of documents tells which of them have it.
Columns = Callable[[str], Mapping[str, Column] | None]
#: Yields the metadata of some rows.
Documents = Callable[[NDArray[np.int64]], Iterator[dict[str, Any] | None]]


#: Makes a function that returns the value of a field, or MISSING, from the metadata of a document.
_Look = Callable[[dict[str, Any] | None], Callable[[str], Any]]


class _Found(NamedTuple):
    """What columns tell about an expression."""

    sure: Mask  #: by row: whether it holds for sure
    maybe: Mask  #: by row: whether it may hold; the same array where columns decide about all rows
    rest: Node | None = None  #: what has to hold for a row that is left open; None where there is none


def matching_rows(root: Node, num_docs: int, columns: Columns, documents: Documents) -> Mask:
    """Return by row whether an expression holds, in an array of its own."""
    found = _by_columns(root, num_docs, columns)
    if found.rest is not None:
        rows = np.flatnonzero(found.maybe & ~found.sure)
        # To find a name of many dots takes a step per dot, so where there are some, all fields are laid out first.
        names = list(fields_in(found.rest))
        look: _Look = _by_name if any(name.count(".") > _MOST_DOTS for name in names) else _by_path
        if len(names) > _FEW_TESTS:
            look = partial(_once, look)
        hits = (matches(found.rest, look(metadata)) for metadata in with_breaks(documents(rows)))
        found.sure[rows] = np.fromiter(hits, np.bool_, len(rows))
    return found.sure


def _by_path(metadata: dict[str, Any] | None) -> Callable[[str], Any]:
    return partial(find, metadata)


def _by_name(metadata: dict[str, Any] | None) -> Callable[[str], Any]:
    fields = fields_of(metadata or {})
    return lambda name: fields.get(name, MISSING)


def _once(look: _Look, metadata: dict[str, Any] | None) -> Callable[[str], Any]:
    """Look a field up once for all tests of it, and prepare what is a list."""
    value_of = look(metadata)

    @cache
    def prepared(name: str) -> Any:
        value = value_of(name)
        return LongList(value) if isinstance(value, list) else value

    return prepared


def _by_columns(node: Node, num_docs: int, columns: Columns) -> _Found:
    """Return what columns tell about an expression, in arrays of its own."""
    if isinstance(node, Test):
        return _tested(node, num_docs, columns(node.field))
    if isinstance(node, Not):
        sure, maybe, rest = _by_columns(node.part, num_docs, columns)
        negated = np.logical_not(maybe, out=maybe)
        return _Found(negated, negated) if rest is None else _Found(negated, ~sure, Not(rest))
    join = np.logical_and if isinstance(node, AllOf) else np.logical_or
    sure = maybe = np.full(num_docs, isinstance(node, AllOf))
    is_open: list[tuple[Node, Node]] = []  # parts that leave rows open, and what is left of each
    for part in with_breaks(node.parts):
        found = _by_columns(part, num_docs, columns)
        if found.rest is not None:
            is_open.append((part, found.rest))
            maybe = maybe.copy() if maybe is sure else maybe
        if maybe is not sure:
            join(maybe, found.maybe, out=maybe)
        join(sure, found.sure, out=sure)
    # A row that is left open is open in one of these parts, and the parts that columns decide say nothing about it.
    parts = tuple(part for part, _ in is_open)
    several = AllOf(parts) if isinstance(node, AllOf) else AnyOf(parts)
    rest = several if len(is_open) > 1 else is_open[0][1] if is_open else None
    return _Found(sure, maybe, rest)


def _tested(test: Test, num_docs: int, columns: Mapping[str, Column] | None) -> _Found:
    """Return what the columns of its field tell about a test."""
    if columns is None:
        return _Found(np.zeros(num_docs, np.bool_), np.ones(num_docs, np.bool_), test)
    is_open: list[NDArray[np.int64]] = []
    sure = tested(columns, num_docs, test, is_open.append)
    if not is_open:
        return _Found(sure, sure)
    maybe = sure.copy()
    for rows in is_open:
        maybe[rows] = True
    return _Found(sure, maybe, test)
