"""The OpenAPI document, made of the table of operations and the types of their messages."""

from __future__ import annotations

import functools
import re
from typing import Any

import msgspec

import segmax
from segmax.serve import messages
from segmax.serve.routes import ROUTES, Route

_REF = "#/components/schemas/{name}"
_DESCRIPTION = """\
Fast top-k retrieval over learned sparse vectors. Fields may be added to answers; those that are there stay as long as
the path says `v1`. Errors are problem details (RFC 9457).
"""
_PROBLEMS = {
    "400": "Malformed JSON, or a malformed request",
    "401": "A key is missing or wrong",
    "403": "The key, the host, the origin or the service does not allow this",
    "404": "No such index, document or address",
    "405": "Not with this method",
    "408": "The request took too long to arrive",
    "409": "Not possible with what is served",
    "413": "The body is too large",
    "415": "The content type is not JSON",
    "422": "A value is invalid, or beyond a limit",
    "426": "A stream needs HTTP/1.1",
    "429": "Too many connections",
    "431": "The head of the request is too large",
    "503": "Overloaded, or not ready; Retry-After says when to try again",
    "507": "The disk is full",
}


_HEADERS = {"X-Request-Id": {"schema": {"type": "string"}, "description": "The id of the request, in logs too"}}
_RETRY = {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds after which to try again"}}
_METRICS = {
    "get": {
        "operationId": "metrics",
        "summary": "Figures for Prometheus",
        "tags": ["read"],
        "security": [{"key": []}, {}],
        "responses": {
            "200": {"description": "Success", "content": {"text/plain": {"schema": {"type": "string"}}}},
            **{status: {"$ref": f"#/components/responses/{status}"} for status in ("400", "401", "403", "503")},
        },
    }
}


@functools.cache
def document() -> dict[str, Any]:
    """Return the document."""
    requests = [route.request for route in ROUTES if route.request is not None]
    answers = [answer for route in ROUTES for answer in route.answers]
    extra = [messages.Problem, messages.Record, messages.LineResult, messages.StreamEnd]
    types = list(dict.fromkeys([*requests, *answers, *extra]))
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    schema_of = dict(zip(types, schemas, strict=True))
    paths: dict[str, Any] = {}
    for route in ROUTES:
        request = None if route.request is None else schema_of[route.request]
        one_of = [schema_of[answer] for answer in route.answers]
        answer = one_of[0] if len(one_of) == 1 else {"oneOf": one_of}
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, request, answer)
    paths["/metrics"] = _METRICS
    return {
        "openapi": "3.1.0",
        "info": {"title": "segmax", "version": segmax.__version__, "description": _DESCRIPTION},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            "responses": {
                status: {
                    "description": text,
                    "headers": _HEADERS | (_RETRY if status in ("429", "503") else {}),
                    "content": {"application/problem+json": {"schema": {"$ref": _REF.format(name="Problem")}}},
                }
                for status, text in _PROBLEMS.items()
            },
        },
    }


def _operation(route: Route, request: dict[str, Any] | None, answer: dict[str, Any]) -> dict[str, Any]:
    content: dict[str, Any] = {"schema": answer}
    if route.answer_example is not None:
        content["example"] = route.answer_example
    success: dict[str, Any] = {
        "description": "Success",
        "headers": _HEADERS,
        "content": {"application/json": content},
    }
    if route.streams:
        success["content"]["application/x-ndjson"] = {
            "schema": {"type": "string", "description": "A LineResult per line, then a StreamEnd"}
        }
    found: dict[str, Any] = {
        "operationId": route.operation,
        "summary": route.summary,
        "tags": ["write" if route.access == "write" else "read"],
        "responses": {
            "200": success,
            **{status: {"$ref": f"#/components/responses/{status}"} for status in _PROBLEMS},
        },
    }
    if route.access != "open":
        found["security"] = [{"key": []}, {}]
    parameters = [_in_path(name) for name in re.findall(r"{(\w+)}", route.path)]
    parameters += [
        {"name": one.name, "in": "query", "schema": one.schema, "description": one.description}
        for one in route.parameters
    ]
    if parameters:
        found["parameters"] = parameters
    if request is not None:
        body: dict[str, Any] = {"schema": request}
        if route.example is not None:
            body["example"] = route.example
        found["requestBody"] = {"required": not route.optional_body, "content": {"application/json": body}}
        if route.streams:
            found["requestBody"]["content"]["application/x-ndjson"] = {
                "schema": {"type": "string", "description": "A Record per line"}
            }
    return found


def _in_path(name: str) -> dict[str, Any]:
    description = "The name of an index or a collection" if name == "name" else "The id of a document"
    schema = {"type": "string", "minLength": 1}
    return {"name": name, "in": "path", "required": True, "schema": schema, "description": description}
