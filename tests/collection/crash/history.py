"""A scripted history of something that keeps data in files, and what its states are allowed to be after a crash.

A step is done whole or not at all. `ack` is called when a step has returned: from then on it has to survive.
"""

from __future__ import annotations

import abc
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from segmax.base.errors import WriteError, WriterStoppedError

#: A step: what to do, and with what.
Step = tuple[Any, ...]
_MOST_ATTEMPTS = 40


class Allowed(NamedTuple):
    """The states that a writer may find, and those that a reader may find."""

    writer: list[Any]
    reader: list[Any]


class History(abc.ABC):
    """Steps, and how to do and check them. The first step makes the thing."""

    steps: ClassVar[Sequence[Step]]
    #: The steps that make themselves, and all before them, survive a power loss; empty if every step does.
    durable: tuple[str, ...] = ()
    #: The steps after which other processes see everything; empty if every step does that.
    visible: tuple[str, ...] = ()

    @abc.abstractmethod
    def do(self, handle: Any, folder: Path, step: Step) -> Any:
        """Do a step with the open thing, and return it, or the one that replaces it."""

    @abc.abstractmethod
    def read(self, handle: Any) -> Any:
        """Return all that is in the open thing."""

    @abc.abstractmethod
    def open(self, folder: Path, *, read_only: bool) -> Any:
        """Open the thing; None if it was never made."""

    @abc.abstractmethod
    def close(self, handle: Any) -> None:
        """Close the thing, with or without having it written."""

    @abc.abstractmethod
    def one_more(self, handle: Any) -> None:
        """Do a step that is always possible."""

    # --- running it --------------------------------------------------------------------------------------------------

    def run(self, folder: Path, ack: Callable[[int], object]) -> None:
        """Do all steps."""
        handle = None
        for number, step in enumerate(self.steps):
            handle = self.do(handle, folder, step)
            ack(number)

    def states(self, folder: Path) -> list[Any]:
        """Return what is there before the first step and after every step."""
        found, handle = [None], None
        for step in self.steps:
            handle = self.do(handle, folder, step)
            found.append(self.read(handle))
        self.close(handle)
        return found

    def run_failing(self, folder: Path, ack: Callable[[int], object]) -> None:
        """Do all steps while the disk fails: repeat what failed, and open again what stopped. All has to end well.

        A file beside the folder has the `states` of the history.
        """
        states = pickle.loads(folder.with_suffix(".states").read_bytes())
        handle = None
        for number, step in enumerate(self.steps):
            for _ in range(_MOST_ATTEMPTS):
                try:
                    handle = self.do(handle, folder, step)
                    break
                except WriterStoppedError:
                    handle = self._opened_again(handle, folder)
                    if handle is not None and self.read(handle) == states[number + 1]:
                        break  # it was done
                except WriteError:
                    if handle is None:
                        continue
                # Readable, and nothing of the step is there.
                assert handle is None or self.read(handle) == states[number], (number, step)
            else:
                raise AssertionError((number, step))
            assert self.read(handle) == states[number + 1], (number, step)
            ack(number)
        with_writer = self._opened_again(handle, folder)  # the calls that fail may be these
        assert self.read(with_writer) == states[-1]
        self.close(with_writer)

    def _opened_again(self, handle: Any, folder: Path) -> Any:
        if handle is not None:
            self.close(handle)
        for _ in range(_MOST_ATTEMPTS):
            try:
                return self.open(folder, read_only=False)
            except WriteError:
                continue
        raise AssertionError("it cannot be opened again")

    def go_on(self, folder: Path, ack: Callable[[int], object]) -> None:
        """Open what a crash left, and do two more steps."""
        handle = self.open(folder, read_only=False)
        ack(0)
        for number in (1, 2):
            self.one_more(handle)
            ack(number)

    # --- checking what a crash left ----------------------------------------------------------------------------------

    def allowed(self, states: Sequence[Any], num_acks: int, *, power_loss: bool) -> Allowed:
        """Return the states that may be there after so many steps were acknowledged."""
        first = self._last(self.durable, num_acks) if power_loss else num_acks
        seen = min(first, self._last(self.visible, num_acks))
        return Allowed(list(states[first : num_acks + 2]), list(states[seen : num_acks + 2]))

    def _last(self, kinds: Sequence[str], num_acks: int) -> int:
        """Return the number of steps up to the last one of some kinds; all if no kind is given."""
        return max((n + 1 for n in range(num_acks) if not kinds or self.steps[n][0] in kinds), default=0)

    def states_going_on(self, folder: Path) -> list[Any]:
        """Return what `go_on` finds, and makes of it."""
        handle = self.open(folder, read_only=False)
        found = [self.read(handle)]
        for _ in range(2):
            self.one_more(handle)
            found.append(self.read(handle))
        self.close(handle)
        return found

    def check(self, folder: Path, allowed: Allowed) -> None:
        """Raise AssertionError unless what is there is allowed, for readers and a writer, and can be continued."""
        reader = self.open(folder, read_only=True)
        before = None if reader is None else self.read(reader)
        if reader is not None:
            self.close(reader)
        assert before in allowed.reader, f"a reader finds {before}, not one of {allowed.reader}"
        writer = self.open(folder, read_only=False)
        after = None if writer is None else self.read(writer)
        assert after in allowed.writer, f"a writer finds {after}, not one of {allowed.writer}"
        if writer is None:
            return
        self.one_more(writer)
        more = self.read(writer)
        self.close(writer)
        again = self.open(folder, read_only=False)
        found = self.read(again)
        self.close(again)
        assert found == more != after, f"after one more step, {found} is there and not {more}"
