"""CIFF, the Common Index File Format: postings lists that other engines exchange, turned into documents and back."""

from __future__ import annotations

import contextlib
import struct
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from segmax import _core
from segmax.base.errors import InputError
from segmax.io.jsonl import names_of, parsing
from segmax.io.scale import Scale, without_zeros
from segmax.io.scratch import unpacking
from segmax.io.streams import BLOCK_BYTES, is_compressed, read_blocks, reading, write_whole
from segmax.vectors.csr import Csr, canonical
from segmax.vectors.documents import VectorBatch, VectorReader

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    from segmax.base.optional import scipy_sparse as sp

_BUCKET_BYTES = 1 << 23  # of postings, as they are kept: some ten times as much once they are sorted
_ASSUMED_RATIO = 4  # of a compressed file
_LARGEST_RATIO = 1 << 14
_BUFFER_BYTES = 1 << 25  # of all buckets together
_MAX_BUCKETS = 1 << 14
_CHUNK_POSTINGS = 1 << 22
_LARGEST_TF = 2**31 - 1
_DESCRIPTION = "made by segmax"


# --- in --------------------------------------------------------------------------------------------------------------


class CiffVectors:
    """A CIFF file by document. Postings wait in a scratch file until the last list has been read."""

    has_ids = True

    def __init__(self, path: Path, scale: Scale, scratch: Path | None = None) -> None:
        self._path = path
        self._scale = scale
        self._scratch = scratch
        self._num_docs = _promised_docs(path)
        self._terms: list[str] = []

    @property
    def terms(self) -> Sequence[str]:
        """The terms, in the order of their lists; known once the first batch is out."""
        return self._terms

    @property
    def num_docs(self) -> int:
        """How many documents the header promises."""
        return self._num_docs

    def batches(self) -> Iterator[VectorBatch]:
        """Yield everything, once."""
        size = self._path.stat().st_size * (_ASSUMED_RATIO if is_compressed(self._path) else 1)
        num_buckets = min(max(1, size // _BUCKET_BYTES), _MAX_BUCKETS, max(1, self._num_docs))
        bucket_docs = -(-max(1, self._num_docs) // num_buckets)
        parser = _core.CiffParser(max(1 << 10, min(1 << 16, _BUFFER_BYTES // num_buckets)))
        with self._reading(), tempfile.TemporaryFile(dir=self._scratch) as scratch:
            blocks = self._dealt(parser, bucket_docs, scratch)
            self._terms = parser.terms()
            for bucket, first in enumerate(range(0, self._num_docs, bucket_docs)):
                last = min(first + bucket_docs, self._num_docs)
                content = _gathered(scratch, blocks.get(bucket, []))
                rows = _core.read_ciff_bucket(content, first, last - first)
                vectors = Csr(*rows, len(self._terms))
                yield VectorBatch(parser.doc_ids(first, last), self._scale.apply(vectors))

    def _dealt(self, parser: _core.CiffParser, bucket_docs: int, scratch: BinaryIO) -> dict[int, list[tuple[int, int]]]:
        """Read the file; return where in the scratch file the postings of every bucket are."""
        places: dict[int, list[tuple[int, int]]] = {}

        def keep() -> None:
            for bucket, data in parser.take_blocks():
                places.setdefault(bucket, []).append((scratch.tell(), len(data)))
                scratch.write(data)

        for block in read_blocks(self._path):
            had_header = parser.has_header
            parser.feed(block)
            if parser.has_header and not had_header:
                parser.set_bucket_docs(bucket_docs)
                parser.feed(b"")
            keep()
        parser.finish()
        keep()
        scratch.flush()
        return places

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """Name the file in what is wrong with it, and the folder where there is no room for its postings."""
        with reading(self._path), unpacking(self._path, self._scratch, verb="sort"), parsing(self._path):
            yield


def _gathered(scratch: BinaryIO, places: list[tuple[int, int]]) -> bytes:
    pieces = []
    for offset, length in places:
        scratch.seek(offset)
        pieces.append(scratch.read(length))
    return b"".join(pieces)


def _promised_docs(path: Path) -> int:
    """Return the number of documents that a file promises; more than its length allows are none of a CIFF file."""
    parser = _core.CiffParser(1)
    for block in read_blocks(path, 1 << 12):
        try:
            parser.feed(block)
        except _core.CoreInputError as error:
            msg = f"'{path}', {error}; expected a CIFF file"
            raise InputError(msg) from error
        if not parser.has_header:
            continue
        most = path.stat().st_size * (_LARGEST_RATIO if is_compressed(path) else 1)
        if parser.num_docs > most:
            raise InputError(
                where=f"'{path}'",
                expected="a CIFF file",
                got=f"one too short for the {parser.num_docs:,} documents it promises",
            )
        return parser.num_docs
    raise InputError(where=f"'{path}'", expected="a CIFF file", got="one that ends inside its header")


def is_ciff(head: bytes) -> bool:
    """Whether a file that starts like this is CIFF: a short message whose first field is version 1."""
    parser = _core.CiffParser(1)
    try:
        parser.feed(head)
    except _core.CoreInputError:
        return False
    return parser.has_header


# --- out -------------------------------------------------------------------------------------------------------------


def write_ciff(path: Path, reader: VectorReader, batches: Iterator[VectorBatch], *, overwrite: bool) -> None:
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
            f"CIFF holds whole numbers below 2^31, got the weight {values[at]} in document {row}",
            hint="choose a scale that rounds: {scale='x100'} or {scale='/5x256'}",
        )
    return docs._replace(values=values.astype(np.uint32))


class _Lists:
    """Postings by term, sorted in chunks that wait in a scratch file."""

    def __init__(self, folder: Path) -> None:
        self._file: Any = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        self._pending: list[sp.csr_matrix] = []
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
        shape = (docs.num_rows, docs.num_columns)
        self._pending.append(sp.csr_matrix((docs.values, docs.indices.astype(np.int32), docs.indptr), shape=shape))
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
        widened = [sp.csr_matrix((m.data, m.indices, m.indptr), (m.shape[0], self.num_columns)) for m in self._pending]
        by_term = sp.vstack(widened, format="csr").tocsc()
        starts = by_term.indptr.astype(np.int64)
        # Rows and weights of a term lie one behind the other, so that one read gets both.
        both = np.empty(2 * by_term.nnz, np.uint32)
        lengths = np.diff(starts)
        place = np.arange(by_term.nnz) + np.repeat(starts[:-1], lengths)
        both[place] = by_term.indices + self._first_row
        both[place + np.repeat(lengths, lengths)] = by_term.data
        self._chunks.append((starts, self._file.tell()))
        self._file.write(both.data)
        self._first_row += by_term.shape[0]
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
