"""Opening a sharded index on a Ray cluster."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Mapping

from segmax.base.checks import checked_bool, checked_int, checked_number
from segmax.base.errors import ConfigError
from segmax.ray.connecting import connect
from segmax.ray.fleet import Policy
from segmax.ray.pool import ActorOptions
from segmax.ray.status import Status
from segmax.ray.transport import RayTransport
from segmax.shards.addresses import is_address
from segmax.shards.manifest import Manifest
from segmax.shards.opening import ShardOpening, open_with, read_manifest
from segmax.shards.sharded import Parts, ShardedIndex
from segmax.shards.storage import Storage, open_storage
from segmax.shards.transport import Transport

MOST_REPLICAS = 64
MOST_THREADS = 256


class RayIndex(ShardedIndex):
    """An index whose shards are actors on the nodes of a Ray cluster; `segmax.ray.open` returns one.

    It has the methods of `ShardedIndex`, which are those of an `Index`. Close it, or use it in a `with` block: its
    actors hold memory of the cluster. They also end with the process that opened the index.

    Examples
    --------
    >>> import segmax.ray
    >>> with segmax.ray.open("docs.sharded", replicas=2) as index:  # doctest: +SKIP
    ...     hits = index.search({3: 1.5, 8: 0.5}, k=10)
    ...     print(index.status().complete)
    True
    """

    def __init__(
        self, parts: Parts, *, release: Callable[[], None], deadline_s: float | None, allow_partial: bool
    ) -> None:
        super().__init__(parts, deadline_s=deadline_s, allow_partial=allow_partial)
        self._release = release
        # An index that nobody uses anymore ends its actors, too: a service that replaced it relies on that.
        self._unused = weakref.finalize(self, _let_go_of, parts.transport, release)
        self._unused.atexit = False

    def status(self) -> Status:
        """Return which replicas serve, how often they were started again, and what calls took.

        Examples
        --------
        >>> for shard in index.status().shards:  # doctest: +SKIP
        ...     print(shard.shard, [replica.state for replica in shard.replicas], shard.calls, shard.hedges)
        0 ['up', 'up'] 1204 31
        1 ['up', 'up'] 1187 29
        """
        transport = self._parts.transport
        assert isinstance(transport, RayTransport)
        return transport.status()

    def close(self) -> None:
        """End the actors, and the connection to Ray if opening the index made it. Closing twice is fine."""
        self._unused.detach()
        super().close()
        self._release()


def _let_go_of(transport: Transport, release: Callable[[], None]) -> None:
    """End actors and connection on another thread: the last reference may have been in an event loop."""

    def let_go() -> None:
        transport.close()
        release()

    threading.Thread(target=let_go, name="segmax-ray-close", daemon=True).start()


def open(
    path: str | os.PathLike[str],
    *,
    replicas: int = 1,
    address: str | None = None,
    deadline_s: float = 30.0,
    allow_partial: bool = False,
    hedge: bool = True,
    num_cpus: float = 0.01,
    threads: int = 4,
    resources: Mapping[str, float] | None = None,
    cache: str | os.PathLike[str] | None = None,
    preload: bool = True,
    encoder: object = None,
    start_s: float = 600.0,
) -> RayIndex:
    """Open a sharded index on a Ray cluster, every shard in actors of its own.

    Actors are spread over the nodes, the replicas of a shard on different ones. Every actor verifies its shard before
    it serves. One that dies, or whose node does, is replaced on a node that responds. Until then other replicas answer
    its calls; where there are none, a search waits for the replacement until its deadline.

    Parameters
    ----------
    path
        The folder that `segmax.ray.build` wrote, which all nodes see, or an address of fsspec.
    replicas
        How many actors every shard has. With two or more, searches go on while a node is away, and a replica that is
        late is helped by another.
    address
        The address of the Ray cluster. By default the one that this process is connected to, or one that Ray finds, or
        else one that is started on this machine, for as long as the index is open.
    deadline_s
        How many seconds a search may take, unless it says otherwise.
    allow_partial
        Return what there is when shards give no answer, rather than raise ShardsUnavailableError: `hits.complete` is
        False then, and `hits.routing.missing_share` is the share of documents that was not searched. Searches do not
        wait for shards that have no replica.
    hedge
        Ask a second replica when the first takes longer than 95 % of recent answers did. That is at most 5 % more
        requests; the answer that comes first counts.
    num_cpus
        How many processors Ray reserves for an actor. The default reserves next to none, so that many actors fit on a
        small machine.
    threads
        How many calls an actor answers at the same time.
    resources
        What else of Ray's resources an actor reserves: a way to choose its nodes.
    cache
        A folder on the nodes, for copies of shards. A shard that is there already is verified, not copied. By default
        shards are read where they lie, which needs a folder that all nodes see.
    preload
        Read shards into memory, where searches are faster by some percent, rather than map their files.
    encoder
        As for `segmax.open`.
    start_s
        How many seconds the actors may take to copy, verify and open the shards.

    Returns
    -------
    RayIndex
        With the methods of an index.

    Raises
    ------
    IndexNotFoundError
        There is no sharded index at the path.
    FormatError
        The index is damaged; the message names the shard, the file and the node.
    ShardsUnavailableError
        Not all actors can be started: nodes have other versions of segmax, Python or Ray, no room for a copy, or do not
        respond.
    MissingPackageError
        Ray is not installed.

    Examples
    --------
    >>> import segmax.ray
    >>> index = segmax.ray.open("docs.sharded", replicas=2, address="auto")  # doctest: +SKIP
    >>> hits = index.search({3: 1.5, 8: 0.5}, k=10, deadline_s=0.2)  # doctest: +SKIP
    """
    options = ActorOptions(
        num_cpus=_positive("num_cpus", num_cpus, zero=True),
        threads=checked_int("threads", threads, 1, MOST_THREADS),
        resources=dict(resources or {}),
    )
    replicas = checked_int("replicas", replicas, 1, MOST_REPLICAS)
    for name, value in (("allow_partial", allow_partial), ("hedge", hedge), ("preload", preload)):
        checked_bool(name, value)
    deadline_s, start_s = _positive("deadline_s", deadline_s), _positive("start_s", start_s)
    storage = open_storage(path)
    folder = _checked_cache(storage, cache)

    def transport(manifest: Manifest) -> RayTransport:
        numbers = range(len(manifest.shards))
        openings = [ShardOpening(storage, number, manifest, folder, True, preload) for number in numbers]
        policy = Policy(hedge=hedge, per_replica=threads + 1)
        return RayTransport(
            openings, replicas=replicas, deadline_s=deadline_s, policy=policy, options=options, start_s=start_s
        )

    read_manifest(storage)  # before Ray starts: a wrong path is known at once
    release = connect(address)
    try:
        return open_with(
            storage, transport, RayIndex, encoder, release=release, deadline_s=deadline_s, allow_partial=allow_partial
        )
    except BaseException:
        release()
        raise


def _positive(option: str, value: object, *, zero: bool = False) -> float:
    number = checked_number(option, value)
    if not (number > 0 or (zero and number == 0)):
        raise ConfigError(option=option, expected="at least 0" if zero else "greater than 0", got=value)
    return number


def _checked_cache(storage: Storage, cache: str | os.PathLike[str] | None) -> str | None:
    if cache is None and is_address(storage.address):
        expected = "a folder of the nodes, because the index is at an address"
        raise ConfigError(option="cache", expected=expected, got="None")
    return None if cache is None else os.fspath(cache)
