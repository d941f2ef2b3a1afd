"""Whatever comes in over a socket: it is refused, others are served meanwhile, and no secret is logged."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import re
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("msgspec")
pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")

import segmax
from segmax.errors import WriteError
from segmax.serve.settings import Settings
from segmax.serve.writing import Writer
from serve.in_process import ask
from serve.serving import PATIENCE, Answer, Service, chunk, eventually, memory_of, read_until, rest_of, serving

READ, WRITE = "read-key-0123456789abcdef", "write-key-0123456789abcdef"
SECRETS = (READ[9:], "sekretquery")  # parts of keys and queries that no log may show
NUM_DOCS = 300
HEADER_SECONDS = 2.0
MOST_CONNECTIONS = 3000

HOST, CLOSE = b"Host: 127.0.0.1", b"Connection: close"
KEY, WRITE_KEY = (b"Authorization: Bearer " + key.encode() for key in (READ, WRITE))
JSON, NDJSON = b"Content-Type: application/json", b"Content-Type: application/x-ndjson"
CHUNKED = b"Transfer-Encoding: chunked"
QUERY = b'{"text":"noise sekretquery","k":1}'
SEARCH = b"POST /v1/indexes/papers/search HTTP/1.1"
HEALTH = b"GET /health HTTP/1.1"


def head(start: bytes, *lines: bytes) -> bytes:
    """Return the head of a request."""
    return b"\r\n".join([start, *lines, b"", b""])


def length(body: bytes) -> bytes:
    """Return the header that announces a body."""
    return b"Content-Length: %d" % len(body)


def search_with(*lines: bytes, body: bytes = b"") -> bytes:
    """Return a search with more lines in its head."""
    return head(SEARCH, HOST, KEY, JSON, *lines) + body


SOUND = search_with(length(QUERY), body=QUERY)
SOUND_LAST = search_with(length(QUERY), CLOSE, body=QUERY)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index, a collection, and keys."""
    made = tmp_path_factory.mktemp("served")
    words = ["noise", "copper", "wave", "diode", "tube"]
    texts = {f"d{number}": " ".join([words[number % 5]] * 3 + words) for number in range(NUM_DOCS)}
    metadata = [{"year": 1950 + number % 40} for number in range(NUM_DOCS)]
    segmax.from_texts(texts, path=made / "papers.segmax", metadata=metadata)
    with segmax.Collection.create(made / "notes", encoder="bm25") as collection:
        collection.add([{"id": "a", "text": "noise"}])
    (made / "keys").write_text(f"read {READ}\nwrite {WRITE}\n")
    (made / "keys").chmod(0o600)
    return made


@contextlib.contextmanager
def serving_papers(folder: Path, header_seconds: float, *others: object) -> Iterator[Service]:
    """One process that serves the index, with keys and an access log."""
    options = ["--header-timeout", header_seconds, "--max-connections", MOST_CONNECTIONS, "--access-log"]
    with serving(folder / "papers.segmax", *others, "--api-keys", folder / "keys", *options) as it:
        probe(it)
        yield it


@pytest.fixture(scope="module")
def running(folder: Path) -> Iterator[Service]:
    """One of both, which waits for heads for as long as a test may take."""
    with serving_papers(folder, PATIENCE, folder / "notes", "--writable") as it:
        yield it


@pytest.fixture(scope="module")
def running_hastily(folder: Path) -> Iterator[Service]:
    """One that does not wait for heads."""
    with serving_papers(folder, HEADER_SECONDS) as it:
        yield it


@pytest.fixture
def service(running: Service) -> Iterator[Service]:
    """The service, which has to be unharmed after the test."""
    with unharmed(running):
        yield running


@pytest.fixture
def hasty(running_hastily: Service) -> Iterator[Service]:
    """The one that does not wait for heads, which has to be unharmed, too."""
    with unharmed(running_hastily):
        yield running_hastily


def probe(service: Service) -> None:
    """Search as anybody else would, again if the service is overloaded."""
    body = {"text": "noise sekretquery", "k": 3, "fields": ["text"]}

    def ask_once() -> Answer | None:
        found = service.ask("POST", "/v1/indexes/papers/search", body, authorization=f"Bearer {READ}")
        assert found.status != 503 or found.headers["retry-after"] == "1"
        return None if found.status == 503 else found

    answer = eventually(ask_once)
    assert answer.status == 200, answer
    assert len(answer.json()["hits"]) == 3


@contextlib.contextmanager
def unharmed(service: Service, most_bytes: int = 64 << 20) -> Iterator[None]:
    """Check that the service answers others after something bad, holds little more memory, and logs no secret."""
    before, logged = memory_of(service.pid), len(service.log)
    yield
    probe(service)
    grown = memory_of(service.pid) - before
    assert grown < most_bytes, f"{grown >> 20} MB more than before"
    log = service.log[logged:]
    assert "Traceback" not in log
    assert not [secret for secret in SECRETS if secret in log]


def talk(service: Service, *pieces: bytes) -> bytes:
    """Send something on a connection of its own, and return everything until the service closes it."""
    with service.connect() as sock:
        with contextlib.suppress(ConnectionError):  # it may have heard enough
            for piece in pieces:
                sock.sendall(piece)
        return rest_of(sock)


def statuses(reply: bytes) -> list[int]:
    """Return the statuses of all answers on a connection."""
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", reply)]


def vanish(sock: socket.socket) -> None:
    """Cut a connection, as a machine that loses its network does."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


# --- slow ------------------------------------------------------------------------------------------------------------


def test_a_head_that_comes_byte_by_byte_is_cut_off(hasty: Service) -> None:
    """Whoever sends a head slowly is answered 408, and does not keep others from searching."""
    slow = [hasty.connect() for _ in range(20)]
    pieces = [bytes([byte]) for byte in head(HEALTH, HOST, b"X-Slow: " + b"a" * 1000)]
    start = time.monotonic()
    for piece in pieces:
        if time.monotonic() - start > HEADER_SECONDS + 1.5:
            break
        for sock in slow:
            with contextlib.suppress(ConnectionError):
                sock.sendall(piece)
        time.sleep(0.05)
    probe(hasty)
    for sock in slow:
        with sock:
            assert statuses(rest_of(sock)) == [408]


def test_a_connection_that_says_nothing_is_closed(hasty: Service) -> None:
    """A connection without a request is answered 408 after the time for a head."""
    assert statuses(talk(hasty)) == [408]


def test_empty_lines_do_not_keep_a_connection_open(hasty: Service) -> None:
    """Line breaks after an answer start the time for the next head: nobody holds a connection with them."""
    with hasty.connect(20) as sock:
        sock.sendall(head(HEALTH, HOST))
        read_until(sock, b"ok")
        sock.sendall(b"\r\n")
        assert statuses(rest_of(sock)) in ([408], [])


def test_a_second_head_that_stays_incomplete_is_cut_off(hasty: Service) -> None:
    """The start of a second request, sent together with the first, has the same time as any other head."""
    with hasty.connect(20) as sock:
        sock.sendall(SOUND + SEARCH[:10])
        read_until(sock, b"took_ms")
        sock.sendall(SEARCH[10:15])
        assert statuses(rest_of(sock)) in ([408], [])


@pytest.mark.slow
def test_whoever_stops_in_the_middle_is_disconnected(service: Service) -> None:
    """Bodies and streams that stop coming end after half a minute, and connections that nobody reads after one."""
    queries = {"queries": [{"text": "noise copper"}] * 20, "k": NUM_DOCS, "fields": ["text", "metadata"]}
    body = json.dumps(queries).encode()
    batch = head(SEARCH.replace(b"/search", b"/search/batch"), HOST, KEY, JSON, length(body)) + body
    with service.connect(90) as half, service.connect(90) as stream, deaf_connection(service) as deaf:
        half.sendall(search_with(b"Content-Length: 500", body=QUERY))
        stream.sendall(head(STREAM, HOST, WRITE_KEY, NDJSON, CHUNKED) + chunk(record("pause")))
        read_until(stream, b'"ok":true')
        deaf.sendall(batch * 20)  # of 20 MB: more than the system holds for a client
        assert statuses(rest_of(half)) == [408]
        assert statuses(rest_of(stream)) == []
        start = time.monotonic()
        eventually(lambda: connections(service) == 0, 90)
        assert time.monotonic() - start > 5  # it was counted, and there was time to read


def deaf_connection(service: Service) -> socket.socket:
    """Return a connection that holds next to nothing of what comes."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    sock.settimeout(PATIENCE)
    sock.connect(("127.0.0.1", service.port))
    return sock


def connections(service: Service) -> float:
    """Return how many connections were open when the service last counted them, which is twice a second."""
    text = service.ask("GET", "/metrics", authorization=f"Bearer {READ}").body.decode()
    found = re.search(r"^segmax_connections(?:{.*})? (\S+)$", text, re.MULTILINE)
    assert found is not None
    return float(found[1])


# --- lengths ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lines",
    [
        [b"Content-Length: -5"],
        [b"Content-Length: +34"],
        [b"Content-Length: 0x22"],
        [b"Content-Length: 99999999999999999999999999"],
        [b"Content-Length: 34, 34"],
        [b"Content-Length: 34", b"Content-Length: 34"],
        [b"Content-Length: 34", b"Content-Length: 5"],
        [b"Content-Length : 34"],
        [CHUNKED, b"Content-Length: 4"],
        [b"Content-Length: 4", CHUNKED],
        [b"Transfer-Encoding: xchunked", b"Content-Length: 34"],
        [b"Transfer-Encoding: chunked, identity"],
        [CHUNKED, b"Transfer-Encoding: identity"],
        [b"Transfer-Encoding : chunked"],
        [b"X: folded\r\n Content-Length: 34", b"Content-Length: 4"],
    ],
)
def test_ambiguous_lengths_are_refused(service: Service, lines: list[bytes]) -> None:
    """A body with an unclear end is answered 400, and what follows is never taken for a request."""
    smuggled = head(b"GET /v1/indexes HTTP/1.1", HOST, KEY)
    assert statuses(talk(service, search_with(*lines, body=b"0\r\n\r\n" + smuggled))) == [400]


def test_a_body_longer_than_announced_is_not_a_request(service: Service) -> None:
    """What follows a body that was announced too short is refused as HTTP, not executed."""
    assert set(statuses(talk(service, search_with(b"Content-Length: 5", body=QUERY)))) <= {400}


@pytest.mark.parametrize("size", [b"zz", b"-22", b"ffffffffffffffffff", b" 22", b"22 22", b"0x22", b""])
def test_bad_sizes_of_chunks_are_refused(service: Service, size: bytes) -> None:
    """A chunk without a proper size is answered 400."""
    body = size + b"\r\n" + QUERY + b"\r\n0\r\n\r\n"
    assert statuses(talk(service, search_with(CHUNKED, body=body))) == [400]


def test_a_sound_body_in_chunks_is_read(service: Service) -> None:
    """The same search in chunks, one byte each, is answered."""
    body = b"".join(chunk(bytes([byte])) for byte in QUERY) + b"0\r\n\r\n"
    assert statuses(talk(service, search_with(CHUNKED, CLOSE, body=body))) == [200]


def test_half_a_body_harms_nobody(service: Service) -> None:
    """Clients that stop in the middle of a body, or vanish there, leave nothing behind."""
    for end in (socket.socket.close, vanish):
        for _ in range(20):
            sock = service.connect()
            sock.sendall(search_with(b"Content-Length: 500", body=QUERY))
            end(sock)


# --- sizes -----------------------------------------------------------------------------------------------------------


def test_a_huge_body_is_refused_before_it_is_sent(service: Service) -> None:
    """A body that is announced too large is answered 413 at once, with and without `Expect`."""
    for lines in ([], [b"Expect: 100-continue"]):
        assert statuses(talk(service, search_with(b"Content-Length: 104857600", *lines))) == [413]


@pytest.mark.parametrize("start", [SEARCH, b"POST /nowhere HTTP/1.1", HEALTH, b"POST /v1/indexes/none/search HTTP/1.1"])
@pytest.mark.parametrize("lines", [[b"Content-Length: 104857600"], [CHUNKED]])
def test_a_huge_body_is_not_kept(service: Service, start: bytes, lines: list[bytes]) -> None:
    """100 MB are never read to their end, wherever they are sent, and never held in memory."""
    piece = b" " * (1 << 20)
    pieces = [piece if lines != [CHUNKED] else chunk(piece)] * 100
    status = {SEARCH: 413, HEALTH: 200}.get(start, 404)
    assert statuses(talk(service, head(start, HOST, KEY, JSON, CLOSE, *lines), *pieces)) == [status]


def test_a_client_that_sends_everything_first_reads_why(service: Service) -> None:
    """A body slightly too large is answered 413, not with a broken connection, also to clients that read late."""
    answer = service.ask(
        "POST", "/v1/indexes/papers/search", b" " * (17 << 20), authorization=f"Bearer {READ}",
        content_type="application/json",
    )  # fmt: skip
    assert answer.status == 413
    assert answer.json()["type"] == "urn:segmax:problem:body-too-large"


@pytest.mark.parametrize(
    ("start", "line"),
    [
        (HEALTH, b"X-Large: " + b"a" * (64 << 10)),
        (HEALTH, b"\r\n".join([b"X-Many: a"] * 10_000)),
        (HEALTH, b"X-Larger: " + b"a" * (1 << 20)),
        (HEALTH, b"X" * (1 << 20)),
        (b"GET /" + b"a" * (60 << 10) + b" HTTP/1.1", b"X: y"),
        (b"GET /" + b"a" * (1 << 20) + b" HTTP/1.1", b"X: y"),
    ],
)
def test_large_heads_are_refused(service: Service, start: bytes, line: bytes) -> None:
    """A head beyond the limit is answered 431 (or 400 where it is no HTTP), however it is cut into packets."""
    assert statuses(talk(service, head(start, HOST, line, CLOSE))) in ([431], [400])
    second = read_both(service, head(start, HOST, line, CLOSE))
    assert statuses(second) in ([200, 431], [200, 400])


def read_both(service: Service, second: bytes) -> bytes:
    """Return the answers to a sound request and one that follows it on the same connection."""
    with service.connect() as sock:
        sock.sendall(head(HEALTH, HOST))
        first = read_until(sock, b"ok")
        with contextlib.suppress(ConnectionError):
            sock.sendall(second)
        return first + rest_of(sock)


def test_trailers_are_not_collected(service: Service) -> None:
    """Headers after a body are limited as those before it are."""
    trailers = (b"X-Trailer: " + b"a" * 1000 + b"\r\n") * 1000
    reply = talk(service, search_with(CHUNKED, body=chunk(QUERY) + b"0\r\n"), *[trailers] * 200)
    assert statuses(reply) in ([431], [400], [])


def test_an_endless_chunk_extension_is_not_collected(service: Service) -> None:
    """Neither is what may follow the size of a chunk."""
    with service.connect() as sock, contextlib.suppress(ConnectionError):
        sock.sendall(search_with(CHUNKED, body=b"22;"))
        for _ in range(200):
            sock.sendall(b"a" * (1 << 20))


def test_a_flood_of_pipelined_requests_is_not_collected(service: Service) -> None:
    """Requests that are sent without waiting for answers are read as they are answered, or refused."""
    count = 40_000
    with service.connect() as sock:
        sender = threading.Thread(target=_send, args=(sock, [head(HEALTH, HOST) * 1000] * (count // 1000)))
        sender.start()
        found = 0
        with contextlib.suppress(ConnectionError):
            while found < count and (piece := sock.recv(1 << 16)):
                found += piece.count(b"HTTP/1.1 200")
    sender.join()


def _send(sock: socket.socket, pieces: list[bytes]) -> None:
    with contextlib.suppress(OSError):
        for piece in pieces:
            sock.sendall(piece)


def test_a_list_of_a_million_fields_costs_little(service: Service) -> None:
    """A list that names the same field again and again is refused before it is read as a list."""
    body = {"ids": [f"d{number % NUM_DOCS}" for number in range(1000)], "fields": ["metadata"] * 1_000_000}
    answer = asked(service, "documents/get", json.dumps(body).encode())
    assert answer.status == 422
    assert "fields" in answer.json()["detail"]


# --- JSON ------------------------------------------------------------------------------------------------------------


def asked(service: Service, operation: str, body: bytes, **headers: str) -> Answer:
    """Send a body to an operation of the index."""
    named = {"authorization": f"Bearer {READ}", "content_type": "application/json", **headers}
    return service.ask("POST", f"/v1/indexes/papers/{operation}", body, **named)


@pytest.mark.parametrize(
    ("operation", "body", "status"),
    [
        ("search", b"", 400),
        ("search", b"null", 422),
        ("search", b"[]", 422),
        ("search", b'{"text":"noise"} more', 400),
        ("search", b'\xef\xbb\xbf{"text":"noise"}', 400),
        ("search", '{"text":"noise"}'.encode("utf-16"), 400),
        ("search", b'{"text":"\xff\xfe"}', 400),
        ("search", b'{"text":"\xed\xa0\x80"}', 400),
        ("search", b'{"\xff":1}', 400),
        ("search", b'{"text":"\\ud800"}', 400),
        ("search", b'{"terms":{"\\udfff":1}}', 400),
        ("search", b'{"text":"noise","k":0}', 422),
        ("search", b'{"text":"noise","k":10001}', 422),
        ("search", b'{"text":"noise","k":true}', 422),
        ("search", b'{"text":"noise","kk":1}', 422),
        ("search", b'{"text":"noise","text":"wave"}', 200),
        ("search", b'{"text":"noise","terms":{"noise":1}}', 422),
        ("search", b'{"text":"noise","group_size":2}', 422),
        ("search", b'{"text":"noise","budget_ms":1e-300}', 200),
        ("search", b'{"text":"noise","budget_ms":0}', 422),
        ("search", b'{"text":"noise","min_score":NaN}', 400),
        ("search", b'{"text":"noise","min_score":-Infinity}', 400),
        ("search", b'{"text":"noise","min_score":1e999}', 422),
        ("search", b'{"vector":{"indices":[1],"values":[-1]}}', 422),
        ("search", b'{"vector":{"indices":[1],"values":[]}}', 422),
        ("search", b'{"vector":{"indices":[-1],"values":[1]}}', 422),
        ("search", b'{"vector":{"indices":[2147483647],"values":[1]}}', 200),
        ("search", b'{"vector":{"indices":[2147483648],"values":[1]}}', 422),
        ("search", b'{"text":"' + b"noise " * 4000 + b'"}', 422),
        ("search", b'{"terms":{' + b",".join(b'"w%d":1' % n for n in range(5000)) + b"}}", 422),
        ("search/batch", b'{"queries":[' + b",".join([b'{"text":"a"}'] * 1025) + b"]}", 422),
        ("search/batch", b'{"queries":[{"vector":{"indices":[2147483647],"values":[1]}}]}', 200),
        ("search/batch", b'{"queries":[{"text":"noise"},{"vector":{"indices":[1],"values":[-1]}}]}', 422),
        ("count", b'{"where":' + b'{"$not":' * 500 + b"{}" + b"}" * 500 + b"}", 422),
        ("count", b'{"where":{"a":' + b"[" * 500 + b"]" * 500 + b"}}", 422),
        ("count", b'{"where":{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}}", 400),
        ("count", b"[" * 1_000_000, 422),
        ("count", b'{"where":{"year":' + b"9" * 4300 + b"}}", 422),
        ("count", b'{"where":{"year":' + b"9" * 1_000_000 + b"}}", 422),
        ("count", b'{"where":{"year":' + b"9" * 400 + b"}}", 200),
        ("count", b'{"where":{"$where":"sleep(1)"}}', 422),
        ("score", b'{"text":"noise","ids":[' + b"9" * 40 + b"]}", 404),
        ("score", b'{"text":"noise","ids":["nobody"]}', 404),
        ("score", b'{"text":"noise","ids":["a\\u0000b"]}', 404),
        ("documents/get", b'{"rows":[4611686018427387903]}', 404),
        ("documents/get", b'{"rows":[-1]}', 422),
        ("facets", b'{"field":"","limit":1}', 200),
        ("terms", b'{"words":["\\u0000"]}', 200),
        ("inside", b'{"text":"noise","params":{"method":"exec"}}', 422),
        ("inside", b'{"text":"noise","params":{"method":"maxscore","eta":0.5}}', 422),
    ],
)
def test_bodies_that_mean_nothing_are_refused(service: Service, operation: str, body: bytes, status: int) -> None:
    """Whatever a body says, the answer is a result or a problem that a program can read."""
    answer = asked(service, operation, body)
    assert answer.status == status, answer.body[:500]
    if status != 200:
        assert answer.headers["content-type"] == "application/problem+json"
        problem = answer.json()
        assert problem["status"] == status
        assert problem["instance"] == answer.headers["x-request-id"]


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("application/json; charset=utf-8", 200),
        ("APPLICATION/JSON", 200),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("multipart/form-data; boundary=x", 415),
        ("text/plain, application/json", 415),
        ("application/x-ndjson", 415),
        ("", 415),
    ],
)
def test_only_json_is_a_body(service: Service, kind: str, status: int) -> None:
    """A form, which any web page can send, is answered 415."""
    assert asked(service, "search", QUERY, content_type=kind).status == status
    lines = [HOST, KEY, length(QUERY), CLOSE, b"Content-Type: text/plain", JSON]
    assert statuses(talk(service, head(SEARCH, *lines[:4]) + QUERY)) == [415]
    assert statuses(talk(service, head(SEARCH, *lines) + QUERY)) in ([400], [415])


# --- who asks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    ["", "Bearer", "Bearer ", f"Basic {READ}", READ, f"Bearer {READ[:-1]}", f"Bearer {READ}x", f"Bearer {READ},{WRITE}",
     f"Bearer {READ.upper()}", "Bearer ü" + READ, "Bearer " + "x" * 20_000, f"Bearer Bearer {READ}"],
)  # fmt: skip
def test_wrong_keys_are_refused(service: Service, given: str) -> None:
    """Nothing but the key itself opens the service; what is wrong with another is not said."""
    answer = asked(service, "search", QUERY, authorization=given.encode().decode("latin-1"))
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert READ not in answer.body.decode()


def test_keys_are_asked_for_everywhere(service: Service) -> None:
    """All operations but the two that a load balancer asks need a key, also those on things that are not there."""
    for path in (
        "/v1/indexes",
        "/v1/indexes/papers",
        "/v1/indexes/none",
        "/metrics",
        "/v1/indexes/papers/documents/d1",
    ):
        assert service.ask("GET", path).status == 401
    assert service.ask("GET", "/health").status == 200


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "documents", {"documents": [{"id": "x", "text": "y"}]}),
        ("POST", "documents/delete", {"ids": ["a"]}),
        ("DELETE", "documents/a", None),
        ("POST", "commit", {}),
        ("POST", "compact", None),
        ("POST", "snapshot", None),
    ],
)
def test_a_key_that_reads_does_not_write(service: Service, method: str, path: str, body: Any) -> None:
    """Writes need a key that may write; with a key that reads they are answered 403, without one 401."""
    for headers, status in (({"authorization": f"Bearer {READ}"}, 403), ({}, 401)):
        assert service.ask(method, f"/v1/indexes/notes/{path}", body, **headers).status == status
    answer = service.ask("GET", "/v1/indexes/notes/documents/a", authorization=f"Bearer {READ}")
    assert answer.status == 200


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ([HOST], 200),
        ([b"Host: LOCALHOST:8080"], 200),
        ([b"Host: evil.example"], 403),
        ([b"Host: 127.0.0.1.evil.example"], 403),
        ([b"Host: evil@127.0.0.1"], 403),
        ([b"Host: "], 403),
        ([], 400),
        ([HOST, b"Host: evil.example"], 400),
        ([b"Host: evil.example", HOST], 400),
        ([HOST, b"Origin: http://127.0.0.1"], 200),
        ([HOST, b"Origin: http://127.0.0.1:1"], 403),
        ([HOST, b"Origin: http://evil.example"], 403),
        ([HOST, b"Origin: null"], 403),
        ([HOST, b"Origin: http://evil.example", b"Origin: http://127.0.0.1"], 400),
    ],
)
def test_pages_of_others_are_kept_out(service: Service, lines: list[bytes], status: int) -> None:
    """A name that is not the service's (DNS rebinding), and a page of another origin, are refused."""
    found = statuses(talk(service, head(b"GET /v1/indexes HTTP/1.1", KEY, CLOSE, *lines)))
    assert found == [status] or (status == 400 and found == [403])


def test_no_other_origin_is_allowed(service: Service) -> None:
    """A preflight request gets no permission, and no answer has headers that share it with other origins."""
    asks = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
    for origin in ({}, {"Origin": "http://evil.example"}):
        answer = service.ask("OPTIONS", "/v1/indexes/papers/search", None, **asks, **origin)
        assert answer.status in (403, 405)
        assert not [name for name in answer.headers if name.startswith("access-control")]
    assert not [name for name in asked(service, "search", QUERY).headers if name.startswith("access-control")]


def test_answers_say_how_browsers_have_to_treat_them(service: Service) -> None:
    """No answer is guessed to be something else; the page runs no foreign script, and in nobody's frame."""
    page = service.ask("GET", "/")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert page.headers["x-frame-options"] == "DENY"
    problems = [service.ask("GET", "/v1/indexes"), service.ask("GET", "/none"), asked(service, "search", b"{")]
    for answer in (page, asked(service, "search", QUERY), service.ask("GET", "/health"), *problems):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "server" not in answer.headers
    for answer in problems:
        assert answer.headers["cache-control"] == "no-store"


# --- addresses -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [b"/../../etc/passwd", b"/page/../app.py", b"/page/%2e%2e%2fapp.py", b"/page/__init__.py", b"/page/", b"//health",
     b"/health/", b"/health%00", b"/v1/indexes/", b"/v1/indexes/..", b"/v1/indexes/%2e%2e/papers", b"/metrics/",
     b"/v1/indexes/papers//stats", b"/v1/indexes/papers%2Fstats", b"/v1/indexes/papers%00", b"/v1/indexes/%ff%fe",
     b"/v1/indexes/%zz", b"/v1/indexes/PAPERS", b"/v1/indexes/papers/documents/%ff", b"/v1/indexes/papers/documents/",
     b"/v1/indexes/papers/documents/..", b"/v1/indexes/papers/documents/%2e%2e%2f%2e%2e%2fnotes", b"/%2e/health",
     b"/v1/indexes/papers/" + b"a/" * 5000],
)  # fmt: skip
def test_there_is_nothing_beside_the_addresses(service: Service, path: bytes) -> None:
    """No spelling of a path leads anywhere else: it is answered 404."""
    assert statuses(talk(service, head(b"GET " + path + b" HTTP/1.1", HOST, KEY, CLOSE))) == [404]


def test_ids_with_any_characters_can_be_addressed(service: Service) -> None:
    """An id is found by its percent-encoded form, also with slashes, dots and zero bytes in it."""
    ids = {"a/b": "a%2Fb", "..": "%2e%2e", "%2F": "%252F", "a b": "a%20b", "ü": "%C3%BC", "?#": "%3F%23", "\0": "%00"}
    body = {"documents": [{"id": id, "text": "noise"} for id in ids]}
    headers = {"authorization": f"Bearer {WRITE}"}
    assert service.ask("POST", "/v1/indexes/notes/documents", body, **headers).status == 200
    for id, encoded in ids.items():
        found = service.ask("GET", f"/v1/indexes/notes/documents/{encoded}", None, **headers)
        assert found.json()["id"] == id
        assert service.ask("DELETE", f"/v1/indexes/notes/documents/{encoded}", None, **headers).json()["count"] == 1


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/v1/indexes/papers/search", "POST"),
        ("HEAD", "/v1/indexes/papers/search", "POST"),
        ("PUT", "/v1/indexes/papers/search", "POST"),
        ("POST", "/v1/indexes", "GET"),
        ("DELETE", "/v1/indexes/papers", "GET"),
        ("PATCH", "/v1/indexes/notes/documents/a", "DELETE, GET"),
        ("TRACE", "/health", "GET"),
    ],
)
def test_wrong_methods_are_named(service: Service, method: str, path: str, allowed: str) -> None:
    """A method that an address does not take is answered 405, with those that it takes."""
    answer = service.ask(method, path, authorization=f"Bearer {WRITE}")
    assert (answer.status, answer.headers["allow"]) == (405, allowed)


def test_queries_of_addresses_are_checked(service: Service) -> None:
    """Parameters that mean nothing are refused."""
    for query in ("fields=%ff", "fields=" + "&fields=".join("a" * 40)):
        path = f"/v1/indexes/papers/documents/d1?{query}"
        assert service.ask("GET", path, authorization=f"Bearer {READ}").status == 400
    path = "/v1/indexes/papers/documents/d1?fields=password"
    assert service.ask("GET", path, authorization=f"Bearer {READ}").status == 422


def test_the_log_shows_control_characters_escaped(service: Service) -> None:
    """A path cannot forge lines of the log, nor colors of a terminal."""
    path = "/v1/indexes/%0a2026-01-01%20FORGED%1b[31m%e2%80%ae"
    assert service.ask("GET", path, authorization=f"Bearer {READ}").status == 404
    line = eventually(lambda: [line for line in service.log.splitlines() if "FORGED" in line])[0]
    assert r"\n2026-01-01 FORGED\x1b[31m" in line
    assert "\u202e" not in line


def test_ids_of_requests_are_not_trusted(service: Service) -> None:
    """A sane id of a request comes back; any other is replaced."""
    given = {"sane-id_1.2": True, "x" * 65: False, "a b": False, "a\tb": False, "<script>": False, "": False}
    for name, is_sane in given.items():
        answer = service.ask("GET", "/health", X_Request_Id=name)
        assert (answer.headers["x-request-id"] == name) == is_sane


# --- other protocols -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        bytes.fromhex("16030100a5010000a10303") + bytes(160),  # the start of TLS
        b"\x04\x01\x00\x50\x7f\x00\x00\x01\x00",  # SOCKS
        b"SSH-2.0-OpenSSH_9.0\r\n",
        b"CONNECT evil.example:443 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /h\xe9alth HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /health HTTP/1.1\nHost: 127.0.0.1\n\n",
        b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX: a\0b\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\rX: y\r\n\r\n",
        b"GET /health HTTP/9.9\r\nHost: 127.0.0.1\r\n\r\n",
        b"NONSENSE /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        bytes(range(256)),
    ],
)
def test_what_is_not_http_is_refused(service: Service, content: bytes) -> None:
    """Other protocols, and broken HTTP, are answered 400 and the connection is closed."""
    assert statuses(talk(service, content)) == [400]


def test_http_1_0_is_answered(service: Service) -> None:
    """An old client gets its answer, until the end of the connection."""
    reply = talk(service, head(b"GET /health HTTP/1.0", HOST))
    assert statuses(reply) == [200]
    assert reply.endswith(b'{"status":"ok"}')


def test_http_1_0_gets_no_chunks(service: Service) -> None:
    """Chunks came with HTTP/1.1: a stream of documents in HTTP/1.0 is refused, or answered without them."""
    line = b'{"id":"old","text":"noise"}\n'
    start = b"POST /v1/indexes/notes/documents?mode=upsert HTTP/1.0"
    reply = talk(service, head(start, HOST, WRITE_KEY, NDJSON, length(line)) + line)
    assert b"chunked" not in reply.lower()
    assert statuses(reply) in ([200], [426])


@pytest.mark.parametrize("name", [b"h2c", b"websocket", b"TLS/1.0"])
def test_offers_to_change_the_protocol_are_ignored(service: Service, name: bytes) -> None:
    """Some clients offer HTTP/2 with every request: they are answered as if they had not, body and all."""
    offer = [b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: " + name, b"HTTP2-Settings: AAMAAABkAAQAAP__"]
    with service.connect() as sock:
        for _ in range(2):
            sock.sendall(search_with(length(QUERY), *offer, body=QUERY))
            reply = read_until(sock, b"took_ms")
            assert statuses(reply) == [200]
            if b"connection: close" in reply.lower():
                break
    reply = talk(service, head(HEALTH, HOST, *offer) + head(HEALTH, HOST, CLOSE))
    assert statuses(reply) == [200, 200] or (statuses(reply) == [200] and b"connection: close" in reply.lower())


def test_an_offer_may_come_in_pieces(service: Service) -> None:
    """The same is true of an offer in capitals, and of one that is cut in two on its way."""
    offer = search_with(length(QUERY), CLOSE, b"UPGRADE: h2c", b"Connection: UPGRADE", body=QUERY)
    assert statuses(talk(service, offer)) == [200]
    place = offer.index(b"UPGRADE")
    for cut in (place - 1, place, place + 3):
        with service.connect() as sock:
            sock.sendall(offer[:cut])
            time.sleep(0.1)  # so that the rest comes in a packet of its own
            sock.sendall(offer[cut:])
            assert statuses(rest_of(sock)) == [200]


def test_a_refused_body_does_not_cost_the_next_request(service: Service) -> None:
    """A client that keeps connections is not left with one that is about to close, whatever it was refused for."""
    base = f"http://127.0.0.1:{service.port}"
    with httpx.Client(base_url=base, headers={"authorization": f"Bearer {READ}"}, timeout=PATIENCE) as client:
        for _ in range(100):
            assert client.post("/nowhere", content=b" " * 300_000).status_code == 404
            assert client.post("/v1/indexes/papers/search", content=b" " * 300_000).status_code == 415
            assert client.get("/health").status_code == 200


def test_pipelined_requests_are_answered_in_order(service: Service) -> None:
    """Requests that are sent together are answered one after the other, also if the last comes in pieces."""
    parts = SOUND + head(HEALTH, HOST) * 20, SOUND_LAST[:-10], SOUND_LAST[-10:]
    with service.connect() as sock:
        for part in parts:
            sock.sendall(part)
            time.sleep(0.1)  # so that it comes in a packet of its own
        reply = rest_of(sock)
    assert statuses(reply) == [200] * 22
    assert reply.index(b'"hits"') < reply.index(b'"status"') < reply.rindex(b'"hits"')


def test_a_body_is_sent_after_a_go_ahead(service: Service) -> None:
    """`Expect: 100-continue` is answered before the body is sent."""
    with service.connect() as sock:
        sock.sendall(search_with(length(QUERY), CLOSE, b"Expect: 100-continue"))
        assert statuses(read_until(sock, b"\r\n\r\n")) == [100]
        sock.sendall(QUERY)
        assert statuses(rest_of(sock)) == [200]


# --- many connections ------------------------------------------------------------------------------------------------


def test_thousands_of_idle_connections_are_harmless(hasty: Service) -> None:
    """Connections that do nothing cost next to nothing, and end by themselves."""
    idle = []
    try:
        for _ in range(2000):
            idle.append(hasty.connect())
        probe(hasty)
        for sock in idle[::100]:
            assert statuses(rest_of(sock)) == [408]
    finally:
        for sock in idle:
            sock.close()


def test_too_many_connections_are_refused(folder: Path) -> None:
    """One connection more than allowed is answered 429; when others have closed, new ones are welcome."""
    with serving(folder / "papers.segmax", "--max-connections", 10, "--header-timeout", 60) as service:
        held = [service.connect() for _ in range(10)]
        eventually(lambda: statuses(talk(service, head(HEALTH, HOST, CLOSE))) == [429])
        reply = talk(service, head(HEALTH, HOST, CLOSE))
        assert b"retry-after: 1" in reply
        for sock in held:
            sock.close()
        eventually(lambda: statuses(talk(service, head(HEALTH, HOST, CLOSE))) == [200])


def test_clients_that_never_read_their_answers_are_harmless(service: Service) -> None:
    """Answers that nobody reads wait in the network, and others are served."""
    body = json.dumps({"text": "noise copper", "k": NUM_DOCS, "fields": ["text", "metadata"], "stats": True}).encode()
    deaf = []
    try:
        for _ in range(50):
            deaf.append(deaf_connection(service))
            deaf[-1].sendall(search_with(length(body), body=body) * 4)
        probe(service)
    finally:
        for sock in deaf:
            vanish(sock)


def test_clients_that_vanish_leave_no_trace(service: Service) -> None:
    """Connections that are cut while their requests are answered are no error."""
    for count in (1, 3):
        for _ in range(50):
            sock = service.connect()
            sock.sendall(SOUND * count)
            vanish(sock)
    probe(service)


# --- streams of documents --------------------------------------------------------------------------------------------


@pytest.fixture
def streaming(running: Service) -> Iterator[Service]:
    """The service, which may hold the documents that a test adds."""
    with unharmed(running, 512 << 20):
        yield running


STREAM = b"POST /v1/indexes/notes/documents?mode=upsert HTTP/1.1"


def record(number: object, text: str = "noise") -> bytes:
    """Return a line of a stream."""
    return json.dumps({"id": f"s{number}", "text": text}).encode() + b"\n"


def streamed(service: Service, content: bytes) -> list[dict[str, Any]]:
    """Send a stream, and return the lines of the answer."""
    headers = {"authorization": f"Bearer {WRITE}", "content_type": "application/x-ndjson"}
    answer = service.ask("POST", "/v1/indexes/notes/documents?mode=upsert", content, **headers)
    assert answer.status == 200, answer
    assert answer.headers["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in answer.body.splitlines()]


def is_there(service: Service, number: object) -> bool:
    """Whether the document of a line is there."""
    path = f"/v1/indexes/notes/documents/s{number}"
    return service.ask("GET", path, authorization=f"Bearer {READ}").status == 200


def test_invalid_lines_harm_no_valid_ones(streaming: Service) -> None:
    """Every line has its result, in order; the valid ones are written, however lines end."""
    bad = [
        *[b"nope", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"id":', b'{"id":"x","zz":1}', b'{"id":true,"text":"a"}'],
        b'{"id":"v","vector":{"indices":[1],"values":[1]},"terms":{"a":1}}',
        b'{"id":"n","text":"a","metadata":3}',
    ]
    content = record(1) + b"\n\r\n" + record(2).replace(b"\n", b"\r\n") + b"\n".join(bad) + b"\n" + record(3)[:-1]
    *lines, end = streamed(streaming, content)
    assert [line["ok"] for line in lines] == [True, True] + [False] * len(bad) + [True]
    assert [line["line"] for line in lines] == [1, 4, *range(5, 5 + len(bad)), 5 + len(bad)]
    assert all(line["error"] for line in lines if not line["ok"])
    assert (end["done"], end["count"], end["errors"]) == (True, 3, len(bad))
    assert all(is_there(streaming, number) for number in (1, 2, 3))
    sequence = end["sequence"]
    assert streamed(streaming, b"")[-1] == {"done": True, "count": 0, "errors": 0, "sequence": sequence}


def test_a_line_beyond_the_limit_ends_a_stream(streaming: Service) -> None:
    """5 MB without a line break are refused; what came before is written, what comes after is not."""
    content = record(10) + b'{"id":"large","text":"' + b"a" * 5_000_000 + b'"}\n' + record(11)
    *lines, end = streamed(streaming, content)
    assert [line["ok"] for line in lines] == [True]
    assert end["done"] is False
    assert "line 2" in end["error"]
    assert is_there(streaming, 10)
    assert not is_there(streaming, 11)


def test_a_client_may_send_everything_before_it_reads(streaming: Service) -> None:
    """50,000 lines are read while nobody reads their results: there is no deadlock."""
    content = b"".join(record(f"all-{number}") for number in range(50_000))
    with streaming.connect() as sock:
        sock.sendall(head(STREAM, HOST, WRITE_KEY, NDJSON, CLOSE, length(content)) + content)
        probe(streaming)
        reply = rest_of(sock)
    assert reply.count(b'"ok":true') == 50_000
    assert b'"done":true,"count":50000' in reply


def test_what_was_acknowledged_before_a_client_stopped_is_there(streaming: Service) -> None:
    """A client that stops in the middle of a line, in either way, keeps what it has heard of."""
    for number, end in enumerate((socket.socket.close, vanish)):
        sock = streaming.connect()
        first = head(STREAM, HOST, WRITE_KEY, NDJSON, CHUNKED) + chunk(record(f"stop-{number}"))
        sock.sendall(first + b"ff\r\n" + b'{"id":"half-')
        read_until(sock, b'"ok":true')
        end(sock)
        assert is_there(streaming, f"stop-{number}")


def test_a_broken_stream_is_cut_off_cleanly(streaming: Service) -> None:
    """A malformed chunk ends a stream whose answer has begun: no second answer is sent into the first."""
    with streaming.connect() as sock:
        sock.sendall(head(STREAM, HOST, WRITE_KEY, NDJSON, CHUNKED) + chunk(record("broken")))
        reply = read_until(sock, b'"ok":true')
        sock.sendall(b"zz\r\nnonsense\r\n")
        reply += rest_of(sock)
    assert statuses(reply) == [200]
    assert is_there(streaming, "broken")


# --- what fails inside -----------------------------------------------------------------------------------------------


def test_a_full_disk_ends_a_stream_with_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that fails in the middle of a stream ends it with a last line that says so."""
    segmax.Collection.create(tmp_path / "notes", encoder="bm25").close()
    put_each, written = Writer.put_each, threading.Event()

    def put_or_fail(self: Writer, *arguments: Any) -> Any:
        if written.is_set():
            raise WriteError("the disk is full") from OSError(errno.ENOSPC, "No space left on device")
        try:
            return put_each(self, *arguments)
        finally:
            written.set()

    monkeypatch.setattr(Writer, "put_each", put_or_fail)

    async def lines() -> AsyncIterator[bytes]:
        yield record(1)
        await asyncio.to_thread(written.wait)
        yield record(2)

    async def scenario(client: httpx.AsyncClient) -> httpx.Response:
        path, headers = "/v1/indexes/notes/documents", {"content-type": "application/x-ndjson"}
        return await client.post(path, content=lines(), headers=headers)

    answer = ask(Settings(paths={"notes": tmp_path / "notes"}, writable=True), scenario)
    assert answer.status_code == 200
    first, last = answer.text.splitlines()
    assert json.loads(first)["ok"] is True
    end = json.loads(last)
    assert (end["done"], end["count"]) == (False, 1)
    assert "disk is full" in end["error"]


def test_writes_that_wait_keep_no_search_waiting(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many changes wait for each other, searches in the same process go on."""
    segmax.Collection.create(tmp_path / "notes", encoder="bm25").close()
    released = threading.Event()
    monkeypatch.setattr(Writer, "compact", lambda self, name: released.wait(PATIENCE) and self.commit(name))
    settings = Settings(paths={"notes": tmp_path / "notes", "papers": folder / "papers.segmax"}, writable=True)

    async def scenario(client: httpx.AsyncClient) -> tuple[int, list[int]]:
        writes = [asyncio.create_task(client.post("/v1/indexes/notes/compact")) for _ in range(100)]
        await asyncio.sleep(0.2)
        body = {"text": "noise", "fields": ["text"]}
        try:
            found = await client.post("/v1/indexes/papers/search", json=body, timeout=PATIENCE / 2)
        finally:
            released.set()
        return found.status_code, [(await write).status_code for write in writes]

    status, others = ask(settings, scenario)
    assert status == 200
    assert set(others) <= {200, 503}
    assert others[0] == 200


# --- starting --------------------------------------------------------------------------------------------------------


def refused_start(*arguments: object) -> str:
    """Start a service that must not start, and return what it says."""
    command = [sys.executable, "-m", "segmax.cli", "serve", *map(str, arguments), "--port", "0"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr.count("\n") == 1, ended.stderr
    return ended.stderr


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_no_service_is_open_to_a_network_by_accident(folder: Path, host: str) -> None:
    """An address that others can reach needs keys, or an explicit --no-auth."""
    assert "--no-auth" in refused_start(folder / "papers.segmax", "--host", host)


@pytest.mark.parametrize(
    "content", [b"%b", b"read short-key", b"admin %b", b"read %b extra", b"read\t\xff%b", b"# read %b", b"write:%b"]
)
def test_errors_in_key_files_show_no_key(folder: Path, tmp_path: Path, content: bytes) -> None:
    """What is wrong with a file of keys is said without quoting it."""
    keys = tmp_path / "keys"
    keys.write_bytes(content % READ.encode() if b"%b" in content else content)
    keys.chmod(0o600)
    said = refused_start(folder / "papers.segmax", "--api-keys", keys)
    assert str(keys) in said
    assert READ not in said
    assert "short" not in said
