"""From what users give to changes: documents are encoded, checked and numbered."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from segmax.base.checks import check_listed, shown
from segmax.base.errors import InputError, UnknownIdError
from segmax.base.vocabulary import GrowingVocabulary
from segmax.collection.changes import Change, no_documents
from segmax.collection.inputs import Given
from segmax.collection.part import Part
from segmax.collection.state import Place, State, checked_ids
from segmax.collection.words import WordWeights, num_words
from segmax.io.records import VECTOR_NAMES
from segmax.metadata import Schema
from segmax.metadata.patching import Patch
from segmax.metadata.values import checked_metadata, fields_of, to_json
from segmax.storage.components import Arrays
from segmax.storage.tables import id_arrays
from segmax.storage.texts import StoredText
from segmax.vectors.csr import Csr
from segmax.vectors.documents import Document
from segmax.vectors.rows import join_rows, selected_rows, slice_rows, sorted_rows

if TYPE_CHECKING:
    from segmax.encoders.base import Encoder

#: The most documents of one change, which becomes a part in memory: larger batches are cut.
MOST_DOCS = 1 << 15
_MOST_TERMS = 2**28
_SIMPLE = {bool, float, int, str, type(None)}
_SHORT_JSON = 1 << 20
_LONG_NUMBER = re.compile(r"\d{100}")
#: What becomes of the metadata of a document in an update: its own, or what a function makes of these.
_NewMetadata = Callable[[dict[str, Any] | None], dict[str, Any] | None]
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

    def ready(self, given: Given, *, metadata: bool = True) -> Ready:
        """Return a batch with all that can be done before the collection is locked.

        `metadata` is False for texts of updates, whose metadata are looked at later.
        """
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
        described = None if given.metadata is None else _checked_rows(given.metadata)
        if self._schema is not None and metadata:
            self._schema.check(described if described is not None else [None] * given.num_docs)
        return Ready(given.ids, vectors, words, texts, described)

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
        encoder = self._encoder()
        batches = list(encoder.encode_documents([numbered]))
        words = list(encoder.vocabulary)
        vectors = join_rows([batch.vectors for batch in batches], len(words))
        is_known = self._vocabulary.terms[: len(words)] == words  # nearly always: columns are those of the collection
        return vectors, None if is_known else words

    def adding(self, state: State, ready: Ready, *, replace: bool) -> Change:
        """Return the change that adds documents to a state."""
        numbers = state.next_number + np.arange(ready.vectors.num_rows, dtype=np.int64)
        ids = _checked_new_ids(ready.ids, state, numbers)
        places = state.find(ids)
        if not replace or ready.ids is None:
            _check_free(ids, places, numbered=ready.ids is None)
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
        return self._with_mean_length(state, change, places)

    def _numbered(self, state: State, vectors: Csr, words: Sequence[str] | None) -> tuple[Csr, list[str]]:
        """Return vectors whose columns are the collection's, and the words that are new to it."""
        vocabulary = self._vocabulary
        if words is None:
            if len(vocabulary) and vectors.num_columns > len(vocabulary):
                raise InputError(
                    expected=f"vectors of at most {len(vocabulary):,} columns, one per word of the collection",
                    got=f"{vectors.num_columns:,}",
                    hint="name new terms by word",
                )
            return vectors, []
        if len(set(words)) != len(words):
            again = next(word for at, word in enumerate(words) if word in words[:at])
            raise InputError(expected="every term once", got=f"{shown(again)} again")
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

    def _with_mean_length(self, state: State, change: Change, places: Sequence[Place | None]) -> Change:
        """Return the change with the mean length of documents as it will be, for BM25; those at `places` go."""
        if self._words is None:
            return change
        total = num_words(state) - _num_words_at(state, places) + int(change.vectors.values.sum())
        return change._replace(mean_length=total / max(1, state.num_docs - len(change.deleted) + change.num_docs))

    def encoded_updates(self, state: State, records: Sequence[Mapping[str, Any]]) -> EncodedTexts:
        """Return the texts that updates bring, encoded: by the texts of a state that may not be the last one."""
        has_texts = any("text" in record or "title" in record for record in records)
        if has_texts and not self._can_encode and not self._keep_texts:
            raise InputError(
                expected="metadata in an update, because the collection neither encodes nor keeps texts", got="a text"
            )
        places = state.find(checked_ids([record["id"] for record in records], state.id_kind))
        return self._encoded(_new_texts(state, records, places, keep_texts=self._keep_texts))

    @property
    def _can_encode(self) -> bool:
        return self._words is not None or self._encoder is not None

    def _encoded(self, texts: dict[int, Document]) -> EncodedTexts:
        if not texts or not self._can_encode:
            return EncodedTexts(texts, Ready(None, no_documents(), None, None, None))
        return EncodedTexts(texts, self.ready(Given(None, None, None, list(texts.values()), None), metadata=False))

    def updating(
        self,
        state: State,
        records: Sequence[Mapping[str, Any]],
        encoded: EncodedTexts,
        described: Sequence[_NewMetadata | None],
    ) -> Change | None:
        """Return the change that replaces documents under their old insertion numbers.

        `described` is what `new_metadata` returns for the records.
        """
        if not records:
            return None
        ids = checked_ids([record["id"] for record in records], state.id_kind)
        if len(set(ids)) != len(ids):
            raise InputError(expected="every id once in an update", got="one of them again")
        places = _known_places(state, ids)
        given = _new_texts(state, records, places, keep_texts=self._keep_texts)
        if given != encoded.texts:  # another update came in between
            encoded = self._encoded(given)
        vectors, words = self._numbered(state, encoded.ready.vectors, encoded.ready.words)
        row_of = {at: row for row, at in enumerate(given)} if self._can_encode else {}
        metadata = self._updated_metadata(state, places, described)
        numbers, rows, texts = [], [], []
        order = sorted(range(len(places)), key=lambda at: state.number_of(places[at]))
        for at in order:
            place, row = places[at], row_of.get(at)
            part = state.views[place.view].part
            numbers.append(state.number_of(place))
            if row is None:
                rows.append(_stored_row(part, place.row))
                own = None if part.ids.stored is None else state.text_of(place)
                texts.append(StoredText(given[at].title, given[at].text) if at in given else own)
            else:
                rows.append(_Row(slice_rows(vectors, row, row + 1)))
                texts.append(None if encoded.ready.texts is None else encoded.ready.texts[row])
        change = Change(
            deleted=np.array(numbers, dtype=np.int64),
            numbers=np.array(numbers, dtype=np.int64),
            ids=id_arrays([ids[at] for at in order], len(ids)),
            vectors=join_rows([row.vectors for row in rows], max(row.vectors.num_columns for row in rows)),
            texts=[text or StoredText("", "") for text in texts] if any(texts) else None,
            metadata=[metadata[at] for at in order] if any(one is not None for one in metadata) else None,
            terms=words,
            kept=None if self._words is None or len(given) == len(rows) else np.concatenate([r.weights for r in rows]),
        )
        return self._with_mean_length(state, change, places)

    def _updated_metadata(
        self, state: State, places: Sequence[Place], described: Sequence[_NewMetadata | None]
    ) -> list[dict[str, Any] | None]:
        """Return the metadata of documents after an update, checked like those of documents that are added."""
        found = [state.metadata_of(place) for place in places]
        changed = [at for at, change in enumerate(described) if change is not None]
        new = [change(found[at]) for at, change in enumerate(described) if change is not None]
        for at, one in zip(changed, _checked_rows(new, changed), strict=True):
            found[at] = one
        if self._schema is not None:
            self._schema.check(found)
        return found


class EncodedTexts(NamedTuple):
    """The texts that updates bring, by the place of the update, and all of them encoded."""

    texts: dict[int, Document]
    ready: Ready


class _Row(NamedTuple):
    """A document of an update."""

    vectors: Csr
    kept: NDArray[np.float64] | None = None  #: BM25: the weights that it has

    @property
    def weights(self) -> NDArray[np.float64]:
        """The weights that it keeps; zeros where it is to be weighed."""
        return np.zeros(len(self.vectors.values)) if self.kept is None else self.kept


def check_updates(updates: object) -> list[Mapping[str, Any]]:
    """Return updates as a list of records; raise InputError for what is no update."""
    if not isinstance(updates, Mapping):
        check_listed("updates as records with 'id', and 'metadata' or 'text'", updates)
    records: list[Any] = [updates] if isinstance(updates, Mapping) else list(updates)  # type: ignore[call-overload]
    for record in records:
        check_update(record)
    if len(records) > MOST_DOCS:
        raise InputError(
            expected=f"at most {MOST_DOCS:,} records in an update, which is applied whole",
            got=f"{len(records):,}",
            hint="cut it",
        )
    return records


def new_metadata(records: Sequence[Mapping[str, Any]], *, replace: bool) -> list[_NewMetadata | None]:
    """Return what updates do with metadata: merge theirs, or replace all; None where they have none.

    Null in the place of all metadata removes all.
    """

    def change(given: Any, row: int) -> _NewMetadata:
        return (lambda metadata: given) if replace or given is None else Patch(given, row).applied_to

    return [change(record["metadata"], row) if "metadata" in record else None for row, record in enumerate(records)]


def _checked_rows(given: Sequence[object], numbers: Sequence[int] | None = None) -> list[dict[str, Any] | None]:
    """Return the metadata of documents; raise InputError for what could not be packed later, when they go to disk.

    `numbers` are those of the documents in messages; None: from 0 on.
    """
    if _are_simple(given):
        return [one.copy() for one in given]  # type: ignore[attr-defined]
    rows = range(len(given)) if numbers is None else numbers
    metadata = [checked_metadata(one, row) for row, one in zip(rows, given, strict=True)]
    for row, one in zip(rows, metadata, strict=True):
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
            hint="use upsert for vectors" if unknown[0] in VECTOR_NAMES else "put other fields under 'metadata'",
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
    if given.num_docs <= MOST_DOCS:
        return [given]

    def piece(values: Any, first: int) -> Any:
        return None if values is None else values[first : first + MOST_DOCS]

    return (
        Given(
            piece(given.ids, first),
            None if given.vectors is None else slice_rows(given.vectors, first, min(first + MOST_DOCS, given.num_docs)),
            given.words,
            piece(given.texts, first),
            piece(given.metadata, first),
        )
        for first in range(0, given.num_docs, MOST_DOCS)
    )


def _check_free(ids: Sequence[Any], places: Sequence[Place | None], *, numbered: bool) -> None:
    """Raise InputError if an id is there already."""
    taken = next((id for id, place in zip(ids, places, strict=True) if place is not None), None)
    if taken is None:
        return
    if numbered:
        raise InputError(
            expected="ids, because without any, documents are numbered",
            got=f"none, and another document has the id {taken}",
        )
    raise InputError(
        expected="ids that are not in the collection yet", got=shown(taken), hint="use {upsert} to replace documents"
    )


def _known_places(state: State, ids: Sequence[Any]) -> list[Place]:
    """Return where documents are; raise UnknownIdError at the first that is not there."""
    places = []
    for id, place in zip(ids, state.find(ids), strict=True):
        if place is None:
            raise UnknownIdError(f"no document has the id {shown(id)}", hint="use add or upsert for new documents")
        places.append(place)
    return places


def _new_texts(
    state: State, records: Sequence[Mapping[str, Any]], places: Sequence[Place | None], *, keep_texts: bool
) -> dict[int, Document]:
    """Return, by place, what documents say after updates that bring a text or a title."""
    found = {}
    for at, (record, place) in enumerate(zip(records, places, strict=True)):
        if place is None or not ("text" in record or "title" in record):
            continue
        text = StoredText(record.get("title", ""), record.get("text", ""))
        if not ("text" in record and "title" in record):
            if not keep_texts:
                raise InputError(
                    where=f"update {at}",
                    expected="both text and title, because the collection keeps neither",
                    got="one of them",
                )
            has_texts = state.views[place.view].part.ids.stored is not None
            stored = state.text_of(place) if has_texts else StoredText("", "")
            text = StoredText(record.get("title", stored.title), record.get("text", stored.text))
        found[at] = Document("-", text.title, text.text)
    return found


def _num_words_at(state: State, places: Sequence[Place | None]) -> int:
    """Return the number of words of some documents."""
    by_view: dict[int, list[int]] = {}
    for place in places:
        if place is not None:
            by_view.setdefault(place.view, []).append(place.row)
    total = 0
    for view, rows in by_view.items():
        counts = state.views[view].part.counts
        assert counts is not None
        total += int(selected_rows(counts, np.array(rows, dtype=np.int64)).values.sum())
    return total


def _stored_row(part: Part, row: int) -> _Row:
    """Return what an update writes again: the weights that are stored, or counts of words with their weights."""
    if part.documents is not None and part.documents.weights is not None:
        return _Row(slice_rows(part.documents.weights, row, row + 1))  # as they came: codes may be made anew
    weights: Csr = part.engine.vectors(np.array([row], dtype=np.int64))
    if part.counts is None:
        return _Row(weights)
    counts = sorted_rows(slice_rows(part.counts, row, row + 1))
    return _Row(counts, sorted_rows(weights).values)
