"""Strings of documents, compressed a few documents at a time: texts and metadata lie beside an index in this form.

A block, decompressed, has the lengths of its strings (u4 each), then the strings. Three components say where blocks
are: `<prefix>_data` has their bytes, `<prefix>_offset` where each starts, `<prefix>_first_row` its first row.
"""

from __future__ import annotations

import itertools
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from segmax.base.errors import FormatError, damaged

_BLOCK_DOCS = 1 << 12
_CACHED_BLOCKS = 16
_LEAST_UNPACKED = 1 << 17  # what a block of any length may unpack to
_MOST_RATIO = 64  # text is packed to a third or a quarter; zlib alone would allow a thousandth

#: Called with the name of a component and more of its content.
Append = Callable[[str, NDArray[Any]], None]


class BlockKind(NamedTuple):
    """What is kept in blocks."""

    prefix: str  # of the names of its components
    what: str  # what messages call one of them
    strings: int  # per document
    block_bytes: int  # before compression: what one lookup has to unpack


def write_blocks(kind: BlockKind, docs: Iterable[Sequence[bytes]], append: Append) -> int:
    """Pack the strings of every document, in the order of rows, into components; return how many documents there are.

    Nothing is kept of a document once its block is full.
    """
    offsets, first_rows = [0], [0]
    for count, block in _blocks(kind, docs):
        append(f"{kind.prefix}_data", np.frombuffer(block, dtype=np.uint8))
        offsets.append(offsets[-1] + len(block))
        first_rows.append(first_rows[-1] + count)
    if len(offsets) == 1:
        append(f"{kind.prefix}_data", np.zeros(0, dtype=np.uint8))  # no documents: the component is there, and empty
    append(f"{kind.prefix}_offset", np.array(offsets, dtype=np.uint64))
    append(f"{kind.prefix}_first_row", np.array(first_rows, dtype=np.uint64))
    return first_rows[-1]


def _blocks(kind: BlockKind, docs: Iterable[Sequence[bytes]]) -> Iterator[tuple[int, bytes]]:
    """Yield the documents of every block, and its bytes."""
    parts: list[bytes] = []
    size = 0
    for strings in docs:
        parts.extend(strings)
        size += sum(map(len, strings))
        if size >= kind.block_bytes or len(parts) >= kind.strings * _BLOCK_DOCS:
            yield len(parts) // kind.strings, _packed(parts)
            parts, size = [], 0
    if parts:
        yield len(parts) // kind.strings, _packed(parts)


def _packed(parts: list[bytes]) -> bytes:
    lengths = np.fromiter(map(len, parts), dtype="<u4", count=len(parts))
    return _compressed(lengths.tobytes() + b"".join(parts))


def _compressed(content: bytes) -> bytes:
    """Compress a block, but not so well that a reader would take it for a bomb."""
    packed = zlib.compress(content)
    return packed if len(content) <= _most_unpacked(len(packed)) else zlib.compress(content, level=0)


def _most_unpacked(num_bytes: int) -> int:
    """Return how long the content of a block of so many bytes may be: a small file must not fill the memory."""
    return max(_LEAST_UNPACKED, _MOST_RATIO * num_bytes)


class Blocks:
    """The strings of documents, by row. Share it between threads freely."""

    def __init__(
        self, kind: BlockKind, arrays: Mapping[str, NDArray[Any]], num_docs: int, path: Path | None = None
    ) -> None:
        self._kind = kind
        self._path = path
        self._data, self._offsets = arrays[f"{kind.prefix}_data"], arrays[f"{kind.prefix}_offset"]
        self._first_rows = arrays[f"{kind.prefix}_first_row"]
        whole = len(self._offsets) == len(self._first_rows) > 0 and self._first_rows[-1] == num_docs
        if not whole or self._offsets[-1] != len(self._data) or not (_ascends(self._offsets, self._first_rows)):
            raise damaged(f"its table of {kind.what}s has the wrong length", path)
        self._unpacked: OrderedDict[int, tuple[NDArray[np.int64], bytes]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return int(self._first_rows[-1])

    def __getitem__(self, row: int) -> tuple[bytes, ...]:
        if not 0 <= row < len(self):
            msg = f"expected a row below {len(self)}, got {row}"
            raise IndexError(msg)
        block = int(np.searchsorted(self._first_rows, row, side="right")) - 1
        ends, content = self._block(block)
        at = self._kind.strings * (row - int(self._first_rows[block]))
        places = ends[at : at + self._kind.strings + 1].tolist()
        return tuple(content[start:end] for start, end in itertools.pairwise(places))

    def damaged(self) -> FormatError:
        """Return the error about strings that are not what was written."""
        return damaged(f"a stored {self._kind.what} cannot be read", self._path)

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
        strings = self._kind.strings * int(self._first_rows[block + 1] - self._first_rows[block])
        try:
            return _unpacked(self._data[start:end].tobytes(), strings)
        except (zlib.error, ValueError) as error:
            raise self.damaged() from error


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
