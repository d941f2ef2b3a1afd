"""What characters are to words, as a table for the core: made of Python's own rules, so that the core has the same."""

from __future__ import annotations

import functools
import re
import unicodedata
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from segmax.encoders.words import MARKS, UNSPACED

if TYPE_CHECKING:
    from segmax import _core
else:
    from segmax.base.optional import core as _core

#: Characters beyond these are hard: Han of rare forms, and what is not text.
_NUM_CHARACTERS = 0x20000
_SURROGATES = slice(0xD800, 0xE000)  # which UTF-8 cannot hold
#: Whose lower case depends on what follows, or is two characters.
_CAPITAL_SIGMA, _DOTTED_I = 0x3A3, 0x130


@functools.cache
def characters(*, pairs: bool) -> _core.Characters:
    """Return the table; with `pairs`, scripts without blanks are apart from other letters."""
    lower = _lower()
    text = "".join(map(chr, lower.tolist()))
    kinds = np.full(len(lower), _core.GAP, dtype=np.uint8)
    _mark(kinds, r"\w+", text, _core.LETTER)
    if pairs:
        _mark(kinds, f"[{UNSPACED}]+", text, _core.UNSPACED)
    _mark(kinds, f"[{MARKS}]+", text, _core.HARD)
    kinds[[_CAPITAL_SIGMA, _DOTTED_I]] = _core.HARD
    kinds[_SURROGATES] = _core.HARD
    kinds[~_is_composed(text)] = _core.HARD
    classes = np.fromiter(map(unicodedata.combining, text), dtype=np.uint8, count=len(text))
    return _core.Characters(kinds, lower, classes)


def _lower() -> NDArray[np.uint32]:
    """Return every character in lower case; those that are not one character there stay as they are."""
    codes = np.arange(_NUM_CHARACTERS, dtype=np.uint32)
    given = codes.copy()
    given[[_CAPITAL_SIGMA, _DOTTED_I]] = 0
    given[_SURROGATES] = 0
    found = np.array([ord(letter) for letter in "".join(map(chr, given.tolist())).lower()], dtype=np.uint32)
    return np.where(given == codes, found, codes)


def _mark(kinds: NDArray[np.uint8], pattern: str, text: str, kind: int) -> None:
    for match in re.finditer(pattern, text):
        kinds[match.start() : match.end()] = kind


def _is_composed(text: str) -> NDArray[np.bool_]:
    """Whether NFC leaves each of these characters as it is, and never joins it with one before it."""
    found = np.fromiter((unicodedata.is_normalized("NFC", letter) for letter in text), dtype=np.bool_, count=len(text))
    found[[code for letter in text for code in _joined_second(letter)]] = False
    found[0x1160:0x1200] = False  # vowels and final consonants of Hangul, which Unicode joins by a formula
    return found


def _joined_second(letter: str) -> list[int]:
    """Return the second of the two characters that this one is made of, if it is."""
    parts = unicodedata.decomposition(letter).split()
    return [int(parts[1], 16)] if len(parts) == 2 and not parts[0].startswith("<") else []
