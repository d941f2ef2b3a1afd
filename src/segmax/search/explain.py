"""Putting into words why a document was or was not returned."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from segmax.base.display import short_number
from segmax.search.arguments import core_params
from segmax.search.engine import Engine, Fate
from segmax.search.methods import ASC, Exhaustive, SearchParams
from segmax.search.queries import Kept
from segmax.search.results import Explanation, Hits

_UNSEEN, _BELOW_BOUND, _SCORED = range(3)


def explain(
    engine: Engine,
    terms: NDArray[np.int64],
    weights: NDArray[np.float64],
    row: int,
    k: int,
    params: SearchParams,
    kept: Kept | None = None,
) -> Explanation:
    """Explain what a search does with one document; `kept` are the rows that it may return, None: all."""
    score = engine.score(terms, weights, np.array([row]))[0]
    matched = engine.matched(terms, weights, row)
    in_core = core_params(params)
    if kept is not None:
        in_core = engine.restricted(in_core, rows=kept.mask)
    traced, fate = engine.trace(terms, weights, k, in_core, row)
    # With a filter, a search without a trace may score all documents that match, and then return others than an
    # approximate one.
    hits = traced if kept is None else engine.search_one(terms, weights, k, in_core)
    if params.drops_terms:  # the bounds have to be those of the remaining terms
        is_searched = np.isin(terms, fate.kept_terms)
        terms, weights = terms[is_searched], weights[is_searched]
        matched = tuple(match._replace(searched=match.term in set(terms.tolist())) for match in matched)
    cluster = engine.core.cluster_of(row)
    bounds = engine.bounds(terms, weights)
    final = float(hits.scores[-1]) if len(hits) == k else 0.0
    label = int(engine.labels[cluster])
    decision, threshold = _decision(label, traced, fate, final, params)
    if hits.rows.tolist() != traced.rows.tolist():
        decision, threshold, fate = "visited", final, fate._replace(kind=_SCORED)
    unexplained = Explanation(
        id=engine.ids.id_of(row),
        score=float(score),
        matched=matched,
        rank=next((rank for rank, found in enumerate(hits.rows.tolist(), start=1) if found == row), None),
        cluster=label,
        bound_sum=float(bounds.bound_sum[cluster]),
        max_bound=float(bounds.max_bound[cluster]),
        avg_bound=float(bounds.avg_bound[cluster]),
        decision=decision,
        threshold=threshold,
        final_threshold=final,
        reason="",
    )
    if kept is not None and not kept.rows[row]:
        reason = f"{subject_of(unexplained)} is not returned: the filter does not match it"
        return dataclasses.replace(unexplained, reason=reason)
    swept = traced.stats.swept
    reason = _reason(unexplained, fate, params, swept=swept) + _shortening(hits.stats.dropped_terms, params)
    return dataclasses.replace(unexplained, reason=reason)


def _decision(label: int, hits: Hits, fate: Fate, final: float, params: SearchParams) -> tuple[str, float]:
    """Return what was decided about the document's cluster, and θ at that time."""
    entry = next((e for e in hits.trace or () if e.cluster == label), None)
    if entry is not None:
        decision = entry.decision
    elif hits.trace and hits.trace[-1].decision == "limited":
        decision = "limited"
    else:
        decision = "visited" if isinstance(params, Exhaustive | ASC) or params.method == "maxscore" else "stopped"
    if fate.kind != _UNSEEN:
        return decision, fate.threshold
    return decision, final if entry is None else entry.threshold


def _shortening(dropped_terms: int, params: SearchParams) -> str:
    """Return a remark about terms that the search dropped."""
    if not dropped_terms:
        return ""
    terms = "the lightest term" if dropped_terms == 1 else f"the {dropped_terms} lightest terms"
    were = "was" if dropped_terms == 1 else "were"
    if not params.drops_terms:
        return f"; {terms} of the query counted only in bounds and final scores"
    return f"; {terms} of the query {were} left out of the search, so bounds and θ lack what they add"


def subject_of(found: Explanation) -> str:
    """Return the words that name a document in a reason."""
    return f"document {found.id!r} (score {short_number(found.score)}, cluster {found.cluster})"


def _reason(found: Explanation, fate: Fate, params: SearchParams, *, swept: bool) -> str:
    document = subject_of(found)
    if found.rank is not None:
        return f"{document} is returned at rank {found.rank}"
    if found.score == 0:
        return f"{document} is not returned: it shares no term with the query"
    # The engine bounds blocks of any cluster that was not pruned.
    met = isinstance(params, ASC) and found.decision != "pruned" and fate.kind != _UNSEEN
    if found.decision != "visited" and not met:
        return f"{document} is not returned: {_cluster_reason(found, fate, params)}"
    return f"{document} is not returned: {_document_reason(found, fate, params, swept=swept)}"


def _cluster_reason(found: Explanation, fate: Fate, params: SearchParams) -> str:
    """Return why its cluster was not visited."""
    mu = getattr(params, "mu", 1.0)
    eta = getattr(params, "eta", mu)
    if found.decision == "pruned":
        by_max = f"MaxSBound {short_number(found.max_bound)} <= θ/μ = {short_number(found.threshold / mu)}"
        by_average = f"AvgSBound {short_number(found.avg_bound)} <= θ/η = {short_number(found.threshold / eta)}"
        return f"its cluster was pruned at θ = {short_number(found.threshold)}: {by_max} and {by_average}"
    if found.decision == "tied":
        return "its cluster's bound equals θ, and all of its rows come after the k-th result"
    if found.decision == "limited" and isinstance(params, ASC) and params.max_clusters is not None:
        return f"its cluster is not among the {params.max_clusters:,} with the best MaxSBound"
    if found.decision == "limited":
        return "a limit ended the search before it came to its cluster"
    if isinstance(params, ASC):
        return "no block of its cluster had a bound above the threshold by then"
    visits_by_max = params.method == "sequential"
    name, bound = ("MaxSBound", found.max_bound) if visits_by_max else ("BoundSum", found.bound_sum)
    needed = max(found.final_threshold / eta, fate.estimate)
    compared = f"{name} {short_number(bound)} <= {short_number(needed)}"
    return f"the search ended before its cluster: {compared}, the bound that clusters had to exceed then"


def _document_reason(found: Explanation, fate: Fate, params: SearchParams, *, swept: bool) -> str:
    """Return why it was not returned although its cluster was visited."""
    if fate.kind == _BELOW_BOUND and fate.bound < fate.needed:
        compared = f"its bound {short_number(fate.bound)} was below {short_number(fate.needed)}"
        return f"{compared}, the bound that it needed then (θ = {short_number(fate.threshold)})"
    if fate.kind == _BELOW_BOUND:
        return f"its bound {short_number(fate.bound)} equals θ, and its row comes after the k-th result"
    if fate.kind == _SCORED or isinstance(params, Exhaustive) or swept:
        return f"it was scored, and the k-th result has {short_number(found.final_threshold)}"
    if isinstance(params, ASC):
        return "its block was not scored: others had better bounds, and the search ended before it"
    return "its terms were too light by then to lift a document above θ"
