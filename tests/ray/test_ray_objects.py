"""Calls and answers on their way, without Ray: what is small is bytes, what is large lies in the store."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp

from segmax.ray.objects import packed_answer, packed_calls, unpacked_answer, unpacked_call
from segmax.shards.transport import Call


class Queries(NamedTuple):
    """Arrays inside of another value."""

    terms: np.ndarray
    weights: np.ndarray


class Store:
    """Keeps what is put, and hands out read-only views as Ray does."""

    def __init__(self) -> None:
        self.kept: list[np.ndarray] = []

    def put(self, value: np.ndarray) -> int:
        """Keep a copy; return its reference."""
        copy = value.copy()
        copy.flags.writeable = False
        self.kept.append(copy)
        return len(self.kept) - 1


def arrived(packed: Any, store: Store) -> tuple[str, tuple[Any, ...]]:
    """What an actor unpacks: Ray replaces references by values."""
    data, *references = packed.arguments
    assert isinstance(data, bytes)
    return unpacked_call(data, [store.kept[reference] for reference in references])


def test_small_calls_are_bytes() -> None:
    """Nothing is stored for them."""
    store = Store()
    (packed,) = packed_calls([Call(0, "search", (Queries(np.arange(3), np.ones(3)), 10, None))], store)
    method, (queries, k, nothing) = arrived(packed, store)
    assert (method, k, nothing, store.kept) == ("search", 10, None, [])
    assert isinstance(queries, Queries)
    assert queries.terms.tolist() == [0, 1, 2]


def test_large_arrays_are_stored_once() -> None:
    """However many calls have them, and wherever in the arguments; actors cannot change them."""
    store, terms = Store(), np.arange(50_000)
    calls = [Call(shard, "search", (Queries(terms, np.ones(2)), {"also": terms}, shard)) for shard in range(3)]
    packed = packed_calls(calls, store)
    assert len(store.kept) == 1
    for shard, each in enumerate(packed):
        _, (queries, other, number) = arrived(each, store)
        assert np.array_equal(queries.terms, terms)
        assert np.array_equal(other["also"], terms)
        assert not queries.terms.flags.writeable
        assert number == shard


def test_equal_arguments_are_packed_once() -> None:
    """One call to many shards costs one pickle."""
    args = (np.arange(5),)
    packed = packed_calls([Call(shard, "ids", args) for shard in range(3)] + [Call(0, "texts", args)], Store())
    assert packed[0] is packed[1] is packed[2]
    assert packed[3].kind != packed[0].kind


def test_kinds_tell_sizes_apart() -> None:
    """Calls of one kind take about as long as each other: one query, or a thousand."""

    def kind(size: int) -> str:
        return packed_calls([Call(0, "search", (np.ones(size),))], Store())[0].kind

    assert kind(20) == kind(30)
    assert len({kind(30), kind(3000), kind(300_000)}) == 3
    assert kind(30).startswith("search:")


@pytest.mark.parametrize("size", [0, 10, 40_000])
def test_answers_belong_to_the_caller(size: int) -> None:
    """Arrays can be changed, and do not lie in the store, whatever they are part of."""
    sent = {"found": [Queries(np.arange(size), np.ones((2, size))), "text"], "rows": sp.eye(max(size, 1), format="csr")}
    packed = packed_answer(sent)
    if size < 40_000:
        assert isinstance(packed, bytes)
    else:
        data, *large = packed
        packed = (data, *map(_read_only, large))
    got = unpacked_answer(packed)
    queries = got["found"][0]
    terms = queries.terms
    terms += 1
    assert np.array_equal(terms, np.arange(size) + 1)
    assert queries.weights.shape == (2, size)
    assert got["rows"].data.sum() == max(size, 1)


def _read_only(array: np.ndarray) -> np.ndarray:
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def test_plain_answers() -> None:
    """Everything that can be pickled."""
    for value in (None, b"bytes", "text", 1.5, [1, 2], SimpleNamespace(a=1), np.float64(2)):
        assert unpacked_answer(packed_answer(value)) == value


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((0, 3)),
        np.array(2.5),
        np.asfortranarray(np.arange(6).reshape(2, 3)),
        np.arange(20)[::3],
        np.array([True, False]),
        np.array(["a", "bc"]),
        np.array(["a", None], dtype=object),
        np.array(["2020-01-01"], dtype="M8[D]"),
        np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
        np.arange(3, dtype=">u2"),
        np.broadcast_to(np.arange(2), (3, 2)),
        np.arange(40_000, dtype=np.float32).reshape(2, -1).T,
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)
def test_all_kinds_of_arrays(array: np.ndarray) -> None:
    """They arrive as they were, and can be changed."""
    found = unpacked_answer(packed_answer([array]))[0]
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    assert np.array_equal(found, array)
    assert found.flags.writeable


@pytest.mark.parametrize(
    "array",
    [
        np.arange(3000),
        np.arange(70_000, 73_000),
        np.arange(3000.0),
        np.arange(3000.0) + 0.5,
        np.full(3000, -0.0),
        np.arange(3000) - 5,
        np.full(3000, np.nan),
        np.full(3000, np.inf),
        np.full(3000, 2**40),
        np.arange(3000, dtype=np.uint64).reshape(30, 100),
    ],
)
def test_arrays_that_travel_narrow_arrive_as_they_were(array: Any) -> None:
    """Whole numbers travel in fewer bytes, and arrive with their type, shape and every bit."""
    arrived = unpacked_answer(packed_answer(array))
    assert arrived.dtype == array.dtype
    assert arrived.shape == array.shape
    assert arrived.tobytes() == array.tobytes()
    assert arrived.flags.writeable
