"""Several indexes searched as one, against a slow twin that adds up integers."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import segmax
from conftest import examples, topic_docs
from segmax import _core, paper
from segmax.search.methods import SearchParams

FIELDS = list(_core.stats_fields())
EXACT: dict[str, SearchParams] = {
    "asc": segmax.ASC(),
    "exhaustive": segmax.Exhaustive(),
    "maxscore": paper.MaxScore(),
    "anytime": paper.Anytime(),
    "sequential": paper.ASC(),
}


@dataclasses.dataclass
class Part:
    """Documents as codes, with an index over them."""

    codes: sp.csr_matrix
    numbers: NDArray[np.int64]
    core: _core.Index
    alive: NDArray[np.bool_] | None = None


def small_part(codes: sp.csr_matrix, numbers: NDArray[np.int64], wide: bool, head_ratio: int = 8) -> Part:
    """A part whose index has its documents in the order given."""
    codes = sp.csr_matrix(codes)
    codes.sort_indices()
    arrays = _core.small_index(
        codes.indptr.astype(np.int64),
        codes.indices.astype(np.uint32),
        codes.data.astype(np.uint16 if wide else np.uint8),
        codes.shape[1],
        head_ratio,
    )
    arrays["term_scale"] = np.ones(codes.shape[1])
    core = _core.Index(codes.shape[0], codes.shape[1], 1, 2 if wide else 1, head_ratio, arrays)
    return Part(codes, numbers, core)


def built_part(codes: sp.csr_matrix, numbers: NDArray[np.int64], wide: bool, rng: np.random.Generator) -> Part:
    """A part with clusters and segments, in another order than its rows."""
    labels = rng.integers(0, max(1, codes.shape[0] // 15), codes.shape[0])
    index = segmax.build(codes, clustering=labels, bits=16 if wide else 8, num_segments=4, calibrate=False)
    return Part(sp.csr_matrix(codes), numbers, index._engine.core)


@dataclasses.dataclass
class State:
    """Parts on one lattice."""

    scale: NDArray[np.float64]
    parts: list[Part]

    def __post_init__(self) -> None:
        """Take the largest codes of all parts."""
        self.largest = np.zeros(len(self.scale), dtype=np.uint32)
        for part in self.parts:
            if part.codes.nnz:
                most = part.codes.max(axis=0).toarray()[0]
                self.largest[: len(most)] = np.maximum(self.largest[: len(most)], most)
        self.wide = bool((self.largest > 255).any())
        self.lattice = _core.Lattice(self.scale, self.largest, self.wide)

    def core(self) -> _core.Parts:
        """The parts as the core searches them."""
        return _core.Parts(
            self.lattice, [part.core for part in self.parts], [part.numbers for part in self.parts], self.masks()
        )

    def masks(self, allowed: Sequence[NDArray[np.bool_] | None] | None = None) -> list[_core.Mask | None]:
        """The masks of given rows of each part, or of those that are alive."""
        rows = [part.alive for part in self.parts] if allowed is None else allowed
        return [
            None if some is None else _core.Mask(part.core, some) for part, some in zip(self.parts, rows, strict=True)
        ]

    def prepared(self, query: dict[int, float], params: SearchParams) -> tuple[dict[int, int], float]:
        """The integers of a query, and what a score is multiplied by: the definition, term by term."""
        known = {
            term: np.longdouble(weight) * np.longdouble(self.scale[term])
            for term, weight in sorted(query.items())
            if weight > 0 and term < len(self.scale) and self.largest[term] > 0
        }
        mass, most = getattr(params, "query_mass", 1.0), getattr(params, "max_terms", None)
        if mass < 1.0:
            heavy = sorted(known, key=lambda term: (-float(known[term] * int(self.largest[term])), term))
            total, held, kept = sum(float(known[t] * int(self.largest[t])) for t in sorted(known)), 0.0, []
            for term in heavy:
                if held >= (mass - 1e-12) * total:
                    break
                kept.append(term)
                held += float(known[term] * int(self.largest[term]))
            known = {term: known[term] for term in sorted(kept)}
        if not known:
            return {}, 1.0
        whole = all(
            self.scale[term] == 1.0 and weight <= 32767 and float(weight) == int(float(weight))
            for term, weight in known.items()
        )
        integers, scale = {term: int(float(weight)) for term, weight in known.items()}, 1.0
        if not whole:
            largest = max(known.values())
            for bits in (*range(15, 14 if self.wide else 11, -1), 15):
                levels = 2**bits - 1
                integers = {
                    term: int(max(1.0, np.rint(float(weight / largest * levels)))) for term, weight in known.items()
                }
                scale = max(float(largest / levels), np.finfo(float).tiny)
                if sum(weight * int(self.largest[term]) for term, weight in integers.items()) < 2**31:
                    break
        if most is not None and len(integers) > most:
            heavy = sorted(integers, key=lambda term: (-integers[term] * int(self.largest[term]), term))[:most]
            integers = {term: integers[term] for term in sorted(heavy)}
        return integers, scale

    def twin(
        self,
        query: dict[int, float],
        k: int,
        params: SearchParams,
        allowed: Sequence[NDArray[np.bool_] | None] | None = None,
    ) -> list[tuple[int, float, int, int]]:
        """Number, score, part and row of the k best documents."""
        integers, scale = self.prepared(query, params)
        found = []
        for at, part in enumerate(self.parts):
            weights = np.zeros(part.codes.shape[1], dtype=np.int64)
            for term, weight in integers.items():
                if term < len(weights):
                    weights[term] = weight
            rows = part.alive if allowed is None else allowed[at]
            for row, score in enumerate((part.codes.astype(np.int64) @ weights).tolist()):
                if score > 0 and (rows is None or rows[row]):
                    found.append((-score, int(part.numbers[row]), at, row))
        found.sort()
        return [(number, float(-score) * scale, at, row) for score, number, at, row in found[:k]]


def arrays_of(query: dict[int, float]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The terms and weights of a query."""
    return np.array(list(query), dtype=np.int64), np.array(list(query.values()), dtype=np.float64)


def found_by(
    parts: _core.Parts,
    query: dict[int, float],
    k: int,
    params: _core.SearchParams,
    masks: Sequence[_core.Mask | None] | None = None,
) -> tuple[list[tuple[int, float, int, int]], dict[str, int]]:
    """The results and the statistics of a search."""
    numbers, scores, at, rows, stats = parts.search_one(*arrays_of(query), k, params, masks)
    hits = list(zip(numbers.tolist(), scores.tolist(), at.tolist(), rows.tolist(), strict=True))
    return hits, dict(zip(FIELDS, stats.tolist(), strict=True))


def random_codes(rng: np.random.Generator, num_docs: int, num_terms: int, density: float, most: int) -> sp.csr_matrix:
    """Documents with codes from 1 to `most`."""
    codes = sp.random(num_docs, num_terms, density, "csr", dtype=np.float64, random_state=rng)
    codes.data = rng.integers(1, most + 1, codes.nnz).astype(np.float64)
    return codes.astype(np.int64)


@st.composite
def states(draw: st.DrawFn) -> State:
    """Parts of all kinds: small and built, 8 and 16 bits, empty, masked, with fewer terms than the lattice."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    num_terms = draw(st.sampled_from([3, 20, 60]))
    num_parts = draw(st.integers(0, 5))
    sizes = [draw(st.sampled_from([0, 1, 7, 40, 130])) for _ in range(num_parts)]
    numbers = rng.permutation(sum(sizes) * 2)[: sum(sizes)] if draw(st.booleans()) else np.arange(sum(sizes))
    numbers = numbers + draw(st.sampled_from([0, 2**40]))
    density = draw(st.sampled_from([0.02, 0.15, 0.6]))
    most = draw(st.sampled_from([1, 3, 255]))
    parts = []
    for at, size in enumerate(sizes):
        wide = draw(st.booleans())
        terms = num_terms if draw(st.booleans()) else max(1, num_terms // 2)
        codes = random_codes(rng, size, terms, density, draw(st.sampled_from([most, 60_000])) if wide else most)
        own = np.sort(numbers[sum(sizes[:at]) :][:size]).astype(np.int64)
        if size >= 7 and codes.nnz and draw(st.booleans()):
            parts.append(built_part(codes, own, wide, rng))
        else:
            parts.append(small_part(codes, own, wide, draw(st.sampled_from([1, 8]))))
        share = draw(st.sampled_from([None, None, 1.0, 0.6, 0.05, 0.0]))
        parts[-1].alive = None if share is None else rng.random(size) < share
    kind = draw(st.sampled_from(["whole", "floats", "mixed"]))
    scale = np.ones(num_terms)
    if kind != "whole":
        scale = rng.choice([0.003, 0.5, 1.0, 2.25] if kind == "mixed" else rng.random(9) + 0.01, num_terms)
    return State(scale, parts)


@st.composite
def queries(draw: st.DrawFn, num_terms: int) -> dict[int, float]:
    """Terms of the lattice and beyond, with whole weights, large ones, or floats."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    terms = rng.permutation(num_terms + 2)[: draw(st.integers(0, 14))]
    kind = draw(st.sampled_from(["ones", "whole", "large", "floats"]))
    weights = {
        "ones": np.ones(len(terms)),
        "whole": rng.integers(0, 40, len(terms)),
        "large": rng.integers(1, 32768, len(terms)),
        "floats": rng.random(len(terms)) * rng.choice([1e-3, 1, 7.5]),
    }[kind]
    return dict(zip(terms.tolist(), weights.tolist(), strict=True))


@settings(max_examples=examples(60), suppress_health_check=list(HealthCheck))
@pytest.mark.filterwarnings("ignore:.* empty:segmax.errors.SegmaxWarning")
@given(st.data())
def test_parts_answer_like_one_index_over_all_documents(data: st.DataObject) -> None:
    """Numbers, scores and order of every exact method are those of adding up integers, whatever the parts."""
    state = data.draw(states())
    core = state.core()
    for _ in range(3):
        query = data.draw(queries(len(state.scale)))
        k = data.draw(st.sampled_from([1, 2, 5, 30, 1000]))
        name = data.draw(st.sampled_from(sorted(EXACT)))
        params = EXACT[name]
        limits = {
            "query_mass": data.draw(st.sampled_from([1.0, 0.9, 0.4])),
            "max_terms": data.draw(st.sampled_from([None, 1, 4])),
        }
        if name == "asc":
            params = segmax.ASC(**limits)
        expected = state.twin(query, k, params)
        hits, stats = found_by(core, query, k, params.to_core())
        assert hits == expected
        known = [t for t, w in query.items() if w > 0 and t < len(state.scale) and state.largest[t] > 0]
        assert stats["unknown_terms"] == sum(w > 0 for w in query.values()) - len(known)
        assert stats["dropped_terms"] == len(known) - len(state.prepared(query, params)[0])
        assert stats["budget_hit"] == 0


@settings(max_examples=examples(60), suppress_health_check=list(HealthCheck))
@pytest.mark.filterwarnings("ignore:.* empty:segmax.errors.SegmaxWarning")
@given(st.data())
def test_an_index_with_the_lattice_answers_like_its_part(data: st.DataObject) -> None:
    """Scores, bounds and matched terms of a single part are on the lattice of all."""
    state = data.draw(states())
    query = data.draw(queries(len(state.scale)))
    integers, scale = state.prepared(query, segmax.ASC())
    for at, part in enumerate(state.parts):
        own = part.core.with_lattice(state.lattice)
        expected = [hit for hit in state.twin(query, 10**6, segmax.ASC(), [None] * len(state.parts)) if hit[2] == at]
        rows, scores, _ = own.search_one(*arrays_of(query), 1000, segmax.ASC().to_core())
        assert list(zip(rows.tolist(), scores.tolist(), strict=True)) == [(row, score) for _, score, _, row in expected]
        assert own.ceiling(*arrays_of(query)) >= max([score for _, score, _, _ in expected], default=0)
        assert own.score(*arrays_of(query), rows).tolist() == scores.tolist()
        batch = own.search_batch(
            np.array([0, len(query)]), *arrays_of(query), np.array([1000]), [segmax.ASC().to_core()], 1
        )
        assert batch[0][0, : len(rows)].tolist() == rows.tolist()
        for row in rows[:3].tolist():
            terms, units, codes, factor = own.matched(*arrays_of(query), row)
            assert dict(zip(terms.tolist(), units.tolist(), strict=True)).items() <= integers.items()
            assert codes.tolist() == [part.codes[row, t] for t in terms]
            assert factor == scale


@settings(max_examples=examples(60), suppress_health_check=list(HealthCheck))
@pytest.mark.filterwarnings("ignore:.* empty:segmax.errors.SegmaxWarning")
@given(st.data(), st.sampled_from([1, 2, 5]))
def test_batches_of_parts(data: st.DataObject, threads: int) -> None:
    """Every query with its own k, parameters and masks gets what a single search returns."""
    state = data.draw(states())
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    asked = [data.draw(queries(len(state.scale))) for _ in range(data.draw(st.integers(0, 6)))]
    ks = rng.integers(1, 60, len(asked))
    params = [EXACT[name] for name in rng.choice(sorted(EXACT), len(asked))]
    allowed = [
        [None if rng.random() < 0.3 else rng.random(len(p.numbers)) < rng.random() for p in state.parts] for _ in asked
    ]
    terms, weights = (np.concatenate(some) for some in zip(*(arrays_of(q) for q in [*asked, {}]), strict=True))
    indptr = np.cumsum([0, *(len(q) for q in asked)])
    core = state.core()
    each = [state.masks(rows) for rows in allowed]
    ways: list[tuple[Sequence, list]] = [(each, allowed)]
    if asked:
        ways += [(each[0], [allowed[0]] * len(asked)), (None, [None] * len(asked))]  # type: ignore[list-item]
    for masks, expected_rows in ways:
        numbers, scores, counts, at, rows, stats = core.search_batch(
            indptr, terms, weights, ks, [p.to_core() for p in params], threads, masks
        )
        assert len(numbers) == len(asked)
        assert stats.shape == (len(asked), len(FIELDS))
        for i, query in enumerate(asked):
            expected = state.twin(query, int(ks[i]), params[i], expected_rows[i])
            count = int(counts[i])
            columns = (numbers[i, :count], scores[i, :count], at[i, :count], rows[i, :count])
            assert list(zip(*(column.tolist() for column in columns), strict=True)) == expected
            assert (numbers[i, count:] == -1).all()
            assert (scores[i, count:] == 0).all()


# --- larger parts ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def topics() -> State:
    """Four parts of one collection, their numbers interleaved: two of clusters, two small."""
    rng = np.random.default_rng(3)
    docs, labels = topic_docs(rng, 9000, 40)
    docs = sp.csr_matrix(docs)
    belongs = rng.choice(4, 9000, p=[0.6, 0.2, 0.15, 0.05])
    parts = []
    for at in range(4):
        rows = np.flatnonzero(belongs == at)
        if at < 2:
            index = segmax.build(docs[rows], clustering=labels[rows], calibrate=False)
            parts.append(Part(docs[rows], rows.astype(np.int64), index._engine.core))
        else:
            parts.append(small_part(docs[rows], rows.astype(np.int64), wide=False))
    return State(np.ones(docs.shape[1]), parts)


def spread_query(rng: np.random.Generator, num_terms: int) -> dict[int, float]:
    """A query of terms of many topics."""
    return {int(t): float(rng.integers(1, 50)) for t in rng.permutation(num_terms)[:25]}


@pytest.mark.parametrize("all_tiles", [0, 2048])
@pytest.mark.parametrize(("mu", "eta"), [(1.0, 1.0), (0.7, 1.0), (1.0, 0.8), (0.5, 0.7)])
def test_factors_keep_their_promise_over_parts(topics: State, all_tiles: int, mu: float, eta: float) -> None:
    """The sum of the best scores is never below min(μ, η) of what exact search finds; at 1 it is exact."""
    rng = np.random.default_rng(5)
    core = topics.core()
    ways: list[SearchParams] = [segmax.ASC(mu=mu, eta=eta)]
    if mu <= eta:
        ways += [paper.ASC(mu=mu, eta=eta), paper.Anytime(mu=mu)]
    for _ in range(8):
        query = spread_query(rng, len(topics.scale))
        exact = topics.twin(query, 20, segmax.ASC())
        for params in ways:
            asked = params.to_core().copy()
            asked.hooks.all_tiles = all_tiles
            asked.hooks.sweep = False
            hits, _ = found_by(core, query, 20, asked)
            assert set(hits) <= set(topics.twin(query, 10**6, params))
            promised = min(mu, eta) * np.cumsum([score for _, score, _, _ in exact])
            assert len(hits) == len(exact)
            assert (np.cumsum([score for _, score, _, _ in hits]) >= promised - 1e-9).all()
            if mu == eta == 1.0:
                assert hits == exact


def test_a_budget_holds_for_all_parts_together(topics: State) -> None:
    """Whenever time runs out: results have their real scores, and a search that says so is complete."""
    rng = np.random.default_rng(6)
    core = topics.core()
    incomplete = 0
    for _ in range(4):
        query = spread_query(rng, len(topics.scale))
        real = set(topics.twin(query, 10**6, segmax.ASC()))
        exact = topics.twin(query, 100, segmax.ASC())
        for readings in range(1, 60):
            params = segmax.ASC(budget_ms=1e6).to_core().copy()
            params.hooks.sweep = False
            params.hooks.set_clock([0] * readings + [10**15])
            hits, stats = found_by(core, query, 100, params)
            assert len(hits) > 0
            assert set(hits) <= real
            assert hits == sorted(hits, key=lambda hit: (-hit[1], hit[0]))
            assert stats["elapsed_ns"] in (0, 10**15)
            if stats["budget_hit"]:
                incomplete += 1
            else:
                assert hits == exact
        params.hooks.set_clock([0])
        assert found_by(core, query, 100, params)[0] == exact
    assert incomplete > 0


def test_max_blocks_holds_for_all_parts_together(topics: State) -> None:
    """No more blocks are looked at, and a limit that is as large as what is needed leaves nothing out."""
    rng = np.random.default_rng(7)
    core = topics.core()
    unlimited = segmax.ASC().to_core().copy()
    unlimited.hooks.sweep = False
    incomplete = 0
    for _ in range(5):
        query = spread_query(rng, len(topics.scale))
        exact, needed = found_by(core, query, 10, unlimited)
        for limit in (1, 5, 31, 60, 200, 400, needed["blocks_scored"], 10**6):
            hits, stats = found_by(core, query, 10, segmax.ASC(max_blocks=limit).to_core())
            assert stats["blocks_scored"] <= limit
            incomplete += stats["budget_hit"]
            if not stats["budget_hit"]:
                assert hits == exact
        assert stats["budget_hit"] == 0
    assert incomplete > 0


def test_a_floor_without_a_row_is_a_least_score(topics: State) -> None:
    """Results with its score are let in; one with a row is refused, because rows are those of a part."""
    query = {3: 1.0, 7: 2.0, 11: 1.0}
    every = topics.twin(query, 10**6, segmax.ASC())
    params = segmax.ASC().to_core().copy()
    core = topics.core()
    for least in (1.0, every[5][1], every[5][1] + 0.5, every[0][1], every[0][1] + 1):
        params.set_floor(least, -1)
        assert found_by(core, query, 50, params)[0] == [hit for hit in every if hit[1] >= least][:50]
    params.set_floor(3.0, 7)
    with pytest.raises(ValueError, match="expected a floor without a row"):
        found_by(core, query, 50, params)


def test_stats_of_parts_are_added_up(topics: State) -> None:
    """Every posting of every part is counted once; what concerns the query is counted once, too."""
    query = {1: 2.0, 5: 1.0, 10**6: 1.0}
    hits, stats = found_by(topics.core(), query, 10**5, segmax.Exhaustive().to_core())
    postings = sum(int((part.codes[:, [1, 5]] != 0).sum()) for part in topics.parts)
    assert stats["postings_read"] == postings
    assert stats["docs_scored"] == 9000
    assert stats["unknown_terms"] == 1
    assert len(hits) == len(topics.twin(query, 10**5, segmax.ASC()))


@pytest.mark.parametrize("share", [0.3, 0.01, 0.001, 0.0])
def test_few_allowed_documents_are_found_with_and_without_bounds(topics: State, share: float) -> None:
    """Looking at every document that a mask allows is another way to the same results."""
    rng = np.random.default_rng(11)
    core = topics.core()
    for _ in range(6):
        query = spread_query(rng, len(topics.scale))
        allowed = [rng.random(len(part.numbers)) < share for part in topics.parts]
        masks = topics.masks(allowed)
        for k in (1, 10, 1000):
            expected = topics.twin(query, k, segmax.ASC(), allowed)
            for listed in (True, False):
                params = segmax.ASC().to_core().copy()
                params.hooks.list_masked = listed
                assert found_by(core, query, k, params, masks)[0] == expected
            assert found_by(core, query, k, segmax.Exhaustive().to_core(), masks)[0] == expected


# --- what is refused -------------------------------------------------------------------------------------------------


def test_parts_that_do_not_fit_together_are_refused(topics: State) -> None:
    """Numbers and masks belong to their parts, and no part has a code that the lattice rules out."""
    indexes = [part.core for part in topics.parts]
    numbers = [part.numbers for part in topics.parts]
    none: list[_core.Mask | None] = [None] * 4
    with pytest.raises(ValueError, match="expected indexes and numbers of one length, got 4 and 3"):
        _core.Parts(topics.lattice, indexes, numbers[:3], none)
    with pytest.raises(ValueError, match="expected parts and masks of one length, got 4 and 3"):
        _core.Parts(topics.lattice, indexes, numbers, none[:3])
    with pytest.raises(ValueError, match="expected the documents of a part and its numbers of one length"):
        _core.Parts(topics.lattice, indexes, [*numbers[:3], numbers[3][:-1]], none)
    mask = _core.Mask(indexes[0], np.ones(len(numbers[0]), dtype=bool))
    with pytest.raises(ValueError, match="expected a mask that was made for this index"):
        _core.Parts(topics.lattice, indexes, numbers, [None, mask, None, None])
    smaller = topics.largest.copy()
    smaller[np.argmax(smaller)] -= 1
    for largest in (smaller, topics.largest[:-1]):
        lattice = _core.Lattice(topics.scale[: len(largest)], largest, topics.wide)
        with pytest.raises(_core.CoreFormatError, match="the index is damaged: term"):
            _core.Parts(lattice, indexes, numbers, none)
        with pytest.raises(_core.CoreFormatError, match="the index is damaged: term"):
            indexes[0].with_lattice(lattice), indexes[1].with_lattice(lattice), indexes[2].with_lattice(lattice)
    core = topics.core()
    params = segmax.ASC().to_core().copy()
    params.mask = mask
    with pytest.raises(ValueError, match="expected a mask for each part"):
        found_by(core, {1: 1.0}, 3, params)
    with pytest.raises(ValueError, match="expected k to be at least 1"):
        found_by(core, {1: 1.0}, 0, segmax.ASC().to_core())


def test_lattices_that_cannot_be_are_refused() -> None:
    """Scales are positive, codes fit their bits, and both have an entry for each term."""
    with pytest.raises(ValueError, match="expected term_scale and largest of one length, got 2 and 1"):
        _core.Lattice(np.ones(2), np.ones(1, np.uint32), False)
    for scale in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="expected positive scales"):
            _core.Lattice(np.array([1.0, scale]), np.ones(2, np.uint32), False)
        assert _core.Lattice(np.array([1.0, scale]), np.array([1, 0], np.uint32), False).num_terms == 2
    for wide, most in ((False, 255), (True, 65_535)):
        _core.Lattice(np.ones(1), np.array([most], np.uint32), wide)
        with pytest.raises(ValueError, match=f"expected largest codes up to {most}, got {most + 1}"):
            _core.Lattice(np.ones(1), np.array([most + 1], np.uint32), wide)


# --- masks, documents, small indexes, hashes -------------------------------------------------------------------------


@pytest.mark.parametrize("share", [1.0, 0.7, 0.1, 0.001, 0.0])
def test_masks_count_their_rows(topics: State, share: float) -> None:
    """Of clusters that end anywhere in a block."""
    rng = np.random.default_rng(8)
    for part in topics.parts:
        rows = rng.random(len(part.numbers)) < share
        assert _core.Mask(part.core, rows).count == rows.sum()
    params = segmax.ASC().to_core().copy()
    mask = _core.Mask(topics.parts[0].core, np.ones(len(topics.parts[0].numbers), dtype=bool))
    params.mask = mask
    assert params.mask.count == mask.count
    assert params.copy().mask.count == mask.count
    params.mask = None
    assert params.mask is None


@pytest.mark.parametrize("wide", [False, True])
def test_documents_come_back(wide: bool) -> None:
    """All documents of an index, in ranges of positions that end anywhere."""
    rng = np.random.default_rng(9)
    codes = random_codes(rng, 3000, 300, 0.03, 60_000 if wide else 255)
    numbers = np.arange(3000)
    for part in (built_part(codes, numbers, wide, rng), small_part(codes, numbers, wide, 1)):
        core = part.core
        for bounds in ([0, core.num_positions], [0, 0, 1, 13, 1024, 1500, 1501, core.num_positions]):
            seen: list[int] = []
            for first, last in itertools.pairwise(bounds):
                rows, indptr, terms, values = core.documents(first, last)
                assert values.dtype == (np.uint16 if wide else np.uint8)
                assert len(indptr) == len(rows) + 1
                assert np.array_equal(
                    sp.csr_matrix((values, terms, indptr), shape=(len(rows), 300)).toarray(), codes[rows].toarray()
                )
                assert all((np.diff(terms[a:b].astype(int)) > 0).all() for a, b in itertools.pairwise(indptr))
                seen += rows.tolist()
            assert sorted(seen) == list(range(3000))
        for first, last in ((1, 0), (0, core.num_positions + 1)):
            with pytest.raises(ValueError, match="expected a range of the positions"):
                core.documents(first, last)


def test_small_indexes_have_the_arrays_of_an_index() -> None:
    """All but the scales, whatever the number of documents; documents that cannot be are refused."""
    names = {name for name, *_ in _core.components()} - {"term_scale"}
    rng = np.random.default_rng(10)
    for size in (0, 1, 8, 1023, 1024, 1025, 5000):
        codes = random_codes(rng, size, 50, 0.1, 3)
        part = small_part(codes, np.arange(size), wide=False)
        assert part.core.num_clusters == -(-size // 1024)
        query = {1: 1.0, 2: 3.0}
        state = State(np.ones(50), [part])
        assert found_by(state.core(), query, 20, segmax.ASC().to_core())[0] == state.twin(query, 20, segmax.ASC())
    indptr, terms, good = np.array([0, 2]), np.array([1, 2], np.uint32), np.array([1, 1], np.uint8)
    assert set(_core.small_index(indptr, terms, good, 3, 8)) == names
    for bad in (
        (indptr, terms[::-1].copy(), good, 3, 8),
        (indptr, terms, good, 2, 8),
        (indptr, np.array([1, 1], np.uint32), good, 3, 8),
        (indptr, terms, np.array([1, 0], np.uint8), 3, 8),
    ):
        with pytest.raises(ValueError, match="expected ascending terms of the vocabulary and positive codes"):
            _core.small_index(*bad)
    with pytest.raises(ValueError, match="expected at most 32768 documents, got 32769"):
        _core.small_index(np.zeros(32770, np.int64), terms[:0], good[:0], 3, 8)
    for ratio in (0, 65_536):
        with pytest.raises(ValueError, match="expected a head_ratio"):
            _core.small_index(indptr, terms, good, 3, ratio)


def test_hashes_of_texts_never_change() -> None:
    """They are stored: another value for the same text would make ids disappear."""
    texts = ["", "a", "b", "doc-17", "exactly8", "nine char", "ünïcode", "x" * 1000, "x" * 1001]
    data = [text.encode() for text in texts]
    offsets = np.cumsum([0, *(len(one) for one in data)]).astype(np.uint64)
    hashes = _core.hash_texts(offsets, np.frombuffer(b"".join(data), dtype=np.uint8))
    assert hashes.tolist() == [stable_hash(one) for one in data]
    assert len(set(hashes.tolist())) == len(texts)
    assert len(_core.hash_texts(np.zeros(1, np.uint64), np.zeros(0, np.uint8))) == 0
    with pytest.raises(ValueError, match="expected offsets to ascend over all 3 entries"):
        _core.hash_texts(np.array([0, 4], np.uint64), np.zeros(3, np.uint8))


def stable_hash(text: bytes) -> int:
    """The definition of the hash."""

    def mixed(value: int) -> int:
        value = (value ^ value >> 32) * 0xD6E8FEB86659FD93 % 2**64
        return value ^ value >> 32

    value = 0x9E3779B97F4A7C15 * (len(text) + 1) % 2**64
    while len(text) >= 8:
        value = mixed(value ^ int.from_bytes(text[:8], "little")) * 0x9E3779B97F4A7C15 % 2**64
        text = text[8:]
    return mixed(value ^ int.from_bytes(text, "little"))
