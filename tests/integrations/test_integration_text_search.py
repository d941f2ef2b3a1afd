"""What the retrievers of LangChain, LlamaIndex and Haystack have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import segmax
from conftest import refused
from integration_samples import TEXTS, WordCounts, by_hand
from segmax.base.errors import ConfigError, InputError
from segmax.encoders import BM25
from segmax.encoders.chunks import batched
from segmax.errors import FormatError
from segmax.integrations.text_search import TextHit, TextSearch, free_ids, index_documents, text_and_metadata
from segmax.paper import MaxScore
from segmax.vectors.documents import Document


def made(title: str = "") -> tuple[segmax.Index, WordCounts]:
    """An index of TEXTS, which it stores if they get a title, and its encoder."""
    encoder = WordCounts()
    documents = [Document(doc_id, title, text) for doc_id, text in TEXTS.items()]
    options = {"progress": False, "keep_texts": bool(title), "title": False}
    return index_documents(documents, encoder, options), encoder


@pytest.mark.parametrize("query", ["the cat", "bird tree", "größe", "nothing like it", ""])
@pytest.mark.parametrize("k", [1, 3, 100])
def test_search_by_text_is_counting_by_hand(query: str, k: int) -> None:
    """Hits are the documents, scores and texts that counting words gives, ties in the order of input."""
    index, encoder = made()
    hits = TextSearch(index, encoder, TEXTS).by_text(query, k)
    assert [(hit.id, hit.score) for hit in hits] == by_hand(query)[:k]
    assert [hit.content for hit in hits] == [TEXTS[hit.id] for hit in hits]


def test_batches_that_widen_are_one_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """An encoder that learns its vocabulary on the way may begin with fewer columns."""
    monkeypatch.setattr("segmax.text.encoded.batched", lambda documents: batched(documents, 1))
    index, encoder = made()
    assert index.num_terms == len(encoder.vocabulary)
    hits = TextSearch(index, encoder, TEXTS).by_text("the cat größe", 10)
    assert [(hit.id, hit.score) for hit in hits] == by_hand("the cat größe")


def test_texts_from_anywhere() -> None:
    """A dictionary, a function, anything with items, and the texts that the index keeps are all the same."""

    class Items:
        def __getitem__(self, doc_id: str) -> str:
            return TEXTS[doc_id]

    index, encoder = made(title="A title")
    wanted = [hit.content for hit in TextSearch(index, encoder, TEXTS).by_text("the cat", 5)]
    for texts in (TEXTS.__getitem__, TEXTS.get, Items()):
        assert [hit.content for hit in TextSearch(index, encoder, texts).by_text("the cat", 5)] == wanted
    kept = [text_and_metadata(hit) for hit in TextSearch(index, encoder).by_text("the cat", 5)]
    assert kept == [(text, {"title": "A title"}) for text in wanted]


def test_an_index_that_knows_its_encoder_and_texts_needs_nothing_else(tmp_path: Path) -> None:
    """Opened from disk, an index of documents is enough to search by text."""
    pytest.importorskip("bm25s")
    pytest.importorskip("Stemmer")
    documents = [Document(doc_id, doc_id.upper(), text) for doc_id, text in TEXTS.items()]
    index_documents(documents, BM25(), {"progress": False, "path": tmp_path / "whole.segmax"})
    [hit] = TextSearch(segmax.open(tmp_path / "whole.segmax"), None).by_text("mats", 5)
    assert hit.id == "cat"
    assert text_and_metadata(hit) == (TEXTS["cat"], {"title": "CAT"})


def test_a_text_and_what_else_is_known() -> None:
    """Strings, mappings and objects give the text; the rest is metadata."""

    def known(content: Any, **stored: Any) -> tuple[str, dict[str, Any]]:
        return text_and_metadata(TextHit("7", 1.0, content, stored))

    assert known("x") == ("x", {})
    assert known({"text": "x", "year": 1999}) == ("x", {"year": 1999})
    assert known(Document("7", "", "x")) == ("x", {})
    assert known(Document("7", "t", "x"), lang="en", title="other") == ("x", {"title": "t", "lang": "en"})
    with refused(InputError, expected="a text as a string, or an object or mapping with 'text'", got="int"):
        known(5)


def test_filters_and_what_is_left_out() -> None:
    """Searches are narrowed by what JSON can hold of the metadata."""
    documents = [Document(doc_id, "", text) for doc_id, text in TEXTS.items()]
    metadata = [{"n": number, "other": {1, 2}} for number in range(len(TEXTS))]
    index = index_documents(documents, WordCounts(), {"progress": False}, metadata)
    hits = TextSearch(index).by_text("the cat bird", 9, {"n": {"$gte": 2}})
    assert [(hit.id, hit.metadata) for hit in hits] == [("bird", {"n": 2}), ("twin", {"n": 3})]


def test_invalid_parts_and_queries_are_refused() -> None:
    """Wrong parts raise at once, wrong queries when they come."""
    index, encoder = made()
    with refused(ConfigError, option="index", got="^str$"):
        TextSearch("my.segmax", encoder, TEXTS)  # type: ignore[arg-type]
    with refused(ConfigError, expected="an encoder: an object with encode_queries", got="^int$"):
        TextSearch(index, 5, TEXTS)
    with refused(ConfigError, option="^texts$", expected="because the index keeps no texts", got="none"):
        TextSearch(index, encoder)
    with refused(ConfigError, option="texts", got="^int$"):
        TextSearch(index, encoder, 5)
    search = TextSearch(index, encoder, TEXTS)
    with refused(InputError, expected="a query as a string", got="^int$"):
        search.by_text(5, 1)  # type: ignore[arg-type]
    with refused(ConfigError, option="k", got="^0$"):
        search.by_text("cat", 0)
    index.encoder = None  # type: ignore[assignment]
    with refused(FormatError, expected="an encoder that segmax can load", got="WordCounts"):
        TextSearch(index, None, TEXTS).by_text("cat", 1)
    plain = segmax.build(index.vectors(list(TEXTS)), ids=list(TEXTS), terms=index.terms)
    with refused(InputError, expected="an encoder", got="not know what made its vectors"):
        TextSearch(plain, None, TEXTS).by_text("cat", 1)
    for texts in ({}, {}.get):
        with refused(InputError, option="^texts$", expected="every id of the index", got="none for 'cat'"):
            TextSearch(index, encoder, texts).by_text("mat", 1)


def test_params_and_target_recall_reach_the_search() -> None:
    """What the index would say about wrong options is said here, too."""
    index, encoder = made()
    limited = TextSearch(index, encoder, TEXTS, MaxScore())
    assert [(hit.id, hit.score) for hit in limited.by_text("the cat", 9)] == by_hand("the cat")
    both = TextSearch(index, encoder, TEXTS, MaxScore(), 0.9)
    with refused(ConfigError, expected="params or target_recall", got="both"):
        both.by_text("cat", 1)


def test_ids_that_are_given_and_ids_that_are_free() -> None:
    """Documents without an id get their number, or one that no other has; two with the same are an error."""
    assert free_ids([None, "a", None], "document") == ["0", "a", "2"]
    assert free_ids([None, "0", "3", None, "5", None], "document") == ["6", "0", "3", "7", "5", "8"]
    assert free_ids([7, None], "document") == ["7", "1"]
    with refused(InputError, got="'a' for node 1 and node 3", hint="an index holds an id once"):
        free_ids([None, "a", "b", "a"], "node")
