"""Rows by id, without an object per document: sorted hashes, which a part on disk maps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from segmax import _core
from segmax.storage.components import Arrays
from segmax.storage.tables import text_arrays
from segmax.vectors.documents import DocId

_MULTIPLIERS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


def hashed_ids(ids: Arrays) -> NDArray[np.uint64]:
    """Return a hash of every id, given as components of an index: integers, or strings."""
    if "id_number" in ids:
        return _mixed(ids["id_number"].astype(np.int64).view(np.uint64))
    return _core.hash_texts(ids["id_offset"], ids["id_text"])


def hashed(ids: Sequence[DocId]) -> NDArray[np.uint64]:
    """Return a hash of every id of a list of one kind."""
    if len(ids) and isinstance(ids[0], str):
        return hashed_ids(text_arrays("id", list(ids)))  # type: ignore[arg-type]
    return hashed_ids({"id_number": np.array(ids, dtype=np.int64)})


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Spread integers over 64 bits; neighbors must not share a neighborhood."""
    with np.errstate(over="ignore"):
        for shift, multiplier in zip((30, 27), _MULTIPLIERS, strict=True):
            values = (values ^ (values >> np.uint64(shift))) * multiplier
        return values ^ (values >> np.uint64(31))


def lookup_arrays(hashes: NDArray[np.uint64]) -> Arrays:
    """Return the components that find rows by hash."""
    order = np.argsort(hashes, kind="stable")
    return {"id_hash": hashes[order], "id_hash_row": order.astype(np.uint32)}


def candidates(arrays: Arrays, hashes: NDArray[np.uint64]) -> Iterator[tuple[int, int]]:
    """Yield (number of a hash, row) for every row of a part that may have one of the ids."""
    known, rows = arrays["id_hash"], arrays["id_hash_row"]
    if not len(known):
        return
    first = np.searchsorted(known, hashes)
    is_there = known[np.minimum(first, len(known) - 1)] == hashes
    for number in np.flatnonzero(is_there).tolist():
        place = int(first[number])
        while place < len(known) and known[place] == hashes[number]:
            yield number, int(rows[place])
            place += 1
