"""Seismic's binary vectors, with the ids and the vocabulary that its converter puts beside them.

uint32 count; then per vector uint32 length, length uint32 components, ascending, and length float32 weights. Beside it,
where there are: doc_ids.npy (or queries_ids.npy) and token_to_id_mapping.json.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from segmax.errors import InputError
from segmax.io.base import VectorBatch, VectorReader
from segmax.io.npz import has_ids, numbers
from segmax.io.scale import Scale
from segmax.io.streams import no_file, reading, write_whole
from segmax.sparse import Csr, canonical

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


class SeismicVectors:
    """A .bin file, mapped. Columns are counted in a first pass where no vocabulary lies beside it."""

    def __init__(self, path: Path, scale: Scale) -> None:
        self._path = path
        self._scale = scale
        if not path.is_file():
            raise no_file(path)
        if not is_seismic(path):
            msg = f"'{path}': expected Seismic's binary vectors (a count, then length, components, weights), got others"
            raise InputError(msg)
        with reading(path), path.open("rb") as file:
            self.num_docs: int = struct.unpack("<I", file.read(4))[0]
        self._terms = _read_vocabulary(path.with_name(_VOCABULARY))
        self._ids = _read_ids(path, self.num_docs)

    @property
    def has_ids(self) -> bool:
        """Whether a file of ids lies beside it."""
        return self._ids is not None

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
            ids = self._ids[row:last] if self._ids is not None else numbers(row, vectors.num_rows)
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
                    raise self._wrong(f"it ends too early, in vector {self.num_docs - left}; copy it again")
                starts.append(at + 1)
                lengths.append(length)
                at += 1 + 2 * length
                left -= 1
            yield self._gathered(words, np.array(starts), np.array(lengths), num_columns, self.num_docs - left)
        if at != len(seen):
            raise self._wrong(f"expected the end behind {self.num_docs} vectors, got {4 * (len(seen) - at)} bytes more")

    def _gathered(self, words: Any, starts: Any, lengths: Any, num_columns: int, last_row: int) -> Csr:
        indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        place = np.repeat(starts - indptr[:-1], lengths) + np.arange(indptr[-1])
        terms = np.asarray(words[place])
        if len(terms) and int(terms.max()) >= num_columns:
            first_row = last_row - len(lengths)
            raise self._wrong(
                f"expected components below {num_columns}, the size of {_VOCABULARY}, got {terms.max()} in vectors "
                f"{first_row} to {last_row - 1}"
            )
        weights = np.asarray(words[place + np.repeat(lengths, lengths)]).view("<f4")
        return Csr(indptr, terms, weights, num_columns)

    def _wrong(self, what: str) -> InputError:
        return InputError(f"'{self._path}': {what}")


def _read_vocabulary(path: Path) -> list[str] | None:
    if not path.is_file():
        return None
    try:
        numbered = json.loads(path.read_bytes())
        terms = sorted(numbered, key=numbered.__getitem__)
        if [numbered[term] for term in terms] != list(range(len(terms))):
            raise ValueError("its numbers are not 0, 1, 2, ...")
    except (ValueError, TypeError, AttributeError) as error:
        msg = f"'{path}': expected a mapping of every term to its number ({error})"
        raise InputError(msg) from error
    return terms


def _read_ids(path: Path, count: int) -> list[str] | None:
    for name in _ID_FILES:
        side = path.with_name(name)
        if not side.is_file():
            continue
        try:
            ids = [str(value) for value in np.load(side, allow_pickle=False).tolist()]
        except (ValueError, OSError, EOFError) as error:
            msg = f"'{side}': expected an .npy file of ids ({error})"
            raise InputError(msg) from error
        if len(ids) == count:  # the ids of queries lie beside those of documents
            return ids
    return None


# --- out -------------------------------------------------------------------------------------------------------------


def write_seismic(path: Path, reader: VectorReader, batches: Iterator[VectorBatch], *, overwrite: bool) -> None:
    """Write binary vectors, and beside them doc_ids.npy and token_to_id_mapping.json."""
    all_ids: list[str] = []
    num_rows = 0
    with write_whole(path, overwrite=overwrite, compress=False) as file:
        file.write(bytes(4))
        for ids, vectors in batches:
            docs = canonical(vectors, num_rows)
            num_rows += docs.num_rows
            file.write(_interleaved(docs).data)
            if has_ids(reader):
                all_ids += ids
        file.seek(0)
        file.write(struct.pack("<I", num_rows))
        if has_ids(reader):
            with write_whole(path.with_name(_ID_FILES[0]), overwrite=overwrite) as side:
                np.save(side, np.array(all_ids, dtype=np.str_), allow_pickle=False)
        if reader.terms is not None:
            numbered = {term: number for number, term in enumerate(reader.terms)}
            with write_whole(path.with_name(_VOCABULARY), overwrite=overwrite) as side:
                side.write(json.dumps(numbered, ensure_ascii=True).encode("ascii"))


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
