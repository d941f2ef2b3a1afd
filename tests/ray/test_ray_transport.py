"""Calls to actors on a real cluster: answers, errors, deaths, deadlines, and what is left in the object store."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from fake_shards import openings
from ray_helpers import all_up, eventually

from segmax.errors import InputError, ShardsUnavailableError
from segmax.ray.fleet import Policy
from segmax.shards.transport import Call, Missing

pytest.importorskip("ray.cluster_utils", exc_type=ImportError)
pytestmark = pytest.mark.slow
pytest_plugins = ["ray_cluster"]

Ask = Callable[..., list[Any]]


@pytest.fixture(scope="module")
def transport(driver: None) -> Iterator[Any]:
    """Four shards with two replicas."""
    from segmax.ray.transport import RayTransport

    transport = RayTransport(openings(4), replicas=2)
    yield transport
    transport.close()


@pytest.fixture(params=["blocking", "async"])
def ask(transport: Any, request: pytest.FixtureRequest) -> Ask:
    """Both ways to ask."""
    if request.param == "blocking":
        return transport.ask  # type: ignore[no-any-return]
    return lambda *args, **options: asyncio.run(transport.ask_async(*args, **options))


def test_answers_come_in_the_order_of_calls(ask: Ask) -> None:
    """Whatever the order in which they arrive, also for several calls to one shard."""
    calls = [Call(shard, "square", (value,)) for value in range(9) for shard in (3, 0, 2)]
    assert ask(calls) == [(call.shard, call.args[0] ** 2) for call in calls]
    assert ask([]) == []


def test_arrays_travel_both_ways(ask: Ask) -> None:
    """Large ones go through the object store, are read-only there, and belong to the caller in the end."""
    values = np.arange(300_000, dtype=np.float64)
    assert ask([Call(shard, "total", (values,)) for shard in range(4)]) == [(values.sum(), False)] * 4
    for size in (3, 300_000):
        (answer,) = ask([Call(2, "array", (size,))])
        found, texts = answer["found"]
        assert (found.tolist(), texts, answer["size"]) == ([2] * size, ["text"], size)
        found += 1  # ours


def test_nothing_stays_in_the_object_store(transport: Any, ask: Ask) -> None:
    """Answers are copied out, so that the store has all of its memory back, even while they are kept."""
    import ray

    def used() -> float:
        total, free = ray.cluster_resources(), ray.available_resources()
        return float(total["object_store_memory"] - free.get("object_store_memory", 0.0))

    before = used()  # what a test before this one left
    kept = [ask([Call(shard, "array", (400_000,)) for shard in range(4)]) for _ in range(3)]
    kept += ask([Call(0, "total", (np.ones(400_000),))])
    eventually(lambda: used() < before + 10_000)
    assert len(kept) == 4


def test_errors_of_a_shard_arrive_as_they_are(transport: Any, ask: Ask) -> None:
    """Nobody asks again, and the replica stays in service."""
    before = sum(shard.counts.retries for shard in transport.fleet.shards)
    with pytest.raises(InputError) as caught:
        ask([Call(0, "number", ()), Call(1, "refuse", ())], allow_partial=True)
    assert type(caught.value) is InputError
    assert (caught.value.expected, caught.value.got) == ("another question", "this one")
    with pytest.raises(ZeroDivisionError, match="a mistake"):
        ask([Call(1, "fail", ())])
    assert sum(shard.counts.retries for shard in transport.fleet.shards) == before
    assert all_up(transport)


def test_a_deadline_is_kept(transport: Any, ask: Ask) -> None:
    """A shard that is late raises an error which names it, or is missing where that is allowed."""
    calls = [Call(0, "number", ()), Call(2, "sleep", (9.0,))]  # shard 0 answers in time also where all else is slow
    with pytest.raises(ShardsUnavailableError, match=r"^shard 2 gave no answer within \d\.\d s: no answer before"):
        ask(calls, deadline=time.monotonic() + 3)
    found = ask(calls, deadline=time.monotonic() + 3, allow_partial=True)
    assert found == [0, Missing(2, "no answer before the deadline")]
    eventually(lambda: all(slot.replica.outstanding == 0 for slot in transport.pool.slots))


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_a_process_that_dies_is_replaced(transport: Any, ask: Ask, sent: signal.Signals) -> None:
    """Its calls are answered by the other replica, and soon there are two again."""
    victim = transport.pool.slots[1]
    starts = victim.starts
    os.kill(victim.report.pid, sent)
    for value in range(20):
        assert ask([Call(1, "square", (value,))]) == [(1, value * value)]
    eventually(lambda: victim.starts == starts + 1 and all_up(transport))


def test_calls_of_a_process_that_dies_are_made_again(transport: Any, ask: Ask) -> None:
    """Also those that it was working on."""
    eventually(lambda: all_up(transport))
    victim = next(slot for slot in transport.pool.slots if slot.shard == 0)
    with ThreadPoolExecutor(1) as thread:
        answers = thread.submit(ask, [Call(0, "sleep", (1.0,)) for _ in range(6)])
        time.sleep(0.3)
        os.kill(victim.report.pid, signal.SIGKILL)
        assert answers.result() == [0] * 6
    assert transport.fleet.shards[0].counts.retries > 0
    eventually(lambda: all_up(transport))


def test_a_call_that_kills_is_given_up(transport: Any, ask: Ask) -> None:
    """Not every replica again and again dies of it: the error says what happened."""
    with pytest.raises(ShardsUnavailableError, match="4 replicas died under this call"):
        ask([Call(3, "die", ())], deadline=time.monotonic() + 60)
    eventually(lambda: all_up(transport))


def test_a_frozen_process_is_replaced(transport: Any, ask: Ask) -> None:
    """It is not dead, but it gives no sign of life."""
    eventually(lambda: all_up(transport))
    victim = transport.pool.slots[2]
    starts, pid = victim.starts, victim.report.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        for _ in range(10):  # some of them reach the frozen one
            ask([Call(2, "number", ())], deadline=time.monotonic() + 0.3, allow_partial=True)
        eventually(lambda: victim.starts > starts and all_up(transport))
    finally:
        os.kill(pid, signal.SIGKILL)


def test_a_node_that_dies_is_left(cluster: Any, transport: Any, ask: Ask) -> None:
    """Answers stay complete; the replicas of the node start on others, long before Ray declares it dead."""
    eventually(lambda: all_up(transport))
    used = {slot.replica.node for slot in transport.pool.slots}
    node = next(node for node in cluster.nodes if node.node_id in used)
    gone = {slot.replica for slot in transport.pool.slots if slot.replica.node == node.node_id}
    began = time.monotonic()
    cluster.kill(node)
    while time.monotonic() < began + 3:
        assert ask([Call(shard, "number", ()) for shard in range(4)]) == [0, 1, 2, 3]
    eventually(lambda: all_up(transport) and gone.isdisjoint(slot.replica for slot in transport.pool.slots), 27)
    assert node.node_id not in {slot.replica.node for slot in transport.pool.slots}
    assert time.monotonic() - began < 30


def test_replicas_of_a_shard_are_on_different_nodes(cluster: Any) -> None:
    """So that a node that dies takes no shard along; nodes have about equally many replicas."""
    from segmax.ray.transport import RayTransport

    transport = RayTransport(openings(3), replicas=2, policy=Policy(hedge=False))
    try:
        nodes = [{slot.replica.node for slot in transport.pool.slots if slot.shard == shard} for shard in range(3)]
        assert [len(each) for each in nodes] == [2, 2, 2]
        counts = [sum(slot.replica.node == node for slot in transport.pool.slots) for node in set().union(*nodes)]
        assert max(counts) - min(counts) <= 1
    finally:
        transport.close()


def test_one_replica_that_dies_is_waited_for_or_missed(cluster: Any) -> None:
    """Without another replica a request waits for the restart, unless partial answers are allowed."""
    from segmax.ray.transport import RayTransport

    transport = RayTransport(openings(2))
    try:
        os.kill(transport.pool.slots[0].report.pid, signal.SIGKILL)
        eventually(lambda: not transport.fleet.shards[0].up, 5)
        missing, other = transport.ask([Call(0, "number", ()), Call(1, "number", ())], allow_partial=True)
        assert (missing.shard, other) == (0, 1)
        assert "died" in missing.reason
        assert transport.ask([Call(0, "number", ()), Call(1, "number", ())]) == [0, 1]
    finally:
        transport.close()
