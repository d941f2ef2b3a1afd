"""PyTerrier: its own tests of transformers, artifacts, pipelines and experiments over a segmax index, without Java."""

from __future__ import annotations

import functools
import http.server
import importlib.metadata
import pickle
import threading
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import segmax
from conftest import refused
from integration_samples import run_documented
from segmax.errors import ConfigError, IndexExistsError, InputError
from segmax.paper import MaxScore

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # theirs

pd = pytest.importorskip("pandas")
pt = pytest.importorskip("pyterrier", exc_type=ImportError)

from segmax.integrations.pyterrier import (  # noqa: E402
    SegmaxIndex,
    SegmaxIndexer,
    SegmaxRetriever,
    artifact_metadata,
)

QUIET = {"progress": False}


def sampled_toks(rng: np.random.Generator, count: int, words: int = 30) -> list[dict[str, float]]:
    """Dictionaries of a few words; every fifth is empty."""
    return [
        {} if number % 5 == 4 else {f"w{word}": float(rng.integers(1, 20)) for word in rng.integers(0, words, 6)}
        for number in range(count)
    ]


@pytest.fixture
def docs(rng: np.random.Generator) -> list[dict[str, Any]]:
    """Documents as PyTerrier hands them to an indexer."""
    return [{"docno": f"doc{i}", "toks": toks, "text": "…"} for i, toks in enumerate(sampled_toks(rng, 200))]


@pytest.fixture
def topics(rng: np.random.Generator) -> Any:
    """Queries, with a column of their own."""
    toks = sampled_toks(rng, 12)
    return pd.DataFrame(
        {"qid": [f"q{i}" for i in range(12)], "query": ["…"] * 12, "query_toks": toks, "user": range(12)}
    )


@pytest.fixture
def index(docs: list[dict[str, Any]], tmp_path: Path) -> Any:
    """An index of them."""
    return SegmaxIndex(tmp_path / "docs.segmax").indexer(**QUIET).index(iter(docs))


@pytest.fixture(autouse=True)
def _no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("PYTERRIER_HOME", str(tmp_path / "home"))
    yield
    assert not pt.java.started()


def by_hand(docs: list[dict[str, Any]], topics: Any, k: int) -> Any:
    """The frame that a retriever should return, by adding up."""
    rows = []
    for topic in topics.to_dict(orient="records"):
        scores = [sum(w * doc["toks"].get(t, 0.0) for t, w in topic["query_toks"].items()) for doc in docs]
        order = sorted((i for i, score in enumerate(scores) if score > 0), key=lambda i: (-scores[i], i))[:k]
        rows += [{**topic, "docno": docs[i]["docno"], "score": scores[i], "rank": rank} for rank, i in enumerate(order)]
    return pd.DataFrame(rows)


# --- retrieving ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 10, 1000])
def test_a_retriever_returns_what_adding_up_returns(docs: Any, topics: Any, index: Any, k: int) -> None:
    """docno, score and rank are right, and the columns of the queries are kept, in order."""
    found = index.retriever(num_results=k)(topics)
    wanted = by_hand(docs, topics, k)
    assert list(found.columns) == ["qid", "query", "query_toks", "user", "docno", "score", "rank"]
    pd.testing.assert_frame_equal(found, wanted, check_dtype=False)
    assert (found["score"].dtype, found["rank"].dtype) == (np.float64, np.int64)


@pytest.mark.parametrize(
    "options",
    [{"params": segmax.Exhaustive()}, {"params": segmax.ASC(eta=1.0)}, {"threads": 1}],
    ids=["exhaustive", "best first", "one thread"],
)
def test_options_reach_the_search(docs: Any, topics: Any, index: Any, options: dict[str, Any]) -> None:
    """Every exact method and number of threads gives the same frame."""
    found = index.retriever(num_results=5, **options)(topics)
    pd.testing.assert_frame_equal(found, by_hand(docs, topics, 5), check_dtype=False)


def test_iterators_and_lists_go_through_as_well(topics: Any, index: Any) -> None:
    """PyTerrier's other ways to call a transformer give the same rows."""
    retriever = index.retriever(num_results=3)
    wanted = retriever(topics).to_dict(orient="records")
    assert retriever(topics.to_dict(orient="records")) == wanted
    assert list(retriever.transform_iter(iter(topics.to_dict(orient="records")))) == wanted


@pytest.mark.parametrize("rows", [0, 1])
def test_nothing_found_has_all_columns(topics: Any, index: Any, rows: int) -> None:
    """No queries, or queries that find nothing, give an empty frame with the right columns and types."""
    asked = topics.assign(query_toks=[{"unheard of": 1.0}] * len(topics)).iloc[:rows]
    found = index.retriever()(asked)
    assert len(found) == 0
    assert list(found.columns) == [*topics.columns, "docno", "score", "rank"]
    assert (found["score"].dtype, found["rank"].dtype, found["docno"].dtype) == (np.float64, np.int64, object)


def test_results_of_an_earlier_stage_are_replaced(topics: Any, index: Any) -> None:
    """Old scores and ranks in the queries do not survive beside the new ones; repeated qids are searched each."""
    asked = pd.concat([topics.assign(score=1.0, rank=0)] * 2)
    found = index.retriever(num_results=2)(asked)
    assert list(found.columns) == [*topics.columns, "docno", "score", "rank"]
    assert len(found) == 2 * len(index.retriever(num_results=2)(topics))
    assert found.index.tolist() == list(range(len(found)))


def test_wrong_frames_are_refused(topics: Any, index: Any) -> None:
    """Missing columns raise PyTerrier's own error, other things than dictionaries ours."""
    with pytest.raises(pt.validate.InputValidationError):
        index.retriever()(topics.drop(columns="query_toks"))
    with pytest.raises(pt.validate.InputValidationError):
        index.retriever()(topics.assign(docno="doc1"))
    with refused(InputError, option="^query_toks$", expected="mappings", got="'cats' for query 'q0'"):
        index.retriever()(topics.assign(query_toks="cats"))
    with refused(ConfigError, option="^num_results$", expected="at least 1", got="0"):
        index.retriever(num_results=0)


# --- what PyTerrier wants of a transformer ---------------------------------------------------------------------------


@pytest.mark.parametrize("built", [True, False])
def test_pyterriers_own_transformer_tests(
    index: Any, tmp_path: Path, built: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pt.testing finds nothing wrong, be the index there already or not."""
    monkeypatch.setenv("PT_TEST_TRANSFORMER_REPORTS", "0")
    where = index if built else SegmaxIndex(tmp_path / "later.segmax")
    cases = pt.testing.transformer_test_class(lambda: where.retriever(num_results=10))
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(cases).run(result)
    assert result.testsRun >= 2
    assert [text for _, text in result.failures + result.errors] == []


def test_inspection(index: Any) -> None:
    """PyTerrier can tell what goes in, what comes out, and how a retriever was made."""
    retriever = index.retriever(num_results=7, params=segmax.ASC(mu=0.9), target_recall=None, threads=2)
    assert pt.inspect.transformer_inputs(retriever) == [["qid", "query_toks"]]
    outputs = pt.inspect.transformer_outputs(retriever, ["qid", "query_toks", "more"])
    assert outputs == ["qid", "query_toks", "more", "docno", "score", "rank"]
    attributes = {attribute.name: attribute.value for attribute in pt.inspect.transformer_attributes(retriever)}
    assert attributes == {
        "index": index,
        "num_results": 7,
        "params": segmax.ASC(mu=0.9),
        "target_recall": None,
        "threads": 2,
    }
    assert pt.inspect.artifact_type_format(index) == ("sparse_index", "segmax")
    assert pt.inspect.indexer_inputs(index) == [["docno", "toks"]]
    assert pt.inspect.indexer_inputs(index.indexer(field="words")) == [["docno", "words"]]
    assert pt.inspect.subtransformers(retriever) == {}


def test_rank_cutoff_is_fused(topics: Any, index: Any) -> None:
    """`% k` becomes a search for k, never for more than before, and gives what cutting gives."""
    retriever = index.retriever(num_results=20, params=MaxScore())
    assert isinstance(retriever, pt.transformer.SupportsFuseRankCutoff)
    fused = (retriever % 5).compile()
    assert isinstance(fused, SegmaxRetriever)
    assert (fused.num_results, fused.params, fused.index) == (5, MaxScore(), index)
    pd.testing.assert_frame_equal(fused(topics), (retriever % 5)(topics))
    assert retriever.fuse_rank_cutoff(20) is retriever
    assert retriever.fuse_rank_cutoff(50) is retriever
    assert retriever.num_results == 20


def test_pipelines_and_schematics(docs: Any, topics: Any, index: Any, tmp_path: Path) -> None:
    """Indexers and retrievers stand in pipelines, and PyTerrier draws them without asking the web."""
    encode = pt.apply.generic(lambda frame: frame.assign(toks=[doc["toks"] for doc in docs[: len(frame)]]))
    pipeline = encode >> SegmaxIndex(tmp_path / "piped.segmax")
    piped = pipeline.index([{"docno": doc["docno"]} for doc in docs], batch_size=len(docs))
    assert len(piped or SegmaxIndex(tmp_path / "piped.segmax")) == len(docs)
    for drawn in (index.retriever(), index, index.indexer()):
        assert type(drawn).__name__ in pt.schematic.draw(drawn)
    doubled = (index.retriever(num_results=4) * 2)(topics)
    assert doubled["score"].tolist() == (2 * index.retriever(num_results=4)(topics)["score"]).tolist()


def test_an_experiment(docs: Any, topics: Any, index: Any) -> None:
    """pt.Experiment measures it: judged by the best document found by hand, the first rank is always right."""
    qrels = by_hand(docs, topics, 1)[["qid", "docno"]].assign(label=1)
    measured = pt.Experiment([index.retriever(num_results=10)], topics, qrels, ["recip_rank"], names=["segmax"])
    assert measured["recip_rank"].tolist() == [1.0]


def test_what_it_is_called(index: Any) -> None:
    """Equal settings have equal descriptions, which PyTerrier takes for identity; a pickled retriever searches."""
    one, two = (index.retriever(num_results=3, params=segmax.ASC(mu=0.8, eta=0.9)) for _ in range(2))
    assert repr(one) == repr(two)
    assert hash(one) == hash(two)
    assert "num_results=3" in repr(one)
    again = pickle.loads(pickle.dumps(one))
    asked = pd.DataFrame({"qid": ["1"], "query_toks": [{"w1": 1.0}]})
    pd.testing.assert_frame_equal(again(asked), one(asked))


# --- indexing --------------------------------------------------------------------------------------------------------


def test_an_index_made_elsewhere_is_searched_as_well(topics: Any, docs: Any, index: Any) -> None:
    """A retriever takes a path or a segmax.Index, too; ids that are numbers become docnos."""
    for given in (str(index.path), index.opened()):
        pd.testing.assert_frame_equal(SegmaxRetriever(given)(topics), index.retriever()(topics))
    numbered = segmax.build(index.opened().vectors([d["docno"] for d in docs]), terms=terms_of(index), progress=False)
    assert set(SegmaxRetriever(numbered)(topics)["docno"]) <= {str(i) for i in range(len(docs))}


def terms_of(index: Any) -> list[str]:
    """The vocabulary of an index."""
    table = index.opened()._terms
    return [table[i] for i in range(len(table))]


def test_indexing_again(docs: Any, index: Any) -> None:
    """An index is only replaced if that is asked for, and this is known before any document is read."""

    def never() -> Iterator[dict[str, Any]]:
        pytest.fail("a document was read")
        yield {}

    assert len(index) == 200
    with pytest.raises(IndexExistsError):
        index.index(never())
    again = index.indexer(overwrite=True, **QUIET).index(docs[:50])
    assert again is index
    assert len(index) == 50


def test_invalid_documents_are_refused(tmp_path: Path) -> None:
    """Missing columns and odd values name the document; nothing is left behind."""
    target = SegmaxIndex(tmp_path / "wrong.segmax")
    with refused(InputError, expected=r"documents with toks", got=r"\['docno'\] for document 1"):
        target.index([{"docno": "a", "toks": {}}, {"docno": "b"}], **QUIET)
    with refused(InputError, got="in document 'a'"):
        target.index([{"docno": "a", "toks": "cats"}], **QUIET)
    with refused(InputError, expected="at least one document"):
        target.index([], **QUIET)
    with pytest.raises(TypeError, match="expected no options here, got overwrite"):
        target.indexer().index([], overwrite=True)
    assert not target.built()
    assert [path.name for path in tmp_path.iterdir() if path.name != "home"] == []


def test_indexers_describe_themselves(index: Any) -> None:
    """The factory passes its options on."""
    indexer = index.indexer(field="words", overwrite=True, threads=1)
    assert isinstance(indexer, SegmaxIndexer)
    assert repr(indexer) == f"SegmaxIndexer({index!r}, field='words')"
    assert (indexer.overwrite, indexer.threads) == (True, 1)
    assert index.built()


# --- artifacts -------------------------------------------------------------------------------------------------------


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder, and the address under which it is served."""
    folder = tmp_path / "served"
    folder.mkdir()
    handler = functools.partial(QuietHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Serves files and says nothing."""

    def log_message(self, format: str, *args: Any) -> None:
        pass


def test_artifacts_are_packed_shared_and_loaded(
    topics: Any, index: Any, served: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index that is packed and fetched from somewhere else searches as before."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    folder, address = served
    metadata: dict[str, Any] = {}
    index.build_package(str(folder / "artifact.tar.lz4"), metadata_out=metadata, verbose=False)
    assert metadata == {"type": "sparse_index", "format": "segmax", "package_hint": "segmax[pyterrier]"}
    fetched = SegmaxIndex.from_url(f"{address}/artifact.tar.lz4")
    assert isinstance(fetched, SegmaxIndex)
    assert Path(fetched.path) != Path(index.path)
    segmax.verify(fetched.path)
    pd.testing.assert_frame_equal(fetched.retriever(num_results=5)(topics), index.retriever(num_results=5)(topics))


def test_any_artifact_is_recognized(index: Any, tmp_path: Path) -> None:
    """pt.Artifact.load finds out what a folder is, written by PyTerrier or not."""
    wanted = {"type": "sparse_index", "format": "segmax", "package_hint": "segmax[pyterrier]"}
    listing = [path.name for path in Path(index.path).iterdir()]
    assert artifact_metadata(str(index.path), listing) == wanted
    assert artifact_metadata(str(tmp_path), []) is None
    (tmp_path / "meta.json").write_text("{}")
    assert artifact_metadata(str(tmp_path), ["meta.json"]) is None
    if not importlib.metadata.entry_points(group="pyterrier.artifact", name="sparse_index.segmax"):
        pytest.skip("segmax is not installed, so PyTerrier cannot find it")
    loaded = pt.Artifact.load(str(index.path))
    assert isinstance(loaded, SegmaxIndex)
    assert len(loaded) == len(index)


def test_the_documented_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/integrations.md says what works."""
    monkeypatch.chdir(tmp_path)
    names = run_documented("PyTerrier")
    assert names["results"]["docno"].tolist() == ["d2", "d1"]  # type: ignore[index]
