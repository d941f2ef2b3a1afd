"""Rows as files have them: numbered where they have no ids, in ascending order, and short enough to be held."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: The most entries of one row, which is held in memory.
MAX_ROW = 1 << 24


def row_ids(first: int, count: int) -> list[str]:
    """Return row numbers as ids.

    Examples
    --------
    >>> row_ids(7, 2)
    ['7', '8']
    """
    return [str(row) for row in range(first, first + count)]


#: What was expected, and what a file has instead.
Problem = tuple[str, object]


def wrong_offsets(offsets: NDArray[np.int64], first_row: int) -> Problem | None:
    """Return what is wrong with where rows start, the first of which has this number; None if nothing is.

    Examples
    --------
    >>> wrong_offsets(np.array([0, 2, 1]), 10)
    ('indptr to ascend', 'a fall at row 11')
    """
    counts = np.diff(offsets)
    if (counts < 0).any():
        return "indptr to ascend", f"a fall at row {first_row + int(np.argmax(counts < 0))}"
    if counts.max(initial=0) > MAX_ROW:
        row = first_row + int(np.argmax(counts))
        return f"at most {MAX_ROW:,} entries in a row", f"{counts.max():,} in row {row}"
    return None


def wrong_columns(columns: NDArray[np.integer], num_columns: int) -> Problem | None:
    """Return what is wrong with column numbers; None if nothing is.

    Examples
    --------
    >>> wrong_columns(np.array([0, 5]), 3)
    ('column numbers from 0 to 2', 5)
    """
    if len(columns) == 0 or (columns.min() >= 0 and columns.max() < num_columns):
        return None
    worst = columns.min() if columns.min() < 0 else columns.max()
    return f"column numbers from 0 to {num_columns - 1}", int(worst)
