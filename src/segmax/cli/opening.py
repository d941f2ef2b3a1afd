"""Opening the INDEX of a command, whatever it is: a folder, ray://PATH, or the address of an index at a service."""

from __future__ import annotations

from typing import TYPE_CHECKING

import segmax

if TYPE_CHECKING:
    from segmax import Collection, Index
    from segmax.remote import RemoteIndex
    from segmax.shards.sharded import ShardedIndex


def opened(
    index: str, encoder: object = None, *, preload: bool = False
) -> Index | Collection | RemoteIndex | ShardedIndex:
    """Open what a command is given as INDEX.

    Parameters
    ----------
    index
        The folder of an index or a collection, "ray://PATH" for a sharded index, or "http://...".
    encoder
        As for `segmax.open`.
    preload
        Read an index in a folder into memory.
    """
    if index.startswith(("http://", "https://")):
        connected = segmax.connect(index)
        connected.encoder = encoder
        return connected
    if index.startswith("ray://"):
        from segmax.ray.address import open_address

        return open_address(index, encoder=encoder)
    return segmax.open(index, preload=preload, encoder=encoder)
