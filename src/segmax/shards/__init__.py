"""One index cut into shards: how it lies on disk, which shards a query asks, and how their answers become one."""

from typing import TYPE_CHECKING

from segmax.base.optional import on_demand

if TYPE_CHECKING:
    from segmax.shards.making.building import build
    from segmax.shards.opening import open_local
    from segmax.shards.sharded import ShardedIndex

__all__ = ["ShardedIndex", "build", "open_local"]

__getattr__ = on_demand(__name__, {"making.building": "build", "opening": "open_local", "sharded": "ShardedIndex"})
