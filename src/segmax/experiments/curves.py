"""Curves of recall against time, a point per μ: what Figures 3 and 6 have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from segmax.drawing.plot import Plot, Series
from segmax.experiments.collections import Collection
from segmax.experiments.measuring import (
    VISITED,
    Plan,
    Row,
    cells,
    heading,
    headings,
    measure,
    mrr_key,
    quality_keys,
)
from segmax.experiments.outcome import Sheet
from segmax.experiments.task import Task
from segmax.search.methods import SearchParams

#: The least number of documents per cluster.
_LEAST_DOCS = 16


#: The label of an axis whose points are marked by μ.
MARKED_BY_MU = "numbers at points are μ"


class Curve(NamedTuple):
    """One method on one index: figures by μ."""

    label: str
    plan: Plan
    rows: Mapping[float, Row]

    def recalls(self, key: str) -> list[float]:
        """Return recall by ascending μ."""
        return [self.rows[mu][key] for mu in sorted(self.rows)]

    @property
    def times(self) -> list[float]:
        """Mean times by ascending μ."""
        return [self.rows[mu]["mean_ms"] for mu in sorted(self.rows)]


def scaled_clusters(task: Task, collection: Collection, wanted: Sequence[int]) -> dict[int, int]:
    """Return our number of clusters for each of the paper's, all scaled by the same factor.

    The largest is the user's choice, at most one per document; by default the paper's, scaled down if that leaves fewer
    than 16 documents per cluster. Of numbers that become equal, the largest of the paper's is kept.
    """
    paper_most = max(wanted)
    chosen = task.num_clusters or min(paper_most, collection.num_docs // _LEAST_DOCS)
    most = max(1, min(chosen, collection.num_docs))
    ours = {max(1, round(number * most / paper_most)): number for number in sorted(wanted)}
    return {number: scaled for scaled, number in ours.items()}


def scaling_note(clusters: Mapping[int, int]) -> str:
    """Return a note on how numbers of clusters were scaled; an empty one if they were not."""
    if all(number == scaled for number, scaled in clusters.items()):
        return ""
    pairs = ", ".join(f"{scaled} for {number}" for number, scaled in clusters.items())
    return f"The paper's numbers of clusters are scaled to this collection, or by --num-clusters: {pairs}."


def measure_curves(
    task: Task, collection: Collection, plan: Plan, k: int, wanted: Mapping[str, Mapping[float, SearchParams]]
) -> tuple[list[Curve], list[Row]]:
    """Measure curves on one index, given by label and μ; return them with their records."""
    named = {f"{label}, μ={mu:g}": params for label, methods in wanted.items() for mu, params in methods.items()}
    found = measure(task, collection, plan, {k: named})
    curves = [
        Curve(label, plan, {mu: found.rows[k][f"{label}, μ={mu:g}"] for mu in methods})
        for label, methods in wanted.items()
    ]
    return curves, found.records


def curves_sheet(curves: Iterable[Curve], collection: Collection, k: int, title: str, note: str) -> Sheet:
    """Return all points as a table."""
    keys = (VISITED, *quality_keys(collection, k), "mean_ms", "p99_ms")
    return Sheet(
        title=title,
        columns=("curve", "μ", *headings(keys)),
        rows=tuple((one.label, f"{mu:g}", *cells(one.rows[mu], keys)) for one in curves for mu in sorted(one.rows)),
        note=note,
    )


def curves_plots(curves: Sequence[Curve], collection: Collection, k: int, title: str) -> tuple[Plot, ...]:
    """Return plots of the curves: by recall, if there are judgments, and by recall of exact."""
    return tuple(
        Plot(
            title=f"{title}: {heading(key)}",
            x_label=f"mean time, ms; {MARKED_BY_MU}",
            y_label=heading(key),
            series=tuple(
                Series(
                    label=one.label,
                    x=tuple(one.times),
                    y=tuple(one.recalls(key)),
                    marks=tuple(f"{mu:g}" for mu in sorted(one.rows)),
                )
                for one in curves
            ),
        )
        for key in quality_keys(collection, k)
        if key != mrr_key(k)
    )
