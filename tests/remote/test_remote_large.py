"""Answers that a service does not give at once: the client asks for them in pieces, and nobody notices."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from remote_samples import HITS, Service, problem, same_batch, same_hits, serving

import segmax
from segmax.errors import ConfigError, ServiceError, UnknownIdError
from segmax.remote import connect_async

NUM_DOCS = 60
LIMIT_MB = 0.03  # of which a document takes a third


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection whose texts and metadata together are much more than an answer may be."""
    found = tmp_path_factory.mktemp("large") / "papers"
    with segmax.Collection.create(found, encoder="bm25") as collection:
        for number in range(NUM_DOCS):
            words = [f"w{number}x{place}" for place in range(600)]
            text = {"title": f"t{number}", "text": " ".join(["noise"] * (1 + number % 3) + words)}
            blob = {"blob": "é" * 1500, "n": number % 7}
            collection.add([{"id": f"d{number}", **text, "metadata": blob}])
    return found


@pytest.fixture(scope="module")
def url(path: Path) -> Iterator[str]:
    """A service of it that gives small answers."""
    with serving(path, "--max-answer-mb", LIMIT_MB) as address:
        yield address


@pytest.fixture(scope="module")
def here(path: Path) -> Iterator[Any]:
    """The same on this machine."""
    with segmax.open(path) as found:
        yield found


def same_texts(found: Any, expected: Any) -> None:
    """Results, texts and metadata are the same."""
    same_hits(found, expected)
    assert found.texts == expected.texts
    assert found.metadata == expected.metadata


def same_titles(found: Any, expected: Any) -> None:
    """Results, titles and metadata are the same."""
    same_hits(found, expected)
    assert found.titles == expected.titles
    assert found.metadata == expected.metadata


QUERIES = ["noise", "w3x5", "noise w7x8"]


def test_results_come_in_pieces(url: str, here: Any) -> None:
    """Texts and metadata are those of the library, whether they come with the results or later."""
    with segmax.connect(url, index="papers") as there:
        for fields in (["text", "metadata"], ["metadata"], []):
            same_texts(there.search("noise", NUM_DOCS, fields=fields), here.search("noise", NUM_DOCS))
            batch, expected = there.search_batch(QUERIES, 40, fields=fields), here.search_batch(QUERIES, 40)
            same_batch(batch, expected)
            for hits, others in zip(batch, expected, strict=True):
                same_texts(hits, others)
        titled = there.search("noise", NUM_DOCS, fields=["title", "metadata"])
        assert not titled._docs._texts  # they were not asked for
        same_titles(titled, here.search("noise", NUM_DOCS))
        groups = there.search("noise", 7, group_by="n", group_size=9, fields=["text", "metadata"])
        expected = here.search("noise", 7, group_by="n", group_size=9)
        assert groups.values == expected.values
        for group, other in zip(groups, expected, strict=True):
            assert group.hits.texts == other.hits.texts
            assert group.hits.metadata == other.hits.metadata
        budget = segmax.ASC(budget_ms=10_000)
        same_texts(there.search_batch(QUERIES, 40, budget, fields=["text"])[0], here.search_batch(QUERIES, 40)[0])


def test_documents_come_in_pieces(url: str, here: Any) -> None:
    """So do documents, vectors and words that are looked up."""
    ids = [f"d{number}" for number in range(NUM_DOCS)]
    with segmax.connect(url, index="papers") as there:
        assert (there.vectors(ids) != here.vectors(ids)).nnz == 0
        assert there.get(ids) == here.get(ids)
        numbers = list(range(3000))
        assert [there.terms[number] for number in numbers[:3]] == [here.terms[number] for number in numbers[:3]]
        assert there.terms[:3000] == [here.terms[number] for number in numbers]
        texts = [here.text(id).text for id in ids]
        assert np.array_equal(there.encoder.query_rows(texts).values, here.encoder.query_rows(texts).values)


def test_whoever_awaits_notices_nothing_either(url: str, here: Any) -> None:
    """The same with coroutines, where results have to come with their texts."""

    async def work() -> None:
        async with await connect_async(url, index="papers") as there:
            found = await there.search("noise", NUM_DOCS, fields=["text", "metadata"])
            same_texts(found, here.search("noise", NUM_DOCS))
            batch = await there.search_batch(QUERIES, 40, fields=["text", "metadata"])
            for hits, others in zip(batch, here.search_batch(QUERIES, 40), strict=True):
                same_texts(hits, others)
            found = await there.search("noise", NUM_DOCS, fields=["title", "metadata"])
            same_titles(found, here.search("noise", NUM_DOCS))

    asyncio.run(work())


def test_batches_come_in_pieces(url: str, here: Any) -> None:
    """Also without documents, of which nothing could be left out."""
    queries = ["noise"] * 200
    expected = here.search_batch(queries, 40)

    async def work() -> None:
        async with await connect_async(url, index="papers") as there:
            same_batch(await there.search_batch(queries, 40), expected)

    with segmax.connect(url, index="papers") as there:
        same_batch(there.search_batch(queries, 40), expected)
    asyncio.run(work())


# --- from functions --------------------------------------------------------------------------------------------------


def too_large() -> httpx.Response:
    """The answer to a request for too much."""
    return problem(422, "answer-too-large", option="answer")


def test_pieces_become_smaller_until_they_fit() -> None:
    """Half as many are asked for, then no more than what fitted; every document comes once, in order."""

    def answer(request: httpx.Request) -> httpx.Response:
        ids = json.loads(request.content)["ids"]
        if len(ids) > 2:
            return too_large()
        documents = [{"id": id, "text": f"text of {id}", "metadata": None} for id in ids]
        return httpx.Response(200, json={"documents": documents})

    limits = {"batch": 10, "batch_results": 100, "k": 50, "body_bytes": 1 << 20}
    service = Service(answer, kind="collection", limits=limits)
    with service.connect() as there:
        found = there.get([f"d{number}" for number in range(7)])
    assert [document.text.text for document in found] == [f"text of d{number}" for number in range(7)]
    assert [len(sent["ids"]) for sent in service.sent] == [7, 4, 2, 2, 2, 1]


def test_batches_become_smaller_until_they_fit() -> None:
    """Half as many queries are asked, then no more than what fitted; every query is answered once, in order."""

    def answer(request: httpx.Request) -> httpx.Response:
        queries = json.loads(request.content)["queries"]
        if len(queries) > 2:
            return too_large()
        hits = [HITS["hits"][:1] if query["vector"]["values"][0] > 3 else [] for query in queries]  # type: ignore[index]
        return httpx.Response(200, json={"results": [{**HITS, "hits": one} for one in hits]})

    service = Service(answer, limits={"batch": 10, "batch_results": 1000, "k": 50, "body_bytes": 1 << 20})
    with service.connect() as there:
        found = there.search_batch([{1: 1.0 + number} for number in range(13)], 3)
    assert found.counts.tolist() == [0] * 3 + [1] * 10
    assert [len(sent["queries"]) for sent in service.sent] == [10, 5, 3, 2, 2, 2, 2, 2, 2, 1]


def test_a_batch_whose_query_has_too_much_is_an_error() -> None:
    """One query cannot be halved."""
    service = Service(
        lambda request: too_large(), limits={"batch": 4, "batch_results": 1000, "k": 50, "body_bytes": 9999}
    )
    with service.connect() as there, pytest.raises(ConfigError, match="it is wrong"):
        there.search_batch([{1: 1.0}] * 4, 3)
    assert [len(sent["queries"]) for sent in service.sent] == [4, 2, 1]


def test_what_the_client_does_not_take_comes_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service whose answers may be longer than those that the client reads is asked for less, too."""
    monkeypatch.setattr("segmax.remote.transport._MOST_BYTES", 2000)

    def answer(request: httpx.Request) -> httpx.Response:
        ids = json.loads(request.content)["ids"]
        return httpx.Response(200, json={"documents": [{"id": id, "text": "x" * 600, "metadata": None} for id in ids]})

    service = Service(answer, kind="collection", limits={"batch": 10, "batch_results": 9, "k": 50, "body_bytes": 9999})
    with service.connect() as there:
        assert [one.text.text for one in there.get(["a", "b", "c", "d", "e"])] == ["x" * 600] * 5
        monkeypatch.setattr("segmax.remote.transport._MOST_BYTES", 600)
        with pytest.raises(ServiceError, match="sent an answer of more than"):
            there.get(["a", "b"])


def test_a_document_that_is_too_large_by_itself_is_an_error() -> None:
    """What cannot be smaller is the user's to know."""
    service = Service(lambda request: too_large(), kind="collection")
    with service.connect() as there:
        with pytest.raises(ConfigError, match="it is wrong"):
            there.get(["a", "b"])
        with pytest.raises(ConfigError, match="it is wrong"):
            there.search({1: 1.0}, 3)
    assert [len(sent["ids"]) for sent in service.sent if "ids" in sent] == [2, 1]


def test_a_document_that_was_deleted_meanwhile_is_an_error() -> None:
    """Results whose documents are fetched apart may be gone by then, and the error says so."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/documents/get"):
            return problem(404, "unknown-document", "no document has the id 'a'")
        return too_large() if len(json.loads(request.content)["fields"]) > 1 else httpx.Response(200, json=HITS)

    with Service(answer).connect() as there, pytest.raises(UnknownIdError, match=r"'a'.*deleted"):
        there.search({1: 1.0}, 3, fields=["text"])
