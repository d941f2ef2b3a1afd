"""What is open under a name: one record at a time, followed on disk, given up when its files lose their ends."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("msgspec")
pytest.importorskip("prometheus_client")

import segmax
from segmax.base.errors import FormatError, IndexNotFoundError
from segmax.collection import changes
from segmax.collection import collection as collection_module
from segmax.collection.collection import Collection
from segmax.collection.store import Store
from segmax.serve import catalog as catalog_module
from segmax.serve.catalog import Catalog, Served
from segmax.serve.problems import ProblemError
from segmax.serve.settings import Settings
from segmax.serve.shown import Shown
from serve.in_process import ask

COUNTS = {"old": 3, "new": 5}


def build(path: Path, word: str) -> Path:
    """Write an index whose documents, and whose number of documents, say which one it is."""
    segmax.from_texts({f"{word}{number}": word for number in range(COUNTS[word])}, path=path, overwrite=True).close()
    return path


def write(path: Path, word: str) -> Path:
    """Do the same with a collection."""
    with Collection.create(path, encoder="bm25") as made:
        made.add({f"{word}{number}": word for number in range(COUNTS[word])})
    return path


def served_at(path: Path, shown: Shown | None = None) -> Served:
    """Return an index or a collection as a worker serves it."""
    made = Served("docs", path, None, writable=False, shown=shown)
    made.open()
    return made


def put_aside(path: Path) -> None:
    """Take away what is served, as whoever replaces it by a copy does."""
    path.rename(path.with_name("aside"))


def version_of(served: Served) -> str:
    """Return the version that an answer would have now."""
    opened = served.opened
    return opened.version(opened.sequence)


# --- what takes its place --------------------------------------------------------------------------------------------


def test_the_version_changes_with_the_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a new index is being opened, the old version is shown with the old documents; then both are new."""
    served = served_at(build(tmp_path / "docs", "old"))
    before = version_of(served)
    build(tmp_path / "docs", "new")
    opening, go_on = threading.Event(), threading.Event()
    really = catalog_module.open_searchable

    def slowly(*arguments: Any, **options: Any) -> Any:
        opening.set()
        assert go_on.wait(30)
        return really(*arguments, **options)

    monkeypatch.setattr(catalog_module, "open_searchable", slowly)
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(served.follow)
        assert opening.wait(30)
        assert (version_of(served), served.source.num_docs) == (before, COUNTS["old"])
        go_on.set()
        following.result()
    assert version_of(served) != before
    assert served.source.num_docs == COUNTS["new"]


def test_an_index_that_is_replaced_while_it_is_opened_gets_its_own_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes between the look at the disk and the opening is not shown under the version that was seen."""
    path = build(tmp_path / "docs", "old")
    really = catalog_module.open_searchable
    replaced = []

    def late(*arguments: Any, **options: Any) -> Any:
        if not replaced:
            replaced.append(build(path, "new"))
        return really(*arguments, **options)

    monkeypatch.setattr(catalog_module, "open_searchable", late)
    served = served_at(path)
    assert (version_of(served), served.source.num_docs) == (version_of(served_at(path)), COUNTS["new"])


@pytest.mark.parametrize("make", [build, write])
def test_what_is_still_being_copied_is_served_when_it_is_complete(tmp_path: Path, make: Any) -> None:
    """A copy of which files are missing is tried again, though what it is recognized by has not changed since."""
    path = make(tmp_path / "docs", "old")
    new = make(tmp_path / "new", "new")
    served = served_at(path)
    put_aside(path)
    shutil.copytree(new, path)
    missing = [file for file in path.rglob("*") if file.is_file() and file.name not in ("meta.json", "manifest.json")]
    for file in missing:
        file.rename(tmp_path / file.name)
    for _ in range(2):
        served._next_try = 0.0
        served.follow()
        assert served.source.num_docs == COUNTS["old"]
    for file in missing:
        (tmp_path / file.name).rename(file)
    served._next_try = 0.0
    served.follow()
    assert served.source.num_docs == COUNTS["new"]


# --- several processes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [build, write])
def test_no_process_answers_with_less_than_another_has_shown(tmp_path: Path, make: Any) -> None:
    """A worker that has not seen yet what took the place of an index takes it over before it answers."""
    path = make(tmp_path / "docs", "old")
    first, second = (served_at(path, Shown(["docs"], tmp_path / "shown")) for _ in range(2))
    assert second.level() is not None
    put_aside(path)
    make(path, "new")
    first.follow()
    assert first.source.num_docs == COUNTS["new"]
    assert second.level() is None
    opened, sequence = second.caught_up()
    assert opened.source.num_docs == COUNTS["new"]
    assert opened.version(sequence) == version_of(first)
    assert second.level() == (opened, sequence)


@pytest.mark.parametrize("make", [build, write])
def test_a_process_that_cannot_follow_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Any
) -> None:
    """It answers 503 with the reason instead of 200 with what was there before, and 200 once it can follow."""
    path = make(tmp_path / "docs", "old")
    first, second = (served_at(path, Shown(["docs"], tmp_path / "shown")) for _ in range(2))
    put_aside(path)
    make(path, "new")
    first.follow()
    with monkeypatch.context() as patch:
        patch.setattr(catalog_module, "open_searchable", raising(FormatError("'postings.bin' cannot be mapped")))
        for _ in range(2):
            with pytest.raises(ProblemError, match=r"cannot take over what changed: 'postings\.bin' cannot") as raised:
                second.caught_up()
            assert raised.value.status == 503
    second._next_try = 0.0
    assert second.caught_up()[0].source.num_docs == COUNTS["new"]


def test_a_write_that_cannot_be_read_is_not_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker whose collection cannot read what was acknowledged answers 503; reading it makes it answer again."""
    path = write(tmp_path / "docs", "old")
    writer = Served("docs", path, None, writable=True, shown=Shown(["docs"], tmp_path / "shown"))
    writer.open()
    worker = served_at(path, Shown(["docs"], tmp_path / "shown"))
    assert isinstance(writer.source, Collection)
    writer.source.add({"more": "text"})
    writer.source.commit()
    writer.show()
    assert worker.level() is None
    with monkeypatch.context() as patch:
        broken = raising(FormatError("the log is damaged"))
        patch.setattr(Collection, "refresh", broken)
        patch.setattr(catalog_module, "open_searchable", broken)
        with pytest.raises(ProblemError, match="the log is damaged") as raised:
            worker.caught_up()
        assert raised.value.status == 503
    worker._next_try = 0.0
    opened, sequence = worker.caught_up()
    assert (opened.source.num_docs, sequence) == (COUNTS["old"] + 1, writer.opened.sequence)
    writer.close()


@pytest.mark.parametrize("count", [1, 2])
def test_a_change_that_no_process_can_read_ends_the_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, count: int
) -> None:
    """A log that another program goes on writing is answered with 503 while a record of it cannot be read."""
    path = write(tmp_path / "docs", "old")
    shown = [None] if count == 1 else [Shown(["docs"], tmp_path / "shown") for _ in range(count)]
    workers = [served_at(path, one) for one in shown]
    source = workers[0].source
    with Collection.open(path) as writer:
        writer.add({"often": "old " * 65_536})  # a count of another type
        writer.commit()
        with monkeypatch.context() as patch:
            patch.delitem(changes._TYPES, "<u4")
            for _ in range(2):
                for worker in workers:
                    worker.follow()
                    assert not worker.is_open
                    with pytest.raises(ProblemError, match="type '<u4'") as raised:
                        worker.level()
                    assert (raised.value.status, raised.value.headers) == (503, [(b"retry-after", b"1")])
            said = [record.getMessage() for record in caplog.records]
            path.rename(tmp_path / "away")  # which says nothing about what was written
            workers[0].follow()
            assert not workers[0].is_open
            (tmp_path / "away").rename(path)
        assert len(said) == count
        assert all("'docs': it is not served: " in line for line in said)
        for worker in workers:
            worker.follow()
            found = worker.level()
            assert found is not None
            assert found[0].source.num_docs == COUNTS["old"] + 1
    assert workers[0].source is source  # what is open has taken it over


def test_a_change_that_cannot_be_read_is_named_in_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches get it, `GET /v1/indexes` lists it, and so it is until it can be read; others are answered."""
    path, other = write(tmp_path / "docs", "old"), build(tmp_path / "other", "new")

    async def scenario(client: httpx.AsyncClient) -> None:
        async def status(name: str) -> int:
            return (await client.post(f"/v1/indexes/{name}/search", json={"text": "old"})).status_code

        assert await status("docs") == 200
        with Collection.open(path) as writer, monkeypatch.context() as patch:
            writer.add({"often": "old " * 65_536})
            writer.commit()
            patch.delitem(changes._TYPES, "<u4")
            while await status("docs") == 200:
                await asyncio.sleep(0.02)
            answer = await client.post("/v1/indexes/docs/search", json={"text": "old"})
            assert (answer.status_code, answer.json()["type"]) == (503, "urn:segmax:problem:damaged")
            assert "type '<u4'" in (await client.get("/v1/indexes")).json()["unavailable"]["docs"]
            assert await status("other") == 200
        while await status("docs") == 503:
            await asyncio.sleep(0.02)
        found = (await client.post("/v1/indexes/docs/search", json={"text": "old"})).json()["hits"]
        assert "often" in [hit["id"] for hit in found]

    ask(Settings(paths={"docs": path, "other": other}), scenario)


def newer(manifest: bytes) -> bytes:
    """Return a manifest as a segmax that is yet to come may write it."""
    entries = json.loads(manifest)
    return json.dumps(entries | {"version": entries["version"] + 1}).encode()


def halved(manifest: bytes) -> bytes:
    """Return a manifest that lost its end."""
    return manifest[: len(manifest) // 2]


@pytest.mark.parametrize(("spoiled", "why"), [(newer, "version"), (halved, r"manifest\.json")])
@pytest.mark.parametrize("count", [1, 2])
def test_a_manifest_that_no_process_can_read_ends_the_answers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, count: int, spoiled: Any, why: str
) -> None:
    """Nobody knows what was written: 503 says why, until the manifest can be read; then what is open goes on."""
    path = write(tmp_path / "docs", "old")
    shown = [None] if count == 1 else [Shown(["docs"], tmp_path / "shown") for _ in range(count)]
    workers = [served_at(path, one) for one in shown]
    sources = [worker.source for worker in workers]
    with Collection.open(path) as writer:
        writer.add({"more": "old"})
        writer.compact()
    manifest = path / "manifest.json"
    content = manifest.read_bytes()
    manifest.write_bytes(spoiled(content))
    for _ in range(2):
        for worker in workers:
            worker.follow()
            assert not worker.is_open
            for ask_it in (worker.level, worker.caught_up) if count > 1 else (worker.level,):
                with pytest.raises(ProblemError, match=why) as raised:
                    ask_it()
                assert raised.value.status == 503
    assert [record.getMessage().partition(": it is not served: ")[0] for record in caplog.records] == ["'docs'"] * count
    manifest.write_bytes(content)
    for worker in workers:
        worker.follow()
        found = worker.level()
        assert found is not None
        assert found[0].source.num_docs == COUNTS["old"] + 1
    assert [worker.source for worker in workers] == sources


def test_a_manifest_that_cannot_be_read_is_named_in_answers(tmp_path: Path) -> None:
    """Searches get it, `GET /v1/indexes` lists it, and so it is until it can be read; others are answered."""
    path, other = write(tmp_path / "docs", "old"), build(tmp_path / "other", "new")
    manifest = path / "manifest.json"
    content = manifest.read_bytes()

    async def scenario(client: httpx.AsyncClient) -> None:
        async def status(name: str) -> int:
            return (await client.post(f"/v1/indexes/{name}/search", json={"text": "old"})).status_code

        for spoiled in (newer, halved):
            assert await status("docs") == 200
            manifest.write_bytes(spoiled(content))
            while await status("docs") == 200:
                await asyncio.sleep(0.02)
            assert list((await client.get("/v1/indexes")).json()["unavailable"]) == ["docs"]
            assert (await status("docs"), await status("other")) == (503, 200)
            manifest.write_bytes(content)
            while await status("docs") == 503:
                await asyncio.sleep(0.02)

    ask(Settings(paths={"docs": path, "other": other}), scenario)


def test_nothing_waits_while_a_collection_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written is taken over by a thread, once; meanwhile the collection is searched as it was."""
    monkeypatch.setattr(collection_module, "REFRESH_SECONDS", -1.0)  # a reader that nobody follows always looks
    path, other = write(tmp_path / "docs", "old"), build(tmp_path / "other", "new")
    loading, go_on = threading.Event(), threading.Event()
    has_waited = []
    really = Store.reload

    def slowly(store: Store, prepare: Any) -> None:
        if store.read_only:
            loading.set()
            has_waited.append(go_on.wait(5))
        really(store, prepare)

    async def scenario(client: httpx.AsyncClient) -> None:
        async def found(name: str, word: str) -> int:
            answer = await client.post(f"/v1/indexes/{name}/search", json={"text": word})
            assert answer.status_code == 200, answer.text
            return len(answer.json()["hits"])

        with Collection.open(path) as writer:
            writer.add({"more": "old"})
        monkeypatch.setattr(Store, "reload", slowly)
        while not loading.is_set():
            await asyncio.sleep(0.02)
        assert (await found("docs", "old"), await found("other", "new")) == (COUNTS["old"], COUNTS["new"])
        for address in ("/health", "/ready", "/metrics", "/v1/indexes", "/v1/indexes/docs"):
            assert (await client.get(address)).status_code == 200
        assert has_waited == []
        go_on.set()
        while await found("docs", "old") == COUNTS["old"]:
            await asyncio.sleep(0.02)

    ask(Settings(paths={"docs": path, "other": other}), scenario)


def test_a_collection_that_is_being_copied_back_is_served_meanwhile(tmp_path: Path) -> None:
    """A copy of itself, of which files are missing, says nothing about what was written: the old one is searched."""
    path = write(tmp_path / "docs", "old")
    served = served_at(path)
    with Collection.open(path) as writer:
        writer.add({"more": "old"})
        writer.compact()
    put_aside(path)
    shutil.copytree(path.with_name("aside"), path)
    missing = [file for file in path.rglob("*") if file.is_file() and file.name != "manifest.json"]
    for file in missing:
        file.rename(tmp_path / f"{file.parent.name}-{file.name}")
    for _ in range(2):
        served._next_try = 0.0
        served.follow()
        assert served.source.num_docs == COUNTS["old"]
    for file in missing:
        (tmp_path / f"{file.parent.name}-{file.name}").rename(file)
    served._next_try = 0.0
    served.follow()
    assert served.source.num_docs == COUNTS["old"] + 1


def raising(error: Exception) -> Any:
    """Return a function that raises."""

    def fail(*arguments: Any, **options: Any) -> Any:
        raise error

    return fail


def test_what_was_shown_is_never_lowered(tmp_path: Path) -> None:
    """Two processes see the same numbers; a lower number of the same collection changes nothing."""
    first, second = (Shown(["a", "b"], tmp_path / "shown") for _ in range(2))
    assert second.get("b") == (0, 0)
    with first.locked():
        first.raise_to("b", 7, 3)
        first.raise_to("b", 7, 2)
    assert (second.get("a"), second.get("b")) == ((0, 0), (7, 3))
    with second.locked():
        second.raise_to("b", 8, 1)  # of what took its place
    assert first.get("b") == (8, 1)


# --- files that lose their ends --------------------------------------------------------------------------------------


def shorten(path: Path, name: str) -> tuple[Path, bytes]:
    """Cut a file of an index in half; return what restores it."""
    (file,) = path.rglob(f"{name}.*.bin")
    content = file.read_bytes()
    os.truncate(file, len(content) // 2)
    return file, content


@pytest.mark.parametrize(("make", "is_flushed"), [(build, False), (write, True)])
def test_an_index_that_lost_the_end_of_a_file_is_given_up(tmp_path: Path, make: Any, is_flushed: bool) -> None:
    """It is answered with a 503 that names the file, without its folder, until the file is whole again."""
    path = make(tmp_path / "docs", "old")
    if is_flushed:
        with Collection.open(path) as collection:
            collection.compact()
    served = served_at(path)
    served.follow()
    source = served.source
    file, content = shorten(path, "run_bytes")
    served._next_look = 0.0
    served.follow()
    for _ in range(2):
        with pytest.raises(ProblemError, match=f"'{file.name}' has .* bytes and should have") as raised:
            _ = served.source
        assert raised.value.status == 503
        assert str(tmp_path) not in raised.value.detail
    with pytest.raises(segmax.errors.IndexClosedError):  # what waits to be searched is not read either
        source.search("old", k=1)
    with file.open("r+b") as restored:
        restored.write(content)
    served._next_try = 0.0
    served.follow()
    assert served.source.search("old", k=10).ids == [f"old{number}" for number in range(COUNTS["old"])]


def test_a_replaced_file_is_no_shortened_one(tmp_path: Path) -> None:
    """Another file of the same name is not mapped, however short; nor is one that was removed."""
    path = build(tmp_path / "docs", "old")
    served = served_at(path)
    files = sorted(path.glob("*.bin"))
    files[0].unlink()
    files[0].write_bytes(b"x")
    files[1].unlink()
    served._next_look = 0.0
    served.follow()
    assert served.source.num_docs == COUNTS["old"]


# --- starting --------------------------------------------------------------------------------------------------------


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """One whole index and one that has lost the end of a file."""
    whole, broken = build(tmp_path / "whole", "old"), build(tmp_path / "broken", "new")
    shorten(broken, "run_bytes")
    return Settings(paths={"whole": whole, "broken": broken})


def test_a_damaged_index_does_not_keep_others_from_being_served(settings: Settings) -> None:
    """It is listed with what is wrong with it, which requests for it are answered with; once repaired it is served."""
    broken = Path(settings.paths["broken"])

    async def scenario(client: httpx.AsyncClient) -> None:
        assert (await client.post("/v1/indexes/whole/search", json={"text": "old"})).json()["hits"]
        for method, path in (("POST", "/search"), ("GET", ""), ("GET", "/stats"), ("POST", "/encode")):
            answer = await client.request(method, f"/v1/indexes/broken{path}", json={"text": "new"} if path else None)
            if path == "/encode":
                answer = await client.post("/v1/indexes/broken/encode", json={"texts": ["new"]})
            assert answer.status_code == 503, answer.text
            assert answer.json()["type"] == "urn:segmax:problem:damaged"
            assert "run_bytes.1.bin" in answer.json()["detail"]
            assert answer.headers["retry-after"] == "1"
        listed = (await client.get("/v1/indexes")).json()
        assert [info["name"] for info in listed["indexes"]] == ["whole"]
        assert list(listed["unavailable"]) == ["broken"]
        assert "run_bytes.1.bin" in listed["unavailable"]["broken"]
        assert (await client.get("/ready")).status_code == 200
        figures = (await client.get("/metrics")).text
        assert 'segmax_up{index="whole"} 1.0' in figures
        assert 'segmax_up{index="broken"} 0.0' in figures
        build(broken, "new")
        while (await client.get("/v1/indexes/broken")).status_code == 503:
            await asyncio.sleep(0.02)
        assert "unavailable" not in (await client.get("/v1/indexes")).json()

    ask(settings, scenario)


def test_a_service_of_nothing_is_not_ready(tmp_path: Path) -> None:
    """Where the last index is given up, /ready says so, and /health goes on answering."""
    path = build(tmp_path / "docs", "old")

    async def scenario(client: httpx.AsyncClient) -> None:
        assert (await client.get("/ready")).status_code == 200
        shorten(path, "run_bytes")
        while (await client.get("/ready")).status_code == 200:
            await asyncio.sleep(0.02)
        assert (await client.get("/health")).status_code == 200
        assert (await client.get("/v1/indexes/docs")).status_code == 503

    ask(Settings(paths={"docs": path}), scenario)


def test_mistakes_end_the_start_and_damage_does_not(settings: Settings, tmp_path: Path) -> None:
    """Nothing at a path is an error where the service starts; so is it if nothing at all can be opened."""
    missing = Settings(paths={**settings.paths, "missing": tmp_path / "missing"})
    with pytest.raises(IndexNotFoundError, match="missing"):
        Catalog(missing, writes=False)
    opened = Catalog(missing, writes=False, is_first=False)  # a worker that takes the place of another
    assert [name for name, served in opened.items() if served.is_open] == ["whole"]
    opened.close()
    for is_first in (True, False):
        with pytest.raises(FormatError, match="run_bytes"):
            Catalog(Settings(paths={"broken": settings.paths["broken"]}), writes=False, is_first=is_first)


def test_a_process_that_serves_nothing_yet_may_wait(settings: Settings) -> None:
    """What encodes for others starts though nothing of its own can be opened, and opens it later."""
    broken = Path(settings.paths["broken"])
    catalog = Catalog(Settings(paths={"broken": broken}), writes=False, may_be_closed=True)
    with pytest.raises(ProblemError, match="run_bytes"):
        catalog["broken"].level()
    build(broken, "new")
    catalog.follow()
    assert catalog["broken"].source.num_docs == COUNTS["new"]
    catalog.close()
    with pytest.raises(IndexNotFoundError):
        Catalog(Settings(paths={"missing": broken / "missing"}), writes=False, may_be_closed=True)


# --- words -----------------------------------------------------------------------------------------------------------


def test_words_come_with_the_version_they_are_of(tmp_path: Path) -> None:
    """What looks words up hears of which version of the index they are."""
    path = build(tmp_path / "docs", "old")

    async def scenario(client: httpx.AsyncClient) -> tuple[str, str]:
        found = (await client.post("/v1/indexes/docs/terms", json={"words": ["old"]})).json()
        return found["version"], (await client.get("/v1/indexes/docs")).json()["version"]

    versions = ask(Settings(paths={"docs": path}), scenario)
    assert versions[0] == versions[1]
