"""A picture of an index: sizes, clusters, tightness. Needs matplotlib, the extra `plot`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from segmax.base.display import counted, size_text
from segmax.base.figures import INK, check_plot, finish, literal, new_figure, picture_format
from segmax.inspection.summary import IndexSummary, Tightness, structure_of
from segmax.io.writing import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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


def plot_report(report: IndexSummary, path: str | os.PathLike[str]) -> None:
    """Draw sizes per component, cluster sizes and the distribution of Actual/MaxSBound.

    Parameters
    ----------
    report
        What `inspect` returned.
    path
        Where to write the picture; its suffix tells the format: .png, .svg or .pdf.

    Raises
    ------
    ConfigError
        If matplotlib is not installed, or the suffix is none of these.
    """
    check_plot(path)
    figure = new_figure(15, 5)
    sizes, clusters, tightness = figure.subplots(1, 3, width_ratios=(1.25, 1, 1))
    _draw_sizes(sizes, report)
    _draw_clusters(clusters, report)
    _draw_tightness(tightness, report.tightness)
    name = Path(report.path).name if report.path else "index in memory"
    title = f"{literal(name)}: {counted(report.num_docs, 'document')}, {counted(report.num_postings, 'posting')}"
    figure.suptitle(title, color=INK, fontsize=13, fontweight="bold", x=0.01, ha="left")
    with write_whole(Path(path), overwrite=True) as file:
        figure.savefig(file, dpi=150, format=picture_format(path))


def _draw_sizes(axes: Axes, report: IndexSummary) -> None:
    small = report.num_bytes * _SMALL_SHARE
    bars = [(name, size, structure_of(name)) for name, size in report.sizes.items() if size >= small and size]
    bars.sort(key=lambda bar: bar[1])
    rest = report.num_bytes - sum(size for _, size, _ in bars)
    if rest:
        bars.insert(0, (f"{len(report.sizes) - len(bars)} smaller ones", rest, ""))
    unit, factor = _unit(report.num_bytes)
    values = [size / factor for _, size, _ in bars]
    colors = [_COLORS.get(structure, _OTHER_COLOR) for _, _, structure in bars]
    drawn = axes.barh([name for name, _, _ in bars], values, color=colors, height=0.72)
    labels = [f" {report.per_posting(size):.2f} B/posting" for _, size, _ in bars]
    axes.bar_label(drawn, labels, fontsize=8.5, color=INK)
    axes.set_xlim(0, max(values, default=1.0) * 1.32)
    axes.set_xlabel(unit)
    total = f"{size_text(report.num_bytes)}, {report.per_posting(report.num_bytes):.2f} bytes per posting"
    finish(axes, "Size by component", total, grid="x")
    _add_legend(axes, [structure for _, _, structure in reversed(bars)])


def _add_legend(axes: Axes, structures: list[str]) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(color=_COLORS.get(name, _OTHER_COLOR), label=name) for name in dict.fromkeys(structures) if name]
    axes.legend(handles=handles, loc="lower right", fontsize=8.5, frameon=False, labelcolor=INK)


def _draw_clusters(axes: Axes, report: IndexSummary) -> None:
    bars = report.cluster_histogram(min(_BINS, max(6, round(report.num_clusters**0.5))))
    width = bars[0].most - bars[0].least + 1
    lefts = [bar.least - 0.5 for bar in bars]
    axes.bar(
        lefts, [bar.num_values for bar in bars], width, align="edge", color="#5b9a68", edgecolor="white", linewidth=0.6
    )
    mean, median = report.cluster_sizes.mean(), np.median(report.cluster_sizes)
    _mark(axes, float(mean))
    axes.set_xlabel("documents in the cluster")
    axes.set_ylabel("clusters")
    _whole_ticks(axes)
    least, most = report.cluster_sizes.min(), report.cluster_sizes.max()
    sizes = f"{least:,} to {most:,}, median {median:,.0f}, mean {mean:,.0f} (dashed)"
    summary = f"{counted(report.num_clusters, 'cluster')}: {sizes}"
    finish(axes, "Cluster sizes", summary, grid="y")


def _draw_tightness(axes: Axes, tightness: Tightness | None) -> None:
    axes.set_xlim(0, 1)
    axes.set_xlabel("Actual / MaxSBound   (1: the bound is met)")
    if tightness is None:
        axes.text(0.5, 0.5, "no query", ha="center", va="center", color=INK, transform=axes.transAxes)
        axes.set_yticks([])
        finish(axes, "Tightness of the bounds", "not measured", grid="y")
        return
    values = tightness.max_bound.values
    edges = np.linspace(0, 1, 2 * _BINS + 1)
    shares = np.full(len(values), 100 / len(values))
    clipped = np.minimum(values, 1.0)  # by rounding alone could one be above
    axes.hist(clipped, bins=edges.tolist(), weights=shares, color="#de7c3c", edgecolor="white", linewidth=0.6)
    _mark(axes, tightness.max_bound.mean)
    axes.set_ylabel("% of query and cluster pairs")
    source = counted(tightness.num_queries, "query", "queries")
    if tightness.source == "documents":
        source = f"{counted(tightness.num_queries, 'document')} as queries"
    summary = f"{source}: mean {tightness.max_bound.mean:.2f} (dashed)"
    finish(axes, "Tightness of the bounds", summary, grid="y")


def _mark(axes: Axes, value: float) -> None:
    axes.axvline(value, color=INK, linewidth=1.2, linestyle=(0, (4, 3)))


def _whole_ticks(axes: Axes) -> None:
    """Mark whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=7, min_n_ticks=1))


def _unit(num_bytes: int) -> tuple[str, int]:
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if num_bytes >= factor:
            return unit, factor
    return "bytes", 1
