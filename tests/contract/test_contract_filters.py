"""Filters, groups, counts and facets, compared with loops over the metadata."""

from __future__ import annotations

from typing import Any

from metadata import twin
from segmax.metadata import parse_where

from .corpora import Query
from .kinds import CHANGED, Opened, over, ranking

KIND_NAMES = {
    int: "int",
    float: "float",
    bool: "bool",
    str: "string",
    list: "list",
    dict: "object",
    type(None): "null",
}
#: Nearly all documents share a term with it.
BROAD: Query = {term: 1.0 + term % 3 for term in range(24)}
FILTERS: list[dict[str, Any]] = [
    {"lang": "de"},
    {"year": {"$gte": 1953, "$lt": 1957}},
    {"author.name": {"$prefix": "A3"}},
    {"$or": [{"tags": "noise"}, {"more.note": "seen"}]},
    {"lang": {"$ne": "en"}, "sold": True},
    {},
    {"nothing": 1},
    {"year": {"$gt": 1955}},
    {"year": {"$lte": 1951}},
    {"price": {"$gt": 1, "$lte": 1.5}},
    {"price": 1},
    {"sold": 1},
    {"lang": {"$in": ["de", "fr", 3]}},
    {"lang": {"$nin": ["de"]}},
    {"author.age": {"$gt": 30}},
    {"author": {"$eq": {"name": "A1", "age": 21}}},
    {"more.note": None},
    {"more.note": {"$exists": False}},
    {"more.note": {"$exists": True}},
    {"tags": {"$contains": "tube"}},
    {"tags": {"$in": ["wave", "copper"]}},
    {"tags": {"$eq": ["copper", "noise"]}},
    {"year": {"$not": {"$gt": 1955}}},
    {"$not": {"$and": [{"lang": "en"}, {"sold": False}]}},
]


def grouped(found: Any) -> list[tuple[Any, list[tuple[Any, float]]]]:
    """Values and rankings."""
    return [(group.value, ranking(group.hits)) for group in found]


@over("docs", "search")
def test_a_filter_leaves_the_best_of_what_it_matches(opened: Opened) -> None:
    """Every operator, on numbers, texts, truth values, lists, paths, null and fields that are missing."""
    for where in FILTERS if "everything" in opened.can else FILTERS[:4]:
        assert ranking(opened.source.search(BROAD, k=60, where=where)) == opened.corpus.best(BROAD, 60, where=where)


@over("docs", "search")
def test_a_filter_goes_with_k_an_offset_and_a_least_score(opened: Opened) -> None:
    """All of them are about the documents that match."""
    for where in FILTERS[:3]:
        options: dict[str, Any] = {"k": 4, "offset": 2, "min_score": 4.0, "where": where}
        assert ranking(opened.source.search(BROAD, **options)) == opened.corpus.best(BROAD, **options), where


@over("docs", "everything")
def test_a_batch_may_have_one_filter_or_one_for_each_query(opened: Opened) -> None:
    """The same query finds with each filter what that matches."""
    found = opened.source.search_batch([BROAD] * len(FILTERS), k=60, where=FILTERS)
    assert list(map(ranking, found)) == [opened.corpus.best(BROAD, 60, where=where) for where in FILTERS]
    found = opened.source.search_batch([{0: 1.0}, BROAD], k=4, where=FILTERS[1], offset=1)
    assert list(map(ranking, found)) == [
        opened.corpus.best(query, 4, where=FILTERS[1], offset=1) for query in ({0: 1.0}, BROAD)
    ]


@over("docs", "python")
def test_a_filter_may_be_parsed_before(opened: Opened) -> None:
    """It is the same filter."""
    for where in FILTERS[:4]:
        found = opened.source.search(BROAD, k=60, where=parse_where(where))
        assert ranking(found) == opened.corpus.best(BROAD, 60, where=where)
        assert opened.source.count(parse_where(where)) == opened.corpus.count(where)


@over("docs", "everything")
def test_counts_are_those_of_matching_documents(opened: Opened) -> None:
    """With or without a common term; without a filter, all documents count."""
    assert opened.source.count() == opened.corpus.num_docs
    for where in FILTERS:
        assert opened.source.count(where) == opened.corpus.count(where), where


@over("numbers", "everything")
def test_no_metadata_no_filter(opened: Opened) -> None:
    """An index without metadata refuses filters; the documents of a collection may have none, and match none."""
    if opened.is_refused("metadata of none"):
        for ask in (
            lambda: opened.source.search({0: 1.0}, where={"a": 1}),
            lambda: opened.source.search_batch([{0: 1.0}], where={"a": 1}),
            lambda: opened.source.search({0: 1.0}, group_by="a"),
            lambda: opened.source.count({"a": 1}),
            lambda: opened.source.facets("a"),
        ):
            with opened.as_designed("metadata of none"):
                ask()
    else:
        assert opened.source.count({"a": 1}) == 0
        assert opened.source.count({"a": {"$exists": False}}) == opened.corpus.num_docs
        assert opened.source.facets("a") == []
        assert ranking(opened.source.search({0: 1.0}, where={"a": 1})) == []
        assert len(opened.source.search({0: 1.0}, group_by="a")) == 0
    assert opened.source.count() == opened.corpus.num_docs


@over("docs", "everything")
def test_groups_have_the_best_document_of_each_value(opened: Opened) -> None:
    """The group of the best document first; elements of lists and fields by path count, documents without do not."""
    for field in ("lang", "year", "author.name", "tags", "more.note", "sold", "price", "nothing"):
        found = opened.source.search(BROAD, k=60, group_by=field)
        assert grouped(found) == opened.corpus.groups(BROAD, field, 60), field


@over("docs", "everything")
def test_groups_have_a_size_and_pages(opened: Opened) -> None:
    """An offset and k count groups, the size counts documents, and a filter and a least score are about documents."""
    for k, size, options in (
        (2, 3, {}),
        (60, 60, {}),
        (3, 2, {"offset": 2}),
        (4, 2, {"where": FILTERS[1]}),
        (5, 3, {"min_score": 9.0}),
        (2, 4, {"where": FILTERS[4], "offset": 1, "min_score": 3.0}),
    ):
        found = opened.source.search(BROAD, k=k, group_by="year", group_size=size, **options)
        assert grouped(found) == opened.corpus.groups(BROAD, "year", k, size, **options), (k, size, options)


@over("docs", "everything")
def test_facets_count_values(opened: Opened) -> None:
    """Of all documents or of those that match, the most frequent first, then by value; lists count by element."""
    for field in ("lang", "year", "tags", "author.name", "more.note", "price", "sold", "nothing"):
        for where in (None, FILTERS[1], FILTERS[6]):
            found = opened.source.facets(field, where)
            assert [(twin.named(value), count) for value, count in found] == opened.corpus.facets(field, where)


@over("docs", "everything")
def test_facets_may_be_limited(opened: Opened) -> None:
    """To the most frequent values, and among equally frequent ones to the first."""
    for field, limit in (("year", 3), ("author.name", 2), ("lang", 1)):
        found = opened.source.facets(field, limit=limit)
        assert [(twin.named(value), count) for value, count in found] == opened.corpus.facets(field)[:limit], field


@over("docs", "everything")
def test_fields_are_named_with_their_kinds(opened: Opened) -> None:
    """Fields of objects by their path; a collection that replaced documents may still know theirs."""
    expected: dict[str, set[str]] = {}
    assert opened.corpus.metadata is not None
    for metadata in opened.corpus.metadata:
        for field, value in twin.paths(metadata or {}):
            expected.setdefault(field, set()).add(KIND_NAMES[type(value)])
    fields = {name: set(kinds) for name, kinds in opened.source.fields.items()}
    assert all(fields[name] >= kinds for name, kinds in expected.items())
    assert fields == expected or opened.kind in CHANGED
