"""What a driver knows of its replicas: which are up, how busy and how quick they are, how many hedges it may send.

No Ray and no clock in here: whoever calls says what time it is. `hedging.Asking` decides with it about calls.
"""

from __future__ import annotations

import math
import random
import threading
from collections import deque
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from typing import Any

#: A replica this many times as slow as its siblings is busier than it looks.
_SLOW = 2.0
#: Where answers take about the same time, one that takes this many times as long is late, and not every twentieth.
_LATE = 2.0
#: The weight of the latest answer in a replica's slowness, and the seconds in which old slowness fades.
_LATEST = 0.25
_FADES_S = 5.0
#: The quantile that a usual answer takes: low, so that a replica which is always slow is not the usual one.
_USUAL = 0.25


@dataclass(frozen=True, slots=True)
class Policy:
    """How calls are spread, repeated and given up.

    Parameters
    ----------
    hedge
        Send a call to a second replica when the first is late.
    quantile
        A call is late when it takes longer than this share of recent answers did, and twice as long as half of them.
    hedge_share
        How many hedges there may be, as a share of all calls.
    window
        How many recent answers of a shard are remembered, for each kind of call.
    min_answers
        No hedges before this many answers: a quantile of fewer says little.
    per_replica
        How many calls of one request a replica gets at once. The others wait for whichever replica is quicker.
    max_failures
        Give a call up after this many replicas died under it: it may be what kills them.
    """

    hedge: bool = True
    quantile: float = 0.95
    hedge_share: float = 0.05
    window: int = 256
    min_answers: int = 32
    per_replica: int = 4
    max_failures: int = 4


class Latencies:
    """How long the latest answers took, in seconds, and their quantiles."""

    #: Quantiles are found again after this many answers, not after each.
    _STALE = 16

    def __init__(self, window: int) -> None:
        self._latest: deque[float] = deque(maxlen=window)
        self._sorted: list[float] = []
        self._new = 0

    def __len__(self) -> int:
        """How many answers are remembered."""
        return len(self._latest)

    def __iter__(self) -> Iterator[float]:
        """Yield what they took."""
        return iter(self._latest)

    def add(self, seconds: float) -> None:
        """Remember an answer."""
        self._latest.append(seconds)
        self._new += 1

    def quantile(self, share: float) -> float:
        """Return what this share of answers stayed below; 0 before the first."""
        if self._new >= self._STALE or len(self._sorted) < self._STALE:
            self._sorted = sorted(self._latest)
            self._new = 0
        return self._sorted[min(int(share * len(self._sorted)), len(self._sorted) - 1)] if self._sorted else 0.0


class HedgeBudget:
    """A bucket of tokens: every call adds a share of one, every hedge takes one."""

    #: Quiet hours must not pay for a storm of hedges.
    _MOST = 20.0

    def __init__(self, share: float) -> None:
        self._share = share
        self._tokens = 0.0

    def earn(self) -> None:
        """Count a call."""
        self._tokens = min(self._tokens + self._share, self._MOST)

    def spend(self) -> bool:
        """Take a token for a hedge, if there is one."""
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


@dataclass(slots=True, eq=False)
class Replica:
    """One life of an actor that serves a shard. An actor that is started again is another replica."""

    shard: int
    number: int
    actor: Any = None
    node: str = ""
    up: bool = False
    outstanding: int = 0
    slowness: float = 1.0  #: how long it takes, relative to its siblings
    measured: float = 0.0  #: when that was last measured
    reason: str = ""  #: why it is no longer up

    def load(self, now: float) -> float:
        """How long a call would wait here, in units of what calls usually take."""
        slowness = 1 + (self.slowness - 1) * math.exp((self.measured - now) / _FADES_S)
        return (self.outstanding + 1) * (slowness if slowness >= _SLOW else 1.0)

    def took(self, relative: float, now: float) -> None:
        """Learn from an answer; `relative` is its time relative to a usual one."""
        self.slowness += _LATEST * (min(relative, 100.0) - self.slowness)
        self.measured = now


@dataclass(slots=True)
class Counts:
    """What happened to the calls of one shard."""

    calls: int = 0
    hedges: int = 0
    hedges_first: int = 0  #: hedges that answered before the first request
    retries: int = 0
    failures: int = 0  #: calls without an answer


@dataclass(slots=True)
class ShardState:
    """What is known of one shard."""

    up: list[Replica] = field(default_factory=list)
    latencies: dict[str, Latencies] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)
    reason: str = "no replica has started yet"  #: the latest trouble


class Fleet:
    """The replicas of all shards, shared by all threads that ask.

    Whoever uses more than one method, or a replica's fields, holds `lock`. `changed` is notified when a replica comes
    or goes.

    Parameters
    ----------
    num_shards
        How many shards there are.
    policy
        How calls are spread, repeated and given up.
    """

    def __init__(self, num_shards: int, policy: Policy) -> None:
        self.policy = policy
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.shards = [ShardState() for _ in range(num_shards)]
        self.budget = HedgeBudget(policy.hedge_share)
        self.removals = 0  #: how often a replica was taken out of service
        self._random = random.Random(0)

    def add(self, replica: Replica) -> None:
        """Take a replica into service."""
        with self.changed:
            replica.up = True
            self.shards[replica.shard].up.append(replica)
            self.changed.notify_all()

    def remove(self, replica: Replica, reason: str) -> None:
        """Take a replica out of service; nothing happens if it is out already."""
        with self.changed:
            shard = self.shards[replica.shard]
            if replica in shard.up:
                shard.up.remove(replica)
            if replica.up or not replica.reason:
                replica.reason = shard.reason = reason
            replica.up = False
            self.removals += 1
            self.changed.notify_all()

    def choose(self, shard: int, now: float, busy: Container[Replica] = ()) -> Replica | None:
        """Return the least loaded replica of a shard that is up and not in `busy`, None if there is none."""
        free = [replica for replica in self.shards[shard].up if replica not in busy]
        if len(free) < 2:
            return free[0] if free else None
        loads = [replica.load(now) for replica in free]
        least = min(loads)
        return self._random.choice([each for each, load in zip(free, loads, strict=True) if load == least])

    def latencies(self, shard: int, kind: str) -> Latencies:
        """Return the latencies of one kind of call at a shard."""
        kinds = self.shards[shard].latencies
        if kind not in kinds:
            kinds[kind] = Latencies(self.policy.window)
        return kinds[kind]

    def patience(self, shard: int, kind: str) -> float:
        """Return the seconds to wait before a hedge; infinity where there is none to send."""
        latencies = self.latencies(shard, kind)
        if not self.policy.hedge or len(self.shards[shard].up) < 2 or len(latencies) < self.policy.min_answers:
            return math.inf
        return max(latencies.quantile(self.policy.quantile), _LATE * latencies.quantile(0.5))

    def learn(self, replica: Replica, kind: str, seconds: float, now: float) -> None:
        """Remember how long a replica took, or at least how long it has already taken."""
        latencies = self.latencies(replica.shard, kind)
        usual = latencies.quantile(_USUAL)
        if usual > 0:
            replica.took(seconds / usual, now)
        latencies.add(seconds)
