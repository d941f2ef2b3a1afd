"""Queries that come again are not encoded again, within bounds."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Sequence

import numpy as np
import pytest

from segmax.encoders.query_cache import QueryCache
from segmax.vectors.csr import Csr


class Letters:
    """Encodes a text as the places of its letters, and remembers what it was asked for."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def __call__(self, texts: Sequence[str]) -> Csr:
        self.calls.append(list(texts))
        columns = [sorted({ord(letter) % 128 for letter in text}) for text in texts]
        indptr = np.concatenate([[0], np.cumsum([len(row) for row in columns])]).astype(np.int64)
        flat = np.array([column for row in columns for column in row], dtype=np.uint32)
        return Csr(indptr, flat, flat.astype(np.float32) / 3, 128)


def same(first: Csr, second: Csr) -> bool:
    """Whether two matrices are equal in every part."""
    return first[3] == second[3] and all(np.array_equal(*parts) for parts in zip(first[:3], second[:3], strict=True))


def test_a_query_is_encoded_once() -> None:
    """The second time the vector is the same, and the encoder is not asked; a batch asks for what is new, once each."""
    cache, encode = QueryCache(), Letters()
    first = cache.rows(["cat"], encode)
    assert same(cache.rows(["cat"], encode), first)
    assert same(first, Letters()(["cat"]))
    batch = ["dog", "cat", "", "dog", "a"]
    assert same(cache.rows(batch, encode), Letters()(batch))
    assert encode.calls == [["cat"], ["dog", "", "a"]]


def test_large_batches_pass_by() -> None:
    """A file of queries does not push out what others ask for; nothing to encode is left to the encoder."""
    cache, encode = QueryCache(), Letters()
    texts = [f"query {number}" for number in range(33)]
    assert same(cache.rows(texts, encode), Letters()(texts))
    assert same(cache.rows([], encode), Letters()([]))
    assert len(cache) == 0


def test_bounds() -> None:
    """The least recently used goes first: by number, and by memory."""
    cache, encode = QueryCache(most_entries=2), Letters()
    for text in ("a", "b", "a", "c", "a", "b"):
        cache.rows([text], encode)
    assert [call[0] for call in encode.calls] == ["a", "b", "c", "b"]
    small = QueryCache(most_bytes=3000)
    for number in range(50):
        small.rows([f"{number}"], encode)
        assert 0 < small.num_bytes <= 3000
    assert 1 <= len(small) <= 4
    small.rows(["x" * 4000], encode)  # alone larger than all of it
    assert (len(small), small.num_bytes) == (0, 0)


def test_what_is_kept_cannot_be_changed() -> None:
    """Neither through a vector that was returned, nor through what the encoder returned."""
    cache = QueryCache()
    given = Letters()(["cat"])
    found = cache.rows(["cat"], lambda _: given)
    given.values[:] = 0
    assert same(cache.rows(["cat"], Letters()), Letters()(["cat"]))
    with pytest.raises(ValueError, match="read-only"):
        found.values[0] = 1


def test_errors_are_not_kept() -> None:
    """An encoder that fails is asked again."""
    cache = QueryCache()

    def fail(_: Sequence[str]) -> Csr:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        cache.rows(["cat"], fail)
    assert same(cache.rows(["cat"], Letters()), Letters()(["cat"]))


def test_threads() -> None:
    """Threads that push each other's entries out get the vectors that they would get alone."""
    cache, wrong = QueryCache(most_entries=8), []

    def ask(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(300):
            texts = [f"query {number}" for number in rng.integers(0, 20, 3)]
            if not same(cache.rows(texts, Letters()), Letters()(texts)):
                wrong.append(texts)

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(cache) <= 8


def test_a_pickled_cache_is_empty() -> None:
    """An encoder that travels to another process takes the bounds along, not the entries."""
    cache = QueryCache(most_entries=7)
    cache.rows(["cat"], Letters())
    other = pickle.loads(pickle.dumps(cache))
    assert len(other) == 0
    for number in range(9):
        other.rows([f"{number}"], Letters())
    assert len(other) == 7
