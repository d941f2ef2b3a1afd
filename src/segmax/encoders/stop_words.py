"""Stop words by language: words that BM25 leaves out."""

from __future__ import annotations

import functools
import importlib.resources
from collections.abc import Mapping


@functools.cache
def stop_word_lists() -> Mapping[str, tuple[str, ...]]:
    """Return the stop words of every language, by its name and by its code.

    Examples
    --------
    >>> stop_word_lists()["en"][:3], stop_word_lists()["german"] == stop_word_lists()["de"]
    (('a', 'an', 'and'), True)
    """
    text = importlib.resources.files("segmax.encoders").joinpath("stop_words.txt").read_text(encoding="utf-8")
    lists: dict[str, tuple[str, ...]] = {}
    for section in text.split("\n[")[1:]:
        names, _, words = section.partition("]\n")
        lists |= dict.fromkeys(names.split(), tuple(words.split()))
    return lists
