"""Calibrations as meta.json has them, for tests of damaged ones."""

from __future__ import annotations


def stored_setting(**changes: object) -> dict[str, object]:
    """A setting as meta.json has it."""
    return {"eta": 0.9, "query_mass": 1.0, "recall": 0.99, "error": 0.01, "cost": 0.5, **changes}


def stored_calibration(**changes: object) -> dict[str, object]:
    """A measurement as meta.json has it."""
    return {"k": 10, "source": "given queries", "num_queries": 1, "settings": [stored_setting()], **changes}
