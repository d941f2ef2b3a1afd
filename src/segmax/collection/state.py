"""One state of a collection: which parts there are, and who of them is alive. Immutable, so a search sees one."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from segmax import _core
from segmax.base.checks import check_listed, is_integer, shown
from segmax.base.errors import InputError, UnknownIdError
from segmax.collection.lattice import Lattice
from segmax.collection.lookup import hashed
from segmax.collection.part import Part
from segmax.storage.texts import StoredText
from segmax.vectors.documents import DocId

_SERIALS = itertools.count()
#: What ids of a collection are: nothing yet, integers or strings.
IdKind = type[int] | type[str] | None


@dataclasses.dataclass(frozen=True, eq=False)
class View:
    """A part as a state sees it."""

    part: Part
    alive: NDArray[np.bool_] | None = None  #: by row; None: all
    mask: _core.Mask | None = None  #: the same for the core
    sealed: bool = False  #: in memory: it is being written to disk, and takes in no more documents

    @cached_property
    def num_alive(self) -> int:
        """How many documents are alive."""
        return self.part.num_docs if self.alive is None else int(np.count_nonzero(self.alive))

    @cached_property
    def serial(self) -> int:
        """A number that no other view of this process has."""
        return next(_SERIALS)

    def is_alive(self, row: int) -> bool:
        """Whether a row is alive."""
        return self.alive is None or bool(self.alive[row])

    def alive_rows(self) -> NDArray[np.int64]:
        """Return the rows that are alive, ascending."""
        if self.alive is None:
            return np.arange(self.part.num_docs, dtype=np.int64)
        return np.flatnonzero(self.alive)

    def without(self, rows: NDArray[np.int64]) -> View:
        """Return the view after some rows died."""
        alive = np.ones(self.part.num_docs, dtype=bool) if self.alive is None else self.alive.copy()
        alive[rows] = False
        return self.with_alive(alive)

    def with_alive(self, alive: NDArray[np.bool_]) -> View:
        """Return the view of the same part with these rows alive."""
        if alive.all():
            return View(self.part, sealed=self.sealed)
        return View(self.part, alive, _core.Mask(self.part.engine.core, alive), self.sealed)


class Place(NamedTuple):
    """Where a document is."""

    view: int
    row: int


@dataclasses.dataclass(frozen=True, eq=False)
class State:
    """What a collection is at one moment."""

    lattice: Lattice
    views: tuple[View, ...]
    next_number: int
    id_kind: IdKind
    sequence: int  #: of the last record of the log that it holds
    core_lattice: _core.Lattice

    @cached_property
    def num_docs(self) -> int:
        """How many documents are alive."""
        return sum(view.num_alive for view in self.views)

    @cached_property
    def core(self) -> _core.Parts:
        """The parts as the core searches them."""
        return _core.Parts(
            self.core_lattice,
            [view.part.engine.core.with_lattice(self.core_lattice) for view in self.views],
            [view.part.numbers for view in self.views],
            [view.mask for view in self.views],
        )

    def ready_like(self, before: State) -> State:
        """Return this state, prepared for searches if the one before was searched: the next search need not do it."""
        if "core" in vars(before):
            _ = self.core
        return self

    def find(self, ids: Sequence[DocId]) -> list[Place | None]:
        """Return where the living document of every id is; None where there is none."""
        found: list[Place | None] = [None] * len(ids)
        if not ids or self.id_kind is None:
            return found
        hashes = hashed(ids)  # all of one kind
        order = np.argsort(hashes)  # ascending ones are found several times as fast
        ids, hashes, place_of = [ids[place] for place in order], hashes[order], order.tolist()
        first, last = min(ids), max(ids)
        for number, view in enumerate(self.views):
            known = view.part.id_range
            if known is not None and (known[0] > last or known[1] < first):  # type: ignore[operator]
                continue  # new documents often have larger numbers
            for place, row in view.part.find(ids, hashes):
                if view.is_alive(row):
                    found[place_of[place]] = Place(number, row)
        return found

    def place_of(self, id: DocId) -> Place:
        """Return where a document is; raise UnknownIdError if no living document has the id."""
        return self.places_of([id])[0]

    def places_of(self, ids: Sequence[object]) -> list[Place]:
        """Return where several documents are; raise UnknownIdError at the first that is not there."""
        checked = checked_ids(ids, self.id_kind)
        found = []
        for id, place in zip(checked, self.find(checked), strict=True):
            if place is None:
                raise UnknownIdError(f"no document has the id {shown(id)}", hint="it was deleted, or never added")
            found.append(place)
        return found

    def place_of_number(self, number: int) -> Place | None:
        """Return where the living document with an insertion number is."""
        wanted = np.array([number], dtype=np.int64)
        for at, view in enumerate(self.views):
            row = int(view.part.rows_of_numbers(wanted)[0])
            if row >= 0 and view.is_alive(row):
                return Place(at, row)
        return None

    def number_of(self, place: Place) -> int:
        """Return the insertion number of a document."""
        return int(self.views[place.view].part.numbers[place.row])

    def id_of(self, place: Place) -> DocId:
        """Return the id of a document."""
        return self.views[place.view].part.ids.id_of(place.row)

    def text_of(self, place: Place) -> StoredText:
        """Return the title and text of a document; empty ones if it has none, while others do."""
        ids = self.views[place.view].part.ids
        if ids.stored is None and any(view.part.ids.stored is not None for view in self.views):
            return StoredText("", "")
        return ids.text_of(place.row)

    def metadata_of(self, place: Place) -> dict[str, Any] | None:
        """Return the metadata of a document."""
        return self.views[place.view].part.metadata_of(place.row)

    def living(self) -> Iterator[Place]:
        """Yield all living documents in the order of their insertion numbers."""
        numbers = [view.part.numbers[view.alive_rows()] for view in self.views]
        views = [np.full(len(found), at) for at, found in enumerate(numbers)]
        rows = [view.alive_rows() for view in self.views]
        if not numbers:
            return
        order = np.argsort(np.concatenate(numbers), kind="stable")
        all_views, all_rows = np.concatenate(views), np.concatenate(rows)
        for at in order.tolist():
            yield Place(int(all_views[at]), int(all_rows[at]))


class FoundDocs:
    """The documents of results, by insertion number: what `Hits` looks up ids, texts and metadata in."""

    def __init__(
        self, state: State, numbers: NDArray[np.int64], parts: NDArray[np.uint32], rows: NDArray[np.uint32]
    ) -> None:
        self._state = state
        self._arrays = (numbers, parts, rows)

    @cached_property
    def _places(self) -> dict[int, Place]:
        numbers, parts, rows = (array.reshape(-1).tolist() for array in self._arrays)
        return {number: Place(part, row) for number, part, row in zip(numbers, parts, rows, strict=True)}

    @property
    def stored(self) -> object | None:
        """Not None where texts are stored."""
        return next((view.part.ids.stored for view in self._state.views if view.part.ids.stored is not None), None)

    @property
    def metadata(self) -> object | None:
        """Not None where metadata are stored."""
        return next((view.part for view in self._state.views if view.part.has_metadata), None)

    def id_of(self, number: int) -> DocId:
        """Return the id of a result."""
        return self._state.id_of(self._places[number])

    def ids_of(self, numbers: NDArray[np.int64]) -> list[DocId]:
        """Return the ids of many results."""
        return [self._state.id_of(self._places[number]) for number in numbers.tolist()]

    def title_of(self, number: int) -> str:
        """Return the title of a result."""
        return self.text_of(number).title

    def text_of(self, number: int) -> StoredText:
        """Return the title and text of a result."""
        return self._state.text_of(self._places[number])

    def metadata_of(self, number: int) -> dict[str, Any] | None:
        """Return the metadata of a result."""
        return self._state.metadata_of(self._places[number])


def ids_to_delete(ids: object) -> list[Any]:
    """Return an id, or several, as a list; raise InputError for what holds none, such as bytes or a mapping."""
    if isinstance(ids, str) or is_integer(ids):
        return [ids]
    if not isinstance(ids, AbstractSet):  # whose order does not matter here
        check_listed("an id, or a list of ids", ids)
    return list(ids)  # type: ignore[call-overload,no-any-return]


def checked_ids(ids: Sequence[object], kind: IdKind) -> list[Any]:
    """Return ids as plain values of one kind, that of the collection; raise InputError for others."""
    found: list[Any] = list(ids)
    if kind is not str and set(map(type, found)) == {int} and min(found) >= -(2**63) and max(found) < 2**63:
        return found  # as most are, in a fraction of the time
    found = [int(one) if is_integer(one) else one for one in found]
    for one in found:
        if isinstance(one, bool) or not isinstance(one, (int, str)):
            raise InputError(expected="ids that are strings or integers", got=type(one).__name__)
        kind = kind or (int if isinstance(one, int) else str)  # numpy's strings have a type of their own
        if not isinstance(one, kind):
            names = {int: "integers", str: "strings"}
            raise InputError(expected=f"ids that are {names[kind]}, as those of the collection are", got=shown(one))
        if isinstance(one, int) and not -(2**63) <= one < 2**63:
            raise InputError(
                expected="integer ids that fit 64 bits", got=shown(one), hint="use strings for larger ones"
            )
        if one == "":
            raise InputError(expected="ids that are not empty", got="''")
    return [str(one) if isinstance(one, str) else one for one in found]  # numpy's strings, too
