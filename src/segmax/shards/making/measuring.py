"""How many shards queries need: every shard answers made-up queries while it is built; in the end they are routed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segmax.collection.part import Part
from segmax.search.methods import ASC
from segmax.search.results import STATS_FIELDS
from segmax.shards.routed import MEASURED_K, RoutingTable
from segmax.shards.router import Router
from segmax.shards.searching import Request, ShardSearch, prepared
from segmax.shards.shard import Found, LatticeArrays, Shard
from segmax.storage.components import Arrays
from segmax.vectors.csr import Csr

#: The file with the queries.
QUESTIONS = "questions"
_EXACT = ASC()
_BY_MU = ASC(mu=0.9)


def question_arrays(queries: Csr) -> Arrays:
    """Return queries as the arrays of a file."""
    return {"indptr": queries.indptr, "term": queries.indices, "weight": queries.values}


def questions_of(arrays: Mapping[str, NDArray[Any]], num_terms: int) -> Csr:
    """Return the queries of a file."""
    return Csr(arrays["indptr"], arrays["term"], arrays["weight"], num_terms)


def answers(part: Part, lattice: LatticeArrays, questions: Csr) -> Arrays:
    """Return the best documents of a shard for every query, as arrays to keep."""
    found = Shard(part, lattice).search(prepared(lattice.to_core(), questions, [_EXACT]), [MEASURED_K], [_EXACT])
    width = np.array([found.scores.shape[1]], dtype=np.int64)
    flat = {"answer_score": found.scores.reshape(-1), "answer_number": found.numbers.reshape(-1)}
    return {**flat, "answer_count": found.counts, "answer_width": width}


def measured(
    search: ShardSearch, router: Router, questions: Csr, kept: Sequence[Mapping[str, NDArray[Any]]]
) -> RoutingTable:
    """Return what queries show about routing, from the answers that every shard gave while it was built."""
    found = [_found(arrays) for arrays in kept]
    queries = search.prepare(questions, [_EXACT])
    exact, by_mu = (search.asking(queries, Request([MEASURED_K], [params])) for params in (_EXACT, _BY_MU))
    for asking in (exact, by_mu):
        while asks := asking.next():
            # A floor would have made answers shorter, and changes nothing about what is kept of them.
            asking.take(asks, [_taken(found[ask.shard], ask.queries) for ask in asks])
        asking.finish()
    shards = np.where(exact.best.scores > 0, exact.best.shards, -1)
    return RoutingTable.measured(shards, router.promise(queries), exact.decisions, by_mu.decisions, "pseudo-queries")


def _found(arrays: Mapping[str, NDArray[Any]]) -> Found:
    counts = arrays["answer_count"]
    shape = len(counts), int(arrays["answer_width"][0])
    numbers = arrays["answer_number"].reshape(shape)
    stats = np.zeros((len(counts), len(STATS_FIELDS)), dtype=np.uint64)
    return Found(arrays["answer_score"].reshape(shape), numbers, np.zeros_like(numbers), counts, stats, None)


def _taken(found: Found, queries: NDArray[np.int64]) -> Found:
    scores, numbers, rows, counts, stats, _ = found
    return Found(scores[queries], numbers[queries], rows[queries], counts[queries], stats[queries], None)
