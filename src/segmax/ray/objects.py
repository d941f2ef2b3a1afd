"""Calls and answers as Ray carries them.

They are pickled here and travel as bytes: Ray's own serializing of a few small arrays takes half as long as a whole
call. The memory of large arrays goes through Ray's object store, where every node reads it without copies.
"""

from __future__ import annotations

import copyreg
import io
import pickle
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from segmax.shards.transport import Call

#: Ray puts what is larger than 100 KB into the object store.
_LARGE = 100_000
#: Arrays of so many bytes are stored in narrower numbers where that loses nothing.
_WORTH_NARROWING, _MOST_NARROWED = 4096, 1 << 22


class PackedCall(NamedTuple):
    """What `ShardActor.call` gets, and the kind of the call: those of one kind take about as long as each other."""

    arguments: tuple[Any, ...]
    kind: str


def packed_calls(calls: Sequence[Call], ray: Any) -> list[PackedCall]:
    """Pack calls. Memory goes into the object store once, however many calls have it."""
    packed: dict[tuple[int, str], PackedCall] = {}
    stored: dict[tuple[int, int], Any] = {}
    for call in calls:
        key = (id(call.args), call.method)
        if key not in packed:
            packed[key] = _packed(call, stored, ray)
    return [packed[id(call.args), call.method] for call in calls]


def _packed(call: Call, stored: dict[tuple[int, int], Any], ray: Any) -> PackedCall:
    data, large = _pickled((call.method, call.args))
    references = []
    for memory in large:
        place = (memory.ctypes.data, memory.nbytes)
        if place not in stored:
            stored[place] = ray.put(memory)
        references.append(stored[place])
    size = len(data) + sum(memory.nbytes for memory in large)
    return PackedCall((data, *references), f"{call.method}:{(size >> 9).bit_length()}")


def unpacked_call(data: bytes, large: Sequence[Any]) -> tuple[str, tuple[Any, ...]]:
    """Return the method and the arguments of a packed call, where it arrives."""
    method, args = pickle.loads(data, buffers=large)
    return method, args


def packed_answer(answer: Any) -> Any:
    """Return what an actor returns: bytes or, where there is large memory, a tuple of them and the memory."""
    data, large = _pickled(answer)
    return (data, *large) if large else data


def unpacked_answer(packed: Any) -> Any:
    """Return an answer whose memory belongs to the caller.

    The object store cannot free or move what anybody looks at, so that what lies there is copied.
    """
    if isinstance(packed, bytes):
        return pickle.loads(packed)
    data, *large = packed
    return pickle.loads(data, buffers=[bytearray(memory) for memory in large])


def _pickled(value: Any) -> tuple[bytes, list[NDArray[np.uint8]]]:
    """Return a value as bytes, and the memory of its large arrays by itself."""
    file = io.BytesIO()
    large: list[NDArray[np.uint8]] = []

    def leaves(buffer: pickle.PickleBuffer) -> None:
        large.append(np.frombuffer(buffer.raw(), dtype=np.uint8))

    pickler = pickle.Pickler(file, protocol=5, buffer_callback=leaves)
    pickler.dispatch_table = _REDUCERS
    pickler.dump(value)
    return file.getvalue(), large


def _reduced(array: NDArray[Any]) -> str | tuple[Any, ...]:
    """Say how to pickle an array. Its own way takes several times as long as this one, which does for small arrays."""
    if array.dtype.isbuiltin != 1 or array.dtype.hasobject:
        return array.__reduce_ex__(5)
    kept = _narrowed(array) if _WORTH_NARROWING <= array.nbytes <= _MOST_NARROWED else array
    if kept.nbytes >= _LARGE:
        return array.__reduce_ex__(5)
    if kept is not array:
        return _widened, (array.shape, array.dtype.str, kept.dtype.str, kept.tobytes())
    return _small_array, (array.shape, array.dtype.str, array.tobytes())


def _narrowed(array: NDArray[Any]) -> NDArray[Any]:
    """Return numbers of eight bytes in two or four, if that holds all of them exactly: batches then need no store."""
    if array.dtype.itemsize != 8 or array.dtype.kind not in "iuf" or not array.size:
        return array
    least, most = array.min(), array.max()
    if not (least >= 0 and most < 2**32):  # NaN is neither
        return array
    kept = array.astype(np.uint16 if most < 2**16 else np.uint32)
    is_exact = array.dtype.kind != "f" or (bool((kept == array).all()) and not np.signbit(array).any())
    return kept if is_exact else array


def _widened(shape: tuple[int, ...], dtype: str, narrow: str, data: bytes) -> NDArray[Any]:
    return np.frombuffer(data, narrow).astype(dtype).reshape(shape)


def _small_array(shape: tuple[int, ...], dtype: str, data: bytes) -> NDArray[Any]:
    return np.ndarray(shape, dtype, bytearray(data))


_REDUCERS = {**copyreg.dispatch_table, np.ndarray: _reduced}
