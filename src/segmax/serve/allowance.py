"""How large answers may be, and how much of them a process holds until clients have taken it."""

from __future__ import annotations

import threading

import msgspec

from segmax.serve.messages import ENCODER
from segmax.serve.problems import answer_too_large, overloaded

PIECE = 1 << 18  #: bytes that are handed to a connection at a time: the next wait until a client has read most of these
_SMALL = 1 << 16  # bytes of an answer that are not counted: a connection takes about as many before it waits


class Allowance:
    """Bytes of answers that a process holds: what is being written down, and what clients have not taken yet.

    Threads can share it.

    Parameters
    ----------
    answer_bytes
        The size of one answer.
    unread_bytes
        The size of all of them together.
    """

    def __init__(self, answer_bytes: int, unread_bytes: int) -> None:
        self.answer_bytes = answer_bytes
        self._unread_bytes = unread_bytes
        self._num_bytes = 0
        self._lock = threading.Lock()

    @property
    def has_room(self) -> bool:
        """Whether there is room for more."""
        return self._num_bytes <= self._unread_bytes

    def add(self, num_bytes: int, *, anyway: bool = False) -> None:
        """Count some bytes; raise the problem of a process that holds too much, unless they are there `anyway`."""
        with self._lock:
            if self._num_bytes + num_bytes > self._unread_bytes and not anyway:
                raise overloaded(1.0, "clients have not read the answers to other requests yet: try again")
            self._num_bytes += num_bytes

    def give_back(self, num_bytes: int) -> None:
        """Forget some bytes, which were sent."""
        with self._lock:
            self._num_bytes -= num_bytes


class Share:
    """What one answer takes of the allowance. One thread at a time uses it."""

    def __init__(self, allowance: Allowance) -> None:
        self._allowance = allowance
        self.num_bytes = 0

    def take(self, num_bytes: int) -> None:
        """Count some bytes of the answer; raise the problem of one that becomes too large, or has to wait."""
        if self.num_bytes + num_bytes > self._allowance.answer_bytes:
            raise answer_too_large(self._allowance.answer_bytes)
        self._allowance.add(num_bytes)
        self.num_bytes += num_bytes

    def written(self, part: msgspec.Struct) -> msgspec.Raw:
        """Return a part of the answer as JSON, counted: what it was made of need not be kept."""
        content = ENCODER.encode(part)
        self.take(len(content))
        return msgspec.Raw(content)

    def take_whole(self, body: bytes) -> None:
        """Count what of an answer was not counted part by part; nothing of a small one."""
        if len(body) > max(_SMALL, self.num_bytes):
            self.take(len(body) - self.num_bytes)
        elif len(body) > self._allowance.answer_bytes:
            raise answer_too_large(self._allowance.answer_bytes)

    # Streams, whose clients have to read before more of the answer is made, are never refused.

    def hold(self, num_bytes: int) -> None:
        """Count bytes that are there already."""
        self._allowance.add(num_bytes, anyway=True)
        self.num_bytes += num_bytes

    def give_back(self, num_bytes: int) -> None:
        """Forget bytes that were sent."""
        self._allowance.give_back(num_bytes)
        self.num_bytes -= num_bytes

    @property
    def has_room(self) -> bool:
        """Whether the process may hold more."""
        return self._allowance.has_room

    def close(self) -> None:
        """Forget all of it: the answer was sent, or nobody wants it anymore."""
        self.give_back(self.num_bytes)
