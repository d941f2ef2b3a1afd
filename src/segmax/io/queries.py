"""Queries: BEIR's, TREC topics, lines of JSON, columns, and words repeated by their weights."""

from __future__ import annotations

import html
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

from segmax.base.errors import ConfigError, InputError
from segmax.io.columns import is_csv, read_columns, read_csv
from segmax.io.irds import downloading, ir_dataset_id, lacking, load_ir_dataset
from segmax.io.json_array import read_json_array
from segmax.io.read_errors import is_empty, no_file, reading
from segmax.io.recognize import starts_array
from segmax.io.records import (
    TEXT_NAMES,
    TITLE_NAMES,
    VECTOR_NAMES,
    Place,
    Record,
    Records,
    check_all_or_none,
    find_id,
    no_text,
    read_json_lines,
    shown_names,
    text_of,
)
from segmax.io.spooled import Spooled, is_stream, renaming
from segmax.io.streams import base_name, read_lines
from segmax.io.tokens import read_tokens, repeats, split_line

_Part = TypeVar("_Part")
_KINDS = ("text", "tokens")
#: What the text of a query is called.
QUERY_NAMES = ("query", "text", "question", *TITLE_NAMES, *TEXT_NAMES)


class Queries(NamedTuple):
    """Queries with their ids: as texts, as vectors by word, or as both.

    Examples
    --------
    >>> queries = Queries(ids=["q1"], texts=["copper waveguides"], vectors=None)
    >>> queries.texts
    ['copper waveguides']
    """

    ids: list[str]
    texts: list[str] | None
    vectors: list[dict[str, float]] | None

    @property
    def numbered(self) -> bool:
        """Whether no query has an id, so that they are numbered."""
        return False


class _NumberedQueries(Queries):
    @property
    def numbered(self) -> bool:
        return True


def read_queries(path: str | os.PathLike[str], *, kind: str | None = None, field: str = "title") -> Queries:
    r"""Read queries.

    Parameters
    ----------
    path
        A BEIR folder or its queries.jsonl; other lines of JSON, with a text or with a vector each; TREC topics, classic
        or in XML; a JSON array; columns of id and text, or CSV with a header; or lines of an id and words that are
        repeated by their weights, as PISA and Anserini write them. Plain, gzip, zstd or xz. Or an ir_datasets id,
        or "-": standard input. Where no query has an id, they are numbered by their lines, or elements, from 0.
    kind
        "text" or "tokens" (repeated words) for files of columns; None decides by how often words are repeated.
    field
        Which part of TREC topics: "title", "desc" or "narr".

    Returns
    -------
    Queries
        `texts` is None where there are only vectors, and `vectors` where there are only texts; `numbered` is true
        where queries have no ids and are numbered.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "queries.tsv")
    >>> _ = path.write_text("q1\tcat cat cat dog dog\n")
    >>> read_queries(path).vectors
    [{'cat': 3.0, 'dog': 2.0}]
    """
    if kind is not None and kind not in _KINDS:
        raise ConfigError(option="kind", expected="'text', 'tokens' or None", got=f"{kind!r}")
    if is_stream(path):
        spooled = Spooled(path)
        with renaming([spooled]):
            return _of_file(spooled.path, kind, field)
    if (name := ir_dataset_id(path)) is not None:
        return _of_ir_dataset(name)
    return _of_file(Path(path), kind, field)


def _of_file(path: Path, kind: str | None, field: str) -> Queries:
    with reading(path):
        return _read(path, kind, field)


def _read(file: Path, kind: str | None, field: str) -> Queries:
    if file.is_dir():
        found = query_files(file)
        if not found:
            raise no_file(file / "queries.jsonl")
        file = found[0]
    elif not file.exists():
        raise no_file(file)
    head = _first_lines(file)
    if not head:
        raise is_empty(file, "queries")
    if head[0].lstrip().startswith("{"):
        return _of_json(file, read_json_lines(file, once=True))
    if starts_array(head, base_name(file)):
        return _of_json(file, read_json_array(file))
    if re.search(r"<top>|<topic\b", "\n".join(head), re.IGNORECASE):
        return _of_topics(file, field)
    if kind == "tokens" or (kind is None and repeats(head)):
        pairs = list(read_tokens(file))
        vectors = [{term: float(count) for term, count in weights.items()} for _, weights in pairs]
        return _checked(file, Queries([name for name, _ in pairs], None, vectors))
    return _of_columns(file, head)


def query_files(folder: Path) -> list[Path]:
    """Return the files of queries in a BEIR folder: queries.jsonl, plain or compressed."""
    return sorted(folder.glob("queries.jsonl*"))


def _first_lines(path: Path) -> list[str]:
    lines: list[str] = []
    for _, line in read_lines(path):
        if line.strip():
            lines.append(line)
        if len(lines) == 50:
            break
    return lines


def _checked(path: Path, queries: Queries) -> Queries:
    seen: set[str] = set()
    for name in queries.ids:
        if name in seen:
            raise InputError(where=f"'{path}'", expected="every query once", got=f"the id {name!r} again")
        seen.add(name)
    return queries


def _of_json(path: Path, records: Records) -> Queries:
    ids = _Ids()
    texts: list[str | None] = []
    vectors: list[dict[str, float] | None] = []
    for place, record in records:
        ids.append(find_id(record, place), place)
        texts.append(text_of(record, QUERY_NAMES, place))
        vectors.append(_vector_of(record, place))
        if texts[-1] is None and vectors[-1] is None:
            if any(name in record for name in QUERY_NAMES):
                raise no_text(record, QUERY_NAMES, place)
            raise InputError(where=place, expected="a text or a vector", got=shown_names(record))
    all_texts, all_vectors = _whole(texts), _whole(vectors)
    if all_texts is None and all_vectors is None:
        raise InputError(
            where=f"'{path}'",
            expected="a text in every line, or a vector in every line",
            got=(
                f"query {ids.names[texts.index(None)]!r} without text and "
                f"{ids.names[vectors.index(None)]!r} without vector"
            ),
            hint="make two files",
        )
    if all_vectors is not None and not any(all_texts or []):  # the empty texts that Anserini puts beside vectors
        all_texts = None
    return ids.queries(all_texts, all_vectors)


class _Ids:
    """The ids of queries, each once; where none has one, they are numbered."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._numbered = False
        self._places: dict[str, Place] = {}

    def append(self, name: str | None, place: Place, number: int | None = None) -> None:
        """Take the id of a query; without one, it is called by `number`, or else by how many there are before."""
        if not self.names:
            self._numbered = name is None
        check_all_or_none(name, place, numbered=self._numbered)
        found = str(len(self.names) if number is None else number) if name is None else name
        first = self._places.setdefault(found, place)
        if first is not place:
            raise InputError(where=place, expected="every query once", got=f"the id {found!r} again, first at {first}")
        self.names.append(found)

    def queries(self, texts: list[str] | None, vectors: list[dict[str, float]] | None) -> Queries:
        """Return the queries that have these ids."""
        return (_NumberedQueries if self._numbered else Queries)(self.names, texts, vectors)


def _whole(values: list[_Part | None]) -> list[_Part] | None:
    """Return the values if none is missing."""
    found = [value for value in values if value is not None]
    return found if len(found) == len(values) else None


def _vector_of(record: Record, place: object) -> dict[str, float] | None:
    vector = next((record[name] for name in VECTOR_NAMES if name in record), None)
    if vector is None:
        return None
    if not isinstance(vector, dict):
        raise InputError(
            where=place, expected="the vector as an object of terms and weights", got=f"{str(vector)[:60]}"
        )
    return {term: _weight(weight, term, place) for term, weight in vector.items()}


def _weight(weight: object, term: str, place: object) -> float:
    """Return a weight, which is a number, and not so large that a float cannot hold it."""
    if isinstance(weight, (int, float)) and not isinstance(weight, bool) and abs(weight) <= sys.float_info.max:
        return float(weight)
    got = f"{weight!r:.40}" if isinstance(weight, float) else type(weight).__name__
    got = "a number too large" if isinstance(weight, int) and not isinstance(weight, bool) else got
    raise InputError(where=place, expected=f"a finite number as the weight of {term[:60]!r}", got=got)


def _of_columns(path: Path, head: list[str]) -> Queries:
    if head and "\t" not in head[0] and split_line(head[0]) is not None:  # PISA's id: words
        pairs = []
        for number, line in read_lines(path):
            parts = split_line(line) if line.strip() else None
            if parts is None and line.strip():
                raise InputError(
                    where=f"'{path}', line {number}", expected="an id, a colon and words", got=f"{line[:60]!r}"
                )
            if parts is not None:
                pairs.append((parts[0], parts[1].strip()))
        return _checked(path, Queries([name for name, _ in pairs], [text for _, text in pairs], None))
    ids, texts = _Ids(), []
    for place, record in read_csv(path) if base_name(path).endswith(".csv") or is_csv(head[0]) else read_columns(path):
        ids.append(find_id(record, place), place, place.line - 1)
        texts.append(text_of(record, QUERY_NAMES, place) or "")
    return ids.queries(texts, None)


def _of_topics(path: Path, field: str) -> Queries:
    """Read TREC topics, in which tags are often left open: a field ends where the next tag begins."""
    names = {"title": ("title", "query"), "desc": ("desc", "description"), "narr": ("narr", "narrative")}
    if field not in names:
        raise ConfigError(option="field", expected="'title', 'desc' or 'narr'", got=f"{field!r}")
    ids, texts = [], []
    for line, topic in _topics(path):
        number = re.search(r"<num(?:ber)?>\s*(?:number\s*:)?\s*([^<\s]+)", topic, re.IGNORECASE)
        number = number or re.search(r"<topic\b[^>]*\b(?:number|id)\s*=\s*[\"']?([^\"'\s>]+)", topic, re.IGNORECASE)
        tags = "|".join(names[field])
        content = re.search(
            rf"<({tags})\b[^>]*>\s*(?:\w+\s*:\s*(?=\n|$))?(.*?)(?=<[/a-z]|\Z)", topic, re.IGNORECASE | re.DOTALL
        )
        if number is None or content is None:
            what = "number" if number is None else field
            raise InputError(
                where=f"'{path}', line {line}",
                expected=f"a topic with a {what}",
                got=f"{' '.join(topic.split())[:60]!r}",
            )
        text = re.sub(r"^(?:topic|description|narrative)\s*:", "", content[2].strip(), flags=re.IGNORECASE)
        ids.append(number[1])
        texts.append(" ".join(html.unescape(text).split()))
    return _checked(path, Queries(ids, texts, None))


def _topics(path: Path) -> Iterator[tuple[int, str]]:
    """Yield every topic with the line it starts at."""
    start, lines = 0, list[str]()
    for number, line in read_lines(path):
        if re.search(r"<top>|<topic\b", line, re.IGNORECASE):
            if lines:
                yield start, "\n".join(lines)
            start, lines = number, [line]
        elif lines:
            lines.append(line)
        if lines and re.search(r"</top>|</topic>", line, re.IGNORECASE):
            yield start, "\n".join(lines)
            lines = []
    if lines:
        yield start, "\n".join(lines)


def _of_ir_dataset(name: str) -> Queries:
    dataset = load_ir_dataset(name)
    if not dataset.has_queries():
        raise lacking(name, "queries", hint="name one of its subsets")
    ids, texts = [], []
    with downloading(name):
        for query in dataset.queries_iter():
            plain = next((getattr(query, n) for n in QUERY_NAMES if isinstance(getattr(query, n, None), str)), None)
            ids.append(str(query.query_id))
            texts.append(plain if plain is not None else query.default_text())
    return Queries(ids, texts, None)
