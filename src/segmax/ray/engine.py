"""Ray itself, imported when it is first used."""

from __future__ import annotations

from typing import Any

from segmax.base.optional import need


def ray() -> Any:
    """Return the package `ray`.

    Raises
    ------
    MissingPackageError
        If it is not installed.
    """
    return need("ray", "segmax.ray", "ray", oldest=2)
