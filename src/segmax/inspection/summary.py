"""What is in an index: counts, sizes, clusters, and how tight its bounds are."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from segmax.base.checks import checked_int
from segmax.base.errors import InputError, damaged
from segmax.search.calibration import Calibration
from segmax.search.index import Index
from segmax.search.results import ClusterBounds
from segmax.vectors.csr import Csr, is_matrix, matrix_to_csr
from segmax.vectors.pruning import Step, TopTerms, prune_rows

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType

#: The structure that every component belongs to; docs/format.md describes the components.
STRUCTURES: Mapping[str, tuple[str, ...]] = {
    "postings": ("run_base", "run_start", "run_bytes", "entry_block", "entry_mask", "group_start", "entry_code"),
    "block bounds": ("level", "quad_max", "block_max", "entry_max"),
    "segment bounds": ("segment_max", "segment_mask", "segment_code"),
    "cluster bounds": ("cluster_max", "narrow_cluster", "pair_entry"),
    "documents": ("position_row", "cluster_first_position", "cluster_num_docs", "cluster_label"),
    "terms": (
        "term_first_pair",
        "term_first_posting",
        "term_first_byte",
        "term_first_entry",
        "term_scale",
        "term_top_code",
    ),
    "ids and vocabulary": ("id_number", "id_offset", "id_text", "term_offset", "term_text"),
    "texts": ("text_data", "text_offset", "text_first_row"),
    "metadata": ("metadata_data", "metadata_offset", "metadata_first_row", "metadata_column"),
    "numbers and hashes of ids": ("doc_number", "id_hash", "id_hash_row"),
    "counts of words": ("count_offset", "count_term", "count_value"),
}
_OTHER = "other"
_STRUCTURE_OF = {component: structure for structure, components in STRUCTURES.items() for component in components}

#: How many terms of a document are used where it takes the place of a query: about as many as learned queries have.
STAND_IN_TERMS = 24


class Bin(NamedTuple):
    """A bar of a histogram: the number of values from `least` to `most`, both included."""

    least: int
    most: int
    num_values: int


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Ratios:
    """Actual over bound, where Actual is the best score of a document in the cluster.

    `values` has one entry per query and cluster. `mean` is the mean over queries of each query's mean over clusters.
    """

    mean: float
    values: NDArray[np.float64]

    def quantile(self, fraction: float) -> float:
        """Return the value that this fraction of all values does not exceed."""
        return float(np.quantile(self.values, fraction))

    def to_dict(self) -> dict[str, float]:
        """Return the summary as plain values."""
        return {"mean": self.mean, "p10": self.quantile(0.1), "median": self.quantile(0.5), "p90": self.quantile(0.9)}


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Tightness:
    """How close bounds are to actual scores: 1 is a bound that some document reaches.

    Only clusters with a score above 0 count, and only queries with such clusters. MaxSBound and BoundSum are upper
    bounds, so their ratios do not exceed 1; AvgSBound is a mean over segments, and its ratio may.
    """

    source: Literal["queries", "documents"]  #: "documents" if no queries were given
    num_queries: int
    max_bound: Ratios  #: Actual/MaxSBound
    bound_sum: Ratios  #: Actual/BoundSum
    avg_bound: Ratios  #: Actual/AvgSBound

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as plain values."""
        ratios = {name: getattr(self, name).to_dict() for name in ("max_bound", "bound_sum", "avg_bound")}
        return {"source": self.source, "num_queries": self.num_queries, **ratios}


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class IndexSummary:
    """What is in an index, as `inspect` returns it. Print it with rich, or call `to_dict`.

    Examples
    --------
    >>> import scipy.sparse as sp, segmax
    >>> summary = segmax.inspect(segmax.build(sp.csr_matrix([[1, 2], [3, 0]])))
    >>> summary.num_docs, summary.num_postings
    (2, 3)
    """

    path: str | None  #: None for an index in memory
    format_version: int
    generation: int | None  #: how often the index at this path was written; None in memory
    num_docs: int
    num_terms: int
    num_postings: int
    num_clusters: int
    num_segments: int
    bits: int
    quantization_error: float
    clustering: dict[str, Any]  #: what documents were clustered by: `kind`, and its options
    config: dict[str, Any]  #: `BuildConfig.to_dict()`
    sizes: dict[str, int]  #: bytes per component
    cluster_sizes: NDArray[np.uint32]  #: documents per cluster
    calibration: Calibration  #: how approximate settings were measured
    tightness: Tightness | None  #: None if `sample` was 0, or no query reached a document

    @property
    def num_bytes(self) -> int:
        """The size of all components."""
        return sum(self.sizes.values())

    @property
    def structure_sizes(self) -> dict[str, int]:
        """Bytes per structure, largest first, without structures that the index does not have."""
        totals: dict[str, int] = {}
        for component, size in self.sizes.items():
            structure = structure_of(component)
            totals[structure] = totals.get(structure, 0) + size
        return dict(sorted(totals.items(), key=lambda item: -item[1]))

    def per_posting(self, num_bytes: int) -> float:
        """Return bytes per posting; 0 if there are no postings."""
        return num_bytes / self.num_postings if self.num_postings else 0.0

    def cluster_histogram(self, num_bins: int = 12) -> list[Bin]:
        """Return cluster sizes as at most `num_bins` bars of the same width."""
        return histogram(self.cluster_sizes, num_bins)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, with arrays summarized, as `segmax inspect --json` prints them."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        sizes = self.cluster_sizes
        values["cluster_sizes"] = {
            "min": int(sizes.min()),
            "median": float(np.median(sizes)),
            "mean": float(sizes.mean()),
            "max": int(sizes.max()),
            "histogram": [bar._asdict() for bar in self.cluster_histogram()],
        }
        values["num_bytes"] = self.num_bytes
        values["bytes_per_posting"] = self.per_posting(self.num_bytes)
        values["structure_sizes"] = self.structure_sizes
        values["calibration"] = self.calibration.to_list()
        values["tightness"] = self.tightness.to_dict() if self.tightness else None
        return values

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        from segmax.inspection.tables import rendered

        yield from rendered(self, console.encoding, options.max_width)


def structure_of(component: str) -> str:
    """Return the structure that a component belongs to."""
    return _STRUCTURE_OF.get(component, _OTHER)


def inspect_index(index: Index, queries: object = None, sample: int = 50, seed: int = 0) -> IndexSummary:
    """Return what is in an index: counts, options, sizes, clusters, and how tight its bounds are.

    Parameters
    ----------
    index
        An open index.
    queries
        Queries to measure tightness with: a scipy or torch sparse matrix with one query per row, or an iterable of
        single queries. By default documents of the index, each cut to its 24 largest weights.
    sample
        How many of these to use, chosen at random; 0 skips the measurement.
    seed
        The random seed of that choice.

    Raises
    ------
    InputError
        If the queries are invalid.
    ConfigError
        If `sample` or `seed` is invalid.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from segmax.building.builder import build
    >>> summary = inspect_index(build(sp.csr_matrix([[1, 0, 2], [0, 3, 1]])))
    >>> summary.num_postings, summary.cluster_histogram()
    (4, [Bin(least=2, most=2, num_values=1)])
    >>> f"{summary.tightness.max_bound.mean:.2f}"
    '0.95'
    """
    sample = checked_int("sample", sample, 0)
    rng = np.random.default_rng(checked_int("seed", seed, 0))
    meta = index._meta
    return IndexSummary(
        path=str(index.path) if index.path is not None else None,
        format_version=int(meta["version"]),
        generation=int(meta["generation"]) if "generation" in meta else None,
        num_docs=index.num_docs,
        num_terms=index.num_terms,
        num_postings=index.num_postings,
        num_clusters=index.num_clusters,
        num_segments=index.num_segments,
        bits=index.bits,
        quantization_error=index.quantization_error,
        clustering=dict(meta.get("clustering", {})),
        config=index.config.to_dict(),
        sizes=index.sizes(),
        cluster_sizes=index.cluster_sizes(),
        calibration=index.calibration,
        tightness=_tightness(index, queries, sample, rng) if sample else None,
    )


def histogram(values: NDArray[Any], num_bins: int) -> list[Bin]:
    """Count whole numbers in at most `num_bins` bars of the same width.

    Examples
    --------
    >>> histogram(np.array([3, 4, 4, 8]), num_bins=3)
    [Bin(least=3, most=4, num_values=3), Bin(least=5, most=6, num_values=0), Bin(least=7, most=8, num_values=1)]
    """
    num_bins = checked_int("num_bins", num_bins, 1)
    if len(values) == 0:
        return []
    least, most = int(values.min()), int(values.max())
    width = -(-(most - least + 1) // num_bins)
    counts = np.bincount((values.astype(np.int64) - least) // width)
    return [Bin(least + i * width, least + (i + 1) * width - 1, int(count)) for i, count in enumerate(counts)]


def step_text(step: Step) -> str:
    """Return a pruning step as `parse_step` reads it.

    Examples
    --------
    >>> step_text(TopTerms(count=64))
    'top-terms=64'
    """
    values = step.to_dict()
    name = values.pop("step").replace("_", "-")
    (number,) = values.values()
    return f"{name}={number}"


# --- tightness -------------------------------------------------------------------------------------------------------


def _tightness(index: Index, queries: object, sample: int, rng: np.random.Generator) -> Tightness | None:
    chosen = _stand_ins(index, sample, rng) if queries is None else _sampled(queries, sample, rng)
    reached = [bounds for query in chosen if (bounds := index.cluster_bounds(query)).best_score.any()]
    if not reached:
        return None
    return Tightness(
        source="documents" if queries is None else "queries",
        num_queries=len(reached),
        **{name: _ratios(reached, name) for name in ("max_bound", "bound_sum", "avg_bound")},
    )


def _ratios(reached: list[ClusterBounds], name: str) -> Ratios:
    parts = []
    for bounds in reached:
        scored = bounds.best_score > 0
        bound = getattr(bounds, name)[scored]
        if (bound <= 0).any():
            raise damaged("a bound is below a score")
        parts.append(bounds.best_score[scored] / bound)
    return Ratios(mean=float(np.mean([part.mean() for part in parts])), values=np.concatenate(parts))


def _choice(rng: np.random.Generator, length: int, sample: int) -> NDArray[np.int64]:
    return np.sort(rng.choice(length, min(sample, length), replace=False))


def _stand_ins(index: Index, sample: int, rng: np.random.Generator) -> list[Any]:
    """Return documents as queries."""
    rows = _choice(rng, index.num_docs, sample)
    docs = index._vector_rows(index._ids.id_of(int(row)) for row in rows)
    docs = prune_rows(TopTerms(count=STAND_IN_TERMS), docs)
    return [_row(docs, row) for row in range(docs.num_rows)]


def _sampled(queries: object, sample: int, rng: np.random.Generator) -> list[Any]:
    """Return some of the queries, as `Index.search` takes them."""
    if is_matrix(queries) or isinstance(queries, Csr):
        rows = queries if isinstance(queries, Csr) else matrix_to_csr(queries)
        return [_row(rows, int(row)) for row in _choice(rng, rows.num_rows, sample)]
    if isinstance(queries, (Mapping, str, bytes)) or not isinstance(queries, Iterable):
        raise InputError(expected="queries as a sparse matrix or an iterable of queries", got=type(queries).__name__)
    given = list(queries)
    return [given[i] for i in _choice(rng, len(given), sample)]


def _row(rows: Csr, row: int) -> tuple[NDArray[Any], NDArray[Any]]:
    here = slice(int(rows.indptr[row]), int(rows.indptr[row + 1]))
    return rows.indices[here].astype(np.int64), rows.values[here]
