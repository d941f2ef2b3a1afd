"""An index at a service, for callers that wait: the methods and results of one on this machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from segmax.base.errors import InputError
from segmax.metadata import Scalar
from segmax.remote.answers import FoundDocument, Info, Words
from segmax.remote.calls import Call
from segmax.remote.described import Described
from segmax.remote.encoder import RemoteEncoder
from segmax.remote.endpoint import Limits
from segmax.remote.found import RemoteTexts, RemoteVocabulary
from segmax.remote.reading import Reading
from segmax.remote.transport import Transport, Wire
from segmax.search.inside import InsideView
from segmax.search.methods import SearchParams
from segmax.search.queries import Filter
from segmax.search.results import BatchHits, Explanation, Groups, Hits
from segmax.storage.texts import StoredText
from segmax.vectors.csr import Csr, is_matrix
from segmax.vectors.documents import DocId
from segmax.vectors.queries import query_list

if TYPE_CHECKING:
    import scipy.sparse as sp

    from segmax.encoders.base import Encoder
    from segmax.vectors.types import Queries, Query

T = TypeVar("T")


class RemoteIndex(Described):
    """An index that a service searches. `segmax.connect` returns one; threads can share it.

    It has the methods of an `Index` that do not need its files, with the same arguments, and returns the same types.
    What it tells about the index (`num_docs`, `fields`, ...) is at most a second old.

    Examples
    --------
    >>> with segmax.connect("http://localhost:8080", index="papers") as papers:  # doctest: +SKIP
    ...     papers.search("copper", k=1).ids
    ['d1']
    """

    _CALLS: ClassVar[type[Reading]] = Reading
    _calls: Reading

    def __init__(self, transport: Transport, info: Info, limits: Limits) -> None:
        self._transport = transport
        self._calls = self._CALLS(transport.wire.base, info, limits)
        self._calls.source = self
        self._terms = RemoteVocabulary(self)
        self._encoder: Encoder | None = None

    # --- what it is --------------------------------------------------------------------------------------------------

    @property
    def path(self) -> None:
        """None: it is not a folder on this machine."""
        return

    @property
    def info(self) -> Info:
        """What the service says about it, at most a second old."""
        return self._calls.info if self._calls.is_fresh else self._run(self._calls.fetch_info())

    def __len__(self) -> int:
        return self.num_docs

    def sizes(self) -> dict[str, int]:
        """Return the size of each component in bytes, in all parts of a collection together."""
        return self._run(self._calls.figures()).sizes

    def cluster_sizes(self) -> NDArray[np.uint32]:
        """Return the number of documents in each cluster, the largest first.

        Raises
        ------
        InputError
            If there are more than 1,000 clusters: of those, a service returns a sample only.
        """
        return self._run(self._calls.cluster_sizes())

    @property
    def quantization_error(self) -> float:
        """What coding the weights lost: the sum of absolute errors over the sum of weights; not of a collection."""
        return self._run(self._calls.quantization_error())

    # --- words and texts ---------------------------------------------------------------------------------------------

    @property
    def terms(self) -> RemoteVocabulary | None:
        """The words of the columns by number, fetched when they are used; None without a vocabulary."""
        return self._terms if self.info.has_vocabulary else None

    @property
    def texts(self) -> RemoteTexts | None:
        """The stored titles and texts by row, fetched when they are used; None if none are stored."""
        return RemoteTexts(self) if self.info.has_texts else None

    def text(self, id: DocId) -> StoredText:
        """Return the title and text of a document; raise InputError if it has none."""
        return self._run(self._calls.text(id))

    @property
    def encoder(self) -> Encoder:
        """What turns text into queries: that of the service, unless you assign another one, which then works here."""
        return self.encoder_for(None) if self._encoder is None else self._encoder

    @encoder.setter
    def encoder(self, encoder: object) -> None:
        self._encoder = None if encoder is None else self.encoder_for(encoder)

    def encoder_for(self, encoder: object) -> Encoder:
        """Return the encoder that a name, a folder or an object stands for, on this machine; None: the service's."""
        if encoder is not None:
            from segmax.encoders import as_encoder  # needs heavy or optional packages

            return as_encoder(encoder)
        name = self.info.encoder
        if name is None:
            raise InputError(
                expected="a service with an encoder, to search for texts",
                got=f"none for '{self.name}'",
                hint="start it with one, or assign index.encoder",
            )
        return RemoteEncoder(lambda texts: self._run(self._calls.encode(texts)), self.terms, name)

    # --- metadata ----------------------------------------------------------------------------------------------------

    def metadata(self, id: DocId) -> dict[str, Any] | None:
        """Return the metadata of a document; raise InputError if the index stores none."""
        return self._run(self._calls.metadata(id))

    def count(self, where: Filter | None = None) -> int:
        """Return how many documents a filter matches; without one, how many there are."""
        return self._run(self._calls.count(where))

    def facets(self, field: str, where: Filter | None = None, *, limit: int | None = None) -> list[tuple[Scalar, int]]:
        """Count the documents that a filter matches by their value in a field, the most frequent value first.

        A service returns at most 10,000 values; SegmaxWarning says so where there may be more.
        """
        return self._run(self._calls.facets(field, where, limit))

    # --- searching ---------------------------------------------------------------------------------------------------

    @overload
    def search(
        self,
        query: Query,
        k: int = ...,
        params: SearchParams | None = ...,
        *,
        target_recall: float | None = ...,
        trace: bool = ...,
        where: Filter | None = ...,
        offset: int = ...,
        min_score: float | None = ...,
        max_shards: int | None = ...,
        fields: Iterable[str] = ...,
    ) -> Hits: ...

    @overload
    def search(
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

    def search(
        self,
        query: Query,
        k: int = 10,
        params: SearchParams | None = None,
        *,
        target_recall: float | None = None,
        trace: bool = False,
        where: Filter | None = None,
        offset: int = 0,
        min_score: float | None = None,
        group_by: str | None = None,
        group_size: int = 1,
        max_shards: int | None = None,
        fields: Iterable[str] = (),
    ) -> Hits | Groups:
        """Return the k best documents for one query, as `Index.search` of the served index does.

        Texts are encoded by the service, unless you assigned an `encoder`.

        Parameters
        ----------
        query, k, params, target_recall, where, offset, min_score, group_by, group_size
            As for `Index.search`. A budget (`budget_ms`) counts for the whole request at the service.
        trace
            Not over a service; use `explain`.
        max_shards
            Of a sharded index (`num_shards` is not None): ask only so many shards, those that promise most. The results
            may lack documents then, and `hits.complete` is False.
        fields
            What to fetch with the results: some of "title", "text" (which has the title) and "metadata". Without it,
            `hits.titles`, `hits.texts` and `hits.metadata` fetch these on first use, for all results with one request.

        Raises
        ------
        InputError, ConfigError
            As for `Index.search`.
        ServiceError
            If the service cannot be reached, or stays overloaded.
        """
        call = self._calls.search(
            self._encoded(query),
            k,
            params,
            target_recall=target_recall,
            trace=trace,
            where=where,
            offset=offset,
            min_score=min_score,
            group_by=group_by,
            group_size=group_size,
            max_shards=max_shards,
            fields=fields,
        )
        return self._run(call)

    def search_batch(
        self,
        queries: Queries,
        k: int | Sequence[int] = 10,
        params: SearchParams | Sequence[SearchParams] | None = None,
        *,
        target_recall: float | None = None,
        threads: int | None = None,
        where: Filter | Sequence[Filter | None] | None = None,
        offset: int = 0,
        min_score: float | None = None,
        max_shards: int | None = None,
        fields: Iterable[str] = (),
    ) -> BatchHits:
        """Search many queries: arrays of shape (queries, k), padded with row -1 and score 0.

        There are as many requests as the limits of the service make necessary. Queries with a budget (`budget_ms`) are
        sent one by one.

        Parameters
        ----------
        queries, k, params, target_recall, where, offset, min_score
            As for `Index.search_batch`.
        threads
            Has no effect: the service decides.
        max_shards, fields
            As for `search`.
        """
        call = self._calls.search_batch(
            self._encoded_batch(queries),
            k,
            params,
            target_recall=target_recall,
            threads=threads,
            where=where,
            offset=offset,
            min_score=min_score,
            max_shards=max_shards,
            fields=fields,
        )
        return self._run(call)

    def _encoded(self, query: Any) -> Any:
        own = self._encoder
        return own.query_rows([str(query)]) if own is not None and isinstance(query, str) else query

    def _encoded_batch(self, queries: Any) -> Any:
        if self._encoder is None or isinstance(queries, Csr) or is_matrix(queries):
            return queries
        each = query_list(queries)
        are_texts = bool(each) and isinstance(each[0], str)
        return self._encoder.query_rows([str(text) for text in each]) if are_texts else each

    # --- single documents --------------------------------------------------------------------------------------------

    def explain(
        self,
        query: Query,
        id: DocId,
        k: int = 10,
        params: SearchParams | None = None,
        *,
        where: Filter | None = None,
        max_shards: int | None = None,
    ) -> Explanation:
        """Explain why a document is or is not among the k best; parameters are those of `Index.explain` and `search`.

        Of a sharded index, `reason` names the shard and says whether it was asked.
        """
        call = self._calls.explain(self._encoded(query), id, k, params, where=where, max_shards=max_shards)
        return self._run(call)

    def inside(self, query: Query, k: int = 10, params: SearchParams | None = None) -> InsideView:
        """Search, and return what was decided about clusters, with their bounds and θ; see `Index.inside`.

        A service returns the 4,096 clusters with the highest bounds. Of a collection, they are those of the largest
        part; `hits` are the results of the whole collection.
        """
        return self._run(self._calls.inside(self._encoded(query), k, params))

    def row_of(self, id: DocId) -> int:
        """Return the row of a document; raise UnknownIdError if no document has this id."""
        return self._run(self._calls.row_of(id))

    def id_of(self, row: int) -> DocId:
        """Return the id of the document in a row; raise UnknownIdError if there is no such row."""
        return self._run(self._calls.id_of(row))

    def score(self, query: Query, ids: Iterable[DocId]) -> NDArray[np.float64]:
        """Return the score of each given document for one query; 0 where they share no term."""
        return self._run(self._calls.score(self._encoded(query), ids))

    def vector(self, id: DocId) -> sp.csr_matrix:
        """Return a document as the index stores it: a CSR row of weights after coding."""
        return self.vectors([id])

    def vectors(self, ids: Iterable[DocId]) -> sp.csr_matrix:
        """Return many documents as the index stores them, a CSR row each."""
        return self._run(self._calls.vectors(ids))

    # --- the connection ----------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the connection. Closing twice is fine."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the address and the key; whoever unpickles it connects from there."""
        return _connected_again, (type(self), self._transport.wire, self._calls.info, self._calls.limits)

    def _run(self, call: Call[T]) -> T:
        return self._transport.run(call)

    # What results and vocabularies look up.

    def look_up(self, ids: Sequence[DocId], fields: Sequence[str]) -> list[FoundDocument]:
        """Return some fields of documents by id."""
        return self._run(self._calls.documents(ids, fields))

    def look_up_rows(self, rows: Sequence[int], fields: Sequence[str]) -> list[FoundDocument]:
        """Return some fields of documents by row."""
        return self._run(self._calls.documents(None, fields, rows))

    def look_up_terms(self, kind: str, values: Sequence[str | int]) -> Words:
        """Return the numbers and words of "words" or "numbers", None for those that are unknown."""
        return self._run(self._calls.find_terms(kind, values))

    def forget(self) -> None:
        """Ask for what is known about the index again when it is next used."""
        self._calls.forget()


def _connected_again(kind: type[RemoteIndex], wire: Wire, info: Info, limits: Limits) -> RemoteIndex:
    """Return what was pickled; the next request connects."""
    made = kind(Transport(wire), info, limits)
    made._calls.forget()
    return made
