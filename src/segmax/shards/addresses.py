"""What is an address for fsspec, and what a path. It imports nothing heavy: the service asks in its first process."""

from __future__ import annotations

import re

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(?:::|://).*", re.DOTALL)


def is_address(path: object) -> bool:
    """Whether this is an address for fsspec, such as "s3://bucket/index", rather than a path.

    Examples
    --------
    >>> is_address("s3://bucket/index"), is_address("/data/index")
    (True, False)
    """
    return isinstance(path, str) and _ADDRESS.fullmatch(path) is not None
