"""Sums are exact integers, however many terms and however large the codes."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import segmax
from reference import SAFE_METHODS


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("num_terms", [1, 257, 514, 2_057, 30_000])
def test_long_queries_at_the_largest_codes(num_terms: int, bits: int) -> None:
    """Every method scores like Python integers, and so do the bounds, where 32 bits would have wrapped."""
    largest = 2**bits - 1
    weight = 32_767
    docs = sp.csr_matrix(np.vstack([np.full(num_terms, largest), np.full(num_terms, largest), np.full(num_terms, 1)]))
    index = segmax.build(
        docs, clustering=[0, 0, 1], segments=[0, 1, 0], config=segmax.BuildConfig(bits=bits, num_segments=2)
    )
    query = (np.arange(num_terms), np.full(num_terms, weight))
    expected = [largest * weight * num_terms, largest * weight * num_terms, weight * num_terms]
    for name, params in SAFE_METHODS.items():
        hits = index.search(query, k=3, params=params)
        assert [int(score) for score in hits.scores] == expected, name
        assert hits.rows.tolist() == [0, 1, 2], name
    bounds = index.cluster_bounds(query)
    assert [int(b) for b in bounds.bound_sum] == [expected[0], expected[2]]
    assert [int(b) for b in bounds.max_bound] == [expected[0], expected[2]]
    assert [float(b) for b in bounds.avg_bound] == [expected[0], expected[2] / 2]


def test_many_segments_at_the_largest_codes() -> None:
    """The sum of segment maxima is stored exactly for more segments than 16 bits hold sums of."""
    num_segments = 600
    docs = sp.csr_matrix(np.full((num_segments, 1), 255))
    index = segmax.build(
        docs,
        clustering=np.zeros(num_segments, int),
        segments=np.arange(num_segments),
        config=segmax.BuildConfig(num_segments=num_segments),
    )
    assert index.cluster_bounds({0: 32_767}).avg_bound.tolist() == [255 * 32_767]
    trace = index.search({0: 32_767}, k=1, params=segmax.paper.ASC(cluster_order="bound_sum", mu=0.9), trace=True).trace
    assert trace is not None
    assert len(trace) == 1


@pytest.mark.parametrize("bits", [8, 16])
def test_weights_that_are_not_whole_numbers_keep_the_order(bits: int, rng: np.random.Generator) -> None:
    """A positive query weight never becomes 0, however small beside the others."""
    docs = sp.csr_matrix(np.array([[1.0, 0.0], [1.0, 0.001]]))
    index = segmax.build(docs, config=segmax.BuildConfig(bits=bits))
    assert index.search({0: 1e6, 1: 1e-6}, k=2).rows.tolist() == [1, 0]
