"""Section 4.4: ASC on an index that static pruning has made small."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import cache, partial

import numpy as np

from segmax.experiments import paper
from segmax.experiments.base import Cell, Finding, Outcome, Plot, Series, Sheet
from segmax.experiments.collections import Collection
from segmax.experiments.experiment import Experiment
from segmax.experiments.measuring import (
    VISITED,
    Row,
    about_as_good,
    cells,
    faster,
    heading,
    headings,
    measure,
    quality_keys,
    quality_note,
    sentences,
    similar_note,
)
from segmax.experiments.rows import asc_row, clusters_note, maxscore_row, plans
from segmax.experiments.task import Task
from segmax.index import Index
from segmax.params import Exhaustive, SearchParams
from segmax.points import sample_rows
from segmax.pruning import DocThreshold, QueryThreshold

#: Documents lose the weights below this quantile of all, queries have this quantile of theirs taken from every weight.
_DOCUMENT_QUANTILE = 0.5
_QUERY_QUANTILE = 0.25
#: Documents whose weights are looked at to find the quantile.
_SAMPLE = 10_000
_MU = 0.5
#: What is found of the exact results of the whole index.
_KEPT = "recall_of_whole"
_MOST_QUERIES = 1000


def run(task: Task) -> Outcome:
    """Measure MaxScore and ASC on the whole and on the pruned index."""
    collection, k = task.collection, max(task.ks)
    made = plans(task, collection)
    # Documents as they come: quick to build, and enough to know weights and exact results.
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
            found[f"{name} {key}"] = {**measured.rows[k][key], _KEPT: measured.figures[key]}
            labels[f"{name} {key}"] = f"{row.label}, {name} index"
    note = sentences(
        f"Pruned: documents lose weights below {weights['document']:.4g}, their median, and queries have "
        f"{weights['query']:.4g} taken from every weight; {sizes['pruned'] / sizes['whole']:.1%} of postings stay.",
        "HT3 learns thresholds while a model is trained, so this is like it, but not it. Recall of exact is against "
        f"exhaustive search of the same index, {heading(_KEPT)} against that of the whole, over at most "
        f"{_MOST_QUERIES:,} queries.",
        clusters_note(made),
        quality_note(collection),
    )
    key = _KEPT if collection.qrels is None else "MRR@10"
    return Outcome(
        sheets=(_sheet(collection, k, found, labels, note),),
        plots=(_plot(found, labels),),
        findings=findings(found, key),
        records=records,
    )


def thresholds(index: Index, collection: Collection) -> dict[str, float]:
    """Return the weights to prune documents and queries by, as quantiles of a sample of theirs."""
    rows = sample_rows(index.num_docs, _SAMPLE, 0)
    documents = index.vectors(index._ids.id_of(int(row)) for row in rows).data
    queries = index._batch(collection.questions.vectors).values
    return {
        "document": float(np.quantile(documents, _DOCUMENT_QUANTILE)) if len(documents) else 0.0,
        "query": float(np.quantile(queries, _QUERY_QUANTILE)) if len(queries) else 0.0,
    }


def _looked(
    index: Index,
    plain: Callable[[], Index],
    collection: Collection,
    methods: Mapping[str, SearchParams],
    k: int,
) -> dict[str, float]:
    """Return the number of postings, and what every method finds of the exact results of the whole index."""
    questions = collection.questions
    asked = questions.only(list(range(min(len(questions), _MOST_QUERIES)))).vectors
    exact = plain().search_batch(asked, k, Exhaustive())
    kept = {}
    for name, params in methods.items():
        found = index.search_batch(asked, k, params)
        shares = [np.isin(one.rows, other.rows).mean() for one, other in zip(exact, found, strict=True) if len(one)]
        kept[name] = float(np.mean(shares)) if shares else 1.0
    return {"postings": float(index.num_postings), **kept}


def _sheet(collection: Collection, k: int, found: Mapping[str, Row], labels: Mapping[str, str], note: str) -> Sheet:
    keys = (VISITED, *quality_keys(collection, k), _KEPT, "mean_ms", "p99_ms")
    known = paper.SECTION_4_4
    values: dict[str, tuple[Cell, ...]] = {
        "pruned maxscore": (known.maxscore_mrr, known.maxscore_ms),
        "pruned asc": (known.asc_mrr, known.asc_ms),
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
    """Tell what of the paper's findings in section 4.4 holds.

    Parameters
    ----------
    found
        Figures of "whole maxscore", "whole asc", "pruned maxscore" and "pruned asc".
    key
        The figure that tells how good results are.
    """
    exact, asc, whole = found["pruned maxscore"], found["pruned asc"], found["whole maxscore"]
    return (
        Finding(
            claim="On a statically pruned index ASC with μ = 0.5 and η = 1 is still faster than MaxScore, 3.3 times.",
            holds=faster(exact, asc) > 1,
            evidence=f"{faster(exact, asc):.2f} times: {asc['mean_ms']:.3g} ms after {exact['mean_ms']:.3g} ms.",
        ),
        Finding(
            claim="There the relevance of ASC degrades only slightly (MRR@10 from 0.3942 to 0.3933).",
            holds=about_as_good(asc[key], exact[key], key),
            evidence=f"{heading(key)}: {asc[key]:.4f} after {exact[key]:.4f}; {similar_note(key)}.",
        ),
        Finding(
            claim="Static pruning by itself makes MaxScore faster (24.7 ms, after 65.8 in Table 4).",
            holds=faster(whole, exact) > 1,
            evidence=f"{faster(whole, exact):.2f} times: {exact['mean_ms']:.3g} ms after {whole['mean_ms']:.3g} ms, "
            f"with {heading(key)} {exact[key]:.4f} after {whole[key]:.4f}.",
        ),
    )


EXPERIMENT = Experiment(
    name="static-pruning",
    place="Section 4.4",
    title="ASC on an index that static pruning has made small",
    description="""\
Prunes documents and queries by thresholds, in the way of hybrid thresholding
(HT3 in the paper): documents lose their smaller half of weights, and queries
have the lower quartile of theirs taken from every weight. On the whole and on
the pruned index it then compares MaxScore with ASC, μ = 0.5 and η = 1, at the
largest k, in the paper 1000.

Needs a collection; without judgements it tells the share of the exact results
of the whole index that is found.""",
    run=run,
)
