"""What runs on a node: an actor with one shard."""

from __future__ import annotations

import contextlib
import os
import platform
import sys
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from segmax.base.system import on_stop
from segmax.ray.engine import ray
from segmax.ray.objects import packed_answer, unpacked_call


class Versions(NamedTuple):
    """What a driver and its actors must have in common."""

    segmax: str
    python: str  #: its first two numbers
    ray: str

    @classmethod
    def here(cls) -> Versions:
        """Return the versions of this process."""
        python = ".".join(platform.python_version_tuple()[:2])
        return cls(sys.modules["segmax"].__version__, python, ray().__version__)

    def __str__(self) -> str:
        """Name them for people."""
        return f"segmax {self.segmax}, Python {self.python}, Ray {self.ray}"


class Report(NamedTuple):
    """Where an actor runs, and with what."""

    versions: Versions
    node: str  #: Ray's id of the node
    address: str  #: of the node
    pid: int


class ShardActor:
    """One shard, in a process of its own.

    Making one is quick, so that a node which does not respond is found out quickly. `open` may take as long as copying
    and verifying the shard takes.

    Parameters
    ----------
    opening
        Opens the shard: copies it to this node if it is not there yet, and verifies it.
    """

    def __init__(self, opening: Callable[[], Any]) -> None:
        self._opening = opening
        self._shard: Any = None
        self._ended = threading.Event()
        # Ray answers SIGTERM by waiting for calls to end, and refuses none meanwhile; `live` never ends. Other replicas
        # make up for a call that is cut short.
        self._stopping = contextlib.ExitStack()
        self._stopping.enter_context(on_stop(lambda number, frame: os._exit(128 + number)))

    def report(self) -> Report:
        """Say where this is and what versions it has; also the sign that the process is alive."""
        node = ray().get_runtime_context().get_node_id()
        return Report(Versions.here(), node, ray().util.get_node_ip_address(), os.getpid())

    def open(self) -> None:
        """Open the shard; calls can come after that."""
        self._shard = self._opening()

    def call(self, packed: bytes, *large: Any) -> Any:
        """Call a method of the shard; see `objects.packed_calls`."""
        method, args = unpacked_call(packed, large)
        return packed_answer(getattr(self._shard, method)(*args))

    def live(self) -> None:
        """Never return: the caller learns that the process has ended when this call fails."""
        self._ended.wait()
