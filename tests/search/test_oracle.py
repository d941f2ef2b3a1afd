"""Every rank-safe method against brute force: ids, scores, order under ties."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import segmax
from conftest import examples, random_docs
from reference import SAFE_METHODS, as_query, best
from segmax.paper import Anytime
from segmax.search.hooks import with_hooks


def check(index: segmax.Index, docs: sp.csr_matrix, query: dict[int, int], k: int, names: list[str]) -> None:
    """Compare the named methods with brute force for one query."""
    rows, scores = best(docs, query, k)
    for name in names:
        hits = index.search(query, k=k, params=SAFE_METHODS[name])
        assert hits.rows.tolist() == rows, name
        assert hits.scores.tolist() == scores, name


@st.composite
def cases(draw: st.DrawFn) -> tuple[sp.csr_matrix, np.ndarray, segmax.BuildConfig, dict[int, int], int]:
    """A collection with labels, a query and a k, with all the edges that have broken engines before."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    num_docs = draw(st.sampled_from([1, 2, 15, 16, 17, 33, 64, 150, 400]))
    num_terms = draw(st.sampled_from([1, 2, 5, 40]))
    largest = draw(st.sampled_from([1, 2, 255]))  # 1: all weights equal, so that everything ties
    bits = draw(st.sampled_from([8, 16]))
    docs = random_docs(
        rng, num_docs, num_terms, draw(st.sampled_from([0.5, 3.0, 8.0])), largest * (257 if bits == 16 else 1)
    )
    kind = draw(st.sampled_from(["one", "few", "gaps", "own", "sizes"]))
    labels = {
        "one": lambda: np.zeros(num_docs, int),
        "few": lambda: rng.integers(0, 4, num_docs),
        "gaps": lambda: rng.integers(0, 5, num_docs) * 1000 + 3,
        "own": lambda: np.arange(num_docs)[::-1],
        "sizes": lambda: np.sqrt(np.arange(num_docs)).astype(int),
    }[kind]()
    config = segmax.BuildConfig(
        num_segments=draw(st.sampled_from([1, 2, 8, 30])), bits=bits, seed=draw(st.integers(0, 9))
    )
    query = as_query(rng, num_terms + 2, draw(st.integers(0, 12)), draw(st.sampled_from([1, 40, 32767])))
    k = draw(st.sampled_from([1, 2, 3, 10, 16, 100, num_docs, num_docs + 5]))
    return docs, labels, config, query, k


@settings(max_examples=examples(100), suppress_health_check=list(HealthCheck))
@pytest.mark.filterwarnings("ignore:.* empty:segmax.errors.SegmaxWarning")
@given(cases())
def test_every_safe_method_equals_brute_force(case: tuple) -> None:
    """All methods, orders, seeds and both document-level algorithms return exactly the best k."""
    docs, labels, config, query, k = case
    index = segmax.build(docs, clustering=labels, config=config)
    check(index, docs, query, k, list(SAFE_METHODS))


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("threads", [1, 2, 3, 4])
def test_batches_are_the_same_for_any_number_of_threads(rng: np.random.Generator, bits: int, threads: int) -> None:
    """A batch gives what its queries give one by one, padded with row -1 and score 0."""
    docs = random_docs(rng, 500, 60, 8.0, 3)
    index = segmax.build(docs, clustering=rng.integers(0, 9, 500), config=segmax.BuildConfig(bits=bits))
    queries = random_docs(rng, 40, 60, 4.0, 3)
    as_dicts = [dict(zip(query.indices.tolist(), query.data.tolist(), strict=True)) for query in queries]
    expected = [best(docs, query, 20) for query in as_dicts]
    for params in SAFE_METHODS.values():
        batch = index.search_batch(queries, k=20, params=params, threads=threads)
        assert batch.rows.shape == batch.scores.shape == (40, 20)
        for i, (rows, scores) in enumerate(expected):
            count = batch.counts[i]
            assert batch.rows[i].tolist() == rows + [-1] * (20 - count)
            assert batch.scores[i].tolist() == scores + [0] * (20 - count)


@pytest.mark.deep
@pytest.mark.parametrize("bits", [8, 16])
def test_clusters_of_more_than_65536_documents(rng: np.random.Generator, bits: int) -> None:
    """A cluster may be larger than a window; its first and last documents are found."""
    num_docs = 150_000
    rows = np.arange(num_docs)
    columns = rng.integers(0, 3, num_docs)
    docs = sp.csr_matrix((rng.integers(1, 200, num_docs), (rows, columns)), shape=(num_docs, 3))
    labels = np.where(rows < 140_000, 0, 1)
    index = segmax.build(docs, clustering=labels, config=segmax.BuildConfig(bits=bits))
    assert index.cluster_sizes().tolist() == [140_000, 10_000]
    everything = index.search({0: 1, 1: 1, 2: 1}, k=num_docs + 1)
    assert everything.rows.tolist() == np.lexsort((rows, -docs.data)).tolist()
    for query in ({0: 1}, {1: 2, 2: 3}, {0: 1, 1: 1, 2: 1}):
        check(index, docs, query, 700, list(SAFE_METHODS))
    first_and_last = index.score({0: 1, 1: 1, 2: 1}, [0, 139_999, 140_000, 149_999])
    assert first_and_last.tolist() == docs.data[[0, 139_999, 140_000, 149_999]].tolist()


@pytest.mark.deep
def test_collections_of_more_tiles_than_are_bounded_whole(rng: np.random.Generator) -> None:
    """With more tiles than `all_tiles` quads are bounded first; the results stay exact."""
    num_docs = 560_000
    labels = rng.integers(0, 700, num_docs)
    common = rng.integers(0, 4, num_docs)
    own = 4 + labels % 50
    docs = sp.csr_matrix(
        (rng.integers(1, 256, 2 * num_docs), np.stack([common, own], axis=1).ravel(), np.arange(num_docs + 1) * 2),
        shape=(num_docs, 54),
    )
    index = segmax.build(docs, clustering=labels, config=segmax.BuildConfig(document_order="row"))
    assert len(index._open_arrays["position_row"]) > 512 * 1024
    for query in ({0: 1}, {4: 3, 9: 2}, {0: 7, 1: 3, 20: 5, 40: 5}, dict.fromkeys(range(54), 2)):
        scores = docs @ np.array([query.get(term, 0) for term in range(54)])
        order = np.lexsort((np.arange(num_docs), -scores))
        for k in (1, 10, 1000):
            for params in (
                with_hooks(segmax.ASC(), sweep=False, all_tiles=512),
                with_hooks(segmax.ASC(), sweep=False, all_tiles=512, estimate_threshold=False),
                Anytime(),
            ):
                hits = index.search(query, k=k, params=params)
                assert hits.rows.tolist() == order[:k].tolist()
                assert hits.scores.tolist() == scores[order[:k]].tolist()


@pytest.mark.parametrize("k", [10, 100])
def test_exactly_k_documents_that_all_score_the_seed(k: int) -> None:
    """A threshold seed equal to the final θ prunes none of the k documents that reach it."""
    docs = sp.vstack(
        [sp.csr_matrix(([5], ([0], [0])), shape=(1, 2))] * k + [sp.csr_matrix(([4], ([0], [0])), shape=(1, 2))] * 300
    ).tocsr()
    labels = np.arange(docs.shape[0]) % 7
    index = segmax.build(docs[::-1].tocsr(), clustering=labels)
    check(index, docs[::-1].tocsr(), {0: 3}, k, list(SAFE_METHODS))


def test_a_tie_at_the_threshold_is_won_by_the_smaller_row_in_a_later_cluster() -> None:
    """A cluster whose bound equals θ is visited where one of its rows comes before the k-th result."""
    # Row 2 lies alone in a cluster with bound 5; rows 5.. in one with a higher bound give θ = 5 first.
    weights = np.array([[0, 0], [0, 0], [5, 0], [0, 0], [0, 0], [5, 0], [0, 6], [5, 0]])
    docs = sp.csr_matrix(weights)
    index = segmax.build(docs, clustering=[0, 0, 1, 0, 0, 2, 2, 2])
    for params in SAFE_METHODS.values():
        assert index.search({0: 1, 1: 1}, k=2, params=params).rows.tolist() == [6, 2]


@pytest.mark.parametrize("simd", ["avx512", "avx2", "neon", "portable"])
def test_all_instruction_sets_give_the_same(simd: str) -> None:
    """SEGMAX_SIMD forces one of them; a fresh process searches with it and checks itself."""
    program = f"""
import numpy as np, segmax, sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from conftest import random_docs
from reference import SAFE_METHODS, as_query, best
assert segmax._core.simd_level() == {simd!r}
rng = np.random.default_rng(1)
docs = random_docs(rng, 700, 50, 9.0)
index = segmax.build(docs, clustering=rng.integers(0, 6, 700))
for _ in range(20):
    query = as_query(rng, 50, 9)
    rows, scores = best(docs, query, 15)
    for params in SAFE_METHODS.values():
        hits = index.search(query, k=15, params=params)
        assert hits.rows.tolist() == rows and hits.scores.tolist() == scores
"""
    result = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "SEGMAX_SIMD": simd},
        capture_output=True,
        text=True,
    )
    if "which this CPU or build does not have" in result.stderr:
        pytest.skip(f"this CPU has no {simd}")
    assert result.returncode == 0, result.stderr


def test_an_instruction_set_that_does_not_exist() -> None:
    """SEGMAX_SIMD with a wrong name is a ConfigError that lists the right ones."""
    program = "import scipy.sparse as sp, segmax; segmax.build(sp.csr_matrix([[1]]))"
    result = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "SEGMAX_SIMD": "foo"}, capture_output=True, text=True
    )
    last = result.stderr.strip().splitlines()[-1]
    names = "'avx512', 'avx2', 'neon' or 'portable'"
    assert last == f"segmax.base.errors.ConfigError: expected SEGMAX_SIMD to be {names}, got 'foo'"
