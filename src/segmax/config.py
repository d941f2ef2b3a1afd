"""What is chosen when an index is built; stored with it."""

from __future__ import annotations

import dataclasses
import numbers
import operator
from collections.abc import Mapping
from typing import Any

from segmax.errors import ConfigError

_DOCS_PER_CLUSTER = 1024


def checked_int(name: str, value: object, least: int, most: int = 2**63 - 1) -> int:
    """Return a whole number in range as int, or raise ConfigError."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or not least <= number <= most:
        limits = f">= {least}" if most == 2**63 - 1 else f"between {least} and {most}"
        msg = f"expected {name} {limits}, got {value!r}"
        raise ConfigError(msg)
    return number


def checked_number(name: str, value: object) -> float:
    """Return a real number as float, or raise ConfigError."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        msg = f"expected {name} to be a number, got {value!r}"
        raise ConfigError(msg)
    return float(value)


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
        if self.num_clusters is not None:
            self._set("num_clusters", checked_int("num_clusters", self.num_clusters, 1))
        self._set("num_segments", checked_int("num_segments", self.num_segments, 1, 65535))
        self._set("bits", checked_int("bits", self.bits, 8, 16))
        self._set("seed", checked_int("seed", self.seed, 0))
        if self.bits not in (8, 16):
            msg = f"expected bits to be 8 or 16, got {self.bits}"
            raise ConfigError(msg)

    def _set(self, name: str, value: int) -> None:
        object.__setattr__(self, name, value)  # as int, so that numpy numbers can be stored

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
