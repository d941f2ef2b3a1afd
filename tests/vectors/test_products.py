"""Products, transposes and sums of sparse rows are those of scipy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from segmax.vectors.csr import Csr, canonical
from segmax.vectors.products import score_batches, transposed
from segmax.vectors.rows import stable_order


def rows_of(matrix: sp.csr_matrix) -> Csr:
    """A matrix as a CSR triple."""
    return Csr(matrix.indptr.astype(np.int64), matrix.indices, matrix.data, matrix.shape[1])


@pytest.mark.parametrize("width", [3, 40, 100_000])
def test_transposes(width: int) -> None:
    """Columns become rows, with ascending numbers, also where they take more than 16 bits."""
    docs = sp.random(60, width, 0.02, format="csr", random_state=1)
    found, expected = transposed(rows_of(docs)), docs.tocsc()
    assert (found.num_rows, found.num_columns) == (width, 60)
    assert np.array_equal(found.indptr, expected.indptr)
    assert np.array_equal(found.indices, expected.indices)
    assert np.array_equal(found.values, expected.data)


def test_scores() -> None:
    """Every query with every document, to the last bit; batches cover all queries, empty ones among them."""
    docs = sp.random(70, 50, 0.2, format="csr", random_state=2)
    queries = sp.random(300, 50, 0.05, format="csr", random_state=3)
    batches = list(score_batches(rows_of(queries), rows_of(docs)))
    assert [first for first, _ in batches] == [0, 128, 256]
    assert np.array_equal(np.concatenate([scores for _, scores in batches]), (queries @ docs.T).toarray())
    assert list(score_batches(rows_of(queries[:0]), rows_of(docs))) == []


def test_orders_are_stable() -> None:
    """For numbers of any size."""
    rng = np.random.default_rng(4)
    for most, kind in ((9, np.uint8), (70_000, np.uint32), (2**40, np.int64)):
        numbers = rng.integers(0, most, 2_000).astype(kind)
        assert np.array_equal(stable_order(numbers), np.argsort(numbers, kind="stable"))
    assert stable_order(np.empty(0, np.int64)).tolist() == []


@pytest.mark.parametrize("kind", ["f4", "f8", "u1", "i2", "u8"])
def test_repeated_terms_are_summed(kind: str) -> None:
    """As scipy sums them, without wrapping, and with ascending terms; zeros are dropped."""
    rng = np.random.default_rng(5)
    lengths = rng.integers(0, 30, 200)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    terms, values = rng.integers(0, 12, indptr[-1]), rng.integers(0, 200, indptr[-1]).astype(kind)
    found = canonical(Csr(indptr, terms, values, 12), 0)
    wide = values.astype(np.float64 if kind[0] == "f" or kind == "u8" else np.int64)
    expected = sp.csr_matrix((wide, terms, indptr), shape=(200, 12))
    expected.sum_duplicates()
    expected.eliminate_zeros()
    assert np.array_equal(found.indptr, expected.indptr)
    assert np.array_equal(found.indices, expected.indices)
    assert np.array_equal(found.values, expected.data)
    assert found.values.dtype == wide.dtype
