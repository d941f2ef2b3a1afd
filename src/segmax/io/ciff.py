"""CIFF, the Common Index File Format: postings lists that other engines exchange, read by document."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from segmax import _core
from segmax.base.errors import InputError
from segmax.base.scratch import scratch_errors
from segmax.io.jsonl import parsing
from segmax.io.read_errors import reading
from segmax.io.scale import Scale
from segmax.io.streams import is_compressed, read_blocks
from segmax.vectors.csr import Csr
from segmax.vectors.documents import BaseVectors, VectorBatch

if TYPE_CHECKING:
    pass
else:
    pass

_BUCKET_BYTES = 1 << 23  # of postings, as they are kept: some ten times as much once they are sorted
_ASSUMED_RATIO = 4  # of a compressed file
_LARGEST_RATIO = 1 << 14
_BUFFER_BYTES = 1 << 25  # of all buckets together
_MAX_BUCKETS = 1 << 14


class CiffVectors(BaseVectors):
    """A CIFF file by document. Postings wait in a scratch file until the last list has been read."""

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
        with reading(self._path), scratch_errors(f"sort '{self._path}'", self._scratch), parsing(self._path):
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
            raise InputError(where=f"'{path}'", expected="a CIFF file", got=f"another ({error})") from error
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
