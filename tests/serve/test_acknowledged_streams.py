"""Streams of documents over HTTP: every line that is answered with "ok" is there after a crash, and in a snapshot."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("msgspec")
pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")

from hypothesis import given
from hypothesis import strategies as st

import segmax
from histories import FAST, SLOW
from segmax.collection.collection import Collection
from segmax.serve.settings import Settings
from serve.in_process import ask

ODD = ["", "a\0b", "\ud800", "é", "İ", "ΑΣ", "日本語", "😀", "copper"]
words = st.sampled_from(ODD) | st.text(max_size=6)
texts = st.one_of(
    words, words, st.sampled_from([255, 256, 65_535, 65_536, 70_000]).map(lambda count: "copper " * count)
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    words,
    st.sampled_from([2**63, 2**64, 10**300, -0.0]),
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3), max_leaves=5
)
ids = st.sampled_from(["a", "b", "c", "d"]) | words | st.integers(0, 3)
lines = st.fixed_dictionaries(
    {"id": ids, "text": texts}, optional={"title": words, "metadata": st.dictionaries(words, values, max_size=3)}
)
named = st.fixed_dictionaries(
    {"id": ids},
    optional={
        "terms": st.dictionaries(words, st.sampled_from([1, 2.5, 65_536, 70_000.5, 1e300, 5e-324]), max_size=3),
        "metadata": st.dictionaries(words, values, max_size=3),
        "text": words,
    },
)
streams = st.sampled_from(["add", "add", "upsert", "update"])
HISTORIES = {
    "counted": st.lists(st.tuples(streams, st.lists(lines, min_size=1, max_size=6)), min_size=2, max_size=4),
    "named": st.lists(st.tuples(streams, st.lists(named, max_size=6)), min_size=2, max_size=4),
}


def contents(collection: Any) -> list[str]:
    """What a collection has."""
    vectors = [collection.vector(id) for id in collection.ids()]
    found = map(collection.get, collection.ids())
    documents = [repr((one.id, tuple(one.text or ("", "")), one.metadata)) for one in found]
    return [*documents, repr([(vector.indices.tolist(), vector.data.tolist()) for vector in vectors])]


def check_streams(kind: str, history: list[tuple[str, list[dict[str, Any]]]]) -> None:
    """Send streams, and look after each at what a crash leaves, and at the end at a snapshot."""
    folder = Path(tempfile.mkdtemp())
    (folder / "copies").mkdir()
    made = {"encoder": "bm25"} if kind == "counted" else {"terms": ["copper"]}
    Collection.create(folder / "notes", **made).close()  # type: ignore[arg-type]
    kept: set[Any] = set()

    async def scenario(client: httpx.AsyncClient) -> None:
        for mode, documents in history:
            content = "\n".join(json.dumps(document) for document in documents).encode()
            headers = {"content-type": "application/x-ndjson"}
            async with asyncio.timeout(60):  # a stream that fails inside waits for a client that sends no more
                answer = await client.post(f"/v1/indexes/notes/documents?mode={mode}", content=content, headers=headers)
            results = [json.loads(line) for line in answer.content.splitlines()]
            assert results.pop()["done"] is True
            assert len(results) == len(documents)
            kept.update(result["id"] for result in results if result["ok"])
            left = folder / "left"
            shutil.copytree(folder / "notes", left)
            with segmax.open(left) as reader, Collection.open(left) as again:
                assert set(again.ids()) == kept
                assert contents(again) == contents(reader)
            shutil.rmtree(left)
        answer = await client.post("/v1/indexes/notes/snapshot", json={})
        with segmax.open(folder / "copies" / answer.json()["name"]) as copy, segmax.open(folder / "notes") as reader:
            assert set(copy.ids()) == kept  # type: ignore[union-attr]
            assert contents(copy) == contents(reader)

    try:
        ask(Settings(paths={"notes": folder / "notes"}, writable=True, snapshots=folder / "copies"), scenario)
        with Collection.open(folder / "notes") as collection:
            expected = contents(collection) if kind == "named" else []
            collection.compact()
            assert set(collection.ids()) == kept
            assert kind != "named" or contents(collection) == expected
    finally:
        shutil.rmtree(folder)


@pytest.mark.filterwarnings("ignore:weights up to:segmax.errors.SegmaxWarning")
@pytest.mark.parametrize("kind", HISTORIES)
@FAST
@given(data=st.data())
def test_acknowledged_lines_open_again(kind: str, data: st.DataObject) -> None:
    """Whatever lines say, those with "ok" are there, and no others."""
    check_streams(kind, data.draw(HISTORIES[kind]))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:weights up to:segmax.errors.SegmaxWarning")
@pytest.mark.parametrize("kind", HISTORIES)
@SLOW
@given(data=st.data())
def test_acknowledged_lines_open_again_in_many_streams(kind: str, data: st.DataObject) -> None:
    """The same, many times; the nightly parts draw others every time."""
    check_streams(kind, data.draw(HISTORIES[kind]))
