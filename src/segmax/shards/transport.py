"""How a sharded index talks to its shards: in this process, or through whatever carries calls to other machines."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from segmax.shards.shard import Shard


class Call(NamedTuple):
    """What to ask a shard."""

    shard: int
    method: str  #: of `Shard`
    args: tuple[Any, ...]


class Missing(NamedTuple):
    """Stands for the answer of a shard that gave none, where answers may be partial."""

    shard: int
    reason: str


class Transport(Protocol):
    """Carries calls to shards and brings their answers."""

    @property
    def num_shards(self) -> int:
        """How many shards there are."""

    def ask(self, calls: Sequence[Call], *, deadline: float | None = None, allow_partial: bool = False) -> list[Any]:
        """Make all calls at once, and return the answers in their order.

        Parameters
        ----------
        calls
            What to ask; several calls may be about one shard.
        deadline
            The moment, by `time.monotonic`, at which to give up.
        allow_partial
            Return `Missing` where a shard gives no answer. Otherwise that raises ShardsUnavailableError.
        """

    async def ask_async(
        self, calls: Sequence[Call], *, deadline: float | None = None, allow_partial: bool = False
    ) -> list[Any]:
        """Do what `ask` does, without blocking the event loop."""

    def close(self) -> None:
        """Let go of the shards."""


class LocalTransport:
    """Shards in this process: what carries no call anywhere, and the twin that others are compared with."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self._shards = shards

    @property
    def num_shards(self) -> int:
        """How many shards there are."""
        return len(self._shards)

    def ask(self, calls: Sequence[Call], *, deadline: float | None = None, allow_partial: bool = False) -> list[Any]:
        """Make the calls one after another; nothing can be missing here."""
        return [getattr(self._shards[call.shard], call.method)(*call.args) for call in calls]

    async def ask_async(
        self, calls: Sequence[Call], *, deadline: float | None = None, allow_partial: bool = False
    ) -> list[Any]:
        """Make the calls on another thread."""
        return await asyncio.to_thread(self.ask, calls, deadline=deadline, allow_partial=allow_partial)

    def close(self) -> None:
        """Let go of the shards."""
        self._shards = ()
