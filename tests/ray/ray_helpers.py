"""What several tests of Ray wait for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def eventually(holds: Callable[[], bool], within_s: float = 30.0) -> None:
    """Wait until something is so."""
    end = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < end, f"it did not come true within {within_s:g} s"
        time.sleep(0.05)


def all_up(index: Any) -> bool:
    """Whether every replica of an index, or of its transport, serves."""
    return all(replica.state == "up" for shard in index.status().shards for replica in shard.replicas)
