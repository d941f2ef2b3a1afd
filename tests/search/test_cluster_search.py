"""The loop over clusters: lazy segments, limits, statistics."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import segmax
from conftest import random_docs
from reference import as_query, best
from segmax.paper import Anytime
from segmax.search.hooks import with_hooks
from segmax.vectors.queries import query_arrays


@pytest.fixture(scope="module")
def collection() -> tuple[sp.csr_matrix, np.ndarray, segmax.Index]:
    """Two thousand documents in eighty clusters."""
    rng = np.random.default_rng(11)
    docs = random_docs(rng, 2000, 120, 9.0)
    labels = rng.integers(0, 80, 2000)
    return docs, labels, segmax.build(docs, clustering=labels)


@pytest.mark.parametrize("order", ["max_bound", "bound_sum"])
@pytest.mark.parametrize(("mu", "eta"), [(1.0, 1.0), (0.9, 1.0), (0.5, 1.0), (0.5, 0.8), (0.7, 0.7)])
def test_lazy_segments_take_the_decisions_of_the_plain_rule(
    collection: tuple, order: str, mu: float, eta: float
) -> None:
    """Lazy and eager search decide alike about the same clusters in the same order, at the same thresholds."""
    _, _, index = collection
    rng = np.random.default_rng(1)
    for _ in range(40):
        query = as_query(rng, 120, 7)
        for documents in ("blocks", "maxscore"):
            runs = [
                index.search(
                    query,
                    k=10,
                    params=with_hooks(
                        segmax.paper.ASC(mu=mu, eta=eta, cluster_order=order, documents=documents), lazy=lazy
                    ),
                    trace=True,
                )
                for lazy in (True, False)
            ]
            lazy, plain = ([(e.cluster, e.decision, e.threshold) for e in run.trace] for run in runs)
            assert lazy == plain
            assert runs[0].ids == runs[1].ids


@pytest.mark.parametrize(("mu", "eta"), [(1.0, 1.0), (0.9, 1.0), (0.5, 0.8)])
def test_decisions_are_those_of_the_rule_in_the_order_of_the_bounds(collection: tuple, mu: float, eta: float) -> None:
    """A slow loop in Python, given θ from the trace, visits and prunes the same clusters."""
    _, _, index = collection
    rng = np.random.default_rng(2)
    for _ in range(30):
        query = as_query(rng, 120, 7)
        bounds = index.cluster_bounds(query)
        trace = index.search(query, k=10, params=segmax.paper.ASC(mu=mu, eta=eta), trace=True).trace
        order = [e.cluster for e in trace]
        assert [bounds.max_bound[c] for c in order] == sorted((bounds.max_bound[c] for c in order), reverse=True)
        for entry in trace:
            largest, mean = bounds.max_bound[entry.cluster], bounds.avg_bound[entry.cluster]
            rule = entry.threshold > 0 and largest <= entry.threshold / mu and mean <= entry.threshold / eta
            tied = mu == 1.0 and largest == entry.threshold
            if not tied:
                assert (entry.decision != "visited") == rule
        # Nothing outside the trace could have been visited at the last threshold.
        final = max(e.threshold for e in trace)
        for cluster in set(range(index.num_clusters)) - set(order):
            assert bounds.max_bound[cluster] <= max(final, index.search(query, k=10).scores[-1]) / eta


def budget_params(times_ms: list[float], **limits: float) -> segmax._core.SearchParams:
    """Parameters whose clock reads the given times one after the other."""
    core = segmax.paper.ASC(**limits).to_core()
    core.hooks.set_clock([round(t * 1e6) for t in times_ms])
    return core


def run_core(index: segmax.Index, query: dict[int, int], core: segmax._core.SearchParams) -> tuple:
    """One query through the core: rows, scores, stats."""
    terms, weights = query_arrays(query)
    return index._engine.core.search_batch(np.array([0, len(terms)]), terms, weights, np.array([10]), [core], 1)


@pytest.mark.parametrize(
    ("budget", "risk", "step", "visits"),
    [
        # The clock is read at the start, then before every visit; visit v ends at v * step.
        (10.0, 1.0, 1.0, 10),  # after 10 visits: 10 + 1 > 10
        (10.0, 0.0, 1.0, 11),  # stops only once 11 > 10
        (10.0, 3.0, 1.0, 8),  # 8 + 3 > 10
        (0.5, 1.0, 1.0, 1),  # at least one cluster
    ],
)
def test_the_budget_rule(collection: tuple, budget: float, risk: float, step: float, visits: int) -> None:
    """Stop when elapsed + risk * mean time per visited cluster would pass the budget; never before one visit."""
    docs, labels, index = collection
    query = as_query(np.random.default_rng(4), 120, 12)
    core = budget_params([0.0, *(v * step for v in range(200))], budget_ms=budget, risk=risk)
    rows, scores, counts, stats = run_core(index, query, core)
    found = segmax.search.results.SearchStats.from_row(stats[0])
    assert found.clusters_visited == visits
    assert found.budget_hit
    # The results are those of exhaustive search over the clusters visited.
    trace = index.search(query, k=10, params=segmax.paper.ASC(max_clusters=visits), trace=True)
    names = [e.cluster for e in trace.trace if e.decision == "visited"]
    inside = np.flatnonzero(np.isin(labels, names))
    expected, expected_scores = best(docs[inside], query, 10)
    assert rows[0, : counts[0]].tolist() == inside[expected].tolist()
    assert scores[0, : counts[0]].tolist() == expected_scores


def test_a_generous_budget_changes_nothing(collection: tuple) -> None:
    """With time to spare the result is exact and the flag is off."""
    docs, _, index = collection
    query = as_query(np.random.default_rng(5), 120, 8)
    for kind in (segmax.ASC, segmax.paper.ASC, Anytime):
        hits = index.search(query, k=10, params=kind(budget_ms=60_000.0))
        assert hits.rows.tolist() == best(docs, query, 10)[0]
        assert hits.complete
        assert not hits.stats.budget_hit


@pytest.mark.parametrize("kind", [segmax.paper.ASC, Anytime])
def test_max_clusters_counts_visited_ones(collection: tuple, kind: type) -> None:
    """At most so many clusters are visited, and the flag tells."""
    _, _, index = collection
    query = as_query(np.random.default_rng(6), 120, 8)
    for limit in (1, 2, 5):
        stats = index.search(query, k=500, params=kind(max_clusters=limit)).stats
        assert stats.clusters_visited == limit
        assert stats.budget_hit
        assert stats.clusters_limited > 0
        assert stats.clusters_stopped == 0


def test_statistics_add_up(collection: tuple) -> None:
    """The fates of clusters add up to all of them; unknown terms are counted once each."""
    _, _, index = collection
    rng = np.random.default_rng(8)
    for params in (
        segmax.ASC(),
        segmax.ASC(mu=0.6),
        with_hooks(segmax.ASC(), sweep=False, all_tiles=0),
        with_hooks(segmax.ASC(mu=0.6), sweep=False, all_tiles=0),
        segmax.ASC(max_blocks=3),
        Anytime(),
        Anytime(mu=0.8),
        segmax.paper.ASC(),
        segmax.paper.ASC(mu=0.6),
    ):
        for _ in range(20):
            query = as_query(rng, 120, 6) | {500: 1, 501: 2}
            stats = index.search(query, k=10, params=params).stats
            fates = (
                stats.clusters_visited,
                stats.clusters_pruned,
                stats.clusters_tied,
                stats.clusters_stopped,
                stats.clusters_limited,
                stats.clusters_zero,
            )
            assert sum(fates) == index.num_clusters
            assert stats.unknown_terms == 2
            assert stats.elapsed_ns > 0
    stats = index.search({0: 1}, k=1, params=segmax.Exhaustive()).stats
    assert stats.docs_scored == len(index)


def test_a_search_that_sweeps_reports_it(rng: np.random.Generator) -> None:
    """Where pruning cannot pay (k near the collection), the engine sweeps, whatever μ; the paper's methods never do."""
    docs = random_docs(rng, 3000, 30, 8.0)
    index = segmax.build(docs, clustering=rng.integers(0, 30, 3000))
    query = as_query(rng, 30, 3)
    for params in (segmax.ASC(), segmax.ASC(mu=0.9), segmax.ASC(eta=0.9)):
        swept = index.search(query, k=1000, params=params)
        assert swept.stats.swept
        assert swept.complete
        traced = index.search(query, k=1000, params=params, trace=True)
        assert traced.stats.swept
        assert {entry.decision for entry in traced.trace or ()} == {"visited"}
    for params in (with_hooks(segmax.ASC(), sweep=False), segmax.ASC(max_blocks=10**6), segmax.paper.ASC(), Anytime()):
        assert not index.search(query, k=1000, params=params).stats.swept
