"""What searches take beside a query: filters, offsets, least scores, groups.

These are functions over "search for k with a filter", so that whatever can do that, an index or a collection, answers
the same arguments with the same results.
"""

from __future__ import annotations

import dataclasses
import json
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from segmax import _core
from segmax.base.breaks import with_breaks
from segmax.base.checks import checked_int, checked_number, shown
from segmax.base.errors import ConfigError
from segmax.metadata import Metadata, Scalar, Where, parse_where
from segmax.metadata.facets import scalars_of
from segmax.metadata.values import checked_value, value_key
from segmax.metadata.where import Narrowed, checked_field, narrowed, num_characters
from segmax.search.arguments import checked_k, within
from segmax.search.methods import SearchParams
from segmax.search.results import Group, Groups, Hits

#: Searches for the k best documents that a filter matches, with a method.
Search = Callable[[int, Where | None, SearchParams | None], Hits]
#: Returns the value of a field in each of some results.
Values = Callable[[str, Hits], list[Any]]
#: A filter as callers write it.
Filter = Mapping[str, Any] | Where

_FIRST_DEPTH = 64  # results to look for groups in, and how much deeper to look each time
_DEEPER = 4
_CACHED_BYTES = 1 << 26
_LEAST_BYTES_PER_DOC = 4
_NARROWED_SHARE = 4  # of the memory for filters as they are written, filters of groups may take one part beside it
_ENTRY_BYTES = 512  # of a filter and of objects, roughly
_MOST_PARSED = 64
_MOST_PARSED_CHARS = 1 << 22  # of all of them together
_SCALARS = frozenset({str, int, float, bool, type(None)})
_ENCODE = json.JSONEncoder(ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")).encode


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What a search is asked for beside the query, k and the method, checked."""

    where: Where | None = None
    offset: int = 0
    min_score: float | None = None
    group_by: str | None = None
    group_size: int = 1

    @classmethod
    def checked(
        cls, where: object, offset: object, min_score: object, group_by: object = None, group_size: object = 1
    ) -> Wanted:
        """Check the arguments of a search."""
        if group_by is not None:
            if not isinstance(group_by, str):
                raise ConfigError(option="group_by", expected="the name of a field", got=shown(group_by))
            group_by = checked_field(group_by, "group_by")
        if group_by is None and group_size != 1:
            raise ConfigError(option="group_size", expected="given with group_by", got=shown(group_size))
        return cls(
            None if where is None else parse_where(where),  # type: ignore[arg-type]
            checked_int("offset", offset, 0, 2**32),
            checked_min_score(min_score),
            group_by,
            checked_k(group_size, "group_size"),
        )


def checked_min_score(score: object) -> float | None:
    """Return the least score of results, or None."""
    if score is None:
        return None
    number = checked_number("min_score", score)
    if math.isnan(number):
        raise ConfigError(option="min_score", expected="a number", got="nan")
    return number


def best(search: Search, k: int, wanted: Wanted, params: SearchParams | None) -> Hits:
    """Return the k best documents after the first `offset`, without those that score too low."""
    hits = search(k + wanted.offset, wanted.where, params)
    return high_enough(hits, wanted.min_score).taken(slice(wanted.offset, None))


def high_enough(hits: Hits, least: float | None) -> Hits:
    """Return the results with at least some score; they come first."""
    return hits if least is None else hits.taken(slice(0, int((hits.scores >= least).sum())))


def grouped(search: Search, values: Values, k: int, wanted: Wanted, params: SearchParams | None) -> Groups:
    """Return the best documents of the k best groups after the first `offset`, as in the ranking of all documents.

    A document belongs to the group of its value, and with a list to that of every element. Documents without a value
    belong to none. A budget is that of all searches together: groups for which nothing of it is left have those of
    their documents that were found before.
    """
    assert wanted.group_by is not None
    budget_ms = getattr(params, "budget_ms", None)
    deadline = None if budget_ms is None else time.perf_counter() + budget_ms / 1e3
    is_cut = False
    num_groups = k + wanted.offset
    depth = max(_FIRST_DEPTH, num_groups * wanted.group_size)
    while True:
        ranking = search(depth, wanted.where, within(params, deadline))
        hits = high_enough(ranking, wanted.min_score)
        members = _members(values(wanted.group_by, hits))
        is_all = len(ranking) < depth or len(hits) < len(ranking)
        if is_all or len(members) >= num_groups:
            break
        if is_cut := deadline is not None and time.perf_counter() > deadline:
            break
        depth *= _DEEPER
    found = []
    for value, places in with_breaks(list(members.values())[wanted.offset : num_groups]):
        is_whole = is_all or len(places) >= wanted.group_size
        is_cut |= not is_whole and deadline is not None and time.perf_counter() > deadline
        if is_whole or is_cut:
            found.append(Group(value, hits.taken(np.array(places[: wanted.group_size], dtype=np.int64))))
        else:
            group = narrowed(wanted.where, wanted.group_by, value)
            more = search(wanted.group_size, group, within(params, deadline))
            found.append(Group(value, high_enough(more, wanted.min_score)))
    return Groups(found, complete=False if is_cut else None)


def _members(values: Sequence[Any]) -> dict[Any, tuple[Scalar, list[int]]]:
    """Return the places of documents in a ranking by their value, the value of the best document first."""
    found: dict[Any, tuple[Scalar, list[int]]] = {}
    for place, value in enumerate(values):
        for scalar in scalars_of(value):
            if scalar is not None:
                found.setdefault(value_key(scalar), (scalar, []))[1].append(place)
    return found


class FilterParser:
    """Checks filters, and keeps those used last: checking one takes as long as a search. Threads can share it."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Where] = OrderedDict()
        self._num_chars = 0
        self._lock = threading.Lock()

    def __call__(self, where: Filter) -> Where:
        """Return a filter, checked."""
        if isinstance(where, Where):
            return where
        if num_characters(where) > _MOST_PARSED_CHARS:  # neither kept nor made text of, which would take as much again
            return parse_where(where)
        try:
            key = _ENCODE(_plain(where))
        except (RecursionError, TypeError, ValueError):  # no filter: the parser says why
            return parse_where(where)
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                return found
        found = parse_where(where)
        with self._lock:
            if key not in self._kept:
                self._kept[key] = found
                self._num_chars += len(key)
            while len(self._kept) > _MOST_PARSED or (self._num_chars > _MOST_PARSED_CHARS and self._kept):
                self._num_chars -= len(self._kept.popitem(last=False)[0])
        return found


def _plain(given: object) -> Any:
    """Return what a filter is made of as plain values of Python, whose JSON is the same for equal filters only.

    Raises
    ------
    TypeError or ValueError
        For what is no JSON, and for sets, whose order may differ.
    """
    kind = type(given)
    if kind in _SCALARS:
        return given
    if isinstance(given, Mapping):
        if not all(isinstance(key, str) for key in given):
            raise TypeError("JSON makes strings of all keys")
        return {str.__str__(key): _plain(value) for key, value in given.items()}
    if isinstance(given, np.ndarray) and kind is np.ndarray and given.dtype.kind in "biufU":
        return given.tolist()
    if isinstance(given, (list, tuple)):
        return given if _SCALARS.issuperset(map(type, given)) else [_plain(value) for value in given]
    return checked_value(given)


class Kept(NamedTuple):
    """What a filter keeps of an index."""

    rows: NDArray[np.bool_]
    mask: _core.Mask  #: the same for the core

    @property
    def num_bytes(self) -> int:
        """How much memory it takes: a mask has a bit where rows have a byte."""
        return self.rows.nbytes * 9 // 8


class Matches(NamedTuple):
    """The rows of a part that a filter matches, the dead among them: a part never changes, so they hold forever."""

    rows: NDArray[np.bool_]

    @property
    def num_bytes(self) -> int:
        """How much memory it takes."""
        return self.rows.nbytes


def matching(where: Where, metadata: Metadata, known: Callable[[Where], NDArray[np.bool_]]) -> NDArray[np.bool_]:
    """Return by row whether a filter matches; `known` returns that for the filter that it narrows, which is kept."""
    if not isinstance(where, Narrowed):
        return metadata.rows(where)
    found = metadata.rows(Where(where.test))
    return found if where.base is None else np.logical_and(found, known(where.base), out=found)


class _Kept(Protocol):
    @property
    def num_bytes(self) -> int: ...


T = TypeVar("T", bound=_Kept)


class FilterCache(Generic[T]):
    """What filters keep, by their key: as many of those used last as fit into memory. Threads can share it.

    Filters of groups have room of their own: a search has thousands of them, before which no other filter has to go.
    """

    def __init__(self) -> None:
        self._written: _Lane[T] = _Lane()
        self._narrowed: _Lane[T] = _Lane()
        self._lock = threading.Lock()

    def clear(self) -> None:
        """Forget all of it."""
        with self._lock:
            self._written, self._narrowed = _Lane(), _Lane()

    def has(self, where: Where, part: int = 0) -> bool:
        """Whether it is known what a filter keeps of a part."""
        with self._lock:
            return any((part, where.key) in lane.kept for lane in (self._written, self._narrowed))

    def __call__(self, where: Where, num_docs: int, make: Callable[[], T], part: int = 0) -> T:
        """Return what a filter keeps of a part; two threads that ask for a new one at the same time may both make it.

        There is room for three filters over `num_docs` documents at least.
        """
        key = part, where.key
        most = max(_CACHED_BYTES, _LEAST_BYTES_PER_DOC * num_docs)
        with self._lock:
            for lane in (self._written, self._narrowed):
                kept = lane.kept.get(key)
                if kept is not None:
                    lane.kept.move_to_end(key)
                    return kept
        made = make()
        with self._lock:
            if isinstance(where, Narrowed):
                self._narrowed.keep(key, made, most // _NARROWED_SHARE)
            else:
                self._written.keep(key, made, most)
        return made


class _Lane(Generic[T]):
    """Part of a cache, the entry used last at its end."""

    def __init__(self) -> None:
        self.kept: OrderedDict[tuple[int, str], T] = OrderedDict()
        self._num_bytes = 0

    def keep(self, key: tuple[int, str], made: T, most: int) -> None:
        """Add an entry, for which others may have to go."""
        if key not in self.kept:
            self.kept[key] = made
            self._num_bytes += made.num_bytes + len(key[1]) + _ENTRY_BYTES
        while self._num_bytes > most and len(self.kept) > 1:
            (_, name), old = self.kept.popitem(last=False)
            self._num_bytes -= old.num_bytes + len(name) + _ENTRY_BYTES
