"""What a folder of ours claims to be, for messages about one that is in the wrong place. Opening it checks the rest."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from segmax.base.files import open_regular

_HEAD_BYTES = 256
Kind = Literal["index", "collection", "sharded index"]
#: By the file that describes it.
_FORMATS: tuple[tuple[str, Kind, bytes], ...] = (
    ("meta.json", "index", rb'"format":\s*"segmax"'),
    ("manifest.json", "collection", rb'"format":\s*"segmax-collection"'),
    ("sharded.json", "sharded index", rb'"format":\s*"segmax-sharded"'),
)


def own_folder(path: Path) -> Kind | None:
    """Return what a path claims to be; None if it is nothing of ours."""
    for name, kind, mark in _FORMATS:
        try:
            with open_regular(path / name) as file:
                if re.search(mark, file.read(_HEAD_BYTES)):
                    return kind
        except (OSError, ValueError):  # it is not there, or cannot be read
            continue
    return None
