"""The .csr files of the BigANN benchmark's sparse track, with ids and terms as text files beside them.

int64 rows, columns, entries; int64 indptr[rows + 1]; int32 indices[entries]; float32 weights[entries]; little-endian.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from segmax.errors import InputError
from segmax.io.base import VectorBatch, VectorReader
from segmax.io.npz import has_ids, numbers
from segmax.io.scale import Scale
from segmax.io.scratch import GrowingArray
from segmax.io.streams import check_free, no_file, read_lines, reading, write_whole
from segmax.sparse import Csr, canonical
from segmax.spool import PART_DOCS

_HEADER = struct.Struct("<qqq")


# --- in --------------------------------------------------------------------------------------------------------------


def is_bigann(path: Path) -> bool:
    """Whether the length of a file is what its first 24 bytes say."""
    with reading(path), path.open("rb") as file:
        head = file.read(_HEADER.size)
    if len(head) < _HEADER.size:
        return False
    rows, columns, entries = _HEADER.unpack(head)
    return min(rows, columns, entries) >= 0 and path.stat().st_size == _size(rows, entries)


def _size(rows: int, entries: int) -> int:
    return _HEADER.size + 8 * (rows + 1) + 8 * entries


class BigannVectors:
    """A .csr file, mapped."""

    def __init__(self, path: Path, scale: Scale) -> None:
        self._path = path
        self._scale = scale
        if not path.is_file():
            raise no_file(path)
        with reading(path), path.open("rb") as file:
            head = file.read(_HEADER.size)
        if not is_bigann(path):
            counts = _HEADER.unpack(head) if len(head) == _HEADER.size else (0, 0, 0)
            expected = _size(counts[0], counts[2])
            raise self._wrong(f"expected a .csr file of {expected} bytes, as it says itself, got {path.stat().st_size}")
        self.num_docs, self.num_columns, self._num_entries = _HEADER.unpack(head)
        self._ids = _side_file(path, "ids", self.num_docs, "row")
        self._terms = _side_file(path, "terms", self.num_columns, "column")

    @property
    def has_ids(self) -> bool:
        """Whether a file of ids lies beside it."""
        return self._ids is not None

    @property
    def terms(self) -> Sequence[str] | None:
        """The terms, if a file of them lies beside it."""
        return self._terms

    def batches(self) -> Iterator[VectorBatch]:
        """Yield everything, once."""
        with reading(self._path):
            words = np.memmap(self._path, np.uint8, "r", _HEADER.size) if self.num_docs else np.zeros(8, np.uint8)
        ends = 8 * (self.num_docs + 1)
        indptr = words[:ends].view("<i8")
        indices = words[ends : ends + 4 * self._num_entries].view("<i4")
        values = words[ends + 4 * self._num_entries :].view("<f4")[: self._num_entries]
        if indptr[0] != 0 or indptr[-1] != self._num_entries:
            raise self._wrong(f"expected indptr from 0 to {self._num_entries}, got {indptr[0]} to {indptr[-1]}")
        for first in range(0, self.num_docs, PART_DOCS):
            part = np.array(indptr[first : first + PART_DOCS + 1], np.int64)
            if (np.diff(part) < 0).any() or part[-1] > self._num_entries:
                raise self._wrong(f"expected indptr to ascend, got a fall behind row {first}")
            terms = np.array(indices[part[0] : part[-1]])
            if len(terms) and (terms.min() < 0 or terms.max() >= self.num_columns):
                worst = terms.min() if terms.min() < 0 else terms.max()
                raise self._wrong(f"expected column numbers from 0 to {self.num_columns - 1}, got {worst}")
            weights = np.array(values[part[0] : part[-1]])
            count = len(part) - 1
            ids = self._ids[first : first + count] if self._ids is not None else numbers(first, count)
            vectors = Csr(part - part[0], terms, weights, self.num_columns)
            yield VectorBatch(ids, self._scale.apply(vectors))

    def _wrong(self, what: str) -> InputError:
        return InputError(f"'{self._path}': {what}")


def side_path(path: Path, what: str) -> Path:
    """Return where the ids or terms of a file are: docs.csr has docs.csr.ids.txt beside it."""
    return path.with_name(f"{path.name}.{what}.txt")


def _side_file(path: Path, what: str, count: int, each: str) -> list[str] | None:
    """Read the ids or terms that lie beside a file, a line each."""
    side = side_path(path, what)
    if not side.is_file():
        return None
    lines = [line for _, line in read_lines(side)]
    if len(lines) != count:
        msg = f"'{side}': expected {count} lines, one per {each} of '{path.name}', got {len(lines)}"
        raise InputError(msg)
    return lines


# --- out -------------------------------------------------------------------------------------------------------------


def write_bigann(path: Path, reader: VectorReader, batches: Iterator[VectorBatch], *, overwrite: bool) -> None:
    """Write a .csr file, and beside it the ids and terms that there are."""
    folder = path.absolute().parent
    check_free(path, overwrite=overwrite)
    with contextlib.ExitStack() as stack:
        ids_file = (
            stack.enter_context(write_whole(side_path(path, "ids"), overwrite=overwrite)) if has_ids(reader) else None
        )
        file = stack.enter_context(write_whole(path, overwrite=overwrite, compress=False))
        indptr, indices, values = (stack.enter_context(GrowingArray(d, folder)) for d in ("<i8", "<i4", "<f4"))
        first_row = num_columns = 0
        indptr.append(np.zeros(1, np.int64))
        for ids, vectors in batches:
            docs = canonical(vectors, first_row)
            first_row += docs.num_rows
            num_columns = max(num_columns, docs.num_columns)
            indptr.append(docs.indptr[1:] + indices.length)
            indices.append(docs.indices)
            values.append(docs.values)
            if ids_file is not None:
                ids_file.write(as_lines(ids, "ids"))
        if reader.terms is not None:
            num_columns = max(num_columns, len(reader.terms))
            with write_whole(side_path(path, "terms"), overwrite=overwrite) as terms_file:
                terms_file.write(as_lines(reader.terms, "terms"))
        file.write(_HEADER.pack(first_row, num_columns, indices.length))
        for array in (indptr, indices, values):
            for block in array.blocks():
                file.write(block.data)


def as_lines(values: Sequence[str], what: str) -> bytes:
    """Return strings as UTF-8, a line each."""
    odd = next((value for value in values if "\n" in value or value.endswith("\r")), None)
    if odd is not None:
        msg = f"expected {what} that fit on a line, got {odd!r}; choose another format, .npz for instance"
        raise InputError(msg)
    try:
        return "".join(f"{value}\n" for value in values).encode("utf-8")
    except UnicodeEncodeError as error:
        msg = f"expected strings that UTF-8 can hold, got {error.object!r}"
        raise InputError(msg) from error
