"""A collection at a service, for callers that wait: searched like an index, and changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from segmax.base.progress import ProgressOption
from segmax.collection.inputs import Columns
from segmax.remote.index import RemoteIndex
from segmax.remote.writing import Writing
from segmax.vectors.documents import DocId

if TYPE_CHECKING:
    from segmax.collection.collection import Stats
    from segmax.vectors.types import Frame


class RemoteCollection(RemoteIndex):
    """A collection that a service searches and, if it allows that, changes.

    It has the methods of a `Collection` that do not need its files. `RemoteIndex` documents those that search.

    Examples
    --------
    >>> papers = segmax.connect("http://localhost:8080", api_key="...", index="papers")  # doctest: +SKIP
    >>> papers.add([{"id": "a", "text": "a copper waveguide", "metadata": {"year": 1950}}])  # doctest: +SKIP
    1
    """

    _CALLS = Writing
    _calls: Writing

    def get(self, ids: DocId | Iterable[DocId]) -> Any:
        """Return a document, or a list of documents for several ids: id, text and metadata.

        Raises
        ------
        UnknownIdError
            If no document has one of the ids.
        """
        return self._run(self._calls.get(ids))

    def __contains__(self, id: object) -> bool:
        return self._run(self._calls.contains(id))

    def stats(self) -> Stats:
        """Return what the collection consists of."""
        return self._run(self._calls.stats())

    def add(
        self,
        documents: object,
        *,
        ids: Iterable[Any] | None = None,
        texts: Iterable[Any] | None = None,
        metadata: str | Iterable[Any] | Mapping[Any, Any] | Frame | None = None,
        progress: ProgressOption = None,
    ) -> int:
        """Add documents that are new, and return how many. When this returns, searches find them.

        A matrix or a list is one request, which is added whole or not at all; one that is larger than the limits of
        the service is cut. A stream or files are a request after the other, and every document of a request is added
        unless it is refused itself. A request whose answer is lost is not repeated: the documents may have been added.

        Parameters
        ----------
        documents, ids, texts, metadata, progress
            As for `Collection.add`. Files are read on this machine; the service encodes texts.

        Raises
        ------
        InputError
            If a document is invalid, or its id is there already.
        ServiceError
            If the service cannot be reached, or the answer to a request is lost.
        """
        return self._run(self._calls.put("add", documents, Columns(ids, texts, metadata), progress))

    def upsert(
        self,
        documents: object,
        *,
        ids: Iterable[Any] | None = None,
        texts: Iterable[Any] | None = None,
        metadata: str | Iterable[Any] | Mapping[Any, Any] | Frame | None = None,
        progress: ProgressOption = None,
    ) -> int:
        """Add documents, and replace those whose ids are there already; return how many were given.

        Parameters are those of `add`. A request whose answer is lost is sent again, if the documents have ids.
        """
        return self._run(self._calls.put("upsert", documents, Columns(ids, texts, metadata), progress))

    def update(
        self, updates: Iterable[Mapping[str, Any]] | Mapping[str, Any], *, replace_metadata: bool = False
    ) -> int:
        """Change the metadata or the text of documents that are there, all or none; return how many.

        Parameters
        ----------
        updates, replace_metadata
            As for `Collection.update`.
        """
        return self._run(self._calls.update(updates, replace_metadata))

    def delete(self, ids: DocId | Iterable[DocId] | None = None, *, where: Mapping[str, Any] | None = None) -> int:
        """Delete documents by id, or those that match; return how many there were. Unknown ids are ignored.

        Where an answer was lost and the request was sent again, documents that the first request deleted do not count.
        """
        return self._run(self._calls.delete(ids, where))

    def commit(self) -> None:
        """Make all writes safe on disk."""
        self._run(self._calls.commit())

    def compact(self, progress: ProgressOption = None) -> None:
        """Write all living documents as one part, and forget the dead ones. Searches and writes go on meanwhile.

        For `progress`, this is a single step: the service answers when it is done.
        """
        self._run(self._calls.compact(progress))

    def snapshot(self) -> str:
        """Copy the collection, on the machine of the service, and return the name of the copy.

        Raises
        ------
        InputError
            If the service keeps no snapshots.
        """
        return self._run(self._calls.snapshot())
