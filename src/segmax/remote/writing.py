"""What can be changed in a collection over a service, as calls that any transport runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from segmax.base.checks import checked_bool, is_integer
from segmax.base.display import counted, printable
from segmax.base.errors import ConfigError, InputError, ServiceError, UnknownIdError
from segmax.base.progress import ProgressOption, progress_of
from segmax.collection.collection import Stats
from segmax.collection.inputs import Columns, Given, given_batches
from segmax.collection.making import check_updates
from segmax.collection.reading import StoredDocument
from segmax.collection.state import checked_ids, ids_to_delete
from segmax.io.frames import is_frame, is_series
from segmax.metadata.values import checked_metadata
from segmax.remote.answers import FoundDocument
from segmax.remote.calls import (
    LINES_TYPE,
    Call,
    Repeat,
    Request,
    flag,
    members,
    record,
    string,
    to_json,
    understood,
    whole,
)
from segmax.remote.params import filter_of, given
from segmax.remote.reading import Reading, plain_id, plain_ids
from segmax.vectors.csr import Csr, is_matrix
from segmax.vectors.documents import DocId

_MOST_STREAMED = 4 << 20  # bytes of one request of a stream
_DOCS_PER_QUERY = 32  # how many more documents than queries a request may have


class Lines(NamedTuple):
    """Documents of one request, a line of JSON each."""

    first: int  #: the number of the first one
    have_ids: bool
    documents: list[bytes]


class Writing(Reading):
    """Calls that read and change a collection."""

    def get(self, ids: DocId | Iterable[DocId]) -> Call[Any]:
        """Return a document, or several."""
        fields = ["title", "text", "metadata"]
        if isinstance(ids, (str, int)) or is_integer(ids):
            found = yield from self.documents([plain_id(ids)], fields)
            return _stored(found[0])
        found = yield from self.documents(plain_ids(ids), fields)
        return [_stored(document) for document in found]

    def contains(self, id: object) -> Call[bool]:
        """Return whether a document has an id."""
        try:
            yield from self.documents([id], [])
        except (UnknownIdError, InputError):  # InputError: it cannot be an id of this collection
            return False
        return True

    def stats(self) -> Call[Stats]:
        """Return what the collection consists of."""
        found = yield from self.figures()
        return understood(_stats, found.collection, self.base)

    def put(self, mode: str, documents: object, columns: Columns, progress: ProgressOption) -> Call[int]:
        """Add or replace documents, with a request after the other; return how many."""
        is_whole = _is_in_memory(documents)
        count = 0
        with progress_of(progress) as shown_progress, shown_progress.stage("add", None, "documents") as stage:
            for lines in self._lines(given_batches(documents, columns), is_whole=is_whole):
                try:
                    count += yield from self._put(mode, lines, is_whole=is_whole)
                except ServiceError as error:
                    if not count:
                        raise
                    written = f"before that, {counted(count, 'document')} had been written"
                    raise ServiceError(f"{error}; {written}") from error
                self.forget()
                stage.advance(len(lines.documents))
        return count

    def _put(self, mode: str, lines: Lines, *, is_whole: bool) -> Call[int]:
        path = f"{self.path('documents')}?mode={mode}"
        what = f"adding {counted(len(lines.documents), 'document')}"
        # Documents without ids are numbered, so they would be there twice.
        repeat = Repeat.IDEMPOTENT if mode == "upsert" and lines.have_ids else Repeat.UNSENT
        if is_whole:
            body = b'{"documents":[' + b",".join(lines.documents) + b"]}"
            try:
                answer = yield Request(path=path, body=body, repeat=repeat, what=what)
            except (ConfigError, InputError) as error:
                if not lines.first:
                    raise
                raise error.at(f"documents from {lines.first} on") from error
            return understood(_count, answer, self.base)
        body = b"\n".join(lines.documents) + b"\n"
        answer = yield Request(path=path, body=body, content_type=LINES_TYPE, repeat=repeat, what=what)
        end = understood(StreamEnd.from_answer, answer, self.base)
        if end.refused is not None:
            line, reason = end.refused
            raise InputError(reason, where=f"document {lines.first + line - 1}")
        if end.error is not None:
            raise ServiceError(f"'{self.base}' did not take all documents: {end.error}")
        return end.num_written

    def _lines(self, batches: Iterator[Given], *, is_whole: bool) -> Iterator[Lines]:
        """Yield documents as requests that keep to the limits of the service."""
        most = (self.limits.body_bytes if is_whole else _MOST_STREAMED) - 1000
        most_docs = self.limits.batch * _DOCS_PER_QUERY
        row = 0
        for batch in batches:
            waiting: list[bytes] = []
            num_bytes = 0
            for document in records(batch, row):
                line = to_json(document)
                if waiting and (num_bytes + len(line) >= most or len(waiting) == most_docs):
                    yield Lines(row, batch.ids is not None, waiting)
                    row += len(waiting)
                    waiting, num_bytes = [], 0
                waiting.append(line)
                num_bytes += len(line) + 1
            if waiting:
                yield Lines(row, batch.ids is not None, waiting)
                row += len(waiting)

    def update(self, updates: object, replace_metadata: bool) -> Call[int]:
        """Change documents that are there."""
        replacing = "&replace_metadata=true" if checked_bool("replace_metadata", replace_metadata) else ""
        changes = [_update(change, row) for row, change in enumerate(check_updates(updates))]
        if not changes:
            return 0
        path = f"{self.path('documents')}?mode=update{replacing}"
        return (yield from self._written(path, {"documents": changes}, "the update"))

    def delete(self, ids: DocId | Iterable[DocId] | None, where: Mapping[str, Any] | None) -> Call[int]:
        """Delete documents by id, or those that a filter matches."""
        if (ids is None) == (where is None):
            raise ConfigError(expected="ids or where", got="neither" if ids is None else "both")
        path = self.path("documents", "delete")
        if ids is None:
            if not where:
                raise ConfigError(
                    option="where",
                    expected="a filter that says which documents to delete",
                    got="an empty one, which every document matches",
                )
            return (yield from self._written(path, given(where=filter_of(where)), "the deletion"))
        listed = [plain_id(id) for id in ids_to_delete(ids)]
        count = 0
        for some in self.cut(listed):
            count += yield from self._written(path, {"ids": some}, "the deletion")
        return count

    def commit(self) -> Call[None]:
        """Make all writes safe on disk."""
        yield from self._written(self.path("commit"), {}, "the commit", is_long=True)

    def compact(self, progress: ProgressOption = None) -> Call[None]:
        """Write the collection as one part."""
        with progress_of(progress) as shown_progress, shown_progress.stage("compact", 1, "steps") as stage:
            yield from self._written(self.path("compact"), {}, "compacting", is_long=True)
            stage.advance(1)

    def snapshot(self) -> Call[str]:
        """Copy the collection, on the machine of the service; return the name of the copy."""
        path = self.path("snapshot")
        answer = yield Request(path=path, body=b"{}", repeat=Repeat.UNSENT, is_long=True, what="the snapshot")
        return understood(lambda said: string(record(said)["name"]), answer, self.base)

    def _written(self, path: str, message: dict[str, Any], what: str, *, is_long: bool = False) -> Call[int]:
        body = to_json(message)
        answer = yield Request(path=path, body=body, repeat=Repeat.IDEMPOTENT, what=what, is_long=is_long)
        self.forget()
        return understood(_count, answer, self.base)


# --- documents as messages -------------------------------------------------------------------------------------------


def records(batch: Given, row: int) -> Iterator[dict[str, Any]]:
    """Yield the documents of a batch as messages; raise InputError for what JSON cannot hold."""
    ids = None if batch.ids is None else checked_ids(batch.ids, None)
    for at in range(batch.num_docs):
        found: dict[str, Any] = {}
        if ids is not None:
            found["id"] = ids[at]
        if batch.vectors is not None:
            found |= _vector(batch.vectors, batch.words, at)
        if batch.texts is not None:
            found |= {"text": batch.texts[at].text} | (
                {"title": batch.texts[at].title} if batch.texts[at].title else {}
            )
        metadata = None if batch.metadata is None else checked_metadata(batch.metadata[at], row + at)
        yield found if metadata is None else {**found, "metadata": metadata}


def _vector(rows: Csr, words: Any, at: int) -> dict[str, Any]:
    start, stop = int(rows.indptr[at]), int(rows.indptr[at + 1])
    terms, weights = rows.indices[start:stop].tolist(), rows.values[start:stop].astype(np.float64).tolist()
    if words is None:
        return {"vector": {"indices": terms, "values": weights}}
    return {"terms": {str(words[term]): weight for term, weight in zip(terms, weights, strict=True)}}


def _update(change: Mapping[str, Any], row: int) -> dict[str, Any]:
    found = {**change, "id": plain_id(change["id"])}
    if "metadata" in found:
        found["metadata"] = checked_metadata(found["metadata"], row)
    return found


def _is_in_memory(documents: object) -> bool:
    """Whether documents are one batch, which is written whole; others are streams."""
    return (
        isinstance(documents, (list, tuple, Mapping))
        or is_matrix(documents)
        or is_frame(documents)
        or is_series(documents)
    )


# --- answers ---------------------------------------------------------------------------------------------------------


def _stats(answer: Any) -> Stats:
    parts = record(answer)
    figures = {name: whole(parts[name]) for name in Stats._fields if name != "failure"}
    failure = parts.get("failure")  # services of older versions do not say it
    return Stats(**figures, failure=None if failure is None else printable(string(failure)))


def _count(answer: Any) -> int:
    return whole(record(answer)["count"])


class StreamEnd(NamedTuple):
    """What became of a stream of documents."""

    num_written: int
    refused: tuple[int, str] | None  #: the first line that was refused, counted from 1, and why
    error: str | None  #: why it was not read to its end

    @classmethod
    def from_answer(cls, answer: Any) -> StreamEnd:
        """Read a `LineResult` per line, and the `StreamEnd` behind them."""
        *lines, end = [record(line) for line in members(answer)]
        refused = next((line for line in lines if not flag(line["ok"])), None)
        error = end.get("error")
        return cls(
            whole(end["count"]),
            None if refused is None else (whole(refused["line"]), printable(string(refused["error"]))),
            None if error is None else printable(string(error)),
        )


def _stored(document: FoundDocument) -> StoredDocument:
    return StoredDocument(document.id, document.text, document.metadata)
