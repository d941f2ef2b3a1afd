"""Measuring on a machine that others use, too: what ran while they were busy is measured again."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

_TICK = os.sysconf("SC_CLK_TCK")
_PAUSE_S = 1.0

Result = TypeVar("Result")


class _Clock(NamedTuple):
    """Processor seconds: of everybody, and of this process and its descendants."""

    wall: float
    everybody: float
    own: float

    @classmethod
    def now(cls) -> _Clock:
        fields = list(map(int, Path("/proc/stat").read_text().splitlines()[0].split()[1:9]))
        busy = sum(fields) - fields[3] - fields[4]  # without idle and iowait
        return cls(time.perf_counter(), busy / _TICK, own_seconds())


def quietly(step: Callable[[], Result], *, most: float = 0.1, patience_s: float = 120.0) -> tuple[Result, float]:
    """Repeat a step of a second or so until it ran while others used hardly any core; after a while take the quietest.

    Parameters
    ----------
    step
        What to measure; it returns the measurement.
    most
        How many cores others may use meanwhile.
    patience_s
        How long to try.

    Returns
    -------
    tuple
        The measurement, and how many cores others used.
    """
    end = time.perf_counter() + patience_s
    best: tuple[Result, float] | None = None
    while True:
        before = _Clock.now()
        found = step()
        after = _Clock.now()
        others = (after.everybody - before.everybody) - (after.own - before.own)
        share = max(0.0, others / (after.wall - before.wall))
        if best is None or share < best[1]:
            best = found, share
        if share <= most or time.perf_counter() > end:
            return best
        time.sleep(_PAUSE_S)


def own_seconds() -> float:
    """Return the processor seconds of this process and of all that descend from it."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                text = (entry / "stat").read_text()
            except (FileNotFoundError, ProcessLookupError):  # it has ended
                continue
            fields = text.rpartition(")")[2].split()
            parents[int(entry.name)] = int(fields[1])
            ticks[int(entry.name)] = int(fields[11]) + int(fields[12])
    me = os.getpid()
    return sum(count for pid, count in ticks.items() if _descends(pid, me, parents)) / _TICK


def _descends(pid: int, ancestor: int, parents: dict[int, int]) -> bool:
    while pid > 1:
        if pid == ancestor:
            return True
        pid = parents.get(pid, 0)
    return False
