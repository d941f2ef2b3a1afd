"""The actors of an index: created, spread over nodes, watched, and replaced when they die."""

from __future__ import annotations

import atexit
import logging
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from segmax.base.errors import ShardsUnavailableError
from segmax.ray.actor import ShardActor
from segmax.ray.engine import ray
from segmax.ray.fleet import Fleet, Replica
from segmax.ray.nodes import Nodes
from segmax.ray.slots import Slot, opening_error, unusable_error, version_error

_LOG = logging.getLogger("segmax")
#: How often the pool looks for what nobody announces, such as a replica that a search found dead.
_TICK_S = 0.1
#: How long a new actor may take to respond, after every failure longer; opening its shard may take any time.
_START_S = 20.0
#: How often the node of an actor that does not respond yet is looked at.
_LOOK_S = 2.0
#: How old an unanswered call is when the pool asks its replica for a sign of life, and how long that may take.
_LATE_S = 5.0
_SIGN_S = 10.0
#: Pauses before a replica is started again, by its failures in a row.
_PAUSES_S = (0.0, 0.0, 0.5, 1.0, 2.0, 5.0)
#: A replica that served for so long did not fail because of how it was started.
_LASTING_S = 10.0
#: The pause after an error that only somebody else can repair, such as a damaged file.
_HOPELESS_S = 10.0


@dataclass(frozen=True, slots=True)
class ActorOptions:
    """How actors are created.

    Parameters
    ----------
    num_cpus
        How many CPUs of its node an actor reserves.
    threads
        How many calls an actor answers at once.
    resources
        Custom resources of Ray that an actor reserves, to choose nodes.
    """

    num_cpus: float = 0.01
    threads: int = 4
    resources: Mapping[str, float] = field(default_factory=dict)


class Pool:
    """Keeps `replicas` actors of every shard alive.

    Parameters
    ----------
    fleet
        Where replicas are announced.
    openings
        For every shard, what opens it on a node.
    replicas
        How many actors every shard has.
    options
        How actors are created.
    """

    def __init__(
        self, fleet: Fleet, openings: Sequence[Callable[[], Any]], *, replicas: int, options: ActorOptions
    ) -> None:
        self._fleet = fleet
        self._options = options
        self.slots = [
            Slot(shard, number, opening) for number in range(replicas) for shard, opening in enumerate(openings)
        ]
        self._strays: list[tuple[Any, Replica, float]] = []
        self._closed = threading.Event()
        self._ray = ray()
        self._nodes = Nodes(self._ray, options.num_cpus)
        self._actor_class = self._ray.remote(
            num_cpus=options.num_cpus,
            resources=dict(options.resources),
            max_restarts=0,  # the pool starts actors itself: on another node, and verified
            max_task_retries=0,
            max_concurrency=options.threads,
            concurrency_groups={"control": 3},
        )(ShardActor)
        self._thread = threading.Thread(target=self._watch, name="segmax-ray-pool", daemon=True)
        atexit.register(_close_at_exit, weakref.ref(self))

    def start(self, timeout_s: float) -> None:
        """Create all actors and wait until every replica serves.

        Raises
        ------
        SegmaxError
            If a shard cannot be opened, versions differ, or not all replicas serve within `timeout_s`.
        """
        self._thread.start()
        end = time.monotonic() + timeout_s
        try:
            with self._fleet.changed:
                while not all(slot.step == "up" for slot in self.slots):
                    if errors := [slot.error for slot in self.slots if slot.error is not None]:
                        raise errors[0]
                    if time.monotonic() > end:
                        raise self._not_started(timeout_s)
                    self._fleet.changed.wait(_TICK_S)
        except BaseException:
            self.close()
            raise

    def _not_started(self, timeout_s: float) -> ShardsUnavailableError:
        late = [slot for slot in self.slots if slot.step != "up"]
        reasons = dict.fromkeys(self._fleet.shards[slot.shard].reason for slot in late)
        msg = f"{late[0].where} is not ready after {timeout_s:g} s ({len(late)} of {len(self.slots)} are not): "
        hint = (
            "check that the cluster has room for {replicas} times the shards with {num_cpus} each, or raise {start_s}"
        )
        return ShardsUnavailableError(msg + "; ".join(reasons), hint=hint)

    @property
    def closed(self) -> bool:
        """Whether the actors were ended."""
        return self._closed.is_set()

    def stray(self, ref: Any, replica: Replica) -> None:
        """Take over a call whose answer nobody waits for any more: the replica is busy until it ends."""
        with self._fleet.lock:
            self._strays.append((ref, replica, time.monotonic()))

    def close(self) -> None:
        """End all actors."""
        if self._closed.is_set():
            return
        self._closed.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(timeout=5)
        for slot in self.slots:
            self._end(slot, "the index is closed")

    # --- the thread ---------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        while not self._closed.is_set() and self._ray.is_initialized():
            try:
                self._round(time.monotonic())
            except Exception:  # whatever happens to Ray, replicas must be watched as long as there is a driver
                if not self._closed.is_set() and self._ray.is_initialized():
                    _LOG.exception("watching the replicas failed; trying again")
                    self._closed.wait(1.0)

    def _round(self, now: float) -> None:
        """Start what is due, wait a moment for news, and act on them."""
        for slot in self.slots:
            if slot.step == "waiting" and now >= slot.due:
                self._start(slot, now)
        waiting = {slot.ref: slot for slot in self.slots if slot.ref is not None}
        if not waiting:
            self._closed.wait(_TICK_S)
            return
        ready, _ = self._ray.wait(list(waiting), num_returns=1, timeout=_TICK_S, fetch_local=False)
        now = time.monotonic()
        for ref in ready:
            self._advance(waiting[ref], now)
        for slot in self.slots:
            self._check(slot, now)
        self._settle_strays(now)

    def _start(self, slot: Slot, now: float) -> None:
        node = self._node_for(slot, now)
        actor_class = self._actor_class
        if node is not None:
            affinity = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=True)
            actor_class = actor_class.options(scheduling_strategy=affinity)
        else:
            actor_class = actor_class.options(scheduling_strategy="SPREAD")
        actor = actor_class.remote(slot.opening)
        slot.replica = Replica(slot.shard, slot.number, actor, node or "")
        slot.began, slot.look = now, now + _LOOK_S
        slot.step, slot.starts, slot.due = "starting", slot.starts + 1, now + _START_S * (1 + slot.failures)
        slot.ref = actor.report.options(concurrency_group="control").remote()

    def _node_for(self, slot: Slot, now: float) -> str | None:
        others = [each for each in self.slots if each.replica is not None and each is not slot]
        placed = Counter(each.replica.node for each in others if each.replica is not None)
        siblings = {each.replica.node for each in others if each.shard == slot.shard and each.replica is not None}
        return self._nodes.choose(placed, siblings=siblings, refused=slot.refused, now=now)

    def _advance(self, slot: Slot, now: float) -> None:
        """Take the next step of a slot whose reference is ready."""
        ref, slot.ref = slot.ref, None
        assert slot.replica is not None
        try:
            value = self._ray.get(ref, timeout=_SIGN_S)
        except self._ray.exceptions.RayTaskError as error:
            self._refused(slot, error.cause if isinstance(error.cause, Exception) else error, now)
        except self._ray.exceptions.RayError as error:
            self._lost(slot, error, now)
        else:
            if slot.step == "starting":
                self._started(slot, value, now)
            elif slot.step == "opening":
                self._opened(slot, now)

    def _started(self, slot: Slot, report: Any, now: float) -> None:
        assert slot.replica is not None
        slot.report, slot.replica.node = report, report.node
        if (error := version_error(slot, report)) is not None:
            slot.error = error
            self._fail(slot, str(error), now, _HOPELESS_S)
            return
        slot.step = "opening"
        slot.ref = slot.replica.actor.open.remote()

    def _opened(self, slot: Slot, now: float) -> None:
        assert slot.replica is not None
        slot.ref = slot.replica.actor.live.options(concurrency_group="control").remote()
        slot.error, slot.due = None, now
        slot.refused.clear()
        slot.step = "up"
        self._fleet.add(slot.replica)

    def _refused(self, slot: Slot, cause: Exception, now: float) -> None:
        """Handle an actor that runs but cannot open its shard, for the reason `cause`."""
        assert slot.replica is not None
        error = opening_error(slot, cause)
        slot.refused.add(slot.replica.node)
        elsewhere = self._nodes.ids() - slot.refused
        if isinstance(cause, OSError) and elsewhere:  # another node may have room, or reach the files
            self._fail(slot, f"{slot.where}: {cause}", now, 0.0)
            return
        slot.error = error
        slot.refused.clear()
        self._fail(slot, str(error or f"{slot.where}: {cause!r}"), now, _HOPELESS_S if error else None)

    def _lost(self, slot: Slot, error: Exception, now: float) -> None:
        """Handle an actor that died, or whose node did."""
        assert slot.replica is not None
        if getattr(error, "actor_init_failed", False):
            slot.error = unusable_error(slot, error)
            self._fail(slot, str(slot.error), now, _HOPELESS_S)
            return
        if isinstance(error, self._ray.exceptions.ActorUnavailableError):
            self._nodes.suspect(slot.replica.node, now)
        self._fail(slot, f"{slot.where} died: {first_line(error)}", now)

    def _fail(self, slot: Slot, reason: str, now: float, pause_s: float | None = None) -> None:
        """End an actor that is of no use, and plan the next one."""
        if slot.step == "up" and now - slot.due > _LASTING_S:
            slot.failures = 0
        if pause_s is None:
            pause_s = _PAUSES_S[min(slot.failures, len(_PAUSES_S) - 1)]
        slot.failures += 1
        self._end(slot, reason)
        slot.due = now + pause_s

    def _end(self, slot: Slot, reason: str) -> None:
        if slot.replica is not None:
            self._fleet.remove(slot.replica, reason)
            if self._ray.is_initialized():
                self._ray.kill(slot.replica.actor, no_restart=True)
        slot.forget()

    def _check(self, slot: Slot, now: float) -> None:
        """Find out what no reference says: a replica that a search found dead, or that does not respond."""
        replica = slot.replica
        if replica is None:
            return
        if slot.step in ("starting", "opening") and now > slot.look:
            slot.look = now + _LOOK_S
            if replica.node and not self._nodes.accepts(replica.node):
                self._nodes.suspect(replica.node, now)
        if slot.step == "starting" and now > slot.due:
            self._nodes.suspect(replica.node, now)
            self._fail(
                slot, f"{slot.name}: its actor does not respond {now - slot.began:.0f} s after it was created", now
            )
        elif slot.step in ("starting", "opening") and self._nodes.suspected_since(replica.node, slot.began):
            self._fail(slot, f"{slot.where}: the node does not respond", now)
        elif slot.step == "up" and not replica.up and not self._ray.wait([slot.ref], timeout=0)[0]:
            self._nodes.suspect(replica.node, now)
            self._fail(slot, replica.reason, now)
        elif slot.ping is not None:
            if self._ray.wait([slot.ping], timeout=0)[0]:
                slot.ping = None
            elif now > slot.ping_due:
                self._fail(slot, f"{slot.where} has stopped responding", now)

    def _settle_strays(self, now: float) -> None:
        """Count calls that have ended although nobody waited, and ask about those that should have."""
        with self._fleet.lock:
            strays, self._strays = self._strays, []
        if not strays:
            return
        refs = [ref for ref, _, _ in strays]
        ready = set(self._ray.wait(refs, num_returns=len(refs), timeout=0, fetch_local=False)[0])
        left = [(ref, replica, since) for ref, replica, since in strays if ref not in ready and replica.up]
        with self._fleet.lock:
            self._strays += left
            for ref, replica, _ in strays:
                replica.outstanding -= ref in ready
        for _, replica, since in left:
            if now - since > _LATE_S:
                self._ask_for_a_sign(replica, now)

    def _ask_for_a_sign(self, replica: Replica, now: float) -> None:
        slot = next((slot for slot in self.slots if slot.replica is replica), None)
        if slot is not None and slot.ping is None:
            slot.ping = replica.actor.report.options(concurrency_group="control").remote()
            slot.ping_due = now + _SIGN_S


def _close_at_exit(pool: weakref.ref[Pool]) -> None:
    """End a pool before Ray ends, on which its thread waits."""
    if (found := pool()) is not None:
        found.close()


def first_line(error: Exception) -> str:
    """Return the first line of what Ray says: the rest is about its insides."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
