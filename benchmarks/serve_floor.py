"""The floor of `benchmarks.serve`: the server of the service, with an application that does nothing.

The server, its settings, its protocol and its workers behind one socket are those of `segmax serve`
(`segmax.serve.server`). The application reads the body of each request, and answers with bytes that are as many as
those of an answer with ten hits, and the same headers.

With `--index`, the application decodes the body, searches and encodes the answer, as `benchmarks.serve_apps.plain`
does, and nothing else: no checks, no figures, no limits. What the service takes beyond that is its own.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import signal
import socket
from typing import Any

import segmax
from benchmarks.serve_apps import INDEX, App, Message, Receive, Send, plain, read_body
from segmax.search.results import STATS_FIELDS
from segmax.serve import messages
from segmax.serve.security import COMMON_HEADERS
from segmax.serve.server import Server, config_for
from segmax.serve.settings import Limits

HIT = b'{"id":177431,"score":61901.0}'
BODY = b'{"hits":[' + b",".join([HIT] * 10) + b'],"complete":true,"took_ms":0.1562080000000001}'
#: The name of the index that the floor pretends to have.
NAME = "constant"


def _headers(body: bytes) -> list[tuple[bytes, bytes]]:
    return [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"x-request-id", b"e1574e19-1f00"),
        *COMMON_HEADERS,
    ]


HEADERS = _headers(BODY)


def _client_bodies() -> tuple[bytes, bytes]:
    """Return what `segmax.connect` reads when it connects, and when it searches: with rows, and with figures."""
    info = messages.IndexInfo(
        name=NAME, kind="index", version="1", num_docs=281_250, num_terms=30_522, num_clusters=275, num_segments=8,
        num_postings=53_648_812, num_bytes=280_246_943, bits=8, id_kind="int", has_texts=False, has_metadata=False,
        has_vocabulary=False, fields={}, encoder=None, writable=False,
    )  # fmt: skip
    limits = dataclasses.asdict(Limits())
    indexes = messages.Indexes(indexes=[info], version=segmax.__version__, writable=False, limits=limits)
    counts: dict[str, Any] = dict.fromkeys(STATS_FIELDS, 1)
    stats = messages.Stats(**counts | {"budget_hit": False, "swept": False})
    hits = [messages.Hit(id=177_431 + number, score=61_901.0, row=177_431 + number) for number in range(10)]
    found = messages.SearchResult(hits=hits, complete=True, took_ms=0.1562080000000001, stats=stats)
    return messages.ENCODER.encode(indexes), messages.ENCODER.encode(found)


CONNECTED, FOUND = _client_bodies()


async def constant(scope: Message, receive: Receive, send: Send) -> None:
    """Read, and answer: `segmax.connect` with what it can read, and others with the ten hits that they asked for."""
    given = await read_body(receive)
    body, headers = BODY, HEADERS
    if scope["method"] == "GET":
        body, headers = CONNECTED, _headers(CONNECTED)
    elif b'"stats"' in given:
        body, headers = FOUND, _headers(FOUND)
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def living(answer: App) -> App:
    """Return an application that takes part in the server's start and end, too."""

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await answer(scope, receive, send)
            return
        while True:
            message = await receive()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return

    return app


def serve(sock: socket.socket) -> None:
    """Answer until SIGTERM."""
    answer = plain() if os.environ.get(INDEX) else constant
    Server(config_for(living(answer), Limits())).run(sockets=[sock])


def main() -> None:
    """Listen, and serve in one process or in several."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serve_floor", description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--index", default="", help="search this index")
    args = parser.parse_args()
    os.environ[INDEX] = args.index
    with socket.create_server(("127.0.0.1", args.port), backlog=2048) as sock:
        if args.workers == 1:
            serve(sock)
            return
        signals = {signal.SIGTERM, signal.SIGINT}
        signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        workers = []
        for _ in range(args.workers):
            pid = os.fork()
            if pid == 0:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
                serve(sock)
                os._exit(0)
            workers.append(pid)
        signal.sigwait(signals)
        for pid in workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
            os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
