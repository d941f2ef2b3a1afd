"""Which clusters a shard gets: similar ones, so that a query needs few shards, and no more than its share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from segmax.building.kmeans import kmeans_small
from segmax.building.points import one_thread

_ITERATIONS = 20
_ROUNDS = 20
#: How far a shard may exceed the mean, in postings and in expected load.
_MOST_POSTINGS = 1.05
_MOST_LOAD = 1.5


def shards_of_clusters(
    centroids: NDArray[np.float32],
    postings: NDArray[np.float64],
    load: NDArray[np.float64],
    num_shards: int,
    seed: int,
) -> NDArray[np.int64]:
    """Return the shard of every cluster.

    K-means of the centroids by cosine, in which a shard takes clusters until it has its share of postings or of load.
    The clusters that lose most elsewhere choose first. docs/sharding.md compares it with other ways.

    Parameters
    ----------
    centroids
        A vector of unit length per cluster.
    postings
        How many postings each cluster has; estimates will do.
    load
        The share of searches that each cluster has results for.
    num_shards
        How many shards to make; every one gets a cluster as long as there are enough.
    seed
        The same seed gives the same shards.

    Examples
    --------
    >>> east, north = [1.0, 0.0], [0.0, 1.0]
    >>> centroids = np.array([east, north, east, north], dtype=np.float32)
    >>> shards_of_clusters(centroids, np.ones(4), np.ones(4), 2, 0).tolist() in ([0, 1, 0, 1], [1, 0, 1, 0])
    True
    """
    num_clusters = len(centroids)
    if num_shards == 1:
        return np.zeros(num_clusters, dtype=np.int64)
    if num_clusters <= num_shards:
        return np.arange(num_clusters, dtype=np.int64)
    shares = np.stack([postings / max(postings.sum(), 1e-300), load / max(load.sum(), 1e-300)], axis=1)
    most = np.array([_MOST_POSTINGS, _MOST_LOAD]) / num_shards
    with one_thread():
        shards = kmeans_small(np.ascontiguousarray(centroids, dtype=np.float32), num_shards, seed, _ITERATIONS)
        for _ in range(_ROUNDS):
            means = _means(centroids, shares[:, 0], shards, num_shards)
            found = _filled(centroids @ means.T, shares, most)
            if np.array_equal(found, shards):
                break
            shards = found
    return _without_empty(shards, shares[:, 0], num_shards)


def _means(
    centroids: NDArray[np.float32], weights: NDArray[np.float64], shards: NDArray[np.int64], num_shards: int
) -> NDArray[np.float32]:
    sums = np.zeros((num_shards, centroids.shape[1]))
    np.add.at(sums, shards, centroids * weights[:, None])
    norms = np.linalg.norm(sums, axis=1, keepdims=True)
    return np.asarray(sums / np.maximum(norms, 1e-30), dtype=np.float32)


def _filled(
    similarity: NDArray[np.float32], shares: NDArray[np.float64], most: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Give every cluster the most similar shard that has room for it, or else the one with the fewest postings."""
    ranked = np.argsort(-similarity, axis=1, kind="stable")
    by_rank = np.take_along_axis(similarity, ranked, axis=1)
    regret = by_rank[:, 0] - by_rank[:, 1]
    taken = np.zeros((similarity.shape[1], 2))
    shards = np.empty(len(similarity), dtype=np.int64)
    for cluster in np.argsort(-regret, kind="stable").tolist():
        order = ranked[cluster]
        fits = (taken[order] + shares[cluster] <= most).all(axis=1)
        shard = int(order[np.argmax(fits)]) if fits.any() else int(np.argmin(taken[:, 0]))
        shards[cluster] = shard
        taken[shard] += shares[cluster]
    return shards


def _without_empty(shards: NDArray[np.int64], weights: NDArray[np.float64], num_shards: int) -> NDArray[np.int64]:
    """Give every shard that has nothing a cluster of the largest one."""
    shards = shards.copy()
    for shard in np.flatnonzero(np.bincount(shards, minlength=num_shards) == 0):
        counts = np.bincount(shards, minlength=num_shards)
        sizes = np.where(counts > 1, np.bincount(shards, weights=weights, minlength=num_shards), -1.0)
        own = np.flatnonzero(shards == np.argmax(sizes))
        shards[own[np.argmin(weights[own])]] = shard
    return shards
