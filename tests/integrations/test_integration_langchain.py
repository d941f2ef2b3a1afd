"""LangChain: a retriever in its conventions, over a segmax index."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import segmax
from conftest import refused
from integration_samples import TEXTS, WordCounts, by_hand, run_documented
from segmax.errors import ConfigError, InputError

pytest.importorskip("langchain_core")

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from pydantic import ValidationError

from segmax.encoders import BM25
from segmax.integrations.langchain import SegmaxRetriever

QUIET: dict[str, Any] = {"progress": False, "keep_texts": False}


def made(**options: Any) -> SegmaxRetriever:
    """A retriever over TEXTS, every document with metadata of its own."""
    documents = [Document(id=i, page_content=text, metadata={"words": len(text)}) for i, text in TEXTS.items()]
    return SegmaxRetriever.from_documents(documents, WordCounts(), index_kwargs=QUIET, **options)


def found(documents: list[Document]) -> list[tuple[str | None, float]]:
    """Ids and scores."""
    return [(document.id, document.metadata["score"]) for document in documents]


@pytest.mark.parametrize("query", ["the cat", "bird tree", "größe", "nothing like it", ""])
def test_invoke_is_counting_by_hand(query: str) -> None:
    """Documents come best first, with id, text, their own metadata and the score; k is kept."""
    retriever = made(k=2)
    documents = retriever.invoke(query)
    assert found(documents) == by_hand(query)[:2]
    for document in documents:
        assert document.page_content == TEXTS[str(document.id)]
        assert document.metadata["words"] == len(document.page_content)
    assert found(retriever.invoke(query, k=4)) == by_hand(query)[:4]


def test_the_default_is_four() -> None:
    """As for other retrievers of LangChain."""
    assert made().k == 4


def test_all_ways_to_call_agree() -> None:
    """invoke, ainvoke, batch, abatch and a chain give the same documents."""
    retriever = made()
    assert isinstance(retriever, BaseRetriever)
    queries = ["the cat", "bird"]
    wanted = [retriever.invoke(query) for query in queries]
    assert retriever.batch(queries) == wanted
    assert asyncio.run(retriever.ainvoke(queries[0])) == wanted[0]
    assert asyncio.run(retriever.ainvoke(queries[0], k=1)) == wanted[0][:1]
    assert asyncio.run(retriever.abatch(queries)) == wanted
    chain = retriever | RunnableLambda(lambda documents: [document.page_content for document in documents])
    assert chain.invoke(queries[0]) == [document.page_content for document in wanted[0]]


def test_callbacks_hear_of_it() -> None:
    """Start, end and errors reach the callbacks."""
    heard: list[str] = []

    class Listener(BaseCallbackHandler):
        def on_retriever_start(self, *_: Any, **__: Any) -> None:
            heard.append("start")

        def on_retriever_end(self, *_: Any, **__: Any) -> None:
            heard.append("end")

        def on_retriever_error(self, *_: Any, **__: Any) -> None:
            heard.append("error")

    made().invoke("cat", config={"callbacks": [Listener()]})
    with pytest.raises(ConfigError):
        made().invoke("cat", config={"callbacks": [Listener()]}, k=0)
    assert heard == ["start", "end", "start", "error"]


def test_texts_from_anywhere(tmp_path: Path) -> None:
    """Strings, mappings, functions and the index itself can tell what a document says; documents are not changed."""
    retriever = made()
    mapped = {i: {"text": text, "title": i.upper()} for i, text in TEXTS.items()}
    titled = [{"words": 22, "score": 2.0, "title": "CAT"}, {"words": 22, "score": 1.0, "title": "DOG"}]
    for texts in (mapped, mapped.get):
        other = SegmaxRetriever(index=retriever.index, encoder=retriever.encoder, texts=texts)
        assert [document.metadata for document in other.invoke("mat cat")] == titled
    plain = SegmaxRetriever(index=retriever.index, encoder=retriever.encoder, texts=TEXTS)
    cat = Document(id="cat", page_content=TEXTS["cat"], metadata={"words": 22, "score": 1.0})
    assert plain.invoke("mat")[0] == cat
    assert retriever.texts["cat"].metadata == {"words": len(TEXTS["cat"])}
    options = {"progress": False, "path": tmp_path / "kept.segmax"}
    kept = SegmaxRetriever.from_documents(
        [Document(page_content=text) for text in TEXTS.values()], WordCounts(), index_kwargs=options
    )
    opened = SegmaxRetriever(index=segmax.open(tmp_path / "kept.segmax"), encoder=kept.encoder, target_recall=0.9)
    assert found(opened.invoke("mat cat")) == [("0", 2.0), ("1", 1.0)]
    assert opened.invoke("mat")[0].page_content == TEXTS["cat"]


def test_filters() -> None:
    """One for all queries, or one for a query; both ways to call."""
    retriever = made(filter={"words": {"$gt": 22}})
    assert [document.id for document in retriever.invoke("the cat tree")] == ["bird", "twin"]
    wanted = retriever.invoke("the cat tree", filter={"words": 22})
    assert [document.id for document in wanted] == ["cat", "dog"]
    assert asyncio.run(retriever.ainvoke("the cat tree", filter={"words": 22})) == wanted
    with refused(InputError, hint="did you mean"):
        retriever.invoke("the cat", filter={"words": {"$gtt": 1}})


def test_an_index_can_be_enough(tmp_path: Path) -> None:
    """One that keeps texts and knows its encoder, as from_documents writes it, needs neither of them given."""
    pytest.importorskip("bm25s")
    pytest.importorskip("Stemmer")
    documents = [Document(id=i, page_content=text) for i, text in TEXTS.items()]
    options = {"progress": False, "path": tmp_path / "whole.segmax"}
    SegmaxRetriever.from_documents(documents, BM25(), index_kwargs=options)
    [document] = SegmaxRetriever(index=segmax.open(tmp_path / "whole.segmax")).invoke("mats")
    assert (document.id, document.page_content) == ("cat", TEXTS["cat"])


def test_invalid_arguments_are_refused() -> None:
    """Parts that do not fit raise pydantic's error, which is a ValueError, with our words."""
    retriever = made()
    with pytest.raises(ValidationError, match="because the index keeps no texts"):
        SegmaxRetriever(index=retriever.index, encoder=retriever.encoder)
    with pytest.raises(ValidationError, match=r"expected an encoder: .*got int"):
        SegmaxRetriever(index=retriever.index, encoder=5, texts=TEXTS)
    with pytest.raises(ValidationError, match="index"):
        SegmaxRetriever(index="my.segmax", encoder=retriever.encoder, texts=TEXTS)


def test_the_documented_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/integrations.md says what works."""
    pytest.importorskip("bm25s")
    pytest.importorskip("Stemmer")
    monkeypatch.chdir(tmp_path)
    names = run_documented("LangChain")
    assert [document.id for document in names["found"]] == ["zebra"]  # type: ignore[attr-defined]


def test_ids_do_not_collide() -> None:
    """An id that is also the number of another document costs none of them; the same id twice is an error."""
    documents = [Document(page_content="the cat"), Document(id="0", page_content="the dog")]
    retriever = SegmaxRetriever.from_documents(documents, WordCounts(), index_kwargs=QUIET)
    assert {(d.id, d.page_content) for d in retriever.invoke("the")} == {("2", "the cat"), ("0", "the dog")}
    documents = [Document(id="a", page_content="the cat"), Document(id="a", page_content="the dog")]
    with refused(InputError, got="'a' for document 0 and document 1"):
        SegmaxRetriever.from_documents(documents, WordCounts(), index_kwargs=QUIET)
