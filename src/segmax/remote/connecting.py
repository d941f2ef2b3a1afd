"""Connecting to a service: which index, index or collection, waiting or awaiting."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from segmax.base.checks import checked_int, checked_number, shown
from segmax.base.errors import ConfigError, IndexNotFoundError, ServiceError
from segmax.remote.address import parse_address
from segmax.remote.answers import Info
from segmax.remote.calls import Call, Request, members, record, string, understood
from segmax.remote.endpoint import Limits
from segmax.remote.transport import AsyncTransport, Secret, Transport, Wire

if TYPE_CHECKING:
    from segmax.remote.aio import AsyncRemoteCollection, AsyncRemoteIndex
    from segmax.remote.collection import RemoteCollection
    from segmax.remote.index import RemoteIndex

KEY_VARIABLE = "SEGMAX_API_KEY"
_MOST_RETRIES = 100


def connect(
    url: str,
    api_key: str | None = None,
    *,
    index: str | None = None,
    timeout: float = 30.0,
    retries: int = 3,
    transport: Any = None,
) -> RemoteIndex | RemoteCollection:
    """Connect to an index or a collection that `segmax serve` serves.

    The result has the methods of an index or a collection on this machine, and can be used wherever these can.

    Parameters
    ----------
    url
        The address of the service, such as "http://localhost:8080", or of an index there,
        "http://localhost:8080/v1/indexes/papers".
    api_key
        A key, where the service asks for one; None: the environment variable SEGMAX_API_KEY, if it is set.
    index
        The name of the index; None: the one in the URL, or the only one that is served.
    timeout
        How many seconds a request may take, with all its repetitions. `compact`, `commit` and `snapshot` may take an
        hour.
    retries
        How often to repeat a request that the service could not be reached for or refused because it was busy. Requests
        that write are repeated only where that is safe.
    transport
        A transport of httpx, for proxies, certificates of your own, or tests.

    Returns
    -------
    RemoteIndex or RemoteCollection

    Raises
    ------
    IndexNotFoundError
        If the service has no index of this name.
    ServiceError
        If there is no service at the address.
    ConfigError
        If an option is invalid, or the key.
    MissingPackageError
        If httpx is not installed: `pip install 'segmax[client]'`.

    Examples
    --------
    >>> import segmax
    >>> papers = segmax.connect("http://localhost:8080", index="papers")  # doctest: +SKIP
    >>> papers.search("copper", k=3).ids  # doctest: +SKIP
    ['d1', 'd7', 'd3']
    """
    wire, name = _wire(url, api_key, index, timeout, retries, transport)
    first = Transport(wire)
    try:
        info, limits = first.run(_chosen(wire.base, name))
    except BaseException:
        first.close()
        raise
    if info.is_collection:
        from segmax.remote.collection import RemoteCollection  # which loads what reads documents

        return RemoteCollection(first, info, limits)
    from segmax.remote.index import RemoteIndex

    return RemoteIndex(first, info, limits)


async def connect_async(
    url: str,
    api_key: str | None = None,
    *,
    index: str | None = None,
    timeout: float = 30.0,
    retries: int = 3,
    transport: Any = None,
) -> AsyncRemoteIndex | AsyncRemoteCollection:
    """Connect as `segmax.connect` does; the methods of the result are coroutines.

    Parameters
    ----------
    url, api_key, index, timeout, retries, transport
        As for `segmax.connect`.

    Examples
    --------
    >>> from segmax.remote import connect_async
    >>> async def best(query):
    ...     async with await connect_async("http://localhost:8080") as papers:
    ...         return (await papers.search(query, k=1)).ids
    """
    from segmax.remote.aio import AsyncRemoteCollection, AsyncRemoteIndex

    wire, name = _wire(url, api_key, index, timeout, retries, transport)
    first = AsyncTransport(wire)
    try:
        info, limits = await first.run(_chosen(wire.base, name))
    except BaseException:
        await first.close()
        raise
    return (AsyncRemoteCollection if info.is_collection else AsyncRemoteIndex)(first, info, limits)


def _wire(
    url: object, api_key: object, index: object, timeout: object, retries: object, transport: Any
) -> tuple[Wire, str | None]:
    """Return how to reach the service, and the name of the index, checked."""
    base, named = parse_address(url)
    if index is not None and not isinstance(index, str):
        raise ConfigError(option="index", expected="the name of an index", got=shown(index))
    if index is not None and named is not None and index != named:
        raise ConfigError(option="index", expected=f"{named!r}, as in the URL", got=repr(index))
    seconds = checked_number("timeout", timeout)
    if not 0 < seconds < float("inf"):
        raise ConfigError(option="timeout", expected="greater than 0, in seconds", got=timeout)
    key = os.environ.get(KEY_VARIABLE) or None if api_key is None else api_key
    wire = Wire(
        base=base,
        key=None if key is None else _checked_key(key),
        timeout=seconds,
        retries=checked_int("retries", retries, 0, _MOST_RETRIES),
        carrier=transport,
    )
    return wire, named if index is None else index


def _checked_key(key: object) -> Secret:
    """Return a key that a header can hold; messages never show it."""
    if not isinstance(key, str) or not key or not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError(option="api_key", expected="a string of printable ASCII characters", got="something else")
    return Secret(key)


def _chosen(base: str, name: str | None) -> Call[tuple[Info, Limits]]:
    """Return what the service says about an index, and its limits."""
    answer = yield Request(method="GET", path="/v1/indexes")
    infos, limits, unavailable = understood(_listed, answer, base)
    names = ", ".join(repr(info.name) for info in infos[:20]) or "nothing"
    if name is None and len(infos) > 1:
        raise ConfigError(option="index", expected=f"one of {names}", got="none")
    found = next((info for info in infos if name is None or info.name == name), None)
    if found is None and (name in unavailable or (name is None and unavailable)):
        reasons = unavailable.values() if name is None else [unavailable[name]]
        raise ServiceError(f"'{base}' cannot serve it now: {'; '.join(reasons)}", hint="try again later")
    if found is None:
        raise IndexNotFoundError(f"'{base}' serves {names}" + ("" if name is None else f", and not {name!r}"))
    return found, limits


def _listed(answer: Any) -> tuple[list[Info], Limits, dict[str, str]]:
    """Return what is served, the limits, and why something is not served, by name."""
    said = record(answer)
    unavailable = {name: string(reason) for name, reason in record(said.get("unavailable", {})).items()}
    infos = [Info.from_answer(info) for info in members(said["indexes"])]
    return infos, Limits.from_answer(said["limits"]), unavailable
