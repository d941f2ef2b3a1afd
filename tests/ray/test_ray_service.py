"""`segmax serve ray://PATH`, a process of its own in front of a cluster, and commands that search there."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from ray_helpers import eventually

import segmax
from conftest import refused, topic_docs
from segmax.errors import ShardsUnavailableError
from segmax.shards.making.building import build
from serve.serving import Service, serving

pytest.importorskip("ray.cluster_utils", exc_type=ImportError)
for package in ("httpx", "uvicorn", "uvloop", "httptools", "msgspec", "prometheus_client"):
    pytest.importorskip(package)
pytestmark = pytest.mark.slow
pytest_plugins = ["ray_cluster"]

NUM_SHARDS = 3


@pytest.fixture(scope="module")
def docs() -> Any:
    """Documents of several topics, with many ties."""
    return topic_docs(np.random.default_rng(5), 3000)[0]


@pytest.fixture(scope="module")
def whole(docs: Any) -> segmax.Index:
    """One index over everything."""
    return segmax.build(docs)


@pytest.fixture(scope="module")
def path(docs: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sharded index."""
    path = tmp_path_factory.mktemp("served") / "docs.sharded"
    build(docs, path, shards=NUM_SHARDS)
    return path


def address_of(path: Path, cluster: Any, **options: object) -> str:
    """The address of a sharded index on the cluster."""
    given = {"address": cluster.address, **options}
    return f"ray://{path}?{'&'.join(f'{name}={value}' for name, value in given.items())}"


def actors() -> dict[int, str]:
    """The processes that hold shards."""
    from ray_cluster import ray_processes  # a plugin, which tests must not import before pytest does

    return {pid: line for pid, line in ray_processes().items() if "ShardActor" in line}


@contextlib.contextmanager
def served(*arguments: object) -> Iterator[Service]:
    """Run `segmax serve`; after it has stopped, there are no more actors than before."""
    before = set(actors())
    with serving(*arguments) as service:
        yield service
    eventually(lambda: set(actors()) <= before)


def same(index: Any, whole: segmax.Index, queries: Any) -> None:
    """Compare a batch and single searches with those of one index."""
    found, expected = (one.search_batch(queries, k=10) for one in (index, whole))
    assert np.array_equal(found.rows, expected.rows)
    assert np.array_equal(found.scores, expected.scores)
    assert found.ids == expected.ids
    for row in range(5):
        assert index.search(queries[row], k=200).ids == whole.search(queries[row], k=200).ids


def test_a_service_in_front_of_a_cluster_answers_as_one_index(
    cluster: Any, path: Path, docs: Any, whole: segmax.Index
) -> None:
    """Batches and single searches, many clients at once, fewer shards on request; it stops by itself, with code 0."""
    queries = docs[100:140]
    with served(address_of(path, cluster, replicas=2)) as service:
        with segmax.connect(f"http://127.0.0.1:{service.port}") as index:
            assert index.num_shards == NUM_SHARDS
            same(index, whole, queries)
            assert not index.search(queries[0], k=500, max_shards=1).complete
            threads = [threading.Thread(target=same, args=(index, whole, queries)) for _ in range(6)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        figures = service.ask("GET", "/metrics").body.decode()
        for name, value in {"shards": NUM_SHARDS, "shards_up": NUM_SHARDS, "replicas_up": 2 * NUM_SHARDS}.items():
            assert f'segmax_{name}{{index="docs"}} {value:.1f}' in figures
        assert service.stop() == 0
        assert "Traceback" not in service.log


def test_a_service_survives_its_actors(cluster: Any, path: Path, docs: Any, whole: segmax.Index) -> None:
    """With two replicas, answers stay complete and right while actors are killed."""
    queries = docs[200:240]
    with (
        served(address_of(path, cluster, replicas=2)) as service,
        segmax.connect(f"http://127.0.0.1:{service.port}") as index,
    ):
        for _ in range(3):
            os.kill(next(iter(actors())), signal.SIGKILL)
            same(index, whole, queries)


def test_shards_that_do_not_answer_in_time_are_reported(cluster: Any, path: Path, docs: Any) -> None:
    """The client raises what the index would raise; once actors answer again, so does the service."""
    with (
        served(address_of(path, cluster, deadline_s=0.5)) as service,
        segmax.connect(f"http://127.0.0.1:{service.port}", retries=0) as index,
    ):
        stopped = list(actors())
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            with refused(ShardsUnavailableError, message="gave no answer"):
                index.search(docs[0])
            answer = service.ask("POST", "/v1/indexes/docs/search", {"vector": {"indices": [1], "values": [1.0]}})
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")
            assert service.ask("GET", "/health").status == 200
        finally:
            for pid in stopped:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

        def answers() -> bool:
            try:
                return len(index.search(docs[0])) > 0
            except ShardsUnavailableError:
                return False

        eventually(answers)


def test_a_replaced_index_leaves_no_actors_behind(cluster: Any, docs: Any, whole: segmax.Index, tmp_path: Path) -> None:
    """The service opens what took the place of its index, and ends the actors of the old one."""
    place = tmp_path / "docs.sharded"
    build(docs[:500], place, shards=2)
    before = len(actors())
    with (
        served(address_of(place, cluster)) as service,
        segmax.connect(f"http://127.0.0.1:{service.port}") as index,
    ):
        assert (index.num_docs, len(actors()) - before) == (500, 2)
        build(docs, tmp_path / "new", shards=NUM_SHARDS)
        place.rename(tmp_path / "old")
        (tmp_path / "new").rename(place)
        eventually(lambda: index.num_docs == whole.num_docs, 60)
        same(index, whole, docs[:20])
        eventually(lambda: len(actors()) - before == NUM_SHARDS)


def run(*arguments: object, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """Run a command."""
    command = [sys.executable, "-m", "segmax.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)


def said(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The lines on standard error, without Ray's about a machine that has no network."""
    return [line for line in done.stderr.splitlines() if "network_util.cc" not in line]


def test_a_command_searches_on_a_cluster(
    cluster: Any, path: Path, docs: Any, whole: segmax.Index, tmp_path: Path
) -> None:
    """`segmax search ray://` prints the results of one index, and nothing of Ray's."""
    sp.save_npz(tmp_path / "queries.npz", docs[:5])
    done = run("search", address_of(path, cluster), tmp_path / "queries.npz", "--json", "-k", 7)
    assert (done.returncode, said(done)) == (0, [])
    found = [[hit["id"] for hit in json.loads(line)["hits"]] for line in done.stdout.splitlines()]
    assert found == [whole.search(docs[row], k=7).ids for row in range(5)]
    done = run("search", address_of(path.parent / "nothing", cluster), tmp_path / "queries.npz")
    assert done.returncode == 2
    assert len(said(done)) == 1
    assert "no sharded.json there" in said(done)[0]


def test_a_service_without_a_cluster_starts_one_and_ends_it(
    loopback: None, path: Path, docs: Any, whole: segmax.Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything that it started ends with it."""
    from ray_cluster import children, ray_processes

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    with serving(f"ray://{path}?address=local") as service:
        started = children(service.pid)
        assert set(actors()) & set(started)
        with segmax.connect(f"http://127.0.0.1:{service.port}") as index:
            same(index, whole, docs[:20])
        assert service.stop() == 0
    eventually(lambda: not set(started) & set(ray_processes()))
