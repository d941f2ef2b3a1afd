"""Exceptions and warnings. Each exception is a `SegmaxError` and also the builtin that callers expect."""

from segmax.base.errors import (
    ConfigError,
    FormatError,
    IndexClosedError,
    IndexExistsError,
    IndexNotFoundError,
    InputError,
    MissingPackageError,
    SegmaxError,
    SegmaxWarning,
    UnknownIdError,
    WriteError,
)

__all__ = [
    "ConfigError",
    "FormatError",
    "IndexClosedError",
    "IndexExistsError",
    "IndexNotFoundError",
    "InputError",
    "MissingPackageError",
    "SegmaxError",
    "SegmaxWarning",
    "UnknownIdError",
    "WriteError",
]
