"""Vectors in every format: round trips of awkward collections, files of other tools, files that are damaged."""

from __future__ import annotations

import gzip
import json
import os
import struct
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp

from conftest import refused
from segmax.base.errors import IndexExistsError, WriteError
from segmax.errors import ConfigError, InputError, MissingPackageError
from segmax.io import SCALES, VectorBatch, VectorReader, format_of, open_vectors, write_vectors
from segmax.vectors.csr import Csr
from segmax.vectors.rows import SLAB_DOCS


class Collection(NamedTuple):
    """Documents by word."""

    ids: list[str]
    rows: list[dict[str, float]]


def batches_of(collection: Collection, size: int = 7) -> tuple[list[VectorBatch], list[str]]:
    """The documents in batches that widen, and the terms in order of first sight."""
    numbers: dict[str, int] = {}
    batches = []
    for first in range(0, len(collection.ids), size):
        rows = collection.rows[first : first + size]
        for row in rows:
            for term in row:
                numbers.setdefault(term, len(numbers))
        indptr = np.cumsum([0, *map(len, rows)])
        indices = np.array([numbers[term] for row in rows for term in row], np.uint32)
        values = np.array([weight for row in rows for weight in row.values()], np.float64)
        batches.append(VectorBatch(collection.ids[first : first + size], Csr(indptr, indices, values, len(numbers))))
    return batches, list(numbers)


def read(reader: VectorReader) -> Collection:
    """Everything that a reader gives."""
    ids: list[str] = []
    rows: list[dict[str, float]] = []
    for batch in reader.batches():
        vectors = batch.vectors
        assert len(batch.ids) == vectors.num_rows
        ids += batch.ids
        for a, b in zip(vectors.indptr[:-1], vectors.indptr[1:], strict=True):
            columns = vectors.indices[a:b].tolist()
            names = [str(c) if reader.terms is None else reader.terms[c] for c in columns]
            assert len(set(names)) == len(names)
            rows.append(dict(zip(names, vectors.values[a:b].tolist(), strict=True)))
    return Collection(ids, rows)


def plain(num_docs: int = 40, whole: bool = True) -> Collection:
    """Some documents, every fifth empty; weights are whole numbers, or floats that 32 bits hold."""
    rng = np.random.default_rng(3)
    rows = []
    for i in range(num_docs):
        terms = rng.choice(60, 0 if i % 5 == 4 else int(rng.integers(1, 9)), replace=False)
        draw = rng.integers(1, 300, len(terms)) if whole else rng.random(len(terms)).astype(np.float32) + 0.01
        rows.append({f"t{term}": float(weight) for term, weight in zip(terms, draw, strict=True)})
    return Collection([f"doc-{i}" for i in range(num_docs)], rows)


AWKWARD = {
    "plain": plain(),
    "floats": plain(whole=False),
    "only empty documents": Collection(["a", "b"], [{}, {}]),
    "unicode terms": Collection(
        ["é", "日本", "😀", "nul"],
        [{"ß": 1, "日本語": 2, "😀👍": 3}, {"É": 4, "##ing": 5}, {"ß": 6, '"\\': 7}, {"a/b": 8}],
    ),
    "300-character ids": Collection([f"{i}-" + "ж" * 300 for i in range(20)], [{"a": i + 1.0} for i in range(20)]),
    "100,000 terms": Collection(
        [f"d{i}" for i in range(100)],
        [{f"term{i * 1000 + j}": float(j % 5 + 1) for j in range(1000)} for i in range(100)],
    ),
}
FILES = ["docs.npz", "docs.jsonl", "docs.jsonl.gz", "docs.jsonl.xz", "docs.ciff", "docs.ciff.gz", "docs.csr"]
FILES += ["docs.bin", "docs.tsv"]
KIND = {"docs.tsv": "tokens"}  # a line or two do not tell


def check_needs(name: str, collection: Collection) -> None:
    """Skip what a format cannot hold; that it says so is tested elsewhere."""
    whole = all(weight == int(weight) for row in collection.rows for weight in row.values())
    if not whole and (".ciff" in name or ".tsv" in name):
        pytest.skip("floats do not fit")
    if name.endswith((".zst", ".parquet")):
        pytest.importorskip("zstandard" if name.endswith(".zst") else "pyarrow")


@pytest.mark.parametrize("case", AWKWARD)
@pytest.mark.parametrize("name", [*FILES, "docs.jsonl.zst", "docs.parquet"])
def test_round_trip(tmp_path: Path, name: str, case: str) -> None:
    """What is written is recognized by its content and read back: ids, order, terms, weights."""
    collection = AWKWARD[case]
    check_needs(name, collection)
    batches, terms = batches_of(collection)
    count = write_vectors(tmp_path / name, batches, terms=terms)
    assert count == len(collection.ids)
    if case == "only empty documents" and name == "docs.tsv":  # two ids: nothing says that words are missing
        assert read(open_vectors(tmp_path / name, "tokens")) == collection
        return
    assert read(open_vectors(tmp_path / name)) == collection
    expected = {"bin": "seismic", "tsv": "tokens"}.get(name.split(".")[1], name.split(".")[1])
    assert format_of(tmp_path / name) == expected


@pytest.mark.parametrize("name", [*FILES[:-1], "docs.parquet"])
def test_content_tells_whatever_the_name(tmp_path: Path, name: str) -> None:
    """A file under another name is what it is; Seismic's binary vectors need theirs."""
    check_needs(name, AWKWARD["plain"])
    batches, terms = batches_of(plain())
    write_vectors(tmp_path / name, batches, terms=terms)
    if name == "docs.bin":
        return
    for side in ("ids", "terms"):
        if (tmp_path / f"{name}.{side}.txt").exists():
            (tmp_path / f"{name}.{side}.txt").rename(tmp_path / f"other.{side}.txt")
    (tmp_path / name).rename(tmp_path / "other")
    assert read(open_vectors(tmp_path / "other")) == plain()


@pytest.mark.parametrize("name", ["docs.npz", "docs.jsonl", "docs.ciff", "docs.csr", "docs.bin", "docs.parquet"])
def test_numbers_instead_of_words(tmp_path: Path, name: str) -> None:
    """Columns without words are numbers, or their numbers as words where a format has only words."""
    check_needs(name, AWKWARD["plain"])
    matrix = sp.csr_matrix(np.array([[0, 2, 0, 1], [0, 0, 0, 0], [3, 0, 0, 0]], np.float32))
    sp.save_npz(tmp_path / "in.npz", matrix)
    write_vectors(tmp_path / name, open_vectors(tmp_path / "in.npz"))
    reader = open_vectors(tmp_path / name)
    assert read(reader) == Collection(["0", "1", "2"], [{"1": 2.0, "3": 1.0}, {}, {"0": 3.0}])
    if name in ("docs.npz", "docs.csr", "docs.bin", "docs.parquet"):
        assert reader.terms is None
        assert not getattr(reader, "has_ids", True)


def test_every_format_to_every_other(tmp_path: Path) -> None:
    """From one to the next and on to the last, nothing is lost."""
    batches, terms = batches_of(plain())
    write_vectors(tmp_path / "0.jsonl", batches, terms=terms)
    last = tmp_path / "0.jsonl"
    endings = ["ciff", "csr", "npz", "jsonl.gz", "tsv", "ciff.gz", "npz", "csr", "jsonl"]
    for number, ending in enumerate(endings, start=1):
        target = tmp_path / f"{number}.{ending}"
        write_vectors(target, open_vectors(last))
        last = target
    assert read(open_vectors(last)) == Collection(plain().ids, [dict(sorted(row.items())) for row in plain().rows])


def test_windows_line_ends_and_marks(tmp_path: Path) -> None:
    """Carriage returns, a byte-order mark, blank lines and a missing last line feed change nothing."""
    lines = [json.dumps({"id": name, "vector": row}) for name, row in zip(*plain(), strict=True)]
    (tmp_path / "docs.jsonl").write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode() + b"\r\n\r\n")
    assert read(open_vectors(tmp_path / "docs.jsonl")) == plain()
    tokens = [
        f"{name}\t{' '.join(' '.join([t] * int(w)) for t, w in row.items())}"
        for name, row in zip(*plain(), strict=True)
    ]
    (tmp_path / "queries.tsv").write_bytes("\r\n".join(tokens).encode())
    assert read(open_vectors(tmp_path / "queries.tsv")) == plain()


def test_folders_of_shards(tmp_path: Path) -> None:
    """All files of lines in a folder, in the order of their names, compressed or not, share one vocabulary."""
    folder = tmp_path / "shards"
    folder.mkdir()
    (folder / "README.md").write_text("no vectors")
    collection = plain()
    for number in range(4):
        part = slice(10 * number, 10 * number + 10)
        lines = "".join(
            json.dumps({"id": n, "vector": r}) + "\n"
            for n, r in zip(collection.ids[part], collection.rows[part], strict=True)
        )
        if number % 2:
            (folder / f"part-{number}.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
        else:
            (folder / f"part-{number}.jsonl").write_text(lines)
    assert format_of(folder) == "jsonl"
    assert read(open_vectors(folder)) == collection
    assert read(open_vectors([folder / "part-0.jsonl", folder / "part-1.jsonl.gz"])).rows == collection.rows[:20]
    (folder / "part-2.jsonl").write_text('{"id": 1, "vector": {}}\n{"id": 2}\n')
    with refused(InputError, where=r"part-2\.jsonl', line 2, byte 10", expected=r"a member \"vector\""):
        read(open_vectors(folder))
    (tmp_path / "empty").mkdir()
    with refused(InputError, message=r"there is no file '.*\*\.jsonl'", hint="check the path"):
        open_vectors(tmp_path / "empty")


def test_several_files_are_joined_by_word(tmp_path: Path) -> None:
    """Files of any kind that names its terms; those that do not must be of one width, and are numbered on."""
    collection = plain()
    half = [Collection(collection.ids[part], collection.rows[part]) for part in (slice(20), slice(20, None))]
    for name, part in zip(("a.npz", "b.ciff"), half, strict=True):
        batches, terms = batches_of(part)
        write_vectors(tmp_path / name, batches, terms=terms)
    joined = open_vectors([tmp_path / "a.npz", tmp_path / "b.ciff"])
    assert joined.num_docs == 40
    assert read(joined) == collection
    sp.save_npz(tmp_path / "c.npz", sp.csr_matrix([[1, 0], [0, 1]]))
    assert read(open_vectors([tmp_path / "c.npz", tmp_path / "c.npz"])).ids == ["0", "1", "2", "3"]
    with refused(InputError, expected="files that all name their terms, or none that does"):
        open_vectors([tmp_path / "a.npz", tmp_path / "c.npz"])


# --- scales ----------------------------------------------------------------------------------------------------------


def test_scales(tmp_path: Path) -> None:
    """The conventions by name, or a factor; what becomes 0 is dropped."""
    path = tmp_path / "docs.jsonl"
    path.write_text('{"id": "a", "vector": {"x": 1.2345, "y": 0.001, "z": 2}}\n')

    def weights(scale: Any) -> dict[str, float]:
        return read(open_vectors(path, scale=scale)).rows[0]

    assert weights(None) == weights("none") == {"x": 1.2345, "y": 0.001, "z": 2}
    assert weights("x100") == {"x": 123, "z": 200}
    assert weights("x100-down") == {"x": 123, "z": 200}
    assert weights("/5x256") == {"x": 63, "z": 102}
    assert weights(2) == weights("2") == {"x": 2.469, "y": 0.002, "z": 4}
    assert weights("/100")["z"] == pytest.approx(0.02)
    assert weights("/256x5")["z"] == pytest.approx(2 / 256 * 5)
    with refused(InputError, expected="integer impacts", got=r"the weight 1\.2345", hint="choose a scale"):
        weights("impacts")
    for bad in ("x1000", "", "-1", 0, float("nan"), True):
        with refused(ConfigError, option="scale", expected="one of 'none', 'impacts'"):
            weights(bad)
    assert all(text for _, text in SCALES.values())


def test_formats_of_whole_numbers_say_so(tmp_path: Path) -> None:
    """CIFF and repeated words want a scale for floats; nothing is left behind."""
    batches, terms = batches_of(Collection(["a", "b"], [{"x": 2.0}, {"y": 0.5}]))
    for name, message in (("docs.ciff", r"^0\.5 in document 1$"), ("docs.tsv", r"^0\.5$")):
        with refused(InputError, got=message, hint="scale that rounds"):
            write_vectors(tmp_path / name, batches, terms=terms)
    assert list(tmp_path.iterdir()) == []


def test_no_writer_takes_wrong_weights(tmp_path: Path) -> None:
    """All refuse negative and infinite weights, NaN, and columns that are not there; repeated ones are summed."""
    for name in [name for name in [*FILES, "docs.parquet"] if name.count(".") == 1]:
        if name.endswith(".parquet"):
            pytest.importorskip("pyarrow")
        for weight in (-1.0, float("nan"), float("inf")):
            bad = Csr(np.array([0, 1]), np.array([0]), np.array([weight]), 1)
            with refused(InputError, expected="finite weights >= 0", got=rf"{weight} in document 0, term 0"):
                write_vectors(tmp_path / name, [VectorBatch(["a"], bad)], terms=["x"])
        outside = Csr(np.array([0, 1]), np.array([3]), np.array([1.0]), 1)
        with refused(InputError, expected="column numbers from 0 to 0", got="3"):
            write_vectors(tmp_path / name, [VectorBatch(["a"], outside)], terms=["x"])
        for broken in (VectorBatch(["a", "b"], outside), VectorBatch(["a"], outside._replace(indptr=np.array([0, 2])))):
            with refused(InputError, message=r"expected an id per row|got an indptr that does not ascend"):
                write_vectors(tmp_path / name, [broken], terms=["x"])
        assert list(tmp_path.iterdir()) == []
        twice = Csr(np.array([0, 3]), np.array([1, 0, 1]), np.array([1.0, 2.0, 3.0]), 2)
        write_vectors(tmp_path / name, [VectorBatch(["a"], twice)], terms=["x", "y"])
        assert read(open_vectors(tmp_path / name, KIND.get(name))) == Collection(["a"], [{"x": 2.0, "y": 4.0}]), name
        for entry in tmp_path.iterdir():
            entry.unlink()


@pytest.mark.parametrize("name", [*FILES, "docs.jsonl.zst", "docs.parquet"])
def test_nothing_is_not_written(tmp_path: Path, name: str) -> None:
    """No format has files of no vectors, and an empty file says that it is empty."""
    check_needs(name, AWKWARD["plain"])
    with refused(InputError, expected=rf"at least one vector to write to '.*{name}'", got="none"):
        write_vectors(tmp_path / name, [], terms=["x"])
    assert list(tmp_path.iterdir()) == []
    for content in (b"", b"\xef\xbb\xbf\r\n"):
        (tmp_path / name).write_bytes(content)
        with refused(InputError, where=rf"{name}'", expected="vectors or texts", got="an empty file"):
            open_vectors(tmp_path / name)


def test_files_beside_a_file(tmp_path: Path) -> None:
    """Each .bin and .csr has its own ids and terms: those of another stay, and none of an old file is left."""
    docs, queries = plain(), Collection(["q1", "q2"], [{"cat": 2.0}, {"dog": 1.0, "cat": 3.0}])
    for ending in ("bin", "csr"):
        for name, collection in (("docs", docs), ("queries", queries)):
            batches, terms = batches_of(collection)
            for overwrite in (False, True):
                write_vectors(tmp_path / f"{name}.{ending}", batches, terms=terms, overwrite=overwrite)
        assert read(open_vectors(tmp_path / f"docs.{ending}")) == docs
        assert read(open_vectors(tmp_path / f"queries.{ending}")) == queries
        sp.save_npz(tmp_path / "in.npz", sp.csr_matrix([[1.0, 2.0], [0.0, 3.0]]))
        write_vectors(tmp_path / f"queries.{ending}", open_vectors(tmp_path / "in.npz"), overwrite=True)
        reader = open_vectors(tmp_path / f"queries.{ending}")
        assert reader.terms is None
        assert read(reader) == Collection(["0", "1"], [{"0": 1.0, "1": 2.0}, {"1": 3.0}])
        assert read(open_vectors(tmp_path / f"docs.{ending}")) == docs
        (tmp_path / f"docs.{ending}").unlink()
        with refused(IndexExistsError, message=r"docs\..*ids\.(npy|txt)' exists already"):
            write_vectors(tmp_path / f"docs.{ending}", batches, terms=terms)


def test_files_that_seismic_shares(tmp_path: Path) -> None:
    """Seismic's own names are read, those of one file first; a file without names is not put beside them."""
    collection = Collection(["a", "b"], [{"x": 1.0}, {"y": 2.0}])
    batches, terms = batches_of(collection)
    write_vectors(tmp_path / "documents.bin", batches, terms=terms)
    for name in ("doc_ids.npy", "token_to_id_mapping.json"):
        (tmp_path / f"documents.bin.{name}").rename(tmp_path / name)
    assert read(open_vectors(tmp_path / "documents.bin")) == collection
    other = Collection(["c", "d"], [{"z": 1.0}, {"x": 2.0}])
    batches, terms = batches_of(other)
    write_vectors(tmp_path / "queries.bin", batches, terms=terms)
    assert read(open_vectors(tmp_path / "queries.bin")) == other
    assert read(open_vectors(tmp_path / "documents.bin")) == collection
    sp.save_npz(tmp_path / "in.npz", sp.csr_matrix([[1.0], [2.0]]))
    with refused(
        InputError,
        where=r"new\.bin'",
        expected="no file beside it that would be taken for its ids",
        got=r"doc_ids\.npy'",
        hint="choose another folder",
    ):
        write_vectors(tmp_path / "new.bin", open_vectors(tmp_path / "in.npz"))
    np.save(tmp_path / "queries.bin.doc_ids.npy", np.array(["c"]))
    with refused(InputError, expected=r"2 ids, one per vector of 'queries\.bin'", got="1"):
        open_vectors(tmp_path / "queries.bin")


@pytest.mark.parametrize("ending", ["gz", "xz", "zst"])
def test_compressed_csr(tmp_path: Path, ending: str) -> None:
    """BigANN's files as they are handed out: read, written, and refused where they are too short or too long."""
    name = f"docs.csr.{ending}"
    check_needs(name, AWKWARD["plain"])
    batches, terms = batches_of(plain(400))
    write_vectors(tmp_path / name, batches, terms=terms)
    assert format_of(tmp_path / name) == "csr"
    assert read(open_vectors(tmp_path / name, scratch=tmp_path)) == plain(400)
    data = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(data[: len(data) // 2])
    with refused(InputError, where=name, expected="a complete compressed stream", got="one that is cut short"):
        read(open_vectors(tmp_path / name))
    for entry in list(tmp_path.iterdir()):
        entry.unlink()
    write_vectors(tmp_path / "docs.csr", batches, terms=terms)
    content = (tmp_path / "docs.csr").read_bytes()
    (tmp_path / "docs.csr.gz").write_bytes(gzip.compress(content))
    assert not getattr(open_vectors(tmp_path / "docs.csr.gz"), "has_ids", True)  # those are of docs.csr
    (tmp_path / "docs.csr").unlink()  # as gzip does
    assert read(open_vectors(tmp_path / "docs.csr.gz")) == plain(400)
    sp.save_npz(tmp_path / "in.npz", sp.csr_matrix([[1.0]]))
    with refused(
        InputError,
        where=r"docs\.csr\.gz'",
        expected="no file beside it that would be taken for its ids",
        got=r"docs\.csr\.ids\.txt'",
        hint="choose another name",
    ):
        write_vectors(tmp_path / "docs.csr.gz", open_vectors(tmp_path / "in.npz"), overwrite=True)
    for wrong, got in ((content[:-4], str(len(content) - 4)), (content + b"1234", f"more than {len(content)}")):
        (tmp_path / "docs.csr.gz").write_bytes(gzip.compress(wrong))
        with refused(
            InputError, expected=rf"a \.csr file of {len(content)} bytes, as its header states", got=rf"{got}"
        ):
            read(open_vectors(tmp_path / "docs.csr.gz"))
    (tmp_path / "docs.csr.gz").write_bytes(gzip.compress(content[:20]))
    with refused(InputError, where=r"docs\.csr\.gz'", expected=r"a \.csr file"):
        open_vectors(tmp_path / "docs.csr.gz")


@pytest.mark.parametrize("name", ["docs.npz", "docs.bin", "docs.parquet"])
def test_formats_that_are_not_compressed(tmp_path: Path, name: str) -> None:
    """They say what to do."""
    check_needs(name, AWKWARD["plain"])
    batches, terms = batches_of(plain())
    write_vectors(tmp_path / name, batches, terms=terms)
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress((tmp_path / name).read_bytes()))
    with refused(InputError, where=rf"{name}\.gz'", expected="a file of", got="a compressed one", hint="decompress it"):
        open_vectors(tmp_path / f"{name}.gz")


# --- lines of JSON and of words --------------------------------------------------------------------------------------


def test_texts_beside_vectors_are_not_carried(tmp_path: Path) -> None:
    """What has no text says nothing about one, rather than that it is empty."""
    (tmp_path / "in.jsonl").write_text('{"id": "a\\", \\"contents\\": \\"\\"", "contents": "t", "vector": {"x": 1}}\n')
    write_vectors(tmp_path / "out.jsonl", open_vectors(tmp_path / "in.jsonl"))
    assert json.loads((tmp_path / "out.jsonl").read_text()) == {"id": 'a", "contents": ""', "vector": {"x": 1}}


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ("1\tcat cat dog\n2\tdog dog dog\n", "tokens"),
        ("a\tcat dog dog\nb\tdog\n", "tokens"),
        ("a: cat dog dog\nb: dog\n", "tokens"),
        ("a\tcat cat cat dog dog\n", "tokens"),
        ("".join(f"{i}\t{' '.join(f'w{i}{j}' for j in range(8))} x x\n" for i in range(9)), "tokens"),
        ("a\tcat dog\nb\tdog\n", "tsv-text"),
        ("q1\tduran duran tour\n", "tsv-text"),
        ("q1\twho are duran duran\nq2\thotels in bora bora\nq3\thow high is mont blanc\n", "tsv-text"),
        ("q1\tto be or not to be be\nq2\tthe the band of the nineties\n", "tsv-text"),
    ],
)
def test_repeated_words_and_text_are_distinguished(tmp_path: Path, content: str, kind: str) -> None:
    """Words that repeat the one before, more often than in text, are weights; with weights of 1, both look alike."""
    (tmp_path / "queries.tsv").write_text(content)
    assert format_of(tmp_path / "queries.tsv") == kind
    if kind == "tsv-text":
        with refused(InputError, hint="as often as its weight says, pass {format='tokens'}"):
            open_vectors(tmp_path / "queries.tsv")
        assert len(read(open_vectors(tmp_path / "queries.tsv", "tokens")).ids) == len(content.splitlines())


@pytest.mark.parametrize(
    ("content", "line", "got"),
    [
        ("d1\tfine\nd2\tcaf\xe9\n".encode("latin-1"), 2, "the byte 0xe9"),
        (b"d1\tfine\nd2\tnul\x01\n", 2, "the control character 0x01"),
        ("caf\xe9 au lait".encode("latin-1"), 1, "the byte 0xe9"),
    ],
)
def test_text_that_is_not_utf8(tmp_path: Path, content: bytes, line: int, got: str) -> None:
    """The error has the line."""
    for name in ("texts.tsv", "texts"):
        (tmp_path / name).write_bytes(content)
        with refused(InputError, where=f"{name}', line {line}$", expected="UTF-8", got=got, hint="convert it"):
            format_of(tmp_path / name)


# --- .npz ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compressed", [False, True])
def test_npz_with_ids_and_terms_of_numpy(tmp_path: Path, compressed: bool) -> None:
    """Arrays of strings, or of integers for ids, beside scipy's; scipy reads the file as ever."""
    matrix = sp.csr_matrix(np.array([[0, 2], [1, 0]], np.float32))
    arrays = {name: getattr(matrix, name) for name in ("indices", "indptr", "data", "shape")} | {"format": b"csr"}
    save = np.savez_compressed if compressed else np.savez
    save(tmp_path / "a.npz", **arrays, ids=np.array(["d1", "日本"]), terms=np.array(["x", "y"]))  # type: ignore[arg-type]
    assert read(open_vectors(tmp_path / "a.npz")) == Collection(["d1", "日本"], [{"y": 2}, {"x": 1}])
    save(tmp_path / "b.npz", **arrays, ids=np.array([7, 9]))  # type: ignore[arg-type]
    assert read(open_vectors(tmp_path / "b.npz")).ids == ["7", "9"]
    for wrong, parts in (
        ({"ids": np.array(["a"])}, {"expected": "2 ids, one per row", "got": "1"}),
        ({"terms": np.array(["a"])}, {"expected": "2 terms"}),
        ({"ids": np.array([1.5, 2])}, {"expected": "ids as strings", "got": "float64"}),
    ):
        save(tmp_path / "c.npz", **{**arrays, **wrong})  # type: ignore[arg-type]
        with refused(InputError, **parts):
            read(open_vectors(tmp_path / "c.npz"))


def test_npz_is_what_scipy_reads(tmp_path: Path) -> None:
    """A written file is a CSR matrix to scipy, in the smallest type that holds its weights; always the same bytes."""
    for collection, dtype in ((plain(), np.uint16), (plain(whole=False), np.float32)):
        batches, terms = batches_of(collection)
        for name in ("a.npz", "b.npz"):
            write_vectors(tmp_path / name, batches, terms=terms, overwrite=True)
        matrix = sp.load_npz(tmp_path / "a.npz")
        assert matrix.shape == (40, len(terms))
        assert matrix.data.dtype == dtype
        rows = [dict(zip([terms[c] for c in row.indices], row.data.tolist(), strict=True)) for row in matrix]
        assert rows == collection.rows
        assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_uncompressed_members_are_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No byte of a large member goes through a read; and slices are views of the file where they lie aligned."""
    matrix = sp.random(3 * SLAB_DOCS, 50, density=0.1, format="csr", dtype=np.float32, random_state=1)
    sp.save_npz(tmp_path / "docs.npz", matrix, compressed=False)
    amount = 0
    real = zipfile.ZipExtFile.read

    def counted(self: Any, n: int | None = -1) -> bytes:
        nonlocal amount
        data = real(self, n)
        amount += len(data)
        return data

    monkeypatch.setattr(zipfile.ZipExtFile, "read", counted)
    total = sum(len(batch.vectors.indices) for batch in open_vectors(tmp_path / "docs.npz").batches())
    assert total == matrix.nnz
    assert amount < 5000


@pytest.mark.deep
def test_memory_does_not_depend_on_the_file(tmp_path: Path) -> None:
    """Four times as many documents take no more memory, but for their ids, in any format."""
    import tracemalloc

    peaks: dict[str, list[int]] = {}
    for num_docs in (20_000, 60_000):
        rng = np.random.default_rng(0)
        for name in ("docs.jsonl", "docs.jsonl.gz", "docs.csr", "docs.npz"):
            docs = sp.random(num_docs, 2000, density=0.01, format="csr", random_state=rng)
            docs.data[:] = 1 + docs.data * 100 // 1
            vectors = Csr(docs.indptr.astype(np.int64), docs.indices, docs.data, 2000)
            write_vectors(tmp_path / name, [VectorBatch(list(map(str, range(num_docs))), vectors)], overwrite=True)
            tracemalloc.start()
            for found in open_vectors(tmp_path / name).batches():
                del found
            peaks.setdefault(name, []).append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    for name, (small, large) in peaks.items():
        assert large < small * 1.5 + 4e6, (name, small, large)


# --- CIFF ------------------------------------------------------------------------------------------------------------


def varint(value: int) -> bytes:
    """A varint, by hand."""
    return bytes([value & 127 | 128]) + varint(value >> 7) if value > 127 else bytes([value])


def number(field: int, value: int) -> bytes:
    """A field of a number; protobuf leaves zeros out."""
    return varint(field << 3) + varint(value) if value else b""


def text(field: int, value: bytes) -> bytes:
    """A field of bytes."""
    return varint(field << 3 | 2) + varint(len(value)) + value


def message(content: bytes) -> bytes:
    """A message with its length in front."""
    return varint(len(content)) + content


def slow_ciff(lists: dict[str, dict[int, int]], ids: list[str], extra: bytes = b"") -> bytes:
    """A CIFF file, a field at a time."""
    out = message(
        number(1, 1) + number(2, len(lists)) + number(3, len(ids)) + number(4, 99) + number(5, 77) + number(6, 16)
        + b"\x39" + struct.pack("<d", 16 / 3) + text(8, b"Export of a toy collection") + extra
    )  # fmt: skip
    for term, postings in lists.items():
        body, before = b"", 0
        for doc, tf in postings.items():
            body += text(4, number(1, doc - before) + number(2, tf) + extra)
            before = doc
        counts = number(2, len(postings)) + number(3, sum(postings.values()))
        out += message(text(1, term.encode()) + counts + body + extra)
    for row, name in enumerate(ids):
        out += message(number(1, row) + text(2, name.encode()) + number(3, 5) + extra)
    return out


TOY = {"01": {0: 1}, "03": {0: 1}, "30": {0: 1}, "content": {0: 1}, "enough": {2: 1}, "head": {0: 1, 1: 1, 2: 1},
       "simpl": {1: 1, 2: 1}, "text": {0: 1, 1: 1, 2: 3}, "veri": {1: 1}}  # fmt: skip


@pytest.mark.parametrize("extra", [b"", number(15, 3), text(14, b"unknown"), varint(13 << 3 | 5) + b"abcd"])
def test_the_toy_collection_of_ciff(tmp_path: Path, extra: bytes) -> None:
    """The three documents that Anserini exported and PISA tests with, also with fields of later versions."""
    (tmp_path / "toy.ciff").write_bytes(slow_ciff(TOY, ["WSJ_1", "TREC_DOC_1", "DOC222"], extra))
    reader = open_vectors(tmp_path / "toy.ciff")
    assert reader.num_docs == 3
    found = read(reader)
    assert found.ids == ["WSJ_1", "TREC_DOC_1", "DOC222"]
    assert list(reader.terms or []) == list(TOY)
    assert found.rows == [{term: docs[row] for term, docs in TOY.items() if row in docs} for row in range(3)]


Parsed = tuple[dict[int, list[Any]], dict[str, list[tuple[int, int]]], list[tuple[int, str, int]]]


def parsed_ciff(data: bytes) -> Parsed:
    """Read a CIFF file by hand: the slow twin of the parser."""

    def take(place: int) -> tuple[int, int]:
        value = shift = 0
        while True:
            value |= (data[place] & 127) << shift
            shift += 7
            place += 1
            if data[place - 1] < 128:
                return value, place

    def fields(place: int, end: int) -> Iterator[tuple[int, Any]]:
        while place < end:
            tag, place = take(place)
            if tag & 7 == 0:
                value, place = take(place)
                yield tag >> 3, value
            elif tag & 7 == 1:
                yield tag >> 3, struct.unpack("<d", data[place : place + 8])[0]
                place += 8
            else:
                length, place = take(place)
                yield tag >> 3, (place, place + length)
                place += length

    def next_message(place: int) -> tuple[dict[int, list[Any]], int]:
        length, place = take(place)
        found: dict[int, list[Any]] = {}
        for name, value in fields(place, place + length):
            found.setdefault(name, []).append(value)
        return found, place + length

    header, place = next_message(0)
    lists: dict[str, list[tuple[int, int]]] = {}
    for _ in range(header[2][0]):
        content, place = next_message(place)
        postings, doc = [], 0
        for span in content.get(4, []):
            posting = dict(fields(*span))
            doc += posting.get(1, 0)
            postings.append((doc, posting.get(2, 0)))
        assert content[2] == [len(postings)]
        assert content[3] == [sum(tf for _, tf in postings)]
        lists[data[slice(*content[1][0])].decode()] = postings
    docs = []
    for _ in range(header[3][0]):
        content, place = next_message(place)
        docs.append((content.get(1, [0])[0], data[slice(*content[2][0])].decode(), content.get(3, [0])[0]))
    assert place == len(data)
    return header, lists, docs


def test_what_is_written_as_ciff(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists in the order of their terms, counts in the header, lengths of documents; also where chunks are small."""
    from segmax.io import ciff_writer

    for chunk in (1 << 22, 10):
        monkeypatch.setattr(ciff_writer, "_CHUNK_POSTINGS", chunk)
        collection = plain()
        batches, terms = batches_of(collection)
        write_vectors(tmp_path / "docs.ciff", batches, terms=terms, overwrite=True)
        header, lists, docs = parsed_ciff((tmp_path / "docs.ciff").read_bytes())
        assert list(lists) == sorted(lists)
        total = int(sum(sum(row.values()) for row in collection.rows))
        assert [header[i][0] for i in range(1, 7)] == [1, len(lists), 40, len(lists), 40, total]
        assert header[7] == [total / 40]
        for term, postings in lists.items():
            assert postings == [(row, int(docs_[term])) for row, docs_ in enumerate(collection.rows) if term in docs_]
        assert docs == [(row, name, int(sum(collection.rows[row].values()))) for row, name in enumerate(collection.ids)]


def test_ciff_in_many_buckets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However few documents share a bucket, and however small its blocks, rows are the same."""
    from segmax.io import ciff

    batches, terms = batches_of(plain())
    write_vectors(tmp_path / "docs.ciff", batches, terms=terms)
    for bucket, buffers in ((100, 1), (300, 1 << 12), (1, 1 << 20)):
        monkeypatch.setattr(ciff, "_BUCKET_BYTES", bucket)
        monkeypatch.setattr(ciff, "_BUFFER_BYTES", buffers)
        assert read(open_vectors(tmp_path / "docs.ciff")) == plain()


@pytest.mark.parametrize(
    ("lists", "ids", "parts"),
    [
        (
            {"a": {5: 1}},
            ["x"],
            {"where": r'postings list 1 of 1 \("a"\)', "expected": "documents from 0 to 1 - 1", "got": "5"},
        ),
        ({"a": {0: 1}}, ["x", "y", "z"], None),
        ({}, [], None),
        ({"": {0: 2}}, ["x"], None),
        ({"a": {0: 2}}, [""], {"where": r"docs\.ciff', row 0", "expected": "an id", "got": "an empty string"}),
    ],
)
def test_odd_ciff(
    tmp_path: Path, lists: dict[str, dict[int, int]], ids: list[str], parts: dict[str, str] | None
) -> None:
    """Documents without postings, no documents, an empty term; a document that is not there."""
    (tmp_path / "docs.ciff").write_bytes(slow_ciff(lists, ids))
    if parts is None:
        assert read(open_vectors(tmp_path / "docs.ciff")).ids == ids
    else:
        with refused(InputError, **parts):
            read(open_vectors(tmp_path / "docs.ciff"))


# --- parquet and datasets --------------------------------------------------------------------------------------------


def test_parquet_columns_of_others(tmp_path: Path) -> None:
    """Structs of indices and values, maps, pairs of lists, integers as ids, null rows, dictionaries."""
    arrow = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    numbers = [{"indices": [3, 1], "values": [0.5, 2.0]}, {"indices": [], "values": []}]
    words = [[("x", 1.0), ("y", 2.0)], []]
    tables = {
        "struct": {"docid": [4, 5], "sparse": numbers},
        "pair": {"_id": ["4", "5"], "indices": [[3, 1], []], "values": [[0.5, 2.0], None]},
        "map": {"id": ["4", "5"], "vector": arrow.array(words, arrow.map_(arrow.string(), arrow.float32()))},
        "tokens": {"id": ["4", "5"], "tokens": [["x", "y"], []], "weights": [[1, 2], []]},
    }
    for name, columns in tables.items():
        pq.write_table(arrow.table(columns), tmp_path / f"{name}.parquet")
        expected = {"3": 0.5, "1": 2.0} if name in ("struct", "pair") else {"x": 1.0, "y": 2.0}
        reader = open_vectors(tmp_path / f"{name}.parquet")
        assert reader.num_docs == 2
        assert read(reader) == Collection(["4", "5"], [expected, {}]), name
    pq.write_table(arrow.table({"id": ["a"], "text": ["b"]}), tmp_path / "none.parquet")
    with refused(InputError, where=r"none\.parquet'", expected="sparse columns", got="id: string, text: string"):
        open_vectors(tmp_path / "none.parquet")
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "map.parquet").read_bytes()[:-20])
    with refused(InputError, where=r"cut\.parquet'", message="could not be read"):
        open_vectors(tmp_path / "cut.parquet")
    (tmp_path / "folder").mkdir()
    for part in (1, 2):
        table = arrow.table({**tables["tokens"], "id": [f"{part}a", f"{part}b"]})
        pq.write_table(table, tmp_path / "folder" / f"{part}.parquet")
    assert read(open_vectors(tmp_path / "folder")).ids == ["1a", "1b", "2a", "2b"]


def test_folders_of_datasets(tmp_path: Path) -> None:
    """What datasets saves to disk, with one split or none; with several, one has to be chosen."""
    datasets = pytest.importorskip("datasets")
    made = datasets.Dataset.from_dict({"id": ["a", "b"], "indices": [[1, 2], [0]], "values": [[1.0, 2.0], [3.0]]})
    made.save_to_disk(tmp_path / "plain")
    expected = Collection(["a", "b"], [{"1": 1.0, "2": 2.0}, {"0": 3.0}])
    assert format_of(tmp_path / "plain") == "parquet"
    assert read(open_vectors(tmp_path / "plain")) == expected
    datasets.DatasetDict({"train": made}).save_to_disk(tmp_path / "one")
    assert read(open_vectors(tmp_path / "one")) == expected
    datasets.DatasetDict({"train": made, "test": made}).save_to_disk(tmp_path / "two")
    with refused(InputError, got="the splits train, test", hint="choose one"):
        open_vectors(tmp_path / "two")


def test_invalid_parquet_is_refused(tmp_path: Path) -> None:
    """Column numbers that are none, weights that are words, files that do not fit together."""
    arrow = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "docs.parquet"

    def table(indices: Any, values: Any) -> Any:
        return arrow.table({"pid": ["a"], "indices": [indices], "values": [values]})

    pq.write_table(table([1.0, 3.0], [1, 2]), path)
    assert read(open_vectors(path)) == Collection(["a"], [{"1": 1.0, "3": 2.0}])
    for indices, values, parts in (
        ([1.5], [1.0], {"expected": "whole numbers as column numbers", "got": r"1\.5"}),
        ([float("nan")], [1.0], {"expected": "whole numbers as column numbers", "got": "nan"}),
        ([1e300], [1.0], {"expected": "whole numbers as column numbers", "got": r"1e\+300"}),
        ([-1], [1.0], {"expected": "column numbers from 0 to -1", "got": "-1"}),
        ([None], [1.0], {"expected": "terms as words or whole numbers"}),
        ([1], ["1.0"], {"expected": ".* weights as numbers", "got": "int64, string"}),
        ([True], [1.0], {"expected": "terms as words or whole numbers", "got": "bool, double"}),
    ):
        pq.write_table(table(indices, values), path)
        with refused(InputError, where=r"docs\.parquet'", **parts):
            read(open_vectors(path))
    pq.write_table(table([1], [1.0]), path)
    pq.write_table(arrow.table({"id": ["a"], "tokens": [["x"]], "weights": [[1.0]]}), tmp_path / "other.parquet")
    with refused(InputError, where=r"other\.parquet'", expected=r"the columns of 'docs\.parquet'"):
        open_vectors(tmp_path)


def test_parquet_is_not_read_by_row_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a file that is one row group, pyarrow holds buffers, not columns."""
    arrow = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    rng = np.random.default_rng(0)
    count, each = 20_000, 50
    ends = arrow.array(np.arange(0, count * each + 1, each, dtype=np.int32))
    entries = {"indices": rng.integers(0, 1 << 20, count * each), "values": rng.random(count * each)}
    table = arrow.table({name: arrow.ListArray.from_arrays(ends, arrow.array(v)) for name, v in entries.items()})
    pq.write_table(table, tmp_path / "docs.parquet", row_group_size=count)
    del table, entries, ends
    monkeypatch.setattr("segmax.io.arrow_batches.BATCH_ROWS", 1 << 8)
    monkeypatch.setattr("segmax.io.arrow_batches.BUFFER_BYTES", 1 << 16)
    before = arrow.total_allocated_bytes()
    held = [arrow.total_allocated_bytes() - before for _ in open_vectors(tmp_path / "docs.parquet").batches()]
    arrow.default_memory_pool().release_unused()
    assert max(held) < (tmp_path / "docs.parquet").stat().st_size / 2


def test_parquet_of_several_splits(tmp_path: Path) -> None:
    """As the hub has them: one split is read, several are not mixed."""
    arrow = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    (tmp_path / "data").mkdir()
    for part in range(2):
        table = arrow.table({"id": [str(part)], "indices": [[part]], "values": [[1.0]]})
        pq.write_table(table, tmp_path / "data" / f"train-{part:05}-of-00002.parquet")
    assert read(open_vectors(tmp_path)).ids == ["0", "1"]
    for name in ("test-00000-of-00001", "test", "validation_0"):
        pq.write_table(table, tmp_path / "data" / f"{name}.parquet")
        with refused(
            InputError, expected=r"as in '.*\*\.parquet'", got="the splits .*train", hint="name the files of one"
        ):
            open_vectors(tmp_path)
        (tmp_path / "data" / f"{name}.parquet").unlink()


def test_arrow_files_under_any_name(tmp_path: Path) -> None:
    """Parquet, Arrow's files (feather) and its streams are recognized by content."""
    arrow = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    ipc = pytest.importorskip("pyarrow.ipc")
    table = arrow.table({"id": ["a"], "tokens": [["x", "y"]], "weights": [[1.0, 2.0]]})
    for ending in ("parquet", "arrow", "feather", "data"):
        pq.write_table(table, tmp_path / f"parquet.{ending}")
        for kind, new in (("file", ipc.new_file), ("stream", ipc.new_stream)):
            with new(str(tmp_path / f"{kind}.{ending}"), table.schema) as writer:
                writer.write_table(table)
        for kind in ("parquet", "file", "stream"):
            assert format_of(tmp_path / f"{kind}.{ending}") == "parquet"
            assert read(open_vectors(tmp_path / f"{kind}.{ending}")) == Collection(["a"], [{"x": 1.0, "y": 2.0}])
    (tmp_path / "no.feather").write_bytes(b"something else")
    with refused(InputError, where=r"no\.feather'", message="could not be read"):
        open_vectors(tmp_path / "no.feather")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("dataset_dict.json", '{"splits": []}'),
        ("dataset_dict.json", "[]"),
        ("dataset_dict.json", '{"splits": [3]}'),
        ("dataset_dict.json", '{"splits": 3}'),
        ("state.json", "\x00garbage"),
        ("state.json", "{}"),
        ("state.json", '{"_data_files": []}'),
        ("state.json", '{"_data_files": [{"name": "x"}]}'),
        ("state.json", '{"_data_files": ["x"]}'),
    ],
)
def test_damaged_folders_of_datasets(tmp_path: Path, name: str, content: str) -> None:
    """They are an InputError with the name of the file."""
    (tmp_path / name).write_text(content)
    with refused(InputError, where=name, expected="what datasets writes, names under", hint="save the dataset"):
        open_vectors(tmp_path)


# --- damage ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["docs.jsonl.gz", "docs.jsonl.xz", "docs.jsonl.zst", "docs.ciff.gz"])
def test_a_compressed_file_that_is_cut_short(tmp_path: Path, name: str) -> None:
    """It says so, wherever it breaks off; a damaged one says that."""
    check_needs(name, AWKWARD["plain"])
    batches, terms = batches_of(plain(400))
    write_vectors(tmp_path / name, batches, terms=terms)
    data = (tmp_path / name).read_bytes()
    for length in (len(data) // 2, len(data) - 3):
        (tmp_path / name).write_bytes(data[:length])
        with refused(InputError, where=name, got="one that is cut short: it ends before the end mark"):
            read(open_vectors(tmp_path / name, name.split(".")[1]))
    middle = len(data) // 2
    changed = bytes(byte ^ 0x55 for byte in data[middle : middle + 40])
    (tmp_path / name).write_bytes(data[:middle] + changed + data[middle + 40 :])
    with refused(InputError, where=name):
        read(open_vectors(tmp_path / name, name.split(".")[1]))


@pytest.mark.parametrize("name", ["docs.npz", "docs.ciff", "docs.csr", "docs.bin", "docs.jsonl"])
def test_damaged_files(tmp_path: Path, name: str) -> None:
    """Cut short or changed anywhere, a file is read, or is an InputError with its name; never anything else."""
    check_needs(name, AWKWARD["plain"])
    batches, terms = batches_of(plain())
    write_vectors(tmp_path / name, batches, terms=terms)
    data = (tmp_path / name).read_bytes()
    rng = np.random.default_rng(2)
    bad = tmp_path / name
    for length in [0, 1, 4, 23, *rng.integers(0, len(data), 30).tolist(), len(data) - 1]:
        bad.write_bytes(data[:length])
        if name == "docs.jsonl":  # cut between lines, it is whole
            continue
        with refused(InputError, where=name):
            read(open_vectors(bad, name.split(".")[1].replace("bin", "seismic")))
    for place in rng.integers(0, len(data), 150).tolist():
        bad.write_bytes(data[:place] + bytes([data[place] ^ (1 << int(rng.integers(8)))]) + data[place + 1 :])
        message = name
        try:
            for _ in open_vectors(bad, name.split(".")[1].replace("bin", "seismic")).batches():
                pass
        except InputError as error:
            message = str(error)
        assert name in message


def test_files_without_vectors_are_refused(tmp_path: Path) -> None:
    """Text, nothing, and what is not there; and formats that do not exist."""
    (tmp_path / "text.tsv").write_text("d1\tsome words of text\nd2\tand more\n")
    with refused(InputError, expected=r"an \.npz file", got="columns of text", hint="encode it first"):
        open_vectors(tmp_path / "text.tsv")
    (tmp_path / "text.jsonl").write_text('{"id": "a", "text": "words"}\n')
    with refused(InputError, got="lines of JSON with texts"):
        open_vectors(tmp_path / "text.jsonl")
    (tmp_path / "odd").write_bytes(bytes(range(256)))
    with refused(InputError, where="odd'", expected=r"an \.npz file of scipy\.sparse\.save_npz, lines of JSON"):
        open_vectors(tmp_path / "odd")
    with refused(InputError, message="there is no file"):
        open_vectors(tmp_path / "none.jsonl")
    with refused(ConfigError, option="format", expected="one of npz, jsonl"):
        open_vectors(tmp_path / "odd", "xml")
    with refused(ConfigError, expected="a format out of npz,", got=r"the name 'docs\.xml'"):
        write_vectors(tmp_path / "docs.xml", [])


# --- writing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in [*FILES, "docs.parquet"] if name.count(".") == 1])
def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path, name: str) -> None:
    """Whatever goes wrong in the middle, the old file stays and no part of a new one is left."""
    check_needs(name, AWKWARD["plain"])
    batches, terms = batches_of(plain())
    write_vectors(tmp_path / name, batches, terms=terms)
    before = {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()}

    def broken() -> Iterator[VectorBatch]:
        yield from batches[:3]
        raise RuntimeError("gone")

    with pytest.raises(RuntimeError, match="gone"):
        write_vectors(tmp_path / name, broken(), terms=terms, overwrite=True)
    with refused(IndexExistsError, message=f"{name}' exists already", hint="pass {overwrite=True} to replace it"):
        write_vectors(tmp_path / name, batches, terms=terms)
    assert {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()} == before


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A WriteError that says why; nothing is left."""
    batches, terms = batches_of(plain())

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with refused(WriteError, message=r"could not write '.*docs\.jsonl' \(No space left on device\): nothing was"):
        write_vectors(tmp_path / "docs.jsonl", batches, terms=terms)
    assert list(tmp_path.iterdir()) == []


def test_places_to_write_to(tmp_path: Path) -> None:
    """A folder that is not there, or one in the way."""
    with refused(InputError, expected="an existing directory to put the file in"):
        write_vectors(tmp_path / "none" / "docs.jsonl", [])
    (tmp_path / "docs.jsonl").mkdir()
    with refused(IndexExistsError, expected="the path of a file", got="the directory"):
        write_vectors(tmp_path / "docs.jsonl", [], overwrite=True)


def test_strings_that_a_format_cannot_hold(tmp_path: Path) -> None:
    """Line ends in ids of .csr, blanks in words that are repeated, half surrogate pairs anywhere."""
    cases = [
        ("docs.csr", Collection(["a\nb"], [{"x": 1.0}]), "ids that fit on a line", r"'a\\nb'"),
        ("docs.tsv", Collection(["a"], [{"x y": 1.0}]), "terms without blanks", "'x y'"),
        ("docs.tsv", Collection(["a\tb"], [{"x": 1.0}]), "ids without tabs", r"'a\\tb'"),
        ("docs.jsonl", Collection(["\ud800"], [{"x": 1.0}]), "strings that UTF-8 can hold", "ud800"),
        ("docs.npz", Collection(["a"], [{"\ud800": 1.0}]), "strings that UTF-8 can hold", "ud800"),
    ]
    for name, collection, expected, got in cases:
        batches, terms = batches_of(collection)
        with refused(InputError, expected=expected, got=got):
            write_vectors(tmp_path / name, batches, terms=terms)
        assert list(tmp_path.iterdir()) == []


# --- real files ------------------------------------------------------------------------------------------------------


@pytest.mark.deep
def test_published_vectors(shared: Path) -> None:
    """NFCorpus as Anserini publishes it, read by both readers."""
    path = shared / "data" / "nfcorpus" / "splade-v3" / "docs.jsonl.gz"
    found = read(open_vectors(path))
    with gzip.open(path, "rt", encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    assert found.ids == [record["id"] for record in records]
    assert found.rows == [record["vector"] for record in records]


def test_ciff_of_another_tool(tmp_path: Path) -> None:
    """ciff-toolkit, on protobuf's own library, writes a file that is read here, and reads one that is written here."""
    pytest.importorskip("google.protobuf")
    toolkit = pytest.importorskip("ciff_toolkit.write")
    ciff_pb2 = pytest.importorskip("ciff_toolkit.ciff_pb2")
    reading = pytest.importorskip("ciff_toolkit.read")
    collection = plain()
    names = sorted({term for row in collection.rows for term in row})
    with toolkit.CiffWriter(str(tmp_path / "theirs.ciff")) as writer:
        writer.write_header(
            ciff_pb2.Header(version=1, num_postings_lists=len(names), num_docs=40, total_docs=40, description="theirs")
        )
        lists = []
        for term in names:
            rows = [row for row, docs in enumerate(collection.rows) if term in docs]
            gaps = np.diff(rows, prepend=0).tolist()
            postings = [
                ciff_pb2.Posting(docid=gap, tf=int(collection.rows[row][term]))
                for row, gap in zip(rows, gaps, strict=True)
            ]
            lists.append(ciff_pb2.PostingsList(term=term, df=len(rows), cf=1, postings=postings))
        writer.write_postings_lists(lists)
        writer.write_documents(
            ciff_pb2.DocRecord(docid=row, collection_docid=name, doclength=3) for row, name in enumerate(collection.ids)
        )
    assert read(open_vectors(tmp_path / "theirs.ciff")) == collection
    batches, terms = batches_of(collection)
    write_vectors(tmp_path / "ours.ciff", batches, terms=terms)
    with reading.CiffReader(str(tmp_path / "ours.ciff")) as reader:
        header = reader.read_header()
        assert (header.num_postings_lists, header.num_docs) == (len(names), 40)
        theirs = {pl.term: pl for pl in reader.read_postings_lists()}
        assert list(theirs) == names
        for term, content in theirs.items():
            found = zip(np.cumsum([p.docid for p in content.postings]), (p.tf for p in content.postings), strict=True)
            rows = [(row, docs[term]) for row, docs in enumerate(collection.rows) if term in docs]
            assert [(int(row), float(tf)) for row, tf in found] == rows
        assert [doc.collection_docid for doc in reader.read_documents()] == collection.ids


def test_packages_that_are_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compressed and columnar files say what to install."""
    (tmp_path / "docs.jsonl.zst").write_bytes(b"\x28\xb5\x2f\xfd" + bytes(20))
    (tmp_path / "docs.parquet").write_bytes(b"PAR1" + bytes(20))
    for module in ("zstandard", "pyarrow"):
        monkeypatch.setitem(sys.modules, module, None)
    with refused(MissingPackageError, message=r"docs\.jsonl\.zst' needs", hint=r"pip install 'segmax\[zstd\]'"):
        open_vectors(tmp_path / "docs.jsonl.zst")
    with refused(MissingPackageError, message="needs pyarrow", hint=r"pip install 'segmax\[arrow\]'"):
        open_vectors(tmp_path / "docs.parquet")
    batches, terms = batches_of(plain())
    for name in ("new.jsonl.zst", "new.parquet"):
        with refused(MissingPackageError, hint="pip install 'segmax"):
            write_vectors(tmp_path / name, batches, terms=terms)
    assert len(list(tmp_path.iterdir())) == 2
