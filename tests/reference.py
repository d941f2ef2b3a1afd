"""The slow twins: searches and decisions written to be obviously right."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

import segmax
from segmax import paper
from segmax.paper import Anytime, MaxScore
from segmax.search.hooks import with_hooks
from segmax.search.methods import SearchParams

#: Every way to search that promises the results of exhaustive search.
SAFE_METHODS: dict[str, SearchParams] = {
    "exhaustive": segmax.Exhaustive(),
    "maxscore": MaxScore(),
    "maxscore, no estimate": MaxScore(estimate_threshold=False),
    **{
        f"asc, {ways}, estimate {estimate}, sweep {sweep}": with_hooks(
            segmax.ASC(), estimate_threshold=estimate, sweep=sweep, all_tiles=all_tiles
        )
        for ways, all_tiles in (("whole", 2**31), ("by quads", 0))
        for estimate in (True, False)
        for sweep in (True, False)
    },
    "asc, bounded": with_hooks(segmax.ASC(max_terms=2, dropped="bounded"), sweep=False),
    "asc, bounded by quads": with_hooks(segmax.ASC(max_terms=2, dropped="bounded"), sweep=False, all_tiles=0),
    "asc, a long budget": with_hooks(segmax.ASC(budget_ms=1e6), sweep=False),
    **{
        f"{kind.__name__} of the paper, {documents}, estimate {estimate}": kind(
            documents=documents, estimate_threshold=estimate
        )
        for kind in (Anytime, paper.ASC)
        for documents in ("blocks", "maxscore")
        for estimate in (True, False)
    },
    "asc of the paper by bound_sum": paper.ASC(cluster_order="bound_sum"),
    "asc of the paper by bound_sum, eager": with_hooks(paper.ASC(cluster_order="bound_sum"), lazy=False),
    "asc of the paper, eager": with_hooks(paper.ASC(), lazy=False),
    "asc of the paper by bound_sum, maxscore": paper.ASC(cluster_order="bound_sum", documents="maxscore"),
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
