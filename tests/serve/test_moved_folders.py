"""A folder that is away while it is moved: what is open is served on, and what comes back is followed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("msgspec")
pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")

import segmax
from segmax.serve import catalog
from segmax.serve.app import App
from segmax.serve.server import create_app
from segmax.serve.settings import Settings
from segmax.shards.making.building import build
from segmax.shards.opening import open_local
from segmax.shards.sharded import ShardedIndex
from serve.in_process import BASE
from serve.serving import PATIENCE


def write_index(path: Path, ids: list[str]) -> None:
    """Write an index of documents."""
    segmax.from_texts(dict.fromkeys(ids, "noise"), path=path)


def write_collection(path: Path, ids: list[str]) -> None:
    """Write a collection of documents, all of them in its log."""
    with segmax.Collection.create(path, encoder="bm25") as collection:
        collection.add([{"id": id, "text": "noise"} for id in ids])


def write_parts(path: Path, ids: list[str]) -> None:
    """Write a collection of documents with a part on disk."""
    write_collection(path, ids)
    with segmax.Collection.open(path) as collection:
        collection.compact()


def write_shards(path: Path, ids: list[str]) -> None:
    """Write an index in two shards."""
    file = path.with_suffix(".jsonl")
    file.write_text("".join(f'{{"_id": "{id}", "text": "noise"}}\n' for id in ids))
    build(file, path, shards=2, encoder="bm25", overwrite=True)


@pytest.mark.parametrize("write", [write_index, write_collection, write_parts, write_shards])
def test_a_folder_may_be_away_while_it_is_moved(
    tmp_path: Path, write: Callable[[Path, list[str]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Searches are answered from what is open, however often the service looks, and find what is there afterwards."""
    docs, away, other = tmp_path / "docs", tmp_path / "away", tmp_path / "other"
    write(docs, ["old"])
    write(other, ["new", "newer"])

    def opened_here(address: str, *, encoder: object = None) -> ShardedIndex:
        return open_local(address.removeprefix("ray://"), encoder=encoder)

    monkeypatch.setattr(catalog, "open_address", opened_here)

    async def scenario(app: App, client: httpx.AsyncClient) -> None:
        async def found() -> list[str]:
            await asyncio.to_thread(app.service.catalog.follow)
            body = {"text": "noise", "fields": ["text"]}
            answer = await client.post("/v1/indexes/docs/search", json=body)
            assert answer.status_code == 200, answer.text
            assert all(hit["text"] == "noise" for hit in answer.json()["hits"])
            return sorted(hit["id"] for hit in answer.json()["hits"])

        assert await found() == ["old"]
        docs.rename(away)
        for _ in range(3):
            assert await found() == ["old"]
        away.rename(docs)  # the same one comes back
        assert await found() == ["old"]
        docs.rename(away)
        assert await found() == ["old"]
        other.rename(docs)  # another one takes its place
        async with asyncio.timeout(PATIENCE):
            while (ids := await found()) == ["old"]:  # a folder that could not be opened is not tried at every look
                await asyncio.sleep(0.01)
        assert ids == ["new", "newer"]
        assert (await client.get("/ready")).status_code == 200

    async def run() -> None:
        served: dict[str, Any] = {"docs": f"ray://{docs}" if write is write_shards else docs}
        app = create_app(Settings(paths=served))
        await app.start()
        try:
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=BASE) as client:  # type: ignore[arg-type]
                await scenario(app, client)
        finally:
            await app.stop()

    asyncio.run(run())
