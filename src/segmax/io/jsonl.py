"""Vectors as lines of JSON, as Anserini, Pyserini and Seismic have them: {"id": ..., "vector": {term: weight}}."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from segmax import _core
from segmax.base.errors import InputError
from segmax.io.read_errors import reading
from segmax.io.scale import Scale
from segmax.io.streams import whole_lines
from segmax.io.writing import write_whole
from segmax.vectors.csr import Csr, canonical
from segmax.vectors.documents import BaseVectors, VectorBatch

_NO_TEXT = b', "contents": ""'  # as the core writes it; inside of strings its quotes would be escaped
_MAX_NAMED = 1 << 26  # columns without words: a name each is held in memory
_PROBLEM = re.compile(r"(?P<place>[^:]*): expected (?P<expected>.*?), got (?P<got>.*)", re.DOTALL)
_PLAIN_NUMBER = re.compile("0|[1-9][0-9]{0,17}")


class JsonlVectors(BaseVectors):
    """Files of lines, one after the other; terms are numbered as they come."""

    def __init__(self, paths: Sequence[Path], scale: Scale) -> None:
        self._paths = paths
        self._scale = scale
        self._parser = _core.JsonVectorParser()
        self._terms: list[str] = []

    @property
    def terms(self) -> Sequence[str]:
        """The terms so far; all of them after the last batch."""
        if len(self._terms) < self._parser.num_terms:
            self._terms += self._parser.terms(len(self._terms))
        return self._terms

    @property
    def num_docs(self) -> int | None:
        """Unknown before the end."""
        return None

    def batches(self) -> Iterator[VectorBatch]:
        """Yield everything, once."""
        for path in self._paths:
            self._parser.start_file()
            for text in whole_lines(path):
                yield self._parsed(path, text)

    def _parsed(self, path: Path, text: bytes) -> VectorBatch:
        with reading(path), parsing(path):
            self._parser.parse(text)
            ids, indptr, terms, weights = self._parser.take()
        return VectorBatch(ids, self._scale.apply(Csr(indptr, terms, weights, self._parser.num_terms)))


@contextlib.contextmanager
def parsing(path: Path) -> Iterator[None]:
    """Name the file in errors of the core about its content."""
    try:
        yield
    except _core.CoreInputError as error:
        raise _in_file(path, str(error)) from error


def _in_file(path: Path, problem: str) -> InputError:
    """Return the error about a file as the core words it: "line 2, byte 7: expected a number, got 'x'"."""
    found = _PROBLEM.fullmatch(problem)
    if found is None:
        return InputError(problem, where=f"'{path}'")
    return InputError(where=f"'{path}', {found['place']}", expected=found["expected"], got=found["got"])


def write_jsonl(
    path: Path, reader: BaseVectors, batches: Iterator[VectorBatch], *, overwrite: bool, numbers: bool = False
) -> None:
    """Write lines; `numbers` writes ids as whole numbers, as Seismic expects them, and refuses others."""
    formatter = _core.JsonVectorFormatter()
    num_rows = 0
    with write_whole(path, overwrite=overwrite) as file:
        for ids, given, _ in batches:
            if numbers:
                _check_numbers(ids)
            vectors = canonical(given, num_rows)
            num_rows += vectors.num_rows
            if formatter.num_terms < vectors.num_columns:
                formatter.add_terms(names_of(reader, formatter.num_terms, vectors.num_columns))
            try:
                lines = formatter.format(
                    ids,
                    vectors.indptr,
                    vectors.indices,
                    vectors.values.astype(np.float64),
                    numbers,
                )
            except _core.CoreInputError as error:
                raise InputError(str(error)) from error
            except UnicodeEncodeError as error:
                raise InputError(expected="strings that UTF-8 can hold", got=f"{error.object!r}") from error
            # Seismic requires a text, even an empty one; for other readers an empty one is a missing text.
            file.write(lines if numbers else lines.replace(_NO_TEXT, b""))


def _check_numbers(ids: list[str]) -> None:
    odd = next((name for name in ids if _PLAIN_NUMBER.fullmatch(name) is None), None)
    if odd is not None:
        raise InputError(
            expected="whole numbers below 10^18 as ids, which seismic-jsonl has",
            got=repr(odd),
            hint="choose jsonl, or number the vectors",
        )


def names_of(reader: BaseVectors, first: int, last: int) -> list[str]:
    """Return the terms of some columns; where they have no words, their numbers."""
    if reader.terms is None:
        if last > _MAX_NAMED:
            raise InputError(expected=f"at most {_MAX_NAMED:,} columns to name them by their numbers", got=f"{last:,}")
        return [str(number) for number in range(first, last)]
    return list(reader.terms[first:last])
