"""The last stages of a build: group documents by cluster, order them inside, make the arrays of an index.

What is too large for memory goes through scratch files and is made in ranges; the arrays do not depend on the ranges.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from segmax import _core
from segmax.base.parallel import Workers, ranges
from segmax.base.scratch import ScratchFile
from segmax.base.system import total_memory
from segmax.building.points import Projection
from segmax.building.resources import BuildResources
from segmax.building.spool import Spool
from segmax.vectors.csr import Csr
from segmax.vectors.rows import slice_rows

_ORDER_DOCS = 4096  # documents per piece of work
_ORDER_MOST_DOCS = 65536  # of one cluster that are ordered together
_COUNT_DOCS = 65536
_CACHED_RANGE_BYTES = 32 * 2**20  # so that what is written stays in the cache


class Writer(Protocol):
    """Takes the components of an index, piece by piece."""

    def append(self, name: str, array: NDArray[Any]) -> None:
        """Add to a component."""


class Grouped(NamedTuple):
    """Documents cluster by cluster, rows ascending inside; the place of a document among them is its slot."""

    docs: Csr
    rows: NDArray[np.uint32]  # by slot
    cluster_first: NDArray[np.uint32]  # by cluster: its first slot, then the number of slots
    mapped: bool  # whether the documents are in a file


def group_by_cluster(spool: Spool, clusters: NDArray[Any], resources: BuildResources) -> Grouped:
    """Copy the documents of a spool, cluster by cluster; the spool may be cleared afterwards."""
    rows = np.argsort(clusters, kind="stable").astype(np.uint32)
    cluster_first = np.concatenate([[0], np.cumsum(np.bincount(clusters))]).astype(np.uint32)
    slot_of_row = np.empty(len(rows), dtype=np.uint32)
    slot_of_row[rows] = np.arange(len(rows), dtype=np.uint32)
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(spool.lengths()[rows])])
    first = next(iter(spool))
    types = (first.indices.dtype, first.values.dtype)
    bytes_per_posting = sum(dtype.itemsize for dtype in types)
    room = max(
        1, resources.limit.available() // 3 // bytes_per_posting
    )  # a range is made while the one before it lives
    mapped = int(indptr[-1]) > room
    terms, codes = (np.empty(0 if mapped else int(indptr[-1]), dtype) for dtype in types)
    with contextlib.ExitStack() as stack, resources.progress.stage("group", len(rows), "documents") as stage:
        files = [stack.enter_context(ScratchFile(resources.folder)) for _ in types] if mapped else []
        for begin, end in ranges(indptr, room):
            if mapped:
                terms, codes = (np.empty(int(indptr[end] - indptr[begin]), dtype) for dtype in types)
            _gather(spool, slot_of_row, begin, (indptr[begin : end + 1], terms, codes), resources.workers)
            for file, array in zip(files, (terms, codes), strict=mapped):
                file.write(array)
            stage.advance(end - begin)
        if mapped:
            total = int(indptr[-1])
            terms, codes = (file.mapped([(dtype, total)])[0] for file, dtype in zip(files, types, strict=True))
    return Grouped(Csr(indptr, terms, codes, spool.num_columns), rows, cluster_first, mapped)


def _gather(
    spool: Spool, slot_of_row: NDArray[np.uint32], begin: int, out: tuple[NDArray[Any], ...], workers: Workers
) -> None:
    """Fill `out`, offsets, terms and codes, with the documents of its slots, of which `begin` is the first."""

    def gather(numbered: tuple[int, Csr]) -> None:
        number, slab = numbered
        slots = slot_of_row[spool.first_row(number) : spool.first_row(number) + slab.num_rows]
        _core.gather_rows(slab.indptr, slab.indices, slab.values, slots, begin, *out)

    for _ in workers.map(gather, enumerate(spool)):
        pass


def order_by_similarity(grouped: Grouped, projection: Projection, resources: BuildResources) -> NDArray[np.uint32]:
    """Return the slots of every cluster so that similar documents are neighbors."""
    order = np.arange(len(grouped.rows), dtype=np.uint32)
    firsts = _with_cuts(grouped.cluster_first)

    def work(pieces: tuple[int, int]) -> int:
        inside = firsts[pieces[0] : pieces[1] + 1]
        first, last = int(inside[0]), int(inside[-1])
        points = projection.apply(slice_rows(grouped.docs, first, last))
        part = np.arange(last - first, dtype=np.uint32)
        dims = points.shape[1]
        _core.order_by_similarity(points.reshape(-1), dims, (inside - first).astype(np.uint32), part, stop)
        order[first:last] = part + np.uint32(first)
        return len(part)

    stop = resources.workers.stop
    with resources.progress.stage("order", len(order), "documents") as stage:
        for count in resources.workers.map(work, ranges(firsts, _ORDER_DOCS)):
            stage.advance(count)
    return order


def _with_cuts(cluster_first: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Return where clusters start, and where giant ones are cut, so that memory for ordering stays bounded."""
    starts = cluster_first.astype(np.int64)
    giants = np.flatnonzero(np.diff(starts) > _ORDER_MOST_DOCS)
    # Pieces are counted from the start of their cluster, so that each is a whole number of blocks.
    cuts = [np.arange(starts[giant], starts[giant + 1], _ORDER_MOST_DOCS) for giant in giants]
    return np.unique(np.concatenate([starts, *cuts]))


class Layout(NamedTuple):
    """How grouped documents are laid out, besides their clusters."""

    order: NDArray[np.uint32]  # slots, in the order of positions
    segments: NDArray[np.uint32]  # by slot
    num_segments: int
    exact_segments: bool
    head_ratio: int


class _Plan(NamedTuple):
    """Where everything belongs, known before any array of postings is made."""

    first_position: NDArray[np.uint32]  # of every cluster
    postings: NDArray[np.uint64]  # how many, by term
    pairs: NDArray[np.uint64]  # how many, by term
    term_first_pair: NDArray[np.uint64]
    term_first_posting: NDArray[np.uint64]
    term_bytes: NDArray[np.uint64]  # how large the arrays of a term may be


def write_arrays(grouped: Grouped, layout: Layout, writer: Writer, resources: BuildResources) -> None:
    """Make all arrays that follow from documents and layout, and give them to the writer."""
    plan = _planned(grouped, layout, resources.workers)
    _write_plan(grouped, layout, plan, writer)
    _write_terms(grouped, layout, plan, writer, resources)


def _planned(grouped: Grouped, layout: Layout, workers: Workers) -> _Plan:
    first_position = _core.lay_out_clusters(grouped.cluster_first)
    postings, pairs = _counts(grouped, workers)
    term_first_pair, term_bytes = _core.plan_terms(
        postings,
        pairs,
        len(grouped.cluster_first) - 1,
        int(first_position[-1]),
        layout.num_segments,
        layout.head_ratio,
        grouped.docs.values.dtype.itemsize,
        layout.exact_segments,
    )
    return _Plan(first_position, postings, pairs, term_first_pair, _offsets(postings), term_bytes)


def _write_plan(grouped: Grouped, layout: Layout, plan: _Plan, writer: Writer) -> None:
    """Write the tables of clusters, positions and terms."""
    num_docs = np.diff(grouped.cluster_first).astype(np.uint32)
    writer.append("cluster_first_position", plan.first_position)
    writer.append("cluster_num_docs", num_docs)
    writer.append("position_row", _position_rows(grouped.rows[layout.order], plan.first_position, num_docs))
    writer.append("term_first_pair", plan.term_first_pair)
    writer.append("term_first_posting", plan.term_first_posting)


def _write_terms(grouped: Grouped, layout: Layout, plan: _Plan, writer: Writer, resources: BuildResources) -> None:
    """Make the postings and maxima, range by range of terms, and write them in order."""
    offsets = np.concatenate([[0], np.cumsum(plan.term_bytes)]).astype(np.int64)
    # A collection without terms has one empty range, so that every component exists.
    pieces = list(ranges(offsets, _range_bytes(grouped, resources))) or [(0, 0)]
    counts: dict[str, list[NDArray[np.uint64]]] = {"term_num_bytes": [], "term_num_entries": []}
    fill = functools.partial(_filled, grouped, layout, plan, resources.workers)
    with resources.progress.stage("write", len(grouped.docs.indices), "postings") as stage:
        for count, arrays in resources.workers.map(fill, pieces):
            for name, of_range in counts.items():
                of_range.append(arrays.pop(name))
            for name, array in arrays.items():
                if layout.exact_segments or name != "segment_code":
                    writer.append(name, array)
            stage.advance(count)
    writer.append("term_first_byte", _offsets(np.concatenate(counts["term_num_bytes"])))
    writer.append("term_first_entry", _offsets(np.concatenate(counts["term_num_entries"])))


def _filled(
    grouped: Grouped, layout: Layout, plan: _Plan, workers: Workers, terms: tuple[int, int]
) -> tuple[int, dict[str, Any]]:
    """Return the number of postings of a range of terms, and their arrays."""
    docs = grouped.docs
    arrays: dict[str, Any] = _core.fill_terms(
        docs.indptr,
        docs.indices,
        docs.values,
        grouped.cluster_first,
        layout.order,
        layout.segments,
        layout.num_segments,
        layout.exact_segments,
        layout.head_ratio,
        plan.first_position,
        plan.postings,
        plan.pairs,
        *terms,
        workers.stop,
    )
    first, last = plan.term_first_posting[list(terms)]
    return int(last - first), arrays


def _offsets(counts: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return where each starts, and the sum."""
    return np.concatenate([np.zeros(1, np.uint64), np.cumsum(counts, dtype=np.uint64)])


def _counts(grouped: Grouped, workers: Workers) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return the numbers of postings and of pairs of every term."""
    docs = grouped.docs
    postings = np.zeros(docs.num_columns, dtype=np.uint64)
    pairs = np.zeros(docs.num_columns, dtype=np.uint64)

    def count(clusters: tuple[int, int]) -> Any:
        arrays = (docs.indptr, docs.indices, docs.values, docs.num_columns)
        return _core.count_terms(*arrays, grouped.cluster_first, *clusters, workers.stop)

    for some_postings, some_pairs in workers.map(count, ranges(grouped.cluster_first, _COUNT_DOCS)):
        postings += some_postings
        pairs += some_pairs
    return postings, pairs


def _position_rows(
    rows: NDArray[np.uint32], first_position: NDArray[np.uint32], num_docs: NDArray[np.uint32]
) -> NDArray[np.uint32]:
    """Assign rows in clustered order to positions; clusters end with unused positions."""
    positions = np.full(int(first_position[-1]), _core.NO_ROW, dtype=np.uint32)
    first_doc = np.cumsum(num_docs, dtype=np.int64) - num_docs
    shift = np.repeat(first_position[:-1].astype(np.int64) - first_doc, num_docs)
    positions[np.arange(len(rows)) + shift] = rows
    return positions


def _range_bytes(grouped: Grouped, resources: BuildResources) -> int:
    """Return how large the arrays of a range of terms may be.

    Every range reads all documents. That costs little while they stay in memory, be it as a file in the page cache;
    where they cannot, ranges are as large as the limit allows: several are under way, and one is being written.
    """
    most = resources.limit.available() // (2 * (resources.workers.threads + 2))
    size = grouped.docs.indices.nbytes + grouped.docs.values.nbytes
    fits = not grouped.mapped or size < total_memory() // 2
    return min(most, _CACHED_RANGE_BYTES) if fits else most
