"""Members of records and columns of files that become metadata."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import segmax
from conftest import refused
from segmax.errors import ConfigError, InputError
from segmax.text.fields import Fields

RECORDS = [
    {"id": "a", "title": "T", "text": "copper", "year": 2019, "meta": {"lang": "en"}},
    {"id": "b", "text": "copper tubes", "year": None, "tags": ["x"]},
]


def stored(index: segmax.Index) -> list[Any]:
    """The metadata of all documents."""
    return index.search("copper").metadata


@pytest.mark.parametrize("keep_texts", [True, False])
@pytest.mark.parametrize("source", ["file", "list", "frame"])
def test_other_members_become_metadata(tmp_path: Path, source: str, keep_texts: bool) -> None:
    """All of them or some, from files and from memory, with texts and without."""
    texts: Any = RECORDS
    if source == "file":
        texts = tmp_path / "docs.jsonl"
        texts.write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    elif source == "frame":
        texts = pytest.importorskip("pandas").DataFrame(RECORDS)
    year = 2019.0 if source == "frame" else 2019
    index = segmax.from_texts(texts, metadata="all", keep_texts=keep_texts)
    assert index.metadata("a") == {"year": year, "meta": {"lang": "en"}}
    assert index.metadata("b") == {"tags": ["x"]}
    assert (index.texts is not None) == keep_texts
    index = segmax.from_texts(texts, metadata=["year"], keep_texts=keep_texts)
    assert [index.metadata(name) for name in "ab"] == [{"year": year}, {}]
    assert index.search("copper", where={"year": {"$lt": 2020}}).ids == ["a"]


def test_columns_have_types(tmp_path: Path) -> None:
    """Those of CSV are strings unless a type is given; empty ones are then left out."""
    path = tmp_path / "docs.csv"
    path.write_text("id,text,year,price,new,zip\na,copper,2019,1.50,true,01067\nb,copper,,2,False,10115\n")
    assert segmax.from_texts(path, metadata="all").metadata("a")["year"] == "2019"
    index = segmax.from_texts(path, metadata=["year:int", "price:float", "new:bool", "zip:string"])
    assert index.metadata("a") == {"year": 2019, "price": 1.5, "new": True, "zip": "01067"}
    assert index.metadata("b") == {"price": 2.0, "new": False, "zip": "10115"}
    with refused(InputError, where="document 0, field 'zip'", expected="bool", got="'01067'"):
        segmax.from_texts(path, metadata=["zip:bool"])
    with refused(ConfigError, option="metadata", expected="a type after the colon", got="'year:date'"):
        segmax.from_texts(path, metadata=["year:date"])
    with refused(ConfigError, option="metadata", got="'years'"):
        segmax.from_texts(path, metadata="years")


@pytest.mark.parametrize(
    ("kind", "value", "found"),
    [
        ("int", 3, 3),
        ("int", np.int64(3), 3),
        ("float", 3, 3.0),
        ("float", "1e3", 1000.0),
        ("bool", True, True),
        ("bool", np.bool_(True), True),
        ("int", " 12 ", 12),
        ("int", 1.5, None),
        ("int", True, None),
        ("string", 3, None),
        ("float", "nan", None),
        ("float", [1], None),
    ],
)
def test_values_of_a_type(kind: str, value: Any, found: Any) -> None:
    """Are what they say, or refused."""
    fields = Fields([f"f:{kind}"])
    if found is None:
        with refused(InputError, where="field 'f'", expected=kind):
            fields.of_record({"f": value}, 0)
    else:
        assert fields.of_record({"f": value}, 0) == {"f": found}


@pytest.mark.parametrize("kind", ["timedelta64[ns]", "timedelta64[D]", "datetime64[ns]", "datetime64[D]"])
def test_times_of_numpy_are_no_numbers(kind: str) -> None:
    """Whatever their unit: those of nanoseconds are integers once they are plain objects."""
    (value,) = np.array([3], kind)
    for fields, expected in ((Fields(["f"]), "values of JSON"), (Fields(["f:int"]), "int")):
        with refused(InputError, where="field 'f'", expected=expected):
            fields.of_record({"f": value}, 0)


def test_metadata_beside_texts() -> None:
    """As `build` takes them: in the order of texts, or by id; documents of one's own have no records."""
    index = segmax.from_texts({"a": "copper", "b": "copper"}, metadata={"b": {"n": 1}})
    assert stored(index) == [None, {"n": 1}]
    documents = [segmax.io.Document("a", "", "copper")]
    assert stored(segmax.from_texts(documents, metadata=iter([{"n": 2}]))) == [{"n": 2}]
    assert stored(segmax.from_texts(documents, metadata="all")) == [None]


def test_numbered_texts_keep_their_records(tmp_path: Path) -> None:
    """Documents without ids are called by numbers, and described all the same."""
    path = tmp_path / "docs.jsonl"
    path.write_text('{"text": "copper", "n": 1}\n{"text": "copper", "n": 2}\n')
    assert stored(segmax.from_texts(path, metadata=["n"], title=False)) == [{"n": 1}, {"n": 2}]
