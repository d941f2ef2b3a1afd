"""Hedged requests on a real cluster: one replica is slow, and hardly anybody notices."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from fake_shards import openings

from segmax.ray.fleet import Policy
from segmax.shards.transport import Call

pytest.importorskip("ray.cluster_utils", exc_type=ImportError)
pytestmark = pytest.mark.slow
pytest_plugins = ["ray_cluster"]

NUM_CALLS = 1500


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the process of the slow replica is named."""
    return tmp_path


def p99_ms(folder: Path, share: float, *, hedge: bool, late_replicas: int = 2) -> tuple[float, float]:
    """Make replicas late in a share of calls; return the 99th percentile of waiting, and requests per call."""
    from segmax.ray.transport import RayTransport

    transport: Any = RayTransport(openings(1, folder=folder), replicas=2, policy=Policy(hedge=hedge))
    try:
        for slot in transport.pool.slots[:late_replicas]:
            (folder / str(slot.report.pid)).touch()
        seconds = []
        for _ in range(NUM_CALLS):
            began = time.perf_counter()
            assert transport.ask([Call(0, "sometimes_late", (share,))]) == [0]
            seconds.append(time.perf_counter() - began)
        shard = transport.status().shards[0]
        assert shard.calls == NUM_CALLS
        return 1e3 * sorted(seconds)[int(0.99 * NUM_CALLS)], (shard.calls + shard.hedges) / shard.calls
    finally:
        transport.close()


def test_replicas_that_are_sometimes_late(cluster: Any, folder: Path) -> None:
    """Hedges bring the 99th percentile down, for at most 5 % more requests."""
    without, one = p99_ms(folder, 0.025, hedge=False)
    with_hedges, more = p99_ms(folder, 0.025, hedge=True)
    assert without > 100
    assert with_hedges < 60
    assert one == 1
    assert 1 < more <= 1.05


def test_a_replica_that_is_always_late(cluster: Any, folder: Path) -> None:
    """It gets few calls: the other one is less loaded, as slowness counts as load."""
    late, more = p99_ms(folder, 1.0, hedge=True, late_replicas=1)
    assert late < 60
    assert more <= 1.05
