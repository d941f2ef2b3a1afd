"""The .csr files of the BigANN benchmark's sparse track, with ids and terms as text files beside them.

int64 rows, columns, entries; int64 indptr[rows + 1]; int32 indices[entries]; float32 weights[entries]; little-endian.
Compressed, as the benchmark hands them out, they are decompressed to a scratch file first: weights lie far from terms.
"""

from __future__ import annotations

import contextlib
import itertools
import struct
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from segmax.base.errors import InputError
from segmax.base.scratch import GrowingArray, scratch_errors
from segmax.io.compression import SUFFIXES
from segmax.io.read_errors import no_file, reading
from segmax.io.rows import row_ids, wrong_columns, wrong_offsets
from segmax.io.scale import Scale
from segmax.io.streams import is_compressed, read_blocks, read_head, read_lines
from segmax.io.writing import check_beside, check_free, remove_stale, taken_for, write_whole
from segmax.vectors.csr import Csr, canonical, in_precision
from segmax.vectors.documents import BaseVectors, VectorBatch
from segmax.vectors.rows import SLAB_DOCS, bounded_ranges

_HEADER = struct.Struct("<qqq")


# --- in --------------------------------------------------------------------------------------------------------------


def is_bigann(path: Path) -> bool:
    """Whether the length of a file is the one that its first 24 bytes imply."""
    with reading(path), path.open("rb") as file:
        head = file.read(_HEADER.size)
    if len(head) < _HEADER.size:
        return False
    rows, columns, entries = _HEADER.unpack(head)
    return min(rows, columns, entries) >= 0 and path.stat().st_size == _size(rows, entries)


def _size(rows: int, entries: int) -> int:
    return _HEADER.size + 8 * (rows + 1) + 8 * entries


class BigannVectors(BaseVectors):
    """A .csr file, mapped; `scratch` is the folder in which a compressed one is decompressed."""

    def __init__(self, path: Path, scale: Scale, scratch: Path | None = None) -> None:
        self._path = path
        self._scale = scale
        self._scratch = scratch
        if not path.is_file():
            raise no_file(path)
        self._compressed = is_compressed(path)
        head = read_head(path, _HEADER.size)
        counts = _HEADER.unpack(head) if len(head) == _HEADER.size else (0, 0, 0)
        if len(head) < _HEADER.size or min(counts) < 0 or not (self._compressed or is_bigann(path)):
            got = f"{path.stat().st_size}" + (" compressed ones" if self._compressed else "")
            raise self._wrong(f"a .csr file of {_size(counts[0], counts[2])} bytes, as its header states", got)
        self._num_docs: int = counts[0]
        self.num_columns: int = counts[1]
        self._num_entries: int = counts[2]
        self._ids = _side_file(path, "ids", self.num_docs, "row")
        self._terms = _side_file(path, "terms", self.num_columns, "column")

    @property
    def has_ids(self) -> bool:
        """Whether a file of ids lies beside it."""
        return self._ids is not None

    @property
    def num_docs(self) -> int:
        """How many rows the header promises."""
        return self._num_docs

    @property
    def terms(self) -> Sequence[str] | None:
        """The terms, if a file of them lies beside it."""
        return self._terms

    def batches(self) -> Iterator[VectorBatch]:
        """Yield everything, once."""
        words = self._words()
        ends = 8 * (self.num_docs + 1)
        indptr = words[:ends].view("<i8")
        indices = words[ends : ends + 4 * self._num_entries].view("<i4")
        values = words[ends + 4 * self._num_entries :].view("<f4")[: self._num_entries]
        if indptr[0] != 0 or indptr[-1] != self._num_entries:
            raise self._wrong(f"indptr from 0 to {self._num_entries}", f"{indptr[0]} to {indptr[-1]}")
        for first in range(0, self.num_docs, SLAB_DOCS):
            part = np.array(indptr[first : first + SLAB_DOCS + 1], np.int64)
            self._check_offsets(part, first)
            for a, b in bounded_ranges(part):
                yield self._rows(part[a : b + 1], first + a, indices, values)

    def _check_offsets(self, part: NDArray[np.int64], first: int) -> None:
        problem = wrong_offsets(part, first)
        if problem is None and part[-1] > self._num_entries:
            problem = f"indptr to ascend to {self._num_entries}", int(part[-1])
        if problem is not None:
            raise self._wrong(*problem)

    def _rows(self, offsets: NDArray[np.int64], first: int, indices: Any, values: Any) -> VectorBatch:
        here = slice(offsets[0], offsets[-1])
        terms, weights = np.array(indices[here]), np.array(values[here])
        if (problem := wrong_columns(terms, self.num_columns)) is not None:
            raise self._wrong(*problem)
        count = len(offsets) - 1
        ids = self._ids[first : first + count] if self._ids is not None else row_ids(first, count)
        return VectorBatch(ids, self._scale.apply(Csr(offsets - offsets[0], terms, weights, self.num_columns)))

    def _words(self) -> Any:
        """Return what is behind the header, mapped."""
        if not self.num_docs:
            return np.zeros(8, np.uint8)
        if not self._compressed:
            with reading(self._path):
                return np.memmap(self._path, np.uint8, "r", _HEADER.size)
        size = _size(self.num_docs, self._num_entries)
        with (
            scratch_errors(f"decompress '{self._path}'", self._scratch, size),
            tempfile.TemporaryFile(dir=self._scratch) as file,
        ):
            self._decompress(file)
            return np.memmap(file, np.uint8, "r", _HEADER.size)  # outlives the file

    def _decompress(self, file: IO[bytes]) -> None:
        expected = _size(self.num_docs, self._num_entries)
        found = 0
        for block in read_blocks(self._path):
            found += len(block)
            if found > expected:
                break
            file.write(block)
            file.flush()
        if found != expected:
            got = f"more than {expected}" if found > expected else f"{found}"
            raise self._wrong(f"a .csr file of {expected} bytes, as its header states", got)

    def _wrong(self, expected: str, got: object) -> InputError:
        return InputError(where=f"'{self._path}'", expected=expected, got=got)


def side_path(path: Path, what: str) -> Path:
    """Return where the ids or terms of a file are: docs.csr has docs.csr.ids.txt beside it."""
    return path.with_name(f"{path.name}.{what}.txt")


def _side_before(path: Path, what: str) -> Path | None:
    """Return where they are if a file was compressed later: gzip makes docs.csr.gz of docs.csr, and no more of that."""
    before = path.with_suffix("")
    if path.suffix.lower() not in SUFFIXES or before.exists() or not side_path(before, what).is_file():
        return None
    return side_path(before, what)


def _side_file(path: Path, what: str, count: int, each: str) -> list[str] | None:
    """Read the ids or terms that lie beside a file, a line each."""
    side = side_path(path, what) if side_path(path, what).is_file() else _side_before(path, what)
    if side is None:
        return None
    lines = [line for _, line in itertools.islice(read_lines(side), count + 1)]
    if len(lines) != count:
        got = "more" if len(lines) > count else len(lines)
        raise InputError(where=f"'{side}'", expected=f"{count} lines, one per {each} of '{path.name}'", got=got)
    return lines


# --- out -------------------------------------------------------------------------------------------------------------


def write_bigann(path: Path, reader: BaseVectors, batches: Iterator[VectorBatch], *, overwrite: bool) -> None:
    """Write a .csr file, and beside it the ids and terms that there are."""
    folder = path.absolute().parent
    named = {"ids": reader.has_ids, "terms": reader.terms is not None}
    check_free(path, overwrite=overwrite)
    check_beside((side_path(path, what) for what in named), overwrite=overwrite)
    _check_before(path, named)
    with contextlib.ExitStack() as stack:
        beside = {
            what: stack.enter_context(write_whole(side_path(path, what), overwrite=overwrite))
            for what in named
            if named[what]
        }
        file = stack.enter_context(write_whole(path, overwrite=overwrite))
        indptr, indices, values = (stack.enter_context(GrowingArray(d, folder)) for d in ("<i8", "<i4", "<f4"))
        first_row = num_columns = 0
        indptr.append(np.zeros(1, np.int64))
        for ids, vectors, _ in batches:
            docs = in_precision(canonical(vectors, first_row), np.float32, first_row)
            first_row += docs.num_rows
            num_columns = max(num_columns, docs.num_columns)
            indptr.append(docs.indptr[1:] + indices.length)
            indices.append(docs.indices)
            values.append(docs.values)
            if reader.has_ids:
                beside["ids"].write(as_lines(ids, "ids"))
        if reader.terms is not None:
            num_columns = max(num_columns, len(reader.terms))
            beside["terms"].write(as_lines(reader.terms, "terms"))
        file.write(_HEADER.pack(first_row, num_columns, indices.length))
        for array in (indptr, indices, values):
            for block in array.blocks():
                file.write(block.data)
    remove_stale(side_path(path, what) for what in named if not named[what])


def _check_before(path: Path, named: dict[str, bool]) -> None:
    """Refuse to put a file without names where those of another would be taken for its own."""
    for what in named:
        if not named[what] and (side := _side_before(path, what)) is not None:
            raise taken_for(side, what, path, hint="choose another name")


def as_lines(values: Sequence[str], what: str) -> bytes:
    """Return strings as UTF-8, a line each."""
    odd = next((value for value in values if "\n" in value or value.endswith("\r")), None)
    if odd is not None:
        raise InputError(
            expected=f"{what} that fit on a line", got=f"{odd!r}", hint="choose another format, .npz for instance"
        )
    try:
        return "".join(f"{value}\n" for value in values).encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(expected="strings that UTF-8 can hold", got=f"{error.object!r}") from error
