"""Rows of CSR matrices: cut, joined, chosen, and stored as narrow as they can be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from segmax.base.parallel import ranges
from segmax.vectors.csr import Csr

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    from segmax.base.optional import scipy_sparse as sp

#: The most rows and, but for one giant row, the most postings that are worked on together.
SLAB_DOCS = 16384
SLAB_POSTINGS = 1 << 20


def bounded_ranges(indptr: NDArray[Any]) -> Iterator[tuple[int, int]]:
    """Cut rows into ranges that are worked on together: `SLAB_DOCS` rows and `SLAB_POSTINGS`, or one giant row."""
    return ranges(indptr, SLAB_POSTINGS, SLAB_DOCS)


def slice_rows(docs: Csr, first: int, last: int) -> Csr:
    """Return the rows from `first` to before `last`, as views."""
    indptr = docs.indptr[first : last + 1]
    begin, end = int(indptr[0]), int(indptr[-1])
    return Csr(indptr - begin, docs.indices[begin:end], docs.values[begin:end], docs.num_columns)


def join_rows(several: list[Csr], num_columns: int) -> Csr:
    """Return the rows of all of them, one after the other, as a copy."""
    counts = np.concatenate([np.diff(docs.indptr) for docs in several])
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    indices = np.concatenate([docs.indices for docs in several])
    values = np.concatenate([docs.values for docs in several])
    return Csr(indptr, indices, values, num_columns)


def no_rows(num_columns: int) -> Csr:
    """Return a matrix without rows."""
    return Csr(np.zeros(1, np.int64), np.empty(0, np.uint32), np.empty(0, np.float64), num_columns)


def narrowest(values: NDArray[Any]) -> NDArray[Any]:
    """Return non-negative weights in the smallest dtype that holds every one of them exactly.

    These are unsigned integers for integers of any size and for floats that are whole numbers up to 65,535, and 32 or
    64 bits for other floats.

    Examples
    --------
    >>> [narrowest(np.array([1, most])).dtype.name for most in (255, 65_535, 70_000, 2**32, 7e4, 1.5)]
    ['uint8', 'uint16', 'uint32', 'uint64', 'float32', 'float32']
    """
    if len(values) == 0:
        return values.astype(np.uint8)
    if values.dtype.kind in "ui":
        return values.astype(np.min_scalar_type(values.max()), copy=False)
    if values.dtype == np.float16:
        values = values.astype(np.float32)
    if bool((values == np.floor(values)).all()) and values.max() <= 2**16 - 1:
        return values.astype(np.uint8 if values.max() <= 255 else np.uint16)
    with np.errstate(over="ignore", under="ignore"):
        single = values.astype(np.float32)
    return single if bool((single == values).all()) else values


def sample_rows(num_rows: int, count: int, seed: int) -> NDArray[np.int64]:
    """Return so many different rows, ascending; all if there are no more."""
    if num_rows <= count:
        return np.arange(num_rows, dtype=np.int64)
    rows = np.random.default_rng(seed).choice(num_rows, size=count, replace=False, shuffle=False)
    return np.sort(rows).astype(np.int64)


def selected_rows(docs: Csr, rows: NDArray[np.int64]) -> Csr:
    """Return some rows as a copy."""
    counts = np.diff(docs.indptr)[rows]
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    # From one entry to the next it is a step of 1, but for the first of a row. (`np.repeat` would hold Python's lock.)
    steps = np.ones(int(indptr[-1]), dtype=np.int64)
    is_filled = counts > 0
    starts, last = docs.indptr[rows[is_filled]], (docs.indptr[rows] + counts - 1)[is_filled]
    steps[indptr[:-1][is_filled]] = starts - np.concatenate([np.zeros(1, np.int64), last[:-1]])
    at = np.cumsum(steps, out=steps)
    return Csr(indptr, docs.indices[at], docs.values[at], docs.num_columns)


def stable_order(numbers: NDArray[Any]) -> NDArray[np.int64]:
    """Return the order that sorts whole numbers >= 0, equal ones as they came.

    Examples
    --------
    >>> stable_order(np.array([70_000, 2, 70_000, 1])).tolist()
    [3, 1, 0, 2]
    """
    # numpy sorts 16 bits at a time by counting, which takes a fraction of the time of comparing.
    order = np.argsort(numbers.astype(np.uint16), kind="stable")
    largest = int(numbers.max(initial=0))
    for shift in range(16, largest.bit_length(), 16):
        order = order[np.argsort((numbers[order] >> shift).astype(np.uint16), kind="stable")]
    return order


def sorted_rows(docs: Csr) -> Csr:
    """Return the rows with ascending columns."""
    row_start = np.repeat(np.arange(docs.num_rows, dtype=np.int64) * docs.num_columns, np.diff(docs.indptr))
    order = np.argsort(row_start + docs.indices, kind="stable")
    return docs._replace(indices=docs.indices[order], values=docs.values[order])


def to_scipy(docs: Csr) -> sp.csr_matrix:
    """Return the rows as a scipy matrix that shares their arrays."""
    return sp.csr_matrix((docs.values, docs.indices, docs.indptr), shape=(docs.num_rows, docs.num_columns))


def ranks_within(indptr: NDArray[Any]) -> NDArray[np.int64]:
    """Return the number of every entry within its row.

    Examples
    --------
    >>> ranks_within(np.array([0, 2, 2, 5])).tolist()
    [0, 1, 0, 1, 2]
    """
    return np.asarray(np.arange(indptr[-1]) - np.repeat(indptr[:-1], np.diff(indptr)), dtype=np.int64)
