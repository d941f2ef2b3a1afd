"""The slow twins: searches and decisions written to be obviously right."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

import segmax
from segmax import paper
from segmax.paper import Anytime, MaxScore
from segmax.search.hooks import with_hooks
from segmax.search.methods import SearchParams

_NO_LIMIT = 2**31

#: Every way to search that promises the results of exhaustive search.
SAFE_METHODS: dict[str, SearchParams] = {
    "exhaustive": segmax.Exhaustive(),
    "maxscore": MaxScore(),
    "maxscore, no estimate": MaxScore(estimate_threshold=False),
    **{
        f"{kind.__name__}, {documents}, estimate {estimate}, sweep {sweep}": kind(
            documents=documents, estimate_threshold=estimate, sweep=sweep
        )
        for kind in (Anytime, paper.ASC)
        for documents in ("blocks", "maxscore")
        for estimate in (True, False)
        for sweep in (True, False)
    },
    # An exact search takes the fastest way; a limit, even one that is never reached, makes it visit cluster by cluster.
    **{
        f"{kind.__name__}, {documents}, one by one": kind(documents=documents, max_clusters=_NO_LIMIT)
        for kind in (Anytime, paper.ASC)
        for documents in ("blocks", "maxscore")
    },
    "best first": with_hooks(segmax.BestFirst(), sweep=False),
    "best first, no estimate": with_hooks(segmax.BestFirst(), estimate_threshold=False, sweep=False),
    "best first, may sweep": segmax.BestFirst(),
    "best first, bounded": with_hooks(segmax.BestFirst(max_terms=2, dropped="bounded"), sweep=False),
    "asc by bound_sum": paper.ASC(cluster_order="bound_sum", max_clusters=_NO_LIMIT),
    "asc by bound_sum, eager": with_hooks(paper.ASC(cluster_order="bound_sum", max_clusters=_NO_LIMIT), lazy=False),
    "asc, eager": with_hooks(segmax.ASC(max_clusters=_NO_LIMIT), lazy=False),
    "asc by bound_sum, maxscore": paper.ASC(cluster_order="bound_sum", documents="maxscore"),
}


def best(docs: sp.csr_matrix, query: dict[int, int], k: int) -> tuple[list[int], list[int]]:
    """Rows and integer scores of the k best documents: score descending, row ascending, positive scores only."""
    scores = [0] * docs.shape[0]
    for row in range(docs.shape[0]):
        start, stop = docs.indptr[row], docs.indptr[row + 1]
        scores[row] = sum(
            int(w) * query.get(int(t), 0) for t, w in zip(docs.indices[start:stop], docs.data[start:stop], strict=True)
        )
    order = sorted((row for row in range(len(scores)) if scores[row] > 0), key=lambda row: (-scores[row], row))[:k]
    return order, [scores[row] for row in order]


def as_query(rng: np.random.Generator, num_terms: int, size: int, largest: int = 40) -> dict[int, int]:
    """A random query with whole weights."""
    terms = rng.permutation(num_terms)[:size]
    return {int(t): int(w) for t, w in zip(terms, rng.integers(1, largest + 1, len(terms)), strict=True)}
