"""uvicorn's protocol with guards: time and size limits for whoever sends slowly, too much, or nothing at all."""

from __future__ import annotations

import asyncio
import math
import re
import secrets
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from segmax.base.system import most_open_files
from segmax.serve.problems import PROBLEM_TYPE, ProblemError, overloaded, unavailable
from segmax.serve.security import COMMON_HEADERS
from segmax.serve.settings import Limits

_LOOK_SECONDS = 0.5  # between two looks at all connections, which cost less than a timer for each request
_WRITE_SECONDS = 60.0  # that a client may leave an answer unread
_TOTAL_BODY_FACTOR = 4  # times `body_seconds` for a whole body that is not a stream
_MOST_PIPELINED = 64  # requests that wait for the answer to an earlier one
_FOR_FILES = 128  # descriptors that connections leave to files, at most half: the system gives the lowest that is free
_LINGER_SECONDS = 2.0  # for a client to read why it was refused, before what it still sends makes the system forget it

_HEAD, _BODY, _ANSWER = range(3)
_HEAD_START = re.compile(rb"(?:\r\n)*[A-Z]{1,20}(?: |\Z)")
_SEARCH = re.compile(
    rb"POST (/v1/indexes/[^/?#\s]+/search) HTTP/1\.1\r\n((?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\r\n\0]*\r\n)+)\r\n"
)
_NOT_PLAIN = re.compile(rb"transfer-encoding|expect|close|upgrade")
_UPGRADE = re.compile(rb"\r\nupgrade:", re.IGNORECASE)


class GuardedProtocol(HttpToolsProtocol):
    """A connection that cannot be held open for nothing.

    `guarded` makes a subclass with limits; uvicorn makes one object per connection.
    """

    limits: Limits
    most_descriptors: float  #: a connection whose descriptor is higher has to go
    on_refused: Callable[[int, str, str], None]
    shedder: Callable[[bytes], Any]
    is_full: Callable[[], bool]
    on_shed: Callable[[str, bytes], bytes]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._state = _HEAD
        self._since = 0.0
        self._progress = 0.0
        self._num_head_bytes = 0
        self._num_trailer_bytes = 0
        self._blocked_since: float | None = None
        self._is_refused = False
        self._piece = b""  # of a head that has not come whole yet
        self._running: RequestResponseCycle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, unless there are too many."""
        super().connection_made(transport)
        self._polite: Any = _PoliteTransport(self)
        self._since = self.loop.time()
        if transport.get_extra_info("socket").fileno() > self.most_descriptors:
            self._turn_away()
        elif len(self.connections) > self.limits.connections:
            detail = f"more than {self.limits.connections:,} connections are open: use fewer, and keep them open"
            self._refuse(ProblemError(429, "too-many-connections", detail, headers=[(b"retry-after", b"1")]))

    def connection_lost(self, exc: Exception | None) -> None:
        """Let nothing be written to a client that has gone."""
        for cycle in (self._running, *(waiting for waiting, _ in self.pipeline)):
            if cycle is not None:
                cycle.disconnected = True
                cycle.message_event.set()
        self.pipeline.clear()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read a piece of a request."""
        if self._is_refused or self.transport.is_closing():
            return  # a client that is still sending what nobody wants
        if self.is_full() and self._is_idle and (path := _whole_search(data)) is not None and self.shedder(path):
            self._shed(path)
            return
        if self._state != _BODY:
            whole = self._whole_head(data)
            if whole is None:
                return
            data = whole
            self._num_head_bytes += len(data)
            if b"pgrade:" in data or b"PGRADE:" in data:
                data = _without_upgrade(data)
        super().data_received(data)
        if self._state == _ANSWER and self.timeout_keep_alive_task is None and self.cycle.response_complete:
            self._state = _HEAD  # an empty line, which stopped uvicorn's timer and started nothing
            self._since = self.loop.time()
        if self._state == _HEAD and self._num_head_bytes > self.limits.header_bytes:
            self._refuse_head()

    @property
    def _is_idle(self) -> bool:
        """Whether the client waits for nothing, has sent nothing yet, and reads what it gets."""
        is_answered = self.cycle is None or self.cycle.response_complete
        has_sent = self._state == _BODY or self._piece or self._num_head_bytes
        return is_answered and not has_sent and not self.pipeline and not self.flow.write_paused

    def _shed(self, path: bytes) -> None:
        """Refuse a search that came whole. As a request it would cost those that wait several times as much."""
        request_id = self.on_shed(self.client[0] if self.client else "-", path)
        self.transport.write(_OVERLOADED.replace(_NO_ID, request_id))
        self._unset_keepalive_if_required()
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def _whole_head(self, data: bytes) -> bytes | None:
        """Return the head of a request with what follows, once all of it has come; None while it has not."""
        data, self._piece = self._piece + data, b""
        if b"\r\n\r\n" in data or b"\n\n" in data or not _HEAD_START.match(data):
            return data  # what does not look like HTTP is for the parser to refuse
        if len(data) > self.limits.header_bytes:
            self._refuse_head()
            return None
        self._piece = data
        self._unset_keepalive_if_required()
        if self._state == _ANSWER:
            self._state = _HEAD
            self._since = self.loop.time()
        return None

    def on_message_begin(self) -> None:
        """Start to wait for the head of a request."""
        super().on_message_begin()
        self._state = _HEAD
        self._since = self.loop.time()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a line of the head; those that follow a body mean nothing here."""
        if self._state == _HEAD:
            super().on_header(name, value)
            return
        self._num_trailer_bytes += len(name) + len(value)
        if self._num_trailer_bytes > self.limits.header_bytes:
            self._refuse_head()

    def on_headers_complete(self) -> None:
        """Start to wait for the body."""
        if self._is_refused:
            return
        if self._num_head_bytes > self.limits.header_bytes:  # with what came of the body
            line = len(self.parser.get_method()) + len(self.url) + len("  HTTP/1.1\r\n")
            size = line + sum(len(name) + len(value) + len(": \r\n") for name, value in self.headers) + len("\r\n")
            if size > self.limits.header_bytes:
                self._refuse_head()
                return
        if len(self.pipeline) >= _MOST_PIPELINED:
            self._is_refused = True
            self.transport.abort()
            return
        self._state = _BODY
        self._num_head_bytes = self._num_trailer_bytes = 0
        self._since = self._progress = self.loop.time()
        super().on_headers_complete()
        self.cycle.transport = self._polite

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        if self._is_refused:
            return
        self._progress = self.loop.time()
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Stop waiting."""
        if self._is_refused:
            return
        self._state = _ANSWER
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Wait for the next request; uvicorn closes connections that nobody uses."""
        super().on_response_complete()
        if self._state == _BODY and not self.pipeline:  # answered before all of the body came: the rest is not wanted
            self._linger()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, self.shedder(cycle.scope["raw_path"]) or app)

    def _unsupported_upgrade_warning(self) -> None:
        """Refuse CONNECT, and what else the parser takes for the end of HTTP."""
        self.send_400_response("")

    def send_400_response(self, msg: str) -> None:
        """Answer something that is not HTTP."""
        self._refuse(ProblemError(400, "malformed-http", "this is not a valid HTTP request"))

    def _refuse_head(self) -> None:
        detail = f"the head of the request is larger than {self.limits.header_bytes:,} bytes"
        self._refuse(ProblemError(431, "head-too-large", detail))

    def pause_writing(self) -> None:
        """Note that the client does not read."""
        self._blocked_since = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        """Note that it does again."""
        self._blocked_since = None
        super().resume_writing()

    def look(self, now: float) -> None:
        """End the connection if the client takes too long."""
        limits = self.limits
        if self._blocked_since is not None and now - self._blocked_since > _WRITE_SECONDS:
            self.transport.abort()
        elif (
            self._state == _HEAD and self.timeout_keep_alive_task is None and self._is_late(limits.header_seconds, now)
        ):
            detail = f"the head of the request took longer than {limits.header_seconds:g} seconds"
            self._refuse(ProblemError(408, "too-slow", detail))
        elif self._state == _BODY:
            self._look_at_body(now)

    def _look_at_body(self, now: float) -> None:
        if self.flow.read_paused:  # it is us who are slow
            self._since = self._progress = now
            return
        limit = self.limits.body_seconds
        is_stream = any(name == b"content-type" and b"ndjson" in value for name, value in self.headers)
        is_late = now - self._progress > limit or (not is_stream and self._is_late(_TOTAL_BODY_FACTOR * limit, now))
        if not is_late:
            return
        self._refuse(ProblemError(408, "too-slow", f"the body stopped coming for {limit:g} seconds"))

    def _is_late(self, seconds: float, now: float) -> bool:
        return now - self._since > seconds

    def _refuse(self, problem: ProblemError) -> None:
        """Send a problem without the application, and close; in the middle of another answer, just close."""
        if self._is_refused or self.transport.is_closing():
            return
        self._is_refused = True
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            is_other = self._state == _HEAD or bool(self.pipeline)  # an earlier request is being answered
            cycle.disconnected = True
            cycle.message_event.set()
            if is_other or cycle.response_started:
                self.transport.abort()
                return
        self._write_problem(problem)
        self._linger()

    def _write_problem(self, problem: ProblemError) -> None:
        request_id = secrets.token_hex(6)
        self.on_refused(problem.status, request_id, self.client[0] if self.client else "-")
        self.transport.write(_written(problem, request_id, (b"connection", b"close")))

    def _turn_away(self) -> None:
        """Close a connection whose descriptor is needed for files; who is told why may connect to another process."""
        self._is_refused = True
        problem = unavailable("too many connections are open for the files that this process may open")
        self._write_problem(problem)
        self.transport.close()

    def close_politely(self) -> None:
        """Close after an answer, which the client may still have to read while it sends."""
        if self._state == _BODY:
            self._linger()
        else:
            self.transport.close()

    def _linger(self) -> None:
        """Close when the client has had time to read: closing at once would discard what it has not read yet."""
        self._is_refused = True
        self._unset_keepalive_if_required()
        if self.transport.can_write_eof():
            self.transport.write_eof()
            self.flow.resume_reading()
            self.loop.call_later(_LINGER_SECONDS, self.transport.abort)
        else:
            self.transport.close()


class _PoliteTransport:
    """What uvicorn writes answers to: a connection that is not cut off under a client that is still sending."""

    def __init__(self, protocol: GuardedProtocol) -> None:
        self.write = protocol.transport.write
        self.is_closing = protocol.transport.is_closing
        self.close = protocol.close_politely


def _written(problem: ProblemError, request_id: str, *more: tuple[bytes, bytes]) -> bytes:
    """Return a problem as an answer, with more headers."""
    body = problem.body(request_id)
    head = [b"HTTP/1.1 %d %s" % (problem.status, problem.problem().title.encode())]
    fields = [
        (b"content-type", PROBLEM_TYPE),
        (b"content-length", b"%d" % len(body)),
        *more,
        (b"x-request-id", request_id.encode()),
        *problem.headers,
        *COMMON_HEADERS,
    ]
    head += [b"%s: %s" % field for field in fields]
    return b"\r\n".join([*head, b"", body])


_NO_ID = b"0" * 20
_OVERLOADED = _written(overloaded(1.0), _NO_ID.decode())


def _whole_search(data: bytes) -> bytes | None:
    """Return the path of a search that is all that came, and about whose length nobody can be of two minds."""
    found = _SEARCH.match(data)
    if found is None:
        return None
    fields = b"\r\n" + found[2].lower()
    after = fields.partition(b"\r\ncontent-length:")[2]
    length = after[: after.find(b"\r")].strip()
    is_plain = fields.count(b"content-length") == 1 and length.isdigit() and _NOT_PLAIN.search(fields) is None
    return found[1] if is_plain and len(data) - found.end() == int(length) else None


def _without_upgrade(data: bytes) -> bytes:
    """Return the head of a request without the wish for another protocol, which a server may ignore."""
    end = data.find(b"\r\n\r\n")
    head = data if end < 0 else data[:end]
    return _UPGRADE.sub(b"\r\nx-ignored:", head) + data[len(head) :]


def guarded(
    limits: Limits,
    on_refused: Callable[[int, str, str], None],
    shedder: Callable[[bytes], Any],
    is_full: Callable[[], bool],
    on_shed: Callable[[str, bytes], bytes],
) -> type[GuardedProtocol]:
    """Return the protocol with limits, for uvicorn's configuration.

    Parameters
    ----------
    limits
        What a request may ask for.
    on_refused
        Called with the status, the request id and the client's address of what is refused before it is a request.
    shedder
        Returns an application that refuses requests for a path, if that should not even be looked at now; else None.
    is_full
        Whether searches are to be refused before they become requests, if `shedder` refuses them.
    on_shed
        Called with the client's address and the path of each of these; returns an id of 20 characters for it.
    """

    class Guarded(GuardedProtocol):
        pass

    most = most_open_files()
    Guarded.limits = limits
    Guarded.most_descriptors = math.inf if most is None else most - min(_FOR_FILES, most // 2)
    Guarded.on_refused = staticmethod(on_refused)
    Guarded.shedder = staticmethod(shedder)
    Guarded.is_full = staticmethod(is_full)
    Guarded.on_shed = staticmethod(on_shed)
    return Guarded


async def look_at_connections(connections: set[Any], report: Callable[[int], None]) -> None:
    """End connections that take too long, and report how many there are, until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        now = loop.time()
        report(len(connections))
        for connection in list(connections):
            if isinstance(connection, GuardedProtocol):
                connection.look(now)
