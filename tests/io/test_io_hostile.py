"""Files that are damaged or hostile: every reader raises an InputError that names the file, in bounded memory and time.

Formats whose libraries could crash, or ask for memory without end, are tried in a process of their own.
"""

from __future__ import annotations

import gzip
import json
import lzma
import os
import random
import socket
import struct
import subprocess
import sys
import threading
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from test_io_vectors import batches_of, plain

import segmax
from conftest import refused
from segmax.errors import InputError, SegmaxError
from segmax.io import (
    format_of,
    open_texts,
    open_vectors,
    read_qrels,
    read_queries,
    read_run,
    write_qrels,
    write_run,
    write_vectors,
)
from segmax.io.streams import MAX_LINE_BYTES, read_blocks, read_lines

MIB = 1 << 20


# --- one small file of every format, changed at random ---------------------------------------------------------------


def everything(source: Any) -> None:
    """Read all that there is."""
    reader = open_vectors(source)
    _ = reader.num_docs
    for batch in reader.batches():
        assert len(batch.ids) == batch.vectors.num_rows
    _ = reader.terms


def all_texts(source: Any) -> None:
    """Read all texts, twice, as a build does."""
    reader = open_texts(source)
    for _ in range(2):
        for document in reader:
            assert isinstance(document.text, str)


READERS: dict[str, Callable[[Any], Any]] = {
    "open_vectors": everything,
    "open_texts": all_texts,
    "read_queries": read_queries,
    "read_qrels": read_qrels,
    "read_run": read_run,
    "format_of": format_of,
}
TEXTS: dict[str, str] = {
    "docs.jsonl": '{"id": "d1", "title": "A", "text": "caf\\u00e9 \\ud83d\\ude00"}\n{"id": 2, "text": "b"}\n' * 1,
    "array.json": '[{"id": "d1", "text": "one"},\n {"id": "d2", "title": "T", "text": "two"}]\n',
    "docs.csv": 'id,title,text\n1,"A ""b""","first\nsecond"\n2,,third\n',
    "docs.tsv": "d1\tone two\nd2\tthree\n",
    "headed.tsv": 'id\ttext\nd1\t"one ""two"""\nd2\tthree\n',
    "lines.txt": "one\ntwo\n",
    "tokens.tsv": "q1\tcat cat cat dog dog\nq2\tdog dog\n",
    "topics.txt": "<top>\n<num> Number: 301\n<title> crime\n<desc> Description:\nwhat\n</top>\n",
    "vectors.jsonl": '{"id": "d1", "vector": {"a": 1.5, "b": 2}}\n{"id": "d2", "vector": {}}\n',
    "queries.jsonl": '{"_id": "q1", "text": "what"}\n{"_id": "q2", "text": "why"}\n',
    "qrels.txt": "q1 0 d1 1\nq1 0 d2 0\n",
    "qrels.tsv": "query-id\tcorpus-id\tscore\nq1\td1\t1\n",
    "run.trec": "q1 Q0 d1 1 2.5 tag\nq1 Q0 d2 2 1.5 tag\n",
}
VECTORS = ["docs.npz", "docs.ciff", "docs.csr", "docs.bin", "docs.jsonl.gz", "docs.jsonl.xz", "docs.csr.gz"]
WITH_PACKAGES = ["docs.jsonl.zst", "docs.parquet"]


def small_file(folder: Path, name: str) -> Path:
    """A small file of that format."""
    path = folder / name
    if name in TEXTS:
        path.write_text(TEXTS[name])
    elif name == "compressed.npz":
        sp.save_npz(path, sp.random(20, 30, 0.2, "csr", random_state=1))
    elif name == "coo.npz":
        sp.save_npz(path, sp.random(20, 30, 0.2, "coo", random_state=1))
    else:
        pytest.importorskip({"zst": "zstandard", "parquet": "pyarrow"}.get(name.rsplit(".")[-1], "segmax"))
        batches, terms = batches_of(plain(12))
        write_vectors(path, batches, terms=terms)
    return path


def changed(content: bytes, rng: random.Random) -> bytes:
    """The content with bytes flipped, cut off, put in, repeated or behind it."""
    data = bytearray(content)
    way = rng.randrange(8)
    at = rng.randrange(len(data))
    if way == 0:
        return bytes(data[:at])
    if way == 1:
        return bytes(data) + rng.randbytes(rng.randrange(1, 40))
    if way == 2:
        return bytes(data[:at] + rng.randbytes(rng.randrange(1, 9)) + data[at:])
    if way == 3:
        return bytes(data[:at] + data[max(0, at - 30) : at] * 3 + data[at:])
    for _ in range(rng.choice([1, 1, 2, 5, 20])):
        at = rng.randrange(len(data))
        data[at] = rng.choice([0, 255, 0x22, 0x7B, data[at] ^ 1 << rng.randrange(8), rng.randrange(256)])
    return bytes(data)


@pytest.mark.parametrize("tries", [25, pytest.param(60, marks=pytest.mark.deep)])
def test_changed_files(tmp_path: Path, tries: int) -> None:
    """Whatever a reader makes of a changed file, it is an answer or an error that names the file."""
    names = [*TEXTS, *VECTORS, "compressed.npz", "coo.npz"]
    for number, name in enumerate(names):
        check_changed(small_file(tmp_path, name), seed=number, tries=tries)


@pytest.mark.parametrize("name", ["path-of-numbers", "column-that-is-a-list", "encodings-of-texts"])
def test_footers_that_pyarrow_reads_in_another_way(name: str) -> None:
    """Which type a list declares, pyarrow ignores; whoever believes the file would check other pages than it reads."""
    pytest.importorskip("pyarrow")
    with pytest.raises(InputError, match=r"a list has elements of another type|a struct is something else"):
        segmax.build(Path(__file__).parents[1] / "fuzz" / "corpus" / "parquet" / name)


@pytest.mark.parametrize("name", WITH_PACKAGES)
def test_changed_files_of_packages(tmp_path: Path, name: str) -> None:
    """The same for formats that need a package."""
    check_changed(small_file(tmp_path, name), seed=7, tries=60)


def outcome(read: Callable[[Any], Any], path: Path) -> str | None:
    """What a reader says of a file; None if it reads it. Anything but a SegmaxError comes through."""
    try:
        read(path)
    except SegmaxError as error:
        return str(error)
    return None


def check_changed(path: Path, seed: int, tries: int) -> None:
    """Try all readers on changed copies of a file."""
    rng = random.Random(seed)
    content = path.read_bytes()
    for _ in range(tries):
        data = changed(content, rng)
        path.write_bytes(data)
        for name, read in READERS.items():
            said = outcome(read, path)
            assert said is None or (path.name in said and "\n" not in said), (name, path.name, data, said)
    path.write_bytes(content)


# --- Arrow: pyarrow itself crashes over offsets outside of buffers ---------------------------------------------------

ARROW_FUZZ = """
import random, sys
from pathlib import Path
import pyarrow as pa, pyarrow.ipc, pyarrow.parquet
from segmax import SegmaxError
from segmax.io import open_vectors

path, seed, tries = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
pairs = [[("a", 1.0), ("b", 2.0)], [], [("c", 3.0)], None, [("b", 0.5)]]
numbers, weights = pa.array([[1, 2]] * 5, pa.list_(pa.int32())), pa.array([[1.0, 2.0]] * 5)
words = pa.ListArray.from_arrays(range(6), pa.array(["a", "b", "a", "c", "a"]).dictionary_encode())
tables = [
    pa.table({"id": list("vwxyz"), "v": pa.array(pairs, pa.map_(pa.string(), pa.float64()))}),
    pa.table({"v": pa.StructArray.from_arrays([numbers, weights], ["indices", "values"])}),
    pa.table({"id": range(5), "tokens": pa.array([["a", "b"]] * 5, pa.large_list(pa.string())), "weights": weights}),
    pa.table({"id": pa.array(list("vwxyz")).dictionary_encode(), "tokens": words, "weights": [[1.0]] * 5}),
]
contents = []
for table in tables:
    for compression in (None, "zstd"):
        for make in (pa.ipc.new_file, pa.ipc.new_stream):
            sink = pa.BufferOutputStream()
            with make(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
                writer.write_table(table, max_chunksize=3)
            contents.append(sink.getvalue().to_pybytes())
    sink = pa.BufferOutputStream()
    pa.parquet.write_table(table, sink)
    contents.append(sink.getvalue().to_pybytes())
rng = random.Random(seed)
refused = 0
for number in range(tries):
    data = bytearray(contents[number % len(contents)])
    if number % 7 == 0:
        del data[rng.randrange(len(data)) :]
    else:
        for _ in range(rng.choice([1, 1, 2, 4, 8])):
            at = rng.randrange(len(data))
            data[at] = rng.choice([0, 255, data[at] ^ 1 << rng.randrange(8), rng.randrange(256)])
    path.write_bytes(data)
    try:
        reader = open_vectors(path)
        for batch in reader.batches():
            batch.vectors.values.sum()
        reader.num_docs
    except SegmaxError as error:
        refused += 1
        assert path.name in str(error), error
print(refused)
"""


@pytest.mark.parametrize(
    ("seed", "tries"), [(1, 100), *(pytest.param(seed, 800, marks=pytest.mark.deep) for seed in (1, 2))]
)
def test_changed_arrow_files(tmp_path: Path, seed: int, tries: int) -> None:
    """Files, streams and parquet with maps, lists, structs and dictionaries: never a crash, always an InputError."""
    pytest.importorskip("pyarrow")
    done = run_python(ARROW_FUZZ, tmp_path / "docs.arrow", seed, tries)
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout) > tries // 3


def run_python(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own."""
    command = [sys.executable, "-X", "faulthandler", "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def test_offsets_outside_of_the_buffers(tmp_path: Path) -> None:
    """The offsets of a list are what pyarrow believes: here they point far behind the values."""
    pa = pytest.importorskip("pyarrow")
    offsets, values = pa.array([0, 2, 4], pa.int32()), pa.array([1.0] * 4)
    table = pa.table(
        {
            "tokens": pa.ListArray.from_arrays(offsets, pa.array(["a", "b", "c", "d"])),
            "weights": pa.ListArray.from_arrays(offsets, values),
        }
    )
    path = tmp_path / "docs.arrow"
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)
    content = path.read_bytes()
    good = struct.pack("<3i", 0, 2, 4)
    assert good in content
    path.write_bytes(content.replace(good, struct.pack("<3i", 0, 2, 2**30)))
    code = (
        "import sys; from segmax.io import open_vectors\nfor batch in open_vectors(sys.argv[1]).batches(): print(batch)"
    )
    done = run_python(code, path)
    assert done.returncode == 1
    assert "InputError" in done.stderr.splitlines()[-1]
    assert "docs.arrow" in done.stderr.splitlines()[-1]


def test_null_rows_are_empty(tmp_path: Path) -> None:
    """Whatever lies in the buffers below them."""
    pa = pytest.importorskip("pyarrow")
    offsets, mask = pa.array([0, 1, 2, 3], pa.int32()), pa.array([False, True, False])
    words, weights = pa.array(["a", "b", "c"]), pa.array([1.0, 2.0, 3.0])
    lists = [pa.ListArray.from_arrays(offsets, part) for part in (words, weights)]
    columns = {
        "struct": pa.StructArray.from_arrays(lists, ["tokens", "weights"], mask=mask),
        "map": pa.MapArray.from_arrays(offsets, words, weights, mask=mask),
    }
    for name, column in columns.items():
        table = pa.table({"v": column})
        with pa.ipc.new_file(tmp_path / f"{name}.arrow", table.schema) as writer:
            writer.write_table(table)
        reader = open_vectors(tmp_path / f"{name}.arrow")
        (batch,) = reader.batches()
        assert batch.vectors.indptr.tolist() == [0, 1, 1, 2]
        assert [reader.terms[i] for i in batch.vectors.indices] == ["a", "c"]  # type: ignore[index]


@pytest.mark.parametrize("name", ["docs.csr", "docs.bin", "docs.csr.gz"])
def test_four_bytes_ff_are_not_arrow_by_themselves(tmp_path: Path, name: str) -> None:
    """A .csr or .bin file that starts so is one, and says what is wrong with it."""
    content = struct.pack("<qqq", 0xFFFFFFFF, 5, 0) + bytes(80)
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    with refused(InputError, where=r"docs\.(csr|bin)") as caught:
        everything(tmp_path / name)
    assert "arrow" not in str(caught.value).lower().replace("parquet, arrow", "")
    if ".csr" in name:
        assert "expected a .csr file of 34359738392 bytes" in str(caught.value)
    (tmp_path / "other").write_bytes(b"\xff" * 100)
    with refused(InputError, where="other', line 1", expected="UTF-8", got="the byte 0xff"):
        format_of(tmp_path / "other")


def test_folders_of_datasets_name_files_inside(tmp_path: Path) -> None:
    """A name that leads elsewhere, or back to the folder itself, is refused."""
    for name in ("../x.arrow", "/etc/passwd", ".", ""):
        (tmp_path / "state.json").write_text(json.dumps({"_data_files": [{"filename": name}]}))
        with refused(InputError, where=r"state\.json'", expected="what datasets writes"):
            open_vectors(tmp_path)
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["."]}')
    with refused(InputError, where=r"dataset_dict\.json'"):
        open_vectors(tmp_path)


# --- small files that ask for much -----------------------------------------------------------------------------------

LIMITED = """
import resource, sys
import numpy, scipy.sparse
import segmax
from segmax.io import open_texts, open_vectors, read_queries
from segmax.base.memory import MemoryLimit
from segmax.base.system import anonymous_memory

resource.setrlimit(resource.RLIMIT_DATA, (anonymous_memory() + int(sys.argv[1]),) * 2)
for name, path in zip(sys.argv[2::2], sys.argv[3::2]):
    try:
        if name == "vectors":
            reader = open_vectors(path, memory_limit=MemoryLimit("512MiB"))
            for batch in reader.batches():
                pass
        elif name == "build":
            segmax.build(path, memory_limit="512MiB", threads=1)
        elif name == "texts":
            for document in open_texts(path):
                pass
        else:
            read_queries(path)
        print()
    except segmax.SegmaxError as error:
        print(error)
"""


def said_within(size: int, *files: tuple[str, Path]) -> list[str]:
    """What readers say about files in a process that may take so many bytes; nothing about those that they read."""
    done = run_python(LIMITED, size, *(part for file in files for part in file))
    assert done.returncode == 0, done.stderr[-2000:]
    assert len(done.stdout.splitlines()) == len(files)
    return done.stdout.splitlines()


ARROW_BOMBS = """
import sys
import numpy as np, pyarrow as pa, pyarrow.parquet
from pathlib import Path

def table(counts):
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
    size = int(np.sum(counts))
    parts = [pa.array(np.zeros(size, np.int32)), pa.array(np.ones(size, np.float32))]
    return pa.table([pa.ListArray.from_arrays(offsets, part) for part in parts], ["indices", "values"])

def write(path, table, **options):
    if path.suffix == ".parquet":
        return pa.parquet.write_table(table, path, compression="zstd", **options)
    make = pa.ipc.new_file if path.suffix == ".arrow" else pa.ipc.new_stream
    with make(str(path), table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table, max_chunksize=1 << 30)

folder = Path(sys.argv[1])
long = table([1 << 26])
hidden = table([1, 1 << 26, *[1] * 100_000])
for name in ("long.parquet", "long.arrow", "long.stream"):
    write(folder / name, long)
for version in ("1.0", "2.0"):
    write(folder / f"hidden-{version}.parquet", hidden, data_page_version=version)
write(folder / "rows.arrow", table([0] * 5_000_000))
lists = [pa.array([["x" * (1 << 20)] * 700]), pa.array([[1.0] * 700])]
page = pa.table([["x" * (600 << 20)], [[1]], [[1.0]]], ["id", "indices", "values"])
write(folder / "page.parquet", page, use_dictionary=False)
write(folder / "word.parquet", pa.table(lists, ["tokens", "weights"]), dictionary_pagesize_limit=1 << 22)
codes = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["x" * (3 << 28), "y"], pa.large_string()))
lists = [pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), part) for part in (codes, pa.array([1.0, 2.0]))]
write(folder / "dictionary.stream", pa.table(lists, ["tokens", "weights"]))
"""


@pytest.mark.slow
def test_arrow_files_are_bounded_before_they_are_decoded(tmp_path: Path) -> None:
    """A row of 64 Mi entries, alone or among others, five million rows, a long word again and again."""
    pytest.importorskip("pyarrow")
    done = run_python(ARROW_BOMBS, tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    expected = {
        "long.parquet": "at most 16,777,216 entries per row in the column 'indices.list.element', got 67,108,864",
        "hidden-1.0.parquet": "at most 16,777,216 entries per row in the column 'indices.list.element', got 67,108,864",
        "hidden-2.0.parquet": "at most 16,777,216 entries per row in the column 'indices.list.element', got 67,108,864",
        "long.arrow": "compressed record batches of at most 512 MiB",
        "long.stream": "compressed record batches of at most 512 MiB",
        "rows.arrow": "compressed record batches of at most 4,194,304 rows, got one of 5,000,000",
        "word.parquet": "rows of at most 512 MiB in the column 'tokens.list.element', got 700 words of 1,048,576",
        "page.parquet": "pages of at most 512 MiB in the column 'id', got one of",
        "dictionary.stream": "compressed dictionaries of at most 512 MiB",
    }
    assert all((tmp_path / name).stat().st_size < MIB for name in expected)
    answers = said_within(300 * MIB, *(("build", tmp_path / name) for name in expected))
    for (name, message), said in zip(expected.items(), answers, strict=True):
        assert said.startswith(f"'{tmp_path / name}': expected {message}"), said


@pytest.mark.parametrize(
    ("compression", "version"),
    [
        pytest.param("ZSTD", "2.0", marks=pytest.mark.deep),
        *(pytest.param(name, "1.0", marks=pytest.mark.slow) for name in ("NONE", "SNAPPY", "GZIP", "LZ4")),
    ],
)
def test_large_row_groups_are_read(tmp_path: Path, compression: str, version: str) -> None:
    """Six million entries in one row group, rows of all lengths: the pages tell the longest, and all are read."""
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    counts = np.random.default_rng(1).integers(0, 30, 400_000)
    counts[[5, -1]] = 3_000, 70_000
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
    numbers = np.arange(counts.sum()) % 1_000
    lists = [pa.ListArray.from_arrays(offsets, pa.array(part)) for part in (numbers, numbers / 2)]
    path = tmp_path / "docs.parquet"
    parquet.write_table(
        pa.table(lists, ["indices", "values"]), path, compression=compression, data_page_version=version
    )
    metadata = parquet.read_metadata(path)
    assert metadata.num_row_groups == 1
    from segmax.io.parquet_footer import row_groups
    from segmax.io.parquet_pages import _levels, _longest_row, _pages

    data = memoryview(path.read_bytes())
    chunk = row_groups(data)[0][0]
    assert _longest_row(_levels(page, chunk) for page in _pages(data, chunk)) == 70_000
    found = [batch.vectors for batch in open_vectors(path).batches()]
    assert np.array_equal(np.concatenate([np.diff(vectors.indptr) for vectors in found]), counts)
    assert np.array_equal(np.concatenate([vectors.indices for vectors in found]), numbers)


@pytest.mark.deep
def test_a_line_without_end(tmp_path: Path) -> None:
    """A line of 1 GiB in a small gzip file is refused with its number, long before it is whole in memory."""
    endless = gzip.compress(b"x" * (1 << 26), 1) * 16
    starts = {
        "vectors": b'{"id": "d1", "vector": {"a": 1}}\n{"id": "d2", "vector": {"a": 1}, "text": "',
        "texts": b'{"id": "d1", "text": "a"}\n{"id": "d2", "text": "',
    }
    for name, start in starts.items():
        (tmp_path / f"{name}.jsonl.gz").write_bytes(gzip.compress(start, 1) + endless)
        assert (tmp_path / f"{name}.jsonl.gz").stat().st_size < 5 * MIB
    kinds = [("vectors", "vectors"), ("build", "vectors"), ("texts", "texts"), ("queries", "texts")]
    said = said_within(300 * MIB, *((kind, tmp_path / f"{name}.jsonl.gz") for kind, name in kinds))
    for (_, name), line in zip(kinds, said, strict=True):
        assert f"{name}.jsonl.gz', line 2: expected lines of at most {MAX_LINE_BYTES >> 20} MiB" in line


@pytest.mark.slow
def test_lines_are_read_in_linear_time(tmp_path: Path) -> None:
    """A line of 31 MiB in blocks of 4 KiB takes about four times as long as one of 8 MiB, not fifteen times."""
    path = tmp_path / "line.txt"

    def seconds(size: int) -> float:
        path.write_bytes(b"x" * size + b"\n")
        start = time.process_time()
        assert [len(line) for _, line in read_lines(path)] == [size]
        return time.process_time() - start

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read_blocks, "__defaults__", (4096,))
        short, long = (min(seconds(size * MIB) for _ in range(3)) for size in (8, 31))
    assert long < 10 * short


def zip_file(path: Path, members: dict[str, bytes]) -> None:
    """A compressed archive of arrays as they are given."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)


def npy(shape: tuple[int, ...], descr: str, content: bytes) -> bytes:
    """An array whose header says what it likes."""
    header = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + content


def matrix_members(rows: int = 1, columns: int = 1) -> dict[str, bytes]:
    """A CSR matrix without entries."""
    return {
        "format": npy((), "|S3", b"csr"),
        "shape": npy((2,), "<i8", struct.pack("<qq", rows, columns)),
        "indptr": npy((rows + 1,), "<i8", bytes(8 * (rows + 1))),
        "indices": npy((0,), "<i4", b""),
        "data": npy((0,), "<f4", b""),
    }


ZEROS = 1 << 27
HOSTILE_NPZ: dict[str, Callable[[], dict[str, bytes]]] = {
    "shape that promises": lambda: {"shape": npy((1 << 40,), "<i8", bytes(16))},
    "shape that is a bomb": lambda: {"shape": npy((ZEROS // 8,), "<i8", bytes(ZEROS))},
    "format that is a bomb": lambda: {"format": npy((), f"|S{ZEROS}", bytes(ZEROS))},
    "header that is a bomb": lambda: {"indptr": b"\x93NUMPY\x02\x00" + struct.pack("<I", ZEROS) + b" " * ZEROS},
    "indptr that promises": lambda: {"indptr": npy((1 << 40,), "<i8", bytes(16))},
    "entries that promise": lambda: {"indices": npy((1 << 40,), "<i4", b""), "data": npy((1 << 40,), "<f4", b"")},
    "a row that is a bomb": lambda: {
        "indptr": npy((2,), "<i8", struct.pack("<qq", 0, ZEROS // 4)),
        "indices": npy((ZEROS // 4,), "<i4", bytes(ZEROS)),
        "data": npy((ZEROS // 4,), "<f4", bytes(ZEROS)),
    },
    "ids that are wide": lambda: {"ids": npy((1,), f"<U{ZEROS // 4}", bytes(ZEROS))},
    "terms that are a bomb": lambda: {
        **matrix_members(1, ZEROS // 4),
        "terms": npy((ZEROS // 4,), "<U1", bytes(ZEROS)),
    },
    "coo that promises": lambda: {
        "format": npy((), "|S3", b"coo"),
        "row": npy((1 << 33,), "<i4", b""),
        "col": npy((1 << 33,), "<i4", b""),
        "data": npy((1 << 33,), "<f4", b""),
    },
    "csc of many rows": lambda: {
        "format": npy((), "|S3", b"csc"),
        "shape": npy((2,), "<i8", struct.pack("<qq", 1 << 31, 1)),
        "indptr": npy((2,), "<i8", bytes(16)),
    },
}


@pytest.mark.deep
def test_npz_files_that_ask_for_much(tmp_path: Path) -> None:
    """Sizes in headers are compared with what is there, and bombs are refused or read in pieces."""
    paths = {case: tmp_path / f"{case}.npz" for case in HOSTILE_NPZ}
    for case, path in paths.items():
        zip_file(path, {**matrix_members(), **HOSTILE_NPZ[case]()})
    said = said_within(100 * MIB, *(("vectors", path) for path in paths.values()))
    for case, line in zip(paths, said, strict=True):
        assert f"{case}.npz" in line


def test_columns_without_end_get_no_names(tmp_path: Path) -> None:
    """A file may promise any number of columns; formats that name them by word do not believe it."""
    zip_file(tmp_path / "docs.npz", matrix_members(1, 1 << 40))
    for name in ("docs.jsonl", "docs.tsv"):
        with refused(InputError, expected="at most 67,108,864 columns to name them by their numbers"):
            write_vectors(tmp_path / name, open_vectors(tmp_path / "docs.npz"))


def test_rows_come_in_pieces_of_bounded_size(tmp_path: Path) -> None:
    """Long rows are not gathered by the thousand."""
    rows, length = 12, 1 << 17
    indptr = np.arange(rows + 1) * length
    matrix = sp.csr_matrix((np.ones(rows * length, np.uint8), np.tile(np.arange(length), rows), indptr))
    sp.save_npz(tmp_path / "docs.npz", matrix)
    sizes = [len(batch.vectors.indices) for batch in open_vectors(tmp_path / "docs.npz").batches()]
    assert sum(sizes) == rows * length
    assert max(sizes) <= 1 << 20
    write_vectors(tmp_path / "docs.csr", open_vectors(tmp_path / "docs.npz"))
    assert max(len(batch.vectors.indices) for batch in open_vectors(tmp_path / "docs.csr").batches()) <= 1 << 20


def varint(value: int) -> bytes:
    """As protobuf has them."""
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + varint(value >> 7)


def ciff(num_lists: int, num_docs: int, rest: bytes) -> bytes:
    """A header, and whatever follows."""
    header = b"\x08\x01" + b"\x10" + varint(num_lists) + b"\x18" + varint(num_docs)
    return varint(len(header)) + header + rest


@pytest.mark.deep
def test_ciff_files_that_ask_for_much(tmp_path: Path) -> None:
    """Lists without end are noticed at the second."""
    (tmp_path / "empty.ciff.gz").write_bytes(gzip.compress(ciff(2**31 - 1, 2**31 - 1, bytes(1 << 28)), 1))
    (tmp_path / "same.ciff.gz").write_bytes(gzip.compress(ciff(2**31 - 1, 2**31 - 1, b"\x03\x0a\x01a" * (1 << 26)), 1))
    said = said_within(150 * MIB, *(("vectors", tmp_path / f"{name}.ciff.gz") for name in ("empty", "same")))
    assert 'postings list 2 of 2147483647: expected every term once, got "" again' in said[0]
    assert 'postings list 2 of 2147483647: expected every term once, got "a" again' in said[1]


def test_ciff_records_out_of_order(tmp_path: Path) -> None:
    """A record of the last document says nothing about how many there are."""
    far = b"\x08" + varint(2**31 - 2)
    path = tmp_path / "docs.ciff.gz"
    content = gzip.compress(ciff(0, 2**31 - 1, varint(len(far)) + far + bytes(1)))
    path.write_bytes(content + gzip.compress(b"") * 20_000)  # the file must be worth its promise
    (said,) = said_within(150 * MIB, ("vectors", path))
    assert "the file ends too early, in document record 3 of 2147483647" in said


def test_binary_files_that_promise(tmp_path: Path) -> None:
    """Counts in headers are compared with the length of the file."""
    (tmp_path / "docs.csr").write_bytes(struct.pack("<qqq", 1 << 40, 5, 1 << 40))
    (tmp_path / "docs.csr.gz").write_bytes(gzip.compress(struct.pack("<qqq", 1 << 40, 5, 1 << 40)))
    (tmp_path / "docs.bin").write_bytes(struct.pack("<II", 2**32 - 1, 2**31))
    (tmp_path / "side.bin").write_bytes(struct.pack("<IIIf", 1, 1, 3, 1.0))
    (tmp_path / "side.bin.doc_ids.npy").write_bytes(npy((1 << 40,), "<U8", b""))
    names = ("docs.csr", "docs.csr.gz", "docs.bin", "side.bin")
    for name, line in zip(names, said_within(150 * MIB, *(("vectors", tmp_path / n) for n in names)), strict=True):
        assert name in line


def test_dictionaries_of_xz(tmp_path: Path) -> None:
    """Those of xz -9 are read, and hostile ones refused; streams one after the other are one file, as xz has it."""
    plain, hostile = tmp_path / "plain.jsonl.xz", tmp_path / "hostile.jsonl.xz"
    line = b'{"id": "d1", "vector": {"a": 1}}\n'
    plain.write_bytes(lzma.compress(line, preset=9) + bytes(8) + lzma.compress(b"\n"))
    stream = bytearray(lzma.compress(line))
    stream[stream.index(b"\x21\x01") + 2] = 40  # the dictionary of the filter LZMA2: 4 GiB
    end = 12 + 4 * stream[12]  # of the header of the first block, where its checksum is
    stream[end : end + 4] = struct.pack("<I", zlib.crc32(stream[12:end]))
    hostile.write_bytes(stream)
    said = said_within(200 * MIB, ("vectors", plain), ("vectors", hostile))
    assert said[0] == ""
    assert "hostile.jsonl.xz': expected a complete compressed stream, got one that is damaged (Memory usage" in said[1]


def test_bombs_of_zstd(tmp_path: Path) -> None:
    """Blocks of four bytes stand for 128 KiB each; they come out a few at a time."""
    zstandard = pytest.importorskip("zstandard")
    bomb, wide, plain = (tmp_path / f"{name}.jsonl.zst" for name in ("bomb", "wide", "plain"))
    start = b'{"id": "d", "vector": {"'
    block = struct.pack("<I", (1 << 17) << 3 | 1 << 1)[:3] + b"x"
    raw = struct.pack("<I", len(start) << 3)[:3] + start
    bomb.write_bytes(b"\x28\xb5\x2f\xfd\x00\x38" + raw + block * (1 << 14))
    wide.write_bytes(b"\x28\xb5\x2f\xfd\x00\xa0" + block)  # a window of 1 GiB
    plain.write_bytes(zstandard.ZstdCompressor(level=3).compress(b'{"id": "d", "vector": {}}\n'))
    said = said_within(250 * MIB, *(("vectors", path) for path in (bomb, wide, plain)))
    assert "bomb.jsonl.zst', line 1: expected lines of at most" in said[0]
    assert "wide.jsonl.zst': expected a complete compressed stream, got one that is damaged" in said[1]
    assert said[2] == ""


# --- pipes, sockets and devices --------------------------------------------------------------------------------------


def piped(folder: Path, content: bytes) -> Path:
    """A named pipe out of which the content comes, once."""
    path = folder / "pipe"
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    threading.Thread(target=path.write_bytes, args=(content,), daemon=True).start()
    return path


@pytest.mark.parametrize("name", ["vectors.jsonl", "tokens.tsv", "docs.npz", "docs.ciff", "docs.csr", "docs.jsonl.gz"])
def test_vectors_out_of_pipes(tmp_path: Path, name: str) -> None:
    """Whatever the format, what a pipe holds is read like a file, and nothing is left of it."""
    file = small_file(tmp_path, name)
    expected = [batch.vectors.values.tolist() for batch in open_vectors(file).batches()]
    reader = open_vectors(piped(tmp_path, file.read_bytes()), scratch=tmp_path)
    assert [batch.vectors.values.tolist() for batch in reader.batches()] == expected
    assert {entry.name for entry in tmp_path.iterdir()} >= {name, "pipe"}
    assert segmax.build(piped(tmp_path, file.read_bytes())).num_docs == len(segmax.build(file))


def test_errors_about_pipes_name_them(tmp_path: Path) -> None:
    """Not the scratch file, whether the content is wrong at once or further on."""
    for content in (b"{}\n", b'{"id": "a", "vector": {"x": 1}}\n{"id": "b", "vector": 5}\n'):
        with refused(InputError, where="pipe'") as caught:
            everything(piped(tmp_path, content))
        assert "/proc/" not in str(caught.value)
    with refused(InputError, where="pipe', line 1", expected="a whole number as grade"):
        read_qrels(piped(tmp_path, b"q1 0 a x\n"))


def test_judgments_and_runs_out_of_pipes(tmp_path: Path) -> None:
    """They are files like others."""
    assert read_qrels(piped(tmp_path, b"q1 0 a 2\n")) == {"q1": {"a": 2}}
    assert read_qrels(piped(tmp_path, gzip.compress(b"q1 0 a 2\n"))) == {"q1": {"a": 2}}
    assert read_run(piped(tmp_path, b"q1 Q0 a 1 2.5 tag\n")) == {"q1": {"a": 2.5}}


def test_sockets_are_read() -> None:
    """A socket cannot be opened by its path, but the descriptor is there."""
    for read, expected in ((read_run, {"q1": {"a": 2.5}}), (lambda path: len(list(open_vectors(path).batches())), 1)):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            theirs.sendall(b"q1 Q0 a 1 2.5 tag\n" if read is read_run else b'{"id": "a", "vector": {"x": 1}}\n')
            theirs.shutdown(socket.SHUT_WR)
            assert read(f"/dev/fd/{ours.fileno()}") == expected


def test_devices_are_refused() -> None:
    """/dev/zero has no end; a regular file or a pipe as standard input has."""
    readers = [open_vectors, open_texts, read_queries, read_qrels, read_run]
    for read in readers:
        with refused(InputError, where="'/dev/zero'", expected="a file, a folder or a pipe", got="a device"):
            read("/dev/zero")
    code = "import sys; from segmax.io import *; print(read_run(sys.argv[1]))"
    for name in ("-", "/dev/stdin"):
        command = [sys.executable, "-c", code, name]
        done = subprocess.run(command, input="q Q0 a 1 2 t", capture_output=True, text=True, check=True)
        assert done.stdout == "{'q': {'a': 2.0}}\n"
        with Path("/dev/zero").open() as zero:
            done = subprocess.run(command, stdin=zero, capture_output=True, text=True, check=False, timeout=60)
        assert "got a device" in done.stderr.splitlines()[-1]


# --- numbers in judgments and runs ----------------------------------------------------------------------------------


@pytest.mark.parametrize("grade", ["99999999999999999999999", "1000001", "-1e9", "9" * 300])
def test_grades_are_small_whole_numbers(tmp_path: Path, grade: str) -> None:
    """trec_eval counts documents of every grade up to the largest, so that this one would take all memory."""
    (tmp_path / "qrels").write_text(f"q1 0 b 1.0\nq1 0 a {grade}\n")
    with refused(InputError, where="qrels', line 2", expected="a grade from -1,000,000 to 1,000,000"):
        read_qrels(tmp_path / "qrels")


def test_judgments_in_memory_are_checked(tmp_path: Path) -> None:
    """Grades that are none, and documents that are not graded at all."""
    index = segmax.build(sp.csr_matrix(np.eye(3)), ids=["a", "b", "c"])
    queries = {"q": {0: 1.0}}
    for grade in (2**70, 2**31, 10**5000, -(2**31), float("inf"), 1.5, "1", None, np.float64("nan")):
        for given in ({"q": {"a": grade}}, {"q": {"b": 1, "a": grade}}):
            with refused(InputError, expected=r"(whole numbers as grades|grades from .*)"):
                segmax.evaluate(index, queries, given)
            with refused(InputError, expected=r"(whole numbers as grades|grades from .*)"):
                write_qrels(tmp_path / "qrels", given)
    wrong: list[Any] = [{"q": ["a"]}, {"q": "a"}, {"q": None}, ["q"], 5]
    for given in wrong:
        with refused(InputError, expected="judgments as a mapping of"):
            segmax.evaluate(index, queries, given)
        with refused(InputError, expected="judgments as a mapping of"):
            write_qrels(tmp_path / "qrels", given)
        with refused(InputError, expected="results as a mapping of"):
            write_run(tmp_path / "run", given)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("score", [float("inf"), float("nan"), np.float32("inf"), "3", True, np.True_, None, 10**400])
def test_written_scores_can_be_read(tmp_path: Path, score: object) -> None:
    """What `read_run` refuses is not written."""
    for format in ("trec", "msmarco"):
        with refused(InputError, expected="finite numbers as scores", got=r".* for document 'a'"):
            write_run(tmp_path / "run", {"q": {"a": score}}, format=format)  # type: ignore[dict-item]
    write_run(tmp_path / "run", {"q": {"a": np.float32(1.5), "b": 1}})
    assert read_run(tmp_path / "run") == {"q": {"a": 1.5, "b": 1.0}}
