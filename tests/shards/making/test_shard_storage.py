"""Files of a sharded index in a folder or at an address, and copies of shards by content hash."""

from __future__ import annotations

import errno
import os
import pickle
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import segmax
from conftest import refused
from segmax.errors import ConfigError, FormatError, IndexNotFoundError, WriteError
from segmax.shards import storage as storage_module
from segmax.shards.addresses import is_address
from segmax.shards.making.building import build
from segmax.shards.storage import LocalStorage, Storage, checked_hash, content_hash, open_storage
from sharded_samples import check_same_documents, random_matrix, write_texts


@pytest.fixture(params=["folder", "file address", "memory address"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where to keep files."""
    if request.param == "folder":
        return str(tmp_path / "index")
    pytest.importorskip("fsspec")
    if request.param == "file address":
        return f"file://{tmp_path}/index"
    return f"memory://{tmp_path.name}/index"


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A small index, as a shard is one."""
    segmax.build(random_matrix(30, "floats"), path=tmp_path / "made").close()
    return tmp_path / "made"


def test_files_are_written_whole_listed_and_removed(place: str) -> None:
    """A storage keeps files by name; it can be pickled, and another object of it sees the same."""
    storage = open_storage(place)
    assert storage.names() == []
    assert storage.names("common") == []
    assert not storage.exists("common/a")
    storage.write("common/a", [b"one", memoryview(b" two")])
    storage.write("common/b", [])
    other: Storage = pickle.loads(pickle.dumps(storage))
    assert other.read("common/a") == b"one two"
    assert other.read("common/a", 4, 2) == b"tw"
    assert other.read("common/a", 0, 3) == b"one"
    assert other.size("common/a") == 7
    assert other.names("common") == ["a", "b"]
    assert other.sizes("common") == {"a": 7, "b": 0}
    assert other.names() == ["common"]
    other.write("common/a", [b"three"])
    assert storage.read("common/a") == b"three"
    storage.remove("common/a")
    storage.remove("common/a")
    with pytest.raises(FileNotFoundError):
        storage.read("common/a")
    with pytest.raises(FileNotFoundError):
        storage.size("common/a")
    storage.remove("common")
    assert storage.names() == []


@pytest.mark.parametrize("name", ["../a", "common/../../a", "/etc/passwd", "common//a", "", ".hidden", "a\0b", "a\n"])
def test_no_name_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    """Names come from files that anybody may have written."""
    storage = open_storage(tmp_path)
    for call in (storage.read, storage.exists, storage.remove, storage.size, lambda name: storage.write(name, [])):
        with refused(FormatError, expected="name of a file"):
            call(name)


@pytest.mark.parametrize("name", ["..", "a" * 63, "A" * 64, "/" + "a" * 63, "a" * 64 + "/..", 7, None])
def test_shards_are_called_by_hashes_alone(tmp_path: Path, name: Any) -> None:
    """What is no hash is refused before any file is touched."""
    with refused(FormatError, expected="64 hexadecimal digits"):
        open_storage(tmp_path).fetch_shard(name, tmp_path / "cache")
    with refused(FormatError):
        checked_hash(name)
    assert list(tmp_path.iterdir()) == []


def test_a_content_hash_is_about_names_and_bytes(made: Path) -> None:
    """Another byte or another name is another content; files of others are refused."""
    before = content_hash(made)
    assert before == content_hash(made)
    component = next(file for file in made.iterdir() if file.name.startswith("run"))
    moved = component.rename(component.with_name("x.1.bin"))
    assert content_hash(made) != before
    moved.rename(component)
    content = component.read_bytes()
    component.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert content_hash(made) != before
    (made / "notes.txt").write_text("mine")
    with refused(FormatError, message="notes.txt"):
        content_hash(made)
    (made / "notes.txt").unlink()
    component.unlink()
    component.symlink_to("/etc/passwd")
    with refused(FormatError, message="no part of an index"):
        content_hash(made)


def test_shards_travel_by_content_hash(place: str, made: Path, tmp_path: Path) -> None:
    """A shard is put and fetched under its hash, once; the copy has every byte."""
    storage, cache = open_storage(place), tmp_path / "cache"
    again = tmp_path / "again"
    shutil.copytree(made, again)
    found = storage.put_shard(made)
    assert not made.exists()
    assert storage.put_shard(again) == found
    assert not again.exists()
    assert storage.has_shard(found)
    copy = storage.fetch_shard(found, cache)
    assert copy == cache / found
    assert content_hash(copy) == found
    stamp = copy.stat().st_mtime_ns
    assert storage.fetch_shard(found, cache, verify=True).stat().st_mtime_ns == stamp
    assert [one.name for one in cache.iterdir()] == [found]
    with segmax.open(copy) as index:
        assert index.num_docs == 30
    with refused(IndexNotFoundError, message="there is no"):
        storage.fetch_shard("0" * 64, cache)
    assert [one.name for one in cache.iterdir()] == [found]


def test_a_plain_folder_is_used_in_place(made: Path, tmp_path: Path) -> None:
    """Without a cache, nothing is copied from a folder; an address needs one."""
    storage = open_storage(tmp_path / "index")
    found = storage.put_shard(made)
    assert storage.fetch_shard(found) == tmp_path / "index" / "shards" / found
    with refused(IndexNotFoundError):
        storage.fetch_shard("0" * 64)
    pytest.importorskip("fsspec")
    with refused(ConfigError, option="cache"):
        open_storage(f"file://{tmp_path}/index").fetch_shard(found)


def test_a_damaged_shard_does_not_get_into_the_cache(place: str, made: Path, tmp_path: Path) -> None:
    """What arrives is compared with its hash; a damaged copy is replaced where that is asked for."""
    storage, cache = open_storage(place), tmp_path / "cache"
    found = storage.put_shard(made)
    copy = storage.fetch_shard(found, cache)
    component = next(file for file in copy.iterdir() if file.name.startswith("run"))
    component.write_bytes(b"damaged" + component.read_bytes()[7:])
    assert content_hash(storage.fetch_shard(found, cache, verify=True)) == found
    name = f"shards/{found}/{component.name}"
    storage.write(name, [b"damaged" + storage.read(name)[7:]])
    shutil.rmtree(cache)
    with refused(FormatError, message="does not have the hash"):
        storage.fetch_shard(found, cache)
    assert list(cache.iterdir()) == []


def test_processes_that_fetch_at_once_get_one_copy(made: Path, tmp_path: Path) -> None:
    """Whoever is first, all of them return a whole copy, and nothing else is left."""
    storage, cache = open_storage(tmp_path / "index"), tmp_path / "cache"
    found = storage.put_shard(made)
    with ThreadPoolExecutor(8) as pool:
        copies = list(pool.map(lambda _: storage.fetch_shard(found, cache), range(16)))
    assert set(copies) == {cache / found}
    assert content_hash(copies[0]) == found
    assert [one.name for one in cache.iterdir()] == [found]


def test_a_cache_without_room_is_a_clear_error(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk is named, and nothing half-copied stays."""
    storage, cache = open_storage(tmp_path / "index"), tmp_path / "cache"
    found = storage.put_shard(made)
    real: Callable[..., Any] = shutil.copyfile
    count = [0]

    def copyfile(*args: Any, **options: Any) -> Any:
        count[0] += 1
        if count[0] > 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*args, **options)

    monkeypatch.setattr(storage_module.shutil, "copyfile", copyfile)
    with refused(WriteError, message="could not write .*cache.*No space left", hint="make room"):
        storage.fetch_shard(found, cache)
    assert list(cache.iterdir()) == []


def test_addresses_and_paths() -> None:
    """An address has a protocol; everything else is a path."""
    assert all(map(is_address, ["s3://bucket/a", "file:///tmp/a", "simplecache::s3://bucket/a"]))
    assert not any(map(is_address, ["/tmp/a", "a/b", "C", Path("s3://bucket"), ""]))
    assert isinstance(open_storage("a/b"), LocalStorage)


def test_unknown_protocols_are_refused() -> None:
    """An address that fsspec does not know, or whose package is missing, is a ConfigError."""
    pytest.importorskip("fsspec")
    with refused(ConfigError, option="path", expected="an address that fsspec knows"):
        open_storage("nosuchprotocol://bucket/index")


@pytest.mark.parametrize("sharding", ["clusters", "rows"])
def test_an_index_is_built_at_an_address(tmp_path: Path, sharding: str) -> None:
    """All stages work at an address, and give the same shards as in a folder."""
    pytest.importorskip("fsspec")
    texts = write_texts(tmp_path / "texts")
    options = {"shards": 3, "sharding": sharding, "encoder": "bm25"}
    there = build(texts, f"file://{tmp_path}/there", **options)
    assert there == build(texts, tmp_path / "here", **options)
    assert sorted(one.name for one in (tmp_path / "there").iterdir()) == ["common", "sharded.json", "shards"]
    check_same_documents(tmp_path / "there", there, segmax.from_texts(tmp_path / "texts"))
    assert build(texts, f"memory://{tmp_path.name}/index", scratch=tmp_path, **options) == there
