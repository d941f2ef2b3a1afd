"""From weights to stored codes.

Whole numbers that fit are kept as they are. Other weights get one scale per term, so that an outlier in one term
costs no other term its precision: weight ≈ code × scale, to nearest, and a positive weight never becomes 0.
Inside a term, what lies beyond a quarter of the levels times the typical weight (64 × in 8 bits) is stored as that:
it still ranks first, and the other weights keep enough distinct codes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from segmax.base.parallel import Workers
from segmax.vectors.csr import Csr

_FEW_POSTINGS = 16
_PIECE = 1 << 17


class CodedSlab(NamedTuple):
    """Rows with codes instead of weights, and the loss."""

    docs: Csr
    error: float  # sum of |weight - code * scale|, in units of the largest weight
    mass: float  # sum of weights, in the same units


class Quantizer:
    """How weights become codes: the scale of every term, found in one or two passes over all slabs."""

    def __init__(self, slabs: Iterable[Csr], num_terms: int, bits: int, workers: Workers) -> None:
        self._dtype = np.uint8 if bits == 8 else np.uint16
        self._levels = 2**bits - 1
        self.scale = np.ones(num_terms, dtype=np.float64)
        self._unit = 1.0
        self.keeps_values = all(self._fits(slab.values) for slab in slabs)
        if not self.keeps_values:
            self._find_scales(slabs, workers)

    def _fits(self, values: NDArray[Any]) -> bool:
        """Whether weights, stored as narrowly as they can be, are whole numbers that a code holds."""
        return values.dtype.kind == "u" and values.max(initial=0) <= self._levels

    def _find_scales(self, slabs: Iterable[Csr], workers: Workers) -> None:
        num_terms = len(self.scale)
        largest = np.zeros(num_terms)
        counts = np.zeros(num_terms, dtype=np.int64)
        logs = np.zeros(num_terms)
        for slab_largest, slab_counts, slab_logs in workers.map(lambda slab: _statistics(slab, num_terms), slabs):
            np.maximum(largest, slab_largest, out=largest)
            counts += slab_counts
            logs += slab_logs
        # The typical weight is the geometric mean: unlike the mean it hardly moves with an outlier, unlike the median
        # it needs no sorting. Terms of few postings have no typical weight, and no limit.
        with np.errstate(over="ignore"):
            typical = np.exp(logs / np.maximum(counts, 1))
            limits = np.where(counts < _FEW_POSTINGS, np.inf, typical * (self._levels / 4))
        self._unit = 1.0 / max(1.0, float(largest.max(initial=0.0)))  # sums of huge weights would overflow
        largest = np.minimum(largest, limits)
        used = largest > 0
        # A scale so small that it is no normal number would make the division inexact.
        self.scale[used] = np.maximum(largest[used] / self._levels, np.finfo(np.float64).tiny)

    def coded(self, slabs: Iterable[Csr], workers: Workers) -> Iterator[CodedSlab]:
        """Code all slabs, in order."""
        return workers.map(self._coded, slabs)

    def _coded(self, slab: Csr) -> CodedSlab:
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


def _statistics(slab: Csr, num_terms: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return the largest weight, the number of weights and the sum of their logarithms, per term."""
    largest = np.zeros(num_terms)
    logs = np.zeros(num_terms)
    for piece in _pieces(slab):
        weights = slab.values[piece].astype(np.float64)
        terms = slab.indices[piece]
        np.maximum.at(largest, terms, weights)
        logs += np.bincount(terms, weights=np.log(weights), minlength=num_terms)
    return largest, np.bincount(slab.indices, minlength=num_terms), logs
