"""An index on Ray answers what one index over everything answers; what is wrong with it on disk, errors say."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ray_helpers import eventually

import segmax
import segmax.ray
from conftest import refused, topic_docs
from segmax.errors import (
    ConfigError,
    FormatError,
    IndexClosedError,
    IndexNotFoundError,
    ShardsUnavailableError,
    WriteError,
)
from segmax.shards.making.building import build
from segmax.shards.opening import read_manifest
from segmax.shards.storage import open_storage

pytest.importorskip("ray.cluster_utils", exc_type=ImportError)
pytestmark = pytest.mark.slow
pytest_plugins = ["ray_cluster"]

NUM_SHARDS = 4


@pytest.fixture(scope="module")
def docs() -> Any:
    """Documents of several topics, with many ties."""
    return topic_docs(np.random.default_rng(2), 6000)[0]


@pytest.fixture(scope="module")
def whole(docs: Any) -> segmax.Index:
    """One index over everything."""
    return segmax.build(docs)


@pytest.fixture(scope="module")
def path(docs: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sharded index."""
    path = tmp_path_factory.mktemp("sharded") / "index"
    build(docs, path, shards=NUM_SHARDS)
    return path


@pytest.fixture(scope="module")
def index(driver: None, path: Path) -> Iterator[segmax.ray.RayIndex]:
    """The sharded index on Ray, with two replicas."""
    with segmax.ray.open(path, replicas=2) as index:
        yield index


@pytest.fixture
def own(path: Path, tmp_path: Path) -> Path:
    """A copy of the sharded index that a test may damage."""
    subprocess.run(["cp", "-r", path, tmp_path / "own"], check=True)
    return tmp_path / "own"


def shard_file(path: Path, shard: int = 1) -> Path:
    """The largest file of a shard."""
    entry = read_manifest(open_storage(path)).shards[shard]
    return max((path / "shards" / entry.hash).iterdir(), key=lambda file: file.stat().st_size)


def damage(file: Path) -> None:
    """Change one byte."""
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def same(found: Any, expected: Any) -> bool:
    """Whether two results are identical: ids, scores and order."""
    return found.ids == expected.ids and np.array_equal(found.scores, expected.scores)


@pytest.mark.parametrize("k", [1, 10, 1000])
def test_searches_are_those_of_one_index(index: Any, whole: Any, docs: Any, k: int) -> None:
    """Also in batches and in event loops, for exact and for approximate parameters that leave nothing out."""
    rows = docs[::600]
    for row in rows:
        assert same(index.search(row, k), whole.search(row, k))
    found, expected = index.search_batch(rows, k), whole.search_batch(rows, k)
    assert np.array_equal(found.rows, expected.rows)
    assert np.array_equal(found.scores, expected.scores)

    async def search() -> list[Any]:
        hits = await asyncio.gather(*(index.search_async(row, k) for row in rows))
        return [*hits, await index.search_batch_async(rows, k)]

    *hits, batch = asyncio.run(search())
    assert all(same(one, whole.search(row, k)) for one, row in zip(hits, rows, strict=True))
    assert np.array_equal(batch.rows, expected.rows)


def test_the_status_counts(index: Any, docs: Any) -> None:
    """Every shard has its calls, its replicas and what its searches took."""
    index.search_batch(docs[::60])
    status = index.status()
    assert status.complete
    assert len(status.shards) == NUM_SHARDS
    for shard in status.shards:
        assert [replica.state for replica in shard.replicas] == ["up", "up"]
        assert all(replica.pid > 0 and replica.node == "127.0.0.1" for replica in shard.replicas)
        p50, p95, p99 = shard.latencies_ms["search"]
        assert 0 < p50 <= p95 <= p99
    assert sum(shard.calls for shard in status.shards) > NUM_SHARDS


def test_partial_answers_say_what_they_lack(driver: None, path: Path, docs: Any, whole: Any) -> None:
    """The share of documents in the shard that is away; without `allow_partial` a search is refused."""
    with segmax.ray.open(path, deadline_s=20.0) as index:
        shard = 2
        victim = index.status().shards[shard].replicas[0].pid
        os.kill(victim, signal.SIGSTOP)  # a death would be repaired too soon to see
        try:
            hits = index.search_batch(docs[::600], 1000, deadline_s=0.5, allow_partial=True)
            lacking = [query for query, one in enumerate(hits) if not one.complete]
            assert lacking
            share = index.shards[shard].num_docs / index.num_docs
            assert all(hits.routing(query).missing_share == pytest.approx(share) for query in lacking)
            assert {hits.routing(query).missing for query in lacking} == {(shard,)}
            with pytest.raises(ShardsUnavailableError, match=r"^shard 2 gave no answer within \d+ ms"):
                index.search_batch(docs[::600], 1000, deadline_s=0.5)
        finally:
            os.kill(victim, signal.SIGKILL)
        assert same(index.search(docs[0], 1000), whole.search(docs[0], 1000))


def test_a_damaged_file(driver: None, own: Path) -> None:
    """The error names the shard, the file and the node."""
    file = shard_file(own)
    damage(file)
    with refused(FormatError, where="^node 127.0.0.1", message=f"shard 1: .*{file.name}"):
        segmax.ray.open(own)


def test_a_damaged_file_while_it_serves(driver: None, own: Path, docs: Any, whole: Any) -> None:
    """A replica that starts again verifies its shard: answers stay right, or are refused with the reason."""
    with segmax.ray.open(own, deadline_s=5.0) as index:
        assert same(index.search(docs[0]), whole.search(docs[0]))
        file = shard_file(own)
        good = file.read_bytes()
        file.unlink()  # the old replica has it mapped
        file.write_bytes(good)
        damage(file)
        os.kill(index.status().shards[1].replicas[0].pid, signal.SIGKILL)
        eventually(lambda: "damaged" in index.status().shards[1].replicas[0].reason)
        with pytest.raises(ShardsUnavailableError, match=f"shard 1.*{file.name}"):
            index.search_batch(docs[::60], 1000, deadline_s=0.5)
        file.write_bytes(good)
        eventually(lambda: index.status().complete)
        assert same(index.search(docs[0]), whole.search(docs[0]))


def test_copies_are_kept_and_verified(driver: None, own: Path, tmp_path: Path, docs: Any, whole: Any) -> None:
    """A cache has a copy of every shard; one that is damaged there is copied again."""
    cache = tmp_path / "cache"
    with segmax.ray.open(own, cache=cache) as index:
        assert same(index.search(docs[7]), whole.search(docs[7]))
    copies = sorted(folder.name for folder in cache.iterdir())
    assert copies == sorted(folder.name for folder in (own / "shards").iterdir())
    some = max((cache / copies[0]).iterdir(), key=lambda file: file.stat().st_size)
    good = some.read_bytes()
    damage(some)
    with segmax.ray.open(own, cache=cache) as index:
        assert same(index.search(docs[7]), whole.search(docs[7]))
    assert some.read_bytes() == good


def test_a_cache_without_room(driver: None, path: Path, tmp_path: Path) -> None:
    """The error says which shard, on which node, in which folder."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", disk], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("needs the right to mount a disk")
    try:
        with refused(WriteError, where="^shard [0-3], replica 0 on node 127.0.0.1", message=f"{disk}.*No space left"):
            segmax.ray.open(path, cache=disk)
    finally:
        subprocess.run(["umount", disk], check=True)


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"replicas": 0}, "replicas"),
        ({"deadline_s": 0}, "deadline_s"),
        ({"num_cpus": -1}, "num_cpus"),
        ({"threads": 1.5}, "threads"),
        ({"start_s": "long"}, "start_s"),
        ({"address": "10.0.0.1:6379"}, "address"),
    ],
)
def test_invalid_options(driver: None, path: Path, options: Any, option: str) -> None:
    """They are refused before anything is started."""
    with refused(ConfigError, option=option):
        segmax.ray.open(path, **options)


def test_no_index(driver: None, tmp_path: Path) -> None:
    """Nothing is started for it."""
    with pytest.raises(IndexNotFoundError):
        segmax.ray.open(tmp_path / "nothing")


def test_closing(driver: None, path: Path, docs: Any) -> None:
    """A closed index answers no more; the connection of somebody else stays."""
    import ray

    index = segmax.ray.open(path)
    index.close()
    index.close()
    with pytest.raises(IndexClosedError):
        index.search(docs[0])
    assert ray.is_initialized()


def test_no_hang_beyond_the_deadline(driver: None, path: Path, docs: Any) -> None:
    """With every process frozen, a search ends in time."""
    with segmax.ray.open(path) as index:
        pids = [replica.pid for shard in index.status().shards for replica in shard.replicas]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(ShardsUnavailableError):
                index.search(docs[0], deadline_s=0.4)
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
