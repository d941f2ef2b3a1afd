"""The load generator of the benchmarks, against a tiny server that does what each test needs."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import threading
import types
from collections.abc import Awaitable, Callable, Iterator

import numpy as np
import pytest
from benchmarks.load import (
    LATE,
    LOST,
    UNSENT,
    Load,
    _Generator,
    answer_end,
    closed_loop,
    loopback,
    open_loop,
    request,
    summary,
)

Address = tuple[str, int]
MS = 1_000_000  # nanoseconds
PATIENCE = 60.0  # seconds, for what comes at once
#: Takes the body of a request; returns a status and a body, or None to close the connection without an answer.
Answer = Callable[[bytes], Awaitable[tuple[int, bytes] | None]]


async def serve_connection(answer: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the requests of one connection."""
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
            found = await answer(await reader.readexactly(length))
            if found is None:
                break
            status, body = found
            close = b"connection: close\r\n" if status == 503 else b""
            writer.write(b"HTTP/1.1 %d X\r\n%scontent-length: %d\r\n\r\n%s" % (status, close, len(body), body))
            if close:
                break
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


@contextlib.contextmanager
def serving(answer: Answer) -> Iterator[Address]:
    """Run a server in a thread for as long as the context lasts."""
    loop = asyncio.new_event_loop()

    async def start() -> Address:
        nonlocal server
        server = await asyncio.start_server(
            lambda reader, writer: serve_connection(answer, reader, writer), "127.0.0.1", 0
        )
        address: Address = server.sockets[0].getsockname()
        return address

    async def stop() -> None:
        await asyncio.sleep(0.01)  # connections that were just made become tasks
        server.close()
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

    server: asyncio.Server
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield asyncio.run_coroutine_threadsafe(start(), loop).result()
    finally:
        asyncio.run_coroutine_threadsafe(stop(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def numbered(count: int) -> list[bytes]:
    """Return requests whose bodies are numbers."""
    return [request("/", b"%d" % number, port=80) for number in range(count)]


class Clock:
    """A time for the generator alone: it goes on as that waits, for an answer by `answer_ns`; a server may stall it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answer_ns: int = 0) -> None:
        self.waited = 0  # which the generator alone changes
        self.stalled = 0  # which the server alone changes
        take = _Generator._take

        def taken(generator: _Generator, seconds: float) -> bool:
            self.waited += answer_ns if generator._busy else round(seconds * 1e9)
            return take(generator, PATIENCE if generator._busy else 0)

        monkeypatch.setattr(_Generator, "_take", taken)
        shown = types.SimpleNamespace(perf_counter_ns=lambda: self.waited + self.stalled)
        monkeypatch.setattr("benchmarks.load.time", shown)


async def echo(body: bytes) -> tuple[int, bytes]:
    """Answer with the body."""
    return 200, body


class TestOpenLoop:
    """Requests at a rate."""

    def test_the_rate_is_kept(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Requests are due at even times, are sent then and not before, and all of them are answered."""
        Clock(monkeypatch)
        with serving(echo) as address:
            load = open_loop(address, numbered(3), rate=200, seconds=0.5, connections=4, keep_every=10)
        assert load.statuses == {200: 100}
        assert np.array_equal(np.diff(load.due_ns), np.full(99, 5_000_000))
        assert load.seconds == 0.495
        assert set(load.took_ns.tolist()) == {0}
        assert load.answers == {number: b"%d" % (number % 3) for number in range(0, 100, 10)}

    def test_random_times_have_the_rate(self) -> None:
        """With a seed, times between requests are exponential, and the same in every run."""
        with serving(echo) as address:
            first, second = (open_loop(address, numbered(1), 500, 0.2, connections=4, seed=1) for _ in range(2))
        assert np.array_equal(first.due_ns, second.due_ns)
        assert 0.1 < first.due_ns[-1] / 1e9 < 0.3
        assert len(np.unique(np.diff(first.due_ns))) > 90

    def test_a_stall_delays_what_was_due_meanwhile(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """While the server stalls, requests that are due wait: their latencies fall from the stall's length to zero."""
        clock = Clock(monkeypatch)

        async def stall_once(body: bytes) -> tuple[int, bytes]:
            if body == b"20":
                clock.stalled += 300 * MS
            return 200, body

        with serving(stall_once) as address:
            load = open_loop(address, numbered(100), rate=100, seconds=1, connections=2)
        assert load.statuses == {200: 100}
        # A request that was due some time after the stall began waits for what was left of it.
        expected = [0] * 20 + [300 * MS - 10 * MS * number for number in range(30)] + [0] * 50
        assert load.took_ns.tolist() == expected
        assert load.latency().max == 300
        assert load.latency(since=0.2, until=0.3).p50 == 255

    def test_statuses_are_counted(self) -> None:
        """Each status has its own count and latencies; a server that closes after an answer gets a new connection."""

        async def busy(body: bytes) -> tuple[int, bytes]:
            return (503 if int(body) % 4 == 0 else 200), b""

        with serving(busy) as address:
            load = open_loop(address, numbered(100), rate=500, seconds=0.2, connections=3)
        assert load.statuses == {200: 75, 503: 25}
        assert (load.status[::4] == 503).all()
        assert load.reconnects == 25
        assert load.latency(503).p50 > 0
        assert "503: 25" in summary(load)

    def test_a_lost_connection_loses_one_request(self) -> None:
        """A connection that closes without an answer counts as lost, and the next requests are answered."""

        async def drop(body: bytes) -> tuple[int, bytes] | None:
            return None if body == b"7" else (200, body)

        with serving(drop) as address:
            load = open_loop(address, numbered(50), rate=500, seconds=0.1, connections=2)
        assert load.statuses == {LOST: 1, 200: 49}
        assert load.status[7] == LOST

    def test_it_ends_though_the_server_does_not_answer(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A request without an answer is late, and what could not be sent for want of a connection is unsent."""

        async def never(_: bytes) -> None:
            await asyncio.sleep(60)

        ticks = itertools.count(0, 20 * MS)  # a clock that goes on by 20 ms whenever somebody looks at it
        monkeypatch.setattr("benchmarks.load.time", types.SimpleNamespace(perf_counter_ns=lambda: next(ticks)))
        with serving(never) as address:
            load = open_loop(address, numbered(10), rate=100, seconds=0.1, connections=1, timeout=0.2)
        assert set(load.statuses) == {LATE, UNSENT}
        assert len(load.status) == 10
        assert np.isnan(load.latency().mean)


class TestClosedLoop:
    """Connections that wait for their answers."""

    def test_as_many_at_once_as_connections(self) -> None:
        """With C connections, C requests are in flight: the first answers wait for that many, and no more come."""
        now = most = 0
        all_there = asyncio.Event()

        async def slow(body: bytes) -> tuple[int, bytes]:
            nonlocal now, most
            now += 1
            most = max(most, now)
            if now == 8:
                all_there.set()
            await all_there.wait()
            await asyncio.sleep(0)
            now -= 1
            return 200, body

        with serving(slow) as address:
            load = closed_loop(address, numbered(1), seconds=10, count=40, connections=8)
        assert load.statuses == {200: 40}
        assert most == 8
        assert load.latency().p50 > 0

    def test_it_stops_in_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without a count, the seconds bound it; what is under way then is waited for."""
        Clock(monkeypatch, answer_ns=MS)
        with serving(echo) as address:
            load = closed_loop(address, numbered(5), seconds=0.2, connections=2)
        assert 0.2 <= load.seconds <= 0.202
        assert load.statuses.keys() == {200}
        assert 200 <= len(load.status) <= 400
        assert load.rate == pytest.approx(len(load.status) / load.seconds)

    def test_large_requests_and_answers(self) -> None:
        """Bodies of megabytes go through in pieces, in both directions."""
        body = json.dumps(list(range(400_000))).encode()
        with serving(echo) as address:
            limited = [request("/", part, port=80) for part in (body[:60_000], body[:10])]
            small = closed_loop(address, limited, seconds=5, count=4, connections=1, keep_every=1)

        async def long(received: bytes) -> tuple[int, bytes]:
            return 200, received + body

        with serving(long) as address:
            load = closed_loop(address, [request("/", body, port=80)], seconds=5, count=2, connections=1, keep_every=1)
        assert small.answers[0] == body[:60_000]
        assert load.answers == {0: body + body, 1: body + body}


class TestAddresses:
    """Only this machine."""

    @pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.8.8.8"])
    def test_loopback(self, host: str) -> None:
        """Addresses of this machine are accepted."""
        assert loopback(host)

    @pytest.mark.parametrize("host", ["192.0.2.1", "example.org", "0.0.0.0", "", "::"])
    def test_others_are_refused(self, host: str) -> None:
        """All others are an error, before anything connects."""
        with pytest.raises(ValueError, match="address of this machine"):
            open_loop((host, 80), numbered(1), rate=1, seconds=1)

    def test_a_server_that_is_not_there(self) -> None:
        """Nobody to connect to is an error rather than a thousand lost requests."""
        with serving(echo) as address:
            pass
        with pytest.raises(ConnectionError):
            closed_loop(address, numbered(1), seconds=1)


def test_answers_without_a_length() -> None:
    """An answer whose end is not known is an error, except where it has no body."""
    assert answer_end(b"HTTP/1.1 204 No Content\r\n\r\n") == 27
    assert answer_end(b"HTTP/1.1 200 OK\r\nContent-") == 0
    with pytest.raises(ValueError, match="Content-Length"):
        answer_end(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")


def test_latencies_of_a_window() -> None:
    """Latencies can be restricted to requests that were due in a part of a run."""
    due = np.arange(10) * 100_000_000
    load = Load(due, due + 1, np.full(10, 200), 1.0, 0.0, 0, {})
    assert load.latency(since=0.2, until=0.4).mean == pytest.approx(250.000001)


def test_a_second_that_is_slow_spoils_itself_only() -> None:
    """The usual p99 is the median of those of all seconds; without answers there is none."""
    due = np.arange(300) * 10_000_000
    took = np.where(due < 1_000_000_000, 50_000_000, 1_000_000)
    load = Load(due, took, np.full(300, 200), 3.0, 0.0, 0, {})
    assert load.usual_p99() == 1.0
    assert load.latency().p99 == 50.0
    assert np.isnan(load.usual_p99(503))
