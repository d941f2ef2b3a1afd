"""Explanations and traces, and what happens over the life of what can be searched: copies, threads, closing."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from segmax import ASC
from segmax.errors import IndexClosedError

from .corpora import WORDS, Query
from .kinds import Opened, over, ranking

QUERY: Query = {0: 2.0, 1: 1.0, 5: 3.0}
QUERIES: list[Query] = [QUERY, {2: 1.0, 3: 2.0}, {7: 1.0}]


@over("docs", "everything")
def test_an_explanation_has_the_score_and_its_parts(opened: Opened) -> None:
    """Each shared term with its word, what it adds and whether the method searches for it, and the document's rank."""
    corpus = opened.corpus
    ranks = {row: rank for rank, row in enumerate(corpus.ranked(QUERY), start=1)}
    for row in (0, 9, 59, *list(ranks)[:2]):
        found = opened.source.explain(QUERY, corpus.ids[row], k=60)
        assert (found.id, found.score, found.rank) == (corpus.ids[row], corpus.score(row, QUERY), ranks.get(row))
        assert {match.term: match.contribution for match in found.matched} == corpus.matched(row, QUERY)
        assert all(match.word == WORDS[match.term] for match in found.matched)
        assert all(match.contribution == match.query_weight * match.document_weight for match in found.matched)
        shortened = opened.source.explain(QUERY, corpus.ids[row], k=60, params=ASC(max_terms=1))
        assert {match.term for match in shortened.matched if match.searched} == corpus.matched(row, {0: 2.0}).keys()


@over("docs", "everything")
def test_an_explanation_tells_what_a_search_returns(opened: Opened) -> None:
    """Ranks are those of the same search, also with a filter; below the k-th, and where it does not match, are none."""
    corpus = opened.corpus
    for where in (None, {"lang": "en"}):
        ranks = {id: rank for rank, (id, _) in enumerate(corpus.best(QUERY, 5, where=where), start=1)}
        for row in corpus.ranked(QUERY)[:8]:
            found = opened.source.explain(QUERY, corpus.ids[row], k=5, where=where)
            assert found.rank == ranks.get(corpus.ids[row]), (row, where)
            assert ("is not returned" in found.reason) == (found.rank is None), found.reason
            assert ("the filter does not match" in found.reason) == (not corpus.matches(row, where)), found.reason


@over("docs", "python")
def test_a_trace_says_what_became_of_clusters(opened: Opened) -> None:
    """Of one index; others refuse it, because they have several."""
    if opened.is_refused("trace"):
        with opened.as_designed("trace"):
            opened.source.search(QUERY, trace=True)
        return
    found = opened.source.search(QUERY, k=5, trace=True)
    assert ranking(found) == opened.corpus.best(QUERY, 5)
    assert {entry.decision for entry in found.trace} <= {"visited", "pruned", "tied", "stopped", "limited", "zero"}
    assert 0 < len(found.trace) <= opened.source.num_clusters


@over("docs", "python")
def test_the_number_of_threads_changes_nothing(opened: Opened) -> None:
    """One, two or more than there are queries."""
    expected = [opened.corpus.best(query, 9) for query in QUERIES]
    if opened.is_refused("threads"):
        with opened.as_designed("threads"):
            opened.source.search_batch(QUERIES, k=9, threads=2)
        return
    for threads in (None, 1, 2, 7):
        assert list(map(ranking, opened.source.search_batch(QUERIES, k=9, threads=threads))) == expected


@over("docs", "python")
def test_threads_can_share_it(opened: Opened) -> None:
    """Searches that run at the same time find what they find alone."""
    queries = QUERIES * 4
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda query: ranking(opened.source.search(query, k=9)), queries))
    assert found == [opened.corpus.best(query, 9) for query in queries]


@over("docs", "python")
def test_only_shards_can_be_left_out(opened: Opened) -> None:
    """With as many as there are, nothing is; with one, the results are true but may lack some, and they say so."""
    if opened.is_refused("max_shards"):
        with opened.as_designed("max_shards"):
            opened.source.search(QUERY, max_shards=1)
        return
    assert ranking(opened.source.search(QUERY, k=60, max_shards=3)) == opened.corpus.best(QUERY, 60)
    found = opened.source.search(QUERY, k=60, max_shards=1)
    everything = opened.corpus.best(QUERY, 60)
    assert ranking(found) == [one for one in everything if one[0] in found.ids]
    assert 0 < len(found.ids) < len(everything)
    assert not found.complete
    assert list(map(ranking, opened.source.search_batch([QUERY], k=60, max_shards=1))) == [ranking(found)]


@over("docs", "search_async")
def test_searches_can_be_awaited(opened: Opened) -> None:
    """Beside a search, for an event loop: the same options, the same results."""
    options = {"k": 4, "offset": 1, "where": {"sold": True}, "min_score": 3.0}

    async def both() -> tuple[object, object]:
        one = await opened.source.search_async(QUERY, **options)
        many = await opened.source.search_batch_async(QUERIES, **options)
        return ranking(one), list(map(ranking, many))

    expected = [opened.corpus.best(query, **options) for query in QUERIES]  # type: ignore[arg-type]
    assert asyncio.run(both()) == (expected[0], expected)


@over("docs", "python")
def test_a_pickled_one_finds_the_same(opened: Opened) -> None:
    """What has a folder or an address of its own; others say why they cannot be pickled."""
    if opened.is_refused("pickle"):
        with opened.as_designed("pickle"):
            pickle.dumps(opened.source)
        return
    with pickle.loads(pickle.dumps(opened.source)) as copy:
        assert ranking(copy.search(QUERY, k=9)) == opened.corpus.best(QUERY, 9)


@over("docs", "python")
def test_what_is_closed_answers_nothing(opened: Opened, fresh: Callable[[Opened], Opened]) -> None:
    """Every question is refused, others that show the same go on, and closing again is fine; so is leaving a block."""
    own = fresh(opened)
    assert ranking(own.source.search(QUERY, k=9)) == opened.corpus.best(QUERY, 9)
    if "waiting" in opened.can:
        with pytest.raises(KeyError), own.source:
            raise KeyError  # closes it, and passes
    else:
        own.source.close()
    for ask in (
        lambda: own.source.search(QUERY),
        lambda: own.source.search_batch(QUERIES),
        lambda: own.source.count({"lang": "en"}),
        lambda: own.source.facets("lang"),
        lambda: own.source.explain(QUERY, "d1"),
        lambda: own.source.score(QUERY, ["d1"]),
        lambda: own.source.vector("d1"),
    ):
        with opened.refuses(IndexClosedError, hint="again|another"):
            ask()
    own.source.close()
    assert ranking(opened.source.search(QUERY, k=9)) == opened.corpus.best(QUERY, 9)
