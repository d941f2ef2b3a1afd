"""From texts to an index in one go: read, encode, build."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

import scipy.sparse as sp

from segmax.build import build
from segmax.encoders import Encoder, description, load_encoder
from segmax.encoders.chunks import batched
from segmax.errors import InputError
from segmax.index import Index
from segmax.io import Document, open_texts


def build_from_texts(
    texts: object,
    *,
    encoder: Encoder | str = "bm25",
    path: str | os.PathLike[str] | None = None,
    keep_texts: bool = True,
    **options: Any,
) -> Index:
    """Encode texts and build an index of them that can be searched with text.

    Parameters
    ----------
    texts
        The path of a BEIR folder or of a file of texts, an ir_datasets id, or an iterable of texts: strings, documents
        (`segmax.io.Document`), or mappings with "text" and perhaps "title" and "id" (or "_id"). Without ids documents
        are numbered from 0.
    encoder
        "bm25", the name or folder of a model, or an encoder.
    path
        Where to write the index; None keeps it in memory.
    keep_texts
        Store the texts with the index, so that results come back with them.
    options
        Of `segmax.build`.

    Examples
    --------
    >>> index = build_from_texts(["a waveguide of copper", "diodes and noise"])
    >>> hits = index.search("copper waveguides")
    >>> hits.ids, hits.texts[0].text
    (['0'], 'a waveguide of copper')
    """
    reader: Iterable[Document] = (
        open_texts(texts) if isinstance(texts, (str, os.PathLike)) else _Documents(_iterable(texts))
    )
    made = load_encoder(encoder) if isinstance(encoder, str) else encoder
    ids: list[str] = []

    def vectors() -> Iterator[sp.csr_matrix]:
        for batch in made.encode_documents(batched(reader)):
            ids.extend(batch.ids)
            yield batch.vectors

    def terms() -> Iterator[str]:  # asked for when all documents are encoded: only then BM25 knows them
        yield from made.vocabulary

    return build(
        vectors(),
        path=path,
        ids=ids,
        terms=terms(),
        texts=reader if keep_texts else None,
        encoder=description(made),
        **options,
    )


def _iterable(texts: object) -> Iterable[Any]:
    """Return texts that can be gone through twice: to be encoded, and to be kept."""
    if isinstance(texts, Iterable) and not isinstance(texts, (bytes, dict)):
        return list(texts) if isinstance(texts, Iterator) else texts
    msg = f"expected texts as a path, an ir_datasets id or an iterable of texts, got {type(texts).__name__}"
    raise InputError(msg)


class _Documents:
    """Texts as documents."""

    def __init__(self, texts: Iterable[Any]) -> None:
        self._texts = texts

    def __iter__(self) -> Iterator[Document]:
        for row, text in enumerate(self._texts):
            yield _document(text, row)


def _document(text: Any, row: int) -> Document:
    if isinstance(text, Document):
        return text
    if isinstance(text, str):
        return Document(str(row), "", text)
    if isinstance(text, dict) and isinstance(text.get("text"), str):
        return Document(str(text.get("id", text.get("_id", row))), text.get("title") or "", text["text"])
    msg = f"expected a string, a Document or a mapping with 'text' for document {row}, got {type(text).__name__}"
    raise InputError(msg)
