"""Which documents a search returns, and in which order: k, ties, pages, least scores, methods, batches, queries."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import segmax
from segmax import ASC, Exhaustive
from segmax.paper import ASC as Sequential
from segmax.paper import Anytime, MaxScore

from .corpora import WORDS, Query
from .kinds import Opened, over, ranking

#: Weights by term: one term, several, heavy ones, one that few documents have.
QUERIES: list[dict[int | str, float]] = [
    {0: 1.0},
    {0: 2.0, 1: 1.0, 5: 3.0},
    {2: 1.0, 3: 1.0, 4: 1.0, 19: 2.0},
    {7: 250.0, 11: 1.0, 18: 40.0},
]
WIDE = QUERIES[1]
HEAVIEST: Query = {0: 2.0}  # the term of it that adds most to a document: copper
METHODS: list[segmax.SearchParams] = [ASC(), Exhaustive(), Sequential(), Anytime(), MaxScore()]
LIMITS = ASC(budget_ms=600_000), ASC(max_clusters=1000, mu=0.5)  # which nothing here reaches


@over("docs", "search")
def test_the_k_best_come_first(opened: Opened) -> None:
    """Scores descend, equal ones are in the order of insertion, and no document without a common term is there."""
    for query in QUERIES[: 4 if "everything" in opened.can else 2]:
        for k in (1, 7, 60, 10_000, *([10**12] if "python" in opened.can else [])):
            assert ranking(opened.source.search(query, k=k)) == opened.corpus.best(query, k), (query, k)


@over("numbers", "everything")
def test_large_weights_and_ids_that_are_numbers(opened: Opened) -> None:
    """Weights of up to 255 lose nothing, ties are broken by row, and ids such as 0 and -20 come back as numbers."""
    for query in QUERIES:
        found = opened.source.search(query, k=60)
        assert ranking(found) == opened.corpus.best(query, 60), query
        assert all(type(id) is int for id in found.ids)


@over("docs", "everything")
def test_results_have_the_rows_of_their_documents(opened: Opened) -> None:
    """An index counts the rows of its input from 0, a collection every document that ever came."""
    rows = dict(zip(opened.corpus.ids, opened.rows, strict=True))
    found = opened.source.search(WIDE, k=60)
    assert found.rows.tolist() == [rows[id] for id, _ in opened.corpus.best(WIDE, 60)]


@over("docs", "search")
def test_an_offset_leaves_out_the_first(opened: Opened) -> None:
    """Pages make up the ranking, whatever their size; one behind the end is empty."""
    for offset in (0, 1, 9, 40, 60, 5_000):
        found = opened.source.search(WIDE, k=10, offset=offset)
        assert ranking(found) == opened.corpus.best(WIDE, 10, offset=offset), offset


@over("docs", "search")
def test_a_least_score_is_reached_by_what_has_it_exactly(opened: Opened) -> None:
    """Documents at it are there, those just below are not; above the best score there are none."""
    scores = [score for _, score in opened.corpus.best(WIDE, 60)]
    middle = sorted(set(scores))[len(set(scores)) // 2]
    unbounded = [math.inf, -math.inf] if "python" in opened.can else []  # which are no JSON
    for least in (middle, math.nextafter(middle, math.inf), math.nextafter(middle, 0), scores[0] + 1, *unbounded):
        found = opened.source.search(WIDE, k=60, min_score=least)
        assert ranking(found) == opened.corpus.best(WIDE, 60, min_score=least), least


@over("docs", "search")
def test_pages_end_at_the_least_score(opened: Opened) -> None:
    """An offset counts only results that have the least score; k does, too."""
    for k, offset in ((3, 2), (60, 5), (2, 59)):
        found = opened.source.search(WIDE, k=k, offset=offset, min_score=4.0)
        assert ranking(found) == opened.corpus.best(WIDE, k, offset=offset, min_score=4.0), (k, offset)


@over("docs", "search")
def test_every_method_is_exact_unless_it_is_told_not_to_be(opened: Opened) -> None:
    """By default, all methods return the same results; one that is to search for one term searches for the heaviest."""
    for params in [*METHODS, *LIMITS]:
        assert ranking(opened.source.search(WIDE, k=7, params=params)) == opened.corpus.best(WIDE, 7), params
    heaviest = opened.corpus.best(HEAVIEST, 60)
    assert ranking(opened.source.search(WIDE, k=60, params=ASC(max_terms=1))) == heaviest
    assert [ranking(one) for one in opened.source.search_batch([WIDE], k=60, params=ASC(max_terms=1))] == [heaviest]


@over("docs", "search")
def test_approximate_methods_return_true_scores(opened: Opened) -> None:
    """What they return is in the right order with the right scores, though some of the best may be missing."""
    scores = dict(opened.corpus.best(WIDE, 60))
    methods = (
        ASC(eta=0.4),
        ASC(max_clusters=1),
        ASC(max_clusters=2, mu=0.5),
        Sequential(mu=0.3, eta=0.5),
        Anytime(mu=0.5),
    )
    ways: list[dict[str, Any]] = [*({"params": params} for params in methods), {"target_recall": 0.9}]
    for way in ways:
        for found in (opened.source.search(WIDE, k=7, **way), *opened.source.search_batch([WIDE, WIDE], k=7, **way)):
            assert len(found.ids) == 7
            assert found.scores.tolist() == [scores[id] for id in found.ids]
            assert sorted(found.scores, reverse=True) == found.scores.tolist()


# --- batches ---------------------------------------------------------------------------------------------------------


@over("docs", "search")
def test_a_batch_has_the_results_of_its_queries(opened: Opened) -> None:
    """One ranking for each query, with k, an offset and a least score for all."""
    for options in ({}, {"k": 3}, {"k": 5, "offset": 2}, {"k": 60, "min_score": 3.0}, {"offset": 59}):
        found = opened.source.search_batch(QUERIES, **options)
        assert list(map(ranking, found)) == [opened.corpus.best(query, **options) for query in QUERIES], options


@over("docs", "everything")
def test_queries_of_a_batch_may_have_their_own_options(opened: Opened) -> None:
    """Each has its k, its method and its filter or none, in the order of the queries."""
    ks, params = [5, 60, 1, 2], [Exhaustive(), ASC(max_terms=1), MaxScore(), Anytime()]
    wheres: list[dict[str, Any] | None] = [{"lang": "de"}, None, {"year": {"$gt": 1955}}, {"lang": "none"}]
    found = opened.source.search_batch(QUERIES, k=ks, params=params, where=wheres, offset=1)
    searched = [QUERIES[0], HEAVIEST, *QUERIES[2:]]
    expected = [
        opened.corpus.best(query, k, where=where, offset=1)
        for query, k, where in zip(searched, ks, wheres, strict=True)
    ]
    assert list(map(ranking, found)) == expected


@over("docs", "everything")
def test_a_batch_of_nothing_is_empty(opened: Opened) -> None:
    """No queries have no results, whatever they ask for."""
    assert len(opened.source.search_batch([], k=3)) == 0
    assert len(opened.source.search_batch([], where={"lang": "de"}, offset=2)) == 0


@over("docs", "python")
def test_arrays_of_a_batch_are_padded(opened: Opened) -> None:
    """They are as wide as the largest k of documents that exist; behind the results are row -1 and score 0."""
    queries: list[Query] = [*QUERIES, {}]
    ks = np.array([2, 60, 1, 60, 3])
    found = opened.source.search_batch(queries, k=ks, min_score=2.0)
    expected = [opened.corpus.best(query, k, min_score=2.0) for query, k in zip(queries, ks.tolist(), strict=True)]
    assert found.rows.shape == found.scores.shape == (5, 60)
    assert found.counts.tolist() == list(map(len, expected))
    assert found.ids == [[id for id, _ in one] for one in expected]
    for rows, scores, count in zip(found.rows, found.scores, found.counts, strict=True):
        assert (rows[:count] >= 0).all()
        assert (rows[count:] == -1).all()
        assert (scores[count:] == 0).all()


# --- queries ---------------------------------------------------------------------------------------------------------


@over("docs", "search")
def test_queries_may_be_words_numbers_or_pairs(opened: Opened) -> None:
    """A mapping of numbers, a mapping of words and a pair of indices and values mean the same."""
    pair = [0, 1, 5], [2.0, 1.0, 3.0]
    for query in (WIDE, {WORDS[term]: weight for term, weight in zip(*pair, strict=True)}, pair):
        assert ranking(opened.source.search(query, k=8)) == opened.corpus.best(WIDE, 8), query


@over("docs", "python")
def test_queries_may_be_arrays_and_sparse_rows(opened: Opened) -> None:
    """Arrays of numpy, where repeated terms are summed, and rows of scipy, many of which are a batch."""
    repeated = np.array([5, 0, 1, 5, 0]), np.array([1.0, 1.0, 1.0, 2.0, 1.0])
    rows = sp.csr_matrix([[query.get(term, 0.0) for term in range(len(WORDS))] for query in QUERIES])
    flat = sp.coo_array(rows[1].toarray()[0])
    mixed = {WORDS[0]: 1.0, np.int64(0): np.float32(1), 1: 1, 5: 3}  # a word and its number are one term
    for query in (repeated, rows[1], sp.csr_array(rows[1]), flat, mixed):
        assert ranking(opened.source.search(query, k=8)) == opened.corpus.best(WIDE, 8), query
    expected = [opened.corpus.best(query, 8) for query in QUERIES]
    assert list(map(ranking, opened.source.search_batch(rows, k=8))) == expected
    assert list(map(ranking, opened.source.search_batch([*QUERIES[:3], rows[3]], k=8))) == expected


@over("docs", "everything")
def test_empty_queries_find_nothing(opened: Opened) -> None:
    """Nor do weights of 0, or terms that no document has, whatever the method."""
    for params in METHODS:
        for query in ({}, ([], []), {0: 0.0}, {23: 1.0, 3_000: 2.0}, {"unheard": 1.0}):
            assert ranking(opened.source.search(query, k=3, params=params)) == opened.corpus.best(
                {term: weight for term, weight in query.items() if weight} if isinstance(query, dict) else {}, 3
            ), (query, params)
        found = opened.source.search_batch([{}, WIDE, {"unheard": 1.0}], k=3, params=params)
        assert list(map(ranking, found)) == [[], opened.corpus.best(WIDE, 3), []], params


@over("docs", "everything")
def test_unknown_terms_are_ignored_and_counted(opened: Opened) -> None:
    """By number, by word and by both, in single searches and in batches, whatever the method."""
    by_number: Query = {**WIDE, len(WORDS): 1.0, 3_000: 2.0}
    by_word: Query = {**{WORDS[int(term)]: weight for term, weight in WIDE.items()}, "unheard": 5.0}
    queries: list[tuple[Query, int]] = [(WIDE, 0), (by_number, 2), (by_word, 1)]
    if "python" in opened.can:  # no message has words and numbers
        queries.append(({**by_number, "unheard": 5.0, 2**70: 1.0}, 4))
    for params in METHODS:
        for query, unknown in queries:
            found = opened.source.search(query, k=8, params=params)
            assert ranking(found) == opened.corpus.best(WIDE, 8), (query, params)
            assert found.stats.unknown_terms == unknown, (query, params)
    many = opened.source.search_batch([query for query, _ in queries], k=8)
    assert [one.stats.unknown_terms for one in many] == [unknown for _, unknown in queries]


@over("docs", "everything")
def test_texts_are_encoded(opened: Opened) -> None:
    """A text is the query that its encoder makes of it, alone and in a batch; without a known word it finds nothing."""
    queries: list[Query] = [{0: 2.0, 4: 1.0}, {2: 1.0}, {}]
    texts = ["copper wave copper", "tube", "unheard"]
    expected = [opened.corpus.best(query, 9) for query in queries]
    assert [ranking(opened.source.search(text, k=9)) for text in texts] == expected
    assert list(map(ranking, opened.source.search_batch(texts, k=9))) == expected
    if "python" in opened.can:
        assert [ranking(opened.source.search(text, k=9)) for text in np.array(texts)] == expected
        assert list(map(ranking, opened.source.search_batch(list(np.array(texts)), k=9))) == expected


@over("papers", "search")
def test_texts_are_ranked_by_bm25(opened: Opened) -> None:
    """All documents that have a word are found, with the scores of the formula up to what coding loses."""
    for text in ("copper", "noise tube wave", "phase crystal antenna copper"):
        query: Query = {WORDS.index(word): 1.0 for word in text.split()}
        found, expected = opened.source.search(text, k=40), dict(opened.corpus.best(query, 40))
        assert set(found.ids) == set(expected)
        assert found.scores == pytest.approx([expected[id] for id in found.ids], rel=0.02)
        assert sorted(found.scores, reverse=True) == found.scores.tolist()
