"""What the processes of a service with several workers do: answer requests, write for all of them, or encode."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvloop

from segmax.base.system import STOP_SIGNALS
from segmax.encoders.base import Encoder
from segmax.serve.catalog import Catalog, Served
from segmax.serve.encoding import EncoderThread
from segmax.serve.rpc import Caller, RemoteEncoder, packed_rows, serve_calls
from segmax.serve.server import prepare_process, run_server
from segmax.serve.service import FOLLOW_SECONDS, Backends
from segmax.serve.settings import Settings
from segmax.serve.shown import Shown
from segmax.serve.workers import Role
from segmax.serve.writing import Writer, WriterThreads


class Process:
    """One process of a service.

    Parameters
    ----------
    settings
        What to serve, and how.
    folder
        For the sockets between the processes and what they share; nobody else may read it.
    is_first
        Whether the service is being started, and not a process that died replaced.
    on_ready
        Called when it does its work.
    """

    def __init__(self, settings: Settings, folder: Path, *, is_first: bool, on_ready: Callable[[], None]) -> None:
        self._settings = settings
        self._folder = folder
        self._is_first = is_first
        self._on_ready = on_ready
        self._shown = Shown(settings.paths, folder / "shown")

    def run(self, role: Role, sock: socket.socket | None) -> None:
        """Work until SIGTERM; the port is for workers."""
        if role == "writer":
            self._write()
        elif role == "encoder":
            self._encode()
        else:
            assert sock is not None
            self._work(sock)

    def _socket_of(self, role: Role) -> Path:
        return self._folder / role

    def _work(self, sock: socket.socket) -> None:
        """Answer requests."""
        settings = self._settings
        writes = Caller(self._socket_of("writer")) if settings.writable else None
        encoder = Caller(self._socket_of("encoder")) if settings.encoders else None
        encoders = {} if encoder is None else {name: RemoteEncoder(encoder, name) for name in settings.encoders}
        backends = Backends(writes, encoders, self._shown)
        run_server(settings, sock, backends, self._on_ready, is_first=self._is_first)

    def _write(self) -> None:
        """Write to collections for all workers."""
        prepare_process(self._settings)
        catalog = Catalog(self._settings, writes=True, shown=self._shown, is_first=self._is_first)
        threads = WriterThreads(Writer(catalog, self._settings.snapshots, is_alone=False))
        self._answer_calls("writer", threads.call, catalog)
        threads.close()
        catalog.close()

    def _encode(self) -> None:
        """Encode texts for all workers."""
        prepare_process(self._settings)
        settings = self._settings
        wanted = {name: settings.paths[name] for name in settings.encoders}
        only = Settings(paths=wanted, encoders=settings.encoders)
        catalog = Catalog(only, writes=False, shown=self._shown, is_first=self._is_first, may_be_closed=True)
        threads = {name: EncoderThread(name) for name in catalog}

        async def handle(operation: str, name: str, texts: list[str], seconds: float | None) -> Any:
            deadline = None if seconds is None else time.perf_counter() + seconds
            encoder = await asyncio.to_thread(_current_encoder, catalog[name])
            return packed_rows(await threads[name].encode(encoder, texts, deadline))

        self._answer_calls("encoder", handle, catalog)

    def _answer_calls(self, role: Role, handle: Callable[..., Any], catalog: Catalog) -> None:
        """Answer the calls of workers, and follow what changes on disk."""

        async def follow() -> None:
            while True:
                await asyncio.sleep(FOLLOW_SECONDS)
                await asyncio.to_thread(catalog.follow)

        async def run() -> None:
            stopping = asyncio.Event()
            loop = asyncio.get_running_loop()
            for number in STOP_SIGNALS:
                loop.add_signal_handler(number, stopping.set)
            path = self._socket_of(role)
            path.unlink(missing_ok=True)
            server = await serve_calls(path, handle)
            following = asyncio.create_task(follow())
            self._on_ready()
            await stopping.wait()
            following.cancel()
            server.close()

        uvloop.run(run())


def _current_encoder(served: Served) -> Encoder | None:
    """Return the encoder of what is on disk now, with all words that a worker may know."""
    opened, _ = served.level() or served.caught_up()
    return opened.encoder
