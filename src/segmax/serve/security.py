"""Who may ask: keys, host names, and the headers that keep web pages of others out.

A service on the loopback address can be reached by any web page that its user visits, unless it checks: a page can send
forms to it, and by DNS rebinding read answers from a name of its own. So names and origins are checked, and every
request with a body has to declare JSON, which a form cannot.
"""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import ipaddress
import os
import warnings
from pathlib import Path
from typing import Literal

from segmax.base.errors import ConfigError, SegmaxWarning

Role = Literal["read", "write"]

_LEAST_KEY_CHARS = 16
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})

#: Sent with every answer.
COMMON_HEADERS = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]

#: Sent with the page.
PAGE_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
]


class Keys:
    """Keys and what they allow. Only their hashes are kept, so no message and no log can show one.

    Examples
    --------
    >>> keys = Keys({"0123456789abcdef": "read"})
    >>> keys.role("0123456789abcdef"), keys.role("another")
    ('read', None)
    """

    def __init__(self, roles: dict[str, Role]) -> None:
        self._roles = [(_digest(key), role) for key, role in roles.items()]

    @classmethod
    def from_file(cls, path: Path) -> Keys:
        """Read a file with a key per line, `read KEY` or `write KEY`; a key that may write may read, too."""
        try:
            lines = path.read_text("utf-8").splitlines()
            mode = path.stat().st_mode
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                option="api_keys", expected="a file of keys that can be read", got=f"'{path}' ({error})"
            ) from error
        if mode & 0o006:  # read or write: a file of keys is not run
            hint = f"chmod 600 '{path}'"
            warnings.warn(
                f"everybody on this machine can read or change the keys in '{path}': {hint}",
                SegmaxWarning,
                stacklevel=2,
            )
        roles: dict[str, Role] = {}
        for number, line in enumerate(lines, start=1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            is_key = len(words) == 2 and len(words[1]) >= _LEAST_KEY_CHARS and words[1].isascii()
            if not is_key or words[0] not in ("read", "write"):
                raise ConfigError(
                    where=f"'{path}', line {number}",
                    expected=f"'read KEY' or 'write KEY' with a key of at least {_LEAST_KEY_CHARS} ASCII characters",
                    got="something else",  # not the line: it may be a key
                    hint="make a key with: python -c 'import secrets; print(secrets.token_urlsafe(32))'",
                )
            if words[1] in roles:
                raise ConfigError(where=f"'{path}', line {number}", expected="every key once", got="a key again")
            roles[words[1]] = "write" if words[0] == "write" else "read"
        if not roles:
            raise ConfigError(where=f"'{path}'", expected="at least one key", got="none")
        return cls(roles)

    def role(self, key: str) -> Role | None:
        """Return what a key allows, in a time that does not depend on how much of it is right."""
        digest = _digest(key)
        found: Role | None = None
        for known, role in self._roles:
            if hmac.compare_digest(known, digest):
                found = role
        return found

    def __repr__(self) -> str:
        return f"Keys({len(self._roles)})"


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


@dataclasses.dataclass(frozen=True)
class HostCheck:
    """The names by which a request may address the service.

    Parameters
    ----------
    names
        Host names, in lower case and without ports. None: any, where keys protect the service.
    addresses
        Whether numeric addresses are accepted, too. A web page cannot take over one of these by DNS.

    Examples
    --------
    >>> check = HostCheck()
    >>> check.allows("localhost:8080"), check.allows("evil.example")
    (True, False)
    """

    names: frozenset[str] | None = _LOOPBACK_NAMES
    addresses: bool = False

    @classmethod
    def of(cls, host: str, allowed: list[str], *, has_keys: bool) -> HostCheck:
        """Return the check for a service on a host, with the names that its user allows."""
        more = frozenset(_without_port(name.lower()) for name in allowed)
        if is_loopback(host):
            return cls(_LOOPBACK_NAMES | {host.lower()} | more)
        if has_keys and not more:
            return cls(None)
        return cls(_LOOPBACK_NAMES | {host.lower()} | more, addresses=True)

    def allows(self, host: str) -> bool:
        """Whether a `Host` header is acceptable."""
        if self.names is None:
            return bool(host)
        name = _without_port(host.lower())
        return name in self.names or (self.addresses and _is_address(name))


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def same_origin(origin: str, host: str) -> bool:
    """Whether an `Origin` header names the service itself, as the `Host` header does."""
    _, separator, rest = origin.partition("://")
    return bool(separator) and rest.lower() == host.lower()


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() else host


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def checked_host(host: str, keys: Keys | None, *, no_auth: bool) -> None:
    """Raise ConfigError if a service would be open to a network without anybody having said so."""
    if keys is not None and no_auth:
        raise ConfigError(expected="{api_keys} or {no_auth}", got="both")
    if keys is None and not no_auth and not is_loopback(host):
        raise ConfigError(
            option="host",
            expected="a loopback address, because there are no keys",
            got=f"'{os.fspath(host)}'",
            hint="pass {api_keys=FILE}, or {no_auth} to let everybody in",
        )
