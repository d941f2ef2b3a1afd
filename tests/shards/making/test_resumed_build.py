"""A build that was stopped, anywhere, is resumed; what is done and whole is not done again."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from conftest import refused
from segmax.errors import CollectionLockedError, ConfigError, FormatError, IndexExistsError, InputError, WriteError
from segmax.shards.making import building, tasks, text_files
from segmax.shards.making.building import build
from segmax.shards.making.tasks import HereExecutor, Task, Workplace
from segmax.shards.storage import LocalStorage, open_storage
from sharded_samples import small_pieces, write_json_vectors, write_matrices, write_texts


class StoppedError(Exception):
    """Stands for whatever ends a process."""


class StoppingExecutor(HereExecutor):
    """Ends the build after so many tasks."""

    def __init__(self, num_tasks: int) -> None:
        self._left = num_tasks

    def run(self, tasks: Sequence[Task], work: Workplace) -> Iterator[tuple[int, Mapping[str, Any]]]:
        for one in super().run(tasks, work):
            if self._left == 0:
                raise StoppedError
            self._left -= 1
            yield one


class CountingExecutor(HereExecutor):
    """Counts what is done, and what was done before."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.found: list[str] = []

    def run(self, tasks: Sequence[Task], work: Workplace) -> Iterator[tuple[int, Mapping[str, Any]]]:
        for number, task in enumerate(tasks):
            found = work.find(task.output)
            holds = found is not None and task.holds(found, work)
            (self.found if holds else self.made).append(task.output)
            yield number, task.run(work)


@pytest.fixture(params=["vectors by clusters", "vectors by rows", "texts by clusters"])
def make(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Builds a small index in `tmp_path`, by any executor."""
    small_pieces(monkeypatch, 50)
    monkeypatch.setattr(text_files, "_BATCH_DOCS", 50)
    what, _, sharding = request.param.partition(" by ")
    is_text = what == "texts"
    files = write_texts(tmp_path / "in", (60, 50)) if is_text else write_json_vectors(tmp_path / "in", (40, 60))
    options = {"encoder": "bm25"} if is_text else {}

    def run(executor: HereExecutor | None = None, name: str = "index", **more: Any) -> Any:
        monkeypatch.setattr(building, "HereExecutor", lambda: executor or HereExecutor())
        return build(files, tmp_path / name, shards=3, sharding=sharding, threads=1, **options, **more)

    return run


@pytest.mark.parametrize("every", [15, pytest.param(3, marks=pytest.mark.deep)])
def test_stopped_between_any_two_tasks(make: Callable[..., Any], tmp_path: Path, every: int) -> None:
    """Wherever a build stops, there is no index, and the same call finishes the same index, doing the rest alone."""
    counting = CountingExecutor()
    whole = make(counting, "whole")
    for number in range(0, len(counting.made), every):
        with pytest.raises(StoppedError):
            make(StoppingExecutor(number))
        assert not (tmp_path / "index" / "sharded.json").exists()
        resumed = CountingExecutor()
        assert make(resumed) == whole
        assert resumed.made == counting.made[number + 1 :]  # the one whose result nobody saw was done
        assert not (tmp_path / "index" / "building").exists()
        shutil.rmtree(tmp_path / "index")


@pytest.mark.parametrize("every", [31, pytest.param(7, marks=pytest.mark.deep)])
def test_stopped_at_any_write(
    make: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    """A process that ends after any write of a file leaves no index, and the same call finishes the same index."""
    whole = make(name="whole")
    write, put = LocalStorage.write, LocalStorage.put
    left = [0]

    def counted(function: Callable[..., None]) -> Callable[..., None]:
        def call(*args: Any) -> None:
            if left[0] == 0:
                raise StoppedError
            left[0] -= 1
            function(*args)

        return call

    for number in range(1, 1000, every):
        with monkeypatch.context() as patch:
            patch.setattr(LocalStorage, "write", counted(write))
            patch.setattr(LocalStorage, "put", counted(put))
            left[0] = number
            try:
                make()
            except StoppedError:
                assert not (tmp_path / "index" / "sharded.json").exists()
            else:
                break
        assert make() == whole
        shutil.rmtree(tmp_path / "index")
    assert number > 15


@pytest.mark.parametrize("every", [60, pytest.param(5, marks=pytest.mark.deep)])
def test_a_damaged_file_is_made_again(make: Callable[..., Any], tmp_path: Path, every: int) -> None:
    """A bit that flipped in any file of an unfinished build is noticed when it is resumed."""
    counting = CountingExecutor()
    whole = make(counting, "whole")
    for stop in (len(counting.made) - 4, len(counting.made) - 1):  # before the first shard, and before the last
        with pytest.raises(StoppedError):
            make(StoppingExecutor(stop))
        kept = tmp_path / "kept"
        shutil.copytree(tmp_path / "index", kept)
        files = sorted(file for file in (kept / "building").rglob("*") if file.is_file() and file.stat().st_size > 0)
        files.remove(kept / "building" / "journal.json")
        assert len(files) > 5
        for file in {*files[::every], kept / "building" / "scales"}:
            shutil.rmtree(tmp_path / "index")
            shutil.copytree(kept, tmp_path / "index")
            damaged = tmp_path / "index" / file.relative_to(kept)
            content = bytearray(damaged.read_bytes())
            content[len(content) // 2] ^= 4
            damaged.write_bytes(content)
            assert make() == whole, file
        shutil.rmtree(kept)
        shutil.rmtree(tmp_path / "index")


def test_half_written_files_are_no_obstacle(make: Callable[..., Any], tmp_path: Path) -> None:
    """What a process that was killed has left, under the names of files that are not whole, is removed."""
    whole = make(name="whole")
    for stop in (1, 3, 6):
        with pytest.raises(StoppedError):
            make(StoppingExecutor(stop))
        folders = [path for path in (tmp_path / "index").rglob("*") if path.is_dir() and len(path.name) < 60]
        (tmp_path / "index" / "common").mkdir()
        for folder in {tmp_path / "index", tmp_path / "index" / "common", *folders}:
            (folder / ".frequencies.0de562a7ef7e865f.part").write_bytes(b"half")
        assert make() == whole
        assert list((tmp_path / "index").rglob("*.part")) == []
        shutil.rmtree(tmp_path / "index")


def test_a_finished_shard_is_verified(make: Callable[..., Any], tmp_path: Path) -> None:
    """A shard that was finished before a stop is done again only if its content does not have its hash."""
    counting = CountingExecutor()
    whole = make(counting, "whole")
    with pytest.raises(StoppedError):
        make(StoppingExecutor(len(counting.made) - 1))
    shard = max((tmp_path / "index" / "shards").iterdir())
    component = next(file for file in shard.iterdir() if file.name.startswith("run"))
    component.write_bytes(component.read_bytes()[:-1])
    resumed = CountingExecutor()
    assert make(resumed) == whole
    assert len(resumed.made) == 1
    assert resumed.made[0].startswith("built/")


@pytest.mark.parametrize("damage", ["shorter", "gone", "more", "meta"])
def test_a_finished_shard_at_an_address_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    """A shard that was finished before a stop is done again if its files are not those of its meta.json."""
    pytest.importorskip("fsspec")
    files, address = write_matrices(tmp_path / "in", sizes=(30, 40)), f"file://{tmp_path}/index"
    counting, resumed = CountingExecutor(), CountingExecutor()
    monkeypatch.setattr(building, "HereExecutor", lambda: counting)
    whole = build(files, tmp_path / "whole", shards=2)
    monkeypatch.setattr(building, "HereExecutor", lambda: StoppingExecutor(len(counting.made) - 1))
    with pytest.raises(StoppedError):
        build(files, address, shards=2)
    shard = max((tmp_path / "index" / "shards").iterdir())
    assert open_storage(address).has_shard(shard.name)
    component = next(file for file in shard.iterdir() if file.name.startswith("run"))
    if damage == "shorter":
        component.write_bytes(component.read_bytes()[:-1])
    elif damage == "gone":
        component.unlink()
    elif damage == "more":
        component.with_name("run_bytes.9.bin").write_bytes(b"")
    else:
        (shard / "meta.json").write_bytes((shard / "meta.json").read_bytes() + b" ")
    assert not open_storage(address).has_shard(shard.name)
    monkeypatch.setattr(building, "HereExecutor", lambda: resumed)
    assert build(files, address, shards=2) == whole
    assert [name.partition("/")[0] for name in resumed.made] == ["built"]
    assert open_storage(tmp_path / "index").has_shard(shard.name)


def test_other_inputs_or_options_are_refused(tmp_path: Path) -> None:
    """An unfinished build is resumed only with the same files and options; `overwrite` starts over."""
    files = write_matrices(tmp_path / "in", sizes=(30, 40))
    path = tmp_path / "index"
    stop = {"progress": stop_at("route")}
    with pytest.raises(StoppedError):
        build(files, path, shards=2, **stop)
    for changed, what in (({"shards": 3}, "shards"), ({"bits": 16}, "bits"), ({"sharding": "rows"}, "sharding")):
        with refused(ConfigError, got=what, hint="overwrite=True", where="index"):
            build(files, path, **{"shards": 2, **changed})
    os.utime(files[0], ns=(1, 1))
    with refused(ConfigError, got="inputs", hint="overwrite"):
        build(files, path, shards=2)
    made = build(files, path, shards=2, overwrite=True)
    assert made == build(files, tmp_path / "other", shards=2)


def stop_at(stage: str) -> Callable[[Any], None]:
    """Return a function that stops a build once it gets to a stage."""

    def update(progress: Any) -> None:
        if progress.stage == stage:
            raise StoppedError

    return update


def test_a_finished_index_is_replaced_only_if_asked_for(tmp_path: Path) -> None:
    """`overwrite` replaces an index, whose shards are removed once the new one is there; a failure changes nothing."""
    files = write_matrices(tmp_path / "in", sizes=(30, 40))
    path = tmp_path / "index"
    made = build(files, path, shards=2)
    before = (path / "sharded.json").read_bytes()
    with refused(IndexExistsError, hint="overwrite=True"):
        build(files, path, shards=3)
    with pytest.raises(StoppedError):
        build(files, path, shards=3, overwrite=True, progress=stop_at("shards"))
    assert (path / "sharded.json").read_bytes() == before
    assert {one.name for one in (path / "shards").iterdir()} >= {entry.hash for entry in made.shards}
    other = build(files, path, shards=3, overwrite=True)
    assert {one.name for one in (path / "shards").iterdir()} == {entry.hash for entry in other.shards}
    assert (path / "sharded.json").read_bytes() != before


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    """A path with other files is no place for an index, even with `overwrite`."""
    files = write_matrices(tmp_path / "in", sizes=(5,))
    with refused(IndexExistsError, got="vectors-0.npz"):
        build(files, tmp_path / "in", shards=2, overwrite=True)
    assert [one.name for one in (tmp_path / "in").iterdir() if one.name != "writer.lock"] == ["vectors-0.npz"]


def test_one_build_at_a_time(tmp_path: Path) -> None:
    """While one build is under way, another one of the same path is refused, and does no harm."""
    files = write_matrices(tmp_path / "in", sizes=(30, 40))
    seen = []

    def meanwhile(progress: Any) -> None:
        if progress.stage == "shards" and not seen:
            seen.append(progress)
            with refused(CollectionLockedError, message="being built at .*index' by process"):
                build(files, tmp_path / "index", shards=2)

    build(files, tmp_path / "index", shards=2, progress=meanwhile)
    assert seen


def test_a_full_disk_is_an_error_and_leaves_no_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever write finds no room, the build raises WriteError, there is no manifest, and it can be resumed."""
    files = write_matrices(tmp_path / "in", sizes=(30, 40))
    whole = build(files, tmp_path / "whole", shards=2)
    real = os.fsync
    left = [0]

    def fsync(descriptor: int) -> None:
        if left[0] == 0:
            raise OSError(28, "No space left on device")
        left[0] -= 1
        real(descriptor)

    messages: list[str] = []
    for number in range(0, 500, 13):
        left[0] = number
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fsync)
            try:
                build(files, tmp_path / "index", shards=2)
            except WriteError as error:
                messages.append(str(error))
            else:
                break
        assert not (tmp_path / "index" / "sharded.json").exists()
    assert len(messages) > 3
    assert all("No space left on device" in message for message in messages)
    shutil.rmtree(tmp_path / "index")
    assert build(files, tmp_path / "index", shards=2) == whole


class FailingStorage(LocalStorage):
    """Fails some writes of the build, and counts all of them."""

    def __init__(self, folder: Path, error: Exception, failures: int) -> None:
        super().__init__(folder)
        self.error, self.failures, self.writes = error, failures, 0

    def write(self, name: str, pieces: Sequence[bytes | memoryview]) -> None:
        """Write a file, or raise WriteError."""
        if name.startswith("building/sections"):
            self.writes += 1
            if self.writes <= self.failures:
                raise WriteError("could not write") from self.error
        super().write(name, pieces)


def test_storage_that_fails_for_a_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task is done again where storage fails, three times in all; what does not pass by itself fails at once."""
    monkeypatch.setattr(tasks, "_PAUSE_SECONDS", 0.0)
    files = write_matrices(tmp_path / "in", sizes=(30,))
    whole = build(files, tmp_path / "whole", shards=2)
    for name, error, failures, writes in (
        ("passes", ConnectionResetError("reset"), 2, None),
        ("lasts", TimeoutError("too slow"), 99, 3),
        ("full", OSError(28, "No space left on device"), 99, 1),
        ("denied", PermissionError("not you"), 99, 1),
        ("ours", ValueError("a mistake"), 99, 1),
    ):
        storage = FailingStorage(tmp_path / name, error, failures)
        monkeypatch.setattr(building, "open_storage", lambda _, storage=storage: storage)
        if writes is None:
            assert build(files, tmp_path / name, shards=2) == whole
            continue
        with pytest.raises(WriteError):
            build(files, tmp_path / name, shards=2)
        assert storage.writes == writes


def test_errors_of_fsspec_are_those_of_a_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever an implementation of fsspec raises may pass, unless it says that there is nothing, or no access."""
    pytest.importorskip("fsspec")
    monkeypatch.setattr(tasks, "_PAUSE_SECONDS", 0.0)
    storage = open_storage(f"file://{tmp_path}/index")

    class BusyError(Exception):
        """As a library of a bucket raises."""

    for error, tries in ((BusyError("slow down"), 3), (PermissionError("not you"), 1)):
        tried = []

        def fail(*_: Any, error: Exception = error, tried: list[int] = tried, **__: Any) -> None:
            tried.append(1)
            raise error

        for function, call in (("cat_file", storage.read), ("pipe_file", lambda name: storage.write(name, []))):
            tried.clear()
            monkeypatch.setattr(storage._fs, function, fail)
            with pytest.raises((FormatError, WriteError)):
                tasks.patiently(lambda call=call: call("common/a"))
            assert len(tried) == tries


def test_a_poison_document_is_named(tmp_path: Path) -> None:
    """A weight that is no number, an id that occurs twice and an invalid line fail with the file and the place."""
    files = write_json_vectors(tmp_path / "in", (20, 30))
    content = Path(files[1]).read_text().splitlines()
    for line, expected in (
        ('{"id": "x", "vector": {"a": -1}}', ">= 0"),
        ('{"id": "0/7", "vector": {"a": 1}}', "every id once"),
        ('{"id": "x", "vector": {"a": 1}', "behind a member"),
    ):
        Path(files[1]).write_text("\n".join([*content[:12], line, *content[12:]]))
        with refused(InputError, where="vectors-1.jsonl", message=expected) as info:
            build(files, tmp_path / "index", shards=2, overwrite=True)
        assert "12" in str(info.value) or "13" in str(info.value)
        assert not (tmp_path / "index" / "sharded.json").exists()
    Path(files[1]).write_text("\n".join(content))
    build(files, tmp_path / "index", shards=2, overwrite=True)


def test_texts_with_a_poison_document(tmp_path: Path) -> None:
    """Texts with an id of another file, or of which only some have ids, are refused by name."""
    files = write_texts(tmp_path / "in", (20, 30))
    with Path(files[1]).open("a") as file:
        file.write(json.dumps({"id": "0/3", "text": "again"}) + "\n")
    with refused(InputError, where="texts-1.jsonl', row 30", got="'0/3' again, first at .*texts-0.jsonl', row 3"):
        build(files, tmp_path / "index", shards=2, encoder="bm25")
    numbered = tmp_path / "numbered.jsonl"
    numbered.write_text('{"text": "no id"}\n')
    with refused(InputError, where="numbered.jsonl", hint="give ids to all, or to none"):
        build([files[0], numbered], tmp_path / "other", shards=2, encoder="bm25")
