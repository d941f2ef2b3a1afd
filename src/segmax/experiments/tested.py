"""Paired t-tests between the rows of a table, as the paper has made them about all its relevance figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np

from segmax.evaluation import TTest, significance
from segmax.experiments.base import Finding, Sheet
from segmax.experiments.measuring import PER_QUERY, Row, heading

_LEVEL = 0.05
_NO_LOSS = "ASC is in no measure of relevance significantly worse than the baselines (95 %, paired t-tests)."


def t_tests(found: Mapping[str, Row], methods: Sequence[str], baselines: Sequence[str]) -> list[TTest]:
    """Test every method against every baseline on every measure, corrected by Holm over the tests of a measure.

    Parameters
    ----------
    found
        Figures by key of the row.
    methods, baselines
        Keys of rows.
    """
    tests: list[TTest] = []
    measures = list(found[methods[0]][PER_QUERY]) if methods else []
    if not measures or len(found[methods[0]][PER_QUERY][measures[0]]) < 2:
        return []
    pairs = list(product(methods, baselines))
    for measure in measures:
        values = {key: np.asarray(found[key][PER_QUERY][measure]) for key in {*methods, *baselines}}
        tests += significance.t_tests(measure, values, pairs)
    return tests


def tests_sheet(title: str, tests: Sequence[TTest], labels: Mapping[str, str]) -> Sheet:
    """Return tests as a table, with the labels of the rows."""
    return Sheet(
        title=title,
        columns=("method", "against", "measure", "difference", "t", "p", "corrected p"),
        rows=tuple(
            (
                labels[test.method],
                labels[test.baseline],
                heading(test.measure),
                test.difference,
                test.t if np.isfinite(test.t) else str(test.t),
                test.p_value,
                test.corrected_p,
            )
            for test in tests
        ),
        note=f"Two-sided paired t-tests over queries, corrected by Holm's method; significant below {_LEVEL}.",
    )


def no_degradation(k: int, tests: Sequence[TTest]) -> Finding:
    """Tell whether no method is significantly worse than a baseline in relevance."""
    worse = [test for test in tests if test.difference < 0 and test.is_significant(_LEVEL)]
    judged = all(test.measure != "recall_of_exact" for test in tests)
    if not tests:
        return Finding(claim=_NO_LOSS, holds=None, evidence=f"k = {k}: paired t-tests need at least 2 queries.")
    told = ", ".join(f"{test.method} against {test.baseline} in {test.measure}" for test in worse[:4])
    more = f" and {len(worse) - 4} more" if len(worse) > 4 else ""
    return Finding(
        claim=_NO_LOSS,
        holds=not worse if judged else None,
        evidence=f"k = {k}: of {len(tests)} tests {len(worse)} show a significant loss"
        + (f" ({told}{more})." if worse else ".")
        + ("" if judged else " Without judgements, lost exact results need not be relevant ones."),
    )
