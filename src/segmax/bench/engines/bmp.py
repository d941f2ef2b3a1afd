"""BMP, whose documents are ordered as in the index of segmax beside it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from segmax.base.system import peak_memory
from segmax.bench.engines.engine import Answer, Build, Clock, Engine, Rows, Setting, named_documents, size_of
from segmax.bench.engines.own import index_path
from segmax.storage.reading import load_index

if TYPE_CHECKING:
    import scipy.sparse as sp

_GRID = tuple(
    Setting(f"alpha={alpha:g}, beta={beta:g}", {"alpha": alpha, "beta": beta}, always=alpha == beta == 1)
    for alpha, beta in itertools.product((1.0, 0.9, 0.85, 0.8, 0.7, 0.6), (1.0, 0.8))
)


def build_bmp(docs: sp.csr_matrix, folder: Path, block_size: int = 32, order: Rows | None = None) -> Build:
    """Build a BMP index at FOLDER/index.bmp; its manual shows block size 32 without range compression."""
    from bmp import Indexer

    clock = Clock()
    indexer = Indexer(str(folder / "index.bmp"), bsize=block_size, compress_range=False)
    for doc in named_documents(docs, order):
        indexer.add_document(doc["docno"], doc["toks"])
    convert = clock.lap()
    indexer.finish()
    np.save(folder / "terms.npy", np.unique(docs.indices))
    size = size_of(folder / "index.bmp")
    return Build("bmp", version("bmp"), convert, clock.lap(), clock.cpu(), size, peak_memory())


def _build_ordered(docs: sp.csr_matrix, folder: Path, block_size: int) -> Build:
    """Build from documents in the order of the segmax index beside it."""
    positions = load_index(index_path(folder.parent / "segmax"), preload=True, verify=False)[1]["position_row"]
    order = positions[positions != np.iinfo(np.uint32).max]
    return build_bmp(docs, folder, block_size, order)


_NOTHING: tuple[list[str], list[float]] = ([], [])


class _Searcher:
    """`Searcher.search` with a dictionary; BMP rounds query weights to at most 32 levels.

    BMP panics at a query none of whose terms is in a document, so it does not get to see such terms.
    """

    def __init__(self, folder: Path, queries: sp.csr_matrix) -> None:
        from bmp import Searcher

        self._searcher = Searcher(str(folder / "index.bmp"))
        known = set(np.load(folder / "terms.npy").tolist())
        self._queries = [
            {
                str(term): int(weight)
                for term, weight in zip(row.indices.tolist(), row.data.tolist(), strict=True)
                if term in known
            }
            for row in queries
        ]

    def prepare(self, setting: Setting, k: int) -> Callable[[int], Any]:
        """Return the search of one query."""
        search, queries = self._searcher.search, self._queries
        alpha, beta = setting.values["alpha"], setting.values["beta"]
        return lambda number: search(queries[number], k=k, alpha=alpha, beta=beta) if queries[number] else _NOTHING

    def answer(self, raw: Any) -> Answer:
        """Read the rows."""
        return Answer(np.array(raw[0], dtype=np.int64))


def bmp(block_size: int) -> Engine:
    """Return BMP with blocks of this many documents."""
    build = partial(_build_ordered, block_size=block_size)
    settings = {"bsize": block_size, "compress_range": False}
    return Engine("bmp", _GRID, build, _Searcher, settings, built_after="segmax")
