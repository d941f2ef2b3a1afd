"""What is chosen when an index is built; stored with it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from segmax.errors import ConfigError

_DOCS_PER_CLUSTER = 1024


@dataclasses.dataclass(frozen=True, kw_only=True)
class BuildConfig:
    """Options of `segmax.build`.

    ==============  =======  ==============================================================
    option          default  meaning
    ==============  =======  ==============================================================
    num_clusters    None     how many clusters k-means makes; None: about 1,024 documents each
    num_segments    8        random parts of a cluster whose term maxima are kept
    bits            8        bits per stored weight: 8 or 16
    seed            0        of clusters and segments; the same seed gives the same index
    ==============  =======  ==============================================================

    Examples
    --------
    >>> BuildConfig(num_clusters=512, num_segments=16)
    BuildConfig(num_clusters=512, num_segments=16, bits=8, seed=0)
    """

    num_clusters: int | None = None
    num_segments: int = 8
    bits: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        if self.num_clusters is not None and self.num_clusters < 1:
            msg = f"expected num_clusters >= 1 or None, got {self.num_clusters}"
            raise ConfigError(msg)
        if not 1 <= self.num_segments <= 65535:
            msg = f"expected num_segments between 1 and 65535, got {self.num_segments}"
            raise ConfigError(msg)
        if self.bits not in (8, 16):
            msg = f"expected bits to be 8 or 16, got {self.bits}"
            raise ConfigError(msg)
        if self.seed < 0:
            msg = f"expected seed >= 0, got {self.seed}"
            raise ConfigError(msg)

    def clusters_for(self, num_docs: int) -> int:
        """Return the number of clusters for a collection of this size."""
        wanted = self.num_clusters or max(1, round(num_docs / _DOCS_PER_CLUSTER))
        return min(wanted, num_docs)

    def to_dict(self) -> dict[str, Any]:
        """Return the options as plain values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> BuildConfig:
        """Make a configuration from plain values; unknown names are errors."""
        known = {field.name for field in dataclasses.fields(cls)}
        for name in values:
            if name not in known:
                msg = f"expected options of BuildConfig ({', '.join(sorted(known))}), got '{name}'"
                raise ConfigError(msg)
        return cls(**values)
