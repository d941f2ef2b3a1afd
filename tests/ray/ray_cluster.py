"""A real Ray cluster of several simulated nodes, on the loopback device of a network namespace.

A module that uses it says `pytest_plugins = ["ray_cluster"]`. Run these tests with `make test-ray`: Ray binds to the
machine's outer address where it finds one, so they are skipped where there is another network device than lo.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import socket
import struct
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

NUM_NODES = 3
NODE = {"num_cpus": 2, "object_store_memory": 80 * 2**20}
_GET_FLAGS, _UP = 0x8913, 1  # SIOCGIFFLAGS and IFF_UP
_RAY = ("raylet", "gcs_server", "ray::", "/ray/")


def outer_devices() -> list[str]:
    """The network devices that are up, other than lo."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as some:

        def up(name: str) -> bool:
            asked = struct.pack("256s", name.encode()[:15])
            return bool(struct.unpack("H", fcntl.ioctl(some.fileno(), _GET_FLAGS, asked)[16:18])[0] & _UP)

        return [name for _, name in socket.if_nameindex() if name != "lo" and up(name)]


def ray_processes() -> dict[int, str]:
    """The processes of Ray in our network namespace, with their command lines."""
    ours = Path("/proc/self/ns/net").readlink()
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and int(folder.name) != os.getpid():
            with contextlib.suppress(OSError):
                line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                if (folder / "ns" / "net").readlink() == ours and any(name in line for name in _RAY):
                    found[int(folder.name)] = line
    return found


class SimulatedCluster:
    """A head with its driver, and other nodes that can be killed and replaced, all on this machine."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        head = {**NODE, "include_dashboard": False}
        self._cluster = Cluster(initialize_head=True, head_node_args=head, shutdown_at_exit=False)
        self.restore()

    @property
    def address(self) -> str:
        """Where drivers connect."""
        return str(self._cluster.address)

    @property
    def nodes(self) -> list[Any]:
        """All nodes but the head, which cannot be killed: the driver lives there."""
        return sorted(self._cluster.worker_nodes, key=lambda node: node.node_id)

    def restore(self) -> None:
        """Start as many nodes as are missing."""
        for _ in range(NUM_NODES - 1 - len(self._cluster.worker_nodes)):
            self._cluster.add_node(**NODE)

    def kill(self, node: Any) -> None:
        """Kill everything on a node at once, as a power loss would."""
        pids = [each.process.pid for kind in node.all_processes.values() for each in kind]
        for pid in [*(pid for parent in pids for pid in children(parent)), *pids]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._cluster.remove_node(node, allow_graceful=False)

    def shutdown(self) -> None:
        """End all nodes."""
        self._cluster.shutdown()


def children(parent: int) -> list[int]:
    """The processes that a process has started, and those that they have started."""
    found = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{parent}/task").iterdir():
            for pid in map(int, (task / "children").read_text().split()):
                found += [pid, *children(pid)]
    return found


@pytest.fixture(scope="session")
def loopback() -> None:
    """Skips where Ray would bind to an address that others can reach."""
    pytest.importorskip("ray.cluster_utils", exc_type=ImportError)
    if devices := outer_devices():
        pytest.skip(
            f"Ray would bind to the address of {devices[0]}: use make test-ray, or .ci/loopback python -m pytest"
        )


@pytest.fixture(scope="session")
def cluster_for_all(loopback: None) -> Iterator[SimulatedCluster]:
    """The cluster of the whole session, and the check that nothing of it is left."""
    with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as stack:
        folder = tempfile.mkdtemp(prefix="ray", dir="/tmp")  # paths of sockets must be short
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        patch.setenv("RAY_TMPDIR", folder)
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        # Actors import what tests define.
        patch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]))
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        cluster = SimulatedCluster()
        try:
            yield cluster
        finally:
            cluster.shutdown()
        check_nothing_is_left()


def check_nothing_is_left() -> None:
    """Wait for the processes of Ray to end; kill those that do not, and fail."""
    end = time.monotonic() + 15
    while (left := ray_processes()) and time.monotonic() < end:
        time.sleep(0.1)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert not left, f"processes were left running: {left}"


@pytest.fixture(scope="session")
def driver(cluster_for_all: SimulatedCluster) -> Iterator[None]:
    """Connects this process to the cluster, as a driver."""
    import ray

    ray.init(address=cluster_for_all.address, log_to_driver=False, logging_level="ERROR")
    yield
    ray.shutdown()


@pytest.fixture
def cluster(cluster_for_all: SimulatedCluster, driver: None) -> SimulatedCluster:
    """The cluster with all of its nodes; this process is connected to it."""
    cluster_for_all.restore()
    return cluster_for_all
