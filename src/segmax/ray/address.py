"""Addresses of sharded indexes on Ray, as the command line and the service take them: ray://PATH?replicas=2."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl

from segmax.base.checks import parsed_float, parsed_int, shown
from segmax.base.errors import ConfigError
from segmax.shards.addresses import is_address

if TYPE_CHECKING:
    from segmax.ray.opening import RayIndex

SCHEME = "ray://"
_SUFFIXES = (".segmax", ".sharded")
_MOST_OPTIONS = 32


class _Kind(NamedTuple):
    """How an option is read, None for what it cannot be, and what it has to be."""

    read: Callable[[str], Any]
    expected: str


_WHOLE = _Kind(parsed_int, "a whole number")
_REAL = _Kind(parsed_float, "a number")
_FLAG = _Kind({"true": True, "false": False}.get, "true or false")
_TEXT = _Kind(lambda text: text or None, "a text")

#: Options of `segmax.ray.open` that an address may have.
_OPTIONS: Mapping[str, _Kind] = {
    "replicas": _WHOLE,
    "address": _TEXT,
    "deadline_s": _REAL,
    "allow_partial": _FLAG,
    "hedge": _FLAG,
    "num_cpus": _REAL,
    "threads": _WHOLE,
    "cache": _TEXT,
    "start_s": _REAL,
}


class RayAddress(NamedTuple):
    """Where a sharded index is, and how to open it.

    Parameters
    ----------
    path
        The folder, or an address of fsspec.
    options
        What `segmax.ray.open` gets beside it.
    """

    path: str
    options: dict[str, Any]

    @property
    def name(self) -> str:
        """The last part of the path, without `.segmax` or `.sharded`."""
        path = self.path.rstrip("/")
        last = path.rpartition("/")[2] if is_address(path) else PurePath(path).name
        for suffix in _SUFFIXES:
            last = last.removesuffix(suffix) or last
        return last


def is_ray_address(text: object) -> bool:
    """Whether this is the address of an index on Ray.

    Examples
    --------
    >>> is_ray_address("ray:///data/docs.sharded"), is_ray_address("docs.segmax")
    (True, False)
    """
    return isinstance(text, str) and text.startswith(SCHEME)


def parse_ray_address(text: str) -> RayAddress:
    """Return the parts of an address.

    The path is what comes before the first "?". Options follow as in a URL, so write "%26" for "&" in their values.

    Raises
    ------
    ConfigError
        If there is no path, or an option is unknown, invalid or given twice.

    Examples
    --------
    >>> parse_ray_address("ray:///data/docs.sharded?replicas=2&allow_partial=true")
    RayAddress(path='/data/docs.sharded', options={'replicas': 2, 'allow_partial': True})
    >>> parse_ray_address("ray://docs.sharded").name
    'docs'
    """
    path, _, query = text.removeprefix(SCHEME).partition("?")
    if not is_ray_address(text) or not path:
        raise ConfigError(expected="the address of a sharded index, such as ray:///data/docs.sharded", got=shown(text))
    try:
        given = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query), max_num_fields=_MOST_OPTIONS)
    except ValueError:
        raise ConfigError(
            where=shown(text), expected="options such as ?replicas=2&deadline_s=5", got=shown(query)
        ) from None
    options: dict[str, Any] = {}
    for name, value in given:
        if name not in _OPTIONS:
            raise ConfigError(where=shown(text), expected=f"one of the options {', '.join(_OPTIONS)}", got=shown(name))
        if name in options:
            raise ConfigError(where=shown(text), expected=f"{name} once", got="it twice")
        options[name] = _read(text, name, value)
    return RayAddress(path, options)


def _read(text: str, name: str, value: str) -> Any:
    kind = _OPTIONS[name]
    found = kind.read(value)
    if found is None:
        raise ConfigError(where=shown(text), expected=f"{name} to be {kind.expected}", got=shown(value))
    return found


def open_address(text: str, *, encoder: object = None) -> RayIndex:
    """Open a sharded index on Ray by its address; see `segmax.ray.open`.

    Parameters
    ----------
    text
        Such as "ray:///data/docs.sharded?replicas=2&address=auto"; after "ray://" comes a path, absolute or relative,
        or an address of fsspec.
    encoder
        As for `segmax.open`.

    Raises
    ------
    ConfigError
        If the address is invalid.
    SegmaxError
        What else `segmax.ray.open` raises.
    """
    from segmax.ray.opening import open as open_on_ray  # loads what only an open index needs

    path, options = parse_ray_address(text)
    return open_on_ray(path, encoder=encoder, **options)
