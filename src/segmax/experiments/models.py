"""Table 5: the methods of Table 4 on the vectors of several models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from segmax.experiments import paper
from segmax.experiments.base import Cell, Finding, Outcome, Plot, Series, Sheet
from segmax.experiments.collections import Collection
from segmax.experiments.experiment import Experiment
from segmax.experiments.measuring import (
    Row,
    about_as_good,
    every,
    faster,
    heading,
    is_faster,
    mrr_key,
    quality_note,
    recall_key,
    sentences,
    similar_note,
    unique_names,
)
from segmax.experiments.rows import MethodRow, clusters_note, measure_rows, model_rows, paper_depth, plans
from segmax.experiments.task import Task


def run(task: Task) -> Outcome:
    """Measure the rows of Table 5 on every collection."""
    collections = dict(zip(unique_names(task.collections), task.collections, strict=True))
    rows = {name: {k: model_rows(task, c, k) for k in task.ks} for name, c in collections.items()}
    measured = {name: measure_rows(task, c, rows[name]) for name, c in collections.items()}
    first = rows[next(iter(rows))]
    sheets: list[Sheet] = []
    plots: list[Plot] = []
    told: list[Finding] = []
    for k in task.ks:
        found = {name: one.rows[k] for name, one in measured.items()}
        sheets.append(_sheet(task, collections, k, first[k], found))
        plots.append(_plot(k, first[k], found))
        for name, collection in collections.items():
            told += findings(name, k, found[name], recall_key(collection, k))
    records = [record for one in measured.values() for record in one.records]
    return Outcome(sheets=tuple(sheets), plots=tuple(plots), findings=tuple(told), records=records)


def _sheet(
    task: Task,
    collections: Mapping[str, Collection],
    k: int,
    rows: Sequence[MethodRow],
    found: Mapping[str, Mapping[str, Row]],
) -> Sheet:
    values = paper.TABLE_5.get(k, {})
    columns = [column for name, c in collections.items() for column in (f"{name} {_heading(c)}", f"{name} MRT ms")]
    if values:
        columns += [f"paper {model} {what}" for model in paper.TABLE_5_MODELS for what in ("MRR (R)", "MRT ms")]
    lines: list[tuple[Cell, ...]] = []
    for row in rows:
        line: list[Cell] = [_label(row)]
        for name, collection in collections.items():
            figures = found[name][row.key]
            line += [_quality(collection, k, figures), figures["mean_ms"]]
        for value in values.get(row.key, ()):
            line += [f"{value.quality:.3f} ({value.recall:.3f})", paper.printed_roughly(value.ms)]
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
    """Name a row without numbers of clusters, which collections do not share."""
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
    """Tell whether the findings of Table 4 hold on the vectors of another model.

    Parameters
    ----------
    name
        What was measured on.
    k
        The depth.
    found
        Figures by key of the row.
    recall
        The figure that stands for recall.
    """
    anytime_key, asc_key = ("anytime 0.9", "asc 0.9") if paper_depth(k) == 10 else ("anytime 0.7", "asc 0.5")
    anytime, asc, exact = found[anytime_key], found[asc_key], found["maxscore"]
    where = f"{name}, k = {k}"
    return (
        Finding(
            claim="Also with other models safe ASC is faster than Anytime Ranking.",
            holds=is_faster(found["anytime"], found["asc"]),
            evidence=f"{where}: {found['asc']['mean_ms']:.3g} ms and {found['anytime']['mean_ms']:.3g} ms.",
        ),
        Finding(
            claim="Also with other models approximate ASC is faster than Anytime*, with as much recall or more.",
            holds=every((is_faster(anytime, asc), about_as_good(asc[recall], anytime[recall], recall))),
            evidence=f"{where}: ASC takes {asc['mean_ms']:.3g} ms and has {heading(recall)} {asc[recall]:.4f}, "
            f"Anytime* {anytime['mean_ms']:.3g} ms and {anytime[recall]:.4f}; {similar_note(recall)}.",
        ),
        Finding(
            claim="Also with other models approximate ASC is faster than MaxScore.",
            holds=is_faster(exact, asc),
            evidence=f"{where}: {faster(exact, asc):.2f} times, {asc['mean_ms']:.3g} ms after {exact['mean_ms']:.3g}.",
        ),
    )


EXPERIMENT = Experiment(
    name="models",
    place="Table 5",
    title="the methods of Table 4 on the vectors of several models",
    description="""\
Measures the rows of Table 5 on several collections side by side: the same
texts encoded by different models, for instance, given as several --data (a
folder with another --encoder, or descriptions of vectors). The paper has
uniCOIL and LexMAE with and without titles, and finds what it finds for SPLADE.

Without judgements recall is that of exact results.""",
    run=run,
    many=True,
)
