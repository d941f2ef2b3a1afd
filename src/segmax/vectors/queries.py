"""Queries in, whatever they come as; term numbers and weights out.

A query is a mapping of term to weight, a pair (indices, values), or a scipy or torch row.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Number
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from segmax.base.checks import check_listed, check_unmasked
from segmax.base.errors import InputError
from segmax.vectors.csr import Csr, check_structure, is_matrix, is_scipy, matrix_to_csr

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    from segmax.base.optional import scipy_sparse as sp

#: Finds the number of a term given as text; None where the index has no vocabulary.
TermLookup = Callable[[str], int | None] | None


def _as_doubles(weights: NDArray[Any]) -> NDArray[np.float64]:
    """Return the weights of queries as doubles; what does not fit becomes infinite, which the core refuses."""
    with np.errstate(over="ignore"):
        return weights.astype(np.float64, copy=False)


def _query_weights(values: Any) -> NDArray[np.float64]:
    """Return the weights of a query; texts, times and truth values are not numbers, even where numpy casts them."""
    if type(values) is not np.ndarray:
        _check_members(values)
    try:
        array = np.asarray(values, order="C")
        if array.dtype is _DOUBLE and array.ndim == 1:  # nearly always
            return array
        if array.dtype.kind == "O" and not isinstance(values, np.ndarray):
            array = _real_numbers(values)
        usable = array.ndim <= 1 and (array.size == 0 or array.dtype.kind in "iuf")
    except (OverflowError, TypeError, ValueError):
        usable = False
    if not usable:
        raise _no_weights(values)
    return _as_doubles(array)


_DOUBLE = np.dtype(np.float64)
_PLAIN_NUMBERS = frozenset({float, int, np.float64, np.float32, np.int64, np.int32})


def _no_weights(values: object) -> InputError:
    return InputError(expected="numbers as query weights", got=repr(values)[:260])


def _check_members(values: Any) -> None:
    """Refuse a mask, and truth values among numbers: numpy drops the one and makes 0 and 1 of the others."""
    check_unmasked(values, "query weights")
    if not isinstance(values, (list, tuple)) or _PLAIN_NUMBERS.issuperset(map(type, values)):
        return
    for value in values:
        check_unmasked(value, "query weights")
        if isinstance(value, bool) or str(getattr(value, "dtype", "")).endswith("bool"):
            raise _no_weights(values)


def _real_numbers(values: Iterable[Any]) -> NDArray[np.float64]:
    """Convert what numpy has no dtype for: fractions, decimals and whole numbers of more than 64 bits."""
    numbers = list(values)
    if not all(isinstance(number, Number) and not isinstance(number, (bool, complex)) for number in numbers):
        msg = "not all of these are real numbers"
        raise TypeError(msg)
    return np.array([float(number) for number in numbers], dtype=np.float64)


def _pair_to_arrays(pair: Sequence[Any]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    if pair and isinstance(pair[0], str) and all(isinstance(item, str) for item in pair):
        raise InputError(expected="one query", got=f"{len(pair)} texts", hint="use search_batch for many")
    if len(pair) != 2:
        raise InputError(expected="a query as (indices, values)", got=f"a sequence of {len(pair)} items")
    if type(pair[0]) is not np.ndarray:
        check_unmasked(pair[0], "term numbers")
    indices = np.asarray(pair[0])
    values = _query_weights(pair[1])
    if indices.size == 0:
        indices = indices.astype(np.int64)
    if indices.ndim != 1 or indices.shape != values.shape:
        raise InputError(expected="indices and values of one length", got=f"shapes {indices.shape} and {values.shape}")
    if indices.dtype.kind not in "iu":
        raise InputError(expected="integer term numbers in a query", got=indices.dtype)
    if indices.dtype == np.uint64:  # no index has that many terms: such numbers are unknown terms, if they do not wrap
        indices = np.minimum(indices, np.iinfo(np.int64).max)
    return indices.astype(np.int64, order="C", copy=False), values


def _mapping_to_arrays(
    query: Mapping[Any, Any], lookup: TermLookup, num_terms: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Terms of a mapping; unknown words get numbers behind all others, so that the core counts them.

    A word and the number of its column are the same term: their weights are summed, like those of repeated terms.
    """
    weights = _query_weights(list(query.values()))
    if set(map(type, query)) == {int}:
        with contextlib.suppress(OverflowError):
            return np.fromiter(query, np.int64, len(query)), weights
    numbers = np.empty(len(query), dtype=np.int64)
    words: list[int] = []
    for i, term in enumerate(query):
        number = _word_number(term, lookup) if isinstance(term, str) else _term_number(term)
        if number is None:
            words.append(i)
        numbers[i] = -1 if number is None else number
    behind = max(num_terms, int(numbers.max(initial=-1)) + 1)
    numbers[words] = np.arange(behind, behind + len(words))
    return numbers, weights


def _word_number(term: str, lookup: TermLookup) -> int | None:
    if lookup is None:
        raise InputError(
            expected="term numbers",
            got=f"the term {term!r}: this index stores no vocabulary",
            hint="build it with {terms=...}",
        )
    return lookup(term)


def _term_number(term: Any) -> int:
    try:
        number = operator.index(term)
    except TypeError:
        number = None
    if number is None or isinstance(term, bool):
        raise InputError(expected="terms of a query to be integers or words", got=f"{term!r}")
    return min(number, 2**62)


def _is_plain_row(row: Any) -> bool:
    """Whether a CSR matrix is one row that nothing is wrong with; the long way finds out what is."""
    try:
        shape, ends, indices, data = row.shape, row.indptr.tolist(), row.indices, row.data
        if len(shape) != 2 or shape[0] != 1 or type(data) is not np.ndarray or data.dtype.char not in _PLAIN_DTYPES:
            return False
        count = len(indices)
        if ends != [0, count] or type(ends[1]) is not int or data.shape != (count,):
            return False
    except (AttributeError, TypeError):
        return False
    unsigned = _UNSIGNED.get(indices.dtype)  # in which a negative number is larger than any column
    return count == 0 or (unsigned is not None and bool(np.maximum.reduce(indices.view(unsigned)) < shape[1]))


_PLAIN_DTYPES = "?bBhHiIlLqQefd"  # every number that becomes a double without a warning
_UNSIGNED = {np.dtype(np.int32): np.uint32, np.dtype(np.int64): np.uint64}


def row_arrays(csr: Csr) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the term numbers and weights of one query in CSR; raise InputError if there is not exactly one."""
    if csr.num_rows != 1:
        raise InputError(expected="one query", got=f"a matrix of {csr.num_rows} rows", hint="use search_batch for many")
    return csr.indices.astype(np.int64), _as_doubles(csr.values)


def query_arrays(
    query: object, lookup: TermLookup = None, num_terms: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the term numbers and weights of one query; arrays that fit already are not copied."""
    if isinstance(query, (tuple, list)):
        return _pair_to_arrays(query)
    if isinstance(query, Mapping):
        return _mapping_to_arrays(query, lookup, num_terms)
    if is_scipy(query) and isinstance(query, (sp.csr_matrix, sp.csr_array)) and _is_plain_row(query):
        terms = query.indices.astype(np.int64, order="C", copy=False)
        return terms, query.data.astype(np.float64, order="C", copy=False)
    if is_matrix(query):
        return row_arrays(matrix_to_csr(query))
    raise InputError(
        expected=("a query as a scipy or torch sparse row, a mapping of term to weight, or (indices, values)"),
        got=type(query).__name__,
    )


def query_list(queries: object) -> list[Any]:
    """Return single queries, whatever holds them: a sequence, a generator, an array of texts, a column of a table."""
    check_listed("queries as a sparse matrix or an iterable of queries", queries)
    return _of_one_kind(list(queries))  # type: ignore[call-overload]


def _of_one_kind(queries: list[Any]) -> list[Any]:
    """Return the queries; refuse texts mixed with anything else."""
    texts = [isinstance(query, str) for query in queries]
    if any(texts) and not all(texts):
        other = texts.index(False)
        raise InputError(
            expected="texts only or vectors only", got=f"texts and {type(queries[other]).__name__} at query {other}"
        )
    return queries


def _checked_rows(rows: Csr) -> Csr:
    """Return rows that a file holds, which have not been a matrix of scipy yet."""
    check_structure(rows, rows.num_rows)
    if rows.values.dtype.kind not in "buif":
        raise InputError(expected="weights of a float or integer dtype", got=rows.values.dtype)
    return rows


def query_batch(queries: object, lookup: TermLookup = None, num_terms: int = 0) -> Csr:
    """Return many queries as one CSR triple with int64 terms and float64 weights."""
    if isinstance(queries, Csr) or is_matrix(queries):
        csr = _checked_rows(queries) if isinstance(queries, Csr) else matrix_to_csr(queries)
        return Csr(csr.indptr, csr.indices.astype(np.int64), _as_doubles(csr.values), csr.num_columns)
    parts = [query_arrays(query, lookup, num_terms) for query in query_list(queries)]
    indptr = np.zeros(len(parts) + 1, dtype=np.int64)
    np.cumsum([len(terms) for terms, _ in parts], out=indptr[1:])
    terms = np.concatenate([t for t, _ in parts]) if parts else np.empty(0, np.int64)
    weights = np.concatenate([w for _, w in parts]) if parts else np.empty(0, np.float64)
    return Csr(indptr, terms, weights, num_terms)
