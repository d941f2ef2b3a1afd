"""What one search did with every cluster: the paper's idea as a table, for whoever wants to look inside."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from segmax import _core
from segmax.search.engine import Engine
from segmax.search.results import Hits, TraceEntry

#: Documents that are bounded and scored together.
_BLOCK_DOCS = 8


class ClusterView(NamedTuple):
    """A cluster as one search saw it. Bounds and θ are in the scale of the scores."""

    cluster: int
    num_docs: int
    bound_sum: float
    max_bound: float
    avg_bound: float
    best_score: float  #: of a document in it, whether or not the search found it
    decision: str  #: "visited", "pruned", "tied", "stopped", "limited" or "zero"
    threshold: float | None  #: θ when the decision fell; None where none was recorded
    num_hits: int  #: how many of the results are in it


class InsideView(NamedTuple):
    """What a search did with the clusters of an index, the highest bound first, and its results."""

    clusters: list[ClusterView]
    hits: Hits
    final_threshold: float
    num_blocks: int


def inside(
    engine: Engine,
    terms: NDArray[np.int64],
    weights: NDArray[np.float64],
    k: int,
    params: _core.SearchParams,
) -> InsideView:
    """Search with a trace, and return what was decided about every cluster."""
    hits = engine.trace(terms, weights, k, params, -1)[0]
    bounds = engine.bounds(terms, weights)
    sizes = engine.core.cluster_sizes()
    entries = {entry.cluster: entry for entry in hits.trace or ()}
    counts = np.bincount([engine.core.cluster_of(int(row)) for row in hits.rows], minlength=len(sizes))
    limited = hits.stats.budget_hit
    views = [
        _view(engine, number, int(sizes[number]), values, int(counts[number]), entries, limited=limited)
        for number, values in enumerate(
            zip(
                bounds.bound_sum.tolist(),
                bounds.max_bound.tolist(),
                bounds.avg_bound.tolist(),
                bounds.best_score.tolist(),
                strict=True,
            )
        )
    ]
    views.sort(key=lambda view: (-view.max_bound, view.cluster))
    final = float(hits.scores[-1]) if len(hits) == k else 0.0
    num_blocks = int(((sizes.astype(np.int64) + _BLOCK_DOCS - 1) // _BLOCK_DOCS).sum())
    return InsideView(views, hits, final, num_blocks)


def _view(
    engine: Engine,
    number: int,
    num_docs: int,
    values: tuple[float, float, float, float],
    num_hits: int,
    entries: dict[int, TraceEntry],
    *,
    limited: bool,
) -> ClusterView:
    """Return what happened to one cluster; those that a trace does not name came too late, or have no query term."""
    label = int(engine.labels[number])
    entry = entries.get(label)
    if entry is not None:
        decision, threshold = entry.decision, entry.threshold
    elif values[0] == 0:
        decision, threshold = "zero", None
    else:
        decision, threshold = "limited" if limited else "stopped", None
    return ClusterView(label, num_docs, *values, decision, threshold, num_hits)
