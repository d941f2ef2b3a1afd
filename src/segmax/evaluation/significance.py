"""Whether a difference between two methods is more than chance: paired t-tests, corrected for their number."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from segmax.base.checks import checked_choice
from segmax.base.errors import InputError
from segmax.base.optional import need

_NO_SPREAD = 1e-12  # of differences, as a share of them: what rounding leaves where all are alike
CORRECTIONS = ("holm", "bonferroni", "none")
#: A difference is significant where its p-value is below this.
LEVEL = 0.05


@dataclasses.dataclass(frozen=True, kw_only=True)
class TTest:
    """A paired t-test of `method` against `baseline` on one measure.

    `difference` is the mean of method - baseline over queries, `p_value` two-sided, `corrected_p` the same after the
    correction for several tests.

    Examples
    --------
    >>> test = TTest(
    ...     measure="nDCG@10", method="asc", baseline="bm25", difference=-0.01, t=-2.1, p_value=0.04, corrected_p=0.08
    ... )
    >>> test.corrected_p < 0.05
    False
    """

    measure: str
    method: str
    baseline: str
    difference: float
    t: float
    p_value: float
    corrected_p: float

    def is_significant(self, level: float = LEVEL) -> bool:
        """Whether the difference stays significant at this level after the correction."""
        return self.corrected_p < level


def paired_t_test(first: NDArray[np.float64], second: NDArray[np.float64]) -> tuple[float, float]:
    """Return t and the two-sided p of a paired t-test, as `scipy.stats.ttest_rel`; 0 and 1 where nothing differs.

    Examples
    --------
    >>> paired_t_test(np.array([1.0, 2.0]), np.array([1.0, 2.0]))
    (0.0, 1.0)
    """
    if len(first) != len(second) or len(first) < 2:
        raise InputError(expected="two values per query and at least 2 queries", got=f"{len(first)} and {len(second)}")
    difference = first - second
    if not difference.any():
        return 0.0, 1.0
    if np.ptp(difference) <= _NO_SPREAD * np.abs(difference).max():  # then t has no bound
        return float(np.copysign(np.inf, difference[0])), 0.0
    found = need("scipy.stats", "a t-test", "evaluate").ttest_rel(first, second)
    return float(found.statistic), float(found.pvalue)


def stratified_t_test(pairs: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]]) -> tuple[float, float]:
    """Return t and the two-sided p for a mean over groups of queries, each of which counts the same.

    That is how Table 6 of the paper averages collections of different sizes. The degrees of freedom are those of Welch
    and Satterthwaite; for one group this is `paired_t_test`.

    Parameters
    ----------
    pairs
        Two values per query, group by group.

    Examples
    --------
    >>> first, second = np.array([1.0, 2.0, 4.0]), np.array([0.5, 1.0, 1.0])
    >>> stratified_t_test([(first, second)]) == paired_t_test(first, second)
    True
    """
    if len(pairs) == 1:
        return paired_t_test(*pairs[0])
    tests = [paired_t_test(first, second) for first, second in pairs]
    if all(p == 1.0 for _, p in tests):
        return 0.0, 1.0
    differences = [first - second for first, second in pairs]
    mean = float(np.mean([each.mean() for each in differences]))
    variances = np.array([each.var(ddof=1) / len(each) for each in differences])
    error = float(np.sqrt(variances.sum())) / len(pairs)
    if error <= _NO_SPREAD * abs(mean):
        return float(np.copysign(np.inf, mean)), 0.0
    student = need("scipy.stats", "a t-test", "evaluate").t
    freedom = variances.sum() ** 2 / sum(v**2 / (len(d) - 1) for v, d in zip(variances, differences, strict=True))
    return mean / error, float(2 * student.sf(abs(mean / error), freedom))


def corrected(p_values: Sequence[float], correction: str = "holm") -> list[float]:
    """Return p-values after the correction for several tests.

    Parameters
    ----------
    p_values
        One per test.
    correction
        "holm" (step-down Bonferroni, never weaker than it), "bonferroni" or "none".

    Examples
    --------
    >>> corrected([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    checked_choice("correction", correction, CORRECTIONS)
    count = len(p_values)
    if correction == "none" or not count:
        return list(p_values)
    values = np.asarray(p_values, dtype=np.float64)
    if correction == "bonferroni":
        return [float(value) for value in np.minimum(values * count, 1.0)]
    order = np.argsort(values, kind="stable")
    steps = np.maximum.accumulate(values[order] * (count - np.arange(count)))
    result = np.empty(count)
    result[order] = np.minimum(steps, 1.0)
    return [float(value) for value in result]


def t_tests(
    measure: str,
    values: Mapping[str, NDArray[np.float64]],
    pairs: Sequence[tuple[str, str]],
    correction: str = "holm",
) -> list[TTest]:
    """Test pairs of a method and its baseline on one measure, corrected for their number.

    Parameters
    ----------
    measure
        What the values are of.
    values
        By method, a value per query.
    pairs
        Which methods to compare, and with which.
    correction
        As for `corrected`.

    Examples
    --------
    >>> scores = {"a": np.array([0.5, 0.7]), "b": np.array([0.5, 0.7])}
    >>> [test.corrected_p for test in t_tests("nDCG@10", scores, [("a", "b")])]
    [1.0]
    """
    results = [paired_t_test(values[method], values[baseline]) for method, baseline in pairs]
    fair = corrected([p for _, p in results], correction)
    return [
        TTest(
            measure=measure,
            method=method,
            baseline=baseline,
            difference=float((values[method] - values[baseline]).mean()),
            t=t,
            p_value=p,
            corrected_p=corrected_p,
        )
        for (method, baseline), (t, p), corrected_p in zip(pairs, results, fair, strict=True)
    ]
