"""One shard, open: what it is asked, in numbers that travel cheaply. It may live in another process or on another node.

Queries come as integers that the router made (`Prepared`), and scores go back as integers: only the router knows what
1 is worth. Documents are named by their row in the shard; their number is their row in the whole collection.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from segmax import _core
from segmax.base.errors import damaged
from segmax.collection.lookup import hashed
from segmax.collection.part import Part, part_of
from segmax.metadata import Metadata, Scalar, Where
from segmax.search.arguments import core_params, input_errors
from segmax.search.engine import Engine
from segmax.search.explain import explain
from segmax.search.methods import SearchParams, TermParams
from segmax.search.queries import FilterCache, Kept, matching
from segmax.search.results import Explanation
from segmax.shards.router import Prepared
from segmax.storage.reading import index_errors, load_index
from segmax.storage.tables import no_metadata
from segmax.storage.texts import StoredText
from segmax.vectors.csr import Csr
from segmax.vectors.documents import DocId


class Floors(NamedTuple):
    """By query, the last of k results that other shards have: only what comes before it is of interest."""

    scores: NDArray[np.int64]  #: in integers of the query; 0 where there is none
    numbers: NDArray[np.int64]


_NO_FLOORS = Floors(np.zeros(0, np.int64), np.zeros(0, np.int64))


class Found(NamedTuple):
    """The best documents of a shard for some queries, by query, padded with score 0."""

    scores: NDArray[np.int64]  #: in integers of the query
    numbers: NDArray[np.int64]
    rows: NDArray[np.int64]
    counts: NDArray[np.int64]
    stats: NDArray[np.uint64]
    ids: list[DocId] | None  #: of all documents found, query by query, where asked for


class LatticeArrays(NamedTuple):
    """The scale and the largest code of every term in the whole collection."""

    scale: NDArray[np.float64]
    largest: NDArray[np.uint32]

    @property
    def wide(self) -> bool:
        """Whether codes take 16 bits."""
        return bool(self.largest.max(initial=0) > 255)

    def to_core(self) -> _core.Lattice:
        """Return what turns a user's queries into integers."""
        return _core.Lattice(self.scale, self.largest, self.wide)

    def of_integers(self) -> _core.Lattice:
        """Return what leaves integers as they are."""
        return _core.Lattice(np.ones(len(self.scale)), self.largest, self.wide)


class Shard:
    """An open shard; threads can share it."""

    def __init__(self, part: Part, lattice: LatticeArrays) -> None:
        self._part = part
        self._core = part.engine.core.with_lattice(lattice.of_integers())
        self._engine = dataclasses.replace(part.engine, core=part.engine.core.with_lattice(lattice.to_core()))
        self._masks: FilterCache[Kept] = FilterCache()

    @classmethod
    def open(cls, folder: Path, lattice: LatticeArrays, *, verify: bool = True, preload: bool = False) -> Shard:
        """Open a shard of this machine.

        Parameters
        ----------
        folder
            Where it is.
        lattice
            That of the whole index.
        verify
            Check every byte first.
        preload
            Read it into memory instead of mapping its files; searches are faster there.

        Raises
        ------
        FormatError
            If it is damaged, or not a shard of this index.
        """
        meta, arrays = load_index(folder, preload=preload, verify=verify)
        with index_errors(folder):
            part = part_of(Engine.from_arrays(meta, arrays, folder), folder, folder.name)
        if part.engine.core.num_terms != len(lattice.scale):
            raise damaged("it has another number of terms than the whole index", folder)
        with index_errors(folder):  # the core looks whether shard and lattice fit together
            return cls(part, lattice)

    # --- searching ---------------------------------------------------------------------------------------------------

    def search(
        self,
        queries: Prepared,
        ks: Sequence[int],
        params: Sequence[SearchParams],
        floors: Floors | None = None,
        wheres: Sequence[Where | None] = (None,),
        threads: int = 1,
        with_ids: bool = False,
    ) -> Found:
        """Return the best documents for every query, as far as they come before its floor.

        Parameters
        ----------
        queries
            As integers.
        ks, params, wheres
            One for all queries, or one for each.
        floors
            What other shards have found already; None: nothing.
        threads
            How many queries run at the same time.
        with_ids
            Whether ids come with the results.
        """
        count = queries.num_queries
        plain = [_for_integers(one) for one in params]
        each = self._each(plain, wheres, count)
        last = _NO_FLOORS if floors is None else floors
        with input_errors():
            rows, scores, counts, stats = self._core.search_integers(
                queries.indptr,
                queries.terms,
                queries.weights,
                np.minimum(np.array(ks, dtype=np.int64), max(1, self._core.num_docs)),
                each,
                min(threads, max(1, count)),
                last.scores,
                np.searchsorted(self._part.numbers, last.numbers),
            )
        width = int(counts.max(initial=0))
        rows, scores = rows[:, :width].astype(np.int64), scores[:, :width]
        numbers = np.where(rows >= 0, self._part.numbers[rows], -1) if self._core.num_docs else rows
        there = rows[np.arange(width) < counts[:, None]]
        return Found(scores, numbers, rows, counts, stats, self.ids(there) if with_ids else None)

    def _each(
        self, params: Sequence[_core.SearchParams], wheres: Sequence[Where | None], count: int
    ) -> list[_core.SearchParams]:
        """Return the core's parameters: one for all queries where they are alike, or one for each."""
        if len(params) == 1 and len(wheres) == 1:
            return [self._filtered(params[0], wheres[0])]
        filtered: dict[tuple[int, int], _core.SearchParams] = {}
        found = []
        for query in range(count):
            place = query % len(params), query % len(wheres)
            if place not in filtered:
                filtered[place] = self._filtered(params[place[0]], wheres[place[1]])
            found.append(filtered[place])
        return found

    def _filtered(self, params: _core.SearchParams, where: Where | None) -> _core.SearchParams:
        if where is None:
            return params
        params = params.copy()
        params.mask = self._kept(where).mask
        return params

    def _kept(self, where: Where) -> Kept:
        def make() -> Kept:
            rows = matching(where, self._metadata, lambda base: self._kept(base).rows)
            return Kept(rows, _core.Mask(self._core, rows))

        return self._masks(where, self._core.num_docs, make)

    @property
    def _metadata(self) -> Metadata:
        if self._part.metadata is None:
            raise no_metadata()
        return self._part.metadata

    # --- documents ---------------------------------------------------------------------------------------------------

    def ids(self, rows: NDArray[np.int64]) -> list[DocId]:
        """Return the ids of documents."""
        return self._part.ids.ids_of(rows)

    def texts(self, rows: NDArray[np.int64]) -> list[StoredText]:
        """Return titles and texts of documents."""
        return [self._part.ids.text_of(row) for row in rows.tolist()]

    def metadata(self, rows: NDArray[np.int64]) -> list[dict[str, Any] | None]:
        """Return what documents are described by."""
        return [self._part.ids.metadata_of(row) for row in rows.tolist()]

    def find(self, ids: Sequence[DocId]) -> NDArray[np.int64]:
        """Return the rows of ids, -1 for those that are not here."""
        found = np.full(len(ids), -1, dtype=np.int64)
        if len(ids) and self._part.num_docs:
            hashes = hashed(list(ids))
            order = np.argsort(hashes)
            for place, row in self._part.find([ids[at] for at in order], hashes[order]):
                found[order[place]] = row
        return found

    def numbers(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers of documents."""
        return np.asarray(self._part.numbers[rows])

    def rows_of_numbers(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows of numbers, -1 for those that are not here."""
        return self._part.rows_of_numbers(numbers)

    def vectors(self, rows: NDArray[np.int64]) -> Csr:
        """Return stored documents, with weights as they are after coding."""
        return self._engine.vectors(rows)

    def scores(
        self, terms: NDArray[np.int64], weights: NDArray[np.float64], rows: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return the scores of documents for one query, which is given as its user wrote it."""
        return self._engine.score(terms, weights, rows)

    def explain(
        self,
        terms: NDArray[np.int64],
        weights: NDArray[np.float64],
        row: int,
        k: int,
        params: SearchParams,
        where: Where | None,
    ) -> Explanation:
        """Explain what a search of this shard alone does with a document."""
        kept = None if where is None else self._kept(where)
        return explain(self._engine, terms, weights, row, k, params, kept)

    # --- all documents -----------------------------------------------------------------------------------------------

    @property
    def num_docs(self) -> int:
        """The number of documents."""
        return self._part.num_docs

    @property
    def num_clusters(self) -> int:
        """The number of clusters."""
        return self._core.num_clusters

    @property
    def first_row(self) -> int:
        """The smallest number of a document; 0 if there is none."""
        return int(self._part.numbers[0]) if self.num_docs else 0

    def count(self, where: Where) -> int:
        """Return how many documents a filter matches."""
        return int(self._kept(where).rows.sum())

    def facets(self, field: str, where: Where | None) -> list[tuple[Scalar, int]]:
        """Count the documents that a filter matches by their value in a field."""
        return self._metadata.facet(field, None if where is None else self._kept(where).rows)

    def fields(self) -> dict[str, tuple[str, ...]]:
        """Return the fields of the metadata, and the kinds of values in each."""
        return {} if self._part.metadata is None else self._part.metadata.fields

    def values(self, field: str, rows: NDArray[np.int64]) -> list[Any]:
        """Return the value of a field in each of some documents."""
        return self._metadata.values(field, rows)

    def frequencies(self, terms: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many documents have each term."""
        return self._engine.frequencies(terms)

    def cluster_sizes(self) -> NDArray[np.uint32]:
        """Return the number of documents in each cluster."""
        return self._core.cluster_sizes()

    def sizes(self) -> dict[str, int]:
        """Return the size of each component in bytes."""
        return {name: array.nbytes for name, array in self._part.engine.arrays.items()}


def _for_integers(params: SearchParams) -> _core.SearchParams:
    """Return parameters for a query whose light terms the router has dropped already."""
    if isinstance(params, TermParams) and params.drops_terms:
        params = dataclasses.replace(params, max_terms=None, query_mass=1.0)
    return core_params(params)
