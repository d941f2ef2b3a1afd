"""Cutting a stream of documents into pieces of one's own size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from segmax.vectors.documents import Document


def regrouped(
    batches: Iterable[Sequence[Document]], max_docs: int, max_characters: int = 1 << 22
) -> Iterator[list[Document]]:
    """Yield the documents of all batches in order, in pieces that do not depend on how they came.

    A piece ends after `max_docs` documents, or once it has `max_characters`.
    """
    piece: list[Document] = []
    characters = 0
    for batch in batches:
        for doc in batch:
            piece.append(doc)
            characters += len(doc.title) + len(doc.text)
            if len(piece) >= max_docs or characters >= max_characters:
                yield piece
                piece, characters = [], 0
    if piece:
        yield piece


def batched(documents: Iterable[Document], max_docs: int = 256) -> Iterator[list[Document]]:
    """Yield documents in batches, as encoders take them."""
    return regrouped(([doc] for doc in documents), max_docs)
