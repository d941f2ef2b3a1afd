"""Where a sharded index lies, a folder or an address that fsspec knows, and how its shards come to other machines.

A shard is called by the hash of its content. A copy is made under another name, compared with that hash, and only then
renamed: what has the right name in a cache is whole, whoever copied it.
"""

from __future__ import annotations

import abc
import contextlib
import errno
import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from segmax.base.checks import checked_path
from segmax.base.errors import ConfigError, FormatError, IndexNotFoundError, damaged
from segmax.base.files import open_regular, replacing, sync_folder, write_errors
from segmax.shards.addresses import is_address
from segmax.storage.component_file import FOOTER_BYTES
from segmax.storage.meta import COMPONENT_NAME, MAX_META_BYTES, META_NAME, parse_meta, unreadable
from segmax.storage.reading import load_index

#: The folder of shards, each called by its content hash.
SHARDS = "shards"
_HASH = re.compile(r"[0-9a-f]{64}")
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")
_LEFTOVER = re.compile(r"\..*\.part", re.DOTALL)  # what `replacing` calls a file that is not whole yet
_PIECE_BYTES = 1 << 22


def content_hash(folder: Path) -> str:
    """Return the SHA-256 of the names, sizes and bytes of all files of a shard, in hexadecimal digits.

    Raises
    ------
    FormatError
        If the folder cannot be read, or has something else than the files of an index.
    """
    whole = hashlib.sha256()
    try:
        for path in sorted(folder.iterdir()):
            if path.is_symlink() or (path.name != META_NAME and COMPONENT_NAME.fullmatch(path.name) is None):
                raise damaged(f"it has something that is no part of an index, {path.name[:80]!r}", folder)
            with open_regular(path) as file:
                size = os.fstat(file.fileno()).st_size
                whole.update(f"{path.name}\n{size}\n".encode())
                while piece := file.read(_PIECE_BYTES):
                    whole.update(piece)
    except OSError as error:
        raise unreadable(folder, error) from error
    return whole.hexdigest()


def checked_hash(name: object) -> str:
    """Return the content hash of a shard; raise FormatError for what cannot be one, such as a path."""
    if not isinstance(name, str) or _HASH.fullmatch(name) is None:
        raise FormatError(expected="a content hash of 64 hexadecimal digits", got=repr(name)[:80])
    return name


def checked_name(name: str) -> str:
    """Return the name of a file below the root; raise FormatError for one that leads elsewhere."""
    if not all(_PART.fullmatch(part) for part in name.split("/")):
        raise FormatError(expected="the name of a file of a sharded index", got=repr(name)[:80])
    return name


def open_storage(path: str | os.PathLike[str]) -> Storage:
    """Return the storage at a path, or at an address of fsspec; nothing has to be there yet.

    Examples
    --------
    >>> import tempfile
    >>> storage = open_storage(tempfile.mkdtemp())
    >>> storage.write("common/notes", [b"whole"])
    >>> storage.read("common/notes"), storage.names("common")
    (b'whole', ['notes'])
    """
    if isinstance(path, str) and is_address(path):
        from segmax.shards.fsspec_storage import FsspecStorage  # which is derived from what is below

        return FsspecStorage(path)
    return LocalStorage(checked_path("path", path).absolute())


class Storage(abc.ABC):
    """Files below a root, by names like "common/router". Written whole or not at all. Can be pickled."""

    #: What users call it, for messages.
    address: str
    #: The folder, where it is one of this machine, or one that machines share.
    folder: Path | None = None

    @abc.abstractmethod
    def read(self, name: str, start: int = 0, size: int | None = None) -> bytes:
        """Return the content of a file, or a part of it; raise FileNotFoundError if there is none."""

    @abc.abstractmethod
    def size(self, name: str) -> int:
        """Return the bytes that a file has; raise FileNotFoundError if there is none."""

    @abc.abstractmethod
    def write(self, name: str, pieces: Sequence[bytes | memoryview]) -> None:
        """Write a file, given in pieces, or replace it; raise WriteError if that fails."""

    @abc.abstractmethod
    def exists(self, name: str) -> bool:
        """Whether there is a file or a folder of this name."""

    @abc.abstractmethod
    def names(self, name: str = "") -> list[str]:
        """Return the names of what lies in a folder, in order; none where there is no folder."""

    @abc.abstractmethod
    def sizes(self, name: str) -> dict[str, int]:
        """Return the files of a folder by name, with their sizes."""

    @abc.abstractmethod
    def remove(self, name: str) -> None:
        """Remove a file, or a folder with everything in it, if it is there."""

    def remove_leftovers(self, name: str = "") -> None:  # noqa: B027 - at an address there are none
        """Remove what processes that were ended have left half-written in a folder; no other may write there."""

    @abc.abstractmethod
    def put(self, folder: Path, name: str) -> None:
        """Move a folder of this machine here, under a name that nothing has yet."""

    @abc.abstractmethod
    def fetch(self, name: str, target: Path) -> None:
        """Copy the files of a folder to a folder of this machine, which exists."""

    def put_shard(self, folder: Path) -> str:
        """Move the folder of a shard here, and return its content hash. A shard that is here already stays."""
        found = content_hash(folder)
        name = f"{SHARDS}/{found}"
        if self.has_shard(found):
            shutil.rmtree(folder)
        else:
            self.remove(name)
            self.put(folder, name)
        return found

    def has_shard(self, shard: str) -> bool:
        """Whether a shard is here, whole.

        In a folder its content has its hash. At an address, where reading all of it would take long, its meta.json is
        whole, and its files have the names and sizes that are written there.
        """
        name = f"{SHARDS}/{checked_hash(shard)}"
        return self._is_as_described(name) if self.folder is None else _is_whole(self.folder / name, shard)

    def _is_as_described(self, name: str) -> bool:
        sizes = self.sizes(name)
        if sizes.pop(META_NAME, MAX_META_BYTES + 1) > MAX_META_BYTES:
            return False
        meta = self.read(f"{name}/{META_NAME}")
        try:
            files = parse_meta(meta, Path(name))["files"]
        except FormatError:
            return False
        return sizes == {entry["file"]: entry["bytes"] + FOOTER_BYTES for entry in files.values()}

    def fetch_shard(self, shard: str, cache: str | os.PathLike[str] | None = None, *, verify: bool = False) -> Path:
        """Return a folder of this machine that has a shard.

        Parameters
        ----------
        shard
            Its content hash.
        cache
            The folder of copies, shared by all processes of a machine. None: a shard in a plain folder is used where it
            lies; at an address of fsspec a cache is needed.
        verify
            Compare a shard in a plain folder with its hash; and a copy that is in the cache already, which is copied
            again if it does not match.

        Raises
        ------
        FormatError
            The shard is damaged: what arrived does not have its hash.
        IndexNotFoundError
            There is no such shard.
        WriteError
            The cache has no room, or cannot be written.
        """
        name = f"{SHARDS}/{checked_hash(shard)}"
        if cache is None:
            return self._in_place(name, verify=verify)
        target = checked_path("cache", cache).absolute() / shard
        if target.is_dir() and (not verify or _is_whole(target, shard)):
            return target
        with write_errors(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            remove_local(target)
        return self._copied(name, target)

    def _in_place(self, name: str, *, verify: bool) -> Path:
        if self.folder is None:
            raise ConfigError(
                option="cache",
                expected="a folder of this machine, because the index is at an address",
                got="none",
                hint="pass {cache=...}",
            )
        if not (self.folder / name).is_dir():
            raise self._missing(name)
        if verify and not _is_whole(self.folder / name, name.rpartition("/")[2]):
            load_index(self.folder / name, preload=False, verify=True)  # names the file, if its checksum shows which
            self._check_hash(self.folder / name, name)
        return self.folder / name

    def _check_hash(self, folder: Path, name: str) -> None:
        """Raise FormatError unless a folder has the content that the shard is called by."""
        if content_hash(folder) != name.rpartition("/")[2]:
            raise damaged("its content does not have the hash that it is called by", f"{self.address}/{name}")

    def _copied(self, name: str, target: Path) -> Path:
        """Copy a shard to a name of its own, compare it with its hash, and rename it."""
        temporary = target.with_name(f".{target.name[:16]}.{os.urandom(8).hex()}.part")
        try:
            with write_errors(temporary):
                temporary.mkdir()
                self.fetch(name, temporary)
                self._check_hash(temporary, name)
                with _unless_there():
                    temporary.rename(target)
                sync_folder(target.parent)
        finally:
            remove_local(temporary)
        return target

    def _missing(self, name: str) -> IndexNotFoundError:
        return IndexNotFoundError(f"there is no '{name}' in the sharded index '{self.address}'")


class LocalStorage(Storage):
    """A folder of this machine, or one that machines share."""

    def __init__(self, folder: Path) -> None:
        self.folder: Path = folder
        self.address = str(folder)

    def _path(self, name: str) -> Path:
        return self.folder / checked_name(name)

    def read(self, name: str, start: int = 0, size: int | None = None) -> bytes:
        """Return the content of a file, or a part of it; raise FileNotFoundError if there is none."""
        path = self._path(name)
        try:
            with open_regular(path) as file:
                file.seek(start)
                return file.read(-1 if size is None else size)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise unreadable(path, error) from error

    def size(self, name: str) -> int:
        """Return the bytes that a file has; raise FileNotFoundError if there is none."""
        return self._path(name).stat().st_size

    def write(self, name: str, pieces: Sequence[bytes | memoryview]) -> None:
        """Write a file, given in pieces, or replace it; raise WriteError if that fails."""
        path = self._path(name)
        with write_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as file:
                for piece in pieces:
                    file.write(piece)

    def exists(self, name: str) -> bool:
        """Whether there is a file or a folder of this name."""
        return self._path(name).exists()

    def names(self, name: str = "") -> list[str]:
        """Return the names of what lies in a folder, in order; none where there is no folder."""
        path = self._path(name) if name else self.folder
        found = path.iterdir() if path.is_dir() else ()
        return sorted(one.name for one in found if _LEFTOVER.fullmatch(one.name) is None)

    def sizes(self, name: str) -> dict[str, int]:
        """Return the files of a folder by name, with their sizes."""
        path = self._path(name)
        return {one.name: one.stat().st_size for one in sorted(path.iterdir())} if path.is_dir() else {}

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with everything in it, if it is there."""
        path = self._path(name)
        with write_errors(path):
            remove_local(path)

    def remove_leftovers(self, name: str = "") -> None:
        """Remove what processes that were ended have left half-written in a folder; no other may write there."""
        path = self._path(name) if name else self.folder
        for one in path.iterdir() if path.is_dir() else ():
            if _LEFTOVER.fullmatch(one.name) is not None:
                remove_local(one)

    def put(self, folder: Path, name: str) -> None:
        """Move a folder of this machine here, under a name that nothing has yet."""
        path = self._path(name)
        with write_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with _unless_there():
                folder.rename(path)
            sync_folder(path.parent)
        remove_local(folder)  # where another process was faster

    def fetch(self, name: str, target: Path) -> None:
        """Copy the files of a folder to a folder of this machine, which exists."""
        path = self._path(name)
        if not path.is_dir():
            raise self._missing(name)
        for one in sorted(path.iterdir()):
            shutil.copyfile(one, target / one.name, follow_symlinks=False)


@contextlib.contextmanager
def _unless_there() -> Iterator[None]:
    """Let a rename fail because another process has put the same folder there."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise


def _is_whole(folder: Path, shard: str) -> bool:
    try:
        return folder.is_dir() and content_hash(folder) == shard
    except FormatError:
        return False


def remove_local(path: Path) -> None:
    """Remove a file or folder of this machine, if it is there."""
    if path.is_symlink() or path.is_file():
        path.unlink(missing_ok=True)
    elif path.exists():
        shutil.rmtree(path, ignore_errors=True)
