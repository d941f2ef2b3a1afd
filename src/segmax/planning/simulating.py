"""Discrete-event simulation of a cluster: routers, queues, stragglers, hedges, failures."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from segmax.base.checks import checked_int
from segmax.base.optional import need
from segmax.planning.cluster import Actor, Factors, Hedging, Machine, Servers, Steps
from segmax.planning.scenario import Scenario
from segmax.planning.workload import Workload

if TYPE_CHECKING:
    import simpy

_WARM_UP = 0.1  # share of the queries that come before those that count
_LOOK_MS = 20.0  # how often a call without a replica looks for one


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Simulated:
    """What a simulation found. Times are milliseconds."""

    latencies_ms: NDArray[np.float64]
    elapsed_ms: float
    utilization: NDArray[np.float64]  #: busy share of the cores, by machine
    router_utilization: float  #: busy share of the routers
    calls: NDArray[np.int64]  #: by shard, without hedges, of the queries that count
    hedges: int
    retries: int

    @property
    def mean_ms(self) -> float:
        """The mean latency."""
        return float(self.latencies_ms.mean())

    def quantile_ms(self, share: float) -> float:
        """Return the latency that this share of the queries stays within."""
        return float(np.quantile(self.latencies_ms, share))

    @property
    def per_second(self) -> float:
        """Requests per second."""
        return len(self.latencies_ms) / self.elapsed_ms * 1e3

    @property
    def shards_asked(self) -> float:
        """Shards that a query asks, on average."""
        return float(self.calls.sum() / len(self.latencies_ms))

    @property
    def hottest(self) -> float:
        """Calls of the shard that gets most, relative to the mean."""
        return float(self.calls.max() / self.calls.mean())

    @property
    def hedge_share(self) -> float:
        """Hedges per call."""
        return float(self.hedges / self.calls.sum())

    def to_dict(self) -> dict[str, float]:
        """Return plain values."""
        return {
            "queries": len(self.latencies_ms),
            "mean_ms": self.mean_ms,
            "p50_ms": self.quantile_ms(0.5),
            "p99_ms": self.quantile_ms(0.99),
            "per_second": self.per_second,
            "shards_asked": self.shards_asked,
            "hottest": self.hottest,
            "hedge_share": self.hedge_share,
            "retries": self.retries,
            "busiest": float(self.utilization.max()),
        }

    def __str__(self) -> str:
        """Return one line."""
        return (
            f"{self.mean_ms:.1f} ms, p99 {self.quantile_ms(0.99):.1f} ms, {self.shards_asked:.1f} shards asked, "
            f"hottest shard {self.hottest:.2f} times the mean, busiest machine {self.utilization.max():.0%}"
        )


def simulate(scenario: Scenario, *, queries: int = 5000, seed: int = 0) -> Simulated:
    """Simulate a cluster under queries.

    Parameters
    ----------
    scenario
        The cluster and its queries.
    queries
        How many to simulate; a tenth more come before them, to fill the queues.
    seed
        The same seed gives the same result.

    Raises
    ------
    MissingPackageError
        If SimPy is not installed.

    Examples
    --------
    >>> from segmax.planning import Scenario, simulate  # doctest: +SKIP
    >>> found = simulate(Scenario(shards=4, cores=4, search_ms=2.0, floored_ms=1.0), queries=100)  # doctest: +SKIP
    >>> found.mean_ms  # two rounds, the second of three shards at once  # doctest: +SKIP
    3.0
    """
    checked_int("queries", queries, 1)
    need("simpy", "the simulation", "ray")
    return _Simulation(scenario, seed).run(queries)


class _Router:
    """A process that serves queries, some at once; what it does itself takes its one thread and a core."""

    def __init__(self, env: simpy.Environment, machine: Machine, at_once: int) -> None:
        self.queries = 0  #: that it serves, or that wait for it
        self.busy_ms = 0.0
        self._turns = Servers(env, at_once)
        self._thread = Servers(env, 1)
        self._machine = machine

    def serve(self, steps: Iterable[Any]) -> Steps:
        """Serve a query when it is its turn."""
        self.queries += 1
        yield from self._turns.use(steps)
        self.queries -= 1

    def work(self, ms: float) -> Steps:
        """Do something for a query."""
        if ms:
            self.busy_ms += ms
            yield from self._thread.use(self._machine.work(ms))


class _Simulation:
    def __init__(self, scenario: Scenario, seed: int) -> None:
        import simpy

        self.scenario = scenario
        self.env = env = simpy.Environment()
        self.workload = Workload(scenario, seed)
        rng = np.random.default_rng(seed + 1)
        self.rng = rng
        self.noise = Factors(rng, scenario.noise_spread)
        self.call_noise = Factors(rng, scenario.call_spread)
        self.machines = [Machine(env, scenario.cores) for _ in range(scenario.machines)]
        router_machines = [Machine(env, scenario.router_cores)] if scenario.router_cores else self.machines
        self.routers = [
            _Router(env, router_machines[number % len(router_machines)], scenario.router_queries)
            for number in range(scenario.routers)
        ]
        # Replicas of a shard on different machines, and every machine with about as many actors.
        self.actors = [
            [
                Actor(env, self.machines[(shard * scenario.replicas + number) % scenario.machines], scenario.threads)
                for number in range(scenario.replicas)
            ]
            for shard in range(scenario.shards)
        ]
        self.hedging = Hedging(scenario.hedge_quantile, scenario.hedge_share if scenario.replicas > 1 else 0.0)
        self.calls = np.zeros(scenario.shards, dtype=np.int64)
        self.hedges = self.retries = 0
        self.latencies: list[float] = []

    def run(self, count: int) -> Simulated:
        early = int(_WARM_UP * count)
        drawn = self.workload.queries(early + count)
        done = self.env.event()
        self.env.process(self._arrivals(drawn, done))
        for machine in self.machines:
            if self.scenario.mtbf_s:
                self.env.process(self._failures(machine))
        self.warm: tuple[float, list[float], float] | None = None
        self._early = early
        self.env.run(done)
        return self._found()

    # --- queries -----------------------------------------------------------------------------------------------------

    def _arrivals(self, drawn: Any, done: simpy.Event) -> Steps:
        env = self.env
        running: list[simpy.Process] = []
        for number in range(len(drawn.pause_ms)):
            if number == self._early:
                self._start_counting()
            if self.scenario.qps:
                yield env.timeout(float(drawn.pause_ms[number]))
            elif len(running) >= self.scenario.routers * self.scenario.router_queries:
                yield env.any_of(running)
            running = [each for each in running if not each.processed]
            running.append(env.process(self._query(drawn, number)))
        yield env.all_of(running)
        done.succeed()

    def _query(self, drawn: Any, number: int) -> Steps:
        scenario, start = self.scenario, self.env.now
        router = min(self.routers, key=lambda each: each.queries)
        asked = self.workload.shards_of(int(drawn.topic[number]), scenario.shards).tolist()
        hardness = float(drawn.hardness[number])
        calls, done = [], 0
        for count, search_ms in scenario.rounds(int(drawn.num_asked[number])):
            some = max(1, round(count))
            calls.append((asked[done : done + some], search_ms * hardness))
            done += some if scenario.batch == 1 else 0
        counts = number >= self._early
        yield from router.serve(self._rounds(router, calls, counts=counts))
        if counts:
            self.latencies.append(self.env.now - start)

    def _rounds(self, router: _Router, rounds: list[tuple[list[int], float]], *, counts: bool) -> Steps:
        yield from router.work(self.scenario.router_ms)
        for shards, search_ms in rounds:
            if counts:
                np.add.at(self.calls, shards, 1)
            yield from self._round(router, shards, search_ms, counts=counts)

    def _round(self, router: _Router, shards: list[int], search_ms: float, *, counts: bool) -> Steps:
        """Call shards, each as soon as its call is ready, and wait for all."""
        answers = []
        for shard in shards:
            yield from router.work(self.scenario.send_ms)
            answers.append(self.env.process(self._ask(router, shard, search_ms, counts=counts)))
        if answers:
            yield self.env.all_of(answers)

    def _ask(self, router: _Router, shard: int, search_ms: float, *, counts: bool) -> Steps:
        """Get the answer of a shard: from the replica with least to do, or from another if it fails or is late."""
        env, scenario, hedging = self.env, self.scenario, self.hedging
        hedging.calls += 1
        start = env.now
        while True:
            first = self._least_loaded(shard, None)
            if first is None:
                yield env.timeout(_LOOK_MS)
                continue
            answer = env.event()
            if scenario.network_ms:
                yield env.timeout(scenario.network_ms)
            first.start(self._work_ms(search_ms), answer)
            patience = hedging.patience_ms
            if patience is not None:
                yield answer | env.timeout(patience)
                if not answer.triggered:
                    second = self._least_loaded(shard, first)
                    if second is not None and hedging.spend():
                        self.hedges += counts
                        second.start(self._work_ms(search_ms), answer)
            answered = yield answer
            if scenario.network_ms:
                yield env.timeout(scenario.network_ms)
            if answered:
                break
            self.retries += counts
        hedging.answered(env.now - start)
        yield from router.work(scenario.receive_ms)

    def _work_ms(self, search_ms: float) -> float:
        return self.scenario.actor_ms * self.call_noise.next() + search_ms * self.noise.next()

    def _least_loaded(self, shard: int, other_than: Actor | None) -> Actor | None:
        up = [actor for actor in self.actors[shard] if actor.is_up and actor is not other_than]
        if len(up) < 2:
            return up[0] if up else None
        least = min(actor.outstanding for actor in up)
        choice = [actor for actor in up if actor.outstanding == least]
        return choice[int(self.rng.integers(len(choice)))] if len(choice) > 1 else choice[0]

    # --- failures ----------------------------------------------------------------------------------------------------

    def _failures(self, machine: Machine) -> Steps:
        """Let the actors of a machine die from time to time, and come back."""
        env, scenario = self.env, self.scenario
        own = [actor for replicas in self.actors for actor in replicas if actor.machine is machine]
        while True:
            yield env.timeout(float(self.rng.exponential(scenario.mtbf_s * 1e3)))
            for actor in own:
                actor.die()
            yield env.timeout(scenario.restart_s * 1e3)
            for actor in own:
                actor.is_up = True

    # --- what comes out ----------------------------------------------------------------------------------------------

    def _start_counting(self) -> None:
        busy = [machine.busy_ms for machine in self.machines]
        routers = sum(router.busy_ms for router in self.routers)
        self.warm = (self.env.now, busy, routers)

    def _found(self) -> Simulated:
        assert self.warm is not None
        start, busy, router_busy = self.warm
        elapsed = self.env.now - start
        by_machine = [machine.busy_ms - before for machine, before in zip(self.machines, busy, strict=True)]
        routers = sum(router.busy_ms for router in self.routers) - router_busy
        return Simulated(
            latencies_ms=np.array(self.latencies),
            elapsed_ms=elapsed,
            utilization=np.array(by_machine) / elapsed / self.scenario.cores,
            router_utilization=routers / elapsed / self.scenario.routers,
            calls=self.calls,
            hedges=self.hedges,
            retries=self.retries,
        )
