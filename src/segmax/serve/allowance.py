"""How large answers may be, and how much of them a process holds until clients have taken it."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

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
        self.num_bytes = 0  #: that are held now
        self._lock = threading.Lock()

    @property
    def has_room(self) -> bool:
        """Whether there is room for more."""
        return self.num_bytes <= self._unread_bytes

    def add(self, num_bytes: int, *, anyway: bool = False) -> None:
        """Count some bytes; raise the problem of a process that holds too much, unless they are there `anyway`."""
        with self._lock:
            if num_bytes > 0 and self.num_bytes + num_bytes > self._unread_bytes and not anyway:
                raise overloaded(1.0, "clients have not read the answers to other requests yet: try again")
            self.num_bytes += num_bytes


class Share:
    """What one answer takes of the allowance: nothing while it is small. One thread at a time uses it.

    Parameters
    ----------
    allowance
        What it takes from.
    """

    def __init__(self, allowance: Allowance) -> None:
        self._allowance = allowance
        self._taken = 0
        self.num_bytes = 0  #: of the answer that are held now

    @property
    def has_room(self) -> bool:
        """Whether the process may hold more."""
        return self._allowance.has_room

    def hold(self, num_bytes: int) -> None:
        """Count all bytes of the answer; raise the problem of one that is too large, or has to wait."""
        if num_bytes > self._allowance.answer_bytes:
            raise answer_too_large(self._allowance.answer_bytes)
        self._hold(num_bytes)

    def hold_more(self, num_bytes: int) -> None:
        """Count more bytes, or fewer, of a stream: whoever makes it waits for the client instead of being refused."""
        self._hold(self.num_bytes + num_bytes, anyway=True)

    def _hold(self, num_bytes: int, *, anyway: bool = False) -> None:
        taken = num_bytes if num_bytes > _SMALL else 0
        if taken != self._taken:
            self._allowance.add(taken - self._taken, anyway=anyway)
        self._taken, self.num_bytes = taken, num_bytes

    def close(self) -> None:
        """Forget all of it: the answer was sent, or nobody wants it anymore."""
        self._hold(0)

    def written(self, whole: msgspec.Struct) -> Any:
        """Return an answer as JSON, counted, in its own place."""
        content = ENCODER.encode(whole)
        self.hold(len(content))
        return msgspec.Raw(content)

    def listed(self, parts: Iterable[object]) -> Any:
        """Return a list of the answer as JSON, in the place of the list; parts are made, written and forgotten."""
        found = Listed(self)
        found.extend(parts)
        return found.whole()


class Listed:
    """A list of an answer, written down as JSON part by part, into one piece of memory.

    Parameters
    ----------
    share
        What counts it.
    """

    def __init__(self, share: Share) -> None:
        self._share = share
        self._content = bytearray(b"[")
        share.hold(share.num_bytes + 1)

    def extend(self, parts: Iterable[object]) -> None:
        """Add parts. What was counted while one was made is forgotten when it is written down."""
        share, content = self._share, self._content
        others = share.num_bytes - len(content)  # that are held beside this list
        for part in parts:
            ENCODER.encode_into(part, content, -1)
            content += b","
            share.hold(others + len(content))

    def whole(self) -> Any:
        """Return the list. Its type is `Any`, because it stands in the place of a list of messages."""
        self._content[max(1, len(self._content) - 1) :] = b"]"
        return msgspec.Raw(self._content)
