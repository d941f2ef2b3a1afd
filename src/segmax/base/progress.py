"""How far a build is: a bar on a terminal, a callback for programs, silence elsewhere."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from segmax.base.errors import ConfigError


@dataclasses.dataclass(frozen=True)
class BuildProgress:
    """How far a stage of a build is; given to the callback passed as `progress`."""

    #: what is being done: "count", "read", "prune", "code", "cluster", "assign", "balance", "group", "segment",
    #: "order", "texts", "write", "calibrate"; outside of builds "convert", "encode", "evaluate", "measure"
    stage: str
    done: int  #: how much of it is done
    total: int | None  #: how much there is in all; None where that is not known yet
    unit: str  #: what is counted, "documents" or "postings" for instance


_ROOM_FOR_RATES = 100  # columns: narrower terminals show no rates, so that nothing is cut
_WIDEST = 140  # columns that bars spread over

#: What `build` takes as `progress`.
ProgressOption = bool | Callable[[BuildProgress], None] | None


class Stage(Protocol):
    """One stage under way."""

    def advance(self, amount: int) -> None:
        """Count some more as done."""


class Reporter(Protocol):
    """Receives progress updates."""

    def stage(self, name: str, total: int | None, unit: str) -> contextlib.AbstractContextManager[Stage]:
        """Start a stage; leaving the context ends it."""


class _Silent:
    """Drops all updates."""

    @contextlib.contextmanager
    def stage(self, name: str, total: int | None, unit: str) -> Iterator[Stage]:
        yield self

    def advance(self, amount: int) -> None:
        pass


class _Callback:
    """Calls a function with each update."""

    def __init__(self, function: Callable[[BuildProgress], None]) -> None:
        self._function = function
        self._now = BuildProgress("", 0, None, "")

    @contextlib.contextmanager
    def stage(self, name: str, total: int | None, unit: str) -> Iterator[Stage]:
        self._tell(BuildProgress(name, 0, total, unit))
        yield self
        self._tell(dataclasses.replace(self._now, total=self._now.done))

    def advance(self, amount: int) -> None:
        self._tell(dataclasses.replace(self._now, done=self._now.done + amount))

    def _tell(self, now: BuildProgress) -> None:
        self._now = now
        self._function(now)


class _Bars:
    """Draws a bar per stage with rich: stage, share, rate, time taken and time left."""

    def __init__(self) -> None:
        self._live: Any = None

    @contextlib.contextmanager
    def shown(self) -> Iterator[_Bars]:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        console = Console(stderr=True)
        rate = " {task.fields[rate]}" if console.width >= _ROOM_FOR_RATES else ""
        columns = (
            TextColumn("{task.description:8}", markup=False),
            BarColumn(bar_width=None),  # takes the room that is left
            MofNCompleteColumn(),
            TextColumn(f"{{task.fields[unit]}}{rate}", markup=False),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=console, expand=console.width < _WIDEST) as self._live:
            yield self

    @contextlib.contextmanager
    def stage(self, name: str, total: int | None, unit: str) -> Iterator[Stage]:
        task = self._live.add_task(name, total=total, unit=unit, rate="")
        bar = _Bar(self._live, task)
        yield bar
        bar.finish()


class _Bar:
    def __init__(self, live: Any, task: Any) -> None:
        self._live = live
        self._task = task

    def advance(self, amount: int) -> None:
        self._live.update(self._task, advance=amount, rate=self._rate())

    def finish(self) -> None:
        done = self._live.tasks[self._task].completed
        self._live.update(self._task, total=done, rate=self._rate())

    def _rate(self) -> str:
        task = self._live.tasks[self._task]
        speed = task.completed / task.elapsed if task.elapsed else 0
        return f"({speed:,.0f}/s)" if speed else ""


@contextlib.contextmanager
def reporter(progress: ProgressOption) -> Iterator[Reporter]:
    """Return what receives updates: None shows bars if standard error is a terminal, True always, False never."""
    if callable(progress):
        yield _Callback(progress)
    elif progress is not None and not isinstance(progress, bool):
        raise ConfigError(option="progress", expected="None, True, False or a function", got=f"{progress!r}")
    elif progress or (progress is None and sys.stderr.isatty()):
        with _Bars().shown() as bars:
            yield bars
    else:
        yield _Silent()
