"""The footer of a parquet file: where the pages of its columns are.

pyarrow tells the same, but it ends the process over a footer that contradicts itself: there, C++ throws what Python
cannot catch. Reading rows does not have this flaw.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from segmax.io.thrift import List, Struct, read_struct

BYTE_ARRAY = 6  # a physical type
UNCOMPRESSED = 0
_END_BYTES = 8  # the length of the footer, and PAR1

# The lists in a footer, by the struct and the field that they are in, with the type of their elements: 5 and 6 are
# numbers, 8 is text, 12 a struct.
_FILE = {2: 12, 4: 12, 5: 12, 7: 12}
_GROUP = {1: 12, 4: 12}
_COLUMN = {2: 5, 3: 8, 8: 12, 13: 12}
_SIZES = {2: 6, 3: 6}  # SizeStatistics
_PLACES = {2: 5}  # GeospatialStatistics


class Chunk(NamedTuple):
    """What a footer says about one column of a row group."""

    path: str
    physical_type: int
    codec: int
    num_values: int
    data_page_offset: int
    dictionary_page_offset: int | None


def row_groups(file: memoryview) -> list[list[Chunk]]:
    """Return the columns of every row group.

    Raises
    ------
    ValueError, LookupError, TypeError, RecursionError
        If the footer is damaged.
    """
    end = len(file) - _END_BYTES
    size = int.from_bytes(file[end : end + 4], "little") if end > 0 else 0
    if not 0 < size <= end:
        raise ValueError("the footer does not fit the file")
    footer, _ = read_struct(file[:end], end - size)
    groups = [_checked(group, _GROUP) for group in _checked(footer, _FILE)[4]]
    return [[_chunk(_checked(chunk, {})) for chunk in group[1]] for group in groups]


def _checked(found: Any, kinds: dict[int, int]) -> Struct:
    """Return a struct whose lists are of the types that they should be.

    pyarrow ignores which type a list declares. Where it is another one, pyarrow would read other values than we do, and
    what we check would not be what it reads.
    """
    if not isinstance(found, dict):
        raise ValueError("a struct is something else")
    for field, value in found.items():
        if isinstance(value, List) and value and value.kind != kinds.get(field, value.kind):
            raise ValueError("a list has elements of another type")
    return found


def _chunk(chunk: Struct) -> Chunk:
    if 8 in chunk:
        raise ValueError("a column is encrypted")
    column = _checked(chunk[3], _COLUMN)
    for field, kinds in ((16, _SIZES), (17, _PLACES)):
        _checked(column.get(field, {}), kinds)
    numbers: list[Any] = [column[field] for field in (1, 4, 5, 9)]
    if any(type(number) is not int for number in (*numbers, column.get(11, 0))):
        raise ValueError("a column has no sizes and places")
    physical_type, codec, num_values, data_page_offset = numbers
    path = ".".join(part.decode("utf-8", "replace") for part in column[3])
    return Chunk(path, physical_type, codec, num_values, data_page_offset, column.get(11))
