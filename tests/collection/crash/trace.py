"""The trace of the shim: every call that changed a file below a folder, in order, with its data."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_HEADER = struct.Struct("<cQQII")


class Call(NamedTuple):
    """A call; shim.c explains the types."""

    type: str
    file: int
    number: int
    text: bytes
    other: bytes

    @property
    def path(self) -> str:
        """What was changed, relative to the folder."""
        return self.text.decode()

    @property
    def other_path(self) -> str:
        """Its new name."""
        return self.other.decode()

    def __str__(self) -> str:
        """Return the call in a line, for messages."""
        about = f"{self.number} +{len(self.text)}" if self.type == "W" else f"{self.number} {self.text[:40]!r}"
        return f"{self.type} {self.file} {about} {self.other_path}".rstrip()


def read_trace(path: Path) -> Iterator[Call]:
    """Yield the calls of a trace."""
    data = path.read_bytes()
    at = 0
    while at < len(data):
        kind, file, number, length, other_length = _HEADER.unpack_from(data, at)
        at += _HEADER.size
        yield Call(kind.decode(), file, number, data[at : at + length], data[at + length : at + length + other_length])
        at += length + other_length
