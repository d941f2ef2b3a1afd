"""Where replicas go, without a cluster."""

from __future__ import annotations

import socket
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from segmax.ray.nodes import Nodes
from segmax.ray.placing import Node, chosen_node

NODES = [Node("a", 2.0), Node("b", 2.0), Node("c", 2.0)]


@pytest.mark.parametrize("num_shards", [1, 2, 3, 4, 5, 6, 12])
def test_replicas_are_spread(num_shards: int) -> None:
    """Every node gets as many, and those of one shard are on different nodes."""
    placed: Counter[str] = Counter()
    of_shard: dict[int, list[str]] = {}
    for shard in [*range(num_shards), *range(num_shards)]:
        own = of_shard.setdefault(shard, [])
        node = chosen_node(NODES, placed, siblings=own, avoided=(), num_cpus=0.01)
        assert node is not None
        own.append(node)
        placed[node] += 1
    assert all(len(set(own)) == 2 for own in of_shard.values())
    assert max(placed.values()) <= -(-2 * num_shards // len(NODES))


@pytest.mark.parametrize(
    ("siblings", "avoided", "num_cpus", "expected"),
    [
        ("", "", 0.5, "c"),
        ("c", "", 0.5, "b"),
        ("bc", "", 0.5, "a"),
        ("abc", "", 0.5, "c"),
        ("", "c", 0.5, "b"),
        ("ab", "c", 0.5, "b"),
        ("", "abc", 0.5, "c"),
        ("", "", 0.9, "b"),
        ("", "", 1.5, None),
        ("", "", 0.0, "c"),
    ],
)
def test_the_order_of_reasons(siblings: str, avoided: str, num_cpus: float, expected: str | None) -> None:
    """First a node that has room and responds, then one without a sibling, then the emptiest."""
    nodes = [Node("a", 2.0), Node("b", 2.0), Node("c", 1.0)]
    placed = {"a": 2, "b": 1, "c": 0 if num_cpus < 0.9 else 1}
    assert chosen_node(nodes, placed, siblings=siblings, avoided=avoided, num_cpus=num_cpus) == expected


@pytest.fixture
def listening() -> Any:
    """A port that accepts connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def refusing() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def cluster_of(**ports: int) -> Any:
    """What Ray says of nodes, all of which it believes to be alive, but for those at port 0."""
    nodes = [
        {
            "NodeID": name,
            "Alive": port != 0,
            "Resources": {"CPU": 2.0},
            "NodeManagerAddress": "127.0.0.1",
            "NodeManagerPort": port,
        }
        for name, port in ports.items()
    ]
    return SimpleNamespace(nodes=lambda: nodes)


def test_a_node_that_refuses_connections_is_avoided(listening: int, refusing: int) -> None:
    """Long before Ray declares it dead; after a while it gets another chance."""
    nodes = Nodes(cluster_of(dead=0, gone=refusing, there=listening), 0.01)
    assert nodes.ids() == {"gone", "there"}
    assert nodes.choose({"there": 5}, siblings=(), refused=(), now=100.0) == "there"
    assert nodes.suspected_since("gone", 99.0)
    assert not nodes.suspected_since("there", 0.0)
    assert (nodes.accepts("there"), nodes.accepts("gone"), nodes.accepts("dead")) == (True, False, False)
    assert nodes.choose({"there": 5}, siblings=(), refused=("there",), now=120.0) == "gone"
    assert nodes.choose({"gone": 5}, siblings=(), refused=(), now=140.0) == "there"


def test_without_nodes() -> None:
    """Ray may know better."""
    assert Nodes(cluster_of(), 0.01).choose({}, siblings=(), refused=(), now=0.0) is None
