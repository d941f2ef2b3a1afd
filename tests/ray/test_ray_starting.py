"""Opening shards on nodes: what can go wrong there, and what the errors say."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
from fake_shards import FakeOpening, FileOpening, OldOpening, UnknownOpening, openings
from ray_helpers import all_up, eventually

import segmax
from conftest import refused
from segmax.errors import FormatError, IndexClosedError, ShardsUnavailableError
from segmax.shards.transport import Call

pytest.importorskip("ray.cluster_utils", exc_type=ImportError)
pytestmark = pytest.mark.slow
pytest_plugins = ["ray_cluster"]

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/cache/shard")


def transport_of(*opens: Any, **options: Any) -> Any:
    """A transport that gives up soon."""
    from segmax.ray.transport import RayTransport

    return RayTransport(opens, start_s=60, **options)


def num_actors() -> int:
    """How many processes of actors there are."""
    from ray_cluster import ray_processes

    return sum(line.startswith("ray::ShardActor") for line in ray_processes().values())


def test_a_damaged_shard(cluster: Any) -> None:
    """The error is that of the shard, with its number and its node; the other actors are gone."""
    broken = FakeOpening(1, FormatError("the index '/data/x' is damaged: docs.bin has a wrong checksum"))
    with refused(FormatError, where=r"^shard 1, replica \d on node 127\.0\.0\.1$", message="docs.bin has a wrong"):
        transport_of(FakeOpening(0), broken, replicas=2)
    eventually(lambda: num_actors() == 0)


def test_a_node_without_room(cluster: Any) -> None:
    """Another node opens the shard; if none can, the error says why."""
    import ray

    nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
    transport = transport_of(FakeOpening(0, FULL, only=(nodes[-1],)), replicas=2)
    try:
        assert transport.ask([Call(0, "number", ())]) == [0]
        assert {slot.replica.node for slot in transport.pool.slots} == {nodes[-1]}
    finally:
        transport.close()
    with refused(
        ShardsUnavailableError, where="^shard 0, replica 0 on node 127", message="No space left.*'/cache/shard'"
    ):
        transport_of(FakeOpening(0, FULL))


def test_other_versions(cluster: Any) -> None:
    """A node with another segmax is refused: both versions are named."""
    with refused(
        ShardsUnavailableError,
        where="^shard 0",
        expected=f"segmax {re.escape(segmax.__version__)}, Python",
        got=r"segmax 0\.0\.9, Python",
    ):
        transport_of(OldOpening(0))


def test_a_node_without_segmax(cluster: Any) -> None:
    """Nobody tries again and again what cannot work."""
    with refused(
        ShardsUnavailableError, message=r"shard 0.*cannot be created: .*No module named 'segmax'", hint="install"
    ):
        transport_of(UnknownOpening(0))


def test_a_cluster_without_room(cluster: Any) -> None:
    """Actors that reserve more than there is are not waited for forever."""
    from segmax.ray.pool import ActorOptions
    from segmax.ray.transport import RayTransport

    with refused(ShardsUnavailableError, message=r"is not ready after 3 s \(2 of 2 are not\)", hint="{num_cpus}"):
        RayTransport(openings(2), start_s=3, options=ActorOptions(num_cpus=100))


def test_closing_ends_the_actors(cluster: Any) -> None:
    """At once, and whoever asks afterwards learns that it is closed; closing twice does nothing."""
    transport = transport_of(*openings(2))
    assert num_actors() == 2
    transport.close()
    transport.close()
    with pytest.raises(IndexClosedError):
        transport.ask([Call(0, "number", ())])
    eventually(lambda: num_actors() == 0, 5)


def test_a_forgotten_transport_is_closed(cluster: Any) -> None:
    """Actors end when nobody can ask them any more."""
    transport = transport_of(*openings(2))
    assert transport.ask([Call(1, "number", ())]) == [1]
    del transport
    eventually(lambda: num_actors() == 0, 5)


def test_a_shard_that_cannot_be_opened_again(cluster: Any, tmp_path: Path) -> None:
    """While a shard is damaged, searches say so; once it is repaired, it serves again by itself."""
    from segmax.ray import pool

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool, "_HOPELESS_S", 1.0)
        good = tmp_path / "good"
        good.touch()
        transport = transport_of(FileOpening(0, folder=good))
        try:
            good.unlink()
            os.kill(transport.pool.slots[0].report.pid, signal.SIGKILL)
            eventually(lambda: "is damaged" in transport.status().shards[0].replicas[0].reason)
            assert not transport.status().complete
            with pytest.raises(ShardsUnavailableError, match="is damaged: it is gone"):
                transport.ask([Call(0, "number", ())], deadline=time.monotonic() + 0.5)
            good.touch()
            eventually(lambda: all_up(transport))
            assert transport.ask([Call(0, "number", ())]) == [0]
            assert transport.status().restarts >= 2
        finally:
            transport.close()


DRIVER = """
    import sys, ray
    sys.path.insert(0, sys.argv[2])
    from fake_shards import openings
    from segmax.ray.transport import Call, RayTransport
    ray.init(address=sys.argv[1], namespace="another", log_to_driver=False, logging_level="ERROR")
    transport = RayTransport(openings(2), replicas=1)
    print("ready", flush=True)
    input()
    for value in range(300):
        assert transport.ask([Call(shard, "square", (value,)) for shard in (0, 1)]) == [(0, value**2), (1, value**2)]
    print("done", flush=True)
"""


def test_two_drivers_at_once(cluster: Any) -> None:
    """Each has its own actors; the end of one, even without close, is no concern of the other."""
    script = textwrap.dedent(DRIVER)
    command = [sys.executable, "-c", script, cluster.address, str(Path(__file__).parent)]
    transport = transport_of(*openings(2))
    try:
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
            assert other.stdout is not None
            assert other.stdin is not None
            assert other.stdout.readline() == "ready\n"
            assert num_actors() == 4
            other.stdin.write("\n")
            other.stdin.flush()
            for value in range(300):
                asked = [Call(shard, "square", (value,)) for shard in (0, 1)]
                assert transport.ask(asked) == [(0, value**2), (1, value**2)]
            assert other.stdout.read() == "done\n"
        assert other.returncode == 0
        eventually(lambda: num_actors() == 2)
        assert all_up(transport)
        assert transport.status().restarts == 0
    finally:
        transport.close()
