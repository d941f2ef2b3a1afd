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
from segmax.base.parallel import Workers

_BLOCK_DOCS = 1 << 12
_CACHED_BLOCKS = 16
_LEVEL = 4  # of zlib: less than half the time of its default, and 3 % larger
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


class PackedDocs(NamedTuple):
    """The strings of some documents, one after the other."""

    lengths: NDArray[np.uint32]  # as many per document as the kind has
    content: NDArray[np.uint8]


def write_blocks(
    kind: BlockKind, docs: Iterable[Sequence[bytes]], append: Append, workers: Workers | None = None
) -> int:
    """Pack the strings of every document, in the order of rows, into components; return how many documents there are.

    Nothing is kept of a document once its block is written.
    """
    return write_packed(kind, _packed(kind, docs), append, workers)


def write_packed(kind: BlockKind, batches: Iterable[PackedDocs], append: Append, workers: Workers | None = None) -> int:
    """Do what `write_blocks` does with documents that are packed; workers compress several blocks at once."""
    blocks = _blocks(kind, batches)
    offsets, first_rows = [0], [0]
    for count, block in map(_compressed, blocks) if workers is None else workers.map(_compressed, blocks):
        append(f"{kind.prefix}_data", np.frombuffer(block, dtype=np.uint8))
        offsets.append(offsets[-1] + len(block))
        first_rows.append(first_rows[-1] + count)
    if len(offsets) == 1:
        append(f"{kind.prefix}_data", np.zeros(0, dtype=np.uint8))  # no documents: the component is there, and empty
    append(f"{kind.prefix}_offset", np.array(offsets, dtype=np.uint64))
    append(f"{kind.prefix}_first_row", np.array(first_rows, dtype=np.uint64))
    return first_rows[-1]


def _packed(kind: BlockKind, docs: Iterable[Sequence[bytes]]) -> Iterator[PackedDocs]:
    """Pack documents, about as many at a time as a block has."""
    parts: list[bytes] = []
    size = 0
    for strings in docs:
        parts.extend(strings)
        size += sum(map(len, strings))
        if size >= kind.block_bytes or len(parts) >= kind.strings * _BLOCK_DOCS:
            yield _packed_parts(parts)
            parts, size = [], 0
    if parts:
        yield _packed_parts(parts)


def _packed_parts(parts: list[bytes]) -> PackedDocs:
    lengths = np.fromiter(map(len, parts), dtype=np.uint32, count=len(parts))
    return PackedDocs(lengths, np.frombuffer(b"".join(parts), dtype=np.uint8))


class _Block(NamedTuple):
    """A block that is not compressed yet."""

    num_docs: int
    pieces: list[bytes]  # the lengths, then the strings


def _blocks(kind: BlockKind, batches: Iterable[PackedDocs]) -> Iterator[_Block]:
    """Cut documents into blocks: one ends with the document that fills it, wherever batches end."""
    lengths: list[bytes] = []
    content: list[bytes] = []
    count = size = 0
    for batch in batches:
        ends = np.cumsum(batch.lengths, dtype=np.int64)[kind.strings - 1 :: kind.strings]
        row = start = 0
        while row < len(ends):
            full = int(np.searchsorted(ends, start + kind.block_bytes - size)) + 1
            last = min(full, row + _BLOCK_DOCS - count, len(ends))
            end = int(ends[last - 1])
            lengths.append(batch.lengths[kind.strings * row : kind.strings * last].astype("<u4").tobytes())
            content.append(batch.content[start:end].tobytes())
            count, size = count + last - row, size + end - start
            row, start = last, end
            if size >= kind.block_bytes or count == _BLOCK_DOCS:
                yield _Block(count, [*lengths, *content])
                lengths, content, count, size = [], [], 0, 0
    if count:
        yield _Block(count, [*lengths, *content])


def _compressed(block: _Block) -> tuple[int, bytes]:
    """Return the documents of a block and its bytes, not packed so well that a reader would take it for a bomb."""
    content = b"".join(block.pieces)
    packed = zlib.compress(content, _LEVEL)
    is_plausible = len(content) <= _most_unpacked(len(packed))
    return block.num_docs, packed if is_plausible else zlib.compress(content, level=0)


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

    def several(self, rows: NDArray[np.int64]) -> Iterator[list[bytes]]:
        """Yield the strings of many rows. Rows of one block that follow each other cost little more than one."""
        width = self._kind.strings
        blocks = np.searchsorted(self._first_rows, rows.astype(np.uint64), side="right") - 1
        changes = np.flatnonzero(np.append(True, blocks[1:] != blocks[:-1])[: len(rows)])
        for start, end in itertools.pairwise([*changes.tolist(), len(rows)]):
            block = int(blocks[start])
            ends, content = self._block(block)
            places = ends.tolist()
            for at in (width * (rows[start:end] - int(self._first_rows[block]))).tolist():
                yield [content[places[number] : places[number + 1]] for number in range(at, at + width)]

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
