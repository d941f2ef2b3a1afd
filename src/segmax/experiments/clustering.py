"""Table 2: what documents are clustered by, with and without segments."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from segmax.building.clustering import Dense, Labels
from segmax.drawing.plot import Plot, Series
from segmax.experiments import printed
from segmax.experiments.catalog import LISTED
from segmax.experiments.collections import Collection
from segmax.experiments.experiment import Experiment
from segmax.experiments.measuring import (
    CLUSTERS_VISITED,
    VISITED,
    Plan,
    Row,
    compared,
    figure,
    is_faster,
    measure,
    sentences,
    visited,
)
from segmax.experiments.outcome import Cell, Finding, Outcome, Sheet
from segmax.experiments.task import Task
from segmax.experiments.verdicts import finding, is_larger, is_more, unknown

_SPARSE = "sparse"
#: The paper's names of representations, by ours; a collection may have others, too.
_PAPER_NAMES = {
    _SPARSE: "Sparse-SPLADE",
    "cls": "Dense-SPLADE-CLS",
    "mean": "Dense-SPLADE-Avg",
    "max": "Dense-SPLADE-Max",
    "simlm": "Dense-SimLM-CLS",
}
_ALIASES = {"avg": "mean", "mx": "max"}
#: Times that differ by a smaller share count as the same.
_CLOSE = 0.1


class Pair(NamedTuple):
    """Figures of safe ASC on clusters by one representation, without segments and with 8."""

    flat: Row
    segmented: Row


class Source(NamedTuple):
    """A representation: our name of it, and the collection's."""

    name: str
    given: str


def run(task: Task) -> Outcome:
    """Measure every representation that the collection has, with 1 and with 8 segments."""
    collection, k = task.collection, max(task.ks)
    sources = _sources(collection)
    number = _num_clusters(task, collection, sources)
    found: dict[str, Pair] = {}
    records: list[Row] = []
    for source in sources:
        if not _has(collection, source, number):
            continue
        rows = []
        for segments in (1, printed.NUM_SEGMENTS):
            measured = measure(task, collection, _plan(collection, source, number, segments), {k: {"asc": task.asc()}})
            records += measured.records
            rows.append(measured.rows[k]["asc"])
        found[source.name] = Pair(*rows)
    return Outcome(
        sheets=(_sheet(found, number, k),),
        plots=(_plot(found),),
        findings=findings(found),
        records=records,
    )


def _sources(collection: Collection) -> list[Source]:
    """Return the representations of a collection: the paper's first, in its order."""
    given = dict.fromkeys((*collection.dense, *collection.labels))
    named = {_ALIASES.get(name.lower(), name.lower()): name for name in given}
    names = [_SPARSE, *(name for name in _PAPER_NAMES if name in named and name != _SPARSE)]
    names += [name for name in named if name not in names]
    return [Source(name, named.get(name, _SPARSE)) for name in names]


def _num_clusters(task: Task, collection: Collection, sources: list[Source]) -> int:
    """Return the number of clusters for all: the fine number, or the number of given labels nearest to it."""
    _, fine = task.clusters(collection)
    known = {
        number
        for source in sources
        if source.given not in collection.dense
        for number in collection.labels.get(source.given, ())
    }
    return min(known, key=lambda number: abs(math.log(number / fine)), default=fine)


def _has(collection: Collection, source: Source, number: int) -> bool:
    """Whether a representation has this number of clusters, or can be clustered."""
    known = source.given == _SPARSE or source.given in collection.dense
    return known or number in collection.labels[source.given]


def _plan(collection: Collection, source: Source, number: int, segments: int) -> Plan:
    if source.given in collection.dense:
        clustering: Dense | Labels | None = Dense(collection.dense[source.given])
    elif source.given in collection.labels:
        clustering = Labels(collection.labels[source.given][number])
    else:
        clustering = None
    return Plan(num_clusters=number, num_segments=segments, representation=source.name, clustering=clustering)


def _sheet(found: Mapping[str, Pair], number: int, k: int) -> Sheet:
    rows: list[tuple[Cell, ...]] = []
    for name, pair in found.items():
        values = printed.TABLE_2.get(_PAPER_NAMES.get(name, ""))
        theirs = (None,) * 4 if values is None else _printed(values)
        ours = [figure(row, key) for row in pair for key in ("mean_ms", VISITED)]
        rows.append((_PAPER_NAMES.get(name, name), *ours, *theirs))
    columns = ("MRT ms", VISITED, "MRT ms, 8 segments", f"{VISITED}, 8 segments")
    return Sheet(
        title=f"Table 2: safe ASC (μ = η = 1) on {number} clusters, k = {k}",
        columns=("representation", *columns, *(f"paper {column}" for column in columns)),
        rows=tuple(rows),
        note=sentences(
            f"The paper has {printed.FINE_CLUSTERS} clusters of 8.8 million passages; its times fit k = 1000.",
            missing_note(found),
        ),
    )


def _printed(row: printed.Clustering) -> tuple[Cell, ...]:
    return (
        printed.three_digits(row.flat_ms),
        f"{row.flat_visited:g}",
        printed.three_digits(row.ms),
        f"{row.visited:g}",
    )


def missing_note(found: Mapping[str, Pair]) -> str:
    """Return a note on which of the paper's representations are missing, and how to get them."""
    missing = [name for name in _PAPER_NAMES if name not in found]
    if not missing:
        return ""
    pooled = [name for name in missing if name != "simlm"]
    how = [
        f"segmax encode --dense {name} makes the dense vectors of {_PAPER_NAMES[name]} beside the sparse ones"
        for name in pooled
    ]
    if "simlm" in missing:
        how.append(
            "Dense-SimLM-CLS takes an array of another model, 'simlm' under 'dense' in a collection's description"
        )
    return f"Left out, because the collection lacks them: {', '.join(missing)}. {'; '.join(how)}."


def _plot(found: Mapping[str, Pair]) -> Plot:
    places = tuple(float(place) for place in range(len(found)))
    return Plot(
        title="Clusters that safe ASC visits",
        x_label="representation",
        y_label="clusters visited, %",
        kind="bar",
        categories=tuple(found),
        series=(
            Series(label="1 segment", x=places, y=tuple(visited(pair.flat) for pair in found.values())),
            Series(label="8 segments", x=places, y=tuple(visited(pair.segmented) for pair in found.values())),
        ),
    )


def findings(found: Mapping[str, Pair]) -> tuple[Finding, ...]:
    """Return which of the paper's findings on Table 2 hold; `found` is by our names of representations."""
    shares = ", ".join(
        f"{name} {visited(pair.flat):.1f} → {visited(pair.segmented):.1f} %" for name, pair in found.items()
    )
    return (
        finding(
            "Segments let safe ASC prune more clusters than cluster maxima alone, whatever clusters are made of.",
            is_more(*(compared(pair.flat, pair.segmented, CLUSTERS_VISITED) for pair in found.values())),
            f"Clusters visited with 1 and with 8 segments: {shares}.",
        ),
        *(
            finding(
                f"Segments make safe ASC faster on clusters of {_PAPER_NAMES.get(name, name)}{_saved(name)}.",
                is_faster(pair.flat, pair.segmented),
                f"{pair.flat['mean_ms']:.3g} ms with 1 segment, {pair.segmented['mean_ms']:.3g} ms with 8.",
            )
            for name, pair in found.items()
        ),
        _max_like_sparse(found),
        *(_better(found, name) for name in ("cls", "mean", "simlm")),
    )


def _saved(name: str) -> str:
    """Return the time that segments save in the paper; nothing for a representation that it does not have."""
    values = printed.TABLE_2.get(_PAPER_NAMES.get(name, ""))
    return "" if values is None else f", {values.ms:g} ms after {values.flat_ms:g}"


def _max_like_sparse(found: Mapping[str, Pair]) -> Finding:
    claim = "Clusters of max-pooled token vectors are about as fast as those of sparse vectors."
    if "max" not in found:
        return finding(claim, unknown("the collection lacks max-pooled vectors"), "There is nothing to compare.")
    ours, sparse = found["max"].segmented["mean_ms"], found[_SPARSE].segmented["mean_ms"]
    apart = max(ours, sparse) / min(ours, sparse)
    return finding(
        claim,
        is_larger(1 + _CLOSE, apart, f"{_CLOSE:.0%} apart counts as about as fast; limit and ratio"),
        f"{ours:.3g} ms, and {sparse:.3g} ms with sparse vectors.",
    )


def _better(found: Mapping[str, Pair], other: str) -> Finding:
    claim = f"Max-pooled token vectors make better clusters than {_PAPER_NAMES[other]}: fewer are visited."
    if "max" not in found or other not in found:
        return finding(claim, unknown("the collection lacks one of the two"), "There is nothing to compare.")
    ours, theirs = found["max"].segmented, found[other].segmented
    return finding(
        claim,
        is_more(compared(theirs, ours, CLUSTERS_VISITED)),
        f"With 8 segments {visited(ours):.1f} % of clusters are visited, and {visited(theirs):.1f} % with {other}.",
    )


EXPERIMENT = Experiment(
    **LISTED["clustering"]._asdict(),
    description="""\
Clusters the same documents by their sparse vectors and by dense ones (CLS,
mean-pooled, max-pooled, and any other that the collection has), each with
one segment per cluster and with eight, and searches with safe ASC, μ = η = 1:
mean time and share of clusters visited. The depth is the largest k.

If a model encodes the texts, the dense vectors come with them. Otherwise the
description of the collection names them: an .npy file each under "dense", or
known clusters under "labels" (then all are compared at their number of
clusters). Missing representations are left out.""",
    run=run,
)
