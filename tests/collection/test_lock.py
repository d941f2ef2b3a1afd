"""The lock: one writer at a time, released however the writer ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from conftest import refused
from segmax.base.errors import CollectionLockedError, WriteError
from segmax.collection.lock import LOCK_NAME, WriterLock

HOLDER = """
import sys, time
from segmax.collection.lock import WriterLock
lock = WriterLock(sys.argv[1])
print("held", flush=True)
time.sleep(60)
"""


def test_a_second_writer_learns_who_the_first_is(tmp_path: Path) -> None:
    """Another object of the same process is refused; the message has process, program and time, and what to do."""
    with WriterLock(tmp_path) as lock:
        assert lock.is_held
        about = json.loads((tmp_path / LOCK_NAME).read_text())
        expected = rf"written to by process {os.getpid()} \(this process\) on '.*' \('.*'\) since {about['since'][:19]}"
        with refused(CollectionLockedError, message=expected, hint="{read_only=True}"):
            WriterLock(tmp_path)
    assert not lock.is_held
    with WriterLock(tmp_path):
        pass
    assert (tmp_path / LOCK_NAME).read_bytes() == b""


def test_threads_keep_each_other_out(tmp_path: Path) -> None:
    """The lock belongs to an object, not to a process."""
    outcomes = []

    def attempt() -> None:
        try:
            outcomes.append(WriterLock(tmp_path))
        except CollectionLockedError as error:
            outcomes.append(error)

    threads = [threading.Thread(target=attempt) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(isinstance(outcome, WriterLock) for outcome in outcomes) == 1


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM])
def test_the_end_of_a_process_releases_its_lock(tmp_path: Path, by: signal.Signals) -> None:
    """A killed writer leaves a file that says nothing any more; the next writer need not clean up."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with refused(CollectionLockedError, message=rf"process {process.pid} on '.*' \('-c'\)"):
            WriterLock(tmp_path)
        process.send_signal(by)
        process.wait()
    with WriterLock(tmp_path) as lock:
        assert lock.is_held


def test_a_forked_process_does_not_keep_the_lock(tmp_path: Path) -> None:
    """The child of a fork does not hold the lock, nor keep it from others after the holder is done."""
    lock = WriterLock(tmp_path)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, b"1" if lock.is_held else b"0")
        signal.pause()
    try:
        assert os.read(reading, 1) == b"0"
        with pytest.raises(CollectionLockedError):
            WriterLock(tmp_path)
        lock.release()
        WriterLock(tmp_path).release()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reading)
        os.close(writing)


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"pid": 1}', b"\xff" * 9999, b"[" * 4000])
def test_the_file_may_hold_anything(tmp_path: Path, content: bytes) -> None:
    """What is not what segmax writes is not shown."""
    with WriterLock(tmp_path):
        (tmp_path / LOCK_NAME).write_bytes(content)
        with refused(CollectionLockedError, message="written to by another process;"):
            WriterLock(tmp_path)


def test_control_characters_are_shown_escaped(tmp_path: Path) -> None:
    """The name of a program may be anything."""
    with WriterLock(tmp_path):
        about = {"pid": 1, "host": "h", "program": "\x1b[2J", "since": "x" * 999}
        (tmp_path / LOCK_NAME).write_text(json.dumps(about))
        with refused(CollectionLockedError, message=r"\('\\x1b\[2J'\) since x{200};"):
            WriterLock(tmp_path)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    """A link in the place of the lock does not make segmax write elsewhere."""
    (tmp_path / LOCK_NAME).symlink_to(tmp_path / "elsewhere")
    with refused(WriteError, hint="{read_only=True}"):
        WriterLock(tmp_path)
    assert not (tmp_path / "elsewhere").exists()
