"""Files of dense vectors: complete, or not there."""

from __future__ import annotations

import resource
import signal
from pathlib import Path

import numpy as np

from conftest import refused
from segmax.base.errors import InputError, WriteError
from segmax.encoders.pooling import write_dense


def test_dense_files_have_the_promised_number_of_rows(tmp_path: Path) -> None:
    """Too few rows or too many: an error, and no file."""
    rows = np.ones((4, 3), dtype=np.float32)
    for count in (3, 5):
        with refused(InputError, where=r"dense\.npy", expected=f"^{count} dense vectors", got="4"):
            write_dense(tmp_path / "dense.npy", [rows], count)
    assert list(tmp_path.iterdir()) == []


def test_dense_vectors_on_a_full_disk(tmp_path: Path) -> None:
    """No memory map, which would kill the process; the file that was there stays."""
    rows = np.ones((4, 3), dtype=np.float32)
    write_dense(tmp_path / "dense.npy", [rows], 4)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
        with refused(WriteError, message=r"could not write .*dense\.npy"):
            write_dense(tmp_path / "dense.npy", [rows * 2] * 100, 400)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    np.testing.assert_array_equal(np.load(tmp_path / "dense.npy"), rows)
    assert [path.name for path in tmp_path.iterdir()] == ["dense.npy"]
