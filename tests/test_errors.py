"""Bad input: the type of every error and what it says."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse as sp

import segmax

CLIP = "clip negative weights to 0 first if the model produces them"
BATCHES = (
    "expected documents as a scipy sparse matrix, a torch sparse tensor, an iterable of such batches, or paths of "
    "files of vectors, got ndarray"
)
FORMS = "expected a query as a scipy or torch sparse row, a mapping of term to weight, or (indices, values), got float"
DOCS = sp.csr_matrix([[1.0, 0, 2.0], [0, 3.0, 1.0]])


def docs_with(value: float) -> sp.csr_matrix:
    """Documents with one bad weight, in row 1 at term 1."""
    docs = DOCS.copy()
    docs.data[2] = value
    return docs


def raw_csr(data: list[float], indices: list[int], indptr: list[int]) -> sp.csr_matrix:
    """Put together a matrix of three columns without scipy looking at it."""
    matrix = sp.csr_matrix((len(indptr) - 1, 3))
    matrix.data, matrix.indices, matrix.indptr = np.array(data), np.array(indices), np.array(indptr)
    return matrix


CONFIG_ERRORS: dict[str, Callable[[], object]] = {
    "expected mu <= eta, got mu=0.9 and eta=0.5": lambda: segmax.ASC(mu=0.9, eta=0.5),
    "expected 0 < mu <= 1, got 0": lambda: segmax.ASC(mu=0),
    "expected 0 < mu <= 1, got 1.5": lambda: segmax.Anytime(mu=1.5),
    "expected 0 < mu <= 1, got nan": lambda: segmax.Anytime(mu=float("nan")),
    "expected 0 < eta <= 1, got -1": lambda: segmax.ASC(mu=0.5, eta=-1),
    "budget_ms applies to Anytime and ASC, not to Exhaustive: it visits no clusters": lambda: segmax.Exhaustive(
        budget_ms=3
    ),
    "max_clusters applies to Anytime and ASC, not to MaxScore: it visits no clusters": lambda: segmax.MaxScore(
        max_clusters=3
    ),
    "risk applies to Anytime and ASC, not to MaxScore: it visits no clusters": lambda: segmax.MaxScore(risk=2.0),
    "expected budget_ms > 0 or None, got 0": lambda: segmax.ASC(budget_ms=0),
    "expected risk >= 0, got -0.5": lambda: segmax.ASC(risk=-0.5),
    "expected max_clusters >= 1, got 0": lambda: segmax.Anytime(max_clusters=0),
    "expected order to be 'max_bound' or 'bound_sum', got 'random'": lambda: segmax.ASC(order="random"),
    "expected documents to be 'blocks' or 'maxscore', got 'wand'": lambda: segmax.ASC(documents="wand"),
    "expected num_clusters >= 1, got 0": lambda: segmax.BuildConfig(num_clusters=0),
    "expected num_segments between 1 and 65535, got 0": lambda: segmax.BuildConfig(num_segments=0),
    "expected bits to be 8 or 16, got 12": lambda: segmax.BuildConfig(bits=12),
    "expected seed >= 0, got -1": lambda: segmax.BuildConfig(seed=-1),
    "expected options of BuildConfig (bits, calibrate, compact, num_clusters, num_segments, order, pruning, seed, "
    "segmentation), got 'colour'": lambda: segmax.BuildConfig.from_dict({"colour": 1}),
    "expected k >= 1, got 2.5": lambda: segmax.build(DOCS).search({0: 1}, k=2.5),
    "expected k >= 1, got True": lambda: segmax.build(DOCS).search({0: 1}, k=True),
    "expected mu to be a number, got 'a'": lambda: segmax.ASC(mu="a"),
    "expected num_clusters >= 1, got 2.5": lambda: segmax.BuildConfig(num_clusters=2.5),
    "expected bits between 8 and 16, got 4": lambda: segmax.BuildConfig(bits=4),
    "expected k >= 1, got 0": lambda: segmax.build(DOCS).search({0: 1}, k=0),
    "expected k >= 1, got -5": lambda: segmax.build(DOCS).search_batch([{0: 1}], k=-5),
    "expected threads >= 1, got 0": lambda: segmax.build(DOCS).search_batch([{0: 1}], threads=0),
    "expected at most 1024 threads, got 100000; more than cores do not help": lambda: segmax.build(DOCS).search_batch(
        [{0: 1}], threads=100000
    ),
    "expected at most 1024 threads, got 1025; more than cores do not help": lambda: segmax.build(DOCS, threads=1025),
    "expected params to be ASC, BestFirst, Anytime, MaxScore or Exhaustive, got str": lambda: segmax.build(DOCS).search(
        {0: 1}, params="asc"
    ),
}

INPUT_ERRORS: dict[str, Callable[[], object]] = {
    "expected finite weights >= 0, got -2.0 in document 1, term 1; clip or remove such weights first": lambda: (
        segmax.build(docs_with(-2.0))
    ),
    "expected finite weights >= 0, got nan in document 1, term 1; clip or remove such weights first": lambda: (
        segmax.build(docs_with(float("nan")))
    ),
    "expected finite weights >= 0, got inf in document 3, term 1; clip or remove such weights first": lambda: (
        segmax.build([DOCS, docs_with(float("inf"))])
    ),
    "expected every id once, got 'a' at document 0 and again at 1": lambda: segmax.build(DOCS, ids=["a", "a"]),
    "expected 2 ids, one per document, got 3": lambda: segmax.build(DOCS, ids=[1, 2, 3]),
    "expected ids to be all strings or all integers, got int, str": lambda: segmax.build(DOCS, ids=[1, "a"]),
    "expected integer ids that fit 64 bits; pass larger ones as strings": lambda: segmax.build(DOCS, ids=[1, 2**70]),
    "expected 3 terms, one per column of the vectors, got 1": lambda: segmax.build(DOCS, terms=["a"]),
    "expected every term once, got 'a' at column 0 and again at 2": lambda: segmax.build(DOCS, terms=["a", "b", "a"]),
    "expected terms to be strings, got int at column 1": lambda: segmax.build(DOCS, terms=["a", 5, "c"]),
    "expected 2 cluster labels, one per document, got shape (3,)": lambda: segmax.build(DOCS, clusters=[0, 1, 2]),
    "expected integer cluster labels, got float64": lambda: segmax.build(DOCS, clusters=[0.5, 1.0]),
    "expected cluster labels >= 0, got -1 for document 1": lambda: segmax.build(DOCS, clusters=[0, -1]),
    "expected 2 segment labels, one per document, got shape (1,)": lambda: segmax.build(DOCS, segments=[0]),
    "expected segment labels below num_segments=8, got 8": lambda: segmax.build(DOCS, segments=[0, 8]),
    "expected at least one document, got an empty collection": lambda: segmax.build(sp.csr_matrix((0, 3))),
    "expected 3 columns in every batch, got 4 in batch 1": lambda: segmax.build([DOCS, sp.csr_matrix((1, 4))]),
    "expected weights of a float or integer dtype, got complex128": lambda: segmax.build(DOCS.astype(complex)),
    BATCHES: lambda: segmax.build(DOCS.toarray()),
    "expected a scipy sparse matrix or a torch sparse tensor, got dict": lambda: segmax.build([{0: 1.0}]),
    f"expected finite query weights >= 0, got -1.000000 for term 2; {CLIP}": lambda: segmax.build(DOCS).search(
        {0: 1, 2: -1}
    ),
    f"expected finite query weights >= 0, got nan for term 0; {CLIP}": lambda: segmax.build(DOCS).search(
        {0: float("nan")}
    ),
    f"expected finite query weights >= 0, got inf for term 0; {CLIP}": lambda: segmax.build(DOCS).search_batch(
        [{0: float("inf")}]
    ),
    "expected column numbers from 0 to 2, got 99": lambda: segmax.build(raw_csr([1.0], [99], [0, 1])),
    "expected column numbers from 0 to 2, got -1": lambda: segmax.build(raw_csr([1.0], [-1], [0, 1])),
    "expected a valid CSR matrix, got an indptr that does not ascend from 0 to the number of entries": lambda: (
        segmax.build(raw_csr([1.0, 2.0], [0, 1], [0, 2, 1]))
    ),
    "expected terms of a query to be integers or words, got 0.7": lambda: segmax.build(DOCS).search({0.7: 1}),
    "expected numbers as query weights, got ['x']": lambda: segmax.build(DOCS).search({0: "x"}),
    "expected term numbers >= 0 in a query, got -3 at entry 0": lambda: segmax.build(DOCS).search(([-3], [1.0])),
    "expected indices and values of one length, got shapes (2,) and (1,)": lambda: segmax.build(DOCS).search(
        ([0, 1], [1.0])
    ),
    "expected integer term numbers in a query, got float64": lambda: segmax.build(DOCS).search(([0.5], [1.0])),
    "expected a query as (indices, values), got a sequence of 3 items": lambda: segmax.build(DOCS).search([1, 2, 3]),
    "expected one query, got a matrix of 2 rows; use search_batch for many": lambda: segmax.build(DOCS).search(DOCS),
    "expected term numbers, got the term 'cat': this index stores no vocabulary; build it with terms=...": lambda: (
        segmax.build(DOCS).search({"cat": 1.0})
    ),
    "expected queries as a sparse matrix or an iterable of queries, got dict": lambda: segmax.build(DOCS).search_batch(
        {0: 1}
    ),
    FORMS: lambda: segmax.build(DOCS).search(1.5),
}


@pytest.mark.parametrize("message", CONFIG_ERRORS)
def test_config_errors(message: str) -> None:
    """An option that cannot be is a ConfigError, which is a ValueError, and says what was expected and what came."""
    with pytest.raises(segmax.ConfigError) as error:
        CONFIG_ERRORS[message]()
    assert str(error.value) == message
    assert isinstance(error.value, ValueError)


@pytest.mark.parametrize("message", INPUT_ERRORS)
def test_input_errors(message: str) -> None:
    """Data that cannot be used is an InputError, which is a ValueError, and says where and what to do."""
    with pytest.raises(segmax.InputError) as error:
        INPUT_ERRORS[message]()
    assert str(error.value) == message
    assert isinstance(error.value, ValueError)


def test_a_bad_query_spoils_no_later_one() -> None:
    """After an error in a batch the index goes on working."""
    index = segmax.build(DOCS)
    with pytest.raises(segmax.InputError):
        index.search_batch([{0: 1.0}] * 50 + [{0: -1.0}] + [{0: 1.0}] * 50, threads=2)
    assert index.search_batch([{0: 1.0}] * 3).ids == [[0], [0], [0]]


def test_queries_over_the_whole_range_of_floats() -> None:
    """Tiny and huge weights are weights; their products may leave the range of floats on the way."""
    index = segmax.build(sp.csr_matrix(np.array([[1e-305, 1e308], [1e-300, 0.0]])))
    assert index.search({0: 1e-300, 1: 1e-300}, k=2).ids == [0, 1]
    assert index.search({0: 1e300}, k=2).ids == [1, 0]
