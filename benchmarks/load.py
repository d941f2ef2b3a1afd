"""A load generator for a service on this machine: `python -m benchmarks.load --help`.

With a rate, it is an *open loop*: requests are due at fixed times, whether or not earlier ones were answered, and a
latency counts from the time a request was due. A server that stalls for a second therefore delays all requests of that
second, as it would delay people; a generator that waits for answers before it sends more would count one slow request.
Without a rate, it is a *closed loop*: every connection sends its next request when it has the answer to the last one.

One thread, one epoll, requests that are bytes already, and as little parsing of answers as possible: enough for some
30,000 requests per second on one core. `Load.lag_ms` says how late the generator itself was.

It connects to addresses of this machine only, and stops after a number of requests or seconds.
"""

from __future__ import annotations

import argparse
import ipaddress
import json
import select
import socket
import sys
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

#: What stands for a status where there is no answer.
LOST = 0  # the connection closed before the answer was there
LATE = -1  # no answer within the timeout
UNSENT = -2  # no connection became free in time

_NAMES = {LOST: "lost", LATE: "late", UNSENT: "unsent"}
_RETRY_NS = 50_000_000  # between attempts to connect to a server that is not there
_LONGEST_WAIT = 0.02  # seconds; deadlines are looked at as often


class Latency(NamedTuple):
    """Milliseconds."""

    mean: float
    p50: float
    p99: float
    max: float

    @classmethod
    def of(cls, nanoseconds: NDArray[np.int64]) -> Latency:
        """Summarize times; all figures of no times are NaN.

        Examples
        --------
        >>> Latency.of(np.array([1_000_000, 3_000_000])).mean
        2.0
        """
        if len(nanoseconds) == 0:
            return cls(*[float("nan")] * 4)
        ms = nanoseconds / 1e6
        return cls(float(ms.mean()), float(np.median(ms)), float(np.quantile(ms, 0.99)), float(ms.max()))


@dataclass(frozen=True)
class Load:
    """What became of every request, in the order in which they were due."""

    due_ns: NDArray[np.int64]  #: when it was due, since the start
    took_ns: NDArray[np.int64]  #: from then to the end of the answer; -1 without an answer
    status: NDArray[np.int64]  #: the HTTP status, or one of LOST, LATE and UNSENT
    seconds: float  #: from the start to the last answer
    lag_ms: float  #: the p99 of how late the generator sent what it could have sent
    reconnects: int
    answers: dict[int, bytes] = field(repr=False)  #: bodies of answers with status 200, by the number of the request

    @property
    def statuses(self) -> dict[int, int]:
        """How many requests ended with each status."""
        return dict(sorted(Counter(self.status.tolist()).items()))

    @property
    def rate(self) -> float:
        """Answers per second, whatever their status."""
        return float(np.count_nonzero(self.status > 0)) / self.seconds

    def latency(self, status: int = 200, since: float = 0.0, until: float = float("inf")) -> Latency:
        """Return the latencies of the answers with a status, of requests that were due between two seconds."""
        kept = (self.status == status) & (self.due_ns >= since * 1e9) & (self.due_ns < until * 1e9)
        return Latency.of(self.took_ns[kept])

    def usual_p99(self, status: int = 200) -> float:
        """Return the median of the p99 of every second, in milliseconds: a busy machine spoils few of the seconds."""
        seconds = range(int(self.due_ns.max(initial=0) / 1e9) + 1)
        each = np.array([self.latency(status, second, second + 1).p99 for second in seconds])
        return float(np.median(each[~np.isnan(each)])) if (~np.isnan(each)).any() else float("nan")


def request(path: str, body: bytes, *, port: int, headers: Sequence[str] = ()) -> bytes:
    r"""Return a POST of JSON as the bytes that go over the wire.

    Examples
    --------
    >>> request("/search", b"{}", port=80).split(b"\r\n")[0]
    b'POST /search HTTP/1.1'
    """
    lines = [f"POST {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", "Content-Type: application/json"]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", *headers, "\r\n"]).encode() + body


def loopback(host: str) -> str:
    """Return the address of a host of this machine.

    Raises
    ------
    ValueError
        For every other host: a load generator is not pointed at strangers.

    Examples
    --------
    >>> loopback("localhost")
    '127.0.0.1'
    """
    address = "127.0.0.1" if host == "localhost" else host
    try:
        local = ipaddress.ip_address(address).is_loopback
    except ValueError:
        local = False
    if not local:
        msg = f"expected an address of this machine such as 127.0.0.1, got '{host}'"
        raise ValueError(msg)
    return address


def open_loop(
    address: tuple[str, int],
    requests: Sequence[bytes],
    rate: float,
    seconds: float,
    *,
    connections: int = 64,
    timeout: float = 5.0,
    keep_every: int = 0,
    seed: int | None = None,
) -> Load:
    """Send requests at a rate, over at most so many connections.

    Parameters
    ----------
    address
        Host, which must be of this machine, and port.
    requests
        What to send, one after the other, and again from the start.
    rate
        Requests per second.
    seconds
        How long requests are due. The call returns when all are answered, at the latest `timeout` seconds later.
    connections
        Connections are kept alive. A request for which none is free waits, and its latency grows.
    timeout
        Seconds to wait for an answer once a request is sent.
    keep_every
        Keep the body of every so many answers; 0 keeps none.
    seed
        Draw random (Poisson) times with this seed; by default requests are evenly spaced.
    """
    count = max(1, round(rate * seconds))
    steps = np.full(count, 1.0) if seed is None else np.random.default_rng(seed).exponential(size=count)
    due = (np.concatenate([[0.0], np.cumsum(steps)[:-1]]) * 1e9 / rate).astype(np.int64)
    return _Generator(address, requests, connections, timeout, keep_every).run(due.tolist(), seconds + timeout)


def closed_loop(
    address: tuple[str, int],
    requests: Sequence[bytes],
    seconds: float,
    *,
    count: int | None = None,
    connections: int = 32,
    timeout: float = 5.0,
    keep_every: int = 0,
) -> Load:
    """Send requests over connections of which each waits for its answer; stop after so many seconds, or requests.

    The other parameters are those of `open_loop`.
    """
    return _Generator(address, requests, connections, timeout, keep_every).run(None, seconds, count)


class _Connection:
    """A socket, and the request that waits for its answer there."""

    __slots__ = ("buffer", "deadline", "end", "number", "socket", "unsent")

    def __init__(self) -> None:
        self.socket: socket.socket | None = None
        self.number = -1  # of its request; -1 while it is idle
        self.deadline = 0  # for the answer; for the next attempt to connect where there is no socket
        self.buffer = b""
        self.end = 0  # of the answer in the buffer; 0 before its header is there
        self.unsent = b""


class _Generator:
    """One run."""

    def __init__(
        self, address: tuple[str, int], requests: Sequence[bytes], connections: int, timeout: float, keep_every: int
    ) -> None:
        self._address = (loopback(address[0]), address[1])
        self._requests = requests
        self._timeout = int(timeout * 1e9)
        self._keep_every = keep_every
        self._epoll = select.epoll()
        self._all = [_Connection() for _ in range(connections)]
        self._by_fd: dict[int, _Connection] = {}
        self._idle: deque[_Connection] = deque()
        self._idle_since = 0  # since when there is an idle connection
        self._busy = 0
        self._next = 0
        self._reconnects = -connections
        self._start = 0
        self._due: list[int] = []
        self._took: list[int] = []
        self._status: list[int] = []
        self._lags: list[int] = []
        self._answers: dict[int, bytes] = {}

    def run(self, schedule: list[int] | None, seconds: float, count: int | None = None) -> Load:
        """Send what is due, or without a schedule what is possible, and take answers."""
        limit = len(schedule) if schedule is not None else sys.maxsize if count is None else count
        last = 0
        try:
            for connection in self._all:
                self._connect(connection, strict=True)
            self._start = time.perf_counter_ns()
            self._idle_since = 0
            stop = int(seconds * 1e9)
            checked = 0
            while True:
                now = self._now()
                while self._idle and self._next < limit and now < stop:
                    due = schedule[self._next] if schedule is not None else now
                    if due > now:
                        break
                    self._send(due, now)
                    now = self._now()
                if not self._busy and (self._next >= limit or now >= stop):
                    break
                if self._take(self._wait_seconds(schedule, limit)):
                    last = self._now()
                if now - checked > _LONGEST_WAIT * 1e9:
                    checked = now
                    self._expire(now)
        finally:
            for connection in self._all:
                self._close(connection)
            self._epoll.close()
        return self._load(schedule, max(last, 1))

    def _now(self) -> int:
        return time.perf_counter_ns() - self._start

    def _load(self, schedule: list[int] | None, last: int) -> Load:
        """Return the results; what is in the schedule and was not sent is there, too."""
        unsent = [] if schedule is None else schedule[self._next :]
        return Load(
            np.array(self._due + unsent, dtype=np.int64),
            np.array(self._took + [-1] * len(unsent), dtype=np.int64),
            np.array(self._status + [UNSENT] * len(unsent), dtype=np.int64),
            last / 1e9,
            Latency.of(np.array(self._lags, dtype=np.int64)).p99,
            self._reconnects,
            self._answers,
        )

    # --- connections -------------------------------------------------------------------------------------------------

    def _connect(self, connection: _Connection, *, strict: bool = False) -> None:
        """Connect; a server that is not there is tried again later."""
        try:
            connection.socket = sock = socket.create_connection(self._address, timeout=0.5)
        except OSError:
            if strict:
                raise
            connection.deadline = self._now() + _RETRY_NS
            return
        self._reconnects += 1
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setblocking(False)
        self._by_fd[sock.fileno()] = connection
        self._epoll.register(sock.fileno(), select.EPOLLIN)
        self._rest(connection, self._now())

    def _rest(self, connection: _Connection, now: int) -> None:
        """Make a connection idle."""
        connection.number = -1
        connection.buffer = connection.unsent = b""
        connection.end = 0
        if not self._idle:
            self._idle_since = now
        self._idle.append(connection)

    def _close(self, connection: _Connection) -> None:
        sock, connection.socket = connection.socket, None
        if sock is not None:
            del self._by_fd[sock.fileno()]
            sock.close()  # which takes it out of the epoll, too

    def _drop(self, connection: _Connection, status: int) -> None:
        """Close a connection, whose request has no answer, and make a new one."""
        if connection.number >= 0:
            self._status[connection.number] = status
            connection.number = -1
            self._busy -= 1
        else:
            self._idle.remove(connection)
        self._close(connection)
        self._connect(connection)

    def _expire(self, now: int) -> None:
        """Drop connections that wait for too long, and try again to connect those without a socket."""
        for connection in self._all:
            if connection.socket is None and connection.deadline <= now:
                self._connect(connection)
            elif connection.number >= 0 and connection.deadline <= now:
                self._drop(connection, LATE)

    # --- requests and answers ----------------------------------------------------------------------------------------

    def _send(self, due: int, now: int) -> None:
        """Send the next request over the connection that has been idle for the longest time."""
        connection = self._idle.popleft()
        self._lags.append(now - max(due, self._idle_since))
        connection.number = number = self._next
        connection.deadline = now + self._timeout
        self._next += 1
        self._busy += 1
        self._due.append(due)
        self._took.append(-1)
        self._status.append(LOST)
        self._write(connection, self._requests[number % len(self._requests)])

    def _write(self, connection: _Connection, data: bytes) -> None:
        """Send what the socket takes; the rest goes when it takes more."""
        assert connection.socket is not None
        try:
            sent = connection.socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._drop(connection, LOST)
            return
        if sent < len(data) or connection.unsent:
            connection.unsent = data[sent:]
            wanted = select.EPOLLIN | select.EPOLLOUT if connection.unsent else select.EPOLLIN
            self._epoll.modify(connection.socket.fileno(), wanted)

    def _wait_seconds(self, schedule: list[int] | None, limit: int) -> float:
        """Return how long nothing has to be sent."""
        if schedule is None or self._next >= limit or not self._idle:
            return _LONGEST_WAIT
        return min(_LONGEST_WAIT, max(0.0, (schedule[self._next] - self._now()) / 1e9))

    def _take(self, seconds: float) -> bool:
        """Wait for events, and handle them; return whether an answer was complete."""
        events = self._epoll.poll(0)
        if not events and seconds > 0:
            # An epoll waits for whole milliseconds; select, which can wait for an epoll, does not.
            select.select([self._epoll], [], [], seconds)
            events = self._epoll.poll(0)
        complete = False
        for fd, event in events:
            connection = self._by_fd.get(fd)
            if connection is None:
                continue
            if event & select.EPOLLOUT and connection.unsent:
                self._write(connection, connection.unsent)
            if event & ~select.EPOLLOUT and connection.socket is not None:
                complete |= self._receive(connection)
        return complete

    def _receive(self, connection: _Connection) -> bool:
        """Read what is there; return whether that completes an answer."""
        assert connection.socket is not None
        try:
            data = connection.socket.recv(1 << 18)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data or connection.number < 0:  # closed, or an answer that nobody asked for
            self._drop(connection, LOST)
            return False
        if connection.buffer:
            data = connection.buffer + data
        if not connection.end:
            connection.end = answer_end(data)
        if not connection.end or len(data) < connection.end:
            connection.buffer = data
            return False
        self._finish(connection, data)
        return True

    def _finish(self, connection: _Connection, data: bytes) -> None:
        """Record an answer."""
        now, number = self._now(), connection.number
        status = int(data[9:12])
        self._took[number] = now - self._due[number]
        self._status[number] = status
        self._busy -= 1
        head = data.index(b"\r\n\r\n")
        if self._keep_every and number % self._keep_every == 0 and status == 200:
            self._answers[number] = data[head + 4 : connection.end]
        if status >= 400 and b"connection: close" in data[:head].lower():
            connection.number = -1
            self._close(connection)
            self._connect(connection)
        else:
            self._rest(connection, now)


def answer_end(data: bytes) -> int:
    r"""Return where an answer ends, or 0 before its header is complete.

    Examples
    --------
    >>> answer_end(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{")
    40
    """
    head = data.find(b"\r\n\r\n")
    if head < 0:
        return 0
    lower = data[: head + 2].lower()
    at = lower.find(b"\r\ncontent-length:")
    if at < 0 and data[9:12] not in (b"204", b"304"):
        msg = f"expected an answer with Content-Length, got {data[:head]!r}"
        raise ValueError(msg)
    length = int(lower[at + 17 : lower.index(b"\r\n", at + 17)]) if at >= 0 else 0
    return head + 4 + length


def summary(load: Load) -> str:
    """Return a load in a few lines."""
    lines = [f"{len(load.status):,} requests in {load.seconds:.2f} s: {load.rate:,.0f} answers per second"]
    for status, count in load.statuses.items():
        took = load.latency(status)
        times = f": mean {took.mean:.3f}, p50 {took.p50:.3f}, p99 {took.p99:.3f}, max {took.max:.3f} ms"
        lines.append(f"  {_NAMES.get(status, status)}: {count:,}{times if status > 0 else ''}")
    lines.append(f"  the generator was late by {load.lag_ms:.3f} ms (p99); {load.reconnects} connections made again")
    return "\n".join(lines)


def main() -> None:
    """Parse, send, print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.load", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("url", help="such as http://127.0.0.1:8080/v1/indexes/wiki/search")
    bodies = parser.add_mutually_exclusive_group(required=True)
    bodies.add_argument("--body", help="the JSON to post")
    bodies.add_argument("--bodies", type=Path, help="a file with the JSON of one request in every line")
    parser.add_argument("--rate", type=float, help="requests per second; default: a closed loop")
    parser.add_argument("--seconds", type=float, default=5, help="how long to send")
    parser.add_argument("--connections", type=int, default=32, help="how many there are at most")
    parser.add_argument("--timeout", type=float, default=5, help="seconds to wait for an answer")
    parser.add_argument("--header", action="append", default=[], help="such as 'Authorization: Bearer KEY'")
    parser.add_argument("--seed", type=int, help="draw random times with this seed; default: evenly spaced")
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    args = parser.parse_args()
    url = urlsplit(args.url)
    port = url.port or 80
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    lines = [args.body.encode()] if args.bodies is None else args.bodies.read_bytes().splitlines()
    requests = [request(path, line, port=port, headers=args.header) for line in lines]
    address = (url.hostname or "", port)
    limits = {"connections": args.connections, "timeout": args.timeout}
    if args.rate is None:
        load = closed_loop(address, requests, args.seconds, **limits)
    else:
        load = open_loop(address, requests, args.rate, args.seconds, seed=args.seed, **limits)
    if not args.json:
        print(summary(load))
        return
    latencies = {status: load.latency(status)._asdict() for status in load.statuses if status > 0}
    statuses = {str(_NAMES.get(status, status)): count for status, count in load.statuses.items()}
    figures = {"rate": load.rate, "seconds": load.seconds, "lag_ms": load.lag_ms, "reconnects": load.reconnects}
    print(json.dumps({**figures, "statuses": statuses, "latency_ms": latencies}))


if __name__ == "__main__":
    main()
