"""From weights to stored codes.

Whole numbers that fit are kept as they are. Other weights get one scale per term, so that an outlier in one term
costs no other term its precision: weight ≈ code × scale, to nearest, and a positive weight never becomes 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


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
        codes[part] = np.clip(np.rint(exact / step), 1, levels)
        lost += float(np.abs(exact - codes[part] * step).sum())
    return Codes(codes, scale, lost / float(weights.sum(dtype=np.float64)))


def _are_small_integers(weights: NDArray[Any], levels: int) -> bool:
    if len(weights) == 0:
        return True
    if weights.max() > levels:
        return False
    return weights.dtype.kind in "iu" or bool((weights == np.floor(weights)).all())
