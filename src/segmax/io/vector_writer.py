"""Vectors out, in any of the formats that can be written."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from segmax.base.errors import ConfigError, InputError
from segmax.base.progress import ProgressOption, progress_of
from segmax.io.bigann import write_bigann
from segmax.io.ciff_writer import write_ciff
from segmax.io.jsonl import write_jsonl
from segmax.io.npz_writer import write_npz
from segmax.io.parquet_writer import write_parquet
from segmax.io.seismic import write_seismic
from segmax.io.streams import base_name
from segmax.io.tokens import write_tokens
from segmax.io.writing import check_free
from segmax.vectors.csr import Csr, check_structure
from segmax.vectors.documents import BaseVectors, VectorBatch, VectorReader, as_vectors

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
_ENDINGS = {".jsonl": "jsonl", ".json": "jsonl", ".bin": "seismic", ".tsv": "tokens"}
_ENDINGS |= {f".{name}": name for name in ("npz", "ciff", "csr", "parquet")}


def written_format(target: Path, format: str | None) -> str:
    """Return the format that a file will be written in: the one that is asked for, or the one of its suffix."""
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

    Examples
    --------
    >>> import tempfile
    >>> import scipy.sparse as sp
    >>> from segmax.io import VectorBatch
    >>> from segmax.vectors.csr import matrix_to_csr
    >>> path = Path(tempfile.mkdtemp(), "docs.npz")
    >>> write_vectors(path, [VectorBatch(["d1"], matrix_to_csr(sp.csr_matrix([[0, 2]])))])
    1
    """
    target = Path(path)
    kind = written_format(target, format)
    check_free(target, overwrite=overwrite)
    reader = _Batches(vectors, terms) if isinstance(vectors, Iterable) else as_vectors(vectors)
    if terms is not None and not isinstance(reader, _Batches):
        raise ConfigError(option="terms", expected="None for a reader, which has its own", got="terms")
    count = 0
    with progress_of(progress) as shown, shown.stage("convert", reader.num_docs, "vectors") as stage:

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


class _Batches(BaseVectors):
    """Batches of the caller as a reader."""

    num_docs = None

    def __init__(self, batches: Iterable[VectorBatch], terms: Sequence[str] | None) -> None:
        self._batches = batches
        self._terms = terms

    @property
    def terms(self) -> Sequence[str] | None:
        """The word of every column, if given."""
        return self._terms

    def batches(self) -> Iterator[VectorBatch]:
        """Yield them."""
        for batch in self._batches:
            if self._terms is not None and len(self._terms) < batch.vectors.num_columns:
                raise InputError(expected=f"{batch.vectors.num_columns} terms, one per column", got=len(self._terms))
            yield VectorBatch(batch.ids, _fitting(batch))


def _fitting(batch: VectorBatch) -> Csr:
    """Return the vectors of a batch from the caller; refuse those that point outside themselves."""
    ids, csr, _ = batch
    if len(ids) != csr.num_rows or len(csr.indices) != len(csr.values):
        raise InputError(expected="an id per row and a weight per index", got=f"{len(ids)} ids for {csr.num_rows} rows")
    check_structure(csr, csr.num_rows)
    return csr
