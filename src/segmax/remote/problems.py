"""Answers that report an error, as segmax's own errors."""

from __future__ import annotations

import json
from typing import Any

from segmax.base.display import printable
from segmax.base.errors import (
    ConfigError,
    FormatError,
    IndexNotFoundError,
    InputError,
    SegmaxError,
    ServiceError,
    ShardsUnavailableError,
    UnknownIdError,
    WriteError,
)
from segmax.remote.calls import Reply, Request

_URN = "urn:segmax:problem:"
_LONGEST = 2000  # characters of a part of a message


class AnswerTooLargeError(SegmaxError):
    """What was asked for has to be asked for in pieces, or with fewer fields."""


class RefusedAnswerError(AnswerTooLargeError, ConfigError):
    """The service says so."""


class LongAnswerError(AnswerTooLargeError, ServiceError):
    """The answer is longer than the client takes."""


_KINDS: dict[str, type[SegmaxError]] = {
    "answer-too-large": RefusedAnswerError,
    "unknown-document": UnknownIdError,
    "unknown-index": IndexNotFoundError,
    "not-written": WriteError,
    "disk-full": WriteError,
    "damaged": FormatError,
    "shards-unavailable": ShardsUnavailableError,
}
_PARTS = ("option", "expected", "got", "hint")


class Problem:
    """What an answer says is wrong, whoever gave it: the service, or a proxy before it."""

    def __init__(self, reply: Reply) -> None:
        said = _object(reply.body)
        self.status = reply.status
        self.kind = _text(said, "type").removeprefix(_URN)
        self.detail = _text(said, "detail").rstrip(".")
        self.request_id = _text(said, "instance")
        self.location = printable(reply.headers.get("location", "")[:_LONGEST])
        self.parts = {name: _text(said, name) for name in _PARTS}

    def error(self, request: Request, place: str, *, has_key: bool) -> SegmaxError:
        """Return what to raise."""
        if self.status == 401:
            got = "one that the service does not know" if has_key else "none"
            hint = "" if has_key else "pass {api_key=...}, or set SEGMAX_API_KEY"
            return ConfigError(where=f"'{place}'", option="api_key", expected="a valid key", got=got, hint=hint)
        if self.status == 403:
            return ConfigError(f"'{place}' refuses this: {self.detail or 'it is forbidden'}")
        if self.kind in _KINDS:
            return self._as(_KINDS[self.kind])
        if self.status in (409, 413):
            return self._as(InputError)
        if self.status == 422:
            return self._as(ConfigError if self.parts["option"] else InputError)
        return self._of_service(request, place)

    def _as(self, kind: type[SegmaxError]) -> SegmaxError:
        """Return an error with the message of the service, and its parts."""
        hint = self.parts["hint"]
        message = self.detail.removesuffix(f"; {hint}") if hint else self.detail
        return kind(message or f"the service answered {self.status}", **self.parts)

    def _of_service(self, request: Request, place: str) -> ServiceError:
        named = f" (request {self.request_id})" if self.request_id else ""
        detail = f": {self.detail}" if self.detail else ""
        if 300 <= self.status < 400:
            hint = "connect to that address, if you trust it"
            return ServiceError(f"'{place}' redirects to '{self.location}', which is not followed", hint=hint)
        asked = f"{request.method} {request.path}"
        return ServiceError(f"'{place}' answered {asked} with status {self.status}{detail}{named}")


def _object(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _text(said: dict[str, Any], name: str) -> str:
    """Return a part of a problem, safe to print: it may come from anybody."""
    value = said.get(name, "")
    return printable(value[:_LONGEST]) if isinstance(value, str) else ""
