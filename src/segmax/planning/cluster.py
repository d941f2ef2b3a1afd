"""The parts of a simulated cluster: machines with cores, actors with queues, routers; in time of SimPy."""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import simpy

#: What a process of SimPy yields, and gets back.
Steps = Generator[Any, Any, None]
_RECENT = 512  # answers that hedging learns its quantile from
_LEARNED = 32  # no hedges before so many answers
_DRAWN = 4096  # random numbers that are drawn at once


class Factors:
    """Lognormal factors, 1 on average, one at a time."""

    def __init__(self, rng: np.random.Generator, spread: float) -> None:
        self._rng, self._spread = rng, spread
        self._drawn: list[float] = []

    def next(self) -> float:
        """Draw one."""
        if not self._spread:
            return 1.0
        if not self._drawn:
            mean = -(self._spread**2) / 2
            self._drawn = np.exp(self._rng.normal(mean, self._spread, _DRAWN)).tolist()
        return self._drawn.pop()


class Servers:
    """Some servers with one queue, first come, first served.

    SimPy has the same as `Resource`; this one schedules no event where a server is free, which is most of the time.
    """

    def __init__(self, env: simpy.Environment, count: int) -> None:
        self._env = env
        self._free = count
        self._queue: deque[simpy.Event] = deque()

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._queue)

    def use(self, steps: Iterable[Any]) -> Steps:
        """Take steps while a server is taken, as soon as one is free."""
        wait = None
        if self._free:
            self._free -= 1
        else:
            wait = self._env.event()
            self._queue.append(wait)
        try:
            if wait is not None:
                yield wait
            yield from steps
        finally:
            if wait is not None and not wait.triggered:
                self._queue.remove(wait)  # interrupted before its turn
            elif self._queue:
                self._queue.popleft().succeed()
            else:
                self._free += 1


class Machine:
    """Cores that do work in the order in which it comes."""

    def __init__(self, env: simpy.Environment, cores: int) -> None:
        self._env = env
        self._cores = Servers(env, cores)
        self.busy_ms = 0.0  #: of all cores together

    def work(self, ms: float) -> Steps:
        """Use a core for so long."""
        return self._cores.use(self._busy(ms))

    def _busy(self, ms: float) -> Steps:
        self.busy_ms += ms
        yield self._env.timeout(ms)


class Actor:
    """A replica of a shard: answers some calls at once, others wait."""

    def __init__(self, env: simpy.Environment, machine: Machine, threads: int) -> None:
        self.machine = machine
        self.outstanding = 0
        self.is_up = True
        self._threads = Servers(env, threads)
        self._running: dict[simpy.Process, None] = {}  # in the order of calls: a set has none that a seed decides
        self._env = env

    def start(self, ms: float, answer: simpy.Event) -> None:
        """Start a call, which triggers `answer` with True, or with False if the actor dies."""
        self.outstanding += 1
        self._running[self._env.process(self._call(ms, answer))] = None

    def _call(self, ms: float, answer: simpy.Event) -> Steps:
        from simpy import Interrupt

        process = self._env.active_process
        assert process is not None
        lives = True
        try:
            yield from self._threads.use(self._answer(ms, answer))
        except Interrupt:
            lives = False
        self._running.pop(process, None)
        self.outstanding -= 1
        if not answer.triggered:
            answer.succeed(lives)

    def _answer(self, ms: float, answer: simpy.Event) -> Steps:
        if not answer.triggered:  # else another replica was faster, and the call is taken back
            yield from self.machine.work(ms)

    def die(self) -> None:
        """Let all calls fail, and accept no others."""
        self.is_up = False
        for process in list(self._running):
            process.interrupt()


class Hedging:
    """When a call is sent to a second replica: after a quantile of recent answers, within a budget."""

    def __init__(self, quantile: float, share: float) -> None:
        self._quantile, self._share = quantile, share
        self._order: deque[float] = deque()
        self._sorted: list[float] = []
        self.calls = 0
        self.hedges = 0

    @property
    def patience_ms(self) -> float | None:
        """How long to wait before a hedge; None for ever."""
        if self._share == 0 or len(self._sorted) < _LEARNED:
            return None
        return self._sorted[int(self._quantile * len(self._sorted))]

    def answered(self, ms: float) -> None:
        """Learn from an answer."""
        if len(self._order) == _RECENT:
            self._sorted.pop(bisect.bisect_left(self._sorted, self._order.popleft()))
        self._order.append(ms)
        bisect.insort(self._sorted, ms)

    def spend(self) -> bool:
        """Take a hedge out of the budget, if there is one left."""
        if self.hedges + 1 > self._share * self.calls:
            return False
        self.hedges += 1
        return True
