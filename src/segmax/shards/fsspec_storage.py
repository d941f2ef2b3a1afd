"""A sharded index at an address that fsspec knows, such as a bucket. Files appear there whole or not at all."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from segmax.base.errors import ConfigError, FormatError, SegmaxError, WriteError
from segmax.base.optional import need
from segmax.shards.storage import Storage, checked_name, remove_local
from segmax.storage.meta import META_NAME


class FsspecStorage(Storage):
    """An address that fsspec knows, such as a bucket."""

    def __init__(self, address: str) -> None:
        self.address = address.rstrip("/")
        self._connect()

    def _connect(self) -> None:
        fsspec: Any = need("fsspec", f"the address '{self.address}'", "ray")
        try:
            self._fs, self._root = fsspec.core.url_to_fs(self.address)
        except Exception as error:  # a protocol that it does not know, or whose package is missing; it says which
            got = f"'{self.address}' ({error})"
            raise ConfigError(option="path", expected="an address that fsspec knows", got=got) from error

    def __getstate__(self) -> dict[str, Any]:
        return {"address": self.address}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.address = state["address"]
        self._connect()

    def _path(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{checked_name(name)}"

    def read(self, name: str, start: int = 0, size: int | None = None) -> bytes:
        """Return the content of a file, or a part of it; raise FileNotFoundError if there is none."""
        with self._read_errors(name):
            end = None if size is None else start + size
            return bytes(self._fs.cat_file(self._path(name), start=start or None, end=end))

    def size(self, name: str) -> int:
        """Return the bytes that a file has; raise FileNotFoundError if there is none."""
        with self._read_errors(name):
            return int(self._fs.size(self._path(name)))

    def write(self, name: str, pieces: Sequence[bytes | memoryview]) -> None:
        """Write a file, given in pieces, or replace it; raise WriteError if that fails."""
        path = self._path(name)
        with self._write_errors(name):
            self._fs.makedirs(path.rpartition("/")[0], exist_ok=True)
            self._fs.pipe_file(path, b"".join(pieces))

    def exists(self, name: str) -> bool:
        """Whether there is a file or a folder of this name."""
        with self._read_errors(name):
            return bool(self._fs.exists(self._path(name)))

    def names(self, name: str = "") -> list[str]:
        """Return the names of what lies in a folder, in order; none where there is no folder."""
        path = self._path(name) if name else self._root
        return sorted(entry["name"].rstrip("/").rpartition("/")[2] for entry in self._listed(path, name))

    def sizes(self, name: str) -> dict[str, int]:
        """Return the files of a folder by name, with their sizes."""
        found = self._listed(self._path(name), name)
        return {entry["name"].rpartition("/")[2]: int(entry["size"]) for entry in found if entry["type"] == "file"}

    def _listed(self, path: str, name: str) -> list[dict[str, Any]]:
        self._fs.invalidate_cache()  # others write there
        try:
            with self._read_errors(name):
                listed: list[dict[str, Any]] = self._fs.ls(path, detail=True)
        except FileNotFoundError:
            return []
        return [entry for entry in listed if entry["name"].rstrip("/") != path.rstrip("/")]

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with everything in it, if it is there."""
        with self._write_errors(name), contextlib.suppress(FileNotFoundError):
            self._fs.rm(self._path(name), recursive=True)

    def put(self, folder: Path, name: str) -> None:
        """Move a folder of this machine here. meta.json comes last, so that a folder with it is whole."""
        with self._write_errors(name):
            self._fs.makedirs(self._path(name), exist_ok=True)
            for one in sorted(folder.iterdir(), key=lambda path: (path.name == META_NAME, path.name)):
                self._fs.put_file(str(one), self._path(f"{name}/{one.name}"))
        remove_local(folder)

    def fetch(self, name: str, target: Path) -> None:
        """Copy the files of a folder to a folder of this machine, which exists."""
        found = self.sizes(name)
        if not found:
            raise self._missing(name)
        for one in found:
            try:
                self._fs.get_file(self._path(f"{name}/{one}"), str(target / one))
            except OSError:  # of this machine's disk, perhaps
                raise
            except Exception as error:
                raise self._unreadable(f"{name}/{one}", error) from _system_error(error)

    @contextlib.contextmanager
    def _read_errors(self, name: str) -> Iterator[None]:
        try:
            yield
        except (FileNotFoundError, SegmaxError):
            raise
        except Exception as error:  # every implementation of fsspec has its own
            raise self._unreadable(name, error) from _system_error(error)

    def _unreadable(self, name: str, error: Exception) -> FormatError:
        msg = f"cannot be read ({str(error)[:200]})"
        return FormatError(msg, where=f"'{self.address}/{name}'", hint="check the address and your access")

    @contextlib.contextmanager
    def _write_errors(self, name: str) -> Iterator[None]:
        try:
            yield
        except SegmaxError:
            raise
        except Exception as error:
            msg = f"could not write '{self.address}/{name}' ({str(error)[:200]})"
            raise WriteError(msg, hint="make room, or check the address and your access") from _system_error(error)


def _system_error(error: Exception) -> OSError:
    """Return an error of any implementation as one of the system, by which those that may pass are known."""
    if isinstance(error, OSError):
        return error
    found = OSError(errno.EIO, f"{type(error).__name__}: {error}")
    found.__cause__ = error
    return found
