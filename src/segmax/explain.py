"""Putting into words why a document was or was not returned."""

from __future__ import annotations

from segmax.params import ASC, Anytime, SearchParams
from segmax.results import ClusterBounds, DocId, Explanation, Hits

_UNSEEN, _BELOW_BOUND, _SCORED = range(3)


def explanation(
    *,
    doc_id: DocId,
    row: int,
    score: float,
    cluster: int,
    label: int,
    bounds: ClusterBounds,
    hits: Hits,
    fate: tuple[int, float, float],
    k: int,
    params: SearchParams,
) -> Explanation:
    """Combine what the trace, the watched document and the bounds tell."""
    ranks = {int(found): rank for rank, found in enumerate(hits.rows, start=1)}
    final = float(hits.scores[-1]) if len(hits) == k else 0.0
    entry = next((e for e in hits.trace or [] if e.cluster == label), None)
    rank = ranks.get(row)
    decision = entry.decision if entry is not None else "stopped"
    if not isinstance(params, (ASC, Anytime)):
        decision = "visited"
    max_bound = float(bounds.max_bound[cluster])
    avg_bound = float(bounds.avg_bound[cluster])
    bound_sum = float(bounds.bound_sum[cluster])
    threshold = fate[2] if fate[0] != _UNSEEN else (entry.threshold if entry is not None else final)
    return Explanation(
        doc_id=doc_id,
        score=score,
        rank=rank,
        cluster=label,
        bound_sum=bound_sum,
        max_bound=max_bound,
        avg_bound=avg_bound,
        decision=decision,
        threshold=threshold,
        final_threshold=final,
        reason=_reason(doc_id, score, rank, label, decision, (bound_sum, max_bound, avg_bound), fate, threshold, final),
    )


def _reason(
    doc_id: DocId,
    score: float,
    rank: int | None,
    label: int,
    decision: str,
    bounds: tuple[float, float, float],
    fate: tuple[int, float, float],
    threshold: float,
    final: float,
) -> str:
    bound_sum, max_bound, avg_bound = bounds
    document = f"document {doc_id!r} (score {score:.6g}, cluster {label})"
    if rank is not None:
        return f"{document} is returned at rank {rank}"
    if score == 0:
        return f"{document} is not returned: it shares no term with the query"
    if decision == "pruned":
        return (
            f"{document} is not returned: its cluster was pruned, MaxSBound {max_bound:.6g} and AvgSBound "
            f"{avg_bound:.6g} being too low when θ was {threshold:.6g}"
        )
    if decision == "tied":
        return (
            f"{document} is not returned: its cluster's bound {max_bound:.6g} equals θ and all of its rows come after "
            "the k-th result"
        )
    if decision == "limited":
        return f"{document} is not returned: the time budget or max_clusters ended the search before its cluster"
    if decision == "stopped":
        return (
            f"{document} is not returned: the search ended before its cluster, whose bounds (BoundSum {bound_sum:.6g}, "
            f"MaxSBound {max_bound:.6g}) cannot pass θ = {final:.6g}"
        )
    if fate[0] == _BELOW_BOUND:
        return (
            f"{document} is not returned: its cluster was visited, but its bound {fate[1]:.6g} could not pass "
            f"when θ was {fate[2]:.6g}"
        )
    return f"{document} is not returned: it was scored, and the k-th result has {final:.6g}"
