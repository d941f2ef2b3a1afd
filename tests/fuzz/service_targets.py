"""Targets on what comes over the network, and on tables of query weights."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import logging
from collections.abc import Iterator
from typing import Any

from tests.fuzz.index_targets import sample
from tests.fuzz.mutation import json_head_mutation
from tests.fuzz.target import folder, outcome, scratch, target
from tests.table_samples import write_opensearch, write_router

from segmax.encoders.query_table import table_of
from segmax.errors import SegmaxError
from segmax.serve.routes import ROUTES
from segmax.serve.server import create_app
from segmax.serve.settings import Settings
from segmax.serve.streaming import parsed

# --- requests --------------------------------------------------------------------------------------------------------

_POSTS = [route for route in ROUTES if route.method == "POST" and route.access == "read"]


def _request_seeds() -> dict[str, bytes]:
    found = {
        route.operation: bytes([number]) + json.dumps(route.example).encode() for number, route in enumerate(_POSTS)
    }
    search = {"text": "copper", "k": 3, "where": {"year": {"$gte": 3}}, "fields": ["title", "metadata"], "stats": True}
    more = {"terms": {"copper": 2.0}, "group_by": "who", "offset": 1, "highlight": {"width": 40}, "min_score": 0.1}
    number = [route.operation for route in _POSTS].index("search")
    return {
        **found,
        "filtered": bytes([number]) + json.dumps(search).encode(),
        "grouped": bytes([number]) + json.dumps({**more, "params": {"method": "asc", "mu": 0.7}}).encode(),
    }


@functools.cache
def _served() -> tuple[asyncio.AbstractEventLoop, Any]:
    app = create_app(Settings(paths={"docs": sample()}))
    loop = asyncio.new_event_loop()
    loop.run_until_complete(app.start())
    return loop, app


def _split(data: bytes) -> tuple[bytes, bytes]:
    return data[1:], data[:1]


@target(_request_seeds, json_head_mutation(_split, lambda head, rest: rest + head))
def requests(data: bytes) -> None:
    """The body of a request: an answer or a problem of the caller, never one of the service."""
    with _silence():
        _ask(data)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Keep lines of the log back: of this target alone, as tests of the same process look at them."""
    logger = logging.getLogger("segmax.serve")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def _ask(data: bytes) -> None:
    loop, app = _served()
    route = _POSTS[(data[0] if data else 0) % len(_POSTS)]
    body = data[1:]
    path = route.path.replace("{name}", "docs").replace("{id}", "d0")
    headers = [(b"host", b"127.0.0.1:8080"), (b"content-type", b"application/json")]
    scope = {
        "type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b"",
        "headers": [*headers, (b"content-length", b"%d" % len(body))], "client": ("127.0.0.1", 5),
    }  # fmt: skip
    sent: list[Any] = []
    coming = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> Any:
        return next(coming, None) or await asyncio.Future()  # the client stays

    async def send(message: Any) -> None:
        sent.append(message)

    loop.run_until_complete(app(scope, receive, send))
    assert sent[0]["status"] < 500, sent
    json.loads(sent[-1]["body"])


def _line_seeds() -> dict[str, bytes]:
    line = {"id": "d1", "title": "A", "text": "b", "metadata": {"year": 3}}
    vector = {"id": 5, "vector": {"indices": [3, 17], "values": [1.5, 2.0]}}
    return {"text.json": json.dumps(line).encode(), "vector.json": json.dumps(vector).encode()}


@target(_line_seeds, json_head_mutation(lambda data: (data, b""), lambda head, _: head))
def stream_lines(data: bytes) -> None:
    """A line of a stream of documents: the document, or what is wrong with it."""
    line = parsed(1, data)
    assert (line.document is None) != (line.error is None)


# --- tables of query weights -----------------------------------------------------------------------------------------


@functools.cache
def _models() -> list[tuple[str, str]]:
    """Return files of tables: the folder below `scratch`, and the name in it."""
    write_router(scratch() / "model-router")
    write_opensearch(scratch() / "model-idf")
    write_opensearch(scratch() / "model-lines", "query_token_weights.txt")
    found = []
    for name in ("model-router", "model-idf", "model-lines"):
        root = scratch() / name
        found += [(name, str(path.relative_to(root))) for path in sorted(root.rglob("*")) if path.is_file()]
    return found


def _table_seeds() -> dict[str, bytes]:
    return {
        f"{model}-{name.replace('/', '-')}": bytes([number]) + (scratch() / model / name).read_bytes()
        for number, (model, name) in enumerate(_models())
    }


@target(_table_seeds, json_head_mutation(_split, lambda head, rest: rest[:1] + head))
def query_tables(data: bytes) -> None:
    """One file of a table has any bytes; the first one says which."""
    model, name = _models()[(data[0] if data else 0) % len(_models())]
    path = folder("model")
    for other, file in _models():
        if other == model:
            (path / file).parent.mkdir(parents=True, exist_ok=True)
            (path / file).write_bytes((scratch() / model / file).read_bytes())
    (path / name).write_bytes(data[1:])
    try:
        table = table_of(path)
    except SegmaxError:
        return
    if table is not None:
        outcome(lambda: table.query_rows(["the big cat", "dogs \ud800"]))
