"""Lines of JSON against Python's json: what one reads the other does, and what one refuses the other does, too."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from conftest import examples, refused
from segmax import _core
from segmax.errors import InputError
from segmax.io import open_vectors

IDS = ("id", "_id", "docid", "doc_id", "docno", "qid", "query_id")
Row = tuple[str, dict[str, float]]


def fast(text: bytes) -> list[Row]:
    """What the core makes of lines."""
    parser = _core.JsonVectorParser()
    parser.parse(text)
    ids, indptr, terms, weights = parser.take()
    names = parser.terms(0)
    return [
        (name, dict(zip([names[t] for t in terms[a:b]], weights[a:b].tolist(), strict=True)))
        for name, a, b in zip(ids, indptr[:-1], indptr[1:], strict=True)
    ]


class Refused(Exception):
    """The slow twin does not take the line."""


class Pairs(dict):  # type: ignore[type-arg]
    """An object that remembers all its members."""

    def __init__(self, made: dict[str, Any], pairs: list[tuple[str, Any]]) -> None:
        super().__init__(made)
        self.pairs = pairs


def refuse(value: str) -> Any:
    """Take no NaN and no infinity."""
    raise Refused(value)


def slow(text: bytes) -> list[Row]:
    """The same by Python's json, a line at a time."""
    rows = []
    for line in text.decode("utf-8-sig").split("\n"):
        if not line.strip(" \t\r"):
            continue
        record = json.loads(
            line, object_pairs_hook=lambda pairs: Pairs(dict(reversed(pairs)), pairs), parse_constant=refuse
        )
        if not isinstance(record, Pairs):
            raise Refused(line)
        name = next((value for key, value in record.pairs if key in IDS), None)
        vectors = [value for key, value in record.pairs if key in ("vector", "toks", "query_toks")]
        if isinstance(name, bool) or not isinstance(name, (str, int)) or len(vectors) != 1:
            raise Refused(line)
        if not isinstance(vectors[0], Pairs) or len(vectors[0]) != len(vectors[0].pairs):
            raise Refused(line)
        for term, weight in vectors[0].items():
            term.encode()
            if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not 0 <= weight < float("inf"):
                raise Refused(line)
        str(name).encode()
        rows.append((str(name), {term: float(weight) for term, weight in vectors[0].items()}))
    return rows


def outcome(read: Any, text: bytes) -> list[Row] | None:
    """The rows, or None if they are refused."""
    try:
        return read(text)  # type: ignore[no-any-return]
    except (_core.CoreInputError, Refused, ValueError, OverflowError):
        return None


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
weights = st.integers(0, 10**17) | st.floats(0, allow_nan=False, allow_infinity=False) | st.floats(0, 5, width=32)
vectors = st.dictionaries(st.text(max_size=8), weights, max_size=6)
records = st.builds(
    lambda name, vector, more, first: (
        {**more, "id": name, "vector": vector} if first else {"vector": vector, "id": name, **more}
    ),
    st.text(max_size=10) | st.integers(-5, 10**25),
    vectors,
    st.dictionaries(st.sampled_from(["contents", "title", "x\n", "é", "nested"]), values, max_size=3),
    st.booleans(),
)


@settings(max_examples=examples(80))
@given(st.lists(records, max_size=4), st.booleans(), st.sampled_from(["\n", "\r\n", "\n\n"]), st.booleans())
def test_what_json_writes_is_read_alike(rows: list[Any], ascii_only: bool, end: str, dense: bool) -> None:
    """Escapes, surrogate pairs, unknown members, numbers of any form: both readers agree."""
    separators = (",", ":") if dense else (" , ", " :\t")
    text = end.join(json.dumps(row, ensure_ascii=ascii_only, separators=separators) for row in rows)
    try:
        data = text.encode()
    except UnicodeEncodeError:
        return
    assert outcome(fast, data) == outcome(slow, data)


SEEDS = [
    rb'{"id": "a\u00e9\ud83d\ude00\"\\\/\b\f\n\r\t", "vector": {"x": 1, "\u4f60": 2.5e-3, "": 0}}',
    rb'{"_id": 12, "c": {"k": [1, -2.5E+3, true, false, null, {"z": []}], "": {}}, "toks": {"a": 0.10555581003427505}}',
    rb'{"docid": -7, "vector": {}}',
    '{"qid":"ü","query_toks":{"ß":3,"日本":4.0}}'.encode(),
]


def test_damaged_lines_are_read_alike() -> None:
    """Bytes changed, dropped, doubled and swapped: both readers take a line, or neither does."""
    rng = random.Random(5)
    alphabet = b'{}[]":,\\u0123456789eE+-. \ttrufalsn\xc3\xa9\xff\x00'
    taken = 0
    for _ in range(6000):
        line = bytearray(rng.choice(SEEDS))
        for _ in range(rng.choice([0, 1, 1, 2, 3])):
            place = rng.randrange(len(line))
            kind = rng.randrange(4)
            if kind == 0:
                line[place] = rng.choice(alphabet)
            elif kind == 1:
                del line[place : place + rng.randrange(1, 4)]
            elif kind == 2:
                line.insert(place, rng.choice(alphabet))
            else:
                line[place:place] = line[rng.randrange(len(line)) :][: rng.randrange(1, 8)]
        if b"-0" in line:
            continue  # an id of -0 is taken as it stands
        found, expected = outcome(fast, bytes(line)), outcome(slow, bytes(line))
        if expected is not None and found is None and _only_we_refuse(bytes(line)):
            continue
        if expected is None and found is not None and _only_json_refuses(bytes(line)):
            continue
        assert found == expected, bytes(line)
        taken += found is not None
    assert taken > 500


def _only_we_refuse(line: bytes) -> bool:
    """Half a surrogate pair in the name of a member does not matter to Python."""
    return b"\\ud" in line


def _only_json_refuses(line: bytes) -> bool:
    """Bytes that are no UTF-8 in members that are skipped do not matter to us."""
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return True
    return False


@pytest.mark.parametrize(
    "number",
    ["0", "0.0", "1e-400", "0e999", "4.9e-324", "2.2250738585072014e-308", "1.7976931348623157e308", "1E5", "1e+5",
     "123456789012345678901234567890", "0.1", "9007199254740993", "3.0e0", "1e22", "1e23", "8.5e-05"],
)  # fmt: skip
def test_numbers_are_those_of_python(number: str) -> None:
    """To the last bit, however small or long."""
    assert fast(f'{{"id": 1, "vector": {{"a": {number}}}}}'.encode()) == [("1", {"a": float(number)})]


@pytest.mark.parametrize(
    "number", ["1e400", "-1", "-0.5", "1.", ".5", "+1", "01", "1e", "0x10", "NaN", "Infinity", "1_0", "१"]
)
def test_invalid_numbers_are_refused(number: str) -> None:
    """What JSON does not have, and weights that are negative or infinite, name the line."""
    with pytest.raises(_core.CoreInputError, match=r"^line 1, byte 2"):
        fast(f'{{"id": 1, "vector": {{"a": {number}}}}}'.encode())


@given(st.floats(0, allow_nan=False, allow_infinity=False) | st.integers(0, 2**53).map(float))
@example(5e-324)
@example(1.7976931348623157e308)
@example(2.0**53)
def test_weights_are_written_so_that_they_come_back(weight: float) -> None:
    """The same double, as JSON that Python reads, too."""
    formatter = _core.JsonVectorFormatter()
    formatter.add_terms(["t"])
    line = formatter.format(["d"], np.array([0, 1]), np.array([0], np.uint32), np.array([weight]), False)
    assert json.loads(line)["vector"] == {"t": weight}
    assert fast(line) == [("d", {"t": weight})]


@given(st.lists(st.text(), min_size=1, max_size=4, unique=True), st.text())
def test_strings_are_written_so_that_they_come_back(terms: list[str], name: str) -> None:
    """Any string that UTF-8 can hold."""
    formatter = _core.JsonVectorFormatter()
    try:
        formatter.add_terms(terms)
        name.encode()
    except UnicodeEncodeError:
        return
    count = len(terms)
    line = formatter.format([name], np.array([0, count]), np.arange(count, dtype=np.uint32), np.ones(count), False)
    assert fast(line) == [(name, dict.fromkeys(terms, 1.0))]
    assert list(json.loads(line)["vector"]) == terms


def test_pieces_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read in blocks of any size, lines longer than a block among them, a file gives the same rows."""
    rows = [
        {"id": f"d{i}", "contents": "x" * (i * 37 % 300), "vector": {f"t{j}": j + 1 for j in range(i % 9)}}
        for i in range(60)
    ]
    path = tmp_path / "docs.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    whole = [row for batch in open_vectors(path).batches() for row in batch.ids]
    from segmax.io import streams

    for size in (1, 7, 64, 1000):
        monkeypatch.setattr(streams.read_blocks, "__defaults__", (size,))
        reader = open_vectors(path)
        assert [name for batch in reader.batches() for name in batch.ids] == whole == [row["id"] for row in rows]
        assert reader.terms == [f"t{j}" for j in range(8)]


def test_a_wrong_line_in_the_middle_of_a_million(tmp_path: Path) -> None:
    """The message has the file, the number of the line and what is wrong there."""
    good = b'{"id": "d", "vector": {"a": 1}}\n'
    path = tmp_path / "docs.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(good * 500_000)
        file.write(b'{"id": "d", "vector": {"a": 1, "b": "two"}}\n')
        file.write(good * 499_999)
    where = r"docs\.jsonl\.gz', line 500001, byte 37$"
    with refused(InputError, where=where, expected='a number as the weight of "b"', got="a string"):
        list(open_vectors(path).batches())
