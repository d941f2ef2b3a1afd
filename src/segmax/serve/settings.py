"""What a service is started with: what it serves, to whom, and within which limits."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from segmax.base.checks import checked_int, checked_number
from segmax.base.errors import ConfigError
from segmax.base.system import CAN_RUN_WORKERS, num_cores
from segmax.ray.address import is_ray_address, parse_ray_address
from segmax.serve.security import HostCheck, Keys

_MIB = 1 << 20


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limits:
    """What a request may ask for. Every limit that is exceeded is answered with a status 4xx that names it.

    Parameters
    ----------
    body_bytes
        The size of a request, except for streams of documents.
    line_bytes
        The size of a line in a stream of documents.
    text_chars
        The length of a text to search for.
    terms
        Terms of a query, and members of a filter.
    k
        Results of a search: k + offset, and k x group_size.
    batch
        Queries of a batch, texts to encode, ids to look up.
    batch_results
        Results of a whole batch: the sum of k + offset.
    answer_bytes
        The size of an answer, except to streams of documents.
    unread_bytes
        The size of all answers together that a worker makes or keeps until clients have read them. A request whose
        answer finds no room is answered 503, and a stream is read no further.
    connections
        Open connections, in each worker.
    header_bytes
        The size of a request's head.
    header_seconds
        How long a request's head may take to arrive.
    body_seconds
        How long a request's body may take to arrive; in a stream, the longest pause.
    wait_ms
        How long a search may be expected to wait for others before it is refused. A few may always wait.

    Examples
    --------
    >>> Limits(k=100).k
    100
    """

    body_bytes: int = 16 * _MIB
    line_bytes: int = 4 * _MIB
    text_chars: int = 20_000
    terms: int = 4096
    k: int = 10_000
    batch: int = 1024
    batch_results: int = 200_000
    answer_bytes: int = 64 * _MIB
    unread_bytes: int = 256 * _MIB
    connections: int = 1000
    header_bytes: int = 32 << 10
    header_seconds: float = 10.0
    body_seconds: float = 30.0
    wait_ms: float = 2.0

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(field.default, int):
                checked_int(field.name, value, 1)
            elif not checked_number(field.name, value) > 0:
                raise ConfigError(option=field.name, expected="greater than 0", got=value)
        if self.unread_bytes < self.answer_bytes:
            expected = f"at least {{answer_bytes}}, which is {self.answer_bytes:,}"
            raise ConfigError(option="unread_bytes", expected=expected, got=self.unread_bytes)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """How to serve.

    Parameters
    ----------
    paths
        Folders of indexes and collections, by the name under which they are served; or addresses of sharded indexes, as
        `segmax.ray.address` takes them.
    encoders
        What encodes texts, by the same names: as `segmax.open` takes it.
    writable
        Whether requests may change collections.
    snapshots
        The folder for copies of collections; None: there are none.
    keys
        Who may read and write; None: everybody who can reach the port.
    hosts
        Which names a request may address the service by.
    threads
        Threads that search a batch, in each worker; None: the cores, shared among the workers.
    workers
        How many processes answer requests.
    access_log
        Whether to log every request, without what was searched for.
    limits
        What a request may ask for.

    Examples
    --------
    >>> from segmax.serve.settings import Settings
    >>> Settings(paths={"docs": Path("docs.segmax")}).writable
    False
    """

    paths: Mapping[str, Path | str]
    encoders: Mapping[str, object] = dataclasses.field(default_factory=dict)
    writable: bool = False
    snapshots: Path | None = None
    keys: Keys | None = None
    hosts: HostCheck = dataclasses.field(default_factory=HostCheck)
    threads: int | None = None
    workers: int = 1
    access_log: bool = False
    limits: Limits = dataclasses.field(default_factory=Limits)

    def __post_init__(self) -> None:
        checked_int("workers", self.workers, 1, 1024)
        if self.workers > 1 and not CAN_RUN_WORKERS:
            raise ConfigError(
                option="workers",
                expected="1, because several processes behind one port need Linux",
                got=self.workers,
                hint="leave it out: one worker searches with all cores, or as many as {threads}",
            )
        if self.workers > 1 and any(is_ray_address(path) for path in self.paths.values()):
            expected = "1 with an index on Ray, because every worker would start its own actors"
            raise ConfigError(option="workers", expected=expected, got=self.workers)
        if self.threads is not None:
            checked_int("threads", self.threads, 1, 1024)
        for name in self.encoders:
            if name not in self.paths:
                raise ConfigError(
                    option="encoder", expected=f"for one of {', '.join(self.paths)}", got=f"one for {name!r}"
                )

    @property
    def num_threads(self) -> int:
        """Threads that search a batch, in each worker."""
        return max(1, num_cores() // self.workers) if self.threads is None else self.threads


def name_of(path: str | Path) -> str:
    """Return the name under which a folder is served: the last part of its path, without `.segmax`.

    Examples
    --------
    >>> name_of("data/docs.segmax"), name_of("ray:///data/docs.sharded?replicas=2")
    ('docs', 'docs')
    """
    if isinstance(path, str) and is_ray_address(path):
        return parse_ray_address(path).name
    last = Path(path).absolute().name
    return last.removesuffix(".segmax") or last
