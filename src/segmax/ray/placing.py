"""On which node a replica goes. No Ray in here."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple


class Node(NamedTuple):
    """A node that is alive."""

    id: str
    num_cpus: float


def chosen_node(
    nodes: Sequence[Node],
    placed: Mapping[str, int],
    *,
    siblings: Container[str],
    avoided: Container[str],
    num_cpus: float,
) -> str | None:
    """Return the node for one more replica, None where Ray should choose because no node has room by our own count.

    Replicas of one shard go to different nodes where possible, then to the node with the fewest replicas.

    Parameters
    ----------
    nodes
        The nodes that are alive.
    placed
        How many replicas of this index each node has.
    siblings
        The nodes that have a replica of the same shard.
    avoided
        Nodes that did not respond lately or refused this replica: used only if there are no others.
    num_cpus
        How many CPUs a replica reserves.
    """
    ordered = sorted(nodes)
    last = max((place for place, node in enumerate(ordered) if node.id in siblings), default=-1)

    def reasons(place: int) -> tuple[bool, bool, int, int]:
        node = ordered[place].id
        # In a circle from the last sibling on: greedy choices in the order of names would crowd the first nodes.
        return node in avoided, node in siblings, placed.get(node, 0), (place - last - 1) % len(ordered)

    roomy = [place for place, node in enumerate(ordered) if node.num_cpus >= (placed.get(node.id, 0) + 1) * num_cpus]
    return ordered[min(roomy, key=reasons)].id if roomy else None
