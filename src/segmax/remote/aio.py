"""An index or a collection at a service, for callers that await: the same calls as coroutines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from segmax.base.progress import ProgressOption
from segmax.collection.inputs import Columns
from segmax.metadata import Scalar
from segmax.remote.answers import Info
from segmax.remote.calls import Call
from segmax.remote.described import Described
from segmax.remote.endpoint import Limits
from segmax.remote.reading import Reading
from segmax.remote.transport import AsyncTransport, Wire
from segmax.remote.writing import Writing
from segmax.search.inside import InsideView
from segmax.search.methods import SearchParams
from segmax.search.queries import Filter
from segmax.search.results import BatchHits, Explanation, Groups, Hits
from segmax.storage.texts import StoredText
from segmax.vectors.documents import DocId
from segmax.vectors.rows import to_scipy

if TYPE_CHECKING:
    import scipy.sparse as sp

    from segmax.collection.collection import Stats
    from segmax.vectors.types import Frame, Queries, Query

T = TypeVar("T")


class AsyncRemoteIndex(Described):
    """An index that a service searches, with coroutines. `segmax.remote.connect_async` returns one.

    Arguments and results are those of `RemoteIndex`. Results cannot fetch anything later, so ask for texts and metadata
    with the search: `fields=["text", "metadata"]`. Properties (`num_docs`, `fields`, ...) are what the service last
    said; `refresh` asks again.

    Examples
    --------
    >>> async def best(papers: AsyncRemoteIndex, query: str) -> list[str]:
    ...     hits = await papers.search(query, k=3, fields=["text"])
    ...     return [stored.text for stored in hits.texts]
    """

    _CALLS: ClassVar[type[Reading]] = Reading
    _calls: Reading

    def __init__(self, transport: AsyncTransport, info: Info, limits: Limits) -> None:
        self._transport = transport
        self._calls = self._CALLS(transport.wire.base, info, limits)

    async def refresh(self) -> Info:
        """Ask the service what it says about the index."""
        return await self._run(self._calls.fetch_info())

    async def sizes(self) -> dict[str, int]:
        """Return the size of each component in bytes, in all parts of a collection together."""
        return (await self._run(self._calls.figures())).sizes

    async def cluster_sizes(self) -> NDArray[np.uint32]:
        """Return the number of documents in each cluster, the largest first; see `RemoteIndex.cluster_sizes`."""
        return await self._run(self._calls.cluster_sizes())

    async def quantization_error(self) -> float:
        """Return what coding the weights lost: the sum of absolute errors over the sum of weights."""
        return await self._run(self._calls.quantization_error())

    # --- searching ---------------------------------------------------------------------------------------------------

    @overload
    async def search(
        self,
        query: Query,
        k: int = ...,
        params: SearchParams | None = ...,
        *,
        target_recall: float | None = ...,
        where: Filter | None = ...,
        offset: int = ...,
        min_score: float | None = ...,
        max_shards: int | None = ...,
        fields: Iterable[str] = ...,
    ) -> Hits: ...

    @overload
    async def search(
        self,
        query: Query,
        k: int = ...,
        params: SearchParams | None = ...,
        *,
        target_recall: float | None = ...,
        where: Filter | None = ...,
        offset: int = ...,
        min_score: float | None = ...,
        group_by: str,
        group_size: int = ...,
        max_shards: int | None = ...,
        fields: Iterable[str] = ...,
    ) -> Groups: ...

    async def search(
        self,
        query: Query,
        k: int = 10,
        params: SearchParams | None = None,
        *,
        target_recall: float | None = None,
        where: Filter | None = None,
        offset: int = 0,
        min_score: float | None = None,
        group_by: str | None = None,
        group_size: int = 1,
        max_shards: int | None = None,
        fields: Iterable[str] = (),
    ) -> Hits | Groups:
        """Return the k best documents for one query; parameters are those of `RemoteIndex.search`."""
        call = self._calls.search(
            query,
            k,
            params,
            target_recall=target_recall,
            where=where,
            offset=offset,
            min_score=min_score,
            group_by=group_by,
            group_size=group_size,
            max_shards=max_shards,
            fields=fields,
        )
        return await self._run(call)

    async def search_batch(
        self,
        queries: Queries,
        k: int | Sequence[int] = 10,
        params: SearchParams | Sequence[SearchParams] | None = None,
        *,
        target_recall: float | None = None,
        where: Filter | Sequence[Filter | None] | None = None,
        offset: int = 0,
        min_score: float | None = None,
        max_shards: int | None = None,
        fields: Iterable[str] = (),
    ) -> BatchHits:
        """Search many queries; parameters are those of `RemoteIndex.search_batch`."""
        call = self._calls.search_batch(
            queries,
            k,
            params,
            target_recall=target_recall,
            where=where,
            offset=offset,
            min_score=min_score,
            max_shards=max_shards,
            fields=fields,
        )
        return await self._run(call)

    # --- documents, words and texts ----------------------------------------------------------------------------------

    async def explain(
        self,
        query: Query,
        id: DocId,
        k: int = 10,
        params: SearchParams | None = None,
        *,
        where: Filter | None = None,
        max_shards: int | None = None,
    ) -> Explanation:
        """Explain why a document is or is not among the k best."""
        return await self._run(self._calls.explain(query, id, k, params, where=where, max_shards=max_shards))

    async def score(self, query: Query, ids: Iterable[DocId]) -> NDArray[np.float64]:
        """Return the score of each given document for one query; 0 where they share no term."""
        return await self._run(self._calls.score(query, ids))

    async def count(self, where: Filter | None = None) -> int:
        """Return how many documents a filter matches; without one, how many there are."""
        return await self._run(self._calls.count(where))

    async def facets(
        self, field: str, where: Filter | None = None, *, limit: int | None = None
    ) -> list[tuple[Scalar, int]]:
        """Count the documents that a filter matches by their value in a field, the most frequent value first."""
        return await self._run(self._calls.facets(field, where, limit))

    async def inside(self, query: Query, k: int = 10, params: SearchParams | None = None) -> InsideView:
        """Search, and return what was decided about clusters; see `RemoteIndex.inside`."""
        return await self._run(self._calls.inside(query, k, params))

    async def row_of(self, id: DocId) -> int:
        """Return the row of a document; raise UnknownIdError if no document has this id."""
        return await self._run(self._calls.row_of(id))

    async def id_of(self, row: int) -> DocId:
        """Return the id of the document in a row; raise UnknownIdError if there is no such row."""
        return await self._run(self._calls.id_of(row))

    async def text(self, id: DocId) -> StoredText:
        """Return the title and text of a document; raise InputError if it has none."""
        return await self._run(self._calls.text(id))

    async def metadata(self, id: DocId) -> dict[str, Any] | None:
        """Return the metadata of a document; raise InputError if the index stores none."""
        return await self._run(self._calls.metadata(id))

    async def vector(self, id: DocId) -> sp.csr_matrix:
        """Return a document as the index stores it: a CSR row of weights after coding."""
        return await self.vectors([id])

    async def vectors(self, ids: Iterable[DocId]) -> sp.csr_matrix:
        """Return many documents as the index stores them, a CSR row each."""
        return await self._run(self._calls.vectors(ids))

    async def encode(self, texts: Sequence[str]) -> sp.csr_matrix:
        """Return texts as queries, a CSR row each, by the encoder of the service."""
        return to_scipy(await self._run(self._calls.encode(texts)))

    # --- the connection ----------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Close the connection. Closing twice is fine."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the address and the key; whoever unpickles it connects from there."""
        return _connected_again, (type(self), self._transport.wire, self._calls.info, self._calls.limits)

    async def _run(self, call: Call[T]) -> T:
        return await self._transport.run(call)


def _connected_again(kind: type[AsyncRemoteIndex], wire: Wire, info: Info, limits: Limits) -> AsyncRemoteIndex:
    """Return what was pickled; the next request connects."""
    made = kind(AsyncTransport(wire), info, limits)
    made._calls.forget()
    return made


class AsyncRemoteCollection(AsyncRemoteIndex):
    """A collection that a service searches and, if it allows that, changes, with coroutines.

    Arguments and results are those of `RemoteCollection`.

    Examples
    --------
    >>> async def added(papers: AsyncRemoteCollection) -> int:
    ...     return await papers.add([{"id": "a", "text": "a copper waveguide"}])
    """

    _CALLS = Writing
    _calls: Writing

    async def get(self, ids: DocId | Iterable[DocId]) -> Any:
        """Return a document, or a list of documents for several ids: id, text and metadata."""
        return await self._run(self._calls.get(ids))

    async def stats(self) -> Stats:
        """Return what the collection consists of."""
        return await self._run(self._calls.stats())

    async def add(
        self,
        documents: object,
        *,
        ids: Iterable[Any] | None = None,
        texts: Iterable[Any] | None = None,
        metadata: str | Iterable[Any] | Mapping[Any, Any] | Frame | None = None,
        progress: ProgressOption = None,
    ) -> int:
        """Add documents that are new, and return how many; see `RemoteCollection.add`."""
        return await self._run(self._calls.put("add", documents, Columns(ids, texts, metadata), progress))

    async def upsert(
        self,
        documents: object,
        *,
        ids: Iterable[Any] | None = None,
        texts: Iterable[Any] | None = None,
        metadata: str | Iterable[Any] | Mapping[Any, Any] | Frame | None = None,
        progress: ProgressOption = None,
    ) -> int:
        """Add documents, and replace those whose ids are there already; return how many were given."""
        return await self._run(self._calls.put("upsert", documents, Columns(ids, texts, metadata), progress))

    async def update(
        self, updates: Iterable[Mapping[str, Any]] | Mapping[str, Any], *, replace_metadata: bool = False
    ) -> int:
        """Change the metadata or the text of documents that are there, all or none; return how many."""
        return await self._run(self._calls.update(updates, replace_metadata))

    async def delete(
        self, ids: DocId | Iterable[DocId] | None = None, *, where: Mapping[str, Any] | None = None
    ) -> int:
        """Delete documents by id, or those that match; return how many there were. Unknown ids are ignored."""
        return await self._run(self._calls.delete(ids, where))

    async def commit(self) -> None:
        """Make all writes safe on disk."""
        await self._run(self._calls.commit())

    async def compact(self, progress: ProgressOption = None) -> None:
        """Write all living documents as one part, and forget the dead ones."""
        await self._run(self._calls.compact(progress))

    async def snapshot(self) -> str:
        """Copy the collection, on the machine of the service, and return the name of the copy."""
        return await self._run(self._calls.snapshot())
