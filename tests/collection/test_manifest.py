"""The manifest and the small files beside it: replaced whole, read as hostile input, and cleaned up with care."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import refused
from segmax.base.errors import FormatError, IndexNotFoundError, WriteError, WriterStoppedError
from segmax.collection import manifest as manifest_module
from segmax.collection.array_file import read_arrays, write_arrays
from segmax.collection.manifest import (
    MANIFEST_NAME,
    Manifest,
    Part,
    claims_to_be_a_collection,
    files_of,
    holds_leftovers_only,
    manifest_bytes,
    parse_manifest,
    read_manifest,
    remove_unnamed,
    write_manifest,
)
from segmax.storage.checked_json import checked_bytes

FULL = Manifest(
    generation=7,
    parts=(
        Part(name="part.1", num_docs=10, num_alive=8, deleted="deleted.4.bin", num_bytes=1234, extra={"ceiling": 2.5}),
        Part(name="part.3", num_docs=5, num_alive=5),
    ),
    lattice="lattice.2.bin",
    next_number=15,
    first_log=3,
    applied=99,
    config={"bits": 8},
    encoder={"kind": "bm25", "name": "é"},
    calibration=({"k": 10},),
    schema={"year": "int"},
    statistics="statistics.2.bin",
    extra={"anything": [1, None, True]},
)


def entries(manifest: Manifest = FULL) -> dict[str, Any]:
    """What is in a manifest, to be changed."""
    loaded: dict[str, Any] = json.loads(manifest_bytes(manifest))
    return loaded


# --- reading and writing ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("manifest", [Manifest(), FULL])
def test_a_manifest_comes_back(tmp_path: Path, manifest: Manifest) -> None:
    """What is written is read, and nothing else is left in the folder."""
    write_manifest(tmp_path, Manifest(generation=6))
    write_manifest(tmp_path, manifest)
    assert read_manifest(tmp_path) == manifest
    assert claims_to_be_a_collection(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [MANIFEST_NAME]


def test_there_is_no_collection(tmp_path: Path) -> None:
    """A missing path, an empty folder, and a manifest of something else are told apart."""
    with refused(IndexNotFoundError, message="there is no collection at"):
        read_manifest(tmp_path / "no")
    with refused(FormatError, expected="a segmax collection", got="without manifest.json"):
        read_manifest(tmp_path)
    for other in (b"", b"{}", b"[]", b'{"format": "segmax", "version": 1}', b"\xff", b"[" * 100_000, b"1" * 5000):
        (tmp_path / MANIFEST_NAME).write_bytes(other)
        assert not claims_to_be_a_collection(tmp_path)
        with refused(FormatError, expected="a segmax collection", got="of something else, or a damaged one"):
            read_manifest(tmp_path)


def test_a_newer_version_is_named(tmp_path: Path) -> None:
    """The hint is to upgrade."""
    (tmp_path / MANIFEST_NAME).write_bytes(checked_bytes({**entries(), "version": 2}))
    with refused(FormatError, expected="version 1", got="2", hint="pip install -U segmax"):
        read_manifest(tmp_path)
    assert claims_to_be_a_collection(tmp_path)


def test_a_huge_manifest_is_not_read(tmp_path: Path) -> None:
    """Its size is bounded before it is parsed."""
    with (tmp_path / MANIFEST_NAME).open("wb") as file:
        file.truncate(2**40)
    with refused(FormatError, got="more than 16,777,216 bytes"):
        read_manifest(tmp_path)
    with refused(WriteError, message="could not be read again"):
        write_manifest(tmp_path, Manifest(extra={"x": "y" * 2**24}))


def part(**changes: object) -> Callable[[dict[str, Any]], None]:
    """Change the first part."""
    return lambda found: found["parts"][0].update(changes)


def top(**changes: object) -> Callable[[dict[str, Any]], None]:
    """Change the manifest itself."""
    return lambda found: found.update(changes)


WRONG: list[tuple[Callable[[dict[str, Any]], object], str]] = [
    (top(generation=0), "generation to be a whole number"),
    (top(generation=True), "generation to be a whole number"),
    (top(next_number=2**63), "next_number to be"),
    (top(next_number=1.0), "next_number to be"),
    (top(applied=-1), "applied to be"),
    (top(first_log=0), "first_log to be"),
    (top(first_log=10**18), "first_log to be"),
    (top(config=None), "config to be an object"),
    (top(calibration={}), "calibration to be a list"),
    (top(lattice="deleted.1.bin"), "lattice to be null or the name of a file such as 'lattice.1.bin'"),
    (top(lattice="../lattice.1.bin"), "lattice to be"),
    (top(statistics="statistics.01.bin"), "statistics to be"),
    (top(statistics="statistics.1.bin\n"), "statistics to be"),
    (top(statistics="statistics.\u0661.bin"), "statistics to be"),
    (top(more=1), "unknown entry: 'more'"),
    (lambda found: found.pop("applied"), "has no applied"),
    (top(parts={}), "parts to be a list"),
    (top(parts=[7]), "part 0 to be an object"),
    (part(name="part.1/../../x"), "name of part 0"),
    (part(name="/part.1"), "name of part 0"),
    (part(name=None), "name of part 0"),
    (part(name="part.3"), "names a file of a part twice"),
    (part(num_docs=2**32), "num_docs of part 0"),
    (part(num_alive=11), "num_alive of part 0"),
    (part(deleted=None), "num_alive of part 0 to be the documents that are not deleted, got 8 of 10"),
    (part(deleted="lattice.2.bin"), "deleted of part 0"),
    (part(more=1), "unknown entry of part 0"),
    (lambda found: found["parts"][0].pop("num_bytes"), "has no num_bytes of part 0"),
]


@pytest.mark.parametrize(("change", "message"), WRONG, ids=range(len(WRONG)))
def test_hostile_entries(change: Callable[[dict[str, Any]], object], message: str) -> None:
    """An entry of the wrong type or out of range is named, though the checksum is right."""
    found = entries()
    change(found)
    with refused(FormatError, message="the collection 'there' is damaged: .*" + message.replace(".", r"\.")):
        parse_manifest(checked_bytes(found), Path("there"))


def test_a_manifest_that_could_not_be_read_is_not_written(tmp_path: Path) -> None:
    """What segmax itself would refuse never replaces a good manifest."""
    write_manifest(tmp_path, FULL)
    with refused(WriteError, message="could not be read again"):
        write_manifest(tmp_path, dataclasses.replace(FULL, lattice="elsewhere"))
    assert read_manifest(tmp_path) == FULL


@pytest.mark.parametrize(("failing", "kind"), [(1, WriteError), (2, WriterStoppedError)])
def test_failed_syncs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int, kind: type[WriteError]) -> None:
    """A manifest that cannot be synced is not put in place; one that is in place but may not stay stops the writer."""
    write_manifest(tmp_path, Manifest())
    calls = iter(range(1, 99))

    def fsync(descriptor: int, real: Callable[[int], None] = os.fsync) -> None:
        if next(calls) == failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    with refused(kind, message="Input/output error") as info:
        write_manifest(tmp_path, FULL)
    assert type(info.value) is kind
    assert read_manifest(tmp_path) == (Manifest() if failing == 1 else FULL)
    assert [path.name for path in tmp_path.iterdir()] == [MANIFEST_NAME]


def damages(whole: bytes, every: int) -> Iterator[bytes]:
    """Files with one byte or bit changed, or with the end missing, or with something behind it."""
    draw = random.Random(3)
    for at in range(0, len(whole), every):
        for value in {whole[at] ^ (1 << draw.randrange(8)), 0, 255} - {whole[at]}:
            yield whole[:at] + bytes([value]) + whole[at + 1 :]
        yield whole[:at]
    yield whole + b"\n"
    yield whole + b"\x00"


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_damage_of_the_manifest_is_found(every: int) -> None:
    """Any byte of a manifest flipped or cut is a FormatError."""
    whole = manifest_bytes(FULL)
    for data in damages(whole, every):
        with pytest.raises(FormatError):
            parse_manifest(data, Path("there"))


# --- small files -----------------------------------------------------------------------------------------------------

ARRAYS: dict[str, np.ndarray] = {
    "alive": np.array([True, False, True]),
    "term_scale": np.linspace(0, 1, 7),
    "largest": np.arange(5, dtype=np.uint32),
    "nothing": np.empty(0, dtype=np.int64),
    "text": np.frombuffer("é".encode(), dtype=np.uint8),
}


def test_arrays_come_back(tmp_path: Path) -> None:
    """Names, types and values; a file of that name is replaced."""
    path = tmp_path / "lattice.1.bin"
    write_arrays(path, {})
    assert read_arrays(path) == {}
    write_arrays(path, ARRAYS)
    found = read_arrays(path)
    assert list(found) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert found[name].dtype == array.dtype
        assert found[name].flags.aligned
        assert np.array_equal(found[name], array)
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_damage_of_arrays_is_found(tmp_path: Path, every: int) -> None:
    """Any byte flipped or cut is a FormatError."""
    path = tmp_path / "lattice.1.bin"
    write_arrays(path, ARRAYS)
    for data in damages(path.read_bytes(), every):
        path.write_bytes(data)
        with pytest.raises(FormatError):
            read_arrays(path)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        read_arrays(path)


# --- cleaning up -----------------------------------------------------------------------------------------------------


def test_only_our_files_are_removed(tmp_path: Path) -> None:
    """What no manifest names goes if its name is ours; strangers and links stay."""
    write_manifest(tmp_path, FULL)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "meta.json").write_text("mine")
    kept = ["log.3", "log.4", "log.x", "writer.lock", "notes.txt", "deleted.4.bin", "lattice.2.bin", "statistics.2.bin"]
    kept += ["deleted.01.bin", "xlattice.1.bin", "lattice.1.bin.bak", "part.8.new", "deleted.20.bin.new"]
    gone = [
        "log.1",
        "log.2",
        "deleted.3.bin",
        "lattice.1.bin",
        "statistics.1.bin",
        "deleted.9.bin.new",
        "manifest.json.new",
    ]
    for name in (*kept, *gone):
        (tmp_path / name).write_bytes(b"x")
    for name in ("part.1", "part.2", "part.9", "part.20"):
        (tmp_path / name).mkdir()
        for file in ("meta.json", "meta.json.new", "term_scale.1.bin"):
            (tmp_path / name / file).write_bytes(b"x")
    (tmp_path / "part.9" / "notes.txt").write_bytes(b"x")
    (tmp_path / "part.9" / "head.1.bin").symlink_to(outside / "meta.json")
    (tmp_path / "part.5").symlink_to(outside)
    (tmp_path / "lattice.9.bin").symlink_to(outside / "meta.json")
    (tmp_path / "part.6").write_bytes(b"a file")
    (tmp_path / "deleted.6.bin").mkdir()

    assert sorted(remove_unnamed(tmp_path, FULL, keep={"part.20", "deleted.20.bin"})) == sorted([*gone, "part.2"])
    left = {path.name for path in tmp_path.iterdir()}
    others = {"part.1", "part.5", "part.6", "part.9", "part.20", "lattice.9.bin", "deleted.6.bin", "outside"}
    assert left == {*kept, *others, MANIFEST_NAME}
    assert sorted(path.name for path in (tmp_path / "part.9").iterdir()) == ["head.1.bin", "notes.txt"]
    assert (outside / "meta.json").read_text() == "mine"
    assert len(list((tmp_path / "part.1").iterdir())) == len(list((tmp_path / "part.20").iterdir())) == 3


def test_what_an_interrupted_creation_leaves(tmp_path: Path) -> None:
    """A folder without a manifest and without strangers is free."""
    assert holds_leftovers_only(tmp_path)
    for name in ("log.1", "writer.lock", "manifest.json.new", "lattice.1.bin", "statistics.1.bin.new"):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "part.1").mkdir()
    assert holds_leftovers_only(tmp_path)
    for name in ("notes.txt", MANIFEST_NAME):
        (tmp_path / name).write_bytes(b"x")
        assert not holds_leftovers_only(tmp_path)
        (tmp_path / name).unlink()
    (tmp_path / "log.2").symlink_to("log.1")
    assert not holds_leftovers_only(tmp_path)


def test_files_of_a_manifest() -> None:
    """Parts, what is deleted of them, the lattice and the statistics; the log is named by its first file."""
    assert files_of(FULL) == {"part.1", "part.3", "deleted.4.bin", "lattice.2.bin", "statistics.2.bin"}


def test_what_cannot_be_removed_stays_for_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure to remove one file is no error, and does not keep the others."""
    for name in ("lattice.1.bin", "lattice.3.bin"):
        (tmp_path / name).write_bytes(b"x")

    def unlink(path: Path, real: Callable[[Path], None] = Path.unlink) -> None:
        if path.name == "lattice.1.bin":
            raise PermissionError(errno.EPERM, "no")
        real(path)

    monkeypatch.setattr(manifest_module.Path, "unlink", unlink)
    assert remove_unnamed(tmp_path, FULL) == ["lattice.3.bin"]
