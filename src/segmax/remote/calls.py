"""A call of the client as a conversation: requests go out, answers come back. Nothing here does any I/O.

Every operation is a generator that yields requests and is sent their answers, so that it is written once, whichever
transport carries it.
"""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Callable, Generator, Mapping
from typing import Any, TypeVar

from segmax.base.checks import shown
from segmax.base.display import printable
from segmax.base.errors import InputError, ServiceError

T = TypeVar("T")

JSON_TYPE = "application/json"
LINES_TYPE = "application/x-ndjson"


class Repeat(enum.Enum):
    """When a request may be sent again."""

    ALWAYS = enum.auto()  #: it changes nothing
    IDEMPOTENT = enum.auto()  #: a write that does the same when it comes twice
    UNSENT = enum.auto()  #: a write that must not come twice: only if the service did not take it


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """What to send to the service."""

    method: str = "POST"
    path: str  #: behind the address of the service, quoted
    body: bytes | None = None
    content_type: str = JSON_TYPE
    repeat: Repeat = Repeat.ALWAYS
    is_long: bool = False  #: work that may take much longer than a search
    what: str = ""  #: what the request does, for messages about writes that may or may not have happened


@dataclasses.dataclass(frozen=True)
class Reply:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclasses.dataclass(frozen=True)
class Failure:
    """Why nothing came back."""

    reason: str
    was_sent: bool  #: whether the service may have taken the request


#: An operation: yields requests, is sent the JSON of their answers, returns a result.
Call = Generator[Request, Any, T]

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":"))


def to_json(message: object) -> bytes:
    """Return a message as JSON; raise InputError for what JSON cannot hold."""
    try:
        return _ENCODER.encode(message).encode("utf-8")
    except UnicodeEncodeError as error:
        got = f"{error.object[error.start : error.end]!r}"
        raise InputError(expected="strings that UTF-8 can hold", got=got) from error
    except (TypeError, ValueError) as error:
        raise InputError(expected="values that JSON can hold", got=str(error)) from error


def understood(parse: Callable[[Any], T], answer: Any, place: str) -> T:
    """Return what an answer says; raise ServiceError if it is not what the API promises."""
    try:
        return parse(answer)
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
        problem = f"no {error}" if isinstance(error, KeyError) else error
        raise not_ours(place, str(problem)) from error


def not_ours(place: str, problem: str) -> ServiceError:
    """Return the error about an answer that segmax's service would not give."""
    return ServiceError(
        f"'{place}' does not answer as a segmax service does: {printable(problem)[:300]}",
        hint="check the address, and that client and service have about the same version",
    )


# --- parts of answers ------------------------------------------------------------------------------------------------


def whole(value: Any) -> int:
    """Return a whole number of an answer."""
    if type(value) is not int or not -(2**63) <= value < 2**64:
        raise TypeError(_expected("a whole number", value))
    return value


def real(value: Any) -> float:
    """Return a number of an answer."""
    if type(value) is not float and type(value) is not int:
        raise TypeError(_expected("a number", value))
    return float(value)


def string(value: Any) -> str:
    """Return a string of an answer."""
    if type(value) is not str:
        raise TypeError(_expected("a string", value))
    return value


def flag(value: Any) -> bool:
    """Return a truth value of an answer."""
    if type(value) is not bool:
        raise TypeError(_expected("true or false", value))
    return value


def doc_id(value: Any) -> int | str:
    """Return the id of a document in an answer."""
    return value if type(value) is str else whole(value)


def members(value: Any) -> list[Any]:
    """Return a list of an answer."""
    if type(value) is not list:
        raise TypeError(_expected("a list", value))
    return value


def record(value: Any) -> dict[str, Any]:
    """Return an object of an answer."""
    if type(value) is not dict:
        raise TypeError(_expected("an object", value))
    return value


def count_is(values: list[Any], count: int) -> list[Any]:
    """Return values of which there have to be so many."""
    if len(values) != count:
        msg = f"expected {count} values, got {len(values)}"
        raise ValueError(msg)
    return values


def _expected(what: str, value: object) -> str:
    return f"expected {what}, got {shown(value)}"
