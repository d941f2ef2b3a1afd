"""Haystack: a retriever component over an index, also for pipelines that are stored as YAML."""

# Not `from __future__ import annotations`: Haystack makes sockets from the annotations of `run`, which must be types.

import asyncio
import dataclasses
import os
import re
from typing import Any, Self

from segmax.base.checks import checked_int
from segmax.base.errors import ConfigError, InputError
from segmax.base.optional import needing
from segmax.integrations.sources import opened, place_of
from segmax.integrations.text_search import TextHit, TextSearch, text_and_metadata
from segmax.paper import method_name, parse_method
from segmax.search.methods import SearchParams
from segmax.search.protocol import Searchable

with needing("haystack-ai", "segmax.integrations.haystack", "haystack"):
    from haystack import Document, component, default_from_dict, default_to_dict
    from haystack.core.errors import DeserializationError, SerializationError
    from haystack.dataclasses import SparseEmbedding
    from haystack.document_stores.types import FilterPolicy, apply_filter_policy
    from haystack.utils import deserialize_callable, serialize_callable
    from haystack.utils.filters import document_matches_filter

_GROWTH = 4  # how much further a search looks where a filter left too little


@component
class SegmaxRetriever:
    """Retrieves documents by learned sparse vectors.

    To serialize the component (`to_dict`, or a pipeline as YAML), the index has to be on disk or at a service, the
    encoder a name or a function of a module, and texts a function of a module. A key is not written down: set the
    environment variable SEGMAX_API_KEY where the component is loaded.

    Parameters
    ----------
    index
        What to search, also what `segmax.connect` returns; or its path or address, which is opened on first use.
    encoder
        What made the vectors of the index: a name or folder of a model, a `SparseEncoder` of sentence-transformers,
        anything with `encode_queries(list of strings)`, a function that makes one on first use, or "stored" for the
        model that the index names, if you trust it. None: the encoder of the index.
    texts
        From id to text: a dictionary, or a function. A text is a string, a mapping with "text" (the rest becomes
        `meta`), or a Haystack `Document`. None: those that the index keeps.
    top_k
        How many documents.
    filters
        Conditions on the documents, in the language of Haystack. If the index stores metadata, it answers conditions on
        `meta`; otherwise, and for dates, the search goes on until `top_k` documents fulfil the conditions or there are
        no more.
    filter_policy
        Whether filters given to `run` replace these or are merged with them.
    params, target_recall
        As for `segmax.Index.search`; without them the search is exact.
    """

    def __init__(
        self,
        index: Searchable | str | os.PathLike[str],
        encoder: Any = None,
        texts: Any = None,
        top_k: int = 10,
        filters: dict[str, Any] | None = None,
        filter_policy: str | FilterPolicy = FilterPolicy.REPLACE,
        params: SearchParams | None = None,
        target_recall: float | None = None,
    ) -> None:
        self.index = index
        self.encoder = encoder
        self.texts = texts
        self.top_k = checked_int("top_k", top_k, 1)
        self.filters = filters
        self.filter_policy = FilterPolicy.from_str(filter_policy) if isinstance(filter_policy, str) else filter_policy
        self.params = params
        self.target_recall = target_recall
        self._search: TextSearch | None = None

    def warm_up(self) -> None:
        """Open the index and load the encoder if they were given by path, name or function."""
        if self._search is None:
            self._search = TextSearch(
                opened(self.index), _made(self.encoder), self.texts, self.params, self.target_recall
            )

    @component.output_types(documents=list[Document])
    def run(
        self,
        query: str | None = None,
        query_sparse_embedding: SparseEmbedding | None = None,
        filters: dict[str, Any] | None = None,
        top_k: int | None = None,
    ) -> dict[str, list[Document]]:
        """Return the best documents for a query.

        Parameters
        ----------
        query
            The query in words.
        query_sparse_embedding
            The query as a vector, instead.
        filters, top_k
            In place of those of the component, or, by its policy, together with them.

        Returns
        -------
        dict
            {"documents": best first, each with its score}.

        Raises
        ------
        InputError
            If there is no query, or one in words and another as a vector, or the query is invalid.
        """
        self.warm_up()
        assert self._search is not None
        vector = self._vector(self._search, query, query_sparse_embedding)
        wanted = self.top_k if top_k is None else checked_int("top_k", top_k, 0)
        conditions = apply_filter_policy(self.filter_policy, self.filters, filters)
        return {"documents": _filtered(self._search, vector, wanted, conditions)}

    @component.output_types(documents=list[Document])
    async def run_async(
        self,
        query: str | None = None,
        query_sparse_embedding: SparseEmbedding | None = None,
        filters: dict[str, Any] | None = None,
        top_k: int | None = None,
    ) -> dict[str, list[Document]]:
        """Do what `run` does, in another thread: the event loop goes on."""
        found: dict[str, list[Document]] = await asyncio.to_thread(
            self.run, query, query_sparse_embedding, filters, top_k
        )
        return found

    def to_dict(self) -> dict[str, Any]:
        """Write the component down."""
        written: dict[str, Any] = default_to_dict(
            self,
            index=self._written_index(),
            encoder=_written_encoder(self.encoder),
            texts=None if self.texts is None else _written_function("texts", self.texts),
            top_k=self.top_k,
            filters=self.filters,
            filter_policy=self.filter_policy.value,
            params=None if self.params is None else method_name(self.params),
            target_recall=self.target_recall,
        )
        return written

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Make a component of what `to_dict` wrote."""
        parameters = dict(data.get("init_parameters", {}))
        if isinstance(parameters.get("encoder"), dict):
            parameters["encoder"] = deserialize_callable(parameters["encoder"]["function"])
        if parameters.get("texts") is not None:
            parameters["texts"] = deserialize_callable(parameters["texts"])
        if parameters.get("params") is not None:
            parameters["params"] = _read_params(parameters["params"])
        made: Self = default_from_dict(cls, {**data, "init_parameters": parameters})
        return made

    def _vector(self, search: TextSearch, query: str | None, embedding: SparseEmbedding | None) -> object:
        if query is not None and embedding is None:
            return search.encoded(query)
        if query is None and embedding is not None:
            return embedding.indices, embedding.values
        given = "neither" if query is None else "both"
        raise InputError(expected="query or query_sparse_embedding", got=given)

    def _written_index(self) -> str:
        place = place_of(self.index)
        if place is None:
            msg = "an index in memory cannot be serialized: save it, and pass its path to the component"
            raise SerializationError(msg)
        return place


def _filtered(search: TextSearch, vector: object, top_k: int, conditions: dict[str, Any] | None) -> list[Document]:
    """Return the best documents that fulfil the conditions, looking further down the ranking as long as it takes."""
    where = as_where(conditions) if conditions and search.index.fields else None
    if where is not None:
        return [_document(hit) for hit in search.by_vector(vector, top_k, where)] if top_k else []
    k = top_k
    while k > 0:
        documents = [_document(hit) for hit in search.by_vector(vector, k)]
        if not conditions:
            return documents
        kept = [document for document in documents if document_matches_filter(conditions, document)]
        if len(kept) >= top_k or len(documents) < k:
            return kept[:top_k]
        k *= _GROWTH
    return []


_ORDER = {">": "$gt", ">=": "$gte", "<": "$lt", "<=": "$lte"}
_LOGIC = {"AND": "$and", "OR": "$or", "NOT": "$and"}
_ATTRIBUTES = frozenset(field.name for field in dataclasses.fields(Document))
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def as_where(condition: Any) -> dict[str, Any] | None:
    """Return conditions of Haystack as `segmax.Index.search` takes them; None if only Haystack can tell what they mean.

    That is so for attributes other than `meta`, for dates, which Haystack compares as points in time, and for anything
    that is not well-formed.
    """
    if not isinstance(condition, dict):
        return None
    if "field" in condition:
        return _comparison(condition)
    operator, inner = condition.get("operator"), condition.get("conditions")
    if operator not in _LOGIC or not isinstance(inner, list):
        return None
    parts = [as_where(one) for one in inner]
    if not parts or None in parts:
        return None
    joined = {_LOGIC[operator]: parts}
    return {"$not": joined} if operator == "NOT" else joined


def _comparison(condition: dict[str, Any]) -> dict[str, Any] | None:
    field, operator, value = condition["field"], condition.get("operator"), condition.get("value")
    path = field.removeprefix("meta.") if isinstance(field, str) else ""
    if not path or path.startswith("$") or (path == field and ("." in field or field in _ATTRIBUTES)):
        return None
    if operator in _ORDER:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return {path: {_ORDER[operator]: value}} if is_number else None
    values = value if operator in ("in", "not in") else [value]
    if operator not in ("==", "!=", "in", "not in") or not isinstance(values, list) or "value" not in condition:
        return None
    parts = [_equal(path, one) for one in values]
    if None in parts:
        return None
    found: dict[str, Any] = {"$or": parts} if parts else {"$not": {}}
    return found if operator in ("==", "in") else {"$not": found}


def _equal(path: str, value: Any) -> dict[str, Any] | None:
    """Return the filter for a field that equals a value and is no list that contains it; a missing field is None."""
    if value is None:
        return {"$or": [{path: None}, {path: {"$exists": False}}]}
    if isinstance(value, (int, float)) or (isinstance(value, str) and not _DATE.match(value)):
        return {"$and": [{path: value}, {"$not": {path: {"$contains": value}}}]}
    return None


def _document(hit: TextHit) -> Document:
    if isinstance(hit.content, Document):
        return dataclasses.replace(hit.content, score=hit.score)
    text, meta = text_and_metadata(hit)
    return Document(id=str(hit.id), content=text, meta=meta, score=hit.score)


def _made(encoder: Any) -> Any:
    """Return the encoder itself, where a function was given."""
    return encoder() if _is_function(encoder) else encoder


def _is_function(value: object) -> bool:
    # Encoders may be callable, as torch modules are.
    return callable(value) and not hasattr(value, "encode_queries") and not hasattr(value, "encode_query")


# --- writing down ----------------------------------------------------------------------------------------------------


def _written_encoder(encoder: Any) -> str | dict[str, str] | None:
    if encoder is None:
        return None
    if isinstance(encoder, (str, os.PathLike)):
        return os.fspath(encoder)
    return {"function": _written_function("encoder", encoder)}


def _written_function(name: str, value: Any) -> str:
    if not _is_function(value):
        msg = f"{name} cannot be serialized, because it is a {type(value).__name__}: pass a function of a module"
        raise SerializationError(msg)
    written: str = serialize_callable(value)
    return written


def _read_params(written: object) -> SearchParams:
    """Return the parameters that a name such as "asc:mu=0.9" stands for."""
    try:
        return parse_method(str(written))
    except ConfigError as error:
        msg = f"params: {error}"
        raise DeserializationError(msg) from error
