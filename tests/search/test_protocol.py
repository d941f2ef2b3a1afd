"""Anything that answers the methods of an index can be evaluated and integrated: `Searchable`."""

from __future__ import annotations

from typing import Any

import pytest

import segmax
from conftest import refused
from segmax.errors import ConfigError
from segmax.evaluation import evaluate
from segmax.integrations.text_search import TextSearch
from segmax.search.protocol import is_searchable
from segmax.typing import Searchable

TEXTS = ["a waveguide of copper", "diodes and noise", "noise of copper tubes"]


class Counting:
    """Forwards everything to an index, and counts searches; not an `Index` itself."""

    def __init__(self, index: segmax.Index) -> None:
        self._index = index
        self.searches = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._index, name)

    def __len__(self) -> int:
        return len(self._index)

    def search(self, *args: Any, **options: Any) -> segmax.Hits:
        """Count, and search."""
        self.searches += 1
        return self._index.search(*args, **options)

    def search_batch(self, *args: Any, **options: Any) -> segmax.BatchHits:
        """Count, and search."""
        self.searches += 1
        return self._index.search_batch(*args, **options)


@pytest.fixture
def index() -> segmax.Index:
    """Three texts under BM25."""
    return segmax.from_texts(TEXTS)


def test_evaluate_accepts_anything_searchable(index: segmax.Index) -> None:
    """The measures are those of the index behind the wrapper, and every search went through it."""
    wrapped = Counting(index)
    assert not isinstance(wrapped, segmax.Index)
    found = evaluate(wrapped, ["copper", "noise"], {"0": {"0": 1}, "1": {"1": 1}}, methods=["asc"], passes=1)
    same = evaluate(index, ["copper", "noise"], {"0": {"0": 1}, "1": {"1": 1}}, methods=["asc"], passes=1)
    assert found["asc"].relevance == same["asc"].relevance
    assert wrapped.searches > 0


def test_integrations_accept_anything_searchable(index: segmax.Index) -> None:
    """With the encoder of the index, or with another one that the index checks."""
    wrapped = Counting(index)
    for encoder in (None, index.encoder):
        [hit] = TextSearch(wrapped, encoder, {str(row): text for row, text in enumerate(TEXTS)}).by_text("diodes", k=5)
        assert (hit.id, hit.content) == ("1", TEXTS[1])
    assert wrapped.searches == 2


def test_an_index_is_searchable(index: segmax.Index) -> None:
    """For type checkers, too: this line is checked by mypy."""
    typed: Searchable = index
    assert is_searchable(typed)
    index.close()
    assert is_searchable(index)  # asking must not evaluate properties, which raise here


@pytest.mark.parametrize("other", [5, None, object(), ["docs.segmax"]])
def test_other_values_are_refused(other: object) -> None:
    """What is neither a path nor searchable."""
    with refused(ConfigError, option="^index$", got=f"^{type(other).__name__}$"):
        evaluate(other, ["copper"])  # type: ignore[arg-type]
