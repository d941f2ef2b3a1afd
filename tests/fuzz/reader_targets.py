"""Targets on files of others: vectors, texts, queries, judgments and runs in every format."""

from __future__ import annotations

import gzip
import io
import lzma
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from tests.fuzz.target import Seeds, outcome, scratch, target, written

from segmax.io import format_of, open_texts, open_vectors, read_qrels, read_queries, read_run, write_vectors
from segmax.vectors.csr import Csr
from segmax.vectors.documents import VectorBatch

Texts = dict[str, str]

_VECTORS = (
    '{"id": "d1", "vector": {"a": 1.5, "b": 2}}\n{"id": "d2", "vector": {"c\\u00e9": 1e-3}, "more": [1, {"x": null}]}\n'
)
_DOCS = '{"id": "d1", "title": "A", "text": "caf\\u00e9 \\ud83d\\ude00"}\n{"id": "d2", "text": "b", "year": 1999}\n'


def seeds_of(texts: Texts) -> Seeds:
    """Return seeds that are texts."""
    return lambda: {name: text.encode() for name, text in texts.items()}


def small_vectors() -> list[VectorBatch]:
    """Return a few rows, one of them empty."""
    matrix = sp.csr_matrix(np.array([[1.0, 0, 2.0, 0], [0, 0, 0, 0], [0, 300.0, 0, 5.0], [7.0, 1.0, 1.0, 0]]))
    rows = Csr(matrix.indptr.astype(np.int64), matrix.indices.astype(np.uint32), matrix.data, 4)
    return [VectorBatch(["a", "b", "c", "d"], rows)]


def written_vectors(*names: str) -> Seeds:
    """Return seeds that are small files as segmax writes them."""

    def make() -> dict[str, bytes]:
        found = {}
        for name in names:
            path = scratch() / f"seed.{name}"
            write_vectors(path, small_vectors(), terms=["t0", "t1", "t2", "t3"], overwrite=True)
            found[name] = path.read_bytes()
        return found

    return make


# --- what is done with a file ----------------------------------------------------------------------------------------


def read_vectors(path: Any) -> None:
    """Read all that there is, as a build does."""
    reader = open_vectors(path)
    _ = reader.num_docs
    for batch in reader.batches():
        rows = batch.vectors
        assert len(batch.ids) == rows.num_rows
        assert len(rows.indices) == len(rows.values) == rows.indptr[-1]
        assert not len(rows.indices) or int(rows.indices.max()) < rows.num_columns
    _ = reader.terms


def read_texts(path: Any) -> None:
    """Read all texts, twice, as a build does."""
    reader = open_texts(path)
    for _ in range(2):
        for document in reader:
            assert isinstance(document.text, str)


def tried(name: str, data: bytes, *readers: Callable[[Any], Any]) -> None:
    """Read a file; errors are of segmax, in a line that names the file."""
    path = written(name, data)
    for read in readers:
        said = outcome(partial(read, path))
        assert said is None or (path.name in said and "\n" not in said), said


# --- vectors ---------------------------------------------------------------------------------------------------------


@target(seeds_of({"plain.jsonl": _VECTORS, "empty.jsonl": '{"id": 1, "vector": {}}\n\n'}))
def jsonl_vectors(data: bytes) -> None:
    """Lines of JSON with vectors, in Python and C++ together."""
    tried("docs.jsonl", data, read_vectors, read_queries)


@target(written_vectors("ciff"))
def ciff(data: bytes) -> None:
    """CIFF."""
    tried("docs.ciff", data, read_vectors)


@target(written_vectors("csr"))
def bigann_csr(data: bytes) -> None:
    """The .csr files of BigANN, with ids beside them."""
    tried("docs.csr", data, read_vectors)


@target(written_vectors("bin"))
def seismic_bin(data: bytes) -> None:
    """The .bin files of Seismic."""
    tried("docs.bin", data, read_vectors)


def _npz_seeds() -> dict[str, bytes]:
    found = written_vectors("npz")()
    matrix = sp.random(6, 9, 0.3, "csr", random_state=1)
    for kind in ("csr", "csc", "coo"):
        content = io.BytesIO()
        sp.save_npz(content, matrix.asformat(kind), compressed=False)
        found[f"{kind}.npz"] = content.getvalue()
    return found


@target(_npz_seeds)
def npz(data: bytes) -> None:
    """Matrices of scipy."""
    tried("docs.npz", data, read_vectors)


def _tables() -> dict[str, Any]:
    import pyarrow as pa

    pairs = [[("a", 1.0), ("b", 2.0)], [], None]
    numbers, weights = pa.array([[1, 2]] * 3, pa.list_(pa.int32())), pa.array([[1.0, 2.0]] * 3)
    words = pa.ListArray.from_arrays(range(4), pa.array(["a", "b", "a"]).dictionary_encode())
    return {
        "map": pa.table({"id": list("xyz"), "v": pa.array(pairs, pa.map_(pa.string(), pa.float64()))}),
        "struct": pa.table({"v": pa.StructArray.from_arrays([numbers, weights], ["indices", "values"])}),
        "words": pa.table({"id": range(3), "tokens": words, "weights": [[1.0]] * 3}),
        "texts": pa.table({"id": list("xyz"), "text": ["one", None, "three"]}),
    }


def _arrow_seeds() -> dict[str, bytes]:
    import pyarrow as pa
    import pyarrow.ipc

    found = {}
    for name, table in _tables().items():
        for kind, make in (("arrow", pa.ipc.new_file), ("stream", pa.ipc.new_stream)):
            sink = pa.BufferOutputStream()
            with make(sink, table.schema) as writer:
                writer.write_table(table)
            found[f"{name}.{kind}"] = sink.getvalue().to_pybytes()
    return found


def _parquet_seeds() -> dict[str, bytes]:
    import pyarrow as pa
    import pyarrow.parquet

    found = {}
    for name, table in _tables().items():
        sink = pa.BufferOutputStream()
        pa.parquet.write_table(table, sink, compression="none" if name == "map" else "zstd")
        found[f"{name}.parquet"] = sink.getvalue().to_pybytes()
    return found


@target(_arrow_seeds)
def arrow(data: bytes) -> None:
    """Arrow's files and streams: pyarrow itself crashes over offsets that are not checked before."""
    tried("docs.arrow", data, read_vectors, read_texts)


@target(_parquet_seeds)
def parquet(data: bytes) -> None:
    """Parquet."""
    tried("docs.parquet", data, read_vectors, read_texts)


# --- texts, queries, judgments, runs ---------------------------------------------------------------------------------


@target(
    seeds_of({"plain.jsonl": _DOCS, "queries.jsonl": '{"_id": "q1", "text": "what"}\n{"_id": "q2", "text": "why"}\n'})
)
def jsonl_texts(data: bytes) -> None:
    """Lines of JSON with texts."""
    tried("docs.jsonl", data, read_texts, read_queries)


@target(
    seeds_of(
        {
            "docs.csv": 'id,title,text\n1,"A ""b""","first\nsecond"\n2,,third\n',
            "headed.tsv": 'id\ttext\nd1\t"one ""two"""\nd2\tthree\n',
            "tokens.tsv": "q1\tcat cat cat dog dog\nq2\tdog dog\n",
            "lines.txt": "one\ntwo\n",
        }
    )
)
def tables(data: bytes) -> None:
    """Columns between commas and tabs."""
    tried("docs.csv", data, read_texts)
    tried("docs.tsv", data, read_texts, read_vectors, read_queries)


@target(seeds_of({"array.json": '[{"id": "d1", "text": "one"},\n {"id": "d2", "title": "T", "text": "two"}]\n'}))
def json_array(data: bytes) -> None:
    """An array of documents."""
    tried("docs.json", data, read_texts, read_queries)


@target(
    seeds_of(
        {
            "qrels.txt": "q1 0 d1 1\nq1 0 d2 0\n",
            "qrels.tsv": "query-id\tcorpus-id\tscore\nq1\td1\t1\n",
            "run.trec": "q1 Q0 d1 1 2.5 tag\nq1 Q0 d2 2 1.5 tag\n",
            "run.tsv": "q1\td1\t1\nq1\td2\t2\n",
        }
    )
)
def trec(data: bytes) -> None:
    """Judgments and runs."""
    tried("qrels.txt", data, read_qrels, read_run)


@target(seeds_of({"topics.txt": "<top>\n<num> Number: 301\n<title> crime\n<desc> Description:\nwhat\n</top>\n"}))
def trec_topics(data: bytes) -> None:
    """Topics of TREC."""
    tried("topics.txt", data, read_queries, format_of)


def _compressed_seeds() -> dict[str, bytes]:
    import zstandard

    return {
        "docs.gz": gzip.compress(_VECTORS.encode(), mtime=0),
        "docs.xz": lzma.compress(_VECTORS.encode()),
        "docs.zst": zstandard.ZstdCompressor().compress(_VECTORS.encode()),
    }


@target(_compressed_seeds)
def compressed(data: bytes) -> None:
    """Compressed streams of all kinds, which are known by their first bytes."""
    tried("docs.jsonl", data, read_vectors)
