"""Segments: which part of its cluster a document belongs to."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from segmax.base.checks import checked_labels
from segmax.base.errors import InputError
from segmax.building.assemble import Grouped
from segmax.building.kmeans import kmeans_small
from segmax.building.points import Projection, one_thread
from segmax.building.resources import BuildResources
from segmax.vectors.rows import slice_rows

_ITERATIONS = 10


def checked_segments(segments: ArrayLike, num_docs: int, num_segments: int) -> NDArray[np.uint32]:
    """Return segment labels given by the caller, one per document."""
    labels = checked_labels(segments, num_docs, "segment")
    if labels.max() >= num_segments:
        raise InputError(expected=f"segment labels below num_segments={num_segments}", got=labels.max())
    return labels.astype(np.uint32)


def random_segments(clusters: NDArray[np.int64], num_segments: int, seed: int) -> NDArray[np.uint32]:
    """Split every cluster at random into segments whose sizes differ by at most one.

    A document's place depends on the seed and its row alone, not on how the collection was cut into batches.
    """
    rows = np.arange(len(clusters), dtype=np.uint64)
    order = np.lexsort((mixed(rows, seed), clusters))
    grouped = clusters[order]
    starts = np.flatnonzero(np.r_[True, grouped[1:] != grouped[:-1]]) if len(grouped) else np.empty(0, np.int64)
    sizes = np.diff(np.r_[starts, len(grouped)])
    rank = np.arange(len(grouped)) - np.repeat(starts, sizes)
    segments = np.empty(len(clusters), dtype=np.uint32)
    segments[order] = rank % num_segments
    return segments


def independent_segments(num_docs: int, num_segments: int, seed: int) -> NDArray[np.uint32]:
    """Draw a segment for every document, uniformly and independently."""
    high = mixed(np.arange(num_docs, dtype=np.uint64), seed) >> np.uint64(32)
    return ((high * np.uint64(num_segments)) >> np.uint64(32)).astype(np.uint32)


def kmeans_segments(
    grouped: Grouped, projection: Projection, num_segments: int, seed: int, resources: BuildResources
) -> NDArray[np.uint32]:
    """Split every cluster into groups of similar documents, a comparison of the paper without a guarantee for μ < 1.

    The result is a label per slot.
    """
    docs, cluster_first = grouped.docs, grouped.cluster_first
    segments = np.empty(docs.num_rows, dtype=np.uint32)
    with one_thread():

        def split(cluster: int) -> int:
            first, last = int(cluster_first[cluster]), int(cluster_first[cluster + 1])
            points = projection.apply(slice_rows(docs, first, last))
            segments[first:last] = kmeans_small(points, num_segments, seed + cluster, _ITERATIONS)
            return last - first

        with resources.progress.stage("segment", docs.num_rows, "documents") as stage:
            for count in resources.workers.map(split, range(len(cluster_first) - 1)):
                stage.advance(count)
    return segments


def mixed(rows: NDArray[np.uint64], seed: int) -> NDArray[Any]:
    """SplitMix64: a well-mixed number for every (seed, row)."""
    z = rows + np.uint64((seed * 0x9E3779B97F4A7C15 + 0x9E3779B97F4A7C15) % 2**64)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
