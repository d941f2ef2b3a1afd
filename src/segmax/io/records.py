"""Records, whatever they come from: what texts and queries have in common. Lines of JSON are the simplest."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from segmax.base.checks import is_integer
from segmax.base.errors import InputError
from segmax.io.read_errors import one_line
from segmax.io.streams import read_lines
from segmax.vectors.documents import Document, RecordDocument

ID_NAMES = ("id", "_id", "docid", "doc_id", "docno", "pid", "qid", "query_id")
TEXT_NAMES = ("text", "contents", "content", "body", "passage", "abstract", "query", "question")
TITLE_NAMES = ("title", "headline")
VECTOR_NAMES = ("vector", "toks", "query_toks")
_KNOWN_NAMES = frozenset({*ID_NAMES, *TEXT_NAMES, *TITLE_NAMES, *VECTOR_NAMES})


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
    return json_records(read_lines(path), path, once=once)


def json_records(lines: Iterable[tuple[int, str]], path: Path, *, once: bool = False) -> Records:
    """Yield the objects of numbered lines of a file likewise."""
    options: dict[str, Any] = {"object_pairs_hook": _members_once, "parse_constant": _no_constant} if once else {}
    decoder = json.JSONDecoder(**options)
    for number, line in lines:
        if not line.strip():
            continue
        place = Place(path, number)
        try:
            record = decoder.decode(line)
        except InputError as error:
            raise error.at(place) from error
        except (ValueError, RecursionError) as error:
            if is_unfinished(line):
                raise unfinished(place) from error
            raise InputError(where=place, expected="JSON", got=f"something else ({one_line(error)})") from error
        if not isinstance(record, dict):
            raise InputError(where=place, expected="an object", got=type(record).__name__)
        yield place, with_known_names(record, place)


def is_unfinished(line: str) -> bool:
    """Whether a line that is no JSON starts an object that goes on in the next line, as in indented JSON."""
    return line.lstrip().startswith("{") and line.rstrip().endswith(("{", ",", "["))


def unfinished(place: object) -> InputError:
    """Return the error about an object that does not end on its line."""
    return InputError(
        where=place,
        expected="a whole JSON object on the line",
        got="the beginning of one",
        hint="write each object on one line (jq -c . does), or all of them as an array",
    )


def known_name(name: Any) -> Any:
    """Return the name of a member or column as it is known, in lower case; a name that is not known as it is."""
    lower = name.strip().lower() if isinstance(name, str) else name
    return lower if lower in _KNOWN_NAMES else name


def with_known_names(record: Record, place: object) -> Record:
    """Return a record whose names are matched without regard to case, as in CSV."""
    if _KNOWN_NAMES.issuperset(record) or (names := _known_names(tuple(record))) is None:
        return record
    again = next((name for name in names if name in _KNOWN_NAMES and names.count(name) > 1), None)
    if again is not None:
        raise InputError(
            where=place,
            expected="every name once, in whatever case",
            got=f"{again!r} again in {shown_names(record)}",
        )
    return dict(zip(names, record.values(), strict=True))


@functools.lru_cache(maxsize=2)  # most records have the names of the one before; and names can be long
def _known_names(names: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Return names as they are known; None if they are so already."""
    known = tuple(map(known_name, names))
    return None if known == names else known


def used_names(record: Record) -> list[str]:
    """Return the members or columns of a record that make its document, in their order."""
    used = {next((n for n in names if not is_missing(record.get(n))), None) for names in (TEXT_NAMES, TITLE_NAMES)}
    used.add(next((name for name in ID_NAMES if name in record), None))
    return [name for name in record if name in used]


def _members_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        again = next(name for name in names if names.count(name) > 1)
        raise InputError(expected="every member of an object once", got=f"{again[:60]!r} again")
    return found


def _no_constant(name: str) -> float:
    raise InputError(expected="numbers", got=name)


def is_missing(value: object) -> bool:
    """Whether a value is missing: None, NaN, or pandas' NA and NaT."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (float, np.floating)) and math.isnan(value)


def find_id(record: Record, place: object) -> str | None:
    """Return the id of a record; None if it has none."""
    name = next((name for name in ID_NAMES if name in record), None)
    return None if name is None else checked_id(record[name], place)


def checked_id(value: object, place: object) -> str:
    """Return an id, which is a string that is not empty, or a whole number."""
    if not (isinstance(value, str) or is_integer(value)) or value == "":
        got = "null" if is_missing(value) else repr(value)[:60]
        raise InputError(where=place, expected=f"an id as string or whole number under {ID_NAMES[:5]}", got=got)
    return str(value)


def id_of(record: Record, place: object) -> str:
    """Return the id of a record that must have one."""
    found = find_id(record, place)
    if found is None:
        raise no_id(place)
    return found


def check_all_or_none(name: str | None, place: object, *, numbered: bool) -> None:
    """Raise if a record has an id where those before have none, or none where they have one."""
    if name is None and not numbered:
        raise no_id(place, hint="give ids to all, or to none")
    if name is not None and numbered:
        raise InputError(
            where=place,
            expected="no id, as in those before",
            got=f"{name[:60]!r}",
            hint="give ids to all, or to none",
        )


def no_id(place: object, hint: str = "") -> InputError:
    """Return the error about a record without id."""
    expected = f"an id as string or whole number under {ID_NAMES[:5]}"
    return InputError(where=place, expected=expected, got="none", hint=hint)


def text_of(record: Record, names: Sequence[str], place: object) -> str | None:
    """Return the first of these members; None if there is none, or only missing values."""
    name = next((name for name in names if not is_missing(record.get(name))), None)
    if name is None:
        return None
    if not isinstance(record[name], str):
        raise InputError(where=place, expected=f"a string as {name}", got=f"{type(record[name]).__name__}")
    return str(record[name])


def document_of(record: Record, name: str, place: object) -> Document:
    """Return the document of a record, which has this id."""
    text = text_of(record, TEXT_NAMES, place)
    title = text_of(record, TITLE_NAMES, place)
    if text is None and title is None:
        raise no_text(record, TEXT_NAMES, place)
    document = RecordDocument(name, title or "", text or "")
    document.record = record
    for part in document:
        if not part.isascii():
            _check_encodable(part, place)
    return document


def no_text(record: Record, names: Sequence[str], place: object) -> InputError:
    """Return the error about a record without text; one that is null is reported as such."""
    null = next((name for name in names if name in record), None)
    if null is not None:
        return InputError(f"{null} is null, expected a string", where=place, hint='write "" for an empty text')
    return InputError(where=place, expected=f"a text under {TEXT_NAMES[:4]}", got=shown_names(record))


def shown_names(names: Iterable[object]) -> str:
    """Return the names of members or columns for a message."""
    return ", ".join(map(str, names))[:80] or "nothing"


def _check_encodable(text: str, place: object) -> None:
    """Refuse half surrogate pairs, which JSON can write and UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            where=place, expected="text that UTF-8 can hold", got=f"{text[error.start : error.end]!r}"
        ) from error
