"""What to search, given as such, by its folder, or by its address at a service."""

from __future__ import annotations

import os

from segmax.collection.opening import open_searchable
from segmax.remote.connecting import connect
from segmax.search.protocol import Searchable


def opened(source: Searchable | str | os.PathLike[str]) -> Searchable:
    """Open a folder, or connect to an address; what is open already is returned as it is.

    A service that asks for a key gets that of the environment variable SEGMAX_API_KEY.
    """
    if isinstance(source, str) and is_address(source):
        return connect(source)
    return open_searchable(source) if isinstance(source, (str, os.PathLike)) else source


def is_address(source: object) -> bool:
    """Whether a source is the address of a service.

    Examples
    --------
    >>> is_address("http://localhost:8080"), is_address("docs.segmax")
    (True, False)
    """
    return isinstance(source, str) and source.startswith(("http://", "https://"))


def place_of(source: Searchable | str | os.PathLike[str]) -> str | None:
    """Return the folder or the address from which `opened` gets the same again; None for an index in memory."""
    if isinstance(source, (str, os.PathLike)):
        return os.fspath(source)
    found = source.path if source.path is not None else getattr(source, "url", None)
    return None if found is None else str(found)
