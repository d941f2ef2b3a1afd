"""The table of operations: what is at which address, who may ask, and what it says about itself in OpenAPI."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote_to_bytes

import msgspec

from segmax.serve import messages, operations, streaming
from segmax.serve.problems import ProblemError

Access = Literal["open", "read", "write"]

_SHORT_PATH = 200  # bytes of a path that is remembered
_VECTOR = {"indices": [3, 17, 250], "values": [1.2, 0.4, 2.0]}


class Parameter(NamedTuple):
    """A parameter in the query of an address."""

    name: str
    schema: dict[str, Any]
    description: str


class Route(NamedTuple):
    """An operation."""

    operation: str  #: its name, in metrics and as `operationId`
    method: str
    path: str  #: with {name} and {id}
    handle: Callable[[operations.Context, Any], Awaitable[Any]]
    request: type[msgspec.Struct] | None
    answers: tuple[type[msgspec.Struct], ...]  #: one of these
    access: Access
    summary: str
    example: Mapping[str, Any] | None = None
    parameters: tuple[Parameter, ...] = ()
    optional_body: bool = False
    answer_example: Mapping[str, Any] | None = None
    streams: bool = False  #: whether it also takes lines of JSON


_FIELDS = Parameter(
    "fields",
    {"type": "string", "example": "title,text"},
    "What to return, separated by commas: row, title, text, metadata, vector",
)
_MODE = Parameter(
    "mode",
    {"type": "string", "enum": ["add", "upsert", "update"], "default": "add"},
    "add: ids must be new; upsert: replace documents that have the same id; update: change documents that are there, "
    "whose metadata get what the update says (JSON Merge Patch, RFC 7396; a name with dots is a path)",
)
_REPLACE_METADATA = Parameter(
    "replace_metadata",
    {"type": "boolean", "default": False},
    "With mode=update: let metadata replace all that the document has, and store null as a value",
)

ROUTES = (
    Route("health", "GET", "/health", operations.health, None, (messages.Health,), "open", "Is the process there?"),
    Route("ready", "GET", "/ready", operations.ready, None, (messages.Health,), "open", "Are requests welcome?"),
    Route(
        "list_indexes", "GET", "/v1/indexes", operations.list_indexes, None, (messages.Indexes,), "read",
        "List indexes and collections",
    ),
    Route(
        "get_index", "GET", "/v1/indexes/{name}", operations.get_index, None, (messages.IndexInfo,), "read",
        "Describe an index or a collection",
    ),
    Route(
        "get_stats", "GET", "/v1/indexes/{name}/stats", operations.get_stats, None, (messages.StatsResult,), "read",
        "Sizes and figures of an index",
    ),
    Route(
        "search", "POST", "/v1/indexes/{name}/search", operations.search, messages.Search,
        (messages.SearchResult, messages.GroupsResult), "read", "Search for text, words or a vector",
        {"vector": _VECTOR, "k": 3, "params": {"method": "asc", "eta": 0.95}},
        answer_example={"hits": [{"id": "d1", "score": 12.5}], "complete": True, "took_ms": 0.21},
    ),
    Route(
        "search_batch", "POST", "/v1/indexes/{name}/search/batch", operations.search_batch, messages.BatchSearch,
        (messages.BatchResult,), "read", "Search for many queries at once", {"queries": [{"vector": _VECTOR}], "k": 3},
    ),
    Route(
        "explain", "POST", "/v1/indexes/{name}/explain", operations.explain, messages.Explain, (messages.Explanation,),
        "read", "Why is a document found, or not?", {"vector": _VECTOR, "id": "d1"},
    ),
    Route(
        "inside", "POST", "/v1/indexes/{name}/inside", operations.inside, messages.Inside, (messages.InsideResult,),
        "read", "What does a search decide about every cluster?",
        {"vector": _VECTOR, "params": {"method": "sequential", "mu": 0.7}},
    ),
    Route(
        "score", "POST", "/v1/indexes/{name}/score", operations.score, messages.Score, (messages.ScoreResult,), "read",
        "Score given documents", {"vector": _VECTOR, "ids": ["d1"]},
    ),
    Route(
        "get_document", "GET", "/v1/indexes/{name}/documents/{id}", operations.get_document, None,
        (messages.DocumentResult,), "read", "Get a document", None, (_FIELDS,),
    ),
    Route(
        "get_documents", "POST", "/v1/indexes/{name}/documents/get", operations.get_documents, messages.GetDocuments,
        (messages.DocumentsResult,), "read", "Get many documents", {"ids": ["d1"], "fields": ["title"]},
    ),
    Route(
        "count", "POST", "/v1/indexes/{name}/count", operations.count, messages.CountDocuments, (messages.CountResult,),
        "read", "Count documents", {"where": {"year": {"$gte": 1960}}},
    ),
    Route(
        "facets", "POST", "/v1/indexes/{name}/facets", operations.facets, messages.Facets, (messages.FacetsResult,),
        "read", "Count documents by their value in a field", {"field": "year", "limit": 10},
    ),
    Route(
        "encode", "POST", "/v1/indexes/{name}/encode", operations.encode, messages.Encode, (messages.EncodeResult,),
        "read", "Encode texts as queries", {"texts": ["noise of microwave tubes"]},
    ),
    Route(
        "find_terms", "POST", "/v1/indexes/{name}/terms", operations.find_terms, messages.FindTerms,
        (messages.TermsResult,), "read", "Look up terms by word, number or start", {"prefix": "wave"},
    ),
    Route(
        "put_documents", "POST", "/v1/indexes/{name}/documents", streaming.put_documents, messages.Documents,
        (messages.WriteResult,), "write", "Add, replace or update documents of a collection",
        {"documents": [{"id": "d1", "text": "a copper waveguide", "metadata": {"year": 1957}}]},
        (_MODE, _REPLACE_METADATA), streams=True,
    ),
    Route(
        "delete_documents", "POST", "/v1/indexes/{name}/documents/delete", streaming.delete_documents, messages.Delete,
        (messages.WriteResult,), "write", "Delete documents by id or by filter", {"ids": ["d1"]},
    ),
    Route(
        "delete_document", "DELETE", "/v1/indexes/{name}/documents/{id}", streaming.delete_document, None,
        (messages.WriteResult,), "write", "Delete a document",
    ),
    Route(
        "commit", "POST", "/v1/indexes/{name}/commit", streaming.commit, messages.Nothing, (messages.WriteResult,),
        "write", "Make all writes safe on disk", optional_body=True,
    ),
    Route(
        "compact", "POST", "/v1/indexes/{name}/compact", streaming.compact, messages.Nothing, (messages.WriteResult,),
        "write", "Write a collection as one part", optional_body=True,
    ),
    Route(
        "snapshot", "POST", "/v1/indexes/{name}/snapshot", streaming.snapshot, messages.Nothing,
        (messages.SnapshotResult,), "write", "Copy a collection to the folder of snapshots", optional_body=True,
    ),
)  # fmt: skip

_Tree = dict[str | None, Any]


def _tree() -> _Tree:
    """Return the routes by the pieces of their paths; "" stands for any piece, and methods are at the leaves."""
    root: _Tree = {}
    for route in ROUTES:
        node = root
        for piece in route.path.strip("/").split("/"):
            node = node.setdefault("" if piece.startswith("{") else piece, {})
        node.setdefault(None, {})[route.method] = route
    return root


_ROOT = _tree()


class Found(NamedTuple):
    """A route, and what a path has in the places of {name} and {id}."""

    route: Route
    values: tuple[str, ...]


def find_route(method: str, raw_path: bytes) -> Found:
    """Return what is at an address; raise the problem of one where nothing is."""
    return _remembered(method, raw_path) if len(raw_path) <= _SHORT_PATH else _found(method, raw_path)


def _found(method: str, raw_path: bytes) -> Found:
    pieces = [_piece(raw) for raw in raw_path.split(b"/")[1:]]
    ways = list(_ways(_ROOT, pieces, ()))
    if not ways:
        raise _nothing_there()
    for routes, values in ways:
        if method in routes:
            return Found(routes[method], values)
    allowed = ", ".join(sorted({name for routes, _ in ways for name in routes}))
    raise ProblemError(405, "wrong-method", f"this address takes {allowed}", headers=[(b"allow", allowed.encode())])


_remembered = functools.lru_cache(1024)(_found)


def _ways(
    node: _Tree, pieces: list[str], values: tuple[str, ...]
) -> Iterator[tuple[dict[str, Route], tuple[str, ...]]]:
    """Yield what a path may mean, by method: a piece may be the name of something, or a word of an address.

    A document may have the id "get", for instance.
    """
    if not pieces:
        if None in node:
            yield node[None], values
        return
    first, *rest = pieces
    if first and first in node:
        yield from _ways(node[first], rest, values)
    if first and "" in node:
        yield from _ways(node[""], rest, (*values, first))


def _piece(raw: bytes) -> str:
    """Return a piece of a path; a slash that is written %2F is part of it."""
    try:
        return (unquote_to_bytes(raw) if b"%" in raw else raw).decode("utf-8")
    except UnicodeDecodeError:
        raise _nothing_there() from None


def _nothing_there() -> ProblemError:
    return ProblemError(404, "unknown-path", "nothing is at this address: GET /v1/openapi.json describes what there is")
