"""Knobs that leave terms of a query out: against the plain search with the terms that are left."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import segmax
from conftest import random_docs, refused
from reference import as_query, best
from segmax import paper
from segmax.errors import ConfigError, InputError
from segmax.paper import Anytime, MaxScore
from segmax.search.hooks import with_hooks

KINDS = (Anytime, paper.ASC, segmax.ASC)


@pytest.fixture
def docs(rng: np.random.Generator) -> sp.csr_matrix:
    """Documents with whole weights, many of which tie."""
    return random_docs(rng, 700, 60, mean_terms=9)


@pytest.fixture
def index(docs: sp.csr_matrix, rng: np.random.Generator) -> segmax.Index:
    """Many small clusters."""
    return segmax.build(docs, clustering=rng.integers(0, 20, docs.shape[0]))


def heaviest(docs: sp.csr_matrix, query: dict[int, int], count: int) -> dict[int, int]:
    """The terms of a query whose weight × largest document weight is largest; of equal ones the smaller number."""
    largest = docs.max(axis=0).toarray()[0]
    order = sorted(query, key=lambda term: (-query[term] * int(largest[term]), term))
    return {term: query[term] for term in order[:count]}


def of_mass(docs: sp.csr_matrix, query: dict[int, int], share: float) -> dict[int, int]:
    """The fewest heaviest terms that hold a share of the mass."""
    largest = docs.max(axis=0).toarray()[0]
    mass = sum(weight * int(largest[term]) for term, weight in query.items())
    for count in range(len(query) + 1):
        kept = heaviest(docs, query, count)
        if sum(weight * int(largest[term]) for term, weight in kept.items()) >= share * mass - 1e-9:
            return kept
    raise AssertionError("all terms hold all of the mass")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [1, 3, 6, 50])
def test_ignored_terms_are_as_if_never_asked(
    kind: type[segmax.ASC], count: int, docs: sp.csr_matrix, index: segmax.Index, rng: np.random.Generator
) -> None:
    """max_terms with "ignored" gives the results and scores of the shortened query, ties included."""
    queries = [as_query(rng, 60, int(rng.integers(1, 16))) for _ in range(25)]
    params = kind(max_terms=count)
    batch = index.search_batch(queries, k=15, params=params)
    for number, query in enumerate(queries):
        rows, scores = best(docs, heaviest(docs, query, count), 15)
        hits = index.search(query, k=15, params=params)
        assert hits.rows.tolist() == rows
        assert hits.scores.tolist() == scores
        assert hits.stats.dropped_terms == max(0, len(query) - count)
        assert batch[number].rows.tolist() == rows
        assert batch.stats.dropped_terms[number] == hits.stats.dropped_terms
        assert index.search(query, k=15, params=params, trace=True).rows.tolist() == rows


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [1, 3, 6])
def test_bounded_terms_change_nothing(
    kind: type[segmax.ASC], count: int, docs: sp.csr_matrix, index: segmax.Index, rng: np.random.Generator
) -> None:
    """max_terms with "bounded" is exact, and counts the terms that only bounds use."""
    for _ in range(25):
        query = as_query(rng, 60, int(rng.integers(1, 16)))
        hits = index.search(query, k=15, params=kind(max_terms=count, dropped="bounded"))
        rows, scores = best(docs, query, 15)
        assert hits.rows.tolist() == rows
        assert hits.scores.tolist() == scores
        assert hits.stats.dropped_terms == max(0, len(query) - count)


@pytest.mark.parametrize("share", [0.3, 0.75, 0.9, 0.999])
def test_query_mass(share: float, docs: sp.csr_matrix, index: segmax.Index, rng: np.random.Generator) -> None:
    """query_mass keeps the fewest heaviest terms that hold the share, alone, in a batch, and with a trace."""
    queries = [as_query(rng, 60, int(rng.integers(1, 16))) for _ in range(25)]
    params = segmax.ASC(query_mass=share)
    batch = index.search_batch(queries, k=15, params=params, threads=2)
    dropped = 0
    for number, query in enumerate(queries):
        kept = of_mass(docs, query, share)
        rows, scores = best(docs, kept, 15)
        hits = index.search(query, k=15, params=params)
        assert hits.rows.tolist() == rows == batch[number].rows.tolist()
        assert hits.scores.tolist() == scores
        assert hits.stats.dropped_terms == len(query) - len(kept) == batch.stats.dropped_terms[number]
        traced = index.search(query, k=15, params=params, trace=True)
        assert (traced.rows.tolist(), traced.stats.dropped_terms) == (rows, len(query) - len(kept))
        dropped += len(query) - len(kept)
    assert (dropped > 0) == (share < 0.99)


def test_equal_terms_and_shares_that_are_no_binary_numbers() -> None:
    """Nine of ten equal terms are nine tenths of the mass."""
    index = segmax.build(sp.csr_matrix(np.full((3, 10), 7)))
    hits = index.search(dict.fromkeys(range(10), 3), params=segmax.ASC(query_mass=0.9))
    assert hits.stats.dropped_terms == 1
    assert hits.scores.tolist() == [9 * 21] * 3


def test_repeated_and_unknown_terms(index: segmax.Index) -> None:
    """Repeated terms are one term; unknown ones weigh nothing and are counted all the same."""
    params = segmax.ASC(query_mass=0.5)
    plain = index.search({3: 5.0, 8: 2.0, 11: 1.0}, params=params)
    noisy = index.search(([8, 3, 999, 11, 3], [2.0, 2.0, 9.0, 1.0, 3.0]), params=params)
    assert noisy.rows.tolist() == plain.rows.tolist()
    assert noisy.scores.tolist() == plain.scores.tolist()
    assert noisy.stats.dropped_terms == plain.stats.dropped_terms
    assert (noisy.stats.unknown_terms, plain.stats.unknown_terms) == (1, 0)
    for terms, weights in (([11, 8, 3], [1.0, 2.0, 5.0]), ([3, 8, 11, 60], [5.0, 2.0, 1.0, 4.0])):
        other = index.search((terms, weights), params=params)
        assert other.rows.tolist() == plain.rows.tolist()
        assert other.stats.dropped_terms == plain.stats.dropped_terms
    assert index.search(([3], [0.0]), params=params).rows.tolist() == []
    assert index.search(([], []), params=params).rows.tolist() == []
    assert len(index.search_batch(sp.csr_matrix((0, 60)), params=params)) == 0


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf")])
def test_bad_weights_are_still_reported(index: segmax.Index, weight: float) -> None:
    """A shortened query is checked like any other."""
    for params in (segmax.ASC(query_mass=0.5), segmax.ASC(max_terms=1)):
        with pytest.raises(InputError):
            index.search(([1, 2, 3], [1.0, weight, 2.0]), params=params)


def test_explain_mentions_dropped_terms(index: segmax.Index) -> None:
    """The reason counts the terms left out; the score is that of the whole query."""
    query = {3: 9.0, 8: 5.0, 11: 1.0}
    found = index.search(query, k=3).rows
    for params in (segmax.ASC(max_terms=2), segmax.ASC(query_mass=0.9)):
        explained = index.explain(query, int(found[0]), k=3, params=params)
        assert "the lightest term of the query was left out" in str(explained)
        assert explained.score == index.search(query, k=3).scores[0]
    assert "2 lightest terms" in str(index.explain(query, 0, params=segmax.ASC(max_terms=1)))
    bounded = index.explain(query, int(found[0]), params=segmax.ASC(max_terms=2, dropped="bounded"))
    assert "counted only in bounds and final scores" in str(bounded)
    assert "lightest" not in str(index.explain(query, 0))


def test_invalid_options_are_refused() -> None:
    """Every message names the option, what came, and what to do."""
    with refused(ConfigError, option="max_terms", expected="at least 1", got="0"):
        segmax.ASC(max_terms=0)
    with refused(ConfigError, option="query_mass", expected="greater than 0 and at most 1", got="1.5"):
        segmax.ASC(query_mass=1.5)
    with refused(ConfigError, option="dropped", expected="'ignored' or 'bounded'", got="'lost'"):
        segmax.ASC(dropped="lost")  # type: ignore[arg-type]
    with refused(ConfigError, option="query_mass", expected="1 with dropped='bounded'", hint="use {max_terms}"):
        segmax.ASC(query_mass=0.9, dropped="bounded")
    for method in (segmax.Exhaustive, MaxScore):
        for option in ("max_terms", "query_mass", "dropped", "budget_ms", "max_clusters", "max_blocks"):
            with pytest.raises(TypeError, match=option):
                method(**{option: 1})


def test_params_stay_values_after_use(index: segmax.Index) -> None:
    """What a search keeps in them is no part of equality, text or copies."""
    used, fresh = segmax.ASC(mu=0.9), segmax.ASC(mu=0.9)
    index.search({3: 1.0}, params=used)
    assert used == fresh
    assert hash(used) == hash(fresh)
    assert repr(used) == repr(fresh)
    copy = pickle.loads(pickle.dumps(used))
    assert copy == used
    assert index.search({3: 1.0}, params=copy).rows.tolist() == index.search({3: 1.0}, params=used).rows.tolist()


# --- eta and max_blocks ----------------------------------------------------------------------------------------------


def test_asc_misses_nothing_above_the_scaled_threshold(
    docs: sp.csr_matrix, index: segmax.Index, rng: np.random.Generator
) -> None:
    """What eta leaves out scores at most θ/η; what is returned has its true score."""
    for eta in (0.95, 0.8, 0.5):
        for _ in range(20):
            query = as_query(rng, docs.shape[1], 8)
            exact = index.search(query, 400, segmax.Exhaustive())
            hits = index.search(query, 5, with_hooks(segmax.ASC(eta=eta), sweep=False))
            scores = dict(zip(exact.rows.tolist(), exact.scores.tolist(), strict=True))
            assert [scores[row] for row in hits.rows.tolist()] == hits.scores.tolist()
            missed = [score for row, score in scores.items() if row not in set(hits.rows.tolist())]
            assert max(missed) <= hits.scores[-1] / eta


def test_max_blocks_limits_the_work_and_is_reported(
    docs: sp.csr_matrix, index: segmax.Index, rng: np.random.Generator
) -> None:
    """Fewer blocks give a part of the results; a limit that is not reached changes nothing."""
    query = as_query(rng, docs.shape[1], 8)
    exact = index.search(query, 10, segmax.Exhaustive())
    few = index.search(query, 10, segmax.ASC(max_blocks=2))
    assert few.stats.blocks_scored <= 2
    assert few.stats.budget_hit
    assert not few.complete
    assert few.stats.clusters_visited + few.stats.clusters_limited == index.num_clusters
    enough = index.search(query, 10, segmax.ASC(max_blocks=10**6))
    assert enough.rows.tolist() == exact.rows.tolist()
    assert not enough.stats.budget_hit
    assert enough.complete
    explained = [index.explain(query, row, 10, segmax.ASC(max_blocks=2)) for row in exact.rows.tolist()]
    reasons = {"visited": "its block was not scored", "limited": "a limit ended the search before it came to its"}
    for one in explained:
        assert (one.rank is None) == (one.id not in few.ids)
        assert one.rank is not None or reasons[one.decision] in one.reason
    assert {one.decision for one in explained if one.rank is None} >= {"limited"}


def test_explaining_a_search_of_everything(docs: sp.csr_matrix, index: segmax.Index, rng: np.random.Generator) -> None:
    """Exhaustive search has scored every document, and says so."""
    query = as_query(rng, docs.shape[1], 8)
    last = int(index.search(query, 400, segmax.Exhaustive()).rows[-1])
    assert "it was scored" in str(index.explain(query, last, 3, segmax.Exhaustive()))
