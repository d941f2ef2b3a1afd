"""One process that answers requests: uvicorn, configured."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import socket
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from segmax.base.display import printable
from segmax.base.errors import MissingPackageError
from segmax.base.system import EVENT_LOOP, INTERRUPT, most_open_files, on_stop
from segmax.serve.app import App
from segmax.serve.catalog import Catalog
from segmax.serve.http_protocol import guarded, look_at_connections
from segmax.serve.service import Backends, Service
from segmax.serve.settings import Limits, Settings
from segmax.serve.writing import Writer, WriterThreads

_BACKLOG = 2048
_KEEP_ALIVE_SECONDS = 75
_DRAIN_SECONDS = 30
#: What `GuardedProtocol` and `Server` override: a uvicorn without one of these would never call ours, and say nothing.
_OVERRIDDEN = {
    HttpToolsProtocol: (
        *("connection_made", "connection_lost", "data_received", "pause_writing", "resume_writing"),
        *("on_message_begin", "on_header", "on_headers_complete", "on_body", "on_message_complete"),
        *("on_response_complete", "send_400_response", "_start_asgi_task", "_unsupported_upgrade_warning"),
        "_unset_keepalive_if_required",
    ),
    uvicorn.Server: ("capture_signals", "handle_exit", "main_loop"),
}
_SWITCH_SECONDS = 0.0005  # after which a thread gives way to another: a search must not wait for a long text


def config_for(app: Any, limits: Limits) -> uvicorn.Config:
    """Return the configuration of uvicorn; `benchmarks.serve` uses it with a constant answer, too."""
    is_ours = isinstance(app, App)
    on_refused = app.refused if is_ours else lambda status, request_id, client: None
    shedder = app.shedder if is_ours else lambda raw_path: None
    is_full = app.is_full if is_ours else lambda: False
    on_shed = app.shed if is_ours else lambda client, path: b""
    return uvicorn.Config(
        app,
        http=guarded(limits, on_refused, shedder, is_full, on_shed),
        ws="none",
        lifespan="on",
        loop=EVENT_LOOP,
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        backlog=_BACKLOG,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_DRAIN_SECONDS,
    )


class Server(uvicorn.Server):
    """uvicorn's server, which also looks after slow connections, and says when it stops."""

    def __init__(self, config: uvicorn.Config, app: App | None = None) -> None:
        super().__init__(config)
        self._app = app

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop. At Ctrl-C while collections write what is in memory, end at once: their logs have it."""
        is_closing = self.should_exit and self._app is not None and not self._app.is_started
        if is_closing and sig == INTERRUPT:
            raise KeyboardInterrupt
        super().handle_exit(sig, frame)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on SIGTERM and SIGINT. uvicorn's own raises the signal again, as if stopping had failed."""
        with on_stop(self.handle_exit):
            yield

    async def main_loop(self) -> None:
        """Serve until a signal comes."""
        report = (lambda count: None) if self._app is None else self._app.service.metrics.connections.set
        if self._app is not None:
            self._app.service.requests = self.server_state.tasks
        looking = asyncio.create_task(look_at_connections(self.server_state.connections, report))
        try:
            await super().main_loop()
        finally:
            looking.cancel()
            if self._app is not None:
                self._app.service.is_ready = False


def check_uvicorn() -> None:
    """Raise MissingPackageError if this uvicorn has not all that is overridden."""
    for kind, names in _OVERRIDDEN.items():
        for name in names:
            if not hasattr(kind, name):
                raise MissingPackageError(
                    f"segmax serve needs a uvicorn whose {kind.__name__} has {name}; {uvicorn.__version__} has none",
                    hint="run: pip install -U 'segmax[serve]'",
                )


def open_catalog(settings: Settings, backends: Backends | None, *, is_first: bool = True) -> Catalog:
    """Open what is served; writing and models are left to other processes where there are any."""
    if backends is None:
        return Catalog(settings, writes=settings.writable)
    return Catalog(settings, writes=False, encodes=False, shown=backends.shown, is_first=is_first)


def create_app(
    settings: Settings,
    backends: Backends | None = None,
    *,
    catalog: Catalog | None = None,
    on_ready: Callable[[], None] = lambda: None,
) -> App:
    """Return the application that serves what the settings say.

    Parameters
    ----------
    settings
        What to serve, and how.
    backends
        What other processes do for this one; None: it does everything by itself.
    catalog
        What is served, if it is open already.
    on_ready
        Called when requests are welcome.

    Examples
    --------
    >>> import segmax, tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp(), "docs.segmax")
    >>> _ = segmax.from_texts({"d1": "a copper waveguide"}, path=path)
    >>> app = create_app(Settings(paths={"docs": path}))
    """

    async def start() -> Service:
        opened = open_catalog(settings, backends) if catalog is None else catalog
        service = Service(settings, opened, backends or Backends())
        if settings.writable and backends is None:
            service.writes = WriterThreads(Writer(opened, settings.snapshots))
        return service

    return App(start, on_ready)


def run_server(
    settings: Settings,
    sock: socket.socket,
    backends: Backends | None,
    on_ready: Callable[[], None],
    *,
    is_first: bool = True,
) -> None:
    """Answer requests until SIGTERM or SIGINT, then finish those under way."""
    check_uvicorn()
    prepare_process(settings)
    # Opened here, so that what is wrong with an index is raised to the caller.
    catalog = open_catalog(settings, backends, is_first=is_first)
    app = create_app(settings, backends, catalog=catalog, on_ready=on_ready)

    server = Server(config_for(app, settings.limits), app)
    gc.collect()
    gc.freeze()  # what was loaded so far stays, and need not be looked at again
    with contextlib.suppress(KeyboardInterrupt):
        server.run(sockets=[sock])


def prepare_process(settings: Settings) -> None:
    """Set what belongs to the whole process: how threads take turns, what the system gives it, where logs go."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    most_open_files()
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # the application logs its own failures
    _log_to_stderr("segmax.serve", "segmax: %(message)s")
    if settings.access_log:
        _log_to_stderr("segmax.access", "%(asctime)s %(message)s")


class _OneLine(logging.Formatter):
    """Shows a message in a line without control characters; a traceback, which is ours, follows as it is."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the line."""
        return printable(super().formatMessage(record))


def _log_to_stderr(name: str, form: str) -> None:
    logger = logging.getLogger(name)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine(form))
    logger.handlers = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False
