"""One request to several shards, as decisions alone: which replica to ask, when to ask another one, when to give up.

`Asking` does no I/O and reads no clock, so that it can be tested by itself. A driver, `RayTransport.ask` or
`ask_async`, starts the attempts that `due` returns, reports what becomes of them, and calls `due` again at `wake`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from segmax.ray.fleet import Fleet, Replica


@dataclass(slots=True, eq=False)
class Attempt:
    """A call sent to one replica."""

    call: int  #: its place in the request
    replica: Replica
    started: float
    hedge: bool = False
    orphaned: bool = False  #: its replica is out of service, so that its answer may never come


@dataclass(slots=True)
class _Call:
    shard: int
    kind: str
    attempts: list[Attempt] = field(default_factory=list)
    hedge_at: float = math.inf
    failures: int = 0
    over: bool = False
    reason: str = ""  #: why it was given up


class Asking:
    """The state of one request.

    Parameters
    ----------
    fleet
        The replicas.
    calls
        The shard of every call and its kind: calls of one kind take about as long as each other.
    deadline
        When to give up.
    patient
        Wait for replicas to be started again, until the deadline. Otherwise a call to a shard that has no replica is
        given up at once.
    """

    def __init__(
        self, fleet: Fleet, calls: Iterable[tuple[int, str]], *, deadline: float, patient: bool = True
    ) -> None:
        self._fleet = fleet
        self._policy = fleet.policy
        self._deadline = deadline
        self._patient = patient
        self._calls = [_Call(shard, kind) for shard, kind in calls]
        self._open = len(self._calls)
        self._removals = fleet.removals
        self._waiting: dict[int, deque[int]] = {}
        for number, call in enumerate(self._calls):
            self._waiting.setdefault(call.shard, deque()).append(number)

    @property
    def waiting(self) -> bool:
        """Whether calls wait for a replica."""
        return bool(self._waiting)

    @property
    def lost(self) -> list[tuple[int, str]]:
        """The calls that were given up, each with the reason."""
        return [(number, call.reason) for number, call in enumerate(self._calls) if call.reason]

    def due(self, now: float) -> list[Attempt]:
        """Return the attempts to start now."""
        with self._fleet.lock:
            if self._removals != self._fleet.removals:
                self._removals = self._fleet.removals
                self._find_orphans()
            starts = [attempt for shard in list(self._waiting) for attempt in self._first(shard, now)]
            return starts + [attempt for call in self._late(now) if (attempt := self._hedge(call, now)) is not None]

    def wake(self) -> float:
        """Return when to call `due` again, unless something happens before."""
        return min([self._deadline, *(call.hedge_at for call in self._calls if not call.over)])

    def over(self, now: float) -> bool:
        """Return whether there is nothing left to wait for; at the deadline, open calls are given up."""
        if self._open and now >= self._deadline:
            with self._fleet.lock:
                for call in self._calls:
                    if not call.over:
                        self._give_up(call, self._why_late(call))
                self._waiting.clear()
        return not self._open

    def answered(self, attempt: Attempt, now: float) -> bool:
        """Take note of an answer; return whether it counts. Only the first answer of a call does."""
        call = self._calls[attempt.call]
        with self._fleet.lock:
            attempt.replica.outstanding -= 1
            call.attempts.remove(attempt)
            if call.over:
                return False
            self._fleet.learn(attempt.replica, call.kind, now - attempt.started, now)
            for slower in call.attempts:
                self._fleet.learn(slower.replica, call.kind, now - slower.started, now)
            self._fleet.shards[call.shard].counts.hedges_first += attempt.hedge
            self._close(call)
            return True

    def failed(self, attempt: Attempt, reason: str) -> None:
        """Take note of a replica that died under a call: it is out of service, and the call is sent to another."""
        call = self._calls[attempt.call]
        with self._fleet.lock:
            attempt.replica.outstanding -= 1
            call.attempts.remove(attempt)
            self._fleet.remove(attempt.replica, reason)
            if not attempt.orphaned:
                self._try_again(attempt, reason)

    def _find_orphans(self) -> None:
        """Make calls again whose replica went out of service: their own failure may take seconds to arrive."""
        for call in self._calls:
            for attempt in call.attempts:
                if not attempt.replica.up and not attempt.orphaned:
                    attempt.orphaned = True
                    self._try_again(attempt, attempt.replica.reason)

    def _try_again(self, attempt: Attempt, reason: str) -> None:
        """Make the call of a failed attempt again, unless another attempt is under way or too many have failed."""
        call = self._calls[attempt.call]
        if call.over:
            return
        call.failures += 1
        if call.failures >= self._policy.max_failures:
            self._give_up(call, f"{call.failures} replicas died under this call, the last one so: {reason}")
        elif all(other.orphaned for other in call.attempts):
            call.hedge_at = math.inf
            self._fleet.shards[call.shard].counts.retries += 1
            self._waiting.setdefault(call.shard, deque()).appendleft(attempt.call)

    def _first(self, shard: int, now: float) -> list[Attempt]:
        """Start calls that wait for a shard, as far as its replicas have room."""
        waiting, starts = self._waiting[shard], []
        full = self._full(shard)
        while waiting and (replica := self._fleet.choose(shard, now, full)) is not None:
            number = waiting.popleft()
            call = self._calls[number]
            if call.over:  # by the answer of an attempt that had been given up
                continue
            attempt = self._start(number, replica, now)
            call.hedge_at = now + self._fleet.patience(shard, call.kind)
            if not call.failures:
                self._fleet.budget.earn()
                self._fleet.shards[shard].counts.calls += 1
            starts.append(attempt)
            full = self._full(shard)
        if waiting and not self._patient and not self._fleet.shards[shard].up:
            for call in (self._calls[number] for number in waiting):
                if not call.over:
                    self._give_up(call, self._fleet.shards[shard].reason)
            waiting.clear()
        if not waiting:
            del self._waiting[shard]
        return starts

    def _full(self, shard: int) -> Sequence[Replica]:
        """Return the replicas that have as many calls of this request as they may have at once."""
        if len(self._calls) <= self._policy.per_replica:
            return ()
        busy = [attempt.replica for call in self._calls if call.shard == shard for attempt in call.attempts]
        return [each for each in self._fleet.shards[shard].up if busy.count(each) >= self._policy.per_replica]

    def _late(self, now: float) -> list[int]:
        return [number for number, call in enumerate(self._calls) if not call.over and call.hedge_at <= now]

    def _hedge(self, number: int, now: float) -> Attempt | None:
        """Ask a second replica, if there is one and the budget allows it; otherwise look again later."""
        call = self._calls[number]
        other = self._fleet.choose(call.shard, now, [attempt.replica for attempt in call.attempts])
        if other is None or not self._fleet.budget.spend():
            call.hedge_at = now + max(self._fleet.patience(call.shard, call.kind), 1e-3)
            return None
        call.hedge_at = math.inf
        self._fleet.shards[call.shard].counts.hedges += 1
        return self._start(number, other, now, hedge=True)

    def _start(self, number: int, replica: Replica, now: float, *, hedge: bool = False) -> Attempt:
        attempt = Attempt(number, replica, now, hedge)
        replica.outstanding += 1
        self._calls[number].attempts.append(attempt)
        return attempt

    def _close(self, call: _Call) -> None:
        call.over = True
        self._open -= 1

    def _give_up(self, call: _Call, reason: str) -> None:
        call.reason = reason
        self._fleet.shards[call.shard].counts.failures += 1
        self._close(call)

    def _why_late(self, call: _Call) -> str:
        alive = any(not attempt.orphaned for attempt in call.attempts)
        return "no answer before the deadline" if alive else self._fleet.shards[call.shard].reason
