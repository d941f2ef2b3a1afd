"""Awaiting instead of waiting: the same answers, on asyncio, from a real service and from functions."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import pickle
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

httpx = pytest.importorskip("httpx")

from remote_samples import HITS, URL, Service, problem, same_hits, serving, write_collection  # noqa: E402

import segmax  # noqa: E402
from segmax.errors import IndexClosedError, InputError, ServiceError, UnknownIdError  # noqa: E402
from segmax.remote import AsyncRemoteCollection, AsyncRemoteIndex, connect_async  # noqa: E402


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection."""
    root = tmp_path_factory.mktemp("async")
    write_collection(root / "papers")
    return root


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    """A service of it."""
    with serving(folder / "papers", "--writable", "--snapshots", folder) as address:
        yield address


def run(work: Callable[[Any], Awaitable[None]], url: str, **options: Any) -> None:
    """Connect, and await some work."""

    async def connected() -> None:
        async with await connect_async(url, **options) as index:
            await work(index)

    asyncio.run(connected())


def test_answers_are_those_of_the_library(url: str, folder: Path) -> None:
    """What it is, and what is inside; tests/contract has the rest."""
    with segmax.open(folder / "papers") as here:

        async def work(there: Any) -> None:
            assert isinstance(there, AsyncRemoteCollection)
            assert (await there.refresh()).num_docs == here.num_docs
            assert (await there.inside("copper")).clusters == here.inside("copper").clusters
            assert await there.sizes() == here.sizes()
            assert (await there.cluster_sizes()).tolist() == sorted(here.cluster_sizes().tolist(), reverse=True)
            with pytest.raises(InputError, match="a collection"):
                await there.quantization_error()
            names = ["num_clusters", "num_segments", "num_postings", "num_bytes", "bits"]
            assert [getattr(there, name) for name in names] == [getattr(here, name) for name in names]
            assert ((await there.encode(["copper"])) != here.encoder.encode_queries(["copper"])).nnz == 0
            assert (await there.stats()).num_docs == here.num_docs
            assert "papers" in repr(there)

        run(work, url)


def test_pickles_connect_again(url: str, folder: Path) -> None:
    """A copy searches the same service, with another event loop and after the first one is closed, too."""
    pickled: list[bytes] = []

    async def pickle_it(there: Any) -> None:
        pickled.append(pickle.dumps(there))

    async def search() -> Any:
        async with pickle.loads(pickled[0]) as copy:
            assert type(copy) is AsyncRemoteCollection
            return await copy.search("copper")

    run(pickle_it, url)
    with segmax.open(folder / "papers") as here:
        same_hits(asyncio.run(search()), here.search("copper"))


def test_many_searches_at_the_same_time(url: str, folder: Path) -> None:
    """They share connections, and each gets its own answer."""
    with segmax.open(folder / "papers") as here:
        expected = {word: here.search(word).ids for word in ("copper", "noise", "tube", "phase")}

    async def work(there: Any) -> None:
        words = [*expected] * 10
        found = await asyncio.gather(*(there.search(word) for word in words))
        assert [hits.ids for hits in found] == [expected[word] for word in words]

    run(work, url, retries=10)


def test_writing(url: str) -> None:
    """All that changes a collection."""

    async def work(there: Any) -> None:
        assert await there.add([{"id": "n1", "text": "newest"}]) == 1
        assert await there.upsert({"id": f"n{number}", "text": "newest"} for number in range(3)) == 3
        assert await there.update({"id": "n1", "metadata": {"year": 1}}) == 1
        assert await there.update({"id": "n1", "metadata": {"month": 2}}) == 1
        assert (await there.get("n1")).metadata == {"year": 1, "month": 2}
        assert await there.update({"id": "n1", "metadata": {"month": None}}, replace_metadata=True) == 1
        assert (await there.get("n1")).metadata == {"month": None}
        assert (await there.search("newest")).ids == ["n0", "n1", "n2"]
        await there.commit()
        steps: list[Any] = []
        await there.compact(progress=steps.append)
        assert (steps[-1].stage, steps[-1].done, steps[-1].total) == ("compact", 1, 1)
        assert "papers" in await there.snapshot()
        assert await there.delete(["n0", "n1", "n2"]) == 3
        with pytest.raises(UnknownIdError):
            await there.get("n1")

    run(work, url)


async def _connected(service: Service, **options: Any) -> Any:
    return await connect_async(URL, transport=httpx.MockTransport(service), **options)


def awaited(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine."""
    asyncio.run(work)


def test_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads are repeated, adds are not."""
    waited = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    async def work() -> None:
        service = Service(HITS)
        index = await _connected(service)
        assert isinstance(index, AsyncRemoteIndex)
        monkeypatch.setattr(index._transport._anyio, "sleep", sleep)
        service.failures = [httpx.ConnectError("refused"), httpx.ReadError("lost"), problem(503, "overloaded")]
        assert (await index.search("copper")).ids == ["a", "c"]
        assert len(waited) == 3
        await index.close()
        await index.close()
        with pytest.raises(IndexClosedError):
            await index.search("copper")
        collection = await _connected(service := Service({"count": 1, "sequence": 1}, kind="collection"))
        service.failures = [httpx.ReadError("lost")]
        with pytest.raises(ServiceError, match="may or may not have happened"):
            await collection.add(["copper"], ids=["a"])
        assert len(service.requests) == 1

    awaited(work())


def test_a_target_of_recall_is_sent() -> None:
    """Of one search and of a batch."""
    one, several = Service(HITS), Service({"results": [HITS, HITS], "took_ms": 1})

    async def work() -> None:
        await (await _connected(one)).search("copper", target_recall=0.9)
        await (await _connected(several)).search_batch(["copper", "noise"], target_recall=0.8)

    awaited(work())
    assert [sent["target_recall"] for sent in (*one.sent, *several.sent)] == [0.9, 0.8]


def test_timeouts() -> None:
    """A service that does not answer in time is given up, whatever it sends meanwhile."""

    async def slow(request: httpx.Request) -> httpx.Response:
        if request.url.path != "/v1/indexes":
            await asyncio.sleep(30)
        return Service()(request)

    async def work() -> None:
        index = await connect_async(URL, transport=httpx.MockTransport(slow))
        index._transport.wire = dataclasses.replace(index._transport.wire, timeout=0.3)  # not for connecting
        with pytest.raises(ServiceError, match="it took longer than"):
            await index.search("copper")

    awaited(work())


def test_cancelling() -> None:
    """A search that is cancelled ends at once, and the connection can be used again."""
    service = Service(HITS)
    hold = True

    async def slow(request: httpx.Request) -> httpx.Response:
        if hold and request.url.path != "/v1/indexes":
            await asyncio.sleep(30)
        return service(request)

    async def work() -> None:
        nonlocal hold
        index = await connect_async(URL, transport=httpx.MockTransport(slow))
        task = asyncio.create_task(index.search("copper"))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        hold = False
        assert (await index.search("copper")).ids == ["a", "c"]

    awaited(work())


def test_streams_of_documents_are_sent_in_batches() -> None:
    """A generator of documents is read as it is sent."""
    service = Service(kind="collection")
    read: list[int] = []
    read_before: list[int] = []

    def answer(request: httpx.Request) -> httpx.Response:
        read_before.append(len(read))
        lines = [json.loads(line) for line in request.content.splitlines()]
        results = [{"line": number, "ok": True, "id": one["id"]} for number, one in enumerate(lines, start=1)]
        end = {"done": True, "count": len(lines), "errors": 0, "sequence": 1}
        body = "\n".join(json.dumps(line) for line in [*results, end]) + "\n"
        return httpx.Response(200, content=body, headers={"content-type": "application/x-ndjson"})

    def documents() -> Iterator[dict[str, Any]]:
        for number in range(5000):
            read.append(number)
            yield {"id": str(number), "text": "copper"}

    async def work() -> None:
        service._answer = answer
        collection = await _connected(service)
        assert await collection.add(documents()) == 5000

    awaited(work())
    assert read_before[0] < 3000
    assert len(read_before) >= 4
