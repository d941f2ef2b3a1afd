"""Texts as bytes, thousands in one array: they are read, counted and stored without a Python object for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, overload, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from segmax.vectors.documents import Document

if TYPE_CHECKING:
    from segmax import _core
else:
    from segmax.base.optional import core as _core


class PackedTexts(Sequence[Document]):
    """Some documents; each is made when it is asked for.

    Parameters
    ----------
    ids
        One per document.
    lengths
        Of title, text, title, text, ..., in bytes.
    content
        Titles and texts in this order, in UTF-8.
    titles
        Whether documents have their titles; they are in `content` in any case.

    Examples
    --------
    >>> packed = PackedTexts.of_documents([Document("a", "Cats", "They sleep."), Document("b", "", "Rain.")])
    >>> packed[1].text, packed.content.tobytes()
    ('Rain.', b'CatsThey sleep.Rain.')
    """

    def __init__(
        self, ids: list[str], lengths: NDArray[np.uint32], content: NDArray[np.uint8], *, titles: bool = True
    ) -> None:
        self.ids = ids
        self.lengths = lengths
        self.content = content
        self._titles = titles

    @classmethod
    def of_documents(cls, documents: Sequence[Document]) -> PackedTexts:
        """Pack documents, halves of surrogate pairs too: whoever stores them has to check."""
        parts = [
            part.encode(errors="surrogatepass") for document in documents for part in (document.title, document.text)
        ]
        lengths = np.fromiter(map(len, parts), dtype=np.uint32, count=len(parts))
        return cls([document.id for document in documents], lengths, np.frombuffer(b"".join(parts), dtype=np.uint8))

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, row: int) -> Document: ...
    @overload
    def __getitem__(self, row: slice) -> list[Document]: ...
    def __getitem__(self, row: int | slice) -> Document | list[Document]:
        if isinstance(row, slice):
            return [self[number] for number in range(*row.indices(len(self)))]
        number = range(len(self))[row]
        title, text = self.title_and_text(number)
        return Document(self.ids[number], title if self._titles else "", text)

    def title_and_text(self, row: int) -> tuple[str, str]:
        """Return what the document says."""
        first, middle, last = self._offsets[2 * row : 2 * row + 3].tolist()
        whole = self.content[first:last].tobytes()
        title, text = whole[: middle - first], whole[middle - first :]
        return title.decode(errors="surrogatepass"), text.decode(errors="surrogatepass")

    def without_titles(self) -> PackedTexts:
        """Return the same documents without their titles."""
        return PackedTexts(self.ids, self.lengths, self.content, titles=False)

    def texts(self) -> _core.Texts:
        """Return the texts as the core counts their words."""
        return _core.Texts(self.content, self.lengths, self._titles)

    @cached_property
    def _offsets(self) -> NDArray[np.int64]:
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(self.lengths, dtype=np.int64)])


@runtime_checkable
class BatchedTexts(Protocol):
    """A reader of texts that can hand on many documents at a time."""

    def batches(self) -> Iterator[Sequence[Document]]:
        """Yield every document, from the first."""


class PackedRows:
    """The texts of all documents, in the order of rows, as `segmax.build` takes them.

    Parameters
    ----------
    batches
        Packed, without ids.
    """

    def __init__(self, batches: Iterable[PackedTexts]) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Yield title and text of every document."""
        for batch in self.batches:
            yield from (batch.title_and_text(row) for row in range(len(batch.lengths) // 2))


def batches_of(documents: Iterable[Document], max_docs: int = 1024) -> Iterator[Sequence[Document]]:
    """Yield documents many at a time, as their reader does it if it can."""
    if isinstance(documents, BatchedTexts):
        yield from documents.batches()
        return
    batch: list[Document] = []
    for document in documents:
        batch.append(document)
        if len(batch) == max_docs:
            yield batch
            batch = []
    if batch:
        yield batch
