"""The public API: forms of input, ids, documents, life of an index."""

from __future__ import annotations

import _thread
import inspect
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import segmax
from conftest import random_docs, refused
from reference import as_query, best
from segmax import paper
from segmax.errors import InputError, SegmaxWarning
from segmax.integrations.text_search import TextHit
from segmax.paper import Anytime, MaxScore
from segmax.search.hooks import with_hooks

WEIGHTS = np.array([[1, 0, 2, 0], [0, 3, 1, 0], [4, 0, 0, 5]])


@pytest.fixture
def index() -> segmax.Index:
    """Three documents with ids and vocabulary."""
    return segmax.build(sp.csr_matrix(WEIGHTS), ids=["x", "y", "z"], terms=["red", "green", "blue", "grey"])


# --- documents in ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64, np.float32, np.float64, bool])
def test_any_dtype(dtype: type, rng: np.random.Generator) -> None:
    """Any float or integer dtype; whole numbers that fit are kept exactly."""
    docs = random_docs(rng, 50, 20, 5.0, 1 if dtype is bool else 100).astype(dtype)
    index = segmax.build(docs)
    assert (index.vectors(range(50)) != docs.astype(float)).nnz == 0
    assert index.quantization_error == 0


def test_rows_may_be_unsorted_and_repeat_terms() -> None:
    """Unsorted columns are sorted, repeated ones summed without wrapping, zeros dropped; the input stays as it is."""
    docs = sp.csr_matrix(
        (np.array([100, 200, 7, 0], np.uint8), np.array([2, 2, 0, 1]), np.array([0, 3, 4])), shape=(2, 3)
    )
    index = segmax.build(docs, config=segmax.BuildConfig(bits=16))
    assert index.vectors([0, 1]).toarray().tolist() == [[7, 0, 300], [0, 0, 0]]
    assert docs.data.tolist() == [100, 200, 7, 0]
    assert index.num_postings == 2


def test_repeated_terms_do_not_wrap_in_other_formats_and_in_queries() -> None:
    """COO sums entries on its way to CSR; in documents and queries the sum is the real one."""
    coo = sp.coo_matrix((np.array([200, 100], np.uint8), ([0, 0], [1, 1])), shape=(1, 2))
    index = segmax.build(coo, config=segmax.BuildConfig(bits=16))
    assert index.vector(0).toarray().tolist() == [[0, 300]]
    assert index.search(coo).scores.tolist() == [90_000]
    large = sp.csr_matrix((np.array([2**62, 2**62], np.int64), np.array([0, 0]), np.array([0, 2])), shape=(1, 1))
    assert segmax.build(large).vector(0).toarray()[0, 0] == pytest.approx(2.0**63)


def test_batches_give_the_same_index(rng: np.random.Generator, tmp_path: Path) -> None:
    """An iterator of batches is one collection, however it is cut."""
    docs = random_docs(rng, 300, 40, 6.0)
    segmax.build(docs, path=tmp_path / "whole")
    segmax.build((docs[i : i + 70] for i in range(0, 300, 70)), path=tmp_path / "parts")
    for file in (tmp_path / "whole").iterdir():
        assert file.read_bytes() == (tmp_path / "parts" / file.name).read_bytes(), file.name


def test_more_clusters_than_documents_and_one_document() -> None:
    """Small collections are no special case."""
    one = segmax.build(sp.csr_matrix([[0, 2]]), config=segmax.BuildConfig(num_clusters=50, num_segments=30))
    assert one.search({1: 1}).ids == [0]
    few = segmax.build(sp.csr_matrix(np.eye(5)), config=segmax.BuildConfig(num_clusters=50))
    assert few.search({3: 1}).ids == [3]
    with pytest.warns(SegmaxWarning, match="all 4 documents are empty"):
        nothing = segmax.build(sp.csr_matrix((4, 7)))
    assert nothing.search({3: 1}).ids == []


# --- queries in ------------------------------------------------------------------------------------------------------


class FakeTensor:
    """What segmax uses of a torch sparse tensor, without torch."""

    __module__ = "torch"

    def __init__(self, matrix: sp.csr_matrix, layout: str) -> None:
        self.matrix, self.layout, self.shape, self.dtype = matrix, f"torch.{layout}", matrix.shape, "torch.int64"

    def __getattr__(self, name: str) -> object:
        coo = self.matrix.tocoo()
        parts = {
            "values": self.matrix.data,
            "_values": self.matrix.data,
            "_indices": np.vstack([coo.row, coo.col]),
            "col_indices": self.matrix.indices,
            "crow_indices": self.matrix.indptr,
        }
        if name in ("detach", "cpu", "coalesce"):
            return lambda: self
        if name == "dim":
            return lambda: 2
        if name in parts:
            return lambda: type("T", (), {"numpy": lambda _self: parts[name]})()
        raise AttributeError(name)


@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr"])
def test_tensors_are_queries(index: segmax.Index, layout: str) -> None:
    """Of either layout, where torch is not installed, too."""
    hits = index.search(FakeTensor(sp.csr_matrix([[2, 0, 1, 0]]), layout))
    assert list(hits) == [("z", 8.0), ("x", 4.0), ("y", 1.0)]
    assert hits.stats.unknown_terms == 0


@pytest.mark.deep
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta state")
def test_real_torch_tensors(index: segmax.Index) -> None:
    """Sparse COO and CSR and dense tensors of one and two dimensions, where torch is installed."""
    torch = pytest.importorskip("torch")
    dense = torch.tensor([2.0, 0.0, 1.0, 0.0])
    assert index.search(dense.half().to_sparse()).ids == index.search(dense.bfloat16()).ids == ["z", "x", "y"]
    for query in (dense, dense.to_sparse(), dense.unsqueeze(0).to_sparse(), dense.unsqueeze(0).to_sparse_csr()):
        assert index.search(query).ids == ["z", "x", "y"]
    docs = torch.tensor(WEIGHTS).to_sparse()
    assert segmax.build(docs).search(dense).ids == [2, 0, 1]


def test_a_batch_is_a_sequence(index: segmax.Index) -> None:
    """Of results; its figures are by query."""
    assert index.search_batch([]).rows.shape == (0, 3)  # no more than documents
    batch = index.search_batch([{"red": 2, "blue": 1}, ([1], [1.0]), {}], k=2)
    assert [hits.ids for hits in batch[0:2]] == [["z", "x"], ["y"]]
    assert batch.stats[1].clusters_visited == batch.stats.clusters_visited[1]
    assert repr(batch) == "BatchHits(3 queries, k=2)"


@pytest.fixture
def words() -> segmax.Index:
    """Three short texts."""
    return segmax.from_texts(["red sea", "blue sea", "red house"])


TEXTS = ["red", "blue", "nothing of that"]


@pytest.mark.parametrize(
    "given",
    [
        TEXTS,
        tuple(TEXTS),
        np.array(TEXTS),
        np.array(TEXTS, dtype=object),
        dict.fromkeys(TEXTS).keys,
        lambda: iter(TEXTS),
        lambda: (text for text in TEXTS),
        lambda: map(str, TEXTS),
    ],
)
def test_texts_come_in_any_sequence_or_iterator(words: segmax.Index, given: Any) -> None:
    """Lists, tuples, generators and arrays of texts are the same queries."""
    expected = [words.search(text).ids for text in TEXTS]
    assert expected[0]
    assert words.search_batch(given() if callable(given) else given).ids == expected


def test_texts_of_a_data_frame(words: segmax.Index) -> None:
    """A column is a sequence of texts; a whole table is refused: its iterator yields the names of the columns."""
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"red": TEXTS, "blue": range(3)})
    expected = words.search_batch(TEXTS).ids
    assert words.search_batch(table["red"]).ids == expected
    assert words.search_batch(table["red"][::-1]).ids == expected[::-1]
    with refused(InputError, got="DataFrame", hint="pass one of its columns"):
        words.search_batch(table)
    with refused(InputError, got="texts and (float|NoneType) at query 1"):
        words.search_batch(pandas.Series(["red", None]))


# --- documents out ---------------------------------------------------------------------------------------------------


def test_ids(index: segmax.Index) -> None:
    """Ids are strings, integers, or by default the rows, as int."""
    assert segmax.build(sp.csr_matrix(WEIGHTS)).search({0: 1}).ids == [2, 0]
    assert segmax.build(sp.csr_matrix(WEIGHTS), ids=[70, -8, 900]).search({0: 1}).ids == [900, 70]
    assert segmax.build(sp.csr_matrix(WEIGHTS), ids=np.array(["ä", " ", "汉字" * 50])).search({0: 1}).ids == [
        "汉字" * 50,
        "ä",
    ]
    assert isinstance(segmax.build(sp.csr_matrix(WEIGHTS)).search({0: 1}).ids[0], int)


@pytest.mark.parametrize("every", [67, pytest.param(23, marks=pytest.mark.deep)])
def test_explain_covers_every_outcome(rng: np.random.Generator, every: int) -> None:
    """Returned, scored too low, below its block's bound, in a pruned cluster, after the end, without a common term."""
    docs = random_docs(rng, 2000, 60, 6.0)
    index = segmax.build(docs, clustering=rng.integers(0, 60, 2000))
    seen = set()
    for _ in range(6):
        query = as_query(rng, 60, 5)
        for params in (
            MaxScore(),
            segmax.ASC(),
            with_hooks(segmax.ASC(), sweep=False),
            with_hooks(segmax.ASC(mu=0.7), sweep=False, all_tiles=0),
            paper.ASC(mu=0.7),
            Anytime(documents="maxscore"),
            paper.ASC(max_clusters=2),
            segmax.Exhaustive(),
        ):
            hits = index.search(query, k=10, params=params)
            for row in range(0, 2000, every):
                explained = index.explain(query, row, k=10, params=params)
                assert explained.score == index.score(query, [row])[0]
                assert (explained.rank is not None) == (row in hits.ids)
                if explained.rank is not None:
                    assert hits.ids[explained.rank - 1] == row
                assert explained.bound_sum >= explained.max_bound >= explained.avg_bound
                assert explained.max_bound >= explained.score
                assert str(explained).splitlines()[0] == explained.reason
                plain = re.sub(r"(?<=\d),(?=\d)", "", explained.reason)  # 10,443
                for left, right in re.findall(
                    r"(?:MaxSBound|AvgSBound|BoundSum) (\S+) <= (?:θ/. = )?([\d.]*\d)", plain
                ):
                    assert float(left) <= float(right) * (1 + 1e-5), explained.reason
                for left, right in re.findall(r"its bound (\S+) was below (\S+),", plain):
                    assert float(left) < float(right), explained.reason
                seen.add(next(words for words in FATES if words in explained.reason))
    assert seen >= {"rank", "no term", "pruned", "a limit ended", "ended before", "was below"}


FATES = (
    "rank",
    "no term",
    "pruned",
    "a limit ended",
    "ended before",
    "was below",
    "was scored",
    "equals",
    "too light",
)


# --- life of an index ------------------------------------------------------------------------------------------------


def test_repr(index: segmax.Index, tmp_path: Path) -> None:
    """It says how large an index is, and whether it is closed."""
    assert repr(index) == "Index(in memory: 3 documents, 6 postings, 1 cluster x 8 segments, 8 bits)"
    index.save(tmp_path / "i")
    with segmax.open(tmp_path / "i") as opened:
        assert repr(opened).startswith(f"Index('{tmp_path / 'i'}': 3 documents")
        assert opened.num_bytes == sum(opened.sizes().values()) > 0
    assert repr(opened) == "Index(closed)"


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_use_after_fork(rng: np.random.Generator) -> None:
    """A child process searches the index it inherited, with threads of its own."""
    docs = random_docs(rng, 500, 30, 6.0)
    index = segmax.build(docs)
    queries = random_docs(rng, 30, 30, 4.0)
    expected = index.search_batch(queries, threads=2).rows
    child = os.fork()
    if child == 0:
        os._exit(0 if (index.search_batch(queries, threads=2).rows == expected).all() else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_many_python_threads_on_one_index(rng: np.random.Generator) -> None:
    """Threads share an index without locks and get their own results."""
    docs = random_docs(rng, 800, 50, 7.0)
    index = segmax.build(docs, clustering=rng.integers(0, 12, 800))
    queries = [as_query(rng, 50, 6) for _ in range(8)]
    expected = [best(docs, query, 10)[0] for query in queries]
    wrong: list[int] = []

    def work(i: int) -> None:
        for _ in range(100):
            if index.search(queries[i], k=10).rows.tolist() != expected[i]:
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("threads", [1, 2])
def test_the_gil_is_released(rng: np.random.Generator, threads: int) -> None:
    """Python goes on while a batch runs: another thread interrupts it, long before its end."""
    index = segmax.build(random_docs(rng, 3000, 50, 10.0))
    queries = random_docs(rng, 200, 50, 10.0)[np.arange(200_000) % 200]
    before = sys.getswitchinterval()
    begun = threading.Event()

    def interrupt() -> None:
        begun.wait()
        for _ in range(50):
            time.sleep(0)  # gives the GIL back, which nothing but the batch would
        _thread.interrupt_main()

    worker = threading.Thread(target=interrupt)
    sys.setswitchinterval(1000)  # so nobody takes the GIL from a batch that holds it
    try:
        worker.start()
        index.search_batch(queries[:1], params=MaxScore(), threads=threads)
        begun.set()
        with pytest.raises(KeyboardInterrupt):
            index.search_batch(queries, params=MaxScore(), threads=threads)
    finally:
        sys.setswitchinterval(before)
        worker.join()


@pytest.mark.deep
@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_ends_a_batch(threads: int) -> None:
    """SIGINT in the middle of a batch of minutes raises KeyboardInterrupt, and the index can be searched again."""
    program = textwrap.dedent(f"""
        import numpy as np, scipy.sparse as sp, segmax, time
        rng = np.random.default_rng(0)
        docs = sp.random(20_000, 100, 0.3, format="csr", random_state=rng)
        index = segmax.build(docs, clustering=np.zeros(20_000, int), calibrate=False)
        queries = sp.random(100, 100, 0.5, format="csr", random_state=rng)[np.arange(100_000) % 100]
        print("ready", flush=True)
        try:
            index.search_batch(queries, k=10, params=segmax.Exhaustive(), threads={threads})
            print("finished", flush=True)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        print(len(index.search(queries[0], k=3)))
    """)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"
        assert process.stdout.read() == "3\n"
    assert process.returncode == 0


def test_arrays_of_any_layout() -> None:
    """Strided, reversed, read-only, byte-swapped and narrow arrays are the same query."""
    docs = random_docs(np.random.default_rng(4), 200, 60)
    index = segmax.build(docs)
    terms, weights = np.array([3, 8, 20, 41]), np.array([2.0, 5.0, 1.0, 7.0])
    expected = index.search((terms, weights))
    read_only = weights.copy()
    read_only.flags.writeable = False
    queries = [
        (np.repeat(terms, 3)[::3], np.repeat(weights, 2)[::2]),
        (terms[::-1].copy()[::-1], weights[::-1].copy()[::-1]),
        (terms, read_only),
        (terms.astype(">i4"), weights.astype(">f4")),
        (terms.astype(np.uint8), weights.astype(np.float16)),
    ]
    for query in queries:
        hits = index.search(query)
        assert (hits.rows.tolist(), hits.scores.tolist()) == (expected.rows.tolist(), expected.scores.tolist())
    nothing = index.search(([], []))
    assert (nothing.rows.dtype, nothing.scores.dtype, len(nothing)) == (np.int64, np.float64, 0)


# --- names -----------------------------------------------------------------------------------------------------------


def test_a_document_id_is_called_id_everywhere() -> None:
    """No public field or parameter says doc_id: results, explanations and the methods of an index all say id."""
    results = [segmax.Hits, segmax.BatchHits, segmax.typing.Explanation, segmax.search.results.Hit, TextHit]
    methods = [method for method in vars(segmax.Index).values() if inspect.isfunction(method)]
    names = [name for kind in results for name in (*vars(kind), *getattr(kind, "__annotations__", ()))]
    names += [name for function in methods for name in inspect.signature(function).parameters]
    assert [name for name in names if "doc_id" in name or "docid" in name] == []
    assert segmax.search.results.Hit._fields == ("id", "score")
