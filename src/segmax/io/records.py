"""Records, whatever they come from: what texts and queries have in common. Lines of JSON are the simplest."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from segmax.errors import InputError
from segmax.io.base import Document
from segmax.io.streams import one_line, read_lines

ID_NAMES = ("id", "_id", "docid", "doc_id", "docno", "pid", "qid", "query_id")
TEXT_NAMES = ("text", "contents", "content", "body", "passage", "abstract", "query", "question")
TITLE_NAMES = ("title", "headline")
VECTOR_NAMES = ("vector", "toks", "query_toks")


class Place(NamedTuple):
    """A line of a file, for messages."""

    path: Path
    line: int

    def __str__(self) -> str:
        return f"'{self.path}', line {self.line}"


Record = Mapping[str, Any]
#: Records with the places where they are.
Records = Iterator[tuple[Place, Record]]


def read_json_lines(path: Path, *, once: bool = False) -> Records:
    """Yield every object with its line; blank lines are skipped.

    With `once`, a member may come once in an object, and NaN and Infinity, which JSON does not have, are refused.
    """
    options: dict[str, Any] = {"object_pairs_hook": _members_once, "parse_constant": _no_constant} if once else {}
    decoder = json.JSONDecoder(**options)
    for number, line in read_lines(path):
        if not line.strip():
            continue
        place = Place(path, number)
        try:
            record = decoder.decode(line)
        except InputError as error:
            msg = f"{place}: {error}"
            raise InputError(msg) from error
        except (ValueError, RecursionError) as error:
            msg = f"{place}: expected JSON, got something else ({one_line(error)})"
            raise InputError(msg) from error
        if not isinstance(record, dict):
            msg = f"{place}: expected an object, got {type(record).__name__}"
            raise InputError(msg)
        yield place, record


def _members_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        again = next(name for name in names if names.count(name) > 1)
        msg = f"expected every member of an object once, got {again[:60]!r} again"
        raise InputError(msg)
    return found


def _no_constant(name: str) -> float:
    msg = f"expected numbers, got {name}"
    raise InputError(msg)


def is_missing(value: object) -> bool:
    """Whether a value stands for none: None, NaN, or pandas' NA and NaT."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (float, np.floating)) and math.isnan(value)


def find_id(record: Record, place: object) -> str | None:
    """Return the id of a record; None if it has none."""
    name = next((name for name in ID_NAMES if name in record), None)
    return None if name is None else checked_id(record[name], place)


def checked_id(value: object, place: object) -> str:
    """Return an id, which is a string or a whole number."""
    if isinstance(value, bool) or not isinstance(value, (str, int, np.integer)):
        got = "null" if is_missing(value) else repr(value)[:60]
        msg = f"{place}: expected an id as string or whole number under {ID_NAMES[:5]}, got {got}"
        raise InputError(msg)
    return str(value)


def id_of(record: Record, place: object) -> str:
    """Return the id of a record that must have one."""
    found = find_id(record, place)
    if found is None:
        raise no_id(place)
    return found


def no_id(place: object) -> InputError:
    """Return the error about a record without id."""
    return InputError(f"{place}: expected an id as string or whole number under {ID_NAMES[:5]}, got none")


def text_of(record: Record, names: Sequence[str], place: object) -> str | None:
    """Return the first of these members; None if there is none, or only missing values."""
    name = next((name for name in names if not is_missing(record.get(name))), None)
    if name is None:
        return None
    if not isinstance(record[name], str):
        msg = f"{place}: expected a string as {name}, got {type(record[name]).__name__}"
        raise InputError(msg)
    return str(record[name])


def document_of(record: Record, name: str, place: object) -> Document:
    """Return the document of a record, which has this id."""
    text = text_of(record, TEXT_NAMES, place)
    title = text_of(record, TITLE_NAMES, place)
    if text is None and title is None:
        raise no_text(record, TEXT_NAMES, place)
    document = Document(name, title or "", text or "")
    for part in document:
        if not part.isascii():
            _check_encodable(part, place)
    return document


def no_text(record: Record, names: Sequence[str], place: object) -> InputError:
    """Return the error about a record without text; a text that is null is told from one that is not there."""
    null = next((name for name in names if name in record), None)
    if null is not None:
        return InputError(f'{place}: {null} is null, expected a string; write "" for an empty text')
    return InputError(f"{place}: expected a text under {TEXT_NAMES[:4]}, got {shown_names(record)}")


def shown_names(names: Iterable[object]) -> str:
    """Return the names of members or columns for a message."""
    return ", ".join(map(str, names))[:80] or "nothing"


def _check_encodable(text: str, place: object) -> None:
    """Refuse half surrogate pairs, which JSON can write and UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        msg = f"{place}: expected text that UTF-8 can hold, got {text[error.start : error.end]!r}"
        raise InputError(msg) from error
