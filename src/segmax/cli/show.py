"""Showing results, to people, as a TREC run or as JSON; and reading queries that a user types."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from segmax.base.display import counted, duration, json_text, plain_number, printable
from segmax.cli.unanswered import Reason, why_nothing, why_unmatched
from segmax.search.highlighting import passages

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from segmax.encoders.base import Encoder
    from segmax.search.protocol import Searchable
    from segmax.search.results import Hits

#: Arguments of a search that make it one for some documents only.
NARROWING = frozenset({"where", "offset", "min_score"})
_SNIPPET = 240  # characters of a text that are shown
_INDENT = 5
_Split = Callable[[str], Iterable[tuple[int, int, str]]]  # yields start, end and term of each word in a text


@dataclasses.dataclass(frozen=True)
class Answer:
    """The results of a text query, and the seconds that each part took."""

    query: str
    hits: Hits
    encoder: Encoder
    terms: frozenset[str]  #: the terms of the query, after encoding
    loading: float | None  #: of the index and its encoder; None if both were loaded before
    encoding: float
    offset: int = 0  #: how many better results were left out
    narrowed: bool = False  #: whether only some documents were asked for
    unmatched: Reason | None = None  #: why the filter matches nothing, if that is known

    def __str__(self) -> str:
        """Return one line: the number of documents, or why there are none, and the times."""
        reason = self.reason
        found = counted(len(self.hits), "document") if reason is None else f"nothing found: {reason}"
        times = [f"encoded in {duration(self.encoding)}", f"searched in {duration(self.hits.stats.elapsed_ns / 1e9)}"]
        if self.loading is not None:
            times.insert(0, f"loaded in {duration(self.loading)}")
        return f"{found}; {', '.join(times)}"

    @property
    def reason(self) -> str | None:
        """Why there are no documents; None if there are some."""
        if len(self.hits):
            return None
        limited = self.hits.stats.budget_hit
        how: dict[str, Any] = {"limited": limited, "narrowed": self.narrowed, "unmatched": self.unmatched}
        return why_nothing(self.query, len(self.terms), self.encoder, **how).sentence


def answer(index: Searchable, query: str, how: dict[str, Any], start: float | None = None) -> Answer:
    """Search for a text, and time each part: loading the encoder, encoding, searching.

    Parameters
    ----------
    index
        An open index.
    query
        The text.
    how
        Arguments of `Index.search`.
    start
        When loading started, by `time.perf_counter`. None does not time it.
    """
    from segmax.encoders.base import query_rows_of

    encoder = index.encoder
    loaded = time.perf_counter()
    row = query_rows_of(encoder, [query])
    encoded = time.perf_counter()
    loading = None if start is None else loaded - start
    vocabulary = encoder.vocabulary
    terms = frozenset(vocabulary[column] for column in row.indices.tolist())
    hits = index.search((row.indices, row.values), **how)
    narrowed = not NARROWING.isdisjoint(how)
    unmatched = None if len(hits) else why_unmatched(index, how.get("where"))
    return Answer(query, hits, encoder, terms, loading, encoded - loaded, how.get("offset", 0), narrowed, unmatched)


def as_run(hits: Hits, query_id: str, tag: str) -> str:
    """Return the lines of a TREC run; on a terminal, control characters in names are escaped."""
    from segmax.io.trec import run_lines, untied

    scores = dict(zip(map(str, hits.ids), untied(hits.scores.tolist()), strict=True))
    shown: Callable[[str], str] = printable if sys.stdout.isatty() else str
    return "".join(f"{shown(line)}\n" for line in run_lines(query_id, scores, tag))


def as_json(hits: Hits, query: str, encoding: float | None = None, reason: str | None = None) -> str:
    """Return a line of JSON: the results of a query, with what the index stores of documents, and the times.

    `reason` explains why there are no results.
    """
    found: list[dict[str, Any]] = [
        {"id": name, "score": score} for name, score in zip(hits.ids, hits.scores.tolist(), strict=True)
    ]
    if hits.has_texts:
        for entry, stored in zip(found, hits.texts, strict=True):
            entry |= {"title": stored.title, "text": stored.text}
    if hits.has_metadata:
        for entry, metadata in zip(found, hits.metadata, strict=True):
            entry["metadata"] = metadata
    line = {"query": query, "hits": found, "milliseconds": hits.stats.elapsed_ns / 1e6}
    if reason is not None:
        line["reason"] = reason
    if encoding is not None:
        line["encoding_milliseconds"] = encoding * 1e3
    return json_text(line) + "\n"


def show(found: Answer) -> None:
    """Print results for people, with the words of the query highlighted."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    hits = found.hits
    for number, (name, score) in enumerate(zip(hits.ids, hits.scores.tolist(), strict=True)):
        rank = Text(f"{found.offset + number + 1:3}  ", style="dim")
        heading = Text(overflow="fold").append(printable(name), style="cyan")
        heading.append(f"  {plain_number(score)}", style="dim")
        text = None
        if hits.has_texts:
            stored = hits.texts[number]
            if stored.title:
                heading.append("  ").append_text(_marked(stored.title, found, "bold"))
            text = _marked(stored.text, found, "", _SNIPPET)
        _print_indented(console, heading, rank)
        if text is not None:
            _print_indented(console, text, Text(" " * _INDENT))
        if hits.has_metadata and (metadata := hits.metadata[number]):
            shown = textwrap.shorten(json_text(metadata), _SNIPPET, placeholder=" …")
            _print_indented(console, Text(printable(shown), style="dim", overflow="fold"), Text(" " * _INDENT))
    console.print(Text(str(found), style="dim", overflow="fold"))


def _print_indented(console: Console, text: Text, before: Text) -> None:
    """Print a text after `before`; lines that follow the first are indented by the width of `before`."""
    from rich.text import Text

    for number, line in enumerate(text.wrap(console, max(1, console.width - len(before)))):
        line.rstrip()
        console.print((Text(" " * len(before)) if number else before.copy()).append_text(line))


def say(*lines: str) -> None:
    """Print lines for people: wrapped to the width of a terminal, unchanged into a file or pipe."""
    if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        sys.stdout.write("".join(f"{printable(line)}\n" for line in lines))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    for line in lines:
        _print_indented(console, Text(printable(line), overflow="fold"), Text())


def _marked(text: str, found: Answer, style: str, width: int | None = None) -> Text:
    from rich.text import Text

    split: _Split | None = getattr(found.encoder, "occurrences", None)
    styled = Text(style=style, overflow="fold")
    for piece, is_marked in passages(" ".join(text.split()), found.terms, split=split, width=width):
        styled.append(printable(piece), style="bold yellow" if is_marked else "")
    return styled


def typed_lines(prompt: str) -> Iterator[str]:
    """Yield the lines that the user types, or those of standard input if it is not a terminal, without empty ones."""
    if not sys.stdin.isatty():
        yield from (line.strip() for line in sys.stdin if line.strip())
        return
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401  # arrow keys and history for input()
    sys.stdout.write("Type a query and press Enter. Press Ctrl-D to quit.\n")
    while True:
        try:
            line = input(prompt).strip()
        except EOFError:
            sys.stdout.write("\n")
            return
        if line:
            yield line
