"""Metadata: what was given comes back, filters match what they should, damage is noticed."""

from __future__ import annotations

import ast
import copy
import datetime
import json
import math
import os
import pickle
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metadata.twin as twin
import segmax
from conftest import examples, refused
from segmax.errors import ConfigError, FormatError, InputError
from segmax.metadata import (
    METADATA_COMPONENTS,
    Metadata,
    Schema,
    Where,
    evaluating,
    merge_metadata,
    pack_metadata,
    packing,
    parse_where,
    store,
)
from segmax.metadata import where as where_module
from segmax.metadata.values import MISSING, find
from segmax.search.queries import FilterParser

FILTERS = Path(__file__).resolve().parents[2] / "docs" / "filters.md"
FIELDS = ["a", "b", "c", "a.x", "a.b", "d.e.f", "", "ß.🙂"]
#: Few values, so that they meet: integers and floats around what 53 and 64 bits hold, and strings around a prefix.
NUMBERS = [0, -1, 1, 2, 127, 128, -129, 2**31, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 2**63, 2**64 + 1]
NUMBERS += [10**30, -(10**400)]  # type: ignore[list-item]
FLOATS = [0.0, -0.0, 0.5, 1.0, -1.5, 2.0**53, 2.0**53 + 2, 2.0**63, -(2.0**63), 1e30, 1e308, -1e308, 5e-324]
STRINGS = ["", "a", "ab", "abc", "b", "B", "ä", "z", "🙂", "漢", "\x00", "1", "true", "a\uffff", "a\U00010000"]
scalars = st.sampled_from([*NUMBERS, *FLOATS, *STRINGS, True, False, None])
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["x", "b", "e", "f"]), inner, max_size=2)
    ),
    max_leaves=5,
)


def _is_unambiguous(document: dict[str, Any]) -> bool:
    names = [name for name, _ in twin.paths(document)]
    return len(names) == len(set(names))


documents = st.none() | st.dictionaries(
    st.sampled_from(["a", "b", "c", "a.x", "d", "", "ß.🙂"]), values, max_size=4
).filter(_is_unambiguous)
ordered = st.sampled_from([*NUMBERS, *FLOATS, *STRINGS])
conditions = st.one_of(
    scalars,
    st.fixed_dictionaries(
        {},
        optional={
            "$eq": values,
            "$ne": values,
            "$gt": ordered,
            "$gte": ordered,
            "$lt": ordered,
            "$lte": ordered,
            "$in": st.lists(scalars, max_size=20),
            "$nin": st.lists(scalars, max_size=3),
            "$exists": st.booleans(),
            "$prefix": st.sampled_from(STRINGS),
            "$contains": scalars,
        },
    ).filter(bool),
)
conditions |= st.fixed_dictionaries({"$not": conditions.filter(lambda one: isinstance(one, dict))})
filters = st.recursive(
    st.dictionaries(st.sampled_from([*FIELDS, "nowhere", "a.x.b"]), conditions, max_size=2),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"$and": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"$or": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"$not": inner}),
    ),
    max_leaves=4,
)


# --- what was given --------------------------------------------------------------------------------------------------


@given(st.lists(documents, max_size=30))
def test_metadata_come_back_exactly(given: list[dict[str, Any] | None]) -> None:
    """Every value, its type and the order of keys."""
    found = list(Metadata.from_rows(given))
    assert [json.dumps(one) for one in found] == [json.dumps(one) for one in given]


def test_numpy_and_tuples_become_json() -> None:
    """Scalars and arrays of numpy, tuples, and subclasses of plain types."""
    given = {
        "int": np.int32(3),
        "float": np.float32(0.5),
        "bool": np.bool_(True),
        "str": np.str_("a"),
        "array": np.array([1, 2]),
        "no dimensions": np.array(7, np.uint8),
        "tuple": (1, "a"),
        "inner": {"x": [np.float64(1.5), {"y": np.uint64(2**64 - 1)}]},
    }
    (found,) = Metadata.from_rows([given])
    assert found == {
        "int": 3,
        "float": 0.5,
        "bool": True,
        "str": "a",
        "array": [1, 2],
        "no dimensions": 7,
        "tuple": [1, "a"],
        "inner": {"x": [1.5, {"y": 2**64 - 1}]},
    }
    assert [type(value) for value in found.values()] == [int, float, bool, str, list, int, list, dict]


def _nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        ({"a": math.nan}, {"where": "document 1, field 'a'", "expected": "finite", "got": "nan", "hint": "leave"}),
        ({"a": {"b": math.inf}}, {"where": "field 'a.b'", "expected": "finite"}),
        ({"a": [np.float32("nan")]}, {"where": "field 'a'", "expected": "finite"}),
        ({"a": b"bytes"}, {"where": "field 'a'", "expected": "values of JSON", "got": "bytes"}),
        ({"a": {1, 2}}, {"expected": "values of JSON", "got": "set"}),
        ({"a": 1j}, {"expected": "values of JSON", "got": "complex"}),
        ({"a": datetime.date(2020, 1, 1)}, {"expected": "values of JSON", "hint": "isoformat"}),
        ({"a": np.datetime64("2020")}, {"expected": "values of JSON", "got": "datetime64"}),
        ({"a": np.timedelta64(3, "s")}, {"where": "field 'a'", "expected": "values of JSON", "got": "timedelta64"}),
        ({"a": np.array([3], "timedelta64[ns]")}, {"expected": "values of JSON", "got": "timedelta64"}),
        ({"a": {3: 1}}, {"where": "field 'a'", "expected": "strings as keys", "got": "3"}),
        ({3: 1}, {"where": "metadata of document 1$", "expected": "strings as keys", "got": "3"}),
        ({"a": "\ud800"}, {"where": "document 1", "expected": "UTF-8", "got": "ud800"}),
        ({"a": _nested(100)}, {"expected": "64 levels", "got": "more"}),
        ({"a": 1 << 20_000}, {"expected": "14,000 bits", "got": "20,001"}),
        ({"a": "x" * (1 << 24)}, {"expected": "16,777,216 bytes", "got": "16,777,2"}),
        ({"a.b": 1, "a": {"b": 2}}, {"expected": "every field once", "got": "'a.b'", "hint": "nesting"}),
        ([("a", 1)], {"expected": "a mapping of field to value, or None", "got": "a"}),
        ("text", {"expected": "a mapping of field to value, or None", "got": "'text'"}),
    ],
)
def test_what_json_cannot_hold(value: Any, parts: dict[str, str]) -> None:
    """Is refused, with the document and the field."""
    with refused(InputError, **parts):
        Metadata.from_rows([{}, value])


def test_an_endless_value_is_refused() -> None:
    """A list inside itself."""
    endless: list[Any] = []
    endless.append(endless)
    with refused(InputError, expected="64 levels"):
        Metadata.from_rows([{"a": endless}])


def test_the_number_of_documents() -> None:
    """Has to be right."""
    with refused(InputError, expected="metadata of 3 documents", got="2"):
        pack_metadata([{}, {}], 3, lambda name, array: None)


# --- filters ---------------------------------------------------------------------------------------------------------


@settings(max_examples=examples(100))
@given(st.lists(documents, max_size=25), filters)
def test_filters_match_as_python_says(given: list[dict[str, Any] | None], where: dict[str, Any]) -> None:
    """Every operator, on every kind of value, however nested."""
    metadata = Metadata.from_rows(given)
    expected = [twin.matches(where, document) for document in given]
    assert metadata.rows(where).tolist() == expected
    assert metadata.rows({"$not": where}).tolist() == [not one for one in expected]
    assert json.loads(parse_where(where).key) == json.loads(parse_where(json.loads(parse_where(where).key)).key)
    assert metadata.rows(json.loads(parse_where(where).key)).tolist() == expected


@settings(max_examples=examples(50))
@given(st.lists(documents, max_size=25), filters)
def test_fields_without_columns_match_as_well(given: list[dict[str, Any] | None], where: dict[str, Any]) -> None:
    """Where there are more fields than columns, the JSON is looked at."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "MOST_FIELDS", 1)
        metadata = Metadata.from_rows(given)
    assert len(metadata.fields) <= 1
    assert metadata.rows(where).tolist() == [twin.matches(where, document) for document in given]
    for field in FIELDS:
        assert _counts(metadata, field) == twin.facet(given, field)


@settings(max_examples=examples(50))
@given(st.lists(documents, max_size=25), filters)
def test_lists_that_many_tests_are_asked_about_match_as_well(
    given: list[dict[str, Any] | None], where: dict[str, Any]
) -> None:
    """What is found in a list once, for all tests, is what each finds element by element."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "MOST_FIELDS", 1)
        patch.setattr(evaluating, "_FEW_TESTS", 0)
        assert Metadata.from_rows(given).rows(where).tolist() == [twin.matches(where, document) for document in given]


@pytest.mark.parametrize(
    ("operator", "nested"),
    [("$ne", False), ("$ne", True), ("$contains", False), ("$lt", False), ("$prefix", False), ("$in", False)],
)
def test_many_tests_go_through_a_list_once(monkeypatch: pytest.MonkeyPatch, operator: str, nested: bool) -> None:
    """Not once each: 60 tests of 10 documents with 100 values look at no more than these and what they compare with."""
    long = "k" * 200  # without columns
    given = [{long: [[f"v{i}"] if nested else f"v{i}" for i in range(100)], "n": row} for row in range(10)]
    metadata = Metadata.from_rows(given)
    looked: list[Any] = []
    for name in ("value_key", "same", "is_ordered"):
        really = getattr(where_module, name)
        monkeypatch.setattr(where_module, name, lambda *args, _really=really: looked.append(args) or _really(*args))
    wanted = [[f"w{j}"] if nested or operator == "$in" else f"w{j}" for j in range(60)]
    where = {"$not": {"$or": [{long: {operator: one}} for one in wanted]}}
    expected = [twin.matches(where, document) for document in given]
    looked.clear()
    assert metadata.rows(where).tolist() == expected
    assert len(looked) <= 10 * (2 * 100 + 2 * 60) + 2 * 60


def test_each_document_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many tests of a filter need its JSON, and only where columns leave open whether it matches."""
    given = [{"n": row % 4, "k" * 200: row, "l" * 200: -row} for row in range(100)]
    metadata = Metadata.from_rows(given)
    read: list[bytes] = []
    monkeypatch.setattr(store, "from_json", lambda text: read.append(text) or json.loads(text))
    where = {"$or": [{"k" * 200: row, "l" * 200: {"$ne": row}} for row in range(50)]}
    assert metadata.rows(where).tolist() == [twin.matches(where, document) for document in given]
    assert len(read) == 100
    read.clear()
    both = {"n": 3, **where}
    assert metadata.rows(both).tolist() == [twin.matches(both, document) for document in given]
    assert len(read) == 25


@pytest.mark.parametrize("letters", ["a.", "ä.", "x"])
def test_the_length_of_names(letters: str) -> None:
    """A filter, facets and a group name fields of 1,000 characters; one more is refused, whoever asks."""
    name = (letters * 1000)[:1000].rstrip(".").ljust(1000, "z")
    index = segmax.from_texts(["a wave", "a sea"], metadata=[{name: 1}, {name: 2}])
    assert index.count({name: 2}) == 1
    assert index.facets(name) == [(1, 1), (2, 1)]
    assert [group.value for group in index.search("sea", group_by=name)] == [2]
    parts = {"expected": "names of fields of at most 1,000 characters", "got": "1,001"}
    for ask in (
        lambda: parse_where({name + "z": 2}),
        lambda: index.count({"$not": {name + "z": {"$exists": True}}}),
        lambda: index.facets(name + "z"),
        lambda: index.search("sea", group_by=name + "z"),
    ):
        with refused(InputError, **parts):
            ask()


@pytest.mark.parametrize(("num_keys", "num_dots", "looks"), [(1, 490, 1), (500, 3, 3), (500, 490, 490), (1, 0, 0)])
def test_a_path_is_looked_up_by_its_dots_or_by_the_keys(num_keys: int, num_dots: int, looks: int) -> None:
    """Whichever are fewer: so neither a long path nor a wide document costs much by itself."""
    looked: list[str] = []

    class Counted(dict[str, Any]):
        def get(self, key: str, default: Any = None) -> Any:
            looked.append(key)
            return super().get(key, default)

    document = Counted({"a" + ".a" * number: number for number in range(num_keys)})
    assert find(document, "a." * num_dots + "z") is MISSING
    assert len(looked) == looks
    inner: dict[str, Any] = {"z": 1}
    for _ in range(num_dots // 8):
        inner = {"a": inner}
    assert find({"a.b": 0, **inner}, "a." * (num_dots // 8) + "z") == 1


@pytest.mark.parametrize("name", ["a." * 400 + "z", "a." * 9, "a.b.c."])
def test_names_of_many_dots_take_no_step_per_dot(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A document is looked at once for each test of a filter at most, and matches as by itself."""
    looks = 0

    class Counted(dict[str, Any]):
        def get(self, key: str, default: Any = None) -> Any:
            nonlocal looks
            looks += 1
            return super().get(key, default)

    deep: dict[str, Any] = {"y": 1}
    for _ in range(9):
        deep = {"a": deep}
    given = [
        {"k" * 200: 1, "a.b.c.3": 3, name + "1": row, **{f"n{number}": 0 for number in range(900)}} for row in (1, 2)
    ]
    given += [{"a": {"b": {"c": {"5": 5}}}, "k" * 200: 0}, {"k" * 200: 0, **deep}, {"k" * 200: [0]}]
    metadata = Metadata.from_rows(given)
    monkeypatch.setattr(store, "from_json", lambda text: Counted(json.loads(text)))
    names = [*(name + str(number) for number in range(40)), "a." * 9 + "y", "a.b", "a.b.c"]
    where = {"$or": [{one: {"$in": [1, 3, 5]}} for one in names]}
    assert metadata.rows(where).tolist() == [twin.matches(where, document) for document in given]
    assert looks <= len(given) * len(names)


@pytest.mark.parametrize("share", [0, 0.001, 0.05, 0.2, 0.9, 1])
@pytest.mark.parametrize(
    "operator", ["$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$prefix", "$contains"]
)
def test_every_operator_on_every_share_of_documents(share: float, operator: str, rng: np.random.Generator) -> None:
    """Columns of all rows, with bitmaps and with lists of rows; from no match to all."""
    pool = [*NUMBERS, *FLOATS, *STRINGS, True, False, None, [1, "ab", 2.5], [], ["b"], {"x": 1}, [[1]]]
    kinds = [NUMBERS[:9], FLOATS, STRINGS, [True, False], [[1], [2, 3], []], pool]
    present = rng.random((500, len(kinds))) < share
    drawn = np.stack([rng.integers(len(kind), size=500) for kind in kinds], axis=1)
    given = [
        {f"f{number}": kind[drawn[row, number]] for number, kind in enumerate(kinds) if present[row, number]}
        for row in range(500)
    ]
    metadata = Metadata.from_rows(given)
    operands: list[Any] = [*NUMBERS[:10], *FLOATS[:5], *STRINGS, True, False, None]
    if operator in ("$in", "$nin"):
        operands = [operands[:3], operands, [], [1.0, "ab", None]]
    elif operator == "$prefix":
        operands = STRINGS
    elif operator not in ("$eq", "$ne", "$contains"):
        operands = [one for one in operands if one is not None and not isinstance(one, bool)]
    for number, kind in enumerate(kinds):
        for operand in operands:
            where = {f"f{number}": {operator: operand}}
            matches = np.array([twin.matches(where, {f"f{number}": value}) for value in kind])
            expected = np.where(present[:, number], matches[drawn[:, number]], twin.matches(where, {}))
            assert metadata.rows(where).tolist() == expected.tolist(), where


def test_integers_compare_exactly() -> None:
    """Beyond 53 bits, beyond 64, and with floats between them."""
    given = [
        {"n": number} for number in (2**53, 2**53 + 1, 2.0**53, 2**53 + 2, 2**63, 2.0**63, 2**63 + 1, 10**30, 1e30)
    ]
    metadata = Metadata.from_rows(given)

    def rows(**where: Any) -> list[int]:
        return np.flatnonzero(metadata.rows({"n": {f"${name}": value for name, value in where.items()}})).tolist()

    assert rows(eq=2**53 + 1) == [1]
    assert rows(eq=2.0**53) == [0, 2]
    assert rows(gt=2**53, lt=2**53 + 2) == [1]
    assert rows(gte=2**63) == [4, 5, 6, 7, 8]
    assert rows(eq=2**63) == [4, 5]
    assert rows(gt=10**30) == [8]  # 1e30 is 19,884,624,838,656 above
    assert rows(eq=1e30) == [8]
    assert rows(lt=10**400) == list(range(9))


def _truth_table() -> list[tuple[str, str, bool]]:
    """The table of docs/filters.md: what a document has, a test, whether it matches."""
    lines = FILTERS.read_text().splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("| the document has |"))
    cells = [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines[first : first + 12]]
    return [
        (row[0], test, answer == "yes") for row in cells[2:] for test, answer in zip(cells[0][1:], row[1:], strict=True)
    ]


@pytest.mark.parametrize(("has", "test", "answer"), _truth_table())
def test_the_truth_table_of_the_page(has: str, test: str, answer: bool) -> None:
    """Every cell of it."""
    document = {} if has == "no such field" else {"f": ast.literal_eval(has)}
    operator, operand = test.split(": ", 1)
    where = {"f": {operator: ast.literal_eval(operand)}}
    assert Metadata.from_rows([document]).rows(where).tolist() == [answer]
    assert twin.matches(where, document) == answer


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ({"n": 1}, [0, 6]),
        ({"n": True}, [1]),
        ({"n": None}, [2]),
        ({"n": {"$exists": True}}, [0, 1, 2, 4, 5, 6, 7]),
        ({"n": {"$exists": False}}, [3]),
        ({"n": {"$ne": 1}}, [1, 2, 3, 4, 5, 7]),
        ({"n": {"$nin": [1, None]}}, [1, 3, 4, 5, 7]),
        ({"n": {"$gt": 0}}, [0, 6]),
        ({"n": {"$gte": "1"}}, [4]),
        ({"n": {"$not": {"$gt": 0}}}, [1, 2, 3, 4, 5, 7]),
        ({"n": {"$contains": 1}}, [6]),
        ({"n": {"$eq": [1, 2]}}, [6]),
        ({"n": {"$eq": {"x": 1.0}}}, [7]),
        ({"n": {"$eq": []}}, [5]),
        ({"n.x": 1}, [7]),
        ({}, [0, 1, 2, 3, 4, 5, 6, 7]),
        ({"n": {"$in": []}}, []),
    ],
)
def test_kinds_beside_each_other(where: dict[str, Any], rows: list[int]) -> None:
    """Of every kind of value beside the others."""
    metadata = Metadata.from_rows(
        [{"n": 1.0}, {"n": True}, {"n": None}, {}, {"n": "1"}, {"n": []}, {"n": [1, 2]}, {"n": {"x": 1}}]
    )
    assert np.flatnonzero(metadata.rows(where)).tolist() == rows


def _deep(levels: int) -> dict[str, Any]:
    where: dict[str, Any] = {"a": 1}
    for _ in range(levels):
        where = {"$not": where}
    return where


def _deep_field(levels: int) -> dict[str, Any]:
    condition: dict[str, Any] = {"$eq": 1}
    for _ in range(levels):
        condition = {"$not": condition}
    return {"a": condition}


@pytest.mark.parametrize(
    ("where", "parts"),
    [
        (
            {"a": {"$gte": None}},
            {"where": r"where\['a'\]\['\$gte'\]", "expected": "a number or a string", "got": "None"},
        ),
        ({"a": {"$lt": True}}, {"expected": "a number or a string", "got": "True"}),
        ({"a": {"$gtr": 1}}, {"expected": r"an operator \(\$eq", "got": "'\\$gtr'", "hint": r"did you mean '\$gt'"}),
        ({"$adn": [{}]}, {"got": "adn", "hint": r"did you mean '\$and'"}),
        ({"$gt": 1}, {"hint": "behind the field"}),
        ({"a": {"$or": [{"$gt": 1}]}}, {"hint": "around mappings of fields"}),
        ({"$and": []}, {"where": "and", "expected": "a list of one or more filters", "got": r"\[\]"}),
        ({"$or": {"a": 1}}, {"expected": "a list of one or more filters"}),
        ({"$or": [1]}, {"where": r"\[0\]", "expected": "a mapping such as"}),
        ({"a": ["x", "y"]}, {"expected": "a value or operators", "hint": r"\$in"}),
        ({"a": {"b": 1}}, {"expected": "operators such as", "got": "'b'", "hint": "author.name"}),
        ({"a": {}}, {"expected": "operators such as", "got": "none"}),
        ({"a": {"$in": "abc"}}, {"expected": "a list of values", "got": "'abc'"}),
        ({"a": {"$in": [[1]]}}, {"expected": "a string, a number, a boolean or None"}),
        ({"a": {"$nin": {"x": 1}}}, {"expected": "a list of values"}),
        ({"a": {"$exists": 1}}, {"expected": "True or False", "got": "1"}),
        ({"a": {"$prefix": 1}}, {"expected": "a string", "got": "1"}),
        ({"a": {"$contains": [1]}}, {"expected": "a string, a number"}),
        ({"a": math.nan}, {"where": r"where\['a'\]", "expected": "finite numbers", "got": "nan"}),
        ({"a": {"$eq": b"x"}}, {"expected": "values of JSON", "got": "bytes"}),
        ({"a": {"$not": 1}}, {"expected": "operators such as", "got": "1"}),
        ({1: 1}, {"expected": "fields and operators as strings", "got": "1"}),
        ([("a", 1)], {"where": "where", "expected": "a mapping such as", "got": "a"}),
        ({"a": np.array([1, 2])}, {"expected": "a value or operators", "hint": r"\$in"}),
        ({"a": {"$in": np.array(1)}}, {"expected": "a list of values", "got": "array"}),
        ({"a": np.ma.masked}, {"expected": "values of JSON", "got": "mask"}),
        ({"a": np.timedelta64(3, "s")}, {"where": r"where\['a'\]", "expected": "values of JSON", "got": "timedelta64"}),
        ({"a": {"$in": np.array([3], "timedelta64[ns]")}}, {"expected": "values of JSON", "got": "timedelta64"}),
        (_deep(40), {"option": "where", "expected": "32 levels"}),
        (_deep_field(2000), {"option": "where", "expected": "32 levels"}),
        ({"a": {"$in": list(range(200_000))}}, {"option": "where", "expected": "100,000 tests and values"}),
        ({"a": "x" * 5_000_000}, {"option": "where", "expected": "4,194,304 characters"}),
    ],
)
def test_filters_that_are_refused(where: Any, parts: dict[str, str]) -> None:
    """Say where in the filter, and what to write."""
    with refused(InputError, **parts):
        parse_where(where)


def _deep_text(characters: int) -> dict[str, Any]:
    """Return a filter with a long text behind many levels."""
    where: dict[str, Any] = {"a": "x" * characters + "\U0001f642"}
    for number in range(19):
        where = {"b": number, "$not": where}
    return where


def test_levels_hold_no_copies_of_what_is_in_them() -> None:
    """A filter takes memory as its text does, however deep it is: not that times its levels."""
    tracemalloc.start()
    try:
        where = parse_where(_deep_text(1_000_000))
        assert where == parse_where(_deep_text(1_000_000))
        assert where != parse_where(_deep_text(1_000_001))
        assert tracemalloc.get_traced_memory()[1] < 60_000_000  # five characters of four bytes each, in two filters
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("check", [parse_where, FilterParser()])
def test_filters_that_are_too_long_become_no_text(check: Any) -> None:
    """They are refused before anything of their size is made of them."""
    where = _deep_text(5_000_000)
    tracemalloc.start()
    try:
        with refused(InputError, option="where", expected="4,194,304 characters"):
            check(where)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_filters_are_values() -> None:
    """Equal by meaning of the order of parts and of numbers; hashable, immutable, pickled."""
    one = parse_where({"a": 1, "b": {"$in": [2, 1, 1.0]}})
    other = parse_where({"$and": [{"b": {"$in": [1, 2]}}, {"a": {"$eq": 1.0}}, {"a": 1}]})
    assert one == other
    assert hash(one) == hash(other)
    assert parse_where(one) is one
    assert one != parse_where({"a": True, "b": {"$in": [2, 1]}})
    assert one.fields == {"a", "b"}
    assert pickle.loads(pickle.dumps(one)) == one
    assert copy.deepcopy(one) == one
    assert isinstance(one, Where)
    with pytest.raises(AttributeError):
        one.key = "other"
    assert parse_where({"a": {"$not": {"$ne": 1}}}) == parse_where({"a": 1})


# --- counts and values -----------------------------------------------------------------------------------------------


def _counts(metadata: Metadata, field: str, rows: Any = None) -> dict[str, int]:
    found = metadata.facet(field, rows)
    assert [count for _, count in found] == sorted((count for _, count in found), reverse=True)
    return {twin.named(value): count for value, count in found}


@settings(max_examples=examples(80))
@given(st.lists(documents, max_size=25), st.data())
def test_facets_count_as_python_does(given: list[dict[str, Any] | None], data: st.DataObject) -> None:
    """Over all documents and over some of them."""
    metadata = Metadata.from_rows(given)
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(given), max_size=len(given))), dtype=bool)
    chosen = [one for one, wanted in zip(given, mask, strict=True) if wanted]
    for field in FIELDS:
        assert _counts(metadata, field) == twin.facet(given, field)
        assert _counts(metadata, field, mask) == twin.facet(chosen, field)


@settings(max_examples=examples(80))
@given(st.lists(documents, min_size=1, max_size=25), st.data())
def test_values_by_row(given: list[dict[str, Any] | None], data: st.DataObject) -> None:
    """In any order, rows twice; None where a field is missing."""
    metadata = Metadata.from_rows(given)
    rows = data.draw(st.lists(st.integers(0, len(given) - 1), max_size=10))
    for field in FIELDS:
        expected = [dict(twin.paths(given[row] or {})).get(field) for row in rows]
        assert [json.dumps(one) for one in metadata.values(field, rows)] == [json.dumps(one) for one in expected]


def test_the_order_of_facets() -> None:
    """By count, then by value: null, booleans, numbers, strings."""
    metadata = Metadata.from_rows([{"a": value} for value in ("b", "a", "b", 2, 1.5, True, None, 3, False)])
    assert metadata.facet("a") == [("b", 2), (None, 1), (False, 1), (True, 1), (1.5, 1), (2, 1), (3, 1), ("a", 1)]
    assert metadata.facet("a", limit=2) == [("b", 2), (None, 1)]
    assert metadata.facet("nowhere") == []
    with refused(ConfigError, option="limit"):
        metadata.facet("a", limit=0)
    with refused(InputError, option="rows", expected="9 booleans", got="int64"):
        metadata.facet("a", np.arange(9))  # type: ignore[arg-type]


# --- schemas ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [
        ("int", [1, 2**70], [1.0, True, "1", [1]]),
        ("float", [1.5, 1.0], [1, True, "1"]),
        ("number", [1, 1.5], [True, "1"]),
        ("string", ["", "a"], [1, ["a"]]),
        ("bool", [True, False], [1, "true"]),
        ("list", [[], [1, "a"], [[1]]], ["a", {}]),
        ("list[string]", [[], ["a"]], [["a", 1], "a"]),
        ("object", [{}, {"a": 1}], [[], "a"]),
        ("any", [1, [], {}, "a"], []),
    ],
)
def test_declared_types(kind: str, right: list[Any], wrong: list[Any]) -> None:
    """Each takes what it says, null and nothing."""
    schema = Schema({"f": kind})
    schema.check([{}, None, {"f": None}, *({"f": value} for value in right)])
    for value in wrong:
        with refused(InputError, where="document 1, field 'f'", expected=kind.replace("[", r"\[")):
            schema.check([{}, {"f": value}])


def test_required_and_other_fields() -> None:
    """Are checked where asked for."""
    schema = Schema({"a.b": "int", "c": "object"}, required=["a.b"], extra=False)
    schema.check([{"a": {"b": 1}}, {"a.b": 1, "c": {"x": {"y": 2}}}])
    with refused(InputError, where="document 0", expected="the field 'a.b'", got="none"):
        schema.check([{"a": {"b": None}}])
    with refused(InputError, where="document 1", expected="declared fields", got="'a.d'"):
        schema.check([{"a": {"b": 1}}, {"a": {"b": 1, "d": 2}}])
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema
    assert hash(Schema.from_dict(schema.to_dict())) == hash(schema)
    assert "a.b" in repr(schema)


def test_schemas_that_are_refused() -> None:
    """Unknown types and fields."""
    with refused(ConfigError, option="fields", expected="types", got="'integer' for 'a'"):
        Schema({"a": "integer"})
    with refused(ConfigError, hint="did you mean 'string'"):
        Schema({"a": "strin"})
    with refused(ConfigError, option="required", got="'b'"):
        Schema({"a": "int"}, required=["b"])
    with refused(ConfigError, option="fields", expected="a mapping"):
        Schema([("a", "int")])  # type: ignore[arg-type]


# --- files -----------------------------------------------------------------------------------------------------------


def _parts(given: list[Any]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The components of some metadata, and what meta.json says of them."""
    pieces: dict[str, list[np.ndarray]] = {}
    entry = Metadata.from_rows(given).write(lambda name, array: pieces.setdefault(name, []).append(array))
    return {name: np.concatenate(arrays) for name, arrays in pieces.items()}, json.loads(json.dumps(entry))


def _sample(count: int = 200) -> list[dict[str, Any] | None]:
    rng = np.random.default_rng(3)
    pool = [1, 2**40, 2.5, "a", "ä" * 9, True, None, [1, "b", None, 2.5, False], [], {"x": 1}, [[1]], 2**80]
    return [
        {"all": row, "some": pool[rng.integers(len(pool))]}
        | ({"few": f"s{row}"} if row % 50 == 3 else {})
        | ({"half": row * 0.5} if row % 2 else {})
        for row in range(count)
    ]


def test_components_are_what_was_packed() -> None:
    """Written, read back and written again they are the same bytes; so are those of a generator."""
    arrays, entry = _parts(_sample())
    assert set(arrays) == set(METADATA_COMPONENTS)
    opened = Metadata.from_arrays(arrays, entry, 200)
    assert list(opened) == _sample()
    pieces: dict[str, list[np.ndarray]] = {}
    again = pack_metadata(iter(_sample()), 200, lambda name, array: pieces.setdefault(name, []).append(array))
    assert json.loads(json.dumps(again)) == entry
    for name, array in arrays.items():
        assert np.concatenate(pieces[name]).tobytes() == array.tobytes()


@pytest.mark.parametrize("count", [0, 1])
def test_hardly_any_documents(count: int) -> None:
    """None, and one."""
    arrays, entry = _parts([{"a": 1}] * count)
    metadata = Metadata.from_arrays(arrays, entry, count)
    assert len(metadata) == count
    assert metadata.rows({"a": 1}).tolist() == [True] * count
    assert metadata.facet("a") == [(1, 1)] * count


def _use(metadata: Metadata) -> None:
    """Do everything with every field."""
    rows = np.arange(len(metadata))
    for field in metadata.fields:
        for operand in (1, 2.5, "a", True, None, [1], {"x": 1}):
            metadata.rows({field: {"$eq": operand, "$exists": True}})
        metadata.rows({field: {"$prefix": "a"}})
        metadata.rows({field: {"$gt": 1, "$contains": "b"}})
        metadata.rows({field: {"$in": [*range(30), "a"]}})
        metadata.facet(field)
        metadata.values(field, rows)


@pytest.mark.parametrize("count", [80, pytest.param(300, marks=pytest.mark.deep)])
@pytest.mark.parametrize("name", METADATA_COMPONENTS)
def test_damaged_arrays(name: str, count: int) -> None:
    """Any byte changed, the end cut or lengthened: another answer or FormatError, nothing else."""
    arrays, entry = _parts(_sample(60))
    rng = np.random.default_rng(5)
    content = arrays[name].tobytes()
    kind = arrays[name].dtype
    changes = [content[: -kind.itemsize], content + bytes(kind.itemsize), b""]
    for place in rng.choice(len(content), min(len(content), count), replace=False).tolist():
        changed = bytearray(content)
        changed[place] ^= int(rng.choice([1, 128, 255]))
        changes.append(bytes(changed))
    noticed = 0
    for changed in changes:
        damaged = {**arrays, name: np.frombuffer(changed, dtype=kind)}
        try:
            _use(Metadata.from_arrays(damaged, entry, 60))
        except FormatError:
            noticed += 1
    assert noticed >= 3


def _changes(entry: Any) -> Any:
    """Yield copies of a directory with one value replaced by something else."""
    for path in _places(entry):
        for other in (None, -1, 0, 1, 2**40, 2**70, "x", "|u1", "<i8", "rows", "bits", "all", [], {}, True, 1.5):
            changed = copy.deepcopy(entry)
            around = changed
            for step in path[:-1]:
                around = around[step]
            around[path[-1]] = other
            yield changed


def _places(entry: Any, path: tuple[Any, ...] = ()) -> Any:
    items = entry.items() if isinstance(entry, dict) else enumerate(entry) if isinstance(entry, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from _places(value, (*path, key))


def test_damaged_directories() -> None:
    """Any value of it replaced: another answer or FormatError, nothing else."""
    given = [{"s": "ab", "l": [1, "a"], "n": 2 if row % 2 else 2.5, "r": 1} for row in range(9)] + [None]
    given += [{}] * 10
    arrays, entry = _parts(given)
    noticed = total = 0
    for changed in _changes(entry):
        total += 1
        try:
            _use(Metadata.from_arrays(arrays, changed, len(given)))
        except FormatError:
            noticed += 1
    assert noticed > total * 0.8
    for other in (None, [], {}, 3, {"fields": [], "unlisted": 0}):
        with pytest.raises(FormatError):
            Metadata.from_arrays(arrays, other, len(given))


def test_a_small_directory_cannot_ask_for_much_memory() -> None:
    """Counts are compared with the component before anything is allocated."""
    arrays, entry = _parts([{"s": "a"}] * 4)
    entry["fields"][0]["columns"][0] |= {"distinct": 2**32 - 1, "bytes": 2**62}
    tracemalloc.start()
    with refused(FormatError, message="columns of metadata"):
        Metadata.from_arrays(arrays, entry, 4)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


_PEAKS = """
import tracemalloc
from segmax.metadata import pack_metadata, packing

packing._RUN = 1 << 10

def peak(count):
    rows = ({"url": f"https://example.org/{n * 7919 % count:08d}", "n": n} for n in range(count))
    tracemalloc.start()
    pack_metadata(rows, count, lambda name, array: None)
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found

print(peak(4_000), peak(8_000))
"""


def test_packing_keeps_no_object_per_document() -> None:
    """A field of a different string for each document takes the bytes of its dictionary, and a few more."""
    # In a process of its own: what other threads take meanwhile would count, too.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, "-c", _PEAKS], env=environment, check=True, capture_output=True, text=True)
    few, many = map(int, run.stdout.split())
    # A dictionary of Python would take some 77 bytes for each string, and 100 more for itself.
    assert (many - few) / 4_000 < 160


def test_dictionaries_of_many_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Are merged into one."""
    monkeypatch.setattr(packing, "_RUN", 7)
    given = [{"s": f"{number * 37 % 50}"} for number in range(300)]
    metadata = Metadata.from_rows(given)
    assert metadata.values("s", range(300)) == [one["s"] for one in given]
    where = {"s": {"$gte": "2", "$lt": "4"}}
    assert metadata.rows(where).tolist() == [twin.matches(where, one) for one in given]


# --- merging ---------------------------------------------------------------------------------------------------------


def _merged(given: list[list[Any] | None], source: list[int], row: list[int]) -> Metadata:
    sources = [None if rows is None else Metadata.from_rows(rows) for rows in given]
    chosen, places = np.array(source, dtype=np.int64), np.array(row, dtype=np.int64)
    return Metadata.packed(lambda append: merge_metadata(sources, chosen, places, append), len(source))


@settings(max_examples=examples(70))
@given(st.lists(st.none() | st.lists(documents, min_size=1, max_size=12), min_size=1, max_size=4), st.data())
def test_merging_is_packing_again(given: list[list[Any] | None], data: st.DataObject) -> None:
    """Some documents of several sources, in any order: the bytes are those of a fresh start."""
    places = [(number, row) for number, rows in enumerate(given) for row in range(len(rows or [None] * 3))]
    order = data.draw(st.permutations(places))[: data.draw(st.integers(0, len(places)))]
    merged = _merged(given, [number for number, _ in order], [row for _, row in order])
    rows = [given[number] for number, _ in order]
    fresh = Metadata.from_rows([None if one is None else one[row] for one, (_, row) in zip(rows, order, strict=True)])
    assert merged._entry == fresh._entry
    for name in METADATA_COMPONENTS:
        assert merged._arrays[name].tobytes() == fresh._arrays[name].tobytes()


def test_merging_fields_without_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starts from the JSON, so that no field has columns for some of the documents only."""
    monkeypatch.setattr(packing, "MOST_FIELDS", 1)
    merged = _merged([[{"a": 1, "b": 2}], [{"b": 2}]], [0, 1], [0, 0])
    assert merged.rows({"b": 2}).tolist() == [True, True]
    assert list(merged) == [{"a": 1, "b": 2}, {"b": 2}]
