"""segmax: fast top-k retrieval over learned sparse vectors, with guarantees."""

from segmax.build import build
from segmax.config import BuildConfig
from segmax.errors import (
    ConfigError,
    FormatError,
    IndexClosedError,
    IndexExistsError,
    IndexNotFoundError,
    InputError,
    SegmaxError,
    UnknownIdError,
    WriteError,
)
from segmax.index import Index, verify
from segmax.index import open_index as open
from segmax.params import ASC, Anytime, Exhaustive, MaxScore
from segmax.results import BatchHits, Explanation, Hits, SearchStats

__version__ = "0.1.0"

__all__ = [
    "ASC",
    "Anytime",
    "BatchHits",
    "BuildConfig",
    "ConfigError",
    "Exhaustive",
    "Explanation",
    "FormatError",
    "Hits",
    "Index",
    "IndexClosedError",
    "IndexExistsError",
    "IndexNotFoundError",
    "InputError",
    "MaxScore",
    "SearchStats",
    "SegmaxError",
    "UnknownIdError",
    "WriteError",
    "build",
    "open",
    "verify",
]
