"""LlamaIndex: a retriever in its conventions, over a segmax index."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import segmax
from conftest import refused
from integration_samples import TEXTS, WordCounts, by_hand, run_documented
from segmax.errors import ConfigError, InputError
from segmax.io import Document as SegmaxDocument
from segmax.paper import MaxScore

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # theirs

pytest.importorskip("llama_index.core")

from llama_index.core.base.base_retriever import BaseRetriever  # noqa: E402
from llama_index.core.callbacks import CallbackManager, LlamaDebugHandler  # noqa: E402
from llama_index.core.callbacks.schema import CBEventType  # noqa: E402
from llama_index.core.schema import IndexNode, NodeWithScore, QueryBundle, TextNode  # noqa: E402
from llama_index.core.vector_stores.types import (  # noqa: E402
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
)
from llama_index.core.vector_stores.utils import build_metadata_filter_fn  # noqa: E402

from segmax.encoders import BM25  # noqa: E402
from segmax.integrations.llama_index import SegmaxRetriever, as_where  # noqa: E402
from segmax.metadata import Metadata  # noqa: E402

QUIET: dict[str, Any] = {"progress": False, "keep_texts": False}


def made(**options: Any) -> SegmaxRetriever:
    """A retriever over TEXTS as nodes."""
    nodes = [TextNode(id_=i, text=text, metadata={}) for i, text in TEXTS.items()]
    return SegmaxRetriever.from_nodes(nodes, WordCounts(), index_kwargs=QUIET, **options)


def over_texts(**options: Any) -> SegmaxRetriever:
    """A retriever that makes nodes of plain strings."""
    first = made()
    return SegmaxRetriever(first._search.index, first._search._encoder, TEXTS, **options)


def found(nodes: list[NodeWithScore]) -> list[tuple[str, float | None]]:
    """Ids and scores."""
    return [(node.node.node_id, node.score) for node in nodes]


@pytest.mark.parametrize("query", ["the cat", "bird tree", "größe", "nothing like it", ""])
def test_retrieve_is_counting_by_hand(query: str) -> None:
    """Nodes come best first, with id, text and score; a string and a bundle ask the same."""
    retriever = over_texts(similarity_top_k=3)
    nodes = retriever.retrieve(query)
    assert found(nodes) == by_hand(query)[:3]
    assert [node.node.get_content() for node in nodes] == [TEXTS[node.node.node_id] for node in nodes]
    assert found(retriever.retrieve(QueryBundle(query))) == found(nodes)


def test_the_default_is_theirs() -> None:
    """similarity_top_k is what it is for their own retrievers, and can be set later."""
    from llama_index.core.constants import DEFAULT_SIMILARITY_TOP_K

    retriever = made()
    assert isinstance(retriever, BaseRetriever)
    assert retriever.similarity_top_k == DEFAULT_SIMILARITY_TOP_K
    retriever.similarity_top_k = 1
    assert len(retriever.retrieve("the cat")) == 1


def test_two_documents_that_say_the_same_are_two() -> None:
    """Only nodes of the same id count as one: what reads alike comes back under each of its ids."""
    assert found(over_texts(similarity_top_k=9).retrieve("bird")) == [("bird", 1.0), ("twin", 1.0)]


def test_nodes_come_back_as_they_are() -> None:
    """A node that the lookup returns is not copied; its metadata for embedding is part of what is indexed."""
    node = TextNode(id_="x", text="plain", metadata={"topic": "zebras"})
    retriever = SegmaxRetriever.from_nodes([node], WordCounts(), index_kwargs=QUIET)
    assert retriever.retrieve("zebras")[0].node is node


def test_async_does_not_block() -> None:
    """Asking asynchronously gives the same, from another thread: the event loop goes on meanwhile."""
    retriever = over_texts(similarity_top_k=3)

    async def both() -> tuple[list[NodeWithScore], int]:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        ticking = asyncio.create_task(tick())
        nodes = await retriever.aretrieve("the cat")
        ticking.cancel()
        return nodes, ticks

    nodes, ticks = asyncio.run(both())
    assert found(nodes) == by_hand("the cat")[:3]
    assert ticks > 1


def test_callbacks_and_objects_work_as_everywhere() -> None:
    """Events reach a callback manager, and an index node leads to the object behind it."""
    listener = LlamaDebugHandler(print_trace_on_end=False)
    inner = over_texts(similarity_top_k=1)
    pointer = IndexNode(id_="p", text="all about cats", index_id="inner", obj=inner)
    retriever = SegmaxRetriever.from_nodes(
        [pointer], WordCounts(), index_kwargs=QUIET, callback_manager=CallbackManager([listener])
    )
    assert found(retriever.retrieve("all the cats")) == by_hand("all the cats")[:1]
    assert len(listener.get_event_pairs(CBEventType.RETRIEVE)) == 1


def test_texts_from_anywhere(tmp_path: Path) -> None:
    """A mapping with more than the text gives metadata; so does the index that keeps titles."""
    encoder = WordCounts()
    first = made()
    mapped = {i: {"text": text, "title": i.upper()} for i, text in TEXTS.items()}
    other = SegmaxRetriever(first._search.index, first._search._encoder, mapped.get, similarity_top_k=1)
    assert other.retrieve("mat")[0].node.metadata == {"title": "CAT"}
    titled = [SegmaxDocument(i, "T", text) for i, text in TEXTS.items()]
    index = segmax.from_texts(titled, encoder=encoder, path=tmp_path / "kept.segmax", progress=False)
    kept = SegmaxRetriever(index, params=MaxScore())
    assert kept.retrieve("mat")[0].node.metadata == {"title": "T"}


def test_an_index_can_be_enough(tmp_path: Path) -> None:
    """One that keeps texts and knows its encoder, as from_nodes writes it, needs neither of them given."""
    pytest.importorskip("bm25s")
    pytest.importorskip("Stemmer")
    nodes = [TextNode(id_=i, text=text) for i, text in TEXTS.items()]
    options = {"progress": False, "path": tmp_path / "whole.segmax"}
    SegmaxRetriever.from_nodes(nodes, BM25(), index_kwargs=options)
    [node] = SegmaxRetriever(segmax.open(tmp_path / "whole.segmax")).retrieve("mats")
    assert (node.node_id, node.text) == ("cat", TEXTS["cat"])


def test_invalid_arguments_are_refused() -> None:
    """Parts that do not fit raise at once."""
    retriever = made()
    with refused(ConfigError, option="^texts$", expected="because the index keeps no texts", got="none"):
        SegmaxRetriever(retriever._search.index, WordCounts())


def test_the_documented_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/integrations.md says what works."""
    pytest.importorskip("bm25s")
    pytest.importorskip("Stemmer")
    monkeypatch.chdir(tmp_path)
    names = run_documented("LlamaIndex")
    assert [node.node.node_id for node in names["nodes"]] == ["zebra"]  # type: ignore[attr-defined]


def test_ids_do_not_collide() -> None:
    """Two nodes with one id are an error: neither is dropped in silence."""
    nodes = [TextNode(id_="a", text="the cat"), TextNode(id_="a", text="the dog")]
    with refused(InputError, got="'a' for node 0 and node 1"):
        SegmaxRetriever.from_nodes(nodes, WordCounts(), index_kwargs=QUIET)


# --- filters ---------------------------------------------------------------------------------------------------------

#: Metadata of nodes. LlamaIndex compares lists and strings with numbers by raising an error: these do not meet here.
DESCRIBED: dict[str, dict[str, Any]] = {
    "a": {"n": 1, "s": "x", "tags": ["p", "q"]},
    "b": {"n": 2, "s": "y", "tags": ["q"]},
    "c": {"n": 2.5, "s": "", "tags": []},
    "d": {},
}
FILTERS = [
    MetadataFilter(key="n", value=2),
    MetadataFilter(key="n", value=2, operator=FilterOperator.NE),
    MetadataFilter(key="n", value=1, operator=FilterOperator.GT),
    MetadataFilter(key="n", value=2, operator=FilterOperator.GTE),
    MetadataFilter(key="n", value=2, operator=FilterOperator.LT),
    MetadataFilter(key="n", value=2.0, operator=FilterOperator.LTE),
    MetadataFilter(key="s", value=["x", "z"], operator=FilterOperator.IN),
    MetadataFilter(key="s", value=["x", "z"], operator=FilterOperator.NIN),
    MetadataFilter(key="tags", value="q", operator=FilterOperator.CONTAINS),
    MetadataFilter(key="tags", value=["p", "z"], operator=FilterOperator.ANY),
    MetadataFilter(key="tags", value=["p", "q"], operator=FilterOperator.ALL),
    MetadataFilter(key="tags", value=[], operator=FilterOperator.ANY),
    MetadataFilter(key="tags", value=None, operator=FilterOperator.IS_EMPTY),
    MetadataFilter(key="s", value=None, operator=FilterOperator.IS_EMPTY),
]


@pytest.mark.parametrize("condition", list(FilterCondition))
@pytest.mark.parametrize("first", FILTERS, ids=repr)
def test_filters_mean_what_they_mean_there(first: MetadataFilter, condition: FilterCondition) -> None:
    """Every operator alone and with another one, as LlamaIndex evaluates it itself."""
    for filters in ([first], *([first, other] for other in FILTERS)):
        asked = MetadataFilters(filters=filters, condition=condition)
        theirs = build_metadata_filter_fn(DESCRIBED.__getitem__, asked)
        ours = Metadata.from_rows(list(DESCRIBED.values())).rows(as_where(asked))
        assert ours.tolist() == [theirs(name) for name in DESCRIBED]


def test_filters_of_a_retriever() -> None:
    """Nodes are found by their metadata; filters may be nested."""
    nodes = [TextNode(id_=i, text=text, metadata={"n": n}) for n, (i, text) in enumerate(TEXTS.items())]
    low, high = (MetadataFilter(key="n", value=n, operator=FilterOperator.GTE) for n in (1, 3))
    inner = MetadataFilters(filters=[high], condition=FilterCondition.NOT)
    asked = MetadataFilters(filters=[low, inner])
    retriever = SegmaxRetriever.from_nodes(nodes, WordCounts(), index_kwargs=QUIET, filters=asked, similarity_top_k=9)
    assert {node.node.node_id for node in retriever.retrieve("the cat bird tree")} == {"dog", "bird"}
    assert as_where(MetadataFilters(filters=[])) == {}
    every = MetadataFilter(key="tags", value=[], operator=FilterOperator.ALL)
    assert Metadata.from_rows([{}]).rows(as_where(MetadataFilters(filters=[every]))).tolist() == [True]
    with refused(InputError, option="filters", got="text_match"):
        as_where(MetadataFilters(filters=[MetadataFilter(key="s", value="x", operator=FilterOperator.TEXT_MATCH)]))
