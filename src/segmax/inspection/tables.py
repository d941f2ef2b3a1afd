"""The summary of an index as tables for rich."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from segmax.base.display import counted, printable, size_text
from segmax.base.text_table import Column, tables
from segmax.inspection.summary import STAND_IN_TERMS, IndexSummary, Tightness, step_text, structure_of
from segmax.search.calibration import Calibration
from segmax.vectors.pruning import step_from_dict

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

_SHOWN_TARGETS = (0.95, 0.99)
_BAR_LENGTH = 40
_BAR_MARGIN = 35  # for the columns before the bars


def rendered(summary: IndexSummary, encoding: str, width: int) -> Iterator[RenderableType]:
    """Yield the tables, none wider than `width`; bars are blocks where the encoding has them."""
    from rich.text import Text

    name = printable(summary.path or "in memory")
    yield Text(f"segmax index {name}", style="bold", overflow="fold", end="\n\n")
    yield _counts(summary)
    for title, parts in (
        ("Sizes", _sizes(summary, width)),
        _clusters(summary, encoding, width),
        _calibration(summary.calibration, width),
        _bounds(summary.tightness, width),
    ):
        yield Text(f"\n{title}", style="bold", overflow="fold")
        yield from parts


def _plain(value: object) -> str:
    words = {"None": "default", "True": "yes", "False": "no"}
    return words.get(str(value), str(value))


def _counts(summary: IndexSummary) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    mean_terms = summary.num_postings / summary.num_docs
    written = f", generation {summary.generation}" if summary.generation is not None else ""
    rows = {
        "documents": f"{summary.num_docs:,}",
        "terms": f"{summary.num_terms:,}",
        "postings": f"{summary.num_postings:,} ({mean_terms:.1f} per document)",
        "clusters": f"{summary.num_clusters:,} x {counted(summary.num_segments, 'segment')}",
        "weights": f"{summary.bits} bits, quantization error {summary.quantization_error:.3%}",
        "size": f"{size_text(summary.num_bytes)}, {summary.per_posting(summary.num_bytes):.2f} bytes per posting",
        "format": f"version {summary.format_version}{written}",
        "clustered by": _clustering(summary.clustering),
        "pruning": ", ".join(step_text(step_from_dict(step)) for step in summary.config["pruning"]) or "none",
        "options": ", ".join(f"{name}={_plain(value)}" for name, value in summary.config.items() if name != "pruning"),
    }
    for name, value in rows.items():
        table.add_row(name, Text(printable(value)))
    return table


def _clustering(clustering: Mapping[str, Any]) -> str:
    options = ", ".join(f"{name}={_plain(value)}" for name, value in clustering.items() if name != "kind")
    names = {
        "sparse": "sparse vectors",
        "dense": "dense vectors",
        "pooled": "pooled token embeddings",
        "labels": "given labels",
        "as they came": "nothing yet",
    }
    return names.get(clustering.get("kind", ""), "not recorded") + (f" ({options})" if options else "")


def _sizes(summary: IndexSummary, width: int) -> Iterator[RenderableType]:
    rows = [*_size_rows(summary), ("total", summary.num_bytes, "bold")]
    sizes = [size for _, size, _ in rows]
    columns = [
        Column(heading="structure, component", cells=[name for name, _, _ in rows], words=True),
        Column(heading="bytes", cells=[f"{size:,}" for size in sizes]),
        Column(heading="share", cells=[f"{size / summary.num_bytes:.1%}" for size in sizes]),
        Column(heading="bytes/posting", cells=[f"{summary.per_posting(size):.3f}" for size in sizes]),
    ]
    return tables([columns], width, [style for _, _, style in rows])


def _size_rows(summary: IndexSummary) -> Iterator[tuple[str, int, str]]:
    """Yield name, bytes and style of every structure and its components."""
    for structure, total in summary.structure_sizes.items():
        members = [item for item in summary.sizes.items() if structure_of(item[0]) == structure]
        if len(members) == 1:
            yield f"{structure} ({members[0][0]})", total, ""
            continue
        yield structure, total, ""
        for name, size in sorted(members, key=lambda item: -item[1]):
            yield f"  {name}", size, "dim"


def _clusters(summary: IndexSummary, encoding: str, width: int) -> tuple[str, Iterator[RenderableType]]:
    sizes = summary.cluster_sizes
    spread = f"min {sizes.min():,}, median {np.median(sizes):,.0f}, mean {sizes.mean():,.1f}, max {sizes.max():,}"
    bars = summary.cluster_histogram()
    most = max(bar.num_values for bar in bars)
    longest = max(5, min(_BAR_LENGTH, width - _BAR_MARGIN))
    mark = "█" if encoding.startswith("utf") else "#"
    columns = [
        Column(
            heading="documents",
            cells=[f"{bar.least:,} to {bar.most:,}" if bar.most > bar.least else f"{bar.least:,}" for bar in bars],
        ),
        Column(heading="clusters", cells=[f"{bar.num_values:,}" for bar in bars]),
        # rounded up, so that every bar that holds something is visible
        Column(heading="", cells=[mark * -(-bar.num_values * longest // most) for bar in bars], words=True),
    ]
    return f"Cluster sizes: {spread}", tables([columns], width)


def _calibration(calibration: Calibration, width: int) -> tuple[str, Iterator[RenderableType]]:
    if not calibration.measured:
        return "Calibration: none, so searches by target_recall are exact", iter(())
    found = [calibration.expectation(each.k, target) for each in calibration.measured for target in _SHOWN_TARGETS]
    columns = [
        Column(heading="target_recall", cells=[f"{each.target_recall} at k = {each.k}" for each in found]),
        Column(heading="expected", cells=[f"{each.expected_recall:.3f}" for each in found]),
        Column(heading="work", cells=[f"{each.relative_cost:.0%}" for each in found]),
        Column(heading="queries", cells=[each.source_text for each in found], words=True),
        Column(heading="settings", cells=[each.settings_text for each in found], words=True),
    ]
    return "Calibration: what target_recall chooses; work is relative to exact search", tables([columns], width)


def _bounds(tightness: Tightness | None, width: int) -> tuple[str, Iterator[RenderableType]]:
    if tightness is None:
        return "Tightness of the bounds: not measured (no queries, or none that reaches a document)", iter(())
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
