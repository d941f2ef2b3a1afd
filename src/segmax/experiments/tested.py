"""Paired t-tests between the rows of a table, as the paper made them for all of its relevance figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from segmax.evaluation import TTest, significance
from segmax.evaluation.significance import LEVEL
from segmax.experiments.measuring import PER_QUERY, RECALL_OF_EXACT, Row, heading, relevance_keys
from segmax.experiments.outcome import Finding, Sheet
from segmax.experiments.verdicts import Ruling, counted, finding, unknown

_NO_LOSS = "ASC is in no measure of relevance significantly worse than the baselines (95 %, paired t-tests)."
_NAMED = 4  # losses that a finding names


def t_tests(found: Mapping[str, Row], pairs: Sequence[tuple[str, str]]) -> list[TTest]:
    """Test methods against baselines on every measure, corrected by Holm over the tests of a measure.

    Parameters
    ----------
    found
        Figures by name.
    pairs
        Names of a method and its baseline. A pair with fewer than 2 queries is not tested.
    """
    tests: list[TTest] = []
    for measure in relevance_keys(found[pairs[0][0]]) if pairs else ():
        values = {name: np.asarray(found[name][PER_QUERY][measure]) for pair in pairs for name in pair}
        if all(len(each) > 1 for each in values.values()):
            tests += significance.t_tests(measure, values, pairs)
    return tests


def tested_sheets(title: str, tests: Sequence[TTest], labels: Mapping[str, str]) -> tuple[Sheet, ...]:
    """Return tests as a table, or no table without tests; names without a label are shown unchanged.

    Pairs of methods with the same value for every query are only counted, in the note.
    """
    differing = [test for test in tests if test.t]
    rows = tuple(
        (
            labels.get(test.method, test.method),
            labels.get(test.baseline, test.baseline),
            heading(test.measure),
            test.difference,
            test.t if np.isfinite(test.t) else str(test.t),
            test.p_value,
            test.corrected_p,
        )
        for test in differing
    )
    columns = ("method", "against", "measure", "difference", "t", "p", "corrected p")
    note = (
        f"Two-sided paired t-tests over queries, corrected by Holm's method for all {len(tests)} of them by measure; "
        f"significant below {LEVEL:g}. In {len(tests) - len(differing)} of them nothing differs: these have no line."
    )
    return (Sheet(title=title, columns=columns, rows=rows, note=note),) if tests else ()


def no_degradation(where: str, tests: Sequence[TTest]) -> Finding:
    """Return whether no method is significantly worse than a baseline in relevance."""
    worse = [test for test in tests if test.difference < 0 and test.is_significant()]
    names = ", ".join(f"{test.method} against {test.baseline} in {heading(test.measure)}" for test in worse[:_NAMED])
    more = f" and {len(worse) - _NAMED} more" if len(worse) > _NAMED else ""
    named = f" ({names}{more})" if worse else ""
    evidence = f"{where}: of {len(tests)} tests {len(worse)} show a significant loss{named}."
    return finding(_NO_LOSS, _ruling(tests, worse), evidence)


def _ruling(tests: Sequence[TTest], worse: Sequence[TTest]) -> Ruling:
    if not tests:
        return unknown("paired t-tests need at least 2 queries")
    if any(test.measure == RECALL_OF_EXACT for test in tests):
        return unknown("without judgments, lost exact results need not be relevant ones")
    least = _smallest_p(tests)
    return counted(not worse, f"a loss counts with p < {LEVEL:g} after Holm's correction; the smallest is {least}")


def _smallest_p(tests: Iterable[TTest]) -> str:
    losses = [test.corrected_p for test in tests if test.difference < 0]
    return f"p = {min(losses):.3g}" if losses else "none, since nothing is lost"
