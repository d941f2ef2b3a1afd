"""A JSON array of records, read element by element: of a large file only a part is ever held."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from pathlib import Path

from segmax.base.errors import InputError
from segmax.io.read_errors import one_line
from segmax.io.records import Place, Record, Records, with_known_names
from segmax.io.streams import MAX_LINE_BYTES, read_blocks

_SPACE = re.compile(r"[ \t\r\n]*")
_LONGEST_TOKEN = 32  # besides strings and numbers, whose errors are reported at their start
_BLOCK_BYTES = 1 << 16  # the first; more are read at a time for elements that are longer


def read_json_array(path: Path) -> Records:
    """Yield every element with the line that it starts at; a string is a text alone."""
    text = _Text(path)
    if text.next_mark() != "[":
        raise text.wrong("a JSON array")
    text.skip()
    if text.next_mark() != "]":
        while True:
            place, element = text.element()
            yield place, element
            mark = text.next_mark()
            if mark not in (",", "]"):
                raise text.wrong("',' or ']' behind an element")
            if mark == "]":
                break
            text.skip()
    text.skip()
    if text.next_mark():
        raise text.wrong("nothing behind the array")


class _Text:
    """The text of a file, from where it is read on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pieces = self._decoded()
        self._held = ""
        self._at = 0
        self._line = 1
        self._decoder = json.JSONDecoder()

    def next_mark(self) -> str:
        """Return the next character that is no space, without taking it; nothing at the end."""
        while True:
            end = self._space_end()
            self._line += self._held.count("\n", self._at, end)
            self._at = end
            if end < len(self._held):
                return self._held[end]
            if not self._more():
                return ""

    def skip(self) -> None:
        """Take the character that `next_mark` returned."""
        self._at += 1

    def element(self) -> tuple[Place, Record]:
        """Take an object or a string."""
        mark = self.next_mark()
        if mark not in ("{", '"'):
            raise self.wrong("an object or a string as element")
        while True:
            try:
                value, end = self._decoder.raw_decode(self._held, self._at)
                break
            except (ValueError, RecursionError) as error:
                if not self._is_cut(error) or not self._more():
                    raise self.wrong("JSON", one_line(error)) from error
        place = Place(self._path, self._line)
        self._line += self._held.count("\n", self._at, end)
        self._at = end
        return place, with_known_names(value, place) if isinstance(value, dict) else {"text": value}

    def wrong(self, expected: str, got: str | None = None) -> InputError:
        """Return the error about the text at this place."""
        here = self._held[self._at : self._at + 20]
        got = got or (repr(here) if here else "the end of the file")
        return InputError(where=Place(self._path, self._line), expected=expected, got=got)

    def _is_cut(self, error: Exception) -> bool:
        """Whether the error may only mean that the element continues after what is held."""
        if not isinstance(error, json.JSONDecodeError):
            return False
        return error.msg.startswith("Unterminated string") or error.pos > len(self._held) - _LONGEST_TOKEN

    def _space_end(self) -> int:
        found = _SPACE.match(self._held, self._at)
        assert found is not None  # it matches nothing, too
        return found.end()

    def _more(self) -> bool:
        """Hold more of the file, twice as much at least, so that a long element is not read over and over."""
        self._held, self._at = self._held[self._at :], 0
        if len(self._held) > MAX_LINE_BYTES:
            raise self.wrong(f"elements of at most {MAX_LINE_BYTES >> 20} MiB", "a longer one")
        wanted, parts = len(self._held), [self._held]
        for piece in self._pieces:
            parts.append(piece)
            wanted -= len(piece)
            if wanted <= 0:
                break
        grown = len(parts) > 1
        self._held = "".join(parts)
        return grown

    def _decoded(self) -> Iterator[str]:
        decoder = codecs.getincrementaldecoder("utf-8-sig")()
        line = 1
        try:
            for block in read_blocks(self._path, _BLOCK_BYTES):
                if text := decoder.decode(block):
                    yield text
                line += block.count(b"\n")
            if text := decoder.decode(b"", final=True):
                yield text
        except UnicodeDecodeError as error:
            byte = error.object[error.start]
            raise InputError(
                where=f"{Place(self._path, line)}, or soon after", expected="UTF-8", got=f"the byte 0x{byte:02x}"
            ) from error
