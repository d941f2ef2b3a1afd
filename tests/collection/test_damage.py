"""A collection whose log or manifest is damaged: opening it gives what was there, or says what is wrong."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from crash.collection_history import CollectionHistory

from segmax.errors import FormatError

#: A history that ends with parts on disk and several records in the log.
STEPS = CollectionHistory.steps[:13]


def damages(size: int, count: int | None) -> Iterator[tuple[int, int | None]]:
    """Places in a file, each with the bits to flip there, or None to cut the file there."""
    draw = random.Random(5)
    places = range(size) if count is None else sorted(draw.sample(range(size), min(count, size)))
    for at in places:
        yield at, None
        yield at, 1 << draw.randrange(8)
        yield at, 0xFF


@pytest.mark.parametrize(
    "count", [8, pytest.param(25, marks=pytest.mark.deep), pytest.param(None, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("pattern", ["log.*", "manifest.json"])
def test_damage_gives_an_error_or_the_truth(tmp_path: Path, pattern: str, count: int | None) -> None:
    """Any byte of log or manifest flipped or cut: a state that the collection had, or FormatError; never another."""
    history = CollectionHistory()
    states, handle = [], None
    for step in STEPS:
        handle = history.do(handle, tmp_path, step)
        states.append(history.read(handle))
    history.close(handle)
    (path,) = (tmp_path / "docs").glob(pattern)
    whole = path.read_bytes()
    outcomes = set()
    for at, bits in damages(len(whole), count):
        other = tmp_path / "damaged"
        shutil.copytree(tmp_path / "docs", other / "docs")
        changed = whole[:at] if bits is None else whole[:at] + bytes([whole[at] ^ bits]) + whole[at + 1 :]
        (other / "docs" / path.name).write_bytes(changed)
        for read_only in (True, False):
            try:
                handle = history.open(other, read_only=read_only)
            except FormatError as error:
                outcomes.add("error")
                assert str(other) in str(error)  # noqa: PT017
            else:
                outcomes.add("open")
                assert history.read(handle) in states
                history.close(handle)
        shutil.rmtree(other)
    assert outcomes == ({"error"} if pattern == "manifest.json" else {"error", "open"})
