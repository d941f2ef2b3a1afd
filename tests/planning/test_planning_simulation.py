"""The simulated cluster: deterministic, fair, quick with hedges, complete with replicas; and close to the formulas."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from conftest import refused
from segmax.errors import ConfigError
from segmax.planning import Scenario, approximate, simulate
from segmax.planning.approximating import load_of
from segmax.planning.workload import Workload

pytest.importorskip("simpy")

CLUSTER = Scenario(
    shards=12,
    replicas=2,
    machines=6,
    cores=4,
    threads=2,
    routers=16,
    qps=700,
    asked=0.8,
    asked_spread=0.1,
    send_ms=0.05,
    receive_ms=0.2,
    actor_ms=0.5,
    search_ms=2.0,
    floored_ms=0.8,
    query_spread=0.4,
    noise_spread=0.25,
    call_spread=0.4,
)


def test_the_same_seed_gives_the_same_result() -> None:
    """To the last latency, also where machines fail; another seed gives others."""
    one, same, other = (simulate(CLUSTER, queries=100, seed=seed).latencies_ms for seed in (3, 3, 4))
    assert (one == same).all()
    assert (one != other).any()
    failing = dataclasses.replace(CLUSTER, qps=3000, mtbf_s=0.1, restart_s=0.02)
    first, again = (simulate(failing, queries=300).latencies_ms for _ in range(2))
    assert (first == again).all()


def test_a_quiet_cluster_takes_what_its_parts_take() -> None:
    """Without queues and noise, a query takes its rounds one after the other, and the calls of a round at once."""
    quiet = Scenario(
        shards=4, cores=4, router_ms=0.5, send_ms=0.1, receive_ms=0.2, actor_ms=1.0, search_ms=3.0, floored_ms=1.0
    )
    # The second round: three sends, the last call, and the answer to it; the others are received before.
    assert simulate(quiet, queries=20).latencies_ms == pytest.approx(0.5 + 0.1 + 4.0 + 0.2 + 0.3 + 2.0 + 0.4)


def test_queries_before_the_first_that_counts_ask_nothing() -> None:
    """However many of them are still waiting then, no query asks more shards than there are."""
    busy = dataclasses.replace(CLUSTER, qps=20_000, asked=1.0, asked_spread=0.0)
    found = simulate(busy, queries=200)
    assert found.shards_asked == 12
    assert found.calls.tolist() == [200] * 12
    assert found.hedge_share <= 0.06


def test_batches_take_as_many_searches() -> None:
    """A batch of ten takes ten searches of every shard, and one call."""
    one = Scenario(shards=1, actor_ms=1.0, search_ms=0.5)
    assert simulate(one, queries=10).mean_ms == pytest.approx(1.5)
    assert simulate(dataclasses.replace(one, batch=10), queries=10).mean_ms == pytest.approx(6.0)


def test_routers_without_rest_do_as_much_as_they_can() -> None:
    """With no rate given, the next query comes when one is answered: throughput is that of the bottleneck."""
    busy = Scenario(shards=1, cores=2, threads=2, routers=4, search_ms=2.0)
    found = simulate(busy, queries=500)
    assert found.per_second == pytest.approx(1000, rel=0.02)
    assert found.utilization[0] == pytest.approx(1.0, rel=0.02)


def test_utilization_and_calls_are_what_was_asked_for() -> None:
    """Cores are busy for the share that the rates imply, and queries ask the share of shards that was set."""
    found = simulate(dataclasses.replace(CLUSTER, hedge_share=0.0), queries=2000)
    load = load_of(dataclasses.replace(CLUSTER, hedge_share=0.0))
    assert found.utilization.mean() == pytest.approx(load.cores, rel=0.08)
    assert found.shards_asked == pytest.approx(0.8 * 12, rel=0.02)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"qps": 800.0},
        {"replicas": 1, "qps": 400.0, "threads": 1},
        {"asked": 2.0, "asked_spread": 0.0, "qps": 2000.0},
        pytest.param({"shards": 3, "first": 3, "search_ms": 5.0, "qps": 250.0}, marks=pytest.mark.deep),
        pytest.param({"call_spread": 0.8, "hedge_share": 0.0}, marks=pytest.mark.deep),
        pytest.param({"router_cores": 16, "machines": 4}, marks=pytest.mark.deep),
    ],
    ids=str,
)
def test_formulas_agree_with_the_simulation(change: dict[str, float]) -> None:
    """The approximation that plans rest on is within 15 % of the simulated mean, and 25 % of its p99.

    That holds while cores are less than two thirds busy.
    """
    scenario = dataclasses.replace(CLUSTER, **change)
    expected, found = approximate(scenario), simulate(scenario, queries=1500)
    assert max(load_of(scenario)) < 0.66
    assert expected.mean == pytest.approx(found.mean_ms, rel=0.15)
    assert expected.p99 == pytest.approx(found.quantile_ms(0.99), rel=0.25)


@pytest.mark.deep
def test_hedges_shorten_the_tail_within_their_budget() -> None:
    """With heavy tails, a second replica after the p95 brings the p99 down, for at most 5 % more calls."""
    heavy = dataclasses.replace(CLUSTER, call_spread=1.3, qps=200.0)
    with_hedges, without = (
        simulate(dataclasses.replace(heavy, hedge_share=share), queries=1500) for share in (0.05, 0)
    )
    assert with_hedges.quantile_ms(0.99) < 0.9 * without.quantile_ms(0.99)
    assert 0 < with_hedges.hedge_share <= 0.051
    assert without.hedges == 0


def test_popular_topics_make_hot_shards() -> None:
    """Zipf-like queries that ask few shards load them unevenly; those that ask all do not."""
    few = dataclasses.replace(CLUSTER, asked=2.0, asked_spread=0.0, zipf=1.2, topics=200)
    assert simulate(few, queries=1500).hottest > 1.3
    assert simulate(dataclasses.replace(few, zipf=0.0, topics=2000), queries=1500).hottest < 1.3
    assert simulate(dataclasses.replace(few, asked=1.0), queries=200).hottest < 1.01
    assert Workload(few, 0).expected_load().mean() == pytest.approx(1.0)


@pytest.mark.deep
def test_replicas_answer_while_machines_are_down() -> None:
    """Machines that die and come back cost retries, and a longer tail where a shard has no other replica."""
    failing = dataclasses.replace(CLUSTER, mtbf_s=1.5, restart_s=0.3, qps=300.0)
    found = simulate(failing, queries=1500)
    assert found.retries > 0
    assert len(found.latencies_ms) == 1500
    alone = simulate(dataclasses.replace(failing, replicas=1), queries=1500)
    assert alone.quantile_ms(0.99) > 5 * found.quantile_ms(0.5)


def test_results_as_plain_values() -> None:
    """For JSON, and in one line."""
    found = simulate(CLUSTER, queries=50)
    assert found.to_dict()["queries"] == 50
    assert str(found).startswith(f"{found.mean_ms:.1f} ms, p99")


def test_more_work_than_cores_has_no_latency() -> None:
    """The approximation says so."""
    assert np.isinf(approximate(dataclasses.replace(CLUSTER, qps=1e5)).p99)


@pytest.mark.parametrize("wrong", [{"shards": 0}, {"asked": 13.0}, {"asked": 0.0}, {"qps": -1.0}, {"replicas": 1.5}])
def test_impossible_scenarios_are_refused(wrong: dict[str, float]) -> None:
    """With the name of what is wrong."""
    with refused(ConfigError, option=next(iter(wrong))):
        dataclasses.replace(CLUSTER, **wrong)
