"""How searches are taken on: what may hold up the event loop, what has to wait, what is counted."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import json
import os
import re
import signal
import socket
import threading
import types
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

pytest.importorskip("msgspec")
pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")

import segmax
from conftest import random_docs
from segmax.base.breaks import with_breaks
from segmax.search import queries
from segmax.search.index import Index
from segmax.serve import operations, searching
from segmax.serve.app import App
from segmax.serve.http_protocol import HttpToolsProtocol, _whole_search, guarded
from segmax.serve.searching import Admission
from segmax.serve.server import create_app
from segmax.serve.settings import Limits, Settings
from serve.in_process import BASE, LONGEST, settings_for
from serve.serving import PATIENCE, read_until, serving

SEARCH, BATCH = "/v1/indexes/docs/search", "/v1/indexes/docs/search/batch"
QUERY = {"vector": {"indices": [1, 2, 3], "values": [1.0, 2.0, 0.5]}}


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """An index with metadata, which searches take next to no time in."""
    path = tmp_path_factory.mktemp("docs") / "docs.segmax"
    metadata = [{"year": 1950 + number % 7} for number in range(200)]
    segmax.build(random_docs(np.random.default_rng(1), 200, 40), path=path, metadata=metadata)
    return settings_for(docs=path)


def with_app(settings: Settings, scenario: Callable[[App, httpx.AsyncClient], Awaitable[None]]) -> None:
    """Run a scenario with an application and a client of it, which may be the only one: nobody counts requests."""

    async def run() -> None:
        app = create_app(settings)
        await app.start()
        app.service.requests = [None]  # as a server says of the only request
        try:
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=BASE) as client:  # type: ignore[arg-type]
                await scenario(app, client)
        finally:
            await app.stop()

    asyncio.run(asyncio.wait_for(run(), LONGEST))


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Where searches and batches were searched: "loop" or "thread"."""
    found: list[str] = []

    def watch(name: str) -> None:
        really = getattr(Index, name)

        def watched(index: Index, *arguments: Any, **options: Any) -> Any:
            is_loop = threading.current_thread() is threading.main_thread()
            found.append("loop" if is_loop else "thread")
            return really(index, *arguments, **options)

        monkeypatch.setattr(Index, name, watched)

    watch("search")
    watch("search_batch")
    return found


def test_a_lone_batch_keeps_the_event_loop_only_while_it_is_cheap(settings: Settings, places: list[str]) -> None:
    """A batch of unknown or high cost is searched by a thread, as is one with filters or fields; a cheap one is not."""

    async def scenario(app: App, client: httpx.AsyncClient) -> None:
        async def place(count: int = 3, **more: Any) -> str:
            answer = await client.post(BATCH, json={"queries": [QUERY] * count, "k": 5, **more})
            assert answer.status_code == 200
            assert len(answer.json()["results"]) == count
            return places.pop()

        searcher = app.service.searchers["docs"]
        await asyncio.to_thread(app.service.catalog["docs"].warm)
        assert await place() == "thread"  # nothing is known yet
        (kind,) = searcher._costs  # it was learned from the batch
        searcher._costs[kind] = 0.0001
        assert await place() == "loop"
        assert await place(stats=True) == "thread"
        assert await place(fields=["metadata"]) == "thread"
        assert await place(where={"year": 1953}) == "thread"
        assert await place(params={"method": "exhaustive"}) == "thread"
        searcher._costs[kind] = 0.0001
        assert await place(64) == "thread"  # as cheap each, and too much together
        searcher._costs[kind] = 0.2
        assert await place(1) == "thread"
        app.service.requests = [None, None]
        searcher._costs[kind] = 0.0001
        assert await place() == "thread"  # somebody else waits

    with_app(settings, scenario)


def test_long_queries_of_a_batch_are_read_by_a_thread(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """What makes a matrix of them takes as long as they are; for few terms that is less than a thread takes."""
    read: list[bool] = []
    matrix = operations._matrix

    def watched(*arguments: Any) -> Any:
        read.append(threading.current_thread() is threading.main_thread())
        return matrix(*arguments)

    monkeypatch.setattr(operations, "_matrix", watched)
    long = {"vector": {"indices": list(range(4000)), "values": [1.0] * 4000}}

    async def scenario(app: App, client: httpx.AsyncClient) -> None:
        for body in ({"queries": [QUERY, long, long]}, {"queries": [long] * 3}):
            answer = await client.post(BATCH, json=body)
            assert len(answer.json()["results"]) == 3

    with_app(settings, scenario)
    assert read == [True, False]


def test_cheap_searches_say_nothing_about_long_queries(settings: Settings, places: list[str]) -> None:
    """Where searches for a few terms are cheap, the first for many are searched by a thread, alone or in a batch."""
    long = {"vector": {"indices": list(range(40)), "values": [1.0] * 40}}

    async def scenario(app: App, client: httpx.AsyncClient) -> None:
        async def place(address: str, body: dict[str, Any]) -> str:
            assert (await client.post(address, json=body)).status_code == 200
            return places.pop()

        costs = app.service.searchers["docs"]._costs
        await asyncio.to_thread(app.service.catalog["docs"].warm)
        assert await place(SEARCH, QUERY) == "thread"
        (few,) = costs
        costs[few] = 0.0001
        assert await place(SEARCH, QUERY) == "loop"
        assert await place(SEARCH, long) == "thread"
        (many,) = costs.keys() - {few}
        costs.pop(many)
        costs[few] = 0.0001
        assert await place(BATCH, {"queries": [QUERY] * 3}) == "loop"
        costs[few] = 0.0001
        assert await place(BATCH, {"queries": [QUERY, long]}) == "thread"
        costs |= {few: 0.0001, many: 0.2}
        assert await place(BATCH, {"queries": [QUERY, long]}) == "thread"
        assert await place(SEARCH, long | {"budget_ms": 60_000}) == "thread"
        costs |= {few: 0.0001, many: 0.0002}
        assert await place(BATCH, {"queries": [QUERY, long]}) == "loop"

    with_app(settings, scenario)


def test_what_waited_is_judged_by_what_is_known_when_its_turn_comes(settings: Settings, places: list[str]) -> None:
    """A search of which nothing was known when it came is no cheap one, if another of its kind has shown the cost."""

    async def scenario(app: App, client: httpx.AsyncClient) -> None:
        searcher, source = app.service.searchers["docs"], app.service.catalog["docs"].source
        found = searcher.submit(source, ([1, 2, 3], [1.0, 2.0, 0.5]), 10, None, None, None)
        searcher._costs[searcher._waiting[0].kind] = 0.2
        assert len(await found) == 10
        assert places == ["thread"]

    with_app(settings, scenario)


def test_queries_of_a_batch_have_taken_as_long_as_they_are(settings: Settings) -> None:
    """Of the time of a batch, one of 3,000 terms has taken nearly all, and 63 short ones nearly none."""

    async def scenario(app: App, client: httpx.AsyncClient) -> None:
        searcher = app.service.searchers["docs"]
        searcher.learn([3] * 63 + [3000], [10] * 64, [None] * 64, 0.1)
        (few, cheap), (many, dear) = sorted(searcher._costs.items())
        assert (few.term_bits, many.term_bits) == (2, 12)
        assert dear > 0.09
        assert 63 * cheap + dear == pytest.approx(0.1)
        searcher.learn([1, 1], [10, 1000], [None] * 2, 0.1)  # of which it is not known what took the time
        assert len(searcher._costs) == 2

    with_app(settings, scenario)


def figure(text: str, name: str) -> float:
    """Return a figure of the index."""
    return sum(float(line.split()[1]) for line in text.splitlines() if line.startswith(f'{name}{{index="docs"'))


def test_searches_for_groups_are_counted(settings: Settings) -> None:
    """A search with groups is a search in the figures, and what it scored is counted once."""

    async def scenario(app: App, client: httpx.AsyncClient) -> None:
        async def figures() -> list[float]:
            text = (await client.get("/metrics")).text
            names = ["search_seconds_count", "documents_scored_total", "batches_total"]
            return [figure(text, f"segmax_{name}") for name in names]

        before = await figures()
        plain = await client.post(SEARCH, json=QUERY | {"k": 64, "stats": True})
        after = await figures()
        scored = plain.json()["stats"]["docs_scored"]
        assert [now - then for now, then in zip(after, before, strict=True)] == [1, scored, 1]
        answer = await client.post(SEARCH, json=QUERY | {"k": 3, "group_by": "year"})
        assert len(answer.json()["groups"]) == 3
        grouped = await figures()
        assert [now - then for now, then in zip(grouped, after, strict=True)] == [1, scored, 1]
        await client.post(SEARCH, json=QUERY | {"k": 3, "group_by": "nothing"})
        assert (await figures())[0] - grouped[0] == 1  # also one that finds no group

    with_app(settings, scenario)


def test_searches_for_groups_wait_their_turn(settings: Settings) -> None:
    """Where searches would have to wait too long, those with groups are refused as others are."""
    strict = dataclasses.replace(settings, limits=Limits(wait_ms=1e-6))

    async def scenario(app: App, client: httpx.AsyncClient) -> None:
        body = QUERY | {"k": 3, "group_by": "year"}
        answers = await asyncio.gather(*(client.post(SEARCH, json=body) for _ in range(100)))
        refused = [answer for answer in answers if answer.status_code == 503]
        assert 0 < len(refused) < 100
        assert {answer.status_code for answer in answers} == {200, 503}
        assert app.service.admission.num_waiting == 0
        assert (await client.post(SEARCH, json=body)).status_code == 200

    with_app(strict, scenario)


def test_a_search_whose_time_is_over_before_its_turn_is_refused(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets 503, as one that comes too late does; one that has time left is searched, and so is one that is alone."""
    go_on, search = threading.Event(), Index.search

    def slow(index: Index, *arguments: Any, **options: Any) -> Any:
        assert go_on.wait(PATIENCE)
        return search(index, *arguments, **options)

    monkeypatch.setattr(Index, "search", slow)

    async def scenario(app: App, client: httpx.AsyncClient) -> None:
        searcher = app.service.searchers["docs"]
        ways: list[dict[str, Any]] = [{}, {"budget_ms": 60_000}, {"budget_ms": 50_000}]
        asked = []
        for way in [*ways, {"budget_ms": 40_000}]:
            asked.append(asyncio.create_task(client.post(SEARCH, json=QUERY | way)))
            while app.service.admission.num_waiting < len(asked):
                await asyncio.sleep(0.001)
        for job in list(searcher._waiting)[1:]:  # behind the first, and one that has time
            job.deadline = 0.0
        go_on.set()
        answers = await asyncio.gather(*asked)
        assert [answer.status_code for answer in answers] == [200, 200, 503, 503]
        for answer in answers[2:]:
            assert answer.json()["type"] == "urn:segmax:problem:overloaded"
            assert answer.headers["retry-after"] == "1"
        assert (app.service.admission.num_waiting, app.service.admission.backlog) == (0, 0.0)
        alone = await client.post(SEARCH, json=QUERY | {"budget_ms": 1e-6})
        assert alone.status_code == 200

    with_app(settings, scenario)


def test_groups_hold_up_no_other_search(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others are searched beside them; what is taken on counts both."""
    go_on, search = threading.Event(), Index.search

    def slow(index: Index, *arguments: Any, **options: Any) -> Any:
        assert options.get("group_by") is None or go_on.wait(PATIENCE)
        return search(index, *arguments, **options)

    monkeypatch.setattr(Index, "search", slow)

    async def scenario(app: App, client: httpx.AsyncClient) -> None:
        app.service.admission.usual_cost = 600.0
        asked = [asyncio.create_task(client.post(SEARCH, json=QUERY | {"group_by": "year"})) for _ in range(5)]
        while app.service.admission.num_waiting < len(asked):
            await asyncio.sleep(0.001)
        for more in ({}, {"where": {"year": 1953}}, {"budget_ms": 60_000}):
            assert (await client.post(SEARCH, json=QUERY | more)).status_code == 200
        late = await client.post(SEARCH, json=QUERY | {"group_by": "year", "budget_ms": 60_000})
        assert late.status_code == 503  # other groups have their turn before
        assert app.service.admission.num_waiting == len(asked)
        go_on.set()
        assert {answer.status_code for answer in await asyncio.gather(*asked)} == {200}

    with_app(settings, scenario)


def test_a_budget_ends_a_search_for_groups(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """It returns what it found until then, says so, and is counted as cut short."""
    monkeypatch.setattr(queries, "with_breaks", functools.partial(with_breaks, every=1))

    async def scenario(app: App, client: httpx.AsyncClient) -> None:
        # In every block of the index, of which a search looks at some, however late it is.
        body = {"vector": {"indices": list(range(40)), "values": [1.0] * 40}, "k": 7, "group_by": "year"}
        body |= {"group_size": 30}
        whole = (await client.post(SEARCH, json=body)).json()
        assert whole["complete"]
        cut = await client.post(SEARCH, json=body | {"budget_ms": 1e-6})
        assert cut.status_code == 200
        assert not cut.json()["complete"]
        assert 'segmax_searches_partial_total{index="docs"} 1.0' in (await client.get("/metrics")).text

    with_app(settings, scenario)


def test_the_offset_of_a_batch_is_part_of_its_depth(settings: Settings, places: list[str]) -> None:
    """What such a batch took is about as many results as were looked for, and so is what it is expected to take."""

    async def scenario(app: App, client: httpx.AsyncClient) -> None:
        costs = app.service.searchers["docs"]._costs
        await asyncio.to_thread(app.service.catalog["docs"].warm)
        for offset, k_bits in ((0, 1), (90, 7)):
            body = {"queries": [QUERY] * 2, "k": 1, "offset": offset}
            costs.clear()
            assert (await client.post(BATCH, json=body)).status_code == 200
            ((kind, _),) = costs.items()
            assert kind.k_bits == k_bits
            costs[kind] = 0.0001
            await client.post(BATCH, json=body)
            assert places[-2:] == ["thread", "loop"]

    with_app(settings, scenario)


def test_costs_are_those_of_the_index_that_is_served(settings: Settings, places: list[str], tmp_path: Path) -> None:
    """In an index that takes the place of another one, a search is as unknown as the first was."""
    path = tmp_path / "docs.segmax"
    docs = random_docs(np.random.default_rng(2), 200, 40)
    segmax.build(docs, path=path)

    async def scenario(app: App, client: httpx.AsyncClient) -> None:
        async def place(address: str, body: dict[str, Any]) -> str:
            assert (await client.post(address, json=body)).status_code == 200
            return places.pop()

        costs, served = app.service.searchers["docs"]._costs, app.service.catalog["docs"]
        for address, body in ((SEARCH, QUERY), (BATCH, {"queries": [QUERY]})):
            await asyncio.to_thread(served.warm)
            assert await place(address, body) == "thread"
            ((kind, _),) = costs.items()
            costs[kind] = 0.0001
            assert await place(address, body) == "loop"
            segmax.build(docs, path=path, overwrite=True)
            await asyncio.to_thread(served.follow)

    with_app(settings_for(docs=path), scenario)


# --- refused before they are requests --------------------------------------------------------------------------------

BODY = b'{"vector":{"indices":[1],"values":[1.0]}}'
START = b"POST /v1/indexes/docs/search HTTP/1.1\r\n"
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
WHOLE = START + b"Host: 127.0.0.1\r\nContent-Type: application/json\r\n" + LENGTH + b"\r\n" + BODY


@pytest.fixture
def admission() -> Iterator[Admission]:
    """What takes on searches for one thread that may wait ten milliseconds, on an event loop that does not run."""
    loop = asyncio.new_event_loop()

    async def made() -> Admission:
        return Admission(0.01, 1)

    yield loop.run_until_complete(made())
    loop.close()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time by which searches are taken on."""
    now = [100.0]
    monkeypatch.setattr(searching.time, "perf_counter", lambda: now[0])
    return now


def test_the_lag_of_the_event_loop_counts_as_waiting(admission: Admission, clock: list[float]) -> None:
    """What comes while the loop works has waited in its socket for as long; once it comes round, it has not."""
    loop = admission._loop

    async def rounds() -> None:
        for _ in range(4):
            await asyncio.sleep(0)

    assert not admission.is_full()
    for _ in range(20):
        admission.note_coming()
    assert not admission.is_full()  # eight milliseconds
    for _ in range(20):
        admission.take(1e-4, None, clock[0])
    admission._forget_coming()  # as the loop does before it takes them
    assert not admission.is_full()
    clock[0] += 0.0079
    assert not admission.is_full()
    clock[0] += 0.0002
    assert admission.is_full()
    loop.run_until_complete(rounds())
    assert not admission.is_full()
    admission.note_busy()
    clock[0] += 0.02
    assert admission.is_full()
    for _ in range(5):
        admission.give_back(1e-4)
    assert not admission.is_full()  # so many may always wait


def test_what_has_come_is_expected_to_take_what_others_took(admission: Admission, clock: list[float]) -> None:
    """Where nothing waits, it depends on what searches took whether more are refused; one slow one changes little."""

    def num_taken() -> int:
        admission._num_coming = 0
        while not admission.is_full():
            admission._num_coming += 1
        return admission._num_coming

    assert num_taken() in (25, 26)  # of 0.4 milliseconds
    for _ in range(100):
        admission.learn(5e-5)
    assert 195 < num_taken() < 205
    admission.learn(2.0)
    assert num_taken() > 60
    for _ in range(100):
        admission.learn(2e-3)
    assert num_taken() == 16  # as many as may always wait


def test_costs_are_learned_for_what_nothing_is_known_about(settings: Settings) -> None:
    """What a search took is what the next ones are expected to take, of whatever kind."""

    async def scenario(app: App, client: httpx.AsyncClient) -> None:
        before = app.service.admission.usual_cost
        await client.post(SEARCH, json=QUERY)
        ((_, cost),) = app.service.searchers["docs"]._costs.items()
        assert app.service.admission.usual_cost == pytest.approx(before**0.9 * cost**0.1)

    with_app(settings, scenario)


def test_what_has_another_admission_is_not_refused_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that came whole becomes a request where nothing refuses its path."""
    read: list[bytes] = []
    monkeypatch.setattr(HttpToolsProtocol, "data_received", lambda _, data: read.append(data))
    sheds = {b"/v1/indexes/docs/search": object()}
    kind = guarded(Limits(), lambda *_: None, sheds.get, lambda: True, lambda *_: b"0" * 20)
    written: list[bytes] = []
    protocol = object.__new__(kind)
    protocol.transport = types.SimpleNamespace(is_closing=lambda: False, write=written.append)
    protocol.loop = types.SimpleNamespace(call_later=lambda *_: None, time=float)
    protocol.flow = types.SimpleNamespace(write_paused=False)
    protocol.cycle = protocol.client = protocol.timeout_keep_alive_task = None
    protocol.timeout_keep_alive = protocol._num_head_bytes = 0
    protocol.pipeline, protocol._piece, protocol._state, protocol._is_refused = [], b"", 0, False
    protocol.data_received(WHOLE)
    assert (len(written), read) == (1, [])
    protocol._num_head_bytes = 0
    protocol.data_received(WHOLE.replace(b"docs", b"rays"))
    assert (len(written), len(read)) == (1, 1)


def test_a_search_that_came_whole_is_recognized() -> None:
    """Headers may be spelled and ordered as HTTP allows."""
    for lines in (
        LENGTH,
        b"content-length:%d\r\n" % len(BODY),
        b"A: b: c\r\nCONTENT-LENGTH: %d \r\nZ:\r\n" % len(BODY),
    ):
        assert _whole_search(START + lines + b"\r\n" + BODY) == b"/v1/indexes/docs/search"


@pytest.mark.parametrize(
    "data",
    [
        WHOLE[:-1],
        WHOLE + b"P",
        WHOLE + WHOLE,
        WHOLE.replace(b"1.1\r", b"1.0\r"),
        WHOLE.replace(b"POST", b"GET"),
        WHOLE.replace(b"/search", b"/search/batch"),
        WHOLE.replace(b"/search", b"/search?a=b"),
        WHOLE.replace(b"docs", b"docs/x"),
        WHOLE.replace(LENGTH, b""),
        WHOLE.replace(LENGTH, LENGTH + LENGTH),
        WHOLE.replace(LENGTH, LENGTH + LENGTH.replace(b":", b" :")),
        WHOLE.replace(LENGTH, LENGTH.replace(b":", b" :")),
        WHOLE.replace(LENGTH, LENGTH.replace(b": ", b": +")),
        WHOLE.replace(LENGTH, LENGTH.replace(b": ", b": 0x")),
        WHOLE.replace(LENGTH, LENGTH + b" folded\r\n"),
        WHOLE.replace(LENGTH, LENGTH + b"Transfer-Encoding: chunked\r\n"),
        WHOLE.replace(LENGTH, LENGTH + b"Expect: 100-continue\r\n"),
        WHOLE.replace(LENGTH, LENGTH + b"Connection: close\r\n"),
        WHOLE.replace(LENGTH, LENGTH + b"no colon\r\n"),
        WHOLE.replace(LENGTH, LENGTH.replace(b"\r", b"")),
        WHOLE.replace(b"Host", b"Ho\0st"),
    ],
)
def test_what_could_be_understood_in_two_ways_is_read_as_any_request(data: bytes) -> None:
    """Nothing is refused early whose end is not certain, or after which the connection is to be closed."""
    assert _whole_search(WHOLE) is not None
    assert _whole_search(data) is None


def test_refused_searches_cost_no_connection(settings: Settings) -> None:
    """Of many searches at once some are refused; each connection gets one answer to each request, in order."""
    path = settings.paths["docs"]
    with serving(path, "--threads", 1, "--max-wait-ms", 0.001) as service, contextlib.ExitStack() as held:
        socks = [
            held.enter_context(socket.create_connection(("127.0.0.1", service.port), PATIENCE)) for _ in range(120)
        ]
        found: list[int] = []
        for _ in range(5):
            os.kill(service.pid, signal.SIGSTOP)  # so that all have come when it looks
            for sock in socks:
                sock.sendall(WHOLE)
            os.kill(service.pid, signal.SIGCONT)
            for sock in socks:
                head, _, body = read_until(sock, b"\r\n\r\n").partition(b"\r\n\r\n")
                while len(body) < int(re.findall(rb"content-length: (\d+)", head)[0]):
                    body += sock.recv(1 << 16)
                answer, status = json.loads(body), int(head.split()[1])
                found.append(status)
                if status == 503:
                    assert answer["type"] == "urn:segmax:problem:overloaded"
                    assert answer["instance"].encode() in head
                    assert b"retry-after: 1" in head
                    assert b"x-content-type-options: nosniff" in head
                else:
                    assert len(answer["hits"]) == 10
        assert found.count(200) >= 5 * 16  # as many as may always wait
        assert found.count(503) > 0
        text = service.ask("GET", "/metrics").body.decode()
        counted = re.findall(r'segmax_requests_total{operation="search",status="(\d+)"} (\S+)', text)
        assert {int(status): int(float(count)) for status, count in counted} == {
            status: found.count(status) for status in (200, 503)
        }
        assert int(float(re.findall(r"(?m)^segmax_requests_shed_total (\S+)", text)[0])) == found.count(503)
