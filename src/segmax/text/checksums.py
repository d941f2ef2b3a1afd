"""Texts to be encoded, with a checksum of everything so far: a resumed job has to get the same texts again."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterable, Iterator

from segmax.base.errors import InputError
from segmax.base.progress import Stage
from segmax.text.journal import Journal
from segmax.vectors.documents import Document


class CheckedTexts:
    """Hands out documents, and knows the checksum of all texts up to each of them."""

    def __init__(self, texts: Iterable[Document], *, title: bool) -> None:
        self._texts = iter(texts)
        self._title = title
        self._checksum = 0
        self._number = 0
        self._given: deque[int] = deque()  # checksums after documents that are in no shard yet

    def __iter__(self) -> Iterator[Document]:
        """Yield the documents that no shard has."""
        while (doc := self._next()) is not None:
            self._given.append(self._checksum)
            yield doc

    def _next(self) -> Document | None:
        doc = next(self._texts, None)
        if doc is None:
            return None
        if not self._title:
            doc = doc._replace(title="")
        content = "\0".join(doc).encode("utf-8", "surrogatepass")
        self._checksum = zlib.crc32(content, zlib.crc32(len(content).to_bytes(8, "little"), self._checksum))
        self._number += 1
        return doc

    def skip(self, journal: Journal, stage: Stage) -> None:
        """Skip the documents that are done; raise InputError if they have changed."""
        for entry in journal.entries:
            for _ in range(entry["num_docs"]):
                if self._next() is None:
                    raise _changed(journal, f"only {self._number}, where {journal.num_docs} are encoded already")
            if self._checksum != entry["checksum"]:
                first = self._number - entry["num_docs"]
                raise _changed(journal, f"a change between document {first} and {self._number - 1}")
            stage.advance(entry["num_docs"])

    def checksum(self, count: int) -> int:
        """Return the checksum after the next `count` documents that were handed out."""
        return self._given[count - 1]

    def keep(self, count: int) -> None:
        """Take note that these documents are in a shard."""
        for _ in range(count):
            self._given.popleft()


def _changed(journal: Journal, got: str) -> InputError:
    return InputError(
        where=f"'{journal.folder}'",
        expected="the texts that the work was started with",
        got=got,
        hint="give the same texts, or remove the folder to start over",
    )
