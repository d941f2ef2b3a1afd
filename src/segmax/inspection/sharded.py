"""What is in a sharded index: its shards, and how many of them searches ask."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from segmax.base.display import counted, printable, size_text
from segmax.base.text_table import Column, tables
from segmax.shards.manifest import ShardEntry
from segmax.shards.routed import RoutingTable
from segmax.shards.sharded import ShardedIndex

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType

_HASH_SHOWN = 12  # characters


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardedSummary:
    """What is in a sharded index, as `inspect` returns it. Print it with rich, or call `to_dict`.

    Examples
    --------
    >>> import scipy.sparse as sp, segmax, segmax.shards, tempfile
    >>> path = f"{tempfile.mkdtemp()}/docs.sharded"
    >>> _ = segmax.shards.build(sp.csr_matrix([[1, 0], [0, 2], [3, 1]]), path, shards=2, sharding="rows")
    >>> from segmax.shards.opening import open_described
    >>> [shard.num_docs for shard in segmax.inspect(open_described(path)).shards]
    [2, 1]
    """

    address: str
    num_docs: int
    num_terms: int
    num_postings: int
    num_bytes: int
    bits: int
    sharding: str
    shards: tuple[ShardEntry, ...]
    routing: RoutingTable  #: what the build measured about asking some of the shards only

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as `segmax inspect --json` prints them."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        shards = [dataclasses.asdict(shard) for shard in self.shards]
        return {**values, "shards": shards, "routing": self.routing.to_dict()}

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        from rich.text import Text

        width = options.max_width
        yield Text(f"segmax sharded index {printable(self.address)}", style="bold", overflow="fold", end="\n\n")
        words = [
            f"{counted(self.num_docs, 'document')}, {counted(self.num_terms, 'term')}, "
            f"{counted(self.num_postings, 'posting')}, {self.bits} bits, {size_text(self.num_bytes)}",
            f"{counted(len(self.shards), 'shard')} by {self.sharding}",
        ]
        if self.routing.asked is not None:
            words.append(f"an exact search asks {self.routing.asked:.0%} of the shards, on average")
        yield Text("\n".join(words), overflow="fold")
        yield Text("\nShards", style="bold")
        yield from tables([self._shard_columns()], width)
        if self.routing.recall:
            yield Text("\nRecall to expect", style="bold")
            yield from tables([self._recall_columns()], width)

    def _shard_columns(self) -> list[Column]:
        figures = ("num_docs", "num_postings", "num_clusters")
        columns = [Column(heading="shard", cells=[str(number) for number in range(len(self.shards))], words=True)]
        columns += [
            Column(heading=name.removeprefix("num_"), cells=[f"{getattr(shard, name):,}" for shard in self.shards])
            for name in figures
        ]
        columns.append(Column(heading="size", cells=[size_text(shard.num_bytes) for shard in self.shards]))
        return [*columns, Column(heading="hash", cells=[shard.hash[:_HASH_SHOWN] for shard in self.shards])]

    def _recall_columns(self) -> list[Column]:
        """Return the recall by max_shards: 1, 2, 4, 8, ... and all."""
        counts = [count for count in _powers_of_two(len(self.shards)) if self.routing.expected(count) is not None]
        return [
            Column(heading="max_shards", cells=[str(count) for count in counts], words=True),
            Column(heading="recall@10", cells=[f"{self.routing.expected(count):.3f}" for count in counts]),
        ]


def _powers_of_two(most: int) -> Iterator[int]:
    count = 1
    while count < most:
        yield count
        count *= 2
    yield most


def sharded_summary(index: ShardedIndex) -> ShardedSummary:
    """Return what is in a sharded index, without asking its shards."""
    manifest = index._parts.manifest
    return ShardedSummary(
        address=index._parts.address,
        num_docs=index.num_docs,
        num_terms=index.num_terms,
        num_postings=index.num_postings,
        num_bytes=index.num_bytes,
        bits=index.bits,
        sharding=manifest.sharding,
        shards=index.shards,
        routing=index.routing,
    )
