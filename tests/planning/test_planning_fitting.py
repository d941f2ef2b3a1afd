"""Curves through measured points."""

from __future__ import annotations

import numpy as np
import pytest

from segmax.planning.fitting import Estimate, Growth, estimate, linear

SIZES = np.array([41e3, 82e3, 164e3, 328e3, 656e3])


@pytest.mark.parametrize("exponent", [0.4, 0.72, 1.0])
def test_a_power_law_is_found(exponent: float) -> None:
    """Points of a law give that law, also far beyond them, and no spread."""
    growth = Growth(SIZES, 0.02 + 1e-5 * SIZES**exponent)
    assert growth.law.exponent == pytest.approx(exponent, abs=0.006)
    assert growth.at(1e7).value == pytest.approx(0.02 + 1e-5 * 1e7**exponent, rel=0.08)
    assert growth.at(1e7).high / growth.at(1e7).low < 1.05


def test_the_spread_is_wide_where_nothing_was_measured() -> None:
    """Noise of a few percent hardly matters between the points, and a lot far from them."""
    rng = np.random.default_rng(0)
    growth = Growth(SIZES, (0.01 + 1e-5 * SIZES**0.7) * rng.uniform(0.95, 1.05, len(SIZES)))
    inside, outside = growth.at(2e5), growth.at(2e7)
    assert inside.low <= inside.value <= inside.high
    assert inside.high / inside.low < 1.15
    assert outside.high / outside.low > inside.high / inside.low


def test_factors_are_never_negative() -> None:
    """A column that would need a negative factor gets none."""
    columns = np.array([[1.0, 1.0], [1.0, 2.0], [1.0, 3.0]])
    assert linear(columns, np.array([3.0, 2.0, 1.5])).min() == 0.0


def test_estimates_have_their_ends() -> None:
    """The median, the smallest and the largest, and all of them in other units."""
    assert estimate([5, 1, 2]) == Estimate(2.0, 1.0, 5.0)
    assert estimate([5, 1, 2]).times(10) == Estimate(20.0, 10.0, 50.0)
