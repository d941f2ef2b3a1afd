"""A vocabulary that grows: numbers by first occurrence."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segmax.base.vocabulary import GrowingVocabulary

WORDS = st.lists(st.sampled_from(["", "a", "b", "cat", "é", "\x00", "東京"]), max_size=8)


@given(st.lists(WORDS, max_size=5))
def test_numbers_follow_the_first_occurrence(batches: list[list[str]]) -> None:
    """Whatever the batches, a term has the number of different terms before it."""
    vocabulary = GrowingVocabulary()
    found = [vocabulary.add(batch) for batch in batches]
    every = list(dict.fromkeys(word for batch in batches for word in batch))
    assert vocabulary.terms == every
    assert len(vocabulary) == len(every)
    assert [[every[number] for number in numbers] for numbers in found] == batches
    assert all(numbers.dtype == np.uint32 for numbers in found)


def test_single_terms() -> None:
    """`number` adds, `get` does not."""
    vocabulary = GrowingVocabulary(["a", "b", "a"])
    assert (vocabulary.get("c"), len(vocabulary)) == (None, 2)
    assert (vocabulary.number("c"), vocabulary.get("c")) == (2, 2)
    assert vocabulary.terms == ["a", "b", "c"]


def test_the_list_of_terms_grows_with_it() -> None:
    """Readers hand it out once."""
    vocabulary = GrowingVocabulary()
    terms = vocabulary.terms
    vocabulary.add(["a"])
    assert terms == ["a"]


def test_unhashable_terms_are_refused() -> None:
    """The vocabulary stays as it was."""
    vocabulary = GrowingVocabulary(["a"])
    with pytest.raises(TypeError):
        vocabulary.add([[]])  # type: ignore[list-item]
    assert vocabulary.terms == ["a"]
