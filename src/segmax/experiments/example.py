"""Figure 4: the worked example of the paper, built as an index and searched."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from segmax import _core
from segmax.building.builder import build
from segmax.drawing.plot import Plot, Series
from segmax.experiments.catalog import LISTED
from segmax.experiments.experiment import Experiment
from segmax.experiments.outcome import Cell, Finding, Outcome, Sheet
from segmax.experiments.task import Task
from segmax.experiments.verdicts import counted, finding
from segmax.search.index import Index
from segmax.search.methods import SearchParams
from segmax.search.results import ClusterBounds
from segmax.storage.config import BuildConfig

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    from segmax.base.optional import scipy_sparse as sp

#: Term maxima of the two segments of each cluster, in tenths.
_SEGMENTS = {
    1: ([30, 1, 0], [26, 3, 0]),
    2: ([50, 46, 0], [40, 48, 0]),
    3: ([57, 40, 0], [15, 0, 40]),
    4: ([70, 66, 0], [60, 25, 27]),
}
_QUERY = {0: 1, 1: 1, 2: 1}
_THETA = 90
_TENTHS = 10
_MU = 0.9  # of Anytime* and ASC
#: A cluster that is not in the figure: it is visited first and sets θ to 9.
_FIRST = 5
_FIRST_DOCS = ([90, 0, 0], [0, 85, 0])

#: The printed table.
_BOUNDS = {
    "BoundSum": (3.3, 9.8, 13.7, 16.3),
    "MaxSBound": (3.1, 9.6, 9.7, 13.6),
    "AvgSBound": (3.0, 9.2, 7.6, 12.4),
}
_DECISIONS = {
    "Anytime": ("pruned", "kept", "kept", "kept"),
    "Anytime* μ = 0.9": ("pruned", "pruned", "kept", "kept"),
    "ASC μ = 0.9, η = 1": ("pruned", "kept", "pruned", "kept"),
}

_DESCRIPTION = """\
Builds an index with the four clusters, the segments and the weights of the
paper's Figure 4, searches it with Anytime Ranking, Anytime* and ASC, and prints
its bounds and decisions beside the paper's. Needs no collection.
"""


def run(task: Task) -> Outcome:
    """Search the example and compare the outcome with the paper's."""
    index = example_index()
    methods: dict[str, SearchParams] = dict(
        zip(_DECISIONS, (task.anytime(), task.anytime(_MU), task.asc(_MU)), strict=True)
    )
    bounds = _bounds(index.cluster_bounds(_QUERY))
    decisions = {name: decided(index, params) for name, params in methods.items()}
    return Outcome(
        sheets=(_sheet(bounds, decisions),),
        plots=(_plot(bounds),),
        findings=(_bounds_agree(bounds), *(_decisions_agree(name, decisions[name]) for name in _DECISIONS)),
        records=[
            *({"row": name, "clusters": list(values)} for name, values in bounds.items()),
            *({"row": name, "clusters": list(words)} for name, words in decisions.items()),
        ],
    )


def example_index() -> Index:
    """Return the example as an index: a document per weight, so that no score passes θ.

    Segment maxima are rounded up to maxima of blocks. So each document has a block to itself, beside documents of a
    term that the query does not have.
    """
    docs = [
        (cluster, segment, [weight if column == term else 0 for column in _QUERY])
        for cluster, parts in _SEGMENTS.items()
        for segment, maxima in enumerate(parts)
        for term, weight in enumerate(maxima)
        if weight
    ]
    docs += [(_FIRST, 0, weights) for weights in _FIRST_DOCS]
    rows = np.zeros((len(docs) * _core.BLOCK_DOCS, len(_QUERY) + 1), dtype=np.int64)
    rows[:, -1] = 1
    rows[:: _core.BLOCK_DOCS] = [[*weights, 0] for _, _, weights in docs]
    clusters, segments = (np.repeat([doc[i] for doc in docs], _core.BLOCK_DOCS) for i in (0, 1))
    config = BuildConfig(num_segments=2, document_order="row", calibrate=False)
    return build(sp.csr_matrix(rows), clustering=clusters, segments=segments, config=config, progress=False)


def decided(index: Index, params: SearchParams) -> tuple[str, ...]:
    """Return what a search did with clusters 1 to 4, which it meets with θ = 9."""
    hits = index.search(_QUERY, k=1, params=params, trace=True)
    assert hits.trace is not None
    assert all(entry.threshold == _THETA for entry in hits.trace if entry.cluster != _FIRST)
    visited = {entry.cluster for entry in hits.trace if entry.decision == "visited"}
    return tuple("kept" if cluster in visited else "pruned" for cluster in _SEGMENTS)


def _bounds(bounds: ClusterBounds) -> dict[str, tuple[float, ...]]:
    columns = (bounds.bound_sum, bounds.max_bound, bounds.avg_bound)
    return {
        name: tuple(float(value) / _TENTHS for value in values[: len(_SEGMENTS)])
        for name, values in zip(_BOUNDS, columns, strict=True)
    }


def _sheet(bounds: dict[str, tuple[float, ...]], decisions: dict[str, tuple[str, ...]]) -> Sheet:
    rows: list[tuple[Cell, ...]] = []
    for name, values in bounds.items():
        rows.append((name, "segmax", *(f"{value:.1f}" for value in values)))
        rows.append((name, "paper", *(f"{value:.1f}" for value in _BOUNDS[name])))
    for name, words in decisions.items():
        rows += [(name, "segmax", *words), (name, "paper", *_DECISIONS[name])]
    columns = ("θ = 9", "", *(f"cluster {cluster}" for cluster in _SEGMENTS))
    return Sheet(title="Bounds and decisions of the example, ours and as printed", columns=columns, rows=tuple(rows))


def _plot(bounds: dict[str, tuple[float, ...]]) -> Plot:
    places = tuple(float(place) for place in range(len(_SEGMENTS)))
    return Plot(
        title="Bounds of the example, and what they are compared with",
        x_label="",
        y_label="bound",
        kind="bar",
        categories=tuple(f"cluster {cluster}" for cluster in _SEGMENTS),
        series=tuple(Series(label=name, x=places, y=values) for name, values in bounds.items()),
        levels={"θ = 9": _THETA / _TENTHS, f"θ/μ = {_THETA / _TENTHS / _MU:g}": _THETA / _TENTHS / _MU},
    )


def _bounds_agree(bounds: dict[str, tuple[float, ...]]) -> Finding:
    agree = all(np.allclose(values, _BOUNDS[name], atol=1e-9) for name, values in bounds.items())
    return finding(
        "The bounds of the four clusters are as printed.",
        counted(agree, "a bound that differs in its printed digit refutes it"),
        f"{'All' if agree else 'Not all'} twelve bounds are the printed ones.",
    )


def _decisions_agree(name: str, words: tuple[str, ...]) -> Finding:
    pruned = [str(cluster) for cluster, word in zip(_SEGMENTS, words, strict=True) if word == "pruned"]
    printed = [str(c) for c, word in zip(_SEGMENTS, _DECISIONS[name], strict=True) if word == "pruned"]
    return finding(
        f"{name} prunes cluster {' and '.join(printed)} and keeps the others.",
        counted(words == _DECISIONS[name], "a single other decision refutes it"),
        f"It prunes {'cluster ' + ' and '.join(pruned) if pruned else 'none'} here.",
    )


EXPERIMENT = Experiment(
    **LISTED["example"]._asdict(),
    description=_DESCRIPTION,
    run=run,
    needs_data=False,
)
