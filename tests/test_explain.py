"""What `explain` says, held against what searches do."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
import scipy.sparse as sp

import segmax
from conftest import random_docs
from reference import as_query
from segmax.params import SearchParams

FACTORS = (0.3, 0.5, 0.7, 0.9, 1.0)
WAYS: list[SearchParams] = [
    *(segmax.Anytime(mu=mu, documents=documents) for mu in FACTORS for documents in ("blocks", "maxscore")),
    *(
        segmax.ASC(mu=mu, eta=eta, documents=documents, order=order, seed=seed)
        for mu, eta in itertools.combinations_with_replacement(FACTORS, 2)
        for documents, order, seed in (
            ("blocks", "max_bound", True),
            ("maxscore", "max_bound", True),
            ("maxscore", "bound_sum", False),
        )
    ),
    *(segmax.ASC(mu=0.5, eta=0.5, documents=documents, max_clusters=3) for documents in ("blocks", "maxscore")),
    *(segmax.ASC(query_mass=0.7, documents=documents) for documents in ("blocks", "maxscore")),
    *(segmax.ASC(max_terms=2, dropped="bounded", documents=documents) for documents in ("blocks", "maxscore")),
    *(segmax.BestFirst(eta=eta, sweep=False) for eta in FACTORS),
    segmax.BestFirst(max_blocks=4),
    segmax.MaxScore(),
    segmax.MaxScore(seed=False),
    segmax.Exhaustive(),
]


@pytest.mark.parametrize("seed", range(6))
def test_a_document_has_the_rank_that_the_search_gives_it(seed: int) -> None:
    """Watching a document does not change what becomes of it: for every method, factor and document."""
    rng = np.random.default_rng(seed)
    docs = random_docs(rng, 60, 12, 5.0, largest=20)
    index = segmax.build(docs, clusters=rng.integers(0, 8, 60), config=segmax.BuildConfig(num_segments=2))
    query, k = as_query(rng, 12, 5, largest=9), int(rng.integers(1, 8))
    for params in WAYS:
        rows = index.search(query, k=k, params=params).rows.tolist()
        for row in range(60):
            told = index.explain(query, row, k=k, params=params)
            expected = rows.index(row) + 1 if row in rows else None
            assert told.rank == expected, f"{params}: row {row}, {told}"
            assert ("is returned at rank" in told.reason) == (row in rows)
            if "it was scored" in told.reason and not params.drops_terms:
                assert told.score <= told.final_threshold, f"{params}: row {row}, {told}"


@pytest.mark.parametrize("params", [segmax.Anytime(mu=0.5), segmax.ASC(mu=0.5, eta=0.5)])
def test_factors_judge_bounds_and_never_a_score(params: segmax.ASC | segmax.Anytime) -> None:
    """A document that MaxScore has scored in full enters if it is above θ, even where it is below θ/μ."""
    docs = sp.csr_matrix(np.array([[20], [5], [6]]))
    index = segmax.build(docs, config=segmax.BuildConfig(num_clusters=1, order="row"))
    params = dataclasses.replace(params, documents="maxscore", seed=False)
    # After two documents θ is 5. The list may still hold a 20, above θ/μ = 10, so the third document is scored: 6.
    assert index.search({0: 1}, k=2, params=params).scores.tolist() == [20, 6]
