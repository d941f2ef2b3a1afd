"""The kinds of clustering: by sparse vectors, by dense vectors, by pooled token embeddings, or by given labels."""

from __future__ import annotations

import dataclasses
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from segmax.base.checks import check_unmasked, checked_choice, checked_int, checked_labels
from segmax.base.display import counted
from segmax.base.errors import ConfigError, InputError
from segmax.building.kmeans import KMeansOptions, kmeans
from segmax.building.points import DensePoints, Points, Projector, SparsePoints, one_thread
from segmax.building.resources import BuildResources
from segmax.vectors.documents import POOLINGS

#: Directions that sparse vectors are projected on, for clusters, for segments and for the order inside clusters.
DIMENSIONS = 64
_MOST = 65535


@dataclasses.dataclass(frozen=True)
class ClusterJob:
    """What a clustering works on."""

    num_docs: int
    projector: Projector  #: of the sparse documents
    pooled: NDArray[np.float32] | None  #: the embeddings that `Clustering.pooling` asked for
    num_clusters: int
    seed: int
    resources: BuildResources
    is_even: bool = False  #: all clusters but the last get `DOCS_PER_CLUSTER` documents, as the default number has it


class Clustering(ABC):
    """What documents are clustered by. Use `Sparse`, `Dense`, `Pooled` or `Labels`.

    Examples
    --------
    >>> import segmax
    >>> from segmax.clustering import Clustering, Sparse
    >>> isinstance(Sparse(dimensions=32), Clustering)
    True
    """

    #: The token embeddings that `labels` needs, pooled per document while documents are read; None: none.
    pooling: str | None = None

    @abstractmethod
    def labels(self, job: ClusterJob) -> NDArray[np.int64]:
        """Return a cluster label per row."""

    def check(self, num_docs: int) -> None:  # noqa: B027 - most kinds fit any number of documents
        """Raise InputError if this does not fit so many documents."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return what the index records about it, as plain values."""


def _run(make_points: Callable[[], Points], job: ClusterJob, restarts: int, iterations: int) -> NDArray[np.int64]:
    if job.num_clusters <= 1:
        return np.zeros(job.num_docs, dtype=np.int64)
    with one_thread():
        options = KMeansOptions(job.seed, restarts, iterations, job.is_even)
        return kmeans(make_points(), job.num_clusters, options, job.resources)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sparse(Clustering):
    """Cluster by the sparse vectors themselves, projected on their main directions.

    Parameters
    ----------
    dimensions
        How many directions to project on.
    restarts
        How many times to run k-means from another start; the best result is kept.
    iterations
        Rounds per run.

    Examples
    --------
    >>> Sparse(restarts=3)
    Sparse(dimensions=64, restarts=3, iterations=10)
    """

    dimensions: int = DIMENSIONS
    restarts: int = 1
    iterations: int = 10

    def __post_init__(self) -> None:
        for name in ("dimensions", "restarts", "iterations"):  # as int, so that numpy numbers can be stored
            object.__setattr__(self, name, checked_int(name, getattr(self, name), 1, _MOST))

    def labels(self, job: ClusterJob) -> NDArray[np.int64]:
        """Return a cluster label per row."""
        points = partial(SparsePoints, job.projector, self.dimensions)
        return _run(points, job, self.restarts, self.iterations)

    def to_dict(self) -> dict[str, Any]:
        """Return what the index records about it, as plain values."""
        return {"kind": "sparse", **dataclasses.asdict(self)}


class Dense(Clustering):
    """Cluster by dense vectors of your own, one per document.

    Parameters
    ----------
    vectors
        An array of shape (documents, dimensions), or the path of an .npy file, which is memory-mapped.
    dimensions
        Reduce vectors to so many dimensions by principal component analysis on a sample; None: keep all.
    bits
        8: k-means is trained on one byte per dimension, in less memory. None: floats.
    restarts, iterations
        As for `Sparse`.

    Examples
    --------
    >>> Dense(np.eye(4, dtype=np.float32), dimensions=2, bits=8)
    Dense(4 x 4, dimensions=2, bits=8, restarts=1, iterations=10)
    """

    def __init__(
        self,
        vectors: ArrayLike | str | os.PathLike[str],
        *,
        dimensions: int | None = None,
        bits: int | None = None,
        restarts: int = 1,
        iterations: int = 10,
    ) -> None:
        self.vectors = _dense_array(vectors)
        self.dimensions = None if dimensions is None else checked_int("dimensions", dimensions, 1, _MOST)
        if bits is not None and (isinstance(bits, bool) or not isinstance(bits, (int, np.integer)) or bits != 8):
            raise ConfigError(option="bits", expected="None or 8", got=f"{bits!r}")
        self.bits = None if bits is None else 8
        self.restarts = checked_int("restarts", restarts, 1, _MOST)
        self.iterations = checked_int("iterations", iterations, 1, _MOST)

    def check(self, num_docs: int) -> None:
        """Raise InputError if there is not one vector per document."""
        if len(self.vectors) != num_docs:
            raise InputError(expected=f"{num_docs} dense vectors, one per document", got=len(self.vectors))

    def labels(self, job: ClusterJob) -> NDArray[np.int64]:
        """Return a cluster label per row."""
        points = partial(DensePoints, self.vectors, self.dimensions, self.bits == 8, job.seed)
        return _run(points, job, self.restarts, self.iterations)

    def to_dict(self) -> dict[str, Any]:
        """Return what the index records about it, as plain values."""
        names = ("dimensions", "bits", "restarts", "iterations")
        return {"kind": "dense", **{name: getattr(self, name) for name in names}}

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value}" for name, value in self.to_dict().items() if name != "kind")
        return f"Dense({len(self.vectors)} x {self.vectors.shape[1]}, {options})"


def _dense_array(vectors: ArrayLike | str | os.PathLike[str]) -> NDArray[Any]:
    array = _mapped(vectors) if isinstance(vectors, (str, os.PathLike)) else _converted(vectors)
    if array.ndim != 2 or array.shape[1] == 0:
        raise InputError(expected="dense vectors of shape (documents, dimensions)", got=array.shape)
    if array.dtype.kind not in "fiu":
        raise InputError(expected="dense vectors of a float or integer dtype", got=array.dtype)
    return array


def _mapped(path: str | os.PathLike[str]) -> NDArray[Any]:
    what = "an .npy file of dense vectors"
    try:
        found = np.load(Path(path), mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(expected=what, got=f"'{os.fspath(path)}' ({error})") from error
    if isinstance(found, np.ndarray):
        return found
    found.close()  # an archive, which numpy keeps open
    raise InputError(expected=what, got=f"an archive of arrays, '{os.fspath(path)}'")


def _converted(vectors: ArrayLike) -> NDArray[Any]:
    check_unmasked(vectors, "dense vectors")
    try:
        return np.asanyarray(vectors)
    except ValueError as error:
        raise InputError(expected="dense vectors of one length", got=f"several ({error})") from error


class Pooled(Clustering):
    """Cluster by the embeddings of each document's tokens, pooled to one vector while the document is encoded.

    Use it with `segmax.from_texts` and a model, or with a reader whose batches carry such vectors.

    Parameters
    ----------
    pooling
        "cls" (the first token), "mean" (the mean of all tokens) or "max" (the maximum per dimension).
    dimensions, bits, restarts, iterations
        As for `Dense`.

    Examples
    --------
    >>> Pooled("mean", dimensions=32)
    Pooled('mean', dimensions=32, bits=None, restarts=1, iterations=10)
    """

    def __init__(
        self,
        pooling: str,
        *,
        dimensions: int | None = None,
        bits: int | None = None,
        restarts: int = 1,
        iterations: int = 10,
    ) -> None:
        self.pooling: str = checked_choice("pooling", pooling, POOLINGS)
        self._options: dict[str, Any] = {
            "dimensions": dimensions,
            "bits": bits,
            "restarts": restarts,
            "iterations": iterations,
        }
        Dense(np.zeros((1, 1)), **self._options)  # checks the options

    def labels(self, job: ClusterJob) -> NDArray[np.int64]:
        """Return a cluster label per row."""
        assert job.pooled is not None  # a build without these embeddings fails while it reads
        return Dense(job.pooled, **self._options).labels(job)

    def to_dict(self) -> dict[str, Any]:
        """Return what the index records about it, as plain values."""
        return {"kind": "pooled", "pooling": self.pooling, **self._options}

    def __repr__(self) -> str:
        return f"Pooled({self.pooling!r}, {', '.join(f'{name}={value}' for name, value in self._options.items())})"


class Labels(Clustering):
    """Use clusters that you have: an integer label >= 0 per document.

    Examples
    --------
    >>> Labels([0, 1, 1])
    Labels(3 documents)
    """

    def __init__(self, labels: ArrayLike) -> None:
        check_unmasked(labels, "cluster labels")
        try:
            self._labels = np.asarray(labels)
        except ValueError as error:
            raise InputError(
                expected="cluster labels, one per document", got=f"rows of different lengths ({error})"
            ) from error

    def check(self, num_docs: int) -> None:
        """Raise InputError if there is not one label per document."""
        checked_labels(self._labels, num_docs, "cluster")

    def labels(self, job: ClusterJob) -> NDArray[np.int64]:
        """Return a cluster label per row."""
        return checked_labels(self._labels, job.num_docs, "cluster")

    def to_dict(self) -> dict[str, Any]:
        """Return what the index records about it, as plain values."""
        return {"kind": "labels"}

    def __repr__(self) -> str:
        return f"Labels({counted(self._labels.size, 'document')})"
