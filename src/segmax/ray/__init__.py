"""An index on many machines: built and searched on Ray, which `segmax[ray]` installs.

`segmax.ray.build` and `segmax.ray.open` are the way in. Importing this needs no Ray.
"""

from typing import TYPE_CHECKING

from segmax.base.optional import on_demand

if TYPE_CHECKING:
    from segmax.ray.building import build
    from segmax.ray.opening import RayIndex, open

__all__ = ["RayIndex", "build", "open"]

__getattr__ = on_demand(__name__, {"building": "build", "opening": "RayIndex open"})
