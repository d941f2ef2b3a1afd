"""Other libraries over a collection: filters, metadata, and what is deleted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from segmax.collection.collection import Collection

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # theirs


@pytest.fixture
def papers(tmp_path: Path) -> Iterator[Collection]:
    """Documents on disk and in memory; one is deleted."""
    with Collection.create(tmp_path / "papers", encoder="bm25") as collection:
        for first in (0, 4):
            collection.add(
                [
                    {
                        "id": f"d{row}",
                        "title": f"T{row}",
                        "text": "noise",
                        "metadata": {"row": row, "group": "ab"[row % 2]},
                    }
                    for row in range(first, first + 4)
                ]
            )
            if first == 0:
                collection.compact()
        collection.delete("d1")
        collection.commit()
        yield collection


def test_langchain(papers: Collection) -> None:
    """A collection and a snapshot of it."""
    pytest.importorskip("langchain_core")
    from segmax.integrations.langchain import SegmaxRetriever

    for source in (papers, papers.snapshot()):
        found = SegmaxRetriever(index=source, k=2, filter={"group": "b"}).invoke("noise")
        assert [document.id for document in found] == ["d3", "d5"]
        assert found[0].metadata.items() >= {"row": 3, "group": "b", "title": "T3"}.items()


def test_llama_index(papers: Collection) -> None:
    """Filters in its own language."""
    pytest.importorskip("llama_index.core")
    from llama_index.core.vector_stores import ExactMatchFilter, MetadataFilters

    from segmax.integrations.llama_index import SegmaxRetriever

    filters = MetadataFilters(filters=[ExactMatchFilter(key="group", value="b")])
    found = SegmaxRetriever(papers, similarity_top_k=2, filters=filters).retrieve("noise")
    assert [node.node.node_id for node in found] == ["d3", "d5"]
    assert found[0].node.metadata.items() >= {"row": 3, "group": "b"}.items()


def test_haystack(papers: Collection) -> None:
    """Conditions that the collection answers, and documents with their metadata."""
    pytest.importorskip("haystack")
    from segmax.integrations.haystack import SegmaxRetriever

    condition = {"field": "meta.row", "operator": ">=", "value": 3}
    for source in (papers, str(papers.path)):
        found = SegmaxRetriever(source, top_k=2).run(query="noise", filters=condition)["documents"]
        assert [document.id for document in found] == ["d3", "d4"]
        assert found[0].meta.items() >= {"row": 3, "group": "b"}.items()


def test_pyterrier(tmp_path: Path) -> None:
    """An open collection, or its folder."""
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyterrier")
    from segmax.integrations.pyterrier import SegmaxIndex, SegmaxRetriever

    with Collection.create(tmp_path / "toks") as collection:
        collection.add([{"id": "d1", "vector": {"cat": 1.5, "dog": 2.0}}, {"id": "d2", "vector": {"cat": 1.0}}])
        collection.commit()
        queries = pd.DataFrame([{"qid": "1", "query_toks": {"cat": 1.0}}])
        for source in (SegmaxIndex(collection), SegmaxIndex(collection.path)):
            assert source.built()
            assert len(source) == 2
            assert source.retriever(num_results=5)(queries)["docno"].tolist() == ["d1", "d2"]
        collection.delete("d1")
        assert SegmaxRetriever(collection)(queries)["docno"].tolist() == ["d2"]
        assert SegmaxIndex(collection).retriever()(queries)["docno"].tolist() == ["d2"]
