"""Errors as answers: RFC 9457 problem details, made of segmax's own errors."""

from __future__ import annotations

import errno
import logging
import re
from http import HTTPStatus
from typing import Any

from segmax.base.errors import (
    CollectionLockedError,
    ConfigError,
    FormatError,
    IndexExistsError,
    InputError,
    MissingPackageError,
    SegmaxError,
    ShardsUnavailableError,
    UnknownIdError,
    WriteError,
)
from segmax.serve.messages import ENCODER, Problem

_LOG = logging.getLogger("segmax.serve")
PROBLEM_TYPE = b"application/problem+json"
_URN = "urn:segmax:problem:"
#: Tells a client when to try again.
RETRY_SOON = [(b"retry-after", b"1")]
_LONGEST_FIELD = 100  # characters of its name in a hint
_PATH = re.compile(r"'/(?:[^'/]*/)*([^'/]*)'")


class ProblemError(Exception):
    """A request that is answered with a problem.

    Parameters
    ----------
    status
        The HTTP status.
    kind
        A short name that programs can rely on, such as "unknown-index".
    detail
        What is wrong, in a sentence.
    headers
        Headers to send with it.
    parts
        `option`, `expected`, `got` and `hint` of a segmax error.
    """

    def __init__(
        self, status: int, kind: str, detail: str, *, headers: list[tuple[bytes, bytes]] | None = None, **parts: str
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.detail = detail
        self.headers = list(headers or ())
        self.parts = {name: value for name, value in parts.items() if value}

    def again(self) -> ProblemError:
        """Return the same problem for another request: an exception that is raised twice grows."""
        return ProblemError(self.status, self.kind, self.detail, headers=self.headers, **self.parts)

    def problem(self, request_id: str = "") -> Problem:
        """Return the message."""
        title = HTTPStatus(self.status).phrase
        return Problem(
            type=_URN + self.kind,
            title=title,
            status=self.status,
            detail=self.detail,
            instance=request_id,
            **self.parts,
        )

    def body(self, request_id: str = "") -> bytes:
        """Return the message as JSON."""
        return ENCODER.encode(self.problem(request_id))

    def to_dict(self) -> dict[str, Any]:
        """Return what another process needs to raise it again."""
        return {"status": self.status, "kind": self.kind, "detail": self.detail, **self.parts}


def invalid(
    detail: str = "", *, option: str = "", expected: str = "", got: object = "", hint: str = ""
) -> ProblemError:
    """Return the problem with a request that has an invalid value."""
    return problem_of(ConfigError(detail, option=option, expected=expected, got=got, hint=hint))


def hint_about_document(error: Exception, place: str = "") -> str:
    """Return what to do about a field that documents do not have; "" for other errors.

    Parameters
    ----------
    error
        Of msgspec.
    place
        How the path of a document is said in the error, as a regular expression; "" if the document is all there is.
    """
    found = re.search(f"unknown field `(.*)`{place}$", str(error))
    return "" if found is None else f"put `{found[1][:_LONGEST_FIELD]}` under `metadata`"


def over_limit(option: str, limit: int, got: int | str, unit: str = "") -> ProblemError:
    """Return the problem with a request that asks for more than a limit allows."""
    after = f" {unit}" if unit else ""
    shown = f"{got:,}{after}" if isinstance(got, int) else got
    return invalid(option=option, expected=f"at most {limit:,}{after}", got=shown)


def answer_too_large(most_bytes: int) -> ProblemError:
    """Return the problem with a request whose answer would be too large; its kind lets clients ask in pieces."""
    found = invalid(
        option="answer",
        expected=f"at most {most_bytes:,} bytes",
        got="more",
        hint="ask for fewer results or documents at a time, or for fewer fields",
    )
    found.kind = "answer-too-large"
    return found


def overloaded(wait_seconds: float, detail: str = "") -> ProblemError:
    """Return the answer to a request that would have to wait too long."""
    retry = max(1, round(wait_seconds))
    detail = detail or "the service is overloaded: try again, or send fewer requests at a time"
    return ProblemError(503, "overloaded", detail, headers=[(b"retry-after", b"%d" % retry)])


def unavailable(detail: str) -> ProblemError:
    """Return the answer of a service that cannot do something right now."""
    return ProblemError(503, "unavailable", detail, headers=RETRY_SOON)


def problem_of(error: Exception) -> ProblemError:
    """Return the problem that an error of segmax means to whoever sent the request."""
    if isinstance(error, ProblemError):
        return error
    if isinstance(error, MemoryError):
        return unavailable("there is not enough memory for this request right now")
    if _is_because_of(error, errno.EMFILE, errno.ENFILE):  # too many files are open
        return unavailable("this process has too many files and connections open")
    if not isinstance(error, SegmaxError):
        raise error
    if isinstance(error, ShardsUnavailableError):
        _LOG.warning("%s", error)  # which names machines: that is for the log only
        detail = "shards of this index gave no answer in time: try again"
        return ProblemError(503, "shards-unavailable", detail, headers=RETRY_SOON)
    shown = error.edited(without_folders)  # which are nobody's business
    parts = {"option": shown.option, "expected": shown.expected, "got": shown.got}
    parts["hint"] = shown.hint.replace("{", "").replace("}", "")
    status, kind = _status_of(error)
    headers = RETRY_SOON if status == 503 else []
    return ProblemError(status, kind, f"{shown}", headers=headers, **parts)


def _is_because_of(error: BaseException | None, *reasons: int) -> bool:
    """Whether what caused an error in the end is one of these errors of the system."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in reasons:
            return True
        error = error.__cause__
    return False


def without_folders(text: str) -> str:
    """Return a text with only the last part of every path in it."""
    return _PATH.sub(lambda found: f"'{found[1]}'", text)


def _status_of(error: SegmaxError) -> tuple[int, str]:
    if isinstance(error, UnknownIdError):
        return 404, "unknown-document"
    if isinstance(error, ConfigError | InputError):
        return 422, "invalid-value"
    if isinstance(error, IndexExistsError):
        return 409, "taken"
    if isinstance(error, WriteError):
        return (507, "disk-full") if _is_because_of(error, errno.ENOSPC, errno.EDQUOT) else (503, "not-written")
    if isinstance(error, CollectionLockedError):
        return 503, "locked"
    if isinstance(error, FormatError):
        return 503, "damaged"
    if isinstance(error, MissingPackageError):
        return 503, "missing-package"
    return 503, "unavailable"
