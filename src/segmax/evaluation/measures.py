"""Measures of relevance, query by query, by ir_measures. They take any system's run, not only ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segmax.base.optional import need


def measure_names(k: int) -> tuple[str, ...]:
    """Return the names of the measures for results of this depth, as the paper writes them.

    Examples
    --------
    >>> measure_names(1000), measure_names(5)
    (('MRR@10', 'nDCG@10', 'Recall@1000'), ('MRR@5', 'nDCG@5', 'Recall@5'))
    """
    depth = min(k, 10)  # of five results there is no MRR@10
    return (f"MRR@{depth}", f"nDCG@{depth}", f"Recall@{k}")


def relevance(
    qrels: Mapping[str, Mapping[str, int]],
    run: Mapping[str, Mapping[str, float]],
    query_ids: Sequence[str],
    *,
    k: int = 10,
    min_rel: int = 1,
) -> dict[str, NDArray[np.float64]]:
    """Return MRR@10, nDCG@10 and Recall@k of every query, as ir_measures has them; for k < 10 MRR@k and nDCG@k.

    Equal scores are ranked as trec_eval ranks them, by document id, whatever the order of the run.

    Parameters
    ----------
    qrels
        The grade by query and document.
    run
        The score by query and document.
    query_ids
        Which queries, in this order; those without a result get 0.
    k
        The depth of Recall.
    min_rel
        The lowest grade that counts as relevant for MRR and Recall; nDCG takes grades as they are.

    Examples
    --------
    >>> found = relevance({"q": {"a": 1, "b": 2}}, {"q": {"b": 2.0, "c": 1.0}}, ["q"], k=2)
    >>> {name: round(float(values[0]), 4) for name, values in found.items()}
    {'MRR@2': 1.0, 'nDCG@2': 0.7602, 'Recall@2': 0.5}
    """
    measures = _measures(k, min_rel)
    position = {query: number for number, query in enumerate(query_ids)}
    values = {name: np.zeros(len(query_ids)) for name in measures.values()}
    asked = {query: dict(qrels[query]) for query in query_ids if query in qrels}
    results = {query: dict(run[query]) for query in asked if query in run}
    for metric in _library().iter_calc(list(measures), asked, results):
        values[measures[metric.measure]][position[metric.query_id]] = metric.value
    return values


def mean_in_order(values: NDArray[np.float64]) -> float:
    """Return the mean, added up in the order of the queries, so that the last digit is that of ir_measures too."""
    return float(sum(values.tolist()) / len(values))


def _measures(k: int, min_rel: int) -> dict[Any, str]:
    """Return the measures of ir_measures by the names that we give them."""
    library = _library()
    graded = {"rel": min_rel} if min_rel != 1 else {}
    depth = min(k, 10)
    made = (library.RR(**graded) @ depth, library.nDCG @ depth, library.R(**graded) @ k)
    return dict(zip(made, measure_names(k), strict=True))


def _library() -> Any:
    return need("ir_measures", "measuring relevance", "evaluate")
