"""What `explain` says, held against what searches do."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.sparse as sp

import segmax
from conftest import random_docs, refused
from reference import as_query
from segmax.errors import InputError
from segmax.paper import Anytime, MaxScore
from segmax.search.hooks import with_hooks
from segmax.search.methods import SearchParams

FACTORS = (0.3, 0.5, 0.7, 0.9, 1.0)
WAYS: list[SearchParams] = [
    *(Anytime(mu=mu, documents=documents) for mu in FACTORS for documents in ("blocks", "maxscore")),
    *(
        segmax.paper.ASC(mu=mu, eta=eta, documents=documents, cluster_order=order, estimate_threshold=seed)
        for mu, eta in itertools.combinations_with_replacement(FACTORS, 2)
        for documents, order, seed in (
            ("blocks", "max_bound", True),
            ("maxscore", "max_bound", True),
            ("maxscore", "bound_sum", False),
        )
    ),
    *(segmax.paper.ASC(mu=0.5, eta=0.5, documents=documents, max_clusters=3) for documents in ("blocks", "maxscore")),
    *(segmax.paper.ASC(query_mass=0.7, documents=documents) for documents in ("blocks", "maxscore")),
    *(segmax.paper.ASC(max_terms=2, dropped="bounded", documents=documents) for documents in ("blocks", "maxscore")),
    *(
        with_hooks(segmax.ASC(mu=mu, eta=eta), sweep=False, all_tiles=all_tiles)
        for mu, eta in itertools.product(FACTORS, repeat=2)
        for all_tiles in (0, 2**31)
        if mu < 1.0 or all_tiles
    ),
    *(with_hooks(segmax.ASC(max_blocks=4), all_tiles=all_tiles) for all_tiles in (0, 2**31)),
    segmax.ASC(bound_mass=0.7),
    segmax.ASC(query_mass=0.7),
    with_hooks(segmax.ASC(mu=0.5, query_mass=0.7), sweep=False, all_tiles=0),
    segmax.ASC(),
    MaxScore(),
    MaxScore(estimate_threshold=False),
    segmax.Exhaustive(),
]


@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.deep)])
@pytest.mark.parametrize("seed", range(6))
def test_a_document_has_the_rank_that_the_search_gives_it(seed: int, every: int) -> None:
    """Watching a document does not change what becomes of it: for every method, factor and document."""
    rng = np.random.default_rng(seed)
    docs = random_docs(rng, 60, 12, 5.0, largest=20)
    index = segmax.build(docs, clustering=rng.integers(0, 8, 60), config=segmax.BuildConfig(num_segments=2))
    query, k = as_query(rng, 12, 5, largest=9), int(rng.integers(1, 8))
    for params in WAYS[seed % every :: every]:
        rows = index.search(query, k=k, params=params).rows.tolist()
        for row in range(60):
            explained = index.explain(query, row, k=k, params=params)
            expected = rows.index(row) + 1 if row in rows else None
            assert explained.rank == expected, f"{params}: row {row}, {explained}"
            assert ("is returned at rank" in explained.reason) == (row in rows)
            if "it was scored" in explained.reason and not params.drops_terms:
                assert explained.score <= explained.final_threshold, f"{params}: row {row}, {explained}"


@pytest.mark.parametrize("every", [9, pytest.param(3, marks=pytest.mark.deep)])
@pytest.mark.parametrize("seed", range(3))
def test_a_filter(seed: int, every: int) -> None:
    """Ranks are those of the search with the same filter, and a document that it does not match is said to be none."""
    rng = np.random.default_rng(seed)
    docs = random_docs(rng, 60, 12, 5.0, largest=20)
    years = rng.integers(0, 6, 60).tolist()
    config = segmax.BuildConfig(num_segments=2)
    metadata = [{"year": year} for year in years]
    index = segmax.build(docs, clustering=rng.integers(0, 8, 60), config=config, metadata=metadata)
    query, k = as_query(rng, 12, 5, largest=9), int(rng.integers(1, 8))
    ways = [
        *WAYS[seed::every],
        *(with_hooks(segmax.ASC(mu=0.3, eta=0.5), sweep=False, list_masked=on) for on in (True, False)),
    ]
    for params, least in itertools.product(ways, (1, 5)):
        where = {"year": {"$gte": least}}
        rows = index.search(query, k=k, params=params, where=where).rows.tolist()
        for row in range(60):
            explained = index.explain(query, row, k=k, params=params, where=where)
            assert explained.rank == (rows.index(row) + 1 if row in rows else None), f"{params}: row {row}, {explained}"
            assert ("is returned at rank" in explained.reason) == (row in rows)
            assert ("the filter does not match it" in explained.reason) == (years[row] < least)
            if "it was scored" in explained.reason and not params.drops_terms:
                assert explained.score <= explained.final_threshold, f"{params}: row {row}, {explained}"


# --- what a score is made of -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("kind", ["whole numbers", "floats", "tiny", "huge"])
@pytest.mark.parametrize("times", [5, pytest.param(20, marks=pytest.mark.deep)])
def test_contributions_add_up_to_the_score(kind: str, bits: int, times: int) -> None:
    """Exactly, in any order and however they are summed: to the score that every search computes."""
    rng = np.random.default_rng(5)
    factor = {"whole numbers": 1.0, "floats": 0.037, "tiny": 1e-300, "huge": 1e150}[kind]
    docs = random_docs(rng, 80, 30, 12.0) * factor
    index = segmax.build(docs, config=segmax.BuildConfig(bits=bits))
    for _ in range(times):
        query = {term: weight * (factor or 1) for term, weight in as_query(rng, 34, 12).items()}
        for hit in index.search(query, k=80):
            explained = index.explain(query, hit.id)
            parts = [match.contribution for match in explained.matched]
            assert explained.score == hit.score == index.score(query, [hit.id])[0]
            for sum_of in (sum, math.fsum, np.sum):
                assert sum_of(parts) == sum_of(parts[::-1]) == sum_of(rng.permutation(parts)) == hit.score
            assert parts == sorted(parts, reverse=True)
            assert {match.term for match in explained.matched} == set(query) & set(docs[hit.id].indices.tolist())


def test_contributions_are_products_of_the_weights() -> None:
    """Of the query as it is rounded and of the document as it is stored; whole numbers to the last digit."""
    rng = np.random.default_rng(6)
    docs = random_docs(rng, 50, 20, 8.0)
    whole, floats = segmax.build(docs), segmax.build(docs * 0.123)
    query = as_query(rng, 20, 6)
    for row in range(50):
        for match in whole.explain(query, row).matched:
            assert (match.query_weight, match.document_weight) == (query[match.term], docs[row, match.term])
            assert match.contribution == match.query_weight * match.document_weight
        for match in floats.explain(query, row).matched:
            assert match.query_weight == pytest.approx(query[match.term], rel=1e-2)
            assert match.document_weight == pytest.approx(floats.vector(row)[0, match.term])
            assert match.contribution == pytest.approx(match.query_weight * match.document_weight, rel=1e-12)


def test_products_are_true_where_scales_differ() -> None:
    """Beside a term with large weights, one with small weights is rounded up: the explanation shows to what."""
    index = segmax.build(sp.csr_matrix([[1000.5, 0], [0, 0.001], [0, 0.0005], [0.5, 0.0007]]))
    (match,) = index.explain({0: 1, 1: 1}, 1).matched
    assert match.contribution == index.score({0: 1, 1: 1}, [1])[0]
    assert match.contribution == pytest.approx(match.query_weight * match.document_weight, rel=1e-12)
    assert match.query_weight > 1


def test_terms_that_were_left_out_are_marked() -> None:
    """A search with the heaviest term alone: the explanation marks the terms left out."""
    index = segmax.build(sp.csr_matrix([[3, 2], [1, 4]]), terms=["red", "blue"])
    explained = index.explain({"red": 1, "blue": 5}, 0, params=segmax.ASC(max_terms=1))
    assert {match.word: match.searched for match in explained.matched} == {"red": False, "blue": True}
    assert "  red   1 × 3 = 3 (left out of the search)" in str(explained).splitlines()
    assert all(match.searched for match in index.explain({"red": 1, "blue": 5}, 0).matched)


def test_scores_beyond_all_floats_are_refused() -> None:
    """Neither a search nor an explanation has numbers for them."""
    index = segmax.build(sp.csr_matrix(np.array([[1e305, 1e308], [1e300, 0.0]])))
    query = {0: 1e300, 1: 1e300}
    for ask in (index.search, lambda query: index.explain(query, 0), lambda query: index.score(query, [0])):
        with refused(InputError, expected="query weights whose scores fit a double", hint="divide the weights"):
            ask(query)


def test_explanations_print_the_terms() -> None:
    """Words where there is a vocabulary, numbers elsewhere; the largest first, the rest in one line."""
    docs = sp.csr_matrix([[3, 0, 2], [1, 4, 0]])
    index = segmax.build(docs, terms=["red", "green", "\x1b[2J"])
    explained = index.explain(([0, 0, 2, 1], [1, 1, 1, 0]), 0)
    assert str(explained).splitlines() == [
        "document 0 (score 8, cluster 0) is returned at rank 1",
        "  red        2 × 3 = 6",
        "  '\\x1b[2J'  1 × 2 = 2",
    ]
    assert [match.word for match in explained.matched] == ["red", "\x1b[2J"]
    numbers = segmax.build(docs).explain({0: 2, 1: 1}, 1)
    assert str(numbers).splitlines()[1:] == ["  1  1 × 4 = 4", "  0  2 × 1 = 2"]
    assert [match.word for match in numbers.matched] == [None, None]
    nothing = index.explain({"green": 1}, 0)
    assert nothing.matched == ()
    assert str(nothing) == nothing.reason
    many = segmax.build(sp.csr_matrix(np.arange(1, 15)[None]))
    assert str(many.explain((np.arange(14), np.ones(14)), 0)).splitlines()[-1] == "  4 more add 10"
