"""The nodes of a cluster: which are there, which do not respond, and which one gets a replica."""

from __future__ import annotations

import math
import socket
from collections.abc import Container, Mapping
from typing import Any

from segmax.ray.placing import Node, chosen_node

#: How long a node that stopped responding is avoided: Ray needs about 15 s to find out by itself.
_AVOID_S = 30.0
#: How long a node may take to accept a connection.
_CONNECT_S = 1.0


class Nodes:
    """Chooses nodes, and remembers for a while which of them did not respond.

    Parameters
    ----------
    ray
        The package.
    num_cpus
        How many CPUs a replica reserves.
    """

    def __init__(self, ray: Any, num_cpus: float) -> None:
        self._ray = ray
        self._num_cpus = num_cpus
        self._suspected: dict[str, float] = {}

    def ids(self) -> set[str]:
        """Return the nodes that Ray believes to be alive."""
        return {node["NodeID"] for node in self._alive()}

    def suspect(self, node: str, now: float) -> None:
        """Avoid a node for a while."""
        if node:
            self._suspected[node] = now

    def suspected_since(self, node: str, moment: float) -> bool:
        """Return whether a node was found not to respond after a moment."""
        return self._suspected.get(node, -math.inf) > moment

    def choose(
        self, placed: Mapping[str, int], *, siblings: Container[str], refused: Container[str], now: float
    ) -> str | None:
        """Return a node for one more replica, which accepts connections; None where Ray should choose.

        Parameters are those of `chosen_node`; `refused` are the nodes that could not open this replica's shard.
        """
        nodes = {node["NodeID"]: node for node in self._alive()}
        for _ in range(len(nodes)):
            avoided = {node for node in nodes if node in refused or self.suspected_since(node, now - _AVOID_S)}
            known = [Node(node, nodes[node]["Resources"].get("CPU", 0.0)) for node in nodes]
            found = chosen_node(known, placed, siblings=siblings, avoided=avoided, num_cpus=self._num_cpus)
            if found is None or found in avoided or _accepts(nodes[found]):
                return found
            self.suspect(found, now)
        return None

    def accepts(self, node: str) -> bool:
        """Return whether a node accepts connections."""
        return any(_accepts(each) for each in self._alive() if each["NodeID"] == node)

    def _alive(self) -> list[dict[str, Any]]:
        return [node for node in self._ray.nodes() if node["Alive"]]


def _accepts(node: Mapping[str, Any]) -> bool:
    """Return whether Ray on a node accepts a connection: where it does not run any more, the system refuses at once."""
    try:
        with socket.create_connection((node["NodeManagerAddress"], node["NodeManagerPort"]), timeout=_CONNECT_S):
            return True
    except OSError:
        return False
