"""Searches of a part: masks, floors, ceilings, batches of unlike queries, budgets. Each against a slow twin."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import segmax
from conftest import examples, random_docs, refused, topic_docs
from reference import SAFE_METHODS, as_query
from segmax import _core, paper
from segmax.errors import InputError
from segmax.search.arguments import input_errors
from segmax.search.hooks import with_hooks
from segmax.search.methods import SearchParams
from segmax.search.results import Hits
from segmax.vectors.queries import query_arrays

Query = dict[int, int]
Floor = tuple[float, int]

#: The shares of documents that masks let through: all, some, none.
SHARES = (1.0, 0.5, 0.1, 0.01, 0.001, 0.0)


def twin(
    docs: sp.csr_matrix, query: Query, k: int, mask: np.ndarray | None = None, floor: Floor | None = None
) -> tuple[list[int], list[int]]:
    """Rows and scores of the k best documents that the mask lets through and that come before the floor."""
    weights = np.zeros(docs.shape[1], dtype=np.int64)
    for term, weight in query.items():
        if term < len(weights):
            weights[term] = weight
    scores = docs.astype(np.int64) @ weights
    rows = np.arange(len(scores))
    wanted = scores > 0
    if mask is not None:
        wanted &= mask
    if floor is not None:
        score, row = floor
        wanted &= (scores > score) | ((scores == score) & ((row < 0) | (rows < row)))
    order = np.lexsort((rows, -scores))
    order = order[wanted[order]][:k]
    return order.tolist(), scores[order].tolist()


def found_by(
    index: segmax.Index,
    query: Query,
    k: int,
    params: SearchParams,
    mask: np.ndarray | None = None,
    floor: Floor | None = None,
) -> Hits:
    """The results of a search that returns only some rows, or only what comes before a result."""
    core = index._engine.restricted(params.to_core(), rows=mask, floor=floor)
    return run(index, query, k, core)


def run(index: segmax.Index, query: Query, k: int, core: _core.SearchParams) -> Hits:
    """The results of one query, with parameters in the core's form."""
    with input_errors():
        rows, scores, stats = index._engine.core.search_one(*query_arrays(query), k, core)
    return Hits(rows, scores, stats.reshape(-1), index._engine.ids)


def random_mask(rng: np.random.Generator, num_docs: int, share: float) -> np.ndarray:
    """A mask that lets about this share of the documents through."""
    return rng.random(num_docs) < share


# --- masks and floors ------------------------------------------------------------------------------------------------


@st.composite
def cases(draw: st.DrawFn) -> tuple[sp.csr_matrix, segmax.Index, Query, int, np.ndarray | None, Floor | None]:
    """A collection full of ties, a query, a k, a mask and a floor that is a result, lies between two, or is beyond."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    num_docs = draw(st.sampled_from([1, 2, 17, 64, 150, 400]))
    num_terms = draw(st.sampled_from([1, 5, 40]))
    docs = random_docs(
        rng, num_docs, num_terms, draw(st.sampled_from([0.5, 3.0, 8.0])), draw(st.sampled_from([1, 255]))
    )
    labels = rng.integers(0, draw(st.sampled_from([1, 4, 30])), num_docs)
    num_segments = draw(st.sampled_from([1, 8, 30]))
    index = segmax.build(docs, clustering=labels, num_segments=num_segments)
    query = as_query(rng, num_terms + 2, draw(st.integers(1, 12)), draw(st.sampled_from([1, 40])))
    share = draw(st.sampled_from([None, *SHARES]))
    mask = None if share is None else random_mask(rng, num_docs, share)
    return docs, index, query, draw(st.sampled_from([1, 3, 10, 100, num_docs])), mask, draw(floors(docs, query))


@st.composite
def floors(draw: st.DrawFn, docs: sp.csr_matrix, query: Query) -> Floor | None:
    """None, or some place in the ranking of all documents: at a result, before or after those that tie with it."""
    rows, scores = twin(docs, query, docs.shape[0])
    kind = draw(st.sampled_from(["none", "result", "ties", "between", "above", "below", "zero", "beyond"]))
    if kind == "none" or not rows:
        return None
    if kind in ("zero", "beyond"):
        return (0.0, -1) if kind == "zero" else (2.0 * scores[0], 0)
    rank = draw(st.integers(0, len(rows) - 1))
    score = float(scores[rank])
    return {
        "result": (score, rows[rank]),
        "ties": (score, -1),
        "between": (score - 0.5, 3),
        "above": (np.nextafter(score, np.inf), -1),  # the score, as another sum may have rounded it
        "below": (np.nextafter(score, 0), 0),
    }[kind]


@settings(max_examples=examples(60), suppress_health_check=list(HealthCheck))
@pytest.mark.filterwarnings("ignore:.* empty:segmax.errors.SegmaxWarning")
@given(cases())
def test_masks_and_floors(case: tuple) -> None:
    """Every exact method returns the best of what the mask and the floor let through, in order, ties included."""
    docs, index, query, k, mask, floor = case
    expected = twin(docs, query, k, mask, floor)
    for name, params in SAFE_METHODS.items():
        hits = found_by(index, query, k, params, mask, floor)
        assert (hits.rows.tolist(), hits.scores.tolist()) == expected, name
        assert hits.complete, name


@pytest.mark.parametrize("name", SAFE_METHODS)
def test_floors_at_and_between_scores(name: str) -> None:
    """Ties with a floor are let in by their rows, or all; a floor between two scores lets none below it in."""
    index = segmax.build(sp.csr_matrix(np.array([[3], [2], [3], [2], [1], [2]])))
    for floor, rows in (
        ((2.0, 3), [0, 2, 1]),
        ((2.0, 0), [0, 2]),
        ((2.0, -1), [0, 2, 1, 3, 5]),
        ((2.0, 10**12), [0, 2, 1, 3, 5]),
        ((2.5, -1), [0, 2]),
        ((np.nextafter(2.0, 3.0), -1), [0, 2]),
        ((np.nextafter(2.0, 1.0), 0), [0, 2, 1, 3, 5]),
        ((3.0, 2), [0]),
        ((3.0, 0), []),
        ((1e300, -1), []),
        ((0.0, 0), [0, 2, 1, 3, 5, 4]),
    ):
        assert found_by(index, {0: 1}, 6, SAFE_METHODS[name], floor=floor).rows.tolist() == rows, floor


@pytest.fixture(scope="module")
def collection() -> tuple[sp.csr_matrix, segmax.Index]:
    """Documents of topics in a hundred clusters: several tiles, so that quads, spans and gates have something to do."""
    rng = np.random.default_rng(9)
    docs, topics = topic_docs(rng, 6000, 50)
    return docs, segmax.build(docs, clustering=topics * 2 + rng.integers(0, 2, 6000), calibrate=False)


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("k", [1, 10, 200])
def test_masks_of_a_larger_collection(collection: tuple, share: float, k: int) -> None:
    """From all documents to none, and the same mask for several queries."""
    docs, index = collection
    rng = np.random.default_rng(int(share * 1000))
    mask = random_mask(rng, docs.shape[0], share)
    for row in range(0, 6000, 997):
        query = {int(t): int(w) for t, w in zip(docs[row].indices, docs[row].data, strict=True)}
        expected = twin(docs, query, k, mask)
        for name, params in SAFE_METHODS.items():
            hits = found_by(index, query, k, params, mask)
            assert (hits.rows.tolist(), hits.scores.tolist()) == expected, name


@pytest.mark.parametrize("mu", [0.4, 0.7, 1.0])
@pytest.mark.parametrize("eta", [0.7, 1.0])
def test_a_floor_of_another_part(collection: tuple, mu: float, eta: float) -> None:
    """The k-th result of one half is the floor of the other; what both find together keeps Proposition 3."""
    docs, _ = collection
    first, second = docs[:3000], docs[3000:]
    labels = np.random.default_rng(1).integers(0, 30, 3000)
    halves = [segmax.build(half, clustering=labels, calibrate=False) for half in (first, second)]
    ways: list[SearchParams] = [
        with_hooks(segmax.ASC(mu=mu, eta=eta), sweep=False, all_tiles=all_tiles) for all_tiles in (0, 2**31)
    ]
    if mu <= eta:
        ways += [paper.ASC(mu=mu, eta=eta), paper.Anytime(mu=mu)]
    k, promised = 10, min(mu, eta)
    for row in range(0, 6000, 311):
        query = {int(t): int(w) for t, w in zip(docs[row].indices, docs[row].data, strict=True)}
        exact = twin(docs, query, k)
        for params in ways:
            one = halves[0].search(query, k=k, params=params)
            floor = (float(one.scores[-1]), int(one.rows[-1])) if len(one) == k else None
            # Every row of the second half comes after those of the first, so ties with the floor lose.
            two = found_by(halves[1], query, k, params, floor=floor and (floor[0], 0))
            assert two.scores.tolist() == halves[1].score(query, two.ids).tolist()
            assert floor is None or (two.scores > floor[0]).all()
            scores = np.sort(np.concatenate([one.scores, two.scores]))[::-1][:k]
            assert (np.cumsum(scores) >= promised * np.cumsum(exact[1]) - 1e-9).all(), params
            if promised == 1.0:
                merged = sorted(
                    [*zip(-one.scores, one.rows, strict=True), *zip(-two.scores, two.rows + 3000, strict=True)]
                )
                assert [int(row) for _, row in merged[:k]] == exact[0]


def test_masks_and_floors_that_are_refused(collection: tuple) -> None:
    """A mask has an entry for each row and belongs to its index; a floor is a score that can be."""
    _, index = collection
    engine, exact = index._engine, segmax.ASC().to_core()
    for length in (0, 5999, 6001):
        with refused(InputError, message="expected a mask with an entry for each row"):
            engine.restricted(exact, rows=np.ones(length, dtype=bool))
    for score in (-1.0, float("nan"), float("inf")):
        with refused(InputError, message="expected a floor with a finite score >= 0"):
            engine.restricted(exact, floor=(score, 0))
    other = segmax.build(sp.csr_matrix(np.eye(3)))
    masked = other._engine.restricted(exact, rows=np.ones(3, dtype=bool))
    with refused(InputError, expected="a mask that was made for this index", got="one of another index"):
        run(index, {0: 1}, 10, masked)


def test_restricted_parameters_are_a_copy(collection: tuple) -> None:
    """The parameters that they were made of search everything, as before."""
    docs, index = collection
    params = segmax.ASC()
    assert len(found_by(index, {3: 1}, 10, params, np.zeros(6000, dtype=bool))) == 0
    assert index.search({3: 1}, k=10, params=params).rows.tolist() == twin(docs, {3: 1}, 10)[0]


# --- ceilings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_segments", [1, 8])
@pytest.mark.parametrize("bits", [8, 16])
def test_no_document_passes_the_ceiling(num_segments: int, bits: int) -> None:
    """It is no lower than MaxSBound of any cluster, and no higher than what all terms of the query can add."""
    rng = np.random.default_rng(bits + num_segments)
    docs = random_docs(rng, 900, 80, 7.0, 2**bits - 1)
    index = segmax.build(docs, clustering=rng.integers(0, 20, 900), bits=bits, num_segments=num_segments)
    largest = docs.max(axis=0).toarray()[0]
    tight = 0
    for _ in range(60):
        query = as_query(rng, 80, int(rng.integers(1, 15)))
        ceiling = index._engine.ceiling(*query_arrays(query))
        most = sum(weight * int(largest[term]) for term, weight in query.items())
        assert index.cluster_bounds(query).max_bound.max() <= ceiling <= most
        tight += ceiling < most
        best = twin(docs, query, 1)
        assert not best[0] or best[1][0] <= ceiling
        # A floor that no document passes leaves nothing to return.
        for params in (segmax.ASC(), paper.ASC(), segmax.Exhaustive()):
            assert len(found_by(index, query, 10, params, floor=(ceiling, 0))) == 0
    assert tight > 0
    assert index._engine.ceiling(*query_arrays({500: 3})) == 0


# --- batches ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_queries_of_a_batch_may_differ_in_everything(collection: tuple, threads: int) -> None:
    """Each with its own k, method, mask and floor: what single searches return, whatever the threads."""
    docs, index = collection
    rng = np.random.default_rng(2)
    queries = [as_query(rng, docs.shape[1] + 5, int(rng.integers(1, 30))) for _ in range(60)]
    ks = rng.integers(1, 40, len(queries))
    methods = [
        *SAFE_METHODS.values(),
        segmax.ASC(mu=0.5),
        segmax.ASC(eta=0.8),
        paper.ASC(mu=0.6),
        segmax.ASC(max_blocks=3),
    ]
    cores = []
    for number, query in enumerate(queries):
        mask = random_mask(rng, 6000, float(rng.choice(SHARES))) if number % 3 == 0 else None
        _, scores = twin(docs, query, 5)
        floor = (float(scores[-1]), -1) if number % 4 == 0 and scores else None
        cores.append(index._engine.restricted(methods[number % len(methods)].to_core(), rows=mask, floor=floor))
    arrays = [query_arrays(query) for query in queries]
    indptr = np.cumsum([0, *(len(terms) for terms, _ in arrays)])
    terms, weights = (np.concatenate(parts) for parts in zip(*arrays, strict=True))
    rows, scores, counts, stats = index._engine.core.search_batch(indptr, terms, weights, ks, cores, threads)
    assert rows.shape == scores.shape == (60, ks.max())
    elapsed = list(_core.stats_fields()).index("elapsed_ns")
    for number, (k, core) in enumerate(zip(ks, cores, strict=True)):
        one_rows, one_scores, one_stats = index._engine.core.search_one(*arrays[number], int(k), core)
        count = int(counts[number])
        assert rows[number, :count].tolist() == one_rows.tolist()
        assert scores[number, :count].tolist() == one_scores.tolist()
        assert (rows[number, count:] == -1).all()
        assert (scores[number, count:] == 0).all()
        assert np.delete(stats[number], elapsed).tolist() == np.delete(one_stats.reshape(-1), elapsed).tolist()


def test_a_batch_needs_one_k_and_parameters_or_as_many_as_queries(collection: tuple) -> None:
    """Anything else is refused; a batch without queries is none of that."""
    _, index = collection
    core, params = index._engine.core, segmax.ASC().to_core()
    indptr, terms, weights = np.array([0, 1, 2, 3]), np.array([1, 2, 3]), np.ones(3)
    for ks in ([], [1, 2], [1, 2, 3, 4]):
        with pytest.raises(ValueError, match="expected one k, or one for each query"):
            core.search_batch(indptr, terms, weights, np.array(ks, dtype=np.int64), [params], 1)
    with pytest.raises(ValueError, match="expected k to be at least 1"):
        core.search_batch(indptr, terms, weights, np.array([1, 0, 1]), [params], 1)
    for count in (0, 2, 4):
        with pytest.raises(ValueError, match="expected one SearchParams, or one for each query"):
            core.search_batch(indptr, terms, weights, np.array([1]), [params] * count, 1)
    none = np.zeros(0, dtype=np.int64)
    for ks in ([], [5]):
        for some in ([], [params]):
            rows, *_ = core.search_batch(np.array([0]), none, np.zeros(0), np.array(ks, dtype=np.int64), some, 2)
            assert len(rows) == 0


# --- budgets ---------------------------------------------------------------------------------------------------------


def late_after(index: segmax.Index, query: Query, k: int, params: SearchParams, readings: int) -> Hits:
    """A search whose clock stands still for so many readings, and then is past every budget."""
    core = index._engine.restricted(params.to_core())
    core.hooks.set_clock([0] * readings + [10**15])
    return run(index, query, k, core)


def spread_query(rng: np.random.Generator) -> Query:
    """A query of terms of many topics, which a search has to look for in many blocks."""
    return as_query(rng, 1500, 25)


@pytest.mark.parametrize("all_tiles", [0, 2**31])
@pytest.mark.parametrize("mu", [1.0, 0.7])
def test_a_budget_says_whether_anything_was_left_out(collection: tuple, all_tiles: int, mu: float) -> None:
    """Wherever time runs out: a complete search is what it would be without a budget; others have left blocks out."""
    docs, index = collection
    rng = np.random.default_rng(3)
    params = with_hooks(segmax.ASC(mu=mu, budget_ms=1e6), sweep=False, all_tiles=all_tiles)
    unlimited = with_hooks(segmax.ASC(mu=mu), sweep=False, all_tiles=all_tiles)
    incomplete = 0
    for _ in range(10):
        query = spread_query(rng)
        exact = index.search(query, k=100, params=unlimited)
        for readings in range(1, 30):
            hits = late_after(index, query, 100, params, readings)
            assert hits.scores.tolist() == index.score(query, hits.ids).tolist()
            assert len(hits) > 0
            assert hits.complete == (not hits.stats.budget_hit)
            assert hits.stats.clusters_limited == 0 or not hits.complete
            if hits.complete:
                assert hits.rows.tolist() == exact.rows.tolist()
            else:
                incomplete += 1
                assert hits.stats.blocks_scored < exact.stats.blocks_scored
        never = late_after(index, query, 100, params, 10**4)
        assert never.complete
        assert (never.rows.tolist(), never.scores.tolist()) == (exact.rows.tolist(), exact.scores.tolist())
        if mu == 1.0:
            assert never.rows.tolist() == twin(docs, query, 100)[0]
    assert incomplete > 0


def test_a_search_that_ends_late_with_nothing_left_is_complete() -> None:
    """The first blocks are always scored; where they are all that can follow, a late search has missed nothing."""
    rng = np.random.default_rng(4)
    docs = random_docs(rng, 40, 12, 5.0)
    index = segmax.build(docs)
    params = with_hooks(segmax.ASC(budget_ms=1e6), sweep=False)
    for _ in range(20):
        query = as_query(rng, 12, 4)
        hits = late_after(index, query, 5, params, 1)
        assert hits.complete
        assert hits.rows.tolist() == twin(docs, query, 5)[0]


def test_a_budget_that_is_too_small_for_bounds(collection: tuple) -> None:
    """Bounds are made of the heaviest terms then; results have their real scores, and are marked as incomplete."""
    docs, index = collection
    rng = np.random.default_rng(5)
    for _ in range(20):
        query = spread_query(rng)
        hits = index.search(query, k=10, params=segmax.ASC(budget_ms=1e-6))
        assert len(hits) > 0
        assert not hits.complete
        assert hits.scores.tolist() == index.score(query, hits.ids).tolist()
        assert not np.setdiff1d(hits.rows, twin(docs, query, docs.shape[0])[0]).size
    batch = index.search_batch([spread_query(rng), {}], params=segmax.ASC(budget_ms=1e-6))
    assert batch.complete.tolist() == [False, True]
    assert batch.complete.dtype == bool


@pytest.mark.parametrize("all_tiles", [0, 2**31])
def test_max_blocks_says_whether_anything_was_left_out(collection: tuple, all_tiles: int) -> None:
    """A limit that is as large as what is needed leaves nothing out."""
    docs, index = collection
    rng = np.random.default_rng(6)
    incomplete = 0
    for _ in range(6):
        query = spread_query(rng)
        needed = index.search(query, k=10, params=with_hooks(segmax.ASC(), sweep=False, all_tiles=all_tiles))
        for limit in (1, 2, 5, 31, 32, 33, 60, 200, needed.stats.blocks_scored, 10**6):
            hits = index.search(query, k=10, params=with_hooks(segmax.ASC(max_blocks=limit), all_tiles=all_tiles))
            assert hits.stats.blocks_scored <= limit
            if hits.complete:
                assert hits.rows.tolist() == twin(docs, query, 10)[0]
            else:
                incomplete += 1
                assert limit < needed.stats.blocks_scored
    assert incomplete > 0


def test_budgets_respect_masks(collection: tuple) -> None:
    """A late search returns nothing that its mask forbids."""
    docs, index = collection
    rng = np.random.default_rng(7)
    for share in (0.5, 0.01, 0.0):
        mask = random_mask(rng, docs.shape[0], share)
        for params in (segmax.ASC(budget_ms=1e-6), paper.ASC(max_clusters=2), paper.Anytime(max_clusters=2)):
            hits = found_by(index, spread_query(rng), 10, params, mask)
            assert mask[hits.rows].all()


@pytest.mark.parametrize("bound_mass", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("all_tiles", [0, 2**31])
def test_bounds_of_some_terms_give_real_scores(collection: tuple, bound_mass: float, all_tiles: int) -> None:
    """Scores have all terms, best first; less is scored than by exact search, and no limit was reached."""
    docs, index = collection
    rng = np.random.default_rng(8)
    params = with_hooks(segmax.ASC(bound_mass=bound_mass), sweep=False, all_tiles=all_tiles)
    missed = 0
    for _ in range(30):
        query = spread_query(rng)
        hits = index.search(query, k=10, params=params)
        assert len(hits) == 10
        assert hits.complete
        assert hits.stats.dropped_terms == 0
        assert hits.scores.tolist() == index.score(query, hits.ids).tolist()
        assert hits.scores.tolist() == sorted(hits.scores.tolist(), reverse=True)
        missed += len(set(twin(docs, query, 10)[0]) - set(hits.rows.tolist()))
    assert missed < 30 * 10 / 2


# --- explanations ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mu", "eta"), [(0.5, 1.0), (0.7, 0.9), (0.8, 0.6)])
def test_the_decision_of_the_gate_is_explained(collection: tuple, mu: float, eta: float) -> None:
    """A document of a pruned cluster is told both bounds, and what they were compared with."""
    docs, index = collection
    params = with_hooks(segmax.ASC(mu=mu, eta=eta, max_clusters=index.num_clusters - 1), sweep=False)
    rng = np.random.default_rng(10)
    pruned = 0
    for _ in range(4):
        query = spread_query(rng)
        decisions = {entry.cluster: entry for entry in index.search(query, k=10, params=params, trace=True).trace or ()}
        for row in twin(docs, query, docs.shape[0])[0][::97]:
            explained = index.explain(query, row, k=10, params=params)
            assert explained.decision == decisions[explained.cluster].decision
            if explained.decision != "pruned":
                continue
            pruned += 1
            numbers = re.search(r"MaxSBound (\S+) <= θ/μ = (\S+) and AvgSBound (\S+) <= θ/η = (\S+)$", explained.reason)
            assert numbers is not None, explained.reason
            assert "its cluster was pruned at θ = " in explained.reason
            largest, by_mu, mean, by_eta = (float(number.replace(",", "")) for number in numbers.groups())
            assert largest <= by_mu
            assert mean <= by_eta
            assert explained.max_bound <= explained.threshold / mu
            assert explained.avg_bound <= explained.threshold / eta
    assert pruned > 0
