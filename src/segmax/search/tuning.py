"""What an index knows about its approximate settings while it is open, and how `Index.tune` adds to it."""

from __future__ import annotations

from segmax.base.checks import checked_int
from segmax.base.errors import ConfigError, InputError
from segmax.search.calibration import MOST_QUERIES, Calibration, Measured, Search, measure
from segmax.search.methods import ASC
from segmax.vectors.csr import Csr
from segmax.vectors.rows import sample_rows, selected_rows


class Targets:
    """A calibration, and the parameters that were chosen from it: the same target is looked up once.

    Parameters
    ----------
    calibration
        What was measured.
    """

    def __init__(self, calibration: Calibration) -> None:
        self.calibration = calibration
        self._chosen: dict[tuple[int, float], ASC] = {}

    def params(self, k: int, params: object, target_recall: float) -> ASC:
        """Return the parameters for a target; raise ConfigError if `params` is given as well."""
        if params is not None:
            raise ConfigError(expected="params or target_recall", got=f"both: {params} and {target_recall}")
        try:
            return self._chosen[k, target_recall]
        except (KeyError, TypeError):
            chosen = self.calibration.expectation(k, target_recall).params
            self._chosen[k, target_recall] = chosen
            return chosen


def measured_on(search: Search, queries: Csr, k: int, num_docs: int, seed: int) -> Measured:
    """Measure settings on given queries, or on a sample if there are many; raise InputError if none finds anything."""
    rows = sample_rows(queries.num_rows, MOST_QUERIES, checked_int("seed", seed, 0))
    batch = selected_rows(queries, rows)
    measured = measure(search, batch, k, num_docs, "given queries")
    if measured is None:
        raise InputError(expected="queries that find something", got=f"{batch.num_rows} without a single result")
    return measured
