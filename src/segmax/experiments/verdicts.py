"""Rules that decide whether a finding of the paper holds here, does not, or is too close to call.

There are three kinds. Values that every query has (relevance, recall, clusters visited, ratios of bounds) are compared
by paired t-tests, and a difference must be at least 1 %. Times have a tolerance of 4 %. What must never happen is
refuted by one exception. Every rule is printed with its p-value or tolerance.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from segmax.evaluation.significance import LEVEL, corrected, stratified_t_test
from segmax.experiments.outcome import Finding, Verdict

#: Values of queries that differ by a smaller share, on average, count as the same.
SIMILAR = 0.01
#: Times that differ by no more than this share are a tie; the least that the paper calls faster is 4.7 % (Table 5).
TIE = 0.04
#: The shares found of the exact results of an index, and of those of the index before static pruning.
_OF_EXACT = ("recall_of_exact", "recall_of_whole")
_ORDER: tuple[Verdict, ...] = ("fails", "unknown", "tie", "holds")


class Ruling(NamedTuple):
    """A verdict, and the rule behind it with its p-value or tolerance."""

    verdict: Verdict
    rule: str


def finding(claim: str, ruling: Ruling, evidence: str) -> Finding:
    """Return a finding with its verdict and rule.

    Examples
    --------
    >>> finding("a is faster than b", is_faster(3.0, 2.0), "a takes 2 ms").verdict
    'holds'
    """
    return Finding(claim=claim, verdict=ruling.verdict, evidence=evidence, rule=ruling.rule)


def unknown(why: str) -> Ruling:
    """Return the ruling that the data do not decide, and why."""
    return Ruling("unknown", why)


def counted(holds: bool, rule: str) -> Ruling:
    """Return the ruling on a count that a single exception refutes."""
    return Ruling("holds" if holds else "fails", rule)


def every(*rulings: Ruling) -> Ruling:
    """Return the ruling on a claim that consists of several: the worst verdict, with all rules.

    Examples
    --------
    >>> every(Ruling("holds", "a"), Ruling("tie", "b"), Ruling("holds", "a"))
    Ruling(verdict='tie', rule='a; b')
    """
    verdicts = {ruling.verdict for ruling in rulings}
    worst = next(verdict for verdict in _ORDER if verdict in verdicts)
    return Ruling(worst, "; ".join(dict.fromkeys(ruling.rule for ruling in rulings)))


# --- times, and other values that are known once ----------------------------------------------------------------------


def is_larger(value: float, reference: float, what: str = "values") -> Ruling:
    """Return whether a value is larger than another; a tie within 4 %.

    Examples
    --------
    >>> [is_larger(value, 1.0).verdict for value in (1.2, 1.03, 0.5)]
    ['holds', 'tie', 'fails']
    """
    rule = f"{what} within {TIE:.0%} are a tie; here {_signed(value, reference)}"
    if max(value, reference) <= min(value, reference) * (1 + TIE):
        return Ruling("tie", rule)
    return Ruling("holds" if value > reference else "fails", rule)


def is_faster(slow_ms: float, fast_ms: float) -> Ruling:
    """Return whether the second time is shorter; a tie within 4 %.

    Examples
    --------
    >>> is_faster(3.0, 2.0)
    Ruling(verdict='holds', rule='times within 4% are a tie; here +50.0%')
    """
    return is_larger(slow_ms, fast_ms, "times")


# --- values of queries ------------------------------------------------------------------------------------------------


class Compared(NamedTuple):
    """How the values of queries differ between two methods; `share` is the difference over the second mean."""

    first: float
    second: float
    p_value: float | None  #: None where there are too few queries for a test
    num_queries: int

    @property
    def share(self) -> float:
        """The difference as a share of the second mean."""
        return (self.first - self.second) / self.second if self.second else float(np.sign(self.first)) * np.inf


def compared(first: ArrayLike, second: ArrayLike) -> Compared:
    """Compare the values of the same queries; the second may be one number for all.

    Examples
    --------
    >>> found = compared([0.5, 0.7, 0.9], [0.4, 0.5, 0.8])
    >>> round(found.share, 3), round(found.p_value, 3)
    (0.235, 0.057)
    """
    return compared_groups([(first, second)])


def compared_groups(groups: Iterable[tuple[ArrayLike, ArrayLike]]) -> Compared:
    """Compare the values of the same queries in several groups, each of which counts the same."""
    pairs = [_paired(*pair) for pair in groups]
    means = np.mean([(first.mean(), second.mean()) for first, second in pairs], axis=0)
    testable = all(len(first) > 1 for first, _ in pairs)
    p_value = stratified_t_test(pairs)[1] if testable else None
    return Compared(float(means[0]), float(means[1]), p_value, sum(len(first) for first, _ in pairs))


def _paired(first: ArrayLike, second: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    one, other = np.broadcast_arrays(np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64))
    return np.array(one), np.array(other)


def is_more(*found: Compared) -> Ruling:
    """Return whether the first values are larger than the second ones, in every comparison.

    A difference counts from 1 % on and with p < 0.05, corrected for the number of comparisons; less is a tie.

    Examples
    --------
    >>> [is_more(compared(values, [0.5] * 3)).verdict for values in ([0.7, 0.8, 0.75], [0.5, 0.9, 0.2], [0.1] * 3)]
    ['holds', 'tie', 'fails']
    """
    known = _corrected(found)
    if known is None:
        return _TOO_FEW
    return every(*(_more(each) for each in known))


def _more(found: Compared) -> Ruling:
    if not found.first and not found.second:
        return unknown("nothing is found, so nothing can be compared")
    rule = f"less than {SIMILAR:.0%} or p ≥ {LEVEL:g} is a tie; here {_outcome(found)}"
    if abs(found.share) < SIMILAR or _chance(found):
        return Ruling("tie", rule)
    return Ruling("holds" if found.share > 0 else "fails", rule)


def is_as_good(found: Compared, key: str) -> Ruling:
    """Return whether the first values are no worse than the second ones: a loss of up to 1 % counts as none.

    A larger loss that may be chance is a tie. A larger loss of exact results decides nothing: there are far more of
    them than relevant ones, and those that a search misses are seldom relevant.

    Examples
    --------
    >>> lost = compared([0.5, 0.6, 0.7], [0.7, 0.8, 0.9])
    >>> is_as_good(lost, "Recall@1000").verdict, is_as_good(lost, "recall_of_exact").verdict
    ('fails', 'unknown')
    """
    if not found.second:
        return unknown("nothing is found, so nothing can be lost")
    rule = f"a loss of up to {SIMILAR:.0%} counts as none"
    if found.share >= -SIMILAR:
        return Ruling("holds", f"{rule}; here {_outcome(found)}")
    if key in _OF_EXACT:
        return unknown(f"{rule}, and a larger one of exact results may be none of relevance; here {_outcome(found)}")
    rule = f"{rule}, a larger one with p ≥ {LEVEL:g} is a tie; here {_outcome(found)}"
    return Ruling("tie" if _chance(found) else "fails", rule)


_TOO_FEW = unknown("paired t-tests need at least 2 queries")


def _chance(found: Compared) -> bool:
    return found.p_value is None or found.p_value >= LEVEL


def _corrected(found: Sequence[Compared]) -> list[Compared] | None:
    """Return comparisons with p-values corrected for their number; None where there are too few queries."""
    known = [each.p_value for each in found if each.p_value is not None]
    if len(known) < len(found):
        return None
    return [each._replace(p_value=p) for each, p in zip(found, corrected(known), strict=True)]


def _outcome(found: Compared) -> str:
    tested = "no test" if found.p_value is None else f"{p_text(found.p_value)}, t-test"
    return f"{_signed(found.first, found.second)}, {tested} over {found.num_queries:,} queries"


def p_text(p_value: float) -> str:
    """Return a p-value in words.

    Examples
    --------
    >>> p_text(0.1576), p_text(1e-9)
    ('p = 0.158', 'p < 0.0001')
    """
    return "p < 0.0001" if p_value < 1e-4 else f"p = {p_value:.3g}"


def _signed(value: float, reference: float) -> str:
    return f"{value / reference - 1:+.1%}" if reference else f"{value:.3g} and {reference:.3g}"
