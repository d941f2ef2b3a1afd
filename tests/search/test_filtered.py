"""Searches of the documents that a filter matches: exact, in order, page by page and group by group."""

from __future__ import annotations

import enum
import json
import pickle
import threading
import types
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import segmax
from conftest import examples, random_docs, refused
from metadata import twin
from reference import SAFE_METHODS, as_query
from segmax import _core
from segmax.errors import ConfigError, FormatError, InputError
from segmax.metadata import Metadata, parse_where
from segmax.metadata import store as metadata_store
from segmax.metadata.where import narrowed
from segmax.search import queries as query_features
from segmax.search.queries import FilterCache, Kept, Wanted

pytestmark = pytest.mark.filterwarnings("ignore:.* empty:segmax.errors.SegmaxWarning")

VALUES: list[Any] = [1, 2, 2.0, 3.5, "a", "b", True, None, ["a", 1], ["b"], [], {"x": 1}]
FILTERS: list[dict[str, Any]] = [
    {},
    {"n": {"$lt": 0.5}},
    {"n": {"$lt": 0.05}},
    {"n": {"$lt": 0.0}},
    {"v": "a"},
    {"v": {"$ne": 2}},
    {"v": {"$exists": False}},
    {"$or": [{"v": {"$in": [1, "b"]}}, {"n": {"$gt": 0.99}}]},
]


def some_metadata(rng: np.random.Generator, count: int) -> list[dict[str, Any] | None]:
    """A number between 0 and 1 and one of a few values each; some have none."""
    found: list[dict[str, Any] | None] = []
    for _ in range(count):
        document: dict[str, Any] | None = {"n": float(rng.random())}
        if rng.random() < 0.8:
            document["v"] = VALUES[rng.integers(len(VALUES))]
        found.append(document if rng.random() < 0.95 else None)
    return found


def ranking(docs: sp.csr_matrix, query: dict[int, int], metadata: list[Any], where: dict[str, Any]) -> list[int]:
    """All rows that share a term with the query and pass the filter, best first."""
    weights = np.zeros(docs.shape[1], dtype=np.int64)
    for term, weight in query.items():
        if term < len(weights):
            weights[term] = weight
    scores = docs.astype(np.int64) @ weights
    order = np.lexsort((np.arange(len(scores)), -scores))
    return [int(row) for row in order if scores[row] > 0 and twin.matches(where, metadata[row])]


@st.composite
def cases(draw: st.DrawFn) -> tuple[sp.csr_matrix, list[Any], dict[int, int], int]:
    """A collection full of ties with metadata, a query, a k."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    num_docs = draw(st.sampled_from([1, 17, 64, 150, 400]))
    num_terms = draw(st.sampled_from([1, 5, 40]))
    docs = random_docs(rng, num_docs, num_terms, 4.0, draw(st.sampled_from([1, 255])))
    query = as_query(rng, num_terms + 2, draw(st.integers(1, 12)), draw(st.sampled_from([1, 40])))
    return docs, some_metadata(rng, num_docs), query, draw(st.sampled_from([1, 3, 10, 100, num_docs]))


@settings(max_examples=examples(40), suppress_health_check=list(HealthCheck))
@given(cases(), st.data())
def test_the_best_of_the_documents_that_match(case: Any, data: st.DataObject) -> None:
    """For every method, k and selectivity; also in batches, with an offset and a least score."""
    docs, metadata, query, k = case
    index = segmax.build(docs, metadata=metadata, calibrate=False)
    where = data.draw(st.sampled_from(FILTERS))
    expected = ranking(docs, query, metadata, where)
    assert index.count(where) == sum(twin.matches(where, one) for one in metadata)
    for params in SAFE_METHODS.values():
        assert index.search(query, k, params, where=where).rows.tolist() == expected[:k]
    scores = index.score(query, expected)
    offset = data.draw(st.integers(0, 12))
    least = float(data.draw(st.sampled_from([0.0, *scores[:5].tolist(), float(scores.mean()) if len(scores) else 1.0])))
    page = [row for row, score in zip(expected, scores, strict=True) if score >= least][offset : offset + k]
    hits = index.search(query, k, where=where, offset=offset, min_score=least)
    assert hits.rows.tolist() == page
    assert hits.metadata == [metadata[row] for row in page]
    others = [where, None, data.draw(st.sampled_from(FILTERS))]
    batch = index.search_batch([query] * 3, k, where=others, offset=offset, min_score=least, threads=1)
    for other, found in zip(others, batch, strict=True):
        one = index.search(query, k, where=other, offset=offset, min_score=least)
        assert found.rows.tolist() == one.rows.tolist()
        assert found.scores.tolist() == one.scores.tolist()
    same = index.search_batch([query] * 2, k, where=where, threads=1)
    assert [one.rows.tolist() for one in same] == [expected[:k]] * 2


@settings(max_examples=examples(50), suppress_health_check=list(HealthCheck))
@given(cases(), st.data())
def test_groups_are_those_of_the_whole_ranking(case: Any, data: st.DataObject) -> None:
    """The first k groups by their best document, each with its best documents, under filters and offsets."""
    docs, metadata, query, _ = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(query_features, "_FIRST_DEPTH", data.draw(st.sampled_from([1, 5, 64])))
        index = segmax.build(docs, metadata=metadata, calibrate=False)
        where = data.draw(st.sampled_from([None, *FILTERS]))
        k, size, offset = (data.draw(st.integers(*limits)) for limits in ((1, 12), (1, 5), (0, 3)))
        rows = ranking(docs, query, metadata, where or {})
        scores = index.score(query, rows)
        least = data.draw(st.sampled_from([None, *scores[:9].tolist()]))
        found = index.search(query, k, where=where, group_by="v", group_size=size, offset=offset, min_score=least)
    expected: dict[str, list[int]] = {}
    for row, score in zip(rows, scores, strict=True):
        value = (metadata[row] or {}).get("v")
        for one in value if isinstance(value, list) else [value]:
            if one is not None and not isinstance(one, dict) and (least is None or score >= least):
                expected.setdefault(twin.named(one), []).append(row)
    wanted = [(name, members[:size]) for name, members in expected.items()][offset : offset + k]
    assert [(twin.named(group.value), group.hits.rows.tolist()) for group in found] == wanted
    assert found.values == [group.value for group in found]
    assert found.complete


LONG, WIDE = "v" * 140, "w" * 140  # names too long for columns
#: Values of such a field: equal ones of several types, and others that are nearly equal as numbers or as text.
LONG_VALUES: list[Any] = [*VALUES, 2**70, float(2**70), 2**70 + 1, 10**4200, 0, -0.0, "", "1", [True, 1, 1.0]]


def opened(kind: str, docs: sp.csr_matrix, metadata: list[Any], dead: set[int], path: Path) -> Any:
    """The same documents as an index, a collection of two parts, or a view of one."""
    ids = [f"d{row}" for row in range(docs.shape[0])]
    if kind == "index":
        return segmax.build(docs, ids=ids, metadata=metadata, calibrate=False)
    collection = segmax.Collection.create(path)
    for rows in (slice(0, 160), slice(160, None)):
        collection.add(docs[rows], ids=ids[rows], metadata=metadata[rows])
    collection.delete([ids[row] for row in sorted(dead)])
    return collection.snapshot() if kind == "snapshot" else collection


@pytest.mark.parametrize("kind", ["index", "collection", "snapshot"])
def test_groups_of_a_field_without_columns(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are those of the whole ranking; all groups together read each document once, and a filter once more."""
    rng = np.random.default_rng(29)
    values = [LONG_VALUES[rng.integers(len(LONG_VALUES))] for _ in range(240)]
    metadata: list[dict[str, Any]] = [
        {"id": row, "n": row % 3, WIDE: row % 3} | ({LONG: value, "v": value} if row % 20 else {})
        for row, value in enumerate(values)
    ]
    docs = random_docs(rng, len(values), 40, 6.0, 1)
    query = as_query(rng, 40, 12, 40)
    dead = set(range(0, 240, 7)) if kind in ("collection", "snapshot") else set()
    source = opened(kind, docs, metadata, dead, tmp_path / "docs")
    reads: Counter[bytes] = Counter()
    from_json = metadata_store.from_json
    monkeypatch.setattr(metadata_store, "from_json", lambda text: reads.update([text]) or from_json(text))

    def groups(field: str, where: Any, k: int, size: int) -> list[tuple[str, list[str]]]:
        found = source.search(query, k, where=where, group_by=field, group_size=size)
        return [(twin.named(group.value), group.hits.ids) for group in found]

    wide = {WIDE: {"$ne": 2}}
    for where, most in ((None, 2), (None, 1), ({"n": {"$ne": 2}}, 1), (wide, 2), (wide, 1)):
        expected: dict[str, list[str]] = {}
        for row in ranking(docs, query, metadata, where or {}):
            value = metadata[row].get(LONG)
            own = [one for one in (value if isinstance(value, list) else [value]) if type(one) is not dict]
            for name in dict.fromkeys(map(twin.named, own)):
                if name != "null" and row not in dead:
                    expected.setdefault(name, []).append(f"d{row}")
        wanted = [(name, members[:6]) for name, members in expected.items()]
        reads.clear()
        assert groups(LONG, where, 9, 6) == wanted[:9]
        assert max(reads.values(), default=0) <= most  # one of which is for the ranking that the groups are found in
        assert len(reads) == 240 if most == 2 else len(reads) <= 64
        assert groups("v", where, 9, 6) == wanted[:9]
        assert groups(LONG, where, 3, 4) == [(name, members[:4]) for name, members in wanted[:3]]
    if isinstance(source, segmax.Collection):
        source.close()


def test_values_of_a_field_without_columns_are_told_apart() -> None:
    """By each of them alone as by the document itself, though what is kept of them is short."""
    values = [*LONG_VALUES, "true", "0x1", "\U0001f600", "1 0x1", 1e300, 0.1, -1, -(2**70)]
    metadata = [{LONG: value} for value in values] + [{}]
    stored = Metadata.from_rows(metadata)
    for value in [*(value for value in values if not isinstance(value, (list, dict))), "\ud800", 3, False]:
        where = {LONG: value}
        assert stored.rows(where).tolist() == [twin.matches(where, one) for one in metadata], value
    for number in range(9):
        stored.rows({f"{number}" * 140: 1})
    assert len(stored._members) == 4


def test_filters_of_groups_are_filters() -> None:
    """Narrowed ones have the key of the same filter as written, also when they come from another process."""
    base = parse_where({"$and": [{"a": 1}, {"b": 2}]})
    for where, same in ((base, {"a": 1, "b": 2, "c": "x"}), (None, {"c": "x"})):
        group = pickle.loads(pickle.dumps(narrowed(where, "c", "x")))
        assert group == parse_where(same)
        assert group.base == where


class Clock:
    """A clock that only searches move, by a millisecond each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds = 0.0
        self.budgets: list[float | None] = []
        monkeypatch.setattr(query_features.time, "perf_counter", lambda: self.seconds)

    def searching(self, index: segmax.Index, query: dict[int, float]) -> query_features.Search:
        """Return a search of an index that takes a millisecond, and notes its budget."""

        def search(k: int, where: Any, params: Any) -> segmax.Hits:
            self.seconds += 1e-3
            self.budgets.append(None if params is None else params.budget_ms)
            return index.search(query, k, where=where)

        return search


def test_a_budget_is_that_of_all_searches_for_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each gets what is left, none comes after the end, and groups have what was found before that; without, all."""
    docs = sp.csr_matrix(np.arange(400, 0, -1)[:, None])
    metadata = [{"g": row % 100} for row in range(400)]
    index, query = segmax.build(docs, metadata=metadata), {0: 1.0}
    wanted = Wanted.checked(None, 0, None, "g", 2)
    clock = Clock(monkeypatch)
    search = clock.searching(index, query)
    whole = query_features.grouped(search, index._values, 50, wanted, None)
    assert whole.complete
    assert [group.hits.ids for group in whole] == [[row, row + 100] for row in range(50)]
    assert clock.budgets == [None] * 51
    clock.budgets.clear()
    cut = query_features.grouped(search, index._values, 50, wanted, segmax.ASC(budget_ms=9.5))
    assert not cut.complete
    assert [group.hits.ids for group in cut] == [[row, row + 100] if row < 9 else [row] for row in range(50)]
    np.testing.assert_allclose(clock.budgets, [9.5 - number for number in range(10)])
    clock.budgets.clear()
    few = query_features.grouped(search, index._values, 90, Wanted.checked(None, 0, None, "g", 1), None)
    assert (len(few), clock.budgets) == (90, [None])
    deep = Wanted.checked({"g": {"$lt": 3}}, 0, None, "g", 1)
    assert len(query_features.grouped(search, index._values, 4, deep, segmax.ASC(budget_ms=0.5))) == 3


def test_a_budget_ends_the_look_for_more_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that were found until then are returned."""
    index = segmax.build(
        sp.csr_matrix(np.arange(400, 0, -1)[:, None]), metadata=[{"g": row // 100} for row in range(400)]
    )
    clock = Clock(monkeypatch)
    search, wanted = clock.searching(index, {0: 1.0}), Wanted.checked(None, 0, None, "g", 1)
    assert query_features.grouped(search, index._values, 4, wanted, None).values == [0, 1, 2, 3]
    cut = query_features.grouped(search, index._values, 4, wanted, segmax.ASC(budget_ms=1.5))
    assert (cut.values, cut.complete) == ([0, 1, 2], False)


@pytest.fixture
def index(tmp_path: Path) -> segmax.Index:
    """Three documents on disk."""
    metadata = [{"lang": "en", "year": 2019}, {"lang": "de", "year": 2021}, {"lang": "en", "year": 2024, "tags": ["x"]}]
    docs = sp.csr_matrix([[3, 0], [2, 1], [1, 0]])
    return segmax.build(docs, ids=["a", "b", "c"], metadata=metadata, path=tmp_path / "index")


def test_results_as_tables(index: segmax.Index) -> None:
    """With a column of metadata; groups with a column of their value."""
    pytest.importorskip("pandas")
    frame = index.search({0: 1}, 2).to_pandas()
    assert list(frame.columns) == ["rank", "id", "score", "metadata"]
    assert frame.metadata[1] == {"lang": "de", "year": 2021}
    assert list(index.search_batch([{0: 1}], 2).to_pandas().columns) == ["query", "rank", "id", "score", "metadata"]
    groups = index.search({0: 1}, group_by="lang", group_size=2)
    frame = groups.to_pandas()
    assert frame.group.tolist() == ["en", "en", "de"]
    assert frame.id.tolist() == ["a", "c", "b"]
    assert frame["rank"].tolist() == [1, 2, 1]
    assert "<td>de</td>" in groups._repr_html_()
    assert repr(groups) == "Groups('en': 2, 'de': 1)"
    assert groups[0].value == "en"
    assert len(groups[:1]) == 1
    assert list(index.search({1: 0}, group_by="lang").to_pandas().columns) == ["group", "rank", "id", "score"]


def test_an_index_without_metadata_says_so() -> None:
    """It has no fields, and its documents and results no metadata."""
    index = segmax.build(sp.csr_matrix([[1]]))
    assert index.fields == {}
    for ask in (lambda: index.search({0: 1}).metadata, lambda: index.metadata(0)):
        with refused(InputError, message="keeps no metadata", hint="build it with {metadata=...}"):
            ask()


def test_a_target_recall_with_a_filter_is_exact(rng: np.random.Generator) -> None:
    """What was calibrated is about searches of all documents."""
    docs = random_docs(rng, 3000, 60, 12.0)
    metadata = [{"n": int(rng.integers(100))} for _ in range(3000)]
    index = segmax.build(docs, metadata=metadata)
    queries = [as_query(rng, 60, 12, 40) for _ in range(20)]
    where = {"n": {"$lt": 30}}
    exact = [index.search(query, 20, where=where) for query in queries]
    found = [index.search(query, 20, target_recall=0.6, where=where) for query in queries]
    assert [one.ids for one in found] == [one.ids for one in exact]
    batch = index.search_batch(queries, 20, target_recall=0.6, where=[where] * 20)
    assert batch.ids == [one.ids for one in exact]
    with refused(ConfigError, option="target_recall"):
        index.search(queries[0], 20, target_recall=2.0, where=where)


class Lang(str, enum.Enum):  # noqa: UP042  # str() of these is not their value
    """An enumeration of strings."""

    EN = "en"


#: Filters, and the same in plain Python.
NUMPY_FILTERS: list[tuple[Any, Any]] = [
    ({"year": {"$in": np.array([2020, 0], np.int32)}}, {"year": {"$in": [2020, 0]}}),
    ({"year": {"$in": np.array([2020], np.int64)}}, {"year": {"$in": [2020]}}),
    ({"year": {"$in": np.array([2020.0])}}, {"year": {"$in": [2020]}}),
    ({"year": {"$in": [np.int16(2020), np.float32(2021)]}}, {"year": {"$in": [2020, 2021]}}),
    ({"year": {"$in": np.array([2021, "en"], object)}}, {"year": {"$in": [2021, "en"]}}),
    ({"year": {"$nin": np.array([], np.int64)}}, {"year": {"$nin": []}}),
    ({"year": np.int64(2021)}, {"year": 2021}),
    ({"year": np.float64(2021)}, {"year": 2021}),
    ({"year": np.array(2021)}, {"year": 2021}),
    ({"year": {"$gt": np.uint16(2020)}}, {"year": {"$gt": 2020}}),
    ({"year": {"$gt": np.float32(2020.5)}}, {"year": {"$gt": 2020.5}}),
    ({"flag": np.bool_(True)}, {"flag": True}),
    ({"flag": np.True_, "year": {"$exists": np.bool_(True)}}, {"flag": True, "year": {"$exists": True}}),
    ({"flag": 1}, {"flag": 1}),
    ({"flag": True}, {"flag": True}),
    ({"flag": 1.0}, {"flag": 1}),
    ({"flag": np.int8(1)}, {"flag": 1}),
    ({"flag": -0.0}, {"flag": 0}),
    ({"lang": np.str_("en")}, {"lang": "en"}),
    ({"lang": Lang.EN}, {"lang": "en"}),
    ({np.str_("lang"): "de"}, {"lang": "de"}),
    ({"lang": {"$in": np.array(["en", "fr"])}}, {"lang": {"$in": ["en", "fr"]}}),
    ({"lang": {"$in": {"en"}}}, {"lang": {"$in": ["en"]}}),
    ({"$or": ({"lang": "de"}, {"year": np.int32(2020)})}, {"$or": [{"lang": "de"}, {"year": 2020}]}),
    ({"tags": {"$eq": np.array([1, 2])}}, {"tags": {"$eq": [1, 2]}}),
    ({"tags": {"$eq": (1, 2)}}, {"tags": {"$eq": [1, 2]}}),
    (types.MappingProxyType({"lang": "en"}), {"lang": "en"}),
    ({"lang": "\ud83d\ude00"}, {"lang": "\ud83d\ude00"}),
    ({"lang": "\U0001f600"}, {"lang": "\U0001f600"}),
]


@pytest.mark.parametrize("order", [1, -1])
def test_filters_of_numpy_mean_their_values(order: int, tmp_path: Path) -> None:
    """One after the other on one index or collection, searched, counted, faceted and explained."""
    metadata: list[dict[str, Any]] = [
        {"year": 2020, "lang": "en", "flag": True, "tags": [1, 2]},
        {"year": 2021, "lang": "de", "flag": 1, "tags": [2, 1]},
        {"year": 2020.5, "lang": "\U0001f600", "flag": False},
        {"year": "2020", "flag": 0, "tags": [1, 2, 3]},
    ]
    index = segmax.from_texts(["wave"] * 4, ids=["a", "b", "c", "d"], metadata=metadata)
    documents = [{"id": id, "text": "wave", "metadata": own} for id, own in zip("abcd", metadata, strict=True)]
    with segmax.Collection.create(tmp_path / "docs", encoder="bm25") as collection:
        collection.add(documents[:2])
        collection.add(documents[2:])
        for where, plain in NUMPY_FILTERS[::order]:
            expected = [id for id, own in zip("abcd", metadata, strict=True) if twin.matches(plain, own)]
            assert parse_where(where) == parse_where(plain)
            for source in (index, collection):
                assert source.search("wave", where=where).ids == expected, where
                assert source.search_batch(["wave"], where=[where]).ids == [expected]
                assert source.count(where) == len(expected)
                assert sum(count for _, count in source.facets("flag", where)) == len(expected)
                assert (source.explain("wave", "a", where=where).rank is not None) == ("a" in expected)
        with refused(InputError, expected="finite"):
            collection.search("wave", where={"year": np.float32("nan")})
        for where in ({"tags": {"$eq": {1: 2}}}, {"year": np.frombuffer(b"\xe4\x07\x00\x00", "S4")[0]}):
            collection.search("wave", where={"tags": {"$eq": {"1": 2}}})
            with refused(InputError):
                collection.search("wave", where=where)  # though JSON, or the bytes, look like another filter


def test_filters_that_were_checked_take_bounded_memory() -> None:
    """As many as were used last, and not many long ones."""
    parser = query_features.FilterParser()
    for number in range(200):
        assert parser({"a": np.int64(number)}) is parser({"a": number})
    assert len(parser._kept) == 64
    for number in range(20):
        parser({"a": "x" * 1_000_000 + str(number)})
    assert sum(map(len, parser._kept)) == parser._num_chars <= 1 << 22


def test_groups_displace_no_filters(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many groups a search has: their filters have room of their own, which is bounded."""
    monkeypatch.setattr(query_features, "_CACHED_BYTES", 40_000)
    docs = sp.csr_matrix(np.arange(400, 0, -1)[:, None])
    index = segmax.build(docs, metadata=[{"g": row % 100} for row in range(400)])
    where, group = {"g": {"$lt": 90}}, narrowed(None, "g", 7)
    index.count(where)
    index.count({"g": 7})
    for _ in range(2):
        found = index.search({0: 1.0}, 50, where=where, group_by="g", group_size=2)
        assert [group.hits.ids for group in found] == [[row, row + 100] for row in range(50)]
    assert index.knows(where)
    assert index.knows(group)  # which is the same filter as one that was written
    assert not index.knows(narrowed(None, "g", 8))
    assert index.knows(narrowed(parse_where(where), "g", 49))
    assert 1 < len(index._masks._narrowed.kept) < 20


def test_masks_are_kept(index: segmax.Index, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the key of their filter, those used last, within bounds; threads share them."""
    made: list[str] = []

    def make(where: Any) -> Kept:
        made.append(where.key)
        return Kept(np.zeros(1000, dtype=bool), _core.Mask(index._engine.core, np.zeros(len(index), dtype=bool)))

    cache = FilterCache()
    monkeypatch.setattr(query_features, "_CACHED_BYTES", 4000)
    filters = [parse_where({"a": number}) for number in range(3)]
    for number in (0, 0, 1, 0, 2, 0, 1):
        cache(filters[number], 0, partial(make, filters[number]))
    assert made == [filters[number].key for number in (0, 1, 2, 1)]
    made.clear()
    for number in (0, 1, 2) * 5:  # of many documents, more are kept: a collection asks part by part
        cache(filters[number], 2000, partial(make, filters[number]))
    assert len(made) <= 3
    wrong: list[object] = []

    def search(lang: str) -> None:
        for number in range(200):
            hits = index.search({0: 1}, where={"lang": lang, "year": {"$gt": number % 7}})
            if hits.ids != (["a", "c"] if lang == "en" else ["b"]):
                wrong.append(hits.ids)

    threads = [threading.Thread(target=search, args=(lang,)) for lang in ("en", "de", "en", "de")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# --- how metadata are given ------------------------------------------------------------------------------------------


def test_metadata_by_id_and_from_tables() -> None:
    """Mappings and DataFrames with ids are matched by them; others are in the order of rows."""
    pd = pytest.importorskip("pandas")
    docs = sp.identity(3, format="csr", dtype=np.int64)
    ids = ["a", "b", "c"]

    def stored(metadata: Any, **options: Any) -> list[Any]:
        index = segmax.build(docs, ids=ids, metadata=metadata, calibrate=False, **options)
        return [index.metadata(name) for name in ids]

    assert stored({"c": {"n": 1}, "a": {"n": 2}}) == [{"n": 2}, None, {"n": 1}]
    assert stored(iter([{"n": 1}, None, {}])) == [{"n": 1}, None, {}]
    frame = pd.DataFrame({"n": [1, 2, None], "s": ["x", None, "z"], "ID": ["c", "a", "b"]})
    assert stored(frame) == [{"n": 2.0}, {"s": "z"}, {"n": 1.0, "s": "x"}]
    assert stored(frame[["s"]]) == [{"s": "x"}, {}, {"s": "z"}]
    assert stored(frame[[]]) == [{}, {}, {}]
    assert stored(pd.DataFrame({"id": ids, "tags": [np.array([1, 2]), [], None]})) == [
        {"tags": [1, 2]},
        {"tags": []},
        {},
    ]


@pytest.mark.parametrize(
    ("metadata", "parts"),
    [
        ([{}, {}], {"expected": "metadata of 3 documents", "got": "2"}),
        ({"z": {}}, {"option": "metadata", "got": "'z'"}),
        ("abc", {"expected": "metadata as a list"}),
        ([{}, {"a": {1, 2}}, {}], {"where": "metadata of document 1, field 'a'", "expected": "values of JSON"}),
        ([1, 2, 3], {"where": "metadata of document 0", "expected": "a mapping"}),
    ],
)
def test_metadata_that_are_refused(tmp_path: Path, metadata: Any, parts: dict[str, str]) -> None:
    """Before anything is written."""
    with refused(InputError, **parts):
        segmax.build(sp.identity(3, format="csr"), ids=["a", "b", "c"], metadata=metadata, path=tmp_path / "index")
    assert list(tmp_path.iterdir()) == []


def test_tables_that_are_refused() -> None:
    """Ids twice or in another order, columns without names."""
    pd = pytest.importorskip("pandas")
    docs = sp.identity(2, format="csr", dtype=np.int64)
    for frame, parts in (
        (pd.DataFrame({"id": ["a", "a"], "n": [1, 2]}), {"expected": "every id once in column 'id'"}),
        (pd.DataFrame({"n": [1, 2]}, index=["b", "a"]), {"expected": "metadata in the order", "hint": "reindex"}),
        (pd.DataFrame([[1], [2]]), {"expected": "strings as names of columns", "got": "0"}),
        (pd.DataFrame({"t": pd.to_datetime(["2020-01-01", "2021-01-01"])}), {"hint": "isoformat"}),
    ):
        with refused(InputError, **parts):
            segmax.build(docs, ids=["a", "b"], metadata=frame)


def test_damaged_metadata_of_an_index(index: segmax.Index, tmp_path: Path) -> None:
    """A changed column gives other rows or FormatError; verify notices it."""
    index.close()
    file = next((tmp_path / "index").glob("metadata_column.*"))
    content = bytearray(file.read_bytes())
    content[0] ^= 255
    file.write_bytes(content)
    with refused(FormatError, message="checksum"):
        segmax.verify(tmp_path / "index")


def test_many_long_fields_fit_the_directory(tmp_path: Path) -> None:
    """The most that is listed fits meta.json, in every kind and with names that JSON escapes."""
    values = [None, True, 1, 2.5, "a", [None, True, 1, 2.5, "a"], {}, 2**70]
    fields = [f"{number:03d}" + "🙂" * 125 for number in range(600)]
    documents = [dict.fromkeys(fields, value) for value in values]
    docs = sp.identity(len(values), format="csr", dtype=np.int64)
    segmax.build(docs, metadata=documents, path=tmp_path / "index", calibrate=False).close()
    with segmax.open(tmp_path / "index") as index:
        assert len(index.fields) == 512
        assert index.count({fields[599]: "a"}) == 2
        assert json.loads((tmp_path / "index" / "meta.json").read_text())["metadata"]["unlisted"]
