"""From files of any format to an index and to other files: `segmax.build` and `segmax convert`."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import segmax
from conftest import random_docs, refused
from segmax.building.spool import Spool
from segmax.cli import convert
from segmax.cli.main import main
from segmax.errors import InputError
from segmax.io import VectorBatch, open_vectors, read_queries, write_vectors
from segmax.vectors.csr import Csr

TERMS = [f"t{i}" for i in range(40)]


@pytest.fixture
def docs(rng: np.random.Generator) -> sp.csr_matrix:
    """Some documents."""
    return random_docs(rng, 120, 40)


@pytest.fixture
def path(tmp_path: Path, docs: sp.csr_matrix) -> Path:
    """The same as lines of JSON; terms come in any order."""
    lines = []
    for number, row in enumerate(docs):
        vector = {TERMS[c]: int(w) for c, w in zip(row.indices, row.data, strict=True)}
        lines.append(json.dumps({"id": f"doc {number}", "vector": vector}) + "\n")
    (tmp_path / "docs.jsonl").write_text("".join(lines))
    return tmp_path / "docs.jsonl"


def check(index: segmax.Index, docs: sp.csr_matrix) -> None:
    """Compare what an index returns with an index of the matrix, by word and by id."""
    expected = segmax.build(docs, ids=[f"doc {i}" for i in range(docs.shape[0])], terms=TERMS)
    query = {"t3": 2.0, "t7": 1.0, "t21": 3.0}
    assert index.search(query, k=20).ids == expected.search(query, k=20).ids
    assert index.search(query, k=20).scores.tolist() == expected.search(query, k=20).scores.tolist()
    assert index.num_postings == expected.num_postings


@pytest.mark.parametrize("name", ["docs.jsonl", "docs.npz", "docs.ciff", "docs.csr", "docs.bin", "docs.jsonl.gz"])
def test_an_index_of_any_file(tmp_path: Path, path: Path, docs: sp.csr_matrix, name: str) -> None:
    """Ids and terms are those of the file."""
    if name != path.name:
        write_vectors(tmp_path / name, open_vectors(path))
    check(segmax.build(tmp_path / name), docs)


def test_an_index_of_a_reader(path: Path, docs: sp.csr_matrix) -> None:
    """A reader, with its scale; ids and terms that are given come first."""
    check(segmax.build(open_vectors(path)), docs)
    scaled = segmax.build(open_vectors(path, scale=2))
    assert scaled.vector("doc 5").sum() == pytest.approx(2 * docs[5].sum(), rel=0.01)  # 8 bits are not exact
    index = segmax.build(path, ids=iter(range(120)), terms=iter(open_terms(path)))
    assert index.search({"t3": 1.0}).ids == [
        int(str(name).split()[1]) for name in segmax.build(path).search({"t3": 1.0}).ids
    ]


def open_terms(path: Path) -> Sequence[str]:
    """The terms of a file, in their order."""
    reader = open_vectors(path)
    for _ in reader.batches():
        pass
    assert reader.terms is not None
    return reader.terms


def test_several_files(tmp_path: Path, path: Path, docs: sp.csr_matrix) -> None:
    """Files with their own vocabularies become one index."""
    lines = path.read_text().splitlines(keepends=True)
    (tmp_path / "a.jsonl").write_text("".join(lines[:50]))
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress("".join(lines[50:]).encode()))
    check(segmax.build([tmp_path / "a.jsonl", tmp_path / "b.jsonl.gz"]), docs)


class Widening:
    """A reader of the caller: batches that widen."""

    num_docs = None

    def __init__(self, docs: sp.csr_matrix, step: int) -> None:
        self._docs = docs
        self._step = step
        self.terms: list[str] = []

    def batches(self) -> Iterator[VectorBatch]:
        for first in range(0, self._docs.shape[0], self._step):
            part = self._docs[first : first + self._step]
            wanted = max(len(self.terms), int(part.indices.max(initial=-1)) + 1)
            self.terms += [f"t{i}" for i in range(len(self.terms), wanted)]
            ids = [f"doc {first + i}" for i in range(part.shape[0])]
            yield VectorBatch(ids, Csr(part.indptr.astype(np.int64), part.indices, part.data, wanted))


@pytest.mark.parametrize("step", [1, 50, 4000])
def test_a_vocabulary_that_grows_beyond_16_bits(step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether parts were closed before or after, in memory or on disk, the index is that of the whole matrix."""
    monkeypatch.setattr(segmax.building.spool, "SLAB_DOCS", 64)
    rng = np.random.default_rng(4)
    rows = np.repeat(np.arange(400), 5)
    columns = (rng.random(2000) ** 2 * 200 * (1 + rows)).astype(np.int64)
    docs = sp.csr_matrix((rng.integers(1, 9, 2000), (rows, columns)), shape=(400, 80_000))
    docs = docs[:, : int(docs.indices.max()) + 1]
    assert docs.shape[1] > 2**16
    terms = [f"t{i}" for i in range(docs.shape[1])]
    config = segmax.BuildConfig(num_clusters=4)
    expected = segmax.build(docs, ids=[f"doc {i}" for i in range(400)], terms=terms, config=config)._open_arrays
    for memory in (None, 0):
        if memory is not None:
            real = Spool.__init__
            monkeypatch.setattr(Spool, "__init__", lambda self, n, _, folder, real=real: real(self, n, 0, folder))
        found = segmax.build(Widening(docs, step), config=config, scratch=tmp_path)._open_arrays
        assert found.keys() == expected.keys()
        for name, array in found.items():
            assert array.tobytes() == expected[name].tobytes(), name


def test_terms_may_not_vanish(docs: sp.csr_matrix) -> None:
    """A reader whose batches become narrower is refused."""

    class Narrowing(Widening):
        def batches(self) -> Iterator[VectorBatch]:
            *_, last = super().batches()
            yield last
            yield VectorBatch(["x"], Csr(np.zeros(2, np.int64), np.zeros(0, np.uint32), np.zeros(0), 1))

    with refused(InputError, expected="40 columns in every batch", got="1 in batch 1"):
        segmax.build(Narrowing(docs, 50))


def test_errors_come_through(tmp_path: Path) -> None:
    """A wrong line stops a build with its number; nothing is written. Ids must differ."""
    (tmp_path / "bad.jsonl").write_text('{"id": 1, "vector": {"a": 1}}\n{"id": 1, "vector": {"a": }}\n')
    with refused(InputError, where=r"bad\.jsonl', line 2, byte 27", expected="a number"):
        segmax.build(tmp_path / "bad.jsonl", path=tmp_path / "index")
    (tmp_path / "twice.jsonl").write_text('{"id": 1, "vector": {"a": 1}}\n{"id": 1, "vector": {"a": 2}}\n')
    with refused(InputError, where="jsonl', line 2", expected="every id once", got="'1' again, first at .*, line 1"):
        segmax.build(tmp_path / "twice.jsonl", path=tmp_path / "index")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["bad.jsonl", "twice.jsonl"]


@pytest.mark.deep
def test_published_vectors_give_the_published_quality(shared: Path) -> None:
    """NFCorpus with SPLADE-v3, from Anserini's files to an evaluated run: nDCG@10 .363, R@100 .296."""
    ir_measures = pytest.importorskip("ir_measures")
    folder = shared / "data" / "nfcorpus"
    index = segmax.build(folder / "splade-v3" / "docs.jsonl.gz")
    queries = read_queries(folder / "splade-v3" / "queries.tsv.gz")
    found = index.search_batch(queries.vectors, k=100)
    run = {name: {hit.id: hit.score for hit in hits} for name, hits in zip(queries.ids, found, strict=True)}
    from segmax.io import read_qrels

    measures = [ir_measures.nDCG @ 10, ir_measures.R @ 100]
    values = ir_measures.calc_aggregate(measures, read_qrels(folder), run)
    assert values[measures[0]] == pytest.approx(0.363, abs=0.001)
    assert values[measures[1]] == pytest.approx(0.296, abs=0.001)


# --- convert ---------------------------------------------------------------------------------------------------------


def run(*arguments: object) -> None:
    """Run the command."""
    convert.run(convert.parser().parse_intermixed_args([str(argument) for argument in arguments]))


def test_convert(tmp_path: Path, path: Path, docs: sp.csr_matrix, capsys: pytest.CaptureFixture[str]) -> None:
    """From lines to CIFF and on to .npz; the summary says what was written."""
    run(path, tmp_path / "docs.ciff")
    assert "docs.ciff' in " in (message := capsys.readouterr().out)
    assert "120 vectors, 40 terms" in message
    run(tmp_path / "docs.ciff", tmp_path / "docs.npz", "--progress")
    assert "convert" in capsys.readouterr().err
    check(segmax.build(tmp_path / "docs.npz"), docs)
    run(tmp_path / "docs.npz", tmp_path / "other", "--to", "jsonl", "--scale", "/100")
    assert json.loads((tmp_path / "other").read_text().splitlines()[0])["id"] == "doc 0"
    run(tmp_path / "docs.npz", path, tmp_path / "twice.jsonl")
    assert len((tmp_path / "twice.jsonl").read_text().splitlines()) == 240


def complaint(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Run the command from a shell, which fails; return its message."""
    assert main(["convert", *map(str, arguments)]) == 2
    return capsys.readouterr().err


def test_convert_mistakes(tmp_path: Path, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each message says what was expected, and names options as they are typed."""
    for arguments, message in (
        ([], "expected IN [IN ...] OUT, got nothing"),
        ([path], f"expected IN [IN ...] OUT, got {path}"),
        ([path, tmp_path / "a.npz", "--from", "xml"], "--from: invalid choice: 'xml'"),
        ([path, tmp_path / "a.npz", "--to", "xml"], "--to: invalid choice: 'xml'"),
        ([path, tmp_path / "a.npz", "--scale", "x7"], "expected --scale to be one of 'none', "),
        ([path, tmp_path / "a.xml"], "got the name 'a.xml'; say which with --to FORMAT"),
        ([path, path, "--overwrite"], "expected different files for IN and OUT, got"),
    ):
        assert message in complaint(capsys, *arguments)
    (tmp_path / "a.npz").write_text("")
    assert "exists already; pass --overwrite" in complaint(capsys, path, tmp_path / "a.npz")
    run(path, tmp_path / "a.npz", "--overwrite")
    (tmp_path / "ones.tsv").write_text("q1\tcat dog\n")
    assert "pass --from tokens" in complaint(capsys, tmp_path / "ones.tsv", tmp_path / "b.npz")
    run(tmp_path / "ones.tsv", tmp_path / "b.npz", "--from", "tokens")
    (tmp_path / "float.jsonl").write_text('{"id": 1, "vector": {"a": 0.5}}\n')
    assert "--scale x100 or --scale /5x256" in complaint(capsys, tmp_path / "float.jsonl", tmp_path / "b.ciff")


def test_convert_for_seismic(tmp_path: Path, path: Path) -> None:
    """Ids that are whole numbers are written as such, as the help says; others are refused, and nothing is left."""
    (tmp_path / "numbers.jsonl").write_text('{"id": "7", "vector": {"a": 1}}\n{"id": 0, "vector": {"a": 2}}\n')
    run(tmp_path / "numbers.jsonl", tmp_path / "out.jsonl", "--to", "seismic-jsonl")
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert lines == [{"id": 7, "content": "", "vector": {"a": 1}}, {"id": 0, "content": "", "vector": {"a": 2}}]
    with refused(InputError, expected="whole numbers below .* as ids", got="'doc 0'", hint="choose jsonl"):
        run(path, tmp_path / "other.jsonl", "--to", "seismic-jsonl")
    assert not (tmp_path / "other.jsonl").exists()


def test_an_index_of_files_with_numbered_columns(tmp_path: Path) -> None:
    """Where only the largest number says how many columns there are, a later file may have more, or fewer."""
    rows = {"a.bin": [[0, 1.0]], "b.bin": [[0, 0, 0, 2.0]], "c.bin": [[3.0]]}
    for name, row in rows.items():
        part = sp.csr_matrix(row)
        sp.save_npz(tmp_path / "in.npz", part)
        write_vectors(tmp_path / name, open_vectors(tmp_path / "in.npz"))
    index = segmax.build([tmp_path / name for name in rows])
    assert index.search({3: 1.0}).ids == [1]
    assert index.search({0: 1.0}).ids == [2]


def test_an_index_of_parquet_with_numbered_columns(tmp_path: Path) -> None:
    """Parquet files without words are one collection, however large the numbers in each are."""
    arrow = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    for name, column in (("a", 1), ("b", 9), ("c", 0)):
        table = arrow.table({"id": [name], "indices": [[column]], "values": [[1.5]]})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    index = segmax.build([tmp_path / f"{name}.parquet" for name in "abc"])
    assert [index.search({column: 1.0}).ids for column in (1, 9, 0)] == [["a"], ["b"], ["c"]]
    assert index.search({9: 1.0}).ids == segmax.build(tmp_path).search({9: 1.0}).ids


def test_convert_help() -> None:
    """The help names every format, every scale and examples, on lines that fit."""
    from segmax.io import SCALES, WRITTEN_FORMATS

    text = convert.parser().format_help()
    for word in (*WRITTEN_FORMATS, *SCALES, "examples:", "--overwrite"):
        assert word in text
    assert max(map(len, convert.parser().description.splitlines())) <= 80  # type: ignore[union-attr]
