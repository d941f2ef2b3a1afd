"""Putting into words what became of a document of a sharded index: whether its shard was asked, and why not."""

from __future__ import annotations

import dataclasses

from segmax.base.display import short_number
from segmax.search.explain import subject_of
from segmax.search.methods import SearchParams
from segmax.search.results import Explanation
from segmax.shards.asking import Decision
from segmax.shards.found import ShardExplanation
from segmax.shards.searching import Result
from segmax.storage.tables import TextTable

_WORDS = {
    Decision.ASKED: "asked",
    Decision.RULED_OUT: "ruled out",
    Decision.LEFT_OUT: "left out",
    Decision.MISSING: "missing",
}


def explained(
    own: Explanation, shard: int, number: int, k: int, found: Result, params: SearchParams, terms: TextTable | None
) -> ShardExplanation:
    """Return what a search of its shard alone says about a document, with what the search of all shards did.

    Parameters
    ----------
    own
        The explanation of the shard.
    shard, number
        Where the document is, and its number.
    k, params
        Of the search.
    found
        What the search of all shards found.
    terms
        The words of the terms.
    """
    count = int(found.counts[0])
    rank = next((rank for rank, one in enumerate(found.numbers[0, :count].tolist(), start=1) if one == number), None)
    final = float(found.scores[0, count - 1]) if count == k else 0.0
    decision = Decision(int(found.decisions[0, shard]))
    most = float(found.bounds.most[0, shard]) * float(found.scales[0])
    average = float(found.bounds.average[0, shard]) * float(found.scales[0])
    subject = f"{subject_of(own)[:-1]}, shard {shard})"
    if rank is not None:
        reason = f"{subject} is returned at rank {rank}"
    elif decision is Decision.RULED_OUT and own.score > 0:
        reason = f"{subject} is not returned: {_rule(most, average, final, params)}"
    elif decision is Decision.LEFT_OUT and own.score > 0:
        reason = f"{subject} is not returned: other shards promised more, and max_shards left this one out"
    elif own.rank is not None:
        reason = f"{subject} is not returned: the k-th result, of another shard, has {short_number(final)}"
    else:
        reason = own.reason.replace(subject_of(own), subject, 1)
    matched = own.matched
    if terms is not None:
        matched = tuple(match._replace(word=terms[match.term]) for match in matched)
    fields = {field.name: getattr(own, field.name) for field in dataclasses.fields(Explanation)}
    fields |= {"rank": rank, "final_threshold": final, "reason": reason, "matched": matched}
    return ShardExplanation(
        **fields, shard=shard, shard_decision=_WORDS[decision], shard_max_bound=most, shard_avg_bound=average
    )


def _rule(most: float, average: float, theta: float, params: SearchParams) -> str:
    """Return why a shard was ruled out, by the last θ: the one at that moment was no higher."""
    mu = getattr(params, "mu", 1.0)
    eta = getattr(params, "eta", mu)
    if mu == eta == 1.0:
        return f"its shard was not asked: MaxSBound {short_number(most)} does not exceed θ = {short_number(theta)}"
    by_max = f"MaxSBound {short_number(most)} <= θ/μ = {short_number(theta / mu)}"
    by_average = f"AvgSBound {short_number(average)} <= θ/η = {short_number(theta / eta)}"
    return f"its shard was not asked: {by_max} and {by_average}"
