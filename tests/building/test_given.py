"""Ids, terms and texts that come beside vectors: what they may come as, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import segmax
from conftest import refused
from segmax.errors import InputError, UnknownIdError

pandas = pytest.importorskip("pandas")

DOCS = sp.identity(3, format="csr", dtype=np.int64)
IDS = ["a", "b", "c"]
TEXTS = ["alpha", "beta", "gamma"]


def stored(ids: Any = None, **given: Any) -> list[tuple[str, str]]:
    """Titles and texts by row of an index that was built with these."""
    index = segmax.build(DOCS, ids=ids, **given)
    assert index.texts is not None
    return [tuple(text) for text in index.texts]


def ids_of(index: segmax.Index) -> list[Any]:
    """The ids of all rows."""
    return [index.search({row: 1}).ids[0] for row in range(3)]


UNLISTED: dict[str, Any] = {
    "a set": {"x", "y", "z"},
    "a frozen set": frozenset(IDS),
    "a string": "abc",
    "bytes": b"abc",
    "a bytearray": bytearray(b"abc"),
    "a number": 3,
    "a table": pandas.DataFrame({"x": IDS, "y": IDS, "z": IDS}),
    "an array of two dimensions": np.array([IDS, IDS, IDS]),
    "an array of none": np.array("abc"),
}


@pytest.mark.parametrize("name", UNLISTED)
def test_values_that_are_no_list_are_refused(name: str) -> None:
    """Names of columns, keys, letters and the order of a set are nothing that anyone means."""
    value = UNLISTED[name]

    def unread() -> Any:
        raise AssertionError("read")
        yield

    given = [{"ids": value}, {"terms": value}] + ([{"texts": value}] if name != "a table" else [])
    for options in given:
        (kind,) = options
        with refused(InputError, expected=f"{kind} as a list"):
            segmax.build(unread(), **options)
    index = segmax.build(DOCS, ids=IDS)
    for take in (index.vectors, lambda ids: index.score({0: 1}, ids)):
        with refused(InputError, expected="several ids"):
            take(value)


def test_mappings_are_no_ids() -> None:
    """Neither for a build, nor for a look-up."""
    with refused(InputError, expected="ids as a list or another iterable, one per document", got="dict"):
        segmax.build(DOCS, ids={"a": 0, "b": 1, "c": 2})
    with refused(InputError, expected="several ids", got="dict"):
        segmax.build(DOCS, ids=IDS).score({0: 1}, {"a": 1})


@pytest.mark.parametrize(
    "ids",
    [
        iter(IDS),
        tuple(IDS),
        np.array(IDS),
        pandas.Series(IDS, index=[7, 8, 9]),
        pandas.Index(IDS),
        dict.fromkeys(IDS).keys(),
    ],
    ids=lambda ids: type(ids).__name__,
)
def test_ids_from_anything_in_order(ids: Any) -> None:
    """Columns of tables, arrays, iterators and the keys of a mapping."""
    assert ids_of(segmax.build(DOCS, ids=ids)) == IDS


def test_times_are_no_ids() -> None:
    """Of which numpy makes numbers."""
    times = np.array([1, 2, 3], "datetime64[ns]")
    with refused(InputError, expected="all strings or all integers", got="datetime64"):
        segmax.build(DOCS, ids=times)


@pytest.mark.parametrize("id", [None, ["a"], 1.0, True, pandas.DataFrame({"a": [1]}), b"a", ("a",)], ids=str)
def test_ids_of_the_wrong_kind(id: Any) -> None:
    """An id is a string or an integer; anything else is an error of one line."""
    for index in (segmax.build(DOCS, ids=IDS), segmax.build(DOCS), segmax.build(DOCS, ids=[5, 6, 7])):
        for take in (index.row_of, index.vector, lambda id, index=index: index.explain({0: 1}, id)):
            with refused(InputError, expected="an id", got=r"\w+", hint=r"the ids of this index are \w+$"):
                take(id)


def test_ids_of_the_other_kind() -> None:
    """A number for a string is unknown, and the message names the kind that is known."""
    with refused(UnknownIdError, message="no document has the id 1", hint="the ids of this index are strings"):
        segmax.build(DOCS, ids=["1", "2", "3"]).row_of(1)
    with refused(UnknownIdError, message="no document has the id '1'", hint="the ids of this index are integers"):
        segmax.build(DOCS).row_of("1")


# --- terms -----------------------------------------------------------------------------------------------------------


def test_a_vocabulary_may_map_terms_to_columns() -> None:
    """As vectorizers of scikit-learn have it, numpy's integers included."""
    terms = segmax.build(DOCS, terms={"w2": 2, "w0": np.int64(0), "w1": 1}).terms
    assert terms is not None
    assert list(terms) == ["w0", "w1", "w2"]
    terms = segmax.build(DOCS, terms=pandas.Series(["x", "y", "z"])).terms
    assert list(terms or ()) == ["x", "y", "z"]


@pytest.mark.parametrize(
    ("terms", "parts"),
    [
        ({"x": 0, "y": 1, "z": 1}, {"got": "1 again, for 'z'"}),
        ({"x": 1, "y": 2, "z": 3}, {"expected": "from 0 to 2", "got": "3"}),
        ({"x": 0, "y": 1, "z": -1}, {"expected": "from 0 to 2", "got": "-1"}),
        ({"x": 0, "y": True, "z": 2}, {"expected": "from 0 to 2", "got": "True"}),
        ({"x": 0, "y": 1.0, "z": 2}, {"expected": "from 0 to 2", "got": "1.0"}),
        ({"x": 0, "y": 1}, {"expected": "3 terms, one per column of the vectors", "got": "2"}),
        ({"x": 0, 7: 1, "z": 2}, {"option": "terms", "expected": "strings", "got": "int at column 1"}),
    ],
    ids=str,
)
def test_mappings_that_are_no_vocabulary(terms: Any, parts: dict[str, str]) -> None:
    """Every column has one term, and every term one column."""
    with refused(InputError, **parts):
        segmax.build(DOCS, terms=terms)


# --- texts -----------------------------------------------------------------------------------------------------------

MIXED = {"c": "gamma", "a": ("first", "alpha"), "b": {"text": "beta"}}


def test_texts_by_id(tmp_path: Path) -> None:
    """A mapping is matched by id: of the caller, of the file, or the row number."""
    assert stored(IDS, texts=MIXED) == [("first", "alpha"), ("", "beta"), ("", "gamma")]
    assert stored(texts={2: "gamma", 0: "alpha", 1: "beta"}) == [("", text) for text in TEXTS]
    assert stored([5, 6, 7], texts=dict(zip([7, 6, 5], TEXTS, strict=True)))[0] == ("", "gamma")
    lines = [json.dumps({"id": name, "vector": {"cat": 1}}) for name in "cab"]
    (tmp_path / "docs.jsonl").write_text("\n".join(lines))
    index = segmax.build(tmp_path / "docs.jsonl", texts=MIXED)
    assert [index.text(name).text for name in IDS] == TEXTS


@pytest.mark.parametrize(
    ("ids", "texts", "parts"),
    [
        (IDS, {"a": "alpha", "b": "beta"}, {"expected": "a text for every document", "got": "none for the id 'c'$"}),
        (
            IDS,
            {**MIXED, "d": "delta"},
            {"expected": "3 texts, one per document", "got": "4; no document has the id 'd'"},
        ),
        (
            None,
            MIXED,
            {"got": "none for the id 0", "hint": r"pass \{ids=...\}, without which documents are called by their row"},
        ),
        (IDS, {"title": "t", "text": "x"}, {"got": "none for the id 'a'"}),
        (IDS, {**MIXED, "b": 5}, {"expected": "for row 1", "got": "int"}),
    ],
    ids=str,
)
def test_mappings_that_do_not_fit(ids: Any, texts: Any, parts: dict[str, str]) -> None:
    """A text per document, no fewer and no more."""
    with refused(InputError, **parts):
        segmax.build(DOCS, ids=ids, texts=texts)


def test_texts_of_tables() -> None:
    """A table with a column of ids is matched by id; one without, and a column, are in the order of rows."""
    table = pandas.DataFrame({"id": ["c", "a", "b"], "title": ["3", "1", "2"], "text": ["gamma", "alpha", "beta"]})
    assert stored(IDS, texts=table) == [("1", "alpha"), ("2", "beta"), ("3", "gamma")]
    assert stored(texts=table[["text", "title"]]) == [("3", "gamma"), ("1", "alpha"), ("2", "beta")]
    assert stored(table["id"], texts=table["text"]) == [("", "gamma"), ("", "alpha"), ("", "beta")]
    assert stored([2, 0, 1], texts=pandas.Series(TEXTS)) == [("", text) for text in TEXTS]


def test_columns_of_ids_are_found_in_any_case() -> None:
    """As everywhere: a column "ID" has the ids, so texts are found by them and not by their order."""
    table = pandas.DataFrame({"ID": ["c", "a", "b"], "Text": ["gamma", "alpha", "beta"]})
    index = segmax.build(sp.csr_matrix(np.eye(3)), ids=["a", "b", "c"], texts=table)
    assert [index.text(name).text for name in "abc"] == ["alpha", "beta", "gamma"]


def test_tables_that_do_not_fit() -> None:
    """Ids that come twice or are unknown, no column of texts, missing texts, and labels in another order."""
    table = pandas.DataFrame({"id": ["c", "a", "a"], "text": TEXTS})
    with refused(InputError, expected="every id once in column 'id' of the DataFrame", got="'a' again"):
        segmax.build(DOCS, ids=IDS, texts=table)
    with refused(InputError, got="none for the id 0", hint="pass {ids="):
        segmax.build(DOCS, texts=pandas.DataFrame({"id": IDS, "text": TEXTS}))
    with refused(InputError, expected="a DataFrame with a column of texts"):
        segmax.build(DOCS, texts=pandas.DataFrame({"x": TEXTS}))
    with refused(InputError, where="row 1 of the DataFrame", message="text is null"):
        segmax.build(DOCS, texts=pandas.DataFrame({"text": ["alpha", None, "gamma"]}))
    for labeled in (
        pandas.Series(TEXTS, index=["c", "b", "a"]),
        pandas.DataFrame({"text": TEXTS}, index=["c", "b", "a"]),
    ):
        with refused(InputError, got="whose index has the ids in another order", hint=r"pass texts.reindex\(ids\)"):
            segmax.build(DOCS, ids=IDS, texts=labeled)
        assert stored(IDS, texts=labeled.reindex(IDS)) == [("", "gamma"), ("", "beta"), ("", "alpha")]


def test_tables_are_no_vectors() -> None:
    """The message is about the table, not about the names of its columns."""
    for vectors in (pandas.DataFrame({"a": [1.0]}), {"a": DOCS}):
        with refused(InputError, expected="documents as .*", got=f"{type(vectors).__name__}$"):
            segmax.build(vectors)
