"""What docs/guarantees.md promises besides the paper's propositions, and what it says voids them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp

import segmax
from conftest import topic_docs
from reference import as_query
from segmax import paper
from segmax.paper import Anytime, MaxScore
from segmax.search.hooks import Hooks, with_hooks

EXACT = (
    segmax.Exhaustive(),
    MaxScore(),
    Anytime(),
    segmax.ASC(),
    with_hooks(segmax.ASC(), sweep=False),
    with_hooks(segmax.ASC(), sweep=False, all_tiles=0),
    paper.ASC(),
    paper.ASC(estimate_threshold=False),
)
#: Weights are rounded to so many levels at least.
FEWEST_LEVELS = 2**12 - 1


def built(seed: int, num_docs: int = 1500) -> tuple[sp.csr_matrix, segmax.Index, np.random.Generator]:
    """Documents of topics, an index of them, and what random queries come from."""
    rng = np.random.default_rng(seed)
    docs, _ = topic_docs(rng, num_docs)
    config = segmax.BuildConfig(num_clusters=12 + seed, calibrate=False, seed=seed)
    return docs, segmax.build(docs, config=config), rng


# --- query weights ----------------------------------------------------------------------------------------------------


def test_whole_query_weights_are_kept() -> None:
    """Whole numbers up to 32,767 are not rounded: scores are the very sums."""
    docs, index, rng = built(0)
    for _ in range(20):
        query = {term: int(rng.integers(1, 32768)) for term in rng.choice(docs.shape[1], 8, replace=False).tolist()}
        weights = np.zeros(docs.shape[1], dtype=np.int64)
        weights[list(query)] = list(query.values())
        hits = index.search(query, k=5)
        assert hits.scores.tolist() == (docs[hits.rows].astype(np.int64) @ weights).tolist()


def test_other_query_weights_are_rounded() -> None:
    """Other weights are rounded to 12 bits of the largest at least, never to 0, and all exact methods still agree."""
    docs, index, rng = built(1)
    rounded = 0
    for number in range(40):
        terms = rng.choice(docs.shape[1], 8, replace=False).tolist()
        query = {term: float(weight) for term, weight in zip(terms, rng.lognormal(0, 3, 8), strict=True)}
        weights = np.zeros(docs.shape[1])
        weights[terms] = [query[term] for term in terms]
        step = max(query.values()) / FEWEST_LEVELS
        found = [index.search(query, k=10, params=params) for params in EXACT]
        for hits in found[1:]:
            assert hits.rows.tolist() == found[0].rows.tolist(), number
            assert hits.scores.tolist() == found[0].scores.tolist(), number
        for row, score in zip(found[0].rows.tolist(), found[0].scores.tolist(), strict=True):
            matched = docs[row, terms].toarray().sum()
            true = float((docs[row] @ weights)[0])
            assert abs(score - true) <= step * matched
            rounded += score != true
            assert score > 0
    assert rounded > 0


@pytest.mark.parametrize("bits", [8, 16])
def test_rounding_is_bounded_where_scales_differ(bits: int) -> None:
    """A term is off by at most 1/4,095 of the most that any term of the query can add, however small its own scale."""
    rng = np.random.default_rng(9)
    docs = sp.random(400, 30, density=0.4, format="csr", random_state=3)
    docs.data = rng.lognormal(0, 0.5, docs.nnz) * 10.0 ** rng.uniform(-3, 3, 30)[docs.indices]
    index = segmax.build(docs, bits=bits, calibrate=False)
    largest_code = 2**bits - 1
    scales = index._open_arrays["term_scale"]
    off = 0.0
    for _ in range(30):
        query = {term: float(rng.lognormal(0, 1)) for term in rng.choice(30, 8, replace=False).tolist()}
        step = max(weight * scales[term] for term, weight in query.items()) * largest_code / FEWEST_LEVELS
        for row in index.search(query, k=5).rows.tolist():
            for match in index.explain(query, row).matched:
                error = abs(match.contribution - query[match.term] * match.document_weight)
                assert match.contribution > 0
                assert error <= step * (1 + 1e-9)
                off = max(off, error / step)
    assert off > 0


# --- eta --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("eta", [0.3, 0.6, 0.9, 1.0])
def test_asc_is_eta_approximate(eta: float) -> None:
    """At every rank the score is at least η × the exact one, so means of the best k' are as well; misses <= θ/η."""
    missed, saved = np.sum([_missed_and_saved(eta, seed) for seed in range(4)], axis=0)
    assert (saved > 0) == (eta < 1)
    if eta != 0.9:  # which leaves out blocks, but perhaps none with a result
        assert (missed > 0) == (eta < 1)


def _missed_and_saved(eta: float, seed: int) -> tuple[int, int]:
    """Check what is promised; return how many results were missed, and how many blocks fewer than with η = 1 read."""
    _, index, rng = built(seed)
    missed = saved = 0
    plain, bounded = segmax.ASC(eta=eta), segmax.ASC(eta=eta, max_terms=3, dropped="bounded")
    ways: list[tuple[segmax.ASC, Hooks]] = [
        (plain, {"sweep": False}),
        (plain, {"sweep": False, "estimate_threshold": False}),
        (plain, {"sweep": False, "all_tiles": 0}),
        (plain, {}),
        (bounded, {"sweep": False}),
    ]
    for _ in range(30):
        query = as_query(rng, index.num_terms, int(rng.integers(2, 20)))
        k = int(rng.integers(1, 60))
        exact = index.search(query, k=k, params=segmax.Exhaustive())
        for params, hooks in ways:
            found = index.search(query, k=k, params=with_hooks(params, **hooks))
            assert len(found) == len(exact)
            assert (found.scores >= eta * exact.scores - 1e-9).all(), params
            assert (np.cumsum(found.scores) >= eta * np.cumsum(exact.scores) - 1e-9).all(), params
            lost = exact.scores[~np.isin(exact.rows, found.rows)]
            missed += len(lost)
            assert (lost <= found.scores[-1] / eta + 1e-9).all(), params
            safe = index.search(query, k=k, params=with_hooks(dataclasses.replace(params, eta=1.0), **hooks))
            saved += safe.stats.blocks_scored - found.stats.blocks_scored
    return missed, saved


# --- what voids promises ----------------------------------------------------------------------------------------------


def heavy_and_light() -> tuple[segmax.Index, dict[int, int]]:
    """A document of the query's heaviest term, and a better one of its three lighter terms."""
    index = segmax.build(sp.csr_matrix(np.array([[10, 0, 0, 0], [0, 10, 10, 10]])))
    return index, {0: 10, 1: 9, 2: 9, 3: 9}


@pytest.mark.parametrize("method", [segmax.ASC, paper.ASC, Anytime])
@pytest.mark.parametrize("shortened", [{"query_mass": 0.25}, {"max_terms": 1}])
def test_terms_that_are_left_out_void_proposition_3(method: type, shortened: dict[str, float]) -> None:
    """With μ = η = 1 a query cut to its heaviest term finds a document of 37 % of the exact score."""
    index, query = heavy_and_light()
    best = index.search(query, k=1)
    cut = index.search(query, k=1, params=method(**shortened))
    assert (best.rows.tolist(), cut.rows.tolist()) == ([1], [0])
    assert cut.scores[0] == 100 < 0.4 * best.scores[0]


@pytest.mark.parametrize("method", [segmax.ASC, paper.ASC, Anytime])
def test_bounded_terms_void_nothing(method: type) -> None:
    """What dropped terms may add counts in all bounds with dropped="bounded", so search stays exact."""
    index, query = heavy_and_light()
    assert index.search(query, k=1, params=method(max_terms=1, dropped="bounded")).scores.tolist() == [270]


@pytest.mark.parametrize("params", [paper.ASC(max_clusters=1), Anytime(max_clusters=1)])
def test_limits_void_proposition_3(params: paper.ASC | Anytime) -> None:
    """A search that stops after one cluster may miss the best document altogether."""
    docs = sp.csr_matrix(np.array([[9, 0], [0, 9], [6, 6]]))
    index = segmax.build(docs, clustering=[0, 0, 1], config=segmax.BuildConfig(num_segments=1))
    query = {0: 1, 1: 1}
    assert index.search(query, k=1).scores.tolist() == [12]
    assert index.search(query, k=1, params=params).scores.tolist() == [9]
