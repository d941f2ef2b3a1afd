"""The router: what it knows of every shard, and what that says about a query.

It keeps two tables of largest codes, each for small groups of documents:

- *bounds*: clusters are cut into groups of similar documents, and each group at random into four segments. The largest
  code of every term in every segment gives MaxSBound and AvgSBound, and rules out shards with ASC's guarantee.
- *sketch*: the heaviest terms of every two neighbors. It bounds nothing, but tells well which shards have the best
  documents: what `max_shards` orders shards by.

docs/sharding.md has the measurements behind both.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from segmax import _core
from segmax.base.errors import damaged
from segmax.base.parallel import ranges
from segmax.building.segments import random_segments
from segmax.collection.part import Part
from segmax.shards.manifest import ShardEntry
from segmax.storage.components import Arrays
from segmax.storage.reading import index_errors
from segmax.vectors.csr import Csr
from segmax.vectors.rows import selected_rows

#: Units that share a mark; the segments of a group.
QUARTET = 4
_POSTINGS = 1 << 22  # worked on together
_FEWEST_FOR_BOUNDS = 2  # shards; a single one is always asked


class RouterPlan(NamedTuple):
    """How fine a router is.

    Parameters
    ----------
    docs_per_segment
        Documents of a segment of the bounds. Fewer: a larger router that rules out more shards.
    sketch_docs
        Documents of a unit of the sketch.
    sketch_terms
        Terms that the sketch keeps of every document, on average.
    seed
        Of the random segments.
    """

    docs_per_segment: int = 32
    sketch_docs: int = 2
    sketch_terms: int = 32
    seed: int = 0

    @classmethod
    def of(cls, num_docs: int, num_postings: int, seed: int = 0) -> RouterPlan:
        """Return the plan for a collection: the sketch keeps a sixth of the terms."""
        return cls(sketch_terms=max(4, round(num_postings / max(1, num_docs) / 6)), seed=seed)


class Prepared(NamedTuple):
    """Queries as integers, which all shards understand alike."""

    indptr: NDArray[np.int64]
    terms: NDArray[np.int64]
    weights: NDArray[np.float64]  #: whole numbers
    scales: NDArray[np.float64]  #: by query: what 1 is worth
    counts: NDArray[np.uint64]  #: by query: unknown and dropped terms

    @property
    def num_queries(self) -> int:
        """How many there are."""
        return len(self.scales)

    def taken(self, queries: NDArray[np.int64]) -> Prepared:
        """Return some of the queries."""
        if len(queries) == self.num_queries:
            return self
        lengths = np.diff(self.indptr)[queries]
        indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        at = np.repeat(self.indptr[queries] - indptr[:-1], lengths) + np.arange(indptr[-1])
        return Prepared(indptr, self.terms[at], self.weights[at], self.scales[queries], self.counts[queries])


class Bounds(NamedTuple):
    """What every shard may have for every query, in integers of the query."""

    most: NDArray[np.int64]  #: the largest MaxSBound
    average: NDArray[np.float64]  #: the largest AvgSBound
    promise: NDArray[np.float64]  #: what to order shards by


@dataclasses.dataclass(frozen=True)
class Router:
    """Says which shards a query has to ask, and in which order."""

    bounds_table: _core.Maxima | None  #: None where documents are spread by row, so that all shards are alike
    sketch_table: _core.Maxima | None
    tops: NDArray[np.uint16]  #: by term and shard: the largest code
    num_bytes: int

    @property
    def num_shards(self) -> int:
        """How many shards it knows."""
        return int(self.tops.shape[1])

    def bounds(self, queries: Prepared) -> Bounds:
        """Return the bounds of all shards for every query."""
        if self.bounds_table is None:
            return self.coarse(queries)
        most, sums, promise = self.bounds_table.bounds(queries.indptr, queries.terms, queries.weights)
        return Bounds(most.astype(np.int64), sums.astype(np.float64) / QUARTET, promise)

    def coarse(self, queries: Prepared) -> Bounds:
        """Return bounds by the largest codes of whole shards, which cost next to nothing."""
        most = np.zeros((queries.num_queries, self.num_shards), np.int64)
        for begin, end in ranges(queries.indptr * self.num_shards, _POSTINGS):
            own = slice(queries.indptr[begin], queries.indptr[end])
            adds = self.tops[queries.terms[own]].astype(np.int64) * queries.weights[own, None].astype(np.int64)
            sums = np.concatenate([np.zeros((1, self.num_shards), np.int64), np.cumsum(adds, axis=0)])
            most[begin:end] = np.diff(sums[queries.indptr[begin : end + 1] - queries.indptr[begin]], axis=0)
        return Bounds(most, most.astype(np.float64), most.astype(np.float64))

    def promise(self, queries: Prepared) -> NDArray[np.float64]:
        """Return by query and shard what `max_shards` orders shards by."""
        if self.sketch_table is None:
            return self.coarse(queries).promise
        return self.sketch_table.promise(queries.indptr, queries.terms, queries.weights)


# --- what is kept of a shard -----------------------------------------------------------------------------------------


def shard_maxima(part: Part, plan: RouterPlan) -> Arrays:
    """Return what the router keeps of one shard, term by term; `join_maxima` makes a router of those of all shards."""
    core = part.engine.core
    groups = _groups(part, plan.docs_per_segment * QUARTET)
    pairs = _groups(part, plan.sketch_docs)
    segments = random_segments(groups.of_row, QUARTET, plan.seed).astype(np.uint32)
    scale = np.ascontiguousarray(part.engine.arrays["term_scale"], dtype=np.float64)
    bounds = _core.MaximaCollector(core.num_terms, 0, scale)
    sketch = _core.MaximaCollector(core.num_terms, plan.sketch_terms * plan.sketch_docs, scale)
    tops = np.zeros(core.num_terms, dtype=np.uint16)
    for rows, docs in _documents(part):
        np.maximum.at(tops, docs.indices, docs.values.astype(np.uint16))
        group = groups.of_row[rows]
        # All four segments of a group with fewer documents get what the group has, so that their average is no less.
        repeats = np.where(groups.sizes[group] < QUARTET, QUARTET, 1)
        again = np.repeat(np.arange(len(rows)), repeats)
        first = np.repeat(np.cumsum(repeats) - repeats, repeats)
        own = np.where(repeats[again] > 1, np.arange(len(again)) - first, segments[rows[again]])
        several = docs if len(again) == len(rows) else selected_rows(docs, again)
        _add(bounds, several, group[again] * QUARTET + own)
        _add(sketch, docs, pairs.of_row[rows])
    found: Arrays = {"tops": tops}
    found["num_quartets"] = np.array([len(groups.sizes), -(-len(pairs.sizes) // QUARTET)], dtype=np.uint32)
    for name, collector in (("bounds", bounds), ("sketch", sketch)):
        found |= dict(zip((f"{name}_count", f"{name}_unit", f"{name}_code"), collector.finish(), strict=True))
    return found


def _add(collector: _core.MaximaCollector, docs: Csr, units: NDArray[np.int64]) -> None:
    terms = docs.indices.astype(np.uint32, copy=False)
    codes = docs.values if docs.values.dtype == np.uint8 else docs.values.astype(np.uint16, copy=False)
    collector.add(docs.indptr, terms, codes, units.astype(np.uint32))


class _Groups(NamedTuple):
    """Neighbors of a cluster, cut into groups of similar sizes."""

    of_row: NDArray[np.int64]
    sizes: NDArray[np.int64]


def _groups(part: Part, size: int) -> _Groups:
    rows = part.engine.arrays["position_row"]
    rows = rows[rows < part.num_docs]  # gaps have none
    sizes = part.engine.core.cluster_sizes().astype(np.int64)
    counts = np.maximum(1, np.rint(sizes / size)).astype(np.int64)
    place = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    of_place = np.repeat(np.cumsum(counts) - counts, sizes) + place * np.repeat(counts, sizes) // np.repeat(
        sizes, sizes
    )
    of_row = np.empty(len(rows), dtype=np.int64)
    of_row[rows] = of_place
    return _Groups(of_row, np.bincount(of_place, minlength=int(counts.sum())))


def _documents(part: Part) -> Iterator[tuple[NDArray[np.int64], Csr]]:
    """Yield the documents of a part with their rows, cluster by cluster: no group is cut."""
    core, arrays = part.engine.core, part.engine.arrays
    firsts = np.append(arrays["cluster_first_position"][: core.num_clusters], core.num_positions).astype(np.int64)
    per_doc = max(1, part.num_postings // max(1, part.num_docs))
    for begin, end in ranges(firsts * per_doc, _POSTINGS):
        rows, indptr, terms, codes = core.documents(int(firsts[begin]), int(firsts[end]))
        yield rows.astype(np.int64), Csr(indptr, terms, codes, core.num_terms)


# --- the router of all shards ----------------------------------------------------------------------------------------


def join_maxima(shards: Sequence[Mapping[str, NDArray[Any]]], *, bounds: bool = True) -> Arrays:
    """Return the arrays of a router, from what `shard_maxima` kept of every shard; without bounds where asked."""
    tops = np.stack([shard["tops"] for shard in shards], axis=1)
    arrays: Arrays = {"tops": tops.reshape(-1)}
    for table, name in enumerate(("bounds", "sketch")):
        if not bounds or len(shards) < _FEWEST_FOR_BOUNDS:
            continue
        firsts = np.concatenate([[0], np.cumsum([int(shard["num_quartets"][table]) for shard in shards])])
        count = sum(shard[f"{name}_count"].astype(np.int64) for shard in shards)
        first = np.concatenate([[0], np.cumsum(count)]).astype(np.uint64)
        units, codes = _by_term(shards, name, firsts)
        packed = _core.pack_maxima(first, units, codes, firsts.astype(np.uint32), arrays["tops"])
        names = ("first_mark", "first_value", "marks", "values")
        arrays |= dict(zip((f"{name}_{part}" for part in names), packed, strict=True))
        arrays[f"{name}_shard_first_quartet"] = firsts.astype(np.uint32)
    return arrays


def _by_term(
    shards: Sequence[Mapping[str, NDArray[Any]]], name: str, firsts: NDArray[np.int64]
) -> tuple[NDArray[np.uint32], NDArray[np.uint16]]:
    """Return units and codes of all shards, term by term; units are numbered over all shards."""
    counts = np.stack([shard[f"{name}_count"].astype(np.int64) for shard in shards])
    starts = np.cumsum(counts.T.reshape(-1)).reshape(counts.T.shape).T - counts  # of (shard, term) in the result
    units = np.empty(int(counts.sum()), dtype=np.uint32)
    codes = np.empty(len(units), dtype=np.uint16)
    for number, shard in enumerate(shards):
        own = counts[number]
        at = np.repeat(starts[number] - (np.cumsum(own) - own), own) + np.arange(int(own.sum()))
        units[at] = shard[f"{name}_unit"] + np.uint32(firsts[number] * QUARTET)
        codes[at] = shard[f"{name}_code"]
    return units, codes


def open_router(
    arrays: Mapping[str, NDArray[Any]], shards: Sequence[ShardEntry], num_terms: int, where: object
) -> Router:
    """Return a router from its arrays, checked: they may come from anybody."""
    tops = arrays.get("tops")
    if tops is None or tops.dtype != np.uint16 or len(tops) != len(shards) * num_terms:
        raise damaged("the router is about other shards", where)
    tables = {name: _table(arrays, name, shards, num_terms, where) for name in ("bounds", "sketch")}
    size = sum(array.nbytes for array in arrays.values())
    return Router(tables["bounds"], tables["sketch"], tops.reshape(num_terms, len(shards)), size)


def _table(
    arrays: Mapping[str, NDArray[Any]], name: str, shards: Sequence[ShardEntry], num_terms: int, where: object
) -> _core.Maxima | None:
    if f"{name}_marks" not in arrays:
        return None
    kinds = {"first_mark": "<u8", "first_value": "<u8", "marks": "|u1", "values": "|u1", "shard_first_quartet": "<u4"}
    own = {part: arrays.get(f"{name}_{part}") for part in kinds}
    if any(array is None or array.dtype.str != kinds[part] for part, array in own.items()):
        raise damaged("the router lacks a part", where)
    if len(own["first_mark"]) != num_terms + 1 or len(own["shard_first_quartet"]) != len(shards) + 1:  # type: ignore[arg-type]
        raise damaged("the router is about other shards", where)
    # Every search has sums for all quartets. A quartet has a document, or is that of a cluster without any.
    quartets = np.diff(own["shard_first_quartet"].astype(np.int64))  # type: ignore[union-attr]
    if any(
        not 0 <= count <= shard.num_docs + shard.num_clusters for count, shard in zip(quartets, shards, strict=True)
    ):
        raise damaged("the router has more quartets than there are documents", where)
    with index_errors(where):  # type: ignore[arg-type]
        return _core.Maxima(num_quartets=int(own["shard_first_quartet"][-1]), tops=arrays["tops"], **own)  # type: ignore[index, arg-type]
