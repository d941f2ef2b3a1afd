"""Static pruning: what is dropped from documents before an index is built, and from queries before a search.

Steps are small values, applied in the order given. Three look at one document at a time, `MaxPostings` needs the
whole collection, and `QueryThreshold` acts on queries only. `DocThreshold` with `QueryThreshold` is the hybrid
thresholding (HT) of Qiao et al. (SIGIR 2023), which section 4.4 of the ASC paper uses.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from segmax.base.checks import checked_int, checked_number, parsed_float, parsed_int
from segmax.base.errors import ConfigError, InputError
from segmax.base.parallel import ranges
from segmax.vectors.csr import Csr, kept_entries

#: Returns the whole collection in row order, at every call.
Batches = Callable[[], Iterable[Csr]]

# A share such as 0.07 is no exact binary number: without this, 7 of 100 equal weights would fall short of it.
_MASS_TOLERANCE = 1e-12
_BLOCK_CELLS = 1 << 18  # of dense blocks: small enough for the cache


# --- steps -----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, kw_only=True)
class Step:
    """What all steps share. Use `DocThreshold`, `QueryThreshold`, `MassShare`, `TopTerms` or `MaxPostings`."""

    step: ClassVar[str]

    def to_dict(self) -> dict[str, Any]:
        """Return the step as plain values; `step_from_dict` reads them."""
        return {"step": self.step, **dataclasses.asdict(self)}


class RowStep(Step, ABC):
    """A step that looks at one document at a time."""

    @abstractmethod
    def kept(self, docs: Csr) -> NDArray[np.bool_]:
        """Return of every posting whether it stays."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Threshold(Step):
    threshold: float

    def __post_init__(self) -> None:
        threshold = checked_number("threshold", self.threshold)
        if not 0.0 <= threshold < math.inf:
            raise ConfigError(expected="a finite threshold >= 0", got=self.threshold)
        object.__setattr__(self, "threshold", threshold)  # as float, so that numpy numbers can be stored


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Count(Step):
    count: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", checked_int("count", self.count, 1))


@dataclasses.dataclass(frozen=True, kw_only=True)
class DocThreshold(_Threshold, RowStep):
    """Drop document weights below `threshold`: a hard threshold.

    Weights are compared as float64, whatever their dtype: float32(0.7) is a little less than 0.7 and goes.

    Examples
    --------
    >>> DocThreshold(threshold=0.5).to_dict()
    {'step': 'doc_threshold', 'threshold': 0.5}
    """

    step: ClassVar[str] = "doc_threshold"

    def kept(self, docs: Csr) -> NDArray[np.bool_]:
        """Return of every posting whether it stays."""
        large: NDArray[np.bool_] = docs.values.astype(np.float64, copy=False) >= self.threshold
        return large


@dataclasses.dataclass(frozen=True, kw_only=True)
class QueryThreshold(_Threshold):
    """Take `threshold` from every query weight and drop what is not above 0: a soft threshold.

    Documents are left as they are.

    Examples
    --------
    >>> prune_query(QueryThreshold(threshold=0.5), np.array([7, 9]), np.array([0.25, 2.0]))
    (array([9]), array([1.5]))
    """

    step: ClassVar[str] = "query_threshold"


@dataclasses.dataclass(frozen=True, kw_only=True)
class MassShare(RowStep):
    """Keep of every document the fewest largest weights whose sum reaches `share` of the sum of all.

    Of equal weights the one of the smaller term number stays. Sums are taken in float64, "reaches" means up to a
    relative 1e-12.

    Examples
    --------
    >>> docs = Csr(np.array([0, 4]), np.array([2, 3, 5, 8]), np.array([1, 6, 1, 2]), 10)
    >>> prune_rows(MassShare(share=0.8), docs).indices
    array([3, 8])
    """

    share: float

    step: ClassVar[str] = "mass_share"

    def __post_init__(self) -> None:
        share = checked_number("share", self.share)
        if not 0.0 < share <= 1.0:
            raise ConfigError(option="share", expected="greater than 0 and at most 1", got=self.share)
        object.__setattr__(self, "share", share)

    def kept(self, docs: Csr) -> NDArray[np.bool_]:
        """Return of every posting whether it stays."""
        if self.share == 1.0:  # also weights too small to change the sum
            return np.ones(len(docs.values), dtype=np.bool_)
        return _kept_largest(docs, np.diff(docs.indptr) > 1, self._num_kept)

    def _num_kept(self, descending: NDArray[Any]) -> NDArray[np.int64]:
        # By the largest weight, so that no sum overflows; row by row, so that no sum depends on other documents.
        mass = np.cumsum(descending / descending[:, :1].astype(np.float64), axis=1)
        needed = mass[:, -1:] * (self.share * (1.0 - _MASS_TOLERANCE))
        number: NDArray[np.int64] = np.count_nonzero(mass < needed, axis=1) + 1
        return number


@dataclasses.dataclass(frozen=True, kw_only=True)
class TopTerms(_Count, RowStep):
    """Keep the `count` largest weights of every document; of equal ones that of the smaller term number.

    Examples
    --------
    >>> docs = Csr(np.array([0, 4]), np.array([2, 3, 5, 8]), np.array([1, 6, 1, 2]), 10)
    >>> prune_rows(TopTerms(count=3), docs).indices
    array([2, 3, 8])
    """

    step: ClassVar[str] = "top_terms"

    def kept(self, docs: Csr) -> NDArray[np.bool_]:
        """Return of every posting whether it stays."""
        too_long = np.diff(docs.indptr) > self.count
        return _kept_largest(docs, too_long, lambda descending: np.full(len(descending), self.count, dtype=np.int64))


@dataclasses.dataclass(frozen=True, kw_only=True)
class MaxPostings(_Count):
    """Keep the `count` largest weights of every term over the collection; of equal ones those of smaller rows.

    Examples
    --------
    >>> docs = Csr(np.array([0, 1, 2, 3]), np.array([4, 4, 4]), np.array([5, 9, 5]), 10)
    >>> pruned = prune_batches(MaxPostings(count=2), lambda: [docs], num_terms=10)
    >>> next(iter(pruned())).indptr
    array([0, 1, 2, 2])
    """

    step: ClassVar[str] = "max_postings"


_STEPS: dict[str, type[Step]] = {
    kind.step: kind for kind in (DocThreshold, QueryThreshold, MassShare, TopTerms, MaxPostings)
}


def step_from_dict(values: Mapping[str, Any]) -> Step:
    """Make a step from plain values, such as `Step.to_dict` returns; unknown names are errors.

    Examples
    --------
    >>> step_from_dict({"step": "top_terms", "count": 64})
    TopTerms(count=64)
    """
    if not isinstance(values, Mapping):
        raise ConfigError(expected="a pruning step as a mapping", got=f"{values!r}")
    name = values.get("step")
    if not isinstance(name, str) or name not in _STEPS:
        raise ConfigError(option="step", expected=f"one of {', '.join(_STEPS)}", got=f"{name!r}")
    given = sorted(str(key) for key in values if key != "step")
    option = _option(name)
    if given != [option]:
        raise ConfigError(expected=f"the option {option} of {name}", got=f"{', '.join(given) or 'none'}")
    return _STEPS[name](**{option: values[option]})


def parse_step(text: str) -> Step:
    """Read a step as the command line gives it: its name, '=', and its one number.

    Examples
    --------
    >>> parse_step("doc-threshold=0.5")
    DocThreshold(threshold=0.5)
    """
    given, _, number = text.partition("=")
    name = given.strip().replace("-", "_")
    if name not in _STEPS:
        known = ", ".join(f"{step.replace('_', '-')}=…" for step in _STEPS)
        raise ConfigError(expected=f"a pruning step ({known})", got=f"{text!r}")
    kind = _STEPS[name]
    whole = issubclass(kind, _Count)
    value = parsed_int(number.strip()) if whole else parsed_float(number.strip())
    if value is None:
        what = "a whole number" if whole else "a number"
        raise ConfigError(expected=f"{what} as in {given.strip()}={64 if whole else 0.5}", got=f"{text!r}")
    return kind(**{_option(name): value})


def _option(name: str) -> str:
    """Return the name of the one field of a step."""
    (field,) = dataclasses.fields(_STEPS[name])
    return field.name


def _as_steps(steps: Step | Iterable[Step]) -> list[Step]:
    found = [steps] if isinstance(steps, Step) else list(steps)
    for step in found:
        if not isinstance(step, Step):
            raise ConfigError(expected="pruning steps such as TopTerms(count=64)", got=f"{step!r}")
    return found


# --- documents, one at a time ----------------------------------------------------------------------------------------


def prune_rows(steps: Step | Iterable[Step], docs: Csr) -> Csr:
    """Apply per-document steps in the order given.

    Parameters
    ----------
    steps
        One or several. `QueryThreshold` changes nothing here.
    docs
        Rows with ascending terms and positive weights. Dtypes and the number of rows stay what they are.

    Raises
    ------
    ConfigError
        For `MaxPostings`: it needs the whole collection, see `prune_batches`.
    """
    for step in _as_steps(steps):
        if isinstance(step, MaxPostings):
            raise ConfigError(
                expected="per-document steps", got=f"{step}: it needs the whole collection", hint="use prune_batches"
            )
        if isinstance(step, RowStep):
            docs = kept_entries(docs, step.kept(docs))
    return docs


def _kept_largest(
    docs: Csr, cut: NDArray[np.bool_], num_kept: Callable[[NDArray[Any]], NDArray[np.int64]]
) -> NDArray[np.bool_]:
    """Return which postings stay where rows marked in `cut` keep their largest weights, ties in order of position.

    `num_kept` gets rows of weights, largest first and then zeros, and returns how many of each row stay.
    """
    kept = np.ones(len(docs.values), dtype=np.bool_)
    lengths = np.diff(docs.indptr)
    for rows in _similar_rows(lengths, np.flatnonzero(cut)):
        columns = np.arange(lengths[rows].max())
        used = columns < lengths[rows, None]
        positions = (docs.indptr[rows, None] + columns)[used]
        block = np.zeros(used.shape, dtype=docs.values.dtype)  # zeros rank behind all weights
        block[used] = docs.values[positions]
        descending = np.sort(block, axis=1)[:, ::-1]
        number = num_kept(descending)
        last = np.take_along_axis(descending, number[:, None] - 1, axis=1)
        above, tied = block > last, block == last
        ties = number - np.count_nonzero(above, axis=1)
        stays = above | (tied & (np.cumsum(tied, axis=1, dtype=np.int32) <= ties[:, None]))
        kept[positions] = stays[used]
    return kept


def _similar_rows(lengths: NDArray[np.int64], rows: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Split rows so that as dense blocks they take little memory: of like length, and not many at a time."""
    exponents = np.ceil(np.log2(lengths[rows])).astype(np.int64)
    for exponent in np.unique(exponents):
        alike = rows[exponents == exponent]
        step = max(1, _BLOCK_CELLS >> int(exponent))
        for start in range(0, len(alike), step):
            yield alike[start : start + step]


# --- documents, whole collection -------------------------------------------------------------------------------------


def prune_batches(
    steps: Step | Iterable[Step], batches: Batches, num_terms: int, max_values: int = 1 << 26
) -> Callable[[], Iterator[Csr]]:
    """Apply all document steps, caps among them, in the order given.

    Parameters
    ----------
    steps
        One or several. `QueryThreshold` changes nothing here.
    batches
        Gives the collection in row order. Called by this function only for `MaxPostings`, then several times.
    num_terms
        The number of columns.
    max_values
        About how many weights may be held in memory to find where to cut posting lists.

    Returns
    -------
    Callable
        Every call reads the collection once and gives its batches, pruned. How rows are cut into batches makes no
        difference to any row.
    """
    for step in _as_steps(steps):
        if isinstance(step, MaxPostings):
            cutoffs = posting_cutoffs(batches, num_terms, step.count, max_values)
            batches = _capped(cutoffs, batches)
        elif isinstance(step, RowStep):
            batches = _row_pruned(step, batches)
    source = batches
    return lambda: iter(source())


def _row_pruned(step: RowStep, batches: Batches) -> Batches:
    return lambda: (prune_rows(step, batch) for batch in batches())


def _capped(cutoffs: Cutoffs, batches: Batches) -> Batches:
    def read() -> Iterator[Csr]:
        fresh = cutoffs.restarted()
        for batch in batches():
            yield fresh.apply(batch)

    return read


class Cutoffs:
    """Where every posting list is cut, and how many postings tied with the cut have stayed so far.

    Made by `posting_cutoffs`. One object serves one pass over the collection; `restarted` gives another.

    Parameters
    ----------
    weights
        Per term the smallest weight that stays, 0 where the whole list stays.
    ties
        Per term how many postings of just that weight stay.
    """

    def __init__(self, weights: NDArray[Any], ties: NDArray[np.int64]) -> None:
        self._weights = weights
        self._ties = ties
        self._ties_left = ties.copy()

    def restarted(self) -> Cutoffs:
        """Return the same cutoffs for another pass, from the first row on."""
        return Cutoffs(self._weights, self._ties)

    def apply(self, docs: Csr) -> Csr:
        """Return the next batch in row order without the postings that are cut off.

        Examples
        --------
        >>> docs = Csr(np.array([0, 1, 2, 3]), np.array([4, 4, 4]), np.array([5, 9, 5]), 10)
        >>> posting_cutoffs(lambda: [docs], 10, 1, 1000).apply(docs).values
        array([9])
        """
        last = self._weights[docs.indices]
        kept = docs.values > last
        tied = np.flatnonzero(docs.values == last)
        terms = docs.indices[tied]
        kept[tied] = _occurrence(terms) < self._ties_left[terms]
        np.subtract.at(self._ties_left, terms[kept[tied]], 1)
        return kept_entries(docs, kept)


def posting_cutoffs(batches: Batches, num_terms: int, count: int, max_values: int) -> Cutoffs:
    """Find where to cut posting lists so that each keeps its `count` largest weights, ties in row order.

    Reads the collection once to count, and once more for every group of long lists that together have at most
    `max_values` postings; a single list longer than that is a group of its own.

    Parameters
    ----------
    batches
        Gives the whole collection in row order, the same at every call.
    num_terms
        The number of columns.
    count
        The most postings that a list may keep.
    max_values
        How many weights to hold in memory at a time.
    """
    count = checked_int("count", count, 1)
    max_values = checked_int("max_values", max_values, 1)
    frequency, dtype = _frequencies(batches, num_terms)
    weights = np.zeros(num_terms, dtype=dtype)
    ties = np.zeros(num_terms, dtype=np.int64)
    long = np.flatnonzero(frequency > count)
    for first, last in ranges(np.concatenate([[0], np.cumsum(frequency[long])]), max_values):
        group = long[first:last]
        bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(frequency[group])])
        values = _gathered(batches, num_terms, group, bounds, dtype)
        for i, term in enumerate(group):
            found = values[bounds[i] : bounds[i + 1]]
            found.partition(len(found) - count)
            weights[term] = found[len(found) - count]
            ties[term] = count - np.count_nonzero(found > weights[term])
    return Cutoffs(weights, ties)


def _frequencies(batches: Batches, num_terms: int) -> tuple[NDArray[np.int64], np.dtype[Any]]:
    """Count the postings of every term; return also a dtype that holds all weights."""
    frequency = np.zeros(num_terms, dtype=np.int64)
    dtypes: set[np.dtype[Any]] = set()
    for docs in batches():
        if docs.num_columns != num_terms:
            raise InputError(expected=f"{num_terms} columns in every batch", got=docs.num_columns)
        frequency += np.bincount(docs.indices, minlength=num_terms)
        dtypes.add(docs.values.dtype)
    return frequency, np.result_type(*dtypes) if dtypes else np.dtype(np.float64)


def _gathered(
    batches: Batches, num_terms: int, group: NDArray[np.int64], bounds: NDArray[np.int64], dtype: np.dtype[Any]
) -> NDArray[Any]:
    """Collect the weights of a group of terms, those of group[i] in bounds[i]:bounds[i + 1]."""
    slot_of = np.full(num_terms, -1, dtype=np.int64)
    slot_of[group] = np.arange(len(group))
    values = np.empty(bounds[-1], dtype=dtype)
    free = bounds[:-1].copy()
    for docs in batches():
        slots = slot_of[docs.indices]
        wanted = slots >= 0
        slots = slots[wanted]
        counts = np.bincount(slots, minlength=len(group))
        _check_same(free + counts <= bounds[1:])
        values[free[slots] + _occurrence(slots)] = docs.values[wanted]
        free += counts
    _check_same(free == bounds[1:])
    return values


def _check_same(fits: NDArray[np.bool_]) -> None:
    if not fits.all():
        raise InputError(
            expected="batches() to give the same documents at every call", got="other ones than at the first"
        )


def _occurrence(numbers: NDArray[Any]) -> NDArray[np.int64]:
    """Tell of every entry how many equal ones come before it."""
    if len(numbers) == 0:
        return np.zeros(0, dtype=np.int64)
    # Sorting 16 bits is several times faster, and most vocabularies fit.
    order = np.argsort(numbers.astype(np.min_scalar_type(int(numbers.max()))), kind="stable")
    ordered = numbers[order]
    place = np.arange(len(numbers), dtype=np.int64)
    is_first = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    earlier = np.empty_like(place)
    earlier[order] = place - np.maximum.accumulate(np.where(is_first, place, 0))
    return earlier


# --- queries ---------------------------------------------------------------------------------------------------------


def prune_query(
    steps: Step | Iterable[Step], terms: NDArray[np.int64], weights: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Apply the query-side steps to one query; see `prune_queries`."""
    ends = np.array([0, len(terms)], dtype=np.int64)
    pruned = prune_queries(steps, Csr(ends, terms, weights, 0))
    return pruned.indices, pruned.values


def prune_queries(steps: Step | Iterable[Step], queries: Csr) -> Csr:
    """Apply the query-side steps to many queries.

    Without such a step the queries come back as they are, and also where a term number is negative or a weight is
    negative or not finite: searching reports those. Otherwise repeated terms are summed first, in the order given,
    since a threshold is on the whole weight of a term, and terms come back in ascending order.
    """
    thresholds = [step.threshold for step in _as_steps(steps) if isinstance(step, QueryThreshold)]
    if not thresholds or not usable_queries(queries):
        return queries
    summed = _summed(queries)
    weights = summed.weights
    for threshold in thresholds:
        weights = np.maximum(weights - threshold, 0.0)
    return _as_csr(summed._replace(weights=weights), queries, weights > 0)


def usable_queries(queries: Csr) -> bool:
    """Whether all term numbers are >= 0 and all weights are finite and >= 0."""
    return bool(((queries.indices >= 0) & (queries.values >= 0) & np.isfinite(queries.values)).all())


class _Summed(NamedTuple):
    """Query weights, one per row and term, by row and then by term."""

    rows: NDArray[np.int64]
    terms: NDArray[np.int64]
    weights: NDArray[np.float64]


def _as_csr(summed: _Summed, queries: Csr, kept: NDArray[np.bool_]) -> Csr:
    counts = np.bincount(summed.rows[kept], minlength=queries.num_rows)
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    return Csr(indptr, summed.terms[kept], summed.weights[kept], queries.num_columns)


def _summed(queries: Csr) -> _Summed:
    rows = np.repeat(np.arange(queries.num_rows), np.diff(queries.indptr))
    order = np.lexsort((queries.indices, rows))  # stable: repeated terms stay in the order given
    rows, terms = rows[order], queries.indices[order]
    is_first = np.ones(len(rows), dtype=np.bool_)
    is_first[1:] = (rows[1:] != rows[:-1]) | (terms[1:] != terms[:-1])
    sums: NDArray[Any] = np.bincount(np.cumsum(is_first) - 1, weights=queries.values[order])
    return _Summed(rows[is_first], terms[is_first], sums.astype(np.float64))  # of nothing bincount makes integers
