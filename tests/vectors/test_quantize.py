"""What 8 and 16 bits lose of float weights."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import segmax


def recall(docs: sp.csr_matrix, queries: sp.csr_matrix, bits: int, k: int = 10) -> float:
    """Recall@k of exhaustive search against float64 search; a document that ties with the k-th counts."""
    index = segmax.build(docs, config=segmax.BuildConfig(bits=bits, num_clusters=4))
    found = index.search_batch(queries, k=k, params=segmax.Exhaustive())
    exact = (queries.astype(np.float64) @ docs.astype(np.float64).T).toarray()
    kth = np.sort(exact, axis=1)[:, -k]
    good = [
        np.count_nonzero(exact[i, found.rows[i, : found.counts[i]]] >= kth[i] * (1 - 1e-12)) for i in range(len(exact))
    ]
    return float(np.mean(good)) / k


def long_tailed(rng: np.random.Generator) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Log-normal weights with one weight a thousand times the largest."""
    docs = sp.random(4000, 800, 0.05, format="csr", random_state=rng, data_rvs=lambda n: rng.lognormal(0, 1, n))
    docs.data[12345] = docs.data.max() * 1000
    queries = sp.random(300, 800, 0.02, format="csr", random_state=rng, data_rvs=lambda n: rng.lognormal(0, 1, n))
    return docs.tocsr(), queries.tocsr()


def splade_like(rng: np.random.Generator) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """log(1 + relu) activations: many small weights, none above 3.5."""

    def weights(n: int) -> np.ndarray:
        return np.log1p(rng.gamma(1.2, 1.5, n)).astype(np.float32)

    docs = sp.random(4000, 2000, 0.06, format="csr", random_state=rng, data_rvs=weights)
    queries = sp.random(300, 2000, 0.012, format="csr", random_state=rng, data_rvs=weights)
    return docs.tocsr(), queries.tocsr()


@pytest.mark.parametrize("make", [long_tailed, splade_like])
@pytest.mark.parametrize(("bits", "least"), [(8, 0.99), (16, 0.999)])
def test_recall_against_float_search(make, bits: int, least: float) -> None:
    """Recall@10 is at least .99 in 8 bits and .999 in 16, outlier or not."""
    docs, queries = make(np.random.default_rng(1))
    assert recall(docs, queries, bits) >= least


def test_integers_that_fit_are_exact_and_others_report_their_error() -> None:
    """The build records what coding lost."""
    assert segmax.build(sp.csr_matrix([[1, 255]])).quantization_error == 0
    assert segmax.build(sp.csr_matrix([[1, 256]])).quantization_error == 0  # one scale per term: both are exact
    lossy = segmax.build(sp.csr_matrix(np.array([[0.1], [1000.0], [3.0]])))
    assert 0 < lossy.quantization_error < 0.01
    assert (lossy.vectors([0, 1, 2]).toarray() > 0).all()
