"""Exceptions and warnings. Each exception is a `SegmaxError` and also the builtin that callers expect."""

from segmax.base.errors import (
    CollectionLockedError,
    ConfigError,
    FormatError,
    IndexClosedError,
    IndexExistsError,
    IndexNotFoundError,
    InputError,
    MissingPackageError,
    SegmaxError,
    SegmaxWarning,
    ServiceError,
    ShardsUnavailableError,
    UnknownIdError,
    WriteError,
    WriterStoppedError,
)

__all__ = [
    "CollectionLockedError",
    "ConfigError",
    "FormatError",
    "IndexClosedError",
    "IndexExistsError",
    "IndexNotFoundError",
    "InputError",
    "MissingPackageError",
    "SegmaxError",
    "SegmaxWarning",
    "ServiceError",
    "ShardsUnavailableError",
    "UnknownIdError",
    "WriteError",
    "WriterStoppedError",
]
