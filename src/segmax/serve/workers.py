"""Several processes behind one port: workers that answer, one that writes, one that encodes, and who starts them again.

The first process only binds the port and watches. It opens no index and starts no thread, so that it can fork at any
time. What its children share is the port, the maps of the files, and the numbers of the last writes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import shutil
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvloop
from prometheus_client import multiprocess

from segmax.base.display import printable
from segmax.base.errors import SegmaxError
from segmax.base.system import (
    STOP_SIGNALS,
    ended_child,
    fork,
    has_ended,
    stop_is_pending,
    stop_process,
    watched_children,
)
from segmax.collection.opening import is_collection
from segmax.encoders.base import Encoder
from segmax.serve.catalog import Catalog, Sequences, Served
from segmax.serve.encoding import EncoderThread
from segmax.serve.rpc import Caller, RemoteEncoder, packed_rows, serve_calls
from segmax.serve.server import prepare_process, run_server
from segmax.serve.service import Backends
from segmax.serve.settings import Settings
from segmax.serve.writing import Writer, WriterThreads

_FIRST_WAIT = 0.1  # seconds before a process is started again that ended soon after its start; then twice as many
_LONGEST_WAIT = 10.0
_LONG_LIFE_SECONDS = 10.0  # after which an end is a first one again
_IDLE_SECONDS = 3600.0
_PATIENCE_SECONDS = 40.0  # for children to finish their requests
_LOOK_SECONDS = 0.1  # between two looks whether to stop, while processes start
_READY = b"ready\n"


class ServiceFailedError(SegmaxError):
    """A process of the service could not be started."""


class Child:
    """A process of the service, and the pipe on which it reports."""

    def __init__(self, role: str, run: Callable[[Callable[[], None]], None], lifeline: tuple[int, int]) -> None:
        self.role = role
        self._run = run
        self._lifeline = lifeline
        self.pid = 0
        self.report = -1
        self.started = 0.0
        self.num_deaths = 0  #: one soon after the other

    def start(self, *, is_first: bool = True) -> None:
        """Start the process. The first reports whether it could; one that replaces another tells standard error."""
        self.report, write = os.pipe()
        self.started = time.monotonic()

        def run() -> int:
            os.close(self.report)
            os.close(self._lifeline[1])
            try:
                self._run(lambda: _report(write, _READY))
            except (SegmaxError, OSError) as error:
                _report(write, str(error).encode())
                if not is_first:
                    sys.stderr.write(f"segmax: {printable(error)}\n")
                return 1
            return 0

        self.pid = fork(run)
        os.close(write)
        if not is_first:
            os.close(self.report)

    def wait_until_ready(self) -> None:
        """Wait for the first report; raise if the child could not start, or if this process is asked to stop."""
        content = b""
        while not content.endswith(b"\n"):
            if not select.select([self.report], [], [], _LOOK_SECONDS)[0]:
                if stop_is_pending():
                    raise KeyboardInterrupt
                continue
            piece = os.read(self.report, 1 << 16)
            if not piece:
                break
            content += piece
        os.close(self.report)
        if content != _READY:
            raise ServiceFailedError(content.decode(errors="replace") or f"the {self.role} process ended at once")


def _report(descriptor: int, content: bytes) -> None:
    with contextlib.suppress(OSError):
        os.write(descriptor, content)


class Processes:
    """All processes of a service with several workers.

    Parameters
    ----------
    settings
        What to serve, and how.
    sock
        The port, bound.
    folder
        For the sockets between them; nobody else may read it.
    """

    def __init__(self, settings: Settings, sock: socket.socket, folder: Path) -> None:
        self._settings = settings
        self._sock = sock
        self._folder = folder
        self._lifeline = os.pipe()  # closes when the first process ends, however it ends
        collections = [name for name, path in settings.paths.items() if is_collection(path)]
        self._sequences = Sequences(collections) if settings.writable else None
        self._children: dict[int, Child] = {}
        self._due: list[tuple[float, Child]] = []  # when to start which process again

    def run(self, on_ready: Callable[[], None]) -> None:
        """Start everything, start again what dies, and stop everything on SIGTERM or SIGINT."""
        with watched_children() as goes_on:
            try:
                self._start(on_ready)
                while goes_on(self._seconds_to_next()):
                    self._bury_dead()
                    self._replace_dead()
            except KeyboardInterrupt:  # while processes were starting
                pass
            finally:
                self._stop()

    def _start(self, on_ready: Callable[[], None]) -> None:
        helpers = [Child("writer", self._write, self._lifeline)] if self._settings.writable else []
        if self._settings.encoders:
            helpers.append(Child("encoder", self._encode, self._lifeline))
        workers = [Child("worker", self._work, self._lifeline) for _ in range(self._settings.workers)]
        for children in (helpers, workers):  # a worker follows collections that the writer has open
            for child in children:
                child.start()
                self._children[child.pid] = child
            for child in children:
                child.wait_until_ready()
        on_ready()

    def _bury_dead(self) -> None:
        """Find out which processes have ended, and decide when others take their places: at once, or after a while."""
        while True:
            pid = ended_child()
            child = None if pid is None else self._children.pop(pid, None)
            if pid is None or child is None:
                return
            sys.stderr.write(f"segmax: the {child.role} process {pid} ended unexpectedly; starting another one\n")
            _forget_figures(pid)
            now = time.monotonic()
            child.num_deaths = child.num_deaths + 1 if now - child.started < _LONG_LIFE_SECONDS else 0
            wait = min(_LONGEST_WAIT, _FIRST_WAIT * 2**child.num_deaths) if child.num_deaths else 0.0
            self._due.append((now + wait, child))

    def _replace_dead(self) -> None:
        """Start the processes whose time has come."""
        now = time.monotonic()
        due = [child for when, child in self._due if when <= now]
        self._due = [(when, child) for when, child in self._due if when > now]
        for child in due:
            child.start(is_first=False)
            self._children[child.pid] = child

    def _seconds_to_next(self) -> float:
        """Return how long there is nothing to do, unless something happens."""
        return max(0.0, min(when for when, _ in self._due) - time.monotonic()) if self._due else _IDLE_SECONDS

    def _stop(self) -> None:
        """Let workers finish their requests, then the processes that they need, and wait for all of them."""
        self._sock.close()  # so that nobody connects to a port that nobody serves anymore
        for roles in (("worker",), ("writer", "encoder")):
            group = {pid for pid, child in self._children.items() if child.role in roles}
            for pid in group:
                stop_process(pid)
            _wait_for(group, _PATIENCE_SECONDS)

    # --- what the children do ----------------------------------------------------------------------------------------

    def _socket_of(self, role: str) -> Path:
        return self._folder / role

    def _work(self, on_ready: Callable[[], None]) -> None:
        """Answer requests."""
        settings = self._settings
        writes = Caller(self._socket_of("writer")) if settings.writable else None
        encoder = Caller(self._socket_of("encoder")) if settings.encoders else None
        encoders = {} if encoder is None else {name: RemoteEncoder(encoder, name) for name in settings.encoders}
        self._stop_with_parent()
        run_server(settings, self._sock, Backends(writes, encoders, self._sequences), on_ready)

    def _write(self, on_ready: Callable[[], None]) -> None:
        """Write to collections for all workers."""
        catalog = Catalog(self._settings, writes=True)
        writer = Writer(catalog, self._settings.snapshots, self._sequences)

        threads = WriterThreads(writer)
        self._run_calls("writer", threads.call, on_ready)
        threads.close()
        catalog.close()

    def _encode(self, on_ready: Callable[[], None]) -> None:
        """Encode texts for all workers."""
        settings = self._settings
        wanted = {name: settings.paths[name] for name in settings.encoders}
        catalog = Catalog(Settings(paths=wanted, encoders=settings.encoders), writes=False)
        threads = {name: EncoderThread(name) for name in catalog}

        async def handle(operation: str, name: str, texts: list[str], seconds: float | None) -> Any:
            deadline = None if seconds is None else time.perf_counter() + seconds
            encoder = await asyncio.to_thread(self._current_encoder, catalog[name])
            return packed_rows(await threads[name].encode(encoder, texts, deadline))

        self._run_calls("encoder", handle, on_ready)

    def _current_encoder(self, served: Served) -> Encoder | None:
        """Return the encoder of what is on disk now, with all words that a worker may know."""
        sequence = 0 if self._sequences is None or not served.is_collection else self._sequences.get(served.name)
        served.follow(sequence)
        return served.encoder

    def _stop_with_parent(self) -> None:
        """End this process, in order, when the first one has ended without stopping it."""

        def watch() -> None:
            select.select([self._lifeline[0]], [], [])
            shutil.rmtree(self._folder, ignore_errors=True)
            stop_process(os.getpid())

        threading.Thread(target=watch, name="lifeline", daemon=True).start()

    def _run_calls(self, role: str, handle: Callable[..., Any], on_ready: Callable[[], None]) -> None:
        """Answer the calls of workers until SIGTERM."""
        prepare_process(self._settings)
        self._sock.close()

        async def run() -> None:
            stopping = asyncio.Event()
            loop = asyncio.get_running_loop()
            for number in STOP_SIGNALS:
                loop.add_signal_handler(number, stopping.set)
            self._stop_with_parent()
            path = self._socket_of(role)
            path.unlink(missing_ok=True)
            server = await serve_calls(path, handle)
            on_ready()
            await stopping.wait()
            server.close()

        uvloop.run(run())


def _wait_for(pids: set[int], seconds: float) -> None:
    """Wait until processes have ended; kill those that take too long."""
    deadline = time.monotonic() + seconds
    while pids:
        pids -= {pid for pid in pids if has_ended(pid)}
        if pids and time.monotonic() > deadline:
            for pid in pids:
                stop_process(pid, by_force=True)
            deadline = float("inf")
        time.sleep(0.01)


def _forget_figures(pid: int) -> None:
    """Take what a process that has ended counted as its current state out of the figures."""
    multiprocess.mark_process_dead(pid)  # type: ignore[no-untyped-call]
