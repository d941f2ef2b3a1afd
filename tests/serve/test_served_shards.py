"""The service in front of a sharded index: the same answers as from one index, and what only shards have.

The shards are in this process; tests/ray has the same service in front of a cluster.
"""

from __future__ import annotations

import asyncio
import dataclasses
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("msgspec")
pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")

import segmax
from conftest import refused
from segmax.cli.serve import parser, settings_of
from segmax.errors import ConfigError, InputError, ShardsUnavailableError
from segmax.io import open_texts
from segmax.ray.address import parse_ray_address
from segmax.remote import connect_async
from segmax.serve import catalog
from segmax.serve.searching import Admission
from segmax.serve.server import create_app
from segmax.serve.settings import Limits, Settings
from segmax.shards import found as found_features
from segmax.shards.making.building import build
from segmax.shards.opening import ShardOpening, open_with, read_manifest
from segmax.shards.routed import RoutingTable
from segmax.shards.shard import Shard
from segmax.shards.sharded import ShardedIndex
from segmax.shards.storage import open_storage
from segmax.shards.transport import Call, LocalTransport, Missing
from serve.in_process import BASE, ask, asked, post
from sharded_samples import write_texts

NUM_SHARDS = 4


class Shaky(LocalTransport):
    """Shards in this process that can be switched off, or wait for a signal before they answer."""

    def __init__(self, shards: Sequence[Any]) -> None:
        super().__init__(shards)
        self.silent: set[int] = set()
        self.gate: threading.Event | None = None
        self.is_closed = False

    def ask(self, calls: Sequence[Call], *, deadline: float | None = None, allow_partial: bool = False) -> list[Any]:
        """Ask the shards that are on."""
        if self.gate is not None and any(call.method == "search" for call in calls):
            assert self.gate.wait(30)
        if not allow_partial and any(call.shard in self.silent for call in calls):
            raise ShardsUnavailableError("shard 1 on node 10.0.0.7 gave no answer", hint="pass {allow_partial=True}")
        return [Missing(call.shard, "down") if call.shard in self.silent else self._answer(call) for call in calls]

    def _answer(self, call: Call) -> Any:
        return super().ask([call])[0]

    def close(self) -> None:
        """Note that nobody needs the shards anymore."""
        self.is_closed = True
        super().close()


class Opener:
    """Stands for `open_address`: opens the shards here, and keeps what it opened."""

    def __init__(self) -> None:
        self.transports: list[Shaky] = []

    def __call__(self, address: str, *, encoder: object = None) -> ShardedIndex:
        """Open the index at the path of an address."""
        path, options = parse_ray_address(address)
        storage = open_storage(path)

        def transport(manifest: Any) -> Shaky:
            made = Shaky([ShardOpening(storage, number, manifest)() for number in range(len(manifest.shards))])
            self.transports.append(made)
            return made

        allow_partial = options.get("allow_partial", False)
        return open_with(storage, transport, ShardedIndex, encoder, allow_partial=allow_partial)


@pytest.fixture
def opener(monkeypatch: pytest.MonkeyPatch) -> Opener:
    """Lets the service open addresses of Ray without Ray."""
    made = Opener()
    monkeypatch.setattr(catalog, "open_address", made)
    return made


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Files of texts."""
    return write_texts(tmp_path_factory.mktemp("texts"))


@pytest.fixture(scope="module")
def one(files: list[str]) -> segmax.Index:
    """One index over everything."""
    return segmax.from_texts(open_texts(files), metadata="all")


@pytest.fixture(scope="module")
def path(files: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same documents in shards."""
    path = tmp_path_factory.mktemp("sharded") / "docs.sharded"
    build(files, path, shards=NUM_SHARDS, encoder="bm25", metadata="all", num_clusters=16)
    return path


@pytest.fixture
def settings(path: Path, opener: Opener) -> Settings:
    """The sharded index under the name docs."""
    return Settings(paths={"docs": f"ray://{path}"})


@pytest.fixture
def partial(path: Path, opener: Opener) -> Settings:
    """The same, where partial answers are allowed."""
    return Settings(paths={"docs": f"ray://{path}?allow_partial=true"})


def test_searches_of_shards_are_not_refused_for_others(
    settings: Settings, one: segmax.Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have an admission of their own, which refuses them once they are requests."""
    one.save(tmp_path / "one.segmax")
    both = dataclasses.replace(settings, paths={**settings.paths, "one": tmp_path / "one.segmax"})
    monkeypatch.setattr(Admission, "is_full", lambda _: True)

    async def scenario() -> list[bool]:
        app = create_app(both)
        await app.start()
        try:
            return [app.shedder(f"/v1/indexes/{name}/search".encode()) is None for name in ("docs", "one")]
        finally:
            await app.stop()

    assert asyncio.run(scenario()) == [True, False]


def test_answers_that_are_too_large_are_not_read_to_their_end(
    settings: Settings, one: segmax.Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shards are asked for a few texts at a time, and no more once the answer is too large."""
    monkeypatch.setattr(found_features, "_MOST_LOOKED_UP", 16)
    texts, read = Shard.texts, []

    def watched(shard: Shard, rows: Any) -> Any:
        read.append(len(rows))
        return texts(shard, rows)

    monkeypatch.setattr(Shard, "texts", watched)
    small = dataclasses.replace(settings, limits=Limits(answer_bytes=1000))
    body = {"text": "word1", "k": 200, "fields": ["text"]}
    assert len(one.search("word1", 200)) > 60
    refused = post(small, "/v1/indexes/docs/search", body)
    assert (refused.status_code, refused.json()["type"]) == (422, "urn:segmax:problem:answer-too-large")
    assert 0 < sum(read) <= 32


# --- answers ---------------------------------------------------------------------------------------------------------


def test_searches_that_come_together_are_searched_together(settings: Settings, one: segmax.Index) -> None:
    """Many searches at once, of several kinds, each get their own answer."""
    texts = [f"word{number % 17} word{number % 5}" for number in range(60)]
    limits = [None if number % 3 else 2 for number in range(60)]

    async def scenario(client: httpx.AsyncClient) -> list[Any]:
        bodies = [{"text": text, "k": 4, "max_shards": most} for text, most in zip(texts, limits, strict=True)]
        answers = await asyncio.gather(*(client.post("/v1/indexes/docs/search", json=body) for body in bodies))
        return [answer.json() for answer in answers]

    for text, most, found in zip(texts, limits, ask(settings, scenario), strict=True):
        if most is None:
            assert [hit["id"] for hit in found["hits"]] == one.search(text, k=4).ids


def test_an_index_of_shards_says_what_it_is(settings: Settings, one: segmax.Index) -> None:
    """It is listed as an index with shards, has figures, and Prometheus knows it."""

    async def scenario(client: httpx.AsyncClient) -> list[Any]:
        listed = (await client.get("/v1/indexes")).json()["indexes"][0]
        return [listed, (await client.get("/v1/indexes/docs/stats")).json(), (await client.get("/metrics")).text]

    listed, stats, metrics = ask(settings, scenario)
    assert listed == stats["info"]
    assert (listed["kind"], listed["num_shards"], listed["num_docs"]) == ("index", NUM_SHARDS, one.num_docs)
    assert listed["fields"] == {name: list(kinds) for name, kinds in one.fields.items()}
    assert (listed["encoder"], listed["writable"], len(listed["version"])) == ("bm25", False, 16)
    assert sum(stats["cluster_sizes"]) == one.num_docs
    assert f'segmax_documents{{index="docs"}} {float(one.num_docs)}' in metrics
    assert f'segmax_shards{{index="docs"}} {float(NUM_SHARDS)}' in metrics


def test_an_explanation_names_the_shard(settings: Settings, one: segmax.Index) -> None:
    """It has the score of one index, and says what was decided about the shard of the document."""
    best = one.search("word3", k=1)
    found = post(settings, "/v1/indexes/docs/explain", {"text": "word3", "id": best.ids[0]}).json()
    assert (found["score"], found["rank"], found["shard_decision"]) == (best.scores[0], 1, "asked")
    assert 0 <= found["shard"] < NUM_SHARDS


# --- fewer shards ----------------------------------------------------------------------------------------------------


def test_max_shards_asks_fewer_and_says_so(settings: Settings) -> None:
    """A search of one shard asks one, and is not complete; so are those of a batch."""

    async def scenario(client: httpx.AsyncClient) -> list[Any]:
        few = {"k": 50, "max_shards": 1, "stats": True}
        single = await client.post("/v1/indexes/docs/search", json={"text": "word1", **few})
        batch = await client.post("/v1/indexes/docs/search/batch", json={"queries": [{"text": "word1"}], **few})
        return [single.json(), batch.json()["results"][0]]

    single, batch = ask(settings, scenario)
    assert single["shards_asked"] == 1
    assert not single["complete"]
    assert "missing_share" not in single
    assert [hit["id"] for hit in single["hits"]] == [hit["id"] for hit in batch["hits"]]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"max_shards": 0}, "max_shards"),
        ({"max_shards": 1, "target_recall": 0.9}, "max_shards or target_recall"),
        ({"target_recall": 0.9, "params": {"method": "asc"}}, "params or target_recall"),
    ],
)
def test_what_contradicts_itself_is_refused(settings: Settings, body: dict[str, Any], expected: str) -> None:
    """With a problem that names it."""
    found = post(settings, "/v1/indexes/docs/search", {"text": "word1", **body})
    assert found.status_code == 422
    assert expected in found.json()["detail"]


def test_a_target_recall_is_about_what_was_measured(
    settings: Settings, one: segmax.Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks fewer shards for ten results of all documents; other depths, filters and groups are searched exactly."""
    table = RoutingTable((0.99,) * (NUM_SHARDS - 1) + (1.0,), num_queries=500, source="given queries")
    monkeypatch.setattr(RoutingTable, "from_dict", lambda *_: table)
    where = {"year": {"$gte": 2001}}
    text = {"text": "word1 word3"}
    how = {"target_recall": 0.9, "stats": True}

    async def scenario(client: httpx.AsyncClient) -> list[Any]:
        ways: list[dict[str, Any]] = [{}, {"k": 4, "offset": 6}, {"k": 11}, {"offset": 1}, {"where": where}]
        found = []
        for way in ways:
            single = await client.post("/v1/indexes/docs/search", json={**text, **way, **how})
            body = {"queries": [text], **way, **how}
            batch = await client.post("/v1/indexes/docs/search/batch", json=body)
            found += [single.json(), batch.json()["results"][0]]
        body = {"queries": [text, {**text, "where": where}], **how}
        found += (await client.post("/v1/indexes/docs/search/batch", json=body)).json()["results"]
        body = {**text, "k": 2, "group_by": "year", "group_size": 3, **how}
        found.append((await client.post("/v1/indexes/docs/search", json=body)).json())
        return found

    *found, groups = ask(settings, scenario)
    asked = [answer["shards_asked"] for answer in found]
    assert asked[:4] == [1, 1, 1, 1]
    assert min(asked[4:10]) > 1
    query = text["text"]
    exact = [one.search(query, 11), one.search(query, offset=1), one.search(query, where=where)]
    for answer, expected in zip(found[4:10], [hits for hits in exact for _ in range(2)], strict=True):
        assert [hit["id"] for hit in answer["hits"]] == expected.ids
    assert (asked[10], asked[11] > 1) == (1, True)
    assert [hit["id"] for hit in found[11]["hits"]] == exact[2].ids
    expected_groups = one.search(query, 2, group_by="year", group_size=3)
    assert [[hit["id"] for hit in group["hits"]] for group in groups["groups"]] == [
        group.hits.ids for group in expected_groups
    ]


def test_one_index_has_no_shards_to_choose_from(one: segmax.Index, tmp_path: Path) -> None:
    """There max_shards is refused."""
    one.save(tmp_path / "one.segmax")
    settings = Settings(paths={"one": tmp_path / "one.segmax"})
    for part, body in (("search", {}), ("explain", {"id": "0/3"}), ("search", {"group_by": "year"})):
        found = post(settings, f"/v1/indexes/one/{part}", {"text": "word1", "max_shards": 2, **body})
        assert (found.status_code, found.json()["option"]) == (422, "max_shards")
    found = post(settings, "/v1/indexes/one/search/batch", {"queries": [{"text": "word1"}], "max_shards": 2})
    assert found.status_code == 422


def test_there_is_no_view_from_inside(settings: Settings) -> None:
    """It is about the clusters of one index; the answer says what to use instead."""
    found = post(settings, "/v1/indexes/docs/inside", {"text": "word1"})
    assert (found.status_code, found.json()["type"]) == (409, "urn:segmax:problem:sharded")
    assert "explain" in found.json()["detail"]


# --- shards that give no answer --------------------------------------------------------------------------------------


def test_shards_that_give_no_answer_are_a_problem_to_try_again(settings: Settings, opener: Opener) -> None:
    """Status 503 with Retry-After, one search or many, and nothing about machines in the answer."""

    async def scenario(client: httpx.AsyncClient) -> list[httpx.Response]:
        opener.transports[0].silent = {1}
        body = {"text": "word1 word2", "k": 40}
        several = await asyncio.gather(*(client.post("/v1/indexes/docs/search", json=body) for _ in range(12)))
        batch = await client.post("/v1/indexes/docs/search/batch", json={"queries": [{"text": "word1"}], "k": 40})
        return [*several, batch, await client.get("/v1/indexes/docs/documents/0%2F3")]

    for answer in ask(settings, scenario):
        assert answer.status_code == 503
        assert answer.json()["type"] == "urn:segmax:problem:shards-unavailable"
        assert answer.headers["retry-after"] == "1"
        assert "10.0.0.7" not in answer.text


def test_partial_answers_are_marked(partial: Settings, opener: Opener, path: Path, one: segmax.Index) -> None:
    """Where they are allowed: complete is false, and missing_share is the share of documents in silent shards."""
    shards = read_manifest(open_storage(path)).shards
    share = shards[1].num_docs / one.num_docs

    async def scenario(client: httpx.AsyncClient) -> list[Any]:
        opener.transports[0].silent = {1}
        body = {"text": "word1", "k": 100}
        single = (await client.post("/v1/indexes/docs/search", json=body)).json()
        several = await asyncio.gather(*(client.post("/v1/indexes/docs/search", json=body) for _ in range(8)))
        batch = await client.post("/v1/indexes/docs/search/batch", json={"queries": [{"text": "word1"}], "k": 100})
        groups = await client.post("/v1/indexes/docs/search", json={**body, "group_by": "year"})
        return [single, *(one.json() for one in several), batch.json()["results"][0], groups.json()]

    for found in ask(partial, scenario):
        assert not found["complete"]
        assert found["missing_share"] == pytest.approx(share)


def test_searches_that_wait_for_shards_hold_up_nothing_else(
    settings: Settings, opener: Opener, one: segmax.Index, tmp_path: Path
) -> None:
    """While shards are silent, the same process answers searches of other indexes."""
    one.save(tmp_path / "one.segmax")
    both = Settings(paths={**settings.paths, "one": tmp_path / "one.segmax"})

    async def scenario() -> None:
        async with asked(both) as client:
            gate = opener.transports[0].gate = threading.Event()
            body = {"text": "word1", "fields": ["text"]}
            waiting = [asyncio.create_task(client.post("/v1/indexes/docs/search", json=body)) for _ in range(30)]
            batch = {"queries": [{"text": "word1"}]}
            waiting.append(asyncio.create_task(client.post("/v1/indexes/docs/search/batch", json=batch)))
            try:
                for _ in range(5):
                    found = await asyncio.wait_for(client.post("/v1/indexes/one/search", json=body), 10)
                    assert found.status_code == 200
                assert not any(task.done() for task in waiting)
            finally:
                gate.set()
            assert {task.status_code for task in await asyncio.gather(*waiting)} == {200}

    asyncio.run(scenario())


def test_too_many_searches_are_refused(settings: Settings, opener: Opener) -> None:
    """While shards are silent, searches beyond what may wait get status 503 at once."""

    async def scenario() -> list[int]:
        async with asked(settings) as client:
            gate = opener.transports[0].gate = threading.Event()
            body = {"text": "word1"}
            waiting = [asyncio.create_task(client.post("/v1/indexes/docs/search", json=body)) for _ in range(400)]
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)  # no shard answers: it was refused
            gate.set()
            return [answer.status_code for answer in await asyncio.gather(*waiting)]

    found = asyncio.run(scenario())
    assert set(found) == {200, 503}
    assert found.count(200) >= 64


# --- the client ------------------------------------------------------------------------------------------------------


def test_the_client_searches_shards(settings: Settings, opener: Opener, one: segmax.Index) -> None:
    """It passes max_shards on, and raises what the index would."""
    queries = ["word0 word1"]

    async def scenario(app: Any) -> None:
        transport = httpx.ASGITransport(app=app)
        async with await connect_async(BASE, transport=transport, retries=0) as docs:
            assert docs.num_shards == NUM_SHARDS
            few = await docs.search(queries[0], k=100, max_shards=1)
            assert not few.complete
            assert (await docs.search_batch(queries, k=100, max_shards=1)).ids == [few.ids]
            reason = (await docs.explain(queries[0], one.search(queries[0], k=1).ids[0], max_shards=1)).reason
            assert "shard" in reason
            with refused(ConfigError, option="max_shards"):
                await docs.search(queries[0], max_shards=0)
            with refused(InputError, message="explain"):
                await docs.inside(queries[0])
            with refused(InputError, got="a sharded index"):
                await docs.quantization_error()
            opener.transports[0].silent = {0, 1, 2, 3}
            with refused(ShardsUnavailableError, message="gave no answer"):
                await docs.search(queries[0])

    async def run() -> None:
        app = create_app(settings)
        await app.start()
        try:
            await scenario(app)
        finally:
            await app.stop()

    asyncio.run(run())


# --- another index takes its place -----------------------------------------------------------------------------------


def test_a_replaced_index_is_followed(settings: Settings, opener: Opener, files: list[str], tmp_path: Path) -> None:
    """A new sharded.json is opened, and its answers have the new documents; closing the service closes the shards."""
    place = tmp_path / "docs.sharded"
    build(files[:1], place, shards=2, encoder="bm25", num_clusters=4)
    followed = Settings(paths={"docs": f"ray://{place}"})

    async def scenario(client: httpx.AsyncClient) -> list[Any]:
        before = (await client.get("/v1/indexes/docs")).json()
        build(files, tmp_path / "new", shards=3, encoder="bm25", num_clusters=9)
        place.rename(tmp_path / "old")
        (tmp_path / "new").rename(place)
        end = time.monotonic() + 30
        while (after := (await client.get("/v1/indexes/docs")).json())["version"] == before["version"]:
            assert time.monotonic() < end
            await asyncio.sleep(0.05)
        return [before, after]

    before, after = ask(followed, scenario)
    assert (before["num_shards"], before["num_docs"]) == (2, 100)
    assert (after["num_shards"], after["num_docs"]) == (3, 260)
    assert opener.transports[-1].is_closed


# --- the command line ------------------------------------------------------------------------------------------------


def settings_from(*arguments: str) -> Settings:
    """What `segmax serve` makes of its arguments."""
    return settings_of(parser().parse_args(list(arguments)))


def test_addresses_have_names() -> None:
    """That of the folder, or one that is given."""
    made = settings_from("ray:///data/docs.sharded?replicas=2", "few=ray://relative/docs.sharded", "plain.segmax")
    assert made.paths == {
        "docs": "ray:///data/docs.sharded?replicas=2",
        "few": "ray://relative/docs.sharded",
        "plain": Path("plain.segmax"),
    }


def test_several_workers_would_start_several_fleets() -> None:
    """So that is refused."""
    with refused(ConfigError, option="workers", expected="own actors", got="2"):
        settings_from("ray:///data/docs.sharded", "--workers", "2")


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("ray://", "the address of a sharded index"),
        ("ray://docs?replica=2", "one of the options replicas, address, .*'replica'"),
        ("ray://docs?replicas=two", "replicas to be a whole number"),
        ("ray://docs?replicas=1&replicas=2", "replicas once"),
        ("ray://docs?allow_partial=yes", "allow_partial to be true or false"),
        ("ray://docs?replicas", "options such as"),
        ("ray://docs?cache=", "cache to be a text"),
    ],
)
def test_invalid_addresses_are_refused_at_once(address: str, message: str) -> None:
    """With a message that says what an address may have."""
    with refused(ConfigError, message=message):
        settings_from(f"docs={address}")


def test_an_address_may_have_all_options_and_an_address_inside() -> None:
    """Options are those of `segmax.ray.open`."""
    found = parse_ray_address("ray://s3://bucket/docs.sharded/?replicas=2&cache=/tmp/a%26b&deadline_s=.5&hedge=false")
    assert found.path == "s3://bucket/docs.sharded/"
    assert found.name == "docs"
    assert found.options == {"replicas": 2, "cache": "/tmp/a&b", "deadline_s": 0.5, "hedge": False}
