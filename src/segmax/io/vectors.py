"""Vectors in, from files and folders of any format."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from segmax.base.checks import checked_path
from segmax.base.errors import ConfigError, InputError
from segmax.base.memory import MemoryLimit
from segmax.io.arrow import ArrowVectors
from segmax.io.bigann import BigannVectors
from segmax.io.ciff import CiffVectors
from segmax.io.dataset_folders import dataset_files
from segmax.io.joined import JoinedVectors, LocatedVectors
from segmax.io.jsonl import JsonlVectors
from segmax.io.npz import NpzVectors
from segmax.io.read_errors import no_file, reading
from segmax.io.recognize import TEXT_FORMATS, VECTOR_FORMATS, recognize, shards_of, unknown
from segmax.io.scale import Scale, parse_scale
from segmax.io.seismic import SeismicVectors
from segmax.io.spooled import opened_in_files
from segmax.io.streams import is_compressed
from segmax.io.tokens import TokenVectors
from segmax.vectors.documents import BaseVectors

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
_JOINED: Mapping[str, Callable[[Sequence[Path], Scale], BaseVectors]] = {
    "jsonl": JsonlVectors,
    "tokens": TokenVectors,
    "parquet": ArrowVectors,
}
_PLAIN = frozenset({"npz", "seismic", "parquet"})


def open_vectors(
    path: Paths,
    format: str | Sequence[str | None] | None = None,
    *,
    scale: str | float | None = None,
    memory_limit: MemoryLimit | None = None,
    scratch: str | os.PathLike[str] | None = None,
) -> BaseVectors:
    r"""Open vectors.

    Parameters
    ----------
    path
        A file or folder, or several of one kind: an .npz file of `scipy.sparse.save_npz`; lines of JSON of Anserini,
        Pyserini or Seismic, or a folder of such files; CIFF; BigANN .csr; Seismic's .bin; parquet or a datasets folder
        with sparse columns; lines of repeated words. Text formats, CIFF and .csr may be gzip, zstd or xz. Standard
        input ("-") and pipes are kept in a scratch file.
    format
        One of the keys of `VECTOR_FORMATS`, for all files, or a list of them, one per file. None: what the content
        shows.
    scale
        What is done to weights: "x100" or "/5x256" make integer impacts of floats, "impacts" requires whole numbers;
        see `SCALES`. Or a factor. None: nothing.
    memory_limit
        Only needed for .npz files that are not CSR, which have to be read whole.
    scratch
        The folder in which postings of CIFF wait, and a compressed .csr is unpacked; None: that of temporary files.

    Returns
    -------
    VectorReader
        A stream of batches with ids, and the terms where they have words.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "docs.jsonl")
    >>> _ = path.write_text('{"id": "a", "vector": {"cat": 1.5, "dog": 2}}\n')
    >>> reader = open_vectors(path, scale="x100")
    >>> for batch in reader.batches():
    ...     print(batch.ids, batch.vectors.values, reader.terms)
    ['a'] [150. 200.] ['cat', 'dog']
    """
    given = [path] if isinstance(path, (str, bytes, os.PathLike)) or not isinstance(path, Iterable) else path
    sources = [checked_path("path", one) for one in given]
    scaled = parse_scale(scale)
    formats = [format] * len(sources) if format is None or isinstance(format, str) else list(format)
    for name in filter(None, formats):
        if name not in VECTOR_FORMATS:
            raise ConfigError(option="format", expected=f"one of {', '.join(VECTOR_FORMATS)}", got=f"{name!r}")
    if not sources:
        raise InputError(expected="a file of vectors", got="none")
    folder = None if scratch is None else Path(scratch)
    return opened_in_files(sources, folder, lambda paths: _of_files(paths, formats, scaled, memory_limit, folder))


def _of_files(
    paths: list[Path],
    formats: Sequence[str | None],
    scaled: Scale,
    memory_limit: MemoryLimit | None,
    folder: Path | None,
) -> BaseVectors:
    kinds = [format or _vector_format(one) for one, format in zip(paths, formats, strict=True)]
    sources = [_files(one, kind) if kind in _JOINED else [one] for one, kind in zip(paths, kinds, strict=True)]
    files = [(file, kind) for several, kind in zip(sources, kinds, strict=True) for file in several]
    limit = memory_limit or MemoryLimit(None)
    for kind, joined in _JOINED.items():
        if set(kinds) == {kind}:
            return LocatedVectors(joined([file for file, _ in files], scaled), files, _num_rows)
    readers = [_opened(one, kind, scaled, limit, folder) for one, kind in zip(paths, kinds, strict=True)]
    return LocatedVectors(readers[0] if len(readers) == 1 else JoinedVectors(readers), files, _num_rows)


def _vector_format(path: Path) -> str:
    found = recognize(path)
    if found is None:
        raise no_file(path / "*.jsonl") if path.is_dir() else unknown(path, "something else")
    if found in TEXT_FORMATS:
        hint = "encode it first, with segmax index or an encoder"
        if found == "tsv-text":
            hint += "; if each word is repeated as often as its weight says, pass {format='tokens'}"
        raise unknown(path, TEXT_FORMATS[found], hint=hint)
    return found


def _files(path: Path, kind: str) -> list[Path]:
    """Return the files of a format that are read one after the other."""
    with reading(path):
        if not path.is_dir():
            _check_plain(path, kind)
            return [path]
        files = dataset_files(path) if kind == "parquet" else shards_of(path)
        if not files:
            raise no_file(path / ("*.parquet" if kind == "parquet" else "*.jsonl"))
        return files


def _check_plain(path: Path, kind: str) -> None:
    """Refuse compressed files of formats that are read here and there."""
    if kind in _PLAIN and path.is_file() and is_compressed(path):
        raise InputError(
            where=f"'{path}'",
            expected=f"a file of {VECTOR_FORMATS[kind]} as it is",
            got="a compressed one",
            hint="decompress it first",
        )


def _opened(path: Path, kind: str, scale: Scale, limit: MemoryLimit, scratch: Path | None) -> BaseVectors:
    with reading(path):
        _check_plain(path, kind)
        if kind == "npz":
            return NpzVectors(path, scale, limit)
        if kind == "ciff":
            return CiffVectors(path, scale, scratch)
        if kind == "csr":
            return BigannVectors(path, scale, scratch)
        if kind == "seismic":
            return SeismicVectors(path, scale)
        return _JOINED[kind](_files(path, kind), scale)


def _num_rows(path: Path, kind: str) -> int:
    reader = _opened(path, kind, parse_scale(None), MemoryLimit(None), None)
    return sum(len(batch.ids) for batch in reader.batches()) if reader.num_docs is None else reader.num_docs
