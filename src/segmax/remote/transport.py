"""Carrying requests to a service with httpx: once for callers that wait, once for those that await."""

from __future__ import annotations

import dataclasses
import json
import time
import weakref
from typing import TYPE_CHECKING, Any, TypeVar

from segmax.base.errors import ConfigError, IndexClosedError, SegmaxError
from segmax.base.optional import need
from segmax.remote.calls import JSON_TYPE, LINES_TYPE, Call, Failure, Reply, Request, not_ours
from segmax.remote.problems import LongAnswerError
from segmax.remote.retrying import Attempts

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")

_CONNECT_SECONDS = 10.0
_MOST_BYTES = 1 << 28  # of an answer


class Secret:
    """A key that neither messages nor tracebacks show.

    Examples
    --------
    >>> Secret("0123456789abcdef")
    Secret(...)
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the key."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(...)"

    def __reduce__(self) -> tuple[Any, ...]:
        return Secret, (self._value,)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Wire:
    """How to reach a service. Two transports that have it are the same connection."""

    base: str
    key: Secret | None = None
    timeout: float = 30.0
    retries: int = 3
    carrier: Any = dataclasses.field(default=None, repr=False)  #: a transport of httpx, for tests and special networks

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the address and the key; a transport is of the process that made it."""
        if self.carrier is not None:
            raise SegmaxError("a connection over a transport of your own cannot be pickled", hint="pickle its url")
        return self.__dict__

    def options(self) -> dict[str, Any]:
        """Return the options of a client of httpx."""
        headers = {"accept-encoding": "identity", "user-agent": "segmax-client"}
        if self.key is not None:
            headers["authorization"] = f"Bearer {self.key.reveal()}"
        return {"headers": headers, "follow_redirects": False, "transport": self.carrier}

    def attempts(self, request: Request) -> Attempts:
        """Return the attempts to get a request answered."""
        has_key = self.key is not None
        return Attempts(request, self.base, timeout=self.timeout, retries=self.retries, has_key=has_key)

    def request(self, request: Request, seconds: float) -> dict[str, Any]:
        """Return the arguments of a request of httpx."""
        httpx = _httpx()
        timeout = httpx.Timeout(seconds, connect=min(seconds, _CONNECT_SECONDS))
        sent = {"method": request.method, "url": self.base + request.path, "timeout": timeout}
        if request.method == "GET":
            return sent
        return {**sent, "content": request.body or b"{}", "headers": {"content-type": request.content_type}}


def _httpx() -> Any:
    return need("httpx", "segmax.connect", "client")


class Transport:
    """Runs calls and waits for their answers. Threads can share it."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self._client: httpx.Client | None = _made(_httpx().Client, wire)
        # One that is dropped without being closed must not keep its sockets.
        self._finalizer = weakref.finalize(self, _httpx().Client.close, self._client)

    def run(self, call: Call[T]) -> T:
        """Run a call to its end, and return its result."""
        try:
            request = next(call)
            while True:
                try:
                    answer = self._answer(request)
                except SegmaxError as error:
                    request = call.throw(error)
                else:
                    request = call.send(answer)
        except StopIteration as end:
            found: T = end.value
            return found

    def close(self) -> None:
        """Close all connections. Closing twice is fine."""
        self._finalizer()
        self._client = None

    def _answer(self, request: Request) -> Any:
        attempts = self.wire.attempts(request)
        while True:
            outcome = self._once(request, attempts.seconds_left)
            wait = attempts.wait_after(outcome)
            if wait is None:
                assert isinstance(outcome, Reply)
                return _parsed(outcome, self.wire.base)
            time.sleep(wait)

    def _once(self, request: Request, seconds: float) -> Reply | Failure:
        if self._client is None:
            raise _closed()
        body = _Body(self.wire.base, seconds)
        try:
            with self._client.stream(**self.wire.request(request, seconds)) as response:
                body.start(response.headers)
                for chunk in response.iter_bytes():
                    if not body.takes(chunk):
                        return body.too_slow()
                return body.reply(response.status_code)
        except _httpx().TransportError as error:
            return _failure(error, seconds)


class AsyncTransport:
    """Runs calls and awaits their answers, on asyncio or trio."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self._anyio = need("anyio", "segmax.remote.connect_async", "client")
        self._client: httpx.AsyncClient | None = _made(_httpx().AsyncClient, wire)

    async def run(self, call: Call[T]) -> T:
        """Run a call to its end, and return its result."""
        try:
            request = next(call)
            while True:
                try:
                    answer = await self._answer(request)
                except SegmaxError as error:
                    request = call.throw(error)
                else:
                    request = call.send(answer)
        except StopIteration as end:
            found: T = end.value
            return found

    async def close(self) -> None:
        """Close all connections. Closing twice is fine."""
        if self._client is not None:
            await self._client.aclose()
        self._client = None

    async def _answer(self, request: Request) -> Any:
        attempts = self.wire.attempts(request)
        while True:
            outcome = await self._once(request, attempts.seconds_left)
            wait = attempts.wait_after(outcome)
            if wait is None:
                assert isinstance(outcome, Reply)
                return _parsed(outcome, self.wire.base)
            await self._anyio.sleep(wait)

    async def _once(self, request: Request, seconds: float) -> Reply | Failure:
        if self._client is None:
            raise _closed()
        body = _Body(self.wire.base, seconds)
        try:
            with self._anyio.fail_after(seconds):
                async with self._client.stream(**self.wire.request(request, seconds)) as response:
                    body.start(response.headers)
                    async for chunk in response.aiter_bytes():
                        body.takes(chunk)
                    return body.reply(response.status_code)
        except TimeoutError:
            return body.too_slow()
        except _httpx().TransportError as error:
            return _failure(error, seconds)


def _made(client: Any, wire: Wire) -> Any:
    """Return a client of httpx for a service."""
    try:
        _httpx().URL(wire.base)
    except _httpx().InvalidURL as error:
        raise ConfigError(option="url", expected="a valid address", got=f"'{wire.base}' ({error})") from error
    return client(**wire.options())


class _Body:
    """The body of an answer as it arrives: no more than fits, and no longer than there is time."""

    def __init__(self, place: str, seconds: float) -> None:
        self._place = place
        self._seconds = seconds
        self._end = time.monotonic() + seconds
        self._chunks: list[bytes] = []
        self._num_bytes = 0
        self._headers: dict[str, str] = {}

    def start(self, headers: Any) -> None:
        """Take the headers."""
        self._headers = {name.lower(): value for name, value in headers.items()}
        encoding = self._headers.get("content-encoding", "identity")
        if encoding.lower() != "identity":  # which was asked for, and whose size is what it seems
            raise not_ours(self._place, f"it sent the content encoding {encoding!r}")
        length = self._headers.get("content-length", "")
        if length.isascii() and length.isdecimal() and len(length) < 20:
            self._check(int(length))

    def takes(self, chunk: bytes) -> bool:
        """Take a part; return whether there is time for another one."""
        self._num_bytes += len(chunk)
        self._check(self._num_bytes)
        self._chunks.append(chunk)
        return time.monotonic() < self._end

    def reply(self, status: int) -> Reply:
        """Return the whole answer."""
        return Reply(status, self._headers, b"".join(self._chunks))

    def too_slow(self) -> Failure:
        """Return that time is up."""
        return Failure(_too_slow(self._seconds), was_sent=True)

    def _check(self, num_bytes: int) -> None:
        if num_bytes > _MOST_BYTES:
            raise LongAnswerError(
                f"'{self._place}' sent an answer of more than {_MOST_BYTES >> 20} MiB",
                hint="ask for fewer results at a time",
            )


def _failure(error: Exception, seconds: float) -> Failure:
    """Return what an error of httpx means: only while connecting is it certain that nothing was sent."""
    httpx = _httpx()
    was_sent = not isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout))
    if isinstance(error, httpx.TimeoutException):
        return Failure(_too_slow(seconds), was_sent)
    return Failure(str(error) or type(error).__name__, was_sent)


def _too_slow(seconds: float) -> str:
    return f"it took longer than {seconds:.3g} seconds"


def _closed() -> IndexClosedError:
    return IndexClosedError("the connection is closed", hint="connect again with segmax.connect")


def _parsed(reply: Reply, place: str) -> Any:
    """Return the JSON of an answer: one value, or a list of those of its lines."""
    kind = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in (JSON_TYPE, LINES_TYPE):
        raise not_ours(place, f"it sent {kind or 'something'!r} instead of JSON")
    try:
        if kind == LINES_TYPE:
            return [json.loads(line) for line in reply.body.split(b"\n") if line.strip()]
        return json.loads(reply.body)
    except (ValueError, RecursionError) as error:
        raise not_ours(place, f"it sent invalid JSON ({error})") from error
