"""LlamaIndex: a retriever over an index, for query engines and agents."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from segmax.base.errors import InputError
from segmax.base.optional import needing
from segmax.integrations.text_search import (
    TextHit,
    TextSearch,
    free_ids,
    index_documents,
    text_and_metadata,
)
from segmax.search.methods import SearchParams
from segmax.search.protocol import Searchable
from segmax.vectors.documents import Document

with needing("llama-index-core", "segmax.integrations.llama_index", "llama-index"):
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.callbacks.base import CallbackManager
    from llama_index.core.constants import DEFAULT_SIMILARITY_TOP_K
    from llama_index.core.schema import (
        BaseNode,
        IndexNode,
        MetadataMode,
        NodeWithScore,
        QueryBundle,
        TextNode,
    )
    from llama_index.core.vector_stores.types import FilterCondition, FilterOperator, MetadataFilters


class SegmaxRetriever(BaseRetriever):
    """Retrieves nodes by learned sparse vectors.

    Parameters
    ----------
    index
        What to search.
    encoder
        What made the vectors of the index: a name or folder of a model, a `SparseEncoder` of sentence-transformers,
        anything with `encode_queries(list of strings)`, or "stored" for the model that the index names, if you trust
        it. None: the encoder of the index.
    texts
        From id to text: a dictionary, or a function such as `docstore.get_node`. A text is a string, a mapping with
        "text" (the rest becomes metadata), or a node. None: those that the index keeps.
    similarity_top_k
        How many nodes.
    filters
        `MetadataFilters` of LlamaIndex, on the metadata that the index stores. They may be nested. `TEXT_MATCH` is not
        supported.
    params, target_recall
        As for `segmax.Index.search`; without them the search is exact.
    callback_manager, objects, object_map, verbose
        As for every retriever of LlamaIndex.
    """

    def __init__(
        self,
        index: Searchable,
        encoder: object = None,
        texts: Any = None,
        similarity_top_k: int = DEFAULT_SIMILARITY_TOP_K,
        filters: MetadataFilters | None = None,
        params: SearchParams | None = None,
        target_recall: float | None = None,
        callback_manager: CallbackManager | None = None,
        objects: list[IndexNode] | None = None,
        object_map: dict[str, Any] | None = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(callback_manager=callback_manager, object_map=object_map, objects=objects, verbose=verbose)
        self.similarity_top_k = similarity_top_k
        self._where = None if filters is None else as_where(filters)
        self._search = TextSearch(index, encoder, texts, params, target_recall)

    @classmethod
    def from_nodes(
        cls,
        nodes: Iterable[BaseNode],
        encoder: object,
        *,
        index_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> SegmaxRetriever:
        """Index nodes and return a retriever over them, which keeps them in memory.

        You can filter by the values in their metadata that JSON can hold.

        Parameters
        ----------
        nodes
            What to index: their text with the metadata that is meant for embedding. No two may have the same id.
        encoder
            Makes vectors of texts: an encoder, a name or folder, or a `SparseEncoder` of sentence-transformers.
        index_kwargs
            Options of `segmax.from_texts`, such as `path`.
        **kwargs
            Options of the retriever.
        """
        given = list(nodes)
        by_id = dict(zip(free_ids([node.node_id for node in given], "node"), given, strict=True))
        wanted = [Document(i, "", node.get_content(metadata_mode=MetadataMode.EMBED)) for i, node in by_id.items()]
        described = [node.metadata for node in given]
        return cls(index_documents(wanted, encoder, index_kwargs or {}, described), texts=by_id, **kwargs)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        hits = self._search.by_text(query_bundle.query_str, self.similarity_top_k, self._where)
        return [NodeWithScore(node=_node(hit), score=hit.score) for hit in hits]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        # By default this would hold up the event loop.
        return await asyncio.to_thread(self._retrieve, query_bundle)


def _node(hit: TextHit) -> BaseNode:
    if isinstance(hit.content, BaseNode):
        return hit.content
    text, metadata = text_and_metadata(hit)
    return TextNode(id_=str(hit.id), text=text, metadata=metadata)


# --- filters ---------------------------------------------------------------------------------------------------------

_OPERATORS = {
    FilterOperator.EQ: "$eq",
    FilterOperator.NE: "$ne",
    FilterOperator.GT: "$gt",
    FilterOperator.GTE: "$gte",
    FilterOperator.LT: "$lt",
    FilterOperator.LTE: "$lte",
    FilterOperator.IN: "$in",
    FilterOperator.NIN: "$nin",
    FilterOperator.CONTAINS: "$contains",
}


def as_where(filters: MetadataFilters) -> dict[str, Any]:
    """Return filters of LlamaIndex as `segmax.Index.search` takes them."""
    parts = [as_where(one) if isinstance(one, MetadataFilters) else _test(one) for one in filters.filters]
    if not parts:
        return {}
    if filters.condition == FilterCondition.NOT:
        return {"$not": {"$or": parts}}
    return {"$or" if filters.condition == FilterCondition.OR else "$and": parts}


def _test(one: Any) -> dict[str, Any]:
    """Return the filter that one of theirs stands for."""
    field, value = one.key, one.value
    if one.operator in _OPERATORS:
        return {field: {_OPERATORS[one.operator]: value}}
    if one.operator == FilterOperator.IS_EMPTY:
        return {"$or": [{field: {"$exists": False}}, {field: {"$in": [None, ""]}}, {field: {"$eq": []}}]}
    if one.operator in (FilterOperator.ANY, FilterOperator.ALL):
        each = [{field: {"$contains": item}} for item in value or []]
        if not each:
            return {} if one.operator == FilterOperator.ALL else {"$not": {}}
        return {"$or" if one.operator == FilterOperator.ANY else "$and": each}
    known = ", ".join(operator.value for operator in (*_OPERATORS, *_MORE_OPERATORS))
    raise InputError(option="filters", expected=f"operators that segmax has ({known})", got=repr(one.operator.value))


_MORE_OPERATORS = (FilterOperator.ANY, FilterOperator.ALL, FilterOperator.IS_EMPTY)
