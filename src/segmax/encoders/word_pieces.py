"""Texts as numbers of word pieces. Needs the package tokenizers alone, which works in threads of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segmax.base.optional import need

#: The word pieces of a text by number, special ones included.
Pieces = NDArray[np.int64]


class WordPieces:
    """Cuts texts into the word pieces of a model.

    Parameters
    ----------
    tokenizer
        What `tokenizer.json` holds, as a string.
    max_length
        Cut texts after so many word pieces, special ones included; None: never.
    prompt
        What stands before every text.
    """

    def __init__(self, tokenizer: str, max_length: int | None, prompt: str = "") -> None:
        self._tokenizer = need("tokenizers", "a model", "encoders").Tokenizer.from_str(tokenizer)
        self._tokenizer.no_padding()
        self._prompt = prompt
        self._max_length = max_length
        if max_length is None:
            self._tokenizer.no_truncation()
        else:
            # Special pieces alone are more than the shortest limits; what is beyond the limit is cut off below.
            special = int(self._tokenizer.num_special_tokens_to_add(False))
            self._tokenizer.enable_truncation(max(max_length, special + 1))

    def __call__(self, texts: Sequence[str]) -> list[Pieces]:
        """Return the pieces of every text."""
        prompted = [self._prompt + text for text in texts] if self._prompt else list(texts)
        return [np.array(found.ids[: self._max_length], np.int64) for found in self._encoded(prompted)]

    def _encoded(self, texts: list[str]) -> Any:
        # For one text, a batch would only add the price of waking the threads.
        return [self._tokenizer.encode(texts[0])] if len(texts) == 1 else self._tokenizer.encode_batch(texts)

    def vocabulary(self) -> dict[str, int]:
        """Return the number of every word piece."""
        found: dict[str, int] = self._tokenizer.get_vocab(with_added_tokens=True)
        return found
