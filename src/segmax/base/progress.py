"""How far a long call is: bars or calls of a function where the caller asks for them, and a line in the log."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from segmax.base.errors import ConfigError

_LOG = logging.getLogger("segmax.progress")
_ROOM_FOR_RATES = 100  # columns: narrower terminals show no rates, so that nothing is cut
_WIDEST = 140  # columns that bars spread over
_ROWS_PER_UPDATE = 1024  # between two updates

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class BuildProgress:
    """How far a stage is; given to the function passed as `progress`.

    Examples
    --------
    >>> import scipy.sparse as sp, segmax
    >>> seen = []
    >>> index = segmax.build(sp.csr_matrix([[1, 2]]), progress=seen.append)
    >>> seen[0].stage, seen[0].unit
    ('read', 'documents')
    """

    #: what is being done: "count", "read", "prune", "code", "cluster", "assign", "balance", "even out", "group",
    #: "segment", "order", "texts", "write", "calibrate"; outside of builds "convert", "encode", "evaluate", "measure",
    #: "verify"
    stage: str
    done: int  #: how much of it is done
    total: int | None  #: how much there is in all; None where that is not known yet
    unit: str  #: what is counted, "documents" or "postings" for instance


#: What `build` and others take as `progress`.
ProgressOption = bool | Callable[[BuildProgress], None] | None


@contextlib.contextmanager
def progress_of(option: ProgressOption) -> Iterator[Progress]:
    """Give what receives updates: True draws bars, a function is called, None and False are silent.

    Examples
    --------
    >>> with progress_of(print) as progress, progress.stage("read", 2, "documents") as stage:
    ...     stage.advance(2)
    BuildProgress(stage='read', done=0, total=2, unit='documents')
    BuildProgress(stage='read', done=2, total=2, unit='documents')
    BuildProgress(stage='read', done=2, total=2, unit='documents')
    """
    if callable(option):
        yield _Calls(option)
    elif option is not None and not isinstance(option, bool):
        raise ConfigError(option="progress", expected="None, True, False or a function", got=f"{option!r}")
    elif option:
        with _bars() as bars:
            yield bars
    else:
        yield Progress()


class Stage:
    """A stage under way."""

    def __init__(self, progress: Progress, name: str, total: int | None, unit: str) -> None:
        self.name = name
        self.total = total
        self.unit = unit
        self.done = 0
        self._progress = progress
        self._start = time.perf_counter()

    @property
    def seconds(self) -> float:
        """How long it has taken."""
        return time.perf_counter() - self._start

    def advance(self, amount: int) -> None:
        """Count some more as done."""
        self.done += amount
        self._progress.advanced(self)


def advancing(rows: Iterable[T], advance: Callable[[int], object]) -> Iterator[T]:
    """Yield rows, and count them as they are taken, many at a time.

    Examples
    --------
    >>> list(advancing("abc", print))
    3
    ['a', 'b', 'c']
    """
    done = 0
    for row in rows:
        yield row
        done += 1
        if done == _ROWS_PER_UPDATE:
            advance(done)
            done = 0
    if done:
        advance(done)


class Progress:
    """Receives updates, and drops them; subclasses show them."""

    @contextlib.contextmanager
    def stage(self, name: str, total: int | None, unit: str) -> Iterator[Stage]:
        """Start a stage; leaving the context ends it."""
        stage = Stage(self, name, total, unit)
        self.started(stage)
        yield stage
        stage.total = stage.done
        self.finished(stage)
        _LOG.info("%s: %d %s in %.2f s", stage.name, stage.done, stage.unit, stage.seconds)

    def started(self, stage: Stage) -> None:
        """Show a new stage."""

    def advanced(self, stage: Stage) -> None:
        """Show that more of a stage is done."""

    def finished(self, stage: Stage) -> None:
        """Show that all of a stage is done."""


class _Calls(Progress):
    """Calls a function with each update."""

    def __init__(self, function: Callable[[BuildProgress], None]) -> None:
        self._function = function

    def started(self, stage: Stage) -> None:
        self._function(BuildProgress(stage.name, stage.done, stage.total, stage.unit))

    advanced = finished = started


class _Bars(Progress):
    """Draws a bar per stage with rich: stage, share, rate, time taken and time left."""

    def __init__(self, live: Any) -> None:
        self._live = live
        self._tasks: dict[Stage, Any] = {}

    def started(self, stage: Stage) -> None:
        self._tasks[stage] = self._live.add_task(stage.name, total=stage.total, unit=stage.unit, rate="")

    def advanced(self, stage: Stage) -> None:
        rate = f"({stage.done / max(stage.seconds, 1e-9):,.0f}/s)" if stage.done else ""
        self._live.update(self._tasks[stage], completed=stage.done, total=stage.total, rate=rate)

    finished = advanced


@contextlib.contextmanager
def _bars() -> Iterator[_Bars]:
    from rich import progress as rich_progress
    from rich.console import Console

    console = Console(stderr=True)
    rate = " {task.fields[rate]}" if console.width >= _ROOM_FOR_RATES else ""
    columns = (
        rich_progress.TextColumn("{task.description:8}", markup=False),
        rich_progress.BarColumn(bar_width=None),  # takes the room that is left
        rich_progress.MofNCompleteColumn(),
        rich_progress.TextColumn(f"{{task.fields[unit]}}{rate}", markup=False),
        rich_progress.TimeElapsedColumn(),
        rich_progress.TimeRemainingColumn(),
    )
    with rich_progress.Progress(*columns, console=console, expand=console.width < _WIDEST) as live:
        yield _Bars(live)
