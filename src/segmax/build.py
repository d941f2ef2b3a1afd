"""Building an index from vectors."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from segmax import _core
from segmax.cluster import checked_labels, kmeans_labels, random_segments
from segmax.config import BuildConfig
from segmax.errors import ConfigError, InputError
from segmax.index import Index, num_threads, open_index
from segmax.quantize import quantize_nearest
from segmax.sparse import Csr, canonical, is_matrix, matrix_to_csr
from segmax.storage import FORMAT_VERSION, check_target, save_index
from segmax.tables import id_arrays, term_arrays

_MAX_DOCS = 2**32 - 2**17  # rows and padded positions are 32 bits wide


def build(
    vectors: object,
    *,
    path: str | os.PathLike[str] | None = None,
    ids: Iterable[Any] | None = None,
    terms: Iterable[str] | None = None,
    clusters: ArrayLike | None = None,
    segments: ArrayLike | None = None,
    config: BuildConfig | None = None,
    overwrite: bool = False,
    threads: int | None = None,
) -> Index:
    """Build an index.

    Parameters
    ----------
    vectors
        Documents as a scipy sparse matrix or torch sparse tensor (a row each, any float or integer dtype), or an
        iterable of such batches. Weights are finite and >= 0.
    path
        Where to write the index; None keeps it in memory.
    ids
        All strings or all integers, one per document; without them ids are the row numbers.
    terms
        The vocabulary: a string per column. Queries may then name terms by word.
    clusters
        A cluster label per document; without them k-means on the sparse vectors decides.
    segments
        A segment label below `config.num_segments` per document; without them random ones of even size.
    config
        See `BuildConfig`.
    overwrite
        Replace an index at `path`.
    threads
        None: one per core. The index does not depend on it.

    Returns
    -------
    Index
        In memory, or opened from `path`.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> index = build(sp.csr_matrix([[1, 0, 2], [0, 3, 1]]), ids=["a", "b"])
    >>> index.search({2: 1.0}).ids
    ['a', 'b']
    """
    config = config or BuildConfig()
    if not isinstance(config, BuildConfig):
        msg = f"expected config to be a BuildConfig, got {type(config).__name__}"
        raise ConfigError(msg)
    target = Path(path) if path is not None else None
    if target is not None:
        check_target(target, overwrite=overwrite)
    docs = _collect(vectors)
    tables = {**id_arrays(ids, docs.num_rows), **term_arrays(terms, docs.num_columns)}
    coded = quantize_nearest(docs.indices, docs.values, docs.num_columns, config.bits)
    docs = docs._replace(values=coded.codes)
    labels = _cluster_labels(docs, clusters, config)
    names, dense = np.unique(labels, return_inverse=True)
    segment_labels = _segment_labels(segments, dense, config)
    arrays = _arrays(docs, dense, segment_labels, config.num_segments, num_threads(threads))
    arrays |= {"cluster_label": names, "term_scale": coded.scale, **tables}
    meta = {
        "format": "segmax",
        "version": FORMAT_VERSION,
        "num_docs": docs.num_rows,
        "num_terms": docs.num_columns,
        "num_segments": config.num_segments,
        "num_postings": len(docs.indices),
        "code_bytes": config.bits // 8,
        "quantization_error": coded.error,
        "config": config.to_dict(),
    }
    if target is None:
        return Index(meta, arrays, None)
    save_index(target, arrays, meta, overwrite=overwrite)
    return open_index(target)


def _collect(vectors: object) -> Csr:
    """Check all documents and join the batches."""
    if is_matrix(vectors):
        docs = canonical(matrix_to_csr(vectors), 0)
    elif isinstance(vectors, Iterable) and not isinstance(vectors, (str, bytes, np.ndarray)):
        docs = _joined(vectors)
    else:
        msg = (
            "expected documents as a scipy sparse matrix, a torch sparse tensor, or an iterable of such batches, "
            f"got {type(vectors).__name__}"
        )
        raise InputError(msg)
    if docs.num_rows == 0:
        msg = "expected at least one document, got an empty collection"
        raise InputError(msg)
    if docs.num_rows > _MAX_DOCS:
        msg = f"expected at most {_MAX_DOCS:,} documents, got {docs.num_rows:,}; split the collection"
        raise InputError(msg)
    return docs


def _joined(batches: Iterable[object]) -> Csr:
    parts: list[Csr] = []
    rows = 0
    for number, batch in enumerate(batches):
        part = canonical(matrix_to_csr(batch), rows)
        if parts and part.num_columns != parts[0].num_columns:
            msg = f"expected {parts[0].num_columns} columns in every batch, got {part.num_columns} in batch {number}"
            raise InputError(msg)
        parts.append(part)
        rows += part.num_rows
    if not parts:
        msg = "expected at least one document, got an empty collection"
        raise InputError(msg)
    counts = np.concatenate([np.diff(part.indptr) for part in parts])
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    return Csr(
        indptr,
        np.concatenate([part.indices for part in parts]),
        np.concatenate([part.values for part in parts]),
        parts[0].num_columns,
    )


def _cluster_labels(docs: Csr, clusters: ArrayLike | None, config: BuildConfig) -> NDArray[np.int64]:
    if clusters is not None:
        return checked_labels(clusters, docs.num_rows, "cluster")
    return kmeans_labels(docs, config.clusters_for(docs.num_rows), config.seed)


def _segment_labels(segments: ArrayLike | None, clusters: NDArray[Any], config: BuildConfig) -> NDArray[np.uint32]:
    if segments is None:
        return random_segments(clusters, config.num_segments, config.seed)
    labels = checked_labels(segments, len(clusters), "segment")
    if labels.max() >= config.num_segments:
        msg = f"expected segment labels below num_segments={config.num_segments}, got {labels.max()}"
        raise InputError(msg)
    return labels.astype(np.uint32)


def _arrays(
    docs: Csr, clusters: NDArray[Any], segments: NDArray[np.uint32], num_segments: int, threads: int
) -> dict[str, NDArray[Any]]:
    """Order the documents and let the core lay out the index."""
    rows = np.argsort(clusters, kind="stable").astype(np.uint32)
    cluster_first = np.concatenate([[0], np.cumsum(np.bincount(clusters))]).astype(np.uint32)
    args = (docs.indptr, docs.indices, docs.values, docs.num_columns)
    _core.order_by_similarity(*args, cluster_first, rows, threads)
    return cast(dict[str, NDArray[Any]], _core.build_arrays(*args, cluster_first, rows, segments, num_segments))
