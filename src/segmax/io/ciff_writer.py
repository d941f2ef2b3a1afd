"""Vectors as CIFF: postings lists in the order of their terms, as other engines expect them."""

from __future__ import annotations

import contextlib
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from segmax import _core
from segmax.base.errors import InputError
from segmax.io.compression import BLOCK_BYTES
from segmax.io.jsonl import names_of
from segmax.io.scale import without_zeros
from segmax.io.writing import write_whole
from segmax.vectors.csr import Csr, canonical
from segmax.vectors.documents import BaseVectors, VectorBatch
from segmax.vectors.products import transposed
from segmax.vectors.rows import join_rows

if TYPE_CHECKING:
    pass
else:
    pass

_CHUNK_POSTINGS = 1 << 22
_LARGEST_TF = 2**31 - 1
_DESCRIPTION = "made by segmax"


def write_ciff(path: Path, reader: BaseVectors, batches: Iterator[VectorBatch], *, overwrite: bool) -> None:
    """Write postings lists in the order of their terms, as other engines expect them. Weights must be whole numbers."""
    with contextlib.ExitStack() as stack, write_whole(path, overwrite=overwrite) as file:
        lists = stack.enter_context(_Lists(path.absolute().parent))
        records = stack.enter_context(tempfile.TemporaryFile(dir=path.absolute().parent))
        num_docs = total = 0
        for ids, vectors, _ in batches:
            docs = _whole(canonical(vectors, num_docs), num_docs)
            sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(docs.values, dtype=np.int64)])
            lengths = np.diff(sums[docs.indptr])
            records.write(_core.ciff_docs(num_docs, ids, np.minimum(lengths, _LARGEST_TF)))
            lists.append(docs)
            num_docs += docs.num_rows
            total += int(sums[-1])
        lists.finish()
        terms = names_of(reader, 0, lists.num_columns)
        order = [number for number in np.argsort(np.array(terms, dtype=object)) if lists.counts[number]]
        file.write(_header(len(order), num_docs, total))
        for number in order:
            file.write(_core.ciff_list(terms[number], *lists.of_term(number)))
        records.seek(0)
        while data := records.read(BLOCK_BYTES):
            file.write(data)


def _whole(docs: Csr, first_row: int) -> Csr:
    """Return weights as the 32-bit counts that CIFF has."""
    docs = without_zeros(docs)
    values = docs.values
    bad = (values > _LARGEST_TF) | (values != np.floor(values))
    if bad.any():
        at = int(np.argmax(bad))
        row = first_row + int(np.searchsorted(docs.indptr, at, side="right")) - 1
        raise InputError(
            expected="whole numbers below 2^31 as weights, which CIFF holds",
            got=f"{values[at]} in document {row}",
            hint="choose a scale that rounds: {scale='x100'} or {scale='/5x256'}",
        )
    return docs._replace(values=values.astype(np.uint32))


class _Lists:
    """Postings by term, sorted in chunks that wait in a scratch file."""

    def __init__(self, folder: Path) -> None:
        self._file: Any = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        self._pending: list[Csr] = []
        self._pending_postings = 0
        self._first_row = 0
        self._chunks: list[tuple[NDArray[np.int64], int]] = []  # where the terms start, and where that is in the file
        self.num_columns = 0
        self.counts = np.zeros(0, np.int64)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def append(self, docs: Csr) -> None:
        """Add rows."""
        self.num_columns = max(self.num_columns, docs.num_columns)
        self._pending.append(docs)
        self._pending_postings += len(docs.indices)
        if self._pending_postings >= _CHUNK_POSTINGS:
            self._close_chunk()

    def finish(self) -> None:
        """Say that all rows are in."""
        if self._pending:
            self._close_chunk()
        self._file.flush()
        self.counts = np.zeros(self.num_columns, np.int64)
        for starts, _ in self._chunks:
            self.counts[: len(starts) - 1] += np.diff(starts)

    def of_term(self, number: int) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        """Return the rows and weights of a term."""
        parts = [self._read(starts, place, number) for starts, place in self._chunks if number < len(starts) - 1]
        joined = np.concatenate(parts, axis=1)
        return joined[0], joined[1]

    def _read(self, starts: NDArray[np.int64], place: int, number: int) -> NDArray[np.uint32]:
        first, last = int(starts[number]), int(starts[number + 1])
        self._file.seek(place + 8 * first)
        return np.frombuffer(self._file.read(8 * (last - first)), np.uint32).reshape(2, last - first)

    def _close_chunk(self) -> None:
        by_term = transposed(join_rows(self._pending, self.num_columns))
        starts, count = by_term.indptr, len(by_term.indices)
        # Rows and weights of a term lie one behind the other, so that one read gets both.
        both = np.empty(2 * count, np.uint32)
        lengths = np.diff(starts)
        place = np.arange(count) + np.repeat(starts[:-1], lengths)
        both[place] = by_term.indices + self._first_row
        both[place + np.repeat(lengths, lengths)] = by_term.values
        self._chunks.append((starts, self._file.tell()))
        self._file.write(both.data)
        self._first_row += by_term.num_columns  # there, documents
        self._pending, self._pending_postings = [], 0


def _header(num_lists: int, num_docs: int, total: int) -> bytes:
    """Return a Header message with its length in front."""
    text = _DESCRIPTION.encode()
    fields = ((1, 1), (2, num_lists), (3, num_docs), (4, num_lists), (5, num_docs), (6, total))
    message = b"".join(bytes([number << 3]) + _varint(value) for number, value in fields if value)
    message += b"\x39" + struct.pack("<d", total / num_docs if num_docs else 0.0)
    message += b"\x42" + _varint(len(text)) + text
    return _varint(len(message)) + message


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
