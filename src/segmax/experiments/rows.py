"""The methods that Tables 4 to 7 compare: the index of each, its parameters and its label."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from segmax.drawing.plot import Series
from segmax.experiments import printed
from segmax.experiments.collections import Collection
from segmax.experiments.measuring import VISITED, Measured, Plan, Row, figure, measure
from segmax.experiments.outcome import Cell
from segmax.experiments.task import Task
from segmax.search.methods import ASC, SearchParams

#: Up to this depth the paper's settings for k = 10 apply, above it those for k = 1000.
_SHALLOW = 100
#: The approximate methods by the paper's depth: μ of Anytime*, and μ of ASC (η = 1).
_ANYTIME_MU: Mapping[int, tuple[float, ...]] = {10: (0.9,), 1000: (0.9, 0.7)}
_ASC_MU: Mapping[int, tuple[float, ...]] = {10: (0.9,), 1000: (0.7, 0.5)}

SAFE = "rank-safe"
APPROXIMATE = "approximate"
OURS = "past the paper"


class MethodRow(NamedTuple):
    """A row of a table; `key` is that of the paper's row, if there is one."""

    key: str
    label: str
    kind: str
    plan: Plan
    params: SearchParams


class Plans(NamedTuple):
    """The indexes of Table 4: documents in input order, and the paper's 512*16 and 4096*8, scaled to a collection."""

    input_order: Plan
    coarse: Plan
    fine: Plan


def paper_depth(k: int) -> int:
    """Return the depth of the paper whose settings suit k.

    Examples
    --------
    >>> paper_depth(20), paper_depth(500)
    (10, 1000)
    """
    return 10 if k <= _SHALLOW else 1000


def plans(task: Task, collection: Collection) -> Plans:
    """Return the indexes of Table 4 for a collection."""
    coarse, fine = task.clusters(collection)
    return Plans(
        Plan(num_clusters=1, num_segments=1, document_order="row"),
        Plan(num_clusters=coarse, num_segments=printed.COARSE_SEGMENTS),
        Plan(num_clusters=fine, num_segments=printed.NUM_SEGMENTS),
    )


def clusters_note(made: Plans) -> str:
    """Return a note on how the paper's numbers of clusters are scaled."""
    if made.fine.num_clusters == printed.FINE_CLUSTERS:
        return ""
    return (
        f"The paper's {printed.COARSE_CLUSTERS}*{printed.COARSE_SEGMENTS} "
        f"and {printed.FINE_CLUSTERS}*{printed.NUM_SEGMENTS} "
        f"(clusters*segments, 8.8 million passages) are {made.coarse.shape} and {made.fine.shape} here."
    )


# --- single rows ------------------------------------------------------------------------------------------------------


def maxscore_row(task: Task, plan: Plan) -> MethodRow:
    """MaxScore without clusters, on documents in the order of the index."""
    if plan.document_order == "row":
        return MethodRow("maxscore input order", "MaxScore, input order", SAFE, plan, task.maxscore())
    return MethodRow("maxscore", "MaxScore, similarity order", SAFE, plan, task.maxscore())


def anytime_row(task: Task, plan: Plan, mu: float = 1.0, **more: Any) -> MethodRow:
    """Anytime Ranking, or Anytime* where μ < 1."""
    if mu == 1.0:
        return MethodRow("anytime", f"Anytime-{plan.num_clusters}", SAFE, plan, task.anytime(**more))
    label = f"Anytime*-{plan.num_clusters}, μ={mu:g}"
    return MethodRow(f"anytime {mu:g}", label, APPROXIMATE, plan, task.anytime(mu, **more))


def asc_row(task: Task, plan: Plan, mu: float = 1.0, **more: Any) -> MethodRow:
    """ASC with η = 1."""
    if mu == 1.0:
        return MethodRow("asc", f"ASC-{plan.shape}, μ=η=1", SAFE, plan, task.asc(**more))
    return MethodRow(f"asc {mu:g}", f"ASC-{plan.shape}, μ={mu:g}, η=1", APPROXIMATE, plan, task.asc(mu, **more))


#: The safe methods with clusters, by their keys.
_SAFE_ROWS = {"anytime": anytime_row, "asc": asc_row}


# --- tables -----------------------------------------------------------------------------------------------------------


def baseline_rows(task: Task, collection: Collection, k: int) -> list[MethodRow]:
    """Return the rows of Table 4, and segmax's own methods below them."""
    made = plans(task, collection)
    depth = paper_depth(k)
    rows = [
        maxscore_row(task, made.input_order),
        maxscore_row(task, made.fine),
        anytime_row(task, made.coarse),
        asc_row(task, made.coarse),
    ]
    for anytime_mu, asc_mu in zip(_ANYTIME_MU[depth], _ASC_MU[depth], strict=True):
        rows += [anytime_row(task, made.coarse, anytime_mu), asc_row(task, made.fine, asc_mu)]
    # Beyond the paper, which has the safe methods on few clusters only.
    rows += [row(task, made.fine)._replace(key=f"{name} fine") for name, row in _SAFE_ROWS.items()]
    ours = {"segmax": ASC(), "segmax 0.9": ASC(eta=0.9)}
    labels = {"segmax": "segmax.ASC(), the default", "segmax 0.9": "segmax.ASC(eta=0.9)"}
    return [*rows, *(MethodRow(key, labels[key], OURS, made.fine, params) for key, params in ours.items())]


def model_rows(task: Task, collection: Collection, k: int) -> list[MethodRow]:
    """Return the rows of Table 5, which are some of those of Table 4."""
    known = printed.TABLE_5[paper_depth(k)]
    return [row for row in baseline_rows(task, collection, k) if row.key in known]


def budget_rows(task: Task, collection: Collection, k: int, budget_ms: float | None) -> list[MethodRow]:
    """Return the rows of Table 7 for a budget."""
    made = plans(task, collection)
    limit = {} if budget_ms is None else {"budget_ms": budget_ms}
    return [
        anytime_row(task, made.coarse, **limit),
        asc_row(task, made.fine, **limit),
        anytime_row(task, made.coarse, 0.9, **limit),
        asc_row(task, made.fine, _ASC_MU[paper_depth(k)][0], **limit),
    ]


def zero_shot_rows(task: Task, plan: Plan, k: int) -> list[MethodRow]:
    """Return the methods of Table 6, all on one index."""
    return [maxscore_row(task, plan), anytime_row(task, plan, 0.9), asc_row(task, plan, _ASC_MU[paper_depth(k)][-1])]


def measure_rows(task: Task, collection: Collection, rows: Mapping[int, Sequence[MethodRow]]) -> Measured:
    """Measure rows, given by depth; every index is built only once per seed, for all of its rows."""
    by_plan: dict[Plan, dict[int, dict[str, SearchParams]]] = {}
    for k, several in rows.items():
        for row in several:
            by_plan.setdefault(row.plan, {}).setdefault(k, {})[row.key] = row.params
    found: dict[int, dict[str, Row]] = {k: {} for k in rows}
    records: list[Row] = []
    for plan, methods in by_plan.items():
        measured = measure(task, collection, plan, methods)
        records += measured.records
        for k, named in measured.rows.items():
            found[k].update(named)
    return Measured(found, records, {})


# --- as tables and plots ----------------------------------------------------------------------------------------------


def table(
    rows: Iterable[MethodRow], found: Mapping[str, Row], keys: Sequence[str], values: Mapping[str, tuple[Cell, ...]]
) -> tuple[tuple[Cell, ...], ...]:
    """Return a line per row: its label, its figures, and the paper's values."""
    width = len(next(iter(values.values()), ()))
    return tuple((row.label, *_cells(row, found[row.key], keys), *values.get(row.key, (None,) * width)) for row in rows)


def _cells(row: MethodRow, figures: Row, keys: Sequence[str]) -> Iterable[Cell]:
    """Return figures; segmax's own methods do not visit clusters one by one, so that share is left out for them."""
    return (None if row.kind == OURS and key == VISITED else figure(figures, key) for key in keys)


def points(rows: Iterable[MethodRow], found: Mapping[str, Row], key: str) -> tuple[Series, ...]:
    """Return every row as a point of its own: mean time against a figure."""
    return tuple(Series(label=row.label, x=(found[row.key]["mean_ms"],), y=(found[row.key][key],)) for row in rows)
