"""What a search did with every cluster, and the small questions about ids and terms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import segmax
from conftest import random_docs, refused
from segmax.errors import InputError, UnknownIdError


@pytest.fixture(scope="module")
def index() -> segmax.Index:
    """Some hundred documents in ten clusters."""
    return segmax.build(random_docs(np.random.default_rng(3), 600, 80), num_clusters=10, num_segments=4)


@pytest.mark.parametrize(
    "params", [segmax.ASC(), segmax.paper.ASC(mu=0.6), segmax.paper.Anytime(), segmax.Exhaustive()]
)
def test_every_cluster_is_there_once(index: segmax.Index, params: segmax.ASC) -> None:
    """Bounds hold, the results are those of a search, and each cluster has a decision."""
    query = {1: 2.0, 5: 1.0, 40: 3.0}
    view = index.inside(query, k=7, params=params)
    assert sorted(cluster.cluster for cluster in view.clusters) == list(range(index.num_clusters))
    assert sum(cluster.num_docs for cluster in view.clusters) == 600
    assert view.hits.ids == index.search(query, k=7, params=params).ids
    assert sum(cluster.num_hits for cluster in view.clusters) == 7
    assert view.final_threshold == view.hits.scores[-1]
    bounds = [cluster.max_bound for cluster in view.clusters]
    assert bounds == sorted(bounds, reverse=True)
    for cluster in view.clusters:
        assert cluster.bound_sum >= cluster.max_bound >= max(cluster.avg_bound, cluster.best_score)
        if cluster.num_hits:
            assert cluster.decision == "visited"


def test_the_paper_prunes_what_its_rule_says(index: segmax.Index) -> None:
    """A cluster that was pruned had both bounds below the thresholds when the decision fell."""
    view = index.inside({1: 2.0, 5: 1.0, 40: 3.0}, k=5, params=segmax.paper.ASC(mu=0.5))
    pruned = [cluster for cluster in view.clusters if cluster.decision == "pruned"]
    for cluster in pruned:
        assert cluster.threshold is not None
        assert cluster.max_bound <= cluster.threshold / 0.5
        assert cluster.avg_bound <= cluster.threshold


def test_a_collection_shows_its_largest_part(tmp_path: Path) -> None:
    """Dead documents are not among the results; an empty collection has nothing to show."""
    with segmax.Collection.create(tmp_path / "docs", encoder="bm25") as collection:
        with refused(InputError, got="an empty one"):
            collection.inside("copper")
        collection.add({"a": "copper", "b": "copper wire", "c": "noise"})
        collection.delete("a")
        view = collection.inside("copper", k=3)
        assert sum(cluster.num_hits for cluster in view.clusters) == 1
        assert collection.frequencies([0, 10**9]).tolist()[1] == 0


def test_ids_by_row(index: segmax.Index, tmp_path: Path) -> None:
    """`id_of` undoes `row_of`, and `id_kind` says what ids are."""
    named = segmax.build(random_docs(np.random.default_rng(1), 3, 9), ids=["x", "y", "z"])
    assert [named.id_of(row) for row in range(3)] == ["x", "y", "z"]
    assert (named.id_kind, index.id_kind) == (str, int)
    for row in (-1, 3):
        with refused(UnknownIdError):
            named.id_of(row)
    with segmax.Collection.create(tmp_path / "docs") as collection:
        assert collection.id_kind is None
        collection.add(random_docs(np.random.default_rng(1), 3, 9), ids=["x", "y", "z"])
        collection.delete("y")
        assert collection.id_of(2) == "z"
        for row in (1, 3, -1):
            with refused(UnknownIdError):
                collection.id_of(row)


def test_frequencies_count_documents(index: segmax.Index) -> None:
    """They are those of the stored vectors; unknown terms have none."""
    stored = index.vectors(range(600))
    expected = np.asarray((stored > 0).sum(axis=0)).ravel()
    assert index.frequencies(range(80)).tolist() == expected.tolist()
    assert index.frequencies([-1, 80, 10**6]).tolist() == [0, 0, 0]
