"""Seismic's binary vectors, with the ids and the vocabulary that its converter puts beside them.

uint32 count; then per vector uint32 length, length uint32 components, ascending, and length float32 weights. Beside it,
where there are: doc_ids.npy (or queries_ids.npy) and token_to_id_mapping.json, which all files in a folder share. What
is written here has its own, docs.bin.doc_ids.npy and docs.bin.token_to_id_mapping.json beside docs.bin; those are
looked for first.
"""

from __future__ import annotations

import contextlib
import json
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from segmax.base.errors import InputError, SegmaxError
from segmax.io.read_errors import DAMAGE, no_file, one_line, reading
from segmax.io.rows import row_ids
from segmax.io.scale import Scale
from segmax.io.writing import check_beside, check_free, remove_stale, taken_for, write_whole
from segmax.vectors.csr import Csr, canonical, in_precision
from segmax.vectors.documents import BaseVectors, VectorBatch

_ID_FILES = ("doc_ids.npy", "queries_ids.npy")
_VOCABULARY = "token_to_id_mapping.json"
_BATCH_WORDS = 1 << 21
_BATCH_DOCS = 1 << 14


# --- in --------------------------------------------------------------------------------------------------------------


def is_seismic(path: Path) -> bool:
    """Whether the first vectors of a file could be: lengths that fit, components that ascend."""
    with reading(path), path.open("rb") as file:
        size = path.stat().st_size
        head = file.read(1 << 16)
    if size % 4 or len(head) < 4:
        return False
    words = np.frombuffer(head[: len(head) // 4 * 4], "<u4")
    at = 1
    for _ in range(min(int(words[0]), 16)):
        if 4 * at >= size:
            return False
        if at >= len(words):
            return True
        length = int(words[at])
        if 4 * (at + 1 + 2 * length) > size:
            return False
        terms = words[at + 1 : at + 1 + length]
        if (terms[1:] <= terms[:-1]).any():
            return False
        at += 1 + 2 * length
    return int(words[0]) > 16 or 4 * at == size


class SeismicVectors(BaseVectors):
    """A .bin file, mapped. Columns are counted in a first pass where no vocabulary lies beside it."""

    def __init__(self, path: Path, scale: Scale) -> None:
        self._path = path
        self._scale = scale
        if not path.is_file():
            raise no_file(path)
        if not is_seismic(path):
            raise InputError(
                where=f"'{path}'",
                expected="Seismic's binary vectors (a count, then length, components, weights)",
                got="others",
            )
        with reading(path), path.open("rb") as file:
            self._num_docs: int = struct.unpack("<I", file.read(4))[0]
        self._terms = _read_vocabulary(path)
        self._ids = _read_ids(path, self.num_docs)

    @property
    def has_ids(self) -> bool:
        """Whether a file of ids lies beside it."""
        return self._ids is not None

    @property
    def loose_width(self) -> bool:
        """Whether the number of columns is only the largest number in this file."""
        return self._terms is None

    @property
    def num_docs(self) -> int:
        """How many vectors the header promises."""
        return self._num_docs

    @property
    def terms(self) -> Sequence[str] | None:
        """The terms, if a vocabulary lies beside it."""
        return self._terms

    def batches(self) -> Iterator[VectorBatch]:
        """Yield everything, once."""
        if self._terms is not None:
            num_columns = len(self._terms)
        else:
            num_columns = max((int(v.indices.max()) + 1 for v in self._rows(2**32) if len(v.indices)), default=0)
        row = 0
        for vectors in self._rows(num_columns):
            last = row + vectors.num_rows
            ids = self._ids[row:last] if self._ids is not None else row_ids(row, vectors.num_rows)
            row = last
            yield VectorBatch(ids, self._scale.apply(vectors))

    def _rows(self, num_columns: int) -> Iterator[Csr]:
        with reading(self._path):
            words: Any = np.memmap(self._path, "<u4", "r")
        seen = memoryview(words)
        at, left = 1, self.num_docs
        while left > 0:
            starts: list[int] = []
            lengths: list[int] = []
            first = at
            while left > 0 and at - first < _BATCH_WORDS and len(starts) < _BATCH_DOCS:
                length = seen[at] if at < len(seen) else 0
                if at + 1 + 2 * length > len(seen):
                    problem = f"it ends too early, in vector {self.num_docs - left}"
                    raise InputError(problem, where=f"'{self._path}'", hint="copy it again")
                starts.append(at + 1)
                lengths.append(length)
                at += 1 + 2 * length
                left -= 1
            yield self._gathered(words, np.array(starts), np.array(lengths), num_columns, self.num_docs - left)
        if at != len(seen):
            raise self._wrong(f"the end behind {self.num_docs} vectors", f"{4 * (len(seen) - at)} bytes more")

    def _gathered(self, words: Any, starts: Any, lengths: Any, num_columns: int, last_row: int) -> Csr:
        indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        place = np.repeat(starts - indptr[:-1], lengths) + np.arange(indptr[-1])
        terms = np.asarray(words[place])
        if len(terms) and int(terms.max()) >= num_columns:
            first_row = last_row - len(lengths)
            raise self._wrong(
                f"components below {num_columns}, the size of {_VOCABULARY}",
                f"{terms.max()} in vectors {first_row} to {last_row - 1}",
            )
        weights = np.asarray(words[place + np.repeat(lengths, lengths)]).view("<f4")
        return Csr(indptr, terms, weights, num_columns)

    def _wrong(self, expected: str, got: object) -> InputError:
        return InputError(where=f"'{self._path}'", expected=expected, got=got)


def own_side(path: Path, name: str) -> Path:
    """Return where the ids or the vocabulary of this very file are: docs.bin has docs.bin.doc_ids.npy beside it."""
    return path.with_name(f"{path.name}.{name}")


def _read_vocabulary(file: Path) -> list[str] | None:
    path = next((p for p in (own_side(file, _VOCABULARY), file.with_name(_VOCABULARY)) if p.is_file()), None)
    if path is None:
        return None
    try:
        with reading(path):
            content = path.read_bytes()
        numbered = json.loads(content)
        terms = sorted(numbered, key=numbered.__getitem__)
        if [numbered[term] for term in terms] != list(range(len(terms))):
            raise ValueError("its numbers are not 0, 1, 2, ...")
    except SegmaxError:
        raise
    except (AttributeError, MemoryError, *DAMAGE) as error:
        raise InputError(
            where=f"'{path}'", expected="a mapping of every term to its number", got=f"another ({one_line(error)})"
        ) from error
    return terms


def _read_ids(path: Path, count: int) -> list[str] | None:
    own = own_side(path, _ID_FILES[0])
    for side in (own, *(path.with_name(name) for name in _ID_FILES)):
        if not side.is_file():
            continue
        try:
            ids = np.load(side, mmap_mode="r", allow_pickle=False)  # mapped: the header cannot promise too much
            if ids.ndim != 1 or ids.dtype.kind not in "USiu":
                raise ValueError(f"got {ids.dtype} of {ids.ndim} dimensions")
            if len(ids) == count:  # the ids of queries lie beside those of documents
                return [value.decode() if isinstance(value, bytes) else str(value) for value in ids.tolist()]
        except (AttributeError, OSError, EOFError, MemoryError, *DAMAGE) as error:
            raise InputError(
                where=f"'{side}'", expected="an .npy file of ids", got=f"another ({one_line(error)})"
            ) from error
        if side == own:
            raise InputError(where=f"'{side}'", expected=f"{count} ids, one per vector of '{path.name}'", got=len(ids))
    return None


# --- out -------------------------------------------------------------------------------------------------------------


def write_seismic(path: Path, reader: BaseVectors, batches: Iterator[VectorBatch], *, overwrite: bool) -> None:
    """Write binary vectors, and beside them the ids and the vocabulary, in files named after this one."""
    named = {_ID_FILES[0]: reader.has_ids, _VOCABULARY: reader.terms is not None}
    sides = {name: own_side(path, name) for name in named}
    check_free(path, overwrite=overwrite)
    check_beside(sides.values(), overwrite=overwrite)
    _check_shared(path, named)
    all_ids: list[str] = []
    num_rows = 0
    with contextlib.ExitStack() as stack:
        beside = {
            name: stack.enter_context(write_whole(sides[name], overwrite=overwrite)) for name in named if named[name]
        }
        file = stack.enter_context(write_whole(path, overwrite=overwrite, compress=False))
        file.write(bytes(4))
        for ids, vectors, _ in batches:
            docs = in_precision(canonical(vectors, num_rows), np.float32, num_rows)
            num_rows += docs.num_rows
            file.write(_interleaved(docs).data)
            if reader.has_ids:
                all_ids += ids
        file.seek(0)
        file.write(struct.pack("<I", num_rows))
        if reader.has_ids:
            np.save(beside[_ID_FILES[0]], np.array(all_ids, dtype=np.str_), allow_pickle=False)
        if reader.terms is not None:
            numbered = {term: number for number, term in enumerate(reader.terms)}
            beside[_VOCABULARY].write(json.dumps(numbered, ensure_ascii=True).encode("ascii"))
    remove_stale(sides[name] for name in named if not named[name])


def _check_shared(path: Path, named: dict[str, bool]) -> None:
    """Refuse to put a file without names where Seismic's ids or vocabulary of others would be taken for its own."""
    for name, what in ((_ID_FILES[0], "ids"), (_ID_FILES[1], "ids"), (_VOCABULARY, "terms")):
        side = path.with_name(name)
        if side.is_file() and not named.get(name, named[_ID_FILES[0]]):
            raise taken_for(side, what, path, hint="choose another folder")


def _interleaved(docs: Csr) -> Any:
    """Return rows as 32-bit words: length, components, weights, and so on."""
    lengths = np.diff(docs.indptr)
    words = np.empty(docs.num_rows + 2 * len(docs.indices), "<u4")
    starts = np.arange(docs.num_rows) + 2 * docs.indptr[:-1]
    words[starts] = lengths
    place = np.repeat(starts + 1 - docs.indptr[:-1], lengths) + np.arange(len(docs.indices))
    words[place] = docs.indices
    words[place + np.repeat(lengths, lengths)] = docs.values.astype("<f4").view("<u4")
    return words
