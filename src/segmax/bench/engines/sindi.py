"""SINDI of VSAG, as pyvsag."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from segmax.base.system import peak_memory
from segmax.bench.engines.engine import Answer, Build, Clock, Engine, Setting, size_of

if TYPE_CHECKING:
    import scipy.sparse as sp


def _settings(ratios: Sequence[float], candidates: Sequence[float], *, exact: bool = False) -> tuple[Setting, ...]:
    """Return all settings of these query_prune_ratio and n_candidate, the latter as multiples of k.

    SINDI reads candidates from the lists of the query's terms, or from all accumulators. Its `term_prune_ratio` is left
    out: it drops the last documents of a list, however well they match.
    """
    settings = []
    for ratio, times, lists in itertools.product(ratios, candidates, (True, False)):
        label = f"query_prune_ratio={ratio:g}, n_candidate={times:g}k" if not exact else "exact"
        values = {"query_prune_ratio": ratio, "candidates": times, "use_term_lists_heap_insert": lists}
        settings.append(Setting(label if lists else f"{label}, all accumulators", values, exact, always=exact))
    return tuple(settings)


_EXACT = _settings([0.0], [1], exact=True)
#: Without re-ranking, more candidates than results change nothing.
_PLAIN = _settings((0.05, 0.1, 0.15, 0.2, 0.3), [1])
_RERANKED = _settings((0.2, 0.3, 0.4, 0.5, 0.6), (1.5, 2, 3, 5, 7, 10))


def _build(docs: sp.csr_matrix, folder: Path, **settings: Any) -> Build:
    """Build a SINDI index of VSAG at FOLDER/index.sindi; FOLDER/index.json has what opening it takes."""
    import pyvsag

    clock = Clock()
    starts, terms, weights = docs.indptr.astype(np.uint32), docs.indices.astype(np.uint32), docs.data.astype(np.float32)
    rows, num_terms = np.arange(docs.shape[0], dtype=np.int64), docs.shape[1] + 2
    if docs.dtype == np.uint8:
        # `use_quantization` maps the smallest weight to 0 and the largest to 255. One more document, row -1, has these
        # weights in two terms that no query has; so our 8-bit weights stay as they are, and the search is exact.
        starts = np.append(starts, np.uint32(docs.nnz + 2))
        terms = np.append(terms, np.array([num_terms - 2, num_terms - 1], np.uint32))
        weights = np.append(weights, np.array([0, 255], np.float32))
        rows = np.append(rows, -1)
    # Windows as large as its 16-bit document numbers allow: fewer, longer lists.
    chosen = {"term_id_limit": num_terms, "window_size": 60_000, **settings}
    parameters = {"dtype": "sparse", "metric_type": "ip", "dim": num_terms, "index_param": chosen}
    convert = clock.lap()
    index = pyvsag.Index("sindi", json.dumps(parameters))
    index.build(starts, terms, weights, rows)
    index.save(str(folder / "index.sindi"))
    (folder / "index.json").write_text(json.dumps({"num_docs": docs.shape[0], "parameters": parameters}))
    size = size_of(folder / "index.sindi")
    return Build("sindi", version("pyvsag"), convert, clock.lap(), clock.cpu(), size, peak_memory())


class _Searcher:
    """`Index.knn_search` with a query as a CSR row."""

    def __init__(self, folder: Path, queries: sp.csr_matrix) -> None:
        import pyvsag

        built = json.loads((folder / "index.json").read_text())
        self._num_docs: int = built["num_docs"]
        self._index = pyvsag.Index("sindi", json.dumps(built["parameters"]))
        self._index.load(str(folder / "index.sindi"))
        self._queries = [
            (np.array([0, row.nnz], np.uint32), row.indices.astype(np.uint32), row.data.astype(np.float32))
            for row in queries
        ]

    def prepare(self, setting: Setting, k: int) -> Callable[[int], Any]:
        """Return the search of one query."""
        search, queries = self._index.knn_search, self._queries
        values = dict(setting.values)
        parameters = json.dumps({"sindi": {"n_candidate": round(values.pop("candidates") * k), **values}})
        return lambda number: search(*queries[number], k, parameters)

    def answer(self, raw: Any) -> Answer:
        """Read the rows; pyvsag fills up with arbitrary numbers where it has fewer than k results."""
        rows = raw[0].ravel()
        return Answer(rows[(rows >= 0) & (rows < self._num_docs)])


def _sindi(grid: tuple[Setting, ...], **settings: Any) -> Engine:
    return Engine("pyvsag", grid, partial(_build, **settings), _Searcher, settings)


#: Exact with floats, exact with 8 bits, and with pruned documents whose results are ranked again.
SINDI = {
    "sindi": _sindi(_EXACT),
    "sindi-8bit": _sindi((*_EXACT, *_PLAIN), use_quantization=True),
    **{
        f"sindi-prune-{ratio:g}": _sindi(_RERANKED, use_quantization=True, use_reorder=True, doc_prune_ratio=ratio)
        for ratio in (0.1, 0.2, 0.3, 0.4)
    },
}
