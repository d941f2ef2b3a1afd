"""Bounds of clusters and best scores in them, for many queries on large collections."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from segmax.search.hooks import with_hooks
from segmax.search.index import Index
from segmax.search.methods import ASC
from segmax.search.results import ClusterBounds

_ALL = with_hooks(ASC(), estimate_threshold=False, sweep=False, lazy=False)


class BoundReader:
    """Reads what `Index.cluster_bounds` returns, faster: by one search for all documents, instead of scoring each.

    Parameters
    ----------
    index
        An open index.

    Attributes
    ----------
    position
        The number of a cluster by the label that traces give it.
    """

    def __init__(self, index: Index) -> None:
        self._index = index
        self._cluster_of = clusters_of(index)
        self.position = {int(label): number for number, label in enumerate(index._labels.tolist())}

    def read(self, query: Any) -> ClusterBounds:
        """Return BoundSum, MaxSBound, AvgSBound and the best real score of every cluster for one query."""
        # With room for all documents θ stays 0: nothing is pruned, and every cluster with a query term is in the trace.
        hits = self._index.search(query, k=self._index.num_docs, params=_ALL, trace=True)
        found = np.zeros((4, self._index.num_clusters))
        for entry in hits.trace or ():
            found[:3, self.position[entry.cluster]] = (entry.bound_sum, entry.max_bound, entry.avg_bound)
        np.maximum.at(found[3], self._cluster_of[hits.rows], hits.scores)
        return ClusterBounds(bound_sum=found[0], max_bound=found[1], avg_bound=found[2], best_score=found[3])


def clusters_of(index: Index) -> NDArray[Any]:
    """Return the number of every document's cluster, by row."""
    arrays = index._open_arrays
    found = np.empty(index.num_docs, dtype=np.int64)
    for cluster, size in enumerate(arrays["cluster_num_docs"].tolist()):
        first = int(arrays["cluster_first_position"][cluster])
        found[arrays["position_row"][first : first + size]] = cluster
    return found
