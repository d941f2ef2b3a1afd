"""Calibrations as meta.json has them, for tests of damaged ones, and one that shows what is taken from it."""

from __future__ import annotations

from segmax.search.calibration import Calibration
from segmax.search.methods import ASC

#: Loses so much that it is seen.
LOSSY = ASC(query_mass=0.3)


def lossy_at(k: int) -> Calibration:
    """A calibration at one k, which every target trusts to lose nothing by `LOSSY`."""
    exact = stored_setting(eta=1.0, recall=1.0, error=0.0, cost=1.0)
    lossy = stored_setting(eta=LOSSY.eta, query_mass=LOSSY.query_mass, recall=1.0, error=0.0, cost=0.1)
    return Calibration.from_list([stored_calibration(k=k, settings=[exact, lossy])])


def stored_setting(**changes: object) -> dict[str, object]:
    """A setting as meta.json has it."""
    return {"eta": 0.9, "query_mass": 1.0, "recall": 0.99, "error": 0.01, "cost": 0.5, **changes}


def stored_calibration(**changes: object) -> dict[str, object]:
    """A measurement as meta.json has it."""
    return {"k": 10, "source": "given queries", "num_queries": 1, "settings": [stored_setting()], **changes}
