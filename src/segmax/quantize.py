"""From weights to stored codes.

Whole numbers that fit are kept as they are. Other weights get one scale per term, so that an outlier in one term
costs no other term its precision: weight ≈ code × scale, to nearest, and a positive weight never becomes 0.
Inside a term, what lies beyond a quarter of the levels times the typical weight (64 × in 8 bits) is stored as that:
it still ranks first, and the other weights keep enough codes to be told apart.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_FEW_POSTINGS = 16


class Codes(NamedTuple):
    """Codes of all weights, the scale of every term, and what was lost."""

    codes: NDArray[Any]
    scale: NDArray[np.float64]
    error: float  # sum of |weight - code * scale| over sum of weights


def quantize_nearest(terms: NDArray[np.uint32], weights: NDArray[Any], num_terms: int, bits: int) -> Codes:
    """Code positive weights in 8 or 16 bits."""
    dtype = np.uint8 if bits == 8 else np.uint16
    levels = int(np.iinfo(dtype).max)
    scale = np.ones(num_terms, dtype=np.float64)
    if _are_small_integers(weights, levels):
        return Codes(weights.astype(dtype), scale, 0.0)
    largest = np.zeros(num_terms, dtype=np.float64)
    np.maximum.at(largest, terms, weights)
    largest = np.minimum(largest, _outlier_limits(terms, weights, num_terms, levels))
    used = largest > 0
    scale[used] = largest[used] / levels
    # A scale so small that it is no normal number would make the division inexact.
    scale[used] = np.maximum(scale[used], np.finfo(np.float64).tiny)
    codes = np.empty(len(weights), dtype=dtype)
    lost = 0.0
    batch = 1 << 22
    for start in range(0, len(weights), batch):
        part = slice(start, start + batch)
        exact = weights[part].astype(np.float64)
        step = scale[terms[part]]
        nearest = np.clip(np.rint(exact / step), 1, levels)
        codes[part] = nearest
        lost += float(np.abs(exact - nearest * step).sum())
    return Codes(codes, scale, lost / float(weights.sum(dtype=np.float64)))


def _outlier_limits(
    terms: NDArray[np.uint32], weights: NDArray[Any], num_terms: int, levels: int
) -> NDArray[np.float64]:
    """Return the largest weight of each term that gets a code of its own; no limit for terms of few postings.

    The typical weight is the geometric mean: unlike the mean it hardly moves with an outlier, unlike the median it
    needs no sorting.
    """
    counts = np.bincount(terms, minlength=num_terms)
    logs = np.bincount(terms, weights=np.log(weights, dtype=np.float64), minlength=num_terms)
    with np.errstate(over="ignore"):
        typical = np.exp(logs / np.maximum(counts, 1))
        return np.where(counts < _FEW_POSTINGS, np.inf, typical * (levels / 4))


def _are_small_integers(weights: NDArray[Any], levels: int) -> bool:
    if len(weights) == 0:
        return True
    if weights.max() > levels:
        return False
    return weights.dtype.kind in "iu" or bool((weights == np.floor(weights)).all())
