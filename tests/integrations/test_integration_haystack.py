"""Haystack: a retriever component in its conventions, over a segmax index."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

import segmax
from conftest import refused
from integration_samples import TEXTS, WordCounts, by_hand, run_documented
from segmax.errors import ConfigError, FormatError, IndexNotFoundError, InputError
from segmax.paper import Anytime, MaxScore, method_name

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # theirs

os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "False")  # looked at when it is imported
pytest.importorskip("haystack")

from haystack import Document, Pipeline, component  # noqa: E402
from haystack.core.errors import DeserializationError, SerializationError  # noqa: E402
from haystack.dataclasses import SparseEmbedding  # noqa: E402
from haystack.document_stores.types import FilterPolicy  # noqa: E402
from haystack.errors import FilterError  # noqa: E402
from haystack.utils.filters import document_matches_filter  # noqa: E402
from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from segmax.encoders import BM25  # noqa: E402
from segmax.integrations.haystack import SegmaxRetriever, as_where  # noqa: E402
from segmax.integrations.text_search import index_documents  # noqa: E402
from segmax.metadata import Metadata  # noqa: E402
from segmax.vectors.documents import Document as SegmaxDocument  # noqa: E402


def encoder_of_texts() -> WordCounts:
    """An encoder that knows the words of TEXTS; a component that is written down names this function."""
    encoder = WordCounts()
    list(encoder.encode_documents([[SegmaxDocument(i, "", text) for i, text in TEXTS.items()]]))
    return encoder


def text_of(doc_id: str) -> dict[str, Any]:
    """A text with metadata; a component that is written down names this function."""
    return {"text": TEXTS[doc_id], "length": len(TEXTS[doc_id])}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where an index of TEXTS is."""
    documents = [SegmaxDocument(i, "", text) for i, text in TEXTS.items()]
    options = {"progress": False, "path": tmp_path / "texts.segmax", "keep_texts": False}
    index_documents(documents, WordCounts(), options)
    return tmp_path / "texts.segmax"


def found(result: dict[str, list[Document]]) -> list[tuple[str, float | None]]:
    """Ids and scores."""
    return [(document.id, document.score) for document in result["documents"]]


def at_least(field: str, value: int) -> dict[str, Any]:
    """A filter in the language of Haystack."""
    return {"operator": "AND", "conditions": [{"field": f"meta.{field}", "operator": ">=", "value": value}]}


# --- running ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", ["the cat", "bird tree", "größe", "nothing like it", ""])
def test_run_is_counting_by_hand(path: Path, query: str) -> None:
    """Documents come best first, with id, text and score, be the query text or a sparse embedding."""
    retriever = SegmaxRetriever(path, encoder_of_texts, TEXTS, top_k=3)
    result = retriever.run(query=query)
    assert found(result) == by_hand(query)[:3]
    assert [document.content for document in result["documents"]] == [TEXTS[i] for i, _ in found(result)]
    vector = encoder_of_texts().encode_queries([query])
    embedding = SparseEmbedding(indices=vector.indices.tolist(), values=vector.data.tolist())
    without = SegmaxRetriever(segmax.open(path), texts=TEXTS, top_k=3)
    assert found(without.run(query_sparse_embedding=embedding)) == found(result)
    assert found(retriever.run(query=query, top_k=1)) == by_hand(query)[:1]
    assert found(retriever.run(query=query, top_k=0)) == []


def test_async_gives_the_same(path: Path) -> None:
    """run_async is run in another thread."""
    retriever = SegmaxRetriever(path, encoder_of_texts(), TEXTS)
    assert asyncio.run(retriever.run_async(query="the cat", top_k=2)) == retriever.run(query="the cat", top_k=2)


def test_filters_leave_top_k_that_fulfil_them(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However rare, the best documents that fulfil the conditions are found; run's filters replace or join others."""
    query = "the cat bird größe"
    searched: list[int] = []
    retriever = SegmaxRetriever(path, encoder_of_texts, text_of, top_k=1, filters=at_least("length", 23))
    retriever.warm_up()
    by_vector = retriever._search.by_vector
    monkeypatch.setattr(retriever._search, "by_vector", lambda v, k: searched.append(k) or by_vector(v, k))
    kept = [hit for hit in by_hand(query) if len(TEXTS[hit[0]]) >= 23]
    assert found(retriever.run(query=query)) == kept[:1]
    assert found(retriever.run(query=query, top_k=9)) == kept
    assert searched[0] == 1
    assert len(searched) > 2
    fewer = [hit for hit in by_hand(query) if len(TEXTS[hit[0]]) >= 22]
    assert found(retriever.run(query=query, top_k=9, filters=at_least("length", 22))) == fewer
    assert fewer != kept
    merging = SegmaxRetriever(
        path, encoder_of_texts, text_of, filters=at_least("length", 23), filter_policy=FilterPolicy.MERGE
    )
    assert found(merging.run(query=query, filters=at_least("length", 22))) == kept
    assert found(merging.run(query=query, filters=at_least("length", 10**6))) == []


#: Values that Haystack can compare by equality. It takes True for 1, so that no filter here has a boolean and a number.
VALUES = [0, 2, 2.0, 2.5, "x", "y", None, ["x"], [2, "y"], [], {"deep": 2}]
equalities = st.tuples(st.sampled_from(["==", "!="]), st.sampled_from([0, 2, 2.5, "x", None]))
memberships = st.tuples(st.sampled_from(["in", "not in"]), st.lists(st.sampled_from([0, 2, "x", None]), max_size=3))
orders = st.tuples(st.sampled_from([">", ">=", "<", "<="]), st.sampled_from([0, 2, 2.5]))
comparisons = st.one_of(
    st.tuples(st.sampled_from(["meta.v", "v", "meta.v.deep", "meta.no"]), equalities | memberships),
    st.tuples(st.sampled_from(["meta.n", "n"]), orders),
).map(lambda pair: {"field": pair[0], "operator": pair[1][0], "value": pair[1][1]})
conditions = st.recursive(
    comparisons,
    lambda inner: st.fixed_dictionaries(
        {"operator": st.sampled_from(["AND", "OR", "NOT"]), "conditions": st.lists(inner, min_size=1, max_size=3)}
    ),
    max_leaves=4,
)
metas = st.fixed_dictionaries({}, optional={"v": st.sampled_from(VALUES), "n": st.sampled_from([0, 2, 2.5, 3, None])})


@given(st.lists(metas, max_size=8), conditions)
def test_filters_mean_what_they_mean_there(given: list[dict[str, Any]], condition: dict[str, Any]) -> None:
    """As Haystack evaluates them itself."""
    where = as_where(condition)
    assert where is not None
    theirs = [document_matches_filter(condition, Document(content="", meta=meta)) for meta in given]
    assert Metadata.from_rows(given).rows(where).tolist() == theirs


@pytest.mark.parametrize(
    "condition",
    [
        {"field": "content", "operator": "==", "value": "x"},
        {"field": "blob.data", "operator": "==", "value": "x"},
        {"field": "meta.date", "operator": "==", "value": "2024-01-01"},
        {"field": "meta.date", "operator": ">=", "value": "2024-01-01"},
        {"field": "meta.n", "operator": ">", "value": None},
        {"field": "meta.n", "operator": "~", "value": 1},
        {"field": "meta.n", "operator": "in", "value": 1},
        {"field": "meta.n", "operator": "=="},
        {"field": "meta.n", "operator": "==", "value": [1]},
        {"operator": "XOR", "conditions": []},
        {"operator": "AND", "conditions": [{"field": "id", "operator": "==", "value": "x"}]},
        {"operator": "AND"},
        "text",
    ],
)
def test_what_only_haystack_can_tell(condition: Any) -> None:
    """Attributes of documents, dates, and what is not well-formed."""
    assert as_where(condition) is None


def test_an_index_answers_filters(tmp_path: Path) -> None:
    """If it stores metadata; documents come back with them. Dates and attributes are compared by Haystack."""
    documents = [SegmaxDocument(i, "", text) for i, text in TEXTS.items()]
    metadata = [{"n": n, "day": f"2024-01-0{n + 1}T00:00:00"} for n in range(len(TEXTS))]
    options = {"progress": False, "path": tmp_path / "described.segmax"}
    index_documents(documents, WordCounts(), options, metadata)
    retriever = SegmaxRetriever(tmp_path / "described.segmax", encoder_of_texts, filters=at_least("n", 1), top_k=2)
    found_there = retriever.run(query="the cat bird")["documents"]
    assert [(document.id, document.meta["n"]) for document in found_there] == [("dog", 1), ("bird", 2)]
    assert retriever.run(query="the cat bird", top_k=0) == {"documents": []}
    after = {"field": "meta.day", "operator": ">=", "value": "2024-01-03"}
    assert [one.id for one in retriever.run(query="the cat bird", filters=after)["documents"]] == ["bird", "twin"]
    by_id = {"field": "id", "operator": "==", "value": "twin"}
    assert [one.id for one in retriever.run(query="the cat bird", filters=by_id)["documents"]] == ["twin"]


def test_documents_come_back_as_they_are(path: Path) -> None:
    """A Haystack document that the lookup returns keeps its id and meta, and gets a score of its own."""
    own = {i: Document(id=f"own-{i}", content=text, meta={"kept": True}) for i, text in TEXTS.items()}
    [document] = SegmaxRetriever(path, encoder_of_texts, own).run(query="mat")["documents"]
    assert (document.id, document.content, document.meta, document.score) == (
        "own-cat",
        TEXTS["cat"],
        {"kept": True},
        1.0,
    )
    assert own["cat"].score is None


def test_a_pipeline_runs_it(path: Path) -> None:
    """Connected behind an embedder, alone with text, or asynchronously, the pipeline gives the same documents."""

    @component
    class Embedder:
        @component.output_types(sparse_embedding=SparseEmbedding)
        def run(self, text: str) -> dict[str, SparseEmbedding]:
            vector = encoder_of_texts().encode_queries([text])
            return {"sparse_embedding": SparseEmbedding(vector.indices.tolist(), vector.data.tolist())}

    pipeline = Pipeline()
    pipeline.add_component("embedder", Embedder())
    pipeline.add_component("retriever", SegmaxRetriever(path, texts=TEXTS, top_k=2))
    pipeline.connect("embedder.sparse_embedding", "retriever.query_sparse_embedding")
    result = pipeline.run({"embedder": {"text": "the cat"}})
    assert found(result["retriever"]) == by_hand("the cat")[:2]


# --- writing down ----------------------------------------------------------------------------------------------------


def test_a_pipeline_survives_yaml(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipeline that is dumped and loaded again finds the same."""
    monkeypatch.setenv("HAYSTACK_DESERIALIZATION_ALLOWLIST", f"segmax,{__name__}")  # since version 3
    pipeline = Pipeline()
    retriever = SegmaxRetriever(
        segmax.open(path),
        encoder_of_texts,
        text_of,
        top_k=2,
        filters=at_least("length", 1),
        filter_policy="merge",
        params=segmax.ASC(mu=0.9, eta=1.0),
    )
    pipeline.add_component("retriever", retriever)
    again = Pipeline.loads(pipeline.dumps())
    asked = {"retriever": {"query": "the cat"}}
    assert again.run(asked) == pipeline.run(asked)
    read = again.get_component("retriever")
    assert read.to_dict() == retriever.to_dict()
    assert (read.params, read.filter_policy, read.top_k) == (segmax.ASC(mu=0.9, eta=1.0), FilterPolicy.MERGE, 2)


def test_what_is_written_down(path: Path) -> None:
    """The dictionary holds the path, the functions by name, and all options; defaults come back as defaults."""
    plain = SegmaxRetriever(path).to_dict()
    assert plain == {
        "type": "segmax.integrations.haystack.SegmaxRetriever",
        "init_parameters": {
            "index": str(path),
            "encoder": None,
            "texts": None,
            "top_k": 10,
            "filters": None,
            "filter_policy": "replace",
            "params": None,
            "target_recall": None,
        },
    }
    assert SegmaxRetriever.from_dict(plain).to_dict() == plain
    assert SegmaxRetriever.from_dict({"type": plain["type"], "init_parameters": {"index": str(path)}}).top_k == 10
    for params in (
        segmax.ASC(),
        Anytime(mu=0.5),
        segmax.ASC(eta=0.9),
        MaxScore(),
        segmax.Exhaustive(),
    ):
        written = SegmaxRetriever(path, params=params).to_dict()
        assert SegmaxRetriever.from_dict(written).params == params
        assert written["init_parameters"]["params"] == method_name(params)


def test_an_encoder_by_name(tmp_path: Path) -> None:
    """A name or folder for load_encoder is written down as it is; an index that knows its own encoder needs none."""
    pytest.importorskip("bm25s")
    pytest.importorskip("Stemmer")
    bm25 = BM25()
    documents = [SegmaxDocument(i, "", text) for i, text in TEXTS.items()]
    index_documents(documents, bm25, {"progress": False, "path": tmp_path / "i.segmax"})
    bm25.save(tmp_path / "bm25")
    whole = SegmaxRetriever.from_dict(SegmaxRetriever(tmp_path / "i.segmax").to_dict())
    assert [document.id for document in whole.run(query="mats")["documents"]] == ["cat"]
    for folder in (tmp_path / "bm25", str(tmp_path / "bm25")):
        written = SegmaxRetriever(tmp_path / "i.segmax", folder).to_dict()
        assert written["init_parameters"]["encoder"] == str(tmp_path / "bm25")
        [document] = SegmaxRetriever.from_dict(written).run(query="mats")["documents"]
        assert (document.id, document.content) == ("cat", TEXTS["cat"])


def test_unserializable_parts_are_refused(path: Path) -> None:
    """An index in memory, an encoder or texts that are no functions, and unknown methods raise Haystack's errors."""
    in_memory = index_documents([SegmaxDocument("a", "", "a")], WordCounts(), {"progress": False})
    with pytest.raises(SerializationError, match="an index in memory cannot be serialized"):
        SegmaxRetriever(in_memory).to_dict()
    with pytest.raises(SerializationError, match="encoder cannot be serialized, because it is a WordCounts"):
        SegmaxRetriever(path, encoder_of_texts()).to_dict()
    with pytest.raises(SerializationError, match="texts cannot be serialized, because it is a dict"):
        SegmaxRetriever(path, texts=TEXTS).to_dict()
    written = SegmaxRetriever(path).to_dict()
    written["init_parameters"]["params"] = "wand"
    with pytest.raises(DeserializationError, match=r"params: expected a method, asc, .* got 'wand'"):
        SegmaxRetriever.from_dict(written)


def test_invalid_arguments_are_refused(path: Path) -> None:
    """Options that cannot be raise at once, wrong queries when they come."""
    with refused(ConfigError, option="^top_k$", expected="at least 1", got="0"):
        SegmaxRetriever(path, top_k=0)
    retriever = SegmaxRetriever(path, texts=TEXTS)
    embedding = SparseEmbedding(indices=[1], values=[1.0])
    with pytest.raises(FilterError):
        retriever.run(query_sparse_embedding=embedding, filters={"length": 5})
    with refused(ConfigError, option="^top_k$", expected="at least 0", got="-1"):
        retriever.run(query_sparse_embedding=embedding, top_k=-1)
    with refused(InputError, expected="query or query_sparse_embedding", got="neither"):
        retriever.run()
    with refused(InputError, expected="query or query_sparse_embedding", got="both"):
        retriever.run(query="cat", query_sparse_embedding=embedding)
    with refused(FormatError, expected="an encoder that segmax can load"):
        retriever.run(query="cat")
    with refused(ConfigError, option="^texts$", expected="because the index keeps no texts", got="none"):
        SegmaxRetriever(path).run(query_sparse_embedding=embedding)
    with pytest.raises(IndexNotFoundError):
        SegmaxRetriever(path.with_name("nowhere.segmax"), texts=TEXTS).warm_up()


def test_the_documented_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/integrations.md says what works."""
    pytest.importorskip("bm25s")
    pytest.importorskip("Stemmer")
    monkeypatch.chdir(tmp_path)
    names = run_documented("Haystack")
    assert [document.id for document in names["documents"]] == ["zebra"]  # type: ignore[attr-defined]
