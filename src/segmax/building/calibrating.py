"""The last stage of a build: what approximate settings keep, measured on queries made from documents."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from segmax.building.pseudo_queries import pseudo_queries
from segmax.building.resources import BuildResources
from segmax.search.calibration import BUILD_QUERIES, Calibration, measure, settings_for
from segmax.search.index import Index
from segmax.vectors.csr import Csr
from segmax.vectors.rows import selected_rows

_QUERY_EXPONENT = 20  # queries made from documents have weights below 2 to the minus 20th, so that any sum fits


class Sample(NamedTuple):
    """Documents that stand for the collection."""

    docs: Csr  # coded
    rows: NDArray[np.int64]
    rarity: NDArray[np.float64]  # by term, in the whole collection


def calibrated(
    index: Index, sample: Sample | None, scale: NDArray[np.float64], seed: int, resources: BuildResources
) -> Calibration:
    """Measure approximate settings; the result is empty where exact search is fast anyway."""
    calibration = Calibration()
    if sample is None or index.num_clusters < 2:
        return calibration
    weights = sample.docs.values * scale[sample.docs.indices]
    # By a power of two, which changes no ranking: products of the largest weights would not fit a double.
    weights = np.ldexp(weights, -_QUERY_EXPONENT - int(np.frexp(weights.max(initial=0.0))[1]))
    made = pseudo_queries(sample.docs._replace(values=weights), sample.rarity, max(BUILD_QUERIES.values()), seed)
    search = partial(index._searched, threads=resources.workers.threads)
    with resources.progress.stage("calibrate", len(BUILD_QUERIES), "values of k") as stage:
        for k, count in BUILD_QUERIES.items():
            rows = np.arange(min(count, made.queries.num_rows))
            queries, sources = selected_rows(made.queries, rows), sample.rows[made.source[rows]]
            settings = settings_for(k, index.num_clusters)
            measured = measure(search, queries, k, index.num_docs, "pseudo-queries", settings, sources)
            if measured is not None:
                calibration = calibration.with_measured(measured)
            stage.advance(1)
    return calibration
