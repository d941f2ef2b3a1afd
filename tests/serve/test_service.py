"""The service, asked in this process: every operation, who may ask, and what bad requests are answered."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import itertools
import json
import os
import threading
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

pytest.importorskip("msgspec")
pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")

import segmax
from calibrations import LOSSY, lossy_at
from conftest import random_docs
from segmax.base.breaks import with_breaks
from segmax.base.files import write_errors
from segmax.collection import maintenance
from segmax.collection.store import Store
from segmax.errors import ConfigError
from segmax.metadata import Metadata
from segmax.search.index import Index
from segmax.serve.security import HostCheck, Keys
from segmax.serve.service import Service
from segmax.serve.settings import Limits, Settings
from serve.in_process import ask, get, post, settings_for

TEXTS = {
    "tubes": "noise of microwave tubes",
    "copper": "a waveguide of copper",
    "diodes": "noise in crystal diodes",
    "café": "the café of waves",
}
METADATA = [{"year": 1957, "tags": ["a", "b"]}, {"year": 1960}, {"year": 1962, "tags": ["b"]}, {"year": 2**70}]
READ, WRITE = "read-0123456789abcdef", "write-0123456789abcdef"


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of texts with metadata."""
    path = tmp_path_factory.mktemp("papers") / "papers.segmax"
    segmax.from_texts(TEXTS, path=path, metadata=METADATA)
    return path


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of vectors with integer ids."""
    path = tmp_path_factory.mktemp("vectors") / "vectors.segmax"
    segmax.build(random_docs(np.random.default_rng(1), 500, 60), path=path, ids=range(100, 600), num_clusters=8)
    return path


@pytest.fixture
def settings(papers: Path, vectors: Path) -> Settings:
    """Both of them, read-only."""
    return settings_for(papers=papers, vectors=vectors)


@pytest.fixture
def collection(tmp_path: Path) -> Settings:
    """A collection that can be changed."""
    with segmax.Collection.create(tmp_path / "notes", encoder="bm25") as made:
        made.add([{"id": "a", "text": "copper", "metadata": {"year": 1957}}])
    (tmp_path / "copies").mkdir()
    return Settings(paths={"notes": tmp_path / "notes"}, writable=True, snapshots=tmp_path / "copies")


# --- searching -------------------------------------------------------------------------------------------------------


def test_fields_and_highlights_come_on_request(settings: Settings) -> None:
    """Texts come in pieces, so that a page can mark words without trusting the text."""
    body = {"text": "waveguides", "fields": ["title", "text", "metadata"], "highlight": {"width": 40}}
    hit = post(settings, "/v1/indexes/papers/search", body).json()["hits"][0]
    assert hit["id"] == "copper"
    assert hit["metadata"] == {"year": 1960}
    assert hit["highlights"]["text"] == [
        {"text": "a "},
        {"text": "waveguide", "match": True},
        {"text": " of copper"},
    ]


def test_numbers_of_any_size_survive(settings: Settings) -> None:
    """Metadata may hold integers beyond 64 bits."""
    hits = post(settings, "/v1/indexes/papers/search", {"text": "café", "fields": ["metadata"]}).json()["hits"]
    assert hits[0]["metadata"] == {"year": 2**70}


def test_the_last_word_may_be_the_start_of_one(settings: Settings) -> None:
    """With `prefix`, what is typed so far finds words that start with it, and `explain` says why."""
    body = {"text": "waveg", "prefix": True, "id": "copper"}
    why = post(settings, "/v1/indexes/papers/explain", body).json()
    assert (why["rank"], why["matched"][0]["word"]) == (1, "waveguid")
    del body["id"]
    inside = post(settings, "/v1/indexes/papers/inside", body).json()
    assert sum(cluster["num_hits"] for cluster in inside["clusters"]) == 1
    plain = post(settings, "/v1/indexes/papers/search", {"text": "waveg"}).json()
    found = post(settings, "/v1/indexes/papers/search", {"text": "waveg", "prefix": True}).json()
    assert plain["hits"] == []
    assert [hit["id"] for hit in found["hits"]] == ["copper"]


def test_a_target_recall_is_about_the_depth_of_a_search(tmp_path: Path) -> None:
    """What it chooses was measured at k + offset; with a filter a search is exact, in a batch query by query."""
    path = tmp_path / "calibrated.segmax"
    docs = random_docs(np.random.default_rng(1), 500, 60)
    index = segmax.build(docs, metadata=[{"n": row % 3} for row in range(500)])
    index._set_calibration(lossy_at(20))
    index.save(path)
    pair = ([1, 2, 3, 4], [1.0, 2.0, 3.0, 1.5])
    query = {"vector": {"indices": pair[0], "values": pair[1]}}
    where = {"n": 1}
    ways: list[tuple[dict[str, Any], segmax.ASC]] = [
        ({"k": 20}, LOSSY),
        ({"k": 5, "offset": 15}, LOSSY),
        ({"k": 20, "offset": 1}, segmax.ASC()),
        ({"k": 10}, segmax.ASC()),
        ({"k": 20, "where": where}, segmax.ASC()),
    ]

    async def scenario(client: httpx.AsyncClient) -> list[list[Any]]:
        found = []
        for way, _ in ways:
            single = await client.post("/v1/indexes/calibrated/search", json={**query, **way, "target_recall": 0.9})
            body = {"queries": [query, {**query, "where": where}], **way, "target_recall": 0.9}
            batch = await client.post("/v1/indexes/calibrated/search/batch", json=body)
            answers = [single.json(), *batch.json()["results"]]
            found.append([[hit["id"] for hit in answer["hits"]] for answer in answers])
        return found

    assert index.search(pair, 20, LOSSY).ids != index.search(pair, 20).ids
    answers = ask(settings_for(calibrated=path), scenario)
    for (way, params), (single, plain, filtered) in zip(ways, answers, strict=True):
        assert single == plain == index.search(pair, params=params, **way).ids
        assert filtered == index.search(pair, **{**way, "where": where}).ids


def test_methods_are_named_as_in_python(settings: Settings, vectors: Path) -> None:
    """`params` and `target_recall` choose the same search as in Python."""
    index = segmax.open(vectors)
    query = {"vector": {"indices": [1, 2, 3], "values": [1.0, 2.0, 3.0]}, "stats": True}
    ways = [
        ({"params": {"method": "asc", "eta": 0.7}}, {"params": segmax.ASC(eta=0.7)}),
        ({"params": {"method": "sequential", "mu": 0.5}}, {"params": segmax.paper.ASC(mu=0.5)}),
        ({"params": {"method": "exhaustive"}}, {"params": segmax.Exhaustive()}),
        ({"target_recall": 0.9}, {"target_recall": 0.9}),
    ]
    for asked, given in ways:
        found = post(settings, "/v1/indexes/vectors/search", {**query, **asked}).json()
        expected = index.search(([1, 2, 3], [1.0, 2.0, 3.0]), **given)
        assert [hit["id"] for hit in found["hits"]] == expected.ids
        assert found["stats"]["docs_scored"] == expected.stats.docs_scored


def test_a_budget_gives_the_best_so_far(settings: Settings) -> None:
    """`budget_ms` is the deadline of a request; what is cut short says so."""
    body = {"vector": {"indices": list(range(60)), "values": [1.0] * 60}, "budget_ms": 0.0001}
    assert post(settings, "/v1/indexes/vectors/search", body).json()["complete"] is False
    assert post(settings, "/v1/indexes/vectors/search", {**body, "budget_ms": 60_000}).json()["complete"] is True
    refused = post(settings, "/v1/indexes/vectors/search", {**body, "params": {"method": "exhaustive"}})
    assert (refused.status_code, refused.json()["option"]) == (422, "budget_ms")


@pytest.mark.parametrize("asks", ["search", "groups", "batch"])
def test_nobody_waits_for_the_filter_of_another(settings: Settings, asks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the documents are looked through for a new filter, other searches of the index are answered."""
    is_evaluated, others_are_answered = threading.Event(), threading.Event()
    rows_of = Metadata.rows

    def rows(metadata: Metadata, where: Any) -> Any:
        is_evaluated.set()
        assert others_are_answered.wait(20)
        return rows_of(metadata, where)

    monkeypatch.setattr(Metadata, "rows", rows)
    alone = property(lambda service: [None], lambda service, requests: None)
    monkeypatch.setattr(Service, "requests", alone, raising=False)  # what comes alone may be done on the event loop
    body: dict[str, Any] = {"text": "copper", "where": {"year": 1960}}
    if asks == "groups":
        body["group_by"] = "year"
    address, body = ("search/batch", {"queries": [body]}) if asks == "batch" else ("search", body)

    async def scenario(client: httpx.AsyncClient) -> list[httpx.Response]:
        slow = asyncio.create_task(client.post(f"/v1/indexes/papers/{address}", json=body))
        assert await asyncio.to_thread(is_evaluated.wait, 20)
        found = [await client.post("/v1/indexes/papers/search", json={"text": "copper"}) for _ in range(3)]
        assert not slow.done()
        others_are_answered.set()
        return [*found, await slow]

    *others, slow = ask(settings, scenario)
    assert [other.status_code for other in others] == [200] * 3
    assert slow.status_code == 200


def test_the_event_loop_checks_short_filters_only(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few members may have much text, which a thread looks at."""
    where: dict[str, Any] = {"$not": {"venue": "x" * 100_000}}
    is_loop: list[bool] = []
    knows = Index.knows

    def watched(index: Index, where: Any) -> bool:
        is_loop.append(threading.current_thread() is threading.main_thread())
        return knows(index, where)

    monkeypatch.setattr(Index, "knows", watched)
    assert post(settings, "/v1/indexes/papers/count", {"where": {"year": 1960}}).status_code == 200
    assert is_loop == [True]
    assert post(settings, "/v1/indexes/papers/count", {"where": where}).status_code == 200
    assert is_loop == [True]


def test_a_budget_ends_the_evaluation_of_a_filter(tmp_path: Path) -> None:
    """Which is a problem, because nothing was searched; without a budget the same filter is evaluated to its end."""
    index = segmax.from_texts(["wave"] * 200, metadata=[{"k" * 200: row} for row in range(200)])
    index.save(tmp_path / "wide")

    async def scenario(client: httpx.AsyncClient) -> list[httpx.Response]:
        body = {"text": "wave", "where": {"k" * 200: 7}}
        ways = ({"budget_ms": 0.001}, {"budget_ms": 0.001, "group_by": "k" * 200}, {}, {"budget_ms": 60_000})
        return [await client.post("/v1/indexes/wide/search", json={**body, **way}) for way in ways]

    *late, first, again = ask(settings_for(wide=tmp_path / "wide"), scenario)
    for answer in late:
        assert (answer.status_code, answer.json()["type"]) == (503, "urn:segmax:problem:overloaded")
        assert "budget_ms" in answer.json()["detail"]
    assert [hit["id"] for hit in first.json()["hits"]] == [hit["id"] for hit in again.json()["hits"]] == ["7"]


class Endless:
    """Filters that are evaluated until somebody ends it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.num_running = 0
        self._lock = threading.Lock()
        monkeypatch.setattr(Metadata, "rows", lambda _metadata, _where: self._run())

    def _run(self) -> None:
        with self._lock:
            self.num_running += 1
        try:
            for _ in with_breaks(itertools.count()):
                pass
        finally:
            with self._lock:
                self.num_running -= 1

    async def are(self, number: int) -> None:
        """Wait until so many are evaluated."""
        while self.num_running != number:
            await asyncio.sleep(0.001)


def test_slow_filters_hold_up_neither_others_nor_deadlines(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """More of them than there are threads: what needs no filter is answered, and a new filter ends at its deadline."""
    endless = Endless(monkeypatch)

    async def scenario(client: httpx.AsyncClient) -> list[httpx.Response]:
        def search(year: int, **options: Any) -> Coroutine[Any, Any, httpx.Response]:
            body = {"text": "copper", "where": {"year": year}, **options}
            return client.post("/v1/indexes/papers/search", json=body)

        slow = [asyncio.create_task(search(year)) for year in range(12)]
        await endless.are(4)
        found = [
            await client.post("/v1/indexes/papers/search", json={"text": "copper", "fields": ["text"]}),
            await client.get("/v1/indexes/papers"),
            await search(99, budget_ms=30),
        ]
        for task in slow:
            task.cancel()
        await endless.are(0)
        return found

    plain, index, late = ask(settings, scenario)
    assert (plain.status_code, index.status_code) == (200, 200)
    assert (late.status_code, late.json()["type"]) == (503, "urn:segmax:problem:overloaded")
    assert "budget_ms" in late.json()["detail"]


@pytest.mark.parametrize("address", ["search", "search/batch", "count", "facets", "explain"])
def test_a_filter_ends_when_its_client_has_gone(
    settings: Settings, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No thread goes on for nobody."""
    endless = Endless(monkeypatch)
    where, text = {"year": 1960}, {"text": "copper"}
    body = {
        "search": {**text, "where": where},
        "search/batch": {"queries": [text], "where": where},
        "count": {"where": where},
        "facets": {"field": "year", "where": where},
        "explain": {**text, "id": "1", "where": where},
    }[address]

    async def scenario(client: httpx.AsyncClient) -> None:
        message = json.dumps(body).encode()
        scope = {
            "type": "http", "method": "POST", "path": f"/v1/indexes/papers/{address}", "query_string": b"",
            "headers": [
                (b"host", b"127.0.0.1"),
                (b"content-type", b"application/json"),
                (b"content-length", b"%d" % len(message)),
            ],
        }  # fmt: skip
        received = iter([{"type": "http.request", "body": message, "more_body": False}])
        has_left = asyncio.Event()

        async def receive() -> dict[str, Any]:
            if (found := next(received, None)) is not None:
                return found
            await has_left.wait()
            return {"type": "http.disconnect"}

        async def send(answer: object) -> None:
            raise AssertionError(f"nobody is there for {answer}")

        app = client._transport.app  # type: ignore[attr-defined]
        leaving = asyncio.create_task(app(scope, receive, send))
        while endless.num_running == 0 and not leaving.done():
            await asyncio.sleep(0.001)
        has_left.set()
        await leaving
        await endless.are(0)

    ask(settings, scenario)


def test_a_service_stops_while_it_evaluates_filters(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """They end, and whoever asked is told."""
    endless = Endless(monkeypatch)
    found = []

    async def scenario(client: httpx.AsyncClient) -> None:
        async def search() -> None:
            body = {"text": "copper", "where": {"year": 1960}}
            found.append(await client.post("/v1/indexes/papers/search", json=body))

        searching = asyncio.create_task(search())
        await endless.are(1)
        await client._transport.app.stop()  # type: ignore[attr-defined]
        await searching

    ask(settings, scenario)
    assert endless.num_running == 0
    assert [answer.status_code for answer in found] == [503]


@pytest.mark.parametrize("where", [None, {"n": {"$lt": 150}}])
def test_nobody_waits_for_groups_without_columns(tmp_path: Path, where: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """While all documents are read for the groups of a field, other searches of the index are answered."""
    field = "k" * 200
    index = segmax.from_texts(["wave"] * 200, metadata=[{field: row % 70, "n": row} for row in range(200)])
    expected = index.search("wave", 5, where=where, group_by=field, group_size=2)
    index.save(tmp_path / "wide")
    are_read, others_are_answered = threading.Event(), threading.Event()
    several = Metadata._several

    def slowly(metadata: Metadata, rows: Any) -> Any:
        are_read.set()
        assert others_are_answered.wait(20)
        return several(metadata, rows)

    monkeypatch.setattr(Metadata, "_several", slowly)
    body = {"text": "wave", "k": 5, "group_by": field, "group_size": 2, "where": where}

    async def scenario(client: httpx.AsyncClient) -> list[httpx.Response]:
        slow = asyncio.create_task(client.post("/v1/indexes/wide/search", json=body))
        assert await asyncio.to_thread(are_read.wait, 20)
        found = [await client.post("/v1/indexes/wide/search", json={"text": "wave"}) for _ in range(3)]
        assert not slow.done()
        others_are_answered.set()
        return [*found, await slow]

    *others, slow = ask(settings_for(wide=tmp_path / "wide"), scenario)
    assert [other.status_code for other in others] == [200] * 3
    found = [(group["value"], [hit["id"] for hit in group["hits"]]) for group in slow.json()["groups"]]
    assert found == [(group.value, group.hits.ids) for group in expected]


def test_names_of_fields_have_a_limit(settings: Settings) -> None:
    """1,000 characters are taken, 1,001 refused, in filters, facets and groups."""
    for length, status in ((1000, 200), (1001, 422)):
        name = ("a." * 501)[:length]
        for address, body in (
            ("search", {"text": "copper", "where": {"$not": {name: 1}}}),
            ("search", {"text": "copper", "group_by": name}),
            ("count", {"where": {name: {"$exists": False}}}),
            ("facets", {"field": name}),
        ):
            found = post(settings, f"/v1/indexes/papers/{address}", body)
            assert found.status_code == status, (address, found.text)
            assert status == 200 or "1000" in found.json()["detail"].replace(",", "")


def test_inside_counts_the_documents_that_it_scores(tmp_path: Path) -> None:
    """Deleted ones that are still there too, so that no share of them is above all."""
    with segmax.Collection.create(tmp_path / "notes", encoder="bm25") as collection:
        collection.add([{"id": row, "text": "wave"} for row in range(20)])
        collection.delete(list(range(5)))
    seen = post(settings_for(notes=tmp_path / "notes"), "/v1/indexes/notes/inside", {"text": "wave", "k": 3}).json()
    assert seen["stats"]["docs_scored"] == seen["num_docs"] == 20


def test_queries_of_a_batch_may_be_of_several_kinds(settings: Settings) -> None:
    """Words and texts, with a filter for all."""
    mixed = {"queries": [{"text": "copper"}, {"terms": {"nois": 2.0}}], "where": {"year": {"$lt": 1961}}}
    results = post(settings, "/v1/indexes/papers/search/batch", mixed).json()["results"]
    assert [[hit["id"] for hit in result["hits"]] for result in results] == [["copper"], ["tubes"]]


def test_requests_that_come_together_are_answered_alike(settings: Settings, vectors: Path) -> None:
    """Searches that run as a batch return what they return alone, and a bad one fails alone."""
    index = segmax.open(vectors)
    rng = np.random.default_rng(7)
    queries = [(rng.permutation(60)[:5].tolist(), rng.integers(1, 9, 5).astype(float).tolist()) for _ in range(50)]
    bodies: list[Any] = [{"vector": {"indices": i, "values": v}, "k": 1 + n % 7} for n, (i, v) in enumerate(queries)]
    bodies[13]["vector"]["values"][0] = -1.0

    async def scenario(client: httpx.AsyncClient) -> list[httpx.Response]:
        path = "/v1/indexes/vectors/search"
        return await asyncio.gather(*(client.post(path, json=body) for body in bodies))

    generous = dataclasses.replace(settings, limits=Limits(wait_ms=60_000))
    answers = ask(generous, scenario)
    for number, (answer, query) in enumerate(zip(answers, queries, strict=True)):
        if number == 13:
            assert answer.status_code == 422
            continue
        expected = index.search(query, k=1 + number % 7)
        assert [hit["id"] for hit in answer.json()["hits"]] == expected.ids
        assert [hit["score"] for hit in answer.json()["hits"]] == expected.scores.tolist()


# --- documents, words, figures ---------------------------------------------------------------------------------------


def test_why_and_inside(settings: Settings) -> None:
    """`explain` names an unknown document, and `inside` is that of the library."""
    missing = post(settings, "/v1/indexes/papers/explain", {"text": "copper", "id": "nothing"})
    assert (missing.status_code, missing.json()["type"]) == (404, "urn:segmax:problem:unknown-document")
    picture = post(settings, "/v1/indexes/vectors/inside", {"vector": {"indices": [1], "values": [1.0]}, "k": 3}).json()
    assert len(picture["clusters"]) == picture["num_clusters"] == 8
    assert sum(cluster["num_docs"] for cluster in picture["clusters"]) == 500
    assert sum(cluster["num_hits"] for cluster in picture["clusters"]) == 3
    for cluster in picture["clusters"]:
        assert cluster["bound_sum"] >= cluster["max_bound"] >= cluster["best_score"]


def test_documents_by_id_and_by_row(settings: Settings) -> None:
    """A document has its title, text, metadata, row and vector; ids may hold anything."""
    found = get(settings, "/v1/indexes/papers/documents/caf%C3%A9").json()
    assert (found["id"], found["text"], found["metadata"]) == ("café", TEXTS["café"], {"year": 2**70})
    found = get(settings, "/v1/indexes/vectors/documents/107?fields=row,vector").json()
    assert (found["id"], found["row"]) == (107, 7)
    assert len(found["vector"]["indices"]) == len(found["vector"]["values"])
    body = {"rows": [1, 0], "fields": ["row"]}
    many = post(settings, "/v1/indexes/papers/documents/get", body).json()["documents"]
    assert many == [{"id": "copper", "row": 1}, {"id": "tubes", "row": 0}]
    for path in ("documents/nobody", "documents/%00", "documents/7?fields=row"):
        assert get(settings, f"/v1/indexes/papers/{path}").status_code == 404
    assert get(settings, "/v1/indexes/vectors/documents/x").status_code == 404


def test_terms_and_vectors(settings: Settings, papers: Path) -> None:
    """The small questions."""
    index = segmax.open(papers)
    base = "/v1/indexes/papers"
    found = post(settings, f"{base}/terms", {"prefix": "wav"}).json()["terms"]
    assert sorted(one["word"] for one in found) == ["wave", "waveguid"]
    found = post(settings, f"{base}/terms", {"words": ["copper", "nothing"]}).json()["terms"]
    assert found[0]["word"] == index.terms[found[0]["term"]]
    assert found[1] is None
    vector = post(settings, f"{base}/encode", {"texts": ["copper noise", ""]}).json()["vectors"]
    assert sorted(vector[0]["indices"]) == sorted(index.encoder.query_rows(["copper noise"]).indices.tolist())
    assert vector[1] == {"indices": [], "values": []}


def test_what_is_served(settings: Settings, papers: Path) -> None:
    """The list of indexes says what each can do."""
    index = segmax.open(papers)
    found = get(settings, "/v1/indexes").json()
    assert [one["name"] for one in found["indexes"]] == ["papers", "vectors"]
    assert found["indexes"][0]["encoder"] == "bm25"
    assert found["indexes"][1]["encoder"] is None
    assert found["indexes"][0]["fields"]["year"]
    stats = get(settings, "/v1/indexes/papers/stats").json()
    assert stats["sizes"] == index.sizes()
    assert sum(stats["cluster_sizes"]) == len(TEXTS)
    assert get(settings, "/health").json() == {"status": "ok"}
    assert get(settings, "/ready").json() == {"status": "ready"}


def test_figures_for_prometheus(settings: Settings) -> None:
    """Requests, searches and sizes are counted."""

    async def scenario(client: httpx.AsyncClient) -> str:
        await client.post("/v1/indexes/papers/search", json={"text": "copper"})
        await client.post("/v1/indexes/papers/search", json={"nonsense": 1})
        return (await client.get("/metrics")).text

    text = ask(settings, scenario)
    assert 'segmax_requests_total{operation="search",status="200"} 1.0' in text
    assert 'segmax_requests_total{operation="search",status="422"} 1.0' in text
    assert 'segmax_request_seconds_count{operation="search"} 2.0' in text
    assert 'segmax_documents{index="papers"} 4.0' in text
    assert "segmax_requests_shed_total 0.0" in text


# --- changes ---------------------------------------------------------------------------------------------------------


def test_a_collection_can_be_changed(collection: Settings) -> None:
    """Add, upsert, update, delete, commit, compact, snapshot: each is seen by the next search."""
    base = "/v1/indexes/notes"

    async def scenario(client: httpx.AsyncClient) -> None:
        async def ids(text: str) -> list[str]:
            answer = await client.post(f"{base}/search", json={"text": text})
            return [hit["id"] for hit in answer.json()["hits"]]

        added = await client.post(f"{base}/documents", json={"documents": [{"id": "b", "text": "copper wire"}]})
        assert added.json() == {"count": 1, "sequence": 2}
        assert await ids("copper") == ["a", "b"]
        again = await client.post(f"{base}/documents", json={"documents": [{"id": "b", "text": "lead"}]})
        assert again.status_code == 422
        assert "upsert" in again.json()["hint"]
        await client.post(f"{base}/documents?mode=upsert", json={"documents": [{"id": "b", "text": "lead"}]})
        assert await ids("lead") == ["b"]
        body = {"documents": [{"id": "b", "metadata": {"year": 1}}]}
        assert (await client.post(f"{base}/documents?mode=update", json=body)).json()["count"] == 1
        found = await client.get(f"{base}/documents/b")
        assert found.json()["metadata"] == {"year": 1}
        assert (await client.post(f"{base}/commit")).json()["count"] == 0
        copy = (await client.post(f"{base}/snapshot")).json()
        assert (await client.post(f"{base}/documents/delete", json={"where": {"year": 1957}})).json()["count"] == 1
        assert (await client.delete(f"{base}/documents/b")).json()["count"] == 1
        assert (await client.delete(f"{base}/documents/b")).json()["count"] == 0
        assert (await client.post(f"{base}/compact", json={})).status_code == 200
        assert await ids("lead copper") == []
        assert collection.snapshots is not None
        with segmax.Collection.open(collection.snapshots / copy["name"], read_only=True) as copied:
            assert len(copied) == copy["num_docs"] == 2

    ask(collection, scenario)


def test_a_stream_has_a_result_per_line(collection: Settings) -> None:
    """Lines that are refused do not keep others out, and the last line sums up."""
    lines = [
        {"id": "b", "text": "lead"},
        {"id": "a", "text": "there already"},
        "not a document",
        {"id": "c", "text": "zinc", "metadata": {"year": 3}},
        {"id": "c", "text": "twice"},
        {"id": "d", "vector": {"indices": [1], "values": []}},
        {"id": "e", "text": "gold", "price": 3},
    ]
    content = b"\r\n".join(json.dumps(line).encode() for line in lines) + b"\n\n{broken"

    async def scenario(client: httpx.AsyncClient) -> list[Any]:
        headers = {"content-type": "application/x-ndjson"}
        answer = await client.post("/v1/indexes/notes/documents", content=content, headers=headers)
        found = await client.post("/v1/indexes/notes/search", json={"text": "lead zinc"})
        assert sorted(hit["id"] for hit in found.json()["hits"]) == ["b", "c"]
        return [json.loads(line) for line in answer.text.splitlines()]

    *results, end = ask(collection, scenario)
    assert [(result["line"], result["ok"]) for result in results] == [
        (1, True), (2, False), (3, False), (4, True), (5, False), (6, False),
        (7, False), (9, False),
    ]  # fmt: skip
    assert results[6]["error"].endswith("unknown field `price`; put `price` under `metadata`")
    assert all(result.get("error") for result in results if not result["ok"])
    assert (end["done"], end["count"], end["errors"]) == (True, 2, 6)


def test_fields_that_belong_into_metadata(collection: Settings) -> None:
    """A document with a field that none has is refused, and the answer says where the field belongs."""
    path = "/v1/indexes/notes/documents"
    answer = post(collection, path, {"documents": [{"id": "x", "text": "x"}, {"id": "y", "text": "y", "price": 1}]})
    assert answer.status_code == 422
    assert answer.json()["hint"] == "put `price` under `metadata`"
    assert answer.json()["detail"].endswith("`price` - at `$.documents[1]`; put `price` under `metadata`")
    for body, said in (
        ({"documents": [], "price": 1}, "its fields are documents"),
        ({"documents": [{"id": "x", "vector": {"price": 1}}]}, "its fields are documents"),
    ):
        assert post(collection, path, body).json()["detail"].endswith(said)


@pytest.mark.parametrize("streamed", [False, True], ids=["JSON", "a stream"])
def test_an_update_merges_metadata(collection: Settings, streamed: bool) -> None:
    """As in Python, unless the address says that they are to be replaced."""
    base = "/v1/indexes/notes/documents"

    async def scenario(client: httpx.AsyncClient) -> list[Any]:
        async def metadata_after(metadata: Any, way: str) -> Any:
            record = {"id": "m", "text": "a note", "metadata": metadata}
            headers = {"content-type": "application/x-ndjson" if streamed else "application/json"}
            content = json.dumps(record if streamed else {"documents": [record]})
            answer = await client.post(f"{base}?{way}", content=content, headers=headers)
            assert answer.status_code == 200, answer.text
            return (await client.get(f"{base}/m")).json()["metadata"]

        wrong = [await client.post(f"{base}?replace_metadata={way}", json={"documents": []}) for way in ("true", "1")]
        assert [(answer.status_code, answer.json()["option"]) for answer in wrong] == [(422, "replace_metadata")] * 2
        return [
            await metadata_after({"price": 2, "size": {"w": 1}, "sale": True}, "mode=upsert"),
            await metadata_after({"price": 1, "size.h": 3, "sale": None}, "mode=update"),
            await metadata_after({"size": {"w": None}}, "mode=update&replace_metadata=false"),
            await metadata_after({"size.h": None}, "mode=update&replace_metadata=true"),
            await metadata_after(None, "mode=update"),
        ]

    assert ask(collection, scenario)[1:] == [
        {"price": 1, "size": {"w": 1, "h": 3}},
        {"price": 1, "size": {"h": 3}},
        {"size.h": None},
        None,
    ]


@pytest.mark.parametrize(
    ("cause", "status", "said"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), 507, "No space left on device"),
        (OSError(errno.EIO, os.strerror(errno.EIO)), 503, "Input/output error"),
        (ConfigError(option="memory_limit", expected="at least 2 GiB", got="1 GiB"), 503, "at least 2 GiB"),
    ],
    ids=["full disk", "broken disk", "memory limit"],
)
def test_a_collection_that_cannot_be_flushed(
    collection: Settings, monkeypatch: pytest.MonkeyPatch, cause: Exception, status: int, said: str
) -> None:
    """It refuses documents at the bound, says why, in its figures as well, and goes on once it can be."""
    flush, has_room = Store.flush, threading.Event()

    def flush_or_fail(store: Store, options: Any, *, rough: bool = False) -> bool:
        if has_room.is_set():
            return flush(store, options, rough=rough)
        with write_errors(store.path / "part.9"):
            raise cause

    monkeypatch.setattr(Store, "flush", flush_or_fail)
    monkeypatch.setattr(maintenance, "FLUSH_DOCS", 5)
    monkeypatch.setattr(maintenance, "_RETRY_SECONDS", 0.01)
    base = "/v1/indexes/notes"

    async def scenario(client: httpx.AsyncClient) -> None:
        async def add(number: int) -> httpx.Response:
            return await client.post(f"{base}/documents", json={"documents": [{"id": f"n{number}", "text": "a note"}]})

        async def failure() -> Any:
            return (await client.get(f"{base}/stats")).json()["collection"]["failure"]

        assert await failure() is None
        answers = [await add(number) for number in range(30)]
        assert [answer.status_code for answer in answers] == [200] * 19 + [status] * 11  # one is there already
        body = answers[-1].json()
        assert said in body["detail"]
        assert said in await failure()
        lines = json.dumps({"id": "s", "text": "a note"})
        headers = {"content-type": "application/x-ndjson"}
        stream = await client.post(f"{base}/documents", content=lines, headers=headers)
        assert said in stream.json()["error"]
        for text in (answers[-1].text, stream.text, str(await failure())):
            assert str(collection.paths["notes"].parent) not in text  # folders are nobody's business
        assert (await client.post(f"{base}/count", json={})).json() == {"count": 20}
        has_room.set()
        while (await add(30)).status_code == status or await failure() is not None:  # until the next attempt
            await asyncio.sleep(0.01)
        assert (await client.post(f"{base}/count", json={})).json() == {"count": 21}

    ask(collection, scenario)


@pytest.mark.parametrize("count", [1022, 1023])  # and one that is there already
def test_a_service_that_stops_flushes(collection: Settings, count: int) -> None:
    """What is worth a part, so that the next start need not read the log."""
    lines = "".join(f'{{"id": "n{number}", "text": "a note"}}\n' for number in range(count))

    async def scenario(client: httpx.AsyncClient) -> None:
        headers = {"content-type": "application/x-ndjson"}
        answer = await client.post("/v1/indexes/notes/documents", content=lines, headers=headers)
        assert json.loads(answer.text.splitlines()[-1])["count"] == count

    ask(collection, scenario)
    with segmax.Collection.open(collection.paths["notes"], read_only=True) as left:
        assert (len(left), left.stats().num_in_memory > 0) == (count + 1, count == 1022)


def test_changes_need_to_be_allowed(settings: Settings, collection: Settings, papers: Path) -> None:
    """A service is read-only unless it was started otherwise, and an index stays as it is."""
    body = {"documents": [{"id": "x", "text": "x"}]}
    assert post(settings, "/v1/indexes/papers/documents", body).status_code == 403
    both = dataclasses.replace(collection, paths={**collection.paths, "papers": papers}, snapshots=None)
    answer = post(both, "/v1/indexes/papers/documents", body)
    assert (answer.status_code, answer.json()["type"]) == (409, "urn:segmax:problem:not-a-collection")
    assert post(both, "/v1/indexes/notes/snapshot", {}).status_code == 409


def test_a_replaced_index_is_picked_up(tmp_path: Path) -> None:
    """Whoever replaces an index on disk need not restart the service."""
    path = tmp_path / "docs.segmax"
    segmax.from_texts({"old": "copper"}, path=path)

    async def scenario(client: httpx.AsyncClient) -> str:
        first = await client.post("/v1/indexes/docs/search", json={"text": "copper"})
        assert first.json()["hits"][0]["id"] == "old"
        segmax.from_texts({"new": "copper"}, path=path, overwrite=True)
        deadline = time.monotonic() + 30
        while True:
            answer = await client.post("/v1/indexes/docs/search", json={"text": "copper"})
            found = answer.json()["hits"][0]["id"]
            if found == "new" or time.monotonic() > deadline:
                return str(found)
            await asyncio.sleep(0.05)

    assert ask(settings_for(docs=path), scenario) == "new"


def test_words_are_those_of_the_index_that_is_searched(tmp_path: Path) -> None:
    """While an index is replaced again and again, no query by word finds the documents of another word."""
    path = tmp_path / "docs.segmax"

    def replace(turn: int) -> None:
        words = [f"w{(number + 7 * turn) % 40}" for number in range(40)]
        segmax.from_texts({word: f"{word} common" for word in words}, path=path, overwrite=True)

    replace(0)

    async def scenario(client: httpx.AsyncClient) -> None:
        replacing = asyncio.get_running_loop().run_in_executor(None, lambda: [replace(turn) for turn in range(1, 4)])
        count = 0
        while not replacing.done() or count < 200:
            word = f"w{count % 40}"
            body = {"text": word, "k": 1, "highlight": True}
            found = (await client.post("/v1/indexes/docs/search", json=body)).json()["hits"]
            assert [hit["id"] for hit in found] == [word]
            count += 1
            await asyncio.sleep(0.005)
        found = await client.post("/v1/indexes/docs/terms", json={"prefix": "w3"})
        assert len(found.json()["terms"]) == 11

    ask(settings_for(docs=path), scenario)


def test_a_collection_can_take_the_place_of_an_index(tmp_path: Path) -> None:
    """What is at the path decides, whichever it is."""
    path = tmp_path / "docs"
    segmax.from_texts({"old": "copper"}, path=path)

    async def scenario(client: httpx.AsyncClient) -> None:
        path.rename(tmp_path / "away")
        with segmax.Collection.create(path, encoder="bm25") as made:
            made.add({"new": "copper"})
        deadline = time.monotonic() + 30
        found = ["old"]
        while found == ["old"] and time.monotonic() < deadline:
            answer = await client.post("/v1/indexes/docs/search", json={"text": "copper"})
            found = [hit["id"] for hit in answer.json()["hits"]]
            await asyncio.sleep(0.05)
        assert found == ["new"]
        assert (await client.get("/v1/indexes/docs")).json()["kind"] == "collection"

    ask(settings_for(docs=path), scenario)


# --- who may ask -----------------------------------------------------------------------------------------------------


def test_keys_decide_who_reads_and_writes(collection: Settings) -> None:
    """Without a key nothing but health is answered; a key for reading does not write."""
    closed = dataclasses.replace(collection, keys=Keys({READ: "read", WRITE: "write"}))
    path, body = "/v1/indexes/notes/documents", {"documents": [{"id": "x", "text": "x"}]}

    def status(key: str | None, path: str, body: Any) -> int:
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        return post(closed, path, body, headers=headers).status_code

    assert get(closed, "/health").status_code == 200
    assert get(closed, "/metrics").status_code == 401
    search = "/v1/indexes/notes/search"
    assert [status(key, search, {"text": "a"}) for key in (None, "wrong", READ, WRITE)] == [401, 401, 200, 200]
    assert [status(key, path, body) for key in (None, "wrong", READ, WRITE)] == [401, 401, 403, 200]
    answer = post(closed, search, {"text": "a"}, headers={"authorization": "Bearer wrong-key-of-mine"})
    assert answer.headers["www-authenticate"] == "Bearer"
    assert "wrong-key-of-mine" not in answer.text


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "localhost:1"}, 200),
        ({"host": "[::1]:8080"}, 200),
        ({"host": "evil.example"}, 403),
        ({"host": "127.0.0.1.evil.example:8080"}, 403),
        ({"origin": "http://127.0.0.1:8080"}, 200),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
    ],
)
def test_pages_of_others_are_kept_out(settings: Settings, headers: dict[str, str], status: int) -> None:
    """Names, origins and content types that a page of somebody else would send are refused."""
    assert post(settings, "/v1/indexes/papers/search", {"text": "a"}, headers=headers).status_code == status


def test_hosts_of_a_public_service() -> None:
    """Addresses are fine, names have to be allowed, and with keys any name is."""
    assert HostCheck.of("0.0.0.0", [], has_keys=False).allows("192.0.2.7:80")
    assert not HostCheck.of("0.0.0.0", [], has_keys=False).allows("search.example")
    assert HostCheck.of("0.0.0.0", ["Search.example:80"], has_keys=False).allows("search.example:8080")
    assert HostCheck.of("0.0.0.0", [], has_keys=True).allows("any.example")
    assert not HostCheck.of("0.0.0.0", [], has_keys=True).allows("")


# --- bad requests ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "content", "status"),
    [
        ("papers/search", b"{", 400),
        ("papers/search", b'{"text": "a", "where": ' + b'{"a":' * 100_000, 400),
        ("papers/search", b'{"text": NaN}', 400),
        ("papers/search", b'{"text": "\xff"}', 400),
        ("papers/search", b"{}", 422),
        ("papers/search", b'{"text": "a", "terms": {"a": 1}}', 422),
        ("papers/search", b'{"text": "a", "unknown": 1}', 422),
        ("papers/search", b'{"text": "a", "k": 0}', 422),
        ("papers/search", b'{"text": "a", "k": 10001}', 422),
        ("papers/search", b'{"text": "a", "k": 1e3}', 422),
        ("papers/search", b'{"text": "a", "offset": 9999, "k": 2}', 422),
        ("papers/search", b'{"text": "a", "params": {"method": "exhaustive", "mu": 0.5}}', 422),
        ("papers/search", b'{"text": "a", "params": {"method": "asc"}, "target_recall": 0.9}', 422),
        ("papers/search", b'{"text": "a", "params": {"mu": 2}}', 422),
        ("papers/search", b'{"text": "a", "where": {"$what": 1}}', 422),
        ("papers/search", b'{"text": "a", "group_size": 2}', 422),
        ("papers/search", b'{"vector": {"indices": [1], "values": [1, 2]}}', 422),
        ("papers/search", b'{"vector": {"indices": [-1], "values": [1]}}', 422),
        ("papers/search", b'{"vector": {"indices": [1], "values": [1e999]}}', 422),
        ("papers/search", b'{"terms": {"copper": -1}}', 422),
        ("papers/documents/get", b"{}", 422),
        ("papers/terms", b'{"words": [], "prefix": "a"}', 422),
        ("nothing/search", b'{"text": "a"}', 404),
        ("papers/nothing", b"{}", 404),
        ("papers/search/", b'{"text": "a"}', 404),
        ("vectors/terms", b'{"words": ["a"]}', 409),
        ("papers/facets", b'{"field": "a", "limit": 0}', 422),
    ],
)
def test_bad_requests_are_problems(settings: Settings, path: str, content: bytes, status: int) -> None:
    """Every bad request is answered with a problem that has a sentence in it."""
    headers = {"content-type": "application/json", "x-request-id": "mine-7"}
    answer = ask(settings, lambda client: client.post(f"/v1/indexes/{path}", content=content, headers=headers))
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert (problem["status"], problem["instance"]) == (status, "mine-7")
    assert len(problem["detail"]) > 10
    assert answer.headers["x-request-id"] == "mine-7"


def test_limits_are_named(settings: Settings) -> None:
    """A limit that is exceeded is named, with its value."""
    small = dataclasses.replace(
        settings, limits=Limits(body_bytes=300, terms=3, batch=2, text_chars=10, batch_results=15)
    )
    base = "/v1/indexes/vectors"
    answer = post(small, f"{base}/search", {"vector": {"indices": [1] * 4, "values": [1] * 4}})
    assert (answer.status_code, answer.json()["expected"]) == (422, "at most 3")
    assert post(small, f"{base}/search/batch", {"queries": [{"terms": {}}] * 3}).status_code == 422
    assert post(small, f"{base}/search/batch", {"queries": [{"terms": {}}] * 2}).status_code == 422  # 2 x 10 results
    assert post(small, f"{base}/search", {"text": "x" * 11}).status_code == 422
    assert post(small, f"{base}/count", {"where": {"a": {"$in": [1, 2, 3, 4]}}}).status_code == 422
    assert post(small, f"{base}/search", {"text": "x" * 400}).status_code == 413


def test_ids_that_are_words_of_addresses(tmp_path: Path) -> None:
    """A document may be called get or delete."""
    segmax.from_texts({"get": "copper", "delete": "lead"}, path=tmp_path / "docs.segmax")
    settings = settings_for(docs=tmp_path / "docs.segmax")
    for name in ("get", "delete"):
        assert get(settings, f"/v1/indexes/docs/documents/{name}").json()["id"] == name


def test_unknown_parameters_are_refused(collection: Settings) -> None:
    """A parameter that was misspelled must not be ignored."""
    answer = post(collection, "/v1/indexes/notes/documents?mod=upsert", {"documents": []})
    assert (answer.status_code, answer.json()["got"]) == (422, "'mod'")


def test_methods_and_addresses(settings: Settings) -> None:
    """A wrong method says which are right; nothing is at other addresses."""

    async def scenario(client: httpx.AsyncClient) -> None:
        answer = await client.get("/v1/indexes/papers/search")
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
        answer = await client.request("OPTIONS", "/v1/indexes")
        assert answer.status_code == 405
        assert not any(name.startswith("access-control") for name in answer.headers)
        for path in ("/v1", "/v1/indexes/", "/v2/indexes", "/page/../settings.py", "/page/__init__.py", "/%ff"):
            assert (await client.get(path)).status_code == 404
        assert (await client.head("/health")).content == b""

    ask(settings, scenario)


def test_the_page_is_guarded(settings: Settings) -> None:
    """The page may load its own files and nothing else, and is compressed."""

    async def scenario(client: httpx.AsyncClient) -> None:
        answer = await client.get("/", headers={"accept-encoding": "gzip"})
        assert answer.headers["content-encoding"] == "gzip"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-frame-options"] == "DENY"
        again = await client.get("/", headers={"if-none-match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")

    ask(settings, scenario)


# --- overload --------------------------------------------------------------------------------------------------------


def test_too_much_work_is_refused(settings: Settings) -> None:
    """Where searches would have to wait too long, some are refused at once, and say when to come again."""
    strict = dataclasses.replace(settings, limits=Limits(wait_ms=1e-6))
    body = {"vector": {"indices": [1, 2], "values": [1.0, 1.0]}}

    async def scenario(client: httpx.AsyncClient) -> list[httpx.Response]:
        path = "/v1/indexes/vectors/search"
        answers = await asyncio.gather(*(client.post(path, json=body) for _ in range(100)))
        later = await client.post(path, json=body)
        assert later.status_code == 200
        return answers

    answers = ask(strict, scenario)
    refused = [answer for answer in answers if answer.status_code == 503]
    assert 0 < len(refused) < 100
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)
    assert {answer.status_code for answer in answers} == {200, 503}


def test_the_openapi_document_is_there(settings: Settings) -> None:
    """It names every operation, with an example for those that take a message."""
    document = get(settings, "/v1/openapi.json").json()
    search = document["paths"]["/v1/indexes/{name}/search"]["post"]
    assert search["operationId"] == "search"
    assert search["requestBody"]["content"]["application/json"]["example"]["k"] == 3
