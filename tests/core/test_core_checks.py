"""The seam: what the core is given fits together, or it says so before it reads a byte."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import segmax
from conftest import refused
from segmax import _core
from segmax.errors import ConfigError

DOCS = sp.csr_matrix(np.array([[1, 0, 2], [0, 3, 1], [4, 0, 5]]))


@pytest.fixture(scope="module")
def engine() -> _core.Index:
    """The core's own index of three documents."""
    return segmax.build(DOCS)._engine.core


# --- how many results ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [4, 10**9, 2**32, 2**61, 2**62, 2**63, 2**64, 2**80])
def test_memory_follows_the_documents_and_not_k(k: int) -> None:
    """Asking for more results than there are documents is asking for all of them, for one query or many."""
    index = segmax.build(DOCS)
    many = index.search_batch(DOCS, k=k)
    assert many.rows.shape == many.scores.shape == (3, 3)
    assert many.ids == [index.search(row, k=k).ids for row in DOCS]
    assert many.ids == index.search_batch(DOCS, k=3).ids
    assert index.explain(DOCS[0], 2, k=k).rank == many.ids[0].index(2) + 1


def test_the_core_bounds_k_by_itself(engine: _core.Index) -> None:
    """The product of queries and k never wraps, whoever calls."""
    params = segmax.ASC().to_core()
    indptr, terms, weights = np.arange(5), np.zeros(4, np.int64), np.ones(4)
    for k in (2**62, 2**63 - 1):
        rows, scores, counts, _ = engine.search_batch(indptr, terms, weights, np.array([k]), [params], 1)
        assert rows.shape == scores.shape == (4, 3)
        assert counts.tolist() == [2] * 4
        assert engine.search_one(terms, weights, k, params)[0].tolist() == [2, 0]
        assert engine.trace(terms, weights, k, params, -1)[0].tolist() == [2, 0]


def test_no_results_and_no_threads_are_refused(engine: _core.Index) -> None:
    """A heap of no results, or no thread to do the work, would never end well."""
    params = segmax.ASC().to_core()
    query = (np.zeros(1, np.int64), np.ones(1))
    for call in (
        lambda: engine.search_one(*query, 0, params),
        lambda: engine.trace(*query, 0, params, -1),
        lambda: engine.search_batch(np.arange(2), *query, np.array([0]), [params], 1),
        lambda: engine.search_batch(np.arange(2), *query, np.array([-1]), [params], 1),
    ):
        with pytest.raises(ValueError, match="expected k to be at least 1, got"):
            call()
    with pytest.raises(ValueError, match="expected threads to be at least 1, got 0"):
        engine.search_batch(np.arange(2), *query, np.array([1]), [params], 0)


# --- queries ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("num_terms", "num_weights"), [(1, 0), (0, 1), (2, 1), (1, 1000), (1000, 1)])
def test_terms_and_weights_are_of_one_length(engine: _core.Index, num_terms: int, num_weights: int) -> None:
    """Every entry that takes a query says so, and reads nothing behind the shorter array."""
    params = segmax.ASC().to_core()
    query = (np.zeros(num_terms, np.int64), np.ones(num_weights))
    calls: list[Callable[[], object]] = [
        lambda: engine.search_one(*query, 1, params),
        lambda: engine.trace(*query, 1, params, -1),
        lambda: engine.score(*query, np.arange(3)),
        lambda: engine.cluster_bounds(*query),
        lambda: engine.matched(*query, 0),
        lambda: engine.search_batch(np.array([0, num_terms]), *query, np.array([1]), [params], 1),
    ]
    for call in calls:
        with pytest.raises(
            ValueError, match=f"expected terms and weights of one length, got {num_terms} and {num_weights}"
        ):
            call()


@pytest.mark.parametrize("indptr", [[], [0], [1, 2], [0, 3], [0, 2, 1, 2], [0, -1, 2], [0, 2**62, 2]])
def test_offsets_of_queries_ascend_over_all_entries(engine: _core.Index, indptr: list[int]) -> None:
    """A batch that points outside its arrays is refused."""
    offsets, params = np.array(indptr, np.int64), segmax.ASC().to_core()
    with pytest.raises(ValueError, match="expected indptr to ascend over all 2 entries"):
        engine.search_batch(offsets, np.arange(2), np.ones(2), np.array([1]), [params], 1)


@pytest.mark.parametrize("row", [-1, 3, 2**40, -(2**62)])
def test_rows_are_inside_the_collection(engine: _core.Index, row: int) -> None:
    """A row that no document has is an IndexError."""
    query = (np.zeros(1, np.int64), np.ones(1))
    calls: list[Callable[[], object]] = [
        lambda: engine.score(*query, np.array([row])),
        lambda: engine.vectors(np.array([0, row])),
        lambda: engine.matched(*query, row),
    ]
    if row >= 0:  # a negative row watches none
        calls.append(lambda: engine.trace(*query, 1, segmax.ASC().to_core(), row))
    for call in calls:
        with pytest.raises(IndexError, match="a row is outside the collection"):
            call()


# --- building --------------------------------------------------------------------------------------------------------

INDPTR = np.array([0, 2, 4, 6])
TERMS = np.array([0, 2, 1, 2, 0, 2], np.uint16)
CODES = np.array([1, 2, 3, 1, 4, 5], np.uint8)
FIRST = np.array([0, 1, 3], np.uint32)  # two clusters, of one document and of two


def u32(*values: int) -> Any:
    """Return an array of 32-bit numbers."""
    return np.array(values, np.uint32)


def u64(*values: int) -> Any:
    """Return an array of 64-bit numbers."""
    return np.array(values, np.uint64)


GATHER: dict[str, Any] = {
    "indptr": INDPTR,
    "terms": TERMS,
    "codes": CODES,
    "slots": u32(2, 0, 1),
    "first_slot": 0,
    "out_indptr": INDPTR,
    "out_terms": np.zeros(6, np.uint16),
    "out_codes": np.zeros(6, np.uint8),
}
ORDER: dict[str, Any] = {
    "points": np.zeros(6, np.float32),
    "num_dims": 2,
    "cluster_first": FIRST,
    "order": u32(0, 1, 2),
    "stop": _core.StopFlag(),
}
COUNT: dict[str, Any] = {
    "indptr": INDPTR,
    "terms": TERMS,
    "codes": CODES,
    "num_terms": 3,
    "cluster_first": FIRST,
    "first": 0,
    "last": 2,
    "stop": _core.StopFlag(),
}
PLAN: dict[str, Any] = {
    "postings": u64(2, 1, 3),
    "pairs": u64(2, 1, 2),
    "num_clusters": 2,
    "num_positions": 16,
    "num_segments": 2,
    "head_ratio": 8,
    "code_bytes": 1,
    "exact_segments": True,
}
FILL: dict[str, Any] = {
    "indptr": INDPTR,
    "terms": TERMS,
    "codes": CODES,
    "cluster_first": FIRST,
    "order": u32(0, 1, 2),
    "segments": u32(0, 1, 1),
    "num_segments": 2,
    "exact_segments": True,
    "head_ratio": 8,
    "cluster_first_position": u32(0, 8, 16),
    "postings": u64(2, 1, 3),
    "pairs": u64(2, 1, 2),
    "first_term": 0,
    "last_term": 3,
    "stop": _core.StopFlag(),
}
PROJECT: dict[str, Any] = {
    "indptr": INDPTR,
    "terms": TERMS,
    "codes": CODES,
    "row_of_term": np.array([0, -1, 1], np.int32),
    "matrix": np.zeros(4, np.float32),
    "num_dims": 2,
    "num_rows": 3,
}
BACK: dict[str, Any] = {**PROJECT, "matrix": np.zeros(6, np.float32), "num_rows": 2}

HUGE = 2**40
MISFITS: list[tuple[str, dict[str, Any], str, Any]] = [
    ("lay_out_clusters", {"cluster_first": FIRST}, "cluster_first", u32()),
    ("lay_out_clusters", {"cluster_first": FIRST}, "cluster_first", u32(0, 3, 1)),
    ("gather_rows", GATHER, "terms", TERMS[:5]),
    ("gather_rows", GATHER, "codes", CODES[:5]),
    ("gather_rows", GATHER, "indptr", np.array([0, 2, 4, HUGE])),
    ("gather_rows", GATHER, "indptr", np.array([0, HUGE, 4, 6])),
    ("gather_rows", GATHER, "indptr", np.array([0, 1, 4, 6])),  # rows longer than the room for them
    ("gather_rows", GATHER, "slots", u32(2, 0)),
    ("gather_rows", GATHER, "slots", u32(2, 0, 1, 0)),
    ("gather_rows", GATHER, "out_indptr", np.array([], np.int64)),
    ("gather_rows", GATHER, "out_indptr", np.array([0, 2, 4, HUGE])),
    ("gather_rows", GATHER, "out_terms", np.zeros(5, np.uint16)),
    ("gather_rows", GATHER, "out_codes", np.zeros(7, np.uint8)),
    ("order_by_similarity", ORDER, "points", np.zeros(5, np.float32)),
    ("order_by_similarity", ORDER, "num_dims", 3),
    ("order_by_similarity", ORDER, "num_dims", 2**63),
    ("order_by_similarity", ORDER, "cluster_first", u32(0, 4)),
    ("order_by_similarity", ORDER, "cluster_first", u32(0, 3, 1)),
    ("order_by_similarity", ORDER, "order", u32(0, 1, 3)),
    ("count_terms", COUNT, "codes", CODES[:1]),
    ("count_terms", COUNT, "indptr", np.array([0, 2, 4, 7])),
    ("count_terms", COUNT, "num_terms", 2),
    ("count_terms", COUNT, "cluster_first", u32(0, 1, 4)),
    ("count_terms", COUNT, "last", 3),
    ("count_terms", COUNT, "first", 3),
    ("plan_terms", PLAN, "pairs", u64(2, 1)),
    ("plan_terms", PLAN, "postings", u64(2, 1, 2**63)),
    ("plan_terms", PLAN, "pairs", u64(2, 1, 2**63)),
    ("fill_terms", FILL, "codes", CODES[:1]),
    ("fill_terms", FILL, "indptr", np.array([0, 2, 4, 7])),
    ("fill_terms", FILL, "cluster_first", u32(0, 1, 4)),
    ("fill_terms", FILL, "order", u32(0, 1)),
    ("fill_terms", FILL, "order", u32(0, 1, 3)),
    ("fill_terms", FILL, "segments", u32(0, 1)),
    ("fill_terms", FILL, "segments", u32(0, 1, 2)),
    ("fill_terms", FILL, "cluster_first_position", u32(0, 8)),
    ("fill_terms", FILL, "cluster_first_position", u32(0, 8, 2**31)),
    ("fill_terms", FILL, "postings", u64(2, 1)),
    ("fill_terms", FILL, "postings", u64(2, 1, 2)),
    ("fill_terms", FILL, "postings", u64(2, 2**63, 2**63 + 4)),
    ("fill_terms", FILL, "pairs", u64(2, 1, 2**63)),
    ("fill_terms", FILL, "last_term", 4),
    ("fill_terms", FILL, "first_term", 4),
    ("project_rows", PROJECT, "codes", CODES[:1]),
    ("project_rows", PROJECT, "indptr", np.array([0, 2, 4, 7])),
    ("project_rows", PROJECT, "row_of_term", np.array([0, 1], np.int32)),
    ("project_rows", PROJECT, "row_of_term", np.array([0, 1, 2], np.int32)),
    ("project_rows", PROJECT, "matrix", np.zeros(3, np.float32)),
    ("project_rows", PROJECT, "num_dims", 0),
    ("project_rows", PROJECT, "num_rows", 2),
    ("project_rows", PROJECT, "num_rows", 2**63),
    ("project_back", BACK, "matrix", np.zeros(4, np.float32)),
    ("project_back", BACK, "num_rows", 1),
    ("project_back", BACK, "num_rows", 2**62),
    ("project_back", BACK, "num_dims", 2**62),
]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("gather_rows", GATHER),
        ("order_by_similarity", ORDER),
        ("count_terms", COUNT),
        ("plan_terms", PLAN),
        ("fill_terms", FILL),
        ("project_rows", PROJECT),
        ("project_back", BACK),
    ],
)
def test_what_fits_together_is_taken(name: str, arguments: dict[str, Any]) -> None:
    """The arguments that the next test spoils are all right as they are."""
    getattr(_core, name)(**arguments)


@pytest.mark.parametrize(("name", "arguments", "spoiled", "value"), MISFITS)
def test_what_does_not_fit_together_is_refused(name: str, arguments: dict[str, Any], spoiled: str, value: Any) -> None:
    """Arrays of different lengths, offsets outside of them and products that wrap are ValueErrors."""
    with pytest.raises(ValueError, match=r"expected|outside|too large"):
        getattr(_core, name)(**{**arguments, spoiled: value})


# --- threads ---------------------------------------------------------------------------------------------------------


def test_a_batch_makes_do_with_the_threads_that_the_system_gives() -> None:
    """Where a thread cannot be started, those that run do the work, with the same results."""
    program = textwrap.dedent("""
        import resource
        import numpy as np, scipy.sparse as sp, segmax
        docs = sp.random(200, 30, 0.2, format="csr", random_state=np.random.default_rng(1))
        index = segmax.build(docs, threads=1)
        expected = index.search_batch(docs, threads=1).rows
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        # Stacks of a GiB each: two more threads, and half a GiB for everything else.
        resource.setrlimit(resource.RLIMIT_AS, (used + 5 * 2**29, used + 5 * 2**29))
        assert (index.search_batch(docs, threads=200).rows == expected).all()
    """)
    subprocess.run(["bash", "-c", 'ulimit -s 1048576; exec "$@"', "_", sys.executable, "-c", program], check=True)


def test_a_build_says_that_threads_could_not_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the pool of a build raises comes out as a ConfigError that names the option."""

    def fail(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("segmax.base.parallel.ThreadPoolExecutor.submit", fail)
    with refused(ConfigError, message="could not start 2 threads", hint="pass a smaller number as {threads}"):
        segmax.build(DOCS, threads=2)
