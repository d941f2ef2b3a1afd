"""segmax itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import segmax
from segmax.base.system import peak_memory
from segmax.bench.engines.engine import Answer, Build, Clock, Engine, Setting
from segmax.search.hooks import with_hooks
from segmax.search.methods import SearchParams

if TYPE_CHECKING:
    import scipy.sparse as sp


def _setting(label: str, params: SearchParams, *, exact: bool = False, always: bool = False) -> Setting:
    return Setting(label, {"params": params}, exact, always=exact or always)


#: A search that only tests can ask for. It shows what sweeping is worth, and competes with no other setting.
NEVER_SWEPT = "exact, never swept"
_ETA_MASS = [
    (eta, mass)
    for eta in (1.0, 0.97, 0.95, 0.93, 0.91, 0.89, 0.86)
    for mass in (1.0, 0.995, 0.99, 0.98, 0.97, 0.95, 0.92)
    if (eta, mass) != (1.0, 1.0)
]
_GRID = (
    _setting("exact", segmax.ASC(), exact=True),
    _setting(NEVER_SWEPT, with_hooks(segmax.ASC(), sweep=False), exact=True),
    _setting("exhaustive", segmax.Exhaustive(), exact=True),
    *(_setting(f"eta={eta:g}, query_mass={q:g}", segmax.ASC(eta=eta, query_mass=q)) for eta, q in _ETA_MASS),
    *(_setting(f"max_blocks={count}", segmax.ASC(max_blocks=count)) for count in (60, 90, 140, 300, 1500, 3000)),
    *(_setting(f"bound_mass={mass:g}", segmax.ASC(eta=0.97, bound_mass=mass)) for mass in (0.95, 0.9)),
    *(_setting(f"mu={mu:g}", segmax.ASC(mu=mu), always=True) for mu in (0.9, 0.7, 0.5)),
)
#: In the folder of the engine: an index, or a file with the path of one that was there before.
_INDEX, _ELSEWHERE = "index", "index.path"


def use_index(folder: Path, path: Path) -> None:
    """Let searches open the index at a path instead of one that is built in the folder of the engine."""
    (folder / _ELSEWHERE).write_text(str(path.resolve()), encoding="utf-8")


def index_path(folder: Path) -> Path:
    """Return the path of the index that belongs to the folder of the engine."""
    elsewhere = folder / _ELSEWHERE
    return Path(elsewhere.read_text(encoding="utf-8")) if elsewhere.exists() else folder / _INDEX


def _build(docs: sp.csr_matrix, folder: Path) -> Build:
    """Build with default settings."""
    clock = Clock()
    with segmax.build(docs, path=folder / _INDEX, overwrite=True) as index:
        return Build("segmax", segmax.__version__, 0.0, clock.lap(), clock.cpu(), index.num_bytes, peak_memory())


class _Searcher:
    """`Index.search` with a pair of arrays; the index is read into memory, as Seismic and BMP do."""

    def __init__(self, folder: Path, queries: sp.csr_matrix) -> None:
        self._index = segmax.open(index_path(folder), preload=True)
        self._queries = [(row.indices.astype(np.int64), row.data.astype(np.float64)) for row in queries]

    def prepare(self, setting: Setting, k: int) -> Callable[[int], segmax.Hits]:
        """Return the search of one query."""
        search, queries, params = self._index.search, self._queries, setting.values["params"]
        return lambda number: search(queries[number], k, params)

    def answer(self, raw: segmax.Hits) -> Answer:
        """Read the rows and the core's clock."""
        return Answer(raw.rows, raw.stats.elapsed_ns, raw.stats.swept)


SEGMAX = Engine("segmax", _GRID, _build, _Searcher)
