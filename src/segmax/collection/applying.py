"""From one state to the next: what a change does, when it is made and when it is replayed from the log."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segmax.collection.changes import Change
from segmax.collection.lattice import Coded, Lattice
from segmax.collection.part import Documents, small_part
from segmax.collection.state import State, View
from segmax.storage.components import Arrays
from segmax.storage.texts import StoredText
from segmax.vectors.csr import Csr
from segmax.vectors.rows import join_rows, narrowest, selected_rows

#: Parts in memory with fewer documents are joined with those that come.
SMALL_DOCS = 512
#: Turns the vectors of a change into weights: as they are, or by BM25 from counts.
Weigh = Callable[[Change], Csr]


def plain_weights(change: Change) -> Csr:
    """Return the vectors of a change as they came."""
    return change.vectors


def applied(state: State, change: Change, sequence: int, weigh: Weigh) -> State:
    """Return the state after a change; raise InputError if the change does not fit the collection."""
    return Step(state, change, weigh).taken(sequence)


class Step:
    """A change that is about to be made.

    Parameters
    ----------
    state
        The state before.
    change
        What happens.
    weigh
        Turns vectors into weights.

    Raises
    ------
    InputError
        If the change does not fit the collection. Once the step is there, it does.
    """

    def __init__(self, state: State, change: Change, weigh: Weigh) -> None:
        self._state = state
        self._change = change
        self._lattice = state.lattice
        if change.num_docs:
            self._weights = weigh(change)
            known = _without_replaced(state.lattice, state.views, change)
            self._lattice, self._coded = known.grown(self._weights)

    def taken(self, sequence: int) -> State:
        """Return the state after the step: most of the work, in which parts are made."""
        state, change, lattice = self._state, self._change, self._lattice
        views = list(without_numbers(state.views, change.deleted))
        if change.num_docs:
            if not lattice.same_codes(state.lattice):
                lattice, views = _coded_anew(lattice, views)
            for wide, docs in documents_of(change, self._coded, self._weights, lattice):
                views = with_documents(views, docs, lattice.scale, wide=wide)
        is_same = lattice is state.lattice
        return dataclasses.replace(
            state,
            lattice=lattice,
            views=tuple(view for view in views if view.num_alive or view.part.name),
            next_number=max(state.next_number, int(change.numbers.max(initial=-1)) + 1),
            id_kind=state.id_kind if not change.num_docs else int if "id_number" in change.ids else str,
            sequence=sequence,
            core_lattice=state.core_lattice if is_same else lattice.to_core(),
        )


def _without_replaced(lattice: Lattice, views: Sequence[View], change: Change) -> Lattice:
    """Return a provisional lattice that does not count the weights of documents that an update writes again."""
    again = change.numbers[np.isin(change.numbers, change.deleted)] if lattice.provisional else change.numbers[:0]
    for view in views if len(again) else ():
        rows = view.part.rows_of_numbers(again)
        rows = rows[rows >= 0]
        if view.alive is not None:
            rows = rows[view.alive[rows]]
        docs = view.part.documents
        assert docs is not None  # no part is on disk while the lattice is provisional
        assert docs.weights is not None
        gone = narrowest(selected_rows(docs.weights, rows).values)
        lattice = dataclasses.replace(lattice, weights=lattice.weights.without_values(gone))
    return lattice


def without_numbers(views: Sequence[View], numbers: NDArray[np.int64]) -> list[View]:
    """Return the views after the documents with these insertion numbers died."""
    if not len(numbers):
        return list(views)
    found = []
    for view in views:
        rows = view.part.rows_of_numbers(numbers)
        rows = rows[rows >= 0]
        if view.alive is not None:
            rows = rows[view.alive[rows]]
        found.append(view.without(rows) if len(rows) else view)
    return found


def documents_of(change: Change, coded: Coded, weights: Csr, lattice: Lattice) -> list[tuple[bool, Documents]]:
    """Return the documents of a change, those with wide codes apart from the others."""
    kept = weights if lattice.provisional else None
    counts = None if weights is change.vectors else change.vectors
    whole = Documents(coded.docs, change.ids, change.numbers, change.texts, change.metadata, counts, kept)
    groups = [(wide, np.flatnonzero(coded.wide == wide)) for wide in (False, True)]
    return [(wide, chosen(whole, rows)) for wide, rows in groups if len(rows)]


def with_documents(views: list[View], docs: Documents, scale: NDArray[np.float64], *, wide: bool) -> list[View]:
    """Return the views with one more part in memory. It takes in small ones, so that few adds make few parts."""
    while docs.num_docs < SMALL_DOCS:
        small = next((view for view in views if _can_join(view, docs, wide=wide)), None)
        if small is None:
            break
        views = [view for view in views if view is not small]
        docs = joined([living_documents(small), docs])
    return [*views, View(small_part(docs, scale[: docs.codes.num_columns], wide=wide))]


def _can_join(view: View, docs: Documents, *, wide: bool) -> bool:
    """Whether a part joins documents that come: only one that is no larger, so that nothing is copied often."""
    is_small = view.part.documents is not None and view.part.num_docs <= docs.num_docs
    return is_small and not view.sealed and view.part.is_wide == wide


def joined_views(views: Sequence[View], scale: NDArray[np.float64]) -> View:
    """Return the living documents of parts in memory, all wide or all narrow, as one part in memory."""
    docs = joined([living_documents(view) for view in views])
    return View(small_part(docs, scale[: docs.codes.num_columns], wide=views[0].part.is_wide))


def living_documents(view: View) -> Documents:
    """Return the living documents of a part in memory."""
    assert view.part.documents is not None
    return view.part.documents if view.alive is None else chosen(view.part.documents, view.alive_rows())


def _coded_anew(lattice: Lattice, views: Sequence[View]) -> tuple[Lattice, list[View]]:
    """Return parts in memory with codes of another lattice, which counts these in."""
    made = []
    for view in views:
        docs = view.part.documents
        assert docs is not None  # no part is on disk while the lattice is provisional
        assert docs.weights is not None
        lattice, coded = lattice.with_codes_of(docs.weights)
        made.append((view, docs._replace(codes=coded.docs), bool(coded.wide.any())))
    anew = []
    for view, docs, wide in made:
        fresh = View(small_part(docs, lattice.scale[: docs.codes.num_columns], wide=wide))
        anew.append(fresh if view.alive is None else fresh.with_alive(view.alive))
    return lattice, anew


def joined(several: Sequence[Documents]) -> Documents:
    """Return the documents of several parts as one, in the order of their insertion numbers."""
    several = sorted(
        several, key=lambda docs: int(docs.numbers[0]) if docs.num_docs else -1
    )  # mostly all in order then
    numbers = np.concatenate([docs.numbers for docs in several])
    width = max(docs.codes.num_columns for docs in several)
    whole = Documents(
        join_rows([docs.codes for docs in several], width),
        joined_ids([docs.ids for docs in several]),
        numbers,
        _listed([docs.texts for docs in several], several, StoredText("", "")),
        _listed([docs.metadata for docs in several], several, None),
        _joined_rows([docs.counts for docs in several], width),
        _joined_rows([docs.weights for docs in several], width),
    )
    return chosen(whole, np.argsort(numbers, kind="stable"))


def _listed(given: Sequence[Sequence[Any] | None], several: Sequence[Documents], missing: object) -> Any:
    """Return what documents have beside their vectors; `missing` for documents of parts that have none of it."""
    if all(values is None for values in given):
        return None
    rows: list[Any] = []
    for values, docs in zip(given, several, strict=True):
        rows += [missing] * docs.num_docs if values is None else values
    return rows


def _joined_rows(several: Sequence[Csr | None], width: int) -> Csr | None:
    known = [docs for docs in several if docs is not None]
    return join_rows(known, width) if len(known) == len(several) else None


def joined_ids(several: Sequence[Arrays]) -> Arrays:
    """Return ids of several parts, as components of an index."""
    if "id_number" in several[0]:
        return {"id_number": np.concatenate([ids["id_number"] for ids in several])}
    rows = join_rows([_as_rows(ids) for ids in several], 256)
    return {"id_offset": rows.indptr.astype(np.uint64), "id_text": rows.values}


def chosen(docs: Documents, rows: NDArray[np.int64]) -> Documents:
    """Return some of the documents, in the order of `rows`."""
    if len(rows) == docs.codes.num_rows and bool((np.diff(rows) == 1).all()):
        return docs
    return Documents(
        selected_rows(docs.codes, rows),
        chosen_ids(docs.ids, rows),
        docs.numbers[rows],
        None if docs.texts is None else [docs.texts[row] for row in rows.tolist()],
        None if docs.metadata is None else [docs.metadata[row] for row in rows.tolist()],
        None if docs.counts is None else selected_rows(docs.counts, rows),
        None if docs.weights is None else selected_rows(docs.weights, rows),
    )


def chosen_ids(ids: Arrays, rows: NDArray[np.int64]) -> Arrays:
    """Return the ids of some rows, as components of an index."""
    if "id_number" in ids:
        return {"id_number": ids["id_number"][rows]}
    picked = selected_rows(_as_rows(ids), rows)
    return {"id_offset": picked.indptr.astype(np.uint64), "id_text": picked.values}


def _as_rows(ids: Arrays) -> Csr:
    """Return strings as rows of bytes."""
    return Csr(ids["id_offset"].astype(np.int64), ids["id_text"], ids["id_text"], 256)
