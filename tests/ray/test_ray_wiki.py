"""Real documents on a real cluster of simulated nodes: what one index finds, and the guarantee of ASC below mu = 1."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp

import segmax
import segmax.ray
import segmax.shards
from conftest import wiki_reader

pytest.importorskip("ray.cluster_utils", exc_type=ImportError)
pytestmark = pytest.mark.slow
pytest_plugins = ["ray_cluster"]

NUM_QUERIES = 300


class Wiki(NamedTuple):
    """The documents as one index, and queries."""

    documents: Any
    queries: Any
    whole: segmax.Index


@pytest.fixture(scope="module")
def wiki() -> Wiki:
    """All Wikipedia passages, every tenth one twice: documents of equal scores lie in different places."""
    read = wiki_reader()
    documents = read.documents()
    documents = sp.vstack([documents, documents[::10]], format="csr")
    return Wiki(documents, read.queries()[0][:NUM_QUERIES], segmax.build(documents, calibrate=False))


@pytest.fixture(scope="module", params=[(4, "clusters"), (8, "clusters"), (4, "rows"), (8, "rows")], ids=str)
def index(request: pytest.FixtureRequest, driver: None, wiki: Wiki, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The same documents in shards, which are actors on several nodes."""
    shards, sharding = request.param
    path: Path = tmp_path_factory.mktemp("wiki") / "index"
    segmax.shards.build(wiki.documents, path, shards=shards, sharding=sharding)
    with segmax.ray.open(path) as opened:
        yield opened


@pytest.mark.parametrize("k", [10, 1000])
def test_the_wiki_set_is_searched_as_by_one_index(index: Any, wiki: Wiki, k: int) -> None:
    """Rows, scores and order of exact searches are those of one index, one query at a time and in batches."""
    expected = wiki.whole.search_batch(wiki.queries, k=k)
    found = index.search_batch(wiki.queries, k=k)
    assert np.array_equal(found.rows, expected.rows)
    assert np.array_equal(found.scores, expected.scores)
    assert found.complete.all()
    ties = (expected.scores[:, 1:] == expected.scores[:, :-1]) & (expected.scores[:, 1:] > 0)
    assert ties.sum() > NUM_QUERIES / 10  # of which many are across shards
    for number in range(20):
        one = index.search(wiki.queries[number], k=k)
        assert one.rows.tolist() == expected.rows[number].tolist()


def test_mu_keeps_proposition_3_on_the_wiki_set(index: Any, wiki: Wiki) -> None:
    """At mu = .9, the mean score of the k' best is at least .9 of the exact one, for every k' up to k."""
    exact = wiki.whole.search_batch(wiki.queries, k=10, params=segmax.Exhaustive())
    found = index.search_batch(wiki.queries, k=10, params=segmax.ASC(mu=0.9))
    sums = np.cumsum(found.scores, axis=1), np.cumsum(exact.scores, axis=1)
    assert (sums[0] >= 0.9 * sums[1]).all()


def test_relevance_is_evaluated_as_of_one_index(index: Any, wiki: Wiki) -> None:
    """`segmax.evaluate` takes an index on Ray, and finds the same."""
    exact = wiki.whole.search_batch(wiki.queries[:30], k=3)
    queries = {str(number): wiki.queries[number] for number in range(30)}
    qrels = {str(number): {str(int(exact.rows[number, 0])): 1} for number in range(30)}
    found = [segmax.evaluate(one, queries, qrels, k=10, passes=1) for one in (index, wiki.whole)]
    relevance = [[dict(method.relevance) for method in one] for one in found]
    assert relevance[0] == relevance[1]
