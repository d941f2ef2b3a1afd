"""How weights are scaled and rounded: the conventions of those who publish integer impacts, by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from segmax.base.checks import parsed_float
from segmax.base.errors import ConfigError, InputError
from segmax.vectors.csr import Csr


@dataclasses.dataclass(frozen=True)
class Scale:
    """What is done to every weight.

    Examples
    --------
    >>> scale = parse_scale("/5x256")
    >>> scale.apply(Csr(np.array([0, 2]), np.array([4, 7]), np.array([1.5, 0.001]), 8)).values
    array([77.])
    """

    factor: float = 1.0  #: weights are multiplied by this
    rounding: str | None = None  #: then "nearest" or "down" makes whole numbers; those that become 0 are dropped
    whole: bool = False  #: weights must be whole numbers as they come

    def apply(self, vectors: Csr) -> Csr:
        """Return the vectors with their weights scaled."""
        if self == Scale():
            return vectors
        values = vectors.values.astype(np.float64)
        if self.whole:
            odd = np.flatnonzero(values != np.floor(values))
            if len(odd):
                raise InputError(
                    expected="integer impacts",
                    got=f"the weight {values[odd[0]]}",
                    hint="choose a scale that rounds: {scale='x100'} or {scale='/5x256'}",
                )
            return vectors
        values *= self.factor
        if self.rounding is None:
            return vectors._replace(values=values)
        values = np.rint(values) if self.rounding == "nearest" else np.floor(values)
        return without_zeros(vectors._replace(values=values))


def without_zeros(vectors: Csr) -> Csr:
    """Return the vectors without weights of 0."""
    kept = vectors.values != 0
    if kept.all():
        return vectors
    counts = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept)])
    return Csr(counts[vectors.indptr], vectors.indices[kept], vectors.values[kept], vectors.num_columns)


#: The named conventions and what they are for.
SCALES: Mapping[str, tuple[Scale, str]] = {
    "none": (Scale(), "as they are"),
    "impacts": (Scale(whole=True), "as they are, and an error if one is not a whole number"),
    "x100": (Scale(100, "nearest"), "round(100 w): SPLADE v2 files of Anserini"),
    "x100-down": (Scale(100, "down"), "floor(100 w): PyTerrier's PISA and BMP wrappers"),
    "/5x256": (Scale(256 / 5, "nearest"), "round(w / 5 * 256): uniCOIL and SPLADE++ of Anserini and Pyserini"),
    "/100": (Scale(1 / 100), "w / 100: back from x100"),
    "/256x5": (Scale(5 / 256), "w / 256 * 5: back from /5x256"),
}


def parse_scale(value: str | float | None) -> Scale:
    """Return a scale given by name, or as a factor."""
    if value is None:
        return Scale()
    if isinstance(value, str) and value in SCALES:
        return SCALES[value][0]
    try:
        factor = parsed_float(value) if isinstance(value, str) else float(value)
    except (TypeError, ValueError, OverflowError):
        factor = None
    if factor is None or isinstance(value, bool) or not 0 < factor < float("inf"):
        raise ConfigError(
            option="scale", expected=f"one of {', '.join(map(repr, SCALES))} or a factor > 0", got=f"{value!r}"
        )
    return Scale(factor)
