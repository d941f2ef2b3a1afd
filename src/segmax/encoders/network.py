"""What runs a model: texts in, sparse rows out. A network is the part of an encoder that another backend replaces."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from segmax.encoders.word_pieces import Pieces, WordPieces
from segmax.vectors.csr import Csr
from segmax.vectors.pruning import TopTerms, prune_rows
from segmax.vectors.rows import join_rows, selected_rows


class Trim(NamedTuple):
    """Which weights of a text are kept."""

    min_weight: float = 0.0  # smaller ones are dropped; those that are not above zero always are
    top_n: int | None = None  # the largest ones


class Encoded(NamedTuple):
    """Texts as a network returns them: a row each."""

    rows: Csr
    dense: Mapping[str, NDArray[np.float32]] = MappingProxyType({})  # pooled token embeddings, by pooling


class Network(abc.ABC):
    """A model that is ready to run."""

    #: How many texts it sorts by length and works on together.
    window = 1024

    def prepare(self, texts: Sequence[str], *, queries: bool) -> Any:
        """Do what can be done ahead, in another thread: cut texts into word pieces."""
        return list(texts)

    @abc.abstractmethod
    def run(self, prepared: Any, *, queries: bool, pooling: Sequence[str], trim: Trim) -> Encoded:
        """Encode what was prepared, in its order."""


class TokenNetwork(Network):
    """A network that takes word pieces.

    Parameters
    ----------
    documents, queries
        How texts of either kind become word pieces.
    """

    def __init__(self, documents: WordPieces, queries: WordPieces) -> None:
        self._documents = documents
        self._queries = queries

    def prepare(self, texts: Sequence[str], *, queries: bool) -> list[Pieces]:
        """Cut texts into word pieces."""
        return (self._queries if queries else self._documents)(texts)


def trimmed(rows: Csr, trim: Trim) -> Csr:
    """Return rows with the largest weights alone, where only so many are wanted."""
    return rows if trim.top_n is None else prune_rows(TopTerms(count=trim.top_n), rows)


def kept_weights(weights: NDArray[np.float32], trim: Trim) -> Csr:
    """Return a matrix of weights as sparse rows, small ones dropped."""
    kept = weights >= trim.min_weight if trim.min_weight > 0 else weights > 0
    row, columns = np.nonzero(kept)
    indptr = np.searchsorted(row, np.arange(len(weights) + 1)).astype(np.int64)
    return trimmed(Csr(indptr, columns.astype(np.uint32), weights[row, columns], weights.shape[1]), trim)


def in_order(parts: Sequence[Encoded], order: NDArray[np.int64]) -> Encoded:
    """Join parts whose rows are in the given order, and put them back into the order of the input."""
    back = np.argsort(order, kind="stable")
    rows = selected_rows(join_rows([part.rows for part in parts], parts[0].rows.num_columns), back)
    dense = {name: np.concatenate([part.dense[name] for part in parts])[back] for name in parts[0].dense}
    return Encoded(rows, dense)


def no_rows(num_columns: int) -> Csr:
    """Return a matrix without rows."""
    return Csr(np.zeros(1, np.int64), np.empty(0, np.uint32), np.empty(0, np.float32), num_columns)


def column_names(pieces: Mapping[str, int], num_columns: int) -> list[str]:
    """Return the word piece of every column; columns without one, as models pad their vocabulary, get numbers."""
    names = [f"[column {number}]" for number in range(num_columns)]
    for piece, number in pieces.items():
        if number < num_columns:
            names[number] = piece
    return names
