"""A picture of an index: sizes, clusters, tightness. Needs matplotlib, the extra `plot`."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from segmax.base.display import counted, size_text
from segmax.drawing.draw import draw
from segmax.drawing.figures import check_plot, save_figure
from segmax.drawing.plot import Plot, Series
from segmax.inspection.summary import IndexSummary, Tightness, structure_of

#: Colors of the structures, by kind: postings blue, bounds orange to red, the rest green and grey.
_COLORS = {
    "postings": "#2f6f9f",
    "runs of postings": "#7fb2d6",
    "block bounds": "#b5462e",
    "segment bounds": "#de7c3c",
    "cluster bounds": "#efb366",
    "documents": "#5b9a68",
    "terms": "#a3c9a0",
    "ids and vocabulary": "#8c8c98",
}
_OTHER_COLOR = "#c9c9cf"
_SMALL_SHARE = 0.01  # components below it share a bar
_BINS = 24


def plot_summary(summary: IndexSummary, path: str | os.PathLike[str]) -> None:
    """Draw sizes per component, cluster sizes and the distribution of Actual/MaxSBound.

    Parameters
    ----------
    summary
        What `segmax.inspect` returned.
    path
        Where to write the picture, which is a PNG, SVG or PDF by its suffix.

    Raises
    ------
    MissingPackageError
        If matplotlib is not installed.
    ConfigError
        If the suffix is none of these.
    """
    check_plot(path)
    name = Path(summary.path).name if summary.path else "index in memory"
    title = f"{name}: {counted(summary.num_docs, 'document')}, {counted(summary.num_postings, 'posting')}"
    plots = (_sizes(summary), _clusters(summary), _tightness(summary.tightness))
    save_figure(draw(plots, width=15, height=5, title=title, ratios=(1.25, 1, 1)), path)


def _sizes(summary: IndexSummary) -> Plot:
    small = summary.num_bytes * _SMALL_SHARE
    bars = [(name, size) for name, size in summary.sizes.items() if size >= small and size]
    bars.sort(key=lambda bar: bar[1])
    rest = summary.num_bytes - sum(size for _, size in bars)
    if rest:
        bars.insert(0, (f"{len(summary.sizes) - len(bars)} smaller ones", rest))
    unit, factor = _unit(summary.num_bytes)
    by_structure: dict[str, list[tuple[int, int]]] = {}
    for place, (name, size) in enumerate(bars):
        by_structure.setdefault(structure_of(name), []).append((place, size))
    series = tuple(
        Series(
            label=structure,
            x=tuple(size / factor for _, size in here),
            y=tuple(float(place) for place, _ in here),
            marks=tuple(f"{summary.per_posting(size):.2f} B/posting" for _, size in here),
            color=_COLORS.get(structure, _OTHER_COLOR),
        )
        for structure, here in by_structure.items()
    )
    return Plot(
        title="Size by component",
        summary=f"{size_text(summary.num_bytes)}, {summary.per_posting(summary.num_bytes):.2f} bytes per posting",
        x_label=unit,
        y_label="",
        kind="rows",
        categories=tuple(name for name, _ in bars),
        series=series,
    )


def _clusters(summary: IndexSummary) -> Plot:
    bars = summary.cluster_histogram(min(_BINS, max(6, round(summary.num_clusters**0.5))))
    sizes = summary.cluster_sizes
    mean, median = float(sizes.mean()), np.median(sizes)
    spread = f"{sizes.min():,} to {sizes.max():,}, median {median:,.0f}, mean {mean:,.0f} (dashed)"
    return Plot(
        title="Cluster sizes",
        summary=f"{counted(summary.num_clusters, 'cluster')}: {spread}",
        x_label="documents in the cluster",
        y_label="clusters",
        kind="histogram",
        series=(
            Series(
                label="clusters",
                x=tuple(bar.least - 0.5 for bar in bars),
                ends=tuple(bar.most + 0.5 for bar in bars),
                y=tuple(bar.num_values for bar in bars),
                color="#5b9a68",
            ),
        ),
        center=mean,
        whole=True,
    )


def _tightness(tightness: Tightness | None) -> Plot:
    source, series = "not measured", Series(label="pairs", x=(), y=())
    if tightness is not None:
        found = tightness.max_bound
        heights, edges = np.histogram(np.minimum(found.values, 1.0), np.linspace(0, 1, 2 * _BINS + 1))  # 1 by rounding
        shares = 100 * heights / len(found.values)
        left, right = tuple(edges[:-1].tolist()), tuple(edges[1:].tolist())
        series = Series(label="pairs", x=left, ends=right, y=tuple(shares.tolist()), color="#de7c3c")
        source = f"{_queries(tightness)}: mean {found.mean:.2f} (dashed)"
    return Plot(
        title="Tightness of the bounds",
        summary=source,
        x_label="Actual / MaxSBound   (1: the bound is met)",
        y_label="" if tightness is None else "% of query and cluster pairs",
        kind="histogram",
        series=(series,),
        center=None if tightness is None else tightness.max_bound.mean,
        x_range=(0, 1),
        empty="no query",
    )


def _queries(tightness: Tightness) -> str:
    if tightness.source == "documents":
        return f"{counted(tightness.num_queries, 'document')} as queries"
    return counted(tightness.num_queries, "query", "queries")


def _unit(num_bytes: int) -> tuple[str, int]:
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if num_bytes >= factor:
            return unit, factor
    return "bytes", 1
