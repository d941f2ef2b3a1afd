"""Putting into words why a document was or was not returned."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from segmax.base.display import short_number
from segmax.search.methods import ASC, BestFirst, ClusterParams, Exhaustive, SearchParams
from segmax.search.results import ClusterBounds, Explanation, Hits, MatchedTerm
from segmax.storage.tables import TextTable
from segmax.vectors.documents import DocId

_UNSEEN, _BELOW_BOUND, _SCORED = range(3)


class Fate(NamedTuple):
    """What happened to the document inside its cluster: never met, below a bound, or scored."""

    kind: int
    bound: float  # the bound that decided, or the score
    threshold: float  # θ then
    needed: float  # what a bound had to reach then: θ, θ/η, or the seed
    seed: float  # a lower bound of the exact k-th score, known from the start


def explanation(
    *,
    id: DocId,
    row: int,
    score: float,
    matched: tuple[MatchedTerm, ...],
    cluster: int,
    label: int,
    bounds: ClusterBounds,
    hits: Hits,
    fate: Fate,
    k: int,
    params: SearchParams,
) -> Explanation:
    """Combine what the trace, the watched document and the bounds tell."""
    ranks = {int(found): rank for rank, found in enumerate(hits.rows, start=1)}
    final = float(hits.scores[-1]) if len(hits) == k else 0.0
    trace = hits.trace or []
    entry = next((e for e in trace if e.cluster == label), None)
    if isinstance(params, BestFirst) and fate.kind == _UNSEEN and not hits.stats.swept:
        decision = "limited" if hits.stats.budget_hit else "stopped"
    elif not isinstance(params, ClusterParams):
        decision = "visited"
    elif entry is not None:
        decision = entry.decision
    else:
        decision = "limited" if trace and trace[-1].decision == "limited" else "stopped"
    threshold = fate.threshold if fate.kind != _UNSEEN else (entry.threshold if entry is not None else final)
    told = Explanation(
        id=id,
        score=score,
        matched=matched,
        rank=ranks.get(row),
        cluster=label,
        bound_sum=float(bounds.bound_sum[cluster]),
        max_bound=float(bounds.max_bound[cluster]),
        avg_bound=float(bounds.avg_bound[cluster]),
        decision=decision,
        threshold=threshold,
        final_threshold=final,
        reason="",
    )
    reason = _reason(told, fate, params, swept=hits.stats.swept) + _shortening(hits.stats.dropped_terms, params)
    return dataclasses.replace(told, reason=reason)


def matched_terms(
    terms: NDArray[np.uint32],
    units: Sequence[int],
    scale: float,
    query_weights: NDArray[np.float64],
    document_weights: NDArray[np.float64],
    vocabulary: TextTable | None,
) -> tuple[MatchedTerm, ...]:
    """Name the terms that make up a score, the largest contribution first.

    Parameters
    ----------
    terms
        Their numbers.
    units
        What each adds to the score, in whole numbers of `scale`, which is how searches add them up.
    query_weights, document_weights
        Their weights, as a search works with them.
    vocabulary
        The words of the terms; None where the index has none.
    """
    found = zip(
        terms.tolist(), exact_parts(units, scale), query_weights.tolist(), document_weights.tolist(), strict=True
    )
    matched = [
        MatchedTerm(term, None if vocabulary is None else vocabulary[term], query_weight, document_weight, part)
        for term, part, query_weight, document_weight in found
    ]
    return tuple(sorted(matched, key=lambda match: (-match.contribution, match.term)))


def exact_parts(units: Sequence[int], scale: float) -> list[float]:
    """Return the product of each unit and the scale, rounded so that the products add up to that of the sum exactly.

    All parts are multiples of the last place of their sum, so that adding them rounds nothing, whatever the order; what
    rounding them leaves over, a few last places, goes to the largest.

    Examples
    --------
    >>> parts = exact_parts([1, 1, 1], 0.1)
    >>> sum(parts) == 3 * 0.1
    True
    """
    score = float(sum(units)) * scale
    if not units:
        return []
    last_place = math.ulp(score)  # a power of two: dividing by it and multiplying with it are exact
    numerator, denominator = (scale / last_place).as_integer_ratio()
    places = [(2 * unit * numerator + denominator) // (2 * denominator) for unit in units]
    places[places.index(max(places))] += int(score / last_place) - sum(places)
    return [count * last_place for count in places]


def _shortening(dropped_terms: int, params: SearchParams) -> str:
    """Say that the query was shortened, if it was."""
    if not dropped_terms:
        return ""
    terms = "the lightest term" if dropped_terms == 1 else f"the {dropped_terms} lightest terms"
    if not params.drops_terms:
        return f"; {terms} of the query served for bounds and final scores only"
    return f"; {terms} of the query took no part in the search, so bounds and θ are without what they add"


def _reason(told: Explanation, fate: Fate, params: SearchParams, *, swept: bool) -> str:
    document = f"document {told.id!r} (score {short_number(told.score)}, cluster {told.cluster})"
    if told.rank is not None:
        return f"{document} is returned at rank {told.rank}"
    if told.score == 0:
        return f"{document} is not returned: it shares no term with the query"
    if isinstance(params, ClusterParams) and told.decision != "visited":
        return f"{document} is not returned: {_cluster_reason(told, fate, params)}"
    return f"{document} is not returned: {_document_reason(told, fate, params, swept=swept)}"


def _cluster_reason(told: Explanation, fate: Fate, params: ClusterParams) -> str:
    """Say why its cluster was not visited."""
    eta = params.eta if isinstance(params, ASC) else params.mu
    if told.decision == "pruned":
        by_max = f"MaxSBound {short_number(told.max_bound)} <= θ/μ = {short_number(told.threshold / params.mu)}"
        by_average = f"AvgSBound {short_number(told.avg_bound)} <= θ/η = {short_number(told.threshold / eta)}"
        return f"its cluster was pruned at θ = {short_number(told.threshold)}: {by_max} and {by_average}"
    if told.decision == "tied":
        return "its cluster's bound equals θ, and all of its rows come after the k-th result"
    if told.decision == "limited":
        return "the time budget or max_clusters ended the search before its cluster"
    name, bound = ("MaxSBound", told.max_bound) if isinstance(params, ASC) else ("BoundSum", told.bound_sum)
    needed = max(told.final_threshold / eta, fate.seed)
    compared = f"{name} {short_number(bound)} <= {short_number(needed)}"
    return f"the search ended before its cluster: {compared}, what clusters had to pass then"


def _document_reason(told: Explanation, fate: Fate, params: SearchParams, *, swept: bool) -> str:
    """Say why it was not returned although its cluster was looked at."""
    if fate.kind == _BELOW_BOUND and fate.bound < fate.needed:
        compared = f"its bound {short_number(fate.bound)} was below {short_number(fate.needed)}"
        return f"{compared}, what it took then (θ = {short_number(fate.threshold)})"
    if fate.kind == _BELOW_BOUND:
        return f"its bound {short_number(fate.bound)} equals θ, and its row comes after the k-th result"
    if fate.kind == _SCORED or isinstance(params, Exhaustive) or swept:
        return f"it was scored, and the k-th result has {short_number(told.final_threshold)}"
    if isinstance(params, BestFirst):
        return "its block was not looked at: others had better bounds, and the search ended before it"
    return "the lists that could have led to it were too light by then to lift a document over θ"
