"""Answers have a limit, and so has what a process holds of them: whoever asks for more is told, and others go on."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("msgspec")
pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")

import segmax
from segmax.errors import ConfigError
from segmax.serve.allowance import PIECE, Allowance, Share
from segmax.serve.problems import ProblemError
from segmax.serve.server import create_app
from segmax.serve.settings import Limits, Settings
from segmax.serve.streaming import Results
from segmax.storage.tables import DocIds
from serve.in_process import BASE, LONGEST, ask, get, post, settings_for
from serve.serving import eventually, memory_of, serving

NUM_DOCS = 20
NUM_WORDS = 400  # of a text
NUM_CHARS = 4000  # of a value
LIMIT = 15_000
TOO_LARGE = "urn:segmax:problem:answer-too-large"
IDS = [f"d{number}" for number in range(NUM_DOCS)]


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents whose titles, texts, metadata and vectors are all of thousands of bytes."""
    path = tmp_path_factory.mktemp("papers") / "papers.segmax"
    texts = [
        {"id": id, "title": "t" * NUM_CHARS, "text": " ".join(["noise", *(f"word{id}x{n}" for n in range(NUM_WORDS))])}
        for id in IDS
    ]
    metadata = [{"blob": id.ljust(NUM_CHARS, "é"), "n": number} for number, id in enumerate(IDS)]
    segmax.from_texts(texts, path=path, metadata=metadata)
    return path


@pytest.fixture(scope="module")
def settings(papers: Path) -> Settings:
    """What serves them with a small limit."""
    return dataclasses.replace(settings_for(papers=papers), limits=Limits(answer_bytes=LIMIT))


SEARCH = {"text": "noise", "k": NUM_DOCS}
WORDS = [f"wordd{number % NUM_DOCS}x{number // NUM_DOCS}" for number in range(500)]
#: Requests whose answers are too large, by address, and what to ask for less of.
LARGE: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("search", SEARCH | {"fields": ["text"]}, {"k": 2}),
    ("search", SEARCH | {"fields": ["title"]}, {"fields": []}),
    ("search", SEARCH | {"fields": ["metadata"]}, {"k": 1}),
    ("search", SEARCH | {"highlight": {"width": 10_000}}, {"highlight": False}),
    ("search", SEARCH | {"group_by": "n", "fields": ["text"]}, {"k": 2}),
    ("search/batch", {"queries": [{"text": "noise"}] * 3, "k": 2, "fields": ["text"]}, {"k": 1}),
    ("search/batch", {"queries": [{"text": "noise"}] * 20, "k": NUM_DOCS}, {"k": 5}),
    ("search/batch", {"queries": [{"text": "noise"}] * 60, "k": 1, "stats": True}, {"stats": False}),
    ("documents/get", {"ids": IDS, "fields": ["text"]}, {"ids": IDS[:2]}),
    ("documents/get", {"rows": list(range(NUM_DOCS)), "fields": ["metadata"]}, {"fields": ["row"]}),
    ("documents/get", {"ids": IDS, "fields": ["vector"]}, {"ids": IDS[3:4]}),
    ("facets", {"field": "blob"}, {"limit": 1}),
    ("encode", {"texts": [" ".join(WORDS)] * 5}, {"texts": ["noise"]}),
    ("terms", {"words": WORDS}, {"words": WORDS[:100]}),
]


@pytest.mark.parametrize(("path", "body", "less"), LARGE)
def test_an_answer_that_is_too_large_says_what_to_ask_for(
    settings: Settings, path: str, body: dict[str, Any], less: dict[str, Any]
) -> None:
    """Every operation that returns documents or many values refuses what is over the limit, and answers for less."""
    address = f"/v1/indexes/papers/{path}"

    async def scenario(client: httpx.AsyncClient) -> tuple[httpx.Response, httpx.Response]:
        return await client.post(address, json=body), await client.post(address, json=body | less)

    refused, answer = ask(settings, scenario)
    problem = refused.json()
    assert (refused.status_code, problem["type"], problem["expected"]) == (422, TOO_LARGE, f"at most {LIMIT:,} bytes")
    assert "fewer" in problem["hint"]
    assert answer.status_code == 200
    assert len(answer.content) <= LIMIT


def test_the_limit_is_that_of_the_bytes_sent(settings: Settings) -> None:
    """An answer of exactly as many bytes as allowed is sent; one byte more is refused."""
    for method, path, body in [
        ("POST", "documents/get", {"ids": IDS[:7]}),
        ("GET", "", None),
    ]:
        address = f"/v1/indexes/papers/{path}".rstrip("/")

        async def scenario(
            client: httpx.AsyncClient, method: str = method, address: str = address, body: Any = body
        ) -> httpx.Response:
            return await client.request(method, address, json=body)

        size = len(ask(dataclasses.replace(settings, limits=Limits()), scenario).content)
        for limit, status in ((size, 200), (size - 1, 422)):
            assert ask(dataclasses.replace(settings, limits=Limits(answer_bytes=limit)), scenario).status_code == status


def test_an_answer_that_is_too_large_is_not_made(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request for all texts reads no more of them than an answer may have."""
    read = []
    text_of = DocIds.text_of
    monkeypatch.setattr(DocIds, "text_of", lambda ids, row: read.append(row) or text_of(ids, row))
    assert post(settings, "/v1/indexes/papers/search", SEARCH | {"fields": ["text"]}).status_code == 422
    size = len(" ".join(f"wordd1x{n}" for n in range(NUM_WORDS)))
    assert 0 < len(read) <= LIMIT / size + 1


def test_answers_of_all_clients_share_an_allowance(papers: Path) -> None:
    """What would be too much for the process is refused for now, and is answered when others have read theirs."""
    body = {"ids": IDS[:8], "fields": ["text", "title", "metadata"]}
    size = len(post(settings_for(papers=papers), "/v1/indexes/papers/documents/get", body).content)
    assert size > 1 << 16  # smaller answers are not counted
    limits = Limits(answer_bytes=size, unread_bytes=2 * size)

    async def run() -> None:
        app = create_app(dataclasses.replace(settings_for(papers=papers), limits=limits))
        await app.start()
        is_read = asyncio.Event()

        async def deaf(scope: Any, receive: Any, send: Any) -> None:
            async def send_later(message: Any) -> None:
                if message["type"] == "http.response.body":
                    await is_read.wait()
                await send(message)

            await app(scope, receive, send_later)

        try:
            path, allowance = "/v1/indexes/papers/documents/get", app.service.allowance
            async with (
                httpx.AsyncClient(transport=httpx.ASGITransport(app=deaf), base_url=BASE) as unread,
                httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=BASE) as client,
            ):
                waiting = [asyncio.create_task(unread.post(path, json=body)) for _ in range(2)]
                while allowance.num_bytes < 2 * size:
                    await asyncio.sleep(0.001)
                refused = await client.post(path, json=body)
                assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
                assert refused.json()["type"].endswith(":overloaded")
                small = await client.post(path, json={"ids": IDS[:1], "fields": []})
                assert small.status_code == 200
                is_read.set()
                assert [(await task).status_code for task in waiting] == [200, 200]
                assert allowance.num_bytes == 0
                assert (await client.post(path, json=body)).status_code == 200
                assert allowance.num_bytes == 0
        finally:
            await app.stop()

    asyncio.run(asyncio.wait_for(run(), LONGEST))


def test_an_allowance_has_room_for_an_answer() -> None:
    """A limit of an answer that the process could never hold is refused when it is set."""
    Limits(answer_bytes=100, unread_bytes=100)
    with pytest.raises(ConfigError, match="answer_bytes"):
        Limits(answer_bytes=101, unread_bytes=100)


@pytest.mark.slow
def test_clients_that_never_read_hold_a_bounded_memory(tmp_path: Path) -> None:
    """Many clients that ask for much and read nothing cost no more than the allowance; small searches go on."""
    texts = {f"d{number}": "noise " + f"{number:06d} " * 150_000 for number in range(8)}  # a megabyte each
    segmax.from_texts(texts, path=tmp_path / "papers.segmax")
    body = json.dumps({"text": "noise", "k": 8, "fields": ["text"]}).encode()
    head = b"POST /v1/indexes/papers/search HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    request = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    with serving(tmp_path / "papers.segmax", "--max-answer-mb", 16, "--max-unread-mb", 32) as service:
        large = {"text": "noise", "k": 8, "fields": ["text"]}
        assert service.ask("POST", "/v1/indexes/papers/search", large).status == 200
        before = memory_of(service.pid)
        with contextlib.ExitStack() as deaf:
            for _ in range(30):
                deaf.enter_context(service.connect()).sendall(request)
            eventually(lambda: service.ask("POST", "/v1/indexes/papers/search", large).status == 503)
            assert memory_of(service.pid) - before < 100 << 20  # thirty answers are 250 MB
            assert service.search("papers", "noise", k=3)
        eventually(lambda: service.ask("POST", "/v1/indexes/papers/search", large).status == 200)


# --- streams ---------------------------------------------------------------------------------------------------------


def test_a_stream_waits_while_too_much_is_unread() -> None:
    """Results of lines wait for their reader sooner while the process holds too much, and are never refused."""

    async def run() -> None:
        allowance = Allowance(10, 70_000 - 1)
        others = Share(allowance)
        others.hold_more(70_000)
        is_read, sent = asyncio.Event(), []

        async def send(content: bytes) -> None:
            await is_read.wait()
            sent.append(content)

        results = Results(send, Share(allowance), at_once=True)
        line = b"x" * (1 << 15)
        await results.add(line)
        await asyncio.sleep(0)  # the first line is on its way
        for _ in range(2):
            await asyncio.wait_for(results.add(line), 10)  # and two may wait
        adding = asyncio.create_task(results.add(line))
        await asyncio.sleep(0.01)
        assert not adding.done()
        assert allowance.num_bytes == 70_000 + 4 * len(line)
        is_read.set()
        await asyncio.wait_for(adding, 10)
        await results.close()
        assert b"".join(sent) == 4 * line
        assert max(map(len, sent)) <= PIECE
        assert allowance.num_bytes == 70_000

    asyncio.run(run())


def test_a_stream_goes_on_when_others_have_read() -> None:
    """A stream that keeps its results for a proxy goes on as soon as there is room again, whoever made it."""

    async def run() -> None:
        allowance = Allowance(10, 1 << 20)
        others = Share(allowance)
        others.hold_more((1 << 20) + 1)
        is_read = asyncio.Event()

        async def send(content: bytes) -> None:
            await is_read.wait()

        results = Results(send, Share(allowance), at_once=False)
        adding = asyncio.create_task(results.add(b"x" * (1 << 17)))
        await asyncio.sleep(0.01)
        assert not adding.done()
        others.close()
        await asyncio.wait_for(adding, 10)
        is_read.set()
        await results.close()
        assert allowance.num_bytes == 0

    asyncio.run(run())


# --- counting --------------------------------------------------------------------------------------------------------


def test_lists_are_json_whatever_is_in_them() -> None:
    """Parts, also parts that have lists themselves, are one list of JSON, and are counted once."""
    share = Share(Allowance(1000, 1000))
    inner = ({"inner": share.listed([number] * number)} for number in range(3))
    found = share.listed(inner)
    assert json.loads(bytes(found)) == [{"inner": []}, {"inner": [1]}, {"inner": [2, 2]}]
    assert share.num_bytes == len(bytes(found))
    assert json.loads(bytes(share.listed([]))) == []


def test_what_was_counted_is_given_back_when_it_is_refused() -> None:
    """An answer that is refused leaves the allowance as it was; a small one takes nothing of it."""
    allowance = Allowance(1_000_000, 1_500_000)
    share, other, small = Share(allowance), Share(allowance), Share(allowance)
    with pytest.raises(ProblemError, match="at most 1,000,000 bytes"):
        share.listed(["x" * 300_000] * 10)
    assert allowance.num_bytes == share.num_bytes > 900_000
    with pytest.raises(ProblemError, match="not read"):
        other.hold(1_000_000)
    other.hold(500_000)
    small.hold(60_000)
    assert allowance.num_bytes == share.num_bytes + 500_000
    share.close()
    other.close()
    assert allowance.num_bytes == 0


def test_get_and_metrics_need_no_allowance(settings: Settings) -> None:
    """What is small is answered whatever else is going on."""
    none_left = dataclasses.replace(settings, limits=Limits(answer_bytes=50, unread_bytes=50))
    assert get(none_left, "/health").status_code == 200
    assert get(none_left, "/metrics").status_code == 200
