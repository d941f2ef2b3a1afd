"""Table 5: the methods of Table 4 on the vectors of several models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from segmax.drawing.plot import Plot, Series
from segmax.experiments import printed
from segmax.experiments.catalog import LISTED
from segmax.experiments.collections import Collection
from segmax.experiments.experiment import Experiment
from segmax.experiments.measuring import (
    Row,
    compared,
    faster,
    heading,
    is_faster,
    mrr_key,
    quality_note,
    recall_key,
    sentences,
    unique_names,
)
from segmax.experiments.outcome import Cell, Finding, Outcome, Sheet
from segmax.experiments.rows import MethodRow, clusters_note, measure_rows, model_rows, paper_depth, plans
from segmax.experiments.task import Task
from segmax.experiments.tested import no_degradation, t_tests, tested_sheets
from segmax.experiments.verdicts import finding, is_as_good


def run(task: Task) -> Outcome:
    """Measure the rows of Table 5 on every collection."""
    collections = dict(zip(unique_names(task.collections), task.collections, strict=True))
    rows = {name: {k: model_rows(task, c, k) for k in task.ks} for name, c in collections.items()}
    measured = {name: measure_rows(task, c, rows[name]) for name, c in collections.items()}
    first = rows[next(iter(rows))]
    sheets: list[Sheet] = []
    plots: list[Plot] = []
    conclusions: list[Finding] = []
    for k in task.ks:
        found = {name: one.rows[k] for name, one in measured.items()}
        sheets.append(_sheet(task, collections, k, first[k], found))
        plots.append(_plot(k, first[k], found))
        for name, collection in collections.items():
            tests = t_tests(found[name], _tested(k))
            sheets += tested_sheets(f"t-tests, {name}, k = {k}", tests, {row.key: _label(row) for row in first[k]})
            conclusions += findings(name, k, found[name], recall_key(collection, k))
            conclusions.append(no_degradation(f"{name}, k = {k}", tests))
    records = [record for one in measured.values() for record in one.records]
    return Outcome(sheets=tuple(sheets), plots=tuple(plots), findings=tuple(conclusions), records=records)


def _sheet(
    task: Task,
    collections: Mapping[str, Collection],
    k: int,
    rows: Sequence[MethodRow],
    found: Mapping[str, Mapping[str, Row]],
) -> Sheet:
    values = printed.TABLE_5.get(k, {})
    columns = [column for name, c in collections.items() for column in (f"{name} {_heading(c)}", f"{name} MRT ms")]
    if values:
        columns += [f"paper {model} {what}" for model in printed.TABLE_5_MODELS for what in ("MRR (R)", "MRT ms")]
    lines: list[tuple[Cell, ...]] = []
    for row in rows:
        line: list[Cell] = [_label(row)]
        for name, collection in collections.items():
            figures = found[name][row.key]
            line += [_quality(collection, k, figures), figures["mean_ms"]]
        for value in values.get(row.key, ()):
            line += [f"{value.quality:.3f} ({value.recall:.3f})", printed.two_digits(value.ms)]
        lines.append(tuple(line))
    notes = [
        f"{name}: {note}"
        for name, c in collections.items()
        for note in (clusters_note(plans(task, c)), quality_note(c))
        if note
    ]
    return Sheet(
        title=f"Table 5, k = {k}, no time budget",
        columns=("method", *columns),
        rows=tuple(lines),
        note=sentences(f"R is Recall@{k}.", *(notes if k == task.ks[0] else ())),
    )


def _label(row: MethodRow) -> str:
    """Return the label of a row without its number of clusters, in which collections differ."""
    name, _, options = row.label.partition(", ")
    return f"{name.partition('-')[0]}{', ' if options else ''}{options}"


def _heading(collection: Collection) -> str:
    return "recall of exact" if collection.qrels is None else "MRR (R)"


def _quality(collection: Collection, k: int, row: Row) -> str:
    recall = f"{row[recall_key(collection, k)]:.4f}"
    return recall if collection.qrels is None else f"{row[mrr_key(k)]:.4f} ({recall})"


def _plot(k: int, rows: Sequence[MethodRow], found: Mapping[str, Mapping[str, Row]]) -> Plot:
    names = tuple(found)
    return Plot(
        title=f"Times as fast as MaxScore, k = {k}",
        x_label="vectors",
        y_label="MaxScore's mean time over the method's",
        kind="bar",
        categories=names,
        series=tuple(
            Series(
                label=_label(row),
                x=tuple(float(place) for place in range(len(names))),
                y=tuple(faster(found[name]["maxscore"], found[name][row.key]) for name in names),
            )
            for row in rows
        ),
    )


def findings(name: str, k: int, found: Mapping[str, Row], recall: str) -> tuple[Finding, ...]:
    """Return whether the findings of Table 4 hold on the vectors of another model.

    Parameters
    ----------
    name
        The collection.
    k
        The depth.
    found
        Figures by key of the row.
    recall
        The figure that measures recall.
    """
    (asc_key, exact_key), (_, anytime_key) = _tested(k)
    anytime, asc, exact = found[anytime_key], found[asc_key], found[exact_key]
    both = compared(asc, anytime, recall)
    where = f"{name}, k = {k}"
    return (
        finding(
            "Also with other models safe ASC is faster than Anytime Ranking.",
            is_faster(found["anytime"], found["asc"]),
            f"{where}: {found['asc']['mean_ms']:.3g} ms and {found['anytime']['mean_ms']:.3g} ms.",
        ),
        finding(
            "Also with other models approximate ASC is faster than Anytime*.",
            is_faster(anytime, asc),
            f"{where}: {asc['mean_ms']:.3g} ms and {anytime['mean_ms']:.3g} ms.",
        ),
        finding(
            "Also with other models approximate ASC has as much recall as Anytime*, or more.",
            is_as_good(both, recall),
            f"{where}: {heading(recall)} {both.first:.4f} and {both.second:.4f}.",
        ),
        finding(
            "Also with other models approximate ASC is faster than MaxScore.",
            is_faster(exact, asc),
            f"{where}: {faster(exact, asc):.2f} times, {asc['mean_ms']:.3g} ms after {exact['mean_ms']:.3g}.",
        ),
    )


def _tested(k: int) -> list[tuple[str, str]]:
    """Return the approximate ASC of a depth with MaxScore, and with the Anytime* beside it: keys of rows."""
    asc, anytime = ("asc 0.9", "anytime 0.9") if paper_depth(k) == 10 else ("asc 0.5", "anytime 0.7")
    return [(asc, "maxscore"), (asc, anytime)]


EXPERIMENT = Experiment(
    **LISTED["models"]._asdict(),
    description="""\
Measures the rows of Table 5 on several collections side by side, for example
the same texts encoded by different models: give --data or --encoder several
times. The paper has uniCOIL and LexMAE, with and without titles, and its
findings are those for SPLADE.

Without judgments, recall is the recall of exact results.""",
    run=run,
    many=True,
)
