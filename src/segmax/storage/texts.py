"""Texts beside an index: compressed a few documents at a time, and read back the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from segmax.base.errors import InputError
from segmax.base.parallel import Workers
from segmax.base.progress import advancing
from segmax.storage.blocks import Append, BlockKind, Blocks, PackedDocs, write_blocks, write_packed
from segmax.vectors.packed_texts import PackedRows, PackedTexts

_TEXTS = BlockKind("text", "text", strings=2, block_bytes=1 << 16)  # a title and a text each


class StoredText(NamedTuple):
    """The text of a document, as it was indexed.

    Examples
    --------
    >>> import segmax
    >>> index = segmax.from_texts([{"id": "d1", "title": "Guides", "text": "a copper waveguide"}])
    >>> index.text("d1").title
    'Guides'
    """

    title: str
    text: str


def write_texts(
    texts: Iterable[object],
    num_docs: int,
    append: Append,
    workers: Workers | None = None,
    advance: Callable[[int], object] = lambda _: None,
) -> None:
    """Pack the text of every document, in the order of rows, into components of an index.

    Parameters
    ----------
    texts
        `PackedRows`; or a string, (title, text), a mapping with "text" and perhaps "title", or an object with these
        attributes each.
    num_docs
        How many there have to be.
    append
        Called with the name of a component and more of its content.
    workers
        The threads that compress; None: this one.
    advance
        Called with the number of documents as they are taken.
    """
    if isinstance(texts, PackedRows):
        found = write_packed(_TEXTS, _checked(texts.batches, advance), append, workers)
    else:
        encoded = (_encoded(text, row) for row, text in enumerate(texts))
        found = write_blocks(_TEXTS, advancing(encoded, advance), append, workers)
    if found != num_docs:
        raise InputError(expected=f"{num_docs} texts, one per document", got=f"{found}")


def _checked(batches: Iterable[PackedTexts], advance: Callable[[int], object]) -> Iterator[PackedDocs]:
    """Yield batches of UTF-8; raise InputError for half a surrogate pair."""
    row = 0
    for batch in batches:
        count = len(batch.lengths) // 2
        try:
            batch.content.tobytes().decode()
        except UnicodeDecodeError:
            for number in range(count):
                _encoded(batch.title_and_text(number), row + number)
        yield PackedDocs(batch.lengths, batch.content)
        advance(count)
        row += count


def _encoded(text: object, row: int) -> tuple[bytes, bytes]:
    title, body = _title_and_text(text, row)
    try:
        return title.encode("utf-8"), body.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            expected="texts that UTF-8 can hold", got=f"{error.object[error.start : error.end]!r} in document {row}"
        ) from error


def _title_and_text(text: object, row: int) -> tuple[str, str]:
    if isinstance(text, str):
        return "", text
    if isinstance(text, Mapping):
        found = (text.get("title", ""), text.get("text"))
    elif hasattr(text, "title") and hasattr(text, "text"):
        found = (text.title, text.text)
    else:
        found = text if isinstance(text, tuple) and len(text) == 2 else ("", None)
    title, body = found
    if isinstance(title, str) and isinstance(body, str):
        return title, body
    raise InputError(
        expected=f"a string, (title, text) or a mapping with 'text' for row {row}", got=type(text).__name__
    )


class Texts:
    """The stored texts of an index, by row. Share it between threads freely."""

    def __init__(self, arrays: Mapping[str, NDArray[Any]], num_docs: int, path: Path | None = None) -> None:
        self._blocks = Blocks(_TEXTS, arrays, num_docs, path)

    def __len__(self) -> int:
        return len(self._blocks)

    def __getitem__(self, row: int) -> StoredText:
        title, text = self._blocks[row]
        try:
            return StoredText(title.decode("utf-8"), text.decode("utf-8"))
        except UnicodeDecodeError as error:
            raise self._blocks.damaged() from error

    def __iter__(self) -> Iterator[StoredText]:
        return (self[row] for row in range(len(self)))


class TextList:
    """Titles and texts in memory, by row."""

    def __init__(self, texts: Sequence[StoredText]) -> None:
        self._texts = texts

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, row: int) -> StoredText:
        return self._texts[row]

    def __iter__(self) -> Iterator[StoredText]:
        return iter(self._texts)
