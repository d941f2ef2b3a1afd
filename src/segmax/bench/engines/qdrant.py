"""Qdrant, embedded: qdrant-edge. Its sparse index is exact."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from segmax.base.system import peak_memory
from segmax.bench.engines.engine import Answer, Build, Clock, Engine, Setting, size_of

if TYPE_CHECKING:
    import scipy.sparse as sp

_BATCH = 1000
_NAME = "v"


def _build(docs: sp.csr_matrix, folder: Path) -> Build:
    """Add points in batches, without a log; optimize once."""
    import qdrant_edge as edge

    path = folder / "shard"
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    clock = Clock()
    config = edge.EdgeConfig(sparse_vectors={_NAME: edge.EdgeSparseVectorParams()}, max_search_threads=1)
    shard = edge.EdgeShard.create(str(path), config)
    convert, building = 0.0, clock.lap()
    for first in range(0, docs.shape[0], _BATCH):
        points = _points(edge, first, docs[first : first + _BATCH])
        convert += clock.lap()
        shard.update(edge.UpdateOperation.upsert_points(points))
        building += clock.lap()
    shard.flush()
    shard.optimize()
    shard.flush()
    shard.close()
    building += clock.lap()
    size = size_of(path)
    return Build("qdrant-edge", version("qdrant-edge-py"), convert, building, clock.cpu(), size, peak_memory())


def _points(edge: Any, first: int, docs: sp.csr_matrix) -> list[Any]:
    """Return documents as points, called by their rows."""
    ends, terms, weights = docs.indptr.tolist(), docs.indices.tolist(), docs.data.astype(float).tolist()
    return [
        edge.Point(first + at, {_NAME: edge.SparseVector(terms[start:end], weights[start:end])}, {})
        for at, (start, end) in enumerate(pairwise(ends))
    ]


class _Searcher:
    """`EdgeShard.search` with one thread."""

    def __init__(self, folder: Path, queries: sp.csr_matrix) -> None:
        import qdrant_edge as edge

        self._edge: Any = edge
        self._shard = edge.EdgeShard.load(str(folder / "shard"))
        self._queries = [
            edge.Query.Nearest(edge.SparseVector(row.indices.tolist(), row.data.astype(float).tolist()), using=_NAME)
            for row in queries
        ]

    def prepare(self, setting: Setting, k: int) -> Callable[[int], Any]:
        """Return the search of one query."""
        search = self._shard.search
        requests = [self._edge.SearchRequest(query=query, limit=k) for query in self._queries]
        return lambda number: search(requests[number])

    def answer(self, raw: Any) -> Answer:
        """Read the rows."""
        return Answer(np.array([point.id for point in raw], dtype=np.int64))


QDRANT = Engine("qdrant-edge-py", (Setting("", {}, exact=True, always=True),), _build, _Searcher)
