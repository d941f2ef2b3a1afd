"""Lines of JSON or of columns as records: what texts and queries have in common."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from segmax.errors import InputError
from segmax.io.streams import read_lines

ID_NAMES = ("id", "_id", "docid", "doc_id", "docno", "pid", "qid", "query_id")
TEXT_NAMES = ("text", "contents", "content", "body", "passage", "abstract", "query", "question")
TITLE_NAMES = ("title", "headline")
VECTOR_NAMES = ("vector", "toks", "query_toks")


def read_json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield every object with its line; blank lines are skipped."""
    for number, line in read_lines(path):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            msg = f"'{path}', line {number}: expected JSON, got something else ({error})"
            raise InputError(msg) from error
        if not isinstance(record, dict):
            msg = f"'{path}', line {number}: expected an object, got {type(record).__name__}"
            raise InputError(msg)
        yield number, record


def id_of(record: Mapping[str, Any], path: Path, number: int) -> str:
    """Return the id of a record."""
    value = next((record[name] for name in ID_NAMES if name in record), None)
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        got = "none" if value is None else repr(value)[:60]
        msg = f"'{path}', line {number}: expected an id as string or whole number under {ID_NAMES[:5]}, got {got}"
        raise InputError(msg)
    return str(value)


def text_of(record: Mapping[str, Any], names: Sequence[str], path: Path, number: int) -> str | None:
    """Return the first of these members; None if there is none."""
    name = next((name for name in names if record.get(name) is not None), None)
    if name is None:
        return None
    if not isinstance(record[name], str):
        msg = f"'{path}', line {number}: expected a string as {name}, got {type(record[name]).__name__}"
        raise InputError(msg)
    return str(record[name])


def read_columns(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield every line of columns as a record: under a header if there is one, else id and text, or id, title and text.

    One column is text alone, and its id is the number of its line, from 0.
    """
    names: list[str] | None = None
    for number, line in read_lines(path):
        if not line.strip():
            continue
        fields = line.split("\t")
        if names is None:
            names = _header(fields)
            if names is not None:
                continue
            names = {1: ["text"], 2: ["id", "text"], 3: ["id", "title", "text"]}.get(len(fields))
            if names is None:
                msg = f"'{path}', line {number}: expected id, text or id, title, text, got {len(fields)} columns"
                raise InputError(msg)
        if len(fields) != len(names):
            msg = f"'{path}', line {number}: expected {len(names)} columns, as in the first line, got {len(fields)}"
            raise InputError(msg)
        record = dict(zip(names, fields, strict=True))
        yield number, record if names != ["text"] else {"id": str(number - 1), **record}


def _header(fields: list[str]) -> list[str] | None:
    """Return the names in a header line; None if it is a line like others."""
    names = [field.strip().lower() for field in fields]
    known = {*ID_NAMES, *TEXT_NAMES, *TITLE_NAMES}
    return names if len(names) > 1 and set(names) & set(ID_NAMES) and set(names) & known - set(ID_NAMES) else None
