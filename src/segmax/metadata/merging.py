"""Metadata of several indexes as those of one, column by column: nothing is decoded that need not be."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segmax.base.breaks import with_breaks
from segmax.base.errors import InputError
from segmax.metadata.columns import Column, ListColumn, ScalarColumn, StringColumn
from segmax.metadata.dictionary import ends, merged_strings
from segmax.metadata.layout import (
    DOCUMENTS,
    KINDS,
    MOST_FIELDS,
    MOST_ITEMS,
    Lists,
    Numbers,
    Packed,
    Strings,
    write_columns,
)
from segmax.metadata.packing import pack_metadata
from segmax.metadata.store import Metadata
from segmax.storage.blocks import Append, write_blocks

Columns = Mapping[str, Column]


def merge_metadata(
    sources: Sequence[Metadata | None], source: NDArray[Any], row: NDArray[Any], append: Append
) -> dict[str, Any]:
    """Write the metadata of documents that lie in several places as components of one index.

    Parameters
    ----------
    sources
        Where documents lie now; None for documents without metadata.
    source
        By new row: the number of the source that the document lies in.
    row
        By new row: its row there.
    append
        Called with the name of a component and more of its content.

    Returns
    -------
    dict
        What meta.json has to say about them.

    Examples
    --------
    >>> sources = [Metadata.from_rows([{"n": 1}, {"n": 2}]), Metadata.from_rows([{"n": "a"}])]
    >>> source, row = np.array([1, 0]), np.array([0, 1])
    >>> merged = Metadata.packed(lambda append: merge_metadata(sources, source, row, append), 2)
    >>> list(merged)
    [{'n': 'a'}, {'n': 2}]
    """
    there = [one for one in sources if one is not None]
    names = sorted({name for one in there for name in one.fields})
    if any(one.unlisted for one in there) or len(names) > MOST_FIELDS:
        return pack_metadata(_documents(sources, source, row), len(source), append)
    moves = _Moves(source, row, len(sources))
    write_blocks(DOCUMENTS, _texts(sources, source, moves), append)
    fields = {}
    for name in names:
        columns = _merged([(one and one.columns(name)) or {} for one in sources], moves)
        if columns:
            fields[name] = columns
    return write_columns(fields, len(source), unlisted=False, append=append)


def _documents(
    sources: Sequence[Metadata | None], source: NDArray[Any], row: NDArray[Any]
) -> Iterator[dict[str, Any] | None]:
    for number, place in with_breaks(zip(source.tolist(), row.tolist(), strict=True)):
        found = sources[number]
        yield None if found is None else found[place]


def _texts(sources: Sequence[Metadata | None], source: NDArray[Any], moves: _Moves) -> Iterator[list[bytes]]:
    """Yield the JSON of every document as it is stored."""
    texts = [
        itertools.repeat([b""]) if one is None else one.documents.several(rows)
        for one, rows in zip(sources, moves.old, strict=True)
    ]
    for number in with_breaks(source.tolist()):
        yield next(texts[number])


class _Moves:
    """Which rows of every source become which new rows."""

    def __init__(self, source: NDArray[Any], row: NDArray[Any], num_sources: int) -> None:
        order = np.argsort(source, kind="stable")
        borders = np.searchsorted(source[order], np.arange(num_sources + 1))
        self.new = [order[start:end] for start, end in itertools.pairwise(borders)]  # by source
        self.old = [row[places].astype(np.int64) for places in self.new]


def _merged(sources: Sequence[Columns], moves: _Moves) -> dict[str, Packed]:
    """Return the columns of one field, from those that every source has."""
    found: dict[str, Packed] = {}
    for kind in KINDS:
        parts = [
            _Part(columns[kind], new, old)
            for columns, new, old in zip(sources, moves.new, moves.old, strict=True)
            if kind in columns
        ]
        parts = [part for part in parts if len(part.new)]
        if parts:
            rows = np.concatenate([part.new for part in parts])
            order = np.argsort(rows, kind="stable")
            found[kind] = Packed(rows[order].astype(np.uint32), _values(parts, order))
    return found


class _Part:
    """What one source gives to a merged column: slots of its own column, and their new rows."""

    def __init__(self, column: Column, new: NDArray[np.int64], old: NDArray[np.int64]) -> None:
        places, self.slots = column.presence.slots_of(old)
        self.column = column
        self.new = new[places]


def _values(parts: Sequence[_Part], order: NDArray[np.int64]) -> Numbers | Strings | Lists | None:
    column = parts[0].column
    if isinstance(column, StringColumn):
        merged = merged_strings([_used(part) for part in parts])
        return Strings(merged.text, merged.offsets, merged.codes[order])
    if isinstance(column, ScalarColumn):
        kind = np.dtype(np.int64) if column.kind == "int" else column.values.dtype
        values = [_scalars(part.column)[part.slots].astype(kind) for part in parts]
        return Numbers(np.concatenate(values)[order])
    return _lists(parts, order) if isinstance(column, ListColumn) else None


def _scalars(column: Column) -> NDArray[Any]:
    assert isinstance(column, ScalarColumn)
    return column.values


def _used(part: _Part) -> Strings:
    """Return the strings of a part, with a dictionary of those that are still there."""
    column = part.column
    assert isinstance(column, StringColumn)
    codes = column.values[part.slots]
    used = np.zeros(column.num_distinct, dtype=np.bool_)
    used[codes] = True
    if used.all():
        return Strings(column.text.tobytes(), column.offsets, codes.astype(np.uint32))
    kept = np.flatnonzero(used)
    lengths = (column.offsets[1:] - column.offsets[:-1]).astype(np.uint32)[kept]
    text = b"".join(map(column.entry, kept.tolist()))
    return Strings(text, ends(lengths), (np.cumsum(used) - 1)[codes].astype(np.uint32))


def _lists(parts: Sequence[_Part], order: NDArray[np.int64]) -> Lists:
    """Return the lists of all parts; their elements move as documents do."""
    columns = [_list_column(part.column) for part in parts]
    firsts = np.concatenate([column.offsets[part.slots].astype(np.int64) for column, part in _pairs(columns, parts)])
    lasts = np.concatenate([column.offsets[part.slots + 1].astype(np.int64) for column, part in _pairs(columns, parts)])
    owner = np.repeat(np.arange(len(parts)), [len(part.slots) for part in parts])[order]
    firsts, lengths = firsts[order], (lasts - firsts)[order]
    starts = np.cumsum(lengths) - lengths
    num_items = int(lengths.sum())
    if num_items > MOST_ITEMS:
        raise InputError(expected=f"at most {MOST_ITEMS:,} elements in the lists of a field", got=f"{num_items:,}")
    within = np.arange(num_items) - np.repeat(starts, lengths)
    moves = _Moves(np.repeat(owner, lengths), np.repeat(firsts, lengths) + within, len(parts))
    return Lists(lengths.astype(np.uint32), num_items, _merged([column.items for column in columns], moves))


def _list_column(column: Column) -> ListColumn:
    assert isinstance(column, ListColumn)
    return column


def _pairs(columns: Sequence[ListColumn], parts: Sequence[_Part]) -> Iterator[tuple[ListColumn, _Part]]:
    return zip(columns, parts, strict=True)
