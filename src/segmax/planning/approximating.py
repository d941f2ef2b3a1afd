"""The latency of a scenario by queueing theory and random numbers: at once, where a simulation takes minutes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from segmax.planning.queueing import Waiting, waiting
from segmax.planning.scenario import Scenario
from segmax.planning.workload import Workload, lognormal

_SAMPLES = 2000
_STRATA = 20  # of samples that ask about as many shards
_REFINED = 4  # rounds after which the times of calls hardly change


class Latency(NamedTuple):
    """Latencies in milliseconds; infinite if there is more work than the cluster can do."""

    mean: float
    p50: float
    p99: float


class Load(NamedTuple):
    """Busy shares: of the threads of the hottest shard, of the cores, of the routers.

    A router that serves one query at a time is busy while it waits for answers, too.
    """

    actors: float
    cores: float
    routers: float


def load_of(scenario: Scenario, hottest: float | None = None) -> Load:
    """Return how busy a cluster is, with hedges: its hottest shard, all of its cores, its routers.

    Parameters
    ----------
    scenario
        The cluster and its queries.
    hottest
        Calls of the hottest shard relative to the mean; None: as the topics of the scenario make it.
    """
    if hottest is None:
        hottest = float(Workload(scenario, 0).expected_load().max())
    per_ms = scenario.qps / 1e3
    hedges = scenario.hedge_share if scenario.replicas > 1 else 0.0
    calls = _call_ms(scenario) * scenario.calls * per_ms * (1 + hedges)
    routers = _router_ms(scenario) * per_ms
    cores = scenario.machines * scenario.cores
    shared = calls if scenario.router_cores else calls + routers
    threads = scenario.shards * scenario.replicas * scenario.threads
    return Load(calls * hottest / threads, shared / cores, _router_busy_ms(scenario) * per_ms / scenario.routers)


def approximate(scenario: Scenario, *, hottest: float | None = None, seed: int = 0) -> Latency:
    """Return about what `simulate` would find, without failures.

    Waiting times are those of M/G/c queues: one per shard, whose replicas share the calls, and one per machine, whose
    cores do; the longer of both counts. Rounds are drawn: each takes as long as its slowest call.

    Parameters
    ----------
    scenario
        The cluster and its queries.
    hottest
        Calls of the hottest shard relative to the mean; None: as the topics of the scenario make it.
    seed
        The same seed gives the same result.

    Examples
    --------
    >>> approximate(Scenario(shards=4, cores=4, qps=1, search_ms=2.0, floored_ms=1.0)).p50
    3.0
    """
    load = load_of(scenario, hottest)
    if max(load) >= 1:
        return Latency(*[float("inf")] * 3)
    rng = np.random.default_rng(seed)
    at_router = waiting(scenario.routers, scenario.qps / 1e3, _router_busy_ms(scenario))
    total = _drawn_waits(rng, at_router, (_SAMPLES,)) + scenario.router_ms
    waits = _waits(scenario, load)
    asked = np.sort(Workload(scenario, seed).num_asked(_SAMPLES)).reshape(_STRATA, -1)
    for row, counts in zip(total.reshape(_STRATA, -1), asked, strict=True):
        row += _rounds_ms(scenario, rng, waits, round(counts.mean()), len(row))
    return Latency(float(total.mean()), float(np.quantile(total, 0.5)), float(np.quantile(total, 0.99)))


def _call_ms(scenario: Scenario) -> float:
    """Return what an actor does for a call, on average."""
    searches = sum(each.calls * each.search_ms for each in scenario.rounds(scenario.num_asked))
    return scenario.actor_ms + searches / scenario.calls


def _router_ms(scenario: Scenario) -> float:
    """Return what a router does for a query."""
    return scenario.router_ms + scenario.calls * (scenario.send_ms + scenario.receive_ms)


def _router_busy_ms(scenario: Scenario) -> float:
    """Return how long a query keeps a router from serving others."""
    if scenario.router_queries > 1:
        return _router_ms(scenario)
    per_round = scenario.actor_ms + 2 * scenario.network_ms
    return _router_ms(scenario) + sum(per_round + each.search_ms for each in scenario.rounds(scenario.num_asked))


class _Waits(NamedTuple):
    """How long a call waits for its actor, and how long whatever comes waits for a core of its machine."""

    actor: Waiting
    core: Waiting


def _waits(scenario: Scenario, load: Load) -> _Waits:
    mean = _call_ms(scenario)
    if not mean:
        return _Waits(Waiting(0.0, 0.0), Waiting(0.0, 0.0))
    variation = _variance(scenario) / mean**2
    threads = scenario.replicas * scenario.threads
    # Calls of a round come to a machine at once, which makes them wait for one another.
    burst = max(0.0, 2 * (max(each.calls for each in scenario.rounds(scenario.num_asked)) / scenario.machines - 1))
    return _Waits(
        waiting(threads, load.actors * threads / mean, mean, variation),
        waiting(scenario.cores, load.cores * scenario.cores / mean, mean, variation + burst),
    )


def _variance(scenario: Scenario) -> float:
    """Return the variance of what an actor does for a call."""
    rounds = scenario.rounds(scenario.num_asked)
    squares = sum(each.calls * each.search_ms**2 for each in rounds) / scenario.calls
    mean = sum(each.calls * each.search_ms for each in rounds) / scenario.calls
    hardness = np.exp(scenario.query_spread**2 / scenario.batch + scenario.noise_spread**2)
    return float(np.expm1(scenario.call_spread**2) * scenario.actor_ms**2 + hardness * squares - mean**2)


def _rounds_ms(
    scenario: Scenario, rng: np.random.Generator, waits: _Waits, asked: int, samples: int
) -> NDArray[np.float64]:
    """Draw how long the rounds of queries take that ask so many shards."""
    hardness = lognormal(rng, scenario.query_spread / scenario.batch**0.5, samples)
    return sum(
        (
            _round_ms(scenario, rng, waits, max(1, round(calls)), search_ms * hardness)
            for calls, search_ms in scenario.rounds(asked)
        ),
        start=np.zeros(samples),
    )


def _round_ms(
    scenario: Scenario, rng: np.random.Generator, waits: _Waits, calls: int, search_ms: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Draw how long a round of so many calls takes: sent one by one, answered whenever, received one by one."""
    took = _call_times(scenario, rng, waits, calls, search_ms)
    if scenario.hedge_share and scenario.replicas > 1:
        patience = float(np.quantile(took, scenario.hedge_quantile))
        again = patience + _call_times(scenario, rng, waits, calls, search_ms)
        took = np.where(took > patience, np.minimum(took, again), took)
    took += 2 * scenario.network_ms
    wait = 0.0 if scenario.router_cores else waits.core.mean * scenario.actor_ms / _call_ms(scenario)
    return _sent_and_received(took, scenario.send_ms + wait, scenario.receive_ms + wait)


def _sent_and_received(took: NDArray[np.float64], send: float, receive: float) -> NDArray[np.float64]:
    """Return when all answers are received, by a thread that sends call after call and receives in between.

    Examples
    --------
    >>> _sent_and_received(np.array([[1.0, 1.0]]), 0.5, 0.25)  # two sent after 1, two received from 1.5 to 2.25
    array([2.25])
    """
    calls = took.shape[1]
    number = np.arange(1, calls + 1)
    sent = np.broadcast_to(send * number, took.shape)
    for _ in range(_REFINED):
        # What comes back before a call is sent is received before it.
        places = np.concatenate([sent, sent + took], axis=1).argsort(axis=1, kind="stable").argsort(axis=1)
        sent = send * number + receive * (places[:, :calls] - number + 1)
    back = np.sort(sent + took, axis=1)
    late = back >= sent[:, -1:]
    return np.asarray(np.where(late, back + receive * number[::-1], sent[:, -1:]).max(axis=1))


def _call_times(
    scenario: Scenario, rng: np.random.Generator, waits: _Waits, calls: int, search_ms: NDArray[np.float64]
) -> NDArray[np.float64]:
    shape = (len(search_ms), calls)
    count = len(search_ms) * calls
    search = search_ms[:, None] * lognormal(rng, scenario.noise_spread, count).reshape(shape)
    own = scenario.actor_ms * lognormal(rng, scenario.call_spread, count).reshape(shape)
    # A query that comes at a busy moment waits for cores with all of its calls.
    together = _drawn_waits(rng, waits.core, (len(search_ms), 1))
    return np.asarray(np.maximum(_drawn_waits(rng, waits.actor, shape), together) + own + search)


def _drawn_waits(rng: np.random.Generator, wait: Waiting, shape: tuple[int, ...]) -> NDArray[np.float64]:
    waits = rng.random(shape) < wait.probability
    return np.asarray(np.where(waits, rng.exponential(wait.if_it_does, shape), 0.0))
