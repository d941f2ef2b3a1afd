"""Which cluster and which segment a document belongs to."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from segmax.errors import InputError
from segmax.sparse import Csr

_SKETCH_DIMENSIONS = 128
_SIGNS_PER_TERM = 4
_SAMPLE_PER_CLUSTER = 64
_ITERATIONS = 10
_BATCH = 8192


def checked_labels(labels: ArrayLike, num_docs: int, what: str) -> NDArray[np.int64]:
    """Return labels given by the caller as integers, one per document."""
    array = np.asarray(labels)
    if array.ndim != 1 or len(array) != num_docs:
        msg = f"expected {num_docs} {what} labels, one per document, got shape {array.shape}"
        raise InputError(msg)
    if array.dtype.kind not in "iu":
        msg = f"expected integer {what} labels, got {array.dtype}"
        raise InputError(msg)
    if len(array) and array.max() > np.iinfo(np.int64).max:
        msg = f"expected {what} labels that fit 63 bits, got {array.max()}"
        raise InputError(msg)
    if (array < 0).any():
        msg = f"expected {what} labels >= 0, got {array.min()} for document {int(np.argmin(array))}"
        raise InputError(msg)
    return array.astype(np.int64)


def kmeans_labels(docs: Csr, num_clusters: int, seed: int) -> NDArray[np.int64]:
    """Cluster documents by spherical k-means on a random sketch of their sparse vectors.

    Rare terms weigh more, by log(documents / document frequency): otherwise the most frequent terms, which say
    nothing about topics, decide. Trained on a sample, assigned in batches.
    """
    if num_clusters <= 1:
        return np.zeros(docs.num_rows, dtype=np.int64)
    rng = np.random.default_rng(seed)
    points = _sketch(docs, rng)
    sample = rng.permutation(docs.num_rows)[: num_clusters * _SAMPLE_PER_CLUSTER]
    sample.sort()
    training = points[sample]
    centroids = training[rng.permutation(len(training))[:num_clusters]]
    for _ in range(_ITERATIONS):
        centroids = _moved_centroids(training, centroids)
    return _nearest(points, centroids)


def _sketch(docs: Csr, rng: np.random.Generator) -> NDArray[np.float32]:
    """Project rows to a few dense dimensions: every term adds to a few of them, with random signs."""
    frequency = np.bincount(docs.indices, minlength=docs.num_columns)
    rarity = np.log((1 + docs.num_rows) / (1 + frequency)).astype(np.float32)
    targets = rng.integers(0, _SKETCH_DIMENSIONS, size=docs.num_columns * _SIGNS_PER_TERM)
    signs = rng.choice(np.array([-1, 1], np.float32), size=len(targets))
    values = signs * np.repeat(rarity, _SIGNS_PER_TERM)
    rows = np.arange(docs.num_columns + 1, dtype=np.int64) * _SIGNS_PER_TERM
    projection = sp.csr_matrix((values, targets, rows), shape=(docs.num_columns, _SKETCH_DIMENSIONS))
    matrix = sp.csr_matrix((docs.values, docs.indices, docs.indptr), shape=(docs.num_rows, docs.num_columns))
    points = np.empty((docs.num_rows, _SKETCH_DIMENSIONS), dtype=np.float32)
    for start in range(0, docs.num_rows, _BATCH):
        part = matrix[start : start + _BATCH].astype(np.float32) @ projection
        points[start : start + _BATCH] = part.toarray()
    return _normalized(points)


def _normalized(points: NDArray[np.float32]) -> NDArray[np.float32]:
    norms = np.linalg.norm(points, axis=1, keepdims=True)
    np.divide(points, norms, out=points, where=norms > 0)
    return points


def _nearest(points: NDArray[np.float32], centroids: NDArray[np.float32]) -> NDArray[np.int64]:
    labels = np.empty(len(points), dtype=np.int64)
    for start in range(0, len(points), _BATCH):
        labels[start : start + _BATCH] = np.argmax(points[start : start + _BATCH] @ centroids.T, axis=1)
    return labels


def _moved_centroids(points: NDArray[np.float32], centroids: NDArray[np.float32]) -> NDArray[np.float32]:
    labels = _nearest(points, centroids)
    ones = np.ones(len(points), dtype=np.float32)
    members = sp.csr_matrix((ones, labels, np.arange(len(points) + 1)), shape=(len(points), len(centroids)))
    sums: NDArray[np.float32] = members.T @ points
    empty = np.bincount(labels, minlength=len(centroids)) == 0
    sums[empty] = centroids[empty]
    return _normalized(sums)


def random_segments(clusters: NDArray[np.int64], num_segments: int, seed: int) -> NDArray[np.uint32]:
    """Split every cluster at random into segments whose sizes differ by at most one.

    A document's place depends on the seed and its row alone, not on how the collection was cut into batches.
    """
    rows = np.arange(len(clusters), dtype=np.uint64)
    order = np.lexsort((_mixed(rows, seed), clusters))
    grouped = clusters[order]
    starts = np.flatnonzero(np.r_[True, grouped[1:] != grouped[:-1]]) if len(grouped) else np.empty(0, np.int64)
    sizes = np.diff(np.r_[starts, len(grouped)])
    rank = np.arange(len(grouped)) - np.repeat(starts, sizes)
    segments = np.empty(len(clusters), dtype=np.uint32)
    segments[order] = rank % num_segments
    return segments


def _mixed(rows: NDArray[np.uint64], seed: int) -> NDArray[Any]:
    """SplitMix64: a well-mixed number for every (seed, row)."""
    z = rows + np.uint64((seed * 0x9E3779B97F4A7C15 + 0x9E3779B97F4A7C15) % 2**64)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
