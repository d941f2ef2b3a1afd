"""No id may occur twice, in whatever files: hashes of ids are compared, and ids themselves where hashes agree."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segmax.base.errors import InputError
from segmax.collection.lookup import hashed_ids
from segmax.shards.making.columns import selected_columns
from segmax.shards.making.pieces import Piece
from segmax.shards.making.tasks import Task, Workplace
from segmax.storage.components import Arrays
from segmax.storage.tables import DocIds

#: Documents whose hashes are compared by one task, in memory.
_DOCS_PER_TASK = 1 << 25


class IdHashes:
    """The hashes of the ids of a unit of the input, in the order of rows."""

    def __init__(self) -> None:
        self._found: list[NDArray[np.uint64]] = []

    def add(self, columns: Arrays) -> None:
        """Add the ids of some documents; there may be none."""
        if "id_offset" in columns or "id_number" in columns:
            self._found.append(hashed_ids(columns))

    def keep(self, unit: str, work: Workplace) -> None:
        """Write them."""
        hashes = np.concatenate([np.zeros(0, np.uint64), *self._found])
        work.keep(_hashes_name(unit), {"hash": hashes}, {})


def unit_of(number: int) -> str:
    """Return the name of a unit of the input, such as a file, by its number."""
    return f"{number:06}"


def unit_name(unit: str) -> str:
    """Return the file that says that a unit of the input is read."""
    return f"read/{unit}"


def unit_is_whole(unit: str, pieces: Sequence[Mapping[str, Any]], work: Workplace) -> bool:
    """Whether everything is there, and whole, that the task which read a unit has written beside its result."""
    names = [_hashes_name(unit), *(entry["name"] for entry in pieces)]
    return all(work.find(name) is not None for name in names)


def id_checks(units: Sequence[Mapping[str, Any]], pieces: Sequence[Piece]) -> list[CheckIds]:
    """Return the tasks that compare the ids of all documents; none where ids are rows."""
    if not pieces or pieces[0].ids != "given":
        return []
    num_docs = sum(piece.num_docs for piece in pieces)
    num_parts = -(-num_docs // _DOCS_PER_TASK)
    first_rows = np.cumsum([0, *(unit["num_docs"] for unit in units)]).tolist()
    names = [unit["unit"] for unit in units]
    places = [unit["where"] for unit in units]
    return [CheckIds(part, num_parts, first_rows, names, places, list(pieces)) for part in range(num_parts)]


@dataclasses.dataclass(frozen=True)
class CheckIds(Task):
    """Compares the ids with some of all hashes."""

    part: int
    num_parts: int
    first_rows: list[int]  #: by unit, and the number of documents
    units: list[str]
    places: list[str]  #: by unit
    pieces: list[Piece]

    @property
    def output(self) -> str:
        """The file that says that the task is done."""
        return f"unique/{self.part:06}"

    def make(self, work: Workplace) -> Mapping[str, Any]:
        """Raise InputError for an id that occurs twice."""
        hashes, rows = self._hashes(work)
        order = np.argsort(hashes, kind="stable")  # equal ones in the order of rows
        ordered = hashes[order]
        equal = np.concatenate([[False], ordered[1:] == ordered[:-1]])
        if equal.any():
            suspects = np.sort(rows[order[equal | np.concatenate([equal[1:], [False]])]])
            self._compare(suspects, work)
        work.keep(self.output, {}, {})
        return {}

    def _hashes(self, work: Workplace) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Return the hashes of this part, and their rows."""
        found, rows = [], []
        for unit, first_row in zip(self.units, self.first_rows, strict=False):
            hashes = work.load(_hashes_name(unit)).arrays["hash"]
            own = np.flatnonzero(hashes % np.uint64(self.num_parts) == self.part)
            found.append(hashes[own])
            rows.append(own + first_row)
        return np.concatenate(found), np.concatenate(rows)

    def _compare(self, rows: NDArray[np.int64], work: Workplace) -> None:
        """Compare the ids of some rows themselves."""
        seen: dict[int | str, int] = {}
        starts = np.array([piece.first_row for piece in self.pieces])
        for number in np.unique(np.searchsorted(starts, rows, side="right") - 1).tolist():
            piece = self.pieces[number]
            own = rows[(rows >= piece.first_row) & (rows < piece.first_row + piece.num_docs)]
            chosen = selected_columns(work.load(piece.documents).arrays, own - piece.first_row)
            ids = DocIds.from_arrays(chosen, len(own)).ids_of(np.arange(len(own)))
            for row, doc_id in zip(own.tolist(), ids, strict=True):
                if doc_id in seen:
                    raise InputError(
                        where=self._place(row),
                        expected="every id once",
                        got=f"{doc_id!r} again, first at {self._place(seen[doc_id])}",
                    )
                seen[doc_id] = row

    def _place(self, row: int) -> str:
        unit = int(np.searchsorted(self.first_rows, row, side="right")) - 1
        return f"{self.places[unit]}, row {row - self.first_rows[unit]}"


def _hashes_name(unit: str) -> str:
    return f"hashes/{unit}"
