"""What a simulation simulates: a cluster, its queries, and what goes wrong."""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

from segmax.base.checks import checked_int, checked_number
from segmax.base.errors import ConfigError

_COUNTS = (
    "shards",
    "replicas",
    "machines",
    "cores",
    "threads",
    "routers",
    "router_queries",
    "batch",
    "first",
    "topics",
)


class Round(NamedTuple):
    """Calls that are made at once."""

    calls: float
    search_ms: float  #: what every call searches for


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scenario:
    """A cluster under queries. Times are milliseconds of one core.

    Parameters
    ----------
    shards, replicas
        How many shards there are, and actors of each.
    machines, cores
        How many machines there are for the actors, and cores of each.
    threads
        How many calls an actor answers at once.
    routers
        Processes that take queries and call actors.
    router_queries
        How many queries a router serves at once.
    router_cores
        Cores of the machines that routers run on, all together; 0: routers run on the machines of the actors.
    qps
        Queries per second, at random moments; 0: the next comes when one was answered, so that routers have no rest.
    batch
        Queries per request; `qps` and latencies are those of requests.
    asked
        The share of the shards that a query asks, on average; or, if it is more than 1, how many.
    asked_spread
        The standard deviation of that share, from query to query.
    first, second
        How many shards the first round of calls asks, and the second. The last asks the others. 0 for `second` leaves
        it out. Only the first has no threshold.
    router_ms, send_ms, receive_ms
        What a router does for a query before the first call, and for every call before it leaves and when it is back.
    actor_ms
        What an actor does for a call, without the search.
    search_ms, floored_ms
        One search of one shard, without and with a threshold from the round before.
    network_ms
        The way from one machine to another, added to every call twice.
    query_spread, noise_spread, call_spread
        Standard deviations of logarithms: of search times from query to query, from search to search of one query, and
        of `actor_ms` from call to call.
    hedge_quantile, hedge_share
        A call that takes longer than this quantile of recent ones is sent to a second replica, for at most this share
        of all calls; 0 turns that off.
    topics, zipf
        Every query is about one of so many topics, the i-th most popular with a probability in proportion to
        i ** -zipf. Queries of a topic ask the same shards first.
    mtbf_s, restart_s
        Mean seconds between failures of a machine, 0 for none; and how long its actors are gone.

    Examples
    --------
    >>> Scenario(shards=4, cores=2, asked=0.5).num_asked
    2.0
    """

    shards: int
    replicas: int = 1
    machines: int = 1
    cores: int = 1
    threads: int = 1
    routers: int = 1
    router_queries: int = 1
    router_cores: int = 0
    qps: float = 0.0
    batch: int = 1
    asked: float = 1.0
    asked_spread: float = 0.0
    first: int = 1
    second: int = 0
    router_ms: float = 0.0
    send_ms: float = 0.0
    receive_ms: float = 0.0
    actor_ms: float = 0.0
    search_ms: float = 1.0
    floored_ms: float = 1.0
    network_ms: float = 0.0
    query_spread: float = 0.0
    noise_spread: float = 0.0
    call_spread: float = 0.0
    hedge_quantile: float = 0.95
    hedge_share: float = 0.05
    topics: int = 1000
    zipf: float = 0.0
    mtbf_s: float = 0.0
    restart_s: float = 10.0

    def __post_init__(self) -> None:
        for name in _COUNTS:
            checked_int(name, getattr(self, name), 1)
        for field in dataclasses.fields(self):
            value = checked_number(field.name, getattr(self, field.name))
            if not (math.isfinite(value) and value >= 0):
                raise ConfigError(option=field.name, expected="at least 0", got=value)
        if not 0 < self.num_asked <= self.shards:
            raise ConfigError(
                option="asked", expected="more than 0, and not more than there are shards", got=self.asked
            )

    @property
    def num_asked(self) -> float:
        """How many shards a query asks, on average."""
        return self.asked if self.asked > 1 else self.asked * self.shards

    def rounds(self, asked: float) -> list[Round]:
        """Return the rounds of a query that asks so many shards, or of a batch of such queries.

        Every query of a batch chooses its own shards, so that a large batch calls all of them in every round.
        """
        sizes = [min(self.first, asked), min(self.second, max(asked - self.first, 0))]
        sizes.append(asked - sum(sizes))
        rounds = []
        for number, size in enumerate(sizes):
            if size > 0:
                calls = size if self.batch == 1 else self.shards * (1 - (1 - size / self.shards) ** self.batch)
                ms = self.floored_ms if number else self.search_ms
                rounds.append(Round(calls, ms * size * self.batch / calls))
        return rounds

    @property
    def calls(self) -> float:
        """Calls per query or batch, on average."""
        return sum(each.calls for each in self.rounds(self.num_asked))
