"""Opening and writing vectors in any format."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from segmax.base.checks import checked_path
from segmax.base.errors import ConfigError, InputError
from segmax.base.memory import MemoryLimit
from segmax.base.progress import ProgressOption, progress_of
from segmax.base.vocabulary import GrowingVocabulary
from segmax.io.arrow import ArrowVectors, dataset_files, write_parquet
from segmax.io.bigann import BigannVectors, write_bigann
from segmax.io.ciff import CiffVectors, write_ciff
from segmax.io.jsonl import JsonlVectors, write_jsonl
from segmax.io.npz import NpzVectors, write_npz
from segmax.io.recognize import TEXT_FORMATS, VECTOR_FORMATS, recognize, shards_of, unknown
from segmax.io.scale import Scale, parse_scale
from segmax.io.seismic import SeismicVectors, write_seismic
from segmax.io.spooled import opened_in_files
from segmax.io.streams import base_name, check_free, is_compressed, no_file, read_lines, reading
from segmax.io.tokens import TokenVectors, write_tokens
from segmax.vectors.csr import Csr, check_structure
from segmax.vectors.documents import VectorBatch, VectorReader, WrappedVectors, has_ids

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
_Writer = Callable[..., None]

_WRITERS: Mapping[str, _Writer] = {
    "npz": write_npz,
    "jsonl": write_jsonl,
    "seismic-jsonl": partial(write_jsonl, numbers=True),
    "ciff": write_ciff,
    "csr": write_bigann,
    "seismic": write_seismic,
    "parquet": write_parquet,
    "tokens": write_tokens,
}
#: The formats that can be written.
WRITTEN_FORMATS = tuple(_WRITERS)
_JOINED: Mapping[str, Callable[[Sequence[Path], Scale], VectorReader]] = {
    "jsonl": JsonlVectors,
    "tokens": TokenVectors,
    "parquet": ArrowVectors,
}
_BY_LINE = frozenset({"jsonl", "tokens"})
_PLAIN = frozenset({"npz", "seismic", "parquet"})
_ENDINGS = {".jsonl": "jsonl", ".json": "jsonl", ".bin": "seismic", ".tsv": "tokens"}
_ENDINGS |= {f".{name}": name for name in ("npz", "ciff", "csr", "parquet")}


# --- in --------------------------------------------------------------------------------------------------------------


def open_vectors(
    path: Paths,
    format: str | Sequence[str | None] | None = None,
    *,
    scale: str | float | None = None,
    memory_limit: MemoryLimit | None = None,
    scratch: str | os.PathLike[str] | None = None,
) -> VectorReader:
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
        What is done to weights: "x100" or "/5x256" make integer impacts of floats, "impacts" wants whole numbers, and
        others of `SCALES`; or a factor. None: nothing.
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
) -> VectorReader:
    kinds = [format or _vector_format(one) for one, format in zip(paths, formats, strict=True)]
    sources = [_files(one, kind) if kind in _JOINED else [one] for one, kind in zip(paths, kinds, strict=True)]
    files = [(file, kind) for several, kind in zip(sources, kinds, strict=True) for file in several]
    limit = memory_limit or MemoryLimit(None)
    for kind, joined in _JOINED.items():
        if set(kinds) == {kind}:
            return _Located(joined([file for file, _ in files], scaled), files)
    readers = [_opened(one, kind, scaled, limit, folder) for one, kind in zip(paths, kinds, strict=True)]
    return _Located(readers[0] if len(readers) == 1 else _Joined(readers), files)


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


def _opened(path: Path, kind: str, scale: Scale, limit: MemoryLimit, scratch: Path | None) -> VectorReader:
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


class _Located(WrappedVectors):
    """The reader of some files, which refuses empty ids and knows where every row is."""

    def __init__(self, reader: VectorReader, files: Sequence[tuple[Path, str]]) -> None:
        super().__init__(reader)
        self._files = files

    @property
    def paths(self) -> list[Path]:
        """The files, in the order in which they are read."""
        return [path for path, _ in self._files]

    def batches(self) -> Iterator[VectorBatch]:
        """Yield everything, once."""
        row = 0
        for batch in self._reader.batches():
            if "" in batch.ids:
                raise InputError(
                    where=f"{self.place_of(row + batch.ids.index(''))}", expected="an id", got="an empty string"
                )
            row += len(batch.ids)
            yield batch

    def place_of(self, row: int) -> str:
        """Return where a row is, for messages: the files are read again up to there."""
        for path, kind in self._files:
            if kind in _BY_LINE:
                count = 0
                for number, line in read_lines(path):
                    count += bool(line.strip())
                    if count > row:
                        return f"'{path}', line {number}"
            else:
                count = _num_rows(path, kind)
                if row < count:
                    return f"'{path}', row {row}"
            row -= count
        return f"row {row}"


def _num_rows(path: Path, kind: str) -> int:
    reader = _opened(path, kind, parse_scale(None), MemoryLimit(None), None)
    return sum(len(batch.ids) for batch in reader.batches()) if reader.num_docs is None else reader.num_docs


class _Joined:
    """Several readers, one after the other. Where terms are words, columns are numbered anew over all of them.

    Where they are numbers, and the readers only know the largest that they have, batches widen to the largest so far.
    """

    def __init__(self, readers: Sequence[VectorReader]) -> None:
        self._readers = readers
        self._named = readers[0].terms is not None
        if any((reader.terms is not None) != self._named for reader in readers):
            msg = "expected files that all name their terms, or none that does; got both"
            raise InputError(msg)
        self._vocabulary = GrowingVocabulary()

    @property
    def loose_width(self) -> bool:
        """Whether batches may have more columns than those before."""
        return any(getattr(reader, "loose_width", False) for reader in self._readers)

    @property
    def has_ids(self) -> bool:
        """Whether all of them have ids."""
        return all(has_ids(reader) for reader in self._readers)

    @property
    def terms(self) -> Sequence[str] | None:
        """The terms so far."""
        return self._vocabulary.terms if self._named else None

    @property
    def num_docs(self) -> int | None:
        """How many all of them have, where each knows."""
        counts = [reader.num_docs for reader in self._readers]
        return None if None in counts else sum(count for count in counts if count is not None)

    def batches(self) -> Iterator[VectorBatch]:
        """Yield everything, once."""
        row = width = 0
        for reader in self._readers:
            here = np.zeros(0, np.uint32)
            for ids, vectors, _ in reader.batches():
                if reader.terms is not None:
                    here = np.concatenate([here, self._vocabulary.add(reader.terms[len(here) : vectors.num_columns])])
                    vectors = Csr(vectors.indptr, here[vectors.indices], vectors.values, len(self._vocabulary))
                elif self.loose_width:
                    width = max(width, vectors.num_columns)
                    vectors = vectors._replace(num_columns=width)
                if not self.has_ids:  # the numbers of a file are not those of all
                    ids = [str(number) for number in range(row, row + len(ids))]
                row += len(ids)
                yield VectorBatch(ids, vectors)


# --- out -------------------------------------------------------------------------------------------------------------


def written_format(target: Path, format: str | None) -> str:
    """Return the format that a file will be written in: the one that is asked for, or what its name says."""
    kind = format or _ENDINGS.get(Path(base_name(target)).suffix)
    if kind is None or kind not in _WRITERS:
        what = f"format {format!r}" if format is not None else f"the name '{target.name}'"
        raise ConfigError(
            expected=f"a format out of {', '.join(_WRITERS)}", got=what, hint="say which with {format=...}"
        )
    return kind


def write_vectors(
    path: str | os.PathLike[str],
    vectors: VectorReader | Iterable[VectorBatch],
    format: str | None = None,
    *,
    terms: Sequence[str] | None = None,
    overwrite: bool = False,
    progress: ProgressOption = None,
) -> int:
    """Write vectors.

    Parameters
    ----------
    path
        The file; it appears once it is whole. Text formats, CIFF and .csr are compressed if it ends in .gz, .zst or
        .xz. Ids and terms of .csr and .bin go into files beside it; with `overwrite`, none of an old file is left.
    vectors
        A reader, as `open_vectors` gives it, or batches of ids and vectors.
    format
        One of `WRITTEN_FORMATS`; None: as the name of the file ends.
    terms
        The word of every column, for batches.
    overwrite
        Replace a file at `path`.
    progress
        True draws bars on standard error; a function is called with `BuildProgress`; None and False are silent.

    Returns
    -------
    int
        How many vectors were written.

    Raises
    ------
    InputError
        If there is nothing to write, or weights that are negative or not finite.
    """
    target = Path(path)
    kind = written_format(target, format)
    check_free(target, overwrite=overwrite)
    reader = _Batches(vectors, terms) if isinstance(vectors, Iterable) else vectors
    if terms is not None and not isinstance(reader, _Batches):
        msg = "expected terms with batches only; a reader has its own"
        raise ConfigError(msg)
    count = 0
    with progress_of(progress) as told, told.stage("convert", reader.num_docs, "vectors") as stage:

        def counted() -> Iterator[VectorBatch]:
            nonlocal count
            for batch in reader.batches():
                yield batch
                count += len(batch.ids)
                stage.advance(len(batch.ids))
            if count == 0:
                raise InputError(expected=f"at least one vector to write to '{target}'", got="none")

        _WRITERS[kind](target, reader, counted(), overwrite=overwrite)
    return count


class _Batches:
    """Batches as a reader."""

    num_docs = None

    def __init__(self, batches: Iterable[VectorBatch], terms: Sequence[str] | None) -> None:
        self._batches = batches
        self.terms = terms

    def batches(self) -> Iterator[VectorBatch]:
        """Yield them."""
        for batch in self._batches:
            if self.terms is not None and len(self.terms) < batch.vectors.num_columns:
                raise InputError(expected=f"{batch.vectors.num_columns} terms, one per column", got=len(self.terms))
            yield VectorBatch(batch.ids, _fitting(batch))


def _fitting(batch: VectorBatch) -> Csr:
    """Return the vectors of a batch put together by somebody else; refuse those that point outside themselves."""
    ids, csr, _ = batch
    if len(ids) != csr.num_rows or len(csr.indices) != len(csr.values):
        raise InputError(expected="an id per row and a weight per index", got=f"{len(ids)} ids for {csr.num_rows} rows")
    check_structure(csr, csr.num_rows)
    return csr
