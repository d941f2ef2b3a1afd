"""The lattice of a collection: how weights of documents become codes, the same in every part.

Every weight is a multiple of its term's scale, in all parts alike, and queries become integers once, by the same
scales. So a score never depends on the part that a document lies in.

Whole numbers up to 65,535 are kept as they are, and larger ones are refused. For other weights one step serves all
terms, chosen from the first documents. While it is *provisional*, which is until the first part goes to disk, weights
are kept as they came and codes are made anew whenever a larger step is needed. From then on the lattice only grows: new
terms get the step, and a weight that has outgrown eight bits gets a longer code. Documents with such codes ("wide"
ones) lie in parts with 16 bits per code. A lattice that has seen no weight at all is *open*: even if it is settled, the
first weights choose its step.
"""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from segmax import _core
from segmax.base.errors import InputError, SegmaxWarning
from segmax.vectors.csr import Csr
from segmax.vectors.rows import narrowest

Kind = Literal["open", "whole", "real"]

_NARROW = 2**8 - 1
#: The largest code there is.
MOST = 2**16 - 1
#: Weights may outgrow the largest one seen by this much before documents become wide.
_HEADROOM = 1.25
#: What lies beyond so many times the typical weight does not set the step: one outlier must not cost the others
#: their precision.
_OUTLIER = 64.0
_LOG_STEP = 2.0**-20  # of logarithms: floats hold sums of multiples of it exactly


class Weights(NamedTuple):
    """What is known of the weights so far."""

    number: int = 0
    logs: float = 0.0
    largest: float = 0.0

    def with_values(self, values: NDArray[Any]) -> Weights:
        """Return this with more weights."""
        return Weights(
            self.number + len(values),
            self.logs + _logs_of(values),
            max(self.largest, float(values.max(initial=0))),
        )

    def without_values(self, values: NDArray[Any]) -> Weights:
        """Return this with fewer weights; the largest one stays."""
        return self._replace(number=self.number - len(values), logs=self.logs - _logs_of(values))

    @property
    def step(self) -> float:
        """The step that these weights ask for."""
        typical = float(np.exp(self.logs / max(1, self.number)))
        return max(min(self.largest, _OUTLIER * typical) * _HEADROOM / _NARROW, float(np.finfo(np.float64).tiny))


def are_codes(narrow: NDArray[Any]) -> bool:
    """Whether weights, as narrow as they can be, are whole numbers that a lattice keeps as they are."""
    return narrow.dtype in (np.uint8, np.uint16)


def _logs_of(values: NDArray[Any]) -> float:
    """Return the sum of the logarithms of weights, each rounded: in whatever order they come, sums are the same."""
    if are_codes(values):  # few different ones
        counts = np.bincount(values)
        return float(counts[1:] @ _rounded_logs(np.arange(1, len(counts))))
    return float(_rounded_logs(values.astype(np.float64)).sum())


def _rounded_logs(values: NDArray[Any]) -> NDArray[np.float64]:
    logs: NDArray[np.float64] = np.rint(np.log(values) / _LOG_STEP) * _LOG_STEP
    return logs


class Coded(NamedTuple):
    """Documents with codes instead of weights."""

    docs: Csr  #: codes as 16-bit numbers
    wide: NDArray[np.bool_]  #: by row: whether a code needs more than 8 bits


@dataclasses.dataclass(frozen=True, eq=False)
class Lattice:
    """Scales and largest codes of all terms. Immutable: what grows is a new one.

    Examples
    --------
    >>> docs = Csr(np.array([0, 2]), np.array([0, 1]), np.array([2.0, 300.0]), 2)
    >>> lattice, coded = Lattice().grown(docs)
    >>> lattice.kind, coded.docs.values.tolist(), coded.wide.tolist()
    ('whole', [2, 300], [True])
    """

    kind: Kind = "open"
    step: float = 1.0  #: the scale of terms to come
    scale: NDArray[np.float64] = dataclasses.field(default_factory=lambda: np.zeros(0))
    largest: NDArray[np.uint32] = dataclasses.field(default_factory=lambda: np.zeros(0, np.uint32))
    provisional: bool = True
    top: int = 0  #: the largest code of all terms, where it is known before any document comes
    weights: Weights = dataclasses.field(default_factory=Weights)

    @property
    def num_terms(self) -> int:
        """The number of terms so far."""
        return len(self.scale)

    def to_core(self) -> _core.Lattice:
        """Return the lattice in the core's form."""
        return _core.Lattice(self.scale, self.largest, bool(self.largest.max(initial=0) > _NARROW))

    def settled(self) -> Lattice:
        """Return the lattice as it is once a part of it is on disk."""
        return dataclasses.replace(self, provisional=False)

    def grown(self, docs: Csr) -> tuple[Lattice, Coded]:
        """Return the lattice for these documents as well, and their codes.

        Raises
        ------
        InputError
            The lattice is settled, and not for such weights, or a whole number is too large.
        """
        values = narrowest(docs.values)
        is_whole = are_codes(values)
        is_free = self.provisional or self.kind == "open"  # to choose kind and step
        kind: Kind = self.kind
        if len(values):
            kind = "whole" if is_whole and kind in ("open", "whole") else "real"
        if kind == "real" and self.kind != "real":
            self._check_kind(docs.values)
        weights = self.weights.with_values(values) if is_free and len(values) else self.weights
        step = self.step
        if kind == "real" and is_free:
            step = weights.step if self.kind != "real" else max(self.step, weights.step)
            if step <= self.step * _HEADROOM and self.kind == "real":
                step = self.step  # not for a trifle: all codes would be made anew
        lattice = self._widened(max(docs.num_columns, self.num_terms))
        if step != self.step or kind != self.kind:
            scale = np.full(lattice.num_terms, step) if is_free else lattice.scale
            largest = lattice.largest if kind == self.kind == "whole" else np.zeros_like(lattice.largest)
            lattice = dataclasses.replace(lattice, kind=kind, step=step, scale=scale, largest=largest)
        return dataclasses.replace(lattice, weights=weights).with_codes_of(docs)

    def _check_kind(self, values: NDArray[Any]) -> None:
        """Raise InputError where weights are not whole numbers up to 65,535, but have to be or look as if they were."""
        fractions = values[values != np.floor(values)]
        if self.kind == "whole" and not self.provisional:
            raise InputError(
                expected="whole numbers as weights, as those of the first documents were, up to 65,535",
                got=f"{fractions[0] if len(fractions) else values.max()}",
                hint="round the weights, or create another collection for these vectors",
            )
        if not len(fractions):
            raise InputError(
                expected="weights up to 65,535, where they are whole numbers",
                got=f"{values.max():g}",
                hint="divide the weights of all documents by a constant",
            )

    def same_codes(self, other: Lattice) -> bool:
        """Whether documents that were coded by the other lattice have the same codes in this one."""
        return other.kind == "open" or (self.step == other.step and self.kind == other.kind)  # "open" has coded none

    def with_codes_of(self, docs: Csr) -> tuple[Lattice, Coded]:
        """Return the codes of documents, and the lattice with these counted in; a positive weight never becomes 0."""
        codes = self._codes_of(docs)
        is_wide = np.zeros(docs.num_rows, dtype=bool)
        if codes.max(initial=0) > _NARROW:
            is_wide[np.searchsorted(docs.indptr, np.flatnonzero(codes > _NARROW), side="right") - 1] = True
        largest = self.largest.copy()
        if self.top:
            largest[docs.indices] = self.top
        else:
            np.maximum.at(largest, docs.indices, codes.astype(np.uint32))
        return dataclasses.replace(self, largest=largest), Coded(docs._replace(values=codes), is_wide)

    def _codes_of(self, docs: Csr) -> NDArray[np.uint16]:
        values = narrowest(docs.values) if self.kind == "whole" else docs.values
        if self.kind == "whole" and are_codes(values):
            return values.astype(np.uint16)  # scales are 1
        with np.errstate(over="ignore"):  # the largest code stands for all beyond it
            ratios = docs.values / self.scale[docs.indices]
        if ratios.max(initial=0) > MOST + 0.5:
            msg = (
                f"weights up to {docs.values.max():g} are stored as if they were {MOST * self.step:g}, the largest "
                "that this collection can hold: its first documents decided about that"
            )
            warnings.warn(msg, SegmaxWarning, stacklevel=3)
        codes: NDArray[np.uint16] = np.clip(np.rint(ratios), 1, MOST).astype(np.uint16)
        return codes

    def _widened(self, num_terms: int) -> Lattice:
        if num_terms == self.num_terms:
            return self
        scale = np.full(num_terms, self.step)
        largest = np.zeros(num_terms, dtype=np.uint32)
        scale[: self.num_terms] = self.scale
        largest[: self.num_terms] = self.largest
        return dataclasses.replace(self, scale=scale, largest=largest)
