"""The CSR triple, which everything inside segmax computes with, and its conversion from scipy and torch matrices.

Nothing here imports torch, and scipy is imported for the first matrix only.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from segmax.base.checks import check_unmasked
from segmax.base.errors import InputError

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    from segmax.base.optional import scipy_sparse as sp


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
    return is_scipy(value) or _is_torch(value)


def is_scipy(value: object) -> bool:
    """Whether this is a scipy sparse matrix; there are none before scipy is loaded."""
    issparse = getattr(sys.modules.get("scipy.sparse"), "issparse", None)
    return issparse is not None and bool(issparse(value))


def matrix_to_csr(value: object) -> Csr:
    """Return a scipy or torch matrix as a CSR triple, its values as they are."""
    if _is_torch(value):
        matrix = _from_scipy(_from_torch(value))
    elif is_scipy(value):
        matrix = _from_scipy(value)
    else:
        raise InputError(expected="a scipy sparse matrix or a torch sparse tensor", got=type(value).__name__)
    if matrix.dtype.kind not in "buif":
        raise InputError(expected="weights of a float or integer dtype", got=matrix.dtype)
    return Csr(matrix.indptr.astype(np.int64), matrix.indices, matrix.data, int(matrix.shape[1]))


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
    if csr.values.dtype == np.bool_:
        csr = csr._replace(values=csr.values.astype(np.uint8))
    if not _ascends(csr):
        csr = _summed(csr)
        _check_weights(csr, first_row)  # sums of finite weights may be infinite
    csr = kept_entries(csr, csr.values != 0)
    return Csr(csr.indptr.astype(np.int64, copy=False), csr.indices.astype(np.uint32), csr.values, csr.num_columns)


def kept_entries(docs: Csr, kept: NDArray[np.bool_]) -> Csr:
    """Return the rows with only the marked entries."""
    if kept.all():
        return docs
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept, dtype=np.int64)])
    return Csr(before[docs.indptr], docs.indices[kept], docs.values[kept], docs.num_columns)


def _ascends(csr: Csr) -> bool:
    """Whether the terms of every row ascend, none of them twice."""
    ascends = csr.indices[1:] > csr.indices[:-1]
    starts = csr.indptr[1:-1]  # between rows anything goes
    ascends[starts[(starts > 0) & (starts < len(csr.indices))] - 1] = True
    return bool(ascends.all())


def _summed(csr: Csr) -> Csr:
    """Return rows with ascending terms, repeated ones summed, zeros dropped."""
    rows = np.repeat(np.arange(csr.num_rows, dtype=np.int64), np.diff(csr.indptr))
    order = np.lexsort((csr.indices, rows))
    rows, terms, values = rows[order], csr.indices[order], _widened(csr.values)[order]
    is_first = np.ones(len(terms), dtype=np.bool_)
    is_first[1:] = (terms[1:] != terms[:-1]) | (rows[1:] != rows[:-1])
    with np.errstate(over="ignore"):  # which the caller looks for
        sums = np.add.reduceat(values, np.flatnonzero(is_first))
    lengths = np.bincount(rows[is_first], minlength=csr.num_rows)
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    summed = Csr(indptr, terms[is_first], sums, csr.num_columns)
    return kept_entries(summed, summed.values != 0)


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
