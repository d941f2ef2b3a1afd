"""Waiting times: formulas against values that theory gives, and the simulation against the formulas."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from segmax.planning.queueing import erlang_c, waiting

RATE = 1.0


def simulated_wait(servers: int, services: np.ndarray, seed: int = 0) -> float:
    """The mean waiting time at simulated servers, which get a request per millisecond at random."""
    simpy = pytest.importorskip("simpy")
    from segmax.planning.cluster import Machine

    env = simpy.Environment()
    machine = Machine(env, servers)
    waits: list[float] = []

    def request(service: float) -> Iterator[Any]:
        start = env.now
        yield from machine.work(service)
        waits.append(env.now - start - service)

    def arrivals() -> Iterator[Any]:
        for pause, service in zip(
            np.random.default_rng(seed).exponential(1 / RATE, len(services)), services, strict=True
        ):
            yield env.timeout(float(pause))
            env.process(request(float(service)))

    env.process(arrivals())
    env.run()
    return float(np.mean(waits[len(waits) // 10 :]))


@pytest.mark.parametrize(
    ("servers", "load", "expected"), [(1, 0.3, 0.3), (2, 1.0, 1 / 3), (3, 2.0, 4 / 9), (10, 0.0, 0.0), (4, 5.0, 1.0)]
)
def test_erlang_c(servers: int, load: float, expected: float) -> None:
    """The probability of waiting is the one that textbooks give."""
    assert erlang_c(servers, load) == pytest.approx(expected)


def test_one_server_is_pollaczek_and_khinchine() -> None:
    """For one server the mean wait is exact, whatever the service times."""
    mean, variation = 0.8, 2.5
    expected = RATE * mean**2 * (1 + variation) / (2 * (1 - RATE * mean))
    assert waiting(1, RATE, mean, variation).mean == pytest.approx(expected)


def test_too_much_work_waits_for_ever() -> None:
    """At a load of all servers the wait is infinite."""
    assert math.isinf(waiting(2, 2.0, 1.0).mean)


@pytest.mark.parametrize(("servers", "utilization"), [(1, 0.6), (2, 0.7), (8, 0.85)])
def test_simulated_queues_wait_as_theory_says(servers: int, utilization: float) -> None:
    """M/M/c: a simulated machine has the mean wait of Erlang's formula."""
    mean = utilization * servers / RATE
    services = np.random.default_rng(1).exponential(mean, 60_000)
    assert simulated_wait(servers, services) == pytest.approx(waiting(servers, RATE, mean).mean, rel=0.08)


@pytest.mark.parametrize(("servers", "spread"), [(1, 0.6), (4, 0.4)])
def test_simulated_queues_of_lognormal_services(servers: int, spread: float) -> None:
    """M/G/c: with the lognormal services that searches have, theory and simulation agree, too."""
    mean, variation = 0.7 * servers, math.expm1(spread**2)
    services = np.random.default_rng(2).lognormal(math.log(mean) - spread**2 / 2, spread, 60_000)
    assert simulated_wait(servers, services) == pytest.approx(waiting(servers, RATE, mean, variation).mean, rel=0.1)
