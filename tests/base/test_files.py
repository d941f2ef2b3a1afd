"""Files that segmax writes: whole or not at all, and never through a link."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import segmax
from conftest import refused
from segmax.base.errors import WriteError
from segmax.base.files import create, open_for_update, open_regular, replacing
from segmax.encoders import BM25
from segmax.encoders.pooling import write_dense
from segmax.experiments.steps import Steps
from segmax.io.writing import write_whole


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    """What was there stays until the new file is complete, and no temporary file is left."""
    path = tmp_path / "notes"
    path.write_bytes(b"old")
    with replacing(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["notes"]


@pytest.mark.parametrize("temporary", [None, "notes.new"])
def test_a_failure_changes_nothing(tmp_path: Path, temporary: str | None) -> None:
    """An exception while writing leaves the old file and nothing else."""
    path = tmp_path / "notes"
    path.write_bytes(b"old")

    def fail() -> None:
        with replacing(path, None if temporary is None else tmp_path / temporary) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["notes"]


def test_permissions_follow_the_umask(tmp_path: Path) -> None:
    """New files are as readable as those of open()."""
    before = os.umask(0o027)
    try:
        with replacing(tmp_path / "notes") as file:
            file.write(b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "notes").stat().st_mode) == 0o640


def test_the_longest_name(tmp_path: Path) -> None:
    """A name of 255 bytes has room for a temporary one, also where characters take several bytes."""
    for name in ("n" * 255, "é" * 127):
        with replacing(tmp_path / name) as file:
            file.write(b"x")
        assert (tmp_path / name).read_bytes() == b"x"


def test_nothing_is_created_through_a_link(tmp_path: Path) -> None:
    """A link, even one that leads nowhere, counts as something that exists."""
    (tmp_path / "link").symlink_to(tmp_path / "victim")
    with pytest.raises(FileExistsError):
        create(tmp_path / "link")
    with pytest.raises(OSError, match="symbolic link"):
        open_for_update(tmp_path / "link")
    assert not (tmp_path / "victim").exists()


def test_a_file_is_updated_in_place(tmp_path: Path) -> None:
    """It is created if need be, and keeps its content."""
    for expected in (b"", b"x"):
        with open_for_update(tmp_path / "journal") as file:
            assert file.read() == expected
            file.write(b"x")


def not_regular(path: Path) -> dict[str, Path]:
    """One of each thing that has a name and is no regular file."""
    os.mkfifo(path / "pipe")
    (path / "folder").mkdir()
    (path / "endless").symlink_to("/dev/zero")
    return {"a pipe": path / "pipe", "Is a directory": path / "folder", "a device": path / "endless"}


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    """Pipes, folders and devices are refused at once; a link to a regular file is fine."""
    for what, path in not_regular(tmp_path).items():
        with pytest.raises(OSError, match=what) as error:
            open_regular(path)
        assert error.value.filename == str(path)
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with open_regular(tmp_path / "link") as file:
        assert file.read() == b"x"


# --- every writer ----------------------------------------------------------------------------------------------------


def write_report(path: Path) -> None:
    """A text, as runs, tables and vectors are written."""
    with write_whole(path, overwrite=True) as file:
        file.write(b"x")


def write_steps(path: Path) -> None:
    """The journal of an experiment."""
    with Steps(path).opened(progress=False) as steps:
        steps.get({"step": 1}, lambda: 2)


def write_plot(path: Path) -> None:
    """A picture."""
    pytest.importorskip("matplotlib")
    from segmax.inspection.plots import plot_summary

    index = segmax.build(sp.csr_matrix([[1, 2], [3, 0]]))
    plot_summary(segmax.inspect(index), path)


WRITERS: dict[str, Callable[[Path], object]] = {
    "report.txt": write_report,
    "dense.npy": lambda path: write_dense(path, [np.ones((2, 3), np.float32)], 2),
    "bm25.json": lambda path: BM25().save(path.parent),
    "plot.png": write_plot,
}


@pytest.mark.parametrize("name", WRITERS)
def test_writers_replace_a_link(tmp_path: Path, name: str) -> None:
    """A link where a file belongs, or under a name that is easy to guess, does not lead to another file."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    for link in (name, f"{name}.new", f"{name}.part", f".{name}.{os.getpid()}.part"):
        (tmp_path / link).symlink_to(victim)
    WRITERS[name](tmp_path / name)
    assert victim.read_bytes() == b"precious"
    assert not (tmp_path / name).is_symlink()
    assert (tmp_path / name).stat().st_size > 0


def test_the_journal_of_an_experiment_is_no_link(tmp_path: Path) -> None:
    """It is written in place, so a link is refused."""
    (tmp_path / "steps.jsonl").symlink_to(tmp_path / "victim")
    with refused(WriteError, message="symbolic link"):
        write_steps(tmp_path / "steps.jsonl")
    assert not (tmp_path / "victim").exists()


def test_writers_of_one_file_do_not_meet(tmp_path: Path) -> None:
    """Threads that replace one file at the same time each write a whole one."""
    path = tmp_path / "notes"

    def write(letter: bytes) -> None:
        for _ in range(20):
            with replacing(path) as file:
                for _ in range(10):
                    file.write(letter * 1000)

    threads = [threading.Thread(target=write, args=(letter,)) for letter in (b"a", b"b", b"c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_bytes() in {letter * 10_000 for letter in (b"a", b"b", b"c")}
    assert [entry.name for entry in tmp_path.iterdir()] == ["notes"]
