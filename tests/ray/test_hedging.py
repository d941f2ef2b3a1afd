"""Decisions about calls, with a clock of our own and without Ray."""

from __future__ import annotations

import heapq
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import examples
from segmax.ray.fleet import Fleet, HedgeBudget, Latencies, Policy, Replica
from segmax.ray.hedging import Asking, Attempt

EAGER = Policy(min_answers=1)


def fleet_of(*replicas: int, policy: Policy = EAGER) -> tuple[Fleet, list[list[Replica]]]:
    """A fleet with this many replicas of every shard, all up."""
    fleet = Fleet(len(replicas), policy)
    made = [[Replica(shard, number) for number in range(count)] for shard, count in enumerate(replicas)]
    for replica in (each for some in made for each in some):
        fleet.add(replica)
    return fleet, made


def answer(fleet: Fleet, shard: int = 0, seconds: float = 1.0, kind: str = "search") -> Replica:
    """Make one call that takes so long; return who answered."""
    asking = Asking(fleet, [(shard, kind)], deadline=math.inf)
    (attempt,) = asking.due(0.0)
    assert asking.answered(attempt, seconds)
    assert asking.over(seconds)
    return attempt.replica


class TestLatencies:
    """What recent answers took."""

    def test_quantiles(self) -> None:
        """They are of the latest answers alone."""
        latencies = Latencies(100)
        assert latencies.quantile(0.95) == 0.0
        for value in range(1000):
            latencies.add(value)
        assert (len(latencies), latencies.quantile(0.95), latencies.quantile(0.0)) == (100, 995, 900)

    def test_a_new_kind_of_answer_is_seen_soon(self) -> None:
        """Quantiles are not found again after each answer, but soon."""
        latencies = Latencies(64)
        for _ in range(64):
            latencies.add(1.0)
        assert latencies.quantile(0.95) == 1.0
        for _ in range(16):
            latencies.add(5.0)
        assert latencies.quantile(0.95) == 5.0


def test_the_budget_is_a_share_of_calls() -> None:
    """Hedges cost a token each; calls earn a share of one; and no more than twenty can be saved up."""
    budget = HedgeBudget(0.05)
    assert not budget.spend()
    spent = 0
    for _ in range(1000):
        budget.earn()
        spent += budget.spend()
    assert spent in (49, 50)
    for _ in range(10_000):
        budget.earn()
    assert sum(budget.spend() for _ in range(100)) == 20


class TestChoice:
    """Which replica gets a call."""

    def test_the_least_busy(self) -> None:
        """Calls spread evenly while none is answered."""
        fleet, ((one, two),) = fleet_of(2)
        asking = Asking(fleet, [(0, "search")] * 8, deadline=math.inf)
        assert len(asking.due(0.0)) == 8
        assert (one.outstanding, two.outstanding) == (4, 4)

    def test_no_more_than_its_share_of_a_request(self) -> None:
        """The rest of a large request waits for whichever replica is quicker."""
        fleet, ((one, two),) = fleet_of(2, policy=Policy(per_replica=2))
        asking = Asking(fleet, [(0, "search")] * 10, deadline=math.inf)
        started = asking.due(0.0)
        assert (len(started), asking.waiting) == (4, True)
        quick = next(each for each in started if each.replica is one)
        for _ in range(6):
            asking.answered(quick, 1.0)
            (quick,) = asking.due(1.0)
            assert quick.replica is one
        assert not asking.waiting
        assert two.outstanding == 2

    def test_one_that_is_slow_is_left_alone_for_a_while(self) -> None:
        """A replica that takes much longer than its sibling gets no calls, until its slowness is old."""
        fleet, ((quick, slow),) = fleet_of(2)
        for _ in range(40):
            fleet.learn(quick, "search", 0.001, 0.0)
            fleet.learn(slow, "search", 0.05, 0.0)
        assert {fleet.choose(0, 1.0) for _ in range(50)} == {quick}
        assert {fleet.choose(0, 100.0) for _ in range(50)} == {quick, slow}
        quick.outstanding = 100
        assert fleet.choose(0, 1.0) is slow

    def test_kinds_of_calls_are_not_compared(self) -> None:
        """Who answers batches is not slow for that."""
        fleet, ((one, two),) = fleet_of(2)
        for _ in range(40):
            fleet.learn(one, "search", 0.001, 0.0)
            fleet.learn(two, "batch", 5.0, 0.0)
        assert {fleet.choose(0, 0.0) for _ in range(50)} == {one, two}


class TestHedges:
    """A second replica is asked when the first is late."""

    def test_after_the_quantile(self) -> None:
        """Not before, once, and only if there is another replica."""
        fleet, _ = fleet_of(2, 1)
        for number in range(100):
            answer(fleet, 0, 0.1 if number < 90 else 1.0), answer(fleet, 1)
        asking = Asking(fleet, [(0, "search"), (1, "search")], deadline=100.0)
        first, other = asking.due(10.0)
        assert asking.wake() == 11.0
        assert asking.due(10.9) == []
        (hedge,) = asking.due(11.0)
        assert (hedge.call, hedge.hedge) == (0, True)
        assert hedge.replica is not first.replica
        assert asking.due(50.0) == []
        assert asking.answered(hedge, 51.0)
        assert not asking.over(51.0)
        assert not asking.answered(first, 52.0)
        assert asking.answered(other, 53.0)
        assert asking.over(53.0)
        assert asking.lost == []
        assert (fleet.shards[0].counts.hedges, fleet.shards[0].counts.hedges_first) == (1, 1)

    def test_a_little_later_than_the_others_is_not_late(self) -> None:
        """Where answers take about the same time, the budget is kept for those that take twice as long."""
        fleet, _ = fleet_of(2)
        for number in range(100):
            answer(fleet, seconds=0.1 if number < 90 else 0.11)
        asking = Asking(fleet, [(0, "search")], deadline=100.0)
        asking.due(0.0)
        assert asking.wake() == 0.2

    @pytest.mark.parametrize("policy", [Policy(hedge=False, min_answers=1), Policy(min_answers=1000)])
    def test_never(self, policy: Policy) -> None:
        """Where that is the wish, and before there is a quantile to speak of."""
        fleet, _ = fleet_of(2, policy=policy)
        for _ in range(100):
            answer(fleet)
        asking = Asking(fleet, [(0, "search")], deadline=100.0)
        asking.due(0.0)
        assert asking.wake() == 100.0
        assert asking.due(99.0) == []

    def test_the_loser_counts_as_slow(self) -> None:
        """Nobody waits to find out how slow it is, but it took at least so long."""
        fleet, _ = fleet_of(2)
        for _ in range(100):
            answer(fleet, seconds=0.01)
        asking = Asking(fleet, [(0, "search")], deadline=math.inf)
        (first,), (hedge,) = asking.due(0.0), asking.due(0.3)
        asking.answered(hedge, 0.31)
        assert first.replica.slowness > 2 > hedge.replica.slowness
        assert fleet.choose(0, 0.4) is hedge.replica


class TestFailures:
    """Replicas that die."""

    def test_another_replica_is_asked(self) -> None:
        """The dead one gets no more calls."""
        fleet, ((one, two),) = fleet_of(2)
        asking = Asking(fleet, [(0, "search")], deadline=10.0)
        (attempt,) = asking.due(0.0)
        asking.failed(attempt, "it died")
        (again,) = asking.due(0.1)
        assert {attempt.replica, again.replica} == {one, two}
        assert fleet.shards[0].counts.retries == 1
        assert (attempt.replica.up, attempt.replica.reason) == (False, "it died")
        assert asking.answered(again, 0.2)

    def test_the_deadline_ends_waiting(self) -> None:
        """A call that waits for a restart is given up with what happened to the shard."""
        fleet, _ = fleet_of(1, 1)
        asking = Asking(fleet, [(0, "search"), (1, "search")], deadline=10.0)
        attempt, late = asking.due(0.0)
        asking.failed(attempt, "it died")
        assert asking.due(1.0) == []
        assert (asking.waiting, asking.wake()) == (True, 10.0)
        assert not asking.over(9.9)
        assert asking.over(10.0)
        assert asking.lost == [(0, "it died"), (1, "no answer before the deadline")]
        assert not asking.answered(late, 11.0)
        assert asking.due(12.0) == []

    def test_a_replica_that_comes_back_is_asked(self) -> None:
        """As soon as it is there."""
        fleet, _ = fleet_of(1)
        asking = Asking(fleet, [(0, "search")], deadline=10.0)
        asking.failed(asking.due(0.0)[0], "it died")
        fleet.add(Replica(0, 0))
        (attempt,) = asking.due(5.0)
        assert asking.answered(attempt, 6.0)

    def test_impatience(self) -> None:
        """Where partial answers will do, nobody waits for a restart."""
        fleet, _ = fleet_of(1, 1)
        asking = Asking(fleet, [(0, "search"), (1, "search")], deadline=10.0, patient=False)
        attempt, other = asking.due(0.0)
        asking.failed(attempt, "it died")
        assert asking.due(0.1) == []
        assert not asking.waiting
        assert asking.answered(other, 0.2)
        assert asking.over(0.2)
        assert asking.lost == [(0, "it died")]

    def test_a_call_that_kills_is_given_up(self) -> None:
        """After a few deaths, however many replicas there are."""
        fleet, _ = fleet_of(9)
        asking = Asking(fleet, [(0, "search")], deadline=10.0)
        for _ in range(4):
            asking.failed(asking.due(0.0)[0], "it crashed")
        assert asking.over(0.0)
        assert "4 replicas died under this call" in asking.lost[0][1]
        assert len(fleet.shards[0].up) == 5

    def test_the_other_attempt_goes_on(self) -> None:
        """A hedge that dies, or the first request while a hedge runs, costs nothing."""
        fleet, _ = fleet_of(2)
        for _ in range(100):
            answer(fleet)
        asking = Asking(fleet, [(0, "search")], deadline=10.0)
        (first,), (hedge,) = asking.due(0.0), asking.due(2.0)
        asking.failed(first, "it died")
        assert asking.due(2.5) == []
        assert asking.answered(hedge, 3.0)
        assert asking.over(3.0)

    def test_calls_of_a_replica_that_is_taken_out_are_made_again(self) -> None:
        """Without waiting for them to fail, which may take seconds; if they do answer, that counts."""
        fleet, _ = fleet_of(2)
        asking = Asking(fleet, [(0, "search"), (0, "search")], deadline=10.0)
        one, two = asking.due(0.0)
        fleet.remove(one.replica, "its process has ended")
        (again,) = asking.due(0.1)
        assert (again.call, again.replica) == (one.call, two.replica)
        assert asking.answered(two, 0.2)
        assert asking.answered(one, 0.3)
        assert not asking.answered(again, 0.4)
        assert asking.over(0.4)

    def test_an_answer_while_waiting_for_another_replica(self) -> None:
        """Ends the wait."""
        fleet, _ = fleet_of(1)
        asking = Asking(fleet, [(0, "search")], deadline=10.0)
        (one,) = asking.due(0.0)
        fleet.remove(one.replica, "it does not respond")
        assert asking.due(0.1) == []
        assert asking.waiting
        assert asking.answered(one, 0.2)
        assert asking.over(0.2)
        fleet.add(Replica(0, 0))
        assert asking.due(0.3) == []
        assert asking.lost == []


def simulate(seed: int, replicas: list[int], requests: int, deadline: float, policy: Policy) -> tuple[Fleet, int]:
    """Replicas of random speed that die and come back, and requests one after another; return the hedges, too."""
    rng = random.Random(seed)
    fleet, made = fleet_of(*replicas, policy=policy)
    dead: list[tuple[float, Replica]] = []
    now, hedges = 0.0, 0
    for _ in range(requests):
        calls = [(shard, "search") for shard in range(len(made)) for _ in range(rng.choice([1, 1, 1, 6]))]
        asking = Asking(fleet, calls, deadline=now + deadline, patient=rng.random() < 0.5)
        events: list[tuple[float, int, Attempt, bool]] = []
        counted, attempts, began = [0] * len(calls), 0, now
        while not asking.over(now):
            for back, replica in [each for each in dead if each[0] <= now]:
                dead.remove((back, replica))
                fleet.add(Replica(replica.shard, replica.number))
            for attempt in asking.due(now):
                attempts, hedges = attempts + 1, hedges + attempt.hedge
                takes = rng.choice([0.01, 0.02, 0.03, 5.0 if rng.random() < 0.1 else 0.02])
                if rng.random() < 0.02:  # the pool notices a death before the call does
                    fleet.remove(attempt.replica, "it died")
                    dead.append((now + rng.choice([0.01, 1.0]), attempt.replica))
                    takes = rng.choice([0.1, 20.0])
                heapq.heappush(events, (now + takes, attempts, attempt, rng.random() < 0.05))
            moments = [asking.wake(), now + 0.25, *(back for back, _ in dead if asking.waiting)]
            if events and events[0][0] <= min(moments):
                now, _, attempt, dies = heapq.heappop(events)
                if dies:
                    if attempt.replica.up:
                        dead.append((now + rng.choice([0.01, 1.0]), attempt.replica))
                    asking.failed(attempt, "it died")
                elif asking.answered(attempt, now):
                    counted[attempt.call] += 1
            else:
                now = max(now, min(moments))
        assert now <= began + deadline
        lost = {number for number, _ in asking.lost}
        assert all(count == (number not in lost) for number, count in enumerate(counted))
        for _, _, attempt, _ in events:
            assert not asking.answered(attempt, now)
    assert all(replica.outstanding == 0 for shard in fleet.shards for replica in shard.up)
    return fleet, hedges


@settings(max_examples=examples(60))
@given(
    seed=st.integers(0, 2**32),
    replicas=st.lists(st.integers(1, 3), min_size=1, max_size=4),
    per_replica=st.integers(1, 4),
    deadline=st.sampled_from([0.015, 0.1, 10.0]),
)
def test_whatever_happens(seed: int, replicas: list[int], per_replica: int, deadline: float) -> None:
    """Every call ends by the deadline, with one counted answer or a reason; hedges are at most 5 % of all calls."""
    policy = Policy(min_answers=4, per_replica=per_replica)
    fleet, hedges = simulate(seed, replicas, 40, deadline, policy)
    calls = sum(shard.counts.calls for shard in fleet.shards)
    assert hedges == sum(shard.counts.hedges for shard in fleet.shards)
    assert hedges <= 0.05 * calls


def test_hedges_cut_the_tail() -> None:
    """One answer in thirty is late: with hedges the 98th percentile is as quick as the rest."""

    def tail(policy: Policy) -> float:
        rng = random.Random(1)
        fleet, _ = fleet_of(2, policy=policy)
        times = []
        for _ in range(3000):
            asking = Asking(fleet, [(0, "search")], deadline=100.0)
            events: list[tuple[float, int, Attempt]] = []
            now = 0.0
            while not asking.over(now):
                for attempt in asking.due(now):
                    takes = 1.0 if rng.random() < 1 / 30 else rng.uniform(0.01, 0.02)
                    heapq.heappush(events, (now + takes, len(events), attempt))
                if events[0][0] <= asking.wake():
                    now, _, attempt = heapq.heappop(events)
                    asking.answered(attempt, now)
                else:
                    now = asking.wake()
            times.append(now)
            for _, _, attempt in events:
                asking.answered(attempt, now)
        return sorted(times)[int(0.98 * len(times))]

    assert tail(Policy(hedge=False)) == 1.0
    assert tail(Policy()) < 0.05
