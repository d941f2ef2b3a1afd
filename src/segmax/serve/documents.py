"""Documents as messages: titles, texts, metadata and vectors, looked up by id or by row, a few at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from msgspec import UNSET

from segmax.serve import messages
from segmax.serve.allowance import Share
from segmax.serve.catalog import Source
from segmax.shards.documents import Documents, documents_of, ids_of_rows
from segmax.shards.sharded import ShardedIndex
from segmax.vectors.rows import slice_rows

_FEW = 16  # documents that are in memory before they are written down
_MORE = 256  # the same of shards, where looking up takes a call for each


def documents_by_id(source: Source, ids: Sequence[int | str], fields: Sequence[str], share: Share) -> Any:
    """Return the list of documents with some fields; raise UnknownIdError if one is not there."""
    size = _MORE if isinstance(source, ShardedIndex) else _FEW
    pieces = (ids[first : first + size] for first in range(0, len(ids), size))
    return share.listed(document for some in pieces for document in _documents(source, some, fields))


def document_by_id(source: Source, id: int | str, fields: Sequence[str], share: Share) -> Any:
    """Return a document with some fields; raise UnknownIdError if it is not there."""
    return share.written(next(_documents(source, [id], fields)))


def _documents(source: Source, ids: Sequence[int | str], fields: Sequence[str]) -> Iterator[messages.DocumentResult]:
    """Yield documents with some fields."""
    vectors = source._vector_rows(ids) if "vector" in fields and ids else None
    with_texts = source.texts is not None and ("title" in fields or "text" in fields)
    with_metadata = "metadata" in fields and bool(source.fields)
    looked_up = _looked_up(source, ids, with_texts, with_metadata)
    for number, id in enumerate(ids):
        document = messages.DocumentResult(id=id)
        if "row" in fields:
            document.row = int(looked_up.rows[number])
        if looked_up.texts is not None:
            stored = looked_up.texts[number]
            document.title = stored.title if "title" in fields else UNSET
            document.text = stored.text if "text" in fields else UNSET
        if "metadata" in fields:
            document.metadata = None if looked_up.metadata is None else looked_up.metadata[number]
        if vectors is not None:
            one = slice_rows(vectors, number, number + 1)
            document.vector = messages.Vector(indices=one.indices.tolist(), values=one.values.astype(float).tolist())
        yield document


def documents_by_row(source: Source, rows: Sequence[int], fields: Sequence[str], share: Share) -> Any:
    """Return the list of documents with some fields, by input row; raise UnknownIdError if one is not there."""
    if isinstance(source, ShardedIndex):
        return documents_by_id(source, ids_of_rows(source, rows), fields, share)
    return documents_by_id(source, [source.id_of(row) for row in rows], fields, share)


def _looked_up(source: Source, ids: Sequence[int | str], with_texts: bool, with_metadata: bool) -> Documents:
    """Return rows, texts and metadata of documents."""
    if isinstance(source, ShardedIndex):
        return documents_of(source, ids, texts=with_texts, metadata=with_metadata)
    return Documents(
        np.array([source.row_of(id) for id in ids], dtype=np.int64),
        [source.text(id) for id in ids] if with_texts else None,
        [source.metadata(id) for id in ids] if with_metadata else None,
    )
