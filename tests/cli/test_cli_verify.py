"""`segmax verify` finds damage anywhere, lists all of it, writes nothing, and never crashes."""

from __future__ import annotations

import os
import re
import shutil
import tarfile
from pathlib import Path

import pytest

import segmax
from segmax.base.progress import BuildProgress
from segmax.cli.main import main
from segmax.errors import FormatError
from segmax.shards.verifying import check

GOLDEN = Path(__file__).parents[1] / "storage" / "golden"
KINDS = {"index": "texts.segmax", "collection": "vectors", "sharded index": "rows"}


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """An index, a collection with parts and a log, and a sharded index."""
    folder = tmp_path_factory.mktemp("verify")
    for archive in ("version-4", "collection-1", "sharded-1"):
        with tarfile.open(GOLDEN / f"{archive}.tar.xz") as packed:
            packed.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.2 has no filters
            packed.extractall(folder)
    return {
        "index": folder / "version-4" / "texts.segmax",
        "collection": folder / "collection-1" / "vectors",
        "sharded index": folder / "sharded-1" / "rows",
    }


@pytest.fixture(params=KINDS)
def copy(request: pytest.FixtureRequest, originals: dict[str, Path], tmp_path: Path) -> Path:
    """A copy of one of them, to be damaged."""
    return Path(shutil.copytree(originals[request.param], tmp_path / request.param.replace(" ", "-")))


def files_of(folder: Path) -> list[Path]:
    """All files, the log's lock left out."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "writer.lock")


def state(folders: dict[str, Path]) -> dict[Path, tuple[bytes, int]]:
    """Every file with its content, and when it was written."""
    files = [path for folder in folders.values() for path in files_of(folder)]
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def flip(path: Path, at: int) -> None:
    """Change a byte of a file."""
    content = bytearray(path.read_bytes())
    content[at] ^= 0x55
    path.write_bytes(content)


def test_what_is_whole_is_said_to_be(originals: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """Several paths, an address of Ray among them; every file stays as it is."""
    before = state(originals)
    paths = [str(originals["index"]), str(originals["collection"]), f"ray://{originals['sharded index']}"]
    for options, how in (([], "every byte is right"), (["--quick"], "sizes and tables are right")):
        assert main(["verify", "--no-progress", *options, *paths]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert [line.partition(",")[0] for line in lines] == [
            f"{path}: {kind}" for path, kind in zip(paths, KINDS, strict=True)
        ]
        assert all(line.endswith(f" KiB, {how}") for line in lines)
    assert state(originals) == before


@pytest.mark.parametrize("all_of_them", [False, pytest.param(True, marks=pytest.mark.deep)])
def test_every_damaged_file_is_found(copy: Path, all_of_them: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """A byte changed in the middle or at the end of any file; a file cut, lengthened or removed."""
    every = 1 if all_of_them or copy.name == "index" else 3  # others have many files
    for number, path in enumerate(files_of(copy)[::every]):
        whole = path.read_bytes()
        middle = len(whole) // 2
        damages = [whole[:middle] + bytes([whole[middle] ^ 0x55]) + whole[middle + 1 :], None]
        if not path.name.startswith("log."):  # whose end may be torn: a crash leaves that
            damages += [whole[:-1] + bytes([whole[-1] ^ 0x55]), whole[:middle], whole + b"x"]
        for damage in damages if all_of_them else [damages[number % len(damages)]]:
            if damage is None:
                path.unlink()
            else:
                path.write_bytes(damage)
            assert main(["verify", "--no-progress", str(copy)]) == 1, path
            shown = capsys.readouterr().out
            assert shown.startswith(f"{copy}: ")
            assert re.search("damaged|expected|missing", shown)
            path.write_bytes(whole)
    assert main(["verify", "--no-progress", str(copy)]) == 0


def test_all_damaged_parts_are_listed(
    originals: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the files, and what to do."""
    papers = Path(shutil.copytree(originals["collection"], tmp_path / "papers"))
    parts = sorted(path.name for path in papers.glob("part.*"))[:2]
    for part in parts:
        flip(max((papers / part).glob("*.bin"), key=lambda path: path.stat().st_size), 3)
    (lattice,) = papers.glob("lattice.*.bin")
    flip(lattice, lattice.stat().st_size // 2)
    assert main(["verify", str(papers)]) == 1
    first, *problems = capsys.readouterr().out.splitlines()
    assert first == f"{papers}: collection, 3 problems"
    assert sorted(line.split(":")[0].strip() for line in problems) == [lattice.name, *parts]
    assert all("checksum" in line and "restore a" in line for line in problems)


def test_all_damaged_shards_are_listed(
    originals: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By number, and common files by name."""
    index = Path(shutil.copytree(originals["sharded index"], tmp_path / "docs.sharded"))
    for shard in (index / "shards").iterdir():
        flip(next(shard.glob("entry_code.*.bin")), 1)
    manifest = segmax.shards.opening.read_manifest(segmax.shards.storage.open_storage(index))
    flip(index / "common" / manifest.common["router"], 40)
    assert main(["verify", "--no-progress", str(index)]) == 1
    first, *problems = capsys.readouterr().out.splitlines()
    assert first == f"{index}: sharded index, 3 problems"
    assert sorted(line.split(":")[0].strip() for line in problems) == ["common/router", "shard 0", "shard 1"]


def test_a_quick_check_reads_no_postings(originals: dict[str, Path], tmp_path: Path) -> None:
    """It misses a changed byte of a large component, and finds that the component is shorter."""
    index = Path(shutil.copytree(originals["index"], tmp_path / "docs.segmax"))
    (codes,) = index.glob("entry_code.*.bin")
    flip(codes, 0)
    assert main(["verify", "--quick", "--no-progress", str(index)]) == 0
    codes.write_bytes(codes.read_bytes()[:-1])
    assert main(["verify", "--quick", "--no-progress", str(index)]) == 1


def test_what_is_not_ours_is_no_crash(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], originals: dict[str, Path]
) -> None:
    """Nothing, a file, an empty folder, folders with strange descriptions, an address; the rest is still checked."""
    (tmp_path / "file").write_text("no index")
    (tmp_path / "empty").mkdir()
    for number, content in enumerate(
        (b"", b"{}", b"[" * 100_000, b'{"format": "segmax", "version": 1e999}', b"\xff\xfe")
    ):
        for name in ("meta.json", "manifest.json", "sharded.json"):
            folder = tmp_path / f"{name}-{number}"
            folder.mkdir()
            (folder / name).write_bytes(content)
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / "meta.json")
    paths = [*map(str, sorted(tmp_path.iterdir())), str(tmp_path / "missing"), "ray://s3://bucket/index"]
    assert main(["verify", "--no-progress", *paths, str(originals["index"])]) == 1
    shown = capsys.readouterr()
    lines = shown.out.splitlines()
    assert [line[: len(path) + 2] for path, line in zip(paths, lines[:-1], strict=True)] == [
        f"{path}: " for path in paths
    ]
    assert "every byte is right" in lines[-1]
    assert not any("every byte" in line for line in lines[:-1])


@pytest.mark.parametrize("command", ["verify", "upgrade"])
def test_one_path_that_cannot_be_looked_at_stops_no_other(
    command: str, originals: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """A name that is too long for the system, for instance."""
    assert main([command, "x" * 300, str(originals["index"])]) == 1
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("x" * 300)
    assert second.startswith(f"{originals['index']}: index, ")


def test_progress_reaches_all_bytes(originals: dict[str, Path]) -> None:
    """The stage is called "verify", and counts the bytes of all files once."""
    for kind, path in originals.items():
        seen: list[BuildProgress] = []
        checked = check(path, progress=seen.append)
        assert (checked.kind, checked.damage) == (kind, [])
        assert {update.stage for update in seen} == {"verify"}
        assert checked.num_bytes * 0.5 < seen[-1].done <= checked.num_bytes * 1.01


def test_a_damaged_index_is_refused_by_verify(originals: dict[str, Path], tmp_path: Path) -> None:
    """`segmax.verify` raises the first error; it takes sharded indexes, too."""
    index = Path(shutil.copytree(originals["sharded index"], tmp_path / "docs.sharded"))
    segmax.verify(index)
    flip(next((index / "shards").rglob("entry_code.*.bin")), 1)
    with pytest.raises(FormatError, match=r"shard .: .*entry_code"):
        segmax.verify(index)
