"""Where a service is: its address, and the name of an index that may be part of it."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

from segmax.base.checks import shown
from segmax.base.errors import ConfigError

_INDEXES = "/v1/indexes"


class Address(NamedTuple):
    """The address of a service, without a slash at its end, and the name of an index, where the URL has one."""

    base: str
    name: str | None


def parse_address(url: object) -> Address:
    """Return the parts of a URL; raise ConfigError for one that cannot be that of a service.

    Examples
    --------
    >>> parse_address("http://localhost:8080/v1/indexes/papers")
    Address(base='http://localhost:8080', name='papers')
    """
    if not isinstance(url, str):
        raise _invalid(shown(url))
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError as error:
        raise _invalid(shown(url)) from error
    if parts.username is not None or parts.password is not None:
        raise _invalid("one with a user name or a password", hint="pass {api_key=...}")  # not the URL: it has a secret
    if parts.scheme not in ("http", "https") or not parts.hostname or any(ord(letter) <= 32 for letter in url.strip()):
        raise _invalid(shown(url))
    if parts.query or parts.fragment:
        raise _invalid(shown(url), hint="leave out what follows ? and #")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    root = f"{parts.scheme}://{host}" if port is None else f"{parts.scheme}://{host}:{port}"
    path = parts.path.rstrip("/")
    before, found, rest = path.rpartition(_INDEXES)
    if not found or (rest and (not rest.startswith("/") or "/" in rest[1:])):
        return Address(root + path, None)
    return Address(root + before, unquote(rest[1:]) or None)


def index_path(name: str, *parts: str) -> str:
    """Return the path of an index, or of something that can be asked of it.

    Examples
    --------
    >>> index_path("my papers", "search")
    '/v1/indexes/my%20papers/search'
    """
    return "/".join([_INDEXES, quote(name, safe=""), *parts])


def _invalid(got: str, hint: str = "") -> ConfigError:
    return ConfigError(
        option="url", expected="the address of a service, such as 'http://localhost:8080'", got=got, hint=hint
    )
