"""Search by text, for other libraries: an encoder makes the query vector, a lookup finds the texts of hits."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from numpy.typing import NDArray

from segmax.base.checks import checked_int
from segmax.base.errors import ConfigError, InputError
from segmax.encoders.base import query_rows_of
from segmax.metadata.values import checked_value
from segmax.search.index import Index
from segmax.search.methods import SearchParams
from segmax.search.protocol import Searchable, is_searchable
from segmax.search.queries import Filter
from segmax.text.pipeline import from_texts
from segmax.vectors.documents import DocId, Document


class TextHit(NamedTuple):
    """One result: `content` is what the lookup returned for the document, `metadata` what the index stores."""

    id: DocId
    score: float
    content: Any
    metadata: Mapping[str, Any] = MappingProxyType({})


class TextSearch:
    """An index with an encoder of queries and a source of texts.

    Parameters
    ----------
    index
        What to search.
    encoder
        What made the vectors of the index, as `segmax.open` takes it; None: the encoder of the index.
    texts
        A function, or anything with items like a dictionary, from id to text; None: those that the index stores. A text
        is a string, or an object or mapping with `text` and more.
    params, target_recall
        As for `Index.search`.

    Raises
    ------
    ConfigError
        If one of these is invalid.
    """

    def __init__(
        self,
        index: Searchable,
        encoder: object = None,
        texts: Any = None,
        params: SearchParams | None = None,
        target_recall: float | None = None,
    ) -> None:
        if not is_searchable(index):
            raise ConfigError(
                option="index", expected="an index", got=type(index).__name__, hint="open one with segmax.open"
            )
        if texts is None and index.texts is None:
            raise ConfigError(
                option="texts",
                expected="a dictionary or a function from id to text, because the index keeps no texts",
                got="none",
                hint="pass {texts=...}, or build the index with texts",
            )
        if texts is not None and not callable(texts) and not hasattr(texts, "__getitem__"):
            raise ConfigError(
                option="texts", expected="a dictionary or a function from id to text", got=type(texts).__name__
            )
        self.index = index
        self._encoder = None if encoder is None else index.encoder_for(encoder)
        self._texts = texts
        self._params = params
        self._target_recall = target_recall

    def by_text(self, query: str, k: int, where: Filter | None = None) -> list[TextHit]:
        """Return the k best documents for a query in words, of those that a filter matches."""
        # The encoder of the index encodes what it searches for, which over a service saves a request.
        return self.by_vector(_checked_text(query) if self._encoder is None else self.encoded(query), k, where)

    def by_vector(self, query: Any, k: int, where: Filter | None = None) -> list[TextHit]:
        """Return the k best documents for a query as `Index.search` takes it, of those that a filter matches."""
        hits = self.index.search(
            query, checked_int("k", k, 1), self._params, target_recall=self._target_recall, where=where
        )
        found = hits.texts if self._texts is None else [self._content(doc_id) for doc_id in hits.ids]
        described = hits.metadata if hits.has_metadata else [None] * len(hits)
        return [
            TextHit(hit.id, hit.score, content, metadata or {})
            for hit, content, metadata in zip(hits, found, described, strict=True)
        ]

    def encoded(self, query: str) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the terms of a query and their weights."""
        encoder = self.index.encoder if self._encoder is None else self._encoder
        row = query_rows_of(encoder, [_checked_text(query)])
        return row.indices, row.values

    def _content(self, doc_id: DocId) -> Any:
        try:
            content = self._texts(doc_id) if callable(self._texts) else self._texts[doc_id]
        except LookupError:
            content = None
        if content is None:
            raise InputError(option="texts", expected="known for every id of the index", got=f"none for {doc_id!r}")
        return content


def _checked_text(query: object) -> str:
    if not isinstance(query, str):
        raise InputError(expected="a query as a string", got=type(query).__name__)
    return query


def text_and_metadata(hit: TextHit) -> tuple[str, dict[str, Any]]:
    """Return the text of a result and its metadata: what the index stores, and what else the lookup returned."""
    text, more = _text_and_more(hit.content)
    return text, {**hit.metadata, **more}


def _text_and_more(content: Any) -> tuple[str, dict[str, Any]]:
    if isinstance(content, str):
        return content, {}
    if isinstance(content, Mapping) and isinstance(content.get("text"), str):
        return content["text"], {name: value for name, value in content.items() if name != "text"}
    text = getattr(content, "text", None)
    if isinstance(text, str):
        title = getattr(content, "title", "")
        return text, {"title": title} if title else {}
    raise InputError(expected="a text as a string, or an object or mapping with 'text'", got=type(content).__name__)


def index_documents(
    documents: Sequence[Document],
    encoder: object,
    options: Mapping[str, Any],
    metadata: Iterable[Mapping[str, Any]] | None = None,
) -> Index:
    """Encode documents and build an index that stores them and has their encoder.

    `encoder` and `options` are those of `segmax.from_texts`. What JSON cannot hold of the metadata is left out.
    """
    described = None if metadata is None else [_filterable(one) for one in metadata]
    return from_texts(documents, encoder=encoder, **{"metadata": described, **options})


def _filterable(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of metadata that JSON can hold; documents of other libraries may have anything."""
    found = {}
    for name, value in metadata.items():
        with contextlib.suppress(InputError):
            found[name] = checked_value(value)
    return found


def free_ids(given: Sequence[object], what: str) -> list[str]:
    """Return an id per document: the given one, or, where that is None, its number or the next one that is free.

    Raises
    ------
    InputError
        If two have the same.
    """
    rows: dict[str, int] = {}
    for row, doc_id in enumerate(given):
        if doc_id is not None and rows.setdefault(str(doc_id), row) != row:
            raise InputError(
                expected=f"every {what} to have an id of its own",
                got=f"{str(doc_id)!r} for {what} {rows[str(doc_id)]} and {what} {row}",
                hint="an index holds an id once",
            )
    ids: list[str] = []
    taken = rows.keys()
    after = len(given)  # no other document has these numbers by itself
    for row, doc_id in enumerate(given):
        if doc_id is not None:
            ids.append(str(doc_id))
            continue
        name = str(row)
        while name in taken:
            name, after = str(after), after + 1
        ids.append(name)
    return ids
