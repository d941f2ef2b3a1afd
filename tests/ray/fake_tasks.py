"""Tasks of a build that go wrong."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from segmax.shards.making.tasks import Task, Workplace


@dataclasses.dataclass(frozen=True)
class Unlucky(Task):
    """Fails the first times that it is tried, by an error or by the end of its process."""

    counter: str  #: a file that gets longer by a byte with every try
    failures: int
    ends_process: bool

    @property
    def output(self) -> str:
        """The file that says that the task is done."""
        return "unlucky"

    def make(self, work: Workplace) -> Mapping[str, Any]:
        """Fail, or write the file."""
        with Path(self.counter).open("ab") as file:
            file.write(b".")
        if Path(self.counter).stat().st_size <= self.failures:
            if self.ends_process:
                os._exit(1)
            raise ValueError("bad luck")
        work.keep(self.output, {}, {"tries": Path(self.counter).stat().st_size})
        return {"tries": Path(self.counter).stat().st_size}


@dataclasses.dataclass(frozen=True)
class WantsCard(Unlucky):
    """Is faster on a graphics card."""

    wants_gpu = True
