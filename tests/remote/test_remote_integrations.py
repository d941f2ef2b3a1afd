"""Whatever takes an index takes one at a service: evaluation, fusion, other libraries, the command line."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from remote_samples import serving, texts, write_collection

import segmax
from segmax.cli.main import main
from segmax.integrations.sources import opened, place_of
from segmax.integrations.text_search import TextSearch

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # theirs


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index, a collection, and vectors by word."""
    root = tmp_path_factory.mktemp("integrations")
    records = texts()
    described = [record.pop("metadata") for record in records]
    segmax.from_texts(records, path=root / "docs.segmax", metadata=described)
    write_collection(root / "papers")
    with segmax.Collection.create(root / "toks") as collection:
        collection.add([{"id": "d1", "vector": {"cat": 1.5, "dog": 2.0}}, {"id": "d2", "vector": {"cat": 1.0}}])
        collection.commit()
    return root


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    """A service of all of them."""
    with serving(folder / "docs.segmax", folder / "papers", folder / "toks") as address:
        yield address


@pytest.fixture(params=["docs", "papers"])
def pair(request: pytest.FixtureRequest, url: str, folder: Path) -> Iterator[tuple[Any, Any]]:
    """The index or the collection, at the service and on this machine."""
    path = folder / ("docs.segmax" if request.param == "docs" else "papers")
    with segmax.connect(url, index=request.param) as there, segmax.open(path) as here:
        yield there, here


def test_evaluate(pair: tuple[Any, Any]) -> None:
    """Measures are the same; texts are encoded by the service."""
    pytest.importorskip("ir_measures")
    queries = {"q1": "copper noise", "q2": "phase of a signal"}
    qrels = {"q1": {"d1": 1, "d7": 1}, "q2": {"d2": 1}}
    methods = ["exhaustive", "asc", "asc:eta=0.9", "anytime:mu=0.8"]
    found, expected = (segmax.evaluate(source, queries, qrels, methods=methods, passes=1) for source in pair)
    for one, other in zip(found.methods, expected.methods, strict=True):
        assert one.relevance == other.relevance
        assert one.recall_of_exact == other.recall_of_exact
        assert one.clusters_visited == other.clusters_visited


def test_hybrid(pair: tuple[Any, Any]) -> None:
    """Rankings from here and from there are fused; texts come from wherever the document was found."""
    there, here = pair
    found = segmax.hybrid([(there, "copper"), (there, {"nois": 1.0}), (here, "tube")], k=5, where={"lang": "en"})
    expected = segmax.hybrid([(here, "copper"), (here, {"nois": 1.0}), (here, "tube")], k=5, where={"lang": "en"})
    assert list(found) == list(expected)
    assert found.texts == expected.texts
    assert found.metadata == expected.metadata


def test_text_search(pair: tuple[Any, Any]) -> None:
    """What the retrievers of other libraries are made of."""
    found, expected = (TextSearch(source).by_text("copper noise", 5, {"lang": "de"}) for source in pair)
    assert found == expected
    found, expected = (TextSearch(source, texts={}.get).encoded("copper") for source in pair)
    assert all((one == other).all() for one, other in zip(found, expected, strict=True))


def test_addresses_stand_for_what_is_there(url: str, folder: Path) -> None:
    """Where a path does, an address does."""
    address = f"{url}/v1/indexes/docs"
    source = opened(address)
    assert source.num_docs == 120
    assert opened(source) is source
    assert place_of(source) == place_of(address) == address
    assert place_of(folder) == str(folder)
    assert place_of(segmax.from_texts(["copper"])) is None


def test_sentence_transformers(url: str) -> None:
    """Decoded embeddings against a collection whose terms are words; by connection, and by address."""
    from segmax.integrations.sentence_transformers import semantic_search_segmax

    address = f"{url}/v1/indexes/toks"
    with segmax.connect(address) as there:
        for source in (there, address):
            results, _ = semantic_search_segmax([[("cat", 1.0)], [("dog", 2.0), ("cow", 1.0)]], corpus_index=source)
            rows = [[hit["corpus_id"] for hit in one] for one in results]
            assert rows == [[0, 1], [0]]


def test_langchain(pair: tuple[Any, Any]) -> None:
    """Its retriever, waiting and awaiting."""
    pytest.importorskip("langchain_core")
    import asyncio

    from segmax.integrations.langchain import SegmaxRetriever

    found, expected = (SegmaxRetriever(index=source, k=3, filter={"lang": "en"}) for source in pair)
    assert found.invoke("copper noise") == expected.invoke("copper noise")
    assert asyncio.run(found.ainvoke("copper noise")) == expected.invoke("copper noise")


def test_llama_index(pair: tuple[Any, Any]) -> None:
    """Its retriever."""
    pytest.importorskip("llama_index.core")
    from segmax.integrations.llama_index import SegmaxRetriever

    found, expected = (SegmaxRetriever(source, similarity_top_k=3).retrieve("copper noise") for source in pair)
    assert [(one.node.node_id, one.score, one.node.text) for one in found] == [
        (one.node.node_id, one.score, one.node.text) for one in expected
    ]


def test_haystack(pair: tuple[Any, Any]) -> None:
    """Its component, also by address, and written down."""
    pytest.importorskip("haystack")
    from segmax.integrations.haystack import SegmaxRetriever

    there, here = pair
    condition = {"field": "meta.year", "operator": ">=", "value": 1960}
    expected = SegmaxRetriever(here, top_k=3).run(query="copper", filters=condition)
    for source in (there, there.url):
        component = SegmaxRetriever(source, top_k=3)
        assert component.run(query="copper", filters=condition) == expected
        again = SegmaxRetriever.from_dict(component.to_dict())
        assert again.run(query="copper", filters=condition) == expected


def test_pyterrier(url: str) -> None:
    """Its transformer, by connection and by address."""
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyterrier")
    from segmax.integrations.pyterrier import SegmaxIndex, SegmaxRetriever

    queries = pd.DataFrame([{"qid": "1", "query_toks": {"cat": 1.0}}])
    with segmax.connect(url, index="toks") as there:
        for source in (there, there.url):
            assert SegmaxRetriever(source, num_results=5)(queries)["docno"].tolist() == ["d1", "d2"]
        with pytest.raises(segmax.errors.InputError, match="at a service"):
            SegmaxIndex(there)


def run(*arguments: object) -> str:
    """What `segmax` prints."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert main([*map(str, arguments)]) == 0
    return printed.getvalue()


def test_the_command_line(url: str, folder: Path) -> None:
    """`segmax search` takes an address for an index: words, and files of queries."""
    queries = folder / "queries.tsv"
    queries.write_text("q1\tcopper noise\nq2\ttube\n")
    options = ("--where", '{"lang": "en"}', "-k", "3")
    for name, path in (("docs", "docs.segmax"), ("papers", "papers")):
        address = f"{url}/v1/indexes/{name}"
        assert run("search", address, queries, *options) == run("search", folder / path, queries, *options)
        assert "On " in run("search", address, "copper", "noise", "-k", "2")
