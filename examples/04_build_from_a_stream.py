"""Build an index from a stream of batches, in bounded memory, with static pruning, and look at what came out."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import segmax


def batches(num_batches: int) -> Iterator[sp.csr_matrix]:
    """Documents about 20 topics, 1,000 at a time: what an encoder would give."""
    rng = np.random.default_rng(1)
    for _ in range(num_batches):
        topics = rng.integers(0, 20, 1000)
        terms = np.where(rng.random((1000, 30)) < 0.7, topics[:, None] * 50, 1000) + rng.integers(0, 50, (1000, 30))
        rows = np.repeat(np.arange(1000), 30)
        yield sp.csr_matrix((rng.exponential(1.0, 30_000), (rows, terms.ravel())), shape=(1000, 1050))


stages: dict[str, int] = {}


def follow(progress: segmax.typing.BuildProgress) -> None:
    """Keep how much every stage has done."""
    stages[progress.stage] = progress.done


with tempfile.TemporaryDirectory() as folder:
    config = segmax.BuildConfig(
        num_clusters=40, pruning=(segmax.pruning.DocThreshold(threshold=0.05), segmax.pruning.TopTerms(count=24))
    )
    index = segmax.build(
        batches(20), path=Path(folder) / "stream.segmax", config=config, memory_limit="1GiB", progress=follow
    )
    print(index)
    print("stages:", stages)
    sizes = index.cluster_sizes()
    print(f"clusters of {sizes.min()} to {sizes.max()} documents")
    report = segmax.inspect(index, sample=20)
    assert report.tightness is not None
    print(f"Actual/MaxSBound on average: {report.tightness.max_bound.mean:.2f}")
    hits = index.search({3: 1.0, 7: 0.5, 1003: 0.2}, k=3)
    print(hits.ids, hits.scores.round(2), f"{hits.stats.clusters_visited} clusters visited")
    index.close()
