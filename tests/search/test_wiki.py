"""The oracle on real vectors: 281,250 Wikipedia passages, 3,490 questions (slow, needs the shared data)."""

from __future__ import annotations

import lzma
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp

import segmax
from conftest import WIKI, wiki_reader
from segmax.paper import Anytime, MaxScore
from segmax.search.hooks import with_hooks

pytestmark = pytest.mark.slow


class Wiki(NamedTuple):
    """Documents, queries, and the clusters that were found by dense embeddings, by their number."""

    docs: sp.csr_matrix
    queries: sp.csr_matrix
    labels: dict[int, np.ndarray]


@pytest.fixture(scope="module")
def vectors() -> Wiki:
    """What lies beside the project."""
    read = wiki_reader()
    labels = {
        m: np.frombuffer(lzma.decompress((WIKI / f"labels-mx-{m}.u16.xz").read_bytes()), np.uint16) for m in (192, 768)
    }
    return Wiki(read.documents(), read.queries()[0], labels)


@pytest.fixture(scope="module")
def wiki(vectors: Wiki) -> tuple[segmax.Index, sp.csr_matrix]:
    """The collection with its given clusters, and the queries."""
    return segmax.build(vectors.docs, clustering=vectors.labels[768]), vectors.queries


@pytest.mark.parametrize("k", [10, 1000])
def test_asc_is_identical_to_exhaustive(wiki: tuple[segmax.Index, sp.csr_matrix], k: int) -> None:
    """μ = η = 1 gives the rows, scores and order of exhaustive search on every query, by either way inside clusters."""
    index, queries = wiki
    exact = index.search_batch(queries, k=k, params=segmax.Exhaustive())
    for params in (
        segmax.ASC(),
        with_hooks(segmax.ASC(), sweep=False, all_tiles=0),
        segmax.paper.ASC(),
        segmax.paper.ASC(documents="maxscore"),
        Anytime(),
        MaxScore(),
    ):
        found = index.search_batch(queries, k=k, params=params)
        assert (found.rows == exact.rows).all(), params
        assert (found.scores == exact.scores).all(), params
    # Ties across the last rank are what makes the order matter.
    if k == 1000:
        deeper = index.search_batch(queries, k=k + 1, params=segmax.Exhaustive())
        assert ((deeper.scores[:, k] == deeper.scores[:, k - 1]) & (deeper.counts > k)).sum() > 100


def test_proposition_3_on_real_vectors(wiki: tuple[segmax.Index, sp.csr_matrix]) -> None:
    """The mean top-k' score is at least μ times exact for every k'."""
    index, queries = wiki
    exact = np.cumsum(index.search_batch(queries, k=10, params=segmax.Exhaustive()).scores, axis=1)
    for mu in (0.3, 0.7, 0.9):
        by_clusters = with_hooks(segmax.ASC(mu=mu), all_tiles=0)
        for params in (segmax.ASC(mu=mu), by_clusters, segmax.paper.ASC(mu=mu), Anytime(mu=mu)):
            found = np.cumsum(index.search_batch(queries, k=10, params=params).scores, axis=1)
            assert (found >= mu * exact).all()


def test_saved_and_mapped(wiki: tuple[segmax.Index, sp.csr_matrix], tmp_path: Path) -> None:
    """The index on disk answers like the one in memory."""
    index, queries = wiki
    index.save(tmp_path / "wiki")
    with segmax.open(tmp_path / "wiki", verify=True) as mapped:
        assert (mapped.search_batch(queries[:200]).rows == index.search_batch(queries[:200]).rows).all()


def visited(index: segmax.Index, queries: sp.csr_matrix) -> tuple[float, float]:
    """The shares of clusters, and of documents in them, whose MaxSBound reaches the final threshold at k = 10."""
    sizes = index.cluster_sizes()
    thresholds = index.search_batch(queries, k=10, params=segmax.Exhaustive()).scores[:, 9]
    shares = []
    for query, threshold in zip(queries, thresholds, strict=True):
        reached = index.cluster_bounds(query).max_bound >= threshold
        shares.append((reached.mean(), sizes[reached].sum() / sizes.sum()))
    clusters, docs = np.mean(shares, axis=0)
    return float(clusters), float(docs)


@pytest.mark.parametrize("num_clusters", [192, 768])
def test_sparse_clusters_are_as_good_as_those_of_dense_embeddings(vectors: Wiki, num_clusters: int) -> None:
    """Sparse() visits at most a tenth more clusters and documents than the supplied labels; sizes are even."""
    queries = vectors.queries[:100]
    config = segmax.BuildConfig(num_clusters=num_clusters, document_order="row")
    given = visited(segmax.build(vectors.docs, clustering=vectors.labels[num_clusters], config=config), queries)
    index = segmax.build(vectors.docs, config=config)
    assert index.num_clusters == num_clusters
    assert index.cluster_sizes().max() <= 3 * index.num_docs / num_clusters
    clusters, docs = visited(index, queries)
    assert clusters <= 1.1 * given[0]
    assert docs <= 1.1 * given[1]


def test_bytes_per_posting(vectors: Wiki) -> None:
    """At most 6.5 by default and 5.0 if compact, and both answer alike."""
    plain = segmax.build(vectors.docs)
    compact = segmax.build(vectors.docs, config=segmax.BuildConfig(compact=True))
    assert plain.num_bytes <= 6.5 * plain.num_postings
    assert compact.num_bytes <= 5.0 * compact.num_postings
    queries = vectors.queries[:300]
    assert (plain.search_batch(queries).rows == compact.search_batch(queries).rows).all()
