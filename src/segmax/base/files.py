"""Files on disk: created without following links, replaced whole or not at all, read only if they are regular files.

Everything in segmax that writes a file with a name writes it through this module. Errors are those of the system, which
`write_errors` turns into `WriteError`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from segmax.base.errors import IndexExistsError, SegmaxError, WriteError
from segmax.base.system import open_new, open_to_read, open_to_update, read_some, replace_file, sync_file, write_some
from segmax.base.system import sync_folder as sync_folder  # by the same door as everything else that is written

_LONGEST_STEM = 200  # bytes: what is left of the 255 of a file name once a temporary name is made of it


class UnsyncedNameError(OSError):
    """A file was replaced, but its folder could not be synced: after a power loss the old one may be back."""


def create(path: Path) -> int:
    """Create a file that does not exist yet and return a descriptor to write to.

    Raises
    ------
    FileExistsError
        If something is at the path, even a dangling link.
    """
    return open_new(path)


@contextlib.contextmanager
def replacing(path: Path, temporary: Path | None = None) -> Iterator[BinaryIO]:
    """Open a file that replaces `path` once it is complete and on disk, or not at all.

    Parameters
    ----------
    path
        The file to write. A link there is replaced, not followed.
    temporary
        Its name until then, in a folder that no other process writes to at the same time. A file of that name, left
        behind by a crash, is removed. By default a unique name beside `path`.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "notes.txt")
    >>> with replacing(path) as file:
    ...     _ = file.write(b"whole")
    >>> path.read_text()
    'whole'

    Raises
    ------
    UnsyncedNameError
        If the file was replaced, but the folder could not be synced.
    """
    if temporary is None:
        stem = os.fsdecode(os.fsencode(path.name)[:_LONGEST_STEM])
        temporary = path.with_name(f".{stem}.{os.urandom(8).hex()}.part")
        descriptor = create(temporary)
    else:
        descriptor = create_again(temporary)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            sync_file(file.fileno())
        replace_file(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):  # the first error is the one to report
            temporary.unlink(missing_ok=True)
        raise
    try:
        sync_folder(path.absolute().parent)
    except OSError as error:
        raise UnsyncedNameError(error.errno, error.strerror, os.fspath(path)) from error


def check_replaceable(path: Path, marker: str, what: str, *, overwrite: bool) -> None:
    """Raise IndexExistsError if `replacing_folder` must not replace what is at a path.

    Parameters
    ----------
    path
        The folder to write.
    marker
        The file by which a folder of this kind is known.
    what
        The kind, for messages.
    overwrite
        Whether the caller allows to replace a folder of this kind.
    """
    if not path.exists() and not path.is_symlink():
        return
    if not overwrite:
        raise IndexExistsError(f"'{path}' exists", hint="choose another path, or pass {overwrite=True}")
    if path.is_symlink() or not (path / marker).is_file():
        raise IndexExistsError(
            where=f"'{path}'",
            expected=f"{what} that segmax wrote, to overwrite it",
            got="something else",
            hint="choose another path",
        )


@contextlib.contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """Give an empty folder that replaces `path` once it is complete and on disk, or not at all.

    What a killed process leaves behind is a folder beside `path`, whose name starts with a dot and that of `path`.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "notes")
    >>> with replacing_folder(path) as folder:
    ...     _ = (folder / "one.txt").write_text("whole")
    >>> [file.name for file in path.iterdir()]
    ['one.txt']
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=_scratch_prefix(path), dir=path.parent))
    try:
        made = scratch / "new"
        made.mkdir()
        yield made
        for file in made.rglob("*"):
            if file.is_file():
                with file.open("r+b") as opened:  # files that libraries wrote were never synced
                    sync_file(opened.fileno())
        _install(made, path, scratch / "old")
        sync_folder(path.parent)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def folders_of_writers(path: Path) -> list[Path]:
    """Return the folders of `replacing_folder` beside a path: those of processes at work, and of killed ones.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "notes")
    >>> with replacing_folder(path):
    ...     len(folders_of_writers(path))
    1
    >>> folders_of_writers(path)
    []
    """
    names = re.compile(re.escape(_scratch_prefix(path)) + r"[a-z0-9_]{8}")
    try:
        beside = [
            entry
            for entry in path.parent.iterdir()
            if names.fullmatch(entry.name) and entry.is_dir() and not entry.is_symlink()
        ]
        return [entry for entry in beside if {inner.name for inner in entry.iterdir()} in ({"new"}, {"new", "old"})]
    except OSError:  # nothing is beside it, or not for this user
        return []


def _scratch_prefix(path: Path) -> str:
    return f".{path.name[:100]}."


def _install(made: Path, path: Path, old: Path) -> None:
    if path.exists():
        path.rename(old)
    try:
        made.rename(path)
    except BaseException:
        if old.exists():
            old.rename(path)
        raise


@contextlib.contextmanager
def write_errors(path: Path) -> Iterator[None]:
    """Turn an OSError inside the context into WriteError: the file or folder could not be written.

    Only for what is written whole or not at all, so that nothing has changed.
    """
    try:
        yield
    except SegmaxError:
        raise
    except OSError as error:
        msg = f"could not write '{path}' ({error.strerror or error}): nothing was changed"
        raise WriteError(msg, hint="make room or choose another path") from error


def create_again(path: Path) -> int:
    """Create a file like `create`, and remove what is there already."""
    try:
        return create(path)
    except FileExistsError:
        path.unlink()
        return create(path)


def open_for_update(path: Path) -> BinaryIO:
    """Open a regular file to be read and written, and create it if there is none; links are not followed."""
    return os.fdopen(open_or_create(path), "r+b")


def open_or_create(path: Path) -> int:
    """Open a file like `open_for_update`, and return a descriptor."""
    return _checked_regular(open_to_update(path, create=True), path)


def open_existing(path: Path, *, update: bool) -> int:
    """Open a regular file and return a descriptor, to read it and, if `update`, to write it; links are not followed."""
    descriptor = open_to_update(path, create=False) if update else open_to_read(path, follow=False)
    return _checked_regular(descriptor, path)


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file, or a link to one, to be read; never wait for a pipe or read a device.

    Raises
    ------
    OSError
        If it is not a regular file; `strerror` names what it is.
    """
    return os.fdopen(_checked_regular(open_to_read(path, follow=True), path), "rb")


def _checked_regular(descriptor: int, path: Path) -> int:
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    what = "a pipe" if stat.S_ISFIFO(mode) else "a device" if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) else "special"
    raise OSError(errno.EINVAL, f"not a regular file but {what}", os.fspath(path))


def write_at(descriptor: int, pieces: Sequence[bytes | memoryview], offset: int) -> None:
    """Write pieces one after the other to a place of a file, all of them or raise."""
    left = [memoryview(piece) for piece in pieces if len(piece) > 0]
    while left:
        count = write_some(descriptor, left, offset)
        offset += count
        while left and count >= len(left[0]):
            count -= len(left.pop(0))
        if count:
            left[0] = left[0][count:]


def read_up_to(descriptor: int, size: int) -> bytes:
    """Return the beginning of a file, at most so many bytes."""
    content = bytearray(size)
    return bytes(content[: read_some(descriptor, memoryview(content), 0)])


def read_at(descriptor: int, content: memoryview, offset: int) -> bool:
    """Fill a buffer from a place of a file; return False if the file ends before."""
    while len(content) > 0:
        count = read_some(descriptor, content, offset)
        if count == 0:
            return False
        content, offset = content[count:], offset + count
    return True
