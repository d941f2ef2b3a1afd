"""Collections whose documents are texts, encoded by a model."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("sentence_transformers", reason="needs segmax[encoders]")

import segmax
from segmax.collection.collection import Collection
from segmax.errors import SegmaxError

TEXTS = {"a": "the cat sleeps", "b": "big dogs run", "c": "a house and a tree"}


def test_texts_are_encoded_as_an_index_encodes_them(tmp_path: Path, splade: Path) -> None:
    """Up to the rounding of weights, however they are added; changed text is encoded again."""
    index = segmax.from_texts(TEXTS, encoder=splade, bits=16)
    with Collection.create(tmp_path / "docs", encoder=splade) as collection:
        collection.add({"a": TEXTS["a"]})
        collection.add([{"id": name, "text": TEXTS[name]} for name in "bc"])
        for query in ("cat", "running dogs", "tree house"):
            mine, other = collection.search(query), index.search(query)
            assert mine.ids == other.ids
            assert mine.scores == pytest.approx(other.scores, rel=0.03)
        collection.update({"id": "a", "text": TEXTS["b"]})
        hits = collection.search("big dogs run", k=2)
        assert set(hits.ids) == {"a", "b"}
        assert hits.scores[0] == hits.scores[1]


def test_a_model_is_loaded_only_if_asked_for(tmp_path: Path, splade: Path) -> None:
    """A collection may come from anybody: without an encoder it is searched by vectors only."""
    with Collection.create(tmp_path / "docs", encoder=splade) as collection:
        collection.add(TEXTS)
        terms = collection.terms
        assert terms is not None
        cat = terms.find("cat")
    with Collection.open(tmp_path / "docs") as collection:
        with pytest.raises(SegmaxError):
            collection.search("cat")
        with pytest.raises(SegmaxError):
            collection.add({"d": "a tree"})
        collection.search({cat: 1.0})
    with Collection.open(tmp_path / "docs", encoder=splade) as collection:
        collection.add({"d": "a tree"})
        assert len(collection.search("tree")) > 0
