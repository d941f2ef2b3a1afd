"""Merging parts: living documents of several parts become one new part on disk, clustered anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segmax.base.breaks import with_breaks
from segmax.building.builder import BuildRequest, CodedDocuments, build_index
from segmax.building.clustering import Clustering, ClusterJob, Sparse
from segmax.building.resources import ResourceOptions, open_resources
from segmax.collection.applying import chosen_ids, joined_ids
from segmax.collection.lattice import Lattice
from segmax.collection.lookup import hashed_ids, lookup_arrays
from segmax.collection.part import ROUGH
from segmax.collection.state import View
from segmax.metadata import merge_metadata, pack_metadata
from segmax.storage.blocks import Append
from segmax.storage.components import Arrays
from segmax.storage.config import BuildConfig
from segmax.vectors.csr import Csr
from segmax.vectors.documents import BaseVectors, VectorBatch
from segmax.vectors.rows import join_rows, selected_rows

_POSITIONS = 1 << 16  # read back together
_ROUGH_CLUSTER = 1024
#: Parts of up to this many times the size of all smaller ones together join these in a merge.
_RATIO = 3.0


def chosen_for_merge(sizes: Sequence[int], fewest: int) -> list[int]:
    """Return which parts to merge next, by number; none where parts of each size are few enough.

    The parts that are merged are the smallest ones, as many as possible, so that none of them is much larger than all
    smaller ones together: a document is copied only into a part that is larger by a share, so it is copied a
    logarithmic number of times.

    Parameters
    ----------
    sizes
        The living documents of every part.
    fewest
        A merge is worth the work only for so many parts.

    Examples
    --------
    >>> chosen_for_merge([1000, 100, 90, 80], fewest=2)
    [1, 2, 3]
    >>> chosen_for_merge([1000, 100, 10], fewest=2)
    []
    """
    order = sorted(range(len(sizes)), key=lambda number: (sizes[number], number))
    best, total = 0, 0
    for rank, number in enumerate(order):
        if rank and sizes[number] <= _RATIO * total:
            best = rank + 1
        total += sizes[number]
    return sorted(order[:best]) if best >= max(2, fewest) else []


class AsTheyCame(Clustering):
    """Documents that came after each other are a cluster: no work, and slower searches until they are merged."""

    def labels(self, job: ClusterJob) -> NDArray[np.int64]:
        """Return a cluster label per row."""
        return np.arange(job.num_docs, dtype=np.int64) // _ROUGH_CLUSTER

    def to_dict(self) -> dict[str, Any]:
        """Return what the index records about it, as plain values."""
        return {"kind": ROUGH}


class LivingDocuments(BaseVectors):
    """The living documents of parts, as codes, in the order in which they lie in their parts."""

    def __init__(self, views: Sequence[View], num_terms: int) -> None:
        self._views = views
        self._num_terms = num_terms

    @property
    def has_ids(self) -> bool:
        """Ids are components already."""
        return False

    @property
    def terms(self) -> None:
        """Terms are those of the collection."""
        return

    @property
    def num_docs(self) -> int:
        """How many there are."""
        return sum(view.num_alive for view in self._views)

    def numbers(self) -> NDArray[np.int64]:
        """Return the insertion numbers in the order of `batches`."""
        found = []
        for view in self._views:
            rows = view.part.engine.arrays["position_row"]
            rows = rows[rows < view.part.num_docs]  # gaps have none
            found.append(view.part.numbers[rows if view.alive is None else rows[view.alive[rows]]])
        return np.concatenate(found)

    def batches(self) -> Iterator[VectorBatch]:
        """Yield everything, once."""
        for view in self._views:
            core = view.part.engine.core
            num_positions = len(view.part.engine.arrays["position_row"])
            for first in range(0, num_positions, _POSITIONS):
                rows, indptr, terms, codes = core.documents(first, min(first + _POSITIONS, num_positions))
                docs = Csr(indptr, terms, codes, self._num_terms)
                if view.alive is not None:
                    docs = selected_rows(docs, np.flatnonzero(view.alive[rows]))
                if docs.num_rows:
                    yield VectorBatch([], docs)


class WeighedAgain(LivingDocuments):
    """The living documents of a collection with BM25, with weights made anew from their counts, in the order of rows.

    Parameters
    ----------
    views, lattice
        Those of the collection.
    weigh
        Turns counts into weights.
    """

    def __init__(self, views: Sequence[View], lattice: Lattice, weigh: Callable[[Csr], Csr]) -> None:
        super().__init__(views, lattice.num_terms)
        self._lattice = lattice
        self._weigh = weigh

    def numbers(self) -> NDArray[np.int64]:
        """Return the insertion numbers in the order of `batches`."""
        return np.concatenate([view.part.numbers[view.alive_rows()] for view in self._views])

    def batches(self) -> Iterator[VectorBatch]:
        """Yield everything, once."""
        for view in self._views:
            rows, counts = view.alive_rows(), view.part.counts
            assert counts is not None
            for first in range(0, len(rows), _POSITIONS):
                weights = self._weigh(selected_rows(counts, rows[first : first + _POSITIONS]))
                docs = self._lattice.with_codes_of(weights)[1].docs
                yield VectorBatch([], docs._replace(num_columns=self._num_terms))


def write_merged(
    path: Path,
    documents: LivingDocuments,
    views: Sequence[View],
    lattice: Lattice,
    config: BuildConfig,
    options: ResourceOptions,
    *,
    wide: bool,
    keep_texts: bool,
    rough: bool = False,
) -> None:
    """Write the living documents of some parts, in whatever order they are read, as one new part.

    A rough one is there in half the time, and not clustered.
    """
    numbers = documents.numbers()
    ordered = np.sort(numbers)
    rows = np.searchsorted(ordered, numbers).astype(np.uint32)
    where = _Order(views)
    ids = where.ids()
    components: Arrays = {**ids, "doc_number": ordered, **lookup_arrays(hashed_ids(ids)), **where.counts()}
    config = config.updated({"bits": 16 if wide else 8, "calibrate": False, "pruning": ()})
    request = BuildRequest(
        path=path,
        overwrite=False,
        config=config.updated({"document_order": "row", "num_segments": 1}) if rough else config,
        clustering=AsTheyCame() if rough else Sparse(),
        texts=where.texts() if keep_texts else None,
        coded=CodedDocuments(lattice.scale, rows, components, where.write_metadata()),
    )
    with open_resources(path, options) as resources:
        build_index(documents, request, resources).close()


class _Order:
    """The living documents of parts in the order of their insertion numbers."""

    def __init__(self, views: Sequence[View]) -> None:
        self._views = views
        rows = [view.alive_rows() for view in views]
        numbers = np.concatenate([view.part.numbers[own] for view, own in zip(views, rows, strict=True)])
        self._order = np.argsort(numbers, kind="stable")
        self._rows = rows

    def ids(self) -> Arrays:
        """Return the ids, as components."""
        own = [chosen_ids(view.part.id_arrays, rows) for view, rows in zip(self._views, self._rows, strict=True)]
        return chosen_ids(joined_ids(own), self._order)

    def counts(self) -> Arrays:
        """Return the counts of words of a collection with BM25, as components."""
        counts = [view.part.counts for view in self._views]
        known = [selected_rows(own, rows) for own, rows in zip(counts, self._rows, strict=True) if own is not None]
        if len(known) != len(counts):
            return {}
        picked = selected_rows(join_rows(known, max(own.num_columns for own in known)), self._order)
        return {
            "count_offset": picked.indptr.astype(np.uint64),
            "count_term": picked.indices.astype(np.uint32),
            "count_value": picked.values.astype(np.uint32),
        }

    def texts(self) -> Iterator[object]:
        """Yield titles and texts."""
        for at, row in with_breaks(zip(*(array.tolist() for array in self._places()), strict=True)):
            ids = self._views[at].part.ids
            yield ("", "") if ids.stored is None else ids.text_of(row)

    def write_metadata(self) -> Callable[[Append], dict[str, Any]] | None:
        """Return what writes metadata; None where there are none."""
        parts = [view.part for view in self._views]
        if not any(part.has_metadata for part in parts):
            return None
        if all(part.documents is not None for part in parts):
            return lambda append: pack_metadata(self._listed_metadata(), len(self._order), append)
        return lambda append: merge_metadata([part.metadata for part in parts], *self._places(), append)

    def _listed_metadata(self) -> Iterator[Any]:
        """Yield the metadata of documents in memory, without making columns of every part."""
        listed = [view.part.listed_metadata for view in self._views]
        for at, row in with_breaks(zip(*(array.tolist() for array in self._places()), strict=True)):
            own = listed[at]
            yield None if own is None else own[row]

    def _places(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the view and the row there of every document."""
        at = np.repeat(np.arange(len(self._views)), [len(rows) for rows in self._rows])[self._order]
        return at, np.concatenate(self._rows)[self._order]
