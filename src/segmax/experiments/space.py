"""Section 3.2: what cluster and segment maxima cost in bytes."""

from __future__ import annotations

from typing import Any

from segmax.base.display import size_text
from segmax.drawing.plot import Plot, Series
from segmax.experiments import printed
from segmax.experiments.catalog import LISTED
from segmax.experiments.experiment import Experiment
from segmax.experiments.outcome import Finding, Outcome, Sheet
from segmax.experiments.task import Task
from segmax.experiments.verdicts import finding, is_larger
from segmax.inspection.summary import STRUCTURES
from segmax.search.index import Index

_CLUSTER_PARTS = ("cluster bounds",)
_SEGMENT_PARTS = ("segment bounds",)
_BLOCK_PARTS = ("block bounds",)

#: Up to this many times the paper's share of extra bytes counts as "about" the same.
_ACCEPTABLE = 2

_DESCRIPTION = """\
Builds an index with the paper's kind of clusters and 8 segments each, and
counts bytes: without any maxima of clusters (what MaxScore needs), with cluster
maxima (Anytime Ranking), with segment maxima (ASC), and with the block maxima
that segmax adds. Needs documents only; --num-clusters sets their clusters.
"""


def run(task: Task) -> Outcome:
    """Build, count, compare with the paper's 9 %."""
    collection = task.collection
    _, fine = task.clusters(collection)
    key = {"step": "sizes", "num_clusters": fine, "num_segments": printed.NUM_SEGMENTS}

    def compute() -> dict[str, Any]:
        with task.build(collection, num_clusters=fine, num_segments=printed.NUM_SEGMENTS) as index:
            return counted(index)

    counts = task.step(key, compute)
    return Outcome(
        sheets=(_sizes(counts), _components(counts)),
        plots=(_plot(counts),),
        findings=_findings(counts),
        records=[{**key, "collection": collection.name, **counts}],
    )


def counted(index: Index) -> dict[str, Any]:
    """Return the bytes of an index, structure by structure, and of four kinds of index that it contains."""
    sizes = index.sizes()
    maxima = index._open_arrays["segment_max"]
    structures = {name: sum(sizes.get(part, 0) for part in parts) for name, parts in STRUCTURES.items()}

    def total(without: tuple[str, ...]) -> int:
        return sum(size for name, size in structures.items() if name not in ("texts", *without))

    return {
        "num_clusters": index.num_clusters,
        "num_segments": index.num_segments,
        "num_postings": index.num_postings,
        "docs_per_cluster": index.num_docs / index.num_clusters,
        "plain": total((*_CLUSTER_PARTS, *_SEGMENT_PARTS, *_BLOCK_PARTS)),
        "clusters": total((*_SEGMENT_PARTS, *_BLOCK_PARTS)),
        "segments": total(_BLOCK_PARTS),
        "whole": total(()),
        "structures": structures,
        "zero_maxima": float((maxima == 0).mean()) if len(maxima) else 0.0,
        "zero_bytes": int((maxima == 0).sum()) * maxima.itemsize,
    }


def _share(counts: dict[str, Any], what: str) -> float:
    return float(counts[what] / counts["plain"] - 1) if counts["plain"] else 0.0


_KINDS = {
    "plain": "without cluster information (MaxScore)",
    "clusters": "with cluster maxima (Anytime)",
    "segments": "with cluster and segment maxima (ASC)",
    "whole": "with block maxima too (segmax)",
}


def _sizes(counts: dict[str, Any]) -> Sheet:
    theirs = {
        "plain": f"{printed.SECTION_3_2.maxscore_gb} GB",
        "segments": f"{printed.SECTION_3_2.asc_gb} GB",
    }
    shares = {"segments": f"+{printed.SECTION_3_2.overhead_percent:g} %", "clusters": "less"}
    postings = max(1, counts["num_postings"])
    rows = tuple(
        (
            text,
            size_text(counts[kind]),
            f"{counts[kind] / postings:.3f}",
            "" if kind == "plain" else f"+{100 * _share(counts, kind):.1f} %",
            theirs.get(kind),
            shares.get(kind),
        )
        for kind, text in _KINDS.items()
    )
    sparse = _share({**counts, "segments": counts["segments"] - counts["zero_bytes"]}, "segments")
    return Sheet(
        title=f"Size with {counts['num_clusters']:,} clusters of {counts['num_segments']} segments",
        columns=("index", "size", "bytes per posting", "more", "paper: size", "paper: more"),
        rows=rows,
        note="The paper's figures are of 8.8 M passages in 4,096 clusters, with compressed postings. Our postings are "
        "kept by blocks of eight documents, which is what a search without block maxima would need as well. For each "
        f"of the {counts['num_segments']} segments of a cluster, a term in at least half of the clusters has four "
        "bits, also where it does not occur; other terms have a bit that says whether the segment has the term. "
        f"{counts['zero_maxima']:.0%} of the bytes of the first kind hold two zeros. The paper stores only what is not "
        f"0. Without these bytes it would be +{100 * sparse:.1f} % here, not counting the positions that a sparse "
        "format needs.",
    )


def _components(counts: dict[str, Any]) -> Sheet:
    postings = max(1, counts["num_postings"])
    named = sorted(counts["structures"].items(), key=lambda item: -item[1])
    rows = tuple((name, size_text(size), f"{size / postings:.3f}") for name, size in named if size)
    return Sheet(title="Bytes by structure", columns=("structure", "size", "bytes per posting"), rows=rows)


def _plot(counts: dict[str, Any]) -> Plot:
    kinds = tuple(_KINDS)
    postings = max(1, counts["num_postings"])
    return Plot(
        title="Bytes per posting",
        x_label="",
        y_label="bytes per posting",
        kind="bar",
        categories=("plain", "cluster maxima", "segment maxima", "block maxima"),
        series=(
            Series(
                label="segmax",
                x=tuple(float(place) for place in range(len(kinds))),
                y=tuple(counts[kind] / postings for kind in kinds),
            ),
        ),
    )


def _findings(counts: dict[str, Any]) -> tuple[Finding, ...]:
    clusters, segments = _share(counts, "clusters"), _share(counts, "segments")
    limit = _ACCEPTABLE * printed.SECTION_3_2.overhead_percent / 100
    what = f"up to {_ACCEPTABLE} times the paper's share counts as about as much; limit and share"
    return (
        finding(
            "Maxima of 8 segments per cluster make the index about 9 % larger, which is acceptable.",
            is_larger(limit, segments, what),
            f"Cluster and segment maxima make it {100 * segments:.1f} % larger here, with "
            f"{counts['docs_per_cluster']:,.0f} documents per cluster (the paper: {printed.DOCS_PER_CLUSTER:,}).",
        ),
        finding(
            "Anytime Ranking needs less: maxima of clusters only.",
            is_larger(segments, clusters, "shares"),
            f"Cluster maxima alone make it {100 * clusters:.1f} % larger, with segment maxima it is "
            f"{100 * segments:.1f} %.",
        ),
    )


EXPERIMENT = Experiment(
    **LISTED["space"]._asdict(),
    description=_DESCRIPTION,
    run=run,
)
