"""PISA, through pyterrier-pisa."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from segmax.base.system import peak_memory
from segmax.bench.engines.engine import Answer, Build, Clock, Engine, Setting, named_documents, size_of

if TYPE_CHECKING:
    import scipy.sparse as sp

#: Files that pyterrier-pisa keeps after it has compressed the inverted lists; no search reads them.
_LEFTOVERS = frozenset({"inv.docs", "inv.freqs", "inv.sizes", "fwd.documents", "fwd.terms"})
_GRID = tuple(
    Setting(algorithm, {"query_algorithm": algorithm}, exact=True, always=True)
    for algorithm in ("maxscore", "block_max_maxscore")
)


def _build(docs: sp.csr_matrix, folder: Path) -> Build:
    """Build a PISA index at FOLDER/index: pyterrier-pisa inverts in Python, PISA compresses and bounds."""
    from pyterrier_pisa import PisaIndex

    path = folder / "index"
    shutil.rmtree(path, ignore_errors=True)
    clock = Clock()
    index = PisaIndex(str(path), stemmer="none")
    index.toks_indexer(scale=1.0).index(named_documents(docs))
    convert = clock.lap()
    index.quantized(toks_scale=1.0)
    size = size_of(path, _LEFTOVERS)
    return Build("pisa", version("pyterrier-pisa"), convert, clock.lap(), clock.cpu(), size, peak_memory())


class _Searcher:
    """What `PisaRetrieve.transform` calls for a frame of queries, called for one query without a frame."""

    def __init__(self, folder: Path, queries: sp.csr_matrix) -> None:
        from pyterrier_pisa import PisaIndex, _pisathon

        self._retrieve = _pisathon.retrieve
        index = PisaIndex(str(folder / "index"), stemmer="none", stops="none", threads=1)
        self._context = index.quantized(threads=1, toks_scale=1.0)._ctxt
        self._queries = [
            [(0, dict(zip(map(str, row.indices.tolist()), map(float, row.data.tolist()), strict=True)))]
            for row in queries
        ]

    def prepare(self, setting: Setting, k: int) -> Callable[[int], Any]:
        """Return the search of one query."""
        names = np.empty(k, dtype=object)
        call = partial(
            self._retrieve,
            self._context,
            setting.values["query_algorithm"],
            k=k,
            threads=1,
            query_weighted=1,
            pretokenised=True,
            result_qidxs=np.empty(k, dtype=np.int32),
            result_docnos=names,
            result_ranks=np.empty(k, dtype=np.int32),
            result_scores=np.empty(k, dtype=np.float32),
        )
        return lambda number: names[: call(self._queries[number])]

    def answer(self, raw: Any) -> Answer:
        """Read the rows."""
        return Answer(raw.astype(np.int64))


PISA = Engine("pyterrier-pisa", _GRID, _build, _Searcher)
