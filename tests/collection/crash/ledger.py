"""The smallest thing that keeps data as a collection does: a list of batches, in a log, a file and a manifest."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from crash.history import History, Step

from segmax.base import files
from segmax.base.errors import FormatError, IndexNotFoundError
from segmax.collection import log as log_module
from segmax.collection.array_file import read_arrays, write_arrays
from segmax.collection.lock import WriterLock
from segmax.collection.log import Log
from segmax.collection.manifest import Manifest, read_manifest, remove_unnamed, write_manifest

_SIZES = (3, 700, 1, 90)


class Ledger:
    """Batches of numbers: those of the log, behind those of the file that the manifest names."""

    def __init__(self, folder: Path, *, read_only: bool, sync: bool) -> None:
        self.folder = folder
        self._sync = sync
        self._lock = None if read_only else WriterLock(folder)
        try:
            self.manifest = read_manifest(folder)
            self.batches: list[list[int]] = []
            if self.manifest.lattice is not None:
                arrays = read_arrays(folder / self.manifest.lattice)
                self.batches = [part.tolist() for part in np.split(arrays["value"], arrays["end"])[:-1]]
            if not read_only:
                remove_unnamed(folder, self.manifest)
            self._log = Log.open(folder, self.manifest.first_log, applied=self.manifest.applied, read_only=read_only)
            for _, _, pieces in self._log.records():
                self.batches.append(np.frombuffer(pieces[0], np.int64).tolist())
        except BaseException:
            if self._lock is not None:
                self._lock.release()
            raise

    @classmethod
    def create(cls, folder: Path, *, sync: bool) -> Ledger:
        """Make an empty one."""
        with files.write_errors(folder):
            folder.mkdir(exist_ok=True)
        with WriterLock(folder):
            Log.create(folder).close()
            write_manifest(folder, Manifest())
            with files.write_errors(folder):
                files.sync_folder(folder.parent)
        return cls(folder, read_only=False, sync=sync)

    def add(self, batch: Sequence[int]) -> None:
        """Add a batch."""
        self._log.append(1, [np.array(batch, np.int64)])
        if self._sync:
            self._log.sync()
        self.batches.append(list(batch))

    def commit(self) -> None:
        """Move everything to a file."""
        first_log = self._log.rotate()
        generation = self.manifest.generation + 1
        name = f"lattice.{generation}.bin"
        ends = np.cumsum([len(batch) for batch in self.batches], dtype=np.int64)
        values = np.array([value for batch in self.batches for value in batch], np.int64)
        write_arrays(self.folder / name, {"value": values, "end": ends})
        manifest = dataclasses.replace(
            self.manifest,
            generation=generation,
            lattice=name,
            first_log=first_log,
            applied=self._log.last_sequence,
        )
        write_manifest(self.folder, manifest)
        self.manifest = manifest
        self._log.remove_before(first_log)
        remove_unnamed(self.folder, manifest)

    def close(self) -> None:
        """Close the files."""
        self._log.close()
        if self._lock is not None:
            self._lock.release()


class LedgerHistory(History):
    """Adds of different sizes, commits, and reopenings in between."""

    steps: ClassVar[Sequence[Step]] = (
        ("create",),
        ("add", 0),
        ("add", 1),
        ("reopen",),
        ("add", 2),
        ("commit",),
        ("add", 3),
        ("add", 1),
        ("commit",),
        ("reopen",),
        ("add", 0),
        ("add", 0),
    )

    def __init__(self, sync: bool = True, mutant: str = "") -> None:
        self.sync = sync
        self.durable = () if sync else ("create", "commit", "reopen")
        _MUTANTS[mutant]()

    def do(self, handle: Any, folder: Path, step: Step) -> Any:
        """Do a step."""
        if step[0] == "create":
            return Ledger.create(folder / "ledger", sync=self.sync)
        if step[0] == "reopen":
            handle.close()
            return Ledger(folder / "ledger", read_only=False, sync=self.sync)
        if step[0] == "add":
            handle.add(range(len(handle.batches), len(handle.batches) + _SIZES[step[1]]))
        else:
            handle.commit()
        return handle

    def read(self, handle: Any) -> Any:
        """Return the batches."""
        return [list(batch) for batch in handle.batches]

    def open(self, folder: Path, *, read_only: bool) -> Any:
        """Open it."""
        path = folder / "ledger"
        try:
            read_manifest(path)
        except (IndexNotFoundError, FormatError) as error:
            if isinstance(error, IndexNotFoundError) or "without manifest.json" in error.got:
                return None
            raise
        return Ledger(path, read_only=read_only, sync=self.sync)

    def close(self, handle: Any) -> None:
        """Close it."""
        handle.close()

    def one_more(self, handle: Any) -> None:
        """Add a batch."""
        handle.add([4, 5, 6])


# --- mistakes that the harness has to find ---------------------------------------------------------------------------


def _no_data_syncs() -> None:
    """Records are not synced."""
    os.fdatasync = lambda descriptor: None


def _no_syncs_of_folders() -> None:
    """Names are not synced."""
    files.sync_folder = log_module.sync_folder = lambda folder: None


def _no_syncs_of_files() -> None:
    """New files are not synced before they get their name."""
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").is_dir():
            real(descriptor)

    os.fsync = fsync


def _early_removal() -> None:
    """Old files are removed before the manifest is replaced."""
    real = write_manifest

    def write(folder: Path, manifest: Manifest) -> None:
        remove_unnamed(folder, manifest)
        real(folder, manifest)

    globals()["write_manifest"] = write


def _cuts_not_synced() -> None:
    """A cut may be undone by a power loss after something was written over it."""
    cut, sync, were_cut = os.ftruncate, os.fsync, set()

    def ftruncate(descriptor: int, size: int) -> None:
        were_cut.add(descriptor)
        cut(descriptor, size)

    def fsync(descriptor: int) -> None:
        if descriptor not in were_cut:
            sync(descriptor)
        were_cut.discard(descriptor)

    os.ftruncate, os.fsync = ftruncate, fsync


_MUTANTS = {
    "": lambda: None,
    "no data syncs": _no_data_syncs,
    "no syncs of folders": _no_syncs_of_folders,
    "no syncs of files": _no_syncs_of_files,
    "early removal": _early_removal,
    "cuts not synced": _cuts_not_synced,
}
