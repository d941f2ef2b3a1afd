"""Documents as short dense vectors of unit length, which k-means clusters.

Sparse vectors are projected on the main directions of a sample of the collection (latent semantic analysis): a
random projection of the same size separates topics far less well. docs/building.md has the comparison.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from segmax import _core
from segmax.base.errors import InputError
from segmax.base.parallel import Workers
from segmax.building.spool import Spool
from segmax.vectors.csr import Csr
from segmax.vectors.rows import SLAB_DOCS, join_rows, sample_rows, selected_rows

Floats = NDArray[np.float32]

_SAMPLE_DOCS = 8192  # what directions are learned from
_POWER_ROUNDS = 2
_BATCH_FLOATS = 1 << 20
_LEAST_FREQUENCY = 2  # in the sample: a term seen once is no evidence about others


class Points(Protocol):
    """Rows as dense vectors, made in batches whose boundaries depend on the collection alone."""

    num_rows: int

    @property
    def num_batches(self) -> int:
        """How many batches there are."""

    def batch(self, number: int) -> Floats:
        """Return the vectors of one batch."""

    def take(self, rows: NDArray[np.int64]) -> Floats:
        """Return the vectors of some rows, given in ascending order."""

    def encode(self, points: Floats) -> NDArray[Any]:
        """Compress vectors that are kept in large numbers."""

    def decode(self, kept: NDArray[Any]) -> Floats:
        """Decompress vectors."""


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Keep BLAS to one thread, so that sums do not depend on the number of cores."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1):
        yield


def normalized(points: Floats) -> Floats:
    """Scale every vector to unit length, in place; zeros stay zeros."""
    norms = np.sqrt(np.einsum("ij,ij->i", points, points, dtype=np.float32))[:, None]
    np.divide(points, norms, out=points, where=norms > 0)
    return points


# --- sparse ----------------------------------------------------------------------------------------------------------


def take_rows(spool: Spool, rows: NDArray[np.int64]) -> Csr:
    """Return some rows of a spool, given in ascending order."""
    taken = []
    bounds = np.searchsorted(rows, [spool.first_row(i) for i in range(len(spool) + 1)])
    for number, slab in enumerate(spool):
        wanted = rows[bounds[number] : bounds[number + 1]] - spool.first_row(number)
        if len(wanted):
            taken.append(selected_rows(slab, wanted))
    return join_rows(taken, spool.num_columns)


class Projection:
    """The main directions of a sample of sparse vectors, each entry √weight × rarity.

    Found by subspace iteration: start from random directions, multiply by the sample and its transpose, make them
    orthogonal, and again.

    Parameters
    ----------
    sample
        Coded documents.
    term_factor
        Per term √scale × rarity.
    num_dims
        How many directions; fewer where the sample has fewer.
    seed
        Of the start.
    """

    def __init__(self, sample: Csr, term_factor: Floats, num_dims: int, seed: int) -> None:
        frequency = np.bincount(sample.indices, minlength=sample.num_columns)
        used = np.flatnonzero(frequency >= max(1, min(_LEAST_FREQUENCY, frequency.max(initial=0))))
        self._row_of_term = np.full(sample.num_columns, -1, dtype=np.int32)
        self._row_of_term[used] = np.arange(len(used), dtype=np.int32)
        self.num_dims = max(1, min(num_dims, len(used), sample.num_rows))
        factor = term_factor[used][:, None]
        lengths = _lengths(sample, term_factor)[:, None]
        directions = np.random.default_rng(seed).standard_normal((len(used), self.num_dims), dtype=np.float32)
        for _ in range(_POWER_ROUNDS):
            self._matrix = factor * directions
            documents = _orthogonal(self._product(sample) / lengths)
            directions = _orthogonal(factor * self._product_back(sample, documents / lengths))
        self._matrix = factor * directions

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Projection:
        """Return the projection that `arrays` describes."""
        made = cls.__new__(cls)
        made._row_of_term, made._matrix = arrays["row_of_term"], arrays["matrix"]
        made.num_dims = made._matrix.shape[1]
        return made

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what it consists of, for a file: other processes project the same way."""
        return {"row_of_term": self._row_of_term, "matrix": self._matrix}

    def apply(self, docs: Csr) -> Floats:
        """Return the documents as vectors of unit length; zeros for those without a known term."""
        return normalized(self._product(docs))

    def _product(self, docs: Csr) -> Floats:
        arrays = (docs.indptr, docs.indices, docs.values, self._row_of_term, self._matrix.reshape(-1))
        return np.asarray(_core.project_rows(*arrays, self._matrix.shape[1], docs.num_rows), dtype=np.float32)

    def _product_back(self, docs: Csr, points: Floats) -> Floats:
        flat = np.ascontiguousarray(points, dtype=np.float32).reshape(-1)
        arrays = (docs.indptr, docs.indices, docs.values, self._row_of_term, flat)
        return np.asarray(_core.project_back(*arrays, points.shape[1], len(self._matrix)), dtype=np.float32)


def _orthogonal(vectors: Floats) -> Floats:
    """Return orthogonal columns that span the same space, computed from the small matrix of their products."""
    values, rotation = np.linalg.eigh((vectors.T @ vectors).astype(np.float64))
    least: float = max(float(values[-1]) * 1e-10, 1e-30)
    return np.asarray(vectors @ (rotation / np.sqrt(np.maximum(values, least))).astype(np.float32))


def _lengths(docs: Csr, term_factor: Floats) -> NDArray[Any]:
    """Return the length of every document's vector, never 0."""
    squares = docs.values * term_factor[docs.indices].astype(np.float64) ** 2
    row = np.repeat(np.arange(docs.num_rows), np.diff(docs.indptr))
    lengths = np.sqrt(np.bincount(row, weights=squares, minlength=docs.num_rows))
    return np.asarray(np.maximum(lengths, 1e-9), dtype=np.float32)


class Projector:
    """Fits projections of a spool's documents, each once."""

    def __init__(self, spool: Spool, term_factor: Floats, seed: int) -> None:
        self.spool = spool
        self._term_factor = term_factor
        self._seed = seed
        self._fitted: dict[int, Projection] = {}
        self._sample: Csr | None = None

    @property
    def sample_rows(self) -> NDArray[np.int64]:
        """The rows of `sample`, ascending."""
        return sample_rows(self.spool.num_rows, _SAMPLE_DOCS, self._seed)

    @property
    def sample(self) -> Csr:
        """Documents that stand for the collection; the spool must not be cleared before the first use."""
        if self._sample is None:
            self._sample = take_rows(self.spool, self.sample_rows)
        return self._sample

    def projection(self, num_dims: int) -> Projection:
        """Return the projection on so many directions; the spool must not be cleared before the first call."""
        if num_dims not in self._fitted:
            with one_thread():
                self._fitted[num_dims] = Projection(self.sample, self._term_factor, num_dims, self._seed)
        return self._fitted[num_dims]


class SparsePoints:
    """Sparse documents under a projection; a batch is a part of the spool."""

    def __init__(self, projector: Projector, num_dims: int) -> None:
        self._spool = projector.spool
        self._slabs = list(projector.spool)
        self.num_rows = projector.spool.num_rows
        self._projection = projector.projection(num_dims)

    @property
    def num_batches(self) -> int:
        """How many batches there are."""
        return len(self._slabs)

    def batch(self, number: int) -> Floats:
        """Return the vectors of one batch."""
        return self._projection.apply(self._slabs[number])

    def take(self, rows: NDArray[np.int64]) -> Floats:
        """Return the vectors of some rows, given in ascending order."""
        pieces = [np.empty((0, self._projection.num_dims), np.float32)]
        for first in range(0, len(rows), SLAB_DOCS):
            pieces.append(self._projection.apply(take_rows(self._spool, rows[first : first + SLAB_DOCS])))
        return np.concatenate(pieces)

    def encode(self, points: Floats) -> NDArray[Any]:
        """Return the vectors: they are kept as they are."""
        return points

    def decode(self, kept: NDArray[Any]) -> Floats:
        """Decompress vectors."""
        return kept


def term_frequencies(spool: Spool, workers: Workers) -> NDArray[np.int64]:
    """Return how many documents each term is in."""
    frequency = np.zeros(spool.num_columns, dtype=np.int64)
    for counts in workers.map(lambda docs: np.bincount(docs.indices, minlength=spool.num_columns), spool):
        frequency += counts
    return frequency


def term_factor(scale: NDArray[np.float64], rare: NDArray[np.float64]) -> Floats:
    """Return √scale × rarity per term, by which directions weigh codes."""
    # Only ratios count, and 32 bits hold them only if they are about 1.
    return np.asarray(np.sqrt(scale / scale.max(initial=1e-300)) * rare, dtype=np.float32)


def rarity(frequency: NDArray[np.int64], num_docs: int) -> NDArray[np.float64]:
    """Return log(documents / document frequency) per term: a term in every document is no evidence of similarity."""
    return np.log((1 + num_docs) / (1 + frequency))


# --- dense -----------------------------------------------------------------------------------------------------------


class DensePoints:
    """Dense vectors that the caller has, reduced and compressed if asked for; a batch is a range of rows."""

    def __init__(self, vectors: NDArray[Any], num_dims: int | None, compress: bool, seed: int) -> None:
        self._vectors = vectors
        self.num_rows = len(vectors)
        self._projection: Floats | None = None
        self._mean: Floats | None = None
        self._codec: _ByteCodec | None = None
        # Batches of a fixed number of floats, whatever the number of dimensions.
        self._batch_rows: int = max(64, _BATCH_FLOATS // vectors.shape[1])
        rows = sample_rows(self.num_rows, max(1024, min(_SAMPLE_DOCS, 4 * _BATCH_FLOATS // vectors.shape[1])), seed)
        if num_dims is not None and num_dims < vectors.shape[1]:
            self._learn_reduction(self._read(rows), num_dims)
        if compress:
            self._codec = _ByteCodec(self._reduced(self._read(rows)))

    def _learn_reduction(self, sample: Floats, num_dims: int) -> None:
        """Principal component analysis."""
        self._mean = sample.mean(axis=0, dtype=np.float64).astype(np.float32)
        sample -= self._mean
        _, vectors = np.linalg.eigh(sample.T @ sample)
        self._projection = np.ascontiguousarray(vectors[:, ::-1][:, :num_dims], dtype=np.float32)

    @property
    def num_batches(self) -> int:
        """How many batches there are."""
        return -(-self.num_rows // self._batch_rows)

    def batch(self, number: int) -> Floats:
        """Return the vectors of one batch."""
        rows = slice(number * self._batch_rows, (number + 1) * self._batch_rows)
        return self.decode(self.encode(self._reduced(self._read(rows))))

    def take(self, rows: NDArray[np.int64]) -> Floats:
        """Return the vectors of some rows, given in ascending order."""
        pieces = []
        for first in range(0, max(1, len(rows)), self._batch_rows):
            points = self._reduced(self._read(rows[first : first + self._batch_rows]))
            pieces.append(self.decode(self.encode(points)))
        return np.concatenate(pieces)

    def encode(self, points: Floats) -> NDArray[Any]:
        """Compress vectors to a byte per dimension, if asked for."""
        return points if self._codec is None else self._codec.encode(points)

    def decode(self, kept: NDArray[Any]) -> Floats:
        """Decompress vectors."""
        return kept if self._codec is None else self._codec.decode(kept)

    def _read(self, rows: Any) -> Floats:
        """Return some rows scaled to unit length, however large or small they are."""
        with np.errstate(over="ignore"):
            points = np.array(self._vectors[rows], dtype=np.float32, order="C")
        if not np.isfinite(points).all():
            at = int(np.argmin(np.isfinite(points).all(axis=1)))
            row = rows.start + at if isinstance(rows, slice) else int(rows[at])
            raise InputError(expected="finite dense vectors", got=f"NaN or infinity in row {row}")
        lengths = np.sqrt(np.einsum("ij,ij->i", points, points, dtype=np.float64))[:, None]
        np.divide(points, lengths, out=points, where=lengths > 0, casting="same_kind")
        return points

    def _reduced(self, points: Floats) -> Floats:
        if self._projection is None or self._mean is None:
            return points
        return normalized(np.ascontiguousarray((points - self._mean) @ self._projection, dtype=np.float32))


class _ByteCodec:
    """Keeps a byte per dimension: which of 255 steps between the smallest and the largest value of a sample."""

    def __init__(self, sample: Floats) -> None:
        self._low = sample.min(axis=0)
        self._range = sample.max(axis=0) - self._low

    def encode(self, points: Floats) -> NDArray[np.uint8]:
        """Return a byte per value."""
        shares = np.divide(points - self._low, self._range, out=np.zeros_like(points), where=self._range > 0)
        return np.asarray(255 * shares.clip(0, 1), dtype=np.uint8)

    def decode(self, codes: NDArray[np.uint8]) -> Floats:
        """Return the middle of the step of every byte."""
        return np.asarray(self._low + (codes.astype(np.float32) + np.float32(0.5)) / 255 * self._range)
