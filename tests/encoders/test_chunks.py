"""A stream of documents, cut into pieces."""

from __future__ import annotations

from encoding_samples import documents
from segmax.encoders.chunks import regrouped
from segmax.vectors.documents import Document


def test_pieces_do_not_depend_on_batches() -> None:
    """Pieces end by number of documents, or of characters."""
    docs = documents(23)
    for size in (1, 4, 100):
        pieces = list(regrouped([docs[i : i + size] for i in range(0, 23, size)], 5))
        assert [len(piece) for piece in pieces] == [5, 5, 5, 5, 3]
        assert [doc for piece in pieces for doc in piece] == docs
    long = [Document("x", "", "a" * 10)] * 6
    assert [len(piece) for piece in regrouped([long], 5, max_characters=25)] == [3, 3]
