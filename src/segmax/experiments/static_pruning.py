"""Section 4.4: ASC on an index that static pruning has made small."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segmax.drawing.plot import Plot, Series
from segmax.experiments import printed
from segmax.experiments.catalog import LISTED
from segmax.experiments.collections import Collection
from segmax.experiments.experiment import Experiment
from segmax.experiments.measuring import (
    PER_QUERY,
    VISITED,
    Row,
    cells,
    compared,
    faster,
    heading,
    headings,
    is_faster,
    kept,
    measure,
    mrr_key,
    quality_keys,
    quality_note,
    sentences,
)
from segmax.experiments.outcome import Cell, Finding, Outcome, Sheet
from segmax.experiments.rows import asc_row, clusters_note, maxscore_row, plans
from segmax.experiments.task import Task
from segmax.experiments.verdicts import Ruling, every, finding, is_as_good, unknown
from segmax.search.index import Index
from segmax.search.methods import Exhaustive, SearchParams
from segmax.vectors.pruning import DocThreshold, QueryThreshold
from segmax.vectors.rows import sample_rows

#: Documents lose the weights below this quantile of all, queries at most this share of theirs.
_DOCUMENT_QUANTILE = 0.5
_QUERY_SHARE = 0.25
#: Documents whose weights are looked at to find the quantile.
_SAMPLE = 10_000
_MU = 0.5
#: What is found of the exact results of the whole index.
_KEPT = "recall_of_whole"
_MOST_QUERIES = 1000
#: An index that keeps less of the relevance, or of the exact results, is no longer like the paper's, which keeps 99 %.
_LEAST_RELEVANCE = 0.9
_LEAST_EXACT = 0.5


def run(task: Task) -> Outcome:
    """Measure MaxScore and ASC on the whole and on the pruned index."""
    collection, k = task.collection, max(task.ks)
    made = plans(task, collection)
    # In input order: quick to build, and enough for weights and exact results.
    plain = cache(partial(made.input_order.build, task, collection, 0))
    weights = task.step({"step": "thresholds"}, lambda: thresholds(plain(), collection))
    steps = (DocThreshold(threshold=weights["document"]), QueryThreshold(threshold=weights["query"]))
    found: dict[str, Row] = {}
    labels: dict[str, str] = {}
    sizes: dict[str, float] = {}
    records: list[Row] = []
    for name, plan in {"whole": made.fine, "pruned": dataclasses.replace(made.fine, pruning=steps)}.items():
        rows = {"maxscore": maxscore_row(task, plan), "asc": asc_row(task, plan, _MU)}
        named = {key: row.params for key, row in rows.items()}
        look = partial(_looked, plain=plain, collection=collection, methods=named, k=k)
        measured = measure(task, collection, plan, {k: named}, look)
        records += measured.records
        sizes[name] = measured.figures["postings"]
        for key, row in rows.items():
            found[f"{name} {key}"] = _with_kept(measured.rows[k][key], measured.figures, key)
            labels[f"{name} {key}"] = f"{row.label}, {name} index"
    note = sentences(
        f"Pruned: documents lose weights below {weights['document']:.4g}, their median, and "
        f"{query_note(weights['query'])}; {sizes['pruned'] / sizes['whole']:.1%} of postings stay.",
        "HT3 learns thresholds while a model is trained, so this is like it, but not it. Recall of exact is against "
        f"exhaustive search of the same index, {heading(_KEPT)} against that of the whole, over at most "
        f"{_MOST_QUERIES:,} queries.",
        clusters_note(made),
        quality_note(collection),
    )
    key = _KEPT if collection.qrels is None else mrr_key(k)
    return Outcome(
        sheets=(_sheet(collection, k, found, labels, note),),
        plots=(_plot(found, labels),),
        findings=findings(found, key),
        records=records,
    )


def thresholds(index: Index, collection: Collection) -> dict[str, float]:
    """Return the thresholds of documents and queries, from samples of their weights."""
    rows = sample_rows(index.num_docs, _SAMPLE, 0)
    documents = index.vectors(index._ids.id_of(int(row)) for row in rows).data
    queries = index._batch(collection.queries.vectors).values
    return {
        "document": float(np.quantile(documents, _DOCUMENT_QUANTILE)) if len(documents) else 0.0,
        "query": query_threshold(queries),
    }


def query_threshold(weights: NDArray[Any]) -> float:
    """Return the largest weight such that at most a quarter of all are not above it; 0 if there is none, as for BM25.

    All weights up to the threshold vanish, so a plain quantile of many equal weights would empty queries.

    Examples
    --------
    >>> query_threshold(np.array([0.5, 1.0, 2.0, 3.0])), query_threshold(np.array([1.0, 1.0, 1.0, 1.0, 2.0]))
    (0.5, 0.0)
    """
    distinct, counts = np.unique(weights, return_counts=True)
    allowed = distinct[np.cumsum(counts) <= _QUERY_SHARE * len(weights)]
    return float(allowed[-1]) if len(allowed) else 0.0


def query_note(threshold: float) -> str:
    """Return a note on what happens to queries."""
    if threshold:
        return f"queries have {threshold:.4g} taken from every weight, so that at most a quarter of their weights go"
    return "queries stay as they are, because more than a quarter of their weights are equal to the smallest"


def _with_kept(row: Row, figures: Row, method: str) -> Row:
    """Return a row with the share of the exact results of the whole index that the method finds."""
    per_query = {**row[PER_QUERY], _KEPT: figures[PER_QUERY][method]}
    return {**row, _KEPT: figures[method], PER_QUERY: per_query}


def _looked(
    index: Index,
    plain: Callable[[], Index],
    collection: Collection,
    methods: Mapping[str, SearchParams],
    k: int,
) -> Row:
    """Return the number of postings, and the share of the exact results of the whole index that every method finds."""
    queries = collection.queries
    asked = queries.only(list(range(min(len(queries), _MOST_QUERIES)))).vectors
    exact = plain().search_batch(asked, k, Exhaustive())
    shares = {}
    for name, params in methods.items():
        found = index.search_batch(asked, k, params)
        shares[name] = [
            float(np.isin(one.rows, other.rows).mean()) if len(one) else 1.0
            for one, other in zip(exact, found, strict=True)
        ]
    means = {name: float(np.mean(values)) for name, values in shares.items()}
    return {"postings": float(index.num_postings), **means, PER_QUERY: shares}


def _sheet(collection: Collection, k: int, found: Mapping[str, Row], labels: Mapping[str, str], note: str) -> Sheet:
    keys = (VISITED, *quality_keys(collection, k), _KEPT, "mean_ms", "p99_ms")
    known = printed.SECTION_4_4
    values: dict[str, tuple[Cell, ...]] = {
        "pruned maxscore": (known.maxscore_mrr, printed.three_digits(known.maxscore_ms)),
        "pruned asc": (known.asc_mrr, printed.three_digits(known.asc_ms)),
    }
    return Sheet(
        title=f"Section 4.4: static pruning, k = {k}",
        columns=("method", *headings(keys), "paper MRR@10", "paper MRT ms"),
        rows=tuple((labels[key], *cells(row, keys), *values.get(key, (None, None))) for key, row in found.items()),
        note=note,
    )


def _plot(found: Mapping[str, Row], labels: Mapping[str, str]) -> Plot:
    return Plot(
        title="Mean time on the whole and on the pruned index",
        x_label="method",
        y_label="mean time, ms",
        kind="bar",
        categories=tuple(labels.values()),
        series=(
            Series(
                label="mean time",
                x=tuple(float(place) for place in range(len(found))),
                y=tuple(row["mean_ms"] for row in found.values()),
            ),
        ),
    )


def findings(found: Mapping[str, Row], key: str) -> tuple[Finding, ...]:
    """Return which of the paper's findings in section 4.4 hold.

    Parameters
    ----------
    found
        Figures of "whole maxscore", "whole asc", "pruned maxscore" and "pruned asc".
    key
        The figure that measures quality.
    """
    exact, asc, whole = found["pruned maxscore"], found["pruned asc"], found["whole maxscore"]
    share = kept(exact[key], whole[key])
    collapsed = share < (_LEAST_EXACT if key == _KEPT else _LEAST_RELEVANCE)

    def unless_collapsed(ruling: Ruling) -> Ruling:
        why = f"the pruned index itself keeps only {share:.1%} of {heading(key)}, which is unlike the paper's"
        return unknown(why) if collapsed else ruling

    return (
        finding(
            "On a statically pruned index ASC with μ = 0.5 and η = 1 is still faster than MaxScore, 3.3 times.",
            unless_collapsed(is_faster(exact, asc)),
            f"{faster(exact, asc):.2f} times: {asc['mean_ms']:.3g} ms after {exact['mean_ms']:.3g} ms.",
        ),
        finding(
            "There the relevance of ASC degrades only slightly (MRR@10 from 0.3942 to 0.3933).",
            unless_collapsed(is_as_good(compared(asc, exact, key), key)),
            f"{heading(key)}: {asc[key]:.4f} after {exact[key]:.4f}.",
        ),
        finding(
            "Static pruning by itself makes MaxScore faster (24.7 ms, after 65.8 in Table 4) for a small loss of "
            "relevance (MRR@10 from 0.3966 to 0.3942).",
            every(is_faster(whole, exact), is_as_good(compared(exact, whole, key), key)),
            f"{faster(whole, exact):.2f} times: {exact['mean_ms']:.3g} ms after {whole['mean_ms']:.3g} ms, "
            f"with {heading(key)} {exact[key]:.4f} after {whole[key]:.4f}.",
        ),
    )


EXPERIMENT = Experiment(
    **LISTED["static-pruning"]._asdict(),
    description="""\
Prunes documents and queries by thresholds, in the way of hybrid thresholding
(HT3 in the paper): documents lose the smaller half of their weights. A
threshold is subtracted from all query weights, so that at most a quarter of
them vanish; queries of equal weights, such as those of BM25, stay as they are.
On the whole and on the pruned index it then compares MaxScore with ASC, μ = 0.5
and η = 1, at the largest k, in the paper 1000.

Needs a collection; without judgments it reports the share of the exact
results of the whole index that each method finds.""",
    run=run,
)
