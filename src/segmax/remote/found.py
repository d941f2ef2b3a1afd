"""What results and users look documents and words up in, over a service: only what is needed, many at a time."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from segmax.base.errors import ConfigError, InputError, UnknownIdError
from segmax.remote.answers import FoundDocument, Info, Ranking, Words, stored_metadata, stored_text
from segmax.remote.calls import string
from segmax.storage.tables import no_metadata
from segmax.storage.texts import StoredText
from segmax.vectors.documents import DocId

#: Documents that are looked up with one request.
_MOST_LOOKED_UP = 256
_MOST_KEPT = 1 << 20  # words
_ATTEMPTS = 3  # to look words up in the index that is known


class Source(Protocol):
    """Where to look up."""

    @property
    def info(self) -> Info:
        """What the service says about the index; not older than a second where that can be asked for."""

    def look_up(self, ids: Sequence[DocId], fields: Sequence[str]) -> list[FoundDocument]:
        """Return documents by id."""


class RowSource(Source, Protocol):
    """Where to look up by row, and words."""

    def look_up_rows(self, rows: Sequence[int], fields: Sequence[str]) -> list[FoundDocument]:
        """Return documents by row."""

    def look_up_terms(self, kind: str, values: Sequence[str | int]) -> Words:
        """Return the numbers and words of "words" or "numbers", and of which index these are."""

    def forget(self) -> None:
        """Ask for `info` again when it is next used."""


class FoundDocs:
    """The documents of results, by row. Texts and metadata are fetched on first use, by id and for many results."""

    def __init__(self, source: Source, rankings: Iterable[Ranking], fields: Sequence[str]) -> None:
        self._source = source
        self._ids: dict[int, DocId] = {}
        self._titles: dict[int, str | None] = {}  # where titles came without texts
        self._texts: dict[int, StoredText | None] = {}
        self._metadata: dict[int, dict[str, Any] | None] = {}
        for ranking in rankings:
            self._ids.update(zip(ranking.rows, ranking.ids, strict=True))
            if "text" in fields:
                self._texts.update(zip(ranking.rows, map(stored_text, ranking.hits), strict=True))
            elif "title" in fields:
                titles = (None if hit.get("title") is None else string(hit["title"]) for hit in ranking.hits)
                self._titles.update(zip(ranking.rows, titles, strict=True))
            if "metadata" in fields:
                self._metadata.update(zip(ranking.rows, map(stored_metadata, ranking.hits), strict=True))

    @property
    def stored(self) -> object | None:
        """Not None where texts are stored."""
        return self._texts or (self if self._source.info.has_texts else None)

    @property
    def metadata(self) -> object | None:
        """Not None where metadata are stored."""
        return self if self._source.info.has_metadata else None

    def id_of(self, row: int) -> DocId:
        """Return the id of a result."""
        return self._ids[row]

    def ids_of(self, rows: NDArray[np.int64]) -> list[DocId]:
        """Return the ids of many results."""
        return [self._ids[row] for row in rows.tolist()]

    def title_of(self, row: int) -> str:
        """Return the title of a result."""
        if row not in self._titles:
            return self.text_of(row).title
        title = self._titles[row]
        if title is None:
            raise no_texts()
        return title

    def text_of(self, row: int) -> StoredText:
        """Return the title and text of a result."""
        if row not in self._texts:
            if self.stored is None:
                raise no_texts()
            self._fetch(row, ("title", "text", "metadata"))
        found = self._texts[row]
        if found is None:
            raise no_texts()
        return found

    def metadata_of(self, row: int) -> dict[str, Any] | None:
        """Return the metadata of a result."""
        if row not in self._metadata:
            if self.metadata is None:
                if self._source.info.is_collection:  # where documents may have metadata, and none does
                    return None
                raise no_metadata()
            self._fetch(row, ("metadata",))
        return self._metadata[row]

    @property
    def by_row(self) -> dict[int, DocId]:
        """The ids of all results."""
        return self._ids

    def fill(self, found: Iterable[FoundDocument], fields: Sequence[str]) -> None:
        """Take over fields of all results, which were fetched apart from them."""
        for row, document in zip(self._ids, found, strict=True):
            if "text" in fields:
                self._texts[row] = document.text
            elif "title" in fields:
                self._titles[row] = None if document.text is None else document.text.title
            if "metadata" in fields:
                self._metadata[row] = document.metadata

    def _fetch(self, row: int, fields: Sequence[str]) -> None:
        """Fetch something of a result, and of those after it. Who wants texts mostly wants metadata, too."""
        kept: dict[int, Any] = self._texts if "text" in fields else self._metadata
        after = itertools.dropwhile(lambda other: other != row, self._ids)
        wanted = [other for other in itertools.islice(after, _MOST_LOOKED_UP) if other not in kept]
        try:
            found = self._source.look_up([self._ids[one] for one in wanted], fields)
        except UnknownIdError as error:
            hint = "documents were deleted after the search; {fields=...} returns texts and metadata with the results"
            raise UnknownIdError(str(error), hint=hint) from error
        self._metadata.update((one, document.metadata) for one, document in zip(wanted, found, strict=True))
        if "text" in fields:
            self._texts.update((one, document.text) for one, document in zip(wanted, found, strict=True))


def no_texts() -> InputError:
    """Return the error about an index that keeps no texts."""
    return InputError(
        "the index keeps no texts", hint="build it with {texts=...}, or look them up by id where you have them"
    )


class NothingMore:
    """Stands for a service that cannot be asked while results are read, because asking has to be awaited."""

    def __init__(self, info: Info) -> None:
        self.info = info

    def look_up(self, ids: Sequence[DocId], fields: Sequence[str]) -> list[FoundDocument]:
        """Refuse."""
        name = "text" if "text" in fields else "metadata"
        raise ConfigError(
            option="fields", expected=f"given with {name!r} for the search, to have it with the results", got="none"
        )


class RemoteTexts:
    """Titles and texts of an index by row, fetched when they are used."""

    def __init__(self, source: RowSource) -> None:
        self._source = source

    def __len__(self) -> int:
        return self._source.info.num_docs

    def __getitem__(self, row: int) -> StoredText:
        return self._read([operator.index(row)])[0]

    def __iter__(self) -> Iterator[StoredText]:
        if self._source.info.is_collection:
            raise InputError(
                expected="an index, whose texts are numbered without gaps",
                got="a collection",
                hint="look texts up by row or by id",
            )
        for first in range(0, len(self), _MOST_LOOKED_UP):
            yield from self._read(range(first, min(first + _MOST_LOOKED_UP, len(self))))

    def _read(self, rows: Sequence[int]) -> list[StoredText]:
        try:
            found = self._source.look_up_rows(rows, ("title", "text"))
        except UnknownIdError as error:
            msg = f"no document has the row {rows[0]}" if len(rows) == 1 else str(error)
            raise IndexError(msg) from error
        return [StoredText("", "") if document.text is None else document.text for document in found]


class RemoteVocabulary(Sequence[str]):
    """The words of an index by number, and the numbers of words: fetched when they are used, and kept."""

    def __init__(self, source: RowSource) -> None:
        self._source = source
        self._kept = _Kept("")

    def __len__(self) -> int:
        return self._source.info.num_terms

    @overload
    def __getitem__(self, number: int) -> str: ...
    @overload
    def __getitem__(self, number: slice) -> list[str]: ...
    def __getitem__(self, number: int | slice) -> str | list[str]:
        if isinstance(number, slice):
            return self._read(range(*number.indices(len(self))))
        return self._read([operator.index(number)])[0]

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self), _MOST_LOOKED_UP):
            yield from self._read(range(first, min(first + _MOST_LOOKED_UP, len(self))))

    def find(self, value: str) -> int | None:
        """Return the number of a word, or None."""
        return self.find_all([value])[0]

    def find_all(self, words: Sequence[str]) -> list[int | None]:
        """Return the numbers of many words, with one request for those that were not asked for before."""
        kept = self._looked_up("words", words)
        return [kept.numbers.get(word) for word in words]

    def _read(self, wanted: Sequence[int]) -> list[str]:
        if min(wanted, default=0) < 0:
            raise _no_term(min(wanted))
        kept = self._looked_up("numbers", wanted)
        for number in wanted:
            if number not in kept.words:
                raise _no_term(number)
        return [kept.words[number] for number in wanted]

    def _looked_up(self, kind: str, values: Sequence[Any]) -> _Kept:
        """Return what is known once words or numbers were looked up that were not known before, all in one index."""
        for _ in range(_ATTEMPTS):
            kept = self._current()
            known = kept.numbers if kind == "words" else kept.words
            missing = [value for value in dict.fromkeys(values) if value not in known]
            if not missing:
                return kept
            found = self._source.look_up_terms(kind, missing)
            if found.version in ("", kept.version):
                kept.learn(found)
                return kept
            self._source.forget()  # another index has taken the place of the one that was known
        fresh = _Kept(found.version)  # or several services take turns
        if len(missing) < len(set(values)):
            found = self._source.look_up_terms(kind, list(dict.fromkeys(values)))
        fresh.learn(found)
        return fresh

    def _current(self) -> _Kept:
        """Return what is known, nothing if another index took the place of this one.

        The words of a collection keep their numbers. Other threads go on with what they have.
        """
        info = self._source.info
        version = info.vocabulary(info.version)
        if version != self._kept.version or len(self._kept.words) > _MOST_KEPT:
            self._kept = _Kept(version)
        return self._kept


class _Kept:
    """Words and numbers of one index."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.numbers: dict[str, int] = {}
        self.words: dict[int, str] = {}

    def learn(self, found: Words) -> None:
        """Take note of those that are there: a word that a collection does not have yet may come."""
        for term in found.terms:
            if term is not None:
                number, word = term
                self.numbers[word], self.words[number] = number, word


def _no_term(number: int) -> IndexError:
    return IndexError(f"no term has the number {number}")
