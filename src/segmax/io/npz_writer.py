"""Vectors as .npz files that scipy.sparse.load_npz reads, with ids and terms beside the matrix."""

from __future__ import annotations

import contextlib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from segmax.base.errors import InputError
from segmax.base.scratch import GrowingArray
from segmax.io.writing import write_whole
from segmax.vectors.csr import canonical
from segmax.vectors.documents import BaseVectors, VectorBatch
from segmax.vectors.rows import narrowest

if TYPE_CHECKING:
    pass
else:
    pass


def write_npz(path: Path, reader: BaseVectors, batches: Iterator[VectorBatch], *, overwrite: bool) -> None:
    """Write a CSR matrix, uncompressed so that it can be mapped, with ids and terms where there are some."""
    with contextlib.ExitStack() as stack, write_whole(path, overwrite=overwrite, compress=False) as file:

        def growing(dtype: str) -> GrowingArray:
            return stack.enter_context(GrowingArray(dtype, path.absolute().parent))

        indptr, indices, values = growing("<i8"), growing("<i4"), growing("<f8")
        texts, offsets = growing("u1"), growing("<i8")
        start, first_row, num_columns = np.zeros(1, np.int64), 0, 0
        dtype: np.dtype[Any] = np.dtype(np.uint8)
        indptr.append(start)
        offsets.append(start)
        for ids, vectors, _ in batches:
            docs = canonical(vectors, first_row)
            first_row += docs.num_rows
            num_columns = max(num_columns, docs.num_columns)
            indptr.append(docs.indptr[1:] + indices.length)
            indices.append(docs.indices)
            values.append(docs.values)
            dtype = np.result_type(dtype, narrowest(docs.values).dtype)
            if reader.has_ids:
                encoded = encoded_texts(ids)
                offsets.append(texts.length + np.cumsum([len(text) for text in encoded]))
                texts.append(np.frombuffer(b"".join(encoded), np.uint8))
        terms = reader.terms
        num_columns = max(num_columns, len(terms) if terms is not None else 0)
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            narrow = np.dtype("<i4" if indices.length < 2**31 else "<i8")
            _write_member(archive, "indices", indices, indices.dtype)
            _write_member(archive, "indptr", indptr, narrow)
            _write_small(archive, "format", np.array(b"csr"))
            _write_small(archive, "shape", np.array([first_row, num_columns], np.int64))
            _write_member(archive, "data", values, dtype)
            if reader.has_ids:
                _write_member(archive, "ids_offset", offsets, offsets.dtype)
                _write_member(archive, "ids_text", texts, texts.dtype)
            if terms is not None:
                encoded = encoded_texts(list(terms))
                places = np.concatenate([start, np.cumsum([len(text) for text in encoded])]).astype(np.int64)
                _write_small(archive, "terms_offset", places)
                _write_small(archive, "terms_text", np.frombuffer(b"".join(encoded), np.uint8))


def encoded_texts(values: list[str]) -> list[bytes]:
    """Return strings as UTF-8."""
    try:
        return [value.encode("utf-8") for value in values]
    except UnicodeEncodeError as error:
        raise InputError(expected="strings that UTF-8 can hold", got=f"{error.object!r}") from error


@contextlib.contextmanager
def _member(archive: zipfile.ZipFile, name: str) -> Iterator[BinaryIO]:
    # Without a date of its own: the same vectors give the same file.
    with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
        yield member  # type: ignore[misc]


def _write_member(archive: zipfile.ZipFile, name: str, array: GrowingArray, dtype: np.dtype[Any]) -> None:
    header = {"descr": dtype.str, "fortran_order": False, "shape": (array.length,)}
    with _member(archive, name) as member:
        np.lib.format.write_array_header_1_0(member, header)
        for block in array.blocks():
            member.write(block.astype(dtype, copy=False).data)


def _write_small(archive: zipfile.ZipFile, name: str, array: NDArray[Any]) -> None:
    with _member(archive, name) as member:
        np.lib.format.write_array(member, array, allow_pickle=False)
