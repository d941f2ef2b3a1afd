"""Segments: even or independent by chance, by similarity, or as given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import segmax
from conftest import clusters_of, random_docs, refused, topic_docs
from segmax.building.segments import independent_segments, mixed, random_segments
from segmax.errors import InputError


def has_segments(index: segmax.Index, docs: sp.csr_matrix, segments: np.ndarray) -> bool:
    """Whether the maxima of an index are those of documents with these segments."""
    expected = segmax.build(
        docs,
        clustering=clusters_of(index),
        segments=segments,
        num_segments=index.num_segments,
        document_order=index.config.document_order,
    )
    return bool((stored_maxima(index) == stored_maxima(expected)).all())


def stored_maxima(index: segmax.Index) -> np.ndarray:
    """What an index stores about its segments: levels of wide terms, masks of narrow ones."""
    return np.concatenate([index._open_arrays[name] for name in ("segment_max", "segment_mask")])


# --- even ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_segments", [1, 2, 8, 33, 1_000])
@pytest.mark.parametrize("seed", [0, 1, 2**63 - 1])
def test_even_sizes_differ_by_one_at_most(num_segments: int, seed: int) -> None:
    """In every cluster, small ones too."""
    rng = np.random.default_rng(0)
    clusters = rng.choice(12, 3_000, p=np.r_[0.5, 0.3, np.full(10, 0.02)])
    clusters[:3] = [100, 101, 101]
    segments = random_segments(clusters, num_segments, seed)
    assert segments.max() < num_segments
    for cluster in np.unique(clusters):
        sizes = np.bincount(segments[clusters == cluster], minlength=num_segments)
        assert sizes.max() - sizes.min() <= 1


def test_even_segments_are_by_chance() -> None:
    """Two documents of a cluster share a segment about as often as chance has it, neighbors or not."""
    segments = random_segments(np.zeros(64_000, np.int64), 8, 5)
    for distance in (1, 2, 8, 1_000):
        assert (segments[distance:] == segments[:-distance]).mean() == pytest.approx(1 / 8, abs=0.01)
    assert (random_segments(np.zeros(64_000, np.int64), 8, 6) != segments).mean() == pytest.approx(7 / 8, abs=0.01)


def test_even_segments_of_one_cluster_do_not_depend_on_others() -> None:
    """The rows of a cluster and the seed decide."""
    rng = np.random.default_rng(1)
    clusters = rng.integers(0, 5, 2_000)
    others = np.where(clusters == 3, 3, rng.integers(10, 20, 2_000))
    one, two = random_segments(clusters, 8, 0), random_segments(others, 8, 0)
    assert (one[clusters == 3] == two[clusters == 3]).all()


# --- independent -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_segments", [1, 2, 7, 8, 300])
@pytest.mark.parametrize("seed", [0, 3, 2**63 - 1])
def test_independent_draws_are_uniform(num_segments: int, seed: int) -> None:
    """Chi-squared stays near its degrees of freedom, over all rows and over every other one."""
    segments = independent_segments(300_000, num_segments, seed)
    assert segments.dtype == np.uint32
    for part in (segments, segments[::2], segments[:30_000]):
        counts = np.bincount(part, minlength=num_segments)
        assert len(counts) == num_segments
        expected = len(part) / num_segments
        freedom = num_segments - 1
        assert ((counts - expected) ** 2 / expected).sum() <= freedom + 6 * np.sqrt(2 * freedom)


def test_independent_draws_are_independent() -> None:
    """Of neighbors, and of seeds."""
    segments = independent_segments(200_000, 8, 0)
    for other in (segments[1:], segments[2:], independent_segments(200_000, 8, 1), independent_segments(200_000, 8, 2)):
        table = np.zeros((8, 8))
        np.add.at(table, (segments[: len(other)], other), 1)
        expected = len(other) / 64
        assert ((table - expected) ** 2 / expected).sum() < 63 + 6 * np.sqrt(2 * 63)


def test_independent_draws_depend_on_seed_and_row_alone() -> None:
    """A longer collection begins like a shorter one; clusters do not count."""
    assert (independent_segments(1_000, 8, 4) == independent_segments(5_000, 8, 4)[:1_000]).all()
    assert (independent_segments(1_000, 8, 4) != independent_segments(1_000, 8, 5)).any()
    rng = np.random.default_rng(0)
    docs = random_docs(rng, 1_000, 30, 4.0)
    for clusters in (np.zeros(1_000, int), rng.integers(0, 9, 1_000)):
        config = segmax.BuildConfig(segmentation="independent", seed=4, document_order="row")
        built = segmax.build(docs, clustering=clusters, config=config)
        assert has_segments(built, docs, independent_segments(1_000, 8, 4))


def test_mixing_has_no_repeats() -> None:
    """SplitMix64 is one to one."""
    rows = np.arange(100_000, dtype=np.uint64)
    assert len(np.unique(mixed(rows, 0))) == 100_000
    assert not (mixed(rows, 0) == mixed(rows, 1)).any()
    # The first numbers of the generator as published, started at 0.
    assert int(mixed(np.zeros(1, np.uint64), 0)[0]) == 0xE220A8397B1DCDAF


# --- by similarity ---------------------------------------------------------------------------------------------------


def test_kmeans_puts_near_duplicates_together() -> None:
    """Clusters of a few topics each: documents of one topic share a segment; by chance they would not."""
    rng = np.random.default_rng(2)
    docs, topics = topic_docs(rng, 4_000, 16, words=40, mean_terms=25)
    clusters = topics % 4  # four topics in each
    index = segmax.build(docs, clustering=clusters, config=segmax.BuildConfig(num_segments=4, segmentation="kmeans"))
    assert np.mean([largest_share(index, range(50 + 40 * i, 90 + 40 * i)) for i in range(16)]) > 0.9
    by_chance = segmax.build(docs, clustering=clusters, config=segmax.BuildConfig(num_segments=4))
    assert sum_of_maxima(index) < 0.6 * sum_of_maxima(by_chance)


def sum_of_maxima(index: segmax.Index) -> float:
    """The sum of all segment maxima: small where segments differ in their terms."""
    bounds = index.cluster_bounds(dict.fromkeys(range(index.num_terms), 1))
    return float(bounds.avg_bound.sum() * index.num_segments)


def largest_share(index: segmax.Index, terms: range) -> float:
    """How much of the maxima of some terms is in one segment: nearly all if the documents with them are."""
    bounds = index.cluster_bounds(dict.fromkeys(terms, 1))
    return float(bounds.max_bound.max() / (bounds.avg_bound.sum() * index.num_segments))


def test_copies_share_a_segment() -> None:
    """Documents that are the same are always together."""
    rng = np.random.default_rng(3)
    kinds = sp.csr_matrix(np.kron(np.eye(6), np.ones((1, 5))) * 9)
    kind = rng.permutation(np.repeat(np.arange(6), 50))
    docs = kinds[kind]
    index = segmax.build(docs, clustering=np.zeros(300, int), config=segmax.BuildConfig(segmentation="kmeans"))
    for term in range(docs.shape[1]):
        bounds = index.cluster_bounds({term: 1})
        assert (bounds.avg_bound * 8).tolist() == bounds.max_bound.tolist() == [9]


@pytest.mark.parametrize("segmentation", ["random", "independent", "kmeans"])
def test_segments_follow_the_seed(segmentation: Any) -> None:
    """Another seed, other segments; results are those of exhaustive search all the same."""
    docs, _ = topic_docs(np.random.default_rng(4), 2_000, 10)
    clusters = np.random.default_rng(5).integers(0, 6, 2_000)
    indexes = [
        segmax.build(docs, clustering=clusters, config=segmax.BuildConfig(segmentation=segmentation, seed=seed))
        for seed in (0, 0, 1)
    ]
    maxima = [stored_maxima(index) for index in indexes]
    assert (maxima[0] == maxima[1]).all()
    assert (maxima[0] != maxima[2]).any()
    for row in range(20):
        expected = list(indexes[0].search(docs[row], params=segmax.Exhaustive()))
        assert all(list(index.search(docs[row])) == expected for index in indexes)


def test_a_single_segment_is_the_cluster() -> None:
    """An index of one segment stores nothing about it: all bounds are those of the clusters."""
    rng = np.random.default_rng(8)
    docs = random_docs(rng, 400, 30, 6.0)
    index = segmax.build(docs, clustering=rng.integers(0, 9, 400), num_segments=1)
    assert len(stored_maxima(index)) == 0
    for row in range(20):
        bounds = index.cluster_bounds(docs[row])
        assert bounds.max_bound.tolist() == bounds.avg_bound.tolist() == bounds.bound_sum.tolist()


@pytest.mark.parametrize("segmentation", ["random", "independent", "kmeans"])
@pytest.mark.parametrize("num_segments", [1, 3, 500, 65_535])
def test_more_segments_than_documents(segmentation: Any, num_segments: int) -> None:
    """Some stay empty."""
    docs = random_docs(np.random.default_rng(6), 40, 20, 4.0)
    config = segmax.BuildConfig(num_segments=num_segments, segmentation=segmentation, num_clusters=3)
    index = segmax.build(docs, config=config)
    assert index.num_segments == num_segments
    query = dict.fromkeys(range(20), 1)
    assert list(index.search(query)) == list(index.search(query, params=segmax.Exhaustive()))


# --- given -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("segmentation", ["random", "independent", "kmeans"])
def test_given_segments_rule(segmentation: Any) -> None:
    """Given labels win over the option."""
    rng = np.random.default_rng(7)
    docs = random_docs(rng, 300, 20, 4.0)
    segments = rng.integers(0, 8, 300)
    config = segmax.BuildConfig(segmentation=segmentation, num_clusters=4, document_order="row")
    index = segmax.build(docs, segments=segments, config=config)
    assert has_segments(index, docs, segments)


@pytest.mark.parametrize(
    ("segments", "parts"),
    [
        (np.zeros(8, int), {"expected": "9 segment labels, one per document", "got": r"shape \(8,\)"}),
        (np.zeros((9, 1), int), {"expected": "9 segment labels, one per document", "got": r"shape \(9, 1\)"}),
        (np.zeros(9), {"expected": "integer segment labels", "got": "float64"}),
        (np.arange(9), {"expected": "segment labels below num_segments=8", "got": "8"}),
        (np.arange(9) - 1, {"expected": "segment labels >= 0", "got": "-1 for document 0"}),
        ("even", {"expected": "9 segment labels, one per document", "got": r"shape \(\)"}),
    ],
)
def test_invalid_segments_are_refused(segments: Any, parts: dict[str, str]) -> None:
    """The error says which labels would be right."""
    with refused(InputError, **parts):
        segmax.build(sp.csr_matrix(np.eye(9)), segments=segments)
