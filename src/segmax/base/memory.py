"""Limits on memory: how much a build may use, and how much is left."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from segmax import _core
from segmax.base.errors import ConfigError
from segmax.base.system import anonymous_memory, huge_pages, total_memory

_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)(?:i?b)?\s*", re.IGNORECASE)
#: What a build needs besides tables of documents and terms: the libraries, and batches in several forms.
LEAST_LIMIT = 256 * 2**20
#: What is taken to be left where nothing is, so that work goes on in small steps.
_LEAST_ROOM = LEAST_LIMIT // 8


def fast_bytes(size: int) -> NDArray[np.uint8]:
    """Return zeroed memory, in huge pages where the system has them: a random read then costs two thirds."""
    pages = huge_pages(size)
    return np.zeros(size, dtype=np.uint8) if pages is None else np.frombuffer(pages, dtype=np.uint8)


def parse_bytes(value: int | str) -> int:
    """Return a number of bytes given as a number or as text.

    Examples
    --------
    >>> parse_bytes("1.5 GiB") == parse_bytes("1536M") == 1536 * 2**20
    True
    """
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if match is not None:
        return int(float(match[1]) * _UNITS[match[2].lower()])
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= 0:
        return int(value)
    raise ConfigError(option="memory_limit", expected="a size in bytes, as a number or like '8GiB'", got=f"{value!r}")


class MemoryLimit:
    """A limit on the anonymous memory of this process, and what is left of it."""

    def __init__(self, limit: int | str | None) -> None:
        self._is_default = limit is None
        self._at_start = 0
        if limit is None:
            # What the caller holds already is not ours to spill: leave room to work beside it.
            self.limit = max(total_memory() // 2, anonymous_memory() + 4 * LEAST_LIMIT)
            return
        self.limit = parse_bytes(limit)
        if self.limit < LEAST_LIMIT:
            raise ConfigError(option="memory_limit", expected=f"at least {LEAST_LIMIT // 2**20} MiB", got=f"{limit!r}")

    def check_start(self) -> None:
        """Raise ConfigError if the process holds more than the limit before any work is done."""
        held = self._at_start = _held_memory()
        if held > self.limit:
            raise self._too_low(held + LEAST_LIMIT, f"this process holds {_mib(held)} before the build starts")

    def check_read(self, what: str) -> None:
        """Raise ConfigError if the process holds more than the limit because of what was read since the start."""
        held = _held_memory()
        if held > self.limit:
            grown = f"{_mib(held - self._at_start)} of it since the build started to read: {what}"
            raise self._too_low(held + LEAST_LIMIT, f"this process holds {_mib(held)}, {grown}; or read less at a time")

    def require(self, size: int, what: str) -> None:
        """Raise ConfigError if so many bytes, which must stay in memory, are not available."""
        held = _held_memory()
        if held + size > self.limit:
            reason = f"this process holds {_mib(held)} already and needs {_mib(size)} more for {what}"
            raise self._too_low(held + size + _LEAST_ROOM, reason)

    def available(self) -> int:
        """Return how many bytes may still be taken; at least a little, so that work goes on in small steps."""
        return max(self.limit - _held_memory(), _LEAST_ROOM)

    def _too_low(self, needed: int, reason: str) -> ConfigError:
        origin = " (the default)" if self._is_default else ""
        got = f"{_mib(self.limit)}{origin}: {reason}"
        return ConfigError(option="memory_limit", expected=f"at least {_mib(needed)}", got=got)


def _held_memory() -> int:
    _core.release_memory()  # or freed memory counts
    return anonymous_memory()


def _mib(size: int) -> str:
    return f"{-(-size // 2**20):,} MiB"
