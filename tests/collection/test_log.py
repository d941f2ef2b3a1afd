"""The log: what is appended is there after any interruption, and damage is never mistaken for one."""

from __future__ import annotations

import errno
import logging
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from conftest import refused
from segmax.base.errors import FormatError, InputError, WriteError, WriterStoppedError
from segmax.collection import log as log_module
from segmax.collection.log import Log
from segmax.collection.log_format import FILE_BYTES, pack_record

Content = list[tuple[int, int, list[bytes]]]


def content(folder: Path, first_file: int = 1, *, applied: int = 0, read_only: bool = True) -> Content:
    """All records of a log."""
    with Log.open(folder, first_file, applied=applied, read_only=read_only) as log:
        return [(sequence, kind, [bytes(piece) for piece in pieces]) for sequence, kind, pieces in log.records()]


def write(folder: Path, count: int, *, sync_every: int = 1) -> Content:
    """A log with some records of different sizes, synced now and then."""
    written = []
    with Log.create(folder) as log:
        for number in range(1, count + 1):
            pieces = [bytes([number]) * (number * 7 % 50), b"x" * (number % 3)][: number % 3]
            assert log.append(number % 5, pieces) == number
            written.append((number, number % 5, pieces))
            if number % sync_every == 0:
                log.sync()
    return written


def boundaries(folder: Path, name: str = "log.1") -> list[int]:
    """The offsets at which a whole number of records ends."""
    with Log.open(folder, int(name.split(".")[1]), applied=2**62, read_only=True) as log:
        found = [log.file_bytes]
        while log._record_here() is not None:
            found.append(log.file_bytes)
    return found


@pytest.fixture
def no_warning(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """No torn tail was cut off."""
    yield
    assert caplog.records == []


# --- writing and reading ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_warning")
def test_records_come_back(tmp_path: Path) -> None:
    """Kinds, sequences and pieces come back in order, when reading and when opening to write."""
    written = write(tmp_path, 20)
    assert content(tmp_path) == written
    assert content(tmp_path, read_only=False) == written
    assert content(tmp_path, applied=17) == written[17:]


def test_pieces_are_aligned_arrays(tmp_path: Path) -> None:
    """Arrays of every type and length come back as views, aligned for their type."""
    arrays = [np.arange(n, dtype=kind) for n in (0, 1, 3, 1000) for kind in (np.uint8, np.uint32, np.float64)]
    with Log.create(tmp_path) as log:
        log.append(1, arrays)
    with Log.open(tmp_path, 1) as log:
        ((_, _, pieces),) = log.records()
    for piece, array in zip(pieces, arrays, strict=True):
        view = np.frombuffer(piece, array.dtype)
        assert view.flags.aligned
        assert view.tolist() == array.tolist()


def test_appending_goes_on_after_reopening(tmp_path: Path) -> None:
    """A log that is opened to write replays by itself, and continues the sequences."""
    written = write(tmp_path, 3)
    with Log.open(tmp_path, 1) as log:
        assert log.append(9, [b"four"]) == 4
        assert log.last_sequence == 4
    assert content(tmp_path) == [*written, (4, 9, [b"four"])]


def test_a_reader_follows_a_writer(tmp_path: Path) -> None:
    """`records` of a reader continues where it stopped, across files."""
    with Log.create(tmp_path) as writer, Log.open(tmp_path, 1, read_only=True) as reader:
        found = []
        for number in range(10):
            writer.append(number, [])
            if number % 4 == 3:
                assert writer.rotate() == 2 + number // 4
            found += [kind for _, kind, _ in reader.records()]
    assert found == list(range(10))


def test_files_rotate_and_go(tmp_path: Path) -> None:
    """Records continue in the next file; files that are no longer needed can be removed."""
    with Log.create(tmp_path, 5, first_sequence=11) as log:
        log.append(1, [b"a"])
        assert (log.rotate(), log.file_number) == (6, 6)
        log.append(2, [b"b"])
        log.rotate()
        log.append(3, [b"c"])
        assert [kind for _, kind, _ in content(tmp_path, 5, applied=10)] == [1, 2, 3]
        log.remove_before(6)
        assert [(number, kind) for number, kind, _ in content(tmp_path, 6, applied=11)] == [(12, 2), (13, 3)]
        log.remove_before(99)
    assert [path.name for path in tmp_path.iterdir()] == ["log.7"]


def test_a_record_has_a_largest_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that is too large is refused before anything is written."""
    monkeypatch.setattr(log_module, "MAX_RECORD_BYTES", 100)
    with Log.create(tmp_path) as log:
        with refused(InputError, expected="at most 100 bytes", got="1,016 bytes", hint="smaller batches"):
            log.append(1, [bytes(1000), b""])
        assert log.append(1, [bytes(80)]) == 1


# --- interruptions ---------------------------------------------------------------------------------------------------


def test_a_log_cut_anywhere_is_a_prefix(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Cut anywhere behind its header, a log has exactly the records that are whole, and can be continued."""
    written = write(tmp_path, 6)
    whole = (tmp_path / "log.1").read_bytes()
    ends = boundaries(tmp_path)
    other = tmp_path / "cut"
    other.mkdir()
    near_ends = {end + more for end in ends for more in (-1, 0, 1)}
    for size in sorted({*range(FILE_BYTES, len(whole), 5), *near_ends} & {*range(FILE_BYTES, len(whole))}):
        (other / "log.1").write_bytes(whole[:size])
        expected = written[: sum(end <= size for end in ends) - 1]
        caplog.clear()
        assert content(other) == expected
        assert caplog.records == []
        with Log.open(other, 1) as log:
            assert log.append(8, [b"next"]) == len(expected) + 1
        torn = size - max(end for end in ends if end <= size)
        assert [f"{torn} bytes" in record.getMessage() for record in caplog.records] == [True] * (torn > 0)
        assert content(other) == [*expected, (len(expected) + 1, 8, [b"next"])]


@pytest.mark.parametrize(
    "tail", [bytes(5), bytes(4096), os.urandom(333), b"SXRC" * 100], ids=["5", "zeros", "random", "magic"]
)
def test_garbage_at_the_end_is_a_torn_tail(tmp_path: Path, tail: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """Zeros or garbage after the last record, as a power loss leaves them, are cut off with a warning."""
    written = write(tmp_path, 3)
    with (tmp_path / "log.1").open("ab") as file:
        file.write(tail)
    assert content(tmp_path) == written
    assert content(tmp_path, read_only=False) == written
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert f"the last {len(tail):,} bytes of '{tmp_path / 'log.1'}'" in caplog.text
    assert content(tmp_path) == written
    assert (tmp_path / "log.1").stat().st_size == boundaries(tmp_path)[-1]


def spoil(path: Path, offset: int, data: bytes) -> None:
    """Overwrite a part of a file."""
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def test_records_that_were_never_synced_may_be_reordered(tmp_path: Path) -> None:
    """Without a sync, a bad record and the good ones behind it are a torn tail: a power loss wrote the later ones."""
    written = write(tmp_path, 8, sync_every=4)
    ends = boundaries(tmp_path)
    spoil(tmp_path / "log.1", ends[5], bytes(ends[6] - ends[5]))
    assert content(tmp_path) == written[:5]
    assert content(tmp_path, read_only=False) == written[:5]
    assert content(tmp_path) == written[:5]


def test_a_record_that_was_synced_is_damaged(tmp_path: Path) -> None:
    """If a later record says that a bad one was on disk once, opening fails and names the place."""
    write(tmp_path, 8, sync_every=4)
    ends = boundaries(tmp_path)
    spoil(tmp_path / "log.1", ends[2], bytes(ends[3] - ends[2]))
    for read_only in (True, False):
        with refused(
            FormatError, message=f"is damaged: 'log.1' has a bad record.* at offset {ends[2]}", hint="restore"
        ):
            content(tmp_path, read_only=read_only)
    assert (tmp_path / "log.1").stat().st_size == ends[-1]  # nothing was cut off


def test_a_bad_record_before_the_last_file_is_damage(tmp_path: Path) -> None:
    """`rotate` syncs: what is in a file that is not the last one was on disk."""
    with Log.create(tmp_path) as log:
        log.append(1, [b"first"])
        log.rotate()
    whole = (tmp_path / "log.1").read_bytes()
    for changed in (whole[:-8], whole[:-1] + b"!", whole + b"?"):
        (tmp_path / "log.1").write_bytes(changed)
        with refused(FormatError, message="'log.1' has a bad record"):
            content(tmp_path)
    (tmp_path / "log.1").write_bytes(whole[:FILE_BYTES])
    with refused(FormatError, message=r"'log\.2' starts with record 2, and record 1 is missing"):
        content(tmp_path)


def test_missing_files(tmp_path: Path) -> None:
    """A file that is missing between others is damage; without the first one there is no log."""
    with Log.create(tmp_path) as log:
        for _ in range(3):
            log.append(1, [])
            log.rotate()
    (tmp_path / "log.3").unlink()
    with refused(FormatError, message=r"'log\.3' is missing"):
        content(tmp_path)
    with pytest.raises(FileNotFoundError):
        content(tmp_path, 3)
    with refused(FormatError, message="record 3 is missing"):
        content(tmp_path, 4, applied=2)
    assert content(tmp_path, 4, applied=3) == []


@pytest.mark.parametrize("leftover", [b"", b"SEGM", bytes(FILE_BYTES)])
def test_an_interrupted_rotation_leaves_no_trace(tmp_path: Path, leftover: bytes) -> None:
    """A next file that has no header yet is ignored, then removed; only the last file may be so."""
    written = write(tmp_path, 2)
    (tmp_path / "log.2").write_bytes(leftover)
    assert content(tmp_path) == written
    with Log.open(tmp_path, 1) as log:
        log.append(1, [b"3"])
        assert [path.name for path in tmp_path.iterdir()] == ["log.1"]
        log.rotate()
        log.append(1, [b"4"])
    assert [number for number, _, _ in content(tmp_path)] == [1, 2, 3, 4]
    (tmp_path / "log.3").write_bytes(leftover)
    with refused(FormatError, message=r"'log\.3' has no header"):
        content(tmp_path, 3, applied=4)
    (tmp_path / "log.2").write_bytes(leftover)
    with refused(FormatError, message=r"'log\.2' has a bad header"):
        content(tmp_path)


def test_records_in_parts_may_be_lost(tmp_path: Path) -> None:
    """Without syncs, a log may end before what the manifest has; new records get new sequences."""
    write(tmp_path, 3)
    with Log.open(tmp_path, 1, applied=7) as log:
        assert list(log.records()) == []
        assert log.append(1, [b"8"]) == 8
    assert content(tmp_path, applied=7) == [(8, 1, [b"8"])]
    with refused(FormatError, message="record 4 is missing"):
        content(tmp_path, applied=2)


def test_another_file_is_not_a_file_of_this_log(tmp_path: Path) -> None:
    """A renamed file, a file of a newer version, links and folders are refused."""
    written = write(tmp_path, 2)
    shutil.copy(tmp_path / "log.1", tmp_path / "log.2")
    with refused(FormatError, message="header of another file"):
        content(tmp_path)
    (tmp_path / "log.2").unlink()
    (tmp_path / "log.2").symlink_to("log.1")
    for read_only, kind in ((True, FormatError), (False, WriteError)):
        with pytest.raises(kind):
            content(tmp_path, read_only=read_only)
    (tmp_path / "log.2").unlink()
    assert content(tmp_path) == written


def test_records_of_other_files_are_garbage(tmp_path: Path) -> None:
    """A good record of another log, at the right place and with the right sequence, is not taken for one of this."""
    written = write(tmp_path, 2)
    buffers = pack_record(1, [b"other"], sequence=3, synced=0, seed=12345)
    with (tmp_path / "log.1").open("ab") as file:
        file.write(b"".join(buffers))
    assert content(tmp_path) == written


def test_hostile_records(tmp_path: Path) -> None:
    """Records with good checksums and impossible content are damage, and no length makes segmax allocate memory."""
    with Log.create(tmp_path) as log:
        seed = log._header.seed
    whole = (tmp_path / "log.1").read_bytes()

    def opened(change: Callable[[list[bytes]], list[bytes]] = lambda parts: parts, **options: int) -> Content:
        settings = {"sequence": 1, "synced": 0, "seed": seed, **options}
        parts = [bytes(part) for part in pack_record(1, [b"piece"], **settings)]
        (tmp_path / "log.1").write_bytes(whole + b"".join(change(parts)))
        return content(tmp_path)

    assert opened() == [(1, 1, [b"piece"])]
    assert opened(lambda parts: [*parts[:-1], b"abc"]) == []
    with refused(FormatError, message="record 5 where record 1 is expected, at offset 48"):
        opened(sequence=5)
    with refused(FormatError, message="contradicts itself"):
        opened(synced=1000)


# --- failing writes --------------------------------------------------------------------------------------------------


class FailingCalls:
    """Makes calls of a function of `os` fail, each given by its number, and counts them all."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str, failing: set[int], code: int, part: int = 0) -> None:
        self.count = 0
        real = getattr(os, name)

        def call(*args: object) -> object:
            self.count += 1
            if self.count not in failing:
                return real(*args)
            if part and name == "pwritev":
                descriptor, buffers, offset = args
                os.pwrite(descriptor, b"".join(buffers)[:part], offset)
            raise OSError(code, os.strerror(code))

        monkeypatch.setattr(os, name, call)


@pytest.mark.parametrize("part", [0, 10, 50])
def test_a_failed_write_is_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: int) -> None:
    """After ENOSPC, whatever was written of the record is gone, and the log goes on once there is room."""
    with Log.create(tmp_path) as log:
        log.append(1, [b"one"])
        FailingCalls(monkeypatch, "pwritev", {1, 2}, errno.ENOSPC, part)
        for _ in range(2):
            with refused(WriteError, message="No space left on device.*nothing was changed") as info:
                log.append(2, [b"two" * 20])
            assert not isinstance(info.value, WriterStoppedError)
            assert content(tmp_path) == [(1, 1, [b"one"])]
            assert (tmp_path / "log.1").stat().st_size == log.file_bytes
        assert log.append(3, [b"three"]) == 2
        log.sync()
    assert content(tmp_path) == [(1, 1, [b"one"]), (2, 3, [b"three"])]


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that writes a few bytes at a time still writes the whole record."""
    monkeypatch.setattr(os, "pwritev", lambda fd, buffers, at, real=os.pwrite: real(fd, b"".join(buffers)[:7], at))
    written = write(tmp_path, 5)
    assert content(tmp_path) == written


def test_an_interrupt_leaves_no_half_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C between two short writes leaves the log as it was."""
    with Log.create(tmp_path) as log:

        def interrupted(descriptor: int, buffers: list[bytes], offset: int) -> int:
            os.pwrite(descriptor, b"".join(buffers)[:20], offset)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(os, "pwritev", interrupted)
            with pytest.raises(KeyboardInterrupt):
                log.append(1, [b"lost"])
        assert (tmp_path / "log.1").stat().st_size == FILE_BYTES
        assert log.append(1, [b"kept"]) == 1
    assert content(tmp_path) == [(1, 1, [b"kept"])]


@pytest.mark.parametrize("call", ["ftruncate", "fdatasync"])
def test_a_write_that_cannot_be_undone_stops_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """If cutting off a failed write fails too, the log refuses to write and stays readable."""
    with Log.create(tmp_path) as log:
        log.append(1, [b"one"])
        FailingCalls(monkeypatch, "pwritev", {1}, errno.EIO, 60)
        FailingCalls(monkeypatch, call, {1}, errno.EIO)
        with refused(WriterStoppedError, message=r"'log\.1' a failed write \(Input/output error\) could not be undone"):
            log.append(2, [b"two" * 20])
        for action in (lambda: log.append(2, []), log.sync, log.rotate):
            with refused(WriterStoppedError, message="accepts no more changes", hint="open it again"):
                action()
    assert content(tmp_path) == [(1, 1, [b"one"])]


def test_a_failed_sync_stops_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failed sync nobody knows what is on disk: a second one must not pretend that all is well."""
    with Log.create(tmp_path) as log:
        log.append(1, [b"one"])
        FailingCalls(monkeypatch, "fdatasync", {1}, errno.EIO)
        with refused(WriterStoppedError, message=r"'log\.1' could not be synced \(Input/output error\)"):
            log.sync()
        for action in (lambda: log.append(2, []), log.sync, log.rotate):
            with refused(WriterStoppedError, message="could not be synced"):
                action()
    assert content(tmp_path, read_only=False) == [(1, 1, [b"one"])]


@pytest.mark.parametrize(("call", "kind"), [("pwritev", WriteError), ("fsync", WriterStoppedError)])
def test_a_rotation_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, kind: type) -> None:
    """Without room for a new file the log goes on with the old one; if the new one cannot be synced, it stops."""
    with Log.create(tmp_path) as log:
        log.append(1, [b"one"])
        FailingCalls(monkeypatch, call, {1}, errno.ENOSPC)
        with pytest.raises(kind):
            log.rotate()
        assert [path.name for path in tmp_path.iterdir()] == ["log.1"]
        if kind is WriteError:
            assert log.append(2, [b"two"]) == 2
            assert log.rotate() == 2
        else:
            with pytest.raises(kind):
                log.append(2, [b"two"])


# --- damage ----------------------------------------------------------------------------------------------------------


def check_damaged(folder: Path, name: str, data: bytes, written: Content) -> None:
    """With other bytes in a file, opening gives the beginning of what was written, or a clear error."""
    (folder / name).write_bytes(data)
    for read_only in (True, False):
        try:
            found = content(folder, read_only=read_only)
        except FormatError as error:
            assert str(folder) in str(error)  # noqa: PT017
        else:
            assert found == written[: len(found)]


def damages(whole: bytes, every: int) -> Iterator[bytes]:
    """Files with one byte or bit changed, or with the end missing."""
    draw = random.Random(3)
    for at in range(0, len(whole), every):
        for value in {whole[at] ^ (1 << draw.randrange(8)), 0, 255} - {whole[at]}:
            yield whole[:at] + bytes([value]) + whole[at + 1 :]
        yield whole[:at]


def check_every_damage(folder: Path, every: int) -> None:
    """Damage each of two files, at every so many bytes."""
    folder.mkdir()
    written = write(folder, 6, sync_every=2)
    with Log.open(folder, 1) as log:
        log.rotate()
        for number in range(7, 12):
            log.append(number, [bytes([number]) * 9])
            written.append((number, number, [bytes([number]) * 9]))
    files = {name: (folder / name).read_bytes() for name in ("log.1", "log.2")}
    for name, whole in files.items():
        for data in damages(whole, every):
            for other, content_ in files.items():
                (folder / other).write_bytes(content_)
            check_damaged(folder, name, data, written)


def test_damage_is_found(tmp_path: Path) -> None:
    """Some of the bytes of a log flipped or cut: a prefix or a clear error, never other records."""
    check_every_damage(tmp_path / "log", every=13)


@pytest.mark.slow
def test_every_damage_is_found(tmp_path: Path) -> None:
    """Every byte of a log flipped or cut: a prefix or a clear error, never other records."""
    check_every_damage(tmp_path / "log", every=1)
