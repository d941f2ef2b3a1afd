"""How commands show results: to people, as a TREC run, or as JSON; and how they hear what somebody types."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from rich.console import Console
from rich.text import Text

from segmax.encoders.base import Encoder
from segmax.highlighting import highlight
from segmax.io.trec import run_lines, untied
from segmax.results import Hits

_SNIPPET = 240  # characters of a text that are shown
_Split = Callable[[str], Iterable[tuple[int, int, str]]]  # finds the words of a text
_MARK = "\x00"  # around words in a text, until they are styled; no text has it twice


def as_run(hits: Hits, query_id: str, tag: str) -> str:
    """Return the lines of a TREC run."""
    scores = dict(zip(map(str, hits.ids), untied(hits.scores.tolist()), strict=True))
    return "".join(f"{line}\n" for line in run_lines(query_id, scores, tag))


def as_json(hits: Hits, query: str) -> str:
    """Return a line of JSON: the query, its results, with title and text where the index keeps them, and the time."""
    found: list[dict[str, Any]] = [{"id": hit.doc_id, "score": hit.score} for hit in hits]
    if hits.has_texts:
        for entry, stored in zip(found, hits.texts, strict=True):
            entry |= {"title": stored.title, "text": stored.text}
    told = {"query": query, "hits": found, "milliseconds": hits.stats.elapsed_ns / 1e6}
    return json.dumps(told, ensure_ascii=False) + "\n"


def show(hits: Hits, query: str, encoder: Encoder) -> None:
    """Print results for somebody to read, the words of the query marked."""
    console = Console(highlight=False, soft_wrap=True)
    split: _Split | None = getattr(encoder, "occurrences", None)
    row = encoder.encode_queries([query])
    vocabulary = encoder.vocabulary
    words = {vocabulary[column] for column in row.indices.tolist()}
    for rank, hit in enumerate(hits, start=1):
        heading = Text(f"{rank:3}  ", style="dim")
        heading.append(str(hit.doc_id), style="cyan")
        heading.append(f"  {hit.score:.4g}", style="dim")
        if hits.has_texts:
            stored = hits.texts[rank - 1]
            if stored.title:
                heading.append("  ")
                heading.append_text(_marked(stored.title, words, split, "bold"))
            console.print(heading)
            console.print(Text("     ").append_text(_marked(stored.text, words, split, "", _SNIPPET)))
        else:
            console.print(heading)
    count = f"{len(hits)} documents" if len(hits) else "nothing found"
    console.print(Text(f"{count}, {hits.stats.elapsed_ns / 1e6:.2f} ms", style="dim"))


def _marked(text: str, words: set[str], split: _Split | None, style: str, width: int | None = None) -> Text:
    one_line = " ".join(text.replace(_MARK, " ").split())
    pieces = highlight(one_line, words, split=split, marks=(_MARK, _MARK), width=width).split(_MARK)
    styled = Text(style=style)
    for number, piece in enumerate(pieces):
        styled.append(piece, style="bold yellow" if number % 2 else "")
    return styled


def typed_lines(prompt: str) -> Iterator[str]:
    """Yield what is typed, up to an empty line or the end; without a terminal, the lines of standard input."""
    if not sys.stdin.isatty():
        yield from (line.strip() for line in sys.stdin if line.strip())
        return
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401  # arrow keys and history for input()
    while True:
        try:
            line = input(prompt).strip()
        except EOFError:
            sys.stdout.write("\n")
            return
        if not line:
            return
        yield line
