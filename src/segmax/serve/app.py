"""The ASGI application: a request from its first check to the last byte of its answer.

A request is checked (host, origin, key, size, type), decoded, handed to an operation, and its result is encoded. What
goes wrong on the way becomes a problem; nothing else is sent as an error.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import re
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from functools import cache
from typing import Any, NoReturn
from urllib.parse import parse_qsl

import msgspec

from segmax.base.display import printable
from segmax.base.errors import IndexNotFoundError, SegmaxError
from segmax.serve import openapi
from segmax.serve.allowance import PIECE, Share
from segmax.serve.messages import ENCODER
from segmax.serve.metrics import CONTENT_TYPE
from segmax.serve.operations import Context
from segmax.serve.page import asset
from segmax.serve.problems import (
    PROBLEM_TYPE,
    RETRY_SOON,
    ProblemError,
    hint_about_document,
    invalid,
    overloaded,
    problem_of,
)
from segmax.serve.routes import Access, Found, Route, find_route
from segmax.serve.security import COMMON_HEADERS, PAGE_HEADERS, same_origin
from segmax.serve.service import Service
from segmax.serve.streaming import put_stream, writer_of

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

_LOG = logging.getLogger("segmax.serve")
_ACCESS = logging.getLogger("segmax.access")
_JSON = b"application/json"
_DOCUMENT = r" - at `\$\.documents\[\d+\]`"  # how errors of msgspec name a document that was sent among others
_NDJSON = b"application/x-ndjson"
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_GZIP = re.compile(rb"gzip(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))")
_SAFE_METHODS = ("GET", "HEAD")
_SINGLE_HEADERS = (b"host", b"origin", b"authorization", b"content-type", b"content-length", b"transfer-encoding")
_LONG = 1 << 20  # bytes of an answer that are put together on a thread
_MOST_DISCARDED = 1 << 20  # bytes of a body that nobody wants
_PROXY_HEADERS = (b"x-forwarded-for", b"x-forwarded-proto", b"forwarded", b"via", b"x-real-ip")
_PAGE_CACHE = (b"cache-control", b"no-cache")


class _GoneError(Exception):
    """The client closed the connection before its request was complete."""


class Answer:
    """What is sent back."""

    __slots__ = ("body", "headers", "kind", "status")

    def __init__(self, status: int, kind: bytes, body: bytes, headers: Headers) -> None:
        self.status = status
        self.kind = kind
        self.body = body
        self.headers = headers


class App:
    """The application.

    Parameters
    ----------
    start
        Makes the service when the event loop runs.
    on_ready
        Called when requests are welcome.
    """

    def __init__(self, start: Callable[[], Awaitable[Service]], on_ready: Callable[[], None] = lambda: None) -> None:
        self._start = start
        self._on_ready = on_ready
        self._service: Service | None = None
        self._ids = itertools.count()
        self._id_start = secrets.token_hex(4).encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or start and stop with the server."""
        if scope["type"] == "http":
            with contextlib.suppress(asyncio.CancelledError):  # the service is stopping
                await self._answer(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._live(receive, send)

    # --- starting and stopping ---------------------------------------------------------------------------------------

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                try:
                    await self.start()
                except (SegmaxError, OSError) as error:
                    await send({"type": "lifespan.startup.failed", "message": str(error)})
                    return
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.stop()
                await send({"type": "lifespan.shutdown.complete"})
                return

    @property
    def is_started(self) -> bool:
        """Whether there is a service: not before it is started, nor once it is being stopped."""
        return self._service is not None

    async def start(self) -> None:
        """Open what is served."""
        self._service = await self._start()
        self._service.is_ready = True
        self._on_ready()

    async def stop(self) -> None:
        """Release what is served."""
        service, self._service = self._service, None
        if service is not None:
            await service.close()

    # --- requests ----------------------------------------------------------------------------------------------------

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        arrived = time.perf_counter()
        headers = dict(scope["headers"])
        is_unclear = len(headers) != len(scope["headers"]) and _is_unclear(scope["headers"])
        request_id = headers.get(b"x-request-id", b"")
        if not _REQUEST_ID.fullmatch(request_id):
            request_id = self._new_id()
        request = _Request(self, scope, headers, receive, send, request_id, arrived)
        try:
            try:
                if is_unclear:
                    raise ProblemError(400, "malformed-http", "a header that may come once came twice")
                answer = await request.answer()
            except Exception as error:
                if isinstance(error, _GoneError):
                    raise
                answer = self._problem(error, request_id)
                if not await request.is_read_to_the_end():
                    answer.headers.append((b"connection", b"close"))
            if answer is not None:
                await _send_answer(send, answer, request_id, is_head=scope["method"] == "HEAD")
        except _GoneError:
            return
        finally:
            request.close()
        self._note(scope, request, answer, time.perf_counter() - arrived)

    def _problem(self, error: Exception, request_id: bytes) -> Answer:
        try:
            problem = problem_of(error)
        except Exception:
            _LOG.exception("request %s failed", request_id.decode())
            problem = ProblemError(500, "internal", "the service failed; its log says why")
        if problem.kind == "overloaded" and self._service is not None:
            self._service.admission.num_shed += 1
        headers = [*problem.headers, *COMMON_HEADERS]
        return Answer(problem.status, PROBLEM_TYPE, problem.body(request_id.decode()), headers)

    def _note(self, scope: Scope, request: _Request, answer: Answer | None, seconds: float) -> None:
        """Count a request, and log it: never what was searched for, and nothing of its address but the path."""
        service = self._service
        if service is None:
            return
        status = 200 if answer is None else answer.status
        service.metrics.answered(request.operation, status, seconds)
        if service.settings.access_log:
            client = scope["client"][0] if scope.get("client") else "-"
            size = 0 if answer is None else len(answer.body)
            path = printable(scope["path"])
            _ACCESS.info(
                "%s %s %s %s %d %d %.2fms",
                request.request_id.decode(), client, scope["method"], path, status, size, seconds * 1e3,
            )  # fmt: skip

    def refused(self, status: int, request_id: str, client: str) -> None:
        """Count and log what was refused before it became a request."""
        service = self._service
        if service is not None:
            service.metrics.answered("refused", status, 0.0)
            if service.settings.access_log:
                _ACCESS.info("%s %s - - %d 0 0.00ms", request_id, client, status)

    def is_full(self) -> bool:
        """Whether searches would be refused now, but those for which `shedder` has nothing."""
        return self._service is not None and self._service.admission.is_full()

    def shed(self, client: str, path: bytes) -> bytes:
        """Count and log a search that was refused because too many wait, and return the id of the request."""
        request_id = b"%s-%011x" % (self._id_start, next(self._ids))
        service = self._service
        if service is not None:
            service.admission.num_shed += 1
            service.metrics.shed("search")
            if service.settings.access_log:
                shown = printable(path.decode("latin-1"))
                _ACCESS.info("%s %s POST %s 503 0 0.00ms", request_id.decode(), client, shown)
        return request_id

    def shedder(self, raw_path: bytes) -> Callable[..., Awaitable[None]] | None:
        """Return what refuses a search at once while too many wait, before its body is read; None: let it in."""
        service = self._service
        if service is None or not raw_path.endswith(b"/search") or raw_path in service.paths_on_ray:
            return None
        if service.admission.is_full():
            return self._shed
        service.admission.note_coming()
        return None

    async def _shed(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a search."""
        request_id = self._new_id()
        answer = self._problem(overloaded(1.0), request_id)
        await _send_answer(send, answer, request_id, is_head=False)
        if self._service is not None:
            self._service.metrics.answered("search", answer.status, 0.0)

    def _new_id(self) -> bytes:
        return b"%s-%x" % (self._id_start, next(self._ids))

    @property
    def service(self) -> Service:
        """What answers; raise a problem while the service starts or stops."""
        if self._service is None:
            raise ProblemError(503, "not-ready", "the service is starting or stopping", headers=RETRY_SOON)
        return self._service


def _is_unclear(headers: Headers) -> bool:
    """Whether a header came twice of which proxies and this service might each believe another one."""
    names = [name for name, _ in headers]
    return any(names.count(name) > 1 for name in _SINGLE_HEADERS)


async def _send_answer(send: Send, answer: Answer, request_id: bytes, *, is_head: bool) -> None:
    headers = [
        (b"content-type", answer.kind),
        (b"content-length", b"%d" % len(answer.body)),
        (b"x-request-id", request_id),
        *answer.headers,
    ]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    body = b"" if is_head else answer.body
    if len(body) > PIECE:  # each piece, and the end, waits until the client has read most of those before
        for start in range(0, len(body), PIECE):
            await send({"type": "http.response.body", "body": body[start : start + PIECE], "more_body": True})
        body = b""
    await send({"type": "http.response.body", "body": body})


class _Request:
    """One request on its way through the checks."""

    def __init__(
        self,
        app: App,
        scope: Scope,
        headers: dict[bytes, bytes],
        receive: Receive,
        send: Send,
        request_id: bytes,
        arrived: float,
    ) -> None:
        self._app = app
        self._scope = scope
        self._headers = headers
        self._receive = receive
        self._send = send
        self.request_id = request_id
        self._arrived = arrived
        self.operation = "other"
        self._share: Share | None = None
        self._is_read = not self._is_chunked() and headers.get(b"content-length", b"0") == b"0"

    def close(self) -> None:
        """Forget the answer, which was sent."""
        if self._share is not None:
            self._share.close()

    async def is_read_to_the_end(self) -> bool:
        """Read what is left of a body that nobody wants, so that the connection can be used again; not a long one."""
        length = self._headers.get(b"content-length", b"")
        while not self._is_read:
            if not length.isdigit() or int(length) > _MOST_DISCARDED or b"expect" in self._headers:
                return False
            await self._next()
        return True

    async def answer(self) -> Answer | None:
        """Return the answer; None if it was sent already."""
        method = self._scope["method"]
        service = self._app.service
        self._check_host(service)
        raw_path = self._scope.get("raw_path") or self._scope["path"].encode()
        if method in _SAFE_METHODS:
            found = self._special(service, raw_path)
            if found is not None:
                return found
            method = "GET"
        found_route = find_route(method, raw_path)
        self.operation = found_route.route.operation
        self._check_key(service, found_route.route.access)
        return await self._operate(service, found_route)

    def _special(self, service: Service, raw_path: bytes) -> Answer | None:
        """Return the page, the metrics and the OpenAPI document."""
        if raw_path == b"/metrics":
            self.operation = "metrics"
            self._check_key(service, "read")
            return Answer(200, CONTENT_TYPE, service.metrics.text(service), COMMON_HEADERS)
        if raw_path == b"/v1/openapi.json":
            self.operation = "openapi"
            return Answer(200, _JSON, _openapi_bytes(), COMMON_HEADERS)
        found = asset(raw_path)
        if found is None:
            return None
        self.operation = "page"
        return self._page(found)

    def _page(self, found: tuple[bytes, bytes, bytes, bytes]) -> Answer:
        """Return a file of the page, compressed if the browser takes that, or nothing if it has it already."""
        kind, plain, packed, tag = found
        headers = [*PAGE_HEADERS, _PAGE_CACHE, (b"etag", tag), (b"vary", b"accept-encoding")]
        if tag in self._headers.get(b"if-none-match", b""):  # alone, in a list, or marked as weak by a proxy
            return Answer(304, kind, b"", headers)
        if _GZIP.search(self._headers.get(b"accept-encoding", b"")):
            return Answer(200, kind, packed, [*headers, (b"content-encoding", b"gzip")])
        return Answer(200, kind, plain, headers)

    # --- checks ------------------------------------------------------------------------------------------------------

    def _check_host(self, service: Service) -> None:
        """Refuse requests that a web page of somebody else may have sent."""
        host = self._headers.get(b"host", b"").decode("latin-1")
        if not service.settings.hosts.allows(host):
            detail = "this service does not accept this Host: start it with --allow-host NAME to add one"
            raise ProblemError(403, "wrong-host", detail)
        origin = self._headers.get(b"origin")
        if origin is not None and not same_origin(origin.decode("latin-1"), host):
            raise ProblemError(403, "wrong-origin", "web pages of others may not use this service")

    def _check_key(self, service: Service, access: Access) -> None:
        if access == "write" and not service.settings.writable:
            raise ProblemError(403, "read-only", "this service is read-only: start it with --writable to change that")
        keys = service.settings.keys
        if access == "open" or keys is None:
            return
        scheme, _, key = self._headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        role = keys.role(key.strip()) if scheme.lower() == "bearer" else None
        if role is None:
            detail = "this service needs a key: send it as 'Authorization: Bearer KEY'"
            raise ProblemError(401, "no-key", detail, headers=[(b"www-authenticate", b"Bearer")])
        if access == "write" and role != "write":
            raise ProblemError(403, "read-only-key", "this key may only read")

    # --- operations --------------------------------------------------------------------------------------------------

    async def _operate(self, service: Service, found: Found) -> Answer | None:
        route, values = found
        served = service.catalog.named(values[0]) if values else None
        query = self._query(route)
        self._share = share = Share(service.allowance)
        id = values[1] if len(values) > 1 else ""
        context = Context(service, served, self._arrived, share, self._gone, id, query)  # type: ignore[arg-type]
        if route.streams and self._content_type() == _NDJSON:
            return await self._stream(context)
        message = await self._message(service, route)
        try:
            result = await route.handle(context, message)
        except IndexNotFoundError:
            if served is None or route.access == "write":
                raise
            await service.run(served.follow)  # another collection took its place
            result = await route.handle(context, message)
        body = await service.encoded_answer(result) if share.num_bytes > _LONG else ENCODER.encode(result)
        share.hold(len(body))
        return Answer(200, _JSON, body, COMMON_HEADERS)

    def _query(self, route: Route) -> dict[str, str]:
        """Return the parameters in the address; one that an operation does not have is an error."""
        raw: bytes = self._scope.get("query_string", b"")
        if not raw:
            return {}
        try:
            found = dict(parse_qsl(raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=32))
        except ValueError:
            raise ProblemError(400, "malformed", "the query of the address is malformed") from None
        known = [parameter.name for parameter in route.parameters]
        for name in found:
            if name not in known:
                raise invalid(expected=f"parameters {', '.join(known)}" if known else "no parameters", got=repr(name))
        return found

    def _content_type(self) -> bytes:
        return self._headers.get(b"content-type", b"").partition(b";")[0].strip().lower()

    async def _message(self, service: Service, route: Route) -> Any:
        """Return the body of a request as the message that its operation takes."""
        if route.request is None:
            return None
        if route.optional_body and self._headers.get(b"content-length", b"0") == b"0" and not self._is_chunked():
            return route.request()
        if self._content_type() != _JSON:
            wanted = "application/json or application/x-ndjson" if route.streams else "application/json"
            detail = f"expected a body with the content type {wanted}"
            raise ProblemError(415, "wrong-content-type", detail)
        body = await self._body(service.limits.body_bytes)
        try:
            return _decoder(route.request).decode(body)
        except msgspec.ValidationError as error:
            known = ", ".join(field.encode_name for field in msgspec.structs.fields(route.request))
            hint = hint_about_document(error, _DOCUMENT)
            detail = f"the request is invalid: {error}; {hint or f'its fields are {known}'}"
            raise ProblemError(422, "invalid-value", detail, hint=hint) from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ProblemError(400, "malformed-json", f"the body is not valid JSON: {error}") from None
        except RecursionError:
            raise ProblemError(400, "malformed-json", "the JSON is nested too deeply") from None

    def _is_chunked(self) -> bool:
        return b"transfer-encoding" in self._headers

    async def _body(self, most_bytes: int) -> bytes:
        """Return the body, in one piece as nearly always."""
        length = self._headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > most_bytes:
            raise _too_large(most_bytes)
        message = await self._next()
        body: bytes = message.get("body", b"")
        if not message.get("more_body", False):
            return body
        pieces, size = [body], len(body)
        while message.get("more_body", False):
            message = await self._next()
            pieces.append(message.get("body", b""))
            size += len(pieces[-1])
            if size > most_bytes:
                raise _too_large(most_bytes)
        return b"".join(pieces)

    async def _next(self) -> Message:
        message = await self._receive()
        if message["type"] != "http.request":
            raise _GoneError
        self._is_read = not message.get("more_body", False)
        return message

    async def _gone(self) -> NoReturn:
        """Wait until the client has closed the connection. The body was read to its end."""
        if (await self._receive())["type"] != "http.disconnect":
            await asyncio.Future()  # a server that sends more than the body does not say when the client leaves
        raise _GoneError

    async def _stream(self, context: Context) -> Answer | None:
        """Answer a stream of documents while it comes."""
        writer_of(context.service, context.served)  # raises before anything is sent
        if self._scope.get("http_version") == "1.0":
            raise ProblemError(426, "old-http", "a stream of documents needs HTTP/1.1")
        is_started = False

        async def chunks() -> AsyncIterator[bytes]:
            more = True
            while more:
                message = await self._receive()
                if message["type"] != "http.request":
                    raise ProblemError(400, "gone", "the connection was closed before the end of the stream")
                yield message.get("body", b"")
                more = message.get("more_body", False)

        async def send(content: bytes) -> None:
            nonlocal is_started
            if not is_started:
                is_started = True
                headers = [(b"content-type", _NDJSON), (b"x-request-id", self.request_id), *COMMON_HEADERS]
                await self._send({"type": "http.response.start", "status": 200, "headers": headers})
            await self._send({"type": "http.response.body", "body": content, "more_body": True})

        is_proxied = any(name in self._headers for name in _PROXY_HEADERS)
        await put_stream(context, chunks(), send, at_once=not is_proxied)
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})
        return None


def _too_large(most_bytes: int) -> ProblemError:
    detail = f"the body is larger than {most_bytes:,} bytes"
    return ProblemError(413, "body-too-large", detail)


@cache
def _decoder(kind: type[msgspec.Struct]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


@cache
def _openapi_bytes() -> bytes:
    return json.dumps(openapi.document()).encode()
