"""Made-up figures in round numbers, so that tests of plans do not depend on what was measured last."""

from __future__ import annotations

from typing import Any

from segmax.planning import Figures

SIZES = (50_000, 100_000, 200_000, 400_000, 800_000)


def sample_figures() -> Figures:
    """Figures of a world in which every law is simple."""
    return Figures(
        about={"cpu": "a test", "cores": 2, "collection": "made-up documents"},
        growth=[
            *(_grown("large", docs, 128) for docs in SIZES),
            *(_grown("wiki", 200_000, terms) for terms in (64, 128, 256)),
        ],
        calls={
            "threads": 4,
            "empty": {"send_ms": 0.1, "caller_ms": 0.5},
            "answer": {str(k): {str(fan): _called(fan) for fan in (1, 2, 4, 8)} for k in (10, 1000)},
            "rested": {"1": {**_called(1), "rest_ms": 1.0}, "8": {**_called(1), "rest_ms": 10.0}},
            "router": {"docs": 100_000, "shards": 8, "ms": 0.2, "max_shards_ms": 0.2},
            "actor_memory": 50_000_000,
        },
        rounds={"router": [_routed(docs, shards) for docs, shards in ((4e5, 16), (8e5, 4), (8e5, 16), (8e5, 64))]},
        asked=[
            {"docs": 800_000, "shards": shards, "k": k, "mu": mu, "share": share, "spread": 0.1, "hottest": 1.1}
            for shards in (4, 16, 64)
            for k, mu, share in ((10, 1.0, 0.8), (10, 0.9, 0.7), (1000, 1.0, 1.0), (1000, 0.9, 1.0))
        ],
        max_shards=[
            {"docs": 800_000, "shards": 16, "asked": asked, "k": 10, "recall": recall, "hottest": 1.5}
            for asked, recall in ((1, 0.6), (2, 0.75), (4, 0.9), (8, 0.97))
        ],
        building={"overhead": 1.2, "efficiency": 0.9, "scratch_share": 1.0},
    )  # fmt: skip


def _grown(name: str, docs: int, terms: int) -> dict[str, Any]:
    postings = docs * terms
    return {
        "set": name,
        "docs": docs,
        "postings": postings,
        "bytes": 100_000 + 50 * docs + 5 * postings,
        "build_seconds": [1e-5 * docs * terms / 128],
        "search": {str(k): _searched(docs, terms, k) for k in (10, 100, 1000)},
    }


def _searched(docs: int, terms: int, k: int) -> dict[str, Any]:
    ms = (0.01 + 1e-5 * docs**0.7) * (k / 10) ** 0.4 * (terms / 128) ** 0.25
    noise = {"0.5": 1.0, "0.99": 1.8}
    return {"mean_ms": ms, "floored_ms": ms * (docs / 800_000) ** 0.3, "log_spread": 0.35, "noise": noise}


def _called(fan: int) -> dict[str, float]:
    return {"mean_ms": 0.7, "p50_ms": 1.0, "p99_ms": 2.5, "caller_ms": 0.3, "actor_ms": 0.27, "core_ms": 0.05}


def _routed(docs: float, shards: int) -> dict[str, Any]:
    ms = 0.1 + 1e-11 * docs
    times = {"ms": ms, "max_shards_ms": ms, "batch_ms": ms / 5, "max_shards_batch_ms": ms / 4}
    around = {"batch_shard_ms": 0.005, "bytes": 1000.0 * shards + 0.01 * docs}
    return {"set": "large", "docs": int(docs), "shards": shards, **times, **around}
