"""Static pruning against slow twins in plain Python."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from conftest import refused
from segmax.base.errors import ConfigError, InputError
from segmax.vectors.csr import Csr
from segmax.vectors.pruning import (
    DocThreshold,
    MassShare,
    MaxPostings,
    QueryThreshold,
    Step,
    TopTerms,
    parse_step,
    posting_cutoffs,
    prune_batches,
    prune_queries,
    prune_query,
    prune_rows,
    step_from_dict,
)

Rows = list[dict[int, Any]]  # a document each: weights by ascending term

NUM_TERMS = 40
DTYPES = [np.uint8, np.float32, np.float64, np.int64]
ALL_STEPS = [
    DocThreshold(threshold=0.1),
    QueryThreshold(threshold=0.3),
    MassShare(share=0.9),
    TopTerms(count=64),
    MaxPostings(count=10_000),
]
ROW_STEPS = [
    *(DocThreshold(threshold=t) for t in (0, 0.1, 0.35, 2, 7.5, 1e9)),
    *(MassShare(share=s) for s in (1e-9, 0.07, 0.5, 0.7, 0.9, 0.99, 1)),
    *(TopTerms(count=c) for c in (1, 2, 7, 31, 32, 33, 1000)),
    QueryThreshold(threshold=3),
]


# --- slow twins ------------------------------------------------------------------------------------------------------


def largest(row: dict[int, Any], count: int) -> dict[int, Any]:
    """The `count` largest weights, of equal ones those with the smaller key."""
    best = sorted(row, key=lambda term: (-row[term], term))[:count]
    return {term: row[term] for term in sorted(best)}


def mass_share(row: dict[int, Any], share: float) -> dict[int, Any]:
    """The fewest largest weights that reach the share of the mass, in exact arithmetic."""
    exact = {term: Fraction(weight) for term, weight in row.items()}
    needed = sum(exact.values()) * Fraction(share) * (1 - Fraction(1, 10**12))
    mass, count = Fraction(0), 0
    for weight in sorted(exact.values(), reverse=True):
        if mass >= needed:
            break
        mass, count = mass + weight, count + 1
    return largest(row, count)


def max_postings(rows: Rows, count: int) -> Rows:
    """Every term in its `count` best rows."""
    kept: Rows = [{} for _ in rows]
    for term in sorted({term for row in rows for term in row}):
        column = {number: row[term] for number, row in enumerate(rows) if term in row}
        for number, weight in largest(column, count).items():
            kept[number][term] = weight
    return kept


def twin(step: Step, rows: Rows) -> Rows:
    """What a step does to documents."""
    match step:
        case DocThreshold(threshold=threshold):
            return [{term: weight for term, weight in row.items() if weight >= threshold} for row in rows]
        case MassShare(share=share):
            return [mass_share(row, share) for row in rows]
        case TopTerms(count=count):
            return [largest(row, count) for row in rows]
        case MaxPostings(count=count):
            return max_postings(rows, count)
    return rows


def query_twin(thresholds: Iterable[float], terms: Iterable[int], weights: Iterable[float]) -> dict[int, float]:
    """Sum repeated terms, then threshold."""
    query: dict[int, float] = {}
    for term, weight in zip(terms, weights, strict=True):
        query[term] = query.get(term, 0.0) + weight
    for threshold in thresholds:
        query = {term: max(weight - threshold, 0.0) for term, weight in query.items()}
    return {term: query[term] for term in sorted(query) if query[term] > 0}


# --- making and reading ----------------------------------------------------------------------------------------------


def to_csr(rows: Rows, dtype: Any) -> Csr:
    """Rows as a canonical batch."""
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    indices = np.array([term for row in rows for term in row], dtype=np.uint32)
    return Csr(indptr, indices, np.array([w for row in rows for w in row.values()], dtype=dtype), NUM_TERMS)


def to_rows(docs: Csr) -> Rows:
    """A batch as plain rows."""
    ends = docs.indptr.tolist()
    pairs = list(zip(docs.indices.tolist(), docs.values.tolist(), strict=True))
    return [dict(pairs[first:end]) for first, end in pairwise(ends)]


def random_batch(rng: np.random.Generator, dtype: Any, num_docs: int = 80) -> Csr:
    """Documents of 0 to NUM_TERMS terms with few different weights, so that most of them tie."""
    rows: Rows = []
    for _ in range(num_docs):
        terms = np.sort(rng.permutation(NUM_TERMS)[: rng.integers(0, NUM_TERMS + 1)])
        weights = rng.integers(1, 1 + rng.choice([1, 3, 20]), len(terms))
        scale = 1 if np.dtype(dtype).kind in "iu" else 0.1
        rows.append(dict(zip(terms.tolist(), (weights * scale).tolist(), strict=True)))
    return to_csr(rows, dtype)


def cut(docs: Csr, ends: Iterable[int]) -> list[Csr]:
    """The rows as several batches that end before these rows."""
    bounds = [0, *ends, docs.num_rows]
    parts = []
    for first, end in pairwise(bounds):
        part = slice(docs.indptr[first], docs.indptr[end])
        indptr = docs.indptr[first : end + 1] - docs.indptr[first]
        parts.append(Csr(indptr, docs.indices[part], docs.values[part], docs.num_columns))
    return parts


def joined(batches: Iterable[Csr]) -> Rows:
    """All rows of all batches."""
    return [row for batch in batches for row in to_rows(batch)]


# --- documents -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("step", ROW_STEPS, ids=str)
def test_row_steps_match_plain_loops(rng: np.random.Generator, step: Step, dtype: Any) -> None:
    """Rows, weights, dtypes and the number of rows and columns are those of the slow twin."""
    docs = random_batch(rng, dtype)
    pruned = prune_rows(step, docs)
    assert to_rows(pruned) == twin(step, to_rows(docs))
    assert pruned.values.dtype == dtype
    assert pruned.indices.dtype == np.uint32
    assert pruned.indptr.dtype == np.int64
    assert pruned.num_columns == NUM_TERMS


@pytest.mark.parametrize("step", ROW_STEPS, ids=str)
def test_row_steps_on_nothing(step: Step) -> None:
    """No rows, and rows without terms, stay what they are."""
    assert prune_rows(step, to_csr([], np.float32)).num_rows == 0
    assert to_rows(prune_rows(step, to_csr([{}, {}], np.float32))) == [{}, {}]


@pytest.mark.parametrize("step", ROW_STEPS, ids=str)
def test_a_row_does_not_depend_on_its_batch(rng: np.random.Generator, step: Step) -> None:
    """Weights of very different size in other rows change nothing."""
    docs = random_batch(rng, np.float64)
    scale = np.repeat(10.0 ** rng.integers(-12, 13, docs.num_rows), np.diff(docs.indptr))
    docs = docs._replace(values=docs.values * scale)
    whole = to_rows(prune_rows(step, docs))
    assert whole == joined(prune_rows(step, part) for part in cut(docs, range(1, docs.num_rows)))


def test_many_rows_of_very_different_length() -> None:
    """Rows that fill several dense blocks, beside one that fills one alone, are cut as any other."""
    rng = np.random.default_rng(3)
    lengths = np.concatenate([rng.integers(0, 60, 20_000), [300_000]])
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    indices = np.arange(indptr[-1]) - np.repeat(indptr[:-1], lengths)
    docs = Csr(indptr, indices.astype(np.uint32), rng.integers(1, 5, indptr[-1]).astype(np.uint8), 300_000)
    pruned = prune_rows(TopTerms(count=20), docs)
    assert (np.diff(pruned.indptr) == np.minimum(lengths, 20)).all()
    for row in (0, 1, 9_999, 19_999, 20_000):
        part = slice(indptr[row], indptr[row + 1])
        order = np.lexsort((docs.indices[part], -docs.values[part].astype(int)))[:20]
        found = pruned.indices[pruned.indptr[row] : pruned.indptr[row + 1]]
        assert (found == np.sort(docs.indices[part][order])).all()


def test_extreme_weights() -> None:
    """Sums neither overflow nor vanish, and weights beyond 2**53 stay distinct."""
    huge = to_csr([{1: 1.7e308, 2: 1.6e308, 3: 1.5e308}, {1: 5e-324, 2: 5e-324}, {4: 1e308, 5: 5e-324}], np.float64)
    assert to_rows(prune_rows(MassShare(share=0.6), huge)) == [
        {1: 1.7e308, 2: 1.6e308},
        {1: 5e-324, 2: 5e-324},
        {4: 1e308},
    ]
    assert to_rows(prune_rows(MassShare(share=1.0), huge)) == to_rows(huge)
    whole = to_csr([{1: 2**60, 2: 2**60 + 1}, {1: 2**60 + 1}], np.int64)
    assert to_rows(prune_rows(TopTerms(count=1), whole))[0] == {2: 2**60 + 1}
    capped = prune_batches(MaxPostings(count=1), lambda: [whole], NUM_TERMS)
    assert joined(capped()) == [{2: 2**60 + 1}, {1: 2**60 + 1}]


def test_a_decimal_share_of_equal_weights() -> None:
    """7 % of 100 equal weights are 7 of them, though 0.07 * 100 > 7 in floats."""
    docs = Csr(np.array([0, 100]), np.arange(100, dtype=np.uint32), np.ones(100, np.float32), 100)
    assert prune_rows(MassShare(share=0.07), docs).indices.tolist() == list(range(7))


def test_a_threshold_means_the_same_in_every_dtype() -> None:
    """float32(0.7) < 0.7 < float32(0.7) + 1 ulp: weights are compared by what they are."""
    near = np.float32(0.7)
    docs = to_csr([{1: near, 2: np.nextafter(near, np.float32(1))}], np.float32)
    for batch in (docs, docs._replace(values=docs.values.astype(np.float64))):
        assert prune_rows(DocThreshold(threshold=0.7), batch).indices.tolist() == [2]


def test_order_matters() -> None:
    """Two shares taken of different masses differ; several steps are one after the other."""
    docs = to_csr([{1: 5, 2: 3, 3: 1, 4: 1}], np.uint8)
    top, share = TopTerms(count=2), MassShare(share=0.6)
    assert to_rows(prune_rows([top, share], docs)) == [{1: 5}]
    assert to_rows(prune_rows([share, top], docs)) == [{1: 5, 2: 3}]
    assert prune_rows([], docs) is docs


# --- caps ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [1, 2, 10, 39, 1000])
def test_caps_match_plain_loops(rng: np.random.Generator, dtype: Any, count: int) -> None:
    """However rows are cut into batches and terms into groups, also with empty batches, and again when restarted."""
    docs = random_batch(rng, dtype)
    expected = max_postings(to_rows(docs), count)
    for ends in ([], [1, 1, 40, 79], range(1, docs.num_rows)):
        batches = cut(docs, ends)
        for max_values in (1, 100, 300, 10**6):
            cutoffs = posting_cutoffs(lambda batches=batches: batches, NUM_TERMS, count, max_values)
            pruned = [cutoffs.apply(batch) for batch in batches]
            assert joined(pruned) == expected
            assert {batch.values.dtype for batch in pruned} == {np.dtype(dtype)}
            again = cutoffs.restarted()
            assert joined(again.apply(batch) for batch in batches) == expected


def test_caps_hold_few_weights_at_a_time(rng: np.random.Generator) -> None:
    """One pass to count, then as many as the groups need; none where no list is long."""
    docs = random_batch(rng, np.float32)
    passes = 0

    def batches() -> list[Csr]:
        nonlocal passes
        passes += 1
        return [docs]

    needed = {}
    for count, max_values in ((5, 10**9), (5, 1000), (5, 1), (1000, 1)):
        passes = 0
        posting_cutoffs(batches, NUM_TERMS, count, max_values)
        needed[count, max_values] = passes
    assert needed[5, 10**9] == 2
    # No two neighboring groups fit into one, so at most twice as many as the postings need.
    assert len(docs.indices) / 1000 <= needed[5, 1000] - 1 <= 2 * len(docs.indices) / 1000 + 1
    assert needed[5, 1] == 1 + NUM_TERMS
    assert needed[1000, 1] == 1


def test_caps_over_batches_of_different_dtypes(rng: np.random.Generator) -> None:
    """Weights are compared by what they are, and every batch keeps its dtype."""
    docs = random_batch(rng, np.float32)
    parts = cut(docs, [25, 50])
    parts[1] = parts[1]._replace(values=parts[1].values.astype(np.float64))
    pruned = list(prune_batches(MaxPostings(count=9), lambda: parts, NUM_TERMS)())
    assert joined(pruned) == max_postings(to_rows(docs), 9)
    assert [part.values.dtype for part in pruned] == [np.float32, np.float64, np.float32]


def test_caps_of_nothing() -> None:
    """An empty collection and one of empty documents have nothing to cut."""
    assert list(prune_batches(MaxPostings(count=1), list, NUM_TERMS)()) == []
    empty = to_csr([{}, {}], np.float32)
    assert joined(prune_batches(MaxPostings(count=1), lambda: [empty], NUM_TERMS)()) == [{}, {}]


@pytest.mark.parametrize(
    "steps",
    [
        [TopTerms(count=9), MaxPostings(count=15), MassShare(share=0.8)],
        [MaxPostings(count=15), TopTerms(count=9), MassShare(share=0.8)],
        [MaxPostings(count=30), TopTerms(count=6), MaxPostings(count=12), DocThreshold(threshold=2)],
        [QueryThreshold(threshold=1), MassShare(share=0.5)],
        [],
    ],
    ids=str,
)
def test_steps_follow_each_other(rng: np.random.Generator, steps: list[Step]) -> None:
    """A cap anywhere among other steps sees what they left, at every pass."""
    docs = random_batch(rng, np.uint8)
    expected = to_rows(docs)
    for step in steps:
        expected = twin(step, expected)
    for ends in ([], [7, 60]):
        parts = cut(docs, ends)
        pruned = prune_batches(steps, lambda parts=parts: parts, NUM_TERMS, max_values=200)
        assert joined(pruned()) == expected
        assert joined(pruned()) == expected


def test_the_place_of_a_cap_matters() -> None:
    """A cap after another step keeps postings that it would have spent on what that step drops."""
    docs = to_csr([{1: 5, 2: 9}, {1: 4}], np.uint8)
    steps = [MaxPostings(count=1), TopTerms(count=1)]
    assert joined(prune_batches(steps, lambda: [docs], NUM_TERMS)()) == [{2: 9}, {}]
    assert joined(prune_batches(steps[::-1], lambda: [docs], NUM_TERMS)()) == [{2: 9}, {1: 4}]


def test_without_caps_batches_are_read_once() -> None:
    """An iterator that can be read once is enough where no cap needs two passes."""
    docs = to_csr([{1: 5, 2: 9}], np.uint8)
    source = iter([docs])
    assert joined(prune_batches(TopTerms(count=1), lambda: source, NUM_TERMS)()) == [{2: 9}]


def test_batches_that_change_are_refused() -> None:
    """An iterator that is used up after one pass, or other documents, are errors and no wrong cut."""
    docs = to_csr([{1: 5}, {1: 4}], np.uint8)
    once = iter([docs])
    with refused(InputError, expected="same documents at every call"):
        posting_cutoffs(lambda: once, NUM_TERMS, 1, 100)
    growing = iter([[docs], [docs, docs]])
    with refused(InputError, expected="same documents at every call"):
        posting_cutoffs(lambda: next(growing), NUM_TERMS, 1, 100)
    with refused(InputError, expected="7 columns in every batch", got="40"):
        posting_cutoffs(lambda: [docs], 7, 1, 100)


# --- queries ---------------------------------------------------------------------------------------------------------


def test_queries_match_a_plain_loop(rng: np.random.Generator) -> None:
    """One query and many give the same: repeated terms are summed before the threshold."""
    steps = [TopTerms(count=1), QueryThreshold(threshold=0.3), QueryThreshold(threshold=0.25)]
    lengths = rng.integers(0, 12, 200)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    terms = rng.integers(0, 9, indptr[-1])
    weights = rng.integers(0, 10, indptr[-1]) * 0.1
    pruned = prune_queries(steps, Csr(indptr, terms, weights, 9))
    assert pruned.indices.dtype == np.int64
    assert pruned.values.dtype == np.float64
    for row, (first, end) in enumerate(pairwise(indptr)):
        one = prune_query(steps, terms[first:end], weights[first:end])
        found = dict(zip(one[0].tolist(), one[1].tolist(), strict=True))
        assert found == query_twin([0.3, 0.25], terms[first:end].tolist(), weights[first:end].tolist())
        assert list(found) == sorted(found)
        assert found == to_rows(pruned)[row]


def test_repeated_terms_are_summed_first() -> None:
    """Two halves of a weight are as good as the whole."""
    terms, weights = prune_query(QueryThreshold(threshold=0.5), np.array([7, 3, 7]), np.array([0.5, 0.5, 0.25]))
    assert (terms.tolist(), weights.tolist()) == ([7], [0.25])


def test_queries_without_query_steps_are_returned_as_they_are() -> None:
    """Not even repeated terms are touched."""
    terms, weights = np.array([7, 3, 7]), np.array([0.5, 0.5, 0.25])
    same = prune_query([TopTerms(count=1), DocThreshold(threshold=9)], terms, weights)
    assert same[0] is terms
    assert same[1] is weights
    batch = Csr(np.array([0, 3]), terms, weights, 9)
    assert prune_queries([], batch) is batch


@pytest.mark.parametrize(("term", "weight"), [(-1, 0.1), (2**62, -0.1), (1, np.nan), (1, np.inf)])
def test_invalid_queries_are_left_to_the_search(term: int, weight: float) -> None:
    """Pruning hides no mistake: the search refuses such a query, with the place."""
    terms, weights = np.array([3, term]), np.array([0.1, weight])
    assert prune_query(QueryThreshold(threshold=0.5), terms, weights)[0] is terms


def test_no_queries() -> None:
    """No queries, queries without terms, and queries of which nothing stays."""
    step = QueryThreshold(threshold=1)
    none = prune_queries(step, Csr(np.array([0]), np.empty(0, np.int64), np.empty(0), 9))
    assert none.num_rows == 0
    some = prune_queries(step, Csr(np.array([0, 0, 2, 2]), np.array([4, 2**62]), np.array([1.0, 0.5]), 9))
    assert some.indptr.tolist() == [0, 0, 0, 0]
    assert some.values.dtype == np.float64


# --- steps as values -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ALL_STEPS, ids=str)
def test_dict_round_trip(step: Step) -> None:
    """Through JSON and back."""
    assert step_from_dict(json.loads(json.dumps(step.to_dict()))) == step


def test_to_dict_is_plain() -> None:
    """Names and fields are those of the file format, also of numpy numbers."""
    assert [step.to_dict() for step in ALL_STEPS] == [
        {"step": "doc_threshold", "threshold": 0.1},
        {"step": "query_threshold", "threshold": 0.3},
        {"step": "mass_share", "share": 0.9},
        {"step": "top_terms", "count": 64},
        {"step": "max_postings", "count": 10_000},
    ]
    assert json.dumps(TopTerms(count=np.int64(3)).to_dict()) == '{"step": "top_terms", "count": 3}'
    assert type(DocThreshold(threshold=np.float32(0.5)).threshold) is float


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("doc-threshold=0.1", DocThreshold(threshold=0.1)),
        ("doc-threshold=1", DocThreshold(threshold=1.0)),
        ("query-threshold=.3", QueryThreshold(threshold=0.3)),
        ("mass-share=0.9", MassShare(share=0.9)),
        ("top-terms=64", TopTerms(count=64)),
        ("max-postings=10000", MaxPostings(count=10_000)),
    ],
)
def test_parse_step(text: str, step: Step) -> None:
    """The command line names every step; a whole number is a number too."""
    assert parse_step(text) == step


@pytest.mark.parametrize(
    ("make", "parts"),
    [
        (lambda: DocThreshold(threshold=-0.1), {"expected": "a finite threshold >= 0", "got": "-0.1"}),
        (lambda: QueryThreshold(threshold=float("nan")), {"expected": "a finite threshold >= 0", "got": "nan"}),
        (lambda: QueryThreshold(threshold="1"), {"option": "threshold", "expected": "a number", "got": "'1'"}),
        (lambda: MassShare(share=0), {"option": "share", "expected": "greater than 0 and at most 1", "got": "0"}),
        (lambda: MassShare(share=1.5), {"option": "share", "expected": "greater than 0 and at most 1", "got": "1.5"}),
        (lambda: TopTerms(count=0), {"option": "count", "expected": "at least 1", "got": "0"}),
        (lambda: MaxPostings(count=2.5), {"option": "count", "expected": "at least 1", "got": "2.5"}),
        (lambda: step_from_dict("top_terms"), {"expected": "a pruning step as a mapping", "got": "'top_terms'"}),
        (
            lambda: step_from_dict({"count": 3}),
            {"option": "step", "expected": "one of doc_threshold, .*", "got": "None"},
        ),
        (
            lambda: step_from_dict({"step": "best"}),
            {"option": "step", "expected": "one of .*max_postings", "got": "'best'"},
        ),
        (lambda: step_from_dict({"step": ["best"]}), {"option": "step", "expected": "one of"}),
        (lambda: step_from_dict({"step": "top_terms"}), {"expected": "the option count of top_terms", "got": "none"}),
        (
            lambda: step_from_dict({"step": "top_terms", "count": 1, "share": 1}),
            {"expected": "the option count of top_terms", "got": "count, share"},
        ),
        (
            lambda: step_from_dict({"step": "top_terms", "count": 0}),
            {"option": "count", "expected": "at least 1", "got": "0"},
        ),
        (lambda: parse_step("best=3"), {"expected": "a pruning step .*top-terms=….*", "got": "'best=3'"}),
        (lambda: parse_step("top-terms"), {"expected": "a whole number as in top-terms=64", "got": "'top-terms'"}),
        (
            lambda: parse_step("top-terms=6.5"),
            {"expected": "a whole number as in top-terms=64", "got": "'top-terms=6.5'"},
        ),
        (lambda: parse_step("mass-share=x"), {"expected": "a number as in mass-share=0.5", "got": "'mass-share=x'"}),
        (
            lambda: parse_step("mass-share=2"),
            {"option": "share", "expected": "greater than 0 and at most 1", "got": "2.0"},
        ),
        (lambda: parse_step("doc-threshold=1e999"), {"expected": "a number as in doc-threshold=0.5", "got": ".*1e999"}),
        (lambda: prune_rows(MaxPostings(count=3), to_csr([], np.uint8)), {"got": "it needs the whole collection"}),
        (lambda: prune_rows(["top-terms=3"], to_csr([], np.uint8)), {"expected": "pruning steps such as"}),
        (lambda: posting_cutoffs(list, NUM_TERMS, 0, 1), {"option": "count", "expected": "at least 1", "got": "0"}),
        (
            lambda: posting_cutoffs(list, NUM_TERMS, 1, 0),
            {"option": "max_values", "expected": "at least 1", "got": "0"},
        ),
    ],
)
def test_invalid_steps_are_refused(make: Callable[[], object], parts: dict[str, str]) -> None:
    """What was expected, and what came."""
    with refused(ConfigError, **parts):
        make()
