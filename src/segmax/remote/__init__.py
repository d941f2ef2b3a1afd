"""The client of `segmax serve`: an index or a collection at a service, used like one on this machine.

`connect` is also `segmax.connect`. docs/client.md shows all of it.
"""

from typing import TYPE_CHECKING

from segmax.base.optional import on_demand

if TYPE_CHECKING:
    from segmax.remote.aio import AsyncRemoteCollection, AsyncRemoteIndex
    from segmax.remote.collection import RemoteCollection
    from segmax.remote.connecting import connect, connect_async
    from segmax.remote.index import RemoteIndex

__all__ = [
    "AsyncRemoteCollection",
    "AsyncRemoteIndex",
    "RemoteCollection",
    "RemoteIndex",
    "connect",
    "connect_async",
]

__getattr__ = on_demand(
    __name__,
    {
        "aio": "AsyncRemoteCollection AsyncRemoteIndex",
        "collection": "RemoteCollection",
        "connecting": "connect connect_async",
        "index": "RemoteIndex",
    },
)
