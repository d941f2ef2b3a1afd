"""JSON files with a checksum over themselves, read as hostile input: meta.json and the manifest of a collection."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

_CHECKSUM = re.compile(rb'"checksum": "([0-9a-f]{8})"\n}\n\Z')
_NO_CHECKSUM = b'"checksum": "00000000"\n}\n'


def checked_bytes(entries: Mapping[str, Any]) -> bytes:
    """Serialize entries; a last one is the CRC-32 of the text with zeros in its place."""
    own = {name: value for name, value in entries.items() if name != "checksum"}
    text = json.dumps({**own, "checksum": "00000000"}, indent=1, ensure_ascii=True) + "\n"
    data = text.encode("ascii")
    checksum = f'"checksum": "{zlib.crc32(data):08x}"\n}}\n'
    return data.removesuffix(_NO_CHECKSUM) + checksum.encode("ascii")


def checksum_matches(data: bytes) -> bool:
    """Whether the text ends in the checksum of itself."""
    match = _CHECKSUM.search(data)
    return match is not None and zlib.crc32(data[: match.start()] + _NO_CHECKSUM) == int(match[1], 16)


def parse_strictly(data: bytes) -> dict[str, Any]:
    """Parse JSON without what it should not have: repeated names, NaN and infinity, anything but ASCII.

    Raises
    ------
    ValueError, RecursionError
        If it is something else.
    """
    loaded: dict[str, Any] = json.loads(
        data.decode("ascii"), object_pairs_hook=_without_repeats, parse_constant=_no_number
    )
    return loaded


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is there twice")
    return found


def _no_number(text: str) -> None:
    msg = f"{text} is no number"
    raise ValueError(msg)


class Entry(NamedTuple):
    """What an entry has to be, in words and as a check."""

    expected: str
    holds: Callable[[Any], bool]


def whole(least: int, most: int) -> Entry:
    """Return the check for a whole number."""

    def holds(value: object) -> bool:
        return type(value) is int and least <= value <= most

    return Entry(f"a whole number from {least} to {most:,}", holds)


def of_type(kind: type, words: str) -> Entry:
    """Return the check for a type."""
    return Entry(words, lambda value: isinstance(value, kind))
