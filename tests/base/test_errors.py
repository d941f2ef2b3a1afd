"""Bad input: the type of every error and what it says."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import segmax
import segmax.io
from conftest import refused
from segmax.clustering import Dense
from segmax.errors import ConfigError, InputError, SegmaxError
from segmax.search.methods import SearchParams

CLIP = "clip negative weights to 0 first if the model produces them"
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


def parts_of(error: SegmaxError) -> dict[str, str]:
    """The parts that an error has, as they are."""
    parts = {part: getattr(error, part) for part in ("where", "option", "expected", "got", "hint")}
    return {part: text for part, text in parts.items() if text}


CONFIG_ERRORS: list[tuple[Callable[[], object], dict[str, str]]] = [
    (lambda: segmax.paper.ASC(mu=0.9, eta=0.5), {"expected": "mu <= eta", "got": "mu=0.9 and eta=0.5"}),
    (lambda: segmax.ASC(mu=0), {"option": "mu", "expected": "greater than 0 and at most 1", "got": "0"}),
    (lambda: segmax.ASC(mu=1.5), {"option": "mu", "expected": "greater than 0 and at most 1", "got": "1.5"}),
    (lambda: segmax.ASC(mu=float("nan")), {"option": "mu", "expected": "greater than 0 and at most 1", "got": "nan"}),
    (lambda: segmax.ASC(mu=0.5, eta=-1), {"option": "eta", "expected": "greater than 0 and at most 1", "got": "-1"}),
    (lambda: segmax.ASC(budget_ms=0), {"option": "budget_ms", "expected": "greater than 0 or None", "got": "0"}),
    (
        lambda: segmax.ASC(bound_mass=0),
        {"option": "bound_mass", "expected": "greater than 0 and at most 1", "got": "0"},
    ),
    (lambda: segmax.paper.ASC(risk=-0.5), {"option": "risk", "expected": "at least 0", "got": "-0.5"}),
    (lambda: segmax.ASC(max_blocks=0), {"option": "max_blocks", "expected": "at least 1", "got": "0"}),
    (lambda: segmax.BuildConfig(num_clusters=0), {"option": "num_clusters", "expected": "at least 1", "got": "0"}),
    (lambda: segmax.BuildConfig(num_segments=0), {"option": "num_segments", "expected": "from 1 to 65535", "got": "0"}),
    (lambda: segmax.BuildConfig(bits=12), {"option": "bits", "expected": "8 or 16", "got": "12"}),
    (lambda: segmax.BuildConfig(seed=-1), {"option": "seed", "expected": "at least 0", "got": "-1"}),
    (
        lambda: segmax.BuildConfig.from_dict({"color": 1}),
        {
            "expected": "options of BuildConfig (bits, calibrate, compact, document_order, num_clusters, num_segments, "
            "pruning, seed, segment_bounds, segmentation)",
            "got": "'color'",
        },
    ),
    (lambda: segmax.build(DOCS).search({0: 1}, k=2.5), {"option": "k", "expected": "at least 1", "got": "2.5"}),
    (lambda: segmax.build(DOCS).search({0: 1}, k=True), {"option": "k", "expected": "at least 1", "got": "True"}),
    (lambda: segmax.ASC(mu="a"), {"option": "mu", "expected": "a number", "got": "'a'"}),
    (lambda: segmax.BuildConfig(num_clusters=2.5), {"option": "num_clusters", "expected": "at least 1", "got": "2.5"}),
    (lambda: segmax.BuildConfig(bits=4), {"option": "bits", "expected": "from 8 to 16", "got": "4"}),
    (lambda: segmax.build(DOCS).search({0: 1}, k=0), {"option": "k", "expected": "at least 1", "got": "0"}),
    (lambda: segmax.build(DOCS).search_batch([{0: 1}], k=-5), {"option": "k", "expected": "at least 1", "got": "-5"}),
    (
        lambda: segmax.build(DOCS).search_batch([{0: 1}], threads=0),
        {"option": "threads", "expected": "at least 1", "got": "0"},
    ),
    (
        lambda: segmax.build(DOCS).search_batch([{0: 1}], threads=100000),
        {"expected": "at most 1024 threads", "got": "100000", "hint": "more than cores do not help"},
    ),
    (
        lambda: segmax.build(DOCS, threads=1025),
        {"expected": "at most 1024 threads", "got": "1025", "hint": "more than cores do not help"},
    ),
    (lambda: segmax.ASC(mu=10**400), {"option": "mu", "expected": "a number", "got": f"{10**79}..."}),
    (lambda: SearchParams(), {"expected": "a method, ASC or Exhaustive", "got": "SearchParams"}),
    (
        lambda: segmax.build(DOCS).search({0: 1}, params="asc"),
        {"option": "params", "expected": "a method such as ASC or Exhaustive", "got": "str"},
    ),
]

INPUT_ERRORS: list[tuple[Callable[[], object], dict[str, str]]] = [
    (
        lambda: segmax.build(docs_with(-2.0)),
        {
            "expected": "finite weights >= 0",
            "got": "-2.0 in document 1, term 1",
            "hint": "clip or remove such weights first",
        },
    ),
    (
        lambda: segmax.build(docs_with(float("nan"))),
        {
            "expected": "finite weights >= 0",
            "got": "nan in document 1, term 1",
            "hint": "clip or remove such weights first",
        },
    ),
    (
        lambda: segmax.build([DOCS, docs_with(float("inf"))]),
        {
            "expected": "finite weights >= 0",
            "got": "inf in document 3, term 1",
            "hint": "clip or remove such weights first",
        },
    ),
    (
        lambda: segmax.build(DOCS, ids=["a", "a"]),
        {"expected": "every id once", "got": "'a' at document 0 and again at 1"},
    ),
    (lambda: segmax.build(DOCS, ids=[1, 2, 3]), {"expected": "2 ids, one per document", "got": "3"}),
    (
        lambda: segmax.build(DOCS, ids=[1, "a"]),
        {"option": "ids", "expected": "all strings or all integers", "got": "int, str"},
    ),
    (
        lambda: segmax.build(DOCS, ids=[1, 2**70]),
        {
            "expected": "integer ids that fit 64 bits",
            "got": "1180591620717411303424",
            "hint": "pass larger ones as strings",
        },
    ),
    (lambda: segmax.build(DOCS, terms=["a"]), {"expected": "3 terms, one per column of the vectors", "got": "1"}),
    (
        lambda: segmax.build(DOCS, terms=["a", "b", "a"]),
        {"expected": "every term once", "got": "'a' at column 0 and again at 2"},
    ),
    (
        lambda: segmax.build(DOCS, terms=["a", 5, "c"]),
        {"option": "terms", "expected": "strings", "got": "int at column 1"},
    ),
    (
        lambda: segmax.build(DOCS, clustering=[0, 1, 2]),
        {"expected": "2 cluster labels, one per document", "got": "shape (3,)"},
    ),
    (lambda: segmax.build(DOCS, clustering=[0.5, 1.0]), {"expected": "integer cluster labels", "got": "float64"}),
    (lambda: segmax.build(DOCS, clustering=[0, -1]), {"expected": "cluster labels >= 0", "got": "-1 for document 1"}),
    (lambda: segmax.build(DOCS, segments=[0]), {"expected": "2 segment labels, one per document", "got": "shape (1,)"}),
    (lambda: segmax.build(DOCS, segments=[0, 8]), {"expected": "segment labels below num_segments=8", "got": "8"}),
    (lambda: segmax.build(sp.csr_matrix((0, 3))), {"expected": "at least one document", "got": "an empty collection"}),
    (
        lambda: segmax.build([DOCS, sp.csr_matrix((1, 4))]),
        {"expected": "3 columns in every batch", "got": "4 in batch 1"},
    ),
    (
        lambda: segmax.build(DOCS.astype(complex)),
        {"expected": "weights of a float or integer dtype", "got": "complex128"},
    ),
    (
        lambda: segmax.build(DOCS.toarray()),
        {
            "expected": "documents as a scipy sparse matrix, a torch sparse tensor, an iterable of such batches, or "
            "paths of files of vectors",
            "got": "ndarray",
        },
    ),
    (lambda: segmax.build([{0: 1.0}]), {"expected": "a scipy sparse matrix or a torch sparse tensor", "got": "dict"}),
    (
        lambda: segmax.build(DOCS).search({0: 1, 2: -1}),
        {"expected": "finite query weights >= 0", "got": "-1.000000 for term 2", "hint": CLIP},
    ),
    (
        lambda: segmax.build(DOCS).search({0: float("nan")}),
        {"expected": "finite query weights >= 0", "got": "nan for term 0", "hint": CLIP},
    ),
    (
        lambda: segmax.build(DOCS).search_batch([{0: float("inf")}]),
        {"expected": "finite query weights >= 0", "got": "inf for term 0", "hint": CLIP},
    ),
    (lambda: segmax.build(raw_csr([1.0], [99], [0, 1])), {"expected": "column numbers from 0 to 2", "got": "99"}),
    (lambda: segmax.build(raw_csr([1.0], [-1], [0, 1])), {"expected": "column numbers from 0 to 2", "got": "-1"}),
    (
        lambda: segmax.build(raw_csr([1.0, 2.0], [0, 1], [0, 2, 1])),
        {"expected": "a valid CSR matrix", "got": "an indptr that does not ascend from 0 to the number of entries"},
    ),
    (
        lambda: segmax.build(DOCS).search({0.7: 1}),
        {"expected": "terms of a query to be integers or words", "got": "0.7"},
    ),
    (lambda: segmax.build(DOCS).search({0: "x"}), {"expected": "numbers as query weights", "got": "['x']"}),
    (
        lambda: segmax.build(DOCS).search(([-3], [1.0])),
        {"expected": "term numbers >= 0 in a query", "got": "-3 at entry 0"},
    ),
    (
        lambda: segmax.build(DOCS).search(([0, 1], [1.0])),
        {"expected": "indices and values of one length", "got": "shapes (2,) and (1,)"},
    ),
    (
        lambda: segmax.build(DOCS).search(([0.5], [1.0])),
        {"expected": "integer term numbers in a query", "got": "float64"},
    ),
    (
        lambda: segmax.build(DOCS).search([1, 2, 3]),
        {"expected": "a query as (indices, values)", "got": "a sequence of 3 items"},
    ),
    (
        lambda: segmax.build(DOCS).search(DOCS),
        {"expected": "one query", "got": "a matrix of 2 rows", "hint": "use search_batch for many"},
    ),
    (
        lambda: segmax.build(DOCS).search({"cat": 1.0}),
        {
            "expected": "term numbers",
            "got": "the term 'cat': this index stores no vocabulary",
            "hint": "build it with {terms=...}",
        },
    ),
    (
        lambda: segmax.build(DOCS).search_batch({0: 1}),
        {"expected": "queries as a sparse matrix or an iterable of queries", "got": "dict"},
    ),
    (
        lambda: segmax.build(DOCS).search(1.5),
        {
            "expected": "a query as a scipy or torch sparse row, a mapping of term to weight, or (indices, values)",
            "got": "float",
        },
    ),
    (
        lambda: segmax.build(DOCS).search(["cat", "dog"]),
        {"expected": "one query", "got": "2 texts", "hint": "use search_batch for many"},
    ),
    (
        lambda: segmax.build(DOCS).search_batch({1, 2}),
        {
            "expected": "queries as a sparse matrix or an iterable of queries",
            "got": "set, which has no order",
            "hint": "pass a list",
        },
    ),
    (
        lambda: segmax.build(DOCS).search_batch(np.array("cat")),
        {"expected": "queries as a sparse matrix or an iterable of queries", "got": "ndarray of 0 dimensions"},
    ),
    (
        lambda: segmax.build(DOCS).search_batch(["cat", {0: 1}]),
        {"expected": "texts only or vectors only", "got": "texts and dict at query 1"},
    ),
    (
        lambda: segmax.build(DOCS, ids=["a", "abc"]).vectors("abc"),
        {"expected": "several ids", "got": "'abc'", "hint": "pass a list, even of one"},
    ),
    (
        lambda: segmax.build(DOCS).score({0: 1}, 1),
        {"expected": "several ids", "got": "1", "hint": "pass a list, even of one"},
    ),
]

#: What numpy would cast to a float, and is no number.
NO_NUMBERS: dict[str, Any] = {
    "text": ["3"],
    "array of texts": np.array(["3"]),
    "bytes": [b"3"],
    "datetime64": np.array(["2020-01-01"], "datetime64[D]"),
    "timedelta64": np.array([3], "timedelta64[s]"),
    "datetime": [datetime.datetime(2020, 1, 1)],
    "complex": np.array([1 + 2j]),
    "truth values": np.array([True]),
    "objects": np.array([1.5], dtype=object),
    "None": [None],
    "lists": [[1.0]],
    "records": np.zeros(1, [("a", "f8")]),
    "too large for a float": [10**400],
}


@pytest.mark.parametrize("name", NO_NUMBERS)
def test_weights_of_queries_are_numbers(name: str) -> None:
    """Not what numpy can cast to one: as (indices, values), as a mapping, alone and in a batch."""
    index = segmax.build(DOCS)
    values = NO_NUMBERS[name]
    queries = [([0], values)] if name == "objects" else [([0], values), {0: values[0]}]
    for query in queries:
        for ask in (index.search, lambda query: index.search_batch([query]), index.cluster_bounds):
            with refused(InputError, expected="numbers as query weights"):
                ask(query)


@pytest.mark.parametrize("truth", [True, np.bool_(True), np.array(True)], ids=lambda truth: type(truth).__name__)
def test_truth_values_among_numbers(truth: Any) -> None:
    """Numpy makes numbers of them as soon as one number is there."""
    index = segmax.build(DOCS)
    for query in ({0: truth, 1: 1.5}, ([0, 1], [1.5, truth]), ([0, 1], (truth, 2))):
        for ask in (index.search, lambda query: index.search_batch([query])):
            with refused(InputError, expected="numbers as query weights"):
                ask(query)


def test_masks_are_refused() -> None:
    """Numpy ignores a mask when it converts an array: masked weights would count."""
    index = segmax.build(DOCS)
    weights = np.ma.array([1.0, 2.0], mask=[False, True])
    row = sp.csr_matrix([[1.0, 0, 2.0]])
    queries: list[Any] = [([0, 1], weights), {0: weights[1], 1: 1.0}, (np.ma.array([0, 1]), [1.0, 2.0])]
    for form in ("csr", "coo", "csc"):
        matrix = row.asformat(form)
        matrix.data = weights
        queries.append(matrix)
        with refused(InputError, expected="weights without a mask", got="a masked array"):
            segmax.build(matrix)
    for query in queries:
        for ask in (index.search, lambda query: index.search_batch([query])):
            with refused(InputError, expected="without a mask", got="a masked array"):
                ask(query)
    labels = np.ma.array([0, 1], mask=[False, True])
    for options in ({"clustering": labels}, {"segments": labels}):
        with refused(InputError, expected="labels without a mask"):
            segmax.build(DOCS, **options)
    with refused(InputError, expected="dense vectors without a mask"):
        Dense(np.ma.ones((2, 2)))


def test_scores_fit_a_double() -> None:
    """Infinite scores have no order, so a query that might have such scores is refused."""
    index = segmax.build(sp.csr_matrix(np.diag([1e300, 2e300, 3e300])))
    query = {0: 1e308, 1: 1e308}
    asks: list[Callable[[], object]] = [
        lambda: index.search(query),
        lambda: index.search(query, trace=True),
        lambda: index.search_batch([query]),
        lambda: index.score(query, [0, 2]),
        lambda: index.cluster_bounds(query),
        lambda: index.explain(query, 0),
    ]
    for ask in asks:
        with refused(InputError, expected="query weights whose scores fit a double"):
            ask()
    assert index.search({0: 1e7, 1: 1e7}).rows.tolist() == [1, 0]


def test_k_of_any_integer_type() -> None:
    """However large, and whatever holds it."""
    index = segmax.build(DOCS)
    for k in (2**64, 2**63, np.uint64(2**63), np.uint64(2**64 - 1), np.int64(2**62), np.uint8(200)):
        assert index.search({2: 1.0}, k=k).rows.tolist() == [0, 1]
        assert index.search_batch([{2: 1.0}], k=k).rows.tolist() == [[0, 1]]


@pytest.mark.parametrize("path", [None, 5, b"x", "a\0b", ["x"], 1.5], ids=repr)
def test_invalid_paths_are_refused(path: Any) -> None:
    """Said in one way, wherever a path is expected."""
    index = segmax.build(DOCS)
    takes: list[Callable[[Any], object]] = [segmax.open, segmax.verify, index.save]
    if path is not None:
        takes += [lambda path: segmax.build(DOCS, path=path), lambda path: segmax.build(DOCS, scratch=path)]
    if path != ["x"]:
        takes.append(segmax.io.open_vectors)
    for take in takes:
        with refused(ConfigError, option="path|scratch", expected="a path, as a string or pathlib"):
            take(path)


def test_weights_of_queries_fit_a_double() -> None:
    """A wider number that is too large for one is as infinite as infinity."""
    index = segmax.build(DOCS)
    data = np.array([np.longdouble("1e400")])
    row = sp.csr_matrix((data, np.array([1]), np.array([0, 1])), shape=(1, 3))
    for query in ({1: data[0]}, ([1], data), row):
        for ask in (index.search, lambda query: index.search_batch([query])):
            with refused(InputError, expected="finite query weights >= 0", got="inf for term 1"):
                ask(query)
    with refused(InputError, expected="finite query weights >= 0", got="inf for term 1"):
        index.search_batch(row)


def test_numbers_that_numpy_has_no_dtype_for() -> None:
    """Fractions, decimals and large whole numbers are numbers."""
    index = segmax.build(DOCS)
    for weight in (Fraction(3, 2), Decimal("1.5"), 2**70, np.float16(1.5), np.longdouble(1.5)):
        assert index.search({0: weight}).scores[0] == pytest.approx(float(weight))


MATRICES: dict[str, tuple[str, dict[str, Any], dict[str, str]]] = {
    "float columns": (
        "csr",
        {"indices": np.array([0.7, 1.2])},
        {"expected": "column numbers of an integer dtype", "got": "float64"},
    ),
    "truth values as columns": (
        "csr",
        {"indices": np.array([True, False])},
        {"expected": "column numbers of an integer dtype", "got": "bool"},
    ),
    "float indptr": (
        "csr",
        {"indptr": np.array([0.0, 2.0])},
        {"expected": "an indptr of an integer dtype", "got": "float64"},
    ),
    "unsigned indptr that falls": (
        "csr",
        {"indptr": np.array([0, 2, 1, 2], np.uint64), "_shape": (3, 3)},
        {"got": "an indptr that does not ascend"},
    ),
    "two dimensions": ("csr", {"data": np.ones((2, 1))}, {"expected": "a valid CSR matrix"}),
    "no array": ("csr", {"data": [1.0, 2.0]}, {"expected": "a valid sparse matrix"}),
    "nothing": ("csr", {"indices": None}, {"expected": "a valid sparse matrix"}),
    "texts": ("csr", {"data": np.array(["1", "2"])}, {"expected": "a valid sparse matrix|float or integer dtype"}),
    "times": (
        "csr",
        {"data": np.array([1, 2], "datetime64[s]")},
        {"expected": "a valid sparse matrix|float or integer dtype"},
    ),
    "objects": (
        "csr",
        {"data": np.array([1, 2], object)},
        {"expected": "a valid sparse matrix|float or integer dtype"},
    ),
    "complex": (
        "csr",
        {"data": np.array([1j, 2])},
        {"expected": "weights of a float or integer dtype", "got": "complex128"},
    ),
    "csc, float rows": ("csc", {"indices": np.array([0.5, 0.5])}, {"expected": "an integer dtype", "got": "float64"}),
    "csc, outside": ("csc", {"indptr": np.array([0, 10**6, 1, 2])}, {"got": "an indptr that does not ascend"}),
    "bsr, outside": ("bsr", {"indptr": np.array([0, 10**6])}, {"got": "an indptr that does not ascend"}),
    "coo, outside": (
        "coo",
        {"coords": (np.array([0, 10**6]), np.array([0, 2]))},
        {"expected": "a valid sparse matrix"},
    ),
    "coo, float": (
        "coo",
        {"coords": (np.array([0.0, 0.0]), np.array([0, 2]))},
        {"expected": "positions of an integer dtype"},
    ),
    "dia, float": (
        "dia",
        {"offsets": np.array([0.0, 2.0])},
        {"expected": "positions of an integer dtype", "got": "float64"},
    ),
}


@pytest.mark.parametrize("name", MATRICES)
def test_matrices_put_together_by_hand(name: str) -> None:
    """What scipy takes for granted about a matrix is checked before it is used: in documents and in queries."""
    form, attributes, parts = MATRICES[name]
    matrix = sp.csr_matrix(np.array([[1.0, 0, 2.0]])).asformat(form)
    for attribute, value in attributes.items():
        setattr(matrix, attribute, value)
    index = segmax.build(DOCS)
    for take in (index.search, index.search_batch, segmax.build):
        with refused(InputError, **parts):
            take(matrix)


@pytest.mark.parametrize(("call", "parts"), CONFIG_ERRORS)
def test_config_errors(call: Callable[[], object], parts: dict[str, str]) -> None:
    """An invalid option is a ConfigError, which is a ValueError: what was expected, and what was given."""
    with pytest.raises(ConfigError) as error:
        call()
    assert parts_of(error.value) == parts
    assert isinstance(error.value, ValueError)


@pytest.mark.parametrize(("call", "parts"), INPUT_ERRORS)
def test_input_errors(call: Callable[[], object], parts: dict[str, str]) -> None:
    """Invalid data is an InputError, which is a ValueError: where, and what to do."""
    with pytest.raises(InputError) as error:
        call()
    assert parts_of(error.value) == parts
    assert isinstance(error.value, ValueError)


def test_a_bad_query_spoils_no_later_one() -> None:
    """After an error in a batch the index goes on working."""
    index = segmax.build(DOCS)
    with pytest.raises(InputError):
        index.search_batch([{0: 1.0}] * 50 + [{0: -1.0}] + [{0: 1.0}] * 50, threads=2)
    assert index.search_batch([{0: 1.0}] * 3).ids == [[0], [0], [0]]


def test_queries_over_the_whole_range_of_floats() -> None:
    """Tiny and huge weights are weights; their products may leave the range of floats on the way."""
    index = segmax.build(sp.csr_matrix(np.array([[1e-305, 1e308], [1e-300, 0.0]])))
    assert index.search({0: 1e-300, 1: 1e-300}, k=2).ids == [0, 1]
    assert index.search({0: 1e300}, k=2).ids == [1, 0]
