"""What an index knows about its approximate settings while it is open, and how `Index.tune` adds to it."""

from __future__ import annotations

from collections.abc import Sequence

from segmax.base.checks import checked_int
from segmax.base.errors import ConfigError, InputError
from segmax.metadata import Where
from segmax.search.arguments import EXACT
from segmax.search.calibration import MOST_QUERIES, Calibration, Measured, Search, measure, settings_for
from segmax.search.methods import ASC
from segmax.search.queries import Wanted
from segmax.vectors.csr import Csr
from segmax.vectors.rows import sample_rows, selected_rows

_ALL = Wanted()


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

    def params(self, k: int, params: object, target_recall: float, wanted: Wanted = _ALL) -> ASC:
        """Return the parameters for a target; raise ConfigError if `params` is given as well.

        What was measured is about the best of all documents, so a search with a filter or for groups is exact.
        """
        chosen = self._of_depth(k + wanted.offset, params, target_recall)
        return chosen if wanted.where is None and wanted.group_by is None else EXACT

    def of_batch(
        self, ks: Sequence[int], params: object, target_recall: float, offset: int, wheres: Sequence[Where | None]
    ) -> list[ASC]:
        """Return the parameters of a batch: one for all queries, or one for each where each has its filter."""
        if len(ks) != 1:
            raise ConfigError(option="k", expected="one number with target_recall", got=f"{len(ks)} of them")
        return [self.params(ks[0], params, target_recall, Wanted(where, offset)) for where in wheres]

    def _of_depth(self, depth: int, params: object, target_recall: float) -> ASC:
        if params is not None:
            raise ConfigError(expected="params or target_recall", got=f"both: {params} and {target_recall}")
        try:
            return self._chosen[depth, target_recall]
        except (KeyError, TypeError):
            chosen = self.calibration.expectation(depth, target_recall).params
            self._chosen[depth, target_recall] = chosen
            return chosen


def measured_on(search: Search, queries: Csr, k: int, num_docs: int, seed: int, num_clusters: int = 0) -> Measured:
    """Measure settings on given queries, or on a sample if there are many; raise InputError if none finds anything.

    `num_clusters` is for an index that stays as it is: in a collection that grows, a limit of clusters finds less.
    """
    rows = sample_rows(queries.num_rows, MOST_QUERIES, checked_int("seed", seed, 0))
    batch = selected_rows(queries, rows)
    measured = measure(search, batch, k, num_docs, "given queries", settings_for(k, num_clusters))
    if measured is None:
        raise InputError(expected="queries that find something", got=f"{batch.num_rows} without a single result")
    return measured
