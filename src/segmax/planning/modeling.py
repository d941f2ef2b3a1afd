"""From measured figures to a scenario: a sharded index, and how it is searched."""

from __future__ import annotations

import dataclasses
import math

from segmax.planning.asking import Asked, Sharding, asked, round_sizes
from segmax.planning.costs import Costs
from segmax.planning.scenario import Scenario


@dataclasses.dataclass(frozen=True, kw_only=True)
class Searching:
    """How an index is searched; `plan` explains the fields."""

    k: int = 10
    sharding: Sharding = "clusters"
    mu: float = 1.0
    max_shards: int = 0
    recall: float = 1.0
    batch: int = 1

    def asked(self, costs: Costs, shards: int) -> Asked:
        """Return what queries ask of so many shards."""
        return asked(
            costs.figures,
            shards=shards,
            k=self.k,
            sharding=self.sharding,
            mu=self.mu,
            max_shards=self.max_shards,
            recall=self.recall,
        )

    @property
    def is_limited(self) -> bool:
        """Whether only the best shards are asked."""
        return self.max_shards > 0 or self.recall < 1


def modeled(
    costs: Costs,
    *,
    docs: float,
    terms: float,
    shards: int,
    searching: Searching | None = None,
    rest_ms: float = math.inf,
) -> Scenario:
    """Return the scenario of a sharded index: one replica of every shard on one core, queries one after the other.

    Change the cluster and the load with `dataclasses.replace`.

    Parameters
    ----------
    costs
        What everything takes.
    docs, terms
        Documents of the whole index, and terms of each.
    shards
        How many it has.
    searching
        How it is searched; None: exactly, for ten results.
    rest_ms
        How long an actor rests between calls.

    Examples
    --------
    >>> from segmax.planning import Figures
    >>> scenario = modeled(Costs(Figures.measured()), docs=1e6, terms=120, shards=8)
    >>> scenario.search_ms < 1, scenario.asked > 1
    (True, True)
    """
    how = Searching() if searching is None else searching
    found = how.asked(costs, shards)
    calls = max(1.0, found.share * shards)
    search_ms = costs.search_ms(docs / shards, terms, how.k)
    shard_ms, actor_ms = costs.shard_ms(how.batch), costs.actor_ms(how.k, rest_ms=rest_ms)
    caller_ms = costs.caller_ms(how.k, calls)
    is_limited = how.max_shards > 0 or (how.recall < 1 and calls < shards)
    first, second = round_sizes(math.ceil(calls) if is_limited else shards, shards)
    # One process answers its calls in Python one at a time; only searches run side by side.
    at_once = int((actor_ms + search_ms * how.batch) / actor_ms)
    return Scenario(
        shards=shards,
        threads=max(1, min(costs.threads, at_once)),
        batch=how.batch,
        asked=calls if calls > 1 else 1 / shards,
        asked_spread=found.spread,
        first=first,
        second=second,
        router_ms=costs.router_ms(docs, shards, sharding=how.sharding, limited=is_limited, batch=how.batch),
        send_ms=caller_ms * costs.send_share,
        receive_ms=caller_ms * (1 - costs.send_share),
        actor_ms=actor_ms,
        search_ms=search_ms + shard_ms,
        floored_ms=search_ms * costs.floor_factor(how.k, shards) + shard_ms,
        network_ms=costs.wake_ms / 2,
        query_spread=costs.query_spread,
        noise_spread=costs.noise_spread,
        call_spread=costs.call_spread,
    )
