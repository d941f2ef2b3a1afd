"""What the stages of a build share: memory, scratch space, threads and progress updates."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict

from segmax.base.checks import checked_path
from segmax.base.errors import ConfigError
from segmax.base.memory import MemoryLimit
from segmax.base.parallel import Workers
from segmax.base.progress import Progress, ProgressOption, progress_of
from segmax.search.arguments import num_threads

#: What a thread may need for its own pieces of work.
BYTES_PER_THREAD = 64 * 2**20


class ResourceOptions(TypedDict, total=False):
    """The keywords of `segmax.build` that decide how it works, not what it builds."""

    threads: int | None
    memory_limit: int | str | None
    scratch: str | os.PathLike[str] | None
    progress: ProgressOption


@dataclasses.dataclass(frozen=True)
class BuildResources:
    """What the stages of a build share."""

    limit: MemoryLimit
    folder: Path  #: for scratch files
    workers: Workers
    progress: Progress


@contextlib.contextmanager
def open_resources(path: Path | None, options: ResourceOptions) -> Iterator[BuildResources]:
    """Start threads and progress updates for a build; `path` is where the index goes."""
    limit = MemoryLimit(options.get("memory_limit"))
    limit.check_start()
    folder = scratch_folder(options.get("scratch"), path)
    threads = min(num_threads(options.get("threads")), max(1, limit.available() // BYTES_PER_THREAD))
    with Workers(threads) as workers, progress_of(options.get("progress")) as progress:
        yield BuildResources(limit, folder, workers, progress)


def scratch_folder(scratch: str | os.PathLike[str] | None, path: str | os.PathLike[str] | None) -> Path:
    """Return the folder for scratch files: the given one, the one that holds `path`, or that of temporary files."""
    if scratch is None:
        return Path(tempfile.gettempdir()) if path is None else checked_path("path", path).absolute().parent
    folder = checked_path("scratch", scratch)
    if not folder.is_dir():
        raise ConfigError(option="scratch", expected="an existing directory", got=f"'{folder}'")
    return folder
