"""Table 7: Anytime Ranking and ASC under a time budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from segmax.drawing.plot import Plot, Series
from segmax.evaluation import TTest
from segmax.experiments import printed
from segmax.experiments.catalog import LISTED
from segmax.experiments.collections import Collection
from segmax.experiments.experiment import Experiment
from segmax.experiments.measuring import (
    RECALL_OF_EXACT,
    Row,
    compared,
    heading,
    headings,
    quality_keys,
    quality_note,
    recall_key,
    sentences,
)
from segmax.experiments.outcome import Cell, Finding, Outcome, Sheet
from segmax.experiments.rows import SAFE, MethodRow, budget_rows, clusters_note, measure_rows, paper_depth, plans, table
from segmax.experiments.task import Task
from segmax.experiments.tested import no_degradation, t_tests, tested_sheets
from segmax.experiments.verdicts import every, finding, is_faster, is_larger, is_more, unknown

#: Budgets as shares of Anytime Ranking's mean time without one, because the paper's budgets may never bind here.
_SHARES = (0.25, 0.5)
_PAPERS = "the paper's"
#: A search may exceed its budget by this share, because it checks the clock between clusters.
_SLACK = 0.1


class Budget(NamedTuple):
    """A budget, its name, and what was measured under it, by key of the row."""

    ms: float
    name: str
    rows: Sequence[MethodRow]
    found: Mapping[str, Row]

    def pairs(self) -> list[tuple[MethodRow, MethodRow]]:
        """Return the two pairs that the paper compares: Anytime with ASC, and Anytime* with ASC."""
        return list(zip(self.rows[::2], self.rows[1::2], strict=True))


def run(task: Task) -> Outcome:
    """Measure Table 7 with the paper's budgets and with shares of Anytime's time here."""
    collection = task.collection
    free = {k: budget_rows(task, collection, k, None) for k in task.ks}
    unbounded = measure_rows(task, collection, free)
    limits = {k: _budgets(k, unbounded.rows[k]["anytime"]["mean_ms"]) for k in task.ks}
    # All budgets at once, so that every index is built only once.
    rows = {
        k: [_named(row, ms) for ms, _ in limits[k] for row in budget_rows(task, collection, k, ms)] for k in task.ks
    }
    measured = measure_rows(task, collection, rows)
    sheets: list[Sheet] = []
    plots: list[Plot] = []
    conclusions: list[Finding] = []
    for k in task.ks:
        budgets = [
            Budget(ms, name, free[k], {row.key: measured.rows[k][_named(row, ms).key] for row in free[k]})
            for ms, name in limits[k]
        ]
        without = Budget(float("inf"), "no budget", free[k], unbounded.rows[k])
        sheets += [_sheet(task, collection, k, budget) for budget in (*budgets, without)]
        tests = [test for budget in budgets for test in _tests(budget)]
        sheets += tested_sheets(f"t-tests, k = {k}", tests, {})
        plots.append(_plot(collection, k, budgets))
        measures = [key for key in quality_keys(collection, k) if collection.qrels is None or key != RECALL_OF_EXACT]
        conclusions += [
            *findings(k, budgets, unbounded.rows[k], measures),
            no_degradation(f"k = {k}, all budgets", tests),
        ]
    records = [*unbounded.records, *measured.records]
    return Outcome(sheets=tuple(sheets), plots=tuple(plots), findings=tuple(conclusions), records=records)


def _named(row: MethodRow, budget_ms: float) -> MethodRow:
    return row._replace(key=f"{row.key}, {budget_ms:g} ms")


def _budgets(k: int, mean_ms: float) -> list[tuple[float, str]]:
    """Return the budgets for a depth, the paper's first."""
    shares = [(float(f"{share * mean_ms:.3g}"), f"{share:.0%} of Anytime's mean") for share in _SHARES]
    return [(printed.TABLE_7_BUDGET[paper_depth(k)], _PAPERS), *shares]


def _tests(budget: Budget) -> list[TTest]:
    """Test ASC against the Anytime that the paper compares it with, under one budget."""
    named = {row.key: f"{row.label}, {budget.ms:g} ms" for row in budget.rows}
    found = {named[key]: row for key, row in budget.found.items()}
    return t_tests(found, [(named[asc.key], named[anytime.key]) for anytime, asc in budget.pairs()])


def _sheet(task: Task, collection: Collection, k: int, budget: Budget) -> Sheet:
    keys = (*quality_keys(collection, k), "mean_ms", "p99_ms")
    is_paper = budget.ms == printed.TABLE_7_BUDGET.get(k)
    values = {key: _printed(row) for key, row in printed.TABLE_7[k].items()} if is_paper else {}
    known = ("paper MRR@10", f"paper Recall@{k}", "paper MRT ms", "paper P99 ms") if values else ()
    limit = "no budget" if budget.ms == float("inf") else f"budget {budget.ms:g} ms, {budget.name}"
    return Sheet(
        title=f"Table 7, k = {k}, {limit}",
        columns=("method", *headings(keys), *known),
        rows=table(budget.rows, budget.found, keys, values),
        note=sentences(clusters_note(plans(task, collection)), quality_note(collection)) if k == task.ks[0] else "",
    )


def _printed(row: printed.Budgeted) -> tuple[Cell, ...]:
    return row.mrr, row.recall, printed.three_digits(row.ms), printed.three_digits(row.p99_ms)


def _plot(collection: Collection, k: int, budgets: Sequence[Budget]) -> Plot:
    key = recall_key(collection, k)
    ordered = sorted(budgets, key=lambda budget: budget.ms)
    return Plot(
        title=f"What a time budget leaves, k = {k}",
        x_label="budget, ms",
        y_label=heading(key),
        series=tuple(
            Series(
                label=row.label,
                x=tuple(budget.ms for budget in ordered),
                y=tuple(budget.found[row.key][key] for budget in ordered),
            )
            for row in budgets[0].rows
        ),
    )


def findings(k: int, budgets: Sequence[Budget], unbounded: Mapping[str, Row], measures: Sequence[str]) -> list[Finding]:
    """Return which of the paper's findings on Table 7 hold under each budget.

    Parameters
    ----------
    k
        The depth.
    budgets
        What was measured under each.
    unbounded
        Figures of the same rows without a budget.
    measures
        The figures that measure quality: MRR@10 and recall, or what replaces them without judgments.
    """
    conclusions = []
    for budget in budgets:
        where = f"k = {k}, budget {budget.ms:g} ms ({budget.name})"
        conclusions += [_compared(where, budget, pair, unbounded, key) for pair in budget.pairs() for key in measures]
        conclusions.append(_in_time(where, budget, unbounded))
    return conclusions


def _binds(budget: Budget, unbounded: Row) -> bool:
    """Whether, without a budget, more than one search in a hundred takes longer than it."""
    return bool(unbounded["p99_ms"] > budget.ms)


def _compared(
    where: str, budget: Budget, pair: tuple[MethodRow, MethodRow], unbounded: Mapping[str, Row], key: str
) -> Finding:
    anytime, asc = (budget.found[row.key] for row in pair)
    binds = _binds(budget, unbounded[pair[0].key])
    both = compared(asc, anytime, key)
    limit = "the paper's own budget" if budget.name == _PAPERS else "a fourth or half of Anytime's time"
    other = "Anytime Ranking" if pair[0].kind == SAFE else "Anytime*"
    return finding(
        f"Under {limit} ASC has a higher {heading(key)} than {other}.",
        is_more(both) if binds else unknown("the budget does not bind: 99 % of searches end before it without it"),
        f"{where}: {pair[1].label} has {heading(key)} {both.first:.4f}, {pair[0].label} {both.second:.4f}.",
    )


def _in_time(where: str, budget: Budget, unbounded: Mapping[str, Row]) -> Finding:
    claim = "A budget shortens the 99th percentile of time substantially, to about the budget."
    bound = [row for row in budget.rows if _binds(budget, unbounded[row.key])]
    if not bound:
        longest = max(unbounded[row.key]["p99_ms"] for row in budget.rows)
        evidence = f"{where}: without a budget the largest 99th percentile is {longest:.3g} ms."
        return finding(claim, unknown("the budget does not bind"), evidence)
    times = [(unbounded[row.key]["p99_ms"], budget.found[row.key]["p99_ms"]) for row in bound]
    listed = ", ".join(
        f"{row.label} {after:.3g} ms after {before:.3g}" for row, (before, after) in zip(bound, times, strict=True)
    )
    latest = max(after for _, after in times)
    in_time = is_larger(budget.ms * (1 + _SLACK), latest, f"limit (the budget + {_SLACK:.0%}) and longest percentile")
    return finding(claim, every(in_time, *(is_faster(*both) for both in times)), f"{where}: {listed}.")


EXPERIMENT = Experiment(
    **LISTED["budgets"]._asdict(),
    description="""\
Stops searches when their time budget is spent, and reports what relevance is
left: Anytime Ranking and Anytime* on few clusters beside ASC on eight times as
many. The budgets are the paper's (10 ms at k = 10, 20 ms at k = 1000) and,
because segmax is faster and collections may be smaller, 25 and 50 % of Anytime
Ranking's mean time here without a budget.

Needs a collection; without judgments, recall is the recall of exact results.
The outcome depends on the machine, and on what else it is doing.""",
    run=run,
)
