"""Where the targets in Python are."""

from __future__ import annotations

import importlib

from tests.fuzz.target import TARGETS, Target

#: Those that import little come first.
_MODULES = ("reader_targets", "index_targets", "shard_targets", "collection_targets", "service_targets")


def find_target(name: str) -> Target:
    """Return a target; import no more than it takes."""
    for module in _MODULES:
        if name not in TARGETS:
            importlib.import_module(f"tests.fuzz.{module}")
    return TARGETS[name]


def all_targets() -> dict[str, Target]:
    """Return all targets by name."""
    for module in _MODULES:
        importlib.import_module(f"tests.fuzz.{module}")
    return TARGETS
