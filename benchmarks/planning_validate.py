"""Predictions against a real Ray cluster on this machine: one query at a time, and batches, for some shards."""

from __future__ import annotations

import dataclasses
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import segmax.ray
from benchmarks import wiki
from benchmarks.planning_calls import start_ray
from benchmarks.quiet import quietly
from segmax.base.system import num_cores
from segmax.planning import Figures, Scenario, simulate
from segmax.planning.costs import Costs
from segmax.planning.modeling import Searching, modeled
from segmax.shards.making.building import build

SHARDS = (2, 4, 8)
#: Kinds of search: how many shards are asked at most.
KINDS: dict[str, int | None] = {"exact": None, "two best shards": 2}
SINGLE = 200
BATCH = 1000
BATCHES = 3


def measure(figures: Figures, folder: Path, scratch: Path, num_docs: int | None, passes: int) -> list[dict[str, Any]]:
    """Return what was predicted and what was measured, for every number of shards and kind of search."""
    docs, queries = wiki.load_set(folder, "wiki", num_docs)
    docs, queries = docs.astype(np.float32), queries[:BATCH].astype(np.float32)
    ray = start_ray(scratch)
    try:
        return [row for shards in SHARDS for row in _compared(figures, docs, queries, shards, scratch, passes)]
    finally:
        ray.shutdown()


def _compared(
    figures: Figures, docs: sp.csr_matrix, queries: sp.csr_matrix, shards: int, scratch: Path, passes: int
) -> list[dict[str, Any]]:
    path = scratch / "validated.sharded"
    shutil.rmtree(path, ignore_errors=True)
    build(docs, path, shards=shards)
    rows = []
    with segmax.ray.open(path) as index:
        for name, most in KINDS.items():
            found = _measured(index, queries, most, passes)
            row: dict[str, Any] = {
                "shards": index.num_shards,
                "kind": name,
                **found,
                **_predicted(figures, docs, shards, most),
            }
            row["single_off"] = round(row["predicted_ms"] / row["ms"] - 1, 3)
            row["batch_off"] = round(row["predicted_per_second"] / row["per_second"] - 1, 3)
            rows.append(row)
            sys.stdout.write(f"{row}\n")
            sys.stdout.flush()
    shutil.rmtree(path)
    return rows


def _measured(index: segmax.ray.RayIndex, queries: sp.csr_matrix, most: int | None, passes: int) -> dict[str, float]:
    """Return the mean latency of single queries and the throughput of batches, in passes while nothing else ran."""
    rows = [queries[number] for number in range(SINGLE)]
    index.search_batch(queries, k=10, max_shards=most)

    def one_by_one() -> list[float]:
        return [_seconds(lambda row=row: index.search(row, k=10, max_shards=most)) for row in rows]

    def batches() -> list[float]:
        return [_seconds(lambda: index.search_batch(queries, k=10, max_shards=most)) for _ in range(BATCHES)]

    single, batch = ([quietly(step) for _ in range(passes)] for step in (one_by_one, batches))
    asked = index.search_batch(queries, k=10, max_shards=most).decisions == 1
    took = np.array([seconds for seconds, _ in single]) * 1e3
    return {
        "ms": round(float(np.median(took.mean(axis=1))), 3),
        "p99_ms": round(float(np.quantile(took, 0.99)), 3),
        "per_second": round(queries.shape[0] / float(np.median([seconds for seconds, _ in batch])), 1),
        "asked": round(float(asked.sum(axis=1).mean()), 2),
        "others": round(max(share for _, share in single + batch), 2),
    }


def _seconds(step: Any) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def _predicted(figures: Figures, docs: sp.csr_matrix, shards: int, most: int | None) -> dict[str, float]:
    single = _scenario(figures, docs, shards, 1, most, rest_ms=1.0)
    for _ in range(2):  # an actor rests until the next query asks it
        rest_ms = simulate(single, queries=500).mean_ms * shards / single.num_asked
        single = _scenario(figures, docs, shards, 1, most, rest_ms)
    batch = _scenario(figures, docs, shards, BATCH, most, rest_ms)
    return {
        "predicted_ms": round(simulate(single, queries=1500).mean_ms, 3),
        "predicted_per_second": round(simulate(batch, queries=50).per_second * BATCH, 1),
        "predicted_asked": round(single.num_asked, 2),
    }


def _scenario(
    figures: Figures, docs: sp.csr_matrix, shards: int, batch: int, most: int | None, rest_ms: float
) -> Scenario:
    """Return this machine: all actors and the router share its cores, and the next request comes after the last."""
    costs = Costs(figures)
    made = modeled(
        costs,
        docs=docs.shape[0],
        terms=docs.nnz / docs.shape[0],
        shards=shards,
        searching=Searching(batch=batch, max_shards=most or 0),
    )
    at_once = max(each.calls for each in made.rounds(made.num_asked))
    return dataclasses.replace(made, cores=num_cores(), actor_ms=costs.actor_ms(10, at_once, rest_ms))
