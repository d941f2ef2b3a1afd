"""Which documents a search returns, and in which order: k, ties, pages, least scores, methods, batches."""

from __future__ import annotations

from typing import Any

from .kinds import Opened, over

#: Weights by term: one term, several, heavy ones, one that no document of some corpora has.
QUERIES: list[dict[int, float]] = [
    {0: 1.0},
    {0: 2.0, 1: 1.0, 5: 3.0},
    {2: 1.0, 3: 1.0, 4: 1.0, 19: 2.0},
    {7: 250.0, 11: 1.0, 18: 40.0},
]


def ranking(hits: Any) -> list[tuple[Any, float]]:
    """Ids and scores."""
    return list(zip(hits.ids, hits.scores.tolist(), strict=True))


CORPORA = ["docs", "numbers"]


@over("docs", "search")
def test_the_k_best_come_first(opened: Opened) -> None:
    """Scores descend, equal ones are in the order of insertion, and no document without a common term is there."""
    for query in QUERIES:
        for k in (1, 2, 7, 60, 61, 10_000):
            assert ranking(opened.source.search(query, k=k)) == opened.corpus.best(query, k), (query, k)
