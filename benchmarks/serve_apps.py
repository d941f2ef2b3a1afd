"""One endpoint, written for several frameworks: what `benchmarks.serve_stacks` measures.

It reads a sparse vector as JSON, and answers with ten hits. With an index in SEGMAX_BENCHMARK_INDEX, these are the hits
of a search; without one, they are always the same. Every function here makes an ASGI application.
"""

# No `from __future__ import annotations`: frameworks read the annotations of functions inside functions.

import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec
import numpy as np

import segmax

INDEX = "SEGMAX_BENCHMARK_INDEX"

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]
Find = Callable[[list[int], list[float], int], tuple[list[Any], list[float]]]


class Vector(msgspec.Struct):
    """A sparse vector."""

    indices: list[int]
    values: list[float]


class Search(msgspec.Struct):
    """What a request says."""

    vector: Vector
    k: int = 10


class Hit(msgspec.Struct):
    """A result."""

    id: int
    score: float


class Answer(msgspec.Struct):
    """What an answer says."""

    hits: list[Hit]


def finder() -> Find:
    """Return the search of the index, or a function that finds the same ten documents for every query."""
    path = os.environ.get(INDEX)
    if not path:
        ids: list[Any] = list(range(177_431, 177_441))
        scores = [float(number) for number in range(61_901, 45_000, -1700)]
        return lambda _indices, _values, _k: (ids, scores)
    index = segmax.open(path)

    def find(indices: list[int], values: list[float], k: int) -> tuple[list[Any], list[float]]:
        hits = index.search((np.array(indices, dtype=np.int64), np.array(values)), k)
        return hits.ids, hits.scores.tolist()

    return find


async def read_body(receive: Receive) -> bytes:
    """Return the body of a request."""
    message = await receive()
    body: bytes = message.get("body", b"")
    while message.get("more_body", False):
        message = await receive()
        body += message.get("body", b"")
    return body


def bare(answer: Callable[[bytes], bytes]) -> App:
    """Return an application without a framework."""

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            msg = "only requests are answered"
            raise RuntimeError(msg)
        body = answer(await read_body(receive))
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return app


def constant() -> App:
    """Read the body, and answer with the same bytes every time: the floor."""
    ids, scores = finder()([1], [1.0], 10)
    always = msgspec.json.encode(Answer([Hit(id, score) for id, score in zip(ids, scores, strict=True)]))
    return bare(lambda _body: always)


def plain() -> App:
    """ASGI by hand, and msgspec."""
    find, decoder, encoder = finder(), msgspec.json.Decoder(Search), msgspec.json.Encoder()

    def answer(body: bytes) -> bytes:
        search = decoder.decode(body)
        ids, scores = find(search.vector.indices, search.vector.values, search.k)
        return encoder.encode(Answer([Hit(id, score) for id, score in zip(ids, scores, strict=True)]))

    return bare(answer)


def starlette() -> Any:
    """Starlette, and the JSON of the standard library."""
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    find = finder()

    async def search(request: Request) -> Any:
        asked = await request.json()
        ids, scores = find(asked["vector"]["indices"], asked["vector"]["values"], asked.get("k", 10))
        return JSONResponse({"hits": [{"id": id, "score": score} for id, score in zip(ids, scores, strict=True)]})

    return Starlette(routes=[Route("/search", search, methods=["POST"])])


def fastapi() -> Any:
    """FastAPI with pydantic models for requests and answers."""
    from fastapi import FastAPI
    from pydantic import create_model

    find, app = finder(), FastAPI()
    vector: Any = create_model("Vector", indices=(list[int], ...), values=(list[float], ...))
    request: Any = create_model("Search", vector=(vector, ...), k=(int, 10))
    hit: Any = create_model("Hit", id=(int, ...), score=(float, ...))
    answer: Any = create_model("Answer", hits=(list[hit], ...))

    async def search(asked: request) -> answer:
        ids, scores = find(asked.vector.indices, asked.vector.values, asked.k)
        return answer(hits=[hit(id=id, score=score) for id, score in zip(ids, scores, strict=True)])

    app.post("/search")(search)
    return app


def litestar() -> Any:
    """Litestar with msgspec for requests and answers."""
    from litestar import Litestar, post

    find = finder()

    async def search(data: Search) -> Answer:
        ids, scores = find(data.vector.indices, data.vector.values, data.k)
        return Answer([Hit(id, score) for id, score in zip(ids, scores, strict=True)])

    return Litestar([post("/search", status_code=200)(search)], openapi_config=None, logging_config=None)
