"""Limits of Arrow files, checked before pyarrow decompresses anything: a few bytes can decompress to gigabytes.

A message of Arrow's formats is a flatbuffer, followed by buffers that start with their size once decompressed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from segmax.base.errors import InputError

#: The most rows of a compressed record batch.
MOST_ROWS = 1 << 22
#: The most bytes of a compressed record batch, of all dictionaries, or of a page of parquet, once decompressed.
MOST_BYTES = 1 << 29

_DICTIONARY, _RECORDS = 2, 3  # kinds of messages
_END = b"ARROW1"


class TooLarge(InputError):
    """Something is larger than the limits; `reading_arrow` adds the name of the file."""


class _Table:
    """A table of a flatbuffer; fields are known by their number."""

    def __init__(self, data: memoryview, at: int) -> None:
        self._data = data
        self._at = at

    def _place(self, field: int) -> int | None:
        """Return where a field is; None if it is left out."""
        layout = self._at - _number(self._data, "<i", self._at)
        if 4 + 2 * field >= _number(self._data, "<H", layout):
            return None
        offset = _number(self._data, "<H", layout + 4 + 2 * field)
        return self._at + offset if offset else None

    def number(self, field: int, kind: str) -> int:
        """Return a number; 0 if it is left out."""
        place = self._place(field)
        return 0 if place is None else _number(self._data, kind, place)

    def table(self, field: int) -> _Table | None:
        """Return a table inside this one."""
        place = self._place(field)
        return None if place is None else _Table(self._data, place + _number(self._data, "<I", place))

    def structs(self, field: int, kind: str) -> Iterator[tuple[Any, ...]]:
        """Yield the structs of a vector."""
        place = self._place(field)
        if place is None:
            return iter(())
        first = place + _number(self._data, "<I", place)
        size = _number(self._data, "<I", first) * struct.calcsize(kind)
        return struct.iter_unpack(kind, self._data[first + 4 : first + 4 + size])


def _number(data: memoryview, kind: str, at: int) -> int:
    if at < 0:
        raise ValueError("an offset points before the message")
    return int(struct.unpack_from(kind, data, at)[0])


def _root(data: memoryview) -> _Table:
    return _Table(data, _number(data, "<I", 0))


def check_messages(arrow: Any, file: Any) -> None:
    """Raise TooLarge if a message of an open Arrow file or stream decompresses to more than the limits."""
    dictionaries: dict[int, int] = {}
    for message in _messages(arrow, file):
        head = _root(memoryview(message.metadata))
        kind, content = head.number(1, "<B"), head.table(2)
        if kind == _RECORDS and content is not None:
            _check_batch(content, message.body)
        elif kind == _DICTIONARY and content is not None:
            _add_dictionary(dictionaries, content, message.body)


def _messages(arrow: Any, file: Any) -> Iterator[Any]:
    """Yield every message that a reader decodes: of a file, those that its footer names."""
    file.seek(0)
    if file.read(len(_END)) != _END:
        file.seek(0)
        yield from arrow.ipc.MessageReader.open_stream(file)
        return
    for offset in _blocks(file):
        file.seek(offset)
        yield arrow.ipc.read_message(file)


def _blocks(file: Any) -> Iterator[int]:
    """Yield where dictionaries and record batches start."""
    end = file.size() - len(_END) - 4
    file.seek(end)
    size = _number(memoryview(file.read(4)), "<i", 0)
    if not 0 < size <= end:
        raise ValueError("its footer does not fit the file")
    file.seek(end - size)
    footer = _root(memoryview(file.read(size)))
    for field in (2, 3):
        for offset, _, _ in footer.structs(field, "<qi4xq"):
            yield offset


def _check_batch(content: _Table, body: Any) -> None:
    size = _decompressed(content, body)
    rows = content.number(0, "<q")
    if size is not None and rows > MOST_ROWS:
        raise TooLarge(
            expected=f"compressed record batches of at most {MOST_ROWS:,} rows",
            got=f"one of {rows:,}",
            hint="write smaller batches",
        )
    _check_size(size or 0, "compressed record batches")


def _add_dictionary(known: dict[int, int], content: _Table, body: Any) -> None:
    """Count a dictionary: it replaces the one before, or is added to it."""
    number, data, is_delta = content.number(0, "<q"), content.table(1), content.number(2, "<B")
    if data is None:
        return
    before = known.get(number, 0) if is_delta else 0
    known[number] = before + (_decompressed(data, body) or 0)
    _check_size(sum(known.values()), "compressed dictionaries")


def _check_size(size: int, what: str) -> None:
    if size > MOST_BYTES:
        raise TooLarge(
            expected=f"{what} of at most {MOST_BYTES >> 20} MiB once decompressed",
            got=f"{size:,} bytes",
            hint="write smaller batches, or uncompressed ones",
        )


def _decompressed(content: _Table, body: Any) -> int | None:
    """Return the bytes of all buffers once decompressed; None if they are not compressed."""
    if content.table(3) is None:
        return None
    data = memoryview(body)
    total = 0
    for offset, length in content.structs(2, "<qq"):
        if length >= 8:
            size = _number(data, "<q", offset)
            total += length if size < 0 else size  # -1: this buffer is not compressed
    return total
