"""The worked example of the paper (Figure 4): four clusters, two segments, θ = 9, in tenths."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import segmax
from segmax.paper import Anytime

#: Term maxima of the two segments of each cluster, in tenths; every document has one term, so that no score passes θ.
SEGMENTS = {
    1: ([30, 1, 0], [26, 3, 0]),
    2: ([50, 46, 0], [40, 48, 0]),
    3: ([57, 40, 0], [15, 0, 40]),
    4: ([70, 66, 0], [60, 25, 27]),
}
QUERY = {0: 1, 1: 1, 2: 1}


@pytest.fixture(scope="module")
def index() -> segmax.Index:
    """The example as a real index, with a fifth cluster that is visited first and sets θ to 9.

    Each document fills a block with copies of itself, so that no maximum has to be rounded up to that of a block.
    """
    rows, clusters, segments = [], [], []
    for cluster, parts in SEGMENTS.items():
        for segment, maxima in enumerate(parts):
            for term, weight in enumerate(maxima):
                if weight:
                    rows.append(np.eye(3, dtype=int)[term] * weight)
                    clusters.append(cluster)
                    segments.append(segment)
    for weights in ([90, 0, 0], [0, 85, 0]):
        rows.append(np.array(weights))
        clusters.append(5)
        segments.append(0)
    return segmax.build(
        sp.csr_matrix(np.repeat(rows, 8, axis=0)),
        clustering=np.repeat(clusters, 8),
        segments=np.repeat(segments, 8),
        config=segmax.BuildConfig(num_segments=2, document_order="row"),
    )


def decisions(index: segmax.Index, params: segmax.params.SearchParams) -> dict[int, str]:
    """Kept or pruned for clusters 1 to 4, with θ = 90 at each decision."""
    hits = index.search(QUERY, k=1, params=params, trace=True)
    trace = {entry.cluster: entry for entry in hits.trace}
    assert trace[5].decision == "visited"
    assert all(entry.threshold == 90 for cluster, entry in trace.items() if cluster != 5)
    visited = {cluster for cluster, entry in trace.items() if entry.decision == "visited"}
    return {cluster: "kept" if cluster in visited else "pruned" for cluster in SEGMENTS}


def test_bounds_are_as_printed(index: segmax.Index) -> None:
    """The three bounds of every cluster, times ten."""
    bounds = index.cluster_bounds(QUERY)
    assert bounds.bound_sum[:4].tolist() == [33, 98, 137, 163]
    assert bounds.max_bound[:4].tolist() == [31, 96, 97, 136]
    assert bounds.avg_bound[:4].tolist() == [30, 92, 76, 124]


@pytest.mark.parametrize("documents", ["blocks", "maxscore"])
def test_decisions_are_as_printed(index: segmax.Index, documents: str) -> None:
    """Anytime prunes cluster 1, Anytime* 1 and 2, ASC 1 and 3."""
    assert decisions(index, Anytime(documents=documents)) == {1: "pruned", 2: "kept", 3: "kept", 4: "kept"}
    assert decisions(index, Anytime(mu=0.9, documents=documents)) == {
        1: "pruned",
        2: "pruned",
        3: "kept",
        4: "kept",
    }
    assert decisions(index, segmax.paper.ASC(mu=0.9, documents=documents)) == {
        1: "pruned",
        2: "kept",
        3: "pruned",
        4: "kept",
    }


def visited_by_rule(bounds: segmax.search.results.ClusterBounds, theta: float, mu: float, *, breaks: bool) -> set[int]:
    """Clusters that the two-parameter rule visits at a fixed θ; `breaks` leaves the loop at the first pruned one."""
    visited = set()
    for cluster in np.argsort(-bounds.max_bound, kind="stable").tolist():
        if bounds.max_bound[cluster] <= theta / mu and bounds.avg_bound[cluster] <= theta:
            if breaks:
                break
            continue
        visited.add(cluster)
    return visited


def test_breaking_out_of_the_loop_would_violate_proposition_4(index: segmax.Index) -> None:
    """The authors' release stops at the first pruned cluster; here that loses cluster 2, whose AvgSBound is above θ."""
    bounds = index.cluster_bounds(QUERY)

    def pruned_with_a_high_average(visited: set[int]) -> list[int]:
        return [c for c in range(index.num_clusters) if c not in visited and bounds.avg_bound[c] > 90]

    going_on = visited_by_rule(bounds, 90, 0.9, breaks=False)
    trace = index.search(QUERY, k=1, params=segmax.paper.ASC(mu=0.9), trace=True).trace
    assert {entry.cluster - 1 for entry in trace if entry.decision == "visited"} == going_on
    assert pruned_with_a_high_average(going_on) == []
    assert pruned_with_a_high_average(visited_by_rule(bounds, 90, 0.9, breaks=True)) == [1]


@pytest.mark.parametrize("mu", [0.5, 0.9, 1.0])
def test_asc_with_one_segment_decides_like_anytime(mu: float, rng: np.random.Generator) -> None:
    """With n = 1 and μ = η, asc takes Anytime*'s decisions, in the same order."""
    from conftest import random_docs
    from reference import as_query

    docs = random_docs(rng, 2000, 100, 8.0)
    index = segmax.build(docs, clustering=rng.integers(0, 60, 2000), config=segmax.BuildConfig(num_segments=1))
    for _ in range(30):
        query = as_query(rng, 100, 6)
        asc = index.search(query, k=5, params=segmax.paper.ASC(mu=mu, eta=mu), trace=True)
        anytime = index.search(query, k=5, params=Anytime(mu=mu), trace=True)
        assert [(e.cluster, e.decision) for e in asc.trace] == [(e.cluster, e.decision) for e in anytime.trace]
        assert asc.ids == anytime.ids
