"""The log of a collection: what was acknowledged and is not in a part yet.

A log is a row of files `log.<number>` in the folder of the collection. A file starts with a header and is only ever
appended to, record by record. `log_format` has the bytes. Sequences start at 1 and grow by one from record to record,
across files.

**What a crash leaves.** A process that is killed leaves everything it wrote, but perhaps only the beginning of its last
record. A power loss leaves whatever was synced; of what was written afterwards, any piece may be there, may be missing
(the file is shorter, or has zeros there), or may be garbage, in any order. So a bad record does not prove damage, and
neither does a good record behind a bad one: both may never have been synced.

**How damage is told from a torn tail.** Every record says, in `synced`, up to which offset of the file a sync had
returned when the record was written. If a record behind a bad one says that the bad one had been synced, then the disk
lost what it had promised to keep: this is damage, and an error. So is a bad record in a file that is not the last one,
because `rotate` syncs a file before it starts the next one. Otherwise nobody was promised anything from the bad record
on: the log ends there, and opening it to write cuts off the rest. One case cannot be told apart: if the very last
record was synced and is damaged later, nothing behind it can say so, and it is cut off with a warning.

**Why a cut is synced at once.** Were new records written over a cut tail that is still on the disk, a power loss could
bring back an old record behind a new one. Therefore a cut is synced before anything is appended, whether opening cut a
torn tail or a failed write was undone.

**Why a failed sync is final.** After it nobody knows what is on the disk, and a second sync may succeed without having
written what the first one lost. The log then refuses to write, and has to be opened again.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np

from segmax.base.errors import NEWER_HINT, FormatError, InputError, WriteError, WriterStoppedError, damaged_collection
from segmax.base.files import create_again, open_existing, read_at, sync_folder, write_at
from segmax.base.system import sync_data, sync_file
from segmax.collection.log_format import (
    FILE_BYTES,
    MAX_PIECES,
    MAX_RECORD_BYTES,
    RECORD_BYTES,
    RECORD_MAGIC,
    VERSION,
    Buffer,
    FileHeader,
    RecordHeader,
    body_bytes,
    new_file_header,
    pack_file_header,
    pack_record,
    unpack_body,
    unpack_file_header,
    unpack_record_header,
)
from segmax.storage.meta import unreadable

#: The name of a file of the log; 18 digits keep the number within 63 bits.
LOG_NAME = re.compile(r"log\.([1-9][0-9]{0,17})")

_LOG = logging.getLogger("segmax.collection")
_SCAN_BYTES = 1 << 20


class Record(NamedTuple):
    """A record of the log. Its pieces are aligned to 8 bytes and share one buffer."""

    sequence: int
    kind: int
    pieces: list[memoryview]


class Log:
    """A log that is open to be read, and to be appended to unless it is read-only.

    One object may write to a log at a time (`WriterLock`), and one thread may use an object at a time. Made by `create`
    and `open`.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with Log.create(folder) as log:
    ...     sequence = log.append(1, [b"some bytes", np.arange(3)])
    ...     log.sync()
    >>> with Log.open(folder, 1) as log:
    ...     for sequence, kind, pieces in log.records():
    ...         print(sequence, kind, bytes(pieces[0]), np.frombuffer(pieces[1], np.int64))
    1 1 b'some bytes' [0 1 2]
    """

    def __init__(self, folder: Path, descriptor: int, number: int, header: FileHeader, applied: int) -> None:
        self._folder = folder
        self._descriptor = descriptor
        self._number = number
        self._header = header
        self._applied = applied
        self._offset = FILE_BYTES  # the end of the last record read or written
        self._last_offset = FILE_BYTES  # where the record starts that was written last
        self._read_offset = FILE_BYTES  # where the record starts that was read last
        self._synced = FILE_BYTES
        self._next_sequence = header.first_sequence
        self._is_read_only = True
        self._is_at_end = False
        self._stopped = ""

    # --- making one --------------------------------------------------------------------------------------------------

    @classmethod
    def create(cls, folder: Path, number: int = 1, first_sequence: int = 1) -> Log:
        """Start a log with an empty file, which is on disk when this returns.

        Raises
        ------
        WriteError
            If the file cannot be written.
        """
        descriptor, header = _create_file(folder, number, first_sequence)
        log = cls(folder, descriptor, number, header, first_sequence - 1)
        log._is_read_only = False
        log._is_at_end = True
        return log

    @classmethod
    def open(cls, folder: Path, first_file: int, *, applied: int = 0, read_only: bool = False) -> Log:
        """Open the log that starts with a file; read `records` to replay it.

        Parameters
        ----------
        folder
            The folder of the collection.
        first_file
            The number of the first file that is needed.
        applied
            The sequence of the last record that need not be replayed.
        read_only
            Change nothing, and ignore a torn tail, which may be a record that another process is writing.

        Raises
        ------
        FileNotFoundError
            If the first file is missing. Where another process writes, it may have replaced the manifest that named it.
        FormatError
            If the log is damaged.
        """
        _check_numbers(folder, first_file)
        descriptor, header = _open_file(folder, first_file, read_only=read_only)
        if header is None or header.first_sequence > applied + 1:
            os.close(descriptor)
            if header is None:
                raise damaged_collection(f"'{_name(first_file)}' has no header", folder)
            raise _gap(folder, first_file, applied + 1, header.first_sequence)
        log = cls(folder, descriptor, first_file, header, applied)
        log._is_read_only = read_only
        return log

    def close(self) -> None:
        """Close the file. What was not synced is left to the system."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            self._stopped = self._stopped or "it is closed"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def file_number(self) -> int:
        """The number of the file that was read or written last."""
        return self._number

    @property
    def file_bytes(self) -> int:
        """The size of that file, up to the last record that was read or written."""
        return self._offset

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record that was read or written; of a new log, the one before its first record."""
        return self._next_sequence - 1

    @property
    def place(self) -> str:
        """Where the record is that was read last, for messages."""
        return f"'{self._path}', record {self.last_sequence:,} at offset {self._read_offset:,}"

    # --- reading -----------------------------------------------------------------------------------------------------

    def records(self) -> Iterator[Record]:
        """Yield the records that this object has not yielded yet, in order, without those that need no replay.

        One record at a time is in memory. The last call of a writer cuts off a torn tail. A reader may call this again
        later, to follow a log that another process writes.

        Raises
        ------
        FormatError
            If the log is damaged.
        WriteError
            If a torn tail cannot be cut off.
        """
        while not self._is_at_end and (record := self._next_record()) is not None:
            if record.sequence > self._applied:
                yield record
        if not self._is_read_only:
            self._start_writing()

    def _next_record(self) -> Record | None:
        """Read the next record, if necessary from the next file; None at the end."""
        while True:
            record = self._record_here()
            if record is not None:
                return record
            has_next = self._has_next_file()
            if not has_next and not self._was_synced_here():
                return None
            # Whatever was synced here was written before what says so. If a writer did all that since we looked, the
            # record is there now.
            record = self._record_here()
            if record is not None:
                return record
            if not has_next or self._size() > self._offset:
                raise self._damage("bad record, although it was on disk once")
            self._continue_with_next_file()

    def _record_here(self) -> Record | None:
        """Read the record at the offset and go on behind it; None if there is no good one."""
        header = self._record_header_at(self._offset)
        if header is None or not header.length <= self._size() - self._offset - RECORD_BYTES:
            return None
        if header.length > MAX_RECORD_BYTES:
            raise self._damage(f"record of {header.length:,} bytes")
        body = np.empty(header.length, dtype=np.uint8).data
        if not self._read(body, self._offset + RECORD_BYTES) or zlib.crc32(body, self._header.seed) != header.crc:
            return None
        # From here on the bytes are what a writer wrote: whatever is wrong is no torn tail.
        if header.sequence != self._next_sequence:
            raise self._damage(f"record {header.sequence:,} where record {self._next_sequence:,} is expected")
        pieces = unpack_body(body, header.num_pieces)
        if pieces is None or header.synced > self._offset:
            raise self._damage("record that contradicts itself")
        self._read_offset = self._offset
        self._offset += RECORD_BYTES + header.length
        self._next_sequence += 1
        return Record(header.sequence, header.kind, pieces)

    def _record_header_at(self, offset: int) -> RecordHeader | None:
        data = bytearray(RECORD_BYTES)
        return unpack_record_header(data, self._header.seed) if self._read(memoryview(data), offset) else None

    def _was_synced_here(self) -> bool:
        """Whether a later record of the file says that what is at the offset had been synced."""
        start = self._offset + 8
        buffer = bytearray(_SCAN_BYTES if self._size() > self._offset else 0)
        while (count := min(_SCAN_BYTES, self._size() - start)) >= RECORD_BYTES:
            content = memoryview(buffer)[:count]
            if not self._read(content, start):
                return False  # a writer is cutting off a failed write
            at = buffer.find(RECORD_MAGIC)
            while 0 <= at <= count - RECORD_BYTES:
                found = content[at : at + RECORD_BYTES]
                header = unpack_record_header(found, self._header.seed) if at % 8 == 0 else None
                if header is not None and header.synced > self._offset:
                    return True
                at = buffer.find(RECORD_MAGIC, at + 1)
            start += (count - RECORD_BYTES) // 8 * 8 + 8
        return False

    def _has_next_file(self) -> bool:
        """Whether there is a next file, and not only one whose creation was interrupted."""
        try:
            descriptor, header = _open_file(self._folder, self._number + 1, read_only=self._is_read_only)
        except FileNotFoundError:
            return False
        os.close(descriptor)
        return header is not None

    def _continue_with_next_file(self) -> None:
        descriptor, header = _open_file(self._folder, self._number + 1, read_only=self._is_read_only)
        assert header is not None
        self._switch_to(descriptor, header)
        # Records that a part has already need not be there: without syncs, a power loss may have taken them.
        if not self._next_sequence <= header.first_sequence <= max(self._next_sequence, self._applied + 1):
            raise _gap(self._folder, self._number, self._next_sequence, header.first_sequence)
        self._next_sequence = header.first_sequence

    def _switch_to(self, descriptor: int, header: FileHeader) -> None:
        os.close(self._descriptor)
        self._descriptor, self._header = descriptor, header
        self._number += 1
        self._offset = self._synced = FILE_BYTES

    def _read(self, content: memoryview, offset: int) -> bool:
        try:
            return read_at(self._descriptor, content, offset)
        except OSError as error:
            raise unreadable(self._path, error) from error

    def _size(self) -> int:
        return os.fstat(self._descriptor).st_size

    @property
    def _path(self) -> Path:
        return self._folder / _name(self._number)

    def _damage(self, what: str) -> Exception:
        return damaged_collection(f"'{_name(self._number)}' has a {what}, at offset {self._offset:,}", self._folder)

    # --- writing -----------------------------------------------------------------------------------------------------

    def append(self, kind: int, pieces: Sequence[Buffer]) -> int:
        """Write a record, whole or not at all, and return its sequence. It is safe on disk after the next `sync`.

        Raises
        ------
        InputError
            If the record is too large.
        WriteError
            If it could not be written. What was there before is untouched, and the log can still be used.
        WriterStoppedError
            If what is on disk is unknown now: the log refuses everything from then on.
        """
        self._prepare_to_write()
        size = body_bytes(pieces)
        if size > MAX_RECORD_BYTES:
            raise InputError(
                expected=f"a batch that takes at most {MAX_RECORD_BYTES:,} bytes",
                got=f"{size:,} bytes",
                hint="split it into smaller batches",
            )
        assert len(pieces) <= MAX_PIECES
        buffers = pack_record(kind, pieces, sequence=self._next_sequence, synced=self._synced, seed=self._header.seed)
        try:
            write_at(self._descriptor, buffers, self._offset)
        except BaseException as error:
            self._undo(error)
            raise
        self._last_offset = self._offset
        self._offset += sum(len(buffer) for buffer in buffers)
        self._next_sequence += 1
        return self._next_sequence - 1

    def take_back(self) -> None:
        """Cut off the record that the last call wrote: what it says did not happen after all.

        Raises
        ------
        WriterStoppedError
            If that failed: the log refuses everything from then on.
        """
        self._check_not_stopped()
        assert self._last_offset < self._offset, "only the last record, and only once"
        self._offset = self._last_offset
        self._next_sequence -= 1
        self._cut("a record could not be taken back")

    def sync(self) -> None:
        """Make all records safe on disk.

        Raises
        ------
        WriterStoppedError
            If that failed: the log refuses everything from then on.
        """
        self._prepare_to_write()
        if self._synced < self._offset:
            with self._stopping("could not be synced"):
                sync_data(self._descriptor)
            self._synced = self._offset

    def rotate(self) -> int:
        """Sync the file, start the next one unless it is new, and return the number of the one to write to.

        Raises
        ------
        WriteError
            If the new file could not be written; the log goes on with the old one.
        WriterStoppedError
            If what is on disk is unknown now: the log refuses everything from then on.
        """
        self.sync()
        if self._offset == FILE_BYTES:
            return self._number  # nothing was written to it since it was started
        try:
            descriptor, header = _create_file(self._folder, self._number + 1, self._next_sequence)
        except WriterStoppedError as error:
            self._stopped = str(error)
            raise
        self._switch_to(descriptor, header)
        return self._number

    def remove_before(self, number: int) -> None:
        """Remove the files before this number, once no manifest needs them. What cannot be removed stays for later."""
        for found in _numbers(self._folder):
            if found < min(number, self._number):
                with contextlib.suppress(OSError):
                    (self._folder / _name(found)).unlink(missing_ok=True)

    def _prepare_to_write(self) -> None:
        assert not self._is_read_only, "the log was opened to be read"
        self._check_not_stopped()
        if not self._is_at_end:
            for _ in self.records():
                pass

    def _check_not_stopped(self) -> None:
        if self._stopped:
            raise WriterStoppedError(
                f"the collection '{self._folder}' accepts no more changes: {self._stopped}",
                hint="open it again to continue",
            )

    def _start_writing(self) -> None:
        """Get the files ready for the first record: cut off a torn tail, and sync what a crash may have left unsynced.

        Records that were replayed count from now on. They must not get lost after others were built on them.
        """
        if self._is_at_end:
            return
        self._check_not_stopped()
        tail = self._size() - self._offset
        if tail:
            _LOG.warning(
                "the last %s bytes of '%s' are no whole record, as after a crash; they are cut off",
                f"{tail:,}",
                self._path,
            )
        with self._stopping("could not be opened to write"):
            if tail:
                os.ftruncate(self._descriptor, self._offset)
            (self._folder / _name(self._number + 1)).unlink(missing_ok=True)  # what an interrupted `rotate` left
            sync_file(self._descriptor)
            sync_folder(self._folder)
        self._synced = self._offset
        self._is_at_end = True
        if self._next_sequence <= self._applied:
            # A power loss took records that a part has already. Sequences have no gaps inside a file.
            self._next_sequence = self._applied + 1
            self.rotate()

    def _undo(self, error: BaseException) -> None:
        """Cut off what a failed write left. Raise WriteError for an error of the system."""
        self._cut(f"a failed write ({_reason(error)}) could not be undone")
        if isinstance(error, OSError):
            raise _write_error(self._path, error) from error

    def _cut(self, otherwise: str) -> None:
        """End the file behind the last record that counts; `otherwise` is what is wrong if that fails."""
        with self._stopping(otherwise):
            os.ftruncate(self._descriptor, self._offset)
            sync_data(self._descriptor)
        self._synced = self._offset

    @contextlib.contextmanager
    def _stopping(self, what: str) -> Iterator[None]:
        """Stop the log if the system fails inside the context."""
        try:
            yield
        except OSError as error:
            self._stopped = f"'{_name(self._number)}' {what} ({_reason(error)})"
            raise WriterStoppedError(
                f"the collection '{self._folder}' accepts no more changes: {self._stopped}",
                hint="open it again to continue",
            ) from error


# --- files -----------------------------------------------------------------------------------------------------------


def _name(number: int) -> str:
    return f"log.{number}"


def _numbers(folder: Path) -> list[int]:
    """Return the numbers of the files in a folder that have the name of a file of a log."""
    return sorted(int(match[1]) for entry in folder.iterdir() if (match := LOG_NAME.fullmatch(entry.name)))


def _check_numbers(folder: Path, first: int) -> None:
    """Raise FormatError if a file is missing between others."""
    for _ in range(2):  # once more: while another process adds files, a listing may have a later one only
        numbers = [number for number in _numbers(folder) if number >= first]
        missing = [number for number in range(first, first + len(numbers)) if number not in numbers]
        if not missing or missing[0] == first:
            return
    raise damaged_collection(f"'{_name(missing[0])}' is missing", folder)


def _create_file(folder: Path, number: int, first_sequence: int) -> tuple[int, FileHeader]:
    """Create a file with a header and sync it; in the place of a file of that name, which an interruption left."""
    path = folder / _name(number)
    header = new_file_header(number, first_sequence)
    descriptor = -1
    try:
        descriptor = create_again(path)
        write_at(descriptor, [pack_file_header(header)], 0)
    except BaseException as error:
        _close_and_remove(descriptor, path)
        if isinstance(error, OSError):
            raise _write_error(path, error) from error
        raise
    try:
        sync_file(descriptor)
        sync_folder(folder)
    except BaseException as error:
        _close_and_remove(descriptor, path)
        if isinstance(error, OSError):
            msg = f"the collection '{folder}' accepts no more changes: '{path.name}' could not be synced"
            raise WriterStoppedError(f"{msg} ({_reason(error)})", hint="open it again to continue") from error
        raise
    return descriptor, header


def _close_and_remove(descriptor: int, path: Path) -> None:
    if descriptor >= 0:
        os.close(descriptor)
        with contextlib.suppress(OSError):  # the first error is the one to report
            path.unlink()


def _open_file(folder: Path, number: int, *, read_only: bool) -> tuple[int, FileHeader | None]:
    """Open a file of a log and read its header, which is None if the creation of the file was interrupted.

    Raises
    ------
    FileNotFoundError
        If it is not there.
    FormatError
        If it cannot be read.
    WriteError
        If it cannot be written.
    """
    path = folder / _name(number)
    try:
        descriptor = open_existing(path, update=not read_only)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise unreadable(path, error) if read_only else _write_error(path, error) from error
    try:
        return descriptor, _read_file_header(descriptor, folder, number)
    except BaseException as error:
        os.close(descriptor)
        if isinstance(error, OSError):
            raise unreadable(path, error) from error
        raise


def _read_file_header(descriptor: int, folder: Path, number: int) -> FileHeader | None:
    """Return the header of a file; None for the last file, if a crash came before its header was on disk.

    A file gets records only after its header was synced: if it has more than a header, the header has to be good.
    """
    data = bytearray(FILE_BYTES)
    is_whole = read_at(descriptor, memoryview(data), 0)
    header = unpack_file_header(data) if is_whole else None
    if header is None:
        is_last = not (folder / _name(number + 1)).exists()
        if is_last and os.fstat(descriptor).st_size <= FILE_BYTES:
            return None
        raise damaged_collection(f"'{_name(number)}' has a bad header", folder)
    if header.version != VERSION:
        raise FormatError(
            where=f"'{folder / _name(number)}'",
            expected=f"version {VERSION} of the log, which this segmax reads",
            got=header.version,
            hint=NEWER_HINT,
        )
    if header.number != number or not 1 <= header.first_sequence < 2**63:
        raise damaged_collection(f"'{_name(number)}' has the header of another file", folder)
    return header


# --- errors ----------------------------------------------------------------------------------------------------------


def _reason(error: BaseException) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__


def _write_error(path: Path, error: OSError) -> WriteError:
    msg = f"could not write '{path}' ({_reason(error)}): nothing was changed"
    return WriteError(msg, hint="make room or choose another path")


def _gap(folder: Path, number: int, expected: int, got: int) -> Exception:
    what = f"'{_name(number)}' starts with record {got:,}, and record {expected:,} is missing"
    return damaged_collection(what if got > expected else f"'{_name(number)}' repeats record {got:,}", folder)
