"""The first stage of a build: documents are read, checked, pruned, and kept in a spool."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from segmax.base.display import counted
from segmax.base.errors import ConfigError, InputError
from segmax.base.memory import MemoryLimit
from segmax.base.scratch import ScratchFile
from segmax.building.inputs import Names, Source
from segmax.building.resources import BYTES_PER_THREAD, BuildResources
from segmax.building.spool import Spool
from segmax.vectors.documents import VectorBatch
from segmax.vectors.pruning import MaxPostings, Step, prune_batches, prune_rows
from segmax.vectors.rows import narrowest

_MAX_DOCS = 2**32 - 2**17  # rows and padded positions are 32 bits wide
_BYTES_PER_TERM = 100  # of tables: counts, scales, offsets, and those of pieces under way
_BYTES_PER_DOC = 72  # of tables: labels, slots, offsets


class ReadDocuments(NamedTuple):
    """The documents of a build, in the order they came."""

    spool: Spool
    names: Names
    pooled: NDArray[np.float32] | None  # a dense vector per document, where a pooling was asked for


def read_documents(
    source: Source, pruning: tuple[Step, ...], pooling: str | None, resources: BuildResources
) -> ReadDocuments:
    """Read all documents, pruned; `pooling` names the dense vectors to keep beside them."""
    first_cap = next((i for i, step in enumerate(pruning) if isinstance(step, MaxPostings)), len(pruning))
    with PooledVectors(pooling, resources) as pooled:
        spool = _read(source, pruning[:first_cap], pooled, resources)
        if pruning[first_cap:]:
            _prune_slabs(spool, pruning[first_cap:], resources)
        return ReadDocuments(spool, source.names, pooled.array())


def _read(source: Source, steps: tuple[Step, ...], pooled: PooledVectors, resources: BuildResources) -> Spool:
    limit = resources.limit
    num_read = 0
    spool: Spool | None = None
    batches = source.batches()
    with resources.progress.stage("read", source.num_docs, "documents") as stage:
        for batch in batches:
            docs = batch.vectors
            num_read += docs.num_rows
            if spool is None:
                _require_tables(limit, docs.num_columns, num_read, source.name)
                room = limit.available() - resources.workers.threads * BYTES_PER_THREAD
                spool = Spool(docs.num_columns, max(0, room) // 3, resources.folder)
            spool.widen(docs.num_columns)
            spool.append(prune_rows(steps, docs))
            pooled.append(batch)
            stage.advance(docs.num_rows)
            if spool.num_rows > _MAX_DOCS:
                raise InputError(expected=f"at most {_MAX_DOCS:,} documents", got="more", hint="split the collection")
    assert spool is not None  # an empty source raises
    spool.finish()
    _require_tables(limit, spool.num_columns, num_read, source.name)
    limit.require(spool.num_rows * _BYTES_PER_DOC, f"tables of {spool.num_rows:,} documents")
    return spool


def _require_tables(limit: MemoryLimit, num_columns: int, num_read: int, source: str) -> None:
    """Raise ConfigError if reading took more memory than the limit, or leaves too little for tables of terms."""
    limit.check_read(f"{counted(num_read, 'document')} of {source}")
    limit.require(num_columns * _BYTES_PER_TERM, f"tables of {num_columns:,} terms")


def _prune_slabs(spool: Spool, steps: tuple[Step, ...], resources: BuildResources) -> None:
    """Apply steps that need to see the whole collection, and those after them."""
    max_values = max(1, resources.limit.available() // 4 // 16)
    pruned = prune_batches(steps, lambda: spool, spool.num_columns, max_values)
    with resources.progress.stage("prune", spool.num_rows, "documents") as stage:
        for number, docs in enumerate(pruned()):
            spool.replace(number, docs._replace(values=narrowest(docs.values)))
            stage.advance(docs.num_rows)


class PooledVectors:
    """The dense vectors of one pooling, in a scratch file while documents are read."""

    def __init__(self, pooling: str | None, resources: BuildResources) -> None:
        self._pooling = pooling
        self._file = None if pooling is None else ScratchFile(resources.folder)
        self._shape = (0, 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.__exit__()

    def append(self, batch: VectorBatch) -> None:
        """Keep the vectors of some documents; raise ConfigError if the batch has none of this pooling."""
        if self._file is None or self._pooling is None:
            return
        if self._pooling not in batch.dense:
            raise ConfigError(
                expected=f"token embeddings pooled by {self._pooling!r} with every document",
                got=", ".join(batch.dense) or "none",
                hint=f"use a model with pooling={self._pooling!r}",
            )
        rows: NDArray[np.float32] = np.asarray(batch.dense[self._pooling], dtype=np.float32)
        if (
            rows.ndim != 2
            or len(rows) != batch.vectors.num_rows
            or (self._shape[0] and rows.shape[1] != self._shape[1])
        ):
            raise InputError(
                expected=f"{batch.vectors.num_rows} dense vectors of one length, one per document", got=rows.shape
            )
        self._file.write(rows)
        self._shape = (self._shape[0] + len(rows), rows.shape[1])

    def array(self) -> NDArray[np.float32] | None:
        """Return all vectors, mapped; None where no pooling was asked for."""
        if self._file is None:
            return None
        (values,) = self._file.mapped([(np.float32, self._shape[0] * self._shape[1])])
        return values.reshape(self._shape)
