"""Limits at exactly their value: what is as large as allowed is answered, one more is refused and says how much."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import threading
import warnings
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
import scipy.sparse as sp

pytest.importorskip("msgspec")
pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")

import segmax
from segmax.errors import ConfigError, InputError, SegmaxWarning
from segmax.metadata import parse_where, values, where
from segmax.serve.encoding import EncoderThread
from segmax.serve.problems import ProblemError
from segmax.serve.security import Keys
from segmax.serve.settings import Limits, Settings
from segmax.serve.writing import WriterThreads
from segmax.vectors.csr import Csr, matrix_to_csr
from serve.in_process import ask, asked, settings_for
from serve.serving import PATIENCE, Service, rest_of, serving

LIMITS = Limits(
    body_bytes=20_000,
    line_bytes=300,
    text_chars=50,
    terms=6,
    k=12,
    batch=3,
    batch_results=15,
    answer_bytes=4_000_000,
)
HEAD_BYTES = Limits().header_bytes

Send = Callable[..., httpx.Response]


@pytest.fixture(scope="module")
def send(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Send]:
    """Sends requests to one service with small limits, of an index and a collection."""
    folder = tmp_path_factory.mktemp("limits")
    texts = {f"d{number}": f"noise of tube {number}" for number in range(20)}
    segmax.from_texts(texts, path=folder / "papers.segmax", metadata=[{"n": number} for number in range(20)])
    with segmax.Collection.create(folder / "notes", encoder="bm25") as collection:
        collection.add([{"id": "a", "text": "noise"}])
    paths = {"papers": folder / "papers.segmax", "notes": folder / "notes"}
    with asyncio.Runner() as runner:
        service = asked(Settings(paths=paths, writable=True, limits=LIMITS))
        client = runner.run(service.__aenter__())

        def post(path: str, **options: Any) -> httpx.Response:
            return runner.run(client.post(f"/v1/indexes/{path}", **options))

        yield post
        runner.run(service.__aexit__(None, None, None))


class Case(NamedTuple):
    """A limit: where it is, its value, the request of so much, and the status for one more."""

    path: str
    most: int
    body: Callable[[int], Any]
    status: int = 422


def vector(count: int) -> dict[str, Any]:
    """Return a query of so many terms."""
    return {"vector": {"indices": list(range(count)), "values": [1.0] * count}}


def sized(count: int) -> bytes:
    """Return a body of so many bytes."""
    return b'{"text":"noise"}'.ljust(count)


def numbered(number: int) -> dict[str, Any]:
    """Return a document."""
    return {"id": f"n{number}", "text": "noise"}


class Asked:
    """Limits, and which of them somebody has asked for."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.names: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        self.names.add(name)
        return getattr(self._limits, name)


ASKED = Asked(LIMITS)
NOISE = {"text": "noise"}
ONE = {"vector": {"indices": [0], "values": [1.0]}}
SEARCH, BATCH = "papers/search", "papers/search/batch"
CASES = {
    "body_bytes": Case(SEARCH, ASKED.body_bytes, sized, 413),
    "text_chars": Case(SEARCH, ASKED.text_chars, lambda n: {"text": "é" * n}),
    "text_chars of texts": Case("papers/encode", ASKED.text_chars, lambda n: {"texts": ["x" * n]}),
    "text_chars of a batch": Case(BATCH, ASKED.text_chars, lambda n: {"queries": [{"text": "x" * n}]}),
    "terms of a vector": Case(SEARCH, ASKED.terms, vector),
    "terms by word": Case(SEARCH, ASKED.terms, lambda n: {"terms": {f"w{word}": 1.0 for word in range(n)}}),
    "terms in a batch": Case(BATCH, ASKED.terms, lambda n: {"queries": [vector(n)]}),
    "terms to score": Case("papers/score", ASKED.terms, lambda n: vector(n) | {"ids": ["d1"]}),
    "terms to explain": Case("papers/explain", ASKED.terms, lambda n: vector(n) | {"id": "d1"}),
    # A filter counts itself, and whatever is in it.
    "members of a filter": Case(SEARCH, ASKED.terms - 1, lambda n: NOISE | {"where": {f"f{i}": i for i in range(n)}}),
    "values in a filter": Case(SEARCH, ASKED.terms - 3, lambda n: NOISE | {"where": {"n": {"$in": list(range(n))}}}),
    "filters of a count": Case("papers/count", ASKED.terms - 3, lambda n: {"where": {"n": {"$in": list(range(n))}}}),
    "filters of facets": Case(
        "papers/facets", ASKED.terms - 3, lambda n: {"field": "n", "where": {"n": {"$in": list(range(n))}}}
    ),
    "filters to delete": Case(
        "notes/documents/delete", ASKED.terms - 3, lambda n: {"where": {"n": {"$in": list(range(n))}}}
    ),
    "filters of a batch": Case(
        BATCH, ASKED.terms - 3, lambda n: {"queries": [ONE | {"where": {"n": {"$in": list(range(n))}}}]}
    ),
    "k": Case(SEARCH, ASKED.k, lambda n: NOISE | {"k": n}),
    "k and offset": Case(SEARCH, ASKED.k - 10, lambda n: NOISE | {"k": 10, "offset": n}),
    "k of a batch": Case(BATCH, ASKED.k, lambda n: {"queries": [ONE], "k": n}),
    "k of a query": Case(BATCH, ASKED.k, lambda n: {"queries": [ONE | {"k": n}]}),
    "k and offset of a batch": Case(BATCH, ASKED.k - 1, lambda n: {"queries": [ONE], "k": 1, "offset": n}),
    "k to explain": Case("papers/explain", ASKED.k, lambda n: NOISE | {"id": "d1", "k": n}),
    "k inside": Case("papers/inside", ASKED.k, lambda n: NOISE | {"k": n}),
    "k x group_size": Case(SEARCH, ASKED.k // 3, lambda n: NOISE | {"k": 3, "group_by": "n", "group_size": n}),
    "queries": Case(BATCH, ASKED.batch, lambda n: {"queries": [ONE] * n, "k": 1}),
    "batch_results": Case(BATCH, ASKED.batch_results // 3, lambda n: {"queries": [ONE] * 3, "k": n}),
    "texts": Case("papers/encode", ASKED.batch, lambda n: {"texts": ["noise"] * n}),
    "ids": Case("papers/documents/get", ASKED.batch, lambda n: {"ids": ["d1"] * n}),
    "rows": Case("papers/documents/get", ASKED.batch, lambda n: {"rows": [1] * n}),
    "ids to score": Case("papers/score", ASKED.batch, lambda n: NOISE | {"ids": ["d1"] * n}),
    "words": Case("papers/terms", ASKED.batch, lambda n: {"words": ["noise"] * n}),
    "numbers": Case("papers/terms", ASKED.batch, lambda n: {"numbers": [0] * n}),
    "documents": Case(
        "notes/documents?mode=upsert", ASKED.batch * 32, lambda n: {"documents": [*map(numbered, range(n))]}
    ),
    # What the messages allow, whatever the settings say.
    "fields": Case(SEARCH, 8, lambda n: NOISE | {"fields": ["row"] * n}),
    "fields of documents": Case("papers/documents/get", 8, lambda n: {"ids": ["d1"], "fields": ["row"] * n}),
    "a term": Case(SEARCH, 2**31 - 1, lambda n: {"vector": {"indices": [n], "values": [1.0]}}),
    "a row": Case("papers/documents/get", 2**62 - 1, lambda n: {"rows": [n]}),
    "width": Case(SEARCH, 10_000, lambda n: NOISE | {"highlight": {"width": n}}),
    "least width": Case(SEARCH, 20, lambda n: NOISE | {"highlight": {"width": 40 - n}}),
    "budget_ms": Case(SEARCH, 600_000, lambda n: NOISE | {"budget_ms": n}),
    "eta in percent": Case(SEARCH, 100, lambda n: NOISE | {"params": {"eta": n / 100}}),
    "target_recall in percent": Case(SEARCH, 100, lambda n: NOISE | {"target_recall": n / 100}),
    "group_by": Case(SEARCH, 1000, lambda n: NOISE | {"group_by": "f" * n}),
    "a field": Case("papers/facets", 1000, lambda n: {"field": "f" * n}),
    "values of a field": Case("papers/facets", 10_000, lambda n: {"field": "n", "limit": n}),
    "a prefix": Case("papers/terms", 1000, lambda n: {"prefix": "f" * n}),
    "words of a prefix": Case("papers/terms", 1000, lambda n: {"prefix": "n", "limit": n}),
    # What the library allows.
    "levels of a filter as parts of it": Case(SEARCH, ASKED.terms - 2, lambda n: NOISE | {"where": nested(n)}),
    "levels of metadata": Case("notes/documents?mode=upsert", 64, lambda n: {"documents": [described(levels(n))]}),
    "bits of a number": Case("notes/documents?mode=upsert", 14_000, lambda n: {"documents": [described(2**n - 1)]}),
}

IN_CASES = frozenset(ASKED.names)


def nested(count: int) -> dict[str, Any]:
    """Return a filter with so many levels, and two values more."""
    found: dict[str, Any] = {"n": 1}
    for _ in range(count):
        found = {"$not": found}
    return found


def levels(count: int) -> Any:
    """Return an object with so many levels, without the one around it."""
    found: Any = 1
    for _ in range(count - 1):
        found = {"a": found}
    return found


def described(value: Any) -> dict[str, Any]:
    """Return a document with a value in its metadata."""
    return {"id": "x", "text": "noise", "metadata": {"a": value}}


@pytest.mark.parametrize("name", CASES)
def test_a_limit_is_the_most_that_is_allowed(send: Send, name: str) -> None:
    """At the limit a request is answered, also if the answer is that nothing is there; one more is refused."""
    path, most, body, status = CASES[name]

    def answer(count: int) -> httpx.Response:
        made = body(count)
        content = made if isinstance(made, bytes) else json.dumps(made).encode()
        return send(path, content=content, headers={"content-type": "application/json"})

    allowed = answer(most)
    assert allowed.status_code in ((404,) if name == "a row" else (200,)), allowed.text
    refused = answer(most + 1)
    assert refused.status_code == status, refused.text
    assert refused.headers["content-type"] == "application/problem+json"


def test_every_limit_of_requests_is_tested() -> None:
    """A new setting of limits needs its case here; the others are times, or tested elsewhere."""
    times = {"header_seconds", "body_seconds", "wait_ms"}
    below = {"line_bytes", "connections", "header_bytes"}
    in_large_answers = {"answer_bytes", "unread_bytes"}
    assert set(Limits.__dataclass_fields__) - times - below - in_large_answers == IN_CASES


def test_a_line_of_a_stream_may_be_as_long_as_allowed(send: Send) -> None:
    """A line of exactly the limit is a document; one byte more ends the stream, and what came before is kept."""
    for extra in (0, 1):
        lines = [b'{"id":"y","text":"noise"}'.ljust(LIMITS.line_bytes + length) for length in (0, extra)]
        headers = {"content-type": "application/x-ndjson"}
        answer = send("notes/documents?mode=upsert", content=b"\n".join(lines), headers=headers)
        *results, end = [json.loads(line) for line in answer.content.splitlines()]
        assert (len(results), end["done"], end["count"]) == (2 - extra, not extra, 2 - extra)


def test_an_address_may_have_as_many_parameters_as_allowed(send: Send) -> None:
    """Thirty-two parameters are read; one more is not."""
    for count, status in ((32, 200), (33, 400)):
        path = "notes/documents?" + "&".join(["mode=upsert"] * count)
        assert send(path, json={"documents": []}).status_code == status


def test_the_id_of_a_request_may_have_64_characters(send: Send) -> None:
    """A longer one is replaced, not refused."""
    for count in (64, 65):
        given = "r" * count
        answer = send(SEARCH, json=NOISE, headers={"x-request-id": given})
        assert answer.status_code == 200
        assert (answer.headers["x-request-id"] == given) == (count == 64)


def test_a_filter_may_have_32_levels(tmp_path: Path) -> None:
    """Thirty-two are searched, one more is refused, and the answer says how many are allowed."""
    segmax.from_texts({"a": "noise"}, path=tmp_path / "papers", metadata=[{"n": 1}])

    async def scenario(client: httpx.AsyncClient) -> list[httpx.Response]:
        ways = [{"where": nested(count)} for count in (31, 32)]  # and the one of the field
        return [await client.post("/v1/indexes/papers/search", json=NOISE | way) for way in ways]

    allowed, refused = ask(settings_for(papers=tmp_path / "papers"), scenario)
    assert allowed.status_code == 200, allowed.text
    assert refused.status_code == 422
    assert "at most 32 levels" in refused.json()["detail"]


# --- what waits ------------------------------------------------------------------------------------------------------


class Held:
    """Work that takes until it may end."""

    def __init__(self) -> None:
        self.may_end = threading.Event()

    def __call__(self, *_: object) -> None:
        """Wait."""
        assert self.may_end.wait(PATIENCE)


async def only(most: int, start: Callable[[], Coroutine[Any, Any, Any]], held: Held) -> None:
    """Check that so many can wait, that one more is refused, and that there is room again when they are done."""
    *waiting, more = [asyncio.create_task(start()) for _ in range(most + 1)]
    await asyncio.sleep(0)  # so that all of them begin, and what is refused ends
    held.may_end.set()
    await asyncio.gather(*waiting)
    with pytest.raises(ProblemError) as caught:
        await more
    assert (caught.value.status, caught.value.kind) == (503, "overloaded")
    await start()


def test_64_requests_wait_for_a_thread(tmp_path: Path) -> None:
    """Those that need one, and apart from them those whose filters are evaluated; eight batches run at once."""
    segmax.from_texts({"a": "noise"}, path=tmp_path / "papers")

    async def gone() -> None:
        await asyncio.Event().wait()

    async def scenario(client: httpx.AsyncClient) -> None:
        service = client._transport.app.service  # type: ignore[attr-defined]
        for way in (service.run, functools.partial(service.evaluate, gone=gone)):
            held = Held()
            await only(64, lambda way=way, held=held: way(held), held)  # type: ignore[misc]
        with contextlib.ExitStack() as batches:
            for _ in range(8):
                batches.enter_context(service.batch())
            with pytest.raises(ProblemError) as caught:
                batches.enter_context(service.batch())
            assert (caught.value.status, caught.value.kind) == (503, "overloaded")
        with service.batch():
            pass

    ask(settings_for(papers=tmp_path / "papers"), scenario)


def test_64_changes_wait_for_a_writer() -> None:
    """One that is being made is one of them."""

    class Writing:
        """A writer that takes its time."""

        commit = held = Held()

    threads = WriterThreads(Writing())  # type: ignore[arg-type]
    asyncio.run(only(64, lambda: threads.call("commit", "notes"), Writing.held))
    threads.close()


def test_four_million_characters_wait_for_an_encoder() -> None:
    """A text counts one more than it has; what comes when there are just as many still waits."""

    class Encoding:
        """An encoder that takes its time."""

        def __init__(self) -> None:
            self.held = Held()

        def query_rows(self, batch: Sequence[str]) -> Csr:
            self.held()
            return matrix_to_csr(sp.csr_matrix((len(batch), 1)))

    async def run() -> None:
        thread, encoder = EncoderThread("docs"), Encoding()
        thread._cost = 0.0  # a machine that is so fast that only this limit matters
        waiting = [asyncio.create_task(thread.encode(encoder, ["x" * (2**22 - 1)], None))]
        await asyncio.sleep(0)
        try:
            await only(1, lambda: thread.encode(encoder, [""], None), encoder.held)
        finally:
            encoder.held.may_end.set()
        await asyncio.gather(*waiting)
        thread.close()

    asyncio.run(run())


# --- with sockets ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service of its own with few connections."""
    path = tmp_path_factory.mktemp("sockets") / "papers.segmax"
    segmax.from_texts({"a": "noise"}, path=path)
    with serving(path, "--max-connections", 5) as it:
        yield it


def test_a_head_may_be_as_large_as_allowed(service: Service) -> None:
    """All bytes of a head count, from the method to the empty line."""
    start, end = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nX-Long: ", b"\r\n\r\n"
    for extra, status in ((0, b"200"), (1, b"431")):
        head = start + b"x" * (HEAD_BYTES + extra - len(start) - len(end)) + end
        with service.connect() as sock:
            sock.sendall(head)
            assert rest_of(sock).split(b" ", 2)[1] == status


def test_64_requests_wait_for_an_earlier_one(service: Service) -> None:
    """On one connection; one more than these and the first ends it."""
    request = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    last = request[:-2] + b"Connection: close\r\n\r\n"
    for count in (65, 66):
        with service.connect() as sock:
            sock.sendall(request * (count - 1) + last)  # a packet, which is read before anything is answered
            assert rest_of(sock).count(b"HTTP/1.1 200 ") == (count if count == 65 else 0)


def test_as_many_connections_as_allowed_are_open_at_once(service: Service) -> None:
    """The last that is allowed is answered, and the next one is not."""
    request = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    held = [service.connect() for _ in range(5)]
    try:
        for sock in held:
            sock.sendall(request)
            assert sock.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
        with service.connect() as sock:
            sock.sendall(request)
            assert rest_of(sock).startswith(b"HTTP/1.1 429 ")
    finally:
        for sock in held:
            sock.close()


# --- keys ------------------------------------------------------------------------------------------------------------


def keys_file(folder: Path, content: str, mode: int = 0o600) -> Path:
    """Write a file of keys."""
    path = folder / "keys"
    path.write_text(content)
    path.chmod(mode)
    return path


def test_a_key_has_sixteen_characters_at_least(tmp_path: Path) -> None:
    """Sixteen are enough; with one less the message names the line and the limit, and not the key."""
    assert Keys.from_file(keys_file(tmp_path, "read " + "k" * 16)).role("k" * 16) == "read"
    with pytest.raises(ConfigError, match=r"line 1.*at least 16 ASCII characters") as caught:
        Keys.from_file(keys_file(tmp_path, "read " + "k" * 15))
    assert "kkk" not in str(caught.value)


@pytest.mark.parametrize(
    ("mode", "is_open"), [(0o600, False), (0o640, False), (0o601, False), (0o604, True), (0o602, True)]
)
def test_keys_that_others_can_read_are_warned_about(tmp_path: Path, mode: int, is_open: bool) -> None:
    """The warning names the file and what to do; the keys are taken, and a group may read them.

    To run the file is of no use to anybody.
    """
    path = keys_file(tmp_path, "read " + "k" * 16, mode)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert Keys.from_file(path).role("k" * 16) == "read"
    found = [str(warning.message) for warning in caught if warning.category is SegmaxWarning]
    assert len(found) == is_open
    for message in found:
        assert f"chmod 600 '{path}'" in message
        assert "kkk" not in message


# --- filters and metadata --------------------------------------------------------------------------------------------


def refused(work: Callable[[], object], expected: str) -> None:
    """Check that something is refused, and that the message says what is allowed."""
    with pytest.raises(InputError) as caught:
        work()
    assert expected in str(caught.value)


def test_filters_may_be_as_deep_as_allowed() -> None:
    """Thirty-two levels, by expressions or by operators of a field."""
    operators: Any = {"$eq": 1}
    for _ in range(31):
        operators = {"$not": operators}
    for deepest, deeper in ((nested(31), nested(32)), ({"n": operators}, {"n": {"$not": operators}})):
        assert parse_where(deepest)
        refused(lambda deeper=deeper: parse_where(deeper), "at most 32 levels")  # type: ignore[misc]


def test_filters_may_have_as_many_parts_as_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests and the values in them count together, also in many branches."""
    monkeypatch.setattr(where, "_MOST_PARTS", 50)
    assert parse_where({"n": {"$in": list(range(49))}})
    refused(lambda: parse_where({"n": {"$in": list(range(50))}}), "at most 50 tests and values")
    branches = [{"n": number} for number in range(50)]
    assert parse_where({"$or": branches})
    refused(lambda: parse_where({"$or": [*branches, {"n": 51}]}), "at most 50 tests and values")


def test_filters_may_be_as_long_as_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What counts is the canonical text."""
    length = len(parse_where({"n": "x" * 100}).key)
    monkeypatch.setattr(where, "_MOST_CHARACTERS", length)
    assert parse_where({"n": "x" * 100})
    refused(lambda: parse_where({"n": "x" * 101}), f"at most {length:,} characters")


def test_metadata_may_be_as_large_as_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes of their JSON count."""
    size = len(json.dumps({"a": "xyz"}, separators=(",", ":")))
    monkeypatch.setattr(values, "_MOST_BYTES", size)
    assert len(values.to_json({"a": "xyz"}, 0)) == size
    refused(lambda: values.to_json({"a": "xyzä"}, 0), f"at most {size:,} bytes")
