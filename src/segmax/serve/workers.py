"""Several processes behind one port: workers that answer, one that writes, one that encodes, and who starts them again.

The first process only binds the port and watches. It loads nothing of what the others do, and opens no index, so no
damaged file can end it; `roles.py` has what the others do. What they share is the port, the maps of the files, and what
was shown last (`shown.py`).
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Literal

from segmax.base.display import printable
from segmax.base.errors import SegmaxError
from segmax.base.system import INTERRUPT, leave_group, on_stop, stop_process, without_interrupts
from segmax.serve.needed import need_packages
from segmax.serve.settings import Settings

_FIRST_WAIT = 0.1  # seconds before a process is started again that ended soon after its start; then twice as many
_LONGEST_WAIT = 10.0
_LONG_LIFE_SECONDS = 10.0  # after which an end is a first one again
_PATIENCE_SECONDS = 40.0  # for children to finish their requests
_READY = ""
_SPAWN = multiprocessing.get_context("spawn")

Role = Literal["worker", "writer", "encoder"]


class ServiceFailedError(SegmaxError):
    """A process of the service could not be started."""


class Child:
    """A process of the service, started again and again.

    Parameters
    ----------
    role
        What it does.
    settings, folder, sock
        As for `Processes`; only workers get the port.
    """

    def __init__(self, role: Role, settings: Settings, folder: Path, sock: socket.socket) -> None:
        self.role = role
        self.process: SpawnProcess | None = None
        self.report: Connection  #: on which it says that it is ready, or why it cannot start
        self.is_ready = False
        self.due: float | None = None  #: when to start it again, if it has ended
        self._arguments = settings, folder, sock if role == "worker" else None
        self._started = 0.0
        self._num_deaths = 0  # one soon after the other
        self._said = ""

    def start(self, *, is_first: bool) -> None:
        """Start the process."""
        self.report, report = _SPAWN.Pipe(duplex=False)
        self._started, self._said, self.is_ready, self.due = time.monotonic(), "", False, None
        self.process = _SPAWN.Process(target=_run, args=(self.role, *self._arguments, report, is_first))
        with without_interrupts():  # Ctrl-C is for the first process, even before this one has left its group
            self.process.start()
        report.close()

    @property
    def has_ended(self) -> bool:
        """Whether it was started, and has ended."""
        return self.process is not None and self.process.exitcode is not None

    @property
    def sentinel(self) -> int | None:
        """What shows that it ends; None once that is known."""
        return None if self.process is None or self.due is not None else self.process.sentinel

    def read_report(self) -> None:
        """Take note of what it says."""
        with contextlib.suppress(EOFError, OSError):
            self._said = self.report.recv()
            self.is_ready = self._said == _READY
        self.report.close()

    def why_not(self) -> ServiceFailedError:
        """Return the error about a process that has ended before it was ready."""
        assert self.process is not None
        if not self.report.closed:
            self.read_report()
        ended = f"the {self.role} process ended with the exit code {self.process.exitcode} before it was ready"
        return ServiceFailedError(self._said or ended)

    def bury(self) -> None:
        """Decide when to start it again after it has ended: at once, or after a while."""
        assert self.process is not None
        number = self.process.pid
        sys.stderr.write(f"segmax: the {self.role} process {number} ended unexpectedly; starting another one\n")
        if not self.is_ready:
            sys.stderr.write(f"segmax: {printable(self.why_not())}\n")
        _forget_figures(number)
        now = time.monotonic()
        self._num_deaths = self._num_deaths + 1 if now - self._started < _LONG_LIFE_SECONDS else 0
        self.due = now + (min(_LONGEST_WAIT, _FIRST_WAIT * 2**self._num_deaths) if self._num_deaths else 0.0)


class Processes:
    """All processes of a service with several workers.

    Parameters
    ----------
    settings
        What to serve, and how.
    sock
        The port, bound.
    folder
        For what the processes share; nobody else may read it.
    """

    def __init__(self, settings: Settings, sock: socket.socket, folder: Path) -> None:
        self._sock = sock
        wanted: dict[Role, bool] = {"writer": settings.writable, "encoder": bool(settings.encoders)}
        self._helpers = [Child(role, settings, folder, sock) for role, is_wanted in wanted.items() if is_wanted]
        self._workers = [Child("worker", settings, folder, sock) for _ in range(settings.workers)]
        self._groups = self._helpers, self._workers  # a worker follows collections that the writer has open
        self._stopping, self._stop = _SPAWN.Pipe(duplex=False)  # the latter closes when a signal asks to stop

    def run(self, on_ready: Callable[[], None]) -> None:
        """Start everything, start again what dies, and stop everything on SIGTERM or SIGINT.

        Raises
        ------
        ServiceFailedError
            If a process cannot be started, or later no worker can: nobody would answer then.
        """
        with on_stop(self._asked_to_stop):
            try:
                if self._start():
                    on_ready()
                    while self._wait():
                        self._replace_dead()
            finally:
                self._end()

    def _asked_to_stop(self, number: int, frame: object) -> None:
        """Stop in order; at Ctrl-C while that is done, at once."""
        if self._stop.closed and number == INTERRUPT:
            raise KeyboardInterrupt
        self._stop.close()

    def _start(self) -> bool:
        """Start everything; return False if asked to stop meanwhile."""
        for group in self._groups:
            for child in group:
                child.start(is_first=True)
            while not all(child.is_ready for child in group):
                if not self._wait():
                    return False
                for child in (*self._helpers, *group):
                    if child.has_ended:
                        raise child.why_not()
        return True

    def _wait(self) -> bool:
        """Wait until a process says something or ends, or until one is due; return False if asked to stop."""
        children = (*self._helpers, *self._workers)
        sentinels = [child.sentinel for child in children if child.sentinel is not None]
        reports = {child.report: child for child in children if child.sentinel is not None and not child.report.closed}
        due = [child.due for child in children if child.due is not None]
        seconds = max(0.0, min(due) - time.monotonic()) if due else None
        happened = wait([self._stopping, *reports, *sentinels], seconds)
        for report, child in reports.items():
            if report in happened:
                child.read_report()
        return self._stopping not in happened

    def _replace_dead(self) -> None:
        """Start the processes whose time has come; a worker at once if there is no other."""
        for child in (*self._helpers, *self._workers):
            if child.sentinel is not None and child.has_ended:
                child.bury()
                if child.role == "worker" and not child.is_ready and not self._has_workers():
                    raise child.why_not()
        now = time.monotonic()
        for child in (*self._helpers, *self._workers):
            is_last = child.role == "worker" and not self._has_workers()
            if child.due is not None and (child.due <= now or is_last):
                child.start(is_first=False)

    def _has_workers(self) -> bool:
        """Whether any worker runs, or is being started."""
        return any(child.sentinel is not None and not child.has_ended for child in self._workers)

    def _end(self) -> None:
        """Let workers finish their requests, then the processes that they need, and wait for all of them.

        At Ctrl-C meanwhile, kill them: what collections have in memory is in their logs.
        """
        self._sock.close()  # so that nobody connects to a port that nobody serves anymore
        groups = [[child.process for child in group if child.process is not None] for group in self._groups]
        with contextlib.suppress(KeyboardInterrupt):
            for processes in reversed(groups):
                for process in processes:
                    process.terminate()
                deadline = time.monotonic() + _PATIENCE_SECONDS
                for process in processes:
                    process.join(max(0.0, deadline - time.monotonic()))
                _kill(processes)
        _kill([process for processes in groups for process in processes])


def _kill(processes: Iterable[SpawnProcess]) -> None:
    for process in processes:
        process.kill()
        process.join()


def _run(
    role: Role, settings: Settings, folder: Path, sock: socket.socket | None, report: Connection, is_first: bool
) -> None:
    """Do the work of a process, in that process."""
    leave_group()
    threading.Thread(target=_stop_with_parent, args=(folder,), name="parent", daemon=True).start()
    try:
        need_packages()
        from segmax.serve.roles import Process  # which the first process does without

        Process(settings, folder, is_first=is_first, on_ready=lambda: _say(report, _READY)).run(role, sock)
    except (SegmaxError, OSError) as error:
        _say(report, str(error))
        sys.exit(1)


def _say(report: Connection, text: str) -> None:
    with contextlib.suppress(OSError):  # said already, or nobody listens
        report.send(text)
        report.close()


def _stop_with_parent(folder: Path) -> None:
    """End this process, in order, when the first one has ended without stopping it."""
    first = multiprocessing.parent_process()
    assert first is not None
    first.join()
    shutil.rmtree(folder, ignore_errors=True)
    stop_process(os.getpid())
    time.sleep(_PATIENCE_SECONDS)
    os._exit(1)


def _forget_figures(number: int | None) -> None:
    """Take what a process that has ended counted as its current state out of the figures."""
    from prometheus_client import multiprocess as figures  # which a service of which nothing dies does without

    figures.mark_process_dead(number)  # type: ignore[no-untyped-call]
