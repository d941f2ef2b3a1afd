"""The pages of parquet files, checked before pyarrow decodes them: a few bytes can expand to millions of entries.

Each page has a header in Thrift's encoding. Repetition levels tell which entries belong to which row:
0 starts a row, 1 continues it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from segmax.io.arrow_limits import MOST_BYTES, TooLarge
from segmax.io.parquet_footer import BYTE_ARRAY, UNCOMPRESSED, Chunk
from segmax.io.rows import MAX_ROW
from segmax.io.thrift import Struct, read_struct, read_varint

#: The most entries of rows that are read together, unless a single row has more.
_PART_ENTRIES = 1 << 22
_HEADER_BYTES = 1 << 24  # as pyarrow has it
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3  # types of pages
_RLE, _DELTA_BYTE_ARRAY = 3, 7  # encodings
_CODECS = {1: "snappy", 2: "gzip", 4: "brotli", 6: "zstd", 7: "lz4_raw"}


class _Page(NamedTuple):
    header: Struct
    content: memoryview


def rows_at_once(file: memoryview, chunk: Chunk, column: Any, num_rows: int) -> int:
    """Return how many rows of a column chunk can be read together, out of so many.

    Raises
    ------
    TooLarge
        If a page, or a row, is larger than the limits.
    """
    count = word = 0
    for page in _pages(file, chunk):
        _check_page(page, chunk)
        count += _num_entries(page.header)
        word = max(word, _longest_word(page, chunk))
    most = min(_PART_ENTRIES, MOST_BYTES // max(word, 1))
    if count <= most:  # they may all be in one row
        return num_rows
    longest = 1
    if column.max_repetition_level > 0:
        longest = _longest_row(_levels(page, chunk) for page in _pages(file, chunk))
    _check_row(longest, word, chunk)
    return max(1, min(num_rows, most // longest))


def _check_row(longest: int, word: int, chunk: Chunk) -> None:
    where = f"in the column {chunk.path!r}"
    if longest > MAX_ROW:
        raise TooLarge(expected=f"at most {MAX_ROW:,} entries per row {where}", got=f"{longest:,}")
    if longest * word > MOST_BYTES:
        raise TooLarge(
            expected=f"rows of at most {MOST_BYTES >> 20} MiB {where}", got=f"{longest:,} words of {word:,} bytes"
        )


def _check_page(page: _Page, chunk: Chunk) -> None:
    size = page.header[2]
    if not 0 <= size <= MOST_BYTES:
        where = f"in the column {chunk.path!r}"
        raise TooLarge(
            expected=f"pages of at most {MOST_BYTES >> 20} MiB {where}",
            got=f"one of {size:,} bytes",
            hint="write smaller pages",
        )


def _num_entries(header: Struct) -> int:
    """Return how many entries a data page has; other pages have none."""
    field = {_DATA: 5, _DATA_V2: 8}.get(header[1])
    count = 0 if field is None else int(header[field][1])
    if count < 0:
        raise ValueError("a page has a negative number of entries")
    return count


# --- headers ---------------------------------------------------------------------------------------------------------


def _pages(file: memoryview, chunk: Chunk) -> Iterator[_Page]:
    """Yield the pages of a column chunk, as many as pyarrow reads."""
    at, left = chunk.data_page_offset, chunk.num_values
    if chunk.dictionary_page_offset:
        at = min(at, chunk.dictionary_page_offset)
    if at < 0:
        raise ValueError("a page starts before the file")
    while left > 0:
        header, at = read_struct(file[: at + _HEADER_BYTES], at)
        end = at + header[3]
        if not at <= end <= len(file):
            raise ValueError("a page reaches behind the end of the file")
        yield _Page(header, file[at:end])
        at = end
        left -= _num_entries(header)


# --- words -----------------------------------------------------------------------------------------------------------


def _longest_word(page: _Page, chunk: Chunk) -> int:
    """Return the most bytes of a word that a page can repeat without holding it again; 0 if it cannot."""
    if chunk.physical_type != BYTE_ARRAY:
        return 0
    if page.header[1] == _DICTIONARY:
        return _longest_in_dictionary(_decompressed(page, chunk))
    field = {_DATA: 5, _DATA_V2: 8}.get(page.header[1])
    encoding = {_DATA: 2, _DATA_V2: 4}.get(page.header[1])
    is_delta = field is not None and page.header[field][encoding] == _DELTA_BYTE_ARRAY
    return int(page.header[2]) if is_delta else 0


def _longest_in_dictionary(data: memoryview) -> int:
    """Return the size of the longest word; each follows its size."""
    at = longest = 0
    while at + 4 <= len(data):
        size = int.from_bytes(data[at : at + 4], "little")
        longest = max(longest, size)
        at += 4 + size
    return min(longest, len(data))


# --- levels ----------------------------------------------------------------------------------------------------------


class _Run(NamedTuple):
    """Repetition levels, one after the other: where rows start among them."""

    length: int
    first: int  # -1: no row starts here
    last: int
    gap: int  # the longest row between the two


def _of_bits(bits: NDArray[np.uint8]) -> _Run:
    starts = np.flatnonzero(bits == 0)
    if len(starts) == 0:
        return _Run(len(bits), -1, -1, 0)
    gap = int(np.diff(starts).max()) if len(starts) > 1 else 0
    return _Run(len(bits), int(starts[0]), int(starts[-1]), gap)


_BYTES = [_of_bits(np.unpackbits(np.array([byte], np.uint8), bitorder="little")) for byte in range(256)]
_FEW_BYTES = 8  # for which numpy is slower than a look-up each


def _levels(page: _Page, chunk: Chunk) -> Iterator[_Run]:
    """Yield the repetition levels of a page."""
    count = _num_entries(page.header)
    if count == 0:
        return
    data = _level_bytes(page, chunk)
    at = 0
    while count > 0:
        head, at = read_varint(data, at)
        if head == 0 or at >= len(data):
            raise ValueError("the levels of a page end too early")
        size = head >> 1
        if head & 1:
            yield from _packed(data[at : at + size], count)
            at, size = at + size, size * 8
        else:
            length = min(size, count)
            yield _Run(length, -1, -1, 0) if data[at] & 1 else _Run(length, 0, length - 1, int(length > 1))
            at += 1
        count -= size


def _packed(data: memoryview, count: int) -> Iterable[_Run]:
    """Return the runs of levels that take a bit each."""
    if len(data) <= _FEW_BYTES and len(data) * 8 <= count:
        return (_BYTES[byte] for byte in data)
    return [_of_bits(np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")[:count])]


def _level_bytes(page: _Page, chunk: Chunk) -> memoryview:
    header, content = page
    if header[1] == _DATA_V2:  # levels are never compressed
        return content[: header[8][6]]
    if header[5][4] != _RLE:
        raise ValueError("expected repetition levels in the encoding RLE; write the file again")
    data = _decompressed(page, chunk)
    return data[4 : 4 + int.from_bytes(data[:4], "little")]


def _decompressed(page: _Page, chunk: Chunk) -> memoryview:
    """Return the content of a page that is compressed as a whole."""
    if chunk.codec == UNCOMPRESSED:
        return page.content
    codec = _CODECS.get(chunk.codec)
    if codec is None:
        raise ValueError("a column is compressed in a way that pyarrow does not know")
    import pyarrow

    return memoryview(pyarrow.decompress(page.content, page.header[2], codec=codec, asbytes=True))


def _longest_row(pages: Iterable[Iterable[_Run]]) -> int:
    at = start = longest = 0
    for length, first, last, gap in itertools.chain.from_iterable(pages):
        if first >= 0:
            longest = max(longest, at + first - start, gap)
            start = at + last
        at += length
    return max(longest, at - start)
