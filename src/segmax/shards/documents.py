"""Many documents of a sharded index at once: a round of calls for all, where one by one takes several for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from segmax.base.errors import UnknownIdError
from segmax.shards.sharded import ShardedIndex
from segmax.storage.texts import StoredText
from segmax.vectors.documents import DocId


class Documents(NamedTuple):
    """Some documents, in the order of their ids; None where something was not asked for."""

    rows: NDArray[np.int64]
    texts: list[StoredText] | None
    metadata: list[dict[str, Any] | None] | None


def documents_of(index: ShardedIndex, ids: Sequence[DocId], *, texts: bool, metadata: bool) -> Documents:
    """Return rows, texts and metadata of documents.

    Parameters
    ----------
    index
        Where they are.
    ids
        Their ids.
    texts, metadata
        What to return beside the rows; the index has to store it.

    Raises
    ------
    UnknownIdError
        At the first id that no document has.
    """
    places = index._places_of(ids)
    rows = np.array(_looked_up(index, places, "numbers"), dtype=np.int64)
    return Documents(
        rows,
        _looked_up(index, places, "texts") if texts else None,
        _looked_up(index, places, "metadata") if metadata else None,
    )


def ids_of_rows(index: ShardedIndex, rows: Sequence[int]) -> list[DocId]:
    """Return the ids of the documents in some input rows; raise UnknownIdError at the first that is not there."""
    wrong = next((row for row in rows if not 0 <= row < index.num_docs), None)
    if wrong is not None:
        raise UnknownIdError(f"no document is in row {wrong} of {index.num_docs:,}")
    places: list[tuple[int, int]] = [(0, 0)] * len(rows)
    if rows:
        for shard, found in enumerate(index._of_all("rows_of_numbers", np.array(rows, dtype=np.int64))):
            for at in np.flatnonzero(found >= 0).tolist():
                places[at] = shard, int(found[at])
    return _looked_up(index, places, "ids")


def _looked_up(index: ShardedIndex, places: Sequence[tuple[int, int]], method: str) -> list[Any]:
    """Return what a method of shards says about documents, in their order."""
    found: list[Any] = [None] * len(places)
    _, ats, answers = index._by_shard(places, method)
    for at, values in zip(ats, answers, strict=True):
        for place, value in zip(at.tolist(), values, strict=True):
            found[place] = value
    return found
