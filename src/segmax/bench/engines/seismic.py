"""Seismic, as pyseismic-lsr."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from segmax.base.system import peak_memory
from segmax.bench.engines.engine import Answer, Build, Clock, Engine, Setting, size_of

if TYPE_CHECKING:
    import scipy.sparse as sp

#: The settings of Seismic's guide.
_GUIDE: dict[str, Any] = {
    "n_postings": 3000,
    "centroid_fraction": 0.2,
    "summary_energy": 0.5,
    "max_fraction": 6.0,
}
_GRID = tuple(
    Setting(f"query_cut={cut}, heap_factor={factor}", {"query_cut": cut, "heap_factor": factor})
    for cut, factor in itertools.product((3, 5, 8, 10, 15, 20, 50), (0.6, 0.7, 0.8, 0.9, 1.0))
)


def _build(docs: sp.csr_matrix, folder: Path, **settings: float) -> Build:
    """Build a Seismic index at FOLDER/seismic.index.seismic, on all cores, with default settings except those given."""
    from seismic import SeismicDataset, SeismicIndex

    clock = Clock()
    dataset = SeismicDataset(dim=docs.shape[1])
    names = [str(row) for row in range(docs.shape[0])]
    terms, weights = docs.indices.astype(np.int64), docs.data.astype(np.float32)
    dataset.add_documents_by_id(names, terms, weights, docs.indptr.astype(np.int64))
    del names, terms, weights
    convert = clock.lap()
    SeismicIndex.build_from_dataset(dataset, **settings).save(str(folder / "seismic"))
    size = size_of(folder / "seismic.index.seismic")
    return Build("seismic", version("pyseismic-lsr"), convert, clock.lap(), clock.cpu(), size, peak_memory())


class _Searcher:
    """`SeismicIndex.search`, which takes terms as strings."""

    def __init__(self, folder: Path, queries: sp.csr_matrix) -> None:
        from seismic import SeismicIndex, get_seismic_string

        self._index = SeismicIndex.load(str(folder / "seismic.index.seismic"))
        text = get_seismic_string()
        self._queries = [(row.indices.astype(str).astype(text), row.data.astype(np.float32)) for row in queries]

    def prepare(self, setting: Setting, k: int) -> Callable[[int], Any]:
        """Return the search of one query."""
        search, queries = self._index.search, self._queries
        cut, factor = setting.values["query_cut"], setting.values["heap_factor"]
        return lambda number: search("0", *queries[number], k, cut, factor)

    def answer(self, raw: Any) -> Answer:
        """Read the rows."""
        return Answer(np.array([int(hit[2]) for hit in raw], dtype=np.int64))


SEISMIC = Engine("pyseismic-lsr", _GRID, _build, _Searcher)
SEISMIC_GUIDE = Engine("pyseismic-lsr", _GRID, partial(_build, **_GUIDE), _Searcher, _GUIDE)
