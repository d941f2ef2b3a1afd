"""splade-index, with numba."""

from __future__ import annotations

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


class _Encoded:
    """What splade-index takes for a model, with vectors that are there already."""

    def __init__(self, docs: sp.csr_matrix) -> None:
        import torch

        starts, terms = (torch.from_numpy(part.astype(np.int64)) for part in (docs.indptr, docs.indices))
        self._docs = torch.sparse_csr_tensor(starts, terms, torch.from_numpy(docs.data.astype(np.float32)), docs.shape)
        self._vocabulary = {str(term): term for term in range(docs.shape[1])}
        self.tokenizer = self

    def get_vocab(self) -> dict[str, int]:
        """Return the number of every term."""
        return self._vocabulary

    def encode_document(self, documents: list[str], **_: Any) -> Any:
        """Return the vectors, whatever the texts."""
        return self._docs


def _build(docs: sp.csr_matrix, folder: Path) -> Build:
    """Build an index of splade-index at FOLDER/index, with its numba backend."""
    from splade_index import SPLADE

    clock = Clock()
    model = _Encoded(docs)
    convert = clock.lap()
    index = SPLADE(backend="numba")
    index.index(model, [""] * docs.shape[0], show_progress=False, compile_numba_code=False)
    index.save(folder / "index")
    size = size_of(folder / "index")
    return Build("splade-index", version("splade-index"), convert, clock.lap(), clock.cpu(), size, peak_memory())


class _Searcher:
    """What `SPLADE.retrieve` calls once it has encoded the texts of queries, called with a query that is encoded."""

    def __init__(self, folder: Path, queries: sp.csr_matrix) -> None:
        from splade_index import SPLADE
        from splade_index.numba.retrieve_utils import _retrieve_numba_functional

        scores = SPLADE.load(folder / "index", model=None, load_corpus=False).scores
        self._retrieve = partial(_retrieve_numba_functional, scores=scores, show_progress=False)
        self._queries = [([row.indices.astype(np.int32)], [row.data.astype(np.float32)]) for row in queries]

    def prepare(self, setting: Setting, k: int) -> Callable[[int], Any]:
        """Return the search of one query."""
        retrieve, queries = partial(self._retrieve, k=k), self._queries
        return lambda number: retrieve(*queries[number])

    def answer(self, raw: Any) -> Answer:
        """Read the rows."""
        return Answer(raw[0][0])


SPLADE_INDEX = Engine(
    "splade-index",
    (Setting("", {}, exact=True, always=True),),
    _build,
    _Searcher,
    also_needs=("numba", "torch"),
)
