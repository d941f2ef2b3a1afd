"""Without a cluster, opening an index starts Ray on this machine, and takes it along in the end."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ray_helpers import eventually

from conftest import topic_docs
from segmax.shards.making.building import build

pytest.importorskip("ray.cluster_utils", exc_type=ImportError)
pytestmark = pytest.mark.slow
pytest_plugins = ["ray_cluster"]

BEGIN = """
    import sys
    import ray
    import segmax.ray
    from segmax.shards.opening import open_local
    index = segmax.ray.open(sys.argv[1])
    print(index.search({3: 1.0}).ids == open_local(sys.argv[1]).search({3: 1.0}).ids)
"""
CLOSED = """
    other = segmax.ray.open(sys.argv[1])
    index.close()
    print(ray.is_initialized(), len(other.search({3: 1.0})))
    other.close()
    print(ray.is_initialized())
"""
FORGOTTEN = "    print(index.status().complete)\n"
SHUT_DOWN = """
    ray.shutdown()
    try:
        index.search({3: 1.0}, deadline_s=0.5)
    except segmax.errors.ShardsUnavailableError as error:
        print(str(error).startswith("Ray is not connected"))
    print(ray.is_initialized())
    index.close()
"""


@pytest.fixture
def path(tmp_path: Path, loopback: None) -> Path:
    """A sharded index."""
    build(topic_docs(np.random.default_rng(1), 500)[0], tmp_path / "index", shards=2)
    return tmp_path / "index"


@pytest.fixture
def own_ray() -> Iterator[dict[str, str]]:
    """The environment of a program that knows of no cluster; nothing of its Ray is left in the end."""
    with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp", ignore_cleanup_errors=True) as folder:
        yield {**os.environ, "RAY_TMPDIR": folder, "RAY_USAGE_STATS_ENABLED": "0"}
        eventually(lambda: not any(folder in line for line in command_lines()), 15)


def command_lines() -> list[str]:
    """Those of all processes of Ray."""
    from ray_cluster import ray_processes

    return list(ray_processes().values())


@pytest.mark.parametrize(
    ("end", "printed"),
    [
        (CLOSED, ["True", "True 10", "False"]),
        (FORGOTTEN, ["True", "True"]),
        (SHUT_DOWN, ["True", "True", "False"]),
    ],
    ids=["closed", "forgotten", "shut down"],
)
def test_ray_on_this_machine(path: Path, own_ray: dict[str, str], end: str, printed: list[str]) -> None:
    """It ends with the last index that uses it, or with the program; a program may also end it too early."""
    script = textwrap.dedent(BEGIN + end)
    done: Any = subprocess.run(
        [sys.executable, "-c", script, path], env=own_ray, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:-1] == printed
    assert "Traceback" not in done.stderr
