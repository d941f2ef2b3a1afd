"""The engines of the race: how each builds its index and answers one query, and the range of its parameters.

To add a setting, add a line to a grid below; to add an engine, a `Racer`. `benchmarks.race` runs them.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

import segmax
from benchmarks.rivals import (
    Build,
    Clock,
    build_bmp,
    build_pisa,
    build_seismic,
    build_sindi,
    build_splade_index,
    peak_bytes,
)
from benchmarks.yardstick import ScatterAdd
from segmax.search.hooks import with_hooks
from segmax.search.methods import SearchParams
from segmax.storage.reading import load_index

Rows = NDArray[np.integer[Any]]


class Setting(NamedTuple):
    """Parameters of a search; with `always`, they are measured on all queries even if others are better."""

    label: str
    values: Mapping[str, Any]
    exact: bool = False
    always: bool = False


class Answer(NamedTuple):
    """An engine's answer to one query; the race also times the call."""

    rows: Rows
    core_ns: int | None = None  # by the engine's own clock, if it has one
    swept: bool = False


class Searcher(Protocol):
    """An open index, with queries in the form that the engine takes."""

    def prepare(self, setting: Setting, k: int) -> Callable[[int], Any]:
        """Return a function that answers the query of a number; only the function is timed."""
        ...

    def answer(self, raw: Any) -> Answer:
        """Convert what that function returned."""
        ...


class Racer(NamedTuple):
    """An engine with an index of its own."""

    package: str
    grid: tuple[Setting, ...]
    build: Callable[[sp.csr_matrix, Path], Build]
    open: Callable[[Path, sp.csr_matrix], Searcher]
    settings: Mapping[str, Any] = {}  # of the build
    timed_inside: bool = False  # timed by its own clock only
    also_needs: tuple[str, ...] = ()  # packages that its package runs without, but not as it should


# --- segmax ----------------------------------------------------------------------------------------------------------


def _segmax(label: str, params: SearchParams, *, exact: bool = False, always: bool = False) -> Setting:
    return Setting(label, {"params": params}, exact, always=exact or always)


_ETA_MASS = [
    (eta, mass)
    for eta in (1.0, 0.97, 0.95, 0.93, 0.91, 0.89, 0.86)
    for mass in (1.0, 0.995, 0.99, 0.98, 0.97, 0.95, 0.92)
    if (eta, mass) != (1.0, 1.0)
]
SEGMAX_GRID = (
    _segmax("exact", segmax.ASC(), exact=True),
    _segmax("exact, never swept", with_hooks(segmax.ASC(), sweep=False), exact=True),
    _segmax("exhaustive", segmax.Exhaustive(), exact=True),
    *(_segmax(f"eta={eta:g}, query_mass={q:g}", segmax.ASC(eta=eta, query_mass=q)) for eta, q in _ETA_MASS),
    *(_segmax(f"max_blocks={count}", segmax.ASC(max_blocks=count)) for count in (60, 90, 140, 300, 1500, 3000)),
    *(_segmax(f"bound_mass={mass:g}", segmax.ASC(eta=0.97, bound_mass=mass)) for mass in (0.95, 0.9)),
    *(_segmax(f"mu={mu:g}", segmax.ASC(mu=mu), always=True) for mu in (0.9, 0.7, 0.5)),
)


def build_segmax(docs: sp.csr_matrix, folder: Path) -> Build:
    """Build with default settings at FOLDER/index."""
    clock = Clock()
    with segmax.build(docs, path=folder / "index", overwrite=True) as index:
        return Build("segmax", segmax.__version__, 0.0, clock.lap(), clock.cpu(), index.num_bytes, peak_bytes())


class SegmaxSearcher:
    """`Index.search` with a pair of arrays; the index is read into memory, as Seismic and BMP do."""

    def __init__(self, folder: Path, queries: sp.csr_matrix) -> None:
        self._index = segmax.open(folder / "index", preload=True)
        self._queries = [(row.indices.astype(np.int64), row.data.astype(np.float64)) for row in queries]

    def prepare(self, setting: Setting, k: int) -> Callable[[int], segmax.Hits]:
        """Return the search of one query."""
        search, queries, params = self._index.search, self._queries, setting.values["params"]
        return lambda number: search(queries[number], k, params)

    def answer(self, raw: segmax.Hits) -> Answer:
        """Read the rows and the core's clock."""
        return Answer(raw.rows, raw.stats.elapsed_ns, raw.stats.swept)


# --- the plain scatter-add -------------------------------------------------------------------------------------------


def build_plain(docs: sp.csr_matrix, folder: Path) -> Build:
    """Keep the vectors; the lists are made in memory when they are opened. Return the size of the lists."""
    clock = Clock()
    ScatterAdd(docs)
    seconds = clock.lap()
    sp.save_npz(folder / "docs.npz", docs, compressed=False)
    size = docs.nnz * (4 + 1) + (docs.shape[1] + 1) * 8
    return Build("scatter-add", segmax.__version__, 0.0, seconds, clock.cpu(), size, peak_bytes())


class PlainSearcher:
    """The yardstick, timed by its own clock, because the call from Python would slow it down."""

    def __init__(self, folder: Path, queries: sp.csr_matrix) -> None:
        self._plain = ScatterAdd(sp.csr_matrix(sp.load_npz(folder / "docs.npz")))
        self._queries: list[sp.csr_matrix] = list(queries)

    def prepare(self, setting: Setting, k: int) -> Callable[[int], Any]:
        """Return the search of one query."""
        return lambda number: self._plain.search(self._queries[number], k)

    def answer(self, raw: Any) -> Answer:
        """Read the rows and the clock."""
        rows, elapsed = raw
        return Answer(rows[0][rows[0] >= 0], int(elapsed[0]))


# --- Seismic ---------------------------------------------------------------------------------------------------------

#: The settings of Seismic's guide.
SEISMIC_GUIDE: dict[str, Any] = {
    "n_postings": 3000,
    "centroid_fraction": 0.2,
    "summary_energy": 0.5,
    "max_fraction": 6.0,
}
SEISMIC_GRID = tuple(
    Setting(f"query_cut={cut}, heap_factor={factor}", {"query_cut": cut, "heap_factor": factor})
    for cut, factor in itertools.product((3, 5, 8, 10, 15, 20, 50), (0.6, 0.7, 0.8, 0.9, 1.0))
)


class SeismicSearcher:
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


# --- BMP -------------------------------------------------------------------------------------------------------------

BMP_GRID = tuple(
    Setting(f"alpha={alpha:g}, beta={beta:g}", {"alpha": alpha, "beta": beta}, always=alpha == beta == 1)
    for alpha, beta in itertools.product((1.0, 0.9, 0.85, 0.8, 0.7, 0.6), (1.0, 0.8))
)


def build_bmp_ordered(docs: sp.csr_matrix, folder: Path, block_size: int) -> Build:
    """Build from documents in the order of the segmax index beside it."""
    positions = load_index(folder.parent / "segmax" / "index", preload=True, verify=False)[1]["position_row"]
    order = positions[positions != np.iinfo(np.uint32).max]
    return build_bmp(docs, folder, block_size, order)


class BmpSearcher:
    """`Searcher.search` with a dictionary; BMP rounds query weights to at most 32 levels."""

    def __init__(self, folder: Path, queries: sp.csr_matrix) -> None:
        from bmp import Searcher

        self._searcher = Searcher(str(folder / "index.bmp"))
        self._queries = [
            dict(zip(map(str, row.indices.tolist()), map(int, row.data.tolist()), strict=True)) for row in queries
        ]

    def prepare(self, setting: Setting, k: int) -> Callable[[int], Any]:
        """Return the search of one query."""
        search, queries = self._searcher.search, self._queries
        alpha, beta = setting.values["alpha"], setting.values["beta"]
        return lambda number: search(queries[number], k=k, alpha=alpha, beta=beta)

    def answer(self, raw: Any) -> Answer:
        """Read the rows."""
        return Answer(np.array(raw[0], dtype=np.int64))


# --- PISA ------------------------------------------------------------------------------------------------------------

PISA_GRID = tuple(
    Setting(algorithm, {"query_algorithm": algorithm}, exact=True, always=True)
    for algorithm in ("maxscore", "block_max_maxscore")
)


class PisaSearcher:
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


# --- SINDI -----------------------------------------------------------------------------------------------------------


def _sindi_settings(
    ratios: Sequence[float], candidates: Sequence[float], *, exact: bool = False
) -> tuple[Setting, ...]:
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


SINDI_EXACT = _sindi_settings([0.0], [1], exact=True)
#: Without re-ranking, more candidates than results change nothing.
SINDI_PLAIN = _sindi_settings((0.05, 0.1, 0.15, 0.2, 0.3), [1])
SINDI_RERANKED = _sindi_settings((0.2, 0.3, 0.4, 0.5, 0.6), (1.5, 2, 3, 5, 7, 10))


class SindiSearcher:
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


def _sindi(grid: tuple[Setting, ...], **settings: Any) -> Racer:
    return Racer("pyvsag", grid, partial(build_sindi, **settings), SindiSearcher, settings)


# --- splade-index ----------------------------------------------------------------------------------------------------


class SpladeIndexSearcher:
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


# --- all of them -----------------------------------------------------------------------------------------------------


def _bmp(block_size: int) -> Racer:
    build = partial(build_bmp_ordered, block_size=block_size)
    return Racer("bmp", BMP_GRID, build, BmpSearcher, {"bsize": block_size, "compress_range": False})


#: In the order of the race: BMP takes its order of documents from segmax.
RACERS: dict[str, Racer] = {
    "scatter-add": Racer(
        "segmax", (Setting("", {}, exact=True, always=True),), build_plain, PlainSearcher, timed_inside=True
    ),
    "segmax": Racer("segmax", SEGMAX_GRID, build_segmax, SegmaxSearcher),
    "seismic": Racer("pyseismic-lsr", SEISMIC_GRID, build_seismic, SeismicSearcher),
    "seismic-guide": Racer(
        "pyseismic-lsr", SEISMIC_GRID, partial(build_seismic, **SEISMIC_GUIDE), SeismicSearcher, SEISMIC_GUIDE
    ),
    "bmp-32": _bmp(32),
    "bmp-8": _bmp(8),
    "pisa": Racer("pyterrier-pisa", PISA_GRID, build_pisa, PisaSearcher),
    "sindi": _sindi(SINDI_EXACT),
    "sindi-8bit": _sindi((*SINDI_EXACT, *SINDI_PLAIN), use_quantization=True),
    **{
        f"sindi-prune-{ratio:g}": _sindi(SINDI_RERANKED, use_quantization=True, use_reorder=True, doc_prune_ratio=ratio)
        for ratio in (0.1, 0.2, 0.3, 0.4)
    },
    "splade-index": Racer(
        "splade-index",
        (Setting("", {}, exact=True, always=True),),
        build_splade_index,
        SpladeIndexSearcher,
        also_needs=("numba",),
    ),
}


def installed(racer: Racer) -> str:
    """Return the version of an engine; raise PackageNotFoundError if it, or what it needs, is not installed."""
    for package in racer.also_needs:
        version(package)
    return segmax.__version__ if racer.package == "segmax" else version(racer.package)
