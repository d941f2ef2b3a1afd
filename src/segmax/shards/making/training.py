"""Stage 4, second half: clusters are found once, from the sample, and grouped into shards."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segmax.building.clustering import DIMENSIONS, ClusterJob, Sparse
from segmax.building.kmeans import SAMPLE_PER_CLUSTER, Assigner, Cells, cells_of, centroids_of
from segmax.building.points import (
    Floats,
    Projection,
    Projector,
    SparsePoints,
    one_thread,
    rarity,
    take_rows,
    term_factor,
)
from segmax.building.pseudo_queries import pseudo_queries
from segmax.building.resources import BuildResources, open_resources
from segmax.building.spool import Spool
from segmax.shards.making.columns import vectors_of
from segmax.shards.making.measuring import QUESTIONS, question_arrays
from segmax.shards.making.packed import Packed
from segmax.shards.making.sampling import sample_name
from segmax.shards.making.statistics import SCALES
from segmax.shards.making.tasks import Task, Workplace
from segmax.shards.sharding import shards_of_clusters
from segmax.storage.components import Arrays
from segmax.storage.config import BuildConfig
from segmax.vectors.csr import Csr
from segmax.vectors.products import score_batches
from segmax.vectors.rows import sample_rows

#: The file with clusters, and the shard of each.
CLUSTERS = "clusters"
#: A shard of one cluster could not be balanced by moving a cluster.
_LEAST_CLUSTERS = 4
_LEAST_SAMPLE = 8192
_QUERIES = 512  # to estimate the load of clusters, and to measure routing
_QUERIED_DOCS = 4096  # that queries are made of, and compared with
_BEST = 10  # documents per query


def number_of_clusters(config: BuildConfig, num_docs: int, num_shards: int) -> int:
    """Return how many clusters there are in all shards together: as in one index, but a few per shard at least."""
    wanted = config.clusters_for(num_docs)
    least = num_shards if config.num_clusters is not None else _LEAST_CLUSTERS * num_shards
    return min(num_docs, max(wanted, least))


def sample_share(num_docs: int, num_clusters: int) -> float:
    """Return the share of documents that clusters are learned from."""
    return max(_LEAST_SAMPLE, num_clusters * SAMPLE_PER_CLUSTER) / num_docs


@dataclasses.dataclass(frozen=True)
class Train(Task):
    """Clusters the sample, and groups clusters into shards."""

    num_pieces: int
    num_docs: int
    num_terms: int
    num_clusters: int
    num_shards: int
    seed: int

    @property
    def output(self) -> str:
        """The file that says that the task is done."""
        return CLUSTERS

    def make(self, work: Workplace) -> Mapping[str, Any]:
        """Write the centroids, their cells and shards, and the projection under which documents are compared."""
        scales = work.load(SCALES).arrays
        rare = rarity(scales["frequency"], self.num_docs)
        with open_resources(None, work.resources) as resources:
            spool = self._sample(work, resources)
            projector = Projector(spool, term_factor(scales["scale"], rare), self.seed)
            centroids, labels = self._clusters(projector, resources)
            lengths = spool.lengths()
            some = sample_rows(spool.num_rows, _QUERIED_DOCS, self.seed)
            queried = take_rows(spool, some)
            queried = queried._replace(values=_weights(queried, scales["scale"]))
            questions = pseudo_queries(queried, rare, _QUERIES, self.seed).queries
            load = expected_load(queried, labels[some], questions, len(centroids))
        work.keep(QUESTIONS, question_arrays(questions), {})
        postings = np.bincount(labels, weights=lengths, minlength=len(centroids)) * (self.num_docs / spool.num_rows)
        with one_thread():
            cells = cells_of(centroids, self.seed)
        shard_of = shards_of_clusters(centroids, postings.astype(np.float64), load, self.num_shards, self.seed)
        arrays: Arrays = {"centroids": centroids, "shard": shard_of}
        if cells is not None:
            arrays.update(cell_centers=cells.centers, cell_owner=cells.owner)
        about = {"num_clusters": len(centroids)}
        work.keep(self.output, {**arrays, **projector.projection(DIMENSIONS).arrays()}, about)
        return about

    def _sample(self, work: Workplace, resources: BuildResources) -> Spool:
        spool = Spool(self.num_terms, resources.limit.available() // 3, resources.folder)
        for piece in range(self.num_pieces):
            spool.append(vectors_of(work.load(sample_name(piece)).arrays, self.num_terms))
        spool.finish()
        return spool

    def _clusters(self, projector: Projector, resources: BuildResources) -> tuple[Floats, NDArray[np.int64]]:
        """Return the centroids of even clusters of the sample, and the nearest one of every document of it."""
        num_docs = projector.spool.num_rows
        job = ClusterJob(num_docs, projector, None, min(self.num_clusters, num_docs), self.seed, resources)
        names, labels = np.unique(Sparse().labels(job), return_inverse=True)
        points = SparsePoints(projector, DIMENSIONS)
        with one_thread():
            centroids = centroids_of(points, labels, len(names))
            assigner = Assigner(centroids, cells_of(centroids, self.seed))
            nearest = partial(_nearest, points, assigner)
            return centroids, np.concatenate(list(resources.workers.map(nearest, range(points.num_batches))))


def _nearest(points: SparsePoints, assigner: Assigner, batch: int) -> NDArray[np.int64]:
    return assigner.nearest(points.batch(batch))


def _weights(docs: Csr, scale: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weights of coded documents, the largest one 1: only ratios count, and no sum may overflow."""
    weights = docs.values * scale[docs.indices]
    return np.asarray(weights / weights.max(initial=1e-300), dtype=np.float64)


def expected_load(sample: Csr, labels: NDArray[np.int64], queries: Csr, num_clusters: int) -> NDArray[np.float64]:
    """Return by cluster the share of searches that it has to answer.

    Parameters
    ----------
    sample
        Documents with their weights.
    labels
        The cluster of each.
    queries
        What is searched for.
    num_clusters
        How many there are.
    """
    load = np.zeros(num_clusters)
    for _, scores in score_batches(queries, sample):
        best = np.argpartition(-scores, min(_BEST, sample.num_rows) - 1, axis=1)[:, :_BEST]
        found = np.take_along_axis(scores, best, axis=1) > 0
        load += np.bincount(labels[best[found]], minlength=num_clusters)
    return load / max(1.0, float(load.sum()))


class Clusters:
    """The clusters of the collection: what finds the one of a document, and the shard of each."""

    def __init__(self, packed: Packed) -> None:
        arrays = packed.arrays
        cells = Cells(arrays["cell_centers"], arrays["cell_owner"]) if "cell_centers" in arrays else None
        self._projection = Projection.from_arrays(arrays)
        self._assigner = Assigner(arrays["centroids"], cells)
        self.shard: NDArray[np.int64] = arrays["shard"]

    def labels(self, docs: Csr) -> NDArray[np.int64]:
        """Return the cluster of every coded document."""
        with one_thread():
            return self._assigner.nearest(self._projection.apply(docs))
