"""Choosing how a model computes, by the first texts that it will encode."""

from __future__ import annotations

from collections.abc import Iterable

from segmax.encoders.base import Encoder
from segmax.encoders.choosing import NUM_FIRST, choose_for
from segmax.encoders.transformer import TransformerEncoder
from segmax.io import Document
from segmax.text.documents import PeekedTexts, num_documents


def settled(encoder: Encoder, documents: Iterable[Document], *, title: bool) -> Iterable[Document]:
    """Settle how an encoder computes, before anything records it; return the documents, which are read once.

    Encoders that are no models, and models about which the caller has decided, stay as they are.
    """
    if not isinstance(encoder, TransformerEncoder):
        return documents
    encoder.pace.num_docs = num_documents(documents)
    peeked = PeekedTexts(documents, NUM_FIRST if encoder.is_open else 0)
    choose_for(encoder, peeked.first if title else [document._replace(title="") for document in peeked.first])
    return peeked
