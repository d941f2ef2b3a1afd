"""Rewriting an index of an older version of the format."""

from __future__ import annotations

import os

from segmax.base.checks import checked_path
from segmax.search.index import check_opens
from segmax.storage.upgrading import upgrade_files


def upgrade(path: str | os.PathLike[str]) -> bool:
    """Rewrite an index in the format of this segmax; return whether that was necessary.

    Parameters
    ----------
    path
        The directory of the index. It is replaced in one step; a failure leaves what was there.

    Raises
    ------
    IndexNotFoundError
        If there is nothing at the path.
    FormatError
        If there is no index, a damaged one, or one of a version that is too old or too new.
    WriteError
        If it cannot be written.

    Examples
    --------
    >>> import segmax, tempfile
    >>> path = tempfile.mkdtemp() + "/docs.segmax"
    >>> segmax.from_texts({"d1": "a copper waveguide"}, path=path).close()
    >>> upgrade(path)
    False
    """
    return upgrade_files(checked_path("path", path), check_opens)
