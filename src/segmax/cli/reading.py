"""Opening texts and queries, with notes on standard error about what a user may not expect."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from segmax.base.display import printable
from segmax.io import Queries, TextReader, open_texts
from segmax.text.fields import ALL, Fields

_WIDEST = 200  # characters of a list of columns


def read_texts(inputs: str | Sequence[str], format: str | Sequence[str | None] | None = None) -> TextReader:
    """Open texts; note if documents are numbered, or if columns are ignored."""
    reader = open_texts(inputs, format=format)
    note_texts(reader)
    return reader


def note_texts(reader: TextReader, fields: Fields | None = None) -> None:
    """Note if documents are numbered, or if columns are ignored that are not kept as metadata."""
    if getattr(reader, "numbered", False):
        note("the texts have no ids; documents are numbered from 0")
    used, ignored = getattr(reader, "partly_read", lambda: ([], []))()
    kept = [] if fields is None else [name for name in ignored if name in fields]
    used, ignored = [*used, *kept], [name for name in ignored if name not in kept]
    if ignored:
        note(f"columns read: {', '.join(used)}; columns ignored: {', '.join(ignored)[:_WIDEST]}")


def named_fields(text: str | None) -> str | list[str] | None:
    """Return what --metadata names: all members, some, or None where it was not given."""
    return text if text is None or text == ALL else [name.strip() for name in text.split(",")]


def note_numbered(queries: Queries) -> None:
    """Note if queries are numbered."""
    if queries.numbered:
        note("the queries have no ids; they are numbered from 0")


def note(text: str) -> None:
    """Write a line to standard error."""
    sys.stderr.write(f"segmax: {printable(text)}\n")
