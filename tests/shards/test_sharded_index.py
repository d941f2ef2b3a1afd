"""An index of shards in one process: the results of one index, fewer shards asked, and all of its other methods."""

from __future__ import annotations

import asyncio
import json
import math
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import segmax
from conftest import examples
from segmax.collection.part import Documents, small_part
from segmax.errors import ConfigError, ShardsUnavailableError
from segmax.search.results import STATS_FIELDS
from segmax.shards import found as found_features
from segmax.shards import router
from segmax.shards.asking import Asking, Decision, Rules, scaled_threshold
from segmax.shards.asking_one import AskingOne
from segmax.shards.found import ShardedDocs
from segmax.shards.making.building import build
from segmax.shards.opening import open_local
from segmax.shards.routed import RoutingTable
from segmax.shards.router import Bounds, Prepared, Router
from segmax.shards.searching import prepared
from segmax.shards.shard import Floors, Found, LatticeArrays, Shard
from segmax.shards.sharded import ShardedIndex
from segmax.shards.transport import Call, LocalTransport, Missing
from segmax.vectors.csr import Csr

Kind = str


def collection(kind: Kind, num_docs: int = 1200, num_terms: int = 150, seed: int = 0) -> sp.csr_matrix:
    """Return documents of a few topics: whole weights with many ties, or real ones."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(num_terms, 0.05), 12)
    rows = []
    for _ in range(num_docs):
        terms = np.unique(rng.choice(num_terms, 14, p=0.9 * topics[rng.integers(12)] + 0.1 / num_terms))
        weights = rng.integers(1, 4, len(terms)) if kind == "whole" else rng.gamma(2.0, 1.0, len(terms))
        rows.append(sp.csr_matrix((weights, terms, [0, len(terms)]), shape=(1, num_terms), dtype=np.float64))
    return sp.vstack(rows, format="csr")


def questions(kind: Kind, documents: sp.csr_matrix, count: int = 60, seed: int = 1) -> sp.csr_matrix:
    """Return queries: a few terms of documents."""
    rng = np.random.default_rng(seed)
    rows = []
    for row in rng.integers(documents.shape[0], size=count):
        own = documents[row]
        terms = rng.choice(own.indices, min(4, own.nnz), replace=False)
        weights = rng.integers(1, 3, len(terms)) if kind == "whole" else rng.random(len(terms)) + 0.1
        rows.append(sp.csr_matrix((weights, terms, [0, len(terms)]), shape=own.shape, dtype=np.float64))
    return sp.vstack(rows, format="csr")


class Pair:
    """The same documents as one index, and in shards."""

    def __init__(self, kind: Kind, sharding: str, path: Path, num_shards: int = 8) -> None:
        self.documents = collection(kind)
        self.queries = questions(kind, self.documents)
        self.one = segmax.build(self.documents)
        build(self.documents, path, shards=num_shards, sharding=sharding, num_clusters=48)
        self.many = open_local(path)


@pytest.fixture(scope="module", params=[(kind, how) for kind in ("whole", "real") for how in ("clusters", "rows")])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """Documents with whole or real weights, in shards by clusters or by rows."""
    kind, sharding = request.param
    return Pair(kind, sharding, tmp_path_factory.mktemp("sharded") / "index")


@pytest.mark.parametrize("order", [1, -1])
def test_documents_of_results_are_looked_up_a_few_at_a_time(order: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In whatever order they are wanted, each once; no more than a few are fetched for one."""
    monkeypatch.setattr(found_features, "_MOST_LOOKED_UP", 4)
    asked: list[list[int]] = []

    def look_up(calls: Sequence[tuple[int, str, Any]]) -> list[Any]:
        asked.append([1000 * shard + row for shard, _, rows in calls for row in rows.tolist()])
        return [[f"{method} {shard} {row}" for row in rows.tolist()] for shard, method, rows in calls]

    numbers = np.array([[7, 3, 9, 5, 1], [4, 3, 8, 0, -1]])
    docs = ShardedDocs(look_up, numbers, numbers % 2, numbers * 10, has_texts=True, has_metadata=True)
    wanted = [7, 3, 9, 5, 1, 4, 8, 0][::order]
    for method, read in (("texts", docs.text_of), ("metadata", docs.metadata_of)):
        assert [read(number) for number in wanted] == [f"{method} {number % 2} {number * 10}" for number in wanted]
        assert [len(places) for places in asked] == [4, 4]
        assert sorted(number for places in asked for number in places) == sorted(
            1000 * (number % 2) + 10 * number for number in wanted
        )
        asked.clear()


def same(found: segmax.BatchHits, expected: segmax.BatchHits) -> None:
    """Compare rows, scores and counts, exactly."""
    assert found.counts.tolist() == expected.counts.tolist()
    assert np.array_equal(found.rows, expected.rows)
    assert np.array_equal(found.scores, expected.scores)


@pytest.mark.parametrize("k", [1, 10, 100, 5000])
def test_exact_search_of_shards_is_that_of_one_index(pair: Pair, k: int) -> None:
    """Exact searches of shards return the same rows, scores and order as one index, ties across shards included."""
    same(pair.many.search_batch(pair.queries, k=k), pair.one.search_batch(pair.queries, k=k))


@pytest.mark.parametrize("max_shards", [None, 3])
@pytest.mark.parametrize("mu", [1.0, 0.8])
def test_one_query_is_decided_about_as_in_a_batch(pair: Pair, mu: float, max_shards: int | None) -> None:
    """One query alone asks the same shards, and counts the same work, as it does in a batch."""
    params = segmax.ASC(mu=mu)
    batch = pair.many.search_batch(pair.queries, k=10, params=params, max_shards=max_shards)
    for number, query in enumerate(pair.queries):
        one = pair.many.search(query, k=10, params=params, max_shards=max_shards)
        assert one.routing == batch.routing(number)
        assert one.rows.tolist() == batch[number].rows.tolist()
        assert one.scores.tolist() == batch[number].scores.tolist()
        stats = [{**vars(found.stats), "elapsed_ns": 0} for found in (one, batch[number])]
        assert stats[0] == stats[1]


@pytest.mark.parametrize(
    "params",
    [
        segmax.Exhaustive(),
        segmax.ASC(max_terms=2),
        segmax.ASC(query_mass=0.6),
        segmax.ASC(max_terms=2, dropped="bounded"),
        segmax.paper.MaxScore(),
        segmax.paper.ASC(),
    ],
    ids=str,
)
def test_exact_methods_agree_with_one_index(pair: Pair, params: segmax.SearchParams) -> None:
    """Every method that is exact, or drops terms before it is, returns what it returns on one index."""
    expected = pair.one.search_batch(pair.queries, k=10, params=params)
    same(pair.many.search_batch(pair.queries, k=10, params=params), expected)


def test_mu_keeps_proposition_3(pair: Pair) -> None:
    """At mu < 1 and eta = 1 the mean score of the k' best is at least mu times the exact one, for every k' <= k."""
    for mu in (0.9, 0.5):
        found = pair.many.search_batch(pair.queries, k=10, params=segmax.ASC(mu=mu))
        exact = pair.one.search_batch(pair.queries, k=10, params=segmax.Exhaustive())
        means = np.cumsum(found.scores, axis=1), np.cumsum(exact.scores, axis=1)
        assert (means[0] >= mu * means[1] * (1 - 1e-12)).all()


def test_bounds_of_shards_hold(pair: Pair) -> None:
    """No document of a shard scores more than the router's bound, and the average bound is no higher than it."""
    search = pair.many._search
    queries = search.prepare(pair.many._batch(pair.queries), [segmax.ASC()])
    bounds = pair.many.router.bounds(queries)
    transport = pair.many._parts.transport
    for shard in range(pair.many.num_shards):
        (found,) = transport.ask([Call(shard, "search", (queries, [1], [segmax.Exhaustive()]))])
        best = np.where(found.counts > 0, found.scores[:, 0] if found.scores.shape[1] else 0, 0)
        assert (bounds.most[:, shard] >= best).all()
    assert (bounds.average <= bounds.most).all()
    assert (pair.many.router.coarse(queries).most >= bounds.most).all()


def test_shards_that_cannot_matter_are_not_asked(tmp_path: Path) -> None:
    """Of documents in topics that share no word, a query asks the shards of its own topic alone."""
    documents = sp.kron(sp.identity(8), collection("whole", 200, 40), format="csr")
    build(documents, tmp_path / "index", shards=8, num_clusters=32)
    many, one = open_local(tmp_path / "index"), segmax.build(documents)
    queries = questions("whole", documents, 50)
    found = many.search_batch(queries, k=5)
    same(found, one.search_batch(queries, k=5))
    assert found.shards_asked.mean() < 4
    assert found.complete.all()
    routing = found.routing(0)
    assert len(routing.asked) + len(routing.ruled_out) == 8
    assert not routing.approximate


def test_max_shards_asks_no_more_and_says_so(pair: Pair) -> None:
    """With `max_shards`, at most so many shards are asked; results are flagged unless bounds prove them exact."""
    exact = pair.one.search_batch(pair.queries, k=10)
    for limit in (1, 2, 8):
        found = pair.many.search_batch(pair.queries, k=10, max_shards=limit)
        assert found.shards_asked.max() <= limit
        for number in np.flatnonzero(found.complete):
            assert found.rows[number].tolist() == exact.rows[number].tolist()
    assert found.complete.all()
    one = pair.many.search(pair.queries[0], max_shards=1)
    assert one.complete == (not one.routing.approximate)
    assert len(one.routing.asked) == 1


@pytest.mark.parametrize("k", [3, 128, 129, 5000])
def test_batches_of_one_query_or_none_have_the_shape_of_others(pair: Pair, k: int) -> None:
    """Results are padded to k, whichever way a batch is answered, as those of one index are."""
    rare = sp.csr_matrix(([1.0], ([0], [int(np.diff(pair.documents.tocsc().indptr).argmin())])), shape=(1, 150))
    for queries in (rare, sp.vstack([rare, rare], format="csr"), rare[:0]):
        same(pair.many.search_batch(queries, k=k), pair.one.search_batch(queries, k=k))


def test_no_limit_needs_no_sketch(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all shards may be asked, nothing has to choose among them: it is the search without a limit."""
    expected = pair.many.search_batch(pair.queries, k=10)

    def promise(*_: Any) -> None:
        raise AssertionError("the sketch was computed")

    monkeypatch.setattr(Router, "promise", promise)
    for most in (8, 100):
        same(pair.many.search_batch(pair.queries, k=10, max_shards=most), expected)
        assert pair.many.search(pair.queries[0], max_shards=most).routing == expected.routing(0)


def trusting(num_shards: int) -> RoutingTable:
    """What was measured, where one shard seems to be enough for every target."""
    return RoutingTable((0.99,) * (num_shards - 1) + (1.0,), num_queries=500, source="given queries")


def test_a_target_recall_is_about_what_was_measured(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """It limits the shards of searches as deep as the measured ones; others are exact, in a batch query by query."""
    monkeypatch.setattr(pair.many, "routing", trusting(8))
    few = pair.many.search_batch(pair.queries, k=10, max_shards=1)
    assert not few.complete.all()
    for k, offset in ((10, 0), (7, 3), (1, 9), (9, 0), (10, 1), (1, 10), (11, 0), (1000, 0)):
        cut: dict[str, Any] = {"k": k, "offset": offset}
        is_limited = k + offset == 10
        expected = pair.many.search_batch(pair.queries, **cut, max_shards=1 if is_limited else None)
        how = {**cut, "target_recall": 0.9}
        same(pair.many.search_batch(pair.queries, **how), expected)
        same(asyncio.run(pair.many.search_batch_async(pair.queries, **how)), expected)
        assert pair.many.search(pair.queries[4], **how).rows.tolist() == expected[4].rows.tolist()
        awaited = asyncio.run(pair.many.search_async(pair.queries[4], **how))
        assert awaited.rows.tolist() == expected[4].rows.tolist()
    ks = [(10, 11, 9)[number % 3] for number in range(pair.queries.shape[0])]
    mixed = pair.many.search_batch(pair.queries, ks, target_recall=0.9)
    for number, k in enumerate(ks):
        expected = few if k == 10 else pair.one.search_batch(pair.queries, k=k)
        assert mixed[number].rows.tolist() == expected[number].rows.tolist()
    assert len(pair.many.search_batch(pair.queries[:0], [], target_recall=0.9)) == 0


def test_coarse_bounds_do_not_depend_on_slices(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds of many queries are computed a few at a time."""
    queries = pair.many._search.prepare(pair.many._batch(pair.queries), [segmax.ASC()])
    expected = pair.many.router.coarse(queries)
    monkeypatch.setattr(router, "_POSTINGS", 50)
    for found, whole in zip(pair.many.router.coarse(queries), expected, strict=True):
        assert np.array_equal(found, whole)


def test_event_loops_are_not_blocked(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Encoding, bounds and merging run in other threads than the event loop."""
    main, threads = threading.get_ident(), set()
    real = {ShardedIndex: ("_one", "_batch"), Router: ("bounds",)}

    def noted(function: Any) -> Any:
        def call(*args: Any) -> Any:
            threads.add(threading.get_ident())
            return function(*args)

        return call

    for kind, names in real.items():
        for name in names:
            monkeypatch.setattr(kind, name, noted(getattr(kind, name)))

    async def both() -> None:
        await pair.many.search_async(pair.queries[0])
        await pair.many.search_batch_async(pair.queries)

    asyncio.run(both())
    assert threads
    assert main not in threads


def test_explanations_name_the_shard(pair: Pair) -> None:
    """An explanation says which shard has the document, its score, and its rank among all shards."""
    query = pair.queries[1]
    hits = pair.one.search(query, k=3)
    found = pair.many.explain(query, hits.ids[0], k=3)
    assert found.rank == 1
    assert found.score == hits.scores[0]
    assert found.shard_decision == "asked"
    assert f"shard {found.shard})" in found.reason
    worst = int(pair.one.search(query, k=10_000).ids[-1])
    lost = pair.many.explain(query, worst, k=1)
    assert lost.rank is None
    assert "is not returned" in lost.reason
    left = pair.many.explain(query, worst, k=1, max_shards=1)
    assert left.shard_decision in ("asked", "ruled out", "left out")


def test_documents_are_found_wherever_they_are(pair: Pair) -> None:
    """Frequencies are those of one index, and so is which documents there are."""
    assert pair.many.frequencies([0, 5, 999]).tolist() == pair.one.frequencies([0, 5, 999]).tolist()
    assert 5 in pair.many
    assert 5000 not in pair.many
    assert pair.many.cluster_sizes().sum() == 1200


def test_statistics_count_all_shards(pair: Pair) -> None:
    """Clusters of shards that were not asked count as stopped, so that all clusters are accounted for."""
    stats = pair.many.search(pair.queries[0], k=3).stats
    names = ("visited", "pruned", "tied", "stopped", "limited", "zero")
    assert sum(getattr(stats, f"clusters_{name}") for name in names) == pair.many.num_clusters
    assert stats.elapsed_ns > 0


@pytest.mark.parametrize(
    "options",
    [{"max_shards": 0}, {"max_shards": 2, "target_recall": 0.9}, {"deadline_s": 0}, {"allow_partial": "no"}],
)
def test_bad_arguments_are_refused(pair: Pair, options: dict[str, Any]) -> None:
    """What makes no sense is an error that names it."""
    with pytest.raises(ConfigError):
        pair.many.search(pair.queries[0], **options)


class Unsteady(LocalTransport):
    """Shards of which some give no answer."""

    def __init__(self, inner: Any, silent: Sequence[int]) -> None:
        super().__init__(inner._shards)
        self._silent = silent

    def ask(self, calls: Sequence[Call], *, deadline: float | None = None, allow_partial: bool = False) -> list[Any]:
        if not allow_partial and any(call.shard in self._silent for call in calls):
            raise ShardsUnavailableError("a shard gave no answer")
        silent = [call.shard in self._silent for call in calls]
        found = super().ask([call for call, is_silent in zip(calls, silent, strict=True) if not is_silent])
        return [Missing(call.shard, "down") if off else found.pop(0) for call, off in zip(calls, silent, strict=True)]


def test_partial_answers_are_marked(pair: Pair) -> None:
    """Where partial answers are allowed, results of the other shards come, with the share of documents missing."""
    parts = pair.many._parts
    silent = [0, 3]
    index = ShardedIndex(type(parts)(**{**vars(parts), "transport": Unsteady(parts.transport, silent)}))
    rows = {int(row) for shard in silent for row in parts.transport._shards[shard]._part.numbers}  # type: ignore[attr-defined]
    expected = pair.one.search_batch(pair.queries, k=5000)
    for number in range(10):
        query = pair.queries[number]
        found = index.search(query, k=20, allow_partial=True)
        kept = [row for row in expected.rows[number].tolist() if row >= 0 and row not in rows][:20]
        assert found.rows.tolist() == kept
        if found.routing.missing:
            assert not found.complete
            assert found.routing.missing_share > 0
    with pytest.raises(ShardsUnavailableError):
        index.search(pair.queries[0], k=5000)


def test_filters_and_groups_of_wide_fields(tmp_path: Path) -> None:
    """Groups of fields without columns, those that are awaited, and a target recall are those of one index."""
    words = ["copper", "noise", "diode", "wave", "guide", "tube", "valve", "relay"]
    rng = np.random.default_rng(4)
    wide = "w" * 140  # too long a name for columns
    records = [
        {"id": f"d{row}", "text": " ".join(rng.choice(words, 6)), "year": int(1950 + row % 7), "lang": str(row % 3)}
        | {wide: row % 40}
        for row in range(300)
    ]
    path = tmp_path / "docs.jsonl"
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    build(path, tmp_path / "index", shards=4, encoder="bm25", metadata="all", num_clusters=16)
    many = open_local(tmp_path / "index")
    many.routing = trusting(4)
    one = segmax.from_texts(path, metadata="all")
    for query in ("copper noise", "relay", "diode wave guide tube"):
        expected = one.search(query, k=3, group_by="lang", group_size=2)
        groups = [asyncio.run(many.search_async(query, k=3, group_by="lang", group_size=2))]
        groups.append(many.search(query, k=3, group_by="lang", group_size=2, target_recall=0.9))
        for found in groups:
            assert [(g.value, g.hits.ids) for g in found] == [(g.value, g.hits.ids) for g in expected]
        for where in (None, {"year": {"$gte": 1953}}, {wide: {"$lt": 30}}):
            how = {"k": 9, "where": where, "group_by": wide, "group_size": 5}
            found, expected = ([(g.value, g.hits.ids) for g in index.search(query, **how)] for index in (many, one))
            assert found == expected
            assert len(found) == 9
        own = {"year": 1951}
        assert many.search(query, where=own, target_recall=0.9).ids == one.search(query, where=own).ids
        batch = many.search_batch([query] * 3, where=[own, None, own], target_recall=0.9)
        assert batch.ids[0] == batch.ids[2] == one.search(query, where=own).ids
        assert batch.ids[1] == many.search(query, max_shards=1).ids
    years = np.array([1950.0, 1952.0])
    assert many.count({"year": {"$in": years}}) == one.count({"year": {"$in": [1950, 1952]}}) > 0
    assert many.count({"year": {"$in": years.view(np.int64)}}) == 0  # the same bytes


@settings(max_examples=examples(5), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**31), num_docs=st.integers(1, 80), shards=st.integers(1, 9), k=st.integers(1, 30))
def test_any_collection_agrees(
    tmp_path_factory: pytest.TempPathFactory, seed: int, num_docs: int, shards: int, k: int
) -> None:
    """Whatever the documents, shards and k, exact search of shards is that of one index."""
    rng = np.random.default_rng(seed)
    documents = sp.random(num_docs, 30, 0.2, format="csr", random_state=seed)
    documents.data = np.ceil(documents.data * 3) if seed % 2 else documents.data
    queries = sp.random(8, 30, 0.2, format="csr", random_state=seed + 1)
    if not documents.nnz or not queries.nnz:
        return
    path = tmp_path_factory.mktemp("any") / "index"
    sharding = ("clusters", "rows")[rng.integers(2)]
    build(documents, path, shards=shards, sharding=sharding, num_clusters=int(rng.integers(1, 12)))
    same(open_local(path).search_batch(queries, k=k), segmax.build(documents).search_batch(queries, k=k))


def test_decisions_are_what_users_read(pair: Pair) -> None:
    """Every shard is asked, ruled out or left out in the end."""
    found = pair.many.search_batch(pair.queries, k=10, max_shards=3)
    assert not (found.decisions == Decision.OPEN).any()


#: Two sums that are the same number as floats.
LEAST = 2**53 + 4
assert float(LEAST) == float(LEAST + 1) == LEAST


@pytest.mark.parametrize("eta", [1.0, 0.9])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_scores_that_floats_would_take_for_ties_are_none(k: int, eta: float) -> None:
    """Shards whose bounds exceed theta by 1 of 2**53 are asked, and their results come first."""
    scores = [LEAST, LEAST + 1, LEAST + 1, LEAST - 1]
    expected = [1, 2, 0][:k]
    most = np.array([scores])
    bounds = Bounds(most, most.astype(np.float64), most.astype(np.float64))
    query = Prepared(np.array([0, 0]), np.zeros(0, np.int64), np.zeros(0), np.ones(1), np.zeros((1, 2), np.uint64))
    first_rows = np.arange(4)
    rules = Rules(np.ones(1), np.array([eta]), np.array([4]))
    many = Asking(query, bounds, bounds.promise, np.array([k]), rules, first_rows, np.ones(4, np.int64), k)
    one = AskingOne(query, bounds, bounds.promise, k, 1.0, eta, None, first_rows.tolist(), [1] * 4)
    stats = np.zeros((1, len(STATS_FIELDS)), np.uint64)
    asking: Asking | AskingOne
    for asking in (many, one):
        while asks := asking.next():
            answers: list[Found | None] = []
            for ask in asks:
                own = np.array([[scores[ask.shard]]])
                number = np.array([[ask.shard]])
                answers.append(Found(own, number, np.zeros_like(number), np.array([1]), stats, None))
                if ask.floors is not None:
                    assert ask.floors.scores.dtype == np.int64
            asking.take(asks, answers)
        asking.finish()
    assert many.best.numbers[0].tolist() == [result.number for result in one.best] == expected
    assert many.best.scores[0].tolist() == [-result.minus_score for result in one.best] == [scores[n] for n in expected]
    assert many.decisions[0].tolist() == one.decisions
    assert (many.decisions[0, 3] == Decision.RULED_OUT) == (k == 1)  # with more, theta is known when all were asked


@pytest.mark.parametrize(("theta", "factor"), [(LEAST + 1, 1.0), (2**62, 0.1), (7, 0.9), (1000, 0.3), (3, 0.5)])
def test_a_bound_is_compared_with_the_largest_integer_that_is_low_enough(theta: int, factor: float) -> None:
    """That is θ itself at factor 1, however large; nothing beyond the range of integers, and otherwise θ / factor."""
    expected = theta if factor == 1.0 else min(math.floor(theta / factor), 2**62)
    assert scaled_threshold(theta, factor) == expected


@pytest.mark.slow
def test_shards_and_bounds_keep_sums_above_what_floats_hold() -> None:
    """A shard returns such a sum to the last unit, and compares it so with a floor."""
    num_terms = 2**22 + 2**10
    weights = np.full(num_terms, 32767.0)
    weights[0] = 1.0
    codes = np.full(num_terms, 65535, dtype=np.uint16)
    terms = np.arange(num_terms, dtype=np.int64)
    codes[0] -= (int(weights.sum()) * 65535 - 1) % 4
    score = int(weights.astype(np.int64) @ codes.astype(np.int64))
    assert score > 2**53
    assert int(float(score)) == score - 1
    lattice = LatticeArrays(np.ones(num_terms), np.full(num_terms, 65535, np.uint32))
    own = Csr(np.array([0, num_terms]), terms, codes, num_terms)
    documents = Documents(own, {"id_number": np.array([7])}, np.array([7]), None, None, None, None)
    shard = Shard(small_part(documents, lattice.scale, wide=True), lattice)
    query = prepared(lattice.to_core(), Csr(own.indptr, terms, weights, num_terms), [segmax.ASC()])
    assert Router(None, None, codes[:, None], 0).bounds(query).most.tolist() == [[score]]
    for floor, number, found in ((0, 0, 1), (score - 1, 0, 1), (score, 8, 1), (score, 7, 0), (score + 1, 8, 0)):
        floors = Floors(np.array([floor]), np.array([number]))
        answer = shard.search(query, [1], [segmax.ASC()], floors)
        assert answer.scores.reshape(-1).tolist() == [score] * found, (floor, number)
