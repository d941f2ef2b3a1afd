"""Layouts: how many shards, replicas, machines and routers, and whether that is enough."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator

from segmax.planning.approximating import Latency, Load, approximate, load_of
from segmax.planning.asking import Asked
from segmax.planning.costs import Costs
from segmax.planning.modeling import modeled
from segmax.planning.request import Machine, Request
from segmax.planning.scenario import Scenario

GB = 1e9
HOURS_PER_MONTH = 730.0
_STEP = 1.2  # the next number of shards to look at
_MOST_SHARDS = 4096
_FEWEST_DOCS = 1e5  # of a shard: fewer are not worth a call
_MOST_REPLICAS = 64
_MORE_REPLICAS = 4  # beyond what the load needs, to meet the p99
_MORE_MACHINES = 1.02  # the next number of machines to look at


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layout:
    """A cluster that bears the load of a request; whether it is quick enough is another question."""

    shards: int
    replicas: int
    machines: int
    routers: int
    shard_bytes: float
    memory_gb: float  #: of all actors and routers
    asked: Asked
    scenario: Scenario
    down: Scenario  #: with as many machines down as may be

    def monthly_cost(self, machine: Machine) -> float:
        """Return what machines and disks cost per month."""
        return self.machines * machine.price_per_hour * HOURS_PER_MONTH + self.disk_gb * machine.price_per_gb_month

    @property
    def disk_gb(self) -> float:
        """The disk that all machines need, and the shared folder: a copy per replica, and one."""
        return (min(self.replicas, self.machines) + 1) * self.shards * self.shard_bytes / GB

    @functools.cached_property
    def latency(self) -> Latency:
        """Latencies with all machines up."""
        return approximate(self.scenario, hottest=self.asked.hottest)

    @functools.cached_property
    def latency_down(self) -> Latency:
        """Latencies with as many machines down as may be."""
        return approximate(self.down, hottest=self.asked.hottest)

    @property
    def load_down(self) -> Load:
        """How busy it is then."""
        return load_of(self.down, self.asked.hottest)


def layouts(request: Request, costs: Costs) -> list[Layout]:
    """Return layouts for every number of shards that is worth a look, with some numbers of replicas each."""
    found: list[Layout] = []
    for shards in _numbers_of_shards(request):
        found += _Sized(request, costs, shards).layouts()
        if found and request.searching.max_shards:  # of more shards, as many would be a smaller part
            break
    return found


def _numbers_of_shards(request: Request) -> Iterator[int]:
    shards = math.ceil(request.docs / request.max_shard_docs)
    yield shards
    while shards < _MOST_SHARDS and request.docs / shards > _FEWEST_DOCS:
        shards = max(shards + 1, math.ceil(shards * _STEP))
        yield shards


class _Sized:
    """A number of shards, and what follows from it."""

    def __init__(self, request: Request, costs: Costs, shards: int) -> None:
        self._request, self._shards = request, shards
        how = request.searching
        docs, terms = request.docs, request.terms
        self._asked = how.asked(costs, shards)
        self._bytes = costs.index_bytes(docs / shards, terms) + docs / shards * request.extra_bytes
        self._actor_bytes = self._bytes + costs.process_bytes
        self._router_bytes = costs.router_bytes(docs, terms, shards, sharding=how.sharding) + costs.process_bytes
        calls = request.requests_per_second * max(self._asked.share * shards, 1.0) / shards  # of a shard, per second
        rest = 1e3 * (request.failures + 1) / calls
        made = modeled(costs, docs=docs, terms=terms, shards=shards, searching=how, rest_ms=rest)
        self._one = dataclasses.replace(
            made,
            cores=request.machine.cores,
            qps=request.requests_per_second,
            network_ms=made.network_ms + request.network_ms / 2,
        )

    def layouts(self) -> Iterator[Layout]:
        """Yield layouts: with the fewest replicas that bear the load, and with some more."""
        for replicas in self._enough_replicas():
            found = self._with_replicas(replicas)
            if found is not None:
                yield found

    def _enough_replicas(self) -> range:
        """Return numbers of replicas that bear the load with machines down, within the headroom."""
        one = load_of(self._one, self._asked.hottest).actors
        least = self._request.failures + max(1, math.ceil(one / (1 - self._request.headroom)))
        return range(least, least + _MORE_REPLICAS + 1) if least <= _MOST_REPLICAS else range(0)

    def _with_replicas(self, replicas: int) -> Layout | None:
        request, free = self._request, 1 - self._request.headroom
        load = load_of(dataclasses.replace(self._one, replicas=replicas), self._asked.hottest)
        least = max(math.ceil(load.cores / free) + request.failures, replicas)
        routers = max(1, math.ceil(load.routers / free))
        machines = self._machines(replicas, routers, least)
        if machines is None:
            return None
        left = machines - request.failures
        routers_up = math.ceil(routers * machines / left)
        return Layout(
            shards=self._shards,
            replicas=replicas,
            machines=machines,
            routers=routers_up,
            shard_bytes=self._bytes,
            memory_gb=(self._shards * replicas * self._actor_bytes + routers_up * self._router_bytes) / GB,
            asked=self._asked,
            scenario=self._cluster(replicas, machines, routers_up),
            down=self._cluster(replicas - request.failures, left, routers),
        )

    def _cluster(self, replicas: int, machines: int, routers: int) -> Scenario:
        return dataclasses.replace(self._one, replicas=replicas, machines=machines, routers=routers)

    def _machines(self, replicas: int, routers: int, least: int) -> int | None:
        """Return how many machines have room for all actors and routers; None if none is large enough."""
        free = (1 - self._request.headroom) * GB
        memory, disk = self._request.machine.memory_gb * free, self._request.machine.disk_gb * free
        machines = least
        while True:
            actors = math.ceil(self._shards * replicas / machines)
            # A machine that goes down leaves its routers to the others.
            own = math.ceil(routers / (machines - self._request.failures))
            if actors * self._actor_bytes + own * self._router_bytes <= memory and actors * self._bytes <= disk:
                return machines
            if actors == 1 and own == 1:
                return None
            machines = math.ceil(machines * _MORE_MACHINES)
