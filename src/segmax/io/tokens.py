"""Query files of PISA, Anserini and CIFF-Hub: an id and words, each repeated by its weight."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from segmax.base.errors import InputError
from segmax.base.vocabulary import GrowingVocabulary
from segmax.io.jsonl import names_of
from segmax.io.scale import Scale
from segmax.io.streams import read_lines
from segmax.io.writing import write_whole
from segmax.vectors.csr import Csr, canonical
from segmax.vectors.documents import BaseVectors, VectorBatch

_BATCH_ROWS = 1 << 12
_LARGEST_WEIGHT = 1 << 16  # more repetitions are a mistake
_FEW_SHARE = 0.25  # of words that repeat the one before: no text
_MANY_REPEATS, _MANY_SHARE = 5, 0.05  # so many of them: no text either


def split_line(line: str) -> tuple[str, str] | None:
    """Return the id and the words of a line `id<TAB>words` or `id: words`; None if it is neither."""
    name, tab, words = line.partition("\t")
    if not tab:
        name, colon, words = line.partition(":")
        if not colon or " " in name.strip():
            return None
    return (name.strip(), words) if name.strip() else None


def repeats(lines: Sequence[str]) -> bool:
    """Whether words are repeated to express weights, rather than as in text.

    In text, about one word in a thousand repeats the one before it, and words return after others. In files of weights
    they do not return, so a few repetitions are enough evidence; a line or two about Duran Duran are not.
    """
    again = total = num_lines = 0
    left = False
    for line in lines:
        parts = split_line(line)
        words = parts[1].split() if parts is not None else []
        changes = [word for word, _ in itertools.groupby(words)]
        again += len(words) - len(changes)
        total += len(words)
        num_lines += bool(words)
        left |= len(set(changes)) < len(changes)
    if again > total / 2:
        return True
    few = again >= total * _FEW_SHARE and num_lines > 1
    many = again >= _MANY_REPEATS and again >= total * _MANY_SHARE
    return total > 0 and not left and (few or many)


def read_tokens(path: Path) -> Iterator[tuple[str, Counter[str]]]:
    """Yield the id and the weights of every line."""
    for number, line in read_lines(path):
        if not line.strip():
            continue
        parts = split_line(line)
        if parts is None:
            raise InputError(
                where=f"'{path}', line {number}", expected="an id, a tab or a colon, and words", got=f"{line[:60]!r}"
            )
        yield parts[0], Counter(parts[1].split())


class TokenVectors(BaseVectors):
    """A query file as a stream of vectors; terms are numbered as they come."""

    def __init__(self, paths: Sequence[Path], scale: Scale) -> None:
        self._paths = paths
        self._scale = scale
        self._vocabulary = GrowingVocabulary()

    @property
    def terms(self) -> Sequence[str]:
        """The terms so far; all of them after the last batch."""
        return self._vocabulary.terms

    @property
    def num_docs(self) -> int | None:
        """Unknown before the end."""
        return None

    def batches(self) -> Iterator[VectorBatch]:
        """Yield everything, once."""
        ids: list[str] = []
        rows: list[Counter[str]] = []
        for path in self._paths:
            for name, weights in read_tokens(path):
                ids.append(name)
                rows.append(weights)
                if len(ids) == _BATCH_ROWS:
                    yield VectorBatch(ids, self._scale.apply(self._vectors(rows)))
                    ids, rows = [], []
        if ids:
            yield VectorBatch(ids, self._scale.apply(self._vectors(rows)))

    def _vectors(self, rows: list[Counter[str]]) -> Csr:
        indptr = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        indices = self._vocabulary.add(itertools.chain.from_iterable(rows))
        values = np.array([count for weights in rows for count in weights.values()], np.float64)
        return Csr(indptr, indices, values, len(self._vocabulary))


def write_tokens(path: Path, reader: BaseVectors, batches: Iterator[VectorBatch], *, overwrite: bool) -> None:
    """Write a line per vector: its id, a tab, and every term repeated by its weight."""
    num_rows = 0
    with write_whole(path, overwrite=overwrite) as file:
        for ids, vectors, _ in batches:
            rows = canonical(vectors, num_rows)
            num_rows += rows.num_rows
            _check(rows, ids)
            names = names_of(reader, 0, rows.num_columns)
            for row, name in enumerate(ids):
                span = slice(rows.indptr[row], rows.indptr[row + 1])
                pairs = zip(rows.indices[span].tolist(), rows.values[span].tolist(), strict=True)
                words = [word for term, count in pairs for word in [_word(names[term])] * int(count)]
                file.write(f"{name}\t{' '.join(words)}\n".encode())


def _check(rows: Csr, ids: list[str]) -> None:
    bad = (rows.values > _LARGEST_WEIGHT) | (rows.values != np.floor(rows.values))
    if bad.any():
        raise InputError(
            expected=f"whole numbers up to {_LARGEST_WEIGHT} as weights, since words are repeated",
            got=rows.values[bad][0],
            hint="choose a scale that rounds: {scale='x100'} or {scale='/5x256'}",
        )
    odd = next((name for name in ids if set(name) & set("\t\n\r") or name != name.strip() or not name), None)
    if odd is not None:
        raise InputError(expected="ids without tabs and line ends", got=f"{odd!r}")


def _word(term: str) -> str:
    if len(term.split()) != 1 or term.split()[0] != term:
        raise InputError(
            expected="terms without blanks", got=f"{term!r}", hint="choose another format, .jsonl for instance"
        )
    return term
