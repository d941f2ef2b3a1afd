"""A place for one replica, whoever fills it: the steps from an actor that is created to a shard that serves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from segmax.base.errors import SegmaxError, ShardsUnavailableError
from segmax.ray.actor import Report, Versions
from segmax.ray.fleet import Replica


@dataclass(slots=True, eq=False)
class Slot:
    """A replica of a shard: which one is there now, what it is doing, and what went wrong before."""

    shard: int
    number: int
    opening: Callable[[], Any]
    replica: Replica | None = None
    step: str = "waiting"  #: then "starting", "opening", "up"
    ref: Any = None  #: what the step waits for
    began: float = 0.0  #: when the actor was created
    look: float = 0.0  #: when to look whether its node is there
    due: float = 0.0  #: when to start again, while waiting; when to lose patience, while starting; since when it is up
    report: Report | None = None
    ping: Any = None  #: asks a replica that is late with answers whether it is still there
    ping_due: float = 0.0
    starts: int = 0
    failures: int = 0  #: in a row
    refused: set[str] = field(default_factory=set)  #: nodes that could not open the shard
    error: SegmaxError | OSError | None = None  #: what another attempt will not change by itself

    @property
    def name(self) -> str:
        """How errors call it."""
        return f"shard {self.shard}, replica {self.number}"

    @property
    def where(self) -> str:
        """How errors call it and its node."""
        return f"{self.name} on node {self.report.address}" if self.report else self.name

    def forget(self) -> None:
        """Be ready for another actor."""
        self.replica = self.ref = self.report = self.ping = None
        self.step = "waiting"


def version_error(slot: Slot, report: Report) -> SegmaxError | None:
    """Return the error about an actor that runs other versions than the driver, None if all is well."""
    here = Versions.here()
    if report.versions == here:
        return None
    return ShardsUnavailableError(
        where=slot.where,
        expected=f"the versions of the driver: {here}",
        got=str(report.versions),
        hint="install the same versions on every node",
    )


def opening_error(slot: Slot, cause: Exception) -> SegmaxError | OSError | None:
    """Return the error about a shard that cannot be opened, naming shard and node; None if trying again may help."""
    if isinstance(cause, SegmaxError):
        named = str(cause).startswith(f"shard {slot.shard}:")
        where = f"node {slot.report.address}" if named and slot.report else slot.where
        return cause.at(f"{where}: {cause.where}" if cause.where else where)
    if isinstance(cause, OSError):
        return ShardsUnavailableError(f"the shard cannot be read or copied: {cause}", where=slot.where)
    return None


def unusable_error(slot: Slot, error: Exception) -> SegmaxError:
    """Return the error about a node where an actor cannot even be made, because a package is missing for instance."""
    last = (str(error).strip().splitlines() or [""])[-1]
    msg = f"the actor cannot be created: {last}"
    return ShardsUnavailableError(msg, where=slot.name, hint="install the same versions of all packages on every node")
