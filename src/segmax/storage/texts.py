"""Texts beside an index: compressed a few documents at a time, and read back the same way."""

from __future__ import annotations

import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from segmax.base.errors import FormatError, InputError, damaged

_BLOCK_BYTES = 1 << 16  # of text, before compression: what one lookup has to unpack
_BLOCK_DOCS = 1 << 12
_CACHED_BLOCKS = 16
_LEAST_UNPACKED = 1 << 17  # what a block of any length may unpack to
_MOST_RATIO = 64  # text is packed to a third or a quarter; zlib alone would allow a thousandth

Append = Callable[[str, NDArray[Any]], None]


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


def write_texts(texts: Iterable[object], num_docs: int, append: Append) -> None:
    """Pack the text of every document, in the order of rows, into components of an index.

    Parameters
    ----------
    texts
        A string, (title, text), a mapping with "text" and perhaps "title", or an object with these attributes each.
    num_docs
        How many there have to be.
    append
        Called with the name of a component and more of its content.
    """
    offsets, first_rows = [0], [0]
    for count, block in _blocks(texts):
        append("text_data", np.frombuffer(block, dtype=np.uint8))
        offsets.append(offsets[-1] + len(block))
        first_rows.append(first_rows[-1] + count)
    if first_rows[-1] != num_docs:
        raise InputError(expected=f"{num_docs} texts, one per document", got=f"{first_rows[-1]}")
    append("text_offset", np.array(offsets, dtype=np.uint64))
    append("text_first_row", np.array(first_rows, dtype=np.uint64))


def _blocks(texts: Iterable[object]) -> Iterator[tuple[int, bytes]]:
    """Yield the documents of every block, and its bytes: two lengths per document, then the strings."""
    parts: list[bytes] = []
    size = 0
    for row, text in enumerate(texts):
        encoded = _encoded(text, row)
        parts.extend(encoded)
        size += sum(map(len, encoded))
        if size >= _BLOCK_BYTES or len(parts) >= 2 * _BLOCK_DOCS:
            yield _packed(parts)
            parts, size = [], 0
    if parts:
        yield _packed(parts)


def _packed(parts: list[bytes]) -> tuple[int, bytes]:
    lengths = np.fromiter(map(len, parts), dtype="<u4", count=len(parts))
    return len(parts) // 2, _compressed(lengths.tobytes() + b"".join(parts))


def _compressed(content: bytes) -> bytes:
    """Compress a block, but not so well that a reader would take it for a bomb."""
    packed = zlib.compress(content)
    return packed if len(content) <= _most_unpacked(len(packed)) else zlib.compress(content, level=0)


def _most_unpacked(num_bytes: int) -> int:
    """Return how long the content of a block of so many bytes may be: a small file must not fill the memory."""
    return max(_LEAST_UNPACKED, _MOST_RATIO * num_bytes)


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
        self._path = path
        self._data, self._offsets = arrays["text_data"], arrays["text_offset"]
        self._first_rows = arrays["text_first_row"]
        whole = len(self._offsets) == len(self._first_rows) > 0 and self._first_rows[-1] == num_docs
        if not whole or self._offsets[-1] != len(self._data) or not (_ascends(self._offsets, self._first_rows)):
            raise damaged("its table of texts has the wrong length", path)
        self._unpacked: OrderedDict[int, tuple[NDArray[np.int64], bytes]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return int(self._first_rows[-1])

    def __getitem__(self, row: int) -> StoredText:
        if not 0 <= row < len(self):
            msg = f"expected a row below {len(self)}, got {row}"
            raise IndexError(msg)
        block = int(np.searchsorted(self._first_rows, row, side="right")) - 1
        ends, content = self._block(block)
        at = 2 * (row - int(self._first_rows[block]))
        start, middle, end = (int(place) for place in ends[at : at + 3])
        try:
            return StoredText(content[start:middle].decode("utf-8"), content[middle:end].decode("utf-8"))
        except UnicodeDecodeError as error:
            raise self._damaged() from error

    def __iter__(self) -> Iterator[StoredText]:
        return (self[row] for row in range(len(self)))

    def _block(self, block: int) -> tuple[NDArray[np.int64], bytes]:
        """Return where the strings of a block start and end, and its content; those asked for last are kept."""
        with self._lock:
            found = self._unpacked.get(block)
            if found is not None:
                self._unpacked.move_to_end(block)
                return found
        made = self._unpack(block)
        with self._lock:
            self._unpacked[block] = made
            while len(self._unpacked) > _CACHED_BLOCKS:
                self._unpacked.popitem(last=False)
        return made

    def _unpack(self, block: int) -> tuple[NDArray[np.int64], bytes]:
        """Return where the strings of a block start and end, and its content."""
        start, end = int(self._offsets[block]), int(self._offsets[block + 1])
        strings = 2 * int(self._first_rows[block + 1] - self._first_rows[block])
        try:
            return _unpacked(self._data[start:end].tobytes(), strings)
        except (zlib.error, ValueError) as error:
            raise self._damaged() from error

    def _damaged(self) -> FormatError:
        return damaged("a stored text cannot be read", self._path)


def _unpacked(packed: bytes, strings: int) -> tuple[NDArray[np.int64], bytes]:
    """Unpack a block. Its lengths come first, so its size is known before the strings are unpacked."""
    most = _most_unpacked(len(packed))
    if 4 * strings > most:
        raise ValueError("more lengths than a block may have")
    stream = zlib.decompressobj()
    lengths = stream.decompress(packed, 4 * strings)
    ends = np.full(strings + 1, 4 * strings, dtype=np.int64)
    ends[1:] += np.cumsum(np.frombuffer(lengths, dtype="<u4", count=strings), dtype=np.int64)
    if ends[-1] > most:
        raise ValueError("more text than a block may have")
    # One byte more than there should be, so that too many show, and the end of the stream is reached.
    texts = stream.decompress(stream.unconsumed_tail, int(ends[-1] - ends[0]) + 1)
    if len(lengths) + len(texts) != ends[-1] or not stream.eof or stream.unused_data:
        raise ValueError("another length than it should have")
    return ends, lengths + texts


def _ascends(*tables: NDArray[np.uint64]) -> bool:
    return all(table[0] == 0 and bool((table[1:] > table[:-1]).all()) for table in tables)
