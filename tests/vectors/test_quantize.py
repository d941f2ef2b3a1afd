"""What 8 and 16 bits lose of float weights."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

import segmax
from segmax.base.parallel import Workers
from segmax.vectors.csr import Csr, canonical, matrix_to_csr
from segmax.vectors.quantize import Quantizer, TermStatistics
from segmax.vectors.rows import narrowest, slice_rows


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


def slabs_of(docs: sp.csr_matrix, bounds: list[int]) -> list[Csr]:
    """Return ranges of rows, stored as narrowly as they can be."""
    whole = canonical(matrix_to_csr(docs), 0)
    cut = [slice_rows(whole, *ends) for ends in itertools.pairwise(bounds)]
    return [slab._replace(values=narrowest(slab.values)) for slab in cut]


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("kind", ["floats", "small integers", "large integers"])
def test_scales_do_not_depend_on_how_rows_are_cut(kind: str, bits: int) -> None:
    """Statistics of parts, merged in any order, give exactly the codes that one pass over everything gives."""
    docs, _ = long_tailed(np.random.default_rng(3))
    if kind != "floats":
        docs.data = np.minimum(np.ceil(docs.data), 200 if kind == "small integers" else 70_000)
    slabs = slabs_of(docs, [0, 7, 7, 1500, docs.shape[0]])
    with Workers(1) as workers:
        whole = Quantizer(slabs_of(docs, [0, docs.shape[0]]), docs.shape[1], bits, workers)
    for order in ([0, 1, 2, 3], [3, 1, 0, 2]):
        total = TermStatistics.of_nothing(docs.shape[1])
        for number in order:
            total = total.add(TermStatistics.of_rows(slabs[number], docs.shape[1]))
        merged = Quantizer.from_statistics(total, bits)
        assert merged.keeps_values == whole.keeps_values == (kind == "small integers")
        assert np.array_equal(merged.scale, whole.scale)
    again = Quantizer.from_scales(merged.scale, bits, keeps_values=merged.keeps_values)
    codes = [again.coded_rows(slab).docs for slab in slabs]
    largest = np.zeros(docs.shape[1], dtype=np.uint32)
    for coded in codes:
        np.maximum.at(largest, coded.indices, coded.values.astype(np.uint32))
    assert np.array_equal(merged.largest_codes(total), largest)


def test_statistics_are_added_by_the_numbers_of_their_terms() -> None:
    """Terms that have other numbers in a part are counted where they belong."""
    part = TermStatistics.of_rows(slabs_of(sp.csr_matrix([[3, 0.5]]), [0, 1])[0], 2)
    total = TermStatistics.of_nothing(4).add(part, np.array([2, 0]))
    assert total.largest.tolist() == [0.5, 0, 3, 0]
    assert total.counts.tolist() == [1, 0, 1, 0]
    assert not total.is_whole
