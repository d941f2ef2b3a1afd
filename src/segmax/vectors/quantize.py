"""From weights to stored codes.

Whole numbers that fit are kept as they are. Other weights get one scale per term, so that an outlier in one term
costs no other term its precision: weight ≈ code × scale, to nearest, and a positive weight never becomes 0.
Inside a term, what lies beyond a quarter of the levels times the typical weight (64 × in 8 bits) is stored as that:
it still ranks first, and the other weights keep enough distinct codes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from segmax.base.parallel import Workers
from segmax.vectors.csr import Csr

_FEW_POSTINGS = 16
_PIECE = 1 << 17
_LOG_STEPS = 2.0**20  # logarithms are rounded to so many parts of 1, so that their sums are exact in any order


class CodedSlab(NamedTuple):
    """Rows with codes instead of weights, and the loss."""

    docs: Csr
    error: float  # sum of |weight - code * scale|, in units of the largest weight
    mass: float  # sum of weights, in the same units


class TermStatistics(NamedTuple):
    """What scales depend on, by term. Merged in any order, the statistics of parts are exactly those of the whole."""

    largest: NDArray[np.float64]  #: the largest weight
    counts: NDArray[np.int64]  #: the number of weights
    logs: NDArray[np.int64]  #: the sum of their logarithms, each rounded to a multiple of 2**-20, as such multiples
    is_whole: bool  #: whether all weights are whole numbers up to 65,535

    @classmethod
    def of_nothing(cls, num_terms: int) -> TermStatistics:
        """Return the statistics of no weights."""
        return cls(np.zeros(num_terms), np.zeros(num_terms, np.int64), np.zeros(num_terms, np.int64), True)

    @classmethod
    def of_rows(cls, slab: Csr, num_terms: int) -> TermStatistics:
        """Return the statistics of some rows, whose weights are stored as narrowly as they can be."""
        found = cls.of_nothing(num_terms)._replace(is_whole=slab.values.dtype.kind == "u")
        for piece in _pieces(slab):
            weights = slab.values[piece].astype(np.float64)
            terms = slab.indices[piece]
            np.maximum.at(found.largest, terms, weights)
            # Floats hold these sums exactly: below 2**30 each, and at most 2**17 of them.
            logs = np.bincount(terms, weights=np.rint(np.log(weights) * _LOG_STEPS), minlength=num_terms)
            found.logs[:] += logs.astype(np.int64)
        found.counts[:] = np.bincount(slab.indices, minlength=num_terms)
        return found

    def add(self, other: TermStatistics, terms: NDArray[Any] | slice = slice(None)) -> TermStatistics:
        """Return these statistics with others counted in; the arrays of this object are changed.

        Parameters
        ----------
        other
            The statistics of other weights.
        terms
            The number here of each of their terms, all different; by default they have the same numbers.
        """
        self.largest[terms] = np.maximum(self.largest[terms], other.largest)
        self.counts[terms] += other.counts
        self.logs[terms] += other.logs
        return self._replace(is_whole=self.is_whole and other.is_whole)


class Quantizer:
    """How weights become codes: the scale of every term, found in one or two passes over all slabs."""

    def __init__(self, slabs: Iterable[Csr], num_terms: int, bits: int, workers: Workers) -> None:
        self._set_bits(bits)
        self.scale = np.ones(num_terms, dtype=np.float64)
        self._unit = 1.0
        self.keeps_values = all(self._fits(slab.values) for slab in slabs)
        if not self.keeps_values:
            total = TermStatistics.of_nothing(num_terms)
            for found in workers.map(lambda slab: TermStatistics.of_rows(slab, num_terms), slabs):
                total = total.add(found)
            self._find_scales(total)

    @classmethod
    def from_statistics(cls, statistics: TermStatistics, bits: int) -> Self:
        """Return the quantizer of all weights that the statistics are of."""
        made = cls.from_scales(np.ones(len(statistics.counts)), bits, keeps_values=True)
        made.keeps_values = statistics.is_whole and bool(statistics.largest.max(initial=0) <= made._levels)
        if not made.keeps_values:
            made._find_scales(statistics)
        return made

    @classmethod
    def from_scales(cls, scale: NDArray[np.float64], bits: int, *, keeps_values: bool) -> Self:
        """Return a quantizer with the scales, and the choice to keep values, of another one."""
        made = cls.__new__(cls)
        made._set_bits(bits)
        made.scale, made.keeps_values, made._unit = scale, keeps_values, 1.0
        return made

    def _set_bits(self, bits: int) -> None:
        self._dtype = np.uint8 if bits == 8 else np.uint16
        self._levels = 2**bits - 1

    def _fits(self, values: NDArray[Any]) -> bool:
        """Whether weights, stored as narrowly as they can be, are whole numbers that a code holds."""
        return values.dtype.kind == "u" and values.max(initial=0) <= self._levels

    def _find_scales(self, statistics: TermStatistics) -> None:
        largest, counts = statistics.largest, statistics.counts
        # The typical weight is the geometric mean: unlike the mean it hardly moves with an outlier, unlike the median
        # it needs no sorting. Terms of few postings have no typical weight, and no limit.
        with np.errstate(over="ignore"):
            typical = np.exp(statistics.logs / _LOG_STEPS / np.maximum(counts, 1))
            limits = np.where(counts < _FEW_POSTINGS, np.inf, typical * (self._levels / 4))
        self._unit = 1.0 / max(1.0, float(largest.max(initial=0.0)))  # sums of huge weights would overflow
        largest = np.minimum(largest, limits)
        used = largest > 0
        # A scale so small that it is no normal number would make the division inexact.
        self.scale[used] = np.maximum(largest[used] / self._levels, np.finfo(np.float64).tiny)

    def largest_codes(self, statistics: TermStatistics) -> NDArray[np.uint32]:
        """Return the largest code of every term, 0 for one without weights."""
        codes = np.clip(np.rint(statistics.largest / self.scale), 1, self._levels)
        return np.where(statistics.counts > 0, codes, 0).astype(np.uint32)

    def coded(self, slabs: Iterable[Csr], workers: Workers) -> Iterator[CodedSlab]:
        """Code all slabs, in order."""
        return workers.map(self.coded_rows, slabs)

    def coded_rows(self, slab: Csr) -> CodedSlab:
        """Code some rows."""
        if self.keeps_values:
            return CodedSlab(slab._replace(values=slab.values.astype(self._dtype, copy=False)), 0.0, 0.0)
        codes = np.empty(len(slab.values), dtype=self._dtype)
        error = mass = 0.0
        for piece in _pieces(slab):
            weights = slab.values[piece].astype(np.float64)
            step = self.scale[slab.indices[piece]]
            nearest = np.clip(np.rint(weights / step), 1, self._levels)
            codes[piece] = nearest
            error += float((np.abs(weights - nearest * step) * self._unit).sum())
            mass += float((weights * self._unit).sum())
        return CodedSlab(slab._replace(values=codes), error, mass)


def _pieces(slab: Csr) -> Iterator[slice]:
    """Cut the postings of a slab: arithmetic in 64 bits takes many times the memory of the slab."""
    return (slice(start, start + _PIECE) for start in range(0, len(slab.values), _PIECE))
