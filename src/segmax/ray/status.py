"""How an index on Ray is doing: which replicas serve, and what its calls took."""

from __future__ import annotations

from dataclasses import dataclass

from segmax.ray.fleet import Fleet, ShardState
from segmax.ray.pool import Pool
from segmax.ray.slots import Slot


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    """One replica of a shard.

    Parameters
    ----------
    state
        "up" if it answers calls; before that "waiting" (for a pause after failures to end), "starting" or "opening".
    node
        The address of its node, "" before it has one.
    pid
        Its process, 0 before it has one.
    restarts
        How often it was started again.
    outstanding
        How many calls of this driver it is working on.
    reason
        Why it is not up, "" if it is.
    """

    state: str
    node: str
    pid: int
    restarts: int
    outstanding: int
    reason: str


@dataclass(frozen=True, slots=True)
class ShardStatus:
    """One shard, as this driver sees it.

    Parameters
    ----------
    shard
        Its number.
    replicas
        Its replicas.
    calls, hedges, hedges_first, retries, failures
        Calls so far; those that were sent to a second replica because the first was late; how often the second answered
        first; calls that were made again because a replica died; and calls without an answer.
    latencies_ms
        For every method of a shard: the 50th, 95th and 99th percentile of what recent calls took, in milliseconds.
    """

    shard: int
    replicas: tuple[ReplicaStatus, ...]
    calls: int
    hedges: int
    hedges_first: int
    retries: int
    failures: int
    latencies_ms: dict[str, tuple[float, float, float]]

    @property
    def serves(self) -> bool:
        """Whether at least one replica is up."""
        return any(replica.state == "up" for replica in self.replicas)


@dataclass(frozen=True, slots=True)
class Status:
    """An index on Ray, as this driver sees it.

    Parameters
    ----------
    shards
        Its shards.
    """

    shards: tuple[ShardStatus, ...]

    @property
    def complete(self) -> bool:
        """Whether every shard has a replica that is up, so that answers are complete."""
        return all(shard.serves for shard in self.shards)

    @property
    def restarts(self) -> int:
        """How often replicas were started again."""
        return sum(replica.restarts for shard in self.shards for replica in shard.replicas)


def status_of(fleet: Fleet, pool: Pool) -> Status:
    """Return the status of an index at this moment."""
    with fleet.lock:
        return Status(
            tuple(
                _shard_status(number, shard, [slot for slot in pool.slots if slot.shard == number])
                for number, shard in enumerate(fleet.shards)
            )
        )


def _shard_status(number: int, shard: ShardState, slots: list[Slot]) -> ShardStatus:
    counts = shard.counts
    return ShardStatus(
        shard=number,
        replicas=tuple(_replica_status(slot, shard) for slot in slots),
        calls=counts.calls,
        hedges=counts.hedges,
        hedges_first=counts.hedges_first,
        retries=counts.retries,
        failures=counts.failures,
        latencies_ms=_latencies_ms(shard),
    )


def _replica_status(slot: Slot, shard: ShardState) -> ReplicaStatus:
    replica, report = slot.replica, slot.report
    up = replica is not None and replica.up
    state = "up" if up else "waiting" if slot.step == "up" else slot.step
    return ReplicaStatus(
        state=state,
        node=report.address if report else "",
        pid=report.pid if report else 0,
        restarts=max(slot.starts - 1, 0),
        outstanding=replica.outstanding if replica else 0,
        reason="" if up else shard.reason,
    )


def _latencies_ms(shard: ShardState) -> dict[str, tuple[float, float, float]]:
    """Return percentiles by method, whatever the size of its arguments."""
    taken: dict[str, list[float]] = {}
    for kind, latencies in shard.latencies.items():
        taken.setdefault(kind.partition(":")[0], []).extend(latencies)
    found = {}
    for method, seconds in taken.items():
        if ordered := sorted(seconds):
            p50, p95, p99 = (1e3 * ordered[int(share * len(ordered))] for share in (0.5, 0.95, 0.99))
            found[method] = (p50, p95, p99)
    return found
