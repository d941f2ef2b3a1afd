"""LangChain: a retriever over an index, for any chain that takes one."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from segmax.base.optional import needing
from segmax.integrations.text_search import (
    TextHit,
    TextSearch,
    free_ids,
    index_documents,
    text_and_metadata,
)
from segmax.search.protocol import Searchable
from segmax.vectors.documents import Document as SegmaxDocument

with needing("langchain-core", "segmax.integrations.langchain", "langchain"):
    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.runnables.config import run_in_executor
    from pydantic import PrivateAttr, SkipValidation


class SegmaxRetriever(BaseRetriever):
    """Retrieves documents by learned sparse vectors.

    Every document comes with its id, its text, and its metadata, to which its `score` is added.

    Parameters
    ----------
    index
        What to search.
    encoder
        What made the vectors of the index: a name or folder of a model, a `SparseEncoder` of sentence-transformers,
        anything with `encode_queries(list of strings)`, or "stored" for the model that the index names, if you trust
        it. None: the encoder of the index.
    texts
        From id to text: a dictionary, or a function. A text is a string, a mapping with "text" (the rest becomes
        metadata), or a LangChain `Document`. None: those that the index keeps.
    k
        How many documents; `invoke(query, k=...)` overrides it.
    filter
        A filter on the metadata that the index stores, such as {"year": {"$gte": 2020}}; `invoke(query, filter=...)`
        overrides it.
    params, target_recall
        As for `segmax.Index.search`; without them the search is exact.
    """

    index: SkipValidation[Searchable]
    encoder: Any = None
    texts: Any = None
    k: int = 4
    filter: Any = None
    params: Any = None
    target_recall: float | None = None

    _search: TextSearch = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """Check that the parts fit together."""
        super().model_post_init(context)
        self._search = TextSearch(self.index, self.encoder, self.texts, self.params, self.target_recall)

    @classmethod
    def from_documents(
        cls,
        documents: Iterable[Document],
        encoder: object,
        *,
        index_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> SegmaxRetriever:
        """Index documents and return a retriever over them, which keeps them in memory.

        You can filter by the values in their metadata that JSON can hold.

        Parameters
        ----------
        documents
            Those without an id get their number for one, or another that is free; no two may have the same.
        encoder
            Makes vectors of texts: an encoder, a name or folder, or a `SparseEncoder` of sentence-transformers.
        index_kwargs
            Options of `segmax.from_texts`, such as `path`.
        **kwargs
            Options of the retriever.
        """
        given = list(documents)
        by_id = dict(zip(free_ids([doc.id for doc in given], "document"), given, strict=True))
        wanted = [SegmaxDocument(doc_id, "", doc.page_content) for doc_id, doc in by_id.items()]
        described = [doc.metadata for doc in given]
        index = index_documents(wanted, encoder, index_kwargs or {}, described)
        return cls(index=index, encoder=index.encoder, texts=by_id, **kwargs)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None, filter: Any = None
    ) -> list[Document]:
        where = self.filter if filter is None else filter
        return [_document(hit) for hit in self._search.by_text(query, self.k if k is None else k, where)]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int | None = None, filter: Any = None
    ) -> list[Document]:
        # The default does the same, but knows neither k nor filter.
        manager = run_manager.get_sync()
        search = functools.partial(self._get_relevant_documents, run_manager=manager, k=k, filter=filter)
        found: list[Document] = await run_in_executor(None, search, query)
        return found


def _document(hit: TextHit) -> Document:
    if isinstance(hit.content, Document):
        metadata = {**hit.content.metadata, "score": hit.score}
        return hit.content.model_copy(update={"id": str(hit.id), "metadata": metadata})
    text, metadata = text_and_metadata(hit)
    return Document(id=str(hit.id), page_content=text, metadata={**metadata, "score": hit.score})
