"""What is in an index: counts, sizes, clusters, and how tight its bounds are; as values, and as tables for rich."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from segmax.base.checks import checked_int
from segmax.base.display import counted, printable, size_text
from segmax.base.errors import InputError, damaged
from segmax.base.text_table import Column, tables
from segmax.search.bound_reader import BoundReader
from segmax.search.calibration import Calibration
from segmax.search.index import Index
from segmax.search.results import ClusterBounds
from segmax.vectors.csr import Csr, is_matrix, matrix_to_csr
from segmax.vectors.pruning import Step, TopTerms, prune_rows, step_from_dict

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.table import Table

#: The structure that every component belongs to; docs/format.md describes the components.
STRUCTURES: Mapping[str, tuple[str, ...]] = {
    "postings": ("run_start", "run_bytes", "entry_block", "entry_mask", "group_start", "entry_code"),
    "block bounds": ("level", "span_max", "block_max", "entry_max"),
    "segment bounds": ("segment_max", "segment_sum"),
    "cluster bounds": ("cluster_max", "narrow_cluster"),
    "documents": ("position_row", "cluster_first_position", "cluster_num_docs", "cluster_label"),
    "terms": (
        "term_first_pair",
        "term_first_posting",
        "term_first_byte",
        "term_first_entry",
        "term_scale",
        "term_seed_code",
    ),
    "ids and vocabulary": ("id_number", "id_offset", "id_text", "term_offset", "term_text"),
    "texts": ("text_data", "text_offset", "text_first_row"),
}
_OTHER = "other"
_STRUCTURE_OF = {component: structure for structure, components in STRUCTURES.items() for component in components}

#: Terms of a document that stands in for a query: about what a learned sparse query has.
STAND_IN_TERMS = 24


class Bin(NamedTuple):
    """A bar of a histogram: how many values lie between two whole numbers, both included."""

    least: int
    most: int
    num_values: int


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Ratios:
    """Actual over bound, where Actual is the best score that a document of the cluster really has.

    `values` has one entry per query and cluster, `mean` is the mean over queries of their means over clusters.
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
    """How close bounds come to the scores that are there: 1 is a bound that is met.

    Only clusters with a score above 0 count, and only queries that have such clusters. MaxSBound and BoundSum are upper
    bounds, so their ratios do not exceed 1; AvgSBound is a mean over segments, and its ratio may.
    """

    source: Literal["queries", "documents"]  #: whether queries were given, or documents stood in for them
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
    """What `segmax inspect` tells about an index; see `inspect`."""

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
    clustering: dict[str, Any]  #: what k-means looked at and how: `kind`, and the options of that kind
    config: dict[str, Any]  #: `BuildConfig.to_dict()`
    sizes: dict[str, int]  #: bytes per component
    cluster_sizes: NDArray[np.uint32]  #: documents per cluster
    calibration: Calibration  #: what is known about approximate settings
    tightness: Tightness | None  #: None where no query was asked for, or none reaches a document

    @property
    def num_bytes(self) -> int:
        """The size of all components."""
        return sum(self.sizes.values())

    @property
    def structure_sizes(self) -> dict[str, int]:
        """Bytes per structure, largest first; structures that the index does not have are left out."""
        totals: dict[str, int] = {}
        for component, size in self.sizes.items():
            structure = structure_of(component)
            totals[structure] = totals.get(structure, 0) + size
        return dict(sorted(totals.items(), key=lambda item: -item[1]))

    def per_posting(self, num_bytes: int) -> float:
        """Return bytes per posting; 0 where there is no posting."""
        return num_bytes / self.num_postings if self.num_postings else 0.0

    def cluster_histogram(self, num_bins: int = 12) -> list[Bin]:
        """Return cluster sizes in at most so many bars of one width."""
        return histogram(self.cluster_sizes, num_bins)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, arrays as summaries: what `segmax inspect --json` prints."""
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
        from rich.text import Text

        width = options.max_width
        name = printable(self.path or "in memory")
        yield Text(f"segmax index {name}", style="bold", overflow="fold", end="\n\n")
        yield _counts(self)
        for title, parts in (
            ("Sizes", _sizes(self, width)),
            _clusters(self, console.encoding, width),
            _calibration(self.calibration, width),
            _bounds(self.tightness, width),
        ):
            yield Text(f"\n{title}", style="bold", overflow="fold")
            yield from parts


def structure_of(component: str) -> str:
    """Return the structure that a component belongs to."""
    return _STRUCTURE_OF.get(component, _OTHER)


def inspect(index: Index, queries: object = None, sample: int = 50, seed: int = 0) -> IndexSummary:
    """Report what is in an index.

    Parameters
    ----------
    index
        An open index.
    queries
        Queries for the tightness of the bounds: a scipy or torch sparse matrix with a query per row, or an iterable of
        single queries. None: documents of the index stand in, each cut to its 24 largest weights.
    sample
        How many of them to use, chosen at random where there are more; 0 leaves the tightness out.
    seed
        Of that choice.

    Raises
    ------
    InputError
        If the queries cannot be used.
    ConfigError
        If sample or seed cannot be.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from segmax.building.builder import build
    >>> report = inspect(build(sp.csr_matrix([[1, 0, 2], [0, 3, 1]])))
    >>> report.num_postings, report.cluster_histogram()
    (4, [Bin(least=2, most=2, num_values=1)])
    >>> f"{report.tightness.max_bound.mean:.2f}"
    '1.00'
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
        clustering=dict(meta.get("clusters", {})),
        config=index.config.to_dict(),
        sizes=index.sizes(),
        cluster_sizes=index.cluster_sizes(),
        calibration=index.calibration,
        tightness=_tightness(index, queries, sample, rng) if sample else None,
    )


def histogram(values: NDArray[Any], num_bins: int) -> list[Bin]:
    """Count whole numbers in at most so many bars of one width.

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


# --- tightness -------------------------------------------------------------------------------------------------------


def _tightness(index: Index, queries: object, sample: int, rng: np.random.Generator) -> Tightness | None:
    chosen = _stand_ins(index, sample, rng) if queries is None else _sampled(queries, sample, rng)
    reader = BoundReader(index)
    reached = [bounds for query in chosen if (bounds := reader.read(query)).best_score.any()]
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


def _stand_ins(index: Index, sample: int, rng: np.random.Generator) -> list[object]:
    """Return documents as queries."""
    rows = _choice(rng, index.num_docs, sample)
    docs = matrix_to_csr(index.vectors(index._ids.id_of(int(row)) for row in rows))
    docs = prune_rows(TopTerms(count=STAND_IN_TERMS), docs)
    return [_row(docs, row) for row in range(docs.num_rows)]


def _sampled(queries: object, sample: int, rng: np.random.Generator) -> list[object]:
    """Return some of the queries, as `Index.search` takes them."""
    if is_matrix(queries):
        rows = matrix_to_csr(queries)
        return [_row(rows, int(row)) for row in _choice(rng, rows.num_rows, sample)]
    if isinstance(queries, (Mapping, str, bytes)) or not isinstance(queries, Iterable):
        raise InputError(expected="queries as a sparse matrix or an iterable of queries", got=type(queries).__name__)
    given = list(queries)
    return [given[i] for i in _choice(rng, len(given), sample)]


def _row(rows: Csr, row: int) -> tuple[NDArray[Any], NDArray[Any]]:
    here = slice(int(rows.indptr[row]), int(rows.indptr[row + 1]))
    return rows.indices[here].astype(np.int64), rows.values[here]


# --- as text ---------------------------------------------------------------------------------------------------------

_SHOWN_TARGETS = (0.95, 0.99)
_BAR_LENGTH = 40
_BAR_MARGIN = 35  # for the columns before the bars


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


def _plain(value: object) -> str:
    words = {"None": "default", "True": "yes", "False": "no"}
    return words.get(str(value), str(value))


def _counts(report: IndexSummary) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    mean_terms = report.num_postings / report.num_docs
    written = f", generation {report.generation}" if report.generation is not None else ""
    rows = {
        "documents": f"{report.num_docs:,}",
        "terms": f"{report.num_terms:,}",
        "postings": f"{report.num_postings:,} ({mean_terms:.1f} per document)",
        "clusters": f"{report.num_clusters:,} x {counted(report.num_segments, 'segment')}",
        "weights": f"{report.bits} bits, quantization error {report.quantization_error:.3%}",
        "size": f"{size_text(report.num_bytes)}, {report.per_posting(report.num_bytes):.2f} bytes per posting",
        "format": f"version {report.format_version}{written}",
        "clustered by": _clustering(report.clustering),
        "pruning": ", ".join(step_text(step_from_dict(step)) for step in report.config["pruning"]) or "none",
        "options": ", ".join(f"{name}={_plain(value)}" for name, value in report.config.items() if name != "pruning"),
    }
    for name, value in rows.items():
        table.add_row(name, Text(printable(value)))
    return table


def _clustering(clustering: Mapping[str, Any]) -> str:
    options = ", ".join(f"{name}={_plain(value)}" for name, value in clustering.items() if name != "kind")
    names = {"sparse": "sparse vectors", "dense": "dense vectors", "labels": "given labels"}
    return names.get(clustering.get("kind", ""), "not recorded") + (f" ({options})" if options else "")


def _sizes(report: IndexSummary, width: int) -> Iterator[RenderableType]:
    rows = [*_size_rows(report), ("total", report.num_bytes, "bold")]
    sizes = [size for _, size, _ in rows]
    columns = [
        Column(heading="structure, component", cells=[name for name, _, _ in rows], words=True),
        Column(heading="bytes", cells=[f"{size:,}" for size in sizes]),
        Column(heading="share", cells=[f"{size / report.num_bytes:.1%}" for size in sizes]),
        Column(heading="bytes/posting", cells=[f"{report.per_posting(size):.3f}" for size in sizes]),
    ]
    return tables([columns], width, [style for _, _, style in rows])


def _size_rows(report: IndexSummary) -> Iterator[tuple[str, int, str]]:
    """Yield name, bytes and style of every structure and its components."""
    for structure, total in report.structure_sizes.items():
        members = [item for item in report.sizes.items() if structure_of(item[0]) == structure]
        if len(members) == 1:
            yield f"{structure} ({members[0][0]})", total, ""
            continue
        yield structure, total, ""
        for name, size in sorted(members, key=lambda item: -item[1]):
            yield f"  {name}", size, "dim"


def _clusters(report: IndexSummary, encoding: str, width: int) -> tuple[str, Iterator[RenderableType]]:
    sizes = report.cluster_sizes
    summary = f"min {sizes.min():,}, median {np.median(sizes):,.0f}, mean {sizes.mean():,.1f}, max {sizes.max():,}"
    bars = report.cluster_histogram()
    most = max(bar.num_values for bar in bars)
    longest = max(5, min(_BAR_LENGTH, width - _BAR_MARGIN))
    mark = "█" if encoding.startswith("utf") else "#"
    columns = [
        Column(
            heading="documents",
            cells=[f"{bar.least:,} to {bar.most:,}" if bar.most > bar.least else f"{bar.least:,}" for bar in bars],
        ),
        Column(heading="clusters", cells=[f"{bar.num_values:,}" for bar in bars]),
        # rounded up: a bar that holds anything is seen
        Column(heading="", cells=[mark * -(-bar.num_values * longest // most) for bar in bars], words=True),
    ]
    return f"Cluster sizes: {summary}", tables([columns], width)


def _calibration(calibration: Calibration, width: int) -> tuple[str, Iterator[RenderableType]]:
    if not calibration.measured:
        return "Calibration: none, so searches by target_recall are exact", iter(())
    told = [calibration.expectation(each.k, target) for each in calibration.measured for target in _SHOWN_TARGETS]
    columns = [
        Column(heading="target_recall", cells=[f"{each.target_recall} at k = {each.k}" for each in told]),
        Column(heading="expected", cells=[f"{each.expected_recall:.3f}" for each in told]),
        Column(heading="work", cells=[f"{each.relative_cost:.0%}" for each in told]),
        Column(heading="queries", cells=[each.source_text for each in told], words=True),
        Column(heading="settings", cells=[each.settings_text for each in told], words=True),
    ]
    return "Calibration: what target_recall chooses; work as a share of that of exact search", tables([columns], width)


def _bounds(tightness: Tightness | None, width: int) -> tuple[str, Iterator[RenderableType]]:
    if tightness is None:
        return "Tightness of the bounds: not measured, as no query was asked for or none reaches a document", iter(())
    ratios = {
        "Actual/MaxSBound": tightness.max_bound.to_dict(),
        "Actual/BoundSum": tightness.bound_sum.to_dict(),
        "Actual/AvgSBound": tightness.avg_bound.to_dict(),
    }
    columns = [
        Column(heading="ratio", cells=list(ratios)),
        *(
            Column(heading=name, cells=[f"{each[name]:.3f}" for each in ratios.values()])
            for name in ("mean", "p10", "median", "p90")
        ),
    ]
    source = counted(tightness.num_queries, "query", "queries")
    if tightness.source == "documents":
        source = f"{counted(tightness.num_queries, 'document')} as queries, {STAND_IN_TERMS} terms each"
    return f"Tightness of the bounds ({source})", tables([columns], width)
