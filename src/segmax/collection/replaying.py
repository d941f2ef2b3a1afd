"""Reading a log again: changes that only add documents are applied many at a time, for the same state sooner."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from segmax.collection.applying import Weigh, applied, joined_ids, plain_weights
from segmax.collection.changes import Change
from segmax.collection.lattice import MOST, Lattice, are_codes
from segmax.collection.state import State
from segmax.storage.texts import StoredText
from segmax.vectors.rows import join_rows, narrowest

_LOG = logging.getLogger("segmax.collection")
#: Documents that become one part in memory.
_MOST_DOCS = 1 << 13


class Logged(NamedTuple):
    """A change, and the sequence of its record."""

    change: Change
    sequence: int


def replayed(state: State, changes: Iterable[Logged], weigh: Weigh) -> State:
    """Return the state after some changes, applied in their order."""
    waiting: list[Logged] = []
    for logged in changes:
        if waiting and not _can_join(state.lattice, waiting, logged.change, weigh):
            state, waiting = _applied(state, waiting, weigh), []
        waiting.append(logged)
    return _applied(state, waiting, weigh)


def _applied(state: State, waiting: Sequence[Logged], weigh: Weigh) -> State:
    if not waiting:
        return state
    change = waiting[0].change if len(waiting) == 1 else joined_changes([logged.change for logged in waiting])
    return applied(state, _storable(change, state.lattice, weigh), waiting[-1].sequence, weigh)


def _storable(change: Change, lattice: Lattice, weigh: Weigh) -> Change:
    """Return a change with weights that a lattice of whole numbers holds.

    Release 0.2.0 took larger ones, if their type was unsigned, and kept the last 16 bits of each. Now they are refused.
    """
    values = change.vectors.values
    is_held = lattice.kind == "real" or values.dtype.kind == "f" or values.max(initial=0) <= MOST
    if is_held or weigh is not plain_weights:
        return change
    _LOG.warning("the log has weights up to %s, which are stored as %s", f"{values.max():,}", f"{MOST:,}")
    return change._replace(vectors=change.vectors._replace(values=np.minimum(values, MOST)))


def _can_join(lattice: Lattice, waiting: Sequence[Logged], change: Change, weigh: Weigh) -> bool:
    """Whether a change can be applied together with those before: the codes of their documents must not depend on it.

    While a lattice is provisional, they depend on the batches in which documents come, unless these are whole numbers.
    """
    first = waiting[0].change
    if weigh is not plain_weights or len(change.deleted) or not (first.num_docs and change.num_docs):
        return False
    if sum(logged.change.num_docs for logged in waiting) + change.num_docs > _MOST_DOCS:
        return False
    if not lattice.provisional:
        return lattice.kind != "open"
    if lattice.kind != "whole":
        return False
    return all(are_codes(narrowest(one.vectors.values)) for one in (waiting[-1].change, change))


def joined_changes(changes: Sequence[Change]) -> Change:
    """Return one change for several, of which only the first may delete anything."""
    return Change(
        changes[0].deleted,
        np.concatenate([change.numbers for change in changes]),
        joined_ids([change.ids for change in changes]),
        join_rows([change.vectors for change in changes], max(change.vectors.num_columns for change in changes)),
        _listed([(change.texts, change.num_docs) for change in changes], StoredText("", "")),
        _listed([(change.metadata, change.num_docs) for change in changes], None),
        list(chain.from_iterable(change.terms for change in changes)),
    )


def _listed(several: Sequence[tuple[list[Any] | None, int]], missing: object) -> list[Any] | None:
    """Return what documents have beside their vectors, `missing` for those of changes that have none of it."""
    if all(values is None for values, _ in several):
        return None
    return list(chain.from_iterable(_each(values, count, missing) for values, count in several))


def _each(values: list[Any] | None, count: int, missing: object) -> Iterator[Any]:
    return iter([missing] * count if values is None else values)
