"""Sparse vectors in, whatever they come as; CSR triples out.

Documents and queries may be scipy sparse matrices, torch sparse tensors, mappings of term to weight, or
(indices, values) pairs. Nothing here imports torch: its tensors are recognized by what they offer.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Number
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from segmax.base.checks import check_listed, check_unmasked
from segmax.base.errors import InputError

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    from segmax.base.optional import scipy_sparse as sp

#: Finds the number of a term given as text; None where the index has no vocabulary.
TermLookup = Callable[[str], int | None] | None


class Csr(NamedTuple):
    """Rows of (index, value) pairs: row i is indices[indptr[i]:indptr[i + 1]] with the values there."""

    indptr: NDArray[np.int64]
    indices: NDArray[Any]
    values: NDArray[Any]
    num_columns: int

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return len(self.indptr) - 1


def _is_torch(value: object) -> bool:
    return type(value).__module__.split(".")[0] == "torch" and hasattr(value, "layout")


def _from_torch(tensor: Any) -> sp.csr_matrix:
    """Convert a sparse (COO or CSR) or dense tensor of one or two dimensions."""
    tensor = tensor.detach().cpu()
    if str(tensor.dtype) in ("torch.float16", "torch.bfloat16"):
        tensor = tensor.float()  # scipy has no half precision
    if tensor.dim() == 1:
        tensor = tensor.unsqueeze(0)
    layout = str(tensor.layout)
    if layout == "torch.sparse_csr":
        parts = (tensor.values(), tensor.col_indices(), tensor.crow_indices())
        return sp.csr_matrix(tuple(part.numpy() for part in parts), shape=tuple(tensor.shape))
    if layout == "torch.strided":
        tensor = tensor.to_sparse()
    elif layout != "torch.sparse_coo":
        raise InputError(
            expected="a torch tensor of layout sparse_coo or sparse_csr", got=layout, hint="call to_sparse() first"
        )
    # Indices and values as they are, repeated entries and all: coalescing would sum them in their own dtype.
    rows, columns = tensor._indices().numpy()
    return _from_scipy(sp.coo_matrix((tensor._values().numpy(), (rows, columns)), shape=tuple(tensor.shape)))


def _widened(matrix: Any) -> Any:
    """Return the matrix in a dtype in which sums of repeated entries neither wrap nor overflow."""
    kind, size = matrix.dtype.kind, matrix.dtype.itemsize
    if kind in "bui" and size < 8:
        return matrix.astype(np.int64)
    return matrix.astype(np.float64) if kind in "uif" else matrix


def _from_scipy(matrix: Any) -> sp.csr_matrix:
    try:
        _check_parts(matrix)
        return _as_csr(matrix)
    except InputError:
        raise
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        raise InputError(
            expected="a valid sparse matrix", got=f"one that scipy cannot convert to CSR ({error})"
        ) from error


def _as_csr(matrix: Any) -> sp.csr_matrix:
    if matrix.ndim == 1:
        matrix = matrix.reshape(1, -1)
    if not matrix.dtype.isnative:
        matrix = matrix.astype(matrix.dtype.newbyteorder("="))
    # Only CSR keeps repeated entries apart; every other format sums them on the way there.
    return sp.csr_matrix(matrix if matrix.format == "csr" else _widened(matrix.tocoo()))


def _check_parts(matrix: Any) -> None:
    """Refuse index arrays that do not fit: scipy does not look at a matrix put together by hand before it uses them."""
    check_unmasked(getattr(matrix, "data", None), "weights")
    for positions in (*getattr(matrix, "coords", ()), getattr(matrix, "offsets", _NO_POSITIONS)):
        _check_integers(positions, "positions")
    if matrix.format not in ("csr", "csc", "bsr"):
        return
    height, width = getattr(matrix, "blocksize", (1, 1))
    rows, columns = (1, *matrix.shape)[-2:]  # a CSR array may have one dimension
    lists, length = (columns, rows) if matrix.format == "csc" else (rows // height, columns // width)
    first_values = matrix.data[:, 0, 0] if matrix.format == "bsr" else matrix.data
    check_structure(Csr(matrix.indptr, matrix.indices, first_values, int(length)), int(lists))


def is_matrix(value: object) -> bool:
    """Whether this is a scipy sparse matrix or a torch tensor."""
    return sp.issparse(value) or _is_torch(value)


def matrix_to_csr(value: object) -> Csr:
    """Return a scipy or torch matrix as a CSR triple, its values as they are."""
    if _is_torch(value):
        matrix = _from_scipy(_from_torch(value))
    elif sp.issparse(value):
        matrix = _from_scipy(value)
    else:
        raise InputError(expected="a scipy sparse matrix or a torch sparse tensor", got=type(value).__name__)
    if matrix.dtype.kind not in "buif":
        raise InputError(expected="weights of a float or integer dtype", got=matrix.dtype)
    return Csr(matrix.indptr.astype(np.int64), matrix.indices, matrix.data, int(matrix.shape[1]))


def _as_doubles(weights: NDArray[Any]) -> NDArray[np.float64]:
    """Return the weights of queries as doubles; what does not fit becomes infinite, which the core refuses."""
    with np.errstate(over="ignore"):
        return weights.astype(np.float64, copy=False)


def check_structure(csr: Csr, num_rows: int) -> None:
    """Refuse a matrix that points outside itself: scipy does not look at one put together by hand."""
    _check_integers(csr.indptr, "an indptr")
    _check_integers(csr.indices, "column numbers")
    whole = csr.indptr.shape == (num_rows + 1,) and csr.indices.shape == csr.values.shape == (len(csr.indices),)
    ends_right = whole and csr.indptr[0] == 0 and csr.indptr[-1] == len(csr.indices)
    # Compared, because differences of unsigned numbers are never negative.
    if not ends_right or (csr.indptr[1:] < csr.indptr[:-1]).any():
        raise InputError(
            expected="a valid CSR matrix", got="an indptr that does not ascend from 0 to the number of entries"
        )
    if len(csr.indices) and (csr.indices.min() < 0 or csr.indices.max() >= csr.num_columns):
        worst = csr.indices.min() if csr.indices.min() < 0 else csr.indices.max()
        raise InputError(expected=f"column numbers from 0 to {csr.num_columns - 1}", got=worst)


_NO_POSITIONS = np.empty(0, dtype=np.int64)


def _check_integers(numbers: NDArray[Any], what: str) -> None:
    if numbers.dtype.kind not in "iu":
        raise InputError(expected=f"{what} of an integer dtype", got=numbers.dtype)


def canonical(csr: Csr, first_row: int) -> Csr:
    """Check document weights; return rows with ascending terms, repeated ones summed, zeros dropped.

    `first_row` is added to row numbers in messages: batches are parts of one collection.
    """
    _check_weights(csr, first_row)
    if csr.values.dtype.kind == "f" and csr.values.dtype.itemsize > 8:  # everything later computes with doubles
        csr = in_precision(csr, np.float64, first_row)
    matrix = sp.csr_matrix((csr.values, csr.indices, csr.indptr), shape=(csr.num_rows, csr.num_columns))
    values = csr.values
    if values.dtype == np.bool_:
        matrix = matrix.astype(np.uint8)
    if not matrix.has_canonical_format or (matrix.data == 0).any():
        matrix = matrix.copy() if matrix.has_canonical_format else _widened(matrix)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
    summed = Csr(matrix.indptr.astype(np.int64), matrix.indices.astype(np.uint32), matrix.data, csr.num_columns)
    _check_weights(summed, first_row)  # sums of finite weights may be infinite
    return summed


def in_precision(csr: Csr, dtype: type[np.floating[Any]], first_row: int) -> Csr:
    """Return the same rows with weights of another float type; raise InputError for one that is too large for it."""
    with np.errstate(over="ignore", under="ignore"):
        values = csr.values.astype(dtype)
    lost = ~np.isfinite(values)
    if lost.any():
        at = int(np.argmax(lost))
        raise InputError(
            expected=f"weights up to {np.finfo(dtype).max:.4g}, which {values.dtype} holds",
            got=f"{csr.values[at]!s} in {_place(csr, at, first_row)}",
            hint="scale the weights down first",
        )
    return csr._replace(values=values)


def _place(csr: Csr, at: int, first_row: int) -> str:
    row = first_row + int(np.searchsorted(csr.indptr, at, side="right")) - 1
    return f"document {row}, term {csr.indices[at]}"


def _check_weights(csr: Csr, first_row: int) -> None:
    if csr.values.dtype.kind in "bu":
        return
    bad = csr.values < 0
    if csr.values.dtype.kind == "f":
        bad |= ~np.isfinite(csr.values)
    if not bad.any():
        return
    at = int(np.argmax(bad))
    raise InputError(
        expected="finite weights >= 0",
        got=f"{csr.values[at]!s} in {_place(csr, at, first_row)}",
        hint="clip or remove such weights first",
    )


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
    return InputError(f"expected numbers as query weights, got {values!r}"[:300])


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


def query_arrays(
    query: object, lookup: TermLookup = None, num_terms: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the term numbers and weights of one query; arrays that fit already are not copied."""
    if isinstance(query, (tuple, list)):
        return _pair_to_arrays(query)
    if isinstance(query, Mapping):
        return _mapping_to_arrays(query, lookup, num_terms)
    if isinstance(query, (sp.csr_matrix, sp.csr_array)) and _is_plain_row(query):
        terms = query.indices.astype(np.int64, order="C", copy=False)
        return terms, query.data.astype(np.float64, order="C", copy=False)
    if is_matrix(query):
        csr = matrix_to_csr(query)
        if csr.num_rows != 1:
            raise InputError(
                expected="one query", got=f"a matrix of {csr.num_rows} rows", hint="use search_batch for many"
            )
        return csr.indices.astype(np.int64), _as_doubles(csr.values)
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


def query_batch(queries: object, lookup: TermLookup = None, num_terms: int = 0) -> Csr:
    """Return many queries as one CSR triple with int64 terms and float64 weights."""
    if is_matrix(queries):
        csr = matrix_to_csr(queries)
        return Csr(csr.indptr, csr.indices.astype(np.int64), _as_doubles(csr.values), csr.num_columns)
    parts = [query_arrays(query, lookup, num_terms) for query in query_list(queries)]
    indptr = np.zeros(len(parts) + 1, dtype=np.int64)
    np.cumsum([len(terms) for terms, _ in parts], out=indptr[1:])
    terms = np.concatenate([t for t, _ in parts]) if parts else np.empty(0, np.int64)
    weights = np.concatenate([w for _, w in parts]) if parts else np.empty(0, np.float64)
    return Csr(indptr, terms, weights, num_terms)
