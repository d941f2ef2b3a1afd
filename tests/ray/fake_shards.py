"""A shard that knows its number and little else, for tests of what carries calls."""

from __future__ import annotations

import os
import random
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from segmax.errors import FormatError, InputError


class FakeShard:
    """Answers at once, late, or never."""

    def __init__(self, number: int, folder: Path | None) -> None:
        self._number = number
        self._folder = folder

    def number(self) -> int:
        """Which shard this is."""
        return self._number

    def square(self, value: int) -> tuple[int, int]:
        """Something that can be checked."""
        return self._number, value * value

    def pid(self) -> int:
        """The process."""
        return os.getpid()

    def sleep(self, seconds: float) -> int:
        """Take a while."""
        time.sleep(seconds)
        return self._number

    def sometimes_late(self, share: float) -> int:
        """Take 2 ms, but 100 ms in a share of calls if this is the replica that a file names."""
        assert self._folder is not None
        slow = (self._folder / str(os.getpid())).exists() and random.random() < share
        time.sleep(0.1 if slow else 0.002)
        return self._number

    def array(self, size: int) -> dict[str, Any]:
        """Arrays inside other things."""
        return {"found": (np.full(size, self._number), ["text"]), "size": size}

    def total(self, values: np.ndarray) -> tuple[float, bool]:
        """The sum, and whether the array could be changed."""
        return float(values.sum()), bool(values.flags.writeable)

    def refuse(self) -> None:
        """Raise an error of segmax."""
        raise InputError(expected="another question", got="this one")

    def fail(self) -> None:
        """Raise an error of nobody."""
        raise ZeroDivisionError("a mistake")

    def die(self) -> None:
        """Take the process along."""
        os._exit(1)


@dataclass(frozen=True)
class FakeOpening:
    """Opens a fake shard; raises `error` instead on every node but those of `only`."""

    number: int
    error: Exception | None = None
    only: tuple[str, ...] = ()
    folder: Path | None = None

    def __call__(self) -> FakeShard:
        import ray

        if self.error is not None and ray.get_runtime_context().get_node_id() not in self.only:
            raise self.error
        return FakeShard(self.number, self.folder)


class FileOpening(FakeOpening):
    """Opens a fake shard as long as a file is there."""

    def __call__(self) -> FakeShard:
        assert self.folder is not None
        if not self.folder.exists():
            raise FormatError("the index '/data/x' is damaged: it is gone")
        return super().__call__()


@dataclass(frozen=True)
class OldOpening(FakeOpening):
    """Makes segmax in the actor look like another version."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        sys.modules["segmax"].__version__ = "0.0.9"


@dataclass(frozen=True)
class UnknownOpening(FakeOpening):
    """Cannot be unpickled on a node, as if a package was missing there."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        raise ModuleNotFoundError("No module named 'segmax'")


def openings(count: int, **options: Any) -> list[FakeOpening]:
    """One for every shard."""
    return [FakeOpening(number, **options) for number in range(count)]
