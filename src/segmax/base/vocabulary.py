"""A vocabulary that grows: terms are numbered in the order in which they first occur."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray


class _Numbers(dict[str, int]):
    """Numbers by term. A dictionary that fills itself is the fastest: terms that it knows are found without Python."""

    def __init__(self, terms: list[str]) -> None:
        super().__init__()
        self._terms = terms

    def __missing__(self, term: str) -> int:
        number = self[term] = len(self)
        self._terms.append(term)
        return number


class GrowingVocabulary:
    """The terms of a stream, numbered from 0 as they come.

    Parameters
    ----------
    terms
        Terms to start with.

    Examples
    --------
    >>> vocabulary = GrowingVocabulary(["cat"])
    >>> vocabulary.add(["dog", "cat", "dog"])
    array([1, 0, 1], dtype=uint32)
    >>> vocabulary.terms, vocabulary.get("dog"), vocabulary.get("mouse")
    (['cat', 'dog'], 1, None)
    """

    def __init__(self, terms: Iterable[str] = ()) -> None:
        #: The terms so far, by number. The list itself grows; change nothing in it.
        self.terms: list[str] = []
        self._numbers = _Numbers(self.terms)
        for term in terms:
            self._numbers[term]

    def __len__(self) -> int:
        return len(self.terms)

    def add(self, terms: Iterable[str]) -> NDArray[np.uint32]:
        """Return the number of every term; new terms get the next numbers."""
        return np.fromiter(map(self._numbers.__getitem__, terms), np.uint32)

    def number(self, term: str) -> int:
        """Return the number of a term; a new one gets the next number."""
        return self._numbers[term]

    def get(self, term: str) -> int | None:
        """Return the number of a term, None for one that is not in the vocabulary."""
        return self._numbers.get(term)
