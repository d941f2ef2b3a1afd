"""Words that start with what was typed, of a vocabulary that grows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from segmax.serve import prefixes
from segmax.serve.prefixes import Prefixes, SortedWords

words = st.text(st.sampled_from("abz\u00e9\U0010fffe"), max_size=4)


class Growing:
    """A vocabulary that counts the words that were read of it, and what it is the vocabulary of."""

    def __init__(self, given: list[str]) -> None:
        self.words = given
        self.num_read = 0

    @property
    def terms(self) -> Growing:
        return self

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, number: int) -> str:
        self.num_read += 1
        return self.words[number]

    def __iter__(self) -> Iterator[str]:
        for word in self.words:
            self.num_read += 1
            yield word

    def find(self, value: str) -> int | None:
        return self.words.index(value) if value in self.words else None

    def frequencies(self, numbers: list[int]) -> NDArray[np.int64]:
        return np.array([number % 3 for number in numbers], dtype=np.int64)


@settings(deadline=None)
@given(st.lists(words, unique=True), st.data(), st.integers(1, 9))
def test_words_are_found_in_order_as_they_come(given: list[str], data: st.DataObject, block: int) -> None:
    """As by sorting all of them and looking at each, wherever blocks begin and end."""
    cut = data.draw(st.integers(0, len(given)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prefixes, "_BLOCK", block)
        found = SortedWords(given[:cut])
        for end in (cut, (cut + len(given)) // 2, len(given)):
            found.add(given[len(found) : end])
            for start in ("", "a", "ab", "b", "zz", "\u00e9", *given[:3]):
                expected = sorted(word for word in given[:end] if word.startswith(start))
                assert found.starting(start, 1000) == expected
                assert found.starting(start, 2) == expected[:2]


def test_a_new_word_does_not_sort_the_others_again() -> None:
    """Only new words of the vocabulary are read; another vocabulary is read from its start."""
    vocabulary = Growing([f"w{number * 7919 % 5000:04}" for number in range(5000)])
    completions = Prefixes()
    assert completions.completions(vocabulary, "w123", 3) != []  # type: ignore[arg-type]
    assert vocabulary.num_read == 5000
    for number in range(20):
        vocabulary.words.append(f"w123{number:02}x")
        by_hand = [(at, word) for at, word in enumerate(vocabulary.words) if word.startswith("w123") and at % 3]
        by_hand.sort(key=lambda found: (-(found[0] % 3), found[1]))
        assert completions.completions(vocabulary, "w123", 100) == by_hand  # type: ignore[arg-type]
    assert vocabulary.num_read == 5020
    other = Growing(["wave", "noise", "waves"])
    assert completions.completions(other, "wave", 9) == [(2, "waves")]  # type: ignore[arg-type]


def test_a_vocabulary_that_is_too_large_completes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to the limit it does."""
    monkeypatch.setattr(prefixes, "_MOST_TERMS", 5)
    vocabulary = Growing(["wave", "waves", "noise", "wavelet", "copper"])
    completions = Prefixes()
    assert completions.completions(vocabulary, "wave", 9) == [(1, "waves")]  # type: ignore[arg-type]
    vocabulary.words.append("one more")
    assert completions.completions(vocabulary, "wave", 9) == []  # type: ignore[arg-type]
