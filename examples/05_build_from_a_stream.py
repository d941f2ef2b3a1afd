"""Build an index from a stream of batches, in bounded memory and with static pruning, and inspect it."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import segmax
from segmax.pruning import DocThreshold, TopTerms


def batches(num_batches: int) -> Iterator[sp.csr_matrix]:
    """Yield documents about 20 topics, 1,000 at a time, as an encoder would."""
    rng = np.random.default_rng(1)
    for _ in range(num_batches):
        topics = rng.integers(0, 20, 1000)
        terms = np.where(rng.random((1000, 30)) < 0.7, topics[:, None] * 50, 1000) + rng.integers(0, 50, (1000, 30))
        rows = np.repeat(np.arange(1000), 30)
        yield sp.csr_matrix((rng.exponential(1.0, 30_000), (rows, terms.ravel())), shape=(1000, 1050))


done: dict[str, int] = {}


def keep(progress: segmax.typing.BuildProgress) -> None:
    """Remember how much of each stage is done."""
    done[progress.stage] = progress.done


with tempfile.TemporaryDirectory() as folder:
    # Drop weights below 0.05, then keep the 24 largest of each document.
    config = segmax.BuildConfig(num_clusters=40, pruning=(DocThreshold(threshold=0.05), TopTerms(count=24)))
    path = Path(folder) / "stream.segmax"
    with segmax.build(batches(20), path=path, config=config, memory_limit="1GiB", progress=keep) as index:
        print(index)
        print("stages:", done)
        sizes = index.cluster_sizes()
        print(f"clusters of {sizes.min()} to {sizes.max()} documents")

        # How close the bounds of clusters come to the best score inside, on average.
        summary = segmax.inspect(index, sample=20)
        assert summary.tightness is not None
        print(f"best score / bound: {summary.tightness.max_bound.mean:.2f}")

        hits = index.search({3: 1.0, 7: 0.5, 1003: 0.2}, k=3)
        print(hits.ids, hits.scores.round(2), f"{hits.stats.docs_scored} documents scored")
