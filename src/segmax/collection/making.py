"""From what users give to changes: documents are encoded, checked and numbered."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from segmax.base.checks import shown
from segmax.base.errors import InputError, UnknownIdError
from segmax.base.vocabulary import GrowingVocabulary
from segmax.collection.changes import Change, no_documents
from segmax.collection.inputs import Given
from segmax.collection.part import Part
from segmax.collection.state import Place, State, checked_ids
from segmax.collection.words import WordWeights, num_words
from segmax.metadata import Schema
from segmax.metadata.values import checked_metadata, fields_of, to_json
from segmax.storage.components import Arrays
from segmax.storage.tables import id_arrays
from segmax.storage.texts import StoredText
from segmax.vectors.csr import Csr
from segmax.vectors.documents import Document
from segmax.vectors.rows import join_rows, slice_rows, sorted_rows

if TYPE_CHECKING:
    from segmax.encoders.base import Encoder

#: A batch of more documents is cut: each piece is applied whole.
_MOST_DOCS = 1 << 16
_MOST_TERMS = 2**28
_SIMPLE = {bool, float, int, str, type(None)}
_SHORT_JSON = 1 << 20
_LONG_NUMBER = re.compile(r"\d{100}")
_UNCHANGED = object()
_UPDATED = frozenset({"id", "metadata", "text", "title"})


class Ready(NamedTuple):
    """Documents of a batch, checked and encoded."""

    ids: list[Any] | None
    vectors: Csr
    words: Sequence[str] | None
    texts: list[StoredText] | None
    metadata: list[dict[str, Any] | None] | None


class ChangeMaker:
    """Makes the changes of one collection.

    Parameters
    ----------
    vocabulary
        Its words.
    schema
        The declared types of its metadata; None: anything.
    words
        Its BM25; None: vectors come as they are.
    encoder
        Returns what encodes its texts; None: it has no encoder.
    keep_texts
        Whether texts are stored.
    """

    def __init__(
        self,
        vocabulary: GrowingVocabulary,
        schema: Schema | None,
        words: WordWeights | None,
        encoder: Callable[[], Encoder] | None,
        *,
        keep_texts: bool,
    ) -> None:
        self._vocabulary = vocabulary
        self._schema = schema
        self._words = words
        self._encoder = encoder
        self._keep_texts = keep_texts

    def ready(self, given: Given) -> Ready:
        """Return a batch with all that can be done before the collection is locked."""
        vectors, words = given.vectors, given.words
        if vectors is None:
            vectors, words = self._vectors_of(given.texts or [])
        elif self._words is not None:
            raise InputError(
                expected="texts, because this collection counts words itself (BM25)",
                got="vectors",
                hint="create a collection without an encoder for vectors",
            )
        if vectors.num_columns > _MOST_TERMS:
            raise InputError(expected=f"at most {_MOST_TERMS:,} terms", got=f"{vectors.num_columns:,}")
        texts = None
        if given.texts is not None and self._keep_texts:
            texts = [StoredText(document.title, document.text) for document in given.texts]
        metadata = None if given.metadata is None else _checked_rows(given.metadata)
        if self._schema is not None:
            self._schema.check(metadata if metadata is not None else [None] * given.num_docs)
        return Ready(given.ids, vectors, words, texts, metadata)

    def _vectors_of(self, documents: list[Document]) -> tuple[Csr, Sequence[str] | None]:
        """Encode texts: counts of words for BM25, vectors otherwise."""
        if self._words is not None:
            counts = self._words.bm25.count([document.whole for document in documents])
            found = Csr(counts.indptr, counts.indices.astype(np.int64), counts.counts, len(counts.terms))
            return sorted_rows(found), counts.terms
        if self._encoder is None:
            raise InputError(
                expected="vectors, because the collection was created without an encoder",
                got="texts",
                hint="create it with {encoder='bm25'} or a model",
            )
        numbered = [document._replace(id=str(at)) for at, document in enumerate(documents)]
        batches = list(self._encoder().encode_documents([numbered]))
        width = len(self._encoder().vocabulary)
        return join_rows([batch.vectors for batch in batches], width), list(self._encoder().vocabulary)

    def adding(self, state: State, ready: Ready, *, replace: bool) -> Change:
        """Return the change that adds documents to a state."""
        numbers = state.next_number + np.arange(ready.vectors.num_rows, dtype=np.int64)
        ids = _checked_new_ids(ready.ids, state, numbers)
        places = state.find(ids)
        if not replace and any(place is not None for place in places):
            taken = next(id for id, place in zip(ids, places, strict=True) if place is not None)
            raise InputError(
                expected="ids that are not in the collection yet",
                got=shown(taken),
                hint="use upsert to replace documents",
            )
        vectors, words = self._numbered(state, ready.vectors, ready.words)
        change = Change(
            deleted=numbers_at(state, places),
            numbers=numbers,
            ids=_packed_ids(ids),
            vectors=vectors,
            texts=ready.texts,
            metadata=ready.metadata,
            terms=words,
        )
        return self._with_mean_length(state, change)

    def _numbered(self, state: State, vectors: Csr, words: Sequence[str] | None) -> tuple[Csr, list[str]]:
        """Return vectors whose columns are the collection's, and the words that are new to it."""
        vocabulary = self._vocabulary
        if words is None:
            return vectors, []
        if not len(vocabulary) and state.lattice.num_terms:
            raise InputError(expected="terms as numbers, as those of the documents before", got="terms named by word")
        new = [word for word in words if vocabulary.get(word) is None]
        numbers = {word: len(vocabulary) + at for at, word in enumerate(dict.fromkeys(new))}
        columns = np.array([numbers[w] if w in numbers else vocabulary.get(w) for w in words], dtype=np.int64)
        width = len(vocabulary) + len(numbers)
        if len(columns) and bool((columns == np.arange(len(columns))).all()):
            return vectors._replace(num_columns=width), list(numbers)
        renamed = vectors._replace(indices=columns[vectors.indices], num_columns=width)
        return sorted_rows(renamed), list(numbers)

    def _with_mean_length(self, state: State, change: Change) -> Change:
        """Return the change with the mean length of documents, those that come counted in, for BM25."""
        if self._words is None:
            return change
        total = num_words(state) + int(change.vectors.values.sum())
        return change._replace(mean_length=total / max(1, state.num_docs + change.num_docs))

    def encoded_updates(self, records: Sequence[Mapping[str, Any]]) -> dict[int, Ready]:
        """Return, by place, the updates that bring a text, encoded."""
        found = {}
        for at, record in enumerate(records):
            if "text" in record or "title" in record:
                document = Document("-", str(record.get("title") or ""), str(record.get("text") or ""))
                found[at] = self.ready(Given(None, None, None, [document], None))
        return found

    def updating(
        self, state: State, records: Sequence[Mapping[str, Any]], encoded: Mapping[int, Ready]
    ) -> Change | None:
        """Return the change that replaces documents under their old insertion numbers."""
        if not records:
            return None
        ids = checked_ids([record["id"] for record in records], state.id_kind)
        if len(set(ids)) != len(ids):
            raise InputError(expected="every id once in an update", got="one of them again")
        places = state.find(ids)
        numbers, texts, metadata = [], [], []
        rows: list[tuple[Csr, list[str]]] = []
        words: list[str] = []
        for at, (id, place) in enumerate(zip(ids, places, strict=True)):
            if place is None:
                raise UnknownIdError(f"no document has the id {shown(id)}", hint="use add or upsert for new documents")
            view = state.views[place.view]
            numbers.append(state.number_of(place))
            ready = encoded.get(at)
            if ready is not None:
                vectors, new = self._numbered(state, ready.vectors, ready.words)
                words += [word for word in new if word not in words]
                rows.append((vectors, new))
                texts.append(None if ready.texts is None else ready.texts[0])
            else:
                rows.append((_stored_vector(view.part, place.row), []))
                texts.append(None if view.part.ids.stored is None else state.text_of(place))
            given = records[at].get("metadata", _UNCHANGED)
            metadata.append(state.metadata_of(place) if given is _UNCHANGED else _checked_rows([given])[0])
        if self._schema is not None:
            self._schema.check(metadata)
        order = np.argsort(numbers, kind="stable").tolist()
        base = len(self._vocabulary)
        place_of = {word: base + at for at, word in enumerate(words)}
        joined = _joined_vectors([_renumbered(rows[at], base, place_of) for at in order])
        change = Change(
            deleted=np.sort(np.array(numbers, dtype=np.int64)),
            numbers=np.sort(np.array(numbers, dtype=np.int64)),
            ids=id_arrays([ids[at] for at in order], len(ids)),
            vectors=joined,
            texts=[texts[at] or StoredText("", "") for at in order] if any(texts) else None,
            metadata=[metadata[at] for at in order] if any(one is not None for one in metadata) else None,
            terms=words,
        )
        return self._with_mean_length(state, change)


def _checked_rows(given: Sequence[object]) -> list[dict[str, Any] | None]:
    """Return the metadata of documents; raise InputError for what could not be packed later, when they go to disk."""
    if _are_simple(given):
        return [one.copy() for one in given]  # type: ignore[attr-defined]
    metadata = [checked_metadata(one, row) for row, one in enumerate(given)]
    for row, one in enumerate(metadata):
        to_json(one, row)
        try:
            fields_of(one or {})
        except InputError as error:
            raise error.at(f"metadata of document {row}") from None
    return metadata


def _are_simple(given: Sequence[Any]) -> bool:
    """Whether metadata are what most are: flat and plain. Looking at all at once takes a tenth of the time."""
    if set(map(type, given)) != {dict}:
        return False
    names = set().union(*given)
    kinds = set(map(type, chain.from_iterable(map(dict.values, given))))
    if not kinds <= _SIMPLE or set(map(type, names)) != {str} or any("." in name for name in names):
        return False
    try:
        text = json.dumps(given, ensure_ascii=False, allow_nan=False)
        return len(text.encode("utf-8")) < _SHORT_JSON and not _LONG_NUMBER.search(text)
    except ValueError:  # no finite numbers, or strings that UTF-8 cannot hold
        return False


def check_update(record: object) -> None:
    """Raise InputError for what is no update."""
    if not isinstance(record, Mapping) or "id" not in record:
        raise InputError(expected="records with 'id', and 'metadata' or 'text'", got=shown(record))
    unknown = [name for name in record if name not in _UPDATED]
    if unknown:
        raise InputError(
            expected="'id', 'metadata', 'text' and 'title' in an update",
            got=shown(unknown[0]),
            hint="use upsert for vectors",
        )
    for name in ("text", "title"):
        if name in record and not isinstance(record[name], str):
            raise InputError(expected=f"a string as {name}", got=type(record[name]).__name__)


def _checked_new_ids(given: list[Any] | None, state: State, numbers: NDArray[np.int64]) -> list[Any]:
    """Return the ids of documents that come; without any, their insertion numbers."""
    if given is None:
        if state.id_kind is str:
            raise InputError(expected="ids, as all documents of this collection have", got="none")
        return list(numbers.tolist())
    return checked_ids(given, state.id_kind)


def _packed_ids(ids: list[Any]) -> Arrays:
    """Return checked ids as components of an index; raise InputError if one of them comes twice."""
    if ids and isinstance(ids[0], int):
        numbers = np.array(ids, dtype=np.int64)
        if len(np.unique(numbers)) == len(numbers):
            return {"id_number": numbers}
    return id_arrays(ids, len(ids))


def numbers_at(state: State, places: Sequence[Place | None]) -> NDArray[np.int64]:
    """Return the insertion numbers of the documents that are there, ascending, each once."""
    return np.unique(np.array([state.number_of(place) for place in places if place is not None], dtype=np.int64))


def cut(given: Given) -> Iterable[Given]:
    """Cut a giant batch."""
    if given.num_docs <= _MOST_DOCS:
        return [given]

    def piece(values: Any, first: int) -> Any:
        return None if values is None else values[first : first + _MOST_DOCS]

    return (
        Given(
            piece(given.ids, first),
            None
            if given.vectors is None
            else slice_rows(given.vectors, first, min(first + _MOST_DOCS, given.num_docs)),
            given.words,
            piece(given.texts, first),
            piece(given.metadata, first),
        )
        for first in range(0, given.num_docs, _MOST_DOCS)
    )


def _stored_vector(part: Part, row: int) -> Csr:
    """Return what an update writes again: the counts of words, or the weights that are stored."""
    if part.counts is not None:
        return slice_rows(part.counts, row, row + 1)
    found: Csr = part.engine.vectors(np.array([row], dtype=np.int64))
    return found


def _renumbered(row: tuple[Csr, list[str]], base: int, place_of: Mapping[str, int]) -> Csr:
    """Return the row of one update whose new words have the numbers that they have among all updates."""
    vectors, new = row
    if not new:
        return vectors
    table = np.arange(vectors.num_columns, dtype=np.int64)
    table[base:] = [place_of[word] for word in new]
    return sorted_rows(vectors._replace(indices=table[vectors.indices], num_columns=base + len(place_of)))


def _joined_vectors(rows: Sequence[Csr]) -> Csr:
    width = max((row.num_columns for row in rows), default=0)
    return join_rows(list(rows), width) if rows else no_documents()
