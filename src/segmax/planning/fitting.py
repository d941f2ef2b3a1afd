"""Curves through measured points, with the spread of what they predict."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

_EXPONENTS = np.arange(0.05, 1.505, 0.005)


class Estimate(NamedTuple):
    """A figure and its spread.

    Examples
    --------
    >>> print(Estimate(1.25, 1.0, 1.5))
    1.25 (1 to 1.5)
    """

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        """Show the value and its spread."""
        return f"{self.value:.3g} ({self.low:.3g} to {self.high:.3g})"

    def times(self, factor: float) -> Estimate:
        """Return it in other units."""
        return Estimate(self.value * factor, self.low * factor, self.high * factor)


def estimate(values: ArrayLike) -> Estimate:
    """Return the median of repeated measurements, the smallest and the largest.

    Examples
    --------
    >>> estimate([3.0, 1.0, 2.0])
    Estimate(value=2.0, low=1.0, high=3.0)
    """
    found = np.asarray(values, dtype=np.float64)
    return Estimate(float(np.median(found)), float(found.min()), float(found.max()))


class PowerLaw(NamedTuple):
    """The curve `base + factor * x ** exponent`."""

    base: float
    factor: float
    exponent: float

    def at(self, x: float) -> float:
        """Return the value for x."""
        return float(self.base + self.factor * x**self.exponent)


class Growth:
    """How a figure grows: a power law through measured points, and the laws that leave one of the points out.

    The spread of a prediction is that between all of these laws, so it is wide far from what was measured.

    Parameters
    ----------
    x, y
        The points: at least four, positive. Deviations count relative to y.

    Examples
    --------
    >>> growth = Growth([1, 10, 100, 1000], [3, 12, 102, 1002])
    >>> round(growth.law.exponent, 2), round(growth.at(500).value)
    (1.0, 502)
    """

    def __init__(self, x: ArrayLike, y: ArrayLike) -> None:
        points, values = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
        self.law = fitted(points, values)
        self.largest = float(points.max())  #: beyond this x, predictions are extrapolated
        keep = ~np.eye(len(points), dtype=np.bool_)
        self._others = [fitted(points[kept], values[kept]) for kept in keep]

    def at(self, x: float) -> Estimate:
        """Return what is expected for x."""
        value = self.law.at(x)
        all_of_them = [value, *(other.at(x) for other in self._others)]
        return Estimate(value, min(all_of_them), max(all_of_them))


def fitted(x: NDArray[np.float64], y: NDArray[np.float64]) -> PowerLaw:
    """Return the power law with the smallest sum of squared relative deviations and no negative part."""
    ones, powers = 1 / y, (x / x.max()) ** _EXPONENTS[:, None] / y  # a row per exponent
    base, factor = _two_factors(ones, powers)
    errors = ((base[:, None] * ones + factor[:, None] * powers - 1) ** 2).sum(axis=1)
    best = int(np.argmin(errors))
    exponent = float(_EXPONENTS[best])
    return PowerLaw(float(base[best]), float(factor[best] / x.max() ** exponent), exponent)


def _two_factors(
    ones: NDArray[np.float64], powers: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return by row the factors, at least 0, with which `ones` and `powers` add up to about 1."""
    square, mixed, squares = (ones**2).sum(), (ones * powers).sum(axis=1), (powers**2).sum(axis=1)
    one, many = ones.sum(), powers.sum(axis=1)
    determinant = square * squares - mixed**2
    base = (one * squares - many * mixed) / determinant
    factor = (square * many - mixed * one) / determinant
    alone = many / squares
    return np.where(base < 0, 0.0, base), np.where(base < 0, alone, np.maximum(factor, 0.0))


def linear(columns: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the factors of columns whose sum is nearest to y by relative deviations; none of them is negative.

    Examples
    --------
    >>> linear(np.array([[1.0, 1.0], [1.0, 2.0], [1.0, 4.0]]), np.array([5.0, 7.0, 11.0])).round(6)
    array([3., 2.])
    """
    scale = columns.max(axis=0)  # columns of like size: or else small ones drown
    relative, ones = columns / scale / y[:, None], np.ones_like(y)
    best, least = np.zeros(len(scale)), float(len(y))
    # The best factors are the plain least squares of those columns whose factors are not 0: few enough to try them all.
    for chosen in itertools.product((False, True), repeat=len(scale)):
        tried = np.zeros(len(scale))
        tried[list(chosen)] = np.linalg.lstsq(relative[:, list(chosen)], ones)[0]
        error = float(((relative @ tried - ones) ** 2).sum())
        if tried.min() >= 0 and error < least:
            best, least = tried, error
    return np.asarray(best / scale, dtype=np.float64)
