"""What a build consists of: tasks that write a file each, the place where they work, and whatever runs them."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import errno
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from numpy.typing import NDArray

from segmax.base.errors import FormatError, InputError, SegmaxError, WriteError
from segmax.base.scratch import scratch_errors
from segmax.building.resources import ResourceOptions
from segmax.shards.making.packed import DamagedFileError, Packed, pack, unpack
from segmax.shards.storage import Storage

#: The folder of everything that is only there while a build is unfinished.
BUILDING = "building"
#: In it, the file that says what is being built.
JOURNAL = "journal.json"
_TRIES = 3  # where storage fails
_PAUSE_SECONDS = 1.0  # before the second try; twice as long before the third
#: What does not pass by itself.
_LASTING = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.ENAMETOOLONG)
Made = TypeVar("Made")


@dataclasses.dataclass(frozen=True)
class Workplace:
    """Where tasks read and write, and what each of them may use. It travels to whatever machine runs a task."""

    storage: Storage
    memory_limit: int | str | None = None  #: per task
    threads: int | None = 1  #: per task
    scratch: str | None = None  #: a folder of the machine that runs a task; None: the default one

    def keep(self, name: str, arrays: Mapping[str, NDArray[Any]], about: Mapping[str, Any]) -> None:
        """Write a file of the build, whole."""
        self.storage.write(f"{BUILDING}/{name}", pack(arrays, about))

    def load(self, name: str) -> Packed:
        """Return what a file holds; raise DamagedFileError if it is not there, or damaged."""
        return unpack(self.read(name), name)

    def find(self, name: str) -> Packed | None:
        """Return what a file holds; None if it is not there, or damaged."""
        with contextlib.suppress(DamagedFileError):
            return self.load(name)
        return None

    def read(self, name: str, start: int = 0, size: int | None = None) -> bytes:
        """Return the bytes of a file, or a part of them; raise DamagedFileError if there are none."""
        try:
            return self.storage.read(f"{BUILDING}/{name}", start, size)
        except FileNotFoundError as error:
            raise _missing(name) from error

    def size(self, name: str) -> int:
        """Return the bytes that a file has; raise DamagedFileError if there is none."""
        try:
            return self.storage.size(f"{BUILDING}/{name}")
        except FileNotFoundError as error:
            raise _missing(name) from error

    def write(self, name: str, pieces: Sequence[bytes | memoryview]) -> None:
        """Write the bytes of a file, whole."""
        self.storage.write(f"{BUILDING}/{name}", pieces)

    @property
    def resources(self) -> ResourceOptions:
        """How a task works, as options of a build."""
        return {"memory_limit": self.memory_limit, "threads": self.threads, "scratch": self.scratch_folder()}

    def scratch_folder(self) -> Path:
        """Return the folder for scratch files of a task: the given one, or that of the build, or a temporary one."""
        if self.scratch is not None:
            folder = Path(self.scratch)
            with scratch_errors("make a folder for scratch files", folder):
                folder.mkdir(parents=True, exist_ok=True)
            return folder
        if self.storage.folder is not None:
            folder = self.storage.folder / BUILDING
            with scratch_errors("make a folder for scratch files", folder):
                folder.mkdir(parents=True, exist_ok=True)
            return folder
        return Path(tempfile.gettempdir())

    @contextlib.contextmanager
    def own_folder(self) -> Iterator[Path]:
        """Give a new folder that can be moved into the storage; what is left of it is removed at the end."""
        parent = self.scratch_folder() if self.storage.folder is None else self.storage.folder / BUILDING
        with scratch_errors("make a folder", parent):
            parent.mkdir(parents=True, exist_ok=True)
            folder = Path(tempfile.mkdtemp(prefix="task-", dir=parent))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


class Task(abc.ABC):
    """Work that depends on earlier files alone, and whose result is a file. It can be pickled, and done anywhere.

    Done twice, it writes the same bytes.
    """

    #: Whether a graphics card helps.
    wants_gpu: bool = False

    @property
    @abc.abstractmethod
    def output(self) -> str:
        """The file that says that the task is done."""

    @abc.abstractmethod
    def make(self, work: Workplace) -> Mapping[str, Any]:
        """Do the work, write the file last, and return what it says about the result."""

    def holds(self, found: Packed, work: Workplace) -> bool:
        """Whether a result that was found, and is whole, still holds."""
        return True

    def run(self, work: Workplace) -> Mapping[str, Any]:
        """Do the work unless it is done; return what there is to know about the result, as plain values."""
        found = work.find(self.output)
        if found is not None and self.holds(found, work):
            return found.about
        return self.make(work)


class Executor(Protocol):
    """Runs tasks: here, one after another, or on other machines."""

    def run(self, tasks: Sequence[Task], work: Workplace) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Yield (number of a task, its result) as they are done, in any order."""


class HereExecutor:
    """Runs tasks in this process, one after another."""

    def run(self, tasks: Sequence[Task], work: Workplace) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Yield (number of a task, its result)."""
        for number, task in enumerate(tasks):
            yield number, patiently(partial(task.run, work))


def patiently(make: Callable[[], Made]) -> Made:
    """Return what a function returns; call it again, a few times, where storage fails in a way that may pass."""
    for tries in range(1, _TRIES):
        try:
            return make()
        except (FormatError, WriteError) as error:
            if not _may_pass(error):
                raise
        time.sleep(_PAUSE_SECONDS * tries)
    return make()


def _may_pass(error: SegmaxError) -> bool:
    """Whether an error of storage comes from the system or the network rather than from what is stored."""
    cause = error.__cause__
    is_lasting = isinstance(cause, (FileNotFoundError, PermissionError)) or getattr(cause, "errno", None) in _LASTING
    return isinstance(cause, OSError) and not is_lasting


def _missing(name: str) -> DamagedFileError:
    return DamagedFileError(f"'{name}', a file of an unfinished build, is missing", hint="start the same build again")


@contextlib.contextmanager
def in_unit(where: str) -> Iterator[None]:
    """Name the file, or whatever is being read, in errors about documents that do not say where they are."""
    try:
        yield
    except InputError as error:
        if error.where:
            raise
        raise error.at(where) from error
