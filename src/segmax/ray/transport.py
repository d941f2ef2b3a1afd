"""Calls to shards that are Ray actors: two drivers, one that blocks and one for event loops, of the same decisions."""

from __future__ import annotations

import asyncio
import time
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from segmax.base.errors import IndexClosedError, ShardsUnavailableError
from segmax.ray.engine import ray
from segmax.ray.fleet import Fleet, Policy
from segmax.ray.hedging import Asking, Attempt
from segmax.ray.objects import packed_calls, unpacked_answer
from segmax.ray.pool import ActorOptions, Pool, first_line
from segmax.ray.status import Status, status_of
from segmax.shards.transport import Call, Missing

#: How often a request looks whether a replica has died, and one that waits for a replica whether it has started.
_LOOK_S = 0.25
_LOOK_FOR_START_S = 0.02


class RayTransport:
    """Shards as actors on the nodes of a Ray cluster.

    Parameters
    ----------
    openings
        For every shard, a picklable function that opens it on a node.
    replicas
        How many actors every shard has.
    deadline_s
        How long a request may take that has no deadline of its own.
    policy
        How calls are spread, repeated and given up.
    options
        How actors are created.
    start_s
        How long the first start of all actors may take.
    """

    def __init__(
        self,
        openings: Sequence[Callable[[], Any]],
        *,
        replicas: int = 1,
        deadline_s: float = 30.0,
        policy: Policy | None = None,
        options: ActorOptions | None = None,
        start_s: float = 300.0,
    ) -> None:
        self._ray = ray()
        self._deadline_s = deadline_s
        self.replicas = replicas
        self.fleet = Fleet(len(openings), policy or Policy())
        self.pool = Pool(self.fleet, openings, replicas=replicas, options=options or ActorOptions())
        self._finalizer = weakref.finalize(self, self.pool.close)
        self._finalizer.atexit = False  # the pool does that itself, in time
        self.pool.start(start_s)

    @property
    def num_shards(self) -> int:
        """How many shards there are."""
        return len(self.fleet.shards)

    def ask(self, calls: Sequence[Call], *, deadline: float | None = None, allow_partial: bool = False) -> list[Any]:
        """Make all calls at once, and return the answers in their order; see `Transport.ask`."""
        request = _Request(self, calls, deadline, allow_partial)
        try:
            while not request.over():
                request.start()
                if not request.flight:
                    with self.fleet.changed:
                        self.fleet.changed.wait(request.patience())
                    continue
                for ref in self._ready(list(request.flight), request.patience()):
                    request.take(ref, partial(self._ray.get, ref, timeout=request.patience()))
        finally:
            request.leave()
        return request.result()

    def _ready(self, refs: list[Any], timeout_s: float) -> list[Any]:
        """Return references that are ready, or the only one there is: waiting and getting is one call for it."""
        if len(refs) == 1:
            return refs
        # Half of what is missing at a time: few wake-ups, and about the right time of every answer.
        ready: list[Any] = self._ray.wait(refs, num_returns=(len(refs) + 1) // 2, timeout=timeout_s)[0]
        return ready

    async def ask_async(
        self, calls: Sequence[Call], *, deadline: float | None = None, allow_partial: bool = False
    ) -> list[Any]:
        """Do what `ask` does, without blocking the event loop."""
        request = _Request(self, calls, deadline, allow_partial)
        futures: dict[asyncio.Future[Any], Any] = {}
        try:
            while not request.over():
                futures |= {asyncio.wrap_future(ref.future()): ref for ref in request.start()}
                if not futures:
                    await asyncio.sleep(request.patience())
                    continue
                ready, _ = await asyncio.wait(futures, timeout=request.patience(), return_when=asyncio.FIRST_COMPLETED)
                for future in ready:
                    request.take(futures.pop(future), future.result)
        finally:
            for future in futures:
                future.cancel()
            request.leave()
        return request.result()

    def status(self) -> Status:
        """Return which replicas serve, and what happened to calls."""
        return status_of(self.fleet, self.pool)

    def close(self) -> None:
        """End all actors."""
        self._finalizer()


class _Request:
    """What both drivers do with Ray on behalf of one request."""

    def __init__(
        self, transport: RayTransport, calls: Sequence[Call], deadline: float | None, allow_partial: bool
    ) -> None:
        if transport.pool.closed:
            raise IndexClosedError("the index is closed", hint="open it again with segmax.ray.open")
        if not transport._ray.is_initialized():  # the next call would start a cluster of its own
            raise ShardsUnavailableError("Ray is not connected any more", hint="open the index again")
        self._transport = transport
        self._ray = transport._ray
        self._calls = calls = list(calls)
        self._allow_partial = allow_partial
        self._packed = packed_calls(calls, self._ray)
        self._answers: list[Any] = [None] * len(calls)
        self._began = self._now = time.monotonic()
        self._deadline = self._began + transport._deadline_s if deadline is None else deadline
        wanted = [(call.shard, packed.kind) for call, packed in zip(calls, self._packed, strict=True)]
        self._asking = Asking(transport.fleet, wanted, deadline=self._deadline, patient=not allow_partial)
        self.flight: dict[Any, Attempt] = {}

    def over(self) -> bool:
        """Return whether there is nothing left to wait for."""
        self._now = time.monotonic()
        return self._asking.over(self._now)

    def start(self) -> list[Any]:
        """Send the calls that are due; return the references to their answers."""
        refs = []
        for attempt in self._asking.due(self._now):
            ref = attempt.replica.actor.call.remote(*self._packed[attempt.call].arguments)
            self.flight[ref] = attempt
            refs.append(ref)
        return refs

    def patience(self) -> float:
        """Return for how many seconds there is nothing to do but wait."""
        look_s = _LOOK_FOR_START_S if self._asking.waiting else _LOOK_S
        return min(max(self._asking.wake() - self._now, 0.0), look_s)

    def take(self, ref: Any, get: Callable[[], Any]) -> None:
        """Take an answer, or learn that there is none.

        Raises
        ------
        Exception
            What the method of the shard raised by itself.
        """
        exceptions = self._ray.exceptions
        try:
            value = get()
        except exceptions.GetTimeoutError:
            return  # still under way
        except exceptions.RayTaskError as error:
            if self._asking.answered(self.flight.pop(ref), self._now):
                raise (error.cause if isinstance(error.cause, Exception) else error) from None
        except exceptions.RayError as error:
            self._asking.failed(self.flight.pop(ref), first_line(error))
        else:
            attempt = self.flight.pop(ref)
            if self._asking.answered(attempt, time.monotonic()):
                self._answers[attempt.call] = unpacked_answer(value)

    def leave(self) -> None:
        """Leave unanswered calls to the pool."""
        for ref, attempt in self.flight.items():
            self._ray.cancel(ref)
            self._transport.pool.stray(ref, attempt.replica)

    def result(self) -> list[Any]:
        """Return the answers.

        Raises
        ------
        ShardsUnavailableError
            If some are missing, and partial answers are not allowed.
        """
        for number, reason in self._asking.lost:
            self._answers[number] = Missing(self._calls[number].shard, reason)
        if not self._allow_partial and (missing := [each for each in self._answers if isinstance(each, Missing)]):
            raise _unavailable(missing, self._deadline - self._began)
        return self._answers


def _unavailable(missing: Sequence[Missing], seconds: float) -> ShardsUnavailableError:
    shards = sorted({each.shard for each in missing})
    names = f"shard {shards[0]}" if len(shards) == 1 else f"shards {', '.join(map(str, shards[:8]))}"
    more = f" and {len(shards) - 8} more" if len(shards) > 8 else ""
    reasons = "; ".join(dict.fromkeys(each.reason for each in missing[:3]))
    waited = f"{seconds:.1f} s" if seconds >= 1 else f"{1e3 * seconds:.0f} ms"
    msg = f"{names}{more} gave no answer within {waited}: {reasons}"
    return ShardsUnavailableError(
        msg, hint="try again, open the index with more {replicas}, or pass {allow_partial=True}"
    )
