"""Columns: tab-separated lines, and CSV or TSV under a header, in which fields may be quoted."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

from segmax.base.errors import InputError
from segmax.io.records import ID_NAMES, TEXT_NAMES, TITLE_NAMES, Place, Records, known_name, shown_names
from segmax.io.streams import MAX_LINE_BYTES, read_lines

_DELIMITERS = ",;\t"
_TEXTS = frozenset({*TEXT_NAMES, *TITLE_NAMES})
_KNOWN = _TEXTS | set(ID_NAMES)
_Lines = Iterator[tuple[int, str]]


def read_columns(path: Path) -> Records:
    """Yield every line of columns as a record: under a header if there is one, else id and text, or id, title and text.

    One column is text alone, without an id.
    """
    lines = read_lines(path)
    first = next((pair for pair in lines if pair[1].strip()), None)
    if first is None:
        return
    if header_of(first[1], "\t") is not None:
        yield from _under_header(path, itertools.chain([first], lines), "\t")
        return
    count = first[1].count("\t") + 1
    names = {1: ["text"], 2: ["id", "text"], 3: ["id", "title", "text"]}.get(count)
    if names is None:
        raise InputError(
            where=f"{Place(path, first[0])}", expected="id, text or id, title, text", got=f"{count} columns"
        )
    for number, line in itertools.chain([first], lines):
        if line.strip():
            yield Place(path, number), _record(names, line.split("\t"), Place(path, number))


def read_csv(path: Path) -> Records:
    """Yield the rows of a CSV file under its header; columns are separated by commas, semicolons or tabs."""
    lines = read_lines(path)
    first = next((pair for pair in lines if pair[1].strip()), None)
    if first is None:
        return
    delimiter = next((mark for mark in _DELIMITERS if header_of(first[1], mark, alone=True) is not None), None)
    if delimiter is None:
        raise InputError(
            where=f"{Place(path, first[0])}",
            expected=f"a header with a column of texts ({', '.join(TEXT_NAMES[:5])})",
            got=f"{first[1][:80]!r}",
        )
    yield from _under_header(path, itertools.chain([first], lines), delimiter)


def is_csv(line: str) -> bool:
    """Whether a first line is the header of a CSV file: columns of ids and texts, or of titles and texts."""
    return any(header_of(line, mark) is not None for mark in ",;")


def header_of(line: str, delimiter: str, *, alone: bool = False) -> list[str] | None:
    """Return the names of columns in a line; None if it is a line like others.

    A header has a column of texts, and an id or another name that is known beside it. With `alone`, texts are enough.
    """
    try:
        fields = next(csv.reader([line], delimiter=delimiter, strict=True))
    except (csv.Error, StopIteration):
        return None
    names = [field.strip().lower() for field in fields]
    known = set(names) & _KNOWN
    if not known & _TEXTS:
        return None
    enough = alone or (len(names) > 1 and (bool(known & set(ID_NAMES)) or set(names) <= _KNOWN))
    return names if enough else None


def _under_header(path: Path, lines: _Lines, delimiter: str) -> Records:
    names: list[str] | None = None
    for number, fields in _rows(path, lines, delimiter):
        place = Place(path, number)
        if names is None:
            names = [known_name(field.strip()) for field in fields]
            again = next((name for name in names if name in _KNOWN and names.count(name) > 1), None)
            if again is not None:
                raise InputError(
                    where=place, expected="every column once", got=f"{again!r} again in {shown_names(names)}"
                )
        else:
            yield place, _record(names, fields, place)


def _rows(path: Path, lines: _Lines, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the fields of every row with the line that it starts at."""
    # A text may be as long as a line. The limit of csv is one for the process: it is raised, never lowered.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_LINE_BYTES))
    if delimiter == "\t":
        yield from _tab_rows(_Returnable(lines))
        return
    for number, line in lines:
        if '"' not in line:
            if line.strip():
                yield number, line.split(delimiter)
            continue
        here = itertools.chain([f"{line}\n"], (f"{more}\n" for _, more in lines))
        rows = csv.reader(here, delimiter=delimiter, strict=True)
        try:
            yield number, next(rows)
        except csv.Error as error:
            raise InputError(
                where=f"{Place(path, number)}",
                expected="columns, quoted as CSV has it",
                got=f"something else ({error})",
            ) from error


class _Returnable:
    """Lines, some of which may be given back to come again."""

    def __init__(self, lines: _Lines) -> None:
        self._lines = lines
        self._returned: list[tuple[int, str]] = []

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[int, str]:
        return self._returned.pop() if self._returned else next(self._lines)

    def give_back(self, lines: Sequence[tuple[int, str]]) -> None:
        """Let lines come again, in the same order."""
        self._returned += reversed(lines)


def _tab_rows(lines: _Returnable) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of TSV. Few who write TSV quote: a quote may as well be a part of the text."""
    for number, line in lines:
        if '"' in line:
            yield number, _quoted_fields(line, lines) or line.split("\t")
        elif line.strip():
            yield number, line.split("\t")


def _quoted_fields(line: str, lines: _Returnable) -> list[str] | None:
    """Return the fields of a row, quoted as CSV has it, over several lines if need be; None if they are not quoted.

    A quoted field with a tab in a further line is none: every row has a tab, so that it would swallow rows.
    """
    taken: list[tuple[int, str]] = []

    def parts() -> Iterator[str]:
        yield f"{line}\n"
        for pair in lines:
            taken.append(pair)
            if "\t" in pair[1].partition('"')[0]:
                return
            yield f"{pair[1]}\n"

    try:
        fields = next(csv.reader(parts(), delimiter="\t", strict=True))
    except csv.Error:
        fields = []
    if not fields or any("\n" in field and "\t" in field for field in fields):
        lines.give_back(taken)
        return None
    return fields


def _record(names: Sequence[str], fields: Sequence[str], place: Place) -> dict[str, str]:
    if len(fields) != len(names):
        raise InputError(where=place, expected=f"{len(names)} columns, as in the first line", got=len(fields))
    return dict(zip(names, fields, strict=True))
